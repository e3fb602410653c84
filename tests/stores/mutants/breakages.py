"""Ways to break a store of any contract."""

from __future__ import annotations

import time
from collections import deque
from functools import partial

from retrykit.backends.sqlite import SQLiteBackend
from retrykit.clock import SystemClock
from retrykit.stores.as_async import _adapt


def gap():
    """Let the other threads run, as they would while a store waits for its server."""
    time.sleep(0.0002)


def leaving_answers_behind(contract, store):
    """Return an asynchronous store on one connection, where a cancelled operation leaves its answer to the next one."""
    answers = deque()

    async def call(fn, /, *args):
        answers.append(fn(*args))
        await SystemClock().sleep_async(0)
        return answers.popleft()

    return _adapt(contract, store, call)


def writing_later(place, contract, writes, reads):
    """Return a SQLite backend that answers writes before it makes them: when many have come, or somebody reads.

    `writes` maps the names of primitives to what they answer.
    """
    backend = SQLiteBackend(place.folder / "store.db", clock=place.clock, synchronous="normal")
    store, waiting = getattr(backend, contract), deque()

    def flush():
        while waiting:
            waiting.popleft()()

    def write(original, answer, *args):
        waiting.append(partial(original, *args))
        if len(waiting) >= 50:
            flush()
        return answer(*args)

    def read(original, *args):
        flush()
        return original(*args)

    for name, answer in writes.items():
        setattr(store, name, partial(write, getattr(store, name), answer))
    for name in reads:
        setattr(store, name, partial(read, getattr(store, name)))
    return backend
