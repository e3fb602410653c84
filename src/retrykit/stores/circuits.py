"""The circuit store: what is switched off for the whole fleet.

Today it holds pauses: a circuit keyed ``campaign:x``, ``provider:y`` or ``tenant:z`` that a person has isolated, with the reason, by
whom and until when. A pause that is over is the same as none.

Guarantees every store has to give:

- each operation is atomic: of many that resume a pause one is told that it was in force;
- time is the store's own: a pause ends at its `until`, never before;
- keys are ordered by their code points;
- every operation may be repeated after a lost answer.
"""

from __future__ import annotations

import abc
from collections.abc import Awaitable, Sequence
from datetime import datetime
from typing import Final, final

import attrs

from .._steps import Steps, arun, do, run
from ..errors import ConfigurationError
from ..message import check_id
from ..times import utc

__all__ = ["AsyncCircuitStore", "CircuitStore", "Pause"]


KINDS: Final = ("campaign", "provider", "tenant")
"""What can be paused: the messages whose attribute ``campaign_id``, ``provider`` or ``tenant`` is the rest of the key."""


def _checked(key: str) -> str:
    kind, separator, name = check_id(key, "key").partition(":")
    if kind not in KINDS or not separator or not name:
        allowed = ", ".join(f"'{kind}:<name>'" for kind in KINDS)
        raise ConfigurationError(f"the key of a pause is {key!r}; allowed are {allowed}")
    return key


def _utc(instant: datetime | None) -> datetime | None:
    return None if instant is None else utc(instant, "until")


@attrs.frozen(kw_only=True)
class Pause:
    """One circuit that is switched off."""

    key: str
    """``campaign:<id>``, ``provider:<name>`` or ``tenant:<name>``."""
    reason: str
    by: str
    """Who switched it off."""
    since: datetime
    until: datetime | None = None
    """When it ends by itself; None: when it is resumed."""


class _Circuits(abc.ABC):
    """The one logic of both colours: check, then call the primitive."""

    @abc.abstractmethod
    def _pause(self, key: str, reason: str, by: str, until: datetime | None) -> Awaitable[Pause] | Pause: ...

    @abc.abstractmethod
    def _resume(self, key: str) -> Awaitable[bool] | bool: ...

    @abc.abstractmethod
    def _pauses(self) -> Awaitable[Sequence[Pause]] | Sequence[Pause]: ...

    def _pause_flow(self, key: str, reason: str, by: str, until: datetime | None) -> Steps[Pause]:
        return (yield from do(self._pause, _checked(key), reason, by, _utc(until)))

    def _resume_flow(self, key: str) -> Steps[bool]:
        return (yield from do(self._resume, _checked(key)))

    def _pauses_flow(self) -> Steps[Sequence[Pause]]:
        return (yield from do(self._pauses))


class CircuitStore(_Circuits):
    """Pauses, for synchronous callers. Subclass it and write the three primitives."""

    @abc.abstractmethod
    def _pause(self, key: str, reason: str, by: str, until: datetime | None) -> Pause: ...

    @abc.abstractmethod
    def _resume(self, key: str) -> bool: ...

    @abc.abstractmethod
    def _pauses(self) -> Sequence[Pause]: ...

    @final
    def pause(self, key: str, *, reason: str, by: str, until: datetime | None = None) -> Pause:
        """Switch `key` off; a pause that exists is replaced.

        Args:
            key: ``campaign:<id>``, ``provider:<name>`` or ``tenant:<name>``.
            reason: why, for those who find it.
            by: who.
            until: aware; None: until it is resumed. What has passed already ends the pause that is replaced.

        Returns:
            The pause, in force from now on.

        Raises:
            ConfigurationError: the key is of another form, or `until` is naive.
        """
        return run(self._pause_flow(key, reason, by, until))

    @final
    def resume(self, key: str) -> bool:
        """Switch `key` on again; False when it was not paused."""
        return run(self._resume_flow(key))

    @final
    def pauses(self) -> Sequence[Pause]:
        """Return the pauses in force, by key."""
        return run(self._pauses_flow())


class AsyncCircuitStore(_Circuits):
    """`CircuitStore` for asynchronous callers: the same names, answers and guarantees."""

    @abc.abstractmethod
    async def _pause(self, key: str, reason: str, by: str, until: datetime | None) -> Pause: ...

    @abc.abstractmethod
    async def _resume(self, key: str) -> bool: ...

    @abc.abstractmethod
    async def _pauses(self) -> Sequence[Pause]: ...

    @final
    async def pause(self, key: str, *, reason: str, by: str, until: datetime | None = None) -> Pause:
        """Switch `key` off, as `CircuitStore.pause`."""
        return await arun(self._pause_flow(key, reason, by, until))

    @final
    async def resume(self, key: str) -> bool:
        """Switch `key` on again; False when it was not paused."""
        return await arun(self._resume_flow(key))

    @final
    async def pauses(self) -> Sequence[Pause]:
        """Return the pauses in force, by key."""
        return await arun(self._pauses_flow())
