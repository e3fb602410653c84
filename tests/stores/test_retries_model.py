"""A state machine for the retry store: both backends give the same answers, and the promises hold after every step."""

from __future__ import annotations

import shutil
import tempfile
from datetime import timedelta
from pathlib import Path

import hypothesis
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from retrykit.backends import MemoryBackend
from retrykit.backends.sqlite import SQLiteBackend
from retrykit.message import Message
from retrykit.testing import ManualClock

picks = st.integers(0, 20)
seconds = st.sampled_from([0, 1, 5, 30])


class RetryStores(RuleBasedStateMachine):
    """Two backends side by side; `held` are all entries that were ever handed out, stale ones included."""

    @initialize()
    def begin(self):
        self.folder = tempfile.mkdtemp()
        self.clock = ManualClock()
        self.memory = MemoryBackend(clock=self.clock)
        self.sqlite = SQLiteBackend(Path(self.folder) / "store.db", clock=self.clock, synchronous="normal")
        self.held = []
        self.tokens = [0, 0]
        self.live = {}

    @rule(
        message_id=st.sampled_from("abc"),
        generation=st.integers(1, 2),
        version=st.integers(0, 3),
        body=st.integers(0, 3),
        delay=st.integers(-5, 40),
    )
    def schedule(self, message_id, generation, version, body, delay):
        due_at = self.clock.now() + timedelta(seconds=delay)
        for backend in (self.memory, self.sqlite):
            message = Message(message_id, body, {"body": str(body)})
            backend.retries.schedule(message, due_at, generation=generation, version=version)
        self.live.pop((message_id, generation), None)

    @rule(limit=st.integers(1, 6), lease=st.sampled_from([1, 10]))
    def claim_due(self, limit, lease):
        now = self.clock.now()
        first, second = (
            list(backend.retries.claim_due(limit, owner="me", lease=lease)) for backend in (self.memory, self.sqlite)
        )
        assert len(first) == len(second) <= limit
        assert sorted(first, key=lambda due: due.due_at) == first
        assert [due.due_at for due in first] == [due.due_at for due in second]
        pairs = list(zip(sorted(first, key=_key), sorted(second, key=_key), strict=True))
        for one, other in pairs:
            assert (one.message, _key(one), one.due_at, one.lease.deadline) == (
                other.message,
                _key(other),
                other.due_at,
                other.lease.deadline,
            )
            assert one.due_at <= now
            assert _key(one) not in self.live or self.live[_key(one)] <= now
            assert self.tokens[0] < one.lease.token
            assert self.tokens[1] < other.lease.token
            self.live[_key(one)] = one.lease.deadline
        if pairs:
            self.tokens = [max(pair[side].lease.token for pair in pairs) for side in (0, 1)]
        self.held += pairs

    @rule(pick=picks, operation=st.sampled_from(["ack", "release"]), delay=seconds)
    def give_up(self, pick, operation, delay):
        if not self.held:
            return
        pair = self.held[-1 - pick % len(self.held)]
        options = {"delay": delay} if operation == "release" else {}
        first, second = (
            getattr(backend.retries, operation)(due, **options)
            for backend, due in zip((self.memory, self.sqlite), pair, strict=True)
        )
        assert first is second
        if first:
            del self.live[_key(pair[0])]

    @rule(passed=st.sampled_from([0.001, 1, 10, 60]))
    def time_passes(self, passed):
        self.clock.advance(passed)

    @invariant()
    def stats_are_equal(self):
        if hasattr(self, "live"):
            stats = self.memory.retries.stats()
            assert stats == self.sqlite.retries.stats()
            assert len(self.live) == stats.leased

    def teardown(self):
        if hasattr(self, "sqlite"):
            self.sqlite.close()
            shutil.rmtree(self.folder)


def _key(due):
    return due.message.id, due.generation


RetryStores.TestCase.settings = hypothesis.settings(stateful_step_count=40)
TestRetryStores = RetryStores.TestCase
