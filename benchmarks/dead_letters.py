"""What questions about dead letters cost on SQLite: `python benchmarks/dead_letters.py --letters 1000000`.

A file is filled with the letters of thirty days, as campaigns with failures of many causes give them, a twentieth of them in an
incident of the last two hours. Then each question is asked with values of letters drawn at random, and timed; so is `put`. With
``--file`` the file is kept, and used again when it is there: a million letters take some minutes to fill and 4 GB.
"""

from __future__ import annotations

import argparse
import platform
import random
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Literal, NamedTuple

import attrs

from retrykit.backends.sqlite import SQLiteBackend
from retrykit.backends.sqlite.letter_rows import insert
from retrykit.backends.sqlite.letter_sums import add_up
from retrykit.dead_letter import DeadLetter, DeadLetterState, dead_letter_id
from retrykit.decision import DeadLetterReason
from retrykit.failure import ErrorClass
from retrykit.stores import DeadLetterQuery, DeadLetterStore
from retrykit.stores.dead_letters import FACETS

CLASSES = [value for name, value in sorted(vars(ErrorClass).items()) if isinstance(value, ErrorClass)]
DAYS = 30
CAMPAIGNS = 200
CAUSES = 300
STATES = {DeadLetterState.QUARANTINED: 88, DeadLetterState.RESOLVED: 10, DeadLetterState.DISCARDED: 2}
AT_ONCE = 20_000
NUMBERS = count(time.time_ns())
NOW = datetime.now(UTC).replace(microsecond=0)
BODY = b'{"to": "somebody@example.org", "template": "welcome", "data": {"name": "Ada", "items": [1, 2, 3, 4, 5, 6, 7, 8, 9]}}'


class Cause(NamedTuple):
    """Why letters die."""

    error_class: ErrorClass
    code: str
    enhanced: str | None
    stage: str
    reason: DeadLetterReason
    text: str
    fingerprint: str


def causes(drawn: random.Random) -> list[Cause]:
    """Return the causes, the most frequent first."""
    found = list[Cause]()
    for number in range(CAUSES):
        code = str(drawn.randrange(400, 460))
        found.append(
            Cause(
                error_class=CLASSES[number % len(CLASSES)],
                code=code,
                enhanced=f"{code[0]}.{drawn.randrange(8)}.{drawn.randrange(12)}" if number % 3 else None,
                stage=("send", "send", "render", "validate")[number % 4],
                reason=drawn.choice(list(DeadLetterReason)),
                text=f"the mailbox of {{}} says no for the {number}. reason, please try again later",
                fingerprint=f"v1:{drawn.getrandbits(64):016x}",
            )
        )
    return found


class Letters:
    """Draws letters."""

    def __init__(self, total: int) -> None:
        self._drawn = random.Random(7)
        self._causes = causes(self._drawn)
        self._weights = [1 / (number + 1) for number in range(CAUSES)]
        self._total = total

    def draw(self, number: int) -> DeadLetter:
        """Return a letter; those with higher numbers died later, but for some that came late."""
        drawn, incident = self._drawn, number >= self._total * 0.95
        if incident:
            share = (number - self._total * 0.95) / (self._total * 0.05)
            died = NOW - timedelta(hours=2) * (1 - min(share, 1))
        else:
            died = NOW - timedelta(hours=2) - timedelta(days=DAYS) * (1 - number / (self._total * 0.95))
        if number % 100 == 0:
            died -= timedelta(seconds=drawn.randrange(600))
        days = (NOW - died) / timedelta(days=1)
        campaign = 0 if incident else int(days / DAYS * CAMPAIGNS + drawn.triangular(0, 30, 5)) % CAMPAIGNS
        cause = self._causes[4] if incident else drawn.choices(self._causes, self._weights)[0]
        recipient = f"person-{drawn.randrange(self._total)}@example.org"
        attributes = {
            "campaign_id": f"campaign-{campaign}",
            "recipient": recipient,
            "tenant": f"tenant-{campaign % 50}",
        }
        return DeadLetter(
            id=dead_letter_id(f"message-{number}", 1),
            message_id=f"message-{number}",
            source=("orders", "news")[number % 2],
            campaign_id=f"campaign-{campaign}",
            recipient=recipient,
            provider=drawn.choices(("ses", "postmark", "relay"), (70, 20, 10))[0],
            error_class=cause.error_class,
            error_code=cause.code,
            enhanced_code=cause.enhanced,
            error_message=cause.text.format(recipient),
            stage=cause.stage,
            reason=cause.reason,
            attempt_count=4,
            first_failed_at=died,
            last_failed_at=died,
            dead_lettered_at=died,
            decision="all 5 attempts used",
            fingerprint=cause.fingerprint,
            state=drawn.choices(list(STATES), list(STATES.values()))[0],
            original_payload=BODY,
            attributes=attributes,
        )


