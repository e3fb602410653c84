"""What became of what was sent: a send's answer, questions to the provider, and what it reports.

The names here are loaded on first use.
"""

TYPE_CHECKING = False  # as in `retrykit` itself
if TYPE_CHECKING:
    from ..classification.provider_event import EventKind, ProviderEvent
    from .bounces import parse_bounce
    from .endpoint import WebhookEndpoint
    from .events import parse_event, parse_events
    from .log import AsyncDeliveryLog, DeliveryLog
    from .lookup import AsyncStatusLookup, NotAccepted, Sent, StatusLookup
    from .metadata import (
        mailgun_variables,
        postmark_metadata,
        sendgrid_custom_args,
        sendgrid_smtp_header,
        ses_message_tags,
        smtp_headers,
    )
    from .sources import AsyncProviderEvents, EventFile, EventList, ProviderEvents
    from .webhooks import MailgunWebhook, PostmarkWebhook, SendGridWebhook, SesWebhook, Webhook

__all__ = [
    "AsyncDeliveryLog",
    "AsyncProviderEvents",
    "AsyncStatusLookup",
    "DeliveryLog",
    "EventFile",
    "EventKind",
    "EventList",
    "MailgunWebhook",
    "NotAccepted",
    "PostmarkWebhook",
    "ProviderEvent",
    "ProviderEvents",
    "SendGridWebhook",
    "Sent",
    "SesWebhook",
    "StatusLookup",
    "Webhook",
    "WebhookEndpoint",
    "mailgun_variables",
    "parse_bounce",
    "parse_event",
    "parse_events",
    "postmark_metadata",
    "sendgrid_custom_args",
    "sendgrid_smtp_header",
    "ses_message_tags",
    "smtp_headers",
]

_HOMES = {
    "..classification.provider_event": "EventKind ProviderEvent",
    ".bounces": "parse_bounce",
    ".endpoint": "WebhookEndpoint",
    ".events": "parse_event parse_events",
    ".log": "AsyncDeliveryLog DeliveryLog",
    ".lookup": "AsyncStatusLookup NotAccepted Sent StatusLookup",
    ".metadata": (
        "mailgun_variables postmark_metadata sendgrid_custom_args sendgrid_smtp_header ses_message_tags smtp_headers"
    ),
    ".sources": "AsyncProviderEvents EventFile EventList ProviderEvents",
    ".webhooks": "MailgunWebhook PostmarkWebhook SendGridWebhook SesWebhook Webhook",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    """Load a public name from the module it lives in (PEP 562)."""
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(home, __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names, loaded or not."""
    return sorted({*globals(), *__all__})
