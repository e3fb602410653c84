"""Claiming: who is answered what, when a hold or a wait is over, and what is counted."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import attrs
import pytest

from ...decision import Action, DeadLetterReason, Decision, DispositionKind
from ...errors import FingerprintMismatchError
from ...lease import Lease
from ...machines import claim as machine
from ...machines.poison import is_crash
from ...stores.claims import (
    Claimed,
    ClaimRecord,
    ClaimState,
    ClaimStore,
    Counters,
    Done,
    InProgress,
    NotDue,
    PoisonRule,
    Unknown,
)
from .claims_states import RETRY, VERIFY, claimed, following, sending, settled
from .suite import StoreSuite, SuiteClock

__all__ = ["ClaimTakingTests"]


class ClaimTakingTests(StoreSuite[ClaimStore]):
    """What `claim`, `claim_unknown` and `get` answer."""

    def test_claim_of_a_new_key_is_granted_and_stored(self, store: ClaimStore, clock: SuiteClock) -> None:
        """The answer is what `get` gives afterwards."""
        record = ClaimRecord(
            key="k",
            state=ClaimState.CLAIMED,
            seq=1,
            lease=Lease("me", 1, clock.now() + timedelta(minutes=1), clock.now()),
            fingerprint="f",
            opened_at=clock.now(),
            counters=Counters(started=1),
        )
        assert Claimed(record) == store.claim("k", owner="me", fingerprint="f", lease="1m")
        assert record == store.get("k")

    def test_get_of_a_key_never_claimed_is_none(self, store: ClaimStore) -> None:
        """A missing key is no error, and looking leaves no trace."""
        assert [None, None] == [store.get("k") for _ in range(2)]
        assert claimed(store).seq == 1

    def test_claim_of_a_held_key_is_in_progress_until_the_lease_ends(
        self, store: ClaimStore, clock: SuiteClock
    ) -> None:
        """To the very millisecond."""
        record = claimed(store)
        until = clock.now() + timedelta(seconds=30)
        assert InProgress(record, until) == store.claim("k", owner="other")
        clock.advance("29999ms")
        assert InProgress(record, until) == store.claim("k", owner="other")
        clock.advance("1ms")
        answer = store.claim("k", owner="other")
        assert isinstance(answer, Claimed)
        assert answer.record == store.get("k")

    def test_lapsed_hold_is_a_crash_in_the_history_and_the_key_is_granted_again(
        self, store: ClaimStore, clock: SuiteClock
    ) -> None:
        """A lost worker loses nothing: its try is counted, and told with its name."""
        lost = claimed(store, owner="lost")
        clock.advance("30s")
        record = claimed(store, owner="next")
        assert (Counters(started=2, crashed=1), 2) == (record.counters, record.seq)
        assert Lease("next", 2, clock.now() + timedelta(seconds=30), clock.now()) == record.lease
        (attempt,) = record.attempts
        assert lost.lease is not None
        assert ("lost", lost.lease.deadline, 1) == (attempt.worker, attempt.failed_at, attempt.number)
        assert lost.lease.granted_at == attempt.started_at
        assert is_crash(attempt)

    def test_crashes_are_counted_one_by_one(self, store: ClaimStore, clock: SuiteClock) -> None:
        """A counter, no flag: the second time differs from the third."""
        rule = PoisonRule(limit=100)
        for number in range(6):
            answer = store.claim("k", owner=f"worker {number}", lease=30, poison=rule)
            assert isinstance(answer, Claimed)
            assert (number, number + 1) == (answer.record.counters.crashed, answer.record.counters.started)
            assert [f"worker {n}" for n in range(number)] == [a.worker for a in answer.record.attempts]
            clock.advance("30s")

    def test_owner_that_comes_back_after_its_lease_is_a_new_holder(self, store: ClaimStore, clock: SuiteClock) -> None:
        """The same name does not hide the crash, and the token of its former life is worth nothing."""
        before = claimed(store)
        clock.advance("30s")
        after = claimed(store)
        assert (before.seq + 1, 1) == (after.seq, after.counters.crashed)
        assert store.begin_send("k", before.seq, lease=30) is None

    def test_claim_repeated_by_its_owner_is_granted_again(self, store: ClaimStore, clock: SuiteClock) -> None:
        """Its first answer was lost: the hold is the same, and ends when it would have ended."""
        record = claimed(store)
        clock.advance("29999ms")
        assert Claimed(record) == store.claim("k", owner="me", lease="1h")
        assert record == store.get("k")

    def test_claim_repeated_by_the_holder_that_has_begun_to_send_is_in_progress(self, store: ClaimStore) -> None:
        """Whether it sent cannot be told any more."""
        record = sending(store)
        assert record.lease is not None
        assert InProgress(record, record.lease.deadline) == store.claim("k", owner="me")

    def test_claims_of_different_keys_are_independent(self, store: ClaimStore) -> None:
        """Each key has its own record, and none waits for another."""
        keys = ["a", "b", "A", "a "]
        assert keys == [claimed(store, key).key for key in keys]
        records = [store.get(key) for key in keys]
        assert [(key, 1) for key in keys] == [(record.key, record.seq) for record in records if record is not None]

    @pytest.mark.parametrize("is_settled", [False, True], ids=["held", "settled"])
    def test_claim_with_another_payload_is_refused_and_changes_nothing(
        self, store: ClaimStore, clock: SuiteClock, is_settled: bool
    ) -> None:
        """Whatever became of the first one, and also once its lease has ended."""
        store.claim("k", owner="me", fingerprint="first", lease=30)
        if is_settled:
            store.confirm("k")
        before = store.get("k")
        for _ in range(2):
            with pytest.raises(FingerprintMismatchError):
                store.claim("k", owner="other", fingerprint="second")
            assert before == store.get("k")
            clock.advance("31s")

    @pytest.mark.parametrize(("first", "second"), [(None, "f"), ("f", None), (None, None), ("f", "f")])
    def test_claim_without_a_payload_to_compare_is_not_refused(
        self, store: ClaimStore, clock: SuiteClock, first: str | None, second: str | None
    ) -> None:
        """None does not look, and the fingerprint stays that of the first claim."""
        store.claim("k", owner="me", fingerprint=first, lease=30)
        clock.advance("30s")
        answer = store.claim("k", owner="other", fingerprint=second)
        assert isinstance(answer, Claimed)
        assert first == answer.record.fingerprint

    def test_retry_waits_until_its_instant_and_no_shorter(self, store: ClaimStore, clock: SuiteClock) -> None:
        """`NotDue` tells when; then it is granted with the history."""
        record = settled(store, sending(store), RETRY)
        due_at = clock.now() + timedelta(seconds=5)
        assert (ClaimState.WAITING, due_at) == (record.state, record.not_before)
        clock.advance("4999ms")
        assert NotDue(record, due_at) == store.claim("k", owner="other")
        assert record == store.get("k")
        clock.advance("1ms")
        again = claimed(store, owner="other")
        assert (record.attempts, 2, None) == (again.attempts, again.counters.started, again.not_before)

    def test_verification_waits_until_its_instant_and_no_shorter(self, store: ClaimStore, clock: SuiteClock) -> None:
        """Then whoever claims the message holds it to find out, not to send."""
        record = settled(store, sending(store), VERIFY)
        due_at = clock.now() + timedelta(seconds=60)
        clock.advance("59999ms")
        assert NotDue(record, due_at) == store.claim("k", owner="other")
        assert store.claim_unknown("k", owner="other") is None
        clock.advance("1ms")
        answer = store.claim("k", owner="other")
        assert isinstance(answer, Unknown)
        assert (ClaimState.UNKNOWN, record.seq + 1) == (answer.record.state, answer.record.seq)

    def test_wait_that_began_late_in_a_second_is_no_shorter(self, store: ClaimStore, clock: SuiteClock) -> None:
        """Instants are kept to the millisecond: a second from .900 on ends at .900."""
        clock.advance("900ms")
        record = settled(store, sending(store), attrs.evolve(RETRY, delay=1.0))
        assert clock.now() + timedelta(seconds=1) == record.not_before
        clock.advance("999ms")
        assert isinstance(store.claim("k", owner="other"), NotDue)
        clock.advance("1ms")
        assert isinstance(store.claim("k", owner="other"), Claimed)

    def test_lease_that_began_late_in_a_second_is_no_shorter(self, store: ClaimStore, clock: SuiteClock) -> None:
        """The same for a hold, and for one of a millisecond."""
        clock.advance("999ms")
        for length in (1000, 1):
            answer = store.claim("k", owner=f"for {length}", lease=f"{length}ms")
            assert isinstance(answer, Claimed)
            if length > 1:
                clock.advance(f"{length - 1}ms")
            assert isinstance(store.claim("k", owner="other"), InProgress)
            clock.advance("1ms")

    def test_lease_of_less_than_a_millisecond_is_a_millisecond(self, store: ClaimStore, clock: SuiteClock) -> None:
        """What is asked for is never cut short."""
        held = store.claim("k", owner="me", lease=0.0001)
        assert isinstance(held, Claimed)
        until = clock.now() + timedelta(milliseconds=1)
        assert InProgress(held.record, until) == store.claim("k", owner="other")

    def test_lease_of_an_hour_is_an_hour(self, store: ClaimStore, clock: SuiteClock) -> None:
        """Its length is the caller's, not the store's."""
        store.claim("k", owner="me", lease="1h")
        clock.advance("3599999ms")
        assert isinstance(store.claim("k", owner="other"), InProgress)

    def test_lease_and_wait_beyond_the_calendar_end_with_it(self, store: ClaimStore, clock: SuiteClock) -> None:
        """An absurd length loses no message."""
        last = datetime.max.replace(microsecond=999000, tzinfo=UTC)
        held = store.claim("k", owner="me", lease=1e15)
        assert isinstance(held, Claimed)
        assert InProgress(held.record, last) == store.claim("k", owner="other")
        record = settled(store, held.record, attrs.evolve(RETRY, delay=1e15))
        assert (last, record) == (record.not_before, store.get("k"))
        assert NotDue(record, last) == store.claim("k", owner="other")
        clock.move_to(last)
        assert isinstance(store.claim("k", owner="other"), Claimed)

    def test_clock_that_is_set_back_ends_no_hold_and_no_wait(self, store: ClaimStore, clock: SuiteClock) -> None:
        """They end at the instants that were promised."""
        waiting = settled(store, sending(store, "waiting"), RETRY)
        held = claimed(store, "held")
        clock.move_to(clock.now() - timedelta(days=1))
        assert isinstance(store.claim("waiting", owner="other"), NotDue)
        assert isinstance(store.claim("held", owner="other"), InProgress)
        assert [waiting, held] == [store.get("waiting"), store.get("held")]

    def test_sent_is_done_for_good(self, store: ClaimStore, clock: SuiteClock) -> None:
        """Every later claim is answered with the record."""
        held = sending(store)
        record = store.settle(machine.sent(held, provider="ses", provider_id="p-1"), held.seq)
        assert record is not None
        assert (DispositionKind.SENT, "ses", "p-1") == (record.disposition, record.provider, record.provider_id)
        clock.advance("10000d")
        assert Done(record) == store.claim("k", owner="other") == store.claim("k", owner="me")
        assert store.claim_unknown("k", owner="other") is None

    def test_unfinished_message_is_kept_for_ever(self, store: ClaimStore, clock: SuiteClock) -> None:
        """History, counters and token live as long as the message, not as long as a lease or a day."""
        for number in range(1, 6):
            record = settled(store, claimed(store), attrs.evolve(RETRY, delay=86400.0))
            assert (number, number, number) == (len(record.attempts), record.counters.failed, record.counters.started)
            assert 2 * number == record.seq
            clock.advance("200d")

    def test_history_stays_bounded(self, store: ClaimStore, clock: SuiteClock) -> None:
        """A hundred attempts are kept, the counters go on."""
        record = claimed(store)
        for _ in range(machine.HISTORY_LIMIT + 2):
            record = settled(store, record, attrs.evolve(RETRY, delay=0.0))
            clock.advance("1s")
            record = claimed(store)
        assert (100, 102, 3) == (len(record.attempts), record.counters.failed, record.attempts[0].number)
        assert record == store.get("k")

    def test_poison_is_settled_in_the_claim_itself(self, store: ClaimStore, clock: SuiteClock) -> None:
        """After the third crash nothing is started any more; the claim that found it is told so."""
        for number in range(3):
            claimed(store, owner=f"worker-{number}")
            clock.advance("31s")
        answer = store.claim("k", owner="last")
        assert isinstance(answer, Done)
        assert answer.convicted
        record = answer.record
        assert (DispositionKind.DEAD_LETTERED, DeadLetterReason.POISON_MESSAGE) == (record.disposition, record.reason)
        assert (Counters(started=3, crashed=3), "k#1", clock.now()) == (
            record.counters,
            record.dead_letter_id,
            record.settled_at,
        )
        assert record == store.get("k")
        assert Done(record) == store.claim("k", owner="last") == store.claim("k", owner="other")

    def test_poison_rule_is_that_of_the_caller(self, store: ClaimStore, clock: SuiteClock) -> None:
        """One crash may be enough, and a crash before its window does not count."""
        for key, pause in (("young", "30s"), ("old", "31s")):
            claimed(store, key)
            clock.advance("30s")
            clock.advance(pause)
            answer = store.claim(key, owner="last", poison=PoisonRule(limit=1, window="30500ms"))
            assert type(answer) is (Done if key == "young" else Claimed)

    def test_send_that_lapsed_is_verified_before_it_is_poison(self, store: ClaimStore, clock: SuiteClock) -> None:
        """It may have been sent: that comes first."""
        for number in range(3):
            sending(store, owner=f"worker-{number}") if number == 2 else claimed(store, owner=f"worker-{number}")
            clock.advance("31s")
        answer = store.claim("k", owner="last")
        assert isinstance(answer, Unknown)
        again = store.settle(machine.decided(answer.record, Decision(Action.RETRY, 0.0, "not sent")), answer.record.seq)
        assert again is not None
        assert isinstance(store.claim("k", owner="last"), Done)

    def test_claim_that_sends_at_once_is_unknown_when_its_holder_is_lost(
        self, store: ClaimStore, clock: SuiteClock
    ) -> None:
        """The send begins with the claim, without a further step; asked again before its answer came, it is granted again."""
        answer = store.claim("k", owner="me", lease=30, sending=True)
        assert isinstance(answer, Claimed)
        assert (ClaimState.SENDING, 1) == (answer.record.state, answer.record.counters.started)
        assert answer == store.claim("k", owner="me", lease=30, sending=True)
        assert isinstance(store.claim("k", owner="other", sending=True), InProgress)
        assert store.settle(machine.sent(answer.record), answer.record.seq - 1) is None
        clock.advance("30s")
        assert isinstance(store.claim("k", owner="other", sending=True), Unknown)

    def test_settled_key_counts_for_its_time(self, store: ClaimStore, clock: SuiteClock) -> None:
        """After that it is granted as if it were new, with a token that never was; whoever names no time sees it settled."""
        record = claimed(store)
        done = store.settle(machine.sent(record), record.seq)
        assert done is not None
        clock.advance("59999ms")
        assert isinstance(store.claim("k", owner="next", ttl="1m"), Done)
        clock.advance("2ms")
        assert isinstance(store.claim("k", owner="next"), Done)
        answer = store.claim("k", owner="next", ttl="1m", fingerprint="another")
        assert isinstance(answer, Claimed)
        assert (done.seq + 1, done.generation + 1) == (answer.record.seq, answer.record.generation)
        assert (Counters(started=1), None, ()) == (answer.record.counters, answer.record.result, answer.record.attempts)
        assert store.settle(machine.sent(record), record.seq) is None

    def test_unfinished_key_counts_for_ever(self, store: ClaimStore, clock: SuiteClock) -> None:
        """No time makes an unknown send new."""
        sending(store)
        clock.advance("9d")
        assert isinstance(store.claim("k", owner="next", ttl="1m"), Unknown)

    def test_lapsed_send_is_unknown_and_has_one_verifier(self, store: ClaimStore, clock: SuiteClock) -> None:
        """Whoever claims the message, or whoever looks for such sends; and if it goes as well, the next one."""
        sending(store)
        assert store.claim_unknown("k", owner="reconciler") is None
        clock.advance("29999ms")
        assert store.claim_unknown("k", owner="reconciler") is None
        clock.advance("1ms")
        record = store.claim_unknown("k", owner="reconciler", lease=10)
        assert record is not None
        assert record.lease is not None
        assert (ClaimState.UNKNOWN, 1, "reconciler") == (record.state, record.counters.crashed, record.lease.owner)
        assert record == store.get("k")
        assert store.claim_unknown("k", owner="other") is None
        assert InProgress(record, record.lease.deadline) == store.claim("k", owner="other")
        clock.advance("10s")
        answer = store.claim("k", owner="other")
        assert isinstance(answer, Unknown)
        assert (record.seq + 1, 1) == (answer.record.seq, answer.record.counters.crashed)

    def test_verification_repeated_by_its_owner_is_granted_again(self, store: ClaimStore, clock: SuiteClock) -> None:
        """Its first answer was lost, and the hold is the same, however it was come by."""
        sending(store)
        clock.advance("30s")
        record = store.claim_unknown("k", owner="me", lease=30)
        assert record is not None
        clock.advance("29999ms")
        assert record == store.claim_unknown("k", owner="me", lease="1h")
        assert Unknown(record) == store.claim("k", owner="me", lease="1h")
        assert record == store.get("k")

    def test_claim_unknown_of_what_is_not_unknown_is_none(self, store: ClaimStore, clock: SuiteClock) -> None:
        """A missing key, a crash before the send and a retry are nobody's to find out about."""
        claimed(store, "claimed")
        settled(store, sending(store, "waiting"), RETRY)
        store.settle(following(claimed(store, "discarded"), Decision(Action.DISCARD, 0.0, "d")), 1)
        clock.advance("1h")
        for key in ("absent", "claimed", "waiting", "discarded"):
            before = store.get(key)
            assert store.claim_unknown(key, owner="other") is None
            assert before == store.get(key)
