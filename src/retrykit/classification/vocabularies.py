"""The shapes of APIs' error bodies: by which a body is known, and where its codes and words stand.

Each reader looks at one document and returns what it says, or None where the shape is another's or tells of no error. They are
asked in an order, specific shapes before common ones; a body that several providers share ("errors", "message") goes to the one
that the provider's name speaks of.
"""

from __future__ import annotations

import functools
import html
import re
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Final, NamedTuple, TypeAlias

from ..codec import JSON
from .documents import as_list, as_map, at, code, fields, first_map, join, named_fields, number, text
from .http import HttpReply

__all__ = ["Said", "known", "read"]

_NAMES: Final = {
    name: vocabulary
    for vocabulary, names in {
        "sendgrid": "sendgrid", "mailgun": "mailgun", "postmark": "postmark postmarkapp", "sparkpost": "sparkpost",
        "mandrill": "mandrill mailchimp", "mailjet": "mailjet", "unisender": "unisender", "resend": "resend",
        "brevo": "brevo sendinblue", "twilio": "twilio", "vonage": "vonage nexmo",
        "fcm": "fcm firebase", "apns": "apns apn apple", "expo": "expo",
        "slack": "slack", "telegram": "telegram", "whatsapp": "whatsapp meta waba facebook", "stripe": "stripe",
        "google": "google gmail gcp", "microsoft": "microsoft msgraph graph office365 o365 m365 exchange outlook azure",
        "aws": "aws amazon amazonses ses sns sqs dynamodb lambda s3 sts kinesis pinpoint eventbridge eum",
    }.items()
    for name in names.split()
}  # fmt: skip
"""Names of providers, each with the vocabulary that it speaks; earlier ones win where a name holds several."""
_WORDS: Final = re.compile(r"[a-z0-9]+")
_CONSTANT: Final = re.compile(r"\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b")
_MAX_MARKUP: Final = 16_384
_XML: Final = re.compile(r"<(Code|Message|title|TwilioResponse)>([^<]{0,1000})", re.IGNORECASE)
_PROBLEM: Final = re.compile(r"[#/]([A-Za-z0-9._~-]{1,128})/?$")
_DELAY: Final = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)s", re.ASCII)
_PHRASE: Final = re.compile(r"(?:Bad Request|Forbidden|Conflict|Unauthorized|Not Found): ")
_MAX_ITEMS: Final = 100
_PHRASES: Final = {status.value: status.phrase.casefold() for status in HTTPStatus}
_FAILED: Final = frozenset({"error", "fail", "failed", "failure"})

Document: TypeAlias = Mapping[str, object]


class Said(NamedTuple):
    """What a body says."""

    vocabulary: str | None
    codes: tuple[str, ...] = ()
    text: str = ""
    retry_after: float | None = None


_Reader: TypeAlias = Callable[[Document, str | None, HttpReply], Said | None]


@functools.lru_cache(256)
def known(provider: str | None) -> str | None:
    """Return the vocabulary that a provider's name speaks of, or None.

    Example:
        >>> known("ses-eu-west"), known("Twilio SendGrid"), known("primary")
        ('aws', 'sendgrid', None)
    """
    name = (provider or "")[:256].lower()
    words = _WORDS.findall(name)
    return next((vocabulary for known, vocabulary in _NAMES.items() if known in words), None) or next(
        (vocabulary for known, vocabulary in _NAMES.items() if len(known) > 4 and known in name), None
    )


def read(reply: HttpReply, provider: str | None) -> Said | None:
    """Return what an answer's body says, or None where it tells of no error.

    Args:
        reply: the answer.
        provider: the name of who gave it.
    """
    hint = known(provider)
    if reply.document is None:
        return _aws({}, hint, reply) or _of_text(reply, hint)
    documents: list[JSON] = reply.document[:_MAX_ITEMS] if isinstance(reply.document, list) else [reply.document]
    objects = [document for document in documents if isinstance(document, Mapping)]
    for readers in (_READERS, (_plain,)):  # in a batch, the one that failed may stand behind others
        for document in objects:
            for reader in readers:
                said = reader(document, hint, reply)
                if said is not None:
                    return said
    return None


def _codes(*values: object) -> tuple[str, ...]:
    """Return the codes among `values`, each once."""
    return tuple(dict.fromkeys(found for value in values if (found := code(value))))


def _constants(words: str) -> tuple[str, ...]:
    """Return codes that stand in a text: words in capitals with underscores."""
    return tuple(dict.fromkeys(found[:128] for found in _CONSTANT.findall(words)))[:3]


