"""The suite of the signal store's contract."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final

import attrs
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ...backends.memory import MemoryBackend
from ...codec import JSON
from ...errors import InvalidMessageError
from ...machines.alerts import Alert, AlertState, Severity, Watch
from ...machines.signals import Backlog, Occurrence, Source
from ...stores.signals import SignalChange, Signals, SignalStore
from .breaking import TICKS, broken_at_each_step, call_cancelled, said_before_kill
from .child import in_processes
from .forks import SignalForks
from .hostile import KEYS, NO_KEYS, TEXTS, escaped
from .models import compare
from .races import PROCESSES, THREADS, in_threads
from .suite import Fresh, Place, SuiteClock, needs

__all__ = ["SignalStoreSuite", "adding", "full_signals"]

_TURNS: Final = 15


def adding(what: str) -> SignalChange:
    """Return the change that counts one more of something."""

    def change(known: Signals | None, _: datetime) -> Signals:
        known = known or Signals(name="signals")
        counts = known.buckets.get(1, {})
        return attrs.evolve(known, at=known.at + 1, buckets={1: {**counts, what: counts.get(what, 0) + 1}})

    return change


def full_signals(name: str = "full", text: str = "a bug") -> Signals:
    """Return a record in which every field is set."""
    instant = datetime.fromisoformat("2026-01-01T00:00:00.001+00:00")
    alert = Alert(
        key=text,
        rule=text,
        severity=Severity.TICKET,
        title=text,
        evidence={"ids": [text], "share": 0.25, text: None},
        commands=(text, text),
        state=AlertState.RESOLVED,
        since=instant,
        changed_at=instant + timedelta(days=1),
    )
    watch = Watch(key=text, rule=text, met_at=1, judged_at=2, gone_at=3, alert=alert, is_told=False, holder=text)
    return Signals(
        name=name,
        at=10**13,
        shift=3_600_000,
        buckets={1: {text: 2}, 2: {}},
        hours={0: {"dead": 1}},
        waiting={5: 0},
        backlog=Backlog(waiting=1, due=2, overdue=0.5, letters=3, died_last_hour=4),
        sources={text: Source(seq=1, at=2, open_breakers=(text,))},
        samples=(text,),
        occurrences=(Occurrence(kind=text, subject=text, detail=text, count=2, samples=(text,), at=9),),
        seen=("0", text),
        watches=(watch, attrs.evolve(watch, alert=None, gone_at=None, holder=None)),
    )


def _keeping(signals: Signals) -> SignalChange:
    return lambda _, __: signals


def _count(signals: Signals | None, what: str) -> int:
    return 0 if signals is None else signals.buckets.get(1, {}).get(what, 0)


class SignalModel(RuleBasedStateMachine):
    """The store under test and the memory store, on the same clock.

    Args:
        opening: gives an empty store and its clock.
    """

    names: Final = ("default", "Default", "\U0001f600")

    def __init__(self, opening: AbstractContextManager[tuple[SignalStore, SuiteClock]]) -> None:
        super().__init__()
        self._opening = opening
        self._store, self._clock = opening.__enter__()
        self._model = MemoryBackend(clock=self._clock).signals

    @rule(name=st.sampled_from(names), what=st.sampled_from(["sent", "dead"]))
    def add(self, name: str, what: str) -> None:
        """To a record that is there, or is not."""
        assert self._model.change(name, adding(what)) == self._store.change(name, adding(what))

    @rule(name=st.sampled_from(names))
    def replace(self, name: str) -> None:
        """All of it."""
        assert self._model.change(name, _keeping(full_signals())) == self._store.change(name, _keeping(full_signals()))

    @rule(name=st.sampled_from(names))
    def mend(self, name: str) -> None:
        """What can be read stays."""
        assert self._store.mend(name) is False

    @rule(name=st.sampled_from(names))
    def fail(self, name: str) -> None:
        """A change that raises."""
        with pytest.raises(ZeroDivisionError):
            self._store.change(name, lambda _, __: 1 / 0)  # type: ignore[arg-type, return-value]

    @invariant()
    def same(self) -> None:
        """Both hold the same."""
        for name in self.names:
            assert self._model.get(name) == self._store.get(name)
        assert self._model.names() == self._store.names()

    def teardown(self) -> None:
        """Close the store."""
        self._opening.__exit__(None, None, None)


class SignalStoreSuite(SignalForks):
    """Proves a `SignalStore` or an `AsyncSignalStore`."""

    contract = "signals"

    def test_record_comes_back_as_it_was_changed_to(self, store: SignalStore) -> None:
        """In every field; where there is none, None."""
        assert store.get("a") is None
        for expected in (full_signals(), Signals(name="a")):
            assert expected == store.change("a", _keeping(expected)) == store.get("a")
        assert store.get("b") is None

    def test_change_is_made_to_what_stands_at_the_stores_time(self, store: SignalStore, clock: SuiteClock) -> None:
        """It is given the record, None at first, and the instant; what it returns is kept."""
        seen = list[tuple[Signals | None, datetime]]()
        expected = list[tuple[Signals | None, datetime]]()
        before: Signals | None = None

        def change(known: Signals | None, now: datetime) -> Signals:
            seen.append((known, now))
            return attrs.evolve(known or Signals(name="a"), at=(0 if known is None else known.at) + 1)

        for _ in range(3):
            clock.advance("1ms")
            expected.append((before, clock.now()))
            before = store.change("a", change)
            assert before == store.get("a")
        assert expected == seen

    def test_change_that_raises_changes_nothing(self, store: SignalStore) -> None:
        """Its error comes out; neither is a record made by it."""
        before = store.change("a", adding("sent"))
        for name in ("a", "b"):
            with pytest.raises(ZeroDivisionError):
                store.change(name, lambda _, __: 1 / 0)  # type: ignore[arg-type, return-value]
        assert (before, None) == (store.get("a"), store.get("b"))
        assert _count(store.change("a", adding("sent")), "sent") == 2

    @pytest.mark.parametrize("name", NO_KEYS)
    def test_name_that_is_no_key_is_refused(self, store: SignalStore, name: Any) -> None:
        """Before anything is touched."""
        calls: list[Callable[[], object]] = [
            partial(store.get, name),
            partial(store.change, name, adding("sent")),
            partial(store.mend, name),
        ]
        for call in calls:
            with pytest.raises(InvalidMessageError, match=r"^the name "):
                call()

    def test_hostile_names_are_kept_apart(self, store: SignalStore) -> None:
        """Each has a record of its own."""
        for number, name in enumerate(KEYS):
            store.change(name, _keeping(Signals(name=name, at=number)))
        assert [Signals(name=name, at=number) for number, name in enumerate(KEYS)] == [store.get(name) for name in KEYS]

    def test_names_of_all_records_are_listed_in_order(self, store: SignalStore) -> None:
        """Under which they are kept, whatever stands in them; none that was only asked for."""
        assert [] == list(store.names())
        store.get("asked for")
        for name in reversed(KEYS):
            store.change(name, _keeping(full_signals()))
        store.change(KEYS[0], adding("sent"))
        assert sorted(KEYS) == list(store.names())

    def test_record_that_can_be_read_is_not_mended(self, store: SignalStore) -> None:
        """It stays as it is, and where there is none, none is made."""
        expected = store.change("a", _keeping(full_signals()))
        assert [False, False] == [store.mend("a"), store.mend("b")]
        assert (expected, None, ["a"]) == (store.get("a"), store.get("b"), list(store.names()))

    def test_hostile_text_comes_back_or_is_escaped(self, store: SignalStore) -> None:
        """Wherever one may stand."""
        for text in (*TEXTS, "why \ud800"):
            expected = full_signals(text=text)
            assert escaped(expected) == escaped(store.change("a", _keeping(expected))) == escaped(store.get("a"))

    @needs("megabyte")
    def test_record_of_a_megabyte_is_kept(self, store: SignalStore) -> None:
        """Somebody's codes are long."""
        expected = attrs.evolve(full_signals(), seen=tuple(f"{number:09}{'x' * 191}" for number in range(5000)))
        assert expected == store.change("a", _keeping(expected)) == store.get("a")

    @needs("reopen")
    def test_record_is_found_by_whoever_opens_the_store_again(
        self, store: SignalStore, opened: Callable[[Place], SignalStore], place: Place
    ) -> None:
        """As it stood."""
        expected = store.change("a", _keeping(full_signals()))
        assert expected == opened(place).get("a")

    def test_write_interrupted_in_the_middle_is_done_or_not(self, store: SignalStore, clock: SuiteClock) -> None:
        """Never half."""
        expected = store.change("a", adding("sent"))
        for is_done in broken_at_each_step(clock, lambda: store.change("a", adding("sent"))):
            now = store.get("a")
            assert now is not None
            assert now in (expected, adding("sent")(expected, clock.now()))
            assert not is_done or now != expected
            expected = now

    @needs("async")
    def test_operation_cancelled_is_done_or_not_and_the_next_gets_its_own_answer(self, store: SignalStore) -> None:
        """An answer that nobody waits for any more is not taken for that of the next operation."""
        for ticks in range(TICKS):
            before = _count(store.get("a"), "sent")
            changed = call_cancelled(store, ticks, "change", "a", adding("sent"))
            assert store.get("other") is None
            after = store.get("a")
            assert changed in (None, after)
            assert _count(after, "sent") in (before, before + 1)
            call_cancelled(store, ticks, "get", "other")
            assert after == store.get("a")

    @needs("reopen", "processes")
    def test_signals_of_killed_processes_are_there(self, store: SignalStore, place: Place, colour: str) -> None:
        """Everything that was acknowledged."""
        said = said_before_kill(self, place, "add_without_end", colour)
        known = store.get("all")
        latest = {by: max(count for who, count in said if who == by) for by, _ in said}
        for by, count in latest.items():
            assert count <= _count(known, by) <= count + 1
        assert _count(store.change("all", adding("after")), "after") == 1

    def test_many_threads_changing_one_record_no_change_is_lost(self, store: SignalStore) -> None:
        """Each sees what the ones before have done."""

        def work(number: int) -> None:
            for _ in range(_TURNS):
                store.change("a", adding(f"{number}"))

        in_threads(work)
        known = store.get("a")
        assert known is not None
        assert {f"{number}": _TURNS for number in range(THREADS)} == known.buckets[1]
        assert known.at == THREADS * _TURNS

    @needs("processes")
    def test_many_processes_changing_one_record_no_change_is_lost(
        self, store: SignalStore, place: Place, colour: str
    ) -> None:
        """The same."""
        work: list[dict[str, JSON]] = [{"by": f"process {number}", "times": 20} for number in range(PROCESSES)]
        in_processes(self, place, "add_many", colour, work)
        known = store.get("all")
        assert known is not None
        assert {f"process {number}": 20 for number in range(PROCESSES)} == known.buckets[1]

    @pytest.mark.timeout(300)
    def test_any_sequence_of_operations_gives_what_the_model_gives(self, fresh: Fresh[SignalStore]) -> None:
        """The memory store is the model."""
        compare(lambda: SignalModel(fresh()), is_async=self.is_async, at_most=25)
