"""A breaker's circuit as the whole fleet sees it: one record, and how it changes.

Every function is pure: it takes the record and the store's `now`, and returns the next record. A store only has to apply one of
them atomically. Who opens a circuit, who may probe it and what the probes found is decided here, once for all processes.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final, TypeVar, cast

import attrs

from ..codec import JSON
from ..lease import Lease
from ..times import from_millis, later, to_millis

__all__ = ["Circuit", "close", "is_forgotten", "keep_until", "lease_probe", "record_probe", "report", "trip"]

T = TypeVar("T")

_KEPT: Final = timedelta(days=1)
"""For so long a closed circuit is remembered: longer than any process goes without looking."""


@attrs.frozen
class Report:
    """What one process counted."""

    instance: str
    calls: int
    failures: int
    until: datetime
    """Afterwards it counts no more."""


@attrs.frozen(kw_only=True)
class Circuit:
    """Where a breaker stands for the whole fleet."""

    name: str
    generation: int = 0
    """Grows with every opening and closing."""
    is_open: bool = False
    opens: int = 0
    """How often it opened since it was last closed."""
    open_until: datetime | None = None
    """From then on it may be probed."""
    by: str | None = None
    """Which process opened it."""
    changed_at: datetime
    proofs: int = 0
    """Probes that succeeded since it opened."""
    last_token: int = 0
    probes: tuple[Lease, ...] = ()
    """The probes that are on their way."""
    reports: tuple[Report, ...] = ()

    @property
    def counted(self) -> tuple[int, int]:
        """How many calls and failures the fleet had reported, as far as they counted when the latest report came."""
        return sum(each.calls for each in self.reports), sum(each.failures for each in self.reports)

    def to_dict(self) -> dict[str, JSON]:
        """Return the record as JSON values, instants in epoch milliseconds."""
        return {
            "name": self.name,
            "generation": self.generation,
            "is_open": self.is_open,
            "opens": self.opens,
            "open_until": None if self.open_until is None else to_millis(self.open_until),
            "by": self.by,
            "changed_at": to_millis(self.changed_at),
            "proofs": self.proofs,
            "last_token": self.last_token,
            "probes": [[lease.owner, lease.token, to_millis(lease.deadline)] for lease in self.probes],
            "reports": [[each.instance, each.calls, each.failures, to_millis(each.until)] for each in self.reports],
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, JSON]) -> Circuit:
        """Make a record of what `to_dict` gave.

        Raises:
            KeyError, TypeError, ValueError, OverflowError: it is no such thing.
        """
        open_until, by = fields["open_until"], fields["by"]
        probes = [
            (_typed(owner, str), _typed(token, int), _instant(end)) for owner, token, end in _rows(fields, "probes")
        ]
        reports = [
            (_typed(instance, str), _typed(calls, int), _typed(failures, int), _instant(until))
            for instance, calls, failures, until in _rows(fields, "reports")
        ]
        return cls(
            name=_typed(fields["name"], str),
            generation=_typed(fields["generation"], int),
            is_open=_typed(fields["is_open"], bool),
            opens=_typed(fields["opens"], int),
            open_until=None if open_until is None else _instant(open_until),
            by=None if by is None else _typed(by, str),
            changed_at=_instant(fields["changed_at"]),
            proofs=_typed(fields["proofs"], int),
            last_token=_typed(fields["last_token"], int),
            probes=tuple(Lease(*each) for each in probes),
            reports=tuple(Report(*each) for each in reports),
        )


def _typed(value: object, kind: type[T]) -> T:
    """Return a value if it is of its type: one that is not would be met far from here."""
    if type(value) is not kind:
        raise TypeError(f"{value!r} is not {kind.__name__}")
    return value


def _instant(value: object) -> datetime:
    return from_millis(_typed(value, int))


def _rows(fields: Mapping[str, JSON], name: str) -> list[list[object]]:
    return cast("list[list[object]]", _typed(fields[name], list))


def trip(circuit: Circuit | None, name: str, *, by: str, recovery: float, now: datetime) -> Circuit:
    """Open a circuit; one that is open already stays as it is, whoever opened it."""
    circuit = _known(circuit, name, now)
    return circuit if circuit.is_open else _opened(circuit, by, recovery, now)


def lease_probe(
    circuit: Circuit | None, *, owner: str, limit: int, length: float, now: datetime
) -> tuple[Circuit | None, Lease | None]:
    """Let somebody probe an open circuit whose recovery is over; return the record to store, if any, and the lease.

    A repeated request by the same owner, whose first answer was lost, is granted the same lease again.
    """
    if circuit is None or not circuit.is_open or circuit.open_until is None or circuit.open_until > now:
        return None, None
    live = tuple(lease for lease in circuit.probes if not lease.is_over(now))
    held = next((lease for lease in live if lease.owner == owner), None)
    if held is not None or len(live) >= limit:
        return None, held
    lease = Lease.granted(owner, circuit.last_token + 1, now, length)
    return attrs.evolve(circuit, last_token=lease.token, probes=(*live, lease)), lease


def record_probe(
    circuit: Circuit | None,
    token: int,
    *,
    succeeded: bool | None,
    close_after: int,
    recovery: float,
    now: datetime,
) -> Circuit | None:
    """Take in what a probe found: None when it is not on its way any more, and then nothing changes.

    Args:
        circuit: as it is stored.
        token: of the probe's lease.
        succeeded: None gives the lease back without a result.
        close_after: successes that close the circuit.
        recovery: for how long, in seconds, a failure opens it again.
        now: the store's.
    """
    lease = next((each for each in circuit.probes if each.token == token), None) if circuit is not None else None
    if circuit is None or lease is None or lease.is_over(now):
        return None
    if succeeded is False:
        return _opened(circuit, lease.owner, recovery, now)
    circuit = attrs.evolve(circuit, probes=tuple(each for each in circuit.probes if each.token != token))
    if succeeded is None:
        return circuit
    circuit = attrs.evolve(circuit, proofs=circuit.proofs + 1)
    return close(circuit, now=now) if circuit.proofs >= close_after else circuit


def close(circuit: Circuit, *, now: datetime) -> Circuit:
    """Close a circuit and forget what was reported; one that is closed stays as it is."""
    if not circuit.is_open:
        return circuit
    return attrs.evolve(
        circuit,
        generation=circuit.generation + 1,
        is_open=False,
        opens=0,
        open_until=None,
        changed_at=now,
        proofs=0,
        probes=(),
        reports=(),
    )


def report(
    circuit: Circuit | None, name: str, *, instance: str, calls: int, failures: int, length: float, now: datetime
) -> Circuit:
    """Take in what a process counted, in place of what it reported before; it counts for `length` seconds."""
    circuit = _known(circuit, name, now)
    others = tuple(each for each in circuit.reports if each.instance != instance and each.until > now)
    return attrs.evolve(circuit, reports=(*others, Report(instance, calls, failures, later(now, length))))


def is_forgotten(circuit: Circuit, now: datetime) -> bool:
    """Tell whether a circuit has been closed for so long that nobody needs to know of it."""
    kept_until = keep_until(circuit)
    return kept_until is not None and kept_until < now


def keep_until(circuit: Circuit) -> datetime | None:
    """Return the instant after which a circuit is forgotten; None: it is open."""
    if circuit.is_open:
        return None
    ends = (
        each.until - timedelta(milliseconds=1) for each in circuit.reports
    )  # a report counts until then, not longer
    return max((later(circuit.changed_at, _KEPT.total_seconds()), *ends))


def _known(circuit: Circuit | None, name: str, now: datetime) -> Circuit:
    """Return a record to go on from: a new one also where a store still has what is forgotten."""
    return Circuit(name=name, changed_at=now) if circuit is None or is_forgotten(circuit, now) else circuit


def _opened(circuit: Circuit, by: str, recovery: float, now: datetime) -> Circuit:
    return attrs.evolve(
        circuit,
        generation=circuit.generation + 1,
        is_open=True,
        opens=circuit.opens + 1,
        open_until=later(now, recovery),
        by=by,
        changed_at=now,
        proofs=0,
        probes=(),
        reports=(),
    )
