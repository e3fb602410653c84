"""What goes wrong between a store and its server, in the words of the contract."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...errors import StoreCorruptError, StoreError, StoreUnavailableError

if TYPE_CHECKING:
    import psycopg

__all__ = ["is_conflict", "translated"]

_CONFLICTS: Final = ("40001", "40P01")
"""SQLSTATE of a serialization failure, of a deadlock."""
_DAMAGED: Final = ("XX001", "XX002")
"""Of data, of an index."""
_READ_ONLY: Final = "25006"
_IDLE_TOO_LONG: Final = "25P03"

_ADVICE: Final = {
    _READ_ONLY: "it can only be read there; connect to the primary server",
    "42501": "give the user the rights that it lacks",
    "53100": "the server's disk is full: make room, or purge what is settled",
    **dict.fromkeys(  # a statement cancelled, a lock not available
        ("57014", "55P03"), "it took longer than the server lets a statement take; try again"
    ),
    **dict.fromkeys(_CONFLICTS, "another transaction was in the way; repeat the transaction"),
    **dict.fromkeys(  # a table, schema, column or function that is not there
        ("42P01", "3F000", "42703", "42883"), "run: retrykit migrate"
    ),
}
"""What to do, by SQLSTATE. Source: PostgreSQL, appendix "PostgreSQL Error Codes"."""


def is_conflict(error: psycopg.Error) -> bool:
    """Tell whether nothing happened because another transaction was in the way, so that the operation may be repeated at once."""
    return error.sqlstate in _CONFLICTS


def translated(error: psycopg.Error, schema: str) -> StoreError:
    """Return the contract's error for one of the driver's. It quotes no values."""
    import psycopg

    lines = (error.diag.message_primary or str(error)).splitlines()
    said = lines[0] if lines else type(error).__name__
    if error.sqlstate in _DAMAGED:
        return StoreCorruptError(f"the schema {schema!r} is damaged ({said}); restore it from a backup")
    away = isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError))
    kind = StoreUnavailableError if away or error.sqlstate in (_READ_ONLY, _IDLE_TOO_LONG) else StoreError
    advice = _ADVICE.get(error.sqlstate or "")
    if advice is None and kind is StoreUnavailableError:
        advice = "check that the server runs and can be reached, and try again"
    return kind(f"the schema {schema!r} cannot be used now: {said}" + (f"; {advice}" if advice else ""))
