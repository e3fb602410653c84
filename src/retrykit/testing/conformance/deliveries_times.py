"""Of a delivery log: what has been silent for how long, and how far a source of events was compared with it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import cast

import pytest

from ...errors import ConfigurationError, InvalidMessageError
from ...stores.deliveries import Delivery, DeliveryStatus, DeliveryStore
from .deliveries_samples import NOW, delivery
from .suite import Place, StoreSuite, needs

__all__ = ["DeliveryTimes"]

S = DeliveryStatus


def _minute(number: int) -> datetime:
    return NOW + timedelta(minutes=number)


def _silent(store: DeliveryStore, start: int = 0, end: int = 10, limit: int = 100) -> str:
    """Return the ids of messages sent in some minutes of which nothing was heard since, page by page."""
    seen, after = "", cast("Delivery | None", None)
    while page := store.updated_between(
        _minute(start), _minute(end), status=S.SENT_TO_PROVIDER, limit=limit, after=after
    ):
        assert len(page) <= limit
        seen, after = seen + "".join(each.message_id for each in page), page[-1]
    return seen


class DeliveryTimes(StoreSuite[DeliveryStore]):
    """Times of deliveries, and bookmarks."""

    @pytest.mark.parametrize("limit", [1, 2, 3, 100])
    def test_updated_between_gives_the_longest_silent_first_page_by_page(
        self, store: DeliveryStore, limit: int
    ) -> None:
        """Those of one instant in the order of their ids, whatever the order in which they were reported."""
        for message_id, minutes in (("c", 2), ("ü", 1), ("d", 1), ("a", 3), ("B", 1)):
            store.record(delivery(S.SENT_TO_PROVIDER, message_id=message_id, minutes=minutes))
        assert _silent(store, limit=limit) == "Bdüca"

    def test_updated_between_includes_its_start_and_not_its_end(self, store: DeliveryStore) -> None:
        """So that windows one after the other give each message once."""
        for minutes, message_id in enumerate("abcd"):
            store.record(delivery(S.SENT_TO_PROVIDER, message_id=message_id, minutes=minutes))
        windows = [(0, 1), (1, 3), (3, 4), (4, 9), (2, 2), (3, 1)]
        assert ["a", "bc", "d", "", "", ""] == [_silent(store, *window) for window in windows]

    def test_updated_between_goes_by_the_latest_news_of_the_status_that_stands(self, store: DeliveryStore) -> None:
        """A message that was heard of is silent since then, and one of another status is no answer."""
        for message_id in "abc":
            store.record(delivery(S.SENT_TO_PROVIDER, message_id=message_id, provider="ses"))
        store.record(delivery(S.SENT_TO_PROVIDER, 2, "b", minutes=5))
        store.record(delivery(S.DELIVERED, 2, "c"))
        assert [("a", "b"), ("c",)] == [
            tuple(each.message_id for each in store.updated_between(NOW, _minute(9), status=status))
            for status in (S.SENT_TO_PROVIDER, S.DELIVERED)
        ]
        (found,) = store.updated_between(NOW, _minute(1), status=S.SENT_TO_PROVIDER)
        assert found == store.get("a")

    def test_updated_between_goes_on_when_the_last_of_a_page_has_gone(self, store: DeliveryStore) -> None:
        """What was heard of meanwhile is missing, and nothing is skipped or seen twice."""
        for minutes, message_id in enumerate("abcd"):
            store.record(delivery(S.SENT_TO_PROVIDER, message_id=message_id, minutes=minutes))
        page = store.updated_between(NOW, _minute(9), status=S.SENT_TO_PROVIDER, limit=2)
        store.record(delivery(S.DELIVERED, 2, "b", minutes=7))
        store.record(delivery(S.DELIVERED, 2, "c", minutes=7))
        rest = store.updated_between(NOW, _minute(9), status=S.SENT_TO_PROVIDER, after=page[-1])
        assert ["d"] == [each.message_id for each in rest]

    def test_bookmark_stands_where_it_was_moved_last(self, store: DeliveryStore) -> None:
        """Each source has its own, and one that never moved is None."""
        assert store.bookmark("ses") is None
        assert _minute(1) == store.move_bookmark("ses", _minute(1)) == store.bookmark("ses")
        assert _minute(5) == store.move_bookmark("ses", _minute(5)) == store.bookmark("ses")
        store.move_bookmark("SES", _minute(2))
        assert (_minute(5), _minute(2), None) == tuple(store.bookmark(name) for name in ("ses", "SES", "mailgun"))

    def test_bookmark_never_goes_back(self, store: DeliveryStore) -> None:
        """Whoever is behind is told how far others have come."""
        store.move_bookmark("ses", _minute(5))
        assert _minute(5) == store.move_bookmark("ses", _minute(4)) == store.bookmark("ses")

    def test_bookmark_is_an_instant_in_utc_to_the_millisecond(self, store: DeliveryStore) -> None:
        """Whatever it was given as."""
        east = timezone(timedelta(hours=2))
        to = store.move_bookmark("ses", datetime(2026, 1, 1, 2, 0, 0, 1999, east))
        assert NOW + timedelta(milliseconds=1) == to == store.bookmark("ses")

    def test_bookmark_or_window_that_is_not_allowed_is_refused(self, store: DeliveryStore) -> None:
        """Instants are aware, limits at least one, a status is one of nine, names are like ids."""
        store.record(delivery(S.SENT_TO_PROVIDER))
        naive = NOW.replace(tzinfo=None)
        calls: list[Callable[[], object]] = [
            lambda: store.updated_between(naive, _minute(1), status=S.SENT_TO_PROVIDER),
            lambda: store.updated_between(NOW, naive, status=S.SENT_TO_PROVIDER),
            lambda: store.updated_between(NOW, _minute(1), status=S.SENT_TO_PROVIDER, limit=0),
            lambda: store.updated_between(NOW, _minute(1), status=cast("DeliveryStatus", "lost")),
            lambda: store.move_bookmark("ses", naive),
        ]
        for call in calls:
            with pytest.raises(ConfigurationError):
                call()
        for source in ("", "x" * 256, "\0"):
            with pytest.raises(InvalidMessageError):
                store.bookmark(source)
            with pytest.raises(InvalidMessageError):
                store.move_bookmark(source, NOW)
        assert store.bookmark("ses") is None

    @needs("reopen")
    def test_bookmark_stands_in_a_store_opened_again(
        self, store: DeliveryStore, opened: Callable[[Place], DeliveryStore], place: Place
    ) -> None:
        """A run that died goes on in another process."""
        store.move_bookmark("ses", _minute(5))
        other = opened(place)
        assert _minute(5) == other.bookmark("ses") == other.move_bookmark("ses", NOW)
