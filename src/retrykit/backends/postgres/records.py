"""Tables of records: each as JSON, beside it what it is looked up by, and a version that every change draws anew.

A record is changed as compare-and-set: it is read, judged by the pure functions of `retrykit.machines`, and written if it is still
the one that was read; otherwise it is read again. So no transaction is held open, and what changes nothing costs one round trip.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final, Generic, TypeVar

from ...errors import StoreCorruptError
from ...times import from_millis
from ..damage import readable
from .statements import NOW, Flow, Statement

__all__ = ["Records"]

R = TypeVar("R")


class Records(Generic[R]):
    """The records of one table.

    Args:
        table: its name, without the schema's.
        key: the column of its key.
        columns: the columns that `read` is given, in this order.
        read: makes the record of a row; one whose last column is NULL has none.
        write: gives a record's columns, all but the key and the version.
        what: what an error calls a record of a key.
    """

    def __init__(
        self,
        table: str,
        key: str,
        columns: str,
        *,
        read: Callable[..., R],
        write: Callable[[R], Mapping[str, object]],
        what: str,
    ) -> None:
        self._read: Final = read
        self._write: Final = write
        self._what: Final = what
        self.columns: Final = columns
        self._load: Final = (
            f"SELECT the.ms, stored.* FROM (SELECT {NOW} AS ms) AS the LEFT JOIN "
            f"(SELECT version, {columns} FROM retrykit.{table} WHERE {key} = %(key)s) AS stored ON true"
        )
        self._table: Final = table
        self._key: Final = key

    def load(self, key: str) -> Flow[tuple[R | None, int | None, datetime]]:
        """Return the record of a key and its version, or None and None, and the instant."""
        ((ms, version, *row),) = yield Statement(self._load, {"key": key})
        return None if row[-1] is None else self.read(key, row), version, from_millis(ms)

    def mend(self, key: str) -> Flow[bool]:
        """Take away the record of a key if it cannot be read, and tell whether that was done."""
        while True:
            ((_, version, *row),) = yield Statement(self._load, {"key": key})
            if row[-1] is None:
                return False
            try:
                self.read(key, row)
            except StoreCorruptError:
                sql = f"DELETE FROM retrykit.{self._table} WHERE {self._key} = %(key)s AND version = %(seen)s RETURNING true"
                if (yield Statement(sql, {"key": key, "seen": version})):
                    return True
            else:
                return False

    def read(self, key: str, row: list[Any] | tuple[Any, ...]) -> R:
        """Make the record of a row.

        Raises:
            StoreCorruptError: the row is damaged.
        """
        with readable(f"{self._what} {key!r}"):
            return self._read(*row)

    def save(self, key: str, record: R, version: int | None, beside: Statement | None = None) -> Flow[bool]:
        """Write a record in place of that of a version, or of none, and tell whether it was still so.

        Args:
            key: of the record.
            record: to be written.
            version: of the record that it replaces; None: there is none.
            beside: what is done in the same statement, as what follows WITH, to the row that is `saved`; None: nothing.
        """
        columns = {self._key: key, **self._write(record)}
        names = ", ".join(columns)
        marks = ", ".join(f"%({name})s" for name in columns)
        if version is None:
            sql = f"INSERT INTO retrykit.{self._table} ({names}) VALUES ({marks}) ON CONFLICT DO NOTHING RETURNING true"
        else:
            sql = (
                f"UPDATE retrykit.{self._table} SET ({names}, version) = ({marks}, DEFAULT) "
                f"WHERE {self._key} = %({self._key})s AND version = %(seen)s RETURNING true"
            )
        values: dict[str, object] = {**columns, "seen": version}
        if beside is not None:
            sql = f"WITH saved AS ({sql}), {beside.sql} SELECT true FROM saved"
            values.update(beside.values)
        rows = yield Statement(sql, values)
        return bool(rows)

    def change(
        self,
        key: str,
        judge: Callable[[R | None, datetime], R | None],
        beside: Callable[[R | None, R, datetime], Statement | None] | None = None,
    ) -> Flow[R | None]:
        """Change a record to what a judgement of it and of the instant gives, and return that; None, or itself: nothing changes.

        Args:
            key: of the record.
            judge: given the record, or None, and the instant.
            beside: what is done in the same statement, as for `save`; given the record before and after, and the instant.
        """
        while True:
            before, version, now = yield from self.load(key)
            after = judge(before, now)
            if after is None or after is before:
                return after
            also = None if beside is None else beside(before, after, now)
            if (yield from self.save(key, after, version, also)):
                return after