def _is_ok(reply: HttpReply) -> bool:
    return reply.status is not None and 200 <= reply.status < 300


def _is_phrase(words: str, reply: HttpReply) -> bool:
    """Tell whether words only repeat the status ("Not Found"): then it is the status that speaks."""
    said = (
        " ".join(words.casefold().split()).strip(" .!").removeprefix("request-")
    )  # 414 was "Request-URI Too Long" once
    return bool(said) and reply.status in _PHRASES and _PHRASES[reply.status].endswith(said)


def _of_text(reply: HttpReply, hint: str | None) -> Said | None:
    """Read a body that is not JSON: XML with a code, a page's title, or plain words."""
    body = reply.text.strip()
    if body.startswith("<"):
        found = {name.lower(): html.unescape(value).strip() for name, value in _XML.findall(body[:_MAX_MARKUP])[::-1]}
        if "code" in found:
            vocabulary = "twilio" if "twilioresponse" in found else hint or "aws"
            return _of_aws(vocabulary, [found["code"]], found.get("message", ""))
        return None if _is_ok(reply) else Said(hint, (), found.get("title", ""))
    if hint == "slack" and re.fullmatch(r"[a-z]+(?:_[a-z]+)+", body[:128]):  # an incoming webhook
        return Said(hint, (body,), body)
    return None if _is_ok(reply) or not body else Said(hint, (), "" if _is_phrase(body[:64], reply) else text(body))


def _of_aws(vocabulary: str, names: list[str], words: str) -> Said:
    """Cut AWS codes to their names: "com.amazon.sqs#Name", "Name:http://...", "AWS.SimpleQueueService.Name"."""
    cut = [name.partition(":")[0].rpartition("#")[2].strip() for name in names]
    short = [name.rpartition(".")[2] for name in cut]
    return Said(vocabulary, _codes(*_constants(words), *short, *cut), text(words))


def _aws(document: Document, hint: str | None, reply: HttpReply) -> Said | None:
    error = as_map(document.get("Error"))
    names = [
        code(reply.headers.get("x-amzn-errortype")),
        code(document.get("__type")),
        code(error.get("Code")),
        code(reply.headers.get("x-amzn-query-error")).partition(";")[0],
    ]
    if hint == "aws" and not any(names):
        names += [code(document.get(name)) for name in ("code", "Code", "errorCode", "errorType")]
    if not any(names):
        return None
    words = [text(part.get(name)) for part in (document, error) for name in ("message", "Message", "errorMessage")]
    reasons = _codes(document.get("Reason"), document.get("reason"))
    said = _of_aws("aws", [name for name in names if name], next((each for each in words if each), ""))
    return said._replace(codes=_codes(*reasons, *said.codes))


def _google(document: Document, hint: str | None, reply: HttpReply) -> Said | None:
    error = as_map(document.get("error"))
    details, errors = as_list(error.get("details")), as_list(error.get("errors"))
    status = code(error.get("status"))
    is_shape = isinstance(error.get("code"), int) and (status.isupper() or details or errors)
    if not is_shape and not (error and hint in ("google", "fcm")):
        return None
    push = [code(at(item, "errorCode")) for item in details]
    is_push = any(push) or hint == "fcm" or any("FcmError" in code(at(item, "@type")) for item in details)
    reasons = [code(at(item, "reason")) for item in (*errors, *details)]
    violations = [at(item, "fieldViolations", 0, "description") for item in details]
    waits = [_DELAY.fullmatch(code(at(item, "retryDelay"))) for item in details]
    return Said(
        "fcm" if is_push else "google",
        _codes(*push, *reasons, status),
        join(error.get("message"), *violations, *(at(item, "message") for item in errors)),
        next((float(wait[1]) for wait in waits if wait), None),
    )


def _legacy_fcm(document: Document, hint: str | None, reply: HttpReply) -> Said | None:
    results = document.get("results")
    found = next((name for item in as_list(results) if (name := code(at(item, "error")))), "")
    is_shape = bool(found) and ("multicast_id" in document or hint == "fcm")
    return Said("fcm", (found,), found) if is_shape else None


def _meta(document: Document, hint: str | None, reply: HttpReply) -> Said | None:
    error = as_map(document.get("error"))
    is_shape = "fbtrace_id" in error or code(error.get("type")) in ("OAuthException", "GraphMethodException")
    if not is_shape and not (error and hint == "whatsapp"):
        return None
    words = join(error.get("message"), error.get("error_data"), error.get("error_user_msg"))
    return Said("whatsapp", _codes(error.get("error_subcode"), error.get("code")), words)


