"""What the simulated providers tell, and how it travels."""

from __future__ import annotations

from datetime import timedelta

from retrykit.classification import EventKind
from retrykit.delivery import parse_event
from retrykit.demo.feed import Call, Feed
from retrykit.testing import ManualClock

from .small_day import messages_of


def feed_of(clock: ManualClock, *names: str) -> Feed:
    """Return a feed in which messages of some scenarios were accepted, each with the scenario's name as its id."""
    feed = Feed(messages_of(*names), seed=1, clock=clock)
    for name in names:
        feed.accepted("main", name)
    return feed


def calls_of(feed: Feed, clock: ManualClock) -> list[Call]:
    """Take all webhook calls as they become due."""
    calls: list[Call] = []
    while not feed.is_quiet:
        clock.advance("10s")
        while (call := feed.take()) is not None:
            calls.append(call)
            feed.answered(call, well=True)
    return calls


def test_event_in_its_webhook_form_is_read_as_it_was_logged() -> None:
    """Ids, kind and instant come through the parser as they stand in the provider's own log."""
    clock = ManualClock()
    for told in feed_of(clock, "plain", "bounced_later", "events_in_disorder").log():
        event = parse_event(told.provider, told.body)
        assert (event.event_id, event.message_id, event.provider_id) == (
            told.id,
            told.message_id,
            f"main-{told.message_id}",
        )
        assert (event.kind, event.at) == (told.kind, told.at)


def test_event_is_told_by_one_call_after_it_has_happened() -> None:
    """A call is due at most twenty minutes after its event, and none stays on the way."""
    clock = ManualClock()
    calls = calls_of(feed_of(clock, "plain", "complained_of"), clock)
    assert sorted(call.event.id for call in calls) == ["complained_of.1", "complained_of.2", "plain.1"]
    assert all(timedelta(0) <= call.due - call.event.at <= timedelta(minutes=20) for call in calls)


def test_events_in_disorder_come_twice_and_the_last_one_first() -> None:
    """What happened last is told first, and all of it again."""
    clock = ManualClock()
    kinds = [call.event.kind for call in calls_of(feed_of(clock, "events_in_disorder"), clock)]
    in_order = [EventKind.DEFERRED, EventKind.DELIVERED, EventKind.COMPLAINED]
    assert kinds == [*reversed(in_order), *in_order]


def test_lost_event_is_in_the_log_alone() -> None:
    """No call tells of it; the log gives it as soon as it has happened, to those who ask for its time."""
    clock = ManualClock()
    feed = feed_of(clock, "events_lost")
    (told,) = feed.log()
    start, end = told.at, told.at + timedelta(seconds=1)
    assert (feed.is_lost(told), feed.is_quiet, list(feed.events(start, end))) == (True, True, [])
    clock.move_to(told.at)
    assert [event.event_id for event in feed.events(start, end)] == [told.id]
    assert list(feed.events(end, end + timedelta(hours=1))) == []


def test_call_that_failed_is_made_again() -> None:
    """It comes back ten minutes later, and is on its way until then."""
    clock = ManualClock()
    feed = feed_of(clock, "plain")
    clock.advance("1h")
    call = feed.take()
    assert call is not None
    feed.answered(call, well=False)
    assert (feed.is_quiet, feed.take()) == (False, None)
    clock.advance("10m")
    again = feed.take()
    assert again is not None
    assert again.event == call.event


def test_feed_of_the_same_seed_tells_the_same() -> None:
    """The seed decides when everything happens."""
    assert (
        feed_of(ManualClock(), "plain", "complained_of").log() == feed_of(ManualClock(), "plain", "complained_of").log()
    )
