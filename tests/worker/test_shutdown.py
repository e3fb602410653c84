"""GracefulShutdown within a process: what is taken, who hears of it, what is told, and what is left as it was."""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
from collections.abc import AsyncGenerator, Callable, Iterator
from typing import Any

import pytest

from retrykit import AsyncDispatcher, Dispatcher, Message
from retrykit.backends import MemoryBackend
from retrykit.draining import current_drain
from retrykit.errors import ConfigurationError, HandBackError, StoreUnavailableError
from retrykit.events import Event, ShutdownChanged
from retrykit.stores import ClaimState, as_async
from retrykit.testing import ManualClock
from retrykit.worker import GracefulShutdown, ShutdownReport
from retrykit.worker.signals import Bell
from tests.colours import Runner, both_loops

BODY = b'{"id": "m1"}'


class Blocker:
    """A send that blocks until it is let go."""

    def __init__(self) -> None:
        self.stands, self.goes = threading.Event(), threading.Event()

    def __call__(self, _message: Message, _key: str) -> str:
        self.stands.set()
        assert self.goes.wait(20)
        return "p-1"


def handled_in_thread(dispatcher: Dispatcher[None], blocker: Blocker) -> threading.Thread:
    """Handle the message in a thread, and come back when it is in its send."""
    thread = threading.Thread(target=dispatcher.handle, args=(BODY,))
    thread.start()
    assert blocker.stands.wait(20)
    return thread


def states(events: list[Event]) -> list[str]:
    return [event.state for event in events if isinstance(event, ShutdownChanged)]


def test_take_ends_with_the_source_where_nobody_stops(caplog: pytest.LogCaptureFixture) -> None:
    """Nothing but the counting is different from the plain loop; None is passed over."""
    caplog.set_level(logging.INFO)
    with GracefulShutdown() as stop:
        assert ["a", "b"] == list(stop.take(iter(["a", None, "b"])))
    assert ShutdownReport(taken=2, finished=2) == stop.report
    assert "the source ended, 2 taken, 2 finished, 0 returned, 0 given back, 0 to be verified, in 0.0 s" == str(
        stop.report
    )
    assert [] == caplog.records


def test_take_gives_no_more_once_it_is_requested() -> None:
    """What was taken is finished; the next is not asked for."""
    asked: list[int] = []

    def source() -> Iterator[int]:
        for number in range(9):
            asked.append(number)
            yield number

    with GracefulShutdown(signals=()) as stop:
        for number in stop.take(source()):
            if number == 1:
                stop.request("deploy")
    assert ([0, 1], "deploy", 2, 2) == (asked, stop.report.reason, stop.report.taken, stop.report.finished)
    assert [] == list(stop.take(source()))


def test_take_left_by_an_error_does_not_count_it_as_finished() -> None:
    """The error leaves as it came."""
    stop = GracefulShutdown()

    def work() -> None:
        with stop:
            for _ in stop.take([1]):
                raise LookupError

    with pytest.raises(LookupError):
        work()
    assert (1, 0) == (stop.report.taken, stop.report.finished)


@both_loops
def test_take_of_an_asynchronous_source_is_cancelled_while_it_waits(runner: Runner) -> None:
    """An idle consumer leaves at once, in either loop."""

    async def source() -> AsyncGenerator[bytes | None]:
        yield BODY
        yield None
        stop.request()
        await (asyncio.sleep if runner is not _trio().run else _trio().sleep)(3600)

    async def main() -> None:
        async with stop:
            async for raw in stop.take(source()):
                taken.append(raw)
            assert await stop.wait_async(3600)

    stop, taken = GracefulShutdown(signals=()), list[bytes]()
    runner(main)
    assert ([BODY], 1) == (taken, stop.report.finished)


def _trio() -> Any:
    import trio

    return trio


@both_loops
def test_wait_async_tells_whether_the_process_is_to_stop(runner: Runner) -> None:
    """It waits no longer than it may."""

    async def main() -> tuple[bool, bool]:
        async with GracefulShutdown(signals=()) as stop:
            before = await stop.wait_async(0.001)
            stop.request()
            return before, await stop.wait_async(3600)

    assert (False, True) == runner(main)


