"""The shapes of providers' webhook events: where each says what has happened, to whom, and why.

One reader for each provider; it is given one event as an object, and takes what is there. A reader for an event of nobody's shape
looks at the names that many providers use.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeAlias, cast

from ..classification.answers import quoted_reply
from ..classification.documents import as_list, as_map, at, code, first_map, join, number, text
from ..classification.provider_event import EventKind, ProviderEvent
from ..codec import JSON
from ..message import MAX_ID_LENGTH
from .metadata import HEADER

__all__ = ["READERS", "Event", "of_form", "read_event"]

Event: TypeAlias = Mapping[str, object]
_Fields: TypeAlias = dict[str, Any]
K = EventKind

_KINDS: Final = {
    name: kind
    for kind, names in {
        K.ACCEPTED: "accepted queued sending sent send processed injection enqueued scheduled buffered submitted request requests ready "
                    "receiving received outbound ok_sent",
        K.DELIVERED: "delivered delivery ok_delivered success",
        K.DEFERRED: "deferred deferral delay delayed deliverydelay delivery_delayed soft_bounced_retry",
        K.BOUNCED: "bounce bounced hard_bounce soft_bounce hard_bounced soft_bounced hardbounce softbounce failed failure undelivered out_of_band "
                   "expired error undeliverable",
        K.REJECTED: "reject rejected dropped blocked policy_rejection generation_failure generation_rejection renderingfailure suppressed "
                    "rendering_failure invalid invalid_email smtpapierror skipped",
        K.COMPLAINED: "complaint complained spam spamcomplaint spam_complaint spamreport abuse",
        K.UNSUBSCRIBED: "unsub unsubscribe unsubscribed group_unsubscribe list_unsubscribe link_unsubscribe subscriptionchange",
        K.ENGAGED: "open opened click clicked read initial_open amp_open amp_click amp_initial_open unique_opened proxy_open loadedbyproxy "
                   "played uniqueopened seen",
    }.items()
    for name in names.split()
}  # fmt: skip
_MAX_INSTANT: Final = 253_402_300_799
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_OWN_IDS: Final = ("retrykit_id", "message_id", "retrykit-id", "message-id")
_UNDER: Final = re.compile(r"[\s.-]+")
_SENDGRID_SERVER: Final = re.compile(r"\.(?:filter|recvd)")


def _kind(name: object) -> EventKind:
    return _KINDS.get(_UNDER.sub("_", code(name).lower()), K.OTHER)


def _codes(*values: object) -> tuple[str, ...]:
    return tuple(dict.fromkeys(found for value in values if (found := code(value))))[:8]


def _id(*values: object) -> str | None:
    return next((found for value in values if (found := code(value))), None)


def _own_id(*metadata: object) -> str | None:
    """Return our own id of the message, where what we sent along is given back: whole, or it could be that of another message."""
    values = (as_map(each).get(name) for each in metadata for name in _OWN_IDS)
    return next((found for value in values if (found := _whole(value))), None)


def _whole(value: object) -> str:
    """Return an id as it was sent, empty where it can be none."""
    if not isinstance(value, str):
        return code(value)
    return value if len(value) <= MAX_ID_LENGTH and not value.isspace() else ""


def _header_id(headers: object) -> str | None:
    """Return our own id of the message from the headers of the mail, each an object of name and value."""
    named = (as_map(header) for header in as_list(headers))
    return next(
        (found for each in named if code(each.get("name")).lower() == HEADER.lower() and (found := _whole(each.get("value")))),
        None,
    )  # fmt: skip


def _sendgrid_id(event: Event) -> str | None:
    """Return the id that the send was answered with: in events the name of the server stands behind it."""
    known = code(event.get("sg_message_id"))
    return _SENDGRID_SERVER.split(known, maxsplit=1)[0] or _id(event.get("smtp-id"))


def _instant(value: object) -> datetime | None:
    """Read seconds or milliseconds since 1970, or a date of RFC 3339 or of SQL in UTC."""
    seconds = number(value)
    if seconds is not None:
        if seconds > 100_000_000_000:
            seconds /= 1_000
        return _EPOCH + timedelta(seconds=round(seconds, 3)) if 0 < seconds <= _MAX_INSTANT else None
    try:
        date = datetime.fromisoformat(text(value)[:40])
        return date.replace(tzinfo=UTC) if date.tzinfo is None else date.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _event(
    vocabulary: str,
    kind: EventKind,
    *codes: object,
    words: str = "",
    status: tuple[object, object] = (None, None),
    ids: tuple[str | None, str | None, str | None] = (None, None, None),
    recipient: object = None,
    at: object = None,
) -> _Fields:
    """Return the fields of an event.

    Args:
        vocabulary: whose words the codes are.
        kind: what has happened.
        codes: the codes, the most specific first.
        words: what was said about the cause.
        status: the SMTP code and the enhanced code, where they stand apart.
        ids: the provider's id of the event, its id of the message, our own.
        recipient: the address or number.
        at: when.
    """
    basic = number(status[0])
    reply = quoted_reply(words, None if basic is None else int(basic), text(status[1]) or None)
    return {
        "kind": kind,
        "codes": _codes(*codes),
        "vocabulary": vocabulary,
        "text": words,
        "reply": reply,
        "event_id": ids[0],
        "provider_id": ids[1],
        "message_id": ids[2],
        "recipient": text(recipient)[:512] or None,
        "at": _instant(at),
    }


def _ses(event: Event) -> _Fields | None:
    name = code(event.get("notificationType")) or code(event.get("eventType"))
    if not name:
        return None
    mail = as_map(event.get("mail"))
    part = as_map(event.get(name[:1].lower() + name[1:])) or as_map(event.get("failure"))
    kinds = {"bounce": "bounceType", "complaint": "complaintFeedbackType", "deliverydelay": "delayType"}
    main = code(part.get(kinds.get(name.lower(), "reason")))
    sub = code(part.get("bounceSubType")) or code(part.get("complaintSubType"))
    prefix = {"deliverydelay": "Delay", "reject": "Reject", "complaint": "Complaint"}.get(name.lower(), "")
    full = "/".join(each for each in (prefix, main, sub) if each)
    groups = [as_list(part.get(key)) for key in ("bouncedRecipients", "complainedRecipients", "delayedRecipients")]
    who = first_map([person for group in groups for person in group])
    words = join(who.get("diagnosticCode"), part.get("errorMessage"), part.get("reason"))
    tags = as_map(mail.get("tags"))
    has_left = at(part, "newTopicPreferences", "unsubscribeAll") is True
    return _event(
        "ses", K.UNSUBSCRIBED if has_left else _kind(name), full, prefix or main, name if not full else None, words=words, status=(None, who.get("status")),
        ids=(_id(part.get("feedbackId")), _id(mail.get("messageId")), _own_id({key: at(tags, key, 0) for key in _OWN_IDS}) or _header_id(mail.get("headers"))),
        recipient=who.get("emailAddress") or at(part, "recipients", 0) or at(mail, "destination", 0),
        at=part.get("timestamp") or mail.get("timestamp"),
    )  # fmt: skip


def _sendgrid(event: Event) -> _Fields | None:
    if "event" not in event or "event-data" in event:
        return None
    name = code(event.get("event"))
    words = join(event.get("reason"), event.get("response"))
    codes = (event.get("bounce_classification"), event.get("reason") if name == "dropped" else None, event.get("type"))
    return _event(
        "sendgrid", _kind(name), *codes, words=words, status=(None, event.get("status")),
        ids=(_id(event.get("sg_event_id")), _sendgrid_id(event), _own_id(event)),
        recipient=event.get("email"), at=event.get("timestamp"),
    )  # fmt: skip


def _mailgun(event: Event) -> _Fields | None:
    data = as_map(event.get("event-data"))
    if not data:
        return None
    name, status = code(data.get("event")), as_map(data.get("delivery-status"))
    is_for_now = name == "failed" and code(data.get("severity")) == "temporary"
    headers = at(data, "message", "headers")
    return _event(
        "mailgun", K.DEFERRED if is_for_now else _kind(name), status.get("code"), data.get("reason"), data.get("severity"),
        words=join(status.get("message"), status.get("description"), at(data, "reject", "reason"), at(data, "reject", "description")),
        status=(status.get("code"), status.get("enhanced-code")),
        ids=(_id(data.get("id")), _id(at(headers, "message-id")), _own_id(data.get("user-variables"))),
        recipient=data.get("recipient"), at=data.get("timestamp"),
    )  # fmt: skip


_POSTMARK_KINDS: Final = {
    "transient": K.DEFERRED, "dnserror": K.BOUNCED, "spamcomplaint": K.COMPLAINED, "unsubscribe": K.UNSUBSCRIBED,
    "smtpapierror": K.REJECTED, "manuallydeactivated": K.REJECTED, "subscribe": K.OTHER, "autoresponder": K.OTHER,
    "challengeverification": K.DEFERRED, "addresschange": K.OTHER, "openrelaytest": K.OTHER, "inbounderror": K.OTHER,
}  # fmt: skip


def _postmark(event: Event) -> _Fields | None:
    record = code(event.get("RecordType"))
    if not record:
        return None
    kind = _kind(record)
    if kind is K.BOUNCED:
        kind = _POSTMARK_KINDS.get(code(event.get("Type")).lower(), K.BOUNCED)
    if kind is K.UNSUBSCRIBED and event.get("SuppressSending") is False:
        kind = K.OTHER
    return _event(
        "postmark", kind, event.get("Type"), event.get("SuppressionReason"),
        words=text(event.get("Details")) or text(event.get("Description")),
        ids=(_id(event.get("ID")), _id(event.get("MessageID")), _own_id(event.get("Metadata"))),
        recipient=event.get("Email") or event.get("Recipient"),
        at=next((event[key] for key in ("BouncedAt", "DeliveredAt", "ChangedAt", "ReceivedAt") if key in event), None),
    )  # fmt: skip


def _sparkpost(event: Event) -> _Fields | None:
    inner = next((found for part in as_map(event.get("msys")).values() if (found := as_map(part))), event)
    if not ("msys" in event or "bounce_class" in event or ("type" in event and "rcpt_to" in event)):
        return None
    return _event(
        "sparkpost", _kind(inner.get("type")), inner.get("bounce_class"),
        words=text(inner.get("raw_reason")) or text(inner.get("reason")), status=(inner.get("error_code"), None),
        ids=(_id(inner.get("event_id")), _id(inner.get("message_id")), _own_id(inner.get("rcpt_meta"))),
        recipient=inner.get("rcpt_to") or inner.get("raw_rcpt_to"), at=inner.get("timestamp"),
    )  # fmt: skip


def _mandrill(event: Event) -> _Fields | None:
    message = as_map(event.get("msg")) or event
    name = code(event.get("event")) or code(event.get("status"))
    if not name or not ("msg" in event or "reject_reason" in event):
        return None
    reject = message.get("reject")
    return _event(
        "mandrill", _kind(name), message.get("reject_reason"), at(reject, "reason"), message.get("bounce_description"), name,
        words=text(message.get("diag")) or text(at(message, "smtp_events", 0, "diag")),
        ids=(None, _id(message.get("_id"), event.get("_id")), _own_id(message.get("metadata"))),
        recipient=message.get("email"), at=event.get("ts") or message.get("ts"),
    )  # fmt: skip


def _mailjet(event: Event) -> _Fields | None:
    if not ("error_related_to" in event or "MessageID" in event or "mj_message_id" in event):
        return None
    name, error = code(event.get("event")), code(event.get("error"))
    is_hard = event.get("hard_bounce") is True
    return _event(
        "mailjet", _kind(name), error, "hard_bounce" if is_hard else None, event.get("error_related_to"),
        words=text(event.get("comment")) or error,
        ids=(None, _id(event.get("MessageID"), event.get("mj_message_id")), _id(event.get("CustomID"))),
        recipient=event.get("email"), at=event.get("time"),
    )  # fmt: skip


def _unisender(event: Event) -> _Fields | None:
    data = as_map(event.get("event_data"))
    if not data:
        return None
    delivery = as_map(data.get("delivery_info"))
    return _event(
        "unisender", _kind(data.get("status")), delivery.get("delivery_status"), data.get("status"),
        words=text(delivery.get("destination_response")),
        ids=(None, _id(data.get("job_id")), _own_id(data.get("metadata"))),
        recipient=data.get("email"), at=data.get("event_time"),
    )  # fmt: skip


def _twilio(event: Event) -> _Fields | None:
    status = code(event.get("MessageStatus")) or code(event.get("SmsStatus"))
    if not status:
        return None
    return _event(
        "twilio", _kind(status), event.get("ErrorCode"), event.get("ChannelStatusCode"),
        words=join(event.get("ErrorMessage"), event.get("ChannelStatusMessage")),
        ids=(None, _id(event.get("MessageSid"), event.get("SmsSid")), None), recipient=event.get("To"),
    )  # fmt: skip


def _vonage(event: Event) -> _Fields | None:
    if "message_uuid" in event:  # Messages API
        error = as_map(event.get("error"))
        name = code(error.get("title")) or code(error.get("type")).rpartition("#")[2]
        words = join(error.get("detail"), error.get("reason"))
        return _event(
            "vonage", _kind(event.get("status")), name, error.get("code"), words=words,
            ids=(None, _id(event.get("message_uuid")), _id(event.get("client_ref"))),
            recipient=event.get("to") if isinstance(event.get("to"), str) else at(event, "to", "number"), at=event.get("timestamp"),
        )  # fmt: skip
    if "msisdn" not in event or "status" not in event:
        return None
    err = code(event.get("err-code"))
    return _event(
        "vonage_receipt", _kind(event.get("status")), err if err != "0" else None,
        ids=(None, _id(event.get("messageId"), event.get("message-id")), _id(event.get("client-ref"))),
        recipient=event.get("msisdn"), at=event.get("message-timestamp"),
    )  # fmt: skip


def _resend(event: Event) -> _Fields | None:
    name, data = code(event.get("type")), as_map(event.get("data"))
    if not name.startswith("email.") or not data:
        return None
    bounce = as_map(data.get("bounce"))
    main, sub = code(bounce.get("type")), code(bounce.get("subType"))
    words = join(bounce.get("message"), at(data, "failed", "reason"), at(data, "suppressed", "message"))
    return _event(
        "resend", _kind(name.removeprefix("email.")), main and sub and f"{main}/{sub}", main, words=words,
        ids=(None, _id(data.get("email_id")), _own_id(data.get("tags"))), recipient=at(data, "to", 0), at=event.get("created_at"),
    )  # fmt: skip


def _brevo(event: Event) -> _Fields | None:
    if "event" not in event or not ("message-id" in event or "ts_event" in event):
        return None
    name = code(event.get("event"))
    return _event(
        "brevo", _kind(name), name, words=text(event.get("reason")),
        ids=(None, _id(event.get("message-id")), _id(event.get("X-Mailin-custom"))),
        recipient=event.get("email"), at=event.get("ts_event") or event.get("ts"),
    )  # fmt: skip


def _any(event: Event) -> _Fields:
    """Read an event of nobody's shape by the names that many providers use."""
    inner = next((as_map(event[key]) for key in ("data", "payload", "event_data") if as_map(event.get(key))), event)
    names = [part.get(key) for part in (event, inner) for key in ("event", "type", "status", "event_type", "eventType")]
    kind = next((found for name in names if (found := _kind(name)) is not K.OTHER), K.OTHER)
    codes = [inner.get(key) for key in ("error_code", "errorCode", "code", "bounce_type", "error")]
    words = join(
        *(inner.get(key) for key in ("reason", "error_message", "errorMessage", "description", "message", "response"))
    )
    return _event(
        "", kind, *codes, words=words, status=(inner.get("smtp_code"), inner.get("enhanced_code")),
        ids=(_id(event.get("event_id")), _id(inner.get("message_id"), inner.get("messageId"), inner.get("id")), _own_id(inner.get("metadata"))),
        recipient=next((inner[key] for key in ("recipient", "email", "to") if text(inner.get(key))), None),
        at=next((part[key] for part in (inner, event) for key in ("timestamp", "created_at", "time", "date") if key in part), None),
    )  # fmt: skip


