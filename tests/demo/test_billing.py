"""Bills are written once, whatever comes twice or dies."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from tests.capabilities import require

require("aiosmtpd")

from retrykit.demo import billing as module
from retrykit.demo.billing import Billing, bills
from retrykit.demo.feed import ToldEvent
from retrykit.errors import AlreadyInProgressError
from retrykit.stores import Delivery, DeliveryStatus

from .small_day import SmallDay


@pytest.fixture
def day(tmp_path: Path) -> Iterator[SmallDay]:
    """Give a day whose mail was sent and of which nothing was told yet."""
    small = SmallDay(tmp_path)
    yield small
    small.close()


def told(day: SmallDay, message_id: str) -> list[ToldEvent]:
    """Let the provider take a message, and return what it tells of it."""
    day.mailroom.accept("main", message_id)
    return [event for event in day.feed.log() if event.message_id == message_id]


def take(billing: Billing, event: ToldEvent) -> None:
    billing.take(event.provider, event.body)


def test_delivered_message_whose_events_come_twice_has_one_bill(day: SmallDay) -> None:
    """In order, in reverse, and all of it again: one bill."""
    events = told(day, "events_in_disorder")
    for event in [*reversed(events), *events]:
        take(day.billing, event)
    assert bills(day.path) == {"events_in_disorder": 1}


def test_message_that_was_not_delivered_has_no_bill(day: SmallDay) -> None:
    """A bounce is no delivery, and neither is a deferral."""
    take(day.billing, told(day, "bounced_later")[0])
    take(day.billing, told(day, "events_in_disorder")[0])
    assert bills(day.path) == {}


def test_bill_whose_worker_fails_before_the_commit_is_written_by_the_next(day: SmallDay) -> None:
    """The bill is rolled back with the completion, and the key is free for the call that comes again."""

    def fail() -> None:
        raise OSError("the disk is full")

    failing = Billing(day.path, day.backend, lease=60.0, clock=day.clock, before_commit=fail)
    (event,) = told(day, "plain")
    with pytest.raises(OSError, match="the disk is full"):
        take(failing, event)
    failing.close()
    assert bills(day.path) == {}
    take(day.billing, event)
    take(day.billing, event)
    assert bills(day.path) == {"plain": 1}


def test_bill_whose_worker_died_before_the_commit_waits_for_the_lease(day: SmallDay) -> None:
    """Until the dead worker's lease ends, its call is refused and comes again; then it is billed."""
    (event,) = told(day, "plain")
    day.backend.claims.claim("\x1ebill\x1eplain", owner="dead", lease=60.0)
    with pytest.raises(AlreadyInProgressError):
        take(day.billing, event)
    assert bills(day.path) == {}
    day.clock.advance("61s")
    take(day.billing, event)
    assert bills(day.path) == {"plain": 1}


def test_bills_of_two_threads_at_the_same_messages_are_one_each(day: SmallDay) -> None:
    """Two threads bill the same messages in opposite order; who comes second to one is refused, or told what was done."""
    names = [f"m-{number}" for number in range(50)]

    def bill(order: list[str]) -> None:
        billing = Billing(day.path, day.backend, lease=60.0, clock=day.clock)
        for name in order:
            try:
                billing.bill(name)
            except AlreadyInProgressError:
                continue
        billing.close()

    threads = [Thread(target=bill, args=(order,)) for order in (names, names[::-1])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert bills(day.path) == dict.fromkeys(names, 1)


def test_bill_all_bills_what_no_call_has_told_of(day: SmallDay, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over several pages, everything that is delivered is billed, once."""
    monkeypatch.setattr(module, "_PAGE", 2)
    for number in range(5):
        record = Delivery(message_id=f"m-{number}", status=DeliveryStatus.DELIVERED, updated_at=day.clock.now())
        day.backend.deliveries.record(record)
    day.billing.bill("m-3")
    day.billing.bill_all()
    assert bills(day.path) == {f"m-{number}": 1 for number in range(5)}
