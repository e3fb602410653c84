"""What became of what was sent: a send's answer, questions to the provider, and the events that it reports."""

from ..classification.provider_event import EventKind, ProviderEvent
from .bounces import parse_bounce
from .events import parse_event, parse_events
from .lookup import AsyncStatusLookup, NotAccepted, Sent, StatusLookup

__all__ = [
    "AsyncStatusLookup",
    "EventKind",
    "NotAccepted",
    "ProviderEvent",
    "Sent",
    "StatusLookup",
    "parse_bounce",
    "parse_event",
    "parse_events",
]
