"""Reopening: a settled message is put back into circulation from its dead letter, once, as the next generation."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

import attrs
import pytest

from ...decision import DispositionKind
from ...errors import FingerprintMismatchError, InvalidMessageError
from ...machines import claim as machine
from ...stores.claims import (
    Claimed,
    ClaimRecord,
    ClaimState,
    ClaimStore,
    Counters,
    Done,
    PoisonRule,
    ReopenTerms,
    Replaced,
    Unknown,
)
from .breaking import interrupted
from .claims_states import DEAD, RETRY, STATES, buried, claimed, following, sending, settled
from .hostile import NO_KEYS
from .races import in_threads
from .suite import StoreSuite, SuiteClock

__all__ = ["ClaimReopeningTests"]

_TERMS = ReopenTerms(letter_id="k#1", generation=1)
_EDITED = ReopenTerms(letter_id="k#1", generation=1, fingerprint="mended", replaced=("broken",))


def _dead_again(store: ClaimStore) -> ClaimRecord:
    """Let a message that was put back die once more, and return its record."""
    return settled(store, sending(store, owner="next"), DEAD)


class ClaimReopeningTests(StoreSuite[ClaimStore]):
    """What `reopen` does."""

    def test_dead_message_is_put_back_as_the_next_generation(self, store: ClaimStore, clock: SuiteClock) -> None:
        """With counters of its own; the history stays, and it may be claimed at once."""
        before = buried(store)
        clock.advance("1d")
        record = store.reopen("k", _TERMS)
        expected = ClaimRecord(
            key="k",
            seq=before.seq + 1,
            generation=2,
            opened_at=clock.now(),
            note="put back from the dead letter 'k#1'",
            attempts=before.attempts,
            redriven_from="k#1",
        )
        assert expected == record == store.get("k")
        assert (1, ()) == (len(record.attempts), record.tries)
        held = claimed(store, owner="next")
        assert (2, Counters(started=1), "k#1") == (held.generation, held.counters, held.redriven_from)

    @pytest.mark.parametrize("generation", [1, 2, 99])
    def test_message_whose_record_was_purged_is_put_back_from_its_letter(
        self, store: ClaimStore, clock: SuiteClock, generation: int
    ) -> None:
        """The letter says which generation it was."""
        letter_id = f"k#{generation}"
        terms = ReopenTerms(letter_id=letter_id, generation=generation, fingerprint="f", replaced=("broken",))
        record = store.reopen("k", terms)
        assert (
            ClaimRecord(
                key="k",
                seq=1,
                generation=generation + 1,
                fingerprint="f",
                opened_at=clock.now(),
                note=f"put back from the dead letter {letter_id!r}",
                redriven_from=letter_id,
                replaced=("broken",),
            )
            == record
            == store.get("k")
        )
        assert record == store.reopen("k", terms)
        assert claimed(store).seq == 2

    @pytest.mark.parametrize("state", [state for state in STATES if state not in ("absent", "dead")])
    def test_reopen_of_what_was_sent_or_is_in_circulation_changes_nothing(
        self, store: ClaimStore, clock: SuiteClock, state: str
    ) -> None:
        """The caller sees it in the record, whichever letter it has."""
        prepare, seconds = STATES[state]
        before = prepare(store, "k")
        clock.advance(seconds)
        assert before is not None
        for generation in (1, 2, 99):
            terms = attrs.evolve(_EDITED, letter_id=f"other#{generation}", generation=generation, not_sent=True)
            assert before == store.reopen("k", terms) == store.get("k")

    @pytest.mark.parametrize("disposition", [None, "cancelled"])
    def test_reopen_repeated_after_a_lost_answer_changes_nothing(
        self, store: ClaimStore, clock: SuiteClock, disposition: str | None
    ) -> None:
        """Not while it is in circulation, and not when it has come to another end since: that has a letter of its own."""
        if disposition is None:
            buried(store)
        else:
            store.cancel("k")
        first = store.reopen("k", _TERMS)
        clock.advance("1s")
        assert first == store.reopen("k", _TERMS) == store.get("k")
        held = claimed(store, owner="next")
        assert held == store.reopen("k", _TERMS)
        dead = settled(store, held, DEAD)
        assert (2, "k#2") == (dead.generation, dead.dead_letter_id)
        assert dead == store.reopen("k", _TERMS) == store.get("k")
        again = store.reopen("k", ReopenTerms(letter_id="k#2", generation=2))
        assert (3, "k#2", ClaimState.FREE) == (again.generation, again.redriven_from, again.state)
        assert again.seq > dead.seq

    def test_reopened_message_that_was_sent_is_not_put_back_again(self, store: ClaimStore) -> None:
        """From none of its letters."""
        buried(store)
        store.reopen("k", _TERMS)
        held = sending(store, owner="next")
        sent = store.settle(machine.sent(held), held.seq)
        for generation in (1, 2):
            assert sent == store.reopen("k", ReopenTerms(letter_id=f"k#{generation}", generation=generation))
        assert sent == store.get("k")

    def test_message_that_may_have_been_sent_is_found_out_about_first(
        self, store: ClaimStore, clock: SuiteClock
    ) -> None:
        """At once, by whoever looks for such messages or by whoever comes with it; it is not sent before."""
        buried(store, is_unsure=True)
        record = store.reopen("k", _TERMS)
        assert (ClaimState.UNKNOWN, 2, False) == (record.state, record.generation, record.is_unsure)
        assert ["k"] == list(store.unsettled())
        held = store.claim_unknown("k", owner="verifier", lease=30)
        assert held is not None
        clock.advance("30s")
        answer = store.claim("k", owner="other", lease=30)
        assert Unknown(answer.record) == answer
        assert store.begin_send("k", answer.record.seq, lease=30) is None
        free = store.settle(machine.interrupted(answer.record), answer.record.seq)
        assert free is not None

    def test_reopened_message_that_may_have_been_sent_is_the_first_to_be_looked_at(
        self, store: ClaimStore, clock: SuiteClock
    ) -> None:
        """It waits for nothing, and somebody waits for it."""
        sending(store, "a lapsed send")
        clock.advance("1h")
        buried(store, is_unsure=True)
        store.reopen("k", _TERMS)
        assert ["k", "a lapsed send"] == list(store.unsettled())

    def test_message_that_somebody_knows_was_not_sent_is_tried_again(self, store: ClaimStore) -> None:
        """Though nobody else knew."""
        buried(store, is_unsure=True)
        record = store.reopen("k", attrs.evolve(_TERMS, not_sent=True))
        assert (ClaimState.FREE, False, []) == (record.state, record.is_unsure, list(store.unsettled()))
        assert claimed(store).generation == 2

    def test_workers_lost_before_are_not_counted_against_the_reopened_message(
        self, store: ClaimStore, clock: SuiteClock
    ) -> None:
        """It is poison when it has cost as many workers again."""
        rule = PoisonRule(limit=2, window="1d")
        for generation in (1, 2):
            for _ in range(rule.limit):
                assert isinstance(store.claim("k", owner="me", lease=30, poison=rule), Claimed)
                clock.advance("30s")
            answer = store.claim("k", owner="me", poison=rule)
            assert Done(answer.record, convicted=True) == answer
            record = store.reopen("k", ReopenTerms(letter_id=f"k#{generation}", generation=generation))
            assert (Counters(), 3 * generation) == (record.counters, len(record.attempts))

    def test_holder_from_before_is_refused(self, store: ClaimStore, clock: SuiteClock) -> None:
        """Whatever it held, and also once somebody holds the reopened message."""
        late = claimed(store)
        clock.advance("30s")
        held = sending(store, owner="other")
        assert settled(store, held, DEAD).seq > held.seq
        store.reopen("k", _TERMS)
        for taken in (False, True):
            before = claimed(store, owner="next") if taken else store.get("k")
            for old in (late, held):
                assert store.begin_send("k", old.seq, lease=30) is None
                assert store.renew("k", old.seq, lease=30) is None
                assert store.settle(machine.sent(old), old.seq) is None
                assert store.settle(following(old, RETRY), old.seq, delay=5) is None
            assert before == store.get("k")

    def test_copy_with_a_payload_that_was_replaced_is_answered_so(self, store: ClaimStore, clock: SuiteClock) -> None:
        """Old copies may still be anywhere; the new payload is claimed, and any other is refused."""
        first = store.claim("k", owner="me", fingerprint="broken", lease=30)
        settled(store, first.record, DEAD)
        record = store.reopen("k", _EDITED)
        assert ("mended", ("broken",)) == (record.fingerprint, record.replaced)
        assert Replaced(record) == store.claim("k", owner="me", fingerprint="broken")
        with pytest.raises(FingerprintMismatchError):
            store.claim("k", owner="me", fingerprint="other")
        answer = store.claim("k", owner="me", fingerprint="mended", lease=30)
        assert Claimed(answer.record) == answer
        for _ in range(2):
            assert Replaced(answer.record) == store.claim("k", owner="other", fingerprint="broken")
            clock.advance("31s")
        sent = store.settle(machine.sent(answer.record), answer.record.seq)
        assert sent is not None
        clock.advance("1000d")
        assert (Replaced(sent), Done(sent)) == (
            store.claim("k", owner="me", fingerprint="broken"),
            store.claim("k", owner="me", fingerprint="mended"),
        )

    def test_payload_may_be_mended_more_than_once(self, store: ClaimStore) -> None:
        """All that were replaced are remembered, and one that comes back is none of them."""
        for generation, (new, replaced) in enumerate([("b", ("a",)), ("c", ("a", "b")), ("a", ("b", "c"))], 1):
            if generation == 1:
                settled(store, store.claim("k", owner="me", fingerprint="a", lease=30).record, DEAD)
            else:
                _dead_again(store)
            terms = ReopenTerms(letter_id=f"k#{generation}", generation=generation, fingerprint=new, replaced=("a",))
            record = store.reopen("k", terms)
            assert (new, replaced) == (record.fingerprint, record.replaced)

    def test_fields_of_a_newer_version_are_kept_when_a_message_is_reopened(self, store: ClaimStore) -> None:
        """A store that knows less loses nothing."""
        held = sending(store)
        newer = attrs.evolve(following(held, DEAD), extra={"mood": {"{}": [1, None, "ü"]}})
        assert store.settle(newer, held.seq) is not None
        assert newer.extra == store.reopen("k", _TERMS).extra

    def test_reopened_message_is_not_purged(self, store: ClaimStore, clock: SuiteClock) -> None:
        """It is in circulation; so is one that is to be found out about."""
        for key, is_unsure in (("a", False), ("b", True)):
            buried(store, key, is_unsure=is_unsure)
            store.reopen(key, ReopenTerms(letter_id=f"{key}#1", generation=1))
        clock.advance("1000d")
        assert store.purge(clock.now() + timedelta(days=1)) == 0
        assert ["b"] == list(store.unsettled())

    def test_reopened_message_that_waits_is_confirmed_and_cancelled_like_any_other(self, store: ClaimStore) -> None:
        """Its provider may report late, and somebody may think better of it."""
        for key in ("a", "b"):
            buried(store, key)
            store.reopen(key, ReopenTerms(letter_id=f"{key}#1", generation=1))
        assert (DispositionKind.SENT, 2) == (store.confirm("a").disposition, store.confirm("a").generation)
        assert (DispositionKind.DISCARDED, 2) == (store.cancel("b").disposition, store.cancel("b").generation)

    def test_many_threads_reopening_one_generation_is_begun(self, store: ClaimStore) -> None:
        """All are told of it, and the token grows once, also where the record was purged."""
        for turn in range(10):
            key = f"key-{turn}"
            before = buried(store, key) if turn % 2 else None
            terms = ReopenTerms(letter_id=f"{key}#1", generation=1)

            def work(_: int, key: str = key, terms: ReopenTerms = terms) -> ClaimRecord:
                return store.reopen(key, terms)

            (record,) = set(in_threads(work))
            assert (2, 1 if before is None else before.seq + 1) == (record.generation, record.seq)
            assert record == store.get(key)

    def test_reopening_racing_with_claims_one_is_granted(self, store: ClaimStore) -> None:
        """Whoever comes first finds it dead, and nobody finds it twice."""
        for turn in range(10):
            key = f"key-{turn}"
            buried(store, key)
            terms = ReopenTerms(letter_id=f"{key}#1", generation=1)

            def work(number: int, key: str = key, turn: int = turn, terms: ReopenTerms = terms) -> bool:
                if (number + turn) % 2:
                    store.reopen(key, terms)
                return isinstance(store.claim(key, owner=f"thread-{number}"), Claimed)

            assert in_threads(work, 4).count(True) == 1
            record = store.get(key)
            assert record is not None
            assert (2, Counters(started=1)) == (record.generation, record.counters)

    def test_reopen_racing_with_a_confirmation_a_sent_message_is_not_in_circulation(self, store: ClaimStore) -> None:
        """Whichever comes first, the fact stands."""
        for turn in range(10):
            key = f"key-{turn}"
            buried(store, key)
            terms = ReopenTerms(letter_id=f"{key}#1", generation=1)

            def work(number: int, key: str = key, turn: int = turn, terms: ReopenTerms = terms) -> None:
                if (number + turn) % 2:
                    store.reopen(key, terms)
                else:
                    store.confirm(key)

            in_threads(work, 2)
            record = store.get(key)
            assert record is not None
            assert (ClaimState.DONE, DispositionKind.SENT) == (record.state, record.disposition)

    def test_reopen_with_edits_interrupted_in_the_middle_happened_or_not(
        self, store: ClaimStore, clock: SuiteClock
    ) -> None:
        """Never half: with the new payload and the old one shut out, or as before."""
        for number in range(1, 9):
            key = f"key-{number}"
            settled(store, store.claim(key, owner="me", fingerprint="broken", lease=30).record, DEAD)
            before = store.get(key)
            terms = attrs.evolve(_EDITED, letter_id=f"{key}#1")
            broke, _ = interrupted(clock, number, partial(store.reopen, key, terms))
            seen = store.get(key)
            record = store.reopen(key, terms)
            assert seen in ((before, record) if broke else (record,))
            assert ("mended", ("broken",), 2) == (record.fingerprint, record.replaced, record.generation)

    @pytest.mark.parametrize("key", NO_KEYS)
    def test_key_that_is_not_allowed_is_not_reopened(self, store: ClaimStore, key: str) -> None:
        """Before anything is touched."""
        with pytest.raises(InvalidMessageError):
            store.reopen(key, _TERMS)
