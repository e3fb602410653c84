"""What goes wrong between a store and its server, in the words of the contract."""

from __future__ import annotations

from typing import Final

import psycopg
from psycopg import errors

from ...errors import StoreCorruptError, StoreError, StoreUnavailableError

__all__ = ["is_conflict", "translated"]

_ADVICE: Final[tuple[tuple[tuple[type[psycopg.Error], ...], str], ...]] = (
    ((errors.ReadOnlySqlTransaction,), "it can only be read there; connect to the primary server"),
    ((errors.InsufficientPrivilege,), "give the user the rights that it lacks"),
    (
        (errors.QueryCanceled, errors.LockNotAvailable),
        "it took longer than the server lets a statement take; try again",
    ),
    (
        (errors.SerializationFailure, errors.DeadlockDetected),
        "another transaction was in the way; repeat the transaction",
    ),
    (
        (errors.UndefinedTable, errors.InvalidSchemaName, errors.UndefinedColumn, errors.UndefinedFunction),
        "run: retrykit migrate",
    ),
)

_UNAVAILABLE: Final = (
    psycopg.OperationalError,
    psycopg.InterfaceError,
    errors.ReadOnlySqlTransaction,
    errors.IdleInTransactionSessionTimeout,
)


def is_conflict(error: psycopg.Error) -> bool:
    """Tell whether nothing happened because another transaction was in the way, so that the operation may be repeated at once."""
    return isinstance(error, (errors.SerializationFailure, errors.DeadlockDetected))


def translated(error: psycopg.Error, schema: str) -> StoreError:
    """Return the contract's error for one of the driver's. It quotes no values."""
    lines = (error.diag.message_primary or str(error)).splitlines()
    said = lines[0] if lines else type(error).__name__
    advice = next((advice for kinds, advice in _ADVICE if isinstance(error, kinds)), None)
    if isinstance(error, (errors.DataCorrupted, errors.IndexCorrupted)):
        return StoreCorruptError(f"the schema {schema!r} is damaged ({said}); restore it from a backup")
    kind = StoreUnavailableError if isinstance(error, _UNAVAILABLE) else StoreError
    if advice is None and kind is StoreUnavailableError:
        advice = "check that the server runs and can be reached, and try again"
    return kind(f"the schema {schema!r} cannot be used now: {said}" + (f"; {advice}" if advice else ""))
