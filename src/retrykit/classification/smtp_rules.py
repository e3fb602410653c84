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
from .enhanced_codes import TRUSTED_CODES, VAGUE_CODES
from .rules import Rule

__all__ = ["SMTP_RULES"]

# The vocabulary that more than one rule uses.

_RECIPIENT: Final = (
    "user", "mailbox", "mail box", "recipient", "account", "address", "alias", "customer", "local-part", "local part",
    "maildrop", "mail drop", "destinataire", "destinatario", "usuario", "utilisateur", "benutzer", "empfänger",
)  # fmt: skip
_SENDER: Final = (
    "sender", "mail from", "mailfrom", "from address", "from header", " from domain", "return-path",
    "return path", "reverse-path", "envelope from", "sending domain", "submitter",
)  # fmt: skip
_REFUSED: Final = (
    "rejected", "denied", "refused", "blocked", "not allowed", "not permitted", "not accepted", "not authorized",
    "prohibited", "disallowed",
)  # fmt: skip
_UNKNOWN: Final = (
    "unknown", "not found", "no such", "does not exist", "doesn't exist", "do not exist", "not exist", "nonexistent",
    "non-existent", "not known", "invalid", "not valid", "no longer valid", "not a valid", "not available",
    "no longer available", "not listed", "not recognized", "not recognised", "undeliverable", "unroutable",
    "unrouteable", "could not be found", "couldn't be found", "doesn't have", "does not have", "not our", "bad address",
    "not a known", "unable to find", "inconnu", "inexist", "no existe", "unbekannt", "desconocido", "sconosciuto",
)  # fmt: skip
_CLOSED: Final = (
    "disabled", "inactive", "inactivity", "suspended", "deactivated", "discontinued", "terminated", "frozen", " closed",
    " locked", "no longer",
)  # fmt: skip
_FULL: Final = (
    " full ", "over quota", "overquota", "over-quota", "quota", "storage", "disk space", "too many messages",
    "out of space", "enough space", " voll ", " plein", " lleno",
)  # fmt: skip
_NOT_RECIPIENT: Final = (
    *_SENDER, "your account", "your ip", "your address", "your domain", "your host", "ip address", "client host",
    "domain", "message-id", "access denied", "mailbox unavailable", "service", "connection", "unknown error",
)  # fmt: skip

# After a login every refusal is about our credentials, and these codes speak of nothing else.
_CREDENTIALS: Final = (
    Rule("smtp.auth.5xx", C.PROVIDER_MISCONFIGURED, phases="auth", code_class=5, source="RFC 4954 section 6"),
    Rule("smtp.53x", C.PROVIDER_MISCONFIGURED, codes=(525, 530, 534, 535, 538), source="RFC 4954 section 6; RFC 5248"),
)

# Texts that outrank any code.
_TRAPS: Final = (
    Rule(
        "smtp.words.sender_authentication", C.PROVIDER_MISCONFIGURED,
        words=(" spf", "dkim", "dmarc", "sender id", "unauthenticated email", "unauthenticated mail",
               "is unauthenticated"),
        source="RFC 7372; Gmail and Yahoo sender guidelines",
    ),
    Rule(
        "smtp.words.reverse_dns", C.PROVIDER_MISCONFIGURED,
        words=("reverse dns", "rdns", "ptr record", "dns ptr", "no ptr", "reverse hostname", "reverse lookup",
               "your hostname", "helo ", "ehlo "),
        source="RFC 7372 section 3.3 (x.7.25); RFC 5321 section 4.1.4",
    ),
    Rule(
        "smtp.words.too_many_bad_recipients", C.PROVIDER_THROTTLED,
        words=("too many invalid recipients", "too many unknown recipients", "too many bad recipients"),
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
               "too much mail", "too fast", "too quickly", "frequency limit", "slow down", "unexpected volume",
               "message limit", "receive limit", "concurrent connections", "connection limit", "this hour", "per hour"),
        source="RFC 5321 section 4.5.3.1.10; providers' postmaster pages",
    ),
    Rule(
        "smtp.words.blocklist", C.REPUTATION_BLOCKED,
        words=("spamhaus", "spamcop", "sorbs.net", "barracudacentral", "cloudmark", "dnsbl", " rbl", "blacklist",
               "black list", "blocklist", "block list", "blocked using", "listed at ", "listed in ", "listed by ",
               "is listed on", "reputation", "banned sending ip", "banned sender", "blocked ip", "client host blocked"),
        unless=("not listed",),
        source="RFC 5782 (DNS lists)",
    ),
    Rule(
        "smtp.words.mailbox_full", C.MAILBOX_FULL,
        words=_FULL, also=_RECIPIENT, unless=("message size", "too large", "too big"),
        source="RFC 3463 section 3.3 (x.2.2)",
    ),
    Rule(
        "smtp.words.quota", C.MAILBOX_FULL,
        words=("quota exceeded", "exceeded quota", "over quota", "storage allocation",
               "storage space", "disk quota", "disc quota"),
        source="RFC 5321 section 4.2.3 (552)",
    ),
    Rule(
        "smtp.words.too_large", C.CONTENT_REJECTED,
        words=("too large", "too big", "size limit", "message size", "mail size", "email size", "message length",
               "fixed maximum", "line limit"),
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
               "null mx"),
        source="RFC 7504, RFC 7505",
    ),
    Rule(
        "smtp.words.denied_by_directory", C.INVALID_RECIPIENT, enhanced=("5.4.1",),
        words=("recipient address rejected",),
        source="Exchange Online: directory-based edge blocking",
    ),
)  # fmt: skip

