"""The circuit store: what is switched off for the whole fleet.

A pause is a circuit keyed ``campaign:x``, ``provider:y`` or ``tenant:z`` that a person has isolated, with the reason, by whom and
until when. A pause that is over is the same as none. A circuit that a breaker opened has the breaker's name: all processes
that share the store open it together, and together let no more probes through than one process would.

Guarantees every store has to give:

- each operation is atomic: of many that resume a pause one is told that it was in force;
- time is the store's own: a pause ends at its `until`, never before;
- keys and names are ordered by their code points;
- of many that open a circuit at once one does, and the generation grows once;
- no more probes than `limit` are on their way at any time; one that does not come back is given again when its lease ends, and
  its late result changes nothing;
- a circuit that has been closed for more than a day, and of which nothing is reported, is as if it had never been;
- every operation may be repeated after a lost answer.
"""

from __future__ import annotations

import abc
from collections.abc import Awaitable, Sequence
from datetime import datetime
from typing import Final, final

import attrs

from .._steps import Steps, arun, do, run
from ..checks import check_limit
from ..errors import ConfigurationError
from ..lease import Lease
from ..machines.circuit import Circuit
from ..message import check_id
from ..times import Duration, seconds, utc

__all__ = ["AsyncCircuitStore", "Circuit", "CircuitStore", "Pause"]


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

    @abc.abstractmethod
    def _trip(self, name: str, by: str, recovery: float) -> Awaitable[Circuit] | Circuit: ...

    @abc.abstractmethod
    def _lease_probe(
        self, name: str, owner: str, limit: int, length: float
    ) -> Awaitable[Lease | None] | Lease | None: ...

    @abc.abstractmethod
    def _record_probe(
        self, name: str, token: int, succeeded: bool | None, close_after: int, recovery: float
    ) -> Awaitable[Circuit | None] | Circuit | None: ...

    @abc.abstractmethod
    def _reset(self, name: str) -> Awaitable[bool] | bool: ...

    @abc.abstractmethod
    def _report(
        self, name: str, instance: str, calls: int, failures: int, length: float
    ) -> Awaitable[Circuit] | Circuit: ...

    @abc.abstractmethod
    def _circuits(self) -> Awaitable[Sequence[Circuit]] | Sequence[Circuit]: ...

    def _pause_flow(self, key: str, reason: str, by: str, until: datetime | None) -> Steps[Pause]:
        return (yield from do(self._pause, _checked(key), reason, by, _utc(until)))

    def _resume_flow(self, key: str) -> Steps[bool]:
        return (yield from do(self._resume, _checked(key)))

    def _pauses_flow(self) -> Steps[Sequence[Pause]]:
        return (yield from do(self._pauses))

    def _trip_flow(self, name: str, by: str, recovery: Duration) -> Steps[Circuit]:
        length = seconds(recovery, "recovery", positive=True)
        return (yield from do(self._trip, check_id(name, "name"), by, length))

    def _lease_probe_flow(self, name: str, owner: str, limit: int, lease: Duration) -> Steps[Lease | None]:
        length = seconds(lease, "lease", positive=True)
        return (yield from do(self._lease_probe, check_id(name, "name"), owner, check_limit(limit), length))

    def _record_probe_flow(
        self, name: str, token: int, succeeded: bool | None, close_after: int, recovery: Duration
    ) -> Steps[Circuit | None]:
        length = seconds(recovery, "recovery", positive=True)
        enough = check_limit(close_after, "close_after")
        return (yield from do(self._record_probe, check_id(name, "name"), token, succeeded, enough, length))

    def _reset_flow(self, name: str) -> Steps[bool]:
        return (yield from do(self._reset, check_id(name, "name")))

    def _report_flow(self, name: str, instance: str, calls: int, failures: int, length: Duration) -> Steps[Circuit]:
        if not 0 <= failures <= calls:
            raise ConfigurationError(
                f"{failures!r} failures of {calls!r} calls cannot be; allowed is 0 <= failures <= calls"
            )
        kept = seconds(length, "length", positive=True)
        return (
            yield from do(self._report, check_id(name, "name"), check_id(instance, "instance"), calls, failures, kept)
        )

    def _circuits_flow(self) -> Steps[Sequence[Circuit]]:
        return (yield from do(self._circuits))


