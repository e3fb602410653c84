"""Broken circuit stores."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import attrs

from retrykit.backends.memory import _Circuits, _Shared
from retrykit.stores import CircuitStore, Pause
from retrykit.testing.conformance import CircuitStoreSuite, Place


class Mutant(CircuitStoreSuite):
    broken: type[_Circuits]

    def make_store(self, place: Place) -> CircuitStore:
        return self.broken(_Shared(place.clock))


class EndIgnored(_Circuits):
    def _pauses(self) -> Sequence[Pause]:
        return sorted(self._rows.values(), key=lambda row: row.key)


class TestPauseThatNeverEnds(Mutant):
    broken = EndIgnored
    caught_by = ("test_pause_with_an_end_is_over_at_that_instant",)


class EndsEarly(_Circuits):
    def _pauses(self) -> Sequence[Pause]:
        return [row for row in super()._pauses() if row.until is None or (row.until - row.since).seconds < 1]


class TestPauseThatEndsEarly(Mutant):
    broken = EndsEarly
    caught_by = ("test_pause_with_an_end_is_over_at_that_instant",)


class FirstStays(_Circuits):
    def _pause(self, key: str, reason: str, by: str, until: datetime | None) -> Pause:
        return self._rows.get(key) or super()._pause(key, reason, by, until)


class TestPauseThatIsNotReplaced(Mutant):
    broken = FirstStays
    caught_by = ("test_pause_replaces_the_one_before",)


class Unordered(_Circuits):
    def _pauses(self) -> Sequence[Pause]:
        return list(reversed(super()._pauses()))


class TestPausesInAnyOrder(Mutant):
    broken = Unordered
    caught_by = ("test_pauses_come_in_the_order_of_their_keys",)


class Lost(_Circuits):
    def _pause(self, key: str, reason: str, by: str, until: datetime | None) -> Pause:
        rows = dict(self._rows)
        pause = super()._pause(key, reason, by, until)
        self._rows = {**rows, key: pause}
        return pause


class TestPauseThatOverwritesAnothers(Mutant):
    broken = Lost
    caught_by = ("test_many_threads_pausing_each_pause_is_kept",)


class Nameless(_Circuits):
    def _pause(self, key: str, reason: str, by: str, until: datetime | None) -> Pause:
        self._rows[key] = attrs.evolve(super()._pause(key, reason, by, until), by="")
        return self._rows[key]


class TestPauseWithoutItsAuthor(Mutant):
    broken = Nameless
    caught_by = ("test_pause_holds_until_it_is_resumed",)


class AlwaysResumed(_Circuits):
    def _resume(self, key: str) -> bool:
        super()._resume(key)
        return True


class TestResumeThatIsAlwaysTrue(Mutant):
    broken = AlwaysResumed
    caught_by = ("test_resume_of_what_is_not_paused_is_false", "test_pause_with_an_end_is_over_at_that_instant")
