"""Sends that were refused before anybody was asked, and sends that failed inside a retry of their own."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from retrykit import (
    EMAIL_MATRIX,
    AsyncDispatcher,
    CircuitBreaker,
    Dispatcher,
    Failover,
    Provider,
    resilient,
    retry,
)
from retrykit.backends import MemoryBackend
from retrykit.decision import Disposition, DispositionKind
from retrykit.errors import BreakerOpenError, ConfigurationError, NoProviderAvailableError, ThrottledError
from retrykit.events import AttemptFailed, Event, MessageHandled
from retrykit.failover import AsyncFailover
from retrykit.policy import delays
from retrykit.stores import Backend, ClaimState, as_async
from retrykit.testing import ManualClock, manual_clock
from tests.colours import Runner, both_loops
from tests.flows.test_dispatch import BODY, Outbox, greylisted

K = DispositionKind


def postponed(disposition: Disposition, backend: Backend, clock: ManualClock, seconds: float) -> None:
    """Check that a message waits so long, that nothing counts as a try, and that it is in the retry queue."""
    assert (disposition.kind, disposition.failure) == (K.RETRY_SCHEDULED, None)
    assert disposition.due_at == clock.now() + timedelta(seconds=seconds)
    record = backend.claims.get("m1")
    assert record is not None
    assert (record.state, record.attempts, record.counters.failed, record.checks) == (ClaimState.WAITING, (), 0, 0)
    assert backend.retries.stats().waiting == 1


@pytest.mark.parametrize(
    ("refusal", "seconds"),
    [
        (BreakerOpenError("ses", 30.0), 30.0),
        (BreakerOpenError("ses", 0.0, state="half_open"), 1.0),
        (BreakerOpenError("ses", 0.4), 1.0),
        (BreakerOpenError("ses", None, state="isolated"), 60.0),
        (BreakerOpenError("ses", 7200.0), 7200.0),
        (ThrottledError("ses", 90.0), 90.0),
        (ThrottledError("ses", 0.01), 1.0),
        (NoProviderAvailableError({"ses": "open"}, 12.5), 12.5),
        (NoProviderAvailableError({"ses": "paused"}, None), 60.0),
    ],
)
def test_handle_refused_send_waits_without_burning_an_attempt(
    backend: Backend, clock: ManualClock, refusal: Exception, seconds: float
) -> None:
    """For as long as the refusal says, a second at the least, a minute where nobody knows; then it is sent."""
    heard: list[Event] = []
    outbox = Outbox(refusal)
    dispatcher = Dispatcher(outbox, backend=backend, clock=clock, on_event=[heard.append])
    disposition = dispatcher.handle(BODY)
    postponed(disposition, backend, clock, seconds)
    assert disposition.reason == str(refusal)
    assert [type(event) for event in heard] == [MessageHandled]
    assert dispatcher.handle(BODY).kind is K.RETRY_SCHEDULED
    assert len(outbox.given) == 1
    clock.advance(seconds)
    assert dispatcher.handle(BODY).kind is K.SENT


@both_loops
def test_async_handle_refused_send_waits_without_burning_an_attempt(
    backend: Backend, clock: ManualClock, runner: Runner
) -> None:
    """The same flow."""
    twin = as_async(backend)

    async def send(message: Any, key: str) -> None:
        raise BreakerOpenError("ses", 30.0)

    async def main() -> Disposition:
        return await AsyncDispatcher(send, backend=twin, clock=clock).handle(BODY)

    postponed(runner(main), backend, clock, 30.0)


def test_handle_refusals_between_failures_leave_the_history_as_it_is(backend: Backend, clock: ManualClock) -> None:
    """Two failures with a refusal between them are two attempts."""
    outbox = Outbox(greylisted(), BreakerOpenError("ses", 5.0), greylisted())
    dispatcher = Dispatcher(outbox, backend=backend, clock=clock)
    for _ in range(3):
        disposition = dispatcher.handle(BODY)
        assert disposition.due_at is not None
        clock.move_to(disposition.due_at)
    record = backend.claims.get("m1")
    assert record is not None
    assert [attempt.number for attempt in record.attempts] == [1, 2]
    assert dispatcher.handle(BODY).kind is K.SENT


def test_handle_refused_for_days_is_not_too_old_afterwards(backend: Backend, clock: ManualClock) -> None:
    """The message's age counts from its first failure, and there was none."""
    outbox = Outbox(*[BreakerOpenError("ses", None, state="isolated")] * 3)
    dispatcher = Dispatcher(outbox, backend=backend, clock=clock)
    for _ in range(3):
        assert dispatcher.handle(BODY).kind is K.RETRY_SCHEDULED
        clock.advance("5d")
    assert dispatcher.handle(BODY).kind is K.SENT


