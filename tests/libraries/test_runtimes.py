"""What trio and anyio raise, and the standard library's own ways to run things."""

from __future__ import annotations

from tests.capabilities import require

require("trio", "anyio", "trustme", "loopback")

import asyncio
import multiprocessing
import queue
import signal
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor

import anyio
import anyio.streams.buffered
import pytest
import trio

from tests.libraries import servers
from tests.libraries.servers import classified, closed_port, raised, serving


def with_trio(ask, *arguments):
    """Return what a coroutine function raises under trio."""
    return raised(lambda: trio.run(ask, *arguments))


BACKENDS = pytest.mark.parametrize("backend", ["asyncio", "trio"])


def with_anyio(backend, ask, *arguments):
    return raised(lambda: anyio.run(ask, *arguments, backend=backend))


def test_trio_refused_connection_has_sent_nothing():
    """Behind an OSError without a number stands a group of all attempts."""
    assert ("connection_error", "not_sent") == classified(with_trio(trio.open_tcp_stream, "127.0.0.1", closed_port()))


@BACKENDS
def test_anyio_refused_connection_has_sent_nothing(backend):
    """Its cause says so."""
    error = with_anyio(backend, anyio.connect_tcp, "127.0.0.1", closed_port())
    assert ("connection_error", "not_sent") == classified(error)


@BACKENDS
@pytest.mark.usefixtures("no_names")
def test_anyio_unknown_name_is_a_dns_failure(backend):
    """As the system says it."""
    assert ("dns_failure", "not_sent") == classified(with_anyio(backend, anyio.connect_tcp, "nowhere.invalid", 1))


def test_trio_broken_stream_leaves_the_outcome_open():
    """A BrokenResourceError; a ClosedResourceError after closing it ourselves."""

    async def main(port):
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
            await stream.send_all(b"x")
            await stream.receive_some()

    with serving(servers.reset) as port:
        assert ("connection_error", "unknown") == classified(with_trio(main, port))
    assert ("connection_error", "unknown") == classified(trio.ClosedResourceError("x"))


@BACKENDS
def test_anyio_broken_stream_leaves_the_outcome_open(backend):
    """A BrokenResourceError, an EndOfStream, an IncompleteRead."""

    async def main(port, read):
        async with await anyio.connect_tcp("127.0.0.1", port) as stream:
            await stream.send(b"x")
            await (
                anyio.streams.buffered.BufferedByteReceiveStream(stream).receive_exactly(9)
                if read
                else stream.receive()
            )

    with serving(servers.reset) as port:
        assert ("connection_error", "unknown") == classified(with_anyio(backend, main, port, False))
    with serving(servers.hang_up_later) as port:
        assert ("connection_error", "unknown") == classified(with_anyio(backend, main, port, False))
        assert ("connection_error", "unknown") == classified(with_anyio(backend, main, port, True))


def test_deadlines_are_timeouts():
    """That of trio is its own, those of anyio and asyncio are the builtin one."""

    async def slow_trio():
        with trio.fail_after(0.01):
            await trio.sleep_forever()

    async def slow_anyio():
        with anyio.fail_after(0.01):
            await anyio.sleep_forever()

    async def slow_asyncio():
        async with asyncio.timeout(0.01):
            await asyncio.Event().wait()

    for error in (
        with_trio(slow_trio),
        with_anyio("asyncio", slow_anyio),
        with_anyio("trio", slow_anyio),
        raised(lambda: asyncio.run(slow_asyncio())),
    ):
        assert ("network_timeout", "unknown") == classified(error)


def test_asyncio_stream_that_ends_leaves_the_outcome_open():
    """An IncompleteReadError; a line without an end is a LimitOverrunError."""

    async def main(port, size):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=4)
        try:
            writer.write(b"x")
            await (reader.readexactly(size) if size else reader.readuntil())
        finally:
            writer.close()
            await writer.wait_closed()

    with serving(servers.say(b"long answer")) as port:
        assert ("connection_error", "unknown") == classified(raised(lambda: asyncio.run(main(port, 99))))
        assert ("connection_error", "unknown") == classified(raised(lambda: asyncio.run(main(port, 0))))


def test_full_queues_are_contention():
    """That of threads and that of tasks."""
    threads: queue.Queue[int] = queue.Queue(1)
    tasks: asyncio.Queue[int] = asyncio.Queue(1)
    for each in (threads, tasks):
        each.put_nowait(1)
        assert ("resource_contention", "unknown") == classified(raised(lambda each=each: each.put_nowait(2)))


def test_program_that_does_not_end_is_a_timeout():
    """A TimeoutExpired is no TimeoutError."""
    program = [sys.executable, "-c", "import time; time.sleep(9)"]
    error = raised(lambda: subprocess.run(program, timeout=0.05, check=True))
    assert ("network_timeout", "unknown") == classified(error)


def test_worker_process_that_dies_is_contention():
    """A BrokenProcessPool: the kernel may have ended it for its memory."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        error = raised(pool.submit(signal.raise_signal, signal.SIGKILL).result)
    assert ("resource_contention", "unknown") == classified(error)
    assert ("network_timeout", "unknown") == classified(multiprocessing.TimeoutError())
