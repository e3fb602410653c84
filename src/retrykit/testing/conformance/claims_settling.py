"""Settling: decisions, facts that need no token, what is to be found out, and what may be forgotten."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import attrs
import pytest

from ...decision import Action, Decision, DispositionKind
from ...errors import ConfigurationError
from ...machines import claim as machine
from ...message import CALL_MARK
from ...stores.claims import Claimed, ClaimRecord, ClaimState, ClaimStore, Counters, Done, Unknown
from .claims_states import DEAD, HELD, RETRY, STATES, TIMEOUT, UNHELD, VERIFY, claimed, following, sending, settled
from .suite import StoreSuite, SuiteClock

__all__ = ["ClaimSettlingTests"]

_FINAL = {
    DispositionKind.DEAD_LETTERED: DEAD,
    DispositionKind.HELD_FOR_REVIEW: attrs.evolve(DEAD, action=Action.MANUAL_REVIEW),
    DispositionKind.DISCARDED: attrs.evolve(DEAD, action=Action.DISCARD),
    DispositionKind.BOUNCED: attrs.evolve(DEAD, action=Action.MARK_BOUNCED),
}


class ClaimSettlingTests(StoreSuite[ClaimStore]):
    """What `settle`, `confirm`, `cancel`, `unsettled` and `purge` do."""

    @pytest.mark.parametrize("disposition", _FINAL)
    def test_final_decision_is_stored_with_its_try(
        self, store: ClaimStore, clock: SuiteClock, disposition: DispositionKind
    ) -> None:
        """At the instant of the store, and whatever delay is given with it."""
        held = sending(store)
        clock.advance("7ms")
        next_record = following(held, _FINAL[disposition])
        record = store.settle(next_record, held.seq, delay=99)
        assert attrs.evolve(next_record, settled_at=clock.now()) == record
        assert record is not None
        assert (ClaimState.DONE, disposition, None) == (record.state, record.disposition, record.not_before)
        assert record == store.get("k")
        assert Done(record) == store.claim("k", owner="other")

    @pytest.mark.parametrize("result", [None, "null", '""', "0", '{"a":"\\u00fc"}', "\N{PILE OF POO}", '"x"' * 5000])
    def test_result_is_kept_as_it_was_stored(self, store: ClaimStore, result: str | None) -> None:
        """None is not the same as a result of null, and neither is the same as nothing said."""
        held = sending(store)
        done = store.settle(machine.sent(held, result=result), held.seq)
        assert done is not None
        assert (done.result, done) == (result, store.get("k"))
        assert Done(done) == store.claim("k", owner="other")

    def test_released_key_is_granted_at_once(self, store: ClaimStore) -> None:
        """A try that had no effect stays in the history, and nobody waits for it."""
        held = sending(store)
        stored = store.settle(machine.released(held, TIMEOUT, failed_at=held.opened_at), held.seq)
        assert stored is not None
        assert (ClaimState.FREE, Counters(started=1, failed=1)) == (stored.state, stored.counters)
        assert claimed(store, owner="next").attempts == stored.attempts

    @pytest.mark.parametrize("decision", [RETRY, VERIFY], ids=["retry", "verify"])
    def test_wait_is_counted_by_the_clock_of_the_store(
        self, store: ClaimStore, clock: SuiteClock, decision: Decision
    ) -> None:
        """From the settlement on, rounded up to the millisecond."""
        held = sending(store)
        clock.advance("9s")
        next_record = following(held, decision)
        record = store.settle(next_record, held.seq, delay=4.9991)
        assert attrs.evolve(next_record, not_before=clock.now() + timedelta(milliseconds=5000)) == record
        assert record == store.get("k")

    def test_wait_of_zero_is_over_at_once(self, store: ClaimStore) -> None:
        """Zero is a delay, and not none."""
        settled(store, claimed(store), attrs.evolve(RETRY, delay=0.0))
        record = claimed(store, owner="next")
        settled(store, record, attrs.evolve(VERIFY, delay=0.0))
        assert list(store.unsettled()) == ["k"]
        assert isinstance(store.claim("k", owner="last"), Unknown)

    def test_interrupted_holder_gives_back_what_it_had(self, store: ClaimStore) -> None:
        """Free before the send and unknown in it, at once; it burns no attempt."""
        for key, prepare in HELD.items():
            held = prepare(store, key)
            assert held is not None
            assert store.settle(machine.interrupted(held), held.seq) is not None
            answer = store.claim(key, owner="next")
            assert type(answer) is (Claimed if key == "claimed" else Unknown)
            assert isinstance(answer, (Claimed, Unknown))
            assert attrs.evolve(held.counters, interrupted=1, started=answer.record.counters.started) == (
                answer.record.counters
            )
            assert held.attempts == answer.record.attempts

    def test_settle_with_a_lease_that_ended_but_was_not_taken_is_stored(
        self, store: ClaimStore, clock: SuiteClock
    ) -> None:
        """Nobody else decides, and the outcome is known."""
        held = sending(store)
        clock.advance("1d")
        record = store.settle(machine.sent(held), held.seq)
        assert record is not None
        assert (DispositionKind.SENT, Counters(started=1)) == (record.disposition, record.counters)

    @pytest.mark.parametrize("decision", [RETRY, VERIFY, DEAD], ids=["retry", "verify", "dead"])
    def test_settle_repeated_after_a_lost_answer_gives_the_stored_record(
        self, store: ClaimStore, clock: SuiteClock, decision: Decision
    ) -> None:
        """With the instants of the first time, however late it comes."""
        held = sending(store)
        next_record = following(held, decision)
        stored = store.settle(next_record, held.seq, delay=5)
        for _ in range(2):
            clock.advance("2s")
            assert stored == store.settle(next_record, held.seq, delay=5)
            assert stored == store.get("k")

    def test_settle_repeated_with_another_decision_is_refused(self, store: ClaimStore) -> None:
        """The first one stands."""
        held = sending(store)
        stored = store.settle(machine.sent(held), held.seq)
        assert store.settle(following(held, RETRY), held.seq, delay=5) is None
        assert store.settle(machine.sent(held, provider="ses"), held.seq) is None
        assert stored == store.get("k")

    @pytest.mark.parametrize("state", UNHELD)
    def test_settle_of_what_nobody_holds_is_refused(self, store: ClaimStore, state: str) -> None:
        """The current number is not enough."""
        record = UNHELD[state](store, "k")
        assert record is not None
        assert store.settle(following(record, attrs.evolve(DEAD, reason="another")), record.seq) is None
        assert record == store.get("k")

    def test_fields_of_a_newer_version_are_kept(self, store: ClaimStore, clock: SuiteClock) -> None:
        """A store that knows less loses nothing, from claim to claim."""
        held = claimed(store)
        newer = attrs.evolve(following(held, RETRY), extra={"mood": {"{}": [1, None, "ü"]}}, schema_version=7)
        record = store.settle(newer, held.seq, delay=5)
        assert record is not None
        assert (newer.extra, 7) == (record.extra, record.schema_version)
        clock.advance("5s")
        again = claimed(store)
        assert (newer.extra, 7) == (again.extra, again.schema_version)

    @pytest.mark.parametrize("state", [state for state in STATES if state not in ("absent", "sent")])
    def test_confirm_makes_a_message_of_any_state_sent(self, store: ClaimStore, clock: SuiteClock, state: str) -> None:
        """A fact, whoever holds the claim; the history and the letter that may exist stay, and holders are shut out."""
        prepare, seconds = STATES[state]
        before = prepare(store, "k")
        clock.advance(seconds)
        assert before is not None
        record = store.confirm("k", provider="smtp", provider_id="p-1")
        assert (ClaimState.DONE, DispositionKind.SENT, None, clock.now()) == (
            record.state,
            record.disposition,
            record.lease,
            record.settled_at,
        )
        assert ("smtp", "p-1", before.attempts, before.dead_letter_id) == (
            record.provider,
            record.provider_id,
            record.attempts,
            record.dead_letter_id,
        )
        assert record.seq > before.seq
        assert store.settle(following(before, RETRY), before.seq) is None
        assert store.renew("k", before.seq, lease=30) is None
        assert record == store.get("k")

    def test_confirm_of_a_key_never_claimed_makes_a_record(self, store: ClaimStore, clock: SuiteClock) -> None:
        """A provider may know a message that the store has forgotten."""
        record = store.confirm("k", provider_id="p-1")
        assert (ClaimState.DONE, DispositionKind.SENT, None, "p-1", clock.now()) == (
            record.state,
            record.disposition,
            record.provider,
            record.provider_id,
            record.settled_at,
        )
        assert record == store.get("k")
        assert Done(record) == store.claim("k", owner="me")

    def test_confirm_repeated_changes_nothing(self, store: ClaimStore, clock: SuiteClock) -> None:
        """A fact may be told twice, and what was told first stands."""
        sending(store)
        record = store.confirm("k", provider="ses", provider_id="p-1")
        clock.advance("1s")
        assert record == store.confirm("k", provider="other", provider_id="p-2") == store.confirm("k")
        assert record == store.get("k")

    def test_confirm_fills_in_what_was_not_known_yet(self, store: ClaimStore, clock: SuiteClock) -> None:
        """Field by field; the instant stays that of the settlement."""
        held = sending(store)
        stored = store.settle(machine.sent(held, provider="ses"), held.seq)
        assert stored is not None
        clock.advance("1s")
        record = store.confirm("k", provider="other", provider_id="p-1")
        assert attrs.evolve(stored, provider_id="p-1", seq=record.seq) == record
        assert record.seq > stored.seq
        assert record == store.get("k") == store.confirm("k", provider_id="p-2")

    def test_confirm_ends_the_doubt_of_a_settled_message(self, store: ClaimStore) -> None:
        """It was given up without knowing whether it had been sent."""
        held = sending(store)
        unsure = machine.decided(held, DEAD, is_unsure=True)
        record = store.settle(unsure, held.seq)
        assert record is not None
        assert record.is_unsure
        assert (False, "") == ((confirmed := store.confirm("k")).is_unsure, confirmed.note)

    @pytest.mark.parametrize("state", ["absent", "free", "waiting", "waiting, due", "claimed, lapsed"])
    def test_cancel_discards_what_nobody_works_on(self, store: ClaimStore, clock: SuiteClock, state: str) -> None:
        """No copy of it is sent any more, also of a message never seen; a lapsed holder is counted and shut out."""
        prepare, seconds = STATES[state]
        before = prepare(store, "k")
        clock.advance(seconds)
        record = store.cancel("k")
        assert (ClaimState.DONE, DispositionKind.DISCARDED, clock.now(), None) == (
            record.state,
            record.disposition,
            record.settled_at,
            record.lease,
        )
        assert (state == "claimed, lapsed") == record.counters.crashed
        assert record.seq > (0 if before is None else before.seq)
        clock.advance("1d")
        assert record == store.cancel("k") == store.get("k")
        assert Done(record) == store.claim("k", owner="me")
        if before is not None:
            assert store.begin_send("k", before.seq, lease=30) is None

    @pytest.mark.parametrize(
        "state",
        [
            "claimed",
            "sending",
            "verifying",
            "unknown",
            "unknown, due",
            "sending, lapsed",
            "verifying, lapsed",
            "sent",
            "dead",
        ],
    )
    def test_cancel_leaves_alone_what_is_held_settled_or_may_have_been_sent(
        self, store: ClaimStore, clock: SuiteClock, state: str
    ) -> None:
        """The record tells the caller why."""
        prepare, seconds = STATES[state]
        before = prepare(store, "k")
        clock.advance(seconds)
        assert before == store.cancel("k") == store.get("k")

    def test_cancelled_message_that_was_sent_all_the_same_is_sent(self, store: ClaimStore) -> None:
        """A fact is stronger than a wish."""
        store.cancel("k")
        assert store.confirm("k").disposition is DispositionKind.SENT

    def test_unsettled_gives_what_is_due_longest_due_first(self, store: ClaimStore, clock: SuiteClock) -> None:
        """Lapsed sends, lapsed and due verifications, up to the limit; nothing that waits, runs or is settled."""
        claimed(store, "claimed")
        settled(store, sending(store, "waiting"), RETRY)
        held = sending(store, "sent")
        store.settle(machine.sent(held), held.seq)
        for key, delay in (("late", 60.0), ("early", 10.0)):
            settled(store, sending(store, key), attrs.evolve(VERIFY, delay=delay))
        sending(store, "lapsed")
        clock.advance("9999ms")
        assert list(store.unsettled()) == []
        clock.advance("1ms")
        assert list(store.unsettled()) == ["early"]
        clock.advance("50s")
        assert list(store.unsettled()) == ["early", "lapsed", "late"]
        assert list(store.unsettled(2)) == ["early", "lapsed"]
        store.claim_unknown("early", owner="me", lease=5)
        assert list(store.unsettled()) == ["lapsed", "late"]
        clock.advance("4999ms")
        assert list(store.unsettled()) == ["lapsed", "late"]
        clock.advance("1ms")
        assert list(store.unsettled()) == ["lapsed", "late", "early"]
        store.confirm("lapsed")
        assert list(store.unsettled()) == ["late", "early"]

    def test_call_is_found_out_by_its_callers_and_never_offered(self, store: ClaimStore, clock: SuiteClock) -> None:
        """Who settles sends would ask the wrong side about a call; who comes with its key is told that it is unknown."""
        call = f"{CALL_MARK}payments{CALL_MARK}k"
        for key in (call, "k"):
            sending(store, key)
        clock.advance("30s")
        assert ["k"] == list(store.unsettled())
        answer = store.claim(call, owner="caller", lease=5)
        assert isinstance(answer, Unknown)
        assert answer.record.is_call
        clock.advance("5s")
        assert ["k"] == list(store.unsettled())
        record = store.claim_unknown(call, owner="person", lease=5)
        assert record is not None
        assert store.settle(machine.decided(record, VERIFY), record.seq) is not None
        assert ["k"] == list(store.unsettled())
        record = store.claim_unknown(call, owner="person", lease=5)
        assert record is not None
        assert store.settle(machine.sent(record), record.seq) == store.get(call)
        assert ["k"] == list(store.unsettled())

    def test_unsettled_of_equal_instants_is_ordered_by_key(self, store: ClaimStore, clock: SuiteClock) -> None:
        """The order is the same in every store."""
        for key in ("b", "ü", "a", "Z", "😀"):
            sending(store, key)
        clock.advance("1m")
        assert list(store.unsettled()) == ["Z", "a", "b", "ü", "😀"]

    def test_unsettled_send_is_found_however_long_it_takes(self, store: ClaimStore, clock: SuiteClock) -> None:
        """Also when its verifiers go as well, again and again, under one name or several."""
        sending(store)
        for number in range(6):
            clock.advance("100d")
            assert list(store.unsettled()) == ["k"]
            assert store.claim_unknown("k", owner=f"verifier {number // 2}", lease=30) is not None
            assert list(store.unsettled()) == []

    def test_renewed_send_is_not_unsettled(self, store: ClaimStore, clock: SuiteClock) -> None:
        """Its holder is at work."""
        held = sending(store)
        clock.advance("29s")
        store.renew("k", held.seq, lease=30)
        clock.advance("29999ms")
        assert list(store.unsettled()) == []
        clock.advance("1ms")
        assert list(store.unsettled()) == ["k"]

    def test_purge_deletes_what_was_settled_before_the_instant(self, store: ClaimStore, clock: SuiteClock) -> None:
        """Not what was settled at it; longest settled first, and up to the limit."""
        for key in ("c", "a", "d", "b", "e"):
            clock.advance("1ms")
            store.confirm(key)
        before = clock.now()
        assert store.purge(before, limit=3) == 3
        assert ["b", "e"] == [key for key in "abcde" if store.get(key) is not None]
        assert [1, 0] == [store.purge(before) for _ in range(2)]
        assert store.get("e") is not None
        assert store.purge(before + timedelta(milliseconds=1)) == 1
        assert store.get("e") is None

    def test_purge_before_an_instant_in_the_future_leaves_the_unfinished(
        self, store: ClaimStore, clock: SuiteClock
    ) -> None:
        """However old they are; the settled ones go, in all their kinds."""
        kept: dict[str, ClaimRecord | None] = {}
        for state, (prepare, _) in STATES.items():
            record = prepare(store, state)
            if record is not None and record.state is not ClaimState.DONE:
                kept[state] = record
        store.cancel("cancelled")
        clock.advance("1000d")
        assert store.purge(clock.now() + timedelta(days=1000)) == 3
        assert kept == {state: store.get(state) for state in kept}
        assert [None, None, None] == [store.get(state) for state in ("sent", "dead", "cancelled")]

    def test_key_whose_record_was_purged_is_new(self, store: ClaimStore, clock: SuiteClock) -> None:
        """Nothing of it is left, the fingerprint neither."""
        store.claim("k", owner="me", fingerprint="f")
        store.confirm("k")
        clock.advance("1ms")
        assert store.purge(clock.now()) == 1
        answer = store.claim("k", owner="me", fingerprint="g")
        assert isinstance(answer, Claimed)
        assert (clock.now(), 1) == (answer.record.opened_at, answer.record.counters.started)

    def test_purge_before_a_naive_instant_is_refused(self, store: ClaimStore) -> None:
        """It could mean any zone."""
        record = store.confirm("k")
        with pytest.raises(ConfigurationError):
            store.purge(datetime(2030, 1, 1))  # noqa: DTZ001
        assert record == store.get("k")
        assert store.purge(datetime(2030, 1, 1, tzinfo=UTC)) == 1
