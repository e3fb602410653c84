"""What an API's words and an HTTP status mean, where no code of the provider's own says it.

Words are asked before the status, since statuses lie, and after the codes that mean one thing. Who is at fault is asked before
what is wrong: a sender who is "not found" must not end a recipient. A gateway's status without a code of the API's leaves open
what the server behind it has done.
"""

from __future__ import annotations

from typing import Final

from ..failure import ErrorClass as C  # it stands in every row
from ..failure import Outcome
from .rules import Rule

__all__ = ["API_WORDS", "LAST_RULES"]

_RECIPIENT: Final = (
    "recipient", " to number", " to address", " to field", " to phone", " to email", " to parameter", "invalid to ",
    "destination", "phone number", "phonenumber", "mobile number", "email address", "e-mail address", "address must",
    "local address", "device token", "registration token", "push token", "subscriber", "msisdn", "handset", " chat ",
    "chat_id", " user ", " users ", "peer_id", "mailbox", "contact",
)  # fmt: skip
_WRONG: Final = (
    "invalid", "not valid", "isn't valid", "not a valid", "not found", "does not exist", "doesn't exist", "no such",
    "malformed", "unknown", "not registered", "unregistered", "no longer", "deactivated", "deleted", "unreachable",
    "incorrect", "not reachable", "is not a mobile", "landline", "not on whatsapp", "not a whatsapp", "cannot be found",
    "could not be found", "not allowed characters", "contains control", "illegal", "must contain", "needs to follow",
    "badly formatted", "should be a valid", "must be a valid", "is empty", "bad format", "not a member", "was kicked",
    "blocked by", "can't initiate", "barred", "not in service",
)  # fmt: skip
_SENDER: Final = (
    " from number", " from address", " from field", "(from field", "reply to", " in from ", " from phone",
    " from email", " from parameter", "invalid from ", "sender", "reply-to", "reply_to", "return-path",
    "sending domain", "sending identity", "caller id", "originator", "source address", "mail from",
)  # fmt: skip
_TEMPLATE: Final = (
    "template",
    "substitution",
    "merge var",
    "merge field",
    "placeholder",
    "rendering",
    "personalization",
)
_SIGN_IN: Final = (
    "api key", "api-key", "api_key", "apikey", "api token", "access token", "access_token", "auth token", "bearer",
    "security token", "id token", "oauth", "jwt", "authorization header", "authentication", "unauthorized",
    "unauthorised", "unauthenticated", "not authenticated", "not authorized", "not authorised", "isn't authorized",
    "credential", "secret key", "invalid signature", "signature is not", "signature does not match",
    "signature we calculated", "password", "permission", "forbidden", "access denied", "denied access",
    "not have access", "no access", "login required", "not logged in", "private key", "ssl certificate",
    "client certificate", "ip address is not", "not whitelisted", "not in the allowlist", "scope",
)  # fmt: skip
_STANDING: Final = (
    "suspended", "account is disabled", "account disabled", "account has been disabled", "account is not active",
    "account inactive", "account is inactive", "account locked", "account has been locked", "account is locked",
    "is paused", "currently paused", "sending paused", "deactivated account", "not activated", "not enabled",
    "isn't enabled", "is not approved", "not been approved", "pending approval", "under review", "payment", "billing",
    "credits", "credit balance", "enough credit", "out of credit", "insufficient balance", "insufficient credit",
    "insufficient funds", "low balance", "free account", "test purposes", "authorized recipients", "rights to",
    "trial account", "upgrade your", "please upgrade", "plan does not", "plan doesn't", "your plan",
    "subscription plan", "not available on your", "not provisioned", "not configured", "unconfigured",
    "not allowed to send", "disabled for", "sending is disabled", "account barred", "kms",
)  # fmt: skip

