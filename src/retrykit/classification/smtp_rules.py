"""What SMTP replies mean: the rules in the order in which they are asked.

First texts that outrank any code, because in them the code misleads: a list of bad senders, a full mailbox, a rate.
Then enhanced codes that can be believed, then general words, then vague codes, at last the basic code together with
the phase of the conversation. In words, who is at fault is asked before what is wrong with him: "does not exist" said
of a sender must not end a recipient.

A bare 5xx is `unknown`: half of them have nothing to do with the recipient.
"""

from __future__ import annotations

from typing import Final

import attrs

from ..failure import ErrorClass as C  # it stands in every row
from ..failure import ErrorGroup
from .enhanced_codes import FOR_NOW, TRUSTED_CODES, VAGUE_CODES
from .rules import Rule

__all__ = ["SMTP_RULES"]

# The vocabulary that more than one rule uses.

_RECIPIENT: Final = (
    "user", "mailbox", "mail box", "mailfolder", "recipient", "account", "address", "alias", "customer", "local-part",
    "local part", "maildrop", "mail drop", "subscriber", "inbox", "destinataire", "compte", "utilisateur", "adresse",
    "boite", "boîte", "destinatari", "usuario", "usuário", "cuenta", "buzón", "buzon", "correo", "conta ", "caixa",
    "indirizzo", "utente", "casella", "destin ", "benutzer", "empfänger", "postfach", "konto", "gebruiker", "ontvanger",
    "postvak", "пользовател", "ящик", "адресат", "получател", "宛先", "ユーザ", "收件人", "用户", "邮箱", "<>",
)  # fmt: skip
_SENDER: Final = (
    "sender", "mail from", "mailfrom", "from address", "from header", " from domain", "return-path", "return path",
    "reverse-path", "envelope from", "sending domain", "submitter", "expéditeur", "expediteur", "remitente",
    "remetente", "mittente", "absender",
)  # fmt: skip
_REFUSED: Final = (
    "rejected", "denied", "refused", "blocked", "not allowed", "not permitted", "not accepted", "not authorized",
    "prohibited", "disallowed", "no access",
)  # fmt: skip
_UNKNOWN: Final = (
    "unknown", "not found", "no such", "does not exist", "doesn't exist", "do not exist", "not exist", "nonexistent",
    "non-existent", "not known", "invalid", "not valid", "no longer valid", "not a valid", "not available",
    "no longer available", "not listed", "not recognized", "not recognised", "undeliverable", "unroutable",
    "unrouteable", "could not be found", "couldn't be found", "doesn't have", "does not have", "not our", "bad address",
    "not a known", "unable to find", "not in recipient list", "not registered", "not a registered",
    "cannot be verified", "verification failed", "no longer on server", "has moved", "not here", "not ok ",
    "cannot find", "can't find", "could not find", "no longer in service", "not in our", "not in the directory",
    "not a local", "is dead", "not deliverable", "inconnu", "introuvable", "n'existe p", "inexist", "inesist",
    "no existe", "não existe", "nao existe", "desconocid", "desconhecid", "no encontrad", "não encontrad", "sconosciut",
    "non esiste", "unbekannt", "existiert nicht", "nicht gefunden", "onbekend", "bestaat niet", "не существует",
    "не найден", "неизвестн", "存在しません", "見つかりません", "不存在",
)  # fmt: skip
_CLOSED: Final = (
    "disabled", "inactive", "inactivity", "suspended", "deactivated", "discontinued", "terminated", "frozen", " closed",
    " locked", "no longer", "expired", "not activated", "not active", "deleted", "cancelled", "canceled", "is blocked",
    "isblocked", "abandoned", "dormant", "désactiv", "desactiv", "inactif", "inactiv", "suspendu", "bloqué", "bloque",
    "suspendid", "desativad", "bloquead", "disattivat", "disabilitat", "bloccat", "sospes", "deaktiviert", "gesperrt",
    "geblokkeerd", "opgeheven", "заблокирован", "отключен",
)  # fmt: skip
_FULL: Final = (
    " full ", "over quota", "overquota", "over-quota", "quota", "storage", "disk space", "too many messages",
    "out of space", "enough space", "exceeds allowed size", "mailbox exceeds", "exceeded mailbox", "has exceeded",
    "allowed limit", "over its limit", " voll ", "überschritten", "zu viele", "zuviele", " plein", "dépass", " llen",
    "excedid", "cheia", " pien", "esaurit", "overschreden", "переполнен", "容量",
)  # fmt: skip
_NOT_RECIPIENT: Final = (
    *_SENDER, "your account", "your ip", "your address", "your domain", "your host", "ip address", "adresse ip",
    "client host", "domain", "message-id", "access denied", "mailbox unavailable", "service", "connection",
    "unknown error", "user agent", "syntax", "character", "gateway for", "for sending", "route to",
)  # fmt: skip
_LIMIT: Final = ("exceed", "reached", "too many", "too much", " hit ")

