"""Holding: the send, the renewed lease, and the token that shuts a late holder out."""

from __future__ import annotations

from datetime import timedelta

import attrs
import pytest

from ...lease import Lease
from ...machines import claim as machine
from ...stores.claims import Claimed, ClaimState, ClaimStore, Counters, InProgress
from .claims_states import DEAD, HELD, RETRY, UNHELD, claimed, following, sending, settled
from .suite import StoreSuite, SuiteClock

__all__ = ["ClaimHoldingTests"]


class ClaimHoldingTests(StoreSuite[ClaimStore]):
    """What `begin_send` and `renew` do, and for whom."""

    def test_begin_send_marks_the_send_and_moves_the_lease(self, store: ClaimStore, clock: SuiteClock) -> None:
        """The token stays, so it may be repeated; a send that needs longer asks for longer."""
        held, begun = claimed(store), clock.now()
        for length in ("2m", "10s"):
            clock.advance("20s")
            record = store.begin_send("k", held.seq, lease=length)
            lease = Lease("me", 1, clock.now() + timedelta(minutes=2 if length == "2m" else 1 / 6), begun)
            assert attrs.evolve(held, state=ClaimState.SENDING, lease=lease) == record
            assert record == store.get("k")

    def test_begin_send_with_a_lease_that_ended_but_was_not_taken_is_granted(
        self, store: ClaimStore, clock: SuiteClock
    ) -> None:
        """Nobody else has it, so nobody is harmed."""
        held = claimed(store)
        clock.advance("1d")
        record = store.begin_send("k", held.seq, lease=30)
        assert record is not None
        assert (ClaimState.SENDING, 0) == (record.state, record.counters.crashed)

    @pytest.mark.parametrize("state", ["verifying", *UNHELD])
    def test_begin_send_of_what_is_not_claimed_is_refused(self, store: ClaimStore, state: str) -> None:
        """Whoever only verifies must not send, and what is settled is not sent again."""
        record = (HELD | UNHELD)[state](store, "k")
        assert record is not None
        assert store.begin_send("k", record.seq, lease=30) is None
        assert record == store.get("k")

    @pytest.mark.parametrize("state", HELD)
    def test_renew_moves_the_end_of_any_hold_and_nothing_else(
        self, store: ClaimStore, clock: SuiteClock, state: str
    ) -> None:
        """Counted from now on, to the millisecond; it may be repeated, and may also make a hold shorter."""
        held = HELD[state](store, "k")
        assert held is not None
        assert held.lease is not None
        for length in (60000, 60000, 10):
            clock.advance("10s")
            record = store.renew("k", held.seq, lease=f"{length}ms")
            deadline = clock.now() + timedelta(milliseconds=length)
            assert attrs.evolve(held, lease=Lease("me", held.seq, deadline, held.lease.granted_at)) == record
            assert record is not None
            assert record == store.get("k")
            assert InProgress(record, deadline) == store.claim("k", owner="other")
        clock.advance("9ms")
        assert isinstance(store.claim("k", owner="other"), InProgress)
        clock.advance("1ms")
        assert not isinstance(store.claim("k", owner="other"), InProgress)

    def test_renewed_hold_outlasts_any_work(self, store: ClaimStore, clock: SuiteClock) -> None:
        """An hour of work under a lease of 30 seconds is one hold and no crash, before the send and in it."""
        held = claimed(store)
        for number in range(180):
            clock.advance("20s")
            assert store.renew("k", held.seq, lease=30) is not None
            assert isinstance(store.claim("k", owner="other"), InProgress)
            if number == 90:
                assert store.begin_send("k", held.seq, lease=30) is not None
        record = store.settle(machine.sent(held), held.seq)
        assert record is not None
        assert (Counters(started=1), ()) == (record.counters, record.attempts)

    @pytest.mark.parametrize("state", HELD)
    def test_renew_with_a_lease_that_ended_but_was_not_taken_is_granted(
        self, store: ClaimStore, clock: SuiteClock, state: str
    ) -> None:
        """A holder that was only slow goes on."""
        held = HELD[state](store, "k")
        assert held is not None
        assert held.lease is not None
        clock.advance("1d")
        record = store.renew("k", held.seq, lease=30)
        lease = Lease("me", held.seq, clock.now() + timedelta(seconds=30), held.lease.granted_at)
        assert attrs.evolve(held, lease=lease) == record
        assert isinstance(store.claim("k", owner="other"), InProgress)

    @pytest.mark.parametrize("state", UNHELD)
    def test_renew_of_what_nobody_holds_is_refused(self, store: ClaimStore, state: str) -> None:
        """The current number is not enough: there has to be a hold."""
        record = UNHELD[state](store, "k")
        assert record is not None
        assert store.renew("k", record.seq, lease=30) is None
        assert record == store.get("k")

    @pytest.mark.parametrize("state", HELD)
    def test_token_of_another_is_refused(self, store: ClaimStore, state: str) -> None:
        """Whoever guesses neither sends nor renews nor settles."""
        held = HELD[state](store, "k")
        assert held is not None
        for offset in (-1, 1, 10**9):
            assert store.begin_send("k", held.seq + offset, lease=30) is None
            assert store.renew("k", held.seq + offset, lease=30) is None
            assert store.settle(machine.sent(held), held.seq + offset) is None
            assert held == store.get("k")

    def test_late_holder_is_refused_and_changes_nothing(self, store: ClaimStore, clock: SuiteClock) -> None:
        """Whoever was replaced finds out before it sends or decides."""
        late = claimed(store)
        clock.advance("31s")
        current = claimed(store, owner="other")
        assert store.begin_send("k", late.seq, lease=30) is None
        assert store.renew("k", late.seq, lease=30) is None
        assert store.settle(machine.sent(late), late.seq) is None
        assert store.settle(following(late, DEAD), late.seq) is None
        assert current == store.get("k")

    def test_late_holder_never_replaces_a_finished_result(self, store: ClaimStore, clock: SuiteClock) -> None:
        """The result of the one that took over stays."""
        late = claimed(store)
        clock.advance("31s")
        current = sending(store, owner="other")
        record = store.settle(machine.sent(current, provider_id="p-2"), current.seq)
        assert store.settle(following(late, DEAD), late.seq) is None
        assert store.begin_send("k", late.seq, lease=30) is None
        assert store.renew("k", late.seq, lease=30) is None
        assert record == store.get("k")

    def test_late_sender_never_replaces_what_was_found_out(self, store: ClaimStore, clock: SuiteClock) -> None:
        """Its send lapsed, and its verifier decides."""
        late = sending(store)
        clock.advance("30s")
        verifier = store.claim_unknown("k", owner="verifier", lease=30)
        assert verifier is not None
        assert store.settle(machine.sent(late), late.seq) is None
        record = store.settle(machine.decided(verifier, RETRY), verifier.seq, delay=5)
        assert store.settle(machine.sent(late), late.seq) is None
        assert record == store.get("k")

    def test_operations_on_a_key_without_a_record_are_refused(self, store: ClaimStore) -> None:
        """Nothing is made up."""
        other = sending(store, "other")
        for token in (0, 1):
            assert store.begin_send("k", token, lease=30) is None
            assert store.renew("k", token, lease=30) is None
            assert store.settle(attrs.evolve(machine.sent(other), key="k"), token) is None
        assert store.get("k") is None
        assert other == store.get("other")

    def test_tokens_grow_from_hold_to_hold(self, store: ClaimStore, clock: SuiteClock) -> None:
        """Each new hold has a larger one, whatever ended the hold before."""
        tokens: list[int] = []
        for ending in (RETRY, None, RETRY, None, None, RETRY):
            record = claimed(store)
            tokens.append(record.seq)
            assert record.lease is not None
            assert record.seq == record.lease.token
            if ending is not None:
                settled(store, record, ending)
            clock.advance("1m")
            if len(tokens) == 4:
                clock.advance("100d")
        assert sorted(set(tokens)) == tokens

    @pytest.mark.parametrize("state", HELD)
    def test_token_is_worth_nothing_once_the_hold_is_settled(
        self, store: ClaimStore, clock: SuiteClock, state: str
    ) -> None:
        """Nor once somebody holds it again."""
        held = HELD[state](store, "k")
        assert held is not None
        settled(store, held, RETRY)
        for _ in range(2):
            before = store.get("k")
            assert store.begin_send("k", held.seq, lease=30) is None
            assert store.renew("k", held.seq, lease=30) is None
            assert store.settle(machine.sent(held), held.seq) is None
            assert before == store.get("k")
            clock.advance("5s")
            store.claim("k", owner="me")

    def test_hold_of_one_key_says_nothing_about_another(self, store: ClaimStore) -> None:
        """Equal tokens of two keys are two holds."""
        first, second = claimed(store, "a"), claimed(store, "b")
        assert first.seq == second.seq
        assert store.settle(machine.sent(first), first.seq) is not None
        assert second == store.get("b")
        assert Claimed(second) == store.claim("b", owner="me")
