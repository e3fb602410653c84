"""The retry scheduler and the reconciler, in both colours."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from retrykit import AsyncRetryScheduler, Message, RetryScheduler
from retrykit.backends.sqlite import SQLiteBackend
from retrykit.delivery import NotAccepted, Sent
from retrykit.errors import ConfigurationError
from retrykit.events import Event, MessageRepublished, OutcomeVerified, PublishFailed
from retrykit.reconcile import AsyncReconciler, Reconciler, ReconcileReport
from retrykit.stores import Backend, as_async
from retrykit.testing import ManualClock
from tests.colours import Runner, both_loops
from tests.flows.fleet import LEASE
from tests.flows.world import WorldMaker


def schedule(backend: Backend, clock: ManualClock, *ids: str, wait: float = 0.0) -> None:
    for message_id in ids:
        backend.retries.schedule(Message(message_id, {}), clock.now() + timedelta(seconds=wait))


def test_run_once_republishes_due_messages_and_removes_them(backend: Backend, clock: ManualClock) -> None:
    """What is due goes to the application's queue once; what is not due stays."""
    published: list[Message] = []
    heard: list[Event] = []
    schedule(backend, clock, "a", "b")
    schedule(backend, clock, "c", wait=60)
    scheduler = RetryScheduler(backend, published.append, clock=clock, on_event=[heard.append])
    assert (scheduler.run_once(), scheduler.run_once()) == (2, 0)
    assert [message.id for message in published] == ["a", "b"]
    due_at = clock.now()
    assert heard == [MessageRepublished(at=due_at, message_id=name, due_at=due_at) for name in ("a", "b")]
    clock.advance(60)
    assert scheduler.run_once() == 1


def test_run_once_publish_that_fails_keeps_the_message(backend: Backend, clock: ManualClock) -> None:
    """A message that the application's queue refuses stays, is due again soon, and does not hold up the others."""
    published: list[str] = []
    heard: list[Event] = []

    def publish(message: Message) -> None:
        if message.id == "a" and len(published) < 2:
            raise ConnectionRefusedError("queue down")
        published.append(message.id)

    schedule(backend, clock, "a", "b", "c")
    scheduler = RetryScheduler(backend, publish, clock=clock, on_event=[heard.append])
    assert scheduler.run_once() == 2
    assert heard[0] == PublishFailed(at=clock.now(), message_id="a", error="ConnectionRefusedError: queue down")
    assert scheduler.run_once() == 0
    clock.advance(5)
    assert (scheduler.run_once(), published) == (1, ["b", "c", "a"])


def test_run_ends_when_stopped_and_sleeps_when_nothing_is_due(backend: Backend, clock: ManualClock) -> None:
    """The loop works through full batches without a pause, sleeps when less was due, and ends after its batch."""
    published: list[str] = []
    schedule(backend, clock, "a", "b", "c")

    def publish(message: Message) -> None:
        published.append(message.id)
        if message.id == "d":
            scheduler.stop()
        elif message.id == "c":
            schedule(backend, clock, "d", wait=1)

    scheduler = RetryScheduler(backend, publish, batch=2, poll=0.5, clock=clock)
    scheduler.run()
    assert published == ["a", "b", "c", "d"]
    assert clock.sleeps == [0.5, 0.5]