READERS: Final[Mapping[str, Callable[[Event], _Fields | None]]] = {
    "aws": _ses, "mailgun": _mailgun, "postmark": _postmark, "sparkpost": _sparkpost, "mandrill": _mandrill, "mailjet": _mailjet,
    "unisender": _unisender, "twilio": _twilio, "vonage": _vonage, "resend": _resend, "brevo": _brevo, "sendgrid": _sendgrid,
}  # fmt: skip
"""Readers by vocabulary, specific shapes first; "sendgrid" is known by little."""


def read_event(provider: str, vocabulary: str | None, event: Event) -> ProviderEvent:
    """Read one event.

    Args:
        provider: the provider's name, as the application calls it.
        vocabulary: what that name speaks of; its reader is asked first.
        event: one event as an object.
    """
    own = READERS.get(vocabulary or "")
    asked = [own] if own else []
    asked += [reader for reader in READERS.values() if reader is not own]
    found = next((read for reader in asked if (read := reader(event)) is not None), None) or _any(event)
    found["vocabulary"] = found["vocabulary"] or vocabulary
    return ProviderEvent(provider=provider, raw=cast("JSON", event), **found)


def of_form(pairs: list[tuple[str, str]]) -> dict[str, object]:
    """Return the fields of a form as an object; of repeated ones the last counts."""
    return dict(pairs)
