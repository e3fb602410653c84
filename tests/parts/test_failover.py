"""Failover: the next provider when the first certainly did not do it."""

from __future__ import annotations

import asyncio
import functools
import pickle
import smtplib
import weakref
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from retrykit import (
    CircuitBreaker,
    ErrorClass,
    ErrorClassifier,
    Failover,
    Outcome,
    Provider,
    RetryLater,
    TaggedError,
    retry,
)
from retrykit.classification import Rule
from retrykit.delivery import Sent
from retrykit.errors import BreakerOpenError, NoProviderAvailableError
from retrykit.failover import AsyncFailover
from retrykit.policy import EMAIL_MATRIX, delays
from retrykit.testing import ManualClock
from retrykit.throttle import AdaptiveThrottle
from tests.colours import Runner, both_loops, cancel, hang, run_asyncio, trio
from tests.retrying.flaky import OwnError, no_collector

Make = Callable[..., Callable[..., Any]]


def in_sync(providers: Mapping[str, Any], **settings: Any) -> Any:
    """Return a failover of the synchronous colour."""
    return Failover(providers, **settings)


class Driven:
    """An asynchronous failover of the same functions, each call driven to its end."""

    def __init__(self, runner: Runner, providers: Mapping[str, Any], **settings: Any) -> None:
        self._runner = runner
        awaited = {name: self._awaited(given) for name, given in providers.items()}
        self._failover = AsyncFailover(awaited, **settings)
        self.breakers = self._failover.breakers
        self.pause_providers = self._failover.pause_providers

    def _awaited(self, given: Any) -> Any:
        if isinstance(given, Provider):
            return Provider(
                self._awaited(given.send), weight=given.weight, breaker=given.breaker, throttle=given.throttle
            )

        async def send(*args: Any, **kwargs: Any) -> Any:
            return given(*args, **kwargs)

        return send

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        async def main() -> Any:
            return await self._failover(*args, **kwargs)

        return self._runner(main)


COLOURS: dict[str, Make] = {
    "sync": in_sync,
    "asyncio": functools.partial(Driven, run_asyncio),
    "trio": functools.partial(Driven, trio.run),
}

every_colour = pytest.mark.parametrize("make", COLOURS.values(), ids=COLOURS.keys())


class Post:
    """A provider that does as it is told, then takes everything."""

    def __init__(self, *outcomes: BaseException) -> None:
        self.outcomes = list(outcomes)
        self.calls = 0

    def __call__(self, message: str = "message", key: str = "key") -> str:
        self.calls += 1
        if self.outcomes:
            raise self.outcomes.pop(0)
        return f"{message}/{key}"


def refused() -> Exception:
    """Certainly not sent."""
    return ConnectionRefusedError("no answer")


def reply(code: int, text: bytes) -> Exception:
    return smtplib.SMTPResponseException(code, text)


class SlowDownError(TaggedError):
    error_class = ErrorClass.PROVIDER_THROTTLED

    def __init__(self, retry_after: float | None = None) -> None:
        super().__init__("slow down")
        self.retry_after = retry_after


class UnavailableError(TaggedError):
    error_class = ErrorClass.PROVIDER_UNAVAILABLE
    outcome = Outcome.REJECTED


@every_colour
def test_failover_asks_the_first_and_nobody_else(make: Make) -> None:
    """By priority, with the arguments of the call, and its name stands in the answer."""
    first, second = Post(), Post()
    send = make({"ses": first, "backup": second})
    assert send("hello", key="k") == Sent("hello/k", "ses")
    assert (first.calls, second.calls) == (1, 0)


@every_colour
@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (None, Sent(None, "ses")),
        ("p-1", Sent("p-1", "ses")),
        (Sent("p-1"), Sent("p-1", "ses")),
        (Sent("p-1", "inner"), Sent("p-1", "inner")),
        (7, 7),
        ({"id": 1}, {"id": 1}),
    ],
)
def test_failover_answer_names_the_provider(make: Make, answer: Any, expected: Any) -> None:
    """Where it is one of a send that says nothing else."""
    assert make({"ses": lambda: answer})() == expected