@pytest.mark.parametrize("stage", ["parse", "validate", "render"])
def test_handle_refusal_in_another_stage_is_a_failure_of_it(backend: Backend, clock: ManualClock, stage: str) -> None:
    """Only a send may be put off without end; elsewhere it heals or it does not, by the matrix."""

    def refuse(message: Any) -> Any:
        raise BreakerOpenError("templates", 600.0)

    settings: Any = {stage: refuse}
    disposition = Dispatcher(lambda *_: None, backend=backend, clock=clock, **settings).handle(BODY)
    assert (disposition.kind, disposition.due_at) == (K.RETRY_SCHEDULED, clock.now() + timedelta(seconds=600))
    assert disposition.failure is not None
    assert (disposition.failure.error_class, disposition.failure.outcome) == ("provider_unavailable", "not_sent")


def test_handle_send_behind_a_breaker_goes_on_when_it_has_recovered(backend: Backend, clock: ManualClock) -> None:
    """The failures that open it are attempts; what comes while it is open is not."""
    breaker = CircuitBreaker("ses", failure_threshold=2, recovery_timeout=delays(60, jitter="none"), clock=clock)
    outbox = Outbox(*[ConnectionRefusedError("no answer")] * 2)
    dispatcher = Dispatcher(breaker(lambda message, key: outbox(message, key)), backend=backend, clock=clock)
    for name in ("a", "b"):
        assert dispatcher.handle({"id": name}).failure is not None
    disposition = dispatcher.handle(BODY)
    assert (disposition.failure, disposition.due_at) == (None, clock.now() + timedelta(seconds=60))
    clock.advance(60)
    assert dispatcher.handle(BODY).kind is K.SENT
    assert breaker.state == "closed"


def test_handle_failover_of_which_nobody_takes_the_message_waits(backend: Backend, clock: ManualClock) -> None:
    """For the soonest of its providers."""
    breakers = {
        name: CircuitBreaker(name, recovery_timeout=delays(seconds, jitter="none"), clock=clock)
        for name, seconds in (("ses", 60), ("backup", 20))
    }
    for breaker in breakers.values():
        breaker.open()
    outbox = Outbox()
    send = Failover({name: Provider(outbox, breaker=breaker) for name, breaker in breakers.items()}, clock=clock)
    dispatcher = Dispatcher(send, backend=backend, clock=clock)
    postponed(dispatcher.handle(BODY), backend, clock, 20.0)
    clock.advance(20)
    disposition = dispatcher.handle(BODY)
    assert (disposition.kind, disposition.provider) == (K.SENT, "backup")


def test_handle_failover_takes_the_next_provider_within_one_attempt(backend: Backend, clock: ManualClock) -> None:
    """The first one's refusal to connect leaves no trace in the message's history."""
    send = Failover({"ses": Outbox(ConnectionRefusedError("no answer")), "backup": Outbox("p-1")}, clock=clock)
    disposition = Dispatcher(send, backend=backend, clock=clock).handle(BODY)
    assert (disposition.kind, disposition.provider, disposition.provider_id) == (K.SENT, "backup", "p-1")


