"""Hostile keys and values in a circuit store."""

from __future__ import annotations

import pytest
from hypothesis import given

from ...errors import InvalidMessageError
from ...message import MAX_ID_LENGTH
from ...stores.circuits import CircuitStore, Pause
from ..strategies import any_text, keys
from .hostile import KEYS, TEXTS, escaped
from .models import examples
from .suite import Fresh, StoreSuite, SuiteClock, needs

__all__ = ["CircuitValues"]


class CircuitValues(StoreSuite[CircuitStore]):
    """Whatever a person types."""

    def test_hostile_keys_are_kept_apart(self, store: CircuitStore) -> None:
        """Each has a pause of its own, in the order of code points."""
        names = sorted(f"tenant:{key}"[:MAX_ID_LENGTH] for key in KEYS)
        for name in names:
            store.pause(name, reason=name, by="ada")
        assert [(name, name) for name in names] == [(pause.key, pause.reason) for pause in store.pauses()]
        for number, name in enumerate(names, 1):
            assert store.resume(name) is True
            assert names[number:] == [pause.key for pause in store.pauses()]

    def test_hostile_text_in_values_comes_back_or_is_escaped(self, store: CircuitStore, clock: SuiteClock) -> None:
        """It is never cut."""
        for text in TEXTS:
            expected = Pause(key="provider:ses", reason=text, by=text, since=clock.now())
            for pause in (store.pause("provider:ses", reason=text, by=text), *store.pauses()):
                assert escaped(expected) == escaped(pause)
                assert "\0" in text or expected == pause

    def test_any_pause_comes_back(self, fresh: Fresh[CircuitStore]) -> None:
        """With escapes for what a store has no form for."""
        whole = "surrogates" in self.features

        @examples(at_most=20)
        @given(name=keys, reason=any_text, by=any_text)
        def check(name: str, reason: str, by: str) -> None:
            key = f"campaign:{name}"[:MAX_ID_LENGTH]
            with fresh() as (store, clock):
                expected = Pause(key=key, reason=reason, by=by, since=clock.now())
                assert escaped(expected) == escaped(store.pause(key, reason=reason, by=by))
                assert [escaped(expected)] == escaped(list(store.pauses()))
                assert not whole or [expected] == list(store.pauses())
                assert store.resume(key) is True

        check()

    def test_lone_surrogates_wedge_nothing(self, store: CircuitStore) -> None:
        """They are written as escapes, and the pause holds."""
        store.pause("provider:ses", reason="why \ud800", by="\udfff")
        (pause,) = store.pauses()
        assert (r"why \ud800", r"\udfff") == (escaped(pause.reason), escaped(pause.by))
        with pytest.raises(InvalidMessageError):
            store.pause("provider:\ud800", reason="r", by="ada")
        assert store.resume("provider:ses") is True

    @needs("surrogates")
    def test_lone_surrogates_come_back_as_they_were(self, store: CircuitStore) -> None:
        """Not as escapes."""
        pause = store.pause("provider:ses", reason="why \ud800", by="\udfff")
        assert ("why \ud800", "\udfff") == (pause.reason, pause.by)
        assert [pause] == list(store.pauses())

    @needs("megabyte")
    def test_reason_of_a_megabyte_is_kept(self, store: CircuitStore) -> None:
        """Somebody pasted a log."""
        reason = "{\u20ac}" * 250_000
        assert reason == store.pause("provider:ses", reason=reason, by="ada").reason
        assert [reason] == [pause.reason for pause in store.pauses()]
