"""How a worker ends that cannot end as it should: a store that takes nothing, handlers that hang, errors, cancellations, a second run."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import Any

import pytest

from retrykit import AsyncDispatcher, Dispatcher, Message
from retrykit.backends import MemoryBackend
from retrykit.errors import ConfigurationError, HandBackError, StoreUnavailableError, WorkerStuckError
from retrykit.policy import delays
from retrykit.stores import ClaimState, as_async
from retrykit.worker import (
    AsyncIsolation,
    AsyncWorker,
    Delivery,
    GracefulShutdown,
    Isolation,
    QueueSource,
    Worker,
)
from tests.colours import Runner, both_loops, trio
from tests.worker.sources import RUNNERS, AsyncSource, Shop, SyncSource, sleep

each_colour = pytest.mark.parametrize("runner", RUNNERS.values(), ids=RUNNERS.keys())


def bodies(count: int) -> list[bytes]:
    return [f'{{"id": "m{number}"}}'.encode() for number in range(count)]


def sent(_message: Message) -> str:
    return "p-1"


class Hanging:
    """A send that hangs until it is let go, and stops the worker once it is begun so many times."""

    def __init__(self, runner: Runner | None, stops_at: int = 0) -> None:
        self.goes = threading.Event()
        self.shop: Shop
        self._runner, self._stops_at, self._begun = runner, stops_at, 0
        self._lock = threading.Lock()

    def __call__(self, _message: Message) -> object:
        with self._lock:
            self._begun += 1
            is_last = self._begun == self._stops_at
        if is_last:
            self.shop.worker.stop(at_once=True)
        if self._runner is not None:
            return sleep(3600)
        assert self.goes.wait(20)
        return None


def refusing(backend: MemoryBackend, times: int = 1_000_000) -> None:
    """Let a store refuse to settle so many claims."""
    settle = backend.claims._settle

    def refuse(*args: Any) -> Any:
        nonlocal times
        if times > 0:
            times -= 1
            raise StoreUnavailableError("down")
        return settle(*args)

    backend.claims._settle = refuse  # type: ignore[method-assign]


def stopped(runner: Runner | None, backend: MemoryBackend, reserve: float) -> Shop:
    """Return a worker with two messages that hang, which stops itself."""
    send = Hanging(runner, stops_at=2)
    stop = GracefulShutdown(limit=30, reserve=reserve, signals=())
    send.shop = shop = Shop(runner, backend, send, *bodies(3), concurrency=2, shutdown=stop, stops=False)
    try:
        shop.run()
    finally:
        send.goes.set()
    return shop


@each_colour
def test_worker_whose_store_takes_nothing_back_tells_and_raises(
    runner: Runner | None, caplog: pytest.LogCaptureFixture
) -> None:
    """The report, one line of the log and the error name what could not be given back; the copies go back all the same."""
    backend = MemoryBackend()
    refusing(backend)
    with pytest.raises(HandBackError, match="2 of the messages in work could not be given back") as raised:
        stopped(runner, backend, reserve=0.4)
    assert {"m0", "m1"} == set(raised.value.message_ids)
    lines = [record.message for record in caplog.records if record.levelname == "ERROR"]
    assert [str(raised.value)] == lines


@each_colour
def test_worker_asks_a_store_again_that_does_not_take_back_at_first(runner: Runner | None) -> None:
    """It was down for a moment: all is given back, and nothing is raised."""
    backend = MemoryBackend()
    refusing(backend, times=3)
    report = stopped(runner, backend, reserve=20).worker.report
    assert (3, 1, {"m0", "m1"}, ()) == (report.taken, report.returned, set(report.unknown), report.stranded)


@each_colour
def test_worker_that_is_stopped_at_once_is_not_ready(runner: Runner | None) -> None:
    """However its work was broken off."""
    shop = stopped(runner, MemoryBackend(), reserve=5)
    assert (False, True) == (shop.health.is_ready, shop.health.is_alive)
    assert {"worker": "it is about to stop"} == shop.health.status()["why"]


def test_worker_that_is_stuck_begins_no_more_handlers(caplog: pytest.LogCaptureFixture) -> None:
    """What hangs is named and counted rightly, and nobody takes the places of those that were too many."""
    send = Hanging(None)
    shop = Shop(None, MemoryBackend(), send, *bodies(6), concurrency=1, spare=1, time_limit=0.05, stops=False)
    with pytest.raises(WorkerStuckError, match="2 handlers hang"):
        shop.run()
    send.goes.set()
    lines = [record.message for record in caplog.records if "left behind" in record.message]
    assert [
        f"the handler of 'm{number}' hangs for more than 0.05 s and is left behind ({number + 1} hang, 1 may)"
        for number in range(2)
    ] == lines
    report = shop.worker.report
    assert (2, report.taken - 2, report.taken) == (report.timed_out, report.returned, len(shop.source.nacked))


@both_loops
def test_asynchronous_handler_that_was_cancelled_at_its_limit_is_told_to_have_failed(
    runner: Runner, caplog: pytest.LogCaptureFixture
) -> None:
    """It is no trouble of a store: the worker goes on receiving, and the copy comes again after the limit."""

    def send(message: Message) -> object:
        return sleep(3600) if message.id == "m0" else None

    backoff = {"backoff": delays(3600, jitter="none")}
    shop = Shop(runner, MemoryBackend(), send, *bodies(3), concurrency=1, prefetch=0, time_limit=0.05, **backoff)
    report = shop.run()
    assert (1, 2, [(bodies(1)[0], 0.05)]) == (report.timed_out, report.finished, shop.source.nacked)
    assert "the handler of 'm0' was cancelled after its time limit of 0.05 s, and the message has failed" in caplog.text
    assert "nothing was decided" not in caplog.text


def test_handler_that_something_else_cancels_keeps_its_copy(caplog: pytest.LogCaptureFixture) -> None:
    """A client that closes cancels the futures that others wait for: nothing was decided, and the message is not lost."""

    async def closed() -> None:
        future = asyncio.get_running_loop().create_future()
        future.cancel()
        await future

    shop = Shop(RUNNERS["asyncio"], MemoryBackend(), lambda _message: closed(), *bodies(1), lease=6.0)
    report = shop.run()
    assert ([], [(bodies(1)[0], 1.0)]) == (shop.source.acked, shop.source.nacked)
    assert (1, 0) == (report.returned + len(report.unknown), report.finished)
    assert "the handler of 'm0' was cancelled, it comes again in 1.0 s" in caplog.text


def test_handlers_that_found_no_time_because_another_blocked_the_loop_are_not_left_behind() -> None:
    """They are cancelled first, and have as long as that takes to end."""

    async def send(message: Message) -> None:
        if message.id == "m0":
            await asyncio.sleep(0)
            threading.Event().wait(0.2)  # blocks the loop
        await asyncio.sleep(0)

    shop = Shop(RUNNERS["asyncio"], MemoryBackend(), send, *bodies(4), concurrency=4, spare=0, time_limit=0.03)
    report = shop.run()
    assert 4 == report.taken == report.finished + report.timed_out + report.returned


@each_colour
def test_worker_that_an_error_breaks_off_gives_back_what_runs(runner: Runner | None) -> None:
    """A source that ends the process: what is in work is neither left to its lease nor held by the source."""
    backend, send = MemoryBackend(), Hanging(runner)
    shop = Shop(runner, backend, send, *bodies(1), stops=False)

    def give_up() -> None:
        if backend.claims.get("m0"):
            raise KeyboardInterrupt

    shop.source.at_the_end = give_up
    with pytest.raises(KeyboardInterrupt):
        shop.run()
    send.goes.set()
    record, report = backend.claims.get("m0"), shop.worker.report
    assert record is not None
    assert (1, ClaimState.UNKNOWN) == (record.counters.interrupted, record.state)
    assert ("KeyboardInterrupt", 1, ("m0",), []) == (report.reason, report.taken, report.unknown, shop.source.out)


@both_loops
def test_asynchronous_worker_that_is_cancelled_gives_back_what_runs(runner: Runner) -> None:
    """Whoever runs it has a time limit of their own."""
    backend, send = MemoryBackend(), Hanging(runner)
    shop = Shop(runner, backend, send, *bodies(1), stops=False)

    async def main() -> None:
        if runner is trio.run:
            with trio.move_on_after(0.2):
                await shop.worker.run()
            return
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(shop.worker.run(), 0.2)

    runner(main)
    record = backend.claims.get("m0")
    assert record is not None
    assert (1, ClaimState.UNKNOWN, []) == (record.counters.interrupted, record.state, shop.source.out)


@each_colour
def test_handler_that_ends_the_worker_is_named(runner: Runner | None, caplog: pytest.LogCaptureFixture) -> None:
    """By its message, or said to have none of which a name could be told."""

    def send(_message: Message) -> None:
        raise SystemExit(3)

    shop = Shop(runner, MemoryBackend(), send, *bodies(1), stops=False)
    with pytest.raises(SystemExit):
        shop.run()
    assert "the handler of 'm0' ended with SystemExit, and the worker stops" in caplog.text
    assert 1 == shop.worker.report.taken


@each_colour
def test_source_that_gives_what_is_no_delivery_is_asked_again_later(
    runner: Runner | None, caplog: pytest.LogCaptureFixture
) -> None:
    """With growing waits, as for any failure of a source; what else it gave is handled."""
    shop = Shop(runner, MemoryBackend(), sent, backoff=delays(0.001, 0.1, jitter="none"))
    answers: list[Any] = [[Delivery(bodies(1)[0]), {"id": "m1"}], [7, None, None]]

    def give(_limit: int) -> Any:
        if answers:
            return answers.pop(0)
        if shop.source.acked:
            shop.worker.stop()
        return []

    shop.source.give = give  # type: ignore[method-assign]
    shop.source.out = _Anything()
    report = shop.run()
    assert ([bodies(1)[0]], 1, 1) == (shop.source.acked, report.taken, report.finished)
    for wait, seen in (("0.0", "1 of type dict"), ("0.1", "1 of type int, 2 of type NoneType")):
        assert (
            f"the source gives what nobody can settle, asked again in {wait} s: TypeError: receive gave {seen}; allowed are "
            "retrykit.worker.Delivery objects"
        ) in caplog.text


class _Anything(list[Delivery]):
    def remove(self, _delivery: Delivery) -> None: ...


@each_colour
def test_worker_puts_aside_a_mapping_that_is_no_json(runner: Runner | None) -> None:
    """It will not get better, and must not go round for ever."""
    shop = Shop(runner, MemoryBackend(), sent, {"id": "m1", "when": object()}, *bodies(1))  # type: ignore[arg-type, dict-item]
    report = shop.run()
    assert (1, bodies(1), [], 2) == (
        len(shop.source.rejected),
        shop.source.acked,
        shop.source.nacked,
        report.finished,
    )


def test_handler_that_ends_the_worker_and_has_spoilt_its_message_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """The name cannot be told any more, all else is."""
    raw: dict[str, Any] = {"id": "m1"}

    def send(_message: Message) -> None:
        raw["when"] = object()
        raise SystemExit(3)

    shop = Shop(None, MemoryBackend(), send, raw, stops=False)  # type: ignore[arg-type]
    with pytest.raises(SystemExit):
        shop.run()
    assert "the handler of a message without a proper id ended with SystemExit" in caplog.text


@each_colour
def test_source_that_gives_a_delivery_twice_is_acked_twice(runner: Runner | None) -> None:
    """Each is a copy of its own."""
    shop = Shop(runner, MemoryBackend(), sent)
    delivery = Delivery(bodies(1)[0])
    answers = [[delivery, delivery]]

    def give(_limit: int) -> Any:
        if answers:
            return answers.pop()
        if len(shop.source.acked) == 2:
            shop.worker.stop()
        return []

    shop.source.give = give  # type: ignore[method-assign]
    shop.source.out = _Anything()
    report = shop.run()
    assert (bodies(1) * 2, 2) == (shop.source.acked, report.finished)


def ours() -> set[threading.Thread]:
    """Return the threads that a worker has begun."""
    return {thread for thread in threading.enumerate() if thread.name.startswith("retrykit")}


@each_colour
def test_worker_runs_once(runner: Runner | None) -> None:
    """A second run is refused, and changes nothing."""
    shop = Shop(runner, MemoryBackend(), sent, *bodies(2))
    report = shop.run()
    before = ours()
    with pytest.raises(ConfigurationError, match="the worker has run before; make a new Worker"):
        shop.run()
    assert (report, set()) == (shop.worker.report, ours() - before)


@each_colour
def test_worker_refuses_a_shutdown_that_was_entered(runner: Runner | None) -> None:
    """When it is made where that is known by then, else when it runs."""
    with GracefulShutdown(signals=()) as used:
        pass
    with pytest.raises(ConfigurationError, match="was entered before; give each worker one of its own"):
        Shop(runner, MemoryBackend(), sent, shutdown=used)
    fresh = GracefulShutdown(signals=())
    shop = Shop(runner, MemoryBackend(), sent, shutdown=fresh)

    async def use() -> None:
        async with fresh:
            pass

    if runner is not None:
        runner(use)
    else:
        with fresh:
            pass
    with pytest.raises(ConfigurationError, match="the shutdown was entered before"):
        shop.run()


async def _send(_message: Message, _key: str) -> None: ...


def _dispatcher() -> Dispatcher[None]:
    return Dispatcher(lambda _message, _key: None, backend=MemoryBackend())


def _async_dispatcher() -> AsyncDispatcher[None]:
    return AsyncDispatcher(_send, backend=as_async(MemoryBackend()))


def test_asynchronous_worker_refuses_a_synchronous_source() -> None:
    """It would stop the event loop."""
    with pytest.raises(ConfigurationError, match=r"whose receive\(\) is no coroutine function"):
        AsyncWorker(QueueSource(), _async_dispatcher())  # type: ignore[arg-type]


@pytest.mark.parametrize("method", ["receive", "ack", "nack", "reject", "extend"])
def test_worker_refuses_a_source_of_which_a_method_has_the_other_colour(method: str) -> None:
    """By the method's name, whichever it is."""

    async def async_method(*_: object) -> None: ...

    mixed: Any = SyncSource()
    setattr(mixed, method, async_method)
    with pytest.raises(ConfigurationError, match=rf"whose {method}\(\) is a coroutine function; use AsyncWorker"):
        Worker(mixed, _dispatcher())
    mixed = AsyncSource()
    setattr(mixed, method, lambda *_: None)
    with pytest.raises(ConfigurationError, match=rf"whose {method}\(\) is no coroutine function"):
        AsyncWorker(mixed, _async_dispatcher())
    setattr(mixed, method, 5)
    with pytest.raises(ConfigurationError, match=rf"which has no {method}\(\)"):
        AsyncWorker(mixed, _async_dispatcher())


