"""What the tests of breakers share: errors of each kind, and breakers without jitter."""

from __future__ import annotations

import smtplib
from typing import Any

from retrykit.breaker import CircuitBreaker
from retrykit.policy.backoff import constant
from retrykit.testing import ManualClock

RECOVERY = constant(60, jitter="none")


def down() -> Exception:
    """Return an error that counts: the other side does not work."""
    return ConnectionRefusedError("no answer")


def refused() -> Exception:
    """Return an error that says that the other side works: it has refused one recipient."""
    return smtplib.SMTPResponseException(550, b"5.1.1 The account does not exist")


def throttled() -> Exception:
    """Return an error that says that we are too fast."""
    return smtplib.SMTPResponseException(421, b"4.7.0 Too many messages, slow down")


def ours() -> Exception:
    """Return an error of our own code, which tells nothing of the other side."""
    return LookupError("a bug")


def breaker(clock: ManualClock | None = None, **settings: Any) -> CircuitBreaker:
    """Return a breaker that opens at the second failure for exactly a minute."""
    rule = {} if "trip" in settings else {"failure_threshold": 2}
    return CircuitBreaker("ses", **{"recovery_timeout": RECOVERY, "clock": clock, **rule, **settings})


def attempt(guard: CircuitBreaker, error: BaseException | None = None) -> bool:
    """Make a call that ends as told; tell whether it was let through."""
    entered = guard.gate or guard.admit()
    if entered is None:
        return False
    if error is not None:
        guard.failed(entered, error)
    elif entered.note is not None:
        entered.note()
    return True


def trip(guard: CircuitBreaker, times: int = 2) -> None:
    """Let it fail."""
    assert [True] * times == [attempt(guard, down()) for _ in range(times)]
