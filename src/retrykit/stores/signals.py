"""The signal store: what the processes of a fleet have met lately, and which alerts are in force.

One record for each name, changed by pure functions (`retrykit.machines.signals`): a monitor adds what its process counted and judges
the sums in the same step, so that of many processes one decides that an alert fires, and one tells people.

Guarantees every store has to give:

- each change is atomic: it sees all that was changed before it, whoever did it, and is seen whole or not at all;
- time is the store's own, and it is given to the change;
- a change that raises changes nothing;
- names are told apart to the letter;
- a record that cannot be read is an error, whoever reads or changes it, and is taken away by `mend` alone.
"""

from __future__ import annotations

import abc
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import TypeAlias, final

from .._steps import Steps, arun, do, run
from ..machines.signals import Signals
from ..message import check_id

__all__ = ["AsyncSignalStore", "SignalChange", "SignalStore", "Signals"]

SignalChange: TypeAlias = Callable[[Signals | None, datetime], Signals]
"""A change of a record: pure, of the record, or None where there is none, and the store's `now`."""


class _Signals(abc.ABC):
    """The one logic of both colours: check, then call the primitive."""

    @abc.abstractmethod
    def _change(self, name: str, change: SignalChange) -> Awaitable[Signals] | Signals: ...

    @abc.abstractmethod
    def _get(self, name: str) -> Awaitable[Signals | None] | Signals | None: ...

    @abc.abstractmethod
    def _names(self) -> Awaitable[Sequence[str]] | Sequence[str]: ...

    @abc.abstractmethod
    def _mend(self, name: str) -> Awaitable[bool] | bool: ...

    def _change_flow(self, name: str, change: SignalChange) -> Steps[Signals]:
        return (yield from do(self._change, check_id(name, "name"), change))

    def _get_flow(self, name: str) -> Steps[Signals | None]:
        return (yield from do(self._get, check_id(name, "name")))

    def _names_flow(self) -> Steps[Sequence[str]]:
        return sorted((yield from do(self._names)))

    def _mend_flow(self, name: str) -> Steps[bool]:
        return (yield from do(self._mend, check_id(name, "name")))


class SignalStore(_Signals):
    """Records of signals, for synchronous callers. Subclass it and write the four primitives."""

    @abc.abstractmethod
    def _change(self, name: str, change: SignalChange) -> Signals: ...

    @abc.abstractmethod
    def _get(self, name: str) -> Signals | None: ...

    @abc.abstractmethod
    def _names(self) -> Sequence[str]: ...

    @abc.abstractmethod
    def _mend(self, name: str) -> bool: ...

    @final
    def change(self, name: str, change: SignalChange) -> Signals:
        """Apply a pure function to a record, and return it as it is afterwards.

        Args:
            name: which record, 1 to 255 characters.
            change: may be called more than once before one of its results is kept.

        Raises:
            InvalidMessageError: the name can be no key.
            StoreCorruptError: what stands there cannot be read.
        """
        return run(self._change_flow(name, change))

    @final
    def get(self, name: str) -> Signals | None:
        """Return a record, or None when there is none of that name.

        Raises:
            StoreCorruptError: what stands there cannot be read.
        """
        return run(self._get_flow(name))

    @final
    def names(self) -> Sequence[str]:
        """Return the names of all records, sorted; also of those that cannot be read."""
        return run(self._names_flow())

    @final
    def mend(self, name: str) -> bool:
        """Take away a record that cannot be read, and tell whether that was done; one that can be read stays as it is.

        What stands there is looked at and taken away in one step: of many processes that meet a damaged record one takes it away, and
        none takes away what the others have begun anew.

        Raises:
            InvalidMessageError: the name can be no key.
        """
        return run(self._mend_flow(name))


class AsyncSignalStore(_Signals):
    """`SignalStore` for asynchronous callers: the same names, answers and guarantees."""

    @abc.abstractmethod
    async def _change(self, name: str, change: SignalChange) -> Signals: ...

    @abc.abstractmethod
    async def _get(self, name: str) -> Signals | None: ...

    @abc.abstractmethod
    async def _names(self) -> Sequence[str]: ...

    @abc.abstractmethod
    async def _mend(self, name: str) -> bool: ...

    @final
    async def change(self, name: str, change: SignalChange) -> Signals:
        """Apply a pure function to a record, as `SignalStore.change`."""
        return await arun(self._change_flow(name, change))

    @final
    async def get(self, name: str) -> Signals | None:
        """Return a record, or None when there is none of that name."""
        return await arun(self._get_flow(name))

    @final
    async def names(self) -> Sequence[str]:
        """Return the names of all records, sorted, as `SignalStore.names`."""
        return await arun(self._names_flow())

    @final
    async def mend(self, name: str) -> bool:
        """Take away a record that cannot be read, as `SignalStore.mend`."""
        return await arun(self._mend_flow(name))
