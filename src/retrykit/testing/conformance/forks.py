"""A store that is used before a fork works in the child and, afterwards, in the parent."""

from __future__ import annotations

import json
import os
import signal
import traceback
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final, Generic, TypeVar, cast

import pytest

from ...codec import JSON
from ...message import Message
from ...stores.circuits import CircuitStore
from ...stores.claims import ClaimStore
from ...stores.dead_letters import DeadLetterStore
from ...stores.deliveries import Delivery, DeliveryStatus, DeliveryStore
from ...stores.redrives import RedriveStore
from ...stores.retries import RetryStore
from ...stores.signals import Signals, SignalStore
from .colours import COLOURS, Driven
from .dead_letters_samples import letter
from .redrives_samples import job, stopping
from .suite import StoreSuite, needs

__all__ = [
    "CircuitForks",
    "ClaimForks",
    "DeadLetterForks",
    "DeliveryForks",
    "RedriveForks",
    "RetryForks",
    "SignalForks",
]

S = TypeVar("S")

_NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)

_PATIENCE: Final = 20
"""Seconds after which a child that hangs ends itself, so that none outlives the tests."""


def in_fork(work: Callable[[], JSON]) -> Any:
    """Do a piece of work in a forked child and return its answer.

    Raises:
        AssertionError: the child failed, its error is the text; or it hung.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(_PATIENCE)
        try:
            said = json.dumps([True, work()])
        except BaseException:  # noqa: BLE001 - all of it goes to the parent
            said = json.dumps([False, traceback.format_exc()])
        os.write(writer, said.encode("ascii"))
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        answered = pipe.read()
    _, status = os.waitpid(child, 0)
    assert answered, f"the child hung or was killed: its status is {status}"
    succeeded, answer = json.loads(answered)
    assert succeeded, answer
    return answer


class _Forks(StoreSuite[S], Generic[S]):
    """What the tests of all contracts have in common."""

    def _keep(self, store: S, key: str) -> None:
        """Store something under a key."""
        raise NotImplementedError

    def _kept(self, store: S) -> list[str]:
        """Return the keys, in their order."""
        raise NotImplementedError

    @needs("fork")
    @pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # from Python 3.12 on, beside other threads
    def test_store_used_before_a_fork_works_in_the_child_and_in_the_parent(self, store: S, colour: str) -> None:
        """Each sees what the other kept, and the parent goes on."""
        if not hasattr(os, "fork"):
            pytest.skip("this system has no fork")
        self._keep(store, "a")

        def child() -> JSON:
            own = cast("S", Driven(store.driven, COLOURS[colour]())) if isinstance(store, Driven) else store
            seen = self._kept(own)
            self._keep(own, f"child {len(seen)}")
            return self._kept(own)

        assert in_fork(child) == ["a", "child 1"]
        assert self._kept(store) == ["a", "child 1"]
        self._keep(store, "z")
        assert in_fork(child) == ["a", "child 1", "child 3", "z"]
        assert self._kept(store) == ["a", "child 1", "child 3", "z"]


class ClaimForks(_Forks[ClaimStore]):
    """A claim store in a forked child."""

    def _keep(self, store: ClaimStore, key: str) -> None:
        held = store.confirm(key, provider="ses")
        assert store.get(key) == held

    def _kept(self, store: ClaimStore) -> list[str]:
        return [key for key in ("a", "child 1", "child 3", "z") if store.get(key) is not None]


class RetryForks(_Forks[RetryStore]):
    """A retry store in a forked child."""

    def _keep(self, store: RetryStore, key: str) -> None:
        store.schedule(Message(key, key), _NOW)

    def _kept(self, store: RetryStore) -> list[str]:
        due = store.claim_due(owner="me")
        assert all(store.release(each) for each in due)
        return sorted(each.message.id for each in due)


class DeadLetterForks(_Forks[DeadLetterStore]):
    """A dead letter store in a forked child."""

    def _keep(self, store: DeadLetterStore, key: str) -> None:
        store.put(letter(key))

    def _kept(self, store: DeadLetterStore) -> list[str]:
        return sorted(each.message_id for each in store.search().letters)


class DeliveryForks(_Forks[DeliveryStore]):
    """A delivery log in a forked child."""

    def _keep(self, store: DeliveryStore, key: str) -> None:
        store.record(Delivery(message_id=key, status=DeliveryStatus.UNKNOWN, updated_at=_NOW))

    def _kept(self, store: DeliveryStore) -> list[str]:
        return [each.message_id for each in store.with_status(DeliveryStatus.UNKNOWN)]


class CircuitForks(_Forks[CircuitStore]):
    """A circuit store in a forked child."""

    def _keep(self, store: CircuitStore, key: str) -> None:
        store.pause(f"tenant:{key}", reason="r", by="ada")
        assert store.trip(key, by="ada", recovery=5).by == "ada"

    def _kept(self, store: CircuitStore) -> list[str]:
        pauses = [pause.key.removeprefix("tenant:") for pause in store.pauses()]
        assert pauses == [circuit.name for circuit in store.circuits()]
        return pauses


class RedriveForks(_Forks[RedriveStore]):
    """A redrive store in a forked child."""

    def _keep(self, store: RedriveStore, key: str) -> None:
        store.start(job(key, key))
        assert store.change(key, stopping()) == store.get(key)

    def _kept(self, store: RedriveStore) -> list[str]:
        return [known.id for known in store.jobs()]


class SignalForks(_Forks[SignalStore]):
    """A signal store in a forked child."""

    def _keep(self, store: SignalStore, key: str) -> None:
        assert store.change(key, lambda _, __: Signals(name=key)) == store.get(key)

    def _kept(self, store: SignalStore) -> list[str]:
        return [key for key in ("a", "child 1", "child 3", "z") if store.get(key) is not None]