def fill(path: Path, total: int) -> None:
    """Fill a file with letters, many in each transaction."""
    backend, letters, began = SQLiteBackend(path, synchronous="normal"), Letters(total), time.monotonic()
    for start in range(0, total, AT_ONCE):
        with backend._database.transaction() as (db, _):  # one put at a time would flush each
            for number in range(start, min(start + AT_ONCE, total)):
                insert(db, letters.draw(number))
            add_up(db)
    backend.close()
    size = path.stat().st_size / total
    print(f"filled with {total:,} letters in {time.monotonic() - began:.0f} s, {size:,.0f} bytes each")


Question = Callable[[DeadLetter], object]


def questions(letters: DeadLetterStore) -> Iterator[tuple[str, Question]]:
    """Name what is asked, and give the call for a letter drawn at random."""
    for field in attrs.fields_dict(DeadLetterQuery):
        if field in ("attributes", "since", "until", "text"):
            continue
        yield (
            f"search by {field}",
            lambda each, field=field: letters.search(DeadLetterQuery(**{field: getattr(each, field)}), limit=20),
        )
    yield "search by an attribute", lambda each: letters.search(_tenant(each), limit=20)
    yield "search of a day", lambda each: letters.search(_day(each), limit=20)
    yield (
        "search by campaign, of a day",
        lambda each: letters.search(_day(each, campaign_id=each.campaign_id), limit=20),
    )
    yield (
        "search by provider and class",
        lambda each: letters.search(DeadLetterQuery(provider=each.provider, error_class=each.error_class), limit=20),
    )
    yield "search by a frequent text", lambda _: letters.search(DeadLetterQuery(text="1. reason"), limit=20)
    yield (
        "search by campaign and a rare text",
        lambda each: letters.search(DeadLetterQuery(campaign_id=each.campaign_id, text=each.message_id), limit=20),
    )
    for facet in FACETS:
        yield f"top {facet}", lambda _, facet=facet: letters.top(facet)
    for name, query in _windows().items():
        yield f"top classes, {name}", lambda each, query=query: letters.top("error_class", query=query(each))
        yield f"top campaigns, {name}", lambda each, query=query: letters.top("campaign_id", query=query(each))
    yield "count, of a day", lambda each: letters.count(_day(each))
    yield (
        "count of a campaign and a class",
        lambda each: letters.count(DeadLetterQuery(campaign_id=each.campaign_id, error_class=each.error_class)),
    )
    for name, query in _windows().items():
        yield f"groups, {name}", lambda each, query=query: letters.groups(query(each))
        yield f"groups by matching, {name}", lambda each, query=query: letters.groups(query(each), order="matching")
    yield "groups of a campaign", lambda each: letters.groups(DeadLetterQuery(campaign_id=each.campaign_id))
    yield "group of a fingerprint", lambda each: letters.group(each.fingerprint or "")
    yield "trend of a day, by hours", lambda each: letters.trend(_day(each), step="1h")
    yield "trend of the incident, by minutes", lambda _: letters.trend(_last(timedelta(hours=2)), step="1m")
    yield "trend of 30 days, by days", lambda _: letters.trend(_last(timedelta(days=30)), step="1d")
    yield "stats", lambda _: letters.stats()