def test_handle_failover_failure_names_its_provider(backend: Backend, clock: ManualClock) -> None:
    """In the evidence, and an unknown outcome is verified, not tried elsewhere."""
    backup = Outbox()
    send = Failover({"ses": Outbox(TimeoutError("timed out")), "backup": backup}, clock=clock)
    disposition = Dispatcher(send, backend=backend, clock=clock).handle(BODY)
    assert disposition.kind is K.VERIFYING
    assert disposition.failure is not None
    assert (disposition.failure.provider, backup.given) == ("ses", [])


def test_handle_paused_provider_is_passed_over_by_the_failover(backend: Backend, clock: ManualClock) -> None:
    """A pause in the backend reaches it within a second of the next message, and so does its end."""
    main, backup = Outbox(), Outbox()
    dispatcher = Dispatcher(Failover({"ses": main, "backup": backup}, clock=clock), backend=backend, clock=clock)
    until = clock.now() + timedelta(seconds=90)
    backend.circuits.pause("provider:ses", reason="bounces", by="ada", until=until)
    assert dispatcher.handle(BODY).provider == "backup"
    backend.circuits.resume("provider:ses")
    clock.advance(1)
    assert dispatcher.handle({"id": "m2"}).provider == "ses"
    backend.circuits.pause("provider:ses", reason="bounces", by="ada")
    backend.circuits.pause("campaign:autumn", reason="no provider", by="ada")
    clock.advance(1)
    assert dispatcher.handle({"id": "m3"}).provider == "backup"
    assert (len(main.given), len(backup.given)) == (1, 2)


@both_loops
def test_async_handle_paused_provider_is_passed_over_by_the_failover(
    backend: Backend, clock: ManualClock, runner: Runner
) -> None:
    """In the other colour."""
    twin = as_async(backend)
    backend.circuits.pause("provider:ses", reason="bounces", by="ada")

    async def send(message: Any, key: str) -> None: ...

    async def main() -> Disposition:
        failover = AsyncFailover({"ses": send, "backup": send}, clock=clock)
        return await AsyncDispatcher(failover, backend=twin, clock=clock).handle(BODY)

    assert runner(main).provider == "backup"


def test_handle_all_providers_paused_waits_for_the_soonest_end(backend: Backend, clock: ManualClock) -> None:
    """Where one is known."""
    dispatcher = Dispatcher(Failover({"ses": Outbox(), "backup": Outbox()}, clock=clock), backend=backend, clock=clock)
    until = clock.now() + timedelta(seconds=45)
    backend.circuits.pause("provider:ses", reason="bounces", by="ada")
    backend.circuits.pause("provider:backup", reason="bounces", by="ada", until=until)
    postponed(dispatcher.handle(BODY), backend, clock, 45.0)


def test_handle_message_of_a_paused_provider_waits_whoever_else_there_is(backend: Backend, clock: ManualClock) -> None:
    """A message that is bound to a provider by its attribute is not sent through another."""
    backup = Outbox()
    dispatcher = Dispatcher(Failover({"ses": Outbox(), "backup": backup}, clock=clock), backend=backend, clock=clock)
    backend.circuits.pause("provider:ses", reason="bounces", by="ada")
    assert dispatcher.handle({"id": "m1", "provider": "ses"}).kind is K.RETRY_SCHEDULED
    assert backup.given == []