def test_request_tells_each_step(caplog: pytest.LogCaptureFixture) -> None:
    """Listeners and the log have the reason and the counts."""
    caplog.set_level(logging.INFO)
    events: list[Event] = []
    with GracefulShutdown(signals=(), on_event=[events.append]) as stop:
        for _ in stop.take([1]):
            assert not stop.wait(0.001)
            stop.request("deploy")
            assert stop.wait()
            assert stop.remaining() <= 25
    assert ["quiet", "done"] == states(events)
    assert "told to stop by deploy, takes nothing new and finishes within 25 s" == caplog.messages[0]
    assert caplog.messages[1].startswith("stopped: deploy, 1 taken, 1 finished")


def test_block_waits_at_its_end_for_what_others_handle() -> None:
    """Other threads finish within the drain; nothing is given back."""
    backend, blocker = MemoryBackend(), Blocker()
    dispatcher = Dispatcher(blocker, backend=backend)
    with GracefulShutdown(dispatcher, signals=()) as stop:
        thread = handled_in_thread(dispatcher, blocker)
        stop.request()
        threading.Timer(0.05, blocker.goes.set).start()
    thread.join()
    record = backend.claims.get("m1")
    assert record is not None
    assert (ClaimState.DONE, (), ()) == (record.state, stop.report.handed_back, stop.report.unknown)


def test_request_at_the_end_of_the_drain_gives_back_what_others_handle() -> None:
    """The drain is measured by the clock, and what is over its time is given back at once."""
    backend, blocker, clock, events = MemoryBackend(), Blocker(), ManualClock(), list[Event]()
    dispatcher = Dispatcher(blocker, backend=backend)
    with GracefulShutdown(dispatcher, signals=(), clock=clock, on_event=[events.append]) as stop:
        thread = handled_in_thread(dispatcher, blocker)
        stop.request()
        clock.advance(25)
    blocker.goes.set()
    thread.join()
    assert (("m1",), ["quiet", "handing_back", "done"]) == (stop.report.unknown, states(events))
    assert 1 == events[-1].handed_back  # type: ignore[attr-defined]


