"""The suite of the circuit store's contract."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone

import pytest

from ...errors import ConfigurationError, InvalidMessageError
from ...stores.circuits import CircuitStore, Pause
from .circuits_breakers import CircuitBreakers
from .circuits_breakers_crashes import CircuitBreakersCrashes
from .circuits_breakers_races import CircuitBreakersRaces
from .circuits_breakers_values import CircuitBreakersValues
from .circuits_crashes import CircuitCrashes
from .circuits_model import CircuitModel
from .circuits_probes import CircuitProbes
from .circuits_races import CircuitRaces
from .circuits_values import CircuitValues
from .forks import CircuitForks
from .models import compare
from .suite import Fresh, Place, SuiteClock, needs

__all__ = ["CircuitStoreSuite"]

Open = Callable[[Place], CircuitStore]


class CircuitStoreSuite(
    CircuitCrashes,
    CircuitRaces,
    CircuitForks,
    CircuitValues,
    CircuitBreakers,
    CircuitProbes,
    CircuitBreakersCrashes,
    CircuitBreakersRaces,
    CircuitBreakersValues,
):
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

    def test_pause_of_one_key_leaves_the_others(self, store: CircuitStore, clock: SuiteClock) -> None:
        """So does its end, and its resumption."""
        lasting = store.pause("campaign:a", reason="r", by="ada")
        ending = store.pause("campaign:b", reason="r", by="ada", until=clock.now() + timedelta(seconds=1))
        store.pause("campaign:c", reason="r", by="ada")
        assert store.resume("campaign:c") is True
        assert [lasting, ending] == list(store.pauses())
        clock.advance("1s")
        assert [lasting] == list(store.pauses())
        later = store.pause("campaign:c", reason="r", by="ada")
        assert [lasting, later] == list(store.pauses())

    def test_pause_until_an_instant_that_has_come_is_over_at_once(self, store: CircuitStore, clock: SuiteClock) -> None:
        """And it has replaced the one before."""
        for seconds in (0, 5):
            store.pause("provider:ses", reason="first", by="ada")
            until = clock.now() - timedelta(seconds=seconds)
            pause = Pause(key="provider:ses", reason="r", by="bob", since=clock.now(), until=until)
            assert pause == store.pause("provider:ses", reason="r", by="bob", until=until)
            assert list(store.pauses()) == []
            assert store.resume("provider:ses") is False

    def test_pause_until_later_holds_until_the_later_end(self, store: CircuitStore, clock: SuiteClock) -> None:
        """The end of the one before is forgotten."""
        earlier, later = (clock.now() + timedelta(minutes=minutes) for minutes in (5, 10))
        for until in (earlier, later):
            store.pause("provider:ses", reason="r", by="ada", until=until)
        clock.advance("599999ms")
        assert [later] == [pause.until for pause in store.pauses()]
        clock.advance("1ms")
        assert list(store.pauses()) == []

    @needs("reopen")
    def test_store_opened_again_finds_its_pauses(
        self, store: CircuitStore, opened: Open, place: Place, clock: SuiteClock
    ) -> None:
        """The data are at the place, not in the object."""
        until = clock.now() + timedelta(seconds=1)
        pauses = [
            store.pause("campaign:a", reason="r", by="ada"),
            store.pause("tenant:b", reason="", by="", until=until),
        ]
        other = opened(place)
        assert pauses == list(other.pauses())
        assert other.resume("campaign:a") is True
        assert pauses[1:] == list(store.pauses())

    def test_any_sequence_of_operations_gives_what_the_model_gives(self, fresh: Fresh[CircuitStore]) -> None:
        """The memory store is the model."""
        compare(lambda: CircuitModel(fresh()), is_async=self.is_async)