class CircuitStore(_Circuits):
    """Pauses and circuits, for synchronous callers. Subclass it and write the nine primitives.

    The pure functions of `retrykit.machines.circuit` say what each operation does to a circuit.
    """

    @abc.abstractmethod
    def _pause(self, key: str, reason: str, by: str, until: datetime | None) -> Pause: ...

    @abc.abstractmethod
    def _resume(self, key: str) -> bool: ...

    @abc.abstractmethod
    def _pauses(self) -> Sequence[Pause]: ...

    @abc.abstractmethod
    def _trip(self, name: str, by: str, recovery: float) -> Circuit: ...

    @abc.abstractmethod
    def _lease_probe(self, name: str, owner: str, limit: int, length: float) -> Lease | None: ...

    @abc.abstractmethod
    def _record_probe(
        self, name: str, token: int, succeeded: bool | None, close_after: int, recovery: float
    ) -> Circuit | None: ...

    @abc.abstractmethod
    def _reset(self, name: str) -> bool: ...

    @abc.abstractmethod
    def _report(self, name: str, instance: str, calls: int, failures: int, length: float) -> Circuit: ...

    @abc.abstractmethod
    def _circuits(self) -> Sequence[Circuit]: ...

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

    @final
    def trip(self, name: str, *, by: str, recovery: Duration) -> Circuit:
        """Open a circuit for the whole fleet.

        Args:
            name: the breaker's, 1 to 255 characters.
            by: which process opens it.
            recovery: for how long, > 0, until it may be probed.

        Returns:
            The circuit, open; as it was where somebody had opened it before.
        """
        return run(self._trip_flow(name, by, recovery))

    @final
    def lease_probe(self, name: str, *, owner: str, limit: int = 1, lease: Duration = 30.0) -> Lease | None:
        """Ask for a probe of an open circuit.

        Args:
            name: the breaker's.
            owner: who probes; a name of its own for every probe, since the same owner is given its lease again.
            limit: probes that may be on their way at once, in the whole fleet, >= 1.
            lease: for how long the probe may take, > 0; afterwards it is taken for lost.

        Returns:
            The lease; None where the circuit is closed, its recovery is not over, or enough probes are on their way.
        """
        return run(self._lease_probe_flow(name, owner, limit, lease))

    @final
    def record_probe(
        self, name: str, token: int, *, succeeded: bool | None, close_after: int = 1, recovery: Duration = 60.0
    ) -> Circuit | None:
        """Say what a probe found, and give its lease back.

        Args:
            name: the breaker's.
            token: of the lease.
            succeeded: False opens the circuit again, True counts towards closing it, None tells nothing.
            close_after: successes that close the circuit, >= 1.
            recovery: for how long a failure opens it again, > 0.

        Returns:
            The circuit afterwards; None, and nothing changes, where the probe is not on its way any more.
        """
        return run(self._record_probe_flow(name, token, succeeded, close_after, recovery))

    @final
    def reset(self, name: str) -> bool:
        """Close a circuit by hand; False when it was not open."""
        return run(self._reset_flow(name))

    @final
    def report(self, name: str, *, instance: str, calls: int, failures: int, length: Duration) -> Circuit:
        """Say what one process counted, in place of what it said before.

        Args:
            name: the breaker's.
            instance: which process, 1 to 255 characters.
            calls: how many calls its window holds.
            failures: how many of them failed, at most all.
            length: for how long this counts, > 0.

        Returns:
            The circuit; `counted` gives the sums of the whole fleet.
        """
        return run(self._report_flow(name, instance, calls, failures, length))

    @final
    def circuits(self) -> Sequence[Circuit]:
        """Return the circuits by name: the open ones, and for a day those that were closed."""
        return run(self._circuits_flow())


class AsyncCircuitStore(_Circuits):
    """`CircuitStore` for asynchronous callers: the same names, answers and guarantees."""

    @abc.abstractmethod
    async def _pause(self, key: str, reason: str, by: str, until: datetime | None) -> Pause: ...

    @abc.abstractmethod
    async def _resume(self, key: str) -> bool: ...

    @abc.abstractmethod
    async def _pauses(self) -> Sequence[Pause]: ...

    @abc.abstractmethod
    async def _trip(self, name: str, by: str, recovery: float) -> Circuit: ...

    @abc.abstractmethod
    async def _lease_probe(self, name: str, owner: str, limit: int, length: float) -> Lease | None: ...

    @abc.abstractmethod
    async def _record_probe(
        self, name: str, token: int, succeeded: bool | None, close_after: int, recovery: float
    ) -> Circuit | None: ...

    @abc.abstractmethod
    async def _reset(self, name: str) -> bool: ...

    @abc.abstractmethod
    async def _report(self, name: str, instance: str, calls: int, failures: int, length: float) -> Circuit: ...

    @abc.abstractmethod
    async def _circuits(self) -> Sequence[Circuit]: ...

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

    @final
    async def trip(self, name: str, *, by: str, recovery: Duration) -> Circuit:
        """Open a circuit for the whole fleet, as `CircuitStore.trip`."""
        return await arun(self._trip_flow(name, by, recovery))

    @final
    async def lease_probe(self, name: str, *, owner: str, limit: int = 1, lease: Duration = 30.0) -> Lease | None:
        """Ask for a probe of an open circuit, as `CircuitStore.lease_probe`."""
        return await arun(self._lease_probe_flow(name, owner, limit, lease))

    @final
    async def record_probe(
        self, name: str, token: int, *, succeeded: bool | None, close_after: int = 1, recovery: Duration = 60.0
    ) -> Circuit | None:
        """Say what a probe found, as `CircuitStore.record_probe`."""
        return await arun(self._record_probe_flow(name, token, succeeded, close_after, recovery))

    @final
    async def reset(self, name: str) -> bool:
        """Close a circuit by hand, as `CircuitStore.reset`."""
        return await arun(self._reset_flow(name))

    @final
    async def report(self, name: str, *, instance: str, calls: int, failures: int, length: Duration) -> Circuit:
        """Say what one process counted, as `CircuitStore.report`."""
        return await arun(self._report_flow(name, instance, calls, failures, length))

    @final
    async def circuits(self) -> Sequence[Circuit]:
        """Return the circuits by name, as `CircuitStore.circuits`."""
        return await arun(self._circuits_flow())