# After a login every refusal is about our credentials, and these codes speak of nothing else.
_CREDENTIALS: Final = (
    Rule("smtp.auth.5xx", C.PROVIDER_MISCONFIGURED, phases="auth", code_class=5, source="RFC 4954 section 6"),
    Rule(
        "smtp.recipient_disabled", C.INVALID_RECIPIENT, enhanced=("5.7.13",), words=("recipient",),
        source="RFC 5248 (x.7.13), said of the recipient",
    ),
    Rule("smtp.53x", C.PROVIDER_MISCONFIGURED, codes=(525, 530, 534, 535, 538), source="RFC 4954 section 6; RFC 5248"),
)  # fmt: skip

# Texts whose meaning no code changes, not even a 4yz one.
_FINAL: Final = (
    Rule("smtp.words.null_mx", C.INVALID_DOMAIN, words=("null mx",), unless=("sender", "mail from"), source="RFC 7505"),
    Rule(
        "smtp.words.given_up_on", C.REPUTATION_BLOCKED, words=("permanently deferred", "permanently blocked"),
        source="Yahoo sender hub: deferred for good, as 421 and as 553",
    ),
    Rule(
        "smtp.words.same_message_id", C.CONTENT_REJECTED, words=("same message-id",),
        source="Gmail SMTP errors: one Message-ID sent again and again",
    ),
)  # fmt: skip

