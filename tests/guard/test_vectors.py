"""Stories of idempotency keys that specifications and other libraries tell, on a real guard.

Restated from the IETF's Idempotency-Key draft (conflict, mismatch), AWS Powertools (expiry) and Stripe's documentation (a stored
error); that a timeout leaves an unknown outcome behind is our own rule.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import pytest

from retrykit import ErrorClass, TaggedError
from retrykit.backends.memory import MemoryBackend
from retrykit.errors import (
    AlreadyInProgressError,
    FingerprintMismatchError,
    OutcomeUnknownError,
    StoredFailureError,
)
from retrykit.guard import IdempotencyGuard
from retrykit.testing import manual_clock


class ServerError(TaggedError):
    error_class = ErrorClass.CONTENT_REJECTED


STORIES: dict[str, list[tuple[float, str, Any, str]]] = {
    "a second call while the first one runs is a conflict, and no second run": [
        (0, "begin", "A", "execute"),
        (59, "call", "A", "in_progress"),
    ],
    "the same key with another payload is refused": [
        (0, "call", "A", "execute"),
        (2, "call", "B", "mismatch"),
    ],
    "when its time is over the key is new": [
        (0, "call", "A", "execute"),
        (3599, "call", "A", "replay"),
        (3602, "call", "A", "execute"),
    ],
    "a timeout does not free the key": [
        (0, "time out", "A", "execute"),
        (11, "call", "A", "unknown"),
        (100, "confirm", "delivered", "confirmed"),
        (101, "call", "A", "replay"),
    ],
    "an error for good is the answer from then on": [
        (0, "fail", "A", "execute"),
        (2, "call", "A", "stored failure"),
    ],
}


@pytest.mark.parametrize("story", STORIES)
def test_story_goes_as_told(story: str) -> None:
    """Step by step, at its seconds."""
    with manual_clock() as clock, ExitStack() as begun:
        guard = IdempotencyGuard(MemoryBackend(clock=clock).claims, ttl="1h", lease="1m", recover=lambda known: known)
        began = clock.now()
        for at, act, what, expected in STORIES[story]:
            clock.advance(at - (clock.now() - began).total_seconds())
            assert expected == step(guard, begun, act, what), f"at {at} s"


def step(guard: IdempotencyGuard, begun: ExitStack, act: str, what: str) -> str:
    """Do one thing with the key, and say what came of it."""
    if act == "confirm":
        return "confirmed" if guard.confirm("k", what) else "not unknown"
    if act == "begin":
        begun.enter_context(guard.hold("k", payload=what))
        return "execute"
    try:
        with guard.hold("k", payload=what) as hold:
            if not hold.is_new:
                return "replay"
            if act == "time out":
                raise TimeoutError("no answer")
            if act == "fail":
                raise ServerError("500")
            return "execute"
    except AlreadyInProgressError:
        return "in_progress"
    except FingerprintMismatchError:
        return "mismatch"
    except OutcomeUnknownError:
        return "unknown"
    except StoredFailureError:
        return "stored failure"
    except (TimeoutError, ServerError):
        return "execute"
