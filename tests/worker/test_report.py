"""The report of a shutdown: each message that was taken is in exactly one column, whatever happens to it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retrykit import AsyncDispatcher, Dispatcher, Message
from retrykit.backends import MemoryBackend
from retrykit.errors import StoreUnavailableError
from retrykit.open_claims import End
from retrykit.policy import delays
from retrykit.stores import as_async
from retrykit.testing import ManualClock
from retrykit.worker import GracefulShutdown, ShutdownReport
from retrykit.worker.report import Entry, Tally
from tests.colours import Runner
from tests.worker.sources import RUNNERS, Shop, sleep

QUICK = {"backoff": delays(0.001, jitter="none")}
OF_COPIES = {End.FINISHED, End.RETURNED}


def columns(report: ShutdownReport) -> dict[str, int]:
    """Return how many messages stand in each column."""
    return {
        "finished": report.finished,
        "returned": report.returned,
        "timed_out": report.timed_out,
        "handed_back": len(report.handed_back),
        "unknown": len(report.unknown),
        "stranded": len(report.stranded),
        "in_work": report.in_work,
    }


def in_columns(report: ShutdownReport) -> int:
    return sum(columns(report).values())


@given(
    said=st.lists(st.tuples(st.integers(0, 5), st.sampled_from([*End, "passed"])), max_size=30),
    adopted=st.integers(0, 8),
)
def test_tally_counts_each_message_once(said: list[tuple[int, End | str]], adopted: int) -> None:
    """The first that is said of its claim counts, else the first that is said of its copy; those found later are counted as well."""
    tally = Tally()
    entries = [tally.took() for _ in range(6)]
    expected: dict[int, End] = {}
    loose: set[int] = set()
    for number, end in said:
        if isinstance(end, End):
            tally.put(entries[number], end, f"m{number}")
            if number not in expected or (expected[number] in OF_COPIES and end not in OF_COPIES):
                expected[number] = end
                loose.discard(number)
        else:
            tally.passed(entries[number])
            if number not in expected:
                expected[number] = End.FINISHED
                loose.add(number)
    found = [tally.adopt() for _ in range(adopted)]
    report = tally.report("x")
    handed_on = min(adopted, len(loose))
    ends = list(expected.values())
    assert 6 + adopted - handed_on == report.taken == in_columns(report)
    assert {
        "finished": ends.count(End.FINISHED) - handed_on,
        "returned": ends.count(End.RETURNED),
        "timed_out": ends.count(End.TIMED_OUT),
        "handed_back": ends.count(End.HANDED_BACK),
        "unknown": ends.count(End.UNKNOWN),
        "stranded": ends.count(End.STRANDED),
        "in_work": 6 - len(ends) + len(found),
    } == columns(report)
    for name in ("handed_back", "unknown", "stranded"):
        assert {f"m{number}" for number, end in expected.items() if end == name} == set(getattr(report, name))


class Kinds:
    """A send that does to each message what its id says, and a store that does too."""

    def __init__(self, runner: Runner | None) -> None:
        self.goes = threading.Event()
        self.backend = MemoryBackend()
        self._runner = runner
        self._claim = self.backend.claims._claim
        self.backend.claims._claim = self._claim_or_fail  # type: ignore[method-assign]
        self.stop: Any = None

    def _claim_or_fail(self, key: str, *more: Any) -> Any:
        if key.startswith("store"):
            raise StoreUnavailableError("down")
        return self._claim(key, *more)

    def send(self, message: Message) -> object:
        kind = message.id.partition("-")[0]
        if kind == "fails":
            raise ValueError("no")
        if kind == "exits":
            raise SystemExit(3)
        if kind == "stops":
            self.stop(at_once=True)
        if kind in {"hangs", "stops"}:
            if self._runner is not None:
                return sleep(3600)
            assert self.goes.wait(20)
        return None


USUAL = {"ok": "finished", "fails": "finished", "long": "finished", "store": "returned", "hangs": "timed_out"}
"""The column of each kind where nobody stops the worker meanwhile."""

kinds = st.lists(st.sampled_from(list(USUAL)), max_size=7)


def work(runner: Runner | None, given: list[str], concurrency: int) -> tuple[ShutdownReport, Shop]:
    """Let a worker do what it is given, to its end."""
    that = Kinds(runner)
    ids = [f"{kind}-{'x' * 300 if kind == 'long' else ''}{number}" for number, kind in enumerate(given)]
    shop = Shop(
        runner,
        that.backend,
        that.send,
        *[f'{{"id": "{each}"}}'.encode() for each in ids],
        concurrency=concurrency,
        time_limit=0.03,
        spare=20,
        **QUICK,
    )
    that.stop = shop.worker.stop
    try:
        shop.run()
    except SystemExit:
        assert any(kind == "exits" for kind in given)
    finally:
        that.goes.set()
    return shop.worker.report, shop


@pytest.mark.parametrize("runner", RUNNERS.values(), ids=RUNNERS.keys())
@given(given=kinds, concurrency=st.integers(1, 3))
@settings(max_examples=20, deadline=None)
def test_each_message_of_a_worker_is_in_its_column(runner: Runner | None, given: list[str], concurrency: int) -> None:
    """Handled, failed, put aside, refused by a store, or over its time limit: each copy was settled once."""
    report, shop = work(runner, given, concurrency)
    expected = dict.fromkeys(columns(report), 0)
    for kind in given:
        expected[USUAL[kind]] += 1
    assert (len(given), expected, []) == (report.taken, columns(report), shop.source.out)


@pytest.mark.parametrize("runner", RUNNERS.values(), ids=RUNNERS.keys())
@given(before=kinds, end=st.sampled_from(["exits", "stops"]), after=kinds, concurrency=st.integers(1, 3))
@settings(max_examples=20, deadline=None)
def test_report_of_a_worker_that_is_stopped_adds_up(
    runner: Runner | None, before: list[str], end: str, after: list[str], concurrency: int
) -> None:
    """By a second signal or by a handler that ends the process: everything taken is in one column, and its copy was settled once."""
    report, shop = work(runner, [*before, end, *after], concurrency)
    assert report.taken == in_columns(report)
    assert (0, 0, []) == (report.in_work, len(report.stranded), shop.source.out)
    copies = len(shop.source.acked) + len(shop.source.nacked) + len(shop.source.rejected)
    assert report.taken == copies
    for key in (*report.handed_back, *report.unknown):
        record = shop.backend.claims.get(key)
        assert record is not None
        assert 1 == record.counters.interrupted


def test_main_thread_s_own_message_of_a_dispatcher_that_nobody_named_is_counted() -> None:
    """It has given itself back when the thread was brought out."""
    backend = MemoryBackend()

    def send(_message: Message, _key: str) -> None:
        raise KeyboardInterrupt

    def consume() -> None:
        with stop:
            for raw in stop.take([b'{"id": "m1"}', b'{"id": "m2"}']):
                Dispatcher(send, backend=backend).handle(raw)

    stop = GracefulShutdown(signals=())
    with pytest.raises(KeyboardInterrupt):
        consume()
    assert ShutdownReport(taken=1, unknown=("m1",)) == stop.report


def test_message_that_a_loop_hands_on_to_a_thread_is_counted_once() -> None:
    """It is not finished because the loop has come for the next, if it is given back after that."""
    backend, goes, threads = MemoryBackend(), threading.Event(), list[threading.Thread]()
    begun = threading.Semaphore(0)

    def send(message: Message, _key: str) -> None:
        if message.id != "m0":
            begun.release()
            assert goes.wait(20)

    dispatcher = Dispatcher(send, backend=backend)
    with GracefulShutdown(dispatcher, signals=()) as stop:
        for raw in stop.take([f'{{"id": "m{number}"}}'.encode() for number in range(3)]):
            threads.append(threading.Thread(target=dispatcher.handle, args=(raw,)))
            threads[-1].start()
        threads[0].join()
        assert begun.acquire(timeout=20)
        assert begun.acquire(timeout=20)
        stop.request(at_once=True)
    goes.set()
    for thread in threads:
        thread.join()
    assert ((3, 1), {"m1", "m2"}) == ((stop.report.taken, stop.report.finished), set(stop.report.unknown))


def test_message_that_a_loop_hands_on_to_a_task_is_counted_once() -> None:
    """A task knows whose message it has."""
    backend = MemoryBackend()

    async def send(message: Message, _key: str) -> None:
        if message.id == "m1":
            stop.request(at_once=True)
        if message.id != "m0":
            await asyncio.sleep(3600)

    async def source() -> AsyncGenerator[bytes]:
        for number in range(2):
            yield f'{{"id": "m{number}"}}'.encode()
        await asyncio.sleep(3600)

    async def main() -> None:
        async with stop:
            tasks = [asyncio.ensure_future(dispatcher.handle(raw)) async for raw in stop.take(source())]
            await asyncio.wait(tasks)

    dispatcher = AsyncDispatcher(send, backend=as_async(backend))
    stop = GracefulShutdown(dispatcher, signals=())
    asyncio.run(main())
    assert (2, 1, ("m1",)) == (stop.report.taken, stop.report.finished, stop.report.unknown)


def test_message_that_was_kept_for_too_long_has_failed_in_the_report() -> None:
    """Whoever looks after the claims has failed it; its handler comes back to nothing."""
    clock, backend = ManualClock(), MemoryBackend()

    def render(_message: Message) -> None:
        clock.advance(11)
        dispatcher.keep(time_limit=10)

    def send(_message: Message, _key: str, _content: None) -> None:
        raise AssertionError

    dispatcher = Dispatcher(send, backend=backend, render=render, clock=clock)
    with GracefulShutdown(dispatcher, signals=()) as stop:
        for raw in stop.take([b'{"id": "m1"}']):
            dispatcher.handle(raw)
    assert ShutdownReport(taken=1, timed_out=1) == stop.report
    assert ", 1 timed out, in 0.0 s" in str(stop.report)


def test_entry_follows_one_claim_at_a_time() -> None:
    """A handler that handles another message meanwhile does not lose its own."""
    backend = MemoryBackend()

    def send(message: Message, _key: str) -> None:
        if message.id == "m1":
            assert dispatcher.handle(b'{"id": "m2"}')
            raise KeyboardInterrupt

    def consume() -> None:
        with stop:
            for raw in stop.take([b'{"id": "m1"}']):
                dispatcher.handle(raw)

    dispatcher = Dispatcher(send, backend=backend)
    stop = GracefulShutdown(signals=())
    with pytest.raises(KeyboardInterrupt):
        consume()
    assert (1, ("m1",)) == (stop.report.taken, stop.report.unknown)


def test_entry_of_a_message_in_work_has_come_to_no_end() -> None:
    """Until something is said of it."""
    tally = Tally()
    entry: Entry = tally.took()
    assert (None, [], 1) == (entry.end, tally.still_held(), tally.report("").in_work)