# Texts that outrank any code.
_TRAPS: Final = (
    Rule(
        "smtp.words.protocol", C.INTERNAL_ERROR,
        words=("syntax error", "must precede", "bad sequence", "out of sequence", "unrecognized command",
               "unrecognised command", "unknown command", "command not recognized", "command not implemented",
               "protocol violation", "protocol error", "bare lf", "bare newline"),
        unless=("remote protocol error", "no such user", "user unknown", "unknown user"),
        source="RFC 5321 section 4.2.2 (500 to 504)",
    ),
    Rule(
        "smtp.words.bad_header", C.CONTENT_REJECTED,
        words=("duplicate header", "header error", "missing header", "blank from", "multiple from", "character set",
               "non-latin", "non-ascii"),
        source="RFC 5322 section 3.6",
    ),
    Rule(
        "smtp.words.as_spam", C.CONTENT_REJECTED,
        words=("due to spam", "as spam", "is spam", "spam message", "spam content", "spam detected", "spam score",
               "content spam", "likely unsolicited", "appears to be unsolicited", "classified as", "virus", "malware"),
        source="RFC 3463 section 3.8",
    ),
    Rule(
        "smtp.words.sender_authentication", C.PROVIDER_MISCONFIGURED,
        words=(" spf", "dkim", "dmarc", "sender id", "unauthenticated email", "unauthenticated mail",
               "is unauthenticated", "unauthenticated command", "spoof", "invalid ip for sending", "send mail as",
               "domain is not allowed to send", "not allowed to send mail from", "authenticate your mail"),
        source="RFC 7372; Gmail and Yahoo sender guidelines",
    ),
    Rule(
        "smtp.words.reverse_dns", C.PROVIDER_MISCONFIGURED,
        words=("reverse dns", "rdns", "ptr record", "dns ptr", "no ptr", " ptr ", "reverse hostname", "reverse lookup",
               "your hostname", "helo ", "ehlo ", "my name was rejected", "invalid domain name",
               "mismatches client ip", "bypassing service provider", "resolvable hostname", "forward-confirmed",
               "fcrdns"),
        unless=("recipient",),
        source="RFC 7372 section 3.3 (x.7.25); RFC 5321 section 4.1.4",
    ),
    Rule(
        "smtp.words.not_relayed", C.PROVIDER_MISCONFIGURED, words=("rcpthosts", "relaying denied", "relay denied",
                                                                   "relaying is denied", "relay access denied",
                                                                   "relay not permitted", "relaying not allowed",
                                                                   "unable to relay"),
        source="RFC 5321 section 3.6.2",
    ),
    Rule(
        "smtp.words.too_many_bad_recipients", C.PROVIDER_THROTTLED,
        words=("too many invalid recipients", "too many unknown recipients", "too many bad recipients", "too many unknown users", "too many invalid users"),
        source="directory harvest protection",
    ),
    Rule(
        "smtp.words.our_quota", C.QUOTA_EXCEEDED,
        words=("sending limit", "sending quota", "submission quota", "relay limit", "relay quota", "send limit",
               "daily limit", "daily quota", "hourly limit", "messages per session", "messages per connection"),
        source="Google Workspace and Exchange Online sending limits",
    ),
    Rule(
        "smtp.words.too_fast", C.PROVIDER_THROTTLED,
        words=("rate limit", "ratelimit", "rate exceeded", "throttl", "too many connections", "too many concurrent",
               "too many sessions", "too many recipients", "too many recent", "too many messages in", "too many login",
               "too many emails", "too many mails", "too many bad commands", "too many errors", "too many commands",
               "too many invalid commands", "too many attempts", "too many requests", "too much mail from", "too fast",
               "too quickly", "sending too many", "maximum connections", "frequency limit", "slow down",
               "unexpected volume", "message limit", "receive limit", "receiving limit", "concurrent connections",
               "connection limit", "thread limit", "message threshold", "this hour", "per hour", "per connection",
               "too many simultaneous", "flood", "at a rate", "trop de connexions", "demasiadas conexiones",
               "muitas conex", "zu viele verbindungen"),
        source="RFC 5321 section 4.5.3.1.10; providers' postmaster pages",
    ),
    Rule(
        "smtp.words.unusual_rate", C.PROVIDER_THROTTLED, code_class=4, words=("unusual rate",),
        source="Gmail SMTP errors: for now as 421, for good as 550",
    ),
    Rule(
        "smtp.words.blocklist", C.REPUTATION_BLOCKED,
        words=("spamhaus", "spamcop", "sorbs.net", "barracudacentral", "cloudmark", "dnsbl", " rbl", "blacklist",
               "black list", "blocklist", "block list", "denylist", "deny list", "blocked using", "listed at ",
               "listed in ", "listed by ", "listed on ", "is listed on", "reputation", "banned sending ip",
               "banned sender", "blocked ip", "client host blocked", "too many bounces", "senderscore", "sender score",
               "mailspike", "invaluement", "abusix", "proofpoint", "mxrate", "uceprotect", "surbl", "an open relay",
               "dynamic ip", "dial-up", "generic hostname", "spam source", "source of spam", "sending spam",
               "sent spam", "user complaints", "complaint rate", "liste noire", "lista negra"),
        unless=("not listed", "mailbox quota"),
        source="RFC 5782 (DNS lists)",
    ),
    Rule(
        "smtp.words.sender_named", C.PROVIDER_MISCONFIGURED,
        words=("sender address", "sender verify", "sender verification", "sender's", "sender domain", "mail from ",
               "from address", "envelope from", "return path", "return-path", "reply-to", "your domain",
               "your address"),
        also=(*_UNKNOWN, *_REFUSED, "verify failed", "failed", "null mx", "malformed"),
        unless=("recipient address rejected", "to your address", "domain administrator", "spam", "content"),
        source="RFC 5321 section 3.3: said of the sender, whatever code is put before it",
    ),
    Rule(
        "smtp.words.greylisted", C.GREYLISTED,
        words=("greylist", "graylist", "grey list", "gray list", "grey-list", "gray-list"), source="RFC 6647",
    ),
    Rule(
        "smtp.words.dns_for_now", C.DNS_FAILURE,
        words=("name service", "name server", "host not found", "host name lookup", "dns"),
        also=("try again", "timeout", "timed out", "servfail", "temporar", "malformed"),
        source="RFC 5321 section 5.1",
    ),
    Rule(
        "smtp.words.mailbox_off_for_now", C.SOFT_BOUNCE,
        words=("temporarily disabled", "temporarily locked", "temporarily suspended", "temporarily unavailable",
               "temporarily deferred", "currently suspended", "temporarily blocked", "temporarily inactive",
               "temporarily closed", "temporarily over"),
        also=_RECIPIENT, source="RFC 3463 section 3.3 (4.2.1)",
    ),
    Rule(
        "smtp.words.mailbox_full", C.MAILBOX_FULL,
        words=_FULL, also=_RECIPIENT, unless=("message size", "too large", "too big", "their limit", "thread", "rate"),
        source="RFC 3463 section 3.3 (x.2.2)",
    ),
    Rule(
        "smtp.words.quota", C.MAILBOX_FULL,
        words=("quota exceeded", "exceeded quota", "over quota", "over its quota", "exceed quota", "quota violation",
               "quota full", "over storage", "storage allocation", "exceeded storage", "storage space", "disk quota",
               "disc quota", "mailbox is full", "mailbox full", "out of storage", "out of disk"),
        source="RFC 5321 section 4.2.3 (552)",
    ),
    Rule(
        "smtp.words.too_large", C.CONTENT_REJECTED,
        words=("too large", "too big", "size limit", "message size", "mail size", "email size", "message length",
               "fixed maximum", "line limit", "line too long", "too long", "maximum size", "exceeds size",
               "too much mail data", "message exceeds", "trop volumineux", "demasiado grande", "zu groß"),
        unless=("in the queue too long", "took too long", "too long to", "queue too long"),
        source="RFC 1870 section 6.1",
    ),
    Rule(
        "smtp.words.loop", C.UNKNOWN,
        words=("routing loop", "mail loop", "too many hops", "hop count", "loops back", "looping"),
        source="RFC 3463 section 3.5 (x.4.6): nobody knows whose loop it is",
    ),
    Rule(
        "smtp.words.accepts_no_mail", C.INVALID_DOMAIN,
        words=("does not accept mail", "doesn't accept mail", "does not accept email", "doesn't receive email",
               "does not receive mail", "does not receive email", "doesn't receive mail"),
        unless=("from you", "from your", "from this", "from the"),
        source="RFC 7504, RFC 7505",
    ),
    Rule(
        "smtp.words.denied_by_directory", C.INVALID_RECIPIENT, enhanced=("5.4.1",),
        words=("recipient address rejected",),
        source="Exchange Online: directory-based edge blocking",
    ),
    Rule(
        "smtp.words.server_closed", C.PROVIDER_UNAVAILABLE, phases=(None, "connect", "ehlo"),
        words=("not accepting connections", "not accepting network messages", "shutting down",
               "no longer accepting connections"),
        source="RFC 5321 section 3.1: a server that takes nothing for now, also as 554",
    ),
)  # fmt: skip

