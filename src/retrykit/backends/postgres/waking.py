"""Waiting for what is due: until the first waiting message is, or until the server tells of one that is due sooner.

Who schedules a message that is due soon tells so, unless it has done so a moment ago, and whoever waits waits no longer than for that
one. Who took something looks once more a moment later, and so finds what nobody was told of. Everything else is late by no more than one
wait.

PgBouncer in transaction mode lends a session for one transaction only, and nobody could be told anything in it. It gives each client a
process number of its own, by which it is noticed.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from .database import Schema, drive, drive_async, plain_async_cursor, plain_cursor
from .faults import translated
from .retries import TOLD_WITHIN
from .statements import NOW, Flow, Statement

if TYPE_CHECKING:
    from .connections import AsyncConnections, Connections

__all__ = ["told_if_due", "told_if_due_async"]

_PAUSE: Final = 50
"""Milliseconds to wait at the least: what is due and was not taken is in somebody's hands."""

_SESSION: Final = "SELECT pg_backend_pid()"
_FIRST: Final = f"SELECT min(ready_at) - {NOW} FROM retrykit.retries"


class _Wait:
    """How much longer to wait.

    Args:
        most: seconds, at the most.
        first: milliseconds until the first message is due, or None where none waits.
    """

    def __init__(self, most: float, first: int | None) -> None:
        self._ends = time.monotonic() + min(most, TOLD_WITHIN)
        if first is not None:
            self.until(max(first, _PAUSE))

    @property
    def left(self) -> float:
        """Seconds, 0 at the least."""
        return max(0.0, self._ends - time.monotonic())

    def until(self, millis: int) -> None:
        """Take in that a message is due in so many milliseconds."""
        self._ends = min(self._ends, time.monotonic() + millis / 1000)


def _listens(schema: Schema, process: int) -> Flow[bool]:
    """Let the session be told, and return whether it is the client's own."""
    ((found,),) = yield Statement(_SESSION)
    if found != process:
        return False
    yield Statement(f"LISTEN {schema.channel}")
    return True


def _first() -> Flow[int | None]:
    """Return the milliseconds until the first waiting message is due, or None where none waits."""
    ((millis,),) = yield Statement(_FIRST)
    return None if millis is None else int(millis)


def told_if_due(connections: Connections, schema: Schema, most: float) -> bool:
    """Return when a message may be due, after `most` seconds or ten at the latest; False at once where nobody can be told.

    Raises:
        StoreUnavailableError: the server cannot be reached, or goes away meanwhile.
    """
    import psycopg

    try:
        with connections.connection() as db:
            cursor = plain_cursor(db)
            if not drive(cursor, _listens(schema, db.info.backend_pid), schema):
                return False
            try:
                wait = _Wait(most, drive(cursor, _first(), schema))
                while wait.left > 0:
                    for told in db.notifies(timeout=wait.left, stop_after=1):
                        wait.until(int(told.payload))
                cursor.execute(b"UNLISTEN *")
            except BaseException:
                db.pgconn.finish()  # nobody else is to be told in it
                raise
            return True
    except psycopg.Error as error:
        raise translated(error, schema.name) from error


async def told_if_due_async(connections: AsyncConnections, schema: Schema, most: float) -> bool:
    """As `told_if_due`, for asynchronous callers."""
    import psycopg

    try:
        async with connections.connection() as db:
            cursor = plain_async_cursor(db)
            if not await drive_async(cursor, _listens(schema, db.info.backend_pid), schema):
                return False
            try:
                wait = _Wait(most, await drive_async(cursor, _first(), schema))
                while wait.left > 0:
                    async for told in db.notifies(timeout=wait.left, stop_after=1):
                        wait.until(int(told.payload))
                await cursor.execute(b"UNLISTEN *")
            except BaseException:
                db.pgconn.finish()  # nobody else is to be told in it
                raise
            return True
    except psycopg.Error as error:
        raise translated(error, schema.name) from error