def test_handle_retry_later_of_a_retried_send_is_decided_by_the_dispatchers_matrix(
    backend: Backend, clock: ManualClock
) -> None:
    """With the failure that the retry saw: one attempt, and its wait is at least what was asked for."""
    outbox = Outbox(greylisted())
    heard: list[Event] = []
    send = retry(EMAIL_MATRIX, clock=clock)(lambda message, key: outbox(message, key))
    dispatcher = Dispatcher(send, backend=backend, clock=clock, on_event=[heard.append])
    disposition = dispatcher.handle(BODY)
    failed = next(event for event in heard if isinstance(event, AttemptFailed))
    assert disposition.failure is not None
    assert (disposition.kind, disposition.failure.error_class, failed.failure.enhanced_code) == (
        K.RETRY_SCHEDULED,
        "greylisted",
        "4.7.1",
    )
    assert "4.7.1 Greylisted" in disposition.failure.error_message
    assert disposition.due_at is not None
    assert disposition.due_at >= clock.now() + timedelta(minutes=15)
    record = backend.claims.get("m1")
    assert record is not None
    assert [attempt.failure.error_class for attempt in record.attempts] == ["greylisted"]
    clock.move_to(disposition.due_at)
    assert dispatcher.handle(BODY).kind is K.SENT


def test_handle_refusal_after_an_attempt_that_may_have_sent_is_verified(backend: Backend, clock: ManualClock) -> None:
    """A retry inside the send repeats a timeout, and then the breaker opens: that was not nothing."""
    outbox = Outbox(TimeoutError("timed out"))
    guarded = resilient(
        retry=retry(on=OSError, backoff=[0], clock=clock),
        breaker=CircuitBreaker("ses", failure_threshold=1, clock=clock),
    )(lambda message, key: outbox(message, key))
    disposition = Dispatcher(guarded, backend=backend, clock=clock).handle(BODY)
    assert disposition.kind is K.VERIFYING
    record = backend.claims.get("m1")
    assert record is not None
    assert record.state is ClaimState.UNKNOWN


def test_handle_refusal_after_attempts_that_certainly_did_not_send_waits(backend: Backend, clock: ManualClock) -> None:
    """The same with a refused connection: nothing was sent, and the breaker says when to come again."""
    outbox = Outbox(ConnectionRefusedError("no answer"))
    breaker = CircuitBreaker("ses", failure_threshold=1, recovery_timeout=delays(60, jitter="none"), clock=clock)
    guarded = resilient(retry=retry(on=OSError, backoff=[0], clock=clock), breaker=breaker)(
        lambda message, key: outbox(message, key)
    )
    postponed(Dispatcher(guarded, backend=backend, clock=clock).handle(BODY), backend, clock, 60.0)


def test_handle_resilient_send_in_one_piece(backend: Backend, clock: ManualClock) -> None:
    """Retry, breaker and failover inside a dispatcher: what is short is waited for here, what is long in the queue."""
    main, backup = Outbox(*[ConnectionRefusedError("no answer")] * 3), Outbox(greylisted())
    with manual_clock() as short:
        send = Failover(
            {
                "ses": retry(on=ConnectionRefusedError, backoff=[0.5])(lambda message, key: main(message, key)),
                "backup": lambda message, key: backup(message, key),
            }
        )
        disposition = Dispatcher(send, backend=backend, clock=clock).handle(BODY)
    assert (len(main.given), len(backup.given), len(short.sleeps)) == (3, 1, 2)
    assert disposition.failure is not None
    assert (disposition.failure.error_class, disposition.failure.provider) == ("greylisted", "backup")


@pytest.mark.parametrize(
    ("dispatcher", "send", "backend", "words"),
    [
        (Dispatcher, lambda message, key: None, as_async(MemoryBackend()), "use AsyncDispatcher for it"),
        (AsyncDispatcher, lambda message, key: None, MemoryBackend(), r"use as_async\(backend\) for it"),
        (AsyncDispatcher, Failover({"a": print}), as_async(MemoryBackend()), "use AsyncFailover for it"),
    ],
)
def test_dispatcher_of_the_other_colour_is_refused_at_once(dispatcher, send, backend, words):
    """Not at the first message, and never by blocking the loop."""
    with pytest.raises(ConfigurationError, match=words):
        dispatcher(send, backend=backend)