# General words, specific before general.
_WORDS: Final = (
    Rule(
        "smtp.words.spam", C.CONTENT_REJECTED,
        words=("spam", "junk", "unsolicited", "virus", "malware", "phish", "bulk mail", "suspicious", "banned content",
               "pourriel", "unerwünscht"),
        unless=("suspiciousremoteservererror",),
        source="RFC 3463 section 3.8",
    ),
    Rule(
        "smtp.words.relay_denied", C.PROVIDER_MISCONFIGURED,
        words=(" relay", "not a gateway", "open relay", "this domain", "that domain", "specified domain"),
        also=("denied", "not permitted", "prohibited", "not allowed", "disallowed", "unable to", "cannot", "refused",
              "not authorized", "not authorised", "unauthorized", "not configured", "do not", "don't", "not a gateway",
              "use the", "isn't allowed", "not hosted", "not handled", "not local", "isn't in my"),
        unless=("relay=", "users at this domain"),
        source="RFC 5321 section 3.6.2; RFC 3463 section 3.8 (x.7.1)",
    ),
    Rule(
        "smtp.words.check_failed_for_now", C.PROVIDER_UNAVAILABLE, code_class=4,
        words=("temporary authentication failure", "sender verify callout", "temporary lookup failure"),
        source="RFC 4954 section 6 (454)",
    ),
    Rule(
        "smtp.words.credentials", C.PROVIDER_MISCONFIGURED,
        words=("authentication required", "authentication fail", "authentication mechanism", "authentication error",
               "authentication unsuccessful", "auth failed", "credentials", "password", "not authenticated",
               "smtp authentication", "must authenticate", "failed to authenticate", "authentication is required",
               "authentication needed", "cannot decode response", "login failed", "log in ", "must login",
               "login first", "not verified", "email address is not verified"),
        unless=("recipient",),
        source="RFC 4954 section 6",
    ),
    Rule(
        "smtp.words.tls", C.PROVIDER_MISCONFIGURED,
        words=("starttls", " tls", "certificate", "cipher", "dnssec", "encryption", "tlsa", " ssl "),
        source="RFC 3207 section 4; RFC 3463 section 3.8 (x.7.10)",
    ),
    Rule(
        "smtp.words.header", C.CONTENT_REJECTED,
        words=("header", "rfc 5322", "rfc5322", "rfc 2822", "rfc2822", "rfc 822", "message-id", "malformed", "8-bit",
               "8bit", " mime ", "mime-"),
        unless=("authenticat", "spoof", "malformed address", "name server"),
        source="RFC 5322 section 3.6",
    ),
    Rule(
        "smtp.words.misconfigured", C.PROVIDER_MISCONFIGURED, words=("misconfigured", "not configured to send"),
        unless=("recipient", "forwarding"),
        source="a sender's settings, in the words of his own provider",
    ),
    Rule(
        "smtp.words.user_unknown", C.INVALID_RECIPIENT,
        words=("no such user", "user unknown", "unknown user", "cuda nsu", "пользователя нет", "нет такого пользователя", "banned recipient", "recipient has been suspended"),
        unless=(*_SENDER, "reply-to"), source="RFC 5321 section 4.2.3 (550)",
    ),
    Rule(
        "smtp.words.sender_refused", C.PROVIDER_MISCONFIGURED,
        words=_SENDER,
        also=(*_REFUSED, *_UNKNOWN, *_CLOSED, "bad ", "unverified", "mismatch", "misconfigured", " not ",
              "verify failed", "must resolve"),
        unless=("sender's list", "recipient does not accept"),
        source="RFC 5321 section 3.3: the answer to MAIL",
    ),
    Rule(
        "smtp.words.host_refused", C.REPUTATION_BLOCKED,
        words=("client host", "your ip", "this ip", "ip address", "adresse ip", "your host", "this host",
               "your server", "your network", "your mail server", "from mail server", "service refus", "ip blocked",
               "from your"),
        also=(*_REFUSED, "service refus", "banned", "suspicious"),
        unless=("rcpt to", "recipient"),
        source="RFC 5321 section 3.1: the answer to a connection",
    ),
    Rule(
        "smtp.words.unknown_domain", C.INVALID_DOMAIN,
        words=("domain not found", "host not found", "unknown host", "host unknown", "unknown domain",
               "domain unknown", "no such domain", "domain not exist", "bad host", "bad domain",
               "name or service not known", "nxdomain", "nonexistent domain", "non-existent domain",
               "domain does not exist", "domain doesn't exist", "invalid domain", "unrouteable", "unroutable",
               "find any host", "find a mail exchanger", "illegal host", "invalid host", "no mx record",
               "domain name not found", "domain is not reachable", "no mail exchanger", "mail exchanger",
               "no valid mx", "no mx ", "all relevant mx", "no route to domain", "doesn't have any mx",
               "unknown mail domain", "domain is invalid", "no such host", "host or domain name not found",
               "lookup failure host", "dominio non", "domaine inconnu"),
        unless=("link", "url", "message body", "your domain", "sender"),
        source="RFC 5321 section 5.1",
    ),
    Rule(
        "smtp.words.dns_failure", C.DNS_FAILURE, words=("dns", "name service", "lookup failure"),
        also=("fail", "error", "unable"), unless=("not found", "policy", "dnsbl"),
        source="RFC 5321 section 5.1",
    ),
    Rule(
        "smtp.words.no_such_recipient", C.INVALID_RECIPIENT,
        words=("no such recipient", "no such mailbox", "no mailbox", "no mail box", "no such address",
               "no such account", "addressee unknown", "unknown recipient", "recipient unknown", "unknown local",
               "unknown alias", "no such person", "no user by", "no user here", "not a mailbox", "recipient not found",
               "user not found", "invalid recipient", "invalid-recipient", "no valid recipients",
               "all recipients are invalid", "bad recipient", "bad destination mailbox", "mailbox not found",
               "address not found", "recipient not exist", "unknown address", "address unknown", "not a valid mailbox",
               "is no longer valid", "not a known user", "mailbox does not exist", "no account",
               "recipient does not exist", "disabled recipient", "user not local", "mailbox name not allowed"),
        unless=(*_SENDER, "reply-to"),
        source="RFC 5321 section 4.2.3 (550)",
    ),
    Rule(
        "smtp.words.recipient_unknown", C.INVALID_RECIPIENT,
        words=_RECIPIENT, also=_UNKNOWN, unless=_NOT_RECIPIENT,
        source="RFC 3463 section 3.2 (5.1.1)",
    ),
    Rule(
        "smtp.words.recipient_closed", C.INVALID_RECIPIENT,
        words=_RECIPIENT, also=_CLOSED, unless=_NOT_RECIPIENT, source="RFC 3463 section 3.3 (5.2.1)",
    ),
    Rule(
        "smtp.words.recipient_refused", C.INVALID_RECIPIENT, phases=(None, "rcpt"),
        words=("mailbox unavailable", "mailbox not available", "recipient rejected", "recipient unavailable",
               "recipient address rejected <>"),
        unless=(*_SENDER, "denied", "policy", "blocked", "spam", "not allowed", "sorry"),
        source="RFC 5321 section 4.2.3 (550)",
    ),
    Rule(
        "smtp.words.limit", C.PROVIDER_THROTTLED,
        words=("limit", "threshold", "max message", "maximum number", "maximum allowed", "quota"), also=_LIMIT,
        unless=("size", "length", "large", "time limit", "storage"),
        source="RFC 5321 section 4.5.3.1",
    ),
    Rule(
        "smtp.words.policy", C.POLICY_VIOLATION,
        words=("policy", "policies", "prohibited", "not allowed", "not permitted", "not authorized", "permission",
               "restricted", "denied", "listed", "blocked", "banned", "only members", "not a member",
               "rejected by this user", "refused to receive", "refused by the recipient", "rejected by recipient",
               "user reject", "may post", "to post", "configured to reject", "no mail accepted",
               "administrative prohibition", "does not want", "security", "not willing", "disabled for sending"),
        unless=("rcpt to user",),
        source="RFC 3463 section 3.8 (5.7.1)",
    ),
    Rule(
        "smtp.words.content", C.CONTENT_REJECTED,
        words=("content", "attachment", "message rejected", "message refused", "mail rejected", "is rejected",
               "filter", "mail data refused", "message was rejected", "message contains", "url in ", "refused by"),
        source="RFC 3463 section 3.7 (5.6.x)",
    ),
)  # fmt: skip