def test_store_that_is_broken_does_not_keep_the_process(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever giving back raises is logged."""

    def broken() -> None:
        raise StoreUnavailableError("down")

    blocker = Blocker()
    dispatcher = Dispatcher(blocker, backend=MemoryBackend())
    monkeypatch.setattr(dispatcher, "hand_back", broken)
    stop = GracefulShutdown(dispatcher, signals=(), limit=0.2)

    def work() -> None:
        with stop:
            thread = handled_in_thread(dispatcher, blocker)
            stop.request(at_once=True)
        thread.join()

    with pytest.raises(HandBackError, match="'m1'") as raised:
        work()
    blocker.goes.set()
    assert (("m1",), ("m1",), 1) == (raised.value.message_ids, stop.report.stranded, stop.report.taken)
    assert "what still runs could not be given back, trying again" in caplog.text
    assert "1 of the messages in work could not be given back before the process had to stop: 'm1'" in caplog.text


@both_loops
def test_asynchronous_block_is_cancelled_and_given_back_at_the_end_of_the_drain(runner: Runner) -> None:
    """The block's code goes on after it; the message is free of its handler."""
    backend = MemoryBackend()
    sleep = _trio().sleep if runner is _trio().run else asyncio.sleep

    async def send(_message: Message, _key: str) -> None:
        stop.request(at_once=True)
        await sleep(3600)

    async def main() -> str:
        async with stop:
            await dispatcher.handle(BODY)
        return "went on"

    dispatcher = AsyncDispatcher(send, backend=as_async(backend))
    stop = GracefulShutdown(dispatcher, signals=())
    assert "went on" == runner(main)
    record = backend.claims.get("m1")
    assert record is not None
    assert (ClaimState.UNKNOWN, ("m1",)) == (record.state, stop.report.unknown)


@both_loops
def test_asynchronous_store_that_is_broken_does_not_keep_the_process(
    runner: Runner, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever giving back raises is logged."""
    sleep = _trio().sleep if runner is _trio().run else asyncio.sleep

    async def broken() -> None:
        raise StoreUnavailableError("down")

    async def send(_message: Message, _key: str) -> None:
        raise AssertionError

    async def main() -> None:
        async with stop:
            stop.request(at_once=True)
            await sleep(3600)

    dispatcher = AsyncDispatcher(send, backend=as_async(MemoryBackend()))
    monkeypatch.setattr(dispatcher, "hand_back", broken)
    stop = GracefulShutdown(dispatcher, signals=(), limit=0.2)
    runner(main)
    assert "what still runs could not be given back" in caplog.text


@both_loops
def test_cancellation_from_outside_leaves_the_block(runner: Runner) -> None:
    """Only its own cancellation ends with it, and everything is let go of."""

    async def main() -> None:
        async with GracefulShutdown():
            if runner is _trio().run:
                await _trio().sleep(3600)
            await asyncio.sleep(3600)

    async def outer() -> None:
        if runner is _trio().run:
            with _trio().move_on_after(0.01):
                await main()
            return
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(main(), 0.01)

    before = signal.getsignal(signal.SIGTERM)
    runner(outer)
    assert (before, None) == (signal.getsignal(signal.SIGTERM), current_drain())


def test_other_threads_share_the_drain() -> None:
    """A shutdown in a thread hears of the signal of the main thread, and may ask for it; its own limit does not count."""
    taken: list[int] = []
    begun = threading.Event()

    def consume() -> None:
        with GracefulShutdown(limit=1) as inner:
            begun.set()
            assert inner.wait(20)
            taken.extend(inner.take([1]))

    with GracefulShutdown() as stop:
        thread = threading.Thread(target=consume)
        thread.start()
        assert begun.wait(20)
        signal.raise_signal(signal.SIGTERM)
        assert stop.requested
        thread.join()
    assert ([], "SIGTERM") == (taken, stop.report.reason)


def test_shutdown_of_a_thread_alone_has_no_signals_and_is_requested() -> None:
    """The process has no other, so it installs a drain of its own."""
    before = signal.getsignal(signal.SIGTERM)
    seen: list[object] = []

    def consume() -> None:
        with GracefulShutdown() as stop:
            seen.append(signal.getsignal(signal.SIGTERM))
            for _ in stop.take([1, 2]):
                stop.request()
            seen.append(stop.report.taken)

    thread = threading.Thread(target=consume)
    thread.start()
    thread.join()
    assert [before, 1] == seen


def test_shutdown_entered_while_another_stops_takes_nothing() -> None:
    """The process is to stop, whoever was told."""
    with GracefulShutdown() as stop:
        stop.request()
        with GracefulShutdown() as inner:
            assert (True, []) == (inner.requested, list(inner.take([1])))


def test_signals_are_restored_unless_somebody_took_them_meanwhile() -> None:
    """Ours are in place for the length of the block only."""
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    with GracefulShutdown():
        assert before[0] != signal.getsignal(signal.SIGTERM)
        assert before[1] != signal.getsignal(signal.SIGINT)
    assert before == (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT))

    def theirs(_number: int, _frame: object) -> None:
        raise AssertionError

    try:
        with GracefulShutdown():
            signal.signal(signal.SIGTERM, theirs)
        assert theirs is signal.getsignal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before[0])


def test_python_s_own_handler_of_ctrl_c_is_not_called() -> None:
    """It would raise KeyboardInterrupt out of what is to be finished."""
    assert signal.default_int_handler is signal.getsignal(signal.SIGINT)
    with GracefulShutdown() as stop:
        signal.raise_signal(signal.SIGINT)
        assert stop.requested
    assert "SIGINT" == stop.report.reason


def test_wakeup_of_an_event_loop_is_left_alone() -> None:
    """Whoever asked first to be woken by signals goes on being woken."""
    import socket

    theirs, ours = socket.socketpair()
    with theirs, ours:
        theirs.setblocking(False)
        signal.set_wakeup_fd(theirs.fileno())
        try:
            with GracefulShutdown() as stop:
                signal.raise_signal(signal.SIGTERM)
                assert stop.requested
            assert bytes([signal.SIGTERM]) == ours.recv(1)
        finally:
            assert theirs.fileno() == signal.set_wakeup_fd(-1)


def test_shutdown_with_an_asynchronous_dispatcher_wants_async_with() -> None:
    """Only a loop could give its messages back."""

    async def send(_message: Message, _key: str) -> None: ...

    dispatcher = AsyncDispatcher(send, backend=as_async(MemoryBackend()))
    with pytest.raises(ConfigurationError, match="use `async with"), GracefulShutdown(dispatcher):
        pass
    assert current_drain() is None


@both_loops
def test_asynchronous_block_takes_dispatchers_of_either_colour(runner: Runner) -> None:
    """A thread gives back what is synchronous."""

    async def main() -> None:
        async with GracefulShutdown(dispatcher, signals=()) as stop:
            stop.request(at_once=True)

    dispatcher = Dispatcher(lambda _message, _key: None, backend=MemoryBackend())
    runner(main)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: GracefulShutdown("dispatcher"), "is no dispatcher"),  # type: ignore[arg-type]
        (lambda: GracefulShutdown(limit=0), "limit"),
        (lambda: GracefulShutdown(limit=5, reserve=5), "reserve is 5 s and limit 5 s"),
        (lambda: GracefulShutdown(reserve=0), "reserve"),
        (lambda: GracefulShutdown(signals=[signal.SIGKILL]), "signals is"),
        (lambda: GracefulShutdown(signals=["TERM"]), "signals is"),  # type: ignore[list-item]
        (lambda: GracefulShutdown(on_event=print), "on_event"),  # type: ignore[arg-type]
        (lambda: GracefulShutdown().request(), "has not been entered"),
    ],
)
def test_shutdown_refuses_what_cannot_be(make: Callable[[], object], match: str) -> None:
    """By name, before any signal is handled."""
    with pytest.raises(ConfigurationError, match=match):
        make()


def test_shutdown_is_entered_once() -> None:
    """Its report is of one block."""
    with GracefulShutdown() as stop:
        pass
    assert (False, float("inf")) == (GracefulShutdown().requested, GracefulShutdown().remaining())
    with pytest.raises(ConfigurationError, match="was entered before"), stop:
        pass


def test_loop_that_was_left_early_counts_no_later_message() -> None:
    """What is handled after the block is none of its business."""
    backend = MemoryBackend()

    def leave(_message: Message, _key: str) -> None:
        raise KeyboardInterrupt

    with GracefulShutdown(signals=()) as stop:
        for _ in stop.take([1, 2]):
            break
    with pytest.raises(KeyboardInterrupt):
        Dispatcher(leave, backend=backend).handle(BODY)
    assert (1, (), 1) == (stop.report.taken, stop.report.unknown, stop.report.in_work)


def test_bell_that_was_closed_is_not_heard() -> None:
    """Whoever waited for the thread that hears it was broken off: the thread comes to its end without an error."""
    bell = Bell()
    bell.open()
    bell.close()
    bell.ring()
    assert (b"", b"") == (bell.hear(0.001), bell.hear(None))


@both_loops
def test_block_that_is_cancelled_while_it_drains_waits_for_its_end(runner: Runner) -> None:
    """What is in work may finish, and nothing is left to a thread."""
    backend, blocker = MemoryBackend(), Blocker()
    dispatcher = Dispatcher(blocker, backend=backend)

    async def main() -> None:
        async with stop:
            handled.append(handled_in_thread(dispatcher, blocker))
            stop.request()
            threading.Timer(0.05, blocker.goes.set).start()
            if runner is _trio().run:
                await _trio().sleep(3600)
            await asyncio.sleep(3600)

    async def outer() -> None:
        if runner is _trio().run:
            with _trio().move_on_after(0.01):
                await main()
            return
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(main(), 0.01)

    handled: list[threading.Thread] = []
    stop = GracefulShutdown(dispatcher, signals=())
    runner(outer)
    handled[0].join()
    record = backend.claims.get("m1")
    assert record is not None
    assert (ClaimState.DONE, (), None) == (record.state, stop.report.unknown, current_drain())


def test_shutdown_within_another_says_that_its_shorter_limit_does_not_count(caplog: pytest.LogCaptureFixture) -> None:
    """There is one drain in a process: the one that came first."""
    with GracefulShutdown(limit=60, signals=()), GracefulShutdown(limit=6, signals=()) as inner:
        inner.request()
        assert 40 < inner.remaining() <= 50
    said = (
        "a shutdown with 50 s for what runs is at work in this process, and the 5 s of the one within it do not count"
    )
    assert [said] == [each for each in caplog.messages if "within it" in each]