@every_colour
@pytest.mark.parametrize(
    "error",
    [
        refused(),
        UnavailableError("503"),
        reply(421, b"4.3.2 Service shutting down"),
        reply(550, b"5.7.1 Relaying denied"),
    ],
    ids=["not sent", "rejected as unavailable", "shutting down", "own standing"],
)
def test_failover_goes_on_when_it_was_certainly_not_done_and_not_the_messages_fault(make: Make, error: Any) -> None:
    """Not sent, or rejected for a reason of the provider's or the sender's."""
    first, second = Post(error), Post()
    assert make({"ses": first, "backup": second})("hello", "k") == Sent("hello/k", "backup")
    assert (first.calls, second.calls, error.provider) == (1, 1, "ses")


@every_colour
@pytest.mark.parametrize(
    "error",
    [
        TimeoutError("timed out"),
        ConnectionResetError("reset"),
        ValueError("a bug"),
        reply(550, b"5.1.1 The account does not exist"),
        reply(554, b"5.7.1 Message refused as spam"),
        reply(451, b"4.7.1 Greylisted, please come back later"),
        reply(452, b"4.2.2 The mailbox is full"),
        SlowDownError(),
    ],
    ids=["timeout", "reset", "bug", "unknown user", "spam", "greylisted", "full", "throttled"],
)
def test_failover_never_goes_on_otherwise(make: Make, error: Any) -> None:
    """What nobody knows might be sent twice; what was the message's fault, or asked for time, is not another's to try."""
    first, second = Post(error), Post()
    with pytest.raises(type(error)) as caught:
        make({"ses": first, "backup": second})()
    assert caught.value is error
    assert (first.calls, second.calls, error.provider) == (1, 0, "ses")


@every_colour
def test_failover_of_all_providers_failed_raises_the_last_error(make: Make) -> None:
    """Itself, with the provider that it came from, and without the one before."""
    errors = [refused(), refused()]
    with pytest.raises(ConnectionRefusedError) as caught:
        make({"ses": Post(errors[0]), "backup": Post(errors[1])})()
    assert caught.value is errors[1]
    assert (caught.value.__context__, caught.value.provider) == (None, "backup")  # type: ignore[attr-defined]


@every_colour
def test_failover_error_that_names_its_provider_keeps_it(make: Make) -> None:
    """The evidence is not overwritten, and an error that takes no attribute is no trouble."""
    error: Any = refused()
    error.provider = "inner"

    class SlottedError(ConnectionRefusedError):
        __slots__ = ()

        def __setattr__(self, name: str, value: object) -> None:
            raise AttributeError(name)

    assert make({"ses": Post(error), "other": Post(SlottedError()), "backup": Post()})().provider == "backup"
    assert error.provider == "inner"


@every_colour
def test_failover_passes_over_an_open_breaker(make: Make) -> None:
    """After its threshold nobody asks the first any more, and it costs nothing."""
    first, second = Post(*[refused() for _ in range(9)]), Post()
    send = make({"ses": Provider(first, breaker=CircuitBreaker("ses", failure_threshold=3)), "backup": second})
    for _ in range(5):
        assert send().provider == "backup"
    assert (first.calls, second.calls, send.breakers["ses"].state) == (3, 5, "open")


@every_colour
def test_failover_comes_back_by_probes(make: Make, clock: ManualClock) -> None:
    """After the recovery one call tries the first; when it works, all do again."""
    first, second = Post(refused(), refused(), refused()), Post()
    breaker = CircuitBreaker("ses", failure_threshold=2, recovery_timeout=delays(60, jitter="none"))
    send = make({"ses": Provider(first, breaker=breaker), "backup": second})
    assert [send().provider for _ in range(3)] == ["backup"] * 3
    clock.advance(60)
    assert [send().provider for _ in range(2)] == ["backup", "backup"]
    assert first.calls == 3
    clock.advance(60)
    assert [send().provider for _ in range(3)] == ["ses"] * 3
    assert (second.calls, breaker.state) == (5, "closed")


