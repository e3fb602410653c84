"""A message that a worker was lost with runs alone in its process, and takes nobody's claim with it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from retrykit import AsyncDispatcher, Dispatcher, Message
from retrykit.backends import MemoryBackend
from retrykit.decision import Disposition, DispositionKind
from retrykit.errors import ConfigurationError
from retrykit.stores import Backend, ClaimState, as_async
from retrykit.testing import ManualClock, Paused
from retrykit.worker import AsyncIsolation, Isolation
from tests.colours import Runner, both_loops

K = DispositionKind
LEASE = 0.02
"""Seconds; of real time for those who wait for a turn."""


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def backend(clock: ManualClock) -> Backend:
    return MemoryBackend(clock=clock)


def lose_a_worker(backend: Backend, clock: ManualClock, key: str = "suspect") -> None:
    """Let a worker die that holds the message."""
    backend.claims.claim(key, owner="lost", lease=LEASE)
    clock.advance(LEASE)


def sender(seen: list[Any], isolation: Isolation | AsyncIsolation) -> Callable[[Message, str], None]:
    """Return a send that notes who has a turn while it runs."""

    def send(message: Message, key: str) -> None:
        seen.append((key, [turn.alone for turn in isolation._turns]))

    return send


def test_suspect_runs_in_a_turn_of_its_own(backend: Backend, clock: ManualClock) -> None:
    """All others run beside each other; neither way costs a start or an attempt."""
    isolation, seen = Isolation(), list[Any]()
    dispatcher = Dispatcher(sender(seen, isolation), backend=backend, clock=clock, lease=LEASE, isolation=isolation)
    lose_a_worker(backend, clock)
    assert (K.SENT, K.SENT) == (dispatcher.handle({"id": "other"}).kind, dispatcher.handle({"id": "suspect"}).kind)
    assert [("other", [False]), ("suspect", [True])] == seen
    record = backend.claims.get("suspect")
    assert record is not None
    assert (2, 1, 0, 0) == tuple(
        getattr(record.counters, name) for name in ("started", "crashed", "failed", "interrupted")
    )
    assert [] == isolation._turns


def test_suspect_waits_until_the_others_are_done_and_holds_nothing_meanwhile(
    backend: Backend, clock: ManualClock
) -> None:
    """So its own lease cannot end, and whoever dies meanwhile is not held against it; those who come later wait for it."""
    isolation, order = Isolation(), list[str]()
    begun, go_on = threading.Event(), threading.Event()

    def send(_message: Message, key: str) -> None:
        if key == "first":
            begun.set()
            assert go_on.wait(60)
        order.append(key)

    dispatcher = Dispatcher(send, backend=backend, clock=clock, lease=60, isolation=isolation)
    lose_a_worker(backend, clock)
    first = threading.Thread(target=dispatcher.handle, args=[{"id": "first"}])
    first.start()
    assert begun.wait(60)
    suspect = Paused(dispatcher._handle({"id": "suspect"}, None))
    while not [turn for turn in isolation._turns if turn.alone]:
        suspect.make_step()
    record = backend.claims.get("suspect")
    assert record is not None
    assert (ClaimState.FREE, None, 1) == (record.state, record.lease, record.counters.started)
    later = threading.Thread(target=dispatcher.handle, args=[{"id": "later"}])
    later.start()
    while len(isolation._turns) < 3:
        pass
    assert backend.claims.get("later") is None
    go_on.set()
    assert suspect.finish().kind is K.SENT  # type: ignore[union-attr]
    first.join(60)
    later.join(60)
    assert ["first", "suspect", "later"] == order


def test_suspect_that_finds_no_time_alone_is_put_off(backend: Backend, clock: ManualClock) -> None:
    """Somebody sends for longer than a lease: the suspect waits in the retry queue, and that is no try."""
    isolation, seen = Isolation(), list[Any]()
    endless = isolation.turn(alone=False)
    dispatcher = Dispatcher(sender(seen, isolation), backend=backend, clock=clock, lease=LEASE, isolation=isolation)
    lose_a_worker(backend, clock)
    disposition = dispatcher.handle({"id": "suspect"})
    assert (K.RETRY_SCHEDULED, None) == (disposition.kind, disposition.failure)
    assert disposition.reason == "a worker was lost with it, and found no time to run it alone"
    record = backend.claims.get("suspect")
    assert record is not None
    assert (0, 1) == (record.counters.failed, len(record.tries))
    endless.leave()
    clock.advance(LEASE)
    assert dispatcher.handle({"id": "suspect"}).kind is K.SENT
    assert [("suspect", [True])] == seen


def test_message_goes_on_beside_a_suspect_that_never_ends(backend: Backend, clock: ManualClock) -> None:
    """A send ends before its lease does: one that does not cannot stop the process for ever."""
    isolation, seen = Isolation(), list[Any]()
    isolation.turn(alone=True)
    dispatcher = Dispatcher(sender(seen, isolation), backend=backend, clock=clock, lease=LEASE, isolation=isolation)
    assert dispatcher.handle({"id": "other"}).kind is K.SENT


def test_suspect_that_another_process_takes_is_left_to_it(backend: Backend, clock: ManualClock) -> None:
    """While its turn is awaited, it is anybody's."""
    isolation, seen = Isolation(), list[Any]()
    endless = isolation.turn(alone=False)
    dispatcher = Dispatcher(sender(seen, isolation), backend=backend, clock=clock, lease=LEASE, isolation=isolation)
    lose_a_worker(backend, clock)
    handling = Paused(dispatcher._handle({"id": "suspect"}, None))
    while not any(turn.alone for turn in isolation._turns):
        handling.make_step()
    backend.claims.claim("suspect", owner="other process", lease=60)
    finished = handling.finish()
    assert finished is not None
    assert finished.reason.startswith("another copy is in progress")
    endless.leave()
    assert ([], []) == (seen, isolation._turns)