# Words of a passing trouble: never against a 5xx, where "later" is a courtesy.
_TROUBLE_WORDS: Final = (
    ("timeout", C.NETWORK_TIMEOUT, ("timed out", "timeout", "time limit", "too long to", "not responding", "not respond")),
    (
        "connection", C.CONNECTION_ERROR,
        ("connection refused", "connection reset", "connection closed", "connection lost", "connection is broken",
         "connection dropped", "no route to host", "unreachable", "network error", "not reachable", "to connect",
         "is broken", "closed connection", "lost connection", "could not connect", "cannot contact", "connexion",
         "find a gateway"),
    ),
    (
        "later", C.PROVIDER_UNAVAILABLE,
        ("try again", "temporar", "busy", " later", "overload", " load ", "delayed", "not been delivered", "deferred",
         "retried", "not available", "unavailable", "system error", "internal error", "server error", "resources",
         "i/o error", "not accepting", "disk space", "will continue", "within", "giving up", "given up",
         "failing for a long time", "not yet been delivered", "retry time", "queue delay", "no space left",
         "disk full", "open files", "could not be delivered for", "for the last", "expired", "queue too long",
         "plus tard", "más tarde", "mais tarde", "più tardi", "später"),
    ),
)  # fmt: skip
_TROUBLE: Final = (
    Rule("smtp.421.throttled", C.PROVIDER_THROTTLED, codes=(421,), enhanced=("4.7.x",), source="RFC 3463 section 3.8"),
    Rule(
        "smtp.450.mailbox", C.SOFT_BOUNCE, codes=(450,), words=("mailbox", "recipient", "user", "account"),
        source="RFC 5321 section 4.2.3: mailbox busy or temporarily blocked",
    ),
    Rule("smtp.451.greylisted", C.GREYLISTED, codes=(450, 451), enhanced=("4.7.1",), source="RFC 6647 section 2"),
    *(
        Rule(f"smtp.4xx.{name}", c, code_class=4, words=w, source="RFC 5321 section 4.2.1")
        for name, c, w in _TROUBLE_WORDS
    ),
)  # fmt: skip
_TROUBLE_WITHOUT_CODE: Final = tuple(
    Rule(f"smtp.words.{name}", c, words=w, source="bounce texts") for name, c, w in _TROUBLE_WORDS
)

