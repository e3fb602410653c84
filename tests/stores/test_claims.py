"""The claim store's contract, the same for every backend and colour."""

from __future__ import annotations

from datetime import timedelta

import attrs
import pytest

from retrykit.decision import Action, DeadLetterReason, Decision, DispositionKind
from retrykit.errors import ConfigurationError, FingerprintMismatchError, InvalidMessageError
from retrykit.failure import ErrorClass, Failure, Outcome
from retrykit.lease import Lease
from retrykit.machines import claim as machine
from retrykit.stores import Claimed, ClaimRecord, ClaimState, Done, InProgress, NotDue, PoisonRule, Unknown

TIMEOUT = Failure(error_class=ErrorClass.NETWORK_TIMEOUT, outcome=Outcome.NOT_SENT, error_message="timed out")
RETRY = Decision(Action.RETRY, 5.0, "network_timeout, retry 1 of 5, waits 5 s")
VERIFY = Decision(Action.VERIFY, 60.0, "may have been sent")
DEAD = Decision(Action.DEAD_LETTER, 0.0, "all used", DeadLetterReason.RETRIES_EXHAUSTED)


def claimed(backend, key="k", owner="me"):
    """Claim a key that can be claimed and return the record."""
    answer = backend.claims.claim(key, owner=owner)
    assert type(answer) is Claimed
    return answer.record


def sending(backend, key="k", owner="me"):
    record = claimed(backend, key, owner)
    return backend.claims.begin_send(key, record.seq, lease=30)


def settle_failed(backend, record, decision):
    following = machine.failed(record, TIMEOUT, decision, failed_at=record.opened_at)
    return backend.claims.settle(following, record.seq, delay=decision.delay)


def test_claim_of_a_new_key_is_granted_and_stored(backend, clock):
    """The answer is what `get` gives afterwards."""
    answer = backend.claims.claim("k", owner="me", fingerprint="f", lease="1m")
    record = ClaimRecord(
        key="k",
        state=ClaimState.CLAIMED,
        seq=1,
        lease=Lease("me", 1, clock.now() + timedelta(minutes=1)),
        fingerprint="f",
        opened_at=clock.now(),
        counters=machine.Counters(started=1),
    )
    assert Claimed(record) == answer
    assert record == backend.claims.get("k")


def test_get_of_a_key_never_claimed_is_none(backend):
    """A missing key is no error."""
    assert backend.claims.get("k") is None


def test_claim_of_a_held_key_is_in_progress_until_the_lease_ends(backend, clock):
    """Also to the very millisecond."""
    record = claimed(backend)
    until = clock.now() + timedelta(seconds=30)
    clock.advance("29999ms")
    assert InProgress(record, until) == backend.claims.claim("k", owner="other")
    clock.advance("1ms")
    answer = backend.claims.claim("k", owner="other")
    assert type(answer) is Claimed
    assert (2, "other", 1) == (answer.record.seq, answer.record.lease.owner, answer.record.counters.crashed)
    assert answer.record == backend.claims.get("k")


def test_claim_repeated_by_its_owner_is_granted_again(backend):
    """Its first answer was lost; nothing changes."""
    record = claimed(backend)
    assert Claimed(record) == backend.claims.claim("k", owner="me")


def test_claims_of_different_keys_are_independent(backend):
    """Each key has its own record."""
    assert ["a", "b"] == [claimed(backend, key).key for key in "ab"]
    assert [1, 1] == [backend.claims.get(key).seq for key in "ab"]


def test_claim_with_another_payload_is_refused_and_changes_nothing(backend):
    """The record stays as it was."""
    backend.claims.claim("k", owner="me", fingerprint="first")
    before = backend.claims.get("k")
    with pytest.raises(FingerprintMismatchError):
        backend.claims.claim("k", owner="other", fingerprint="second")
    assert before == backend.claims.get("k")


def test_retry_waits_until_its_instant_and_no_shorter(backend, clock):
    """`NotDue` tells when; then it is granted with the history."""
    record = settle_failed(backend, sending(backend), RETRY)
    assert (ClaimState.WAITING, clock.now() + timedelta(seconds=5)) == (record.state, record.not_before)
    assert record == backend.claims.get("k")
    clock.advance("4999ms")
    assert NotDue(record, record.not_before) == backend.claims.claim("k", owner="other")
    clock.advance("1ms")
    again = claimed(backend, owner="other")
    assert (record.attempts, 2) == (again.attempts, again.counters.started)


