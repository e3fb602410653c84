"""Any process may die before any step, and any worker may stall past its lease: the invariants hold."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import pytest

from retrykit import EMAIL_MATRIX, Action
from retrykit.decision import Disposition, DispositionKind
from retrykit.reconcile import ReconcileReport
from retrykit.stores import DeadLetterQuery
from retrykit.testing import Paused
from tests.flows.fleet import LEASE, Stage
from tests.flows.world import World, WorldMaker

pytestmark = pytest.mark.unmeasured

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
    "breaker open": (("breaker open",), {K.SENT}),
    "breaker open, then temporary": (("breaker open", "temporary", "breaker open"), {K.SENT}),
    "breaker open, then reply lost": (("breaker open", "reply lost"), {K.SENT}),
    "breaker open, then refused content": (("breaker open", *("refused",) * 9), {K.HELD_FOR_REVIEW}),
}
"""What the provider does, and what may become of the message however many processes die."""

every_script = pytest.mark.parametrize(("script", "ends"), SCRIPTS.values(), ids=SCRIPTS.keys())

LONGEST = 12
"""More steps than any one flow has."""


def every_pair_of_crashes(first_and_second: Callable[[int, int], bool], stride: int = 1) -> int:
    """Call a test with every pair of steps to die before, until a flow has no such step; return how many there were.

    Args:
        first_and_second: tells whether the second worker died.
        stride: 1, or more to leave out second steps.
    """
    worlds = 0
    for first in range(LONGEST):
        for second in range(first % stride, LONGEST, stride):
            worlds += 1
            if not first_and_second(first, second):
                break
    return worlds


@every_script
def test_worker_dies_before_any_two_steps_message_ends_in_one_place(
    world: WorldMaker, stage: Stage, script: tuple[str, ...], ends: set[DispositionKind]
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

    assert every_pair_of_crashes(die, 4 if stage.is_slow else 1) > LONGEST


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
        if here.fleet.is_sending(slow):
            continue  # a send has to end before its lease does
        here.crashes += 1
        here.clock.advance(LEASE)
        here.queue.append(here.message)
        here.end(here.begin())
        here.end(slow)
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
        had_ended = first.done
        here.queue.append(here.message)
        here.end(here.begin())
        here.end(first)
        here.settle()
        assert here.check() in ends
        if had_ended:
            break


def test_scheduler_dies_before_any_step_message_comes_back(world: WorldMaker) -> None:
    """The scheduler dies while it republishes; another one goes on when its lease has ended."""
    for steps in range(LONGEST):
        here = world("temporary")
        here.end(here.begin())
        here.clock.advance("1h")
        died = not here.fleet.begin(here.fleet.scheduling(), steps).done
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
        here.end(here.begin())
        here.clock.advance("1h")
        died = not here.fleet.begin(here.fleet.reconciling(), steps).done
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
    here.end(here.begin())
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
    second = here.begin()
    while second.step is None or getattr(second.step.fn, "__name__", "") != "put":
        second.make_step()
    late.finish()
    here.end(second)
    here.settle()
    assert here.check() is K.SENT
    (letter,) = here.backend.dead_letters.search(DeadLetterQuery(message_id=here.key)).letters
    assert letter.state == "resolved"


def _given_up_beside_a_verifier(world: WorldMaker) -> tuple[World, Paused[ReconcileReport]]:
    """Return a world in which a stalled reconciler has learned that a message was sent, and another could not tell."""
    here = world("reply lost", lookups=("truth", "cannot tell"))
    here.end(here.begin())
    here.clock.advance("4d")
    late = here.fleet.begin(here.fleet.reconciling(), 4)  # it has found the message, read the log and asked
    here.clock.advance(LEASE)
    here.queue.append(here.message)
    assert here.end(here.begin()).kind is K.HELD_FOR_REVIEW
    return here, late


def test_late_verification_that_knows_of_the_acceptance_is_believed(world: WorldMaker) -> None:
    """A reconciler that comes back and has learned that the message was sent says so, and the letter is resolved."""
    here, late = _given_up_beside_a_verifier(world)
    assert late.finish() == ReconcileReport(sent=1)
    here.settle()
    assert here.check() is K.SENT


def test_late_verification_that_dies_after_the_log_is_heard_at_the_next_copy(world: WorldMaker) -> None:
    """The log says sent and the claim does not: the next copy of the message makes them agree."""
    here, late = _given_up_beside_a_verifier(world)
    late.make_step()
    here.queue.append(here.message)
    assert here.end(here.begin()).settled is K.SENT
    here.settle()
    assert here.check() is K.SENT


def test_late_acceptance_that_dies_after_the_log_is_heard_at_the_next_copy(world: WorldMaker) -> None:
    """A stalled worker writes its acceptance to the log and dies; its copy comes back."""
    here, late = _held_by_two(world)
    here.end(here.begin())
    late.make_step()
    here.queue.append(here.message)
    here.settle()
    assert here.check() is K.SENT


def test_paused_message_taken_over_meanwhile_is_left_to_the_other(world: WorldMaker) -> None:
    """A worker that wants to let a paused message wait, and has lost it, changes nothing."""
    here = world()
    here.backend.circuits.pause("campaign:spring", reason="wrong prices", by="ada")
    here.clock.advance(1)
    slow = here.begin(2)
    here.crashes += 1
    here.clock.advance(LEASE)
    here.queue.append(here.message)
    here.end(here.begin())
    assert slow.finish().kind is K.RETRY_SCHEDULED
    here.backend.circuits.resume("campaign:spring")
    here.clock.advance(60)
    here.settle()
    assert here.check() is K.SENT


def test_two_reconcilers_at_once_settle_a_message_once(world: WorldMaker) -> None:
    """A reconciler that finds a message taken by another goes on to the next."""
    here = world("reply lost")
    here.end(here.begin())
    here.clock.advance("1h")
    slow = here.fleet.begin(here.fleet.reconciling(), 1)
    assert here.fleet.begin(here.fleet.reconciling()).finish() == ReconcileReport(sent=1)
    assert slow.finish() == ReconcileReport()
    here.settle()
    assert here.check() is K.SENT