def test_run_survives_a_store_that_fails(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A store that cannot be used for a moment is logged and tried again; the loop goes on."""
    clock = ManualClock()
    backend = SQLiteBackend(tmp_path / "x.db", clock=clock, busy_timeout=0)
    other = SQLiteBackend(tmp_path / "x.db", clock=clock)
    schedule(backend, clock, "a")
    published: list[str] = []

    def publish(message: Message) -> None:
        published.append(message.id)
        scheduler.stop()

    scheduler = RetryScheduler(backend, publish, clock=clock)
    holder = other._database.transaction()
    holder.__enter__()
    sleep = clock.sleep

    def let_go(seconds: float) -> None:
        holder.__exit__(None, None, None)
        sleep(seconds)

    clock.sleep = let_go  # type: ignore[method-assign]
    scheduler.run()
    assert published == ["a"]
    assert "the retry queue cannot be used now, trying again" in caplog.text
    backend.close()
    other.close()


def test_scheduler_of_an_asynchronous_publish_is_refused(backend: Backend) -> None:
    """A publish that would have to be awaited would lose every message; it is refused, or raises when it shows."""

    async def publish(_message: Message) -> None: ...

    with pytest.raises(ConfigurationError, match="use AsyncRetryScheduler"):
        RetryScheduler(backend, publish)


def test_run_once_publish_that_gives_a_coroutine_keeps_the_message(backend: Backend, clock: ManualClock) -> None:
    """What only shows at the call is an error, and the message stays."""

    async def publish(_message: Message) -> None: ...

    schedule(backend, clock, "a")
    with pytest.raises(ConfigurationError, match="has to be awaited"):
        RetryScheduler(backend, lambda message: publish(message), clock=clock).run_once()
    assert backend.retries.stats().leased == 1


@both_loops
def test_async_scheduler_is_the_same_flow(backend: Backend, clock: ManualClock, runner: Runner) -> None:
    """The asynchronous scheduler republishes and stops as the synchronous one, under asyncio and trio."""
    published: list[str] = []
    schedule(backend, clock, "a", "b")

    async def publish(message: Message) -> None:
        published.append(message.id)
        if message.id == "b":
            scheduler.stop()

    scheduler: AsyncRetryScheduler

    async def main() -> int:
        nonlocal scheduler
        twin = as_async(backend)
        scheduler = AsyncRetryScheduler(twin, publish, batch=1, clock=clock)
        await scheduler.run()
        left = await scheduler.run_once()
        await twin.aclose()
        return left

    assert (runner(main), published) == (0, ["a", "b"])


@pytest.mark.parametrize(
    ("name", "value"), [("lease", 0), ("poll", 0), ("poll", -1), ("lease", float("nan")), ("batch", 0), ("on_event", 3)]
)
def test_scheduler_settings_out_of_range_are_refused(backend: Backend, name: str, value: float) -> None:
    """Settings are checked when the scheduler is made, and the error names the setting."""
    with pytest.raises(ConfigurationError, match=name):
        RetryScheduler(backend, print, **{name: value})


def test_reconciler_reports_what_it_settled(world: WorldMaker, backend: Backend, clock: ManualClock) -> None:
    """One run settles the accepted, lets the others go on, and says how many of each there were."""
    accepted, lost, unsure = world("reply lost"), world("request lost"), world("request lost", lookup=False)
    for here in (accepted, lost, unsure):
        here.end(here.begin())
    clock.advance("30s")
    answers: dict[str, Sent | NotAccepted | None] = {accepted.key: Sent("p-1", "ses"), lost.key: NotAccepted()}
    heard: list[Event] = []
    reconciler = Reconciler(backend, lookup=answers.get, clock=clock, on_event=[heard.append])
    assert reconciler.run_once() == ReconcileReport(sent=1, not_sent=1, unsure=1)
    assert reconciler.run_once() == ReconcileReport()
    told = {event.message_id: event.accepted for event in heard if isinstance(event, OutcomeVerified)}
    assert told == {accepted.key: True, lost.key: False, unsure.key: None}
    delivery = backend.deliveries.get(accepted.key)
    assert delivery is not None
    assert (delivery.status, delivery.provider, delivery.provider_id) == ("sent_to_provider", "ses", "p-1")


def test_reconciler_without_an_answer_gives_up_at_the_maximum_age(
    world: WorldMaker, backend: Backend, clock: ManualClock
) -> None:
    """An outcome that nobody can tell goes to a person; the copy that waits brings the evidence."""
    here = world("request lost", lookup=False)
    here.end(here.begin())
    reconciler = Reconciler(backend, clock=clock)
    report = ReconcileReport()
    while not report.given_up:
        clock.advance("1h")
        report = reconciler.run_once()
    here.settle()
    assert here.check().value == "held_for_review"


def test_reconciler_loses_its_hold_and_leaves_the_message_alone(
    world: WorldMaker, backend: Backend, clock: ManualClock
) -> None:
    """A reconciler whose lookup took longer than its lease changes nothing that somebody else has taken over."""
    here = world("reply lost")
    here.end(here.begin())
    clock.advance("30s")

    def slow(_key: str) -> NotAccepted:
        clock.advance(LEASE)
        here.fleet.begin(here.fleet.reconciling()).finish()
        return NotAccepted()

    assert Reconciler(backend, lookup=slow, lease=LEASE, clock=clock).run_once() == ReconcileReport()
    here.settle()
    assert here.check().value == "sent"


@both_loops
def test_async_reconciler_is_the_same_flow(
    world: WorldMaker, backend: Backend, clock: ManualClock, runner: Runner
) -> None:
    """The asynchronous reconciler settles as the synchronous one, under asyncio and trio."""
    here = world("reply lost")
    here.end(here.begin())
    clock.advance("30s")

    async def lookup(_key: str) -> Sent:
        return Sent("p-1")

    async def main() -> ReconcileReport:
        twin = as_async(backend)
        report = await AsyncReconciler(twin, lookup=lookup, clock=clock).run_once()
        await twin.aclose()
        return report

    assert runner(main) == ReconcileReport(sent=1)
