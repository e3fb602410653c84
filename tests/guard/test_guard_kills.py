"""Real processes killed at random moments: each effect happens once, and what was lost in the middle is settled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from retrykit import Outcome
from retrykit.backends.sqlite import SQLiteBackend
from retrykit.stores import ClaimRecord, ClaimState
from tests.capabilities import require

require("aiosmtpd", "loopback")

from tests.guard import guard_worker, smtp_worker
from tests.guard.crew import Crew
from tests.guard.guards import stored
from tests.guard.history import History
from tests.guard.outbox_worker import Shop
from tests.guard.smtp_server import Mailbox


def kill(crew: Crew, kills: int) -> None:
    """Kill one after the other, while others go on; then let all end."""
    try:
        for _ in range(kills):
            crew.fill()
            crew.kill_one()
    finally:
        crew.close()


def touched(backend: SQLiteBackend, crew: Crew) -> list[str]:
    """Return the keys that somebody has begun to work on."""
    return [key for key in crew.keys if backend.claims.get(stored(key)) is not None]


def records_of(backend: SQLiteBackend, keys: list[str]) -> list[ClaimRecord]:
    return [record for key in keys if (record := backend.claims.get(stored(key))) is not None]


def check_history(folder: Path) -> None:
    history = History(folder)
    history.check()
    history.close()


@pytest.fixture
def kills(scale: Callable[[int], int]) -> int:
    """How many processes are killed: 1,000 in a soak."""
    return max(10, scale(1_000))


@pytest.mark.soak
def test_workers_killed_in_the_middle_each_effect_happens_once(tmp_path: Path, kills: int) -> None:
    """What was lost in the middle is looked up, and nothing is done twice or left undone."""
    crew = Crew("guard_worker", tmp_path, seed=1)
    kill(crew, kills)
    provider, backend = guard_worker.Provider(tmp_path), SQLiteBackend(tmp_path / "guard.db")
    keys, guard = touched(backend, crew), guard_worker.make_guard(backend, provider)
    results = {key: guard.call(key, provider.book, key) for key in keys}
    assert {key: [receipt] for key, receipt in results.items()} == provider.receipts()
    crashed = sum(record.counters.crashed for record in records_of(backend, keys))
    backend.close()
    check_history(tmp_path)
    print({"kills": kills, "keys": len(keys), "lost in the middle": crashed})
    assert crashed > 0


@pytest.mark.soak
def test_workers_killed_in_the_middle_of_transactions_each_effect_is_committed_once(tmp_path: Path, kills: int) -> None:
    """Before the commit nothing has happened and the next one does it; after it everybody gets its result."""
    crew = Crew("outbox_worker", tmp_path, seed=2, size=4)
    kill(crew, kills)
    shop, history = Shop(tmp_path), History(tmp_path)
    keys, done_before = touched(shop.backend, crew), len(shop.receipts())
    results = {key: shop.guard.call(key, shop.place, key, Random(3), history) for key in keys}
    assert {key: [receipt] for key, receipt in results.items()} == shop.receipts()
    assert shop.is_whole()
    records = records_of(shop.backend, keys)
    crashed = sum(record.counters.crashed for record in records)
    assert {record.state for record in records} == {ClaimState.DONE}
    shop.close()
    history.close()
    check_history(tmp_path)
    print({"kills": kills, "keys": len(keys), "done by workers": done_before, "lost before the commit": crashed})
    assert crashed > 0


@pytest.mark.soak
def test_senders_killed_in_the_middle_no_mail_is_lost_and_none_sent_twice(tmp_path: Path, kills: int) -> None:
    """To a real server, which also refuses, and hangs up before and after it has accepted; unknown outcomes are all settled."""
    with Mailbox(seed=4) as mailbox:
        crew = Crew("smtp_worker", tmp_path, seed=5, more=(str(mailbox.port),))
        kill(crew, kills)
        backend, mailer = SQLiteBackend(tmp_path / "guard.db"), smtp_worker.Mailer(mailbox.port)
        keys, guard = touched(backend, crew), smtp_worker.make_guard(backend, mailer)
        send = smtp_worker.persistently(guard, mailer.send)
        results = {f"{key}@example.org": [send(key)] for key in keys}
    records = records_of(backend, keys)
    backend.close()
    check_history(tmp_path)
    tally = Counter(len(numbers) for numbers in mailbox.accepted.values())
    unknown = sum(attempt.failure.outcome is Outcome.UNKNOWN for record in records for attempt in record.attempts)
    found = sum(record.result is None for record in records)
    print(
        {
            "kills": kills,
            "messages": len(keys),
            "accepted once": tally[1],
            "accepted twice": sum(tally.values()) - tally[1],
            "lost": len(keys) - sum(tally.values()),
            "unknown": unknown,
            "of them found accepted": found,
            "found not accepted": unknown - found,
            "workers lost in the middle": sum(record.counters.crashed for record in records),
        }
    )
    assert results == mailbox.accepted
    assert {record.state for record in records} == {ClaimState.DONE}
    assert found > 0
    assert unknown > found
