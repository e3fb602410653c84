"""The history and its bound, the rule that quarantines killers, and the token that never goes back."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrykit.decision import Action, DeadLetterReason, DispositionKind
from retrykit.failure import ErrorClass
from retrykit.machines import claim as machine
from retrykit.machines.claim import HISTORY_LIMIT, ClaimState, Counters
from tests.machines.claims import LEASE, RETRY, TIMEOUT, at, claimed, settled, take, waiting


def test_history_keeps_the_latest_hundred():
    """Failed and crashed tries alike; the counters go on."""
    record = None
    for number in range(HISTORY_LIMIT + 20):
        record = waiting(record, now=at(10 * number))
        assert min(number + 1, HISTORY_LIMIT) == len(record.attempts)
    record = claimed(record, now=at(10**4))
    record = claimed(record, owner="other", now=at(2 * 10**4))
    assert len(record.attempts) == HISTORY_LIMIT
    assert [22, 121] == [record.attempts[0].number, record.attempts[-1].number]
    assert (120, 1) == (record.counters.failed, record.counters.crashed)


def test_poison_is_quarantined_at_the_third_crash_in_the_window():
    """Unprocessed, in the claim itself, with a letter and a history that says why."""
    record = None
    for number in range(3):
        record, answer = take(record, owner=f"worker-{number}", now=at(100 * number))
        assert type(answer) is machine.Claimed
    record, answer = take(record, owner="worker-3", now=at(300))
    assert machine.Done(record, convicted=True) == answer
    assert (ClaimState.DONE, DispositionKind.DEAD_LETTERED, DeadLetterReason.POISON_MESSAGE, "k#1", at(300)) == (
        record.state,
        record.disposition,
        record.reason,
        record.dead_letter_id,
        record.settled_at,
    )
    assert (Counters(started=3, crashed=3), None) == (record.counters, record.lease)
    last = record.attempts[-1]
    assert (4, ErrorClass.POISON_MESSAGE, Action.DEAD_LETTER) == (last.number, last.failure.error_class, last.action)
    assert (
        last.failure.error_message
        == "3 workers were lost while they had this message, within 259200 s; the last was worker-2"
    )
    assert take(record, now=at(400)) == (record, machine.Done(record))


def test_poison_rule_forgets_crashes_older_than_its_window():
    """Three crashes in three weeks make no poison."""
    record = None
    for number in range(10):
        record, answer = take(record, now=at(30 * 3600 * number))
        assert type(answer) is machine.Claimed
    assert record.counters.crashed == 9


def test_message_is_a_suspect_from_its_first_crash_on():
    """As long as the crash lies within the window of the rule, and however often the claim is asked for."""
    record, answer = take(None)
    assert not answer.is_suspect
    record, answer = take(record, owner="next", now=at(100))
    assert answer.is_suspect
    assert take(record, owner="next", now=at(101)) == (record, answer)
    given_back = settled(record, machine.interrupted(record), now=at(101))
    assert take(given_back, now=at(102))[1].is_suspect
    assert not take(given_back, now=at(73 * 3600))[1].is_suspect


def test_suspect_that_is_not_wanted_is_held_by_nobody():
    """The crash is noticed all the same, no start is counted, and whoever wants it may take it at once."""
    record, answer = take(claimed(), owner="next", now=at(100), suspects=False)
    assert machine.Suspect(record) == answer
    assert (ClaimState.FREE, None, 2, Counters(started=1, crashed=1)) == (
        record.state,
        record.lease,
        record.seq,
        record.counters,
    )
    assert take(record, owner="next", now=at(101), suspects=False) == (record, answer)
    held, answer = take(record, owner="next", now=at(101))
    assert machine.Claimed(held, is_suspect=True) == answer
    assert take(held, owner="next", now=at(102), suspects=False) == (held, answer)
    assert type(take(record, owner="next", now=at(74 * 3600), suspects=False)[1]) is machine.Claimed
    assert type(take(None, suspects=False)[1]) is machine.Claimed


def test_poison_rule_counts_crashes_only():
    """Failures, however many, are the policy's business."""
    record = None
    for number in range(10):
        record = waiting(record, now=at(10 * number))
    assert type(take(record, now=at(1000))[1]) is machine.Claimed


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_poison_rule_of_the_application_is_obeyed(limit):
    """The limit is the number of crashes that are enough."""
    record, rule = None, machine.PoisonRule(limit=limit, window=3600)
    for number in range(limit):
        record, answer = take(record, now=at(100 * number), poison=rule)
        assert type(answer) is machine.Claimed
    assert type(take(record, now=at(100 * limit), poison=rule)[1]) is machine.Done


def test_poison_in_the_send_is_verified_before_it_is_quarantined():
    """The third crash may have been a send: first it is found out, and only then nothing more is started."""
    record = claimed(claimed(), now=at(100))
    record = machine.begin_send(claimed(record, now=at(200)), 3, lease=LEASE, now=at(200))
    held, answer = take(record, now=at(300))
    assert (machine.Unknown(held), 3) == (answer, held.counters.crashed)
    again = settled(held, machine.decided(held, RETRY), delay=0.0, now=at(300))
    assert type(take(again, now=at(300))[1]) is machine.Done


operations = st.lists(
    st.tuples(st.sampled_from(["take", "peek", "look", "begin", "retry", "sent", "confirm"]), st.integers(0, 40))
)


@given(operations)
def test_token_never_goes_back(operations):
    """Whatever is done in whatever order, the number grows with every change but a renewal."""
    record, held, now = None, None, 0
    for operation, seconds in operations:
        now += seconds
        before = record
        if operation == "take":
            record, answer = take(record, owner=f"at {now}", now=at(now))
            held = record if isinstance(answer, machine.Claimed | machine.Unknown) else held
        elif operation == "peek":
            record, answer = take(record, owner=f"at {now}", now=at(now), suspects=False)
            held = record if isinstance(answer, machine.Claimed | machine.Unknown) else held
        elif operation == "look":
            record = machine.take_unknown(record, owner=f"at {now}", lease=LEASE, now=at(now)) or record
        elif operation == "confirm":
            record = machine.confirm(record, "k", provider=None, provider_id=None, now=at(now))
        elif held is not None and operation == "begin":
            record = machine.begin_send(record, held.seq, lease=LEASE, now=at(now)) or record
        elif held is not None:
            retry = machine.failed(held, TIMEOUT, RETRY, failed_at=at(now))
            following = machine.sent(held) if operation == "sent" else retry
            record = machine.write(record, following, held.seq, delay=5.0, now=at(now)) or record
        if before is not None:
            assert record.seq >= before.seq
            same = attrs.evolve(before, lease=record.lease, state=record.state)
            assert (record.seq == before.seq) is (record == same)
