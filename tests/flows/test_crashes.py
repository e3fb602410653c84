"""Any process may die before any step, and any worker may stall past its lease: the invariants hold."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import pytest

from retrykit import EMAIL_MATRIX, Action
from retrykit.decision import Disposition, DispositionKind
from retrykit.reconcile import ReconcileReport
from retrykit.stores import DeadLetterQuery
from retrykit.testing import Paused, crash_before, run_until
from tests.flows.world import LEASE, World, WorldMaker

K = DispositionKind

SCRIPTS = {
    "accepted": ((), {K.SENT}),
    "refused connection": (("refused connection",), {K.SENT}),
    "temporary": (("temporary",), {K.SENT}),
    "throttled twice": (("throttled", "throttled"), {K.SENT}),
    "full for good": (("full",) * 9, {K.DEAD_LETTERED}),
    "unknown user": (("unknown user",) * 9, {K.BOUNCED}),
    "refused content": (("refused",) * 9, {K.HELD_FOR_REVIEW}),
    "reply lost": (("reply lost",), {K.SENT}),
    "request lost": (("request lost",), {K.SENT}),
    "request lost twice": (("request lost", "request lost"), {K.SENT}),
    "bug, then fine": (("bug",), {K.SENT}),
    "temporary, then reply lost": (("temporary", "reply lost"), {K.SENT}),
}
"""What the provider does, and what may become of the message however many processes die."""

every_script = pytest.mark.parametrize(("script", "ends"), SCRIPTS.values(), ids=SCRIPTS.keys())

LONGEST = 12
"""More steps than any one flow has."""


def every_pair_of_crashes(first_and_second: Callable[[int, int], bool]) -> int:
    """Call a test with every pair of steps to die before, until a flow has no such step; return how many there were."""
    worlds = 0
    for first in range(LONGEST):
        for second in range(LONGEST):
            worlds += 1
            if not first_and_second(first, second):
                break
    return worlds


@every_script
def test_worker_dies_before_any_two_steps_message_ends_in_one_place(
    world: WorldMaker, script: tuple[str, ...], ends: set[DispositionKind]
) -> None:
    """Two workers die, each before any step of its flow, one after the other; a third goes on."""

    def die(first: int, second: int) -> bool:
        here = world(*script)
        here.crash(first)
        here.clock.advance(LEASE)
        goes_on = bool(here.queue) and here.crash(second)
        here.settle()
        assert here.check() in ends
        return goes_on

    assert every_pair_of_crashes(die) > LONGEST


@every_script
def test_worker_dies_and_the_copy_comes_back_at_once_message_ends_in_one_place(
    world: WorldMaker, script: tuple[str, ...], ends: set[DispositionKind]
) -> None:
    """A worker dies before any step, and another gets the copy while the dead one's lease still runs."""
    for steps in range(LONGEST):
        here = world(*script)
        died = here.crash(steps)
        here.settle()
        assert here.check() in ends
        if not died:
            break


@every_script
def test_worker_stalls_past_its_lease_and_goes_on_message_ends_in_one_place(
    world: WorldMaker, script: tuple[str, ...], ends: set[DispositionKind]
) -> None:
    """A worker stands still past its lease before any step but the send itself, others go on, then it goes on too."""
    for steps in range(LONGEST):
        here = world(*script)
        slow = here.begin(steps)
        if slow.done:
            here.end(slow)
            here.settle()
            assert here.check() in ends
            break
        if slow.step is not None and slow.step.fn == here.send:
            continue  # a send has to end before its lease does
        here.crashes += 1
        here.clock.advance(LEASE)
        here.queue.append(here.message)
        here.end(here.begin(0))
        slow.finish()
        here.settle()
        assert here.check() in ends


@every_script
def test_copies_in_progress_at_the_same_time_message_ends_in_one_place(
    world: WorldMaker, script: tuple[str, ...], ends: set[DispositionKind]
) -> None:
    """A second copy comes before any step of the first one's flow, its lease still running."""
    for steps in range(LONGEST):
        here = world(*script)
        first = here.begin(steps)
        here.queue.append(here.message)
        second = here.begin(0)
        second.finish()
        here.end(first)
        here.queue.pop(0)
        here.settle()
        assert here.check() in ends
        if first.done and first.step is None and steps >= LONGEST - 1:
            break


def _drive_scheduler(here: World, steps: int) -> bool:
    return crash_before(here.scheduler._run_once(), steps)


def test_scheduler_dies_before_any_step_message_comes_back(world: WorldMaker) -> None:
    """The scheduler dies while it republishes; another one goes on when its lease has ended."""
    for steps in range(LONGEST):
        here = world("temporary")
        here.end(here.begin(0))
        here.clock.advance("1h")
        died = _drive_scheduler(here, steps)
        here.clock.advance(LEASE)
        here.settle()
        assert here.check() is K.SENT
        if not died:
            assert steps == 3  # claim_due, publish, ack
            return
    raise AssertionError("the scheduler's flow has no end")