@every_colour
def test_failover_passes_over_a_throttled_provider(make: Make, clock: ManualClock) -> None:
    """Until its turn comes."""
    first, second = Post(SlowDownError(30.0)), Post()
    send = make({"ses": first, "backup": second})
    with pytest.raises(SlowDownError):
        send()
    assert send().provider == "backup"
    clock.advance(30)
    assert send().provider == "ses"


@every_colour
def test_failover_passes_over_paused_providers_until_told_otherwise(make: Make) -> None:
    """All of the last telling, and no others."""
    send = make({"ses": Post(), "backup": Post()})
    send.pause_providers({"ses": 60.0, "nobody": None})
    assert send().provider == "backup"
    send.pause_providers({"backup": None})
    assert send().provider == "ses"
    send.pause_providers({})
    assert send().provider == "ses"


@every_colour
def test_failover_with_nobody_left_says_why_and_when(make: Make, clock: ManualClock) -> None:
    """The soonest of those that are known, and nobody was asked."""
    posts = {name: Post() for name in ("open", "throttled", "paused", "isolated")}
    breaker = CircuitBreaker("open", recovery_timeout=delays(60, jitter="none"))
    breaker.open()
    isolated = CircuitBreaker("isolated")
    isolated.isolate()
    throttle = AdaptiveThrottle("throttled")
    throttle.failed(ErrorClassifier().classify(SlowDownError(20.0)))
    send = make(
        {
            "open": Provider(posts["open"], breaker=breaker),
            "throttled": Provider(posts["throttled"], throttle=throttle),
            "paused": posts["paused"],
            "isolated": Provider(posts["isolated"], breaker=isolated),
        }
    )
    send.pause_providers({"paused": None})
    with pytest.raises(NoProviderAvailableError) as caught:
        send()
    assert caught.value.reasons == {
        "open": "open",
        "throttled": "throttled",
        "paused": "paused",
        "isolated": "isolated",
    }
    assert (caught.value.retry_after, [post.calls for post in posts.values()]) == (20.0, [0] * 4)
    assert str(caught.value) == (
        "no provider takes a call for another 20 s ('open': open, 'throttled': throttled, 'paused': paused, "
        "'isolated': isolated)"
    )


def test_failover_with_nobody_left_and_no_known_end_says_that() -> None:
    """Somebody has to resume it."""
    send = Failover({"ses": Post()})
    send.pause_providers({"ses": None})
    with pytest.raises(NoProviderAvailableError, match="until somebody resets or resumes it") as caught:
        send()
    assert caught.value.retry_after is None


def test_failover_error_of_one_that_was_asked_goes_before_refusals_of_others() -> None:
    """It was tried: that is an attempt, and its error says more."""
    send = Failover({"ses": Post(refused()), "backup": Post()})
    send.pause_providers({"backup": None})
    with pytest.raises(ConnectionRefusedError):
        send()


def test_no_provider_available_error_pickles() -> None:
    """With its reasons."""
    error = NoProviderAvailableError({"ses": "open"}, 5.0)
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.reasons, again.retry_after) == (str(error), {"ses": "open"}, 5.0)


@every_colour
@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError])
def test_failover_interruption_is_neutral(make: Make, error: type[BaseException], clock: ManualClock) -> None:
    """Nobody else is asked, no breaker counts it, and a probe is given back."""
    breaker = CircuitBreaker("ses", failure_threshold=1, recovery_timeout=delays(60, jitter="none"))
    breaker.open()
    clock.advance(60)
    first, second = Post(error()), Post()
    send = make({"ses": Provider(first, breaker=breaker), "backup": second})
    with pytest.raises(BaseException) as caught:
        send()
    assert isinstance(caught.value, error)
    assert (second.calls, breaker.state, breaker.retry_after) == (0, "half_open", 0.0)
    assert send().provider == "ses"


@both_loops
def test_failover_cancelled_send_is_neutral(runner: Runner, clock: ManualClock) -> None:
    """By the loop, in the middle of the send."""
    breaker = CircuitBreaker("ses", recovery_timeout=delays(60, jitter="none"))
    breaker.open()
    clock.advance(60)
    send = AsyncFailover({"ses": Provider(functools.partial(hang, runner), breaker=breaker)})
    cancel(runner, send)
    assert (breaker.state, breaker.retry_after) == ("half_open", 0.0)


