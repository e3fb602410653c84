"""Classification: what kind of failure an exception or a provider's answer is, and who is at fault."""

from .classifier import ErrorClassifier
from .config import load_rules
from .http import HttpReply
from .provider_event import EventKind, ProviderEvent
from .rules import Rule, Signal
from .smtp import SmtpReply
from .tags import TaggedError, stage, tag

__all__ = [
    "ErrorClassifier",
    "EventKind",
    "HttpReply",
    "ProviderEvent",
    "Rule",
    "Signal",
    "SmtpReply",
    "TaggedError",
    "load_rules",
    "stage",
    "tag",
]