def test_interrupted_suspect_leaves_its_turn(backend: Backend, clock: ManualClock) -> None:
    """Whoever is told to stop keeps nobody waiting."""
    isolation = Isolation()

    def send(_message: Message, _key: str) -> None:
        raise KeyboardInterrupt

    dispatcher = Dispatcher(send, backend=backend, clock=clock, lease=LEASE, isolation=isolation)
    lose_a_worker(backend, clock)
    for key in ("suspect", "other"):
        with pytest.raises(KeyboardInterrupt):
            dispatcher.handle({"id": key})
    assert [] == isolation._turns


@both_loops
def test_async_suspect_runs_in_a_turn_of_its_own(backend: Backend, clock: ManualClock, runner: Runner) -> None:
    """As under a Dispatcher."""
    isolation, seen = AsyncIsolation(), list[Any]()
    note = sender(seen, isolation)

    async def send(message: Message, key: str) -> None:
        note(message, key)

    lose_a_worker(backend, clock)

    async def main() -> list[Disposition]:
        dispatcher = AsyncDispatcher(send, backend=as_async(backend), clock=clock, lease=LEASE, isolation=isolation)
        return [await dispatcher.handle({"id": key}) for key in ("other", "suspect")]

    assert [K.SENT, K.SENT] == [disposition.kind for disposition in runner(main)]
    assert [("other", [False]), ("suspect", [True])] == seen
    assert [] == isolation._turns


def test_dispatcher_without_isolation_runs_suspects_beside_others(backend: Backend, clock: ManualClock) -> None:
    """Nothing is taken and nothing given back: four steps, as for any message."""
    lose_a_worker(backend, clock)
    dispatcher = Dispatcher(lambda message, key: None, backend=backend, clock=clock, lease=LEASE)
    assert dispatcher.handle({"id": "suspect"}).kind is K.SENT
    record = backend.claims.get("suspect")
    assert record is not None
    assert record.counters.started == 2


def test_isolation_of_the_other_colour_is_refused(backend: Backend) -> None:
    """One would stop the event loop, and the other cannot be awaited; what gives no turns is none."""

    async def send(_message: Message, _key: str) -> None: ...

    with pytest.raises(ConfigurationError, match="use Isolation"):
        Dispatcher(lambda message, key: None, backend=backend, isolation=AsyncIsolation())
    with pytest.raises(ConfigurationError, match="use AsyncIsolation"):
        AsyncDispatcher(send, backend=as_async(backend), isolation=Isolation())
    with pytest.raises(ConfigurationError, match="has no turn"):
        Dispatcher(lambda message, key: None, backend=backend, isolation=3)  # type: ignore[arg-type]
