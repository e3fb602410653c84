"""What delayed work costs on one PostgreSQL server, beside procrastinate: `python benchmarks/delayed_jobs_postgres.py --dsn "host=..."`.

Each lets `--jobs` jobs of about 150 bytes wait, which are due at once, and then takes all of them as its worker does and lets go of each
as done. retrykit takes a hundred at a time and hands them on to a list; procrastinate's workers take one at a time. Each has a
schema of its own, which is dropped afterwards. The rounds go in turns; medians are of the same run.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import json
import platform
import statistics
import time
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import psycopg

from retrykit import Message, RetryScheduler
from retrykit.backends.postgres import PostgresBackend

SCHEMA = "retrykit_benchmark"
THEIRS = "procrastinate_benchmark"
PAYLOAD = {"to": "somebody@example.org", "template": "welcome", "data": {"name": "Ada", "items": list(range(20))}}


class Contender(NamedTuple):
    """How a library does it: `wait(number)` lets a job wait, `take()` takes all that are due and returns how many there were."""

    wait: Callable[[int], object]
    take: Callable[[], int]
    close: Callable[[], object]


def ours(dsn: str) -> Contender:
    """Return retrykit: a retry scheduler that hands on to a list."""
    backend, queue = PostgresBackend(dsn, schema=SCHEMA, migrate=True), list[object]()
    scheduler = RetryScheduler(backend, queue.append)

    def take() -> int:
        queue.clear()
        while scheduler.run_once():
            pass
        return len(queue)

    return Contender(
        lambda number: backend.retries.schedule(
            Message(f"job-{time.time_ns()}-{number}", PAYLOAD), datetime.now(UTC) - timedelta(seconds=1)
        ),
        take,
        backend.close,
    )


def procrastinate(dsn: str) -> Contender:
    """Return procrastinate: jobs deferred by its synchronous connector, taken and finished by its job manager as its workers do."""
    import procrastinate
    from procrastinate.jobs import Status

    options = f"{dsn} options='-c search_path={THEIRS}'"
    app = procrastinate.App(connector=procrastinate.SyncPsycopgConnector(conninfo=options))
    app.open()
    app.schema_manager.apply_schema()
    task = app.task(name="send")(lambda **_: None)
    loop = asyncio.new_event_loop()
    worker = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=options))
    loop.run_until_complete(worker.open_async())

    async def take() -> int:
        manager = worker.job_manager
        number, taken = await manager.register_worker(), 0
        while (job := await manager.fetch_job(None, number)) is not None:
            await manager.finish_job(job, Status.SUCCEEDED, delete_job=True)
            taken += 1
        return taken

    def close() -> None:
        loop.run_until_complete(worker.close_async())
        loop.close()
        app.close()

    return Contender(
        lambda _: task.configure(schedule_at=datetime.now(UTC) - timedelta(seconds=1)).defer(**PAYLOAD),
        lambda: loop.run_until_complete(take()),
        close,
    )


CONTENDERS: dict[str, Callable[[str], Contender]] = {"retrykit": ours, "procrastinate": procrastinate}


def measure(dsn: str, jobs: int, rounds: int) -> dict[str, dict[str, Any]]:
    """Measure all that are installed, in turns; microseconds a job."""
    present = {name: CONTENDERS[name](dsn) for name in CONTENDERS if importlib.util.find_spec(name)}
    found: dict[str, dict[str, list[float]]] = {name: {"wait": [], "take": []} for name in present}
    for _ in range(rounds):
        for name, contender in present.items():
            began = time.perf_counter()
            for number in range(jobs):
                contender.wait(number)
            between = time.perf_counter()
            assert contender.take() == jobs
            found[name]["wait"].append((between - began) / jobs * 1e6)
            found[name]["take"].append((time.perf_counter() - between) / jobs * 1e6)
    for contender in present.values():
        contender.close()
    return {
        name: {step: round(statistics.median(each), 1) for step, each in times.items()} for name, times in found.items()
    }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dsn", required=True, help="the address of a database, as libpq takes it")
    parser.add_argument("--jobs", type=int, default=2_000, help="that wait at once (default 2000)")
    parser.add_argument("--rounds", type=int, default=5, help="how often each is timed (default 5)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    given = parser.parse_args()
    with closing(psycopg.connect(given.dsn, autocommit=True)) as db:
        for schema in (SCHEMA, THEIRS):
            db.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
        db.execute(f"CREATE SCHEMA {THEIRS}")
        try:
            found = measure(given.dsn, given.jobs, given.rounds)
        finally:
            for schema in (SCHEMA, THEIRS):
                db.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
    if given.json:
        print(json.dumps(found, indent=1))
        return
    print(f"Python {platform.python_version()}, {given.jobs:,} jobs, {given.rounds} rounds; microseconds a job")
    for name, times in found.items():
        print(f"{name:16} wait {times['wait']:8,.1f}   take {times['take']:8,.1f}")
    absent = [name for name in CONTENDERS if name not in found]
    print(f"absent: {', '.join(absent) or 'none'}")


if __name__ == "__main__":
    main()