# General words, specific before general.
_WORDS: Final = (
    Rule(
        "smtp.words.greylisted", C.GREYLISTED,
        words=("greylist", "graylist", "grey list", "gray list", "grey-list"), source="RFC 6647",
    ),
    Rule(
        "smtp.words.spam", C.CONTENT_REJECTED,
        words=("spam", "junk", "unsolicited", "virus", "malware", "phish", "bulk mail", "suspicious", "banned content"),
        source="RFC 3463 section 3.8",
    ),
    Rule(
        "smtp.words.relay_denied", C.PROVIDER_MISCONFIGURED,
        words=(" relay", "rcpthosts", "not a gateway", "open relay"),
        also=("denied", "not permitted", "prohibited", "not allowed", "disallowed", "unable to", "cannot", "refused",
              "not authorized", "not authorised", "not configured", "do not", "don't", "rcpthosts", "not a gateway",
              "use the"),
        unless=("relay=",),
        source="RFC 5321 section 3.6.2; RFC 3463 section 3.8 (x.7.1)",
    ),
    Rule(
        "smtp.words.credentials", C.PROVIDER_MISCONFIGURED,
        words=("authentication required", "authentication fail", "authentication mechanism",
               "authentication unsuccessful", "auth failed", "credentials", "password", "not authenticated",
               "smtp authentication", "must authenticate", "login failed", "not verified"),
        source="RFC 4954 section 6",
    ),
    Rule(
        "smtp.words.tls", C.PROVIDER_MISCONFIGURED,
        words=("starttls", " tls", "certificate", "cipher", "dnssec", "encryption"),
        source="RFC 3207 section 4; RFC 3463 section 3.8 (x.7.10)",
    ),
    Rule(
        "smtp.words.header", C.CONTENT_REJECTED,
        words=("header", "rfc 5322", "rfc 2822", "message-id", "malformed", "8-bit"), unless=("authenticat", "spoof"),
        source="RFC 5322 section 3.6",
    ),
    Rule(
        "smtp.words.sender_refused", C.PROVIDER_MISCONFIGURED,
        words=_SENDER,
        also=(*_REFUSED, *_UNKNOWN, *_CLOSED, "bad ", "unverified", "mismatch", "misconfigured"),
        source="RFC 5321 section 3.3: the answer to MAIL",
    ),
    Rule(
        "smtp.words.host_refused", C.REPUTATION_BLOCKED,
        words=("client host", "your ip", "this ip", "ip address", "your host", "this host", "your server"),
        also=_REFUSED, source="RFC 5321 section 3.1: the answer to a connection",
    ),
    Rule(
        "smtp.words.dns_for_now", C.DNS_FAILURE,
        words=("name service", "name server", "host not found", "host name lookup", "dns"),
        also=("try again", "timeout", "timed out", "servfail", "lookup failure", "temporar", "malformed"),
        source="RFC 5321 section 5.1",
    ),
    Rule(
        "smtp.words.unknown_domain", C.INVALID_DOMAIN,
        words=("domain not found", "host not found", "unknown host", "host unknown", "unknown domain", "domain unknown",
               "no such domain", "nxdomain", "nonexistent domain", "non-existent domain", "domain does not exist",
               "domain doesn't exist", "invalid domain", "unrouteable", "unroutable", "find any host",
               "find a mail exchanger", "illegal host", "invalid host", "no mx record", "domain name not found"),
        source="RFC 5321 section 5.1",
    ),
    Rule(
        "smtp.words.mailbox_off_for_now", C.SOFT_BOUNCE,
        words=("temporarily disabled", "temporarily locked", "temporarily suspended", "temporarily unavailable",
               "temporarily deferred", "currently suspended", "temporarily blocked"),
        also=_RECIPIENT, source="RFC 3463 section 3.3 (4.2.1)",
    ),
    Rule(
        "smtp.words.user_unknown", C.INVALID_RECIPIENT,
        words=("user unknown", "unknown user", "no such user", "no such recipient", "no such mailbox", "no mailbox",
               "addressee unknown", "unknown recipient", "recipient unknown", "unknown local", "unknown alias",
               "no such person", "recipient not found", "user not found", "invalid recipient", "invalid-recipient",
               "no valid recipients", "all recipients are invalid"),
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
        "smtp.words.policy", C.POLICY_VIOLATION,
        words=("policy", "policies", "prohibited", "not allowed", "not permitted", "not authorized", "permission",
               "restricted", "denied", "listed", "blocked", "banned", "only members"),
        source="RFC 3463 section 3.8 (5.7.1)",
    ),
    Rule(
        "smtp.words.content", C.CONTENT_REJECTED,
        words=("content", "attachment", "message rejected", "message refused", "mail rejected", "mail is rejected",
               "filter"),
        source="RFC 3463 section 3.7 (5.6.x)",
    ),
    Rule(
        "smtp.rcpt.550.mailbox", C.INVALID_RECIPIENT, codes=(550,), phases=("rcpt",),
        words=("mailbox unavailable", "mailbox not available", "recipient rejected", "recipient unavailable"),
        source="RFC 5321 section 4.2.3 (550)",
    ),
)  # fmt: skip

