"""The suite of the circuit store's contract."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone

import pytest

from ...errors import ConfigurationError, InvalidMessageError
from ...stores.circuits import CircuitStore, Pause
from .child import in_processes
from .races import PROCESSES, in_threads
from .suite import BrokenClockError, Place, StoreSuite, SuiteClock, needs

__all__ = ["CircuitStoreSuite"]

Open = Callable[[Place], CircuitStore]


class CircuitStoreSuite(StoreSuite[CircuitStore]):
    """Proves a `CircuitStore` or an `AsyncCircuitStore`."""

    contract = "circuits"

    def test_pause_holds_until_it_is_resumed(self, store: CircuitStore, clock: SuiteClock) -> None:
        """With the reason, by whom and since when."""
        expected = Pause(key="campaign:spring", reason="wrong template", by="ada", since=clock.now())
        assert expected == store.pause("campaign:spring", reason="wrong template", by="ada")
        clock.advance("1000d")
        assert [expected] == list(store.pauses())
        assert store.resume("campaign:spring") is True
        assert list(store.pauses()) == []

    def test_resume_of_what_is_not_paused_is_false(self, store: CircuitStore) -> None:
        """A repeated resume is no error."""
        assert store.resume("campaign:spring") is False
        store.pause("campaign:spring", reason="r", by="ada")
        assert [True, False] == [store.resume("campaign:spring") for _ in range(2)]

    def test_pause_with_an_end_is_over_at_that_instant(self, store: CircuitStore, clock: SuiteClock) -> None:
        """A pause that is over is the same as none."""
        until = clock.now() + timedelta(minutes=5)
        store.pause("provider:ses", reason="r", by="ada", until=until)
        clock.advance("299999ms")
        assert [until] == [pause.until for pause in store.pauses()]
        clock.advance("1ms")
        assert list(store.pauses()) == []
        assert store.resume("provider:ses") is False

    def test_resume_before_the_end_is_true(self, store: CircuitStore, clock: SuiteClock) -> None:
        """It was in force."""
        store.pause("provider:ses", reason="r", by="ada", until=clock.now() + timedelta(minutes=5))
        assert store.resume("provider:ses") is True

    def test_pause_replaces_the_one_before(self, store: CircuitStore, clock: SuiteClock) -> None:
        """One pause for each key: the latest, also after one that is over, and also when it is repeated."""
        store.pause("provider:ses", reason="first", by="ada", until=clock.now() + timedelta(seconds=1))
        for reason in ("second", "third", "third"):
            clock.advance("10s")
            expected = Pause(key="provider:ses", reason=reason, by="bob", since=clock.now())
            assert expected == store.pause("provider:ses", reason=reason, by="bob")
            assert [expected] == list(store.pauses())

    def test_pauses_come_in_the_order_of_their_keys(self, store: CircuitStore) -> None:
        """The order is the same in every store."""
        keys = ["campaign:Z", "campaign:b", "campaign:ü", "provider:a", "tenant::"]
        for key in reversed(keys):
            store.pause(key, reason="r", by="ada")
        assert keys == [pause.key for pause in store.pauses()]

    def test_pause_until_an_instant_in_another_zone_is_in_utc(self, store: CircuitStore) -> None:
        """The instant is the same, cut to the millisecond."""
        until = datetime(2026, 1, 1, 5, 0, 0, 1999, timezone(timedelta(hours=2)))
        pause = store.pause("provider:ses", reason="r", by="ada", until=until)
        assert datetime(2026, 1, 1, 3, 0, 0, 1000, UTC) == pause.until
        assert [pause] == list(store.pauses())

    def test_pause_until_a_naive_instant_is_refused(self, store: CircuitStore) -> None:
        """It could mean any zone."""
        with pytest.raises(ConfigurationError, match=r"^until is the naive datetime"):
            store.pause("provider:ses", reason="r", by="ada", until=datetime(2026, 1, 1))  # noqa: DTZ001
        assert list(store.pauses()) == []

    @pytest.mark.parametrize("key", ["", "x" * 256, "\0", "campaign", "campaign:", ":x", "Campaign:x", "message:x"])
    def test_key_that_is_not_allowed_is_refused(self, store: CircuitStore, key: str) -> None:
        """A pause that holds nothing back would be a trap."""
        for call in (lambda: store.pause(key, reason="r", by="ada"), lambda: store.resume(key)):
            with pytest.raises((InvalidMessageError, ConfigurationError)):
                call()
        assert list(store.pauses()) == []

    def test_pause_interrupted_in_the_middle_is_there_or_not(self, store: CircuitStore, clock: SuiteClock) -> None:
        """Never half, and the store goes on."""
        clock.fails_at = 1
        try:
            store.pause("provider:ses", reason="r", by="ada")
        except BrokenClockError:
            assert list(store.pauses()) == []
        clock.fails_at = None
        assert [store.pause("provider:ses", reason="r", by="ada")] == list(store.pauses())

    def test_many_threads_pausing_each_pause_is_kept(self, store: CircuitStore) -> None:
        """None overwrites another's."""
        keys = [f"campaign:{number:02}" for number in range(40)]

        def work(number: int) -> None:
            for key in keys[number::4]:
                store.pause(key, reason="r", by="ada")

        in_threads(work, 4)
        assert keys == [pause.key for pause in store.pauses()]

    @needs("reopen")
    def test_store_opened_again_finds_its_pauses(self, store: CircuitStore, opened: Open, place: Place) -> None:
        """The data are at the place, not in the object."""
        pause = store.pause("provider:ses", reason="r", by="ada")
        assert [pause] == list(opened(place).pauses())

    @needs("processes")
    def test_many_processes_pausing_each_pause_is_kept(self, store: CircuitStore, place: Place, colour: str) -> None:
        """And each sees its own at once."""
        work = [{"keys": [f"campaign:{n}-{i}" for i in range(20)], "by": f"process {n}"} for n in range(PROCESSES)]
        answers = in_processes(self, place, "pause_many", colour, work)
        for own, seen in zip(work, answers, strict=True):
            assert set(own["keys"]) <= set(seen)
        assert {key for own in work for key in own["keys"]} == {pause.key for pause in store.pauses()}