@every_colour
def test_failover_shares_breakers_and_throttles_with_others(make: Make) -> None:
    """A breaker that another function has opened is open here too."""
    breaker = CircuitBreaker("ses", failure_threshold=1)
    send = make({"ses": Provider(Post(), breaker=breaker), "backup": Post()})
    with pytest.raises(ConnectionRefusedError):
        breaker(Post(refused()))()
    assert send().provider == "backup"
    assert send.breakers["ses"] is breaker


@every_colour
def test_failover_goes_by_its_own_classifier_and_tells_it_the_provider(make: Make) -> None:
    """A rule for one provider does not hold for another."""
    classifier = ErrorClassifier(
        [
            Rule(
                "busy",
                ErrorClass.PROVIDER_UNAVAILABLE,
                exceptions=[LookupError],
                provider="ses",
                outcome=Outcome.REJECTED,
            )
        ]
    )
    send = make({"ses": Post(LookupError("busy")), "backup": Post()}, classifier=classifier)
    assert send().provider == "backup"
    with pytest.raises(LookupError):
        make({"other": Post(LookupError("busy")), "backup": Post()}, classifier=classifier)()


@every_colour
def test_failover_signal_from_inside_a_provider_is_decided_by_its_failure(make: Make) -> None:
    """Work that a retry inside puts off: the next provider is asked where it was certainly not sent, and only there."""
    policy = retry(EMAIL_MATRIX, max_inline_delay=0)
    with pytest.raises(RetryLater):
        make({"ses": policy(Post(reply(451, b"4.7.1 Greylisted, please come back later"))), "backup": Post()})()
    assert make({"ses": policy(Post(refused())), "backup": Post()})().provider == "backup"


@every_colour
def test_failover_refusal_from_inside_a_provider_is_no_attempt(make: Make, clock: ManualClock) -> None:
    """A breaker or a throttle of the function's own: the next is asked, nothing is counted, and a probe is given back."""
    breaker = CircuitBreaker("ses", failure_threshold=1, recovery_timeout=delays(60, jitter="none"))
    breaker.open()
    clock.advance(60)
    refusals = [BreakerOpenError("inner", 5.0), BreakerOpenError("inner", 5.0)]
    send = make({"ses": Provider(Post(*refusals), breaker=breaker), "backup": Post(refused())})
    with pytest.raises(ConnectionRefusedError):
        send()
    assert (breaker.state, breaker.retry_after) == ("half_open", 0.0)
    send.pause_providers({"backup": None})
    with pytest.raises(NoProviderAvailableError) as caught:
        send()
    assert (caught.value.retry_after, caught.value.reasons["ses"]) == (5.0, str(refusals[0]))
    assert (send().provider, breaker.state) == ("ses", "closed")


def test_failover_error_is_freed_without_the_collector() -> None:
    """Of one provider, and of all."""
    for providers in (1, 3):
        send = Failover({f"p{place}": self_made for place, self_made in enumerate([fail_certainly] * providers)})
        with no_collector():
            try:
                send()
            except OwnError as error:
                kept = weakref.ref(error)
            assert kept() is None


def fail_certainly() -> None:
    error = OwnError("down")
    error.smtp_phase = "connect"  # type: ignore[attr-defined]
    try:
        raise error
    finally:
        del error


def test_error_of_the_last_provider_tells_what_the_others_did():
    """Who was asked and who was passed over stands in a note; the evidence of the first is not lost."""

    def down(*_):
        raise ConnectionRefusedError("no answer")

    send = Failover({"a": down, "b": down, "c": down})
    send.pause_providers({"c": None})
    with pytest.raises(ConnectionRefusedError) as caught:
        send("m", "k")
    expected = "retrykit: no provider did it; 'a': ConnectionRefusedError, 'b': ConnectionRefusedError, 'c': paused"
    assert [expected] == caught.value.__notes__