# Words of a passing trouble: never against a 5xx, where "later" is a courtesy.
_TROUBLE_WORDS: Final = (
    ("timeout", C.NETWORK_TIMEOUT, ("timed out", "timeout")),
    (
        "connection", C.CONNECTION_ERROR,
        ("connection refused", "connection reset", "connection closed", "connection lost", "connection is broken",
         "connection dropped", "no route to host", "unreachable", "network error", "not reachable", "to connect"),
    ),
    (
        "later", C.PROVIDER_UNAVAILABLE,
        ("try again", "temporar", "busy", " later", "overload", " load ", "delayed", "not been delivered",
         "deferred", "retried", "not available", "unavailable", "system error", "internal error", "server error",
         "resources", "i/o error", "not accepting", "disk space", "will continue"),
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


# A 4yz reply asks for another try (RFC 5321 section 4.2.1): its words may name a cause that is final, it is not.
_FOR_NOW: Final = {
    C.INVALID_RECIPIENT: C.SOFT_BOUNCE,
    C.INVALID_DOMAIN: C.DNS_FAILURE,
    C.CONTENT_REJECTED: C.SOFT_BOUNCE,
    C.POLICY_VIOLATION: C.SOFT_BOUNCE,
    C.REPUTATION_BLOCKED: C.PROVIDER_THROTTLED,
}
_RECIPIENT_GROUPS: Final = (ErrorGroup.TEMPORARY_MAILBOX, ErrorGroup.PERMANENT_RECIPIENT)


def _both_ways(rule: Rule) -> tuple[Rule, ...]:
    """Return a rule of words for a final cause after what it means in a 4yz reply."""
    for_now = _FOR_NOW.get(rule.error_class)
    if for_now is None or rule.codes or rule.enhanced:
        return (rule,)
    return attrs.evolve(rule, name=f"{rule.name}.4xx", error_class=for_now, code_class=4), rule


def _after_mail(rule: Rule) -> Rule:
    """Keep a rule that speaks of the recipient out of phases in which the server does not know him yet."""
    is_about = rule.error_class.group in _RECIPIENT_GROUPS and rule.error_class != C.GREYLISTED
    return attrs.evolve(rule, phases=(None, "rcpt", "data")) if is_about and not rule.phases else rule


_TEXTS_AND_CODES: Final = (
    *_CREDENTIALS,
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