def test_dispatcher_refuses_an_isolation_of_the_other_colour() -> None:
    """When it is given one later, as when it is made."""
    with pytest.raises(ConfigurationError, match=r"use Isolation\(\) for a Dispatcher"):
        _dispatcher().isolate(AsyncIsolation())
    with pytest.raises(ConfigurationError, match=r"use AsyncIsolation\(\) for an AsyncDispatcher"):
        _async_dispatcher().isolate(Isolation())
    isolated = Dispatcher(lambda _message, _key: None, backend=MemoryBackend(), isolation=Isolation())
    for wrong in ("x", None):
        with pytest.raises(ConfigurationError, match="which has no turn"):
            isolated.isolate(wrong)  # type: ignore[arg-type]


def test_shutdown_covers_dispatchers_alone() -> None:
    """Of its block's colour."""
    with pytest.raises(ConfigurationError, match="'x' is no dispatcher"):
        GracefulShutdown().cover("x")  # type: ignore[arg-type]
    with (
        GracefulShutdown(signals=()) as stop,
        pytest.raises(ConfigurationError, match="use `async with GracefulShutdown"),
    ):
        stop.cover(_async_dispatcher())


@pytest.mark.parametrize("signals", [(True,), (15.0,)])
def test_shutdown_refuses_a_signal_that_is_no_number_of_one(signals: Any) -> None:
    """True is no SIGHUP."""
    with pytest.raises(ConfigurationError, match="signals is"):
        GracefulShutdown(signals=signals)
