"""What became of what was sent: a send's answer, questions to the provider, and the events that it reports."""

from ..classification.provider_event import EventKind, ProviderEvent
from .events import parse_event
from .lookup import AsyncStatusLookup, NotAccepted, Sent, StatusLookup

__all__ = [
    "AsyncStatusLookup",
    "EventKind",
    "NotAccepted",
    "ProviderEvent",
    "Sent",
    "StatusLookup",
    "parse_event",
]