_SILENT: Final = (
    Rule(
        "http.gateway", C.PROVIDER_UNAVAILABLE, protocol="http", tokens="http.uncoded", outcome=Outcome.UNKNOWN,
        codes=(408, 499, 502, 504, 520, 521, 522, 523, 524, 598, 599),
        source="RFC 9110 section 15.6: a gateway's answer; the server behind it may have done what was asked",
    ),
    Rule(
        "http.2xx", C.UNKNOWN, protocol="http", tokens="http.silent", codes=tuple(range(200, 300)),
        outcome=Outcome.UNKNOWN, source="an answer that tells of no error",
    ),
)  # fmt: skip

API_WORDS: Final = (
    *_SILENT,
    Rule(
        "http.401", C.PROVIDER_MISCONFIGURED, protocol="http", codes=(401, 407),
        source="RFC 9110 section 15.5.2: about our credentials, whatever the words say",
    ),
    Rule(
        "api.words.suppressed", C.RECIPIENT_SUPPRESSED,
        words=("opted out", "opted-out", "opt-out", "opt out list", "unsubscribed", "suppressed", "suppression list",
               "on the blocklist", "marked as inactive", "inactive recipient", "inactive address", "spam complaint",
               "previously bounced", "has complained", "do not contact", "do-not-contact", "stop message",
               "not subscribed"),
        unless=("not suppressed",),
        source="the recipient, or the provider in his place, wants no more",
    ),
    Rule(
        "api.words.gone", C.INVALID_RECIPIENT,
        words=("blocked by the user", "user is deactivated", "group is deactivated", "chat not found",
               "user not found", "bot was kicked", "bot is not a member", "recipient not found", "not a valid phone",
               "not a valid mobile", "unknown subscriber", "absent subscriber", "device token is no longer",
               "not registered on", "not on whatsapp", "bot can't initiate", "can't send messages to bots",
               "group chat was", "unreachable destination", "missing final", "address must contain",
               "local address contains", "domain starts with dot", "illegal address"),
        unless=_SENDER,
        source="addresses, numbers and chats that do not work, as providers speak of them",
    ),
    Rule(
        "api.words.too_large", C.CONTENT_REJECTED,
        words=("too large", "too big", "size limit", "maximum size", "size exceed", "exceeds size", "larger than",
               "max size", "payload exceeded", "maximum message size", "message length", "too long"),
        unless=("takes too long", "took too long", "taking too long"),
        source="RFC 9110 section 15.5.14",
    ),
    Rule(
        "api.words.plan", C.QUOTA_EXCEEDED,
        words=("monthly", "daily", "per day", "per month", "quota", "plan limit", "account limit", "usage limit",
               "sending limit for"),
        also=("exceed", "exhausted", "reached", "used up", "run out", "limit", "over "),
        unless=("rate limit", "rate quota", "per minute", "per second", "request throttling"),
        source="what an account may send is used up for now",
    ),
    Rule(
        "api.words.rate", C.PROVIDER_THROTTLED,
        words=("rate limit", "ratelimit", "rate-limit", "too many requests", "too many request", "throttl",
               "rate exceeded", "too many concurrent", "too many connections", "too many messages",
               "too many attempts", "too frequent", "temporary block", "too quickly", "too fast", "slow down",
               "per second", "per minute", "flood", "sending limit", "send limit", "sending rate", "limit exceeded",
               "exceeds the limit of requests", "request limit", "message limit", "concurrency limit",
               "maximum sending rate", "retry after", "queue overflow", "queue is full", "throughput", "request rate",
               "rate is too high"),
        source="RFC 6585 section 4",
    ),
    Rule(
        "api.words.sender", C.PROVIDER_MISCONFIGURED,
        words=_SENDER,
        also=("not verified", "unverified", "not confirmed", "invalid", "not valid", "not a valid", "not found",
              "not exist", "not allowed", "not authorized", "not registered", "not owned", "do not own",
              "not permitted", "blocked", "mismatch", "doesn't match", "does not match", "not a ", "disabled",
              "unconfigured", "no sending domain", "not provisioned", "can only send", "rejected"),
        source="our own address, number or domain is not one that the provider accepts",
    ),
    Rule(
        "api.words.verification", C.PROVIDER_MISCONFIGURED,
        words=("not verified", "unverified", "not been verified", "isn't verified", "verify your", "verify a domain",
               "dkim", " spf ", "dmarc", "domain is not", "sender signature", "sending domain", "public domain"),
        source="a sending identity that is not proved",
    ),
    Rule(
        "api.words.domain", C.PROVIDER_MISCONFIGURED, protocol="http",
        words=("domain not found", "unknown domain", "domain does not exist", "domain doesn't exist"),
        unless=("recipient",), source="a domain that we have not set up to send from",
    ),
    Rule(
        "api.words.access", C.PROVIDER_MISCONFIGURED,
        words=_SIGN_IN,
        unless=("device token", "registration token", "push token", "recipient", "not an authorized recipient"),
        source="RFC 9110 section 15.5.2, 15.5.4",
    ),
    Rule("api.words.standing", C.PROVIDER_MISCONFIGURED, words=_STANDING, source="the account, not the message"),
    Rule(
        "api.words.template", C.INVALID_PAYLOAD, words=_TEMPLATE,
        also=(*_WRONG, "missing", "required", "fail", "error", "could not", "not match", "no ", "mismatch", "expected"),
        source="what we asked to be filled in",
    ),
    Rule(
        "api.words.required", C.INVALID_PAYLOAD,
        words=("is required", "are required", "is missing", "are missing", "missing required", "missing parameter",
               "required field", "required parameter", "must be specified", "must specify", "must provide",
               "not specified", "no data", "zero recipients", "cannot be empty", "cannot be blank",
               "must not be empty"),
        source="RFC 9110 section 15.5.1",
    ),
    Rule(
        "api.words.recipient", C.INVALID_RECIPIENT, words=_RECIPIENT, also=_WRONG,
        unless=(*_SENDER, "username", "user agent", "user-agent", "user pool", "user rate", "webhook",
                "parameter name", "domain is not", "field name", "webhook", "user's permission", "message to edit",
                "message not found"),
        source="the address, number or device does not work",
    ),
    Rule(
        "api.words.spam", C.POLICY_VIOLATION,
        words=("spam", "phish", "malware", "virus", "prohibited", "policy", "policies", "violat", "abuse", "fraud",
               "blacklist", "blocklist", "blocked", "restricted", "not allowed by", "profanity", "adult content",
               "compliance"),
        source="what the provider does not carry",
    ),
    Rule(
        "api.words.content", C.CONTENT_REJECTED,
        words=("attachment", "invalid content", "content rejected", "content is not", "message content",
               "inappropriate", "message rejected", "message body contains", "forbidden content", "unsafe"),
        unless=("must have", "missing", "required", "must be", "either"),
        source="what the provider does not carry",
    ),
    Rule(
        "api.words.malformed", C.INVALID_PAYLOAD,
        words=("malformed", "invalid json", "not valid json", "could not be parsed", "cannot parse", "can't parse",
               "failed to parse", "parse error", "syntax error", "unsupported media", "unsupported type",
               "invalid type", "invalid parameter", "invalid param", "invalid request", "invalid value",
               "invalid field", "invalid format", "invalid data", "bad request", "validation", "not acceptable",
               "not a valid", "is not valid", "is invalid", "must be", "should be", "expected", "unrecognized",
               "unexpected field", "unknown field", "unknown parameter", "not supported", "unsupported",
               "method not allowed", "idempotent requests can only", "idempotency key"),
        unless=("in progress", "in-progress", "temporar", "unexpected error", "currently", "try again", "ip address"),
        source="RFC 9110 section 15.5",
    ),
    Rule(
        "api.words.later", C.PROVIDER_UNAVAILABLE,
        words=("maintenance", "temporar", "try again", "try later", "retry later", "try your request",
               "internal error", "internal server error", "internal failure", "server error", "service error",
               "service unavailable", "unavailable", "timed out", "timeout", "time-out", "overload", "overcapacity",
               "busy", "backend error", "in progress", "in-progress", "being processed", "conflicting operation",
               "concurrent", "another request", "outage", "unexpected error", "something went wrong", "unknown error",
               "failure in a dependency", "bad gateway", "connection reset", "connection refused", "not ready",
               "took too long", "upstream", "capacity", "could not be reached", "then retry", "please retry",
               "and retry"),
        source="a trouble that passes",
    ),
)  # fmt: skip
"""Words in answers of APIs and in events, specific before general; and the one status that says as much."""


