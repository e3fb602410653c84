"""Workers of either colour: what they hold, what they settle, and what they do when something is down."""

from __future__ import annotations

import contextlib
import logging
import threading
from datetime import datetime, timedelta
from typing import Any

import pytest

from retrykit import Dispatcher, Message
from retrykit.backends import MemoryBackend
from retrykit.clock import SystemClock
from retrykit.errors import ConfigurationError, StoreUnavailableError, WorkerStuckError
from retrykit.policy import delays
from retrykit.stores import ClaimState
from retrykit.testing import ManualClock
from retrykit.worker import AsyncWorker, GracefulShutdown, Health, QueueSource, Worker
from tests.colours import Runner, both_loops
from tests.worker.sources import RUNNERS, AsyncSource, Shop, SyncSource, sleep

each_colour = pytest.mark.parametrize("runner", RUNNERS.values(), ids=RUNNERS.keys())
QUICK = {"backoff": delays(0.001, jitter="none")}


def bodies(count: int) -> list[bytes]:
    return [f'{{"id": "m{number}"}}'.encode() for number in range(count)]


def sent(_message: Message) -> str:
    return "p-1"


@each_colour
def test_worker_handles_and_acks_all_that_comes(runner: Runner | None) -> None:
    """Each message once; nothing goes back, and the report counts them."""
    shop = Shop(runner, MemoryBackend(), sent, *bodies(20))
    report = shop.run()
    assert (sorted(bodies(20)), [], []) == (sorted(shop.source.acked), shop.source.nacked, shop.source.out)
    assert ("request", 20, 20, 0) == (report.reason, report.taken, report.finished, report.returned)


@each_colour
@pytest.mark.parametrize(("concurrency", "prefetch"), [(1, 0), (3, 2)])
def test_worker_holds_no_more_than_it_was_told_to(runner: Runner | None, concurrency: int, prefetch: int) -> None:
    """What is handled at once and what waits for that are both bounded."""
    at_once, most, lock = 0, 0, threading.Lock()

    def send(_message: Message) -> object:
        nonlocal at_once, most
        with lock:
            at_once += 1
            most = max(most, at_once)

        def leave() -> None:
            nonlocal at_once
            with lock:
                at_once -= 1

        async def later() -> None:
            await sleep(0)
            leave()

        if runner is not None:
            return later()
        leave()
        return None

    shop = Shop(runner, MemoryBackend(), send, *bodies(30), concurrency=concurrency, prefetch=prefetch)
    shop.run()
    assert shop.source.most <= concurrency + prefetch
    assert (1 if concurrency == 1 else most) == most <= concurrency


@each_colour
def test_worker_gives_back_what_nobody_has_begun(runner: Runner | None) -> None:
    """At the stop what runs is finished, and what was only prefetched goes back at once."""

    def send(_message: Message) -> None:
        shop.worker.stop()

    shop = Shop(runner, MemoryBackend(), send, *bodies(4), concurrency=1, prefetch=3, stops=False)
    report = shop.run()
    assert 4 == len(shop.source.acked) + len(shop.source.nacked) == report.taken
    assert (report.finished, report.returned) == (len(shop.source.acked), len(shop.source.nacked))
    assert report.finished >= 1
    assert {0.0} >= {delay for _, delay in shop.source.nacked}


