"""Poison by payload: what came of other messages with the same payload, and what is written down of a lost worker."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

import attrs
import pytest

from ...decision import DeadLetterReason, DispositionKind
from ...errors import ConfigurationError
from ...failure import ErrorClass, Failure, Outcome
from ...machines import claim as machine
from ...machines.poison import MARKS_KEPT
from ...message import CALL_MARK, Message
from ...stores.claims import (
    ClaimAnswer,
    Claimed,
    ClaimRecord,
    ClaimState,
    ClaimStore,
    Done,
    InProgress,
    PoisonRule,
    ReopenTerms,
    Suspect,
    Unknown,
)
from .claims_states import DEAD, RETRY, TIMEOUT
from .hostile import TEXTS
from .races import in_threads
from .suite import StoreSuite, SuiteClock

__all__ = ["ClaimPoisonTests"]

_BUG: Final = Failure(error_class=ErrorClass.RENDERING_FAILURE, outcome=Outcome.NOT_SENT, error_message="no template")
_RULE: Final = PoisonRule(limit=100)


def _claim(store: ClaimStore, key: str, payload: str | None = "payload", **terms: Any) -> ClaimAnswer:
    given: dict[str, Any] = {"poison": _RULE, **terms}
    return store.claim(key, owner=f"host:{key}/1", fingerprint=payload, lease=30, **given)


def _held(store: ClaimStore, key: str, payload: str | None = "payload", **terms: Any) -> ClaimRecord:
    answer = _claim(store, key, payload, **terms)
    assert isinstance(answer, Claimed)
    return answer.record


def _fail(store: ClaimStore, key: str, payload: str | None = "payload", *, failure: Failure = _BUG) -> ClaimRecord:
    """Let a message fail and die."""
    held = _held(store, key, payload)
    record = store.settle(machine.failed(held, failure, DEAD, failed_at=held.opened_at), held.seq)
    assert record is not None
    return record


def _is_condemned(answer: ClaimAnswer) -> bool:
    return isinstance(answer, Done) and answer.convicted


class ClaimPoisonTests(StoreSuite[ClaimStore]):
    """What is counted of a payload, and what is not."""

    def test_three_internal_failures_of_a_payload_condemn_its_next_start(
        self, store: ClaimStore, clock: SuiteClock
    ) -> None:
        """Of whichever message, unprocessed and in the claim itself; other payloads have nothing to do with it."""
        for key in "abc":
            _fail(store, key)
            clock.advance("1m")
        assert isinstance(_claim(store, "other", "another payload"), Claimed)
        answer = _claim(store, "d")
        assert _is_condemned(answer)
        record = answer.record
        assert record == store.get("d")
        assert (DispositionKind.DEAD_LETTERED, DeadLetterReason.POISON_MESSAGE, "d#1", 0) == (
            record.disposition,
            record.reason,
            record.dead_letter_id,
            record.counters.started,
        )
        (attempt,) = record.attempts
        assert attempt.failure.error_message.startswith("3 internal failures within 900 s had the same payload")
        assert Done(record) == _claim(store, "d")
        assert _is_condemned(_claim(store, "e"))

    def test_message_that_failed_three_times_is_not_started_again(self, store: ClaimStore, clock: SuiteClock) -> None:
        """Each hold that failed counts, whatever its policy would have it do."""
        for number in range(3):
            answer = store.claim("k", owner=f"me/{number}", fingerprint="payload")
            assert isinstance(answer, Claimed)
            following = machine.failed(answer.record, _BUG, RETRY, failed_at=clock.now())
            assert store.settle(following, answer.record.seq, delay=5) is not None
            clock.advance("5s")
        assert _is_condemned(_claim(store, "k"))

    @pytest.mark.parametrize("noticed_by", ["claim", "claim_unknown", "cancel"])
    def test_lost_workers_of_a_payload_condemn_its_next_start(
        self, store: ClaimStore, clock: SuiteClock, noticed_by: str
    ) -> None:
        """Whoever notices them."""
        for key in "abc":
            held = _held(store, key)
            if noticed_by == "claim_unknown":
                assert store.begin_send(key, held.seq, lease=30) is not None
        clock.advance("30s")
        for key in "abc":
            if noticed_by == "claim":
                assert not _is_condemned(_claim(store, key, poison=PoisonRule(limit=100, failures=None)))
            elif noticed_by == "cancel":
                assert store.cancel(key).disposition is DispositionKind.DISCARDED
            else:
                assert store.claim_unknown(key, owner="reconciler", lease=30) is not None
        assert _is_condemned(_claim(store, "d"))

    def test_crash_that_a_claim_notices_counts_in_it(self, store: ClaimStore, clock: SuiteClock) -> None:
        """Not only in the next one: that would be one more lost worker."""
        _held(store, "c")
        clock.advance("30s")
        for key in "ab":
            _fail(store, key)
        answer = _claim(store, "c")
        assert _is_condemned(answer)
        assert 1 == answer.record.counters.crashed

    def test_messages_lost_with_one_process_are_one_mark(self, store: ClaimStore, clock: SuiteClock) -> None:
        """They died beside each other: that says little about what they have in common."""
        for number in range(10):
            store.claim(f"k{number}", owner=f"host:1/{number}", fingerprint="payload", lease=30)
        clock.advance("30s")
        for number in range(10):
            assert isinstance(_claim(store, f"k{number}"), Claimed)

    def test_payload_that_was_sent_begins_anew(self, store: ClaimStore) -> None:
        """It is no poison: of many equal payloads a few may fail, and whoever learns of a send may have no hold."""
        for key, settles in (("c", True), ("f", False)):
            _fail(store, f"{key}1")
            _fail(store, f"{key}2")
            held = _held(store, key)
            if settles:
                assert store.settle(machine.sent(held), held.seq) is not None
            else:
                store.confirm(key)
        _fail(store, "g")
        assert isinstance(_claim(store, "h"), Claimed)

    def test_payload_that_a_provider_refused_begins_anew(self, store: ClaimStore) -> None:
        """It came through to where it was to go; what failed before says nothing."""
        refused = Failure(error_class=ErrorClass.MAILBOX_FULL, outcome=Outcome.REJECTED)
        for number, failure in enumerate((_BUG, _BUG, refused, _BUG, _BUG, TIMEOUT)):
            _fail(store, f"k{number}", failure=failure)
        assert isinstance(_claim(store, "last"), Claimed)

    def test_payload_of_a_letter_that_is_put_back_begins_anew(self, store: ClaimStore) -> None:
        """Somebody vouches for it, and for the one that it replaces: the old one's other messages may be tried again too."""
        for key in "abc":
            _fail(store, key, "broken")
            _fail(store, f"{key}{key}", "mended")
        assert _is_condemned(_claim(store, "d", "broken"))
        assert _is_condemned(_claim(store, "dd", "mended"))
        store.reopen("a", ReopenTerms(letter_id="a#1", generation=1, fingerprint="mended", replaced=("older",)))
        assert isinstance(_claim(store, "a", "mended"), Claimed)
        assert isinstance(_claim(store, "e", "broken"), Claimed)

    def test_payload_replaced_before_begins_anew_when_the_record_is_gone(
        self, store: ClaimStore, clock: SuiteClock
    ) -> None:
        """The letter says what it was; repeated, the putting back changes nothing more."""
        for key in "abc":
            _fail(store, key, "broken")
        terms = ReopenTerms(letter_id="z#1", generation=1, fingerprint="mended", replaced=("broken",))
        record = store.reopen("z", terms)
        for key in "def":
            _fail(store, key, "broken")
        assert record == store.reopen("z", terms)
        assert _is_condemned(_claim(store, "g", "broken"))

    def test_marks_outside_of_the_window_do_not_count(self, store: ClaimStore, clock: SuiteClock) -> None:
        """By the store's own time, whatever the failure says."""
        for key in "abc":
            _fail(store, key)
        rule = PoisonRule(failure_window="1h")
        clock.advance("59m59999ms")
        assert _is_condemned(_claim(store, "d", poison=rule))
        clock.advance("1ms")
        assert isinstance(_claim(store, "e", poison=rule), Claimed)

    def test_failures_are_marked_at_the_time_of_the_store(self, store: ClaimStore, clock: SuiteClock) -> None:
        """A worker whose clock runs ahead by years does not condemn a payload for years."""
        for key in "abc":
            held = _held(store, key)
            ahead = clock.now() + timedelta(days=1000)
            assert store.settle(machine.failed(held, _BUG, DEAD, failed_at=ahead), held.seq) is not None
        clock.advance("73h")
        assert isinstance(_claim(store, "d"), Claimed)

    @pytest.mark.parametrize("failures", [1, 2, MARKS_KEPT, None])
    def test_failures_of_the_rule_are_obeyed(self, store: ClaimStore, failures: int | None) -> None:
        """As many as are enough; None counts no payloads."""
        rule = PoisonRule(failures=failures)
        for number in range(failures or 2 * MARKS_KEPT):
            held = _held(store, f"k{number}", poison=rule)
            assert store.settle(machine.failed(held, _BUG, DEAD, failed_at=held.opened_at), held.seq) is not None
        assert (failures is not None) is _is_condemned(_claim(store, "last", poison=rule))

    @pytest.mark.parametrize("what", ["timeout", "interrupted", "unknown payload", "call", "empty"])
    def test_what_does_not_speak_against_a_payload_is_not_counted(
        self, store: ClaimStore, clock: SuiteClock, what: str
    ) -> None:
        """The provider's failures, interruptions, guarded calls, and payloads that are empty or not known."""
        prefix = CALL_MARK if what == "call" else ""
        payload = {"unknown payload": None, "empty": Message("-", {}).fingerprint}.get(what, "payload")
        failure = TIMEOUT if what == "timeout" else _BUG
        for number in range(5):
            if what == "interrupted":
                held = _held(store, f"k{number}")
                assert store.settle(machine.interrupted(held), held.seq) is not None
            else:
                _fail(store, f"{prefix}k{number}", payload, failure=failure)
                _held(store, f"{prefix}l{number}", payload)
        clock.advance("30s")
        if what in ("unknown payload", "call", "empty"):
            for number in range(5):
                assert not _is_condemned(_claim(store, f"{prefix}l{number}", payload))
        assert isinstance(_claim(store, f"{prefix}last", payload), Claimed)

    def test_refused_and_repeated_settlements_leave_no_mark(self, store: ClaimStore, clock: SuiteClock) -> None:
        """A late holder decides nothing, and one failure is one mark however often it is told."""
        late = _held(store, "late", "other payload")
        clock.advance("30s")
        _fail(store, "late", "other payload")
        following = machine.failed(late, _BUG, DEAD, failed_at=clock.now())
        held = _held(store, "k")
        once = machine.failed(held, _BUG, DEAD, failed_at=clock.now())
        for _ in range(5):
            assert store.settle(following, late.seq) is None
            assert store.settle(once, held.seq) == store.get("k")
        assert isinstance(_claim(store, "l"), Claimed)
        assert isinstance(_claim(store, "m", "other payload"), Claimed)

    def test_newest_marks_of_a_payload_are_kept(self, store: ClaimStore, clock: SuiteClock) -> None:
        """However many there were before: what is kept is bounded."""
        rule = PoisonRule(failures=MARKS_KEPT, failure_window=f"{MARKS_KEPT}h")
        for number in range(3 * MARKS_KEPT):
            held = _held(store, f"k{number}", poison=PoisonRule(failures=None))
            assert store.settle(machine.failed(held, _BUG, DEAD, failed_at=clock.now()), held.seq) is not None
            clock.advance("1h" if number < 3 * MARKS_KEPT - 1 else "1m")
        assert _is_condemned(_claim(store, "last", poison=rule))

    def test_purge_forgets_marks_from_before_the_instant(self, store: ClaimStore, clock: SuiteClock) -> None:
        """And no others; records alone are counted."""
        for key in ("a1", "b1", "b2"):
            _fail(store, key, key[0])
        clock.advance("1h")
        then = clock.now()
        for key in ("a2", "a3", "b3"):
            _fail(store, key, key[0])
        assert 3 == store.purge(then)
        rule = PoisonRule(failures=2, failure_window="3d")
        assert _is_condemned(_claim(store, "a4", "a", poison=rule))
        assert isinstance(_claim(store, "b4", "b", poison=rule), Claimed)
        clock.advance("1h")
        assert 4 == store.purge(clock.now())
        assert isinstance(_claim(store, "a5", "a", poison=rule), Claimed)

    @pytest.mark.parametrize("payload", [*TEXTS, "\ud800"])
    def test_marks_of_any_payload_and_worker_are_kept_apart(self, store: ClaimStore, payload: str) -> None:
        """The fingerprint and the owner are any text."""
        for number in range(3):
            answer = store.claim(f"k{number}", owner=f"{payload}/{number}", fingerprint=payload)
            assert isinstance(answer, Claimed)
            held = answer.record
            assert store.settle(machine.failed(held, _BUG, DEAD, failed_at=held.opened_at), held.seq) is not None
        assert isinstance(_claim(store, "other", f"{payload}!"), Claimed)
        assert _is_condemned(_claim(store, "last", payload))

    def test_many_threads_claiming_a_condemned_payload_start_none(self, store: ClaimStore) -> None:
        """Each is condemned under its own record."""
        for key in "abc":
            _fail(store, key)
        answers = in_threads(lambda number: _claim(store, f"k{number}"), 8)
        assert all(_is_condemned(answer) for answer in answers)

    def test_failures_at_the_same_time_are_all_marked(self, store: ClaimStore, clock: SuiteClock) -> None:
        """None replaces another's."""
        holds = [_held(store, f"k{number}") for number in range(8)]
        endings = [machine.failed(held, _BUG, DEAD, failed_at=clock.now()) for held in holds]
        in_threads(lambda number: store.settle(endings[number], holds[number].seq), 8)
        assert _is_condemned(_claim(store, "last", poison=PoisonRule(failures=8)))

    def test_suspect_is_told_to_whoever_claims_it(self, store: ClaimStore, clock: SuiteClock) -> None:
        """Before the work begins, and again when the answer was lost; not once its crashes are older than the window."""
        rule = PoisonRule(window="1h")
        assert not _claimed(store.claim("k", owner="first", lease=30, poison=rule)).is_suspect
        clock.advance("30s")
        for _ in range(2):
            assert _claimed(store.claim("k", owner="second", lease=30, poison=rule)).is_suspect
        held = _claimed(store.claim("k", owner="second", lease=30, poison=rule)).record
        assert store.settle(machine.interrupted(held), held.seq) is not None
        assert _claimed(store.claim("k", owner="third", lease="2h", poison=rule)).is_suspect
        clock.advance("61m")
        assert not _claimed(store.claim("k", owner="third", lease=30, poison=rule)).is_suspect

    def test_suspect_that_is_not_wanted_is_granted_to_nobody(self, store: ClaimStore, clock: SuiteClock) -> None:
        """Its crash is noticed, and nobody holds it until somebody wants it alone; what is no suspect is granted."""
        _held(store, "k")
        clock.advance("30s")
        for _ in range(2):
            answer = _claim(store, "k", suspects=False)
            assert isinstance(answer, Suspect)
            record = answer.record
            assert record == store.get("k")
            assert (ClaimState.FREE, None, 1, 1) == (
                record.state,
                record.lease,
                record.counters.crashed,
                record.counters.started,
            )
        assert _claimed(_claim(store, "k")).is_suspect
        assert not _claimed(_claim(store, "l", suspects=False)).is_suspect

    @pytest.mark.parametrize("begins", [False, True], ids=["before the send", "in the send"])
    def test_crash_says_who_was_lost_since_when_and_how(
        self, store: ClaimStore, clock: SuiteClock, begins: bool
    ) -> None:
        """As far as it is known: the hold's beginning also where it was renewed, and what was said of the process."""
        held, begun = _held(store, "k"), clock.now()
        clock.advance("10s")
        assert store.renew("k", held.seq, lease=30) is not None
        if begins:
            assert store.begin_send("k", held.seq, lease=30) is not None
        clock.advance("30s")
        answer = store.claim("k", owner="next", fingerprint="payload", lost="signal 11 (SIGSEGV)\x1b[31m\n" + "x" * 999)
        assert type(answer) is (Unknown if begins else Claimed)
        (crash,) = answer.record.attempts
        assert ("host:k/1", begun, clock.now()) == (crash.worker, crash.started_at, crash.failed_at)
        assert ("send" if begins else None) == crash.failure.stage
        text = crash.failure.error_message
        where = "while it was sending" if begins else "before it had sent"
        said = f"signal 11 (SIGSEGV) [31m {'x' * 999}"[:200]
        assert f"the lease of host:k/1 ended {where}: {said}" == text

    def test_what_is_said_of_a_lost_worker_before_its_lease_ends_is_kept(
        self, store: ClaimStore, clock: SuiteClock
    ) -> None:
        """Whoever notices later does not know; the hold itself is as it was, and the first word counts."""
        held, answer = _held(store, "k"), None
        for lost in ("signal 9 (SIGKILL)", "something else"):
            answer = store.claim("k", owner="supervisor", fingerprint="payload", lost=lost)
            assert isinstance(answer, InProgress)
            assert answer.record == store.get("k")
        assert held.lease is not None
        said = attrs.evolve(held, lease=attrs.evolve(held.lease, lost="signal 9 (SIGKILL)"))
        assert InProgress(said, held.lease.deadline) == answer
        clock.advance("30s")
        record = _held(store, "k")
        assert record.attempts[-1].failure.error_message.endswith("before it had sent: signal 9 (SIGKILL)")
        assert record.lease is not None
        assert record.lease.lost is None

    def test_holder_that_was_said_to_be_lost_goes_on(self, store: ClaimStore) -> None:
        """It was only said: who holds it decides, and a renewal shows that it lives."""
        held = _held(store, "k")
        store.claim("k", owner="supervisor", fingerprint="payload", lost="exit 1")
        assert store.renew("k", held.seq, lease=30) is not None
        stored = store.get("k")
        assert stored is not None
        assert held.lease == stored.lease
        store.claim("k", owner="supervisor", fingerprint="payload", lost="exit 1")
        sent = store.settle(machine.sent(held), held.seq)
        assert sent is not None
        assert (DispositionKind.SENT, None, ()) == (sent.disposition, sent.lease, sent.attempts)
        assert sent == store.settle(machine.sent(held), held.seq)

    def test_word_about_a_lost_worker_that_is_no_text_is_refused(self, store: ClaimStore) -> None:
        """And nothing is claimed; blank text says nothing."""
        with pytest.raises(ConfigurationError, match="lost is 11"):
            store.claim("k", owner="me", lost=11)  # type: ignore[arg-type]
        assert store.get("k") is None
        store.claim("k", owner="me", lease=30)
        answer = store.claim("k", owner="other", lost=" \n\0 ")
        assert isinstance(answer, InProgress)
        assert answer.record.lease is not None
        assert answer.record.lease.lost is None


def _claimed(answer: ClaimAnswer) -> Claimed:
    assert isinstance(answer, Claimed)
    return answer