def test_sent_is_done_for_good(backend, clock):
    """Every later claim is answered with the record."""
    held = sending(backend)
    record = backend.claims.settle(machine.sent(held, provider="ses", provider_id="p-1"), held.seq)
    assert (DispositionKind.SENT, "ses", "p-1", clock.now()) == (
        record.disposition,
        record.provider,
        record.provider_id,
        record.settled_at,
    )
    clock.advance("1000d")
    assert Done(record) == backend.claims.claim("k", owner="other")


def test_settle_repeated_after_a_lost_answer_gives_the_stored_record(backend, clock):
    """With the instants of the first time."""
    held = sending(backend)
    following = machine.failed(held, TIMEOUT, RETRY, failed_at=clock.now())
    stored = backend.claims.settle(following, held.seq, delay=5)
    clock.advance("2s")
    assert stored == backend.claims.settle(following, held.seq, delay=5)
    assert stored == backend.claims.get("k")


def test_late_holder_is_refused_and_changes_nothing(backend, clock):
    """Whoever was replaced neither sends nor settles."""
    late = claimed(backend)
    clock.advance("31s")
    current = claimed(backend, owner="other")
    assert backend.claims.begin_send("k", late.seq, lease=30) is None
    assert backend.claims.settle(machine.sent(late), late.seq) is None
    assert settle_failed(backend, late, DEAD) is None
    assert current == backend.claims.get("k")


def test_late_holder_never_replaces_a_finished_result(backend, clock):
    """The result of the one that took over stays."""
    late = claimed(backend)
    clock.advance("31s")
    current = sending(backend, owner="other")
    record = backend.claims.settle(machine.sent(current, provider_id="p-2"), current.seq)
    assert settle_failed(backend, late, DEAD) is None
    assert record == backend.claims.get("k")


def test_operations_on_a_key_without_a_record_are_refused(backend):
    """Nothing is made up."""
    assert backend.claims.begin_send("k", 1, lease=30) is None
    assert backend.claims.claim_unknown("k", owner="me") is None
    other = sending(backend, "other")
    assert backend.claims.settle(attrs.evolve(machine.sent(other), key="k"), 1) is None
    assert backend.claims.get("k") is None


def test_begin_send_renews_the_lease_and_keeps_the_token(backend, clock):
    """A send that needs longer asks for longer."""
    held = claimed(backend)
    clock.advance("20s")
    record = backend.claims.begin_send("k", held.seq, lease="2m")
    assert (
        attrs.evolve(held, state=ClaimState.SENDING, lease=Lease("me", 1, clock.now() + timedelta(minutes=2))) == record
    )
    assert record == backend.claims.get("k")


def test_lapsed_send_is_unknown_and_is_held_by_one_verifier(backend, clock):
    """By whoever claims it, or by whoever looks for unsettled sends."""
    sending(backend)
    assert backend.claims.claim_unknown("k", owner="reconciler") is None
    clock.advance("30s")
    record = backend.claims.claim_unknown("k", owner="reconciler", lease=10)
    assert (ClaimState.UNKNOWN, "reconciler") == (record.state, record.lease.owner)
    assert backend.claims.claim_unknown("k", owner="other") is None
    assert InProgress(record, record.lease.deadline) == backend.claims.claim("k", owner="other")
    clock.advance("10s")
    answer = backend.claims.claim("k", owner="other")
    assert type(answer) is Unknown
    assert (record.seq + 1, 1) == (answer.record.seq, answer.record.counters.crashed)


def test_unsettled_gives_what_is_due_longest_due_first(backend, clock):
    """Lapsed sends and due verifications, up to the limit; nothing that waits, runs or is settled."""
    for key in ("sent", "waiting", "claimed", "late", "early", "lapsed"):
        held = claimed(backend, key) if key == "claimed" else sending(backend, key)
        if key == "sent":
            backend.claims.settle(machine.sent(held), held.seq)
        elif key == "waiting":
            settle_failed(backend, held, RETRY)
        elif key in ("late", "early"):
            settle_failed(backend, held, attrs.evolve(VERIFY, delay=60.0 if key == "late" else 10.0))
    assert list(backend.claims.unsettled()) == []
    clock.advance("10s")
    assert list(backend.claims.unsettled()) == ["early"]
    clock.advance("50s")
    assert list(backend.claims.unsettled()) == ["early", "lapsed", "late"]
    assert list(backend.claims.unsettled(2)) == ["early", "lapsed"]
    backend.claims.claim_unknown("early", owner="me", lease=5)
    assert list(backend.claims.unsettled()) == ["lapsed", "late"]
    clock.advance("5s")
    assert list(backend.claims.unsettled()) == ["lapsed", "late", "early"]


