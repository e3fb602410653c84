"""What each page of the dashboard costs over many dead letters on SQLite: `python benchmarks/dashboard.py --letters 1000000`.

The file is filled as by `benchmarks/dead_letters.py`. Each page is then asked for in process, with values of letters drawn at random, from
the first byte of the request to the last of the answer. With ``--file`` the file is kept, and used again when it is there: a
million letters take some minutes to fill and 4 GB. With ``--url`` the pages are those over a store that is filled already, on any
backend: there the server's part is in what passed, not in what is of the processor. Exits with 1 if the median of what a page takes of
the processor is above ``--limit``.
"""

from __future__ import annotations

import argparse
import asyncio
import platform
import random
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from urllib.parse import urlencode

import httpx
from dead_letters import fill

from retrykit.backends import open_backend
from retrykit.backends.sqlite import SQLiteBackend
from retrykit.clock import SystemClock
from retrykit.dashboard import Dashboard
from retrykit.dead_letter import DeadLetter
from retrykit.stores import Backend, DeadLetterQuery

Address = Callable[[DeadLetter], str]


class _Patient(SystemClock):
    """A clock by which searches are so far apart that their rate is not limited."""

    def monotonic(self) -> float:
        """Return ten minutes for each second."""
        return super().monotonic() * 600


def pages() -> dict[str, Address]:
    """Return the address of each page, for a letter."""

    def to(path: str, **params: object) -> str:
        return f"{path}?{urlencode(params)}"

    return {
        "overview": lambda _: "/",
        "search": lambda _: "/letters",
        "search, what waits": lambda _: to("/letters", q="state:quarantined"),
        "search, since 2h": lambda _: to("/letters", q="since:2h"),
        "search, a campaign": lambda each: to("/letters", q=DeadLetterQuery(campaign_id=each.campaign_id)),
        "search, a cause": lambda each: to("/letters", q=DeadLetterQuery(fingerprint=each.fingerprint)),
        "search, a recipient": lambda each: to("/letters", q=DeadLetterQuery(recipient=each.recipient)),
        "letter": lambda each: to("/letter", id=each.id),
        "groups": lambda _: "/groups",
        "groups, since 2h": lambda _: to("/groups", q="since:2h"),
        "group": lambda each: to("/group", fingerprint=each.fingerprint),
        "plan of a cause": lambda each: to("/plan", q=DeadLetterQuery(fingerprint=each.fingerprint)),
        "redrives": lambda _: "/redrives",
        "breakers and pauses": lambda _: "/circuits",
        "deliveries": lambda _: to("/deliveries", status="unknown"),
        "delivery": lambda each: to("/delivery", id=each.message_id),
        "audit": lambda _: "/audit",
        "runbook": lambda _: "/runbook",
    }


async def measure(backend: Backend, rounds: int, limit: float) -> bool:
    """Ask for each page some times and print what it took; tell whether all are within the limit."""
    drawn = random.Random(5)
    letters = list(backend.dead_letters.search(limit=200).letters)
    transport = httpx.ASGITransport(Dashboard(backend, clock=_Patient()), client=("127.0.0.1", 1))
    is_fast = True
    print("| page | passed | of the processor | slowest | bytes |\n|---|---|---|---|---|")
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8025") as client:
        for name, address in pages().items():
            taken, worked, size = list[float](), list[float](), 0
            for _ in range(rounds + 1):
                path = address(drawn.choice(letters))
                began, working = time.perf_counter(), time.process_time()
                answer = await client.get(path)
                taken.append(1000 * (time.perf_counter() - began))
                worked.append(1000 * (time.process_time() - working))
                size = len(answer.content)
                assert answer.status_code in (200, 404), (path, answer.status_code, answer.text[:2000])
            median = statistics.median(worked[1:])  # other programs of a busy machine change it less than what passes
            is_fast = is_fast and median < limit
            passed = statistics.median(taken[1:])
            print(f"| {name} | {passed:.1f} ms | {median:.1f} ms | {max(taken):.1f} ms | {size:,} |", flush=True)
    return is_fast


def main() -> int:
    """Fill a file, unless it is there, and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--letters", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument(
        "--limit", type=float, default=100.0, help="milliseconds of the processor that the median of a page may take"
    )
    parser.add_argument("--file", type=Path)
    parser.add_argument("--url", help="of a store that is filled, as `retrykit dashboard` takes it")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = args.file or Path(folder) / "letters.db"
        if not args.url and not path.exists():
            fill(path, args.letters)
        with closing(open_backend(args.url) if args.url else SQLiteBackend(path)) as backend:
            store = args.url.partition(":")[0] if args.url else f"SQLite {sqlite3.sqlite_version}"
            print(f"Python {platform.python_version()}, {store}, {backend.dead_letters.count():,} letters")
            is_fast = asyncio.run(measure(backend, args.rounds, args.limit))
    return 0 if is_fast else 1


if __name__ == "__main__":
    raise SystemExit(main())