def _tenant(each: DeadLetter) -> DeadLetterQuery:
    return DeadLetterQuery(attributes={"tenant": each.attributes["tenant"]})


def _day(each: DeadLetter, campaign_id: str | None = None) -> DeadLetterQuery:
    half = timedelta(hours=12)
    return DeadLetterQuery(
        campaign_id=campaign_id, since=each.dead_lettered_at - half, until=each.dead_lettered_at + half
    )


def _last(age: timedelta, provider: str | None = None) -> DeadLetterQuery:
    return DeadLetterQuery(provider=provider, since=NOW - age, until=NOW + timedelta(hours=1))


def _windows() -> dict[str, Callable[[DeadLetter], DeadLetterQuery]]:
    return {
        "of all time": lambda _: DeadLetterQuery(),
        "of 2 h": lambda _: _last(timedelta(hours=2)),
        "of 1 d": lambda _: _last(timedelta(days=1)),
        "of 30 d": lambda _: _last(timedelta(days=30)),
        "of a provider in 2 h": lambda each: _last(timedelta(hours=2), each.provider),
        "of a provider in 1 d": lambda each: _last(timedelta(days=1), each.provider),
        "of a provider in 30 d": lambda each: _last(timedelta(days=30), each.provider),
    }


class Taken(NamedTuple):
    """Seconds that a call takes: as they pass, and of the processor, which other programs of a busy machine change less."""

    passed: float
    worked: float


def timed(call: Callable[[], object]) -> Taken:
    """Return the seconds that a call takes."""
    began, working = time.perf_counter(), time.thread_time()
    call()
    return Taken(time.perf_counter() - began, time.thread_time() - working)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--letters", type=int, default=100_000, help="how many (default 100000)")
    parser.add_argument("--rounds", type=int, default=40, help="how often each question is asked (default 40)")
    parser.add_argument("--file", type=Path, help="where the file is kept (default: nowhere)")
    parser.add_argument("--synchronous", choices=["full", "normal"], default="full", help="of put (default full)")
    given = parser.parse_args()
    print(
        f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, {platform.system()} {platform.machine()}"
    )
    with tempfile.TemporaryDirectory() as folder:
        path = given.file or Path(folder) / "letters.db"
        if not path.exists():
            fill(path, given.letters)
        measure(path, given.letters, given.rounds, given.synchronous)


def measure(path: Path, total: int, rounds: int, synchronous: Literal["full", "normal"]) -> None:
    """Ask all questions of a file and print what they take."""
    backend, letters, drawn = SQLiteBackend(path, synchronous=synchronous), Letters(total), random.Random(3)
    samples = [
        letter
        for number in drawn.sample(range(total), rounds)
        if (letter := backend.dead_letters.get(dead_letter_id(f"message-{number}", 1))) is not None
    ]
    print(
        f"{backend.dead_letters.count():,} letters; milliseconds, median of {rounds} (95th percentile), then those of the processor"
    )
    for name, ask in questions(backend.dead_letters):
        asked = (
            [each for each in samples if None is not each.enhanced_code] if name.endswith("enhanced_code") else samples
        )
        print(f"{name:40} {_figures([timed(lambda ask=ask, each=each: ask(each)) for each in asked])}")  # type: ignore[misc]
    new = [attrs.evolve(letters.draw(total), id=f"new-{next(NUMBERS)}#1") for _ in range(50 * rounds)]
    print(
        f"{f'put, synchronous={synchronous}':40} {_figures([timed(lambda each=each: backend.dead_letters.put(each)) for each in new])}"
    )  # type: ignore[misc]
    backend.close()


def _figures(taken: list[Taken]) -> str:
    columns = [sorted(each.passed for each in taken), sorted(each.worked for each in taken)]
    return "   ".join(
        f"{statistics.median(seconds) * 1000:8.2f} ({seconds[int(len(seconds) * 0.95)] * 1000:8.2f})"
        for seconds in columns
    )


if __name__ == "__main__":
    main()