def test_unsettled_of_equal_instants_is_ordered_by_key(backend, clock):
    """The order is the same in every store."""
    for key in ("b", "ü", "a", "Z", "😀"):
        sending(backend, key)
    clock.advance("1m")
    assert list(backend.claims.unsettled()) == ["Z", "a", "b", "ü", "😀"]


def test_confirm_needs_no_token_and_may_be_repeated(backend, clock):
    """The fact stands whoever holds the claim, also for a key never seen."""
    held = sending(backend)
    record = backend.claims.confirm("k", provider="ses", provider_id="p-1")
    assert (ClaimState.DONE, DispositionKind.SENT, "p-1") == (record.state, record.disposition, record.provider_id)
    clock.advance("1s")
    assert record == backend.claims.confirm("k", provider="other") == backend.claims.get("k")
    assert settle_failed(backend, held, RETRY) is None
    assert backend.claims.confirm("new").disposition is DispositionKind.SENT
    assert Done(backend.claims.get("new")) == backend.claims.claim("new", owner="me")


def test_third_crash_settles_the_message_as_poison_in_the_claim_itself(backend, clock):
    """Whoever asks is told once that it was convicted just now."""
    for number in range(3):
        claimed(backend, owner=f"worker-{number}")
        clock.advance("31s")
    answer = backend.claims.claim("k", owner="last")
    assert (True, DeadLetterReason.POISON_MESSAGE) == (answer.convicted, answer.record.reason)
    assert Done(answer.record) == backend.claims.claim("k", owner="last")
    assert answer.record == backend.claims.get("k")


def test_poison_rule_is_that_of_the_caller(backend, clock):
    """One crash may be enough."""
    claimed(backend)
    clock.advance("31s")
    answer = backend.claims.claim("k", owner="last", poison=PoisonRule(limit=1))
    assert (Done, True) == (type(answer), answer.convicted)


def test_history_survives_the_store_and_stays_bounded(backend, clock):
    """A hundred attempts are kept, the counters go on."""
    record = None
    for _ in range(machine.HISTORY_LIMIT + 2):
        record = settle_failed(backend, claimed(backend), attrs.evolve(RETRY, delay=0.0))
        clock.advance("1s")
    assert (100, 102, 3) == (len(record.attempts), record.counters.failed, record.attempts[0].number)
    assert record == backend.claims.get("k")


@pytest.mark.parametrize("lease", [0, -1, "soon", None])
def test_lease_that_is_no_positive_duration_is_refused(backend, lease):
    """Zero is a value, and not one that makes sense here; nothing is stored."""
    for call in (
        lambda: backend.claims.claim("k", owner="me", lease=lease),
        lambda: backend.claims.claim_unknown("k", owner="me", lease=lease),
        lambda: backend.claims.begin_send("k", 1, lease=lease),
    ):
        with pytest.raises(ConfigurationError, match=r"^lease is "):
            call()
    assert backend.claims.get("k") is None


@pytest.mark.parametrize("key", ["", "x" * 256, "a\0b", "\ud800", None, 5])
def test_key_that_is_not_allowed_is_refused_by_every_operation(backend, key):
    """The error is the same in every store."""
    for call in (
        lambda: backend.claims.claim(key, owner="me"),
        lambda: backend.claims.claim_unknown(key, owner="me"),
        lambda: backend.claims.begin_send(key, 1, lease=30),
        lambda: backend.claims.confirm(key),
        lambda: backend.claims.get(key),
    ):
        with pytest.raises(InvalidMessageError, match=r"^the key "):
            call()


@pytest.mark.parametrize("delay", [-1, float("nan"), "later"])
def test_settle_with_a_delay_that_is_no_duration_is_refused(backend, delay):
    """The hold stays."""
    held = sending(backend)
    with pytest.raises(ConfigurationError, match=r"^delay is "):
        backend.claims.settle(machine.sent(held), held.seq, delay=delay)
    assert held == backend.claims.get("k")


@pytest.mark.parametrize("limit", [0, -1, True, 1.5, None, "5"])
def test_unsettled_with_a_limit_that_is_no_count_is_refused(backend, limit):
    """A limit is a whole number of at least one."""
    with pytest.raises(ConfigurationError) as caught:
        backend.claims.unsettled(limit)
    assert f"limit is {limit!r}; allowed are whole numbers >= 1" == str(caught.value)


def test_wait_beyond_the_calendar_is_clamped(backend):
    """An absurd delay does not lose the message."""
    record = settle_failed(backend, sending(backend), attrs.evolve(RETRY, delay=1e15))
    assert (9999, record) == (record.not_before.year, backend.claims.get("k"))
