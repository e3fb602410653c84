"""The short look at an error decides as the close one does."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from retrykit import ErrorClass, ErrorClassifier, TaggedError, retry
from retrykit.classification import Rule, tag
from retrykit.events import Event
from retrykit.policy import decorrelated, exponential
from retrykit.retrying.attempts import Attempts
from retrykit.testing import ManualClock
from tests.retrying.flaky import Flaky


class SlowDownError(TaggedError):
    """A provider that asks for a wait."""

    error_class = ErrorClass.PROVIDER_THROTTLED
    retry_after = 7.0


class OwnTimeoutError(TimeoutError):
    """An application's own."""


def caused() -> Exception:
    error = ConnectionResetError("down")
    error.__cause__ = SlowDownError("slow down")
    return error


def handled() -> Exception:
    error = RuntimeError("down")
    error.__context__ = SlowDownError("slow down")
    return error


def marked() -> Exception:
    error = ConnectionResetError("down")
    error.retry_after = 5.0  # type: ignore[attr-defined]
    return error


def tagged() -> Exception:
    @tag(ErrorClass.PROVIDER_THROTTLED, on=ConnectionResetError, retry_after=9)
    def fail() -> None:
        raise ConnectionResetError("down")

    try:
        fail()
    except ConnectionResetError as error:
        return error
    raise AssertionError


ERRORS = [
    lambda: ConnectionRefusedError("no answer"),
    lambda: ConnectionRefusedError(111, "no answer"),
    lambda: FileNotFoundError(2, "no such file", "name.txt"),
    lambda: OSError(24, "too many open files"),
    TimeoutError,
    lambda: KeyError("x"),
    lambda: ValueError("no"),
    lambda: OwnTimeoutError("own"),
    lambda: SlowDownError("slow down"),
    lambda: ExceptionGroup("several", [SlowDownError("slow down"), ValueError("no")]),
    lambda: ExceptionGroup("one", [ConnectionResetError("down")]),
    lambda: UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad start"),
    caused,
    handled,
    marked,
    tagged,
    KeyboardInterrupt,
]

TYPES = [OSError, (OSError, ValueError), Exception, ConnectionError, ExceptionGroup, LookupError]


def lived(policy: retry, clock: ManualClock, made: list[int]) -> tuple[Any, ...]:
    """Return all that a caller could tell of a call whose attempts fail with these errors."""
    flaky = Flaky(*(ERRORS[place]() for place in made))
    seen: list[Any] = []

    def call() -> Any:
        current = policy.current
        seen.append(
            (
                current.number,
                [
                    (
                        *(each.number, each.failed_at, each.action, each.delay, each.reason),
                        *(each.failure.error_class, each.failure.outcome, each.failure.error_message),
                        *(each.failure.error_code, each.failure.retry_after),
                    )
                    for each in current.history
                ],
            )
        )
        return flaky()

    result: Any
    try:
        result = policy(call)()
    except BaseException as error:  # noqa: BLE001 - whatever it is
        result = (type(error), str(error), getattr(error, "__notes__", []))
    return result, flaky.calls, clock.sleeps, seen, policy.current.number


@given(
    made=st.lists(st.integers(0, len(ERRORS) - 1), max_size=4),
    on=st.sampled_from(TYPES),
    attempts=st.integers(1, 4),
    backoff=st.sampled_from([exponential(1, cap="10s"), decorrelated(1, cap=60), [0], [3, 1]]),
    seed=st.integers(0, 99),
)
@example(made=[12, 0], on=OSError, attempts=3, backoff=[0], seed=1)
@example(made=[13, 0], on=Exception, attempts=3, backoff=[0], seed=1)
@example(made=[9, 10], on=ExceptionGroup, attempts=3, backoff=[0], seed=1)
def test_glance_decides_as_a_close_look(made: list[int], on: Any, attempts: int, backoff: Any, seed: int) -> None:
    """The same result, calls, waits, notes and history with a listener, which wants a close look, and without."""
    told = []
    for listeners in ([], [lambda _: None]):
        clock = ManualClock()
        policy = retry(
            on=on, attempts=attempts, backoff=backoff, rng=random.Random(seed), clock=clock, on_event=listeners
        )
        assert bool(policy.quick_types) is not bool(listeners)
        told.append(lived(policy, clock, made))
    assert told[0] == told[1]


@pytest.mark.parametrize("place", [0, 1, 3, 4, 5])
def test_glance_suffices_for_pythons_own_errors(monkeypatch: pytest.MonkeyPatch, place: int) -> None:
    """Nothing is classified while the attempts go on."""

    def never(*_: Any) -> Any:
        raise AssertionError("looked closely")

    monkeypatch.setattr(Attempts, "_after", never)
    assert retry(on=Exception, backoff=[0])(Flaky(ERRORS[place](), ERRORS[place]()))() == "answer"


def test_glance_is_not_taken_with_a_classifier_of_ones_own() -> None:
    """It may know a wait that the error does not carry, and its history speaks its classes."""
    classifier = ErrorClassifier(
        [Rule("mine", ErrorClass.PROVIDER_THROTTLED, exceptions=[ConnectionResetError], retry_after="40s")]
    )
    clock, heard = ManualClock(), list[Event]()
    policy = retry(on=OSError, classifier=classifier, backoff=[1], clock=clock)
    flaky, seen = Flaky(ConnectionResetError("x")), list[Any]()

    @policy
    def fetch() -> None:
        seen.append([each.failure.error_class for each in policy.current.history])
        flaky()

    fetch()
    assert (clock.sleeps, seen, heard) == ([40.0], [[], ["provider_throttled"]], [])
