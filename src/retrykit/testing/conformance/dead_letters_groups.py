"""Groups of dead letters, what people note of them, and figures over time."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, cast

import pytest

from ...dead_letter import DeadLetterState
from ...errors import ConfigurationError
from ...failure import ErrorClass
from ...stores.dead_letter_figures import DeadLetterStats
from ...stores.dead_letter_groups import DeadLetterGroup, GroupOrder
from ...stores.dead_letter_query import DeadLetterQuery
from ...stores.dead_letters import DeadLetterStore
from .dead_letters_samples import DIED, letter, query_of
from .suite import Place, StoreSuite, SuiteClock, needs

__all__ = ["DeadLetterGroups"]

Q = DeadLetterQuery


def _put(store: DeadLetterStore) -> None:
    """Put letters of three causes, and one of none."""
    for number, (cause, hours, provider) in enumerate(
        [("x", 0, "ses"), ("y", 5, "ses"), ("x", 3, "backup"), (None, 9, "ses"), ("x", 1, "ses"), ("z", 2, "relay")]
    ):
        store.put(
            letter(
                f"m-{number}",
                fingerprint=cause,
                provider=provider,
                error_code=f"{number}",
                error_message=f"message {number}",
                error_class=ErrorClass.GREYLISTED if cause == "y" else ErrorClass.MAILBOX_FULL,
                dead_lettered_at=DIED + timedelta(hours=hours),
            )
        )


def _names(store: DeadLetterStore, query: DeadLetterQuery = Q(), order: GroupOrder = "last_seen") -> str:  # noqa: B008
    return "".join(each.fingerprint or "-" for each in store.groups(query, order=order).groups)


class DeadLetterGroups(StoreSuite[DeadLetterStore]):
    """One cause, many messages."""

    def test_group_tells_its_cause_its_letters_and_when_it_was_seen(self, store: DeadLetterStore) -> None:
        """The cause is that of the letter put last, whenever it died."""
        _put(store)
        store.resolve("m-2#1")
        expected = DeadLetterGroup(
            fingerprint="x",
            error_class=ErrorClass.MAILBOX_FULL,
            error_code="4",
            provider="ses",
            error_message="message 4",
            counts={DeadLetterState.QUARANTINED: 2, DeadLetterState.RESOLVED: 1},
            first_seen=DIED,
            last_seen=DIED + timedelta(hours=3),
            matching=3,
            letter_ids=("m-4#1", "m-2#1", "m-0#1"),
        )
        assert expected == store.group("x")
        assert expected == store.groups().groups[1]
        assert expected.total == 3
        assert [None, None] == [store.group("X"), store.group("")]

    def test_groups_come_in_the_order_asked_for(self, store: DeadLetterStore) -> None:
        """Ties by fingerprint; letters without one are in none."""
        _put(store)
        assert _names(store) == "yxz"
        assert _names(store, order="matching") == "xyz"
        store.put(letter("late", fingerprint="a", dead_lettered_at=DIED + timedelta(hours=5)))
        assert (_names(store), _names(store, order="matching")) == ("ayxz", "xayz")

    def test_groups_of_a_query_are_those_of_which_a_letter_matches(self, store: DeadLetterStore) -> None:
        """They tell how many do and name these; all else is of the whole group."""
        _put(store)
        assert _names(store, Q(provider="ses")) == "yx"
        assert _names(store, Q(provider="relay", fingerprint="x")) == ""
        (group,) = store.groups(Q(provider="backup")).groups
        assert (1, ("m-2#1",), 3, DIED) == (group.matching, group.letter_ids, group.total, group.first_seen)
        (group,) = store.groups(Q(since=DIED, until=DIED + timedelta(hours=2), provider="ses")).groups
        assert (2, ("m-4#1", "m-0#1"), "message 4") == (group.matching, group.letter_ids, group.error_message)
        assert group.last_seen == DIED + timedelta(hours=3)
        (group,) = store.groups(Q(text="MESSAGE 2")).groups
        assert (1, ("m-2#1",), 3) == (group.matching, group.letter_ids, group.total)
        window = Q(since=DIED + timedelta(hours=1), until=DIED + timedelta(hours=3))
        assert [("x", 1), ("z", 1)] == [(each.fingerprint, each.matching) for each in store.groups(window).groups]

    def test_group_names_its_five_newest_letters(self, store: DeadLetterStore) -> None:
        """Those put last, not those that died last."""
        for number in range(8):
            died = DIED - timedelta(hours=number)
            store.put(letter(f"m-{number}", fingerprint="x", dead_lettered_at=died, provider=f"p{number % 2}"))
        for query, expected in ((Q(), (7, 6, 5, 4, 3)), (Q(provider="p0"), (6, 4, 2, 0))):
            (group,) = store.groups(query).groups
            assert tuple(f"m-{number}#1" for number in expected) == group.letter_ids

    def test_groups_follow_what_happens_to_their_letters(self, store: DeadLetterStore) -> None:
        """A group is gone with its last letter."""
        _put(store)
        store.purge(DIED + timedelta(hours=2))
        group = store.group("x")
        assert group is not None
        assert (1, DIED + timedelta(hours=3), ("m-2#1",)) == (group.total, group.first_seen, group.letter_ids)
        store.purge(DIED + timedelta(days=1), query=Q(fingerprint="x"))
        assert (store.group("x"), _names(store)) == (None, "yz")

    @pytest.mark.parametrize("order", ["last_seen", "matching"])
    @pytest.mark.parametrize("limit", [1, 2, 3, 7])
    def test_groups_page_by_page_gives_each_group_once(
        self, store: DeadLetterStore, order: GroupOrder, limit: int
    ) -> None:
        """No page is empty, and the last one has no cursor."""
        for number in range(7):
            for again in range(number % 3 + 1):
                store.put(letter(f"m-{number}-{again}", fingerprint=f"v1:{number}"))
        pages, cursor = list[list[str]](), None
        while not pages or cursor is not None:
            page = store.groups(order=order, limit=limit, cursor=cursor)
            assert page.groups
            pages.append([each.fingerprint for each in page.groups])
            cursor = page.cursor
        assert [name for page in pages for name in page] == [
            each.fingerprint for each in store.groups(order=order, limit=100).groups
        ]
        assert len(pages) == -(-7 // limit)

    def test_groups_with_another_cursor_or_order_are_refused(self, store: DeadLetterStore) -> None:
        """Of another query, another order, a search, or none."""
        _put(store)
        cursor = store.groups(limit=1).cursor
        assert cursor is not None
        assert "xz" == "".join(each.fingerprint for each in store.groups(cursor=cursor).groups)
        for asked in (
            {"query": Q(provider="ses"), "cursor": cursor},
            {"order": "matching", "cursor": cursor},
            {"muted": True, "cursor": cursor},
            {"cursor": store.search(limit=1).cursor},
            {"cursor": "garbage"},
            {"order": "first_seen"},
            {"limit": 0},
        ):
            with pytest.raises(ConfigurationError):
                store.groups(**cast("dict[str, Any]", asked))

    def test_annotate_notes_who_said_what_and_when(self, store: DeadLetterStore, clock: SuiteClock) -> None:
        """What is not given stays, of this group alone."""
        _put(store)
        first = store.annotate("x", by="ada", owner="team mail", note="a broken template")
        assert first == store.group("x")
        assert first is not None
        assert ("team mail", "a broken template", False) == (first.owner, first.note, first.muted)
        assert ("ada", clock.now()) == (first.updated_by, first.updated_at)
        clock.advance("1h")
        second = store.annotate("x", by="bob", note="")
        assert second == store.group("x")
        assert second is not None
        assert ("team mail", "", "bob", clock.now()) == (
            second.owner,
            second.note,
            second.updated_by,
            second.updated_at,
        )
        other = store.group("y")
        assert other is not None
        assert ("", "", None, None) == (other.owner, other.note, other.updated_by, other.updated_at)

    def test_annotate_of_no_group_notes_nothing(self, store: DeadLetterStore) -> None:
        """A misspelt fingerprint does not become a group."""
        assert store.annotate("x", by="ada", note="lost") is None
        _put(store)
        group = store.group("x")
        assert group is not None
        assert (group.note, group.updated_by) == ("", None)

    def test_muted_group_is_shown_only_on_demand_until_its_time_is_over(
        self, store: DeadLetterStore, clock: SuiteClock
    ) -> None:
        """Whatever else is noted meanwhile."""
        _put(store)
        until = clock.now() + timedelta(hours=1)
        muted = store.annotate("y", by="ada", muted=until)
        assert muted is not None
        assert (muted.muted, muted.muted_until) == (True, until)
        store.annotate("x", by="ada", muted=True)
        assert _names(store) == "z"
        assert [("y", True), ("x", True), ("z", False)] == [
            (each.fingerprint, each.muted) for each in store.groups(muted=True).groups
        ]
        clock.advance(3599)
        store.annotate("y", by="bob", owner="team mail")
        assert _names(store) == "z"
        clock.advance(1)
        assert _names(store) == "yz"
        group = store.group("y")
        assert group is not None
        assert group.muted is False
        store.annotate("x", by="ada", muted=False)
        assert _names(store) == "yxz"

    def test_note_survives_the_purge_of_its_letters(self, store: DeadLetterStore) -> None:
        """The cause may come back."""
        _put(store)
        store.annotate("x", by="ada", note="a broken template", muted=True)
        store.purge(DIED + timedelta(days=1))
        assert (None, []) == (store.group("x"), list(store.groups(muted=True).groups))
        store.put(letter("again", fingerprint="x"))
        group = store.group("x")
        assert group is not None
        assert ("a broken template", True) == (group.note, group.muted)

    @pytest.mark.parametrize("fields", [{"by": ""}, {"by": "a" * 256}, {"owner": "a" * 256}, {"note": "a" * 10_001}])
    def test_annotate_with_what_is_not_allowed_is_refused(self, store: DeadLetterStore, fields: dict[str, Any]) -> None:
        """Nothing of it is noted."""
        _put(store)
        with pytest.raises(ConfigurationError):
            store.annotate("x", **cast("dict[str, Any]", {"by": "ada", "note": "lost"} | fields))
        with pytest.raises(ConfigurationError):
            store.annotate("x", by="ada", muted=datetime(2030, 1, 1))  # noqa: DTZ001
        group = store.group("x")
        assert group is not None
        assert (group.note, group.muted) == ("", False)

    @needs("reopen")
    def test_store_opened_again_finds_its_notes(
        self, store: DeadLetterStore, opened: Callable[[Place], DeadLetterStore], place: Place
    ) -> None:
        """With their author and their time."""
        _put(store)
        noted = store.annotate("x", by="ada", note="ü\n", owner="o", muted=DIED + timedelta(days=999))
        assert noted == opened(place).group("x")

    @pytest.mark.parametrize(
        ("step", "start", "counts"),
        [
            ("1h", 0, [1, 0, 0, 2, 0, 0, 1]),
            ("1d", 0, [4]),
            ("2h", 0, [1, 2, 0, 1]),
            ("30m", 0, [1, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 1]),
            ("5h", -1, [1 + 2, 1]),
        ],
    )
    def test_trend_counts_the_letters_of_each_step(
        self, store: DeadLetterStore, step: str, start: int, counts: list[int]
    ) -> None:
        """Within the window, to the millisecond; steps begin at multiples of their length since 1970."""
        for number, seconds in enumerate((-0.001, 0, 10_800, 14_399.999, 21_600.001, 21_600.002)):
            died = DIED + timedelta(seconds=seconds)
            store.put(letter(f"m-{number}", dead_lettered_at=died, provider=("ses", "backup")[number == 5]))
        window = {"since": DIED, "until": DIED + timedelta(seconds=21_600, milliseconds=2)}
        trend = store.trend(query_of(**window), step=step)
        assert (DIED + timedelta(hours=start), counts) == (trend.start, list(trend.counts))
        assert counts == list(store.trend(query_of(provider="ses", **window), step=step).counts)
        assert [0] * len(counts) == list(store.trend(query_of(provider="backup", **window), step=step).counts)

    def test_trend_without_a_window_or_with_another_step_is_refused(self, store: DeadLetterStore) -> None:
        """What cannot be answered is said."""
        window = Q(since=DIED, until=DIED + timedelta(days=30))
        for query, step in ((Q(), "1h"), (Q(since=DIED), "1h"), (window, "7m"), (window, "90m"), (window, "1m")):
            with pytest.raises(ConfigurationError):
                store.trend(query, step=step)

    def test_stats_tell_the_depth_and_the_growth(self, store: DeadLetterStore, clock: SuiteClock) -> None:
        """By the store's clock, however the letters stand by now."""
        assert DeadLetterStats() == store.stats()
        now = clock.now()
        for number, seconds in enumerate((0, -3600, -3600.001, -86_400, -86_400.001, 1)):
            store.put(letter(f"m-{number}", dead_lettered_at=now + timedelta(seconds=seconds)))
        store.resolve("m-1#1")
        store.resolve("m-4#1")
        store.resolve("early#1")
        expected = DeadLetterStats(
            quarantined=4,
            resolved=2,
            died_last_hour=2,
            died_last_day=4,
            oldest_quarantined_at=now - timedelta(days=1),
        )
        assert expected == store.stats()
        assert expected.total == 6
        clock.advance(1)
        assert (2, 4) == (store.stats().died_last_hour, store.stats().died_last_day)
