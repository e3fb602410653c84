"""A state machine for claim stores: the store under test answers as the memory store, and the promises hold throughout."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from datetime import datetime, timedelta
from functools import partial
from typing import Final, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ...backends.memory import MemoryBackend
from ...decision import Decision
from ...errors import FingerprintMismatchError
from ...failure import ErrorClass, Failure, Outcome
from ...lease import Lease
from ...machines import claim as machine
from ...message import CALL_MARK
from ...stores.claims import (
    ClaimAnswer,
    Claimed,
    ClaimRecord,
    ClaimState,
    ClaimStore,
    PoisonRule,
    ReopenTerms,
    Replaced,
    Unknown,
)
from .claims_states import DEAD, RETRY, TIMEOUT, VERIFY
from .suite import Fresh

__all__ = ["ClaimStores"]

T = TypeVar("T")

_FAILURE: Final = Failure(
    error_class=ErrorClass.NETWORK_TIMEOUT, outcome=Outcome.UNKNOWN, error_code="", error_message="ü{}\n\0"
)
_BUG: Final = Failure(error_class=ErrorClass.INTERNAL_ERROR, outcome=Outcome.NOT_SENT, error_message="a bug")
_KEYS: Final[tuple[str, ...]] = ("a", "b", f"{CALL_MARK}c")
_POISON: Final = PoisonRule(limit=3, window=100, failures=2)

_keys = st.sampled_from(_KEYS)
_owners = st.sampled_from(["me", "you", "they"])
_leases = st.sampled_from([1, 10, 60])
_picks = st.integers(0, 20)


def _failed(decision: Decision) -> Callable[[ClaimRecord, datetime], ClaimRecord]:
    return lambda held, at: machine.failed(held, _FAILURE, decision, failed_at=at)


_ENDINGS: Final[dict[str, Callable[[ClaimRecord, datetime], ClaimRecord]]] = {
    "bug": lambda held, at: machine.failed(held, _BUG, RETRY, failed_at=at),
    "dead": _failed(DEAD),
    "dead by a bug": lambda held, at: machine.failed(held, _BUG, DEAD, failed_at=at),
    "dead, not sent": lambda held, at: machine.failed(held, TIMEOUT, DEAD, failed_at=at),
    "interrupted": lambda held, _: machine.interrupted(held),
    "paused": lambda held, _: machine.decided(held, RETRY),
    "retry": _failed(RETRY),
    "sent": lambda held, _: machine.sent(held, provider="ses"),
    "verify": _failed(VERIFY),
}


def _get(key: str, store: ClaimStore) -> ClaimRecord | None:
    return store.get(key)


class ClaimStores(RuleBasedStateMachine):
    """Two stores side by side; `held` are all records that were ever granted, stale ones included."""

    def __init__(self, fresh: Fresh[ClaimStore]) -> None:
        super().__init__()
        self._opened = ExitStack()
        self.store, self.clock = self._opened.enter_context(fresh())
        self.model = MemoryBackend(clock=self.clock).claims
        self.held: list[ClaimRecord] = []
        self.granted: dict[str, Lease | None] = dict.fromkeys(_KEYS)
        self.seqs: dict[str, int] = dict.fromkeys(_KEYS, 0)

    def both(self, call: Callable[[ClaimStore], T]) -> T:
        """Make a call on both stores and return their common answer."""
        expected, answer = call(self.model), call(self.store)
        assert expected == answer
        return answer

    def grant(self, record: ClaimRecord) -> None:
        """Note a hold, which must not overlap with the one before."""
        before = self.granted[record.key]
        assert before is None or before.is_over(self.clock.now())
        assert record.lease is not None
        self.granted[record.key] = record.lease
        self.held.append(record)

    def pick(self, number: int) -> ClaimRecord | None:
        """Return one of the records that were granted, recent ones more often."""
        return self.held[-1 - number % len(self.held)] if self.held else None

    @rule(
        key=_keys,
        owner=_owners,
        lease=_leases,
        fingerprint=st.sampled_from([None, "f", "g"]),
        lost=st.sampled_from([None, "signal 9\n"]),
        suspects=st.booleans(),
    )
    def claim(
        self,
        key: str,
        owner: str,
        lease: int,
        fingerprint: str | None,
        lost: str | None = None,
        suspects: bool = True,
    ) -> None:
        """Grant only what nobody holds, and the same hold again to its owner."""
        before = self.model.get(key)

        def call(store: ClaimStore) -> ClaimAnswer | None:
            try:
                return store.claim(
                    key,
                    owner=owner,
                    lease=lease,
                    fingerprint=fingerprint,
                    poison=_POISON,
                    suspects=suspects,
                    lost=lost,
                )
            except FingerprintMismatchError:
                return None

        answer = self.both(call)
        if isinstance(answer, (Claimed, Unknown)):
            self.hold(before, answer.record, owner)
        elif isinstance(answer, Replaced):
            assert (before, True) == (answer.record, fingerprint in answer.record.replaced)
        elif answer is not None:
            assert answer.record == self.model.get(key)

    def hold(self, before: ClaimRecord | None, record: ClaimRecord, owner: str) -> None:
        """Note a hold, unless it is the one its owner had already."""
        if before is not None and before.lease is not None and before.seq == record.seq:
            assert (before, owner) == (record, before.lease.owner)
        else:
            self.grant(record)

    @rule(key=_keys, owner=_owners, lease=_leases)
    def claim_unknown(self, key: str, owner: str, lease: int) -> None:
        """Grant only what is unknown."""
        before = self.model.get(key)
        record = self.both(lambda store: store.claim_unknown(key, owner=owner, lease=lease))
        if record is not None:
            assert record.state is ClaimState.UNKNOWN
            self.hold(before, record, owner)

    @rule(number=_picks, lease=_leases, begins=st.booleans())
    def begin_send_or_renew(self, number: int, lease: int, begins: bool) -> None:
        """Only the last holder may, and nobody else changes anything."""
        held = self.pick(number)
        if held is None:
            return
        before = self.model.get(held.key)
        record = self.both(lambda store: (store.begin_send if begins else store.renew)(held.key, held.seq, lease=lease))
        if record is None:
            assert before == self.model.get(held.key)
        else:
            assert before is not None
            assert before.seq == held.seq
            self.granted[held.key] = record.lease

    @rule(number=_picks, ending=st.sampled_from(sorted(_ENDINGS)), is_repeated=st.booleans())
    def settle(self, number: int, ending: str, is_repeated: bool) -> None:
        """Only the last holder decides, once; a repetition is answered like the first time."""
        held = self.pick(number)
        if held is None:
            return
        before = self.model.get(held.key)
        following = _ENDINGS[ending](held, held.opened_at)
        record = self.both(lambda store: store.settle(following, held.seq, delay=5))
        if before is None or before.seq != held.seq or before.lease is None:
            assert record in (None, before)
            assert before == self.model.get(held.key)
        else:
            assert record is not None
            assert following.seq == record.seq
            self.granted[held.key] = None
        if record is not None and is_repeated:
            self.clock.advance(1)
            assert record == self.both(lambda store: store.settle(following, held.seq, delay=5))

    @rule(key=_keys, provider=st.sampled_from([None, "smtp"]), provider_id=st.sampled_from([None, "p-2"]))
    def confirm(self, key: str, provider: str | None, provider_id: str | None) -> None:
        """Make it sent, whoever holds it."""
        record = self.both(lambda store: store.confirm(key, provider=provider, provider_id=provider_id))
        assert record.state is ClaimState.DONE
        self.granted[key] = None

    @rule(key=_keys)
    def cancel(self, key: str) -> None:
        """Take back what nobody holds."""
        before = self.granted[key]
        record = self.both(lambda store: store.cancel(key))
        if record.state is ClaimState.DONE:
            assert before is None or before.is_over(self.clock.now())
            self.granted[key] = None

    @rule(key=_keys, ending=st.sampled_from(["dead", "dead by a bug", "dead, not sent"]))
    def die(self, key: str, ending: str) -> None:
        """Let a message that can be claimed come to its end, so that there is something to put back."""
        self.claim(key, "me", 60, None)
        if self.held and self.held[-1].key == key:
            self.settle(0, ending, False)

    @rule(
        key=_keys,
        back=st.integers(0, 1),
        fingerprint=st.sampled_from([None, "f", "g"]),
        replaced=st.sampled_from([(), ("f",), ("h", "g")]),
        not_sent=st.booleans(),
    )
    def reopen(self, key: str, back: int, fingerprint: str | None, replaced: tuple[str, ...], not_sent: bool) -> None:
        """Put back what is settled and was not sent, from its last letter, an earlier one, or without a record."""
        before = self.model.get(key)
        generation = max(1, (1 if before is None else before.generation) - back)
        terms = ReopenTerms(
            letter_id=f"{key}#{generation}",
            generation=generation,
            fingerprint=fingerprint,
            replaced=replaced,
            not_sent=not_sent,
        )
        record = self.both(lambda store: store.reopen(key, terms))
        if record != before:
            assert before is None or (before.state, before.generation) == (ClaimState.DONE, generation)
            assert (generation + 1, None) == (record.generation, record.lease)
            self.granted[key] = None
        assert record == self.both(lambda store: store.reopen(key, terms))

    @rule(age=st.sampled_from([-1, 0, 1, 60]))
    def purge(self, age: int) -> None:
        """Forget what was settled so long ago."""
        before = {key: self.model.get(key) for key in _KEYS}
        self.both(lambda store: store.purge(self.clock.now() - timedelta(seconds=age)))
        for key, record in before.items():
            if record is not None and self.model.get(key) is None:
                assert record.state is ClaimState.DONE
                self.seqs[key] = 0
                self.held = [held for held in self.held if held.key != key]

    @rule(seconds=st.sampled_from([0.001, 1, 5, 10, 60, 200]))
    def time_passes(self, seconds: float) -> None:
        """Let leases and waits end."""
        self.clock.advance(seconds)

    @rule(limit=st.integers(1, 3))
    def unsettled(self, limit: int) -> None:
        """List what is to be found out, and nothing else."""
        found = self.both(lambda store: list(store.unsettled(limit)))
        records = {key: self.model.get(key) for key in _KEYS}
        due = {key for key, record in records.items() if record and machine.is_unsettled(record, self.clock.now())}
        assert due >= set(found)
        assert min(limit, len(due)) == len(found)

    @invariant()
    def records_are_equal_and_their_numbers_never_go_back(self) -> None:
        """Whatever was done."""
        for key in _KEYS:
            record = self.both(partial(_get, key))
            if record is not None:
                assert self.seqs[key] <= record.seq
                self.seqs[key] = record.seq
                assert record.lease is None or record.seq == record.lease.token

    def teardown(self) -> None:
        """Close the store."""
        self._opened.close()
