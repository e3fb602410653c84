"""Workers that are killed while they bill: real processes, and what they leave behind."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.capabilities import require

require("aiosmtpd", "fork")

from retrykit.demo.billing import bills
from retrykit.demo.feed import ToldEvent
from retrykit.demo.scenarios import Death
from retrykit.demo.victim import BillingVictim

from .small_day import SmallDay


@pytest.fixture
def day(tmp_path: Path) -> Iterator[SmallDay]:
    """Give a day with one message, which the provider has taken."""
    small = SmallDay(tmp_path, ["plain"])
    small.mailroom.accept("main", "plain")
    yield small
    small.close()


def victim_of(path: Path, event: ToldEvent, death: Death) -> BillingVictim:
    return BillingVictim(
        path=str(path),
        provider=event.provider,
        body=event.body,
        death=death,
        speed=1.0,
        epoch=time.time(),
        lease=2.0,
    )


@pytest.mark.parametrize(("death", "left"), [(Death.BEFORE_COMMIT, {}), (Death.AFTER_COMMIT, {"plain": 1})])
def test_bill_of_a_killed_worker_is_there_once_when_the_call_comes_again(
    day: SmallDay, death: Death, left: Mapping[str, int]
) -> None:
    """Killed before the commit it leaves no bill, after it one; the call that comes again ends in one either way."""
    (event,) = day.feed.log()
    victim = victim_of(day.path, event, death)
    victim.kill(victim.is_ready)
    assert bills(day.path) == left
    day.clock.move_to(datetime.now(UTC) + timedelta(minutes=1))  # the dead worker's lease was by the real time
    day.billing.take(event.provider, event.body)
    assert bills(day.path) == {"plain": 1}


def test_victim_that_ends_before_its_time_is_an_error_without_the_payload(day: SmallDay) -> None:
    """A worker that cannot do its work is not waited for, and what it was to do is told without the body."""
    (event,) = day.feed.log()
    victim = victim_of(day.path.parent / "missing" / "day.db", event, Death.AFTER_COMMIT)
    with pytest.raises(RuntimeError, match="has not come so far: BillingVictim") as caught:
        victim.kill(victim.is_ready)
    assert "sg_event_id" not in str(caught.value)
