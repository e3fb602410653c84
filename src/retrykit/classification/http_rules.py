"""What an API's words and an HTTP status mean, where no code of the provider's own says it."""

from __future__ import annotations

from typing import Final

from ..failure import ErrorClass as C  # it stands in every row
from ..failure import Outcome
from .rules import Rule

__all__ = ["API_WORDS", "LAST_RULES"]

API_WORDS: Final = (Rule("api.words.rate", C.PROVIDER_THROTTLED, words=("rate limit", "too many requests", "throttl")),)
"""Words in answers of APIs and in events, specific before general."""

LAST_RULES: Final = (
    Rule("http.429", C.PROVIDER_THROTTLED, protocol="http", codes=(429,), source="RFC 6585 section 4"),
    Rule(
        "http.gateway",
        C.PROVIDER_UNAVAILABLE,
        protocol="http",
        codes=(502, 504),
        outcome=Outcome.UNKNOWN,
        source="RFC 9110",
    ),
    Rule("http.5xx", C.PROVIDER_UNAVAILABLE, protocol="http", code_class=5, source="RFC 9110"),
    Rule("event.deferred", C.SOFT_BOUNCE, protocol="event", tokens="kind.deferred"),
)
"""What is left where neither codes nor words say anything: the status, and the kind of the event."""