@each_colour
def test_worker_gives_back_what_a_store_refused_and_waits(
    runner: Runner | None, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing was decided: the copy comes again, and nothing else is received meanwhile."""
    backend, failures = MemoryBackend(), 2
    claim = backend.claims._claim

    def flaky(*args: Any) -> Any:
        nonlocal failures
        if failures:
            failures -= 1
            raise StoreUnavailableError("down")
        return claim(*args)

    backend.claims._claim = flaky  # type: ignore[method-assign]
    shop = Shop(runner, backend, sent, *bodies(1), **QUICK)
    nack = shop.source.nacked
    shop.source.at_the_end = lambda: (
        shop.source.bodies.extend(bodies(1)) if len(nack) + len(shop.source.acked) < 3 else shop.stop_when_settled()
    )
    shop.run()
    assert ([(bodies(1)[0], 0.001)] * 2, True) == (nack, bodies(1)[0] in shop.source.acked)
    assert "nothing was decided about 'm0', it comes again in 0.0 s: StoreUnavailableError: down" in caplog.text


@each_colour
def test_worker_puts_aside_what_nobody_can_take_in(runner: Runner | None) -> None:
    """An id that is too long, and an id with another payload, will not get better."""
    too_long = f'{{"id": "{"x" * 300}"}}'.encode()
    shop = Shop(runner, MemoryBackend(), sent, b'{"id": "m1"}', b'{"id": "m1", "other": 1}', too_long, concurrency=1)
    shop.run()
    assert ([b'{"id": "m1"}'], [b'{"id": "m1", "other": 1}', too_long]) == (shop.source.acked, shop.source.rejected)


@each_colour
def test_worker_asks_a_source_that_raises_again(runner: Runner | None, caplog: pytest.LogCaptureFixture) -> None:
    """It is no dead worker, and no message is lost."""
    shop = Shop(runner, MemoryBackend(), sent, *bodies(3), **QUICK)
    shop.source.errors = [ConnectionResetError("gone"), OSError("away")]
    shop.run()
    assert 3 == len(shop.source.acked)
    assert "the source gives nothing, asked again in 0.0 s: ConnectionResetError: gone" in caplog.text


@each_colour
def test_worker_asks_a_source_that_gives_nonsense_again(
    runner: Runner | None, caplog: pytest.LogCaptureFixture
) -> None:
    """A client that answers with None once does not end the worker."""
    shop = Shop(runner, MemoryBackend(), sent, *bodies(1), **QUICK)
    give, answers = shop.source.give, [None]
    shop.source.give = lambda limit: answers.pop() if answers else give(limit)  # type: ignore[method-assign, return-value]
    shop.source.receive = (lambda limit, _wait: shop.source.give(limit)) if runner is None else shop.source.receive  # type: ignore[method-assign, assignment]
    shop.run()
    assert [bodies(1)[0]] == shop.source.acked
    said = "TypeError: receive gave NoneType; allowed is a list of Delivery objects, empty for none"
    assert f"the source gives nothing, asked again in 0.0 s: {said}" in caplog.text


@each_colour
def test_worker_whose_source_takes_no_ack_goes_on(runner: Runner | None, caplog: pytest.LogCaptureFixture) -> None:
    """The copy comes again, and is a duplicate then."""
    begun = list[str]()
    shop = Shop(runner, MemoryBackend(), lambda message: begun.append(message.id), *bodies(2))
    shop.source.broken = {"ack"}
    shop.source.at_the_end = lambda: shop.worker.stop() if len(begun) == 2 else None
    shop.run()
    assert "the source takes no ack of 'm0', the copy comes again: ConnectionResetError: gone" in caplog.text


@each_colour
def test_worker_extends_what_it_holds(runner: Runner | None) -> None:
    """A source whose copies come back by themselves is told that they are held, the prefetched ones too."""
    goes = threading.Event()

    def send(_message: Message) -> object:
        async def wait() -> None:
            while not goes.is_set():
                await sleep(0.002)

        if runner is not None:
            return wait()
        assert goes.wait(20)
        return None

    shop = Shop(runner, MemoryBackend(), send, *bodies(2), concurrency=1, prefetch=1, lease=0.06, time_limit=60)
    extend = shop.source.extended

    class Watched(list[bytes]):
        def append(self, body: bytes) -> None:
            super().append(body)
            if set(bodies(2)) <= set(self):
                goes.set()

    shop.source.extended = Watched(extend)
    shop.run()
    assert set(bodies(2)) == set(shop.source.extended)
    record = shop.backend.claims.get("m0")
    assert record is not None
    assert (0, ClaimState.DONE) == (record.counters.crashed, record.state)


@each_colour
def test_worker_renews_leases_while_handlers_run(runner: Runner | None) -> None:
    """A handler that takes several leases is not taken for lost."""
    renewed = threading.Event()
    backend = MemoryBackend()
    renew = backend.claims._renew
    times = 0

    def counted(*args: Any) -> Any:
        nonlocal times
        times += 1
        if times == 3:
            renewed.set()
        return renew(*args)

    backend.claims._renew = counted  # type: ignore[method-assign]

    def send(_message: Message) -> object:
        async def wait() -> None:
            while not renewed.is_set():
                await sleep(0.002)

        if runner is not None:
            return wait()
        assert renewed.wait(20)
        return None

    shop = Shop(runner, backend, send, *bodies(1), lease=0.3, time_limit=60)
    shop.run()
    record = backend.claims.get("m0")
    assert record is not None
    assert (0, ClaimState.DONE) == (record.counters.crashed, record.state)


@each_colour
def test_worker_stopped_at_once_gives_back_what_runs(runner: Runner | None) -> None:
    """Claims and copies both, and it counts as no try."""
    goes, backend = threading.Event(), MemoryBackend()

    def send(_message: Message) -> object:
        shop.worker.stop(at_once=True)
        if runner is not None:
            return sleep(3600)
        assert goes.wait(20)
        return None

    shop = Shop(runner, backend, send, *bodies(1), stops=False)
    report = shop.run()
    goes.set()
    record = backend.claims.get("m0")
    assert record is not None
    assert (("m0",), [(bodies(1)[0], 0.0)]) == (report.unknown, shop.source.nacked)
    assert (ClaimState.UNKNOWN, 1, 0) == (record.state, record.counters.interrupted, record.counters.failed)


def test_handler_that_hangs_is_left_behind_and_replaced(caplog: pytest.LogCaptureFixture) -> None:
    """Its message has failed as unknown, its copy goes back, and the worker's one place is taken by another thread."""
    goes, backend = threading.Event(), MemoryBackend()

    def send(message: Message) -> None:
        if message.id == "m0":
            assert goes.wait(20)

    shop = Shop(None, backend, send, *bodies(2), concurrency=1, time_limit=0.05)
    shop.run()
    record = backend.claims.get("m0")
    assert record is not None
    assert (ClaimState.UNKNOWN, 1) == (record.state, record.counters.failed)
    assert ([(bodies(1)[0], 0.05)], [bodies(2)[1]]) == (shop.source.nacked, shop.source.acked)
    assert "the handler of 'm0' hangs for more than 0.05 s and is left behind (1 hang, 1 may)" in caplog.text
    goes.set()


def test_worker_with_too_many_hanging_handlers_ends() -> None:
    """The process has to be replaced: an error leaves, liveness is lost, and no thread keeps it."""
    goes, backend = threading.Event(), MemoryBackend()

    def send(_message: Message) -> None:
        assert goes.wait(20)

    shop = Shop(None, backend, send, *bodies(3), concurrency=1, spare=1, time_limit=0.05, stops=False)
    with pytest.raises(WorkerStuckError, match="2 handlers hang"):
        shop.run()
    assert (False, False) == (shop.health.is_alive, shop.health.is_ready)
    assert [] == shop.source.out
    goes.set()


@both_loops
def test_asynchronous_handler_over_the_time_limit_is_cancelled(runner: Runner) -> None:
    """Its message has failed as unknown, and its copy goes back."""
    backend, cancelled = MemoryBackend(), []

    async def hang() -> None:
        try:
            await sleep(3600)
        finally:
            cancelled.append(True)

    shop = Shop(
        runner,
        backend,
        lambda message: hang() if message.id == "m0" else None,
        *bodies(2),
        concurrency=1,
        time_limit=0.05,
        **QUICK,
    )
    shop.run()
    record = backend.claims.get("m0")
    assert record is not None
    assert (ClaimState.UNKNOWN, 1, [True]) == (record.state, record.counters.failed, cancelled)
    assert (bodies(1)[0], [bodies(2)[1]]) == (shop.source.nacked[0][0], shop.source.acked)


@both_loops
def test_asynchronous_handler_that_cannot_be_cancelled_is_left_behind(runner: Runner) -> None:
    """It keeps no place, and when too many do so the worker ends."""
    import asyncio

    import trio

    goes: list[bool] = []

    async def until_it_goes() -> None:
        while not goes:
            await sleep(0.002)

    async def stubborn() -> None:
        if runner is trio.run:
            with trio.CancelScope(shield=True):
                await until_it_goes()
            return
        while not goes:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(0.002)

    shop = Shop(runner, MemoryBackend(), lambda _message: stubborn(), *bodies(1), spare=0, time_limit=0.03, stops=False)
    dead = shop.health.dead
    shop.health.dead = lambda why: (dead(why), goes.append(True))  # type: ignore[method-assign]
    with pytest.raises(WorkerStuckError, match="1 handlers hang"):
        shop.run()


@each_colour
def test_handler_that_ends_with_what_is_no_exception_ends_the_worker(runner: Runner | None) -> None:
    """It is raised to whoever runs the worker, and the message goes back."""

    def send(_message: Message) -> None:
        raise SystemExit(3)

    shop = Shop(runner, MemoryBackend(), send, *bodies(1), stops=False)
    with pytest.raises(SystemExit):
        shop.run()
    record = shop.backend.claims.get("m0")
    assert record is not None
    assert ClaimState.DONE is not record.state


@each_colour
def test_worker_goes_on_when_its_claims_cannot_be_looked_after(
    runner: Runner | None, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever a listener or a policy does there."""
    kept = threading.Event()

    def send(_message: Message) -> object:
        async def wait() -> None:
            while not kept.is_set():
                await sleep(0.002)

        if runner is not None:
            return wait()
        assert kept.wait(20)
        return None

    shop = Shop(runner, MemoryBackend(), send, *bodies(1), lease=0.06, time_limit=60)

    def broken(**_more: object) -> None:
        kept.set()
        raise ZeroDivisionError

    shop.dispatcher.keep = broken
    shop.run()
    assert "what is being handled could not be looked after, trying again" in caplog.text


class TickingClock(ManualClock):
    """A clock on which every look takes a second."""

    def monotonic(self) -> float:
        self.advance(1)
        return super().monotonic()


def test_worker_tells_its_health_of_a_source_that_stays_down() -> None:
    """Not ready after ten seconds, ready again when it works, and not ready when it stops; alive all the time."""
    clock, seen = TickingClock(), list[tuple[bool, bool]]()
    health = Health(clock=clock, stale_after=3600)
    source = SyncSource(*bodies(1))
    dispatcher = Dispatcher(lambda _message, _key: None, backend=MemoryBackend())
    worker = Worker(
        source,
        dispatcher,
        clock=clock,
        health=health,
        backoff=delays(6, jitter="none"),
        shutdown=GracefulShutdown(limit=60),
    )
    receive = source.receive

    def watched(limit: int, wait: float) -> Any:
        seen.append((health.is_ready, health.is_alive))
        if len(seen) <= 4:
            raise ConnectionRefusedError("down")
        if len(seen) == 6:
            worker.stop()
        return receive(limit, wait)

    source.receive = watched  # type: ignore[method-assign]
    worker.run()
    assert ((True, True), (False, True), (True, True)) == (seen[0], seen[4], seen[5])
    assert ({"worker": "it is about to stop"}, True) == (health.status()["why"], health.is_alive)


class JumpingClock(SystemClock):
    """Real time, which is an hour earlier from the first message on: somebody has set the clock back."""

    def __init__(self) -> None:
        self.back = timedelta(0)

    def now(self) -> datetime:
        return super().now() - self.back


@each_colour
def test_worker_whose_clock_jumps_back_an_hour_goes_on(runner: Runner | None) -> None:
    """Nothing waits for the hour to pass: spans are measured by the monotonic clock."""
    clock = JumpingClock()

    def send(_message: Message) -> None:
        clock.back = timedelta(hours=1)

    shop = Shop(runner, MemoryBackend(clock=clock), send, *bodies(5), concurrency=2, clock=clock)
    assert 5 == shop.run().finished


def test_worker_logs_no_payload(caplog: pytest.LogCaptureFixture) -> None:
    """Neither of a message that comes again nor of one that is put aside."""
    caplog.set_level(logging.DEBUG)
    shop = Shop(None, MemoryBackend(), sent, b'{"id": "m1", "secret": 1}', b'{"id": "m1", "secret": 2}', concurrency=1)
    shop.run()
    assert caplog.records
    assert "secret" not in caplog.text


def test_queue_source_hands_out_again_what_was_given_back() -> None:
    """At once or later, and puts aside what is rejected; a test can count on all of it."""
    clock = ManualClock()
    source = QueueSource(bodies(2), clock=clock)
    first, second = source.receive(5, 0)
    assert [] == source.receive(5, 0.001)
    source.nack(first, 10)
    source.nack(second, 0)
    assert ([second.raw], 1) == ([each.raw for each in source.receive(5, 1)], len(source))
    clock.advance(10)
    (again,) = source.receive(5, 0)
    source.ack(again)
    source.reject(second)
    assert (first.raw, [second.raw], 0) == (again.raw, source.rejected, len(source))


async def _send_async(_message: Message, _key: str) -> None: ...


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"concurrency": 0}, "concurrency is 0"),
        ({"prefetch": -1}, "prefetch is -1"),
        ({"spare": "x"}, "spare is 'x'"),
        ({"time_limit": 0}, "time_limit"),
        ({"wait": 0}, "wait"),
        ({"shutdown": 30}, "shutdown is 30"),
        ({"health": "well"}, "health is 'well'"),
        ({"clock": "noon"}, "clock is 'noon'"),
        ({"rng": 4}, "rng is 4"),
        ({"source": object()}, "has no receive"),
        ({"dispatcher": "d"}, "allowed is a Dispatcher"),
        ({"source": AsyncSource()}, "use AsyncWorker"),
    ],
)
def test_worker_refuses_what_cannot_be(options: dict[str, Any], match: str) -> None:
    """By name, before the first message."""
    dispatcher = Dispatcher(lambda _message, _key: None, backend=MemoryBackend())
    given = {"source": SyncSource(), "dispatcher": dispatcher, **options}
    with pytest.raises(ConfigurationError, match=match):
        Worker(given.pop("source"), given.pop("dispatcher"), **given)


def test_asynchronous_worker_refuses_a_synchronous_dispatcher() -> None:
    """It would stop the event loop."""
    dispatcher = Dispatcher(lambda _message, _key: None, backend=MemoryBackend())
    with pytest.raises(ConfigurationError, match="allowed is an AsyncDispatcher"):
        AsyncWorker(AsyncSource(), dispatcher)  # type: ignore[arg-type]


def test_worker_has_no_other_options() -> None:
    """A name that is misspelt is told."""
    with pytest.raises(TypeError, match="no option 'threads'"):
        Worker(SyncSource(), Dispatcher(lambda _message, _key: None, backend=MemoryBackend()), threads=3)  # type: ignore[call-arg]


@each_colour
def test_worker_lets_a_suspect_run_alone(runner: Runner | None) -> None:
    """A message whose earlier worker was lost, whether or not the dispatcher was given an isolation."""
    clock, at_work, beside, lock = ManualClock(), set[str](), list[set[str]](), threading.Lock()
    backend = MemoryBackend(clock=clock)
    backend.claims.claim("m3", owner="lost:1/1", lease=30)
    clock.advance("30s")

    def send(message: Message) -> object:
        with lock:
            at_work.add(message.id)
            if "m3" in at_work:
                beside.append(set(at_work))

        async def later() -> None:
            await sleep(0)
            at_work.discard(message.id)

        if runner is not None:
            return later()
        SystemClock().sleep(0.005)  # so that others would be beside it
        with lock:
            at_work.discard(message.id)
        return None

    shop = Shop(runner, backend, send, *bodies(12), concurrency=4)
    report = shop.run()
    assert 12 == report.finished
    assert [{"m3"}] == beside


@each_colour
def test_copies_that_nobody_has_begun_when_all_is_given_back_come_again_at_once(runner: Runner | None) -> None:
    """A dispatcher that has given back what it had refuses them: that is no trouble of a store."""
    shop = Shop(runner, MemoryBackend(), sent, *bodies(12), concurrency=2, prefetch=10, stops=False)
    if runner is None:
        shop.dispatcher.hand_back()
    else:
        runner(shop.dispatcher.hand_back)
    report = shop.run()
    assert {0.0} == {delay for _, delay in shop.source.nacked}
    assert ("the dispatcher has given all back", 0) == (report.reason, report.finished)
    assert report.taken == report.returned == len(shop.source.nacked)
