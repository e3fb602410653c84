"""A state machine for retry stores: the store under test answers as the memory store, and the promises hold throughout."""

from __future__ import annotations

from contextlib import ExitStack
from datetime import datetime, timedelta

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ...backends.memory import MemoryBackend
from ...message import Message
from ...stores.retries import DueMessage, RetryStore
from .suite import Fresh

__all__ = ["RetryStores"]

_picks = st.integers(0, 20)
_ids = st.sampled_from("abc")

Pair = tuple[DueMessage, DueMessage]


def _key(entry: DueMessage) -> tuple[str, int]:
    return entry.message.id, entry.generation


def _seen(entry: DueMessage) -> tuple[object, ...]:
    return entry.message, entry.generation, entry.due_at, entry.lease.owner, entry.lease.deadline


class RetryStores(RuleBasedStateMachine):
    """Two stores side by side; `held` are all entries that were ever handed out, stale ones included."""

    def __init__(self, fresh: Fresh[RetryStore]) -> None:
        super().__init__()
        self._opened = ExitStack()
        self.store, self.clock = self._opened.enter_context(fresh())
        self.model = MemoryBackend(clock=self.clock).retries
        self.held: list[Pair] = []
        self.tokens = (0, 0)
        self.live: dict[tuple[str, int], datetime] = {}

    @rule(
        message_id=_ids,
        generation=st.integers(1, 2),
        version=st.integers(0, 3),
        body=st.integers(0, 3),
        delay=st.integers(-5, 40),
    )
    def schedule(self, message_id: str, generation: int, version: int, body: int, delay: int) -> None:
        """Put in, replace, leave alone or take back."""
        due_at = self.clock.now() + timedelta(seconds=delay)
        for store in (self.model, self.store):
            message = Message(message_id, body, {"body": f"{body}"})
            store.schedule(message, due_at, generation=generation, version=version)
        self.live.pop((message_id, generation), None)

    @rule(limit=st.integers(1, 6), lease=st.sampled_from([1, 10]), owner=st.sampled_from(["me", "you"]))
    def claim_due(self, limit: int, lease: int, owner: str) -> None:
        """Hand out the same entries, none early, none that is held, none under a token that was used before."""
        now = self.clock.now()
        expected, answer = (
            list(store.claim_due(limit, owner=owner, lease=lease)) for store in (self.model, self.store)
        )
        assert [_seen(entry) for entry in expected] == [_seen(entry) for entry in answer]
        assert len(expected) <= limit
        pairs = list(zip(expected, answer, strict=True))
        for one, other in pairs:
            assert one.due_at <= now
            assert _key(one) not in self.live or self.live[_key(one)] <= now
            assert self.tokens[0] < one.lease.token
            assert self.tokens[1] < other.lease.token
            self.live[_key(one)] = one.lease.deadline
        if pairs:
            self.tokens = (max(one.lease.token for one, _ in pairs), max(other.lease.token for _, other in pairs))
        self.held += pairs

    def pick(self, number: int) -> Pair | None:
        """Return one of the entries that were handed out, recent ones more often."""
        return self.held[-1 - number % len(self.held)] if self.held else None

    @rule(number=_picks, delay=st.sampled_from([None, 0, 1, 5, 30]))
    def give_up(self, number: int, delay: int | None) -> None:
        """Ack or release, with any token there was."""
        pair = self.pick(number)
        if pair is None:
            return
        expected, answer = (
            store.ack(entry) if delay is None else store.release(entry, delay=delay)
            for store, entry in zip((self.model, self.store), pair, strict=True)
        )
        assert expected is answer
        if expected:
            del self.live[_key(pair[0])]

    @rule(number=_picks, lease=st.sampled_from([1, 10, 60]))
    def extend(self, number: int, lease: int) -> None:
        """Hold longer, with any token there was."""
        pair = self.pick(number)
        if pair is None:
            return
        expected, answer = self.model.extend(pair[0], lease=lease), self.store.extend(pair[1], lease=lease)
        if expected is None or answer is None:
            assert expected is answer
            return
        assert _seen(expected) == _seen(answer)
        assert pair[1].lease.token == answer.lease.token
        self.live[_key(expected)] = expected.lease.deadline

    @rule(message_id=_ids)
    def cancel(self, message_id: str) -> None:
        """Remove all generations."""
        assert self.model.cancel(message_id) is self.store.cancel(message_id)
        self.live = {key: deadline for key, deadline in self.live.items() if key[0] != message_id}

    @rule(seconds=st.sampled_from([0.001, 1, 10, 60]))
    def time_passes(self, seconds: float) -> None:
        """Let waits and leases end."""
        self.clock.advance(seconds)

    @invariant()
    def stats_are_equal(self) -> None:
        """Whatever was done."""
        stats = self.model.stats()
        assert stats == self.store.stats()
        assert len(self.live) == stats.leased

    def teardown(self) -> None:
        """Close the store."""
        self._opened.close()