def _stripe(document: Document, hint: str | None, reply: HttpReply) -> Said | None:
    error = as_map(document.get("error"))
    kind = code(error.get("type"))
    is_shape = kind.endswith("_error") and document.get("type") != "error" and hint is None
    if not (is_shape or (error and hint == "stripe")):
        return None
    return Said("stripe", _codes(error.get("decline_code"), error.get("code"), kind), text(error.get("message")))


def _microsoft(document: Document, hint: str | None, reply: HttpReply) -> Said | None:
    error = as_map(document.get("error"))
    name = error.get("code")
    inner = first_map(error.get("innerError") or error.get("innererror"))
    is_shape = isinstance(name, str) and (inner or name.startswith("Error") or hint == "microsoft")
    if not is_shape:
        return None
    deeper = inner.get("innerError") or inner.get("innererror")
    codes = _codes(at(deeper, "code"), inner.get("code"), at(error, "details", 0, "code"), name)
    return Said("microsoft", codes, text(error.get("message")))


def _twilio(document: Document, hint: str | None, reply: HttpReply) -> Said | None:
    number_ = code(document.get("code"))
    if not number_.isdigit() or not (hint == "twilio" or "more_info" in document):
        return None
    return Said("twilio", (number_,), join(document.get("message"), document.get("detail")))


def _vonage(document: Document, hint: str | None, reply: HttpReply) -> Said | None:
    for item in as_list(document.get("messages"))[:_MAX_ITEMS]:
        status = code(at(item, "status"))
        is_shape = hint == "vonage" or "message-count" in document or "error-text" in as_map(item)
        if is_shape and status.isdigit() and status != "0":
            return Said("vonage", (status,), text(at(item, "error-text")))
    where = code(document.get("type"))
    if hint == "vonage" or "vonage.com" in where or "nexmo.com" in where:
        status = code(document.get("status"))
        name = _PROBLEM.search(where)
        named = _codes(
            name[1] if name else None, document.get("code"), document.get("error-code"), document.get("error_code")
        )
        legacy = f"verify.{status}" if status.isdigit() and "error_text" in document and status != "0" else None
        words = join(
            *(document.get(key) for key in ("title", "detail", "error_text", "error-code-label", "error_title"))
        )
        return Said("vonage", _codes(*named, legacy), words) if named or legacy or not _is_ok(reply) else None
    return None


def _telegram(document: Document, hint: str | None, reply: HttpReply) -> Said | None:
    if document.get("ok") is not False or not ("error_code" in document or "description" in document):
        return None
    words = _PHRASE.sub("", text(document.get("description")))
    codes = _codes(*_constants(words), document.get("error_code"))
    return Said("telegram", codes, words, number(at(document, "parameters", "retry_after")))


def _slack(document: Document, hint: str | None, reply: HttpReply) -> Said | None:
    name = code(document.get("error"))
    if document.get("ok") is not False or not name:
        return None
    words = join(at(document, "response_metadata", "messages"), document.get("errors")) or name
    return Said("slack", (name,), words)


def _postmark(document: Document, hint: str | None, reply: HttpReply) -> Said | None:
    name = code(document.get("ErrorCode"))
    if not name.isdigit() or "Message" not in document:
        return None
    return Said("postmark", (name,), text(document.get("Message"))) if name != "0" else None


def _mandrill(document: Document, hint: str | None, reply: HttpReply) -> Said | None:
    status, name = code(document.get("status")), code(document.get("name"))
    if status == "error" and name and "code" in document:
        return Said("mandrill", (name,), text(document.get("message")))
    if status not in ("rejected", "invalid") or not ("reject_reason" in document or hint == "mandrill"):
        return None
    return Said("mandrill", _codes(document.get("reject_reason"), status), text(document.get("queued_reason")))


def _resend(document: Document, hint: str | None, reply: HttpReply) -> Said | None:
    name = code(document.get("name"))
    if not name or not ("statusCode" in document or hint == "resend") or not name.islower():
        return None
    return Said("resend", (name,), text(document.get("message")))


def _apns(document: Document, hint: str | None, reply: HttpReply) -> Said | None:
    reason = code(document.get("reason"))
    if not reason.isalnum() or not (hint == "apns" or document.keys() <= {"reason", "timestamp"}):
        return None
    return Said("apns", (reason,), reason)