def _status(
    name: str, error_class: C, *codes: int, source: str = "RFC 9110 section 15", outcome: Outcome | None = None
) -> Rule:
    return Rule(f"http.{name}", error_class, protocol="http", codes=codes, source=source, outcome=outcome)


def _kind(error_class: C, *kinds: str) -> tuple[Rule, ...]:
    return tuple(Rule(f"event.{kind}", error_class, protocol="event", tokens=f"kind.{kind}") for kind in kinds)


LAST_RULES: Final = (
    _status("429", C.PROVIDER_THROTTLED, 429, source="RFC 6585 section 4"),
    _status("420", C.PROVIDER_THROTTLED, 420, source="Twitter's and SparkPost's number for a throttle"),
    _status("509", C.PROVIDER_THROTTLED, 509, source="Apache and cPanel: bandwidth limit exceeded"),
    _status("529", C.PROVIDER_UNAVAILABLE, 529, 530, source="overloaded; frozen: numbers of some services"),
    _status("501", C.INVALID_PAYLOAD, 501, 505, 510),
    _status("506", C.PROVIDER_MISCONFIGURED, 506, 508, 511, 526, source="RFC 2295, RFC 5842, RFC 6585; Cloudflare"),
    _status("503", C.PROVIDER_UNAVAILABLE, 503),
    Rule("http.5xx", C.PROVIDER_UNAVAILABLE, protocol="http", code_class=5, source="RFC 9110 section 15.6"),
    Rule(
        "api.words.missing_resource", C.INVALID_PAYLOAD,
        words=("not found", "does not exist", "doesn't exist", "no such", "unknown ", "already exists", "duplicate",
               "missing", "invalid", "incorrect", "not modified", "is empty"),
        source="what we named is not there",
    ),
    _status("408", C.PROVIDER_UNAVAILABLE, 408, 421, 423, 424, 425, 440, 449, 460, 499, source="RFC 9110; RFC 8470; RFC 4918"),
    _status("409", C.PROVIDER_UNAVAILABLE, 409, source="RFC 9110 section 15.5.10: a conflict with the present state"),
    _status("403", C.PROVIDER_MISCONFIGURED, 402, 403, 495, 496, 498),
    _status("404", C.INVALID_PAYLOAD, 404, 410),
    _status("413", C.CONTENT_REJECTED, 413),
    _status("451", C.POLICY_VIOLATION, 451, source="RFC 7725"),
    Rule("http.4xx", C.INVALID_PAYLOAD, protocol="http", code_class=4, source="RFC 9110 section 15.5"),
    _status("3xx", C.PROVIDER_MISCONFIGURED, *range(300, 400), source="RFC 9110 section 15.4: not where the API is"),
    _status("1xx", C.UNKNOWN, *range(100, 200), outcome=Outcome.UNKNOWN, source="RFC 9110 section 15.2: not an answer yet"),
    Rule(
        "event.no_failure", C.UNKNOWN, protocol="event", tokens="kind.no_failure", outcome=Outcome.UNKNOWN,
        source="an event that tells of no failure",
    ),
    *_kind(C.SOFT_BOUNCE, "deferred"),
    *_kind(C.RECIPIENT_SUPPRESSED, "complained", "unsubscribed"),
    *_kind(C.POLICY_VIOLATION, "rejected"),
    *_kind(C.UNKNOWN, "bounced"),
    Rule("event.other", C.UNKNOWN, protocol="event", tokens="kind.other", outcome=Outcome.UNKNOWN),
)  # fmt: skip
"""What is left where neither codes nor words say anything: the status, and the kind of the event."""
