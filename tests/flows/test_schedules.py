"""Random schedules of many processes on many messages: the invariants hold in each; a failure names its seed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from retrykit.backends.sqlite import SQLiteBackend
from retrykit.testing import ManualClock
from retrykit.testing.harness import Drive
from tests.flows.fleet import Fleet, on_stage
from tests.flows.schedules import play, play_in_memory

pytestmark = pytest.mark.unmeasured

PARTS = 20


@pytest.mark.soak
@pytest.mark.parametrize("part", range(PARTS))
def test_schedule_drawn_at_random_every_message_ends_in_one_place(part: int, scale: Callable[[int], int]) -> None:
    """100,000 schedules in a soak, each of up to twenty messages."""
    count = scale(100_000 // PARTS)
    for seed in range(part * count, (part + 1) * count):
        play_in_memory(seed)


@pytest.mark.soak
def test_schedule_drawn_at_random_on_sqlite_every_message_ends_in_one_place(
    tmp_path: Path, scale: Callable[[int], int]
) -> None:
    """A backend with a disk behind it does the same; each file sees twenty schedules."""
    for seed in range(1_000_000, 1_000_000 + scale(2_000)):
        clock = ManualClock()
        path = tmp_path / f"{seed // 20}.db"
        with on_stage(SQLiteBackend(path, clock=clock, synchronous="normal"), clock, None) as stage:
            play(stage, seed)


@pytest.mark.soak
def test_schedule_drawn_at_random_asynchronous_every_message_ends_in_one_place(
    awaiting: Drive, scale: Callable[[int], int]
) -> None:
    """The asynchronous flows do the same, under asyncio and trio."""
    for seed in range(2_000_000, 2_000_000 + scale(2_500)):
        play_in_memory(seed, awaiting)


@pytest.mark.soak
@pytest.mark.parametrize("part", range(PARTS))
def test_schedule_with_redrives_every_message_ends_in_one_place(part: int, scale: Callable[[int], int]) -> None:
    """20,000 schedules in a soak, in which operators have what died put back, by any number of runners that die as well."""
    count = scale(20_000 // PARTS)
    for seed in range(3_000_000 + part * count, 3_000_000 + (part + 1) * count):
        play_in_memory(seed, redrives=True)


def test_schedules_with_redrives_put_messages_back() -> None:
    """Some that are sent then, some that die again, and redrives that are stopped."""
    met: Counter[str] = Counter()
    for seed in range(40):
        fleet = play_in_memory(seed, redrives=True)
        met.update(job.state.value for job in fleet.backend.redrives.jobs(limit=100))
        for world in fleet.worlds.values():
            record = fleet.backend.claims.get(world.key)
            assert record is not None
            if record.generation > 1:
                met[f"put back, then {record.disposition}"] += 1
    assert {"done", "stopped", "put back, then sent", "put back, then held_for_review"} <= met.keys()


def test_schedule_of_a_seed_played_again_is_the_same() -> None:
    """A seed that failed can be played again."""

    def seen(seed: int) -> list[object]:
        fleet = play_in_memory(seed)
        told = [(each.kind, each.due_at) for world in fleet.worlds.values() for each in world.dispositions]
        return [fleet.acceptances, told]

    assert seen(3) == seen(3)
    assert seen(3) != seen(4)


def test_schedules_drawn_at_random_meet_everything_that_can_happen() -> None:
    """Each end, crashes, interruptions, poison, verified outcomes, duplicates: none is missing from the first fifty."""
    met: Counter[str] = Counter()
    for seed in range(50):
        fleet = play_in_memory(seed)
        for world in fleet.worlds.values():
            record = fleet.backend.claims.get(world.key)
            assert record is not None
            met.update(disposition.kind.value for disposition in world.dispositions)
            met.update(f"{attempt.action.value} after {attempt.failure.rule}" for attempt in record.attempts)
            met["crashed"] += record.counters.crashed
            met["interrupted"] += record.counters.interrupted
            met["poison"] += record.reason == "poison_message"
    wanted = """
        sent duplicate retry_scheduled verifying dead_lettered bounced held_for_review crashed interrupted poison
    """.split()
    assert [name for name in wanted if not met[name]] == []
    assert met["retry after claim.lease_ended"] and met["verify after claim.lease_ended"]


def test_schedule_that_breaks_an_invariant_names_its_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    """What failed can be found again."""
    monkeypatch.setattr(Fleet, "settle", lambda _fleet: None)
    with pytest.raises(AssertionError, match=r"seed 0, \d+ messages: "):
        play_in_memory(0)