def _expo(document: Document, hint: str | None, reply: HttpReply) -> Said | None:
    data = document.get("data")
    items = as_list(data)[:_MAX_ITEMS] or [data]
    if hint == "expo":  # receipts, by their ids
        items += list(as_map(data).values())[:_MAX_ITEMS]
    for item in items:
        if at(item, "status") == "error" and (hint == "expo" or "details" in as_map(item)):
            return Said("expo", _codes(at(item, "details", "error")), text(at(item, "message")))
    error = first_map(document.get("errors"))
    name = code(error.get("code"))
    return (
        Said("expo", (name,), text(error.get("message")))
        if name and (hint == "expo" or name.startswith("PUSH_"))
        else None
    )


def _mailjet(document: Document, hint: str | None, reply: HttpReply) -> Said | None:
    message = next(
        (as_map(item) for item in as_list(document.get("Messages")) if at(item, "Status") == "error"), document
    )
    error = first_map(message.get("Errors")) or message
    name = code(error.get("ErrorCode"))
    words = join(error.get("ErrorMessage"), error.get("ErrorInfo"), fields(error))
    is_shape = "ErrorMessage" in error and (
        "StatusCode" in error or "ErrorIdentifier" in error or name or hint == "mailjet"
    )
    return Said("mailjet", _codes(name), words) if is_shape else None


def _unisender(document: Document, hint: str | None, reply: HttpReply) -> Said | None:
    failed = list(as_map(document.get("failed_emails")).values())
    is_error = document.get("status") == "error" and "code" in document and hint in ("unisender", None)
    if not (is_error or failed) or not (hint == "unisender" or "failed_emails" in document):
        return None
    return Said(
        "unisender", _codes(*failed, document.get("code")), join(document.get("message"), document.get("error"))
    )


def _errors(document: Document, hint: str | None, reply: HttpReply) -> Said | None:
    """Read the lists of errors of SendGrid and SparkPost."""
    error = first_map(document.get("errors"))
    if "message" not in error or hint not in ("sendgrid", "sparkpost", None):
        return None
    name, words = code(error.get("code")), join(error.get("message"), error.get("description"))
    if hint == "sparkpost" or (hint is None and name.isdigit() and len(name) in (4, 5)):
        return Said("sparkpost", _codes(name), words)
    if hint == "sendgrid" or ("field" in error and "help" in error):
        more = [at(item, "message") for item in as_list(document.get("errors"))]
        where = re.sub(r"\.\d+", "", code(error.get("field")))  # "personalizations.0.to.0.email"
        return Said("sendgrid", _codes(name, error.get("error_id"), where), join(*more))
    return None


def _plain(document: Document, hint: str | None, reply: HttpReply) -> Said | None:
    """Read the forms that many APIs share: problem details (RFC 9457), OAuth (RFC 6749), "error", "errors", "message"."""
    error, errors = document.get("error") or document.get("fault"), document.get("errors")
    is_error = (
        bool(error or errors)
        or document.get("success") is False
        or document.get("ok") is False
        or code(document.get("status")).lower() in _FAILED
    )
    if _is_ok(reply) and not is_error:
        return None
    first, inner = first_map(errors), as_map(error)
    kind = _PROBLEM.search(code(document.get("type")))
    name = error if isinstance(error, str) and re.fullmatch(r"[\w.-]+", error[:128]) else None
    values = [
        *(
            part.get(key)
            for part in (inner, first)
            for key in ("code", "errorCode", "error_code", "reason", "type", "status")
        ),
        at(first, "extensions", "code"),
        *(document.get(key) for key in ("code", "errorCode", "error_code", "error_type", "errorType", "reason")),
        name,
        kind[1] if kind else None,
    ]
    words = join(
        *(document.get(key) for key in ("title", "detail", "message", "Message", "error_description", "description")),
        error,
        errors,
        fields(document, inner, errors, document.get("detail")),
        named_fields(name for name, value in as_map(errors).items() if isinstance(value, (list, str))),
    )
    wait = number(document.get("retry_after", document.get("retryAfter", inner.get("retry_after"))))
    codes = tuple(found for found in _codes(*values) if not (found.isdigit() and len(found) <= 3))
    vocabulary = hint or ("oauth" if name and not errors else None)  # RFC 6749 section 5.2: a name and nothing else
    words = "" if _is_phrase(words, reply) else words
    return Said(vocabulary, codes, words, None if wait is None else max(0.0, wait))


_READERS: Final[tuple[_Reader, ...]] = (
    _aws, _meta, _google, _legacy_fcm, _stripe, _microsoft, _twilio, _vonage, _telegram, _slack, _postmark, _mandrill,
    _resend, _apns, _expo, _mailjet, _unisender, _errors,
)  # fmt: skip
"""The shapes in the order in which they are asked; what none of them knows is read by the common names."""
