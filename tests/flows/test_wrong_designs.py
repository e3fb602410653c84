"""The checks are sharp: each tempting other answer is caught by one of the crash tests, and some by random schedules."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from itertools import count
from typing import Any

import attrs
import pytest

from retrykit import EMAIL_MATRIX
from retrykit._steps import do
from retrykit.decision import Action, DispositionKind
from retrykit.lease import Lease
from retrykit.machines import claim as machine
from retrykit.stores import ClaimRecord, ClaimState, Done, InProgress, NotDue
from tests.flows.fleet import LEASE
from tests.flows.schedules import play_in_memory
from tests.flows.world import World, WorldMaker

LONGEST = 12
Patch = pytest.MonkeyPatch


def crash_everywhere(world: WorldMaker, *script: str, **options: Any) -> None:
    """Let a worker die before each of its steps, and again with the next worker."""
    for first in range(LONGEST):
        for wait in (0.0, LEASE):
            here = world(*script, **options)
            here.crash(first)
            here.clock.advance(wait)
            here.settle()
            here.check()


def stall_everywhere(world: WorldMaker, *script: str) -> None:
    """Let a worker stand still past its lease before each step but the send."""
    for steps in range(LONGEST):
        here: World = world(*script)
        slow = here.begin(steps)
        if slow.done or here.fleet.is_sending(slow):
            continue
        here.crashes += 1
        here.clock.advance(LEASE)
        here.queue.append(here.message)
        here.end(here.begin())
        slow.finish()
        here.settle()
        here.check()


def answers(replace: Callable[[machine.ClaimAnswer], machine.ClaimAnswer]) -> Callable[..., Any]:
    """Return `take` with its answer replaced."""
    take = machine.take

    def wrong(*args: Any, **kwargs: Any) -> tuple[ClaimRecord, machine.ClaimAnswer]:
        record, answer = take(*args, **kwargs)
        return record, replace(answer)

    return wrong


def as_settled(answer: Any) -> Done:
    """Return the answer that makes the dispatcher ack the copy without doing anything."""
    return Done(attrs.evolve(answer.record, disposition=DispositionKind.SENT, dead_letter_id=None))


def repeat_lapsed_sends(monkeypatch: Patch) -> None:
    """A lease that ended while sending lets the next worker send again."""
    right = machine._without_lapsed_holder

    def wrong(record: ClaimRecord, now: Any, **rest: Any) -> ClaimRecord:
        if record.state is ClaimState.SENDING:
            record = attrs.evolve(record, state=ClaimState.CLAIMED)
        return right(record, now, **rest)

    monkeypatch.setattr(machine, "_without_lapsed_holder", wrong)


def ack_copies_in_progress(monkeypatch: Patch) -> None:
    """A copy of a message in progress is acked as a duplicate."""
    monkeypatch.setattr(machine, "take", answers(lambda a: as_settled(a) if isinstance(a, InProgress) else a))


def ack_waiting_copies_unseen(monkeypatch: Patch) -> None:
    """A copy of a waiting message is acked without making sure that its entry exists."""
    monkeypatch.setattr(machine, "take", answers(lambda a: as_settled(a) if isinstance(a, NotDue) else a))


def answer_without_helping(monkeypatch: Patch) -> None:
    """A copy of a settled message is acked without finishing the missing records."""
    monkeypatch.setattr(machine, "take", answers(lambda a: as_settled(a) if isinstance(a, Done) else a))


def decide_unfenced(monkeypatch: Patch) -> None:
    """A late holder's decision is taken although somebody else decides by now."""
    right = machine.write

    def wrong(stored: ClaimRecord | None, settled: ClaimRecord, token: int, **rest: Any) -> ClaimRecord | None:
        assert stored is not None
        held = attrs.evolve(stored, seq=token, lease=stored.lease or Lease("anybody", token, stored.opened_at))
        return right(held, settled, token, **rest)

    monkeypatch.setattr(machine, "write", wrong)


def drop_late_acceptances(monkeypatch: Patch) -> None:
    """A late holder's acceptance is refused like a decision."""
    monkeypatch.setattr(machine, "confirm", lambda record, _key, **_: record)
    monkeypatch.setattr("retrykit.projection.Projection.log", _no_log)