@pytest.mark.parametrize("outcome", ["reply lost", "request lost"])
def test_reconciler_dies_before_any_step_outcome_is_settled(world: WorldMaker, outcome: str) -> None:
    """The reconciler dies while it finds out about a send; the next one, or a copy of the message, goes on."""
    for steps in range(LONGEST):
        here = world(outcome)
        here.end(here.begin(0))
        here.clock.advance("1h")
        died = crash_before(here.reconciler._run_once(100), steps)
        here.clock.advance(LEASE)
        here.settle()
        assert here.check() is K.SENT
        if not died:
            return
    raise AssertionError("the reconciler's flow has no end")


def test_killer_payload_is_quarantined_at_its_third_crash(world: WorldMaker) -> None:
    """A payload that kills every worker that parses it is taken out of circulation unprocessed, with its evidence."""
    here = world(kills=True)
    here.settle()
    assert here.check() is K.DEAD_LETTERED
    assert here.crashes == 3
    (letter,) = here.backend.dead_letters.search().letters
    assert (letter.error_class, letter.reason, letter.attempt_count) == ("poison_message", "poison_message", 3)
    assert [disposition.kind for disposition in here.dispositions if disposition.dead_letter_id] != []


def test_innocent_message_beside_crashes_of_others_is_not_condemned(world: WorldMaker) -> None:
    """Two crashes while a message is held do not make it poison."""
    here = world()
    for _ in range(2):
        assert here.crash(2)  # the claim is the second step
        here.clock.advance(LEASE)
    here.settle()
    assert here.check() is K.SENT
    record = here.backend.claims.get(here.key)
    assert record is not None
    assert (record.counters.crashed, record.counters.failed, record.counters.started) == (2, 0, 3)


def _held_by_two(world: WorldMaker) -> tuple[World, Paused[Disposition]]:
    """Return a world in which a stalled worker has sent, and another holds the message as unknown until a person looks."""
    here = world(matrix=attrs.evolve(EMAIL_MATRIX, on_unknown=Action.MANUAL_REVIEW))
    late = here.begin(5)  # it has read the pauses, claimed, parsed, marked and sent
    assert here.accepted == 1
    here.crashes += 1
    here.clock.advance(LEASE)
    here.queue.append(here.message)
    return here, late


def test_late_acceptance_of_a_held_message_resolves_its_letter(world: WorldMaker) -> None:
    """A worker that comes back and knows that the provider accepted is believed, and the dead letter is resolved."""
    here, late = _held_by_two(world)
    here.end(here.begin(0))
    (letter,) = here.backend.dead_letters.search(DeadLetterQuery(message_id=here.key)).letters
    assert letter.state == "quarantined"
    late.finish()
    here.settle()
    assert here.check() is K.SENT
    (letter,) = here.backend.dead_letters.search(DeadLetterQuery(message_id=here.key)).letters
    assert letter.state == "resolved"


def test_late_acceptance_before_the_letter_arrives_makes_it_a_resolved_one(world: WorldMaker) -> None:
    """The confirmation comes between the settled claim and its letter: the letter is put as resolved."""
    here, late = _held_by_two(world)
    second = here.begin(0)
    while second.step is None or getattr(second.step.fn, "__name__", "") != "put":
        second.make_step()
    late.finish()
    here.end(second)
    here.settle()
    assert here.check() is K.SENT
    (letter,) = here.backend.dead_letters.search(DeadLetterQuery(message_id=here.key)).letters
    assert letter.state == "resolved"


def test_paused_message_taken_over_meanwhile_is_left_to_the_other(world: WorldMaker) -> None:
    """A worker that wants to let a paused message wait, and has lost it, changes nothing."""
    here = world()
    here.backend.circuits.pause("campaign:spring", reason="wrong prices", by="ada")
    here.clock.advance(1)
    slow = here.begin(2)
    here.crashes += 1
    here.clock.advance(LEASE)
    here.queue.append(here.message)
    here.end(here.begin(0))
    assert slow.finish().kind is K.RETRY_SCHEDULED
    here.backend.circuits.resume("campaign:spring")
    here.clock.advance(60)
    here.settle()
    assert here.check() is K.SENT


def test_two_reconcilers_at_once_settle_a_message_once(world: WorldMaker) -> None:
    """A reconciler that finds a message taken by another goes on to the next."""
    here = world("reply lost")
    here.end(here.begin(0))
    here.clock.advance("1h")
    slow = run_until(here.reconciler._run_once(100), 1)
    assert here.reconciler.run_once() == ReconcileReport(sent=1)
    assert slow.finish() == ReconcileReport()
    here.settle()
    assert here.check() is K.SENT