# The basic code and the phase.
_BASIC: Final = (
    Rule("smtp.auth.4xx", C.PROVIDER_UNAVAILABLE, phases=("auth",), code_class=4, source="RFC 4954 section 6"),
    Rule("smtp.421", C.PROVIDER_UNAVAILABLE, codes=(421,), source="RFC 5321 section 4.2.3"),
    Rule("smtp.422", C.MAILBOX_FULL, codes=(422,), source="an old code of some servers"),
    Rule("smtp.432", C.PROVIDER_MISCONFIGURED, codes=(432,), source="RFC 4954 section 4.7"),
    Rule("smtp.450", C.SOFT_BOUNCE, codes=(450,), source="RFC 5321 section 4.2.3"),
    Rule("smtp.4xx.recipient", C.SOFT_BOUNCE, code_class=4, phases=("rcpt", "data"), source="RFC 5321 section 4.2.1"),
    Rule("smtp.4xx", C.PROVIDER_UNAVAILABLE, code_class=4, source="RFC 5321 section 4.2.1"),
    Rule(
        "smtp.connect.5xx", C.REPUTATION_BLOCKED, code_class=5, phases=("connect", "ehlo"),
        source="RFC 5321 section 3.1: the server does not know the recipient yet",
    ),
    Rule("smtp.556", C.INVALID_DOMAIN, codes=(556,), source="RFC 7504 section 5"),
    Rule("smtp.protocol", C.INTERNAL_ERROR, codes=(500, 502, 503, 504), source="RFC 5321 section 4.2.2"),
    Rule("smtp.mail.5xx", C.PROVIDER_MISCONFIGURED, code_class=5, phases=("mail",), source="RFC 5321 section 3.3"),
    Rule("smtp.rcpt.name", C.INVALID_RECIPIENT, codes=(501, 551, 553), phases=("rcpt",), source="RFC 5321 section 3.3"),
    Rule("smtp.501", C.INTERNAL_ERROR, codes=(501, 555), source="RFC 5321 section 4.2.2"),
    Rule("smtp.552", C.MAILBOX_FULL, codes=(552,), phases=("rcpt",), source="RFC 5321 section 4.2.3"),
    Rule("smtp.data.5xx", C.CONTENT_REJECTED, code_class=5, phases=("data",), source="RFC 5321 section 3.3"),
    Rule("smtp.5xx", C.UNKNOWN, code_class=5, source="a refusal without a reason that can be read"),
)  # fmt: skip


