"""A worker that is told to stop: `python -m tests.worker.stop_worker HOW FOLDER LIMIT RESERVE`.

It handles one message on the SQLite file of the folder, says "begun" when it is where HOW wants it to be, and at its end the report.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing, closing, suppress
from pathlib import Path

import trio

from retrykit import AsyncDispatcher, Dispatcher, Message, retry
from retrykit.backends.sqlite import SQLiteBackend
from retrykit.events import Event, ShutdownChanged
from retrykit.stores import as_async
from retrykit.worker import GracefulShutdown

FOLDER, LIMIT, RESERVE = Path(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4])
BODY = b'{"id": "m1"}'


def say(text: str) -> None:
    """Say a line, whole, whoever else says one."""
    os.write(1, f"{text}\n".encode())  # text streams lose lines that threads and signal handlers write at once


def told(event: Event) -> None:
    if isinstance(event, ShutdownChanged):
        say(event.state)


def for_ever() -> None:
    threading.Event().wait()


def ends(_message: Message, _key: str) -> str:
    say("begun")
    time.sleep(0.3)
    return "p-1"


def hangs(_message: Message, _key: str) -> None:
    say("begun")
    for_ever()


def is_deaf(_message: Message, _key: str) -> None:
    say("begun")
    while True:
        with suppress(SystemExit):
            time.sleep(3600)


@retry(on=ConnectionError, backoff=[3600])
def waits(_message: Message, _key: str) -> None:
    say("begun")
    raise ConnectionRefusedError("refused")


def polled() -> Iterator[bytes | None]:
    """A source that has one message, and then waits with a bound."""
    yield BODY
    say("idle")
    while True:
        time.sleep(0.02)
        yield None


def dispatcher(backend: SQLiteBackend, send: Callable[[Message, str], object], **more: object) -> Dispatcher[None]:
    return Dispatcher(send, backend=backend, **more)  # type: ignore[arg-type, call-overload]


def in_main(backend: SQLiteBackend, send: Callable[[Message, str], object], **more: object) -> GracefulShutdown:
    worker = dispatcher(backend, send, **more)
    with GracefulShutdown(worker, limit=LIMIT, reserve=RESERVE, on_event=[told]) as stop:
        for raw in stop.take(polled()):
            worker.handle(raw)
    return stop


def unnamed(backend: SQLiteBackend) -> GracefulShutdown:
    worker = dispatcher(backend, hangs)
    with GracefulShutdown(limit=LIMIT, reserve=RESERVE, on_event=[told]) as stop:
        for raw in stop.take(polled()):
            worker.handle(raw)
    return stop


def in_thread(backend: SQLiteBackend) -> GracefulShutdown:
    worker = dispatcher(backend, hangs)
    with GracefulShutdown(worker, limit=LIMIT, reserve=RESERVE, on_event=[told]) as stop:
        threading.Thread(target=worker.handle, args=(BODY,), daemon=True).start()
        stop.wait()
    return stop


def in_child(backend: SQLiteBackend) -> GracefulShutdown:
    """A forked child is not kept from ending by its parent's handlers."""
    with GracefulShutdown(limit=LIMIT, reserve=RESERVE, on_event=[told]) as stop:
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(write, b"x")
            for_ever()
        os.read(read, 1)
        os.kill(child, signal.SIGTERM)
        say(f"child {os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])} {stop.requested}")
        stop.request()
    return stop


def under_a_framework(backend: SQLiteBackend) -> GracefulShutdown:
    """A framework has the signal, as gunicorn's workers do, and goes on with its own shutdown."""
    signal.signal(signal.SIGTERM, lambda _number, _frame: say("framework told"))
    stop = in_main(backend, ends)
    say(f"restored {signal.getsignal(signal.SIGTERM).__name__}")  # type: ignore[union-attr]
    return stop


def asked_by_a_framework(backend: SQLiteBackend) -> GracefulShutdown:
    """Celery has the signals, and tells of its warm shutdown while the task still runs in another thread."""
    worker = dispatcher(backend, waits)
    with GracefulShutdown(worker, limit=LIMIT, reserve=RESERVE, on_event=[told], signals=()) as stop:
        signal.signal(signal.SIGTERM, lambda _number, _frame: stop.request("worker_shutting_down"))
        task = threading.Thread(target=worker.handle, args=(BODY,))
        task.start()
        task.join()
    return stop


async def _consume(backend: SQLiteBackend, *, sleep: Callable[[float], object], is_hanging: bool) -> GracefulShutdown:
    async def send(_message: Message, _key: str) -> str:
        say("begun")
        await sleep(3600 if is_hanging else 0.3)  # type: ignore[misc]
        return "p-1"

    async def source() -> AsyncGenerator[bytes]:
        yield BODY
        say("idle")
        await sleep(3600)  # type: ignore[misc]

    worker = AsyncDispatcher(send, backend=as_async(backend))
    async with GracefulShutdown(worker, limit=LIMIT, reserve=RESERVE, on_event=[told]) as stop:
        async with aclosing(source()) as messages:
            async for raw in stop.take(messages):
                await worker.handle(raw)
    return stop


def in_asyncio(backend: SQLiteBackend, *, is_hanging: bool) -> GracefulShutdown:
    return asyncio.run(_consume(backend, sleep=asyncio.sleep, is_hanging=is_hanging))


def in_trio(backend: SQLiteBackend, *, is_hanging: bool) -> GracefulShutdown:
    async def main() -> GracefulShutdown:
        return await _consume(backend, sleep=trio.sleep, is_hanging=is_hanging)

    return trio.run(main)


def rendering(message: Message) -> object:
    hangs(message, "")
    return None


WAYS: dict[str, Callable[[SQLiteBackend], GracefulShutdown]] = {
    "ends": lambda backend: in_main(backend, ends),
    "hangs": lambda backend: in_main(backend, hangs),
    "deaf": lambda backend: in_main(backend, is_deaf),
    "waits": lambda backend: in_main(backend, waits),
    "renders": lambda backend: in_main(backend, lambda _m, _k, _c: None, render=rendering),  # type: ignore[arg-type]
    "unnamed": unnamed,
    "thread": in_thread,
    "child": in_child,
    "framework": under_a_framework,
    "asked": asked_by_a_framework,
    "asyncio": lambda backend: in_asyncio(backend, is_hanging=False),
    "asyncio hangs": lambda backend: in_asyncio(backend, is_hanging=True),
    "trio": lambda backend: in_trio(backend, is_hanging=False),
    "trio hangs": lambda backend: in_trio(backend, is_hanging=True),
}


if __name__ == "__main__":
    with closing(SQLiteBackend(FOLDER / "stop.db")) as backend:
        say(f"report {WAYS[sys.argv[1]](backend).report}")