def ack_before_publishing(monkeypatch: Patch) -> None:
    """The scheduler removes a message before it hands it on."""
    monkeypatch.setattr("retrykit.scheduler.RetryScheduler._run_once", _acking_first)


def _acking_first(scheduler: Any) -> Any:
    batch = yield from do(scheduler._retries.claim_due, scheduler._batch, owner="me", lease=LEASE)
    for due in batch:
        yield from do(scheduler._retries.ack, due)
        with contextlib.suppress(ConnectionRefusedError):
            yield from do(scheduler._publish, due.message)
    return len(batch)


WRONG_DESIGNS = [
    repeat_lapsed_sends,
    ack_copies_in_progress,
    ack_waiting_copies_unseen,
    answer_without_helping,
    ack_before_publishing,
]


@pytest.mark.parametrize("install", WRONG_DESIGNS, ids=[function.__name__ for function in WRONG_DESIGNS])
def test_wrong_design_is_caught_by_random_schedules(install: Callable[[Patch], None], monkeypatch: Patch) -> None:
    """Not only by the test that was written for it: one of the first five hundred seeds does."""
    install(monkeypatch)
    with pytest.raises(AssertionError, match=r"^seed \d+"):
        play_first()


def play_first() -> None:
    """Play the schedules of the first five hundred seeds."""
    for seed in range(500):
        play_in_memory(seed)


def test_lapsed_send_repeated_is_caught(world: WorldMaker, monkeypatch: Patch) -> None:
    """A lease that ended while sending lets the next worker send again."""
    repeat_lapsed_sends(monkeypatch)
    with pytest.raises(AssertionError, match="sent twice"):
        crash_everywhere(world)


def test_unknown_outcome_retried_blindly_is_caught(world: WorldMaker) -> None:
    """An unknown outcome goes to the retry queue like any failure."""
    matrix = attrs.evolve(EMAIL_MATRIX, on_unknown=Action.RETRY)
    with pytest.raises(AssertionError, match="sent twice"):
        crash_everywhere(world, "reply lost", matrix=matrix)


def test_copy_of_message_in_progress_acked_is_caught(world: WorldMaker, monkeypatch: Patch) -> None:
    """A copy of a message in progress is acked as a duplicate."""
    ack_copies_in_progress(monkeypatch)
    with pytest.raises(AssertionError):
        crash_everywhere(world)


def test_copy_of_waiting_message_acked_unseen_is_caught(world: WorldMaker, monkeypatch: Patch) -> None:
    """A copy of a waiting message is acked without making sure that its entry exists."""
    ack_waiting_copies_unseen(monkeypatch)
    with pytest.raises(AssertionError):
        crash_everywhere(world, "temporary")


def test_duplicate_answered_without_helping_is_caught(world: WorldMaker, monkeypatch: Patch) -> None:
    """A copy of a settled message is acked without finishing the missing records."""
    answer_without_helping(monkeypatch)
    with pytest.raises(AssertionError):
        crash_everywhere(world, *["refused"] * 9)


def test_unfenced_decision_is_caught(world: WorldMaker, monkeypatch: Patch) -> None:
    """A late holder's decision is taken although somebody else decides by now."""
    decide_unfenced(monkeypatch)
    with pytest.raises(AssertionError):
        stall_everywhere(world, "temporary")


def test_late_acceptance_dropped_is_caught(world: WorldMaker, monkeypatch: Patch) -> None:
    """A late holder's acceptance is refused like a decision."""
    drop_late_acceptances(monkeypatch)
    with pytest.raises(AssertionError):
        stall_everywhere(world)


def _no_log(*_args: Any, **_kwargs: Any) -> Any:
    yield from ()


def test_random_dead_letter_id_is_caught(world: WorldMaker, monkeypatch: Patch) -> None:
    """A dead letter gets a new id at each put."""
    numbers = count()
    right = machine.dead_letter_id
    monkeypatch.setattr("retrykit.projection.dead_letter_of", _letters_with(numbers))
    assert right("a", 1) == "a#1"
    with pytest.raises(AssertionError):
        crash_everywhere(world, *["refused"] * 9)


def _letters_with(numbers: Any) -> Callable[..., Any]:
    from retrykit.projection import dead_letter_of

    return lambda record, message: attrs.evolve(dead_letter_of(record, message), id=f"letter-{next(numbers)}")
