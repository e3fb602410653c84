"""A state machine for the claim store: both backends give the same answers, and the promises hold after every step."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import hypothesis
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from retrykit.backends import MemoryBackend
from retrykit.backends.sqlite import SQLiteBackend
from retrykit.decision import Action, DeadLetterReason, Decision
from retrykit.errors import FingerprintMismatchError
from retrykit.failure import ErrorClass, Failure, Outcome
from retrykit.machines import claim as machine
from retrykit.stores import Claimed, ClaimState, PoisonRule, Unknown
from retrykit.testing import ManualClock

FAILURE = Failure(
    error_class=ErrorClass.NETWORK_TIMEOUT, outcome=Outcome.UNKNOWN, error_code="", error_message="ü\ud800"
)
KEYS = ["a", "b"]

keys = st.sampled_from(KEYS)
owners = st.sampled_from(["me", "you", "they"])
leases = st.sampled_from([1, 10, 60])
picks = st.integers(0, 20)
endings = {
    "sent": lambda held, now: machine.sent(held, provider="ses", provider_id="p-1"),
    "retry": lambda held, now: machine.failed(held, FAILURE, Decision(Action.RETRY, 5.0, "r"), failed_at=now),
    "verify": lambda held, now: machine.failed(held, FAILURE, Decision(Action.VERIFY, 5.0, "v"), failed_at=now),
    "dead": lambda held, now: machine.failed(
        held, FAILURE, Decision(Action.DEAD_LETTER, 0.0, "d", DeadLetterReason.RETRIES_EXHAUSTED), failed_at=now
    ),
    "paused": lambda held, now: machine.decided(held, Decision(Action.RETRY, 5.0, "paused")),
}


class ClaimStores(RuleBasedStateMachine):
    """Two backends side by side; `held` are all records that were ever granted, stale ones included."""

    @initialize()
    def begin(self):
        self.folder = tempfile.mkdtemp()
        self.clock = ManualClock()
        self.memory = MemoryBackend(clock=self.clock)
        self.sqlite = SQLiteBackend(Path(self.folder) / "store.db", clock=self.clock, synchronous="normal")
        self.held = []
        self.granted = dict.fromkeys(KEYS)
        self.seqs = dict.fromkeys(KEYS, 0)

    def both(self, call):
        """Make a call on both stores and return their common answer."""
        first, second = (_answer(call, backend.claims) for backend in (self.memory, self.sqlite))
        assert first == second
        return first

    def grant(self, record):
        """Note a hold, which must not overlap with the one before."""
        before = self.granted[record.key]
        assert before is None or before.is_over(self.clock.now())
        self.granted[record.key] = record.lease
        self.held.append(record)

    def stored(self, key):
        return self.memory.claims.get(key)

    @rule(key=keys, owner=owners, lease=leases, fingerprint=st.sampled_from([None, "f", "g"]))
    def claim(self, key, owner, lease, fingerprint):
        before = self.stored(key)
        rule = PoisonRule(limit=3, window=100)
        answer = self.both(
            lambda store: store.claim(key, owner=owner, lease=lease, fingerprint=fingerprint, poison=rule)
        )
        if type(answer) in (Claimed, Unknown):
            if before is not None and before.seq == answer.record.seq:
                assert (before, owner) == (answer.record, before.lease.owner)
            else:
                self.grant(answer.record)
        elif not isinstance(answer, type):
            assert answer.record == self.stored(key)

    @rule(key=keys, owner=owners, lease=leases)
    def claim_unknown(self, key, owner, lease):
        record = self.both(lambda store: store.claim_unknown(key, owner=owner, lease=lease))
        if record is not None:
            assert record.state is ClaimState.UNKNOWN
            self.grant(record)

    @rule(pick=picks, lease=leases)
    def begin_send(self, pick, lease):
        if not self.held:
            return
        held = self.held[-1 - pick % len(self.held)]
        before = self.stored(held.key)
        record = self.both(lambda store: store.begin_send(held.key, held.seq, lease=lease))
        if record is None:
            assert before == self.stored(held.key)
        else:
            assert before.seq == held.seq
            self.granted[held.key] = record.lease

    @rule(pick=picks, ending=st.sampled_from(sorted(endings)), repeat=st.booleans())
    def settle(self, pick, ending, repeat):
        if not self.held:
            return
        held = self.held[-1 - pick % len(self.held)]
        before = self.stored(held.key)
        following = endings[ending](held, held.opened_at)
        record = self.both(lambda store: store.settle(following, held.seq, delay=5))
        if before.seq != held.seq or before.lease is None:
            assert record in (None, before)
            assert before == self.stored(held.key)
        else:
            assert following.seq == record.seq
            self.granted[held.key] = None
        if record is not None and repeat:
            self.clock.advance(1)
            assert record == self.both(lambda store: store.settle(following, held.seq, delay=5))

    @rule(key=keys, provider_id=st.sampled_from([None, "p-2"]))
    def confirm(self, key, provider_id):
        record = self.both(lambda store: store.confirm(key, provider="ses", provider_id=provider_id))
        assert record.state is ClaimState.DONE
        self.granted[key] = None

    @rule(seconds=st.sampled_from([0.001, 1, 5, 10, 60, 200]))
    def time_passes(self, seconds):
        self.clock.advance(seconds)

    @rule(limit=st.integers(1, 3))
    def unsettled(self, limit):
        found = self.both(lambda store: list(store.unsettled(limit)))
        due = {key for key in KEYS if (r := self.stored(key)) and machine.is_unsettled(r, self.clock.now())}
        assert due >= set(found)
        assert min(limit, len(due)) == len(found)

    @invariant()
    def records_are_equal_and_their_numbers_never_go_back(self):
        if not hasattr(self, "seqs"):
            return
        for key in KEYS:
            record = self.both(lambda store, key=key: store.get(key))
            if record is not None:
                assert self.seqs[key] <= record.seq
                self.seqs[key] = record.seq
                assert (record.lease is not None) is (
                    record.state in (ClaimState.CLAIMED, ClaimState.SENDING)
                    or (record.state is ClaimState.UNKNOWN and record.not_before is None)
                )
                assert record.lease is None or record.seq == record.lease.token

    def teardown(self):
        if hasattr(self, "sqlite"):
            self.sqlite.close()
            shutil.rmtree(self.folder)


def _answer(call, store):
    try:
        return call(store)
    except FingerprintMismatchError as error:
        return type(error)


ClaimStores.TestCase.settings = hypothesis.settings(stateful_step_count=40)
TestClaimStores = ClaimStores.TestCase