_RECIPIENT_GROUPS: Final = (ErrorGroup.TEMPORARY_MAILBOX, ErrorGroup.PERMANENT_RECIPIENT)


def _both_ways(rule: Rule) -> tuple[Rule, ...]:
    """Return a rule of words for a final cause after what it means in a 4yz reply."""
    for_now = FOR_NOW.get(rule.error_class)
    if for_now is None or rule.codes or rule.enhanced:
        return (rule,)
    return attrs.evolve(rule, name=f"{rule.name}.4xx", error_class=for_now, code_class=4), rule


def _after_mail(rule: Rule) -> Rule:
    """Keep a rule that speaks of the recipient out of phases in which the server does not know him yet."""
    is_about = rule.error_class.group in _RECIPIENT_GROUPS and rule.error_class != C.GREYLISTED
    return attrs.evolve(rule, phases=(None, "rcpt", "data")) if is_about and not rule.phases else rule


_TEXTS_AND_CODES: Final = (
    *_CREDENTIALS,
    *_FINAL,
    *(both for rule in _TRAPS for both in _both_ways(rule)),
    *TRUSTED_CODES,
    *(both for rule in _WORDS for both in _both_ways(rule)),
    *_TROUBLE,
    *VAGUE_CODES,
    *_BASIC,
    *_TROUBLE_WITHOUT_CODE,
)
SMTP_RULES: Final = tuple(_after_mail(rule) for rule in _TEXTS_AND_CODES)
"""All rules for SMTP replies, in order."""
