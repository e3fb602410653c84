"""The signals: a record for each name, as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from ... import codec
from ...stores.signals import SignalChange, Signals
from .records import Records
from .statements import Flow, Statement

__all__ = ["PostgresSignals"]


def _read(record: str) -> Signals:
    return Signals.from_dict(cast("Mapping[str, Any]", codec.decode(record)))


def _write(known: Signals) -> Mapping[str, object]:
    return {"record": codec.encode(known.to_dict()).decode("ascii")}


_RECORDS: Final = Records("signals", "name", "record", read=_read, write=_write, what="the signals")


class PostgresSignals:
    """Records of signals."""

    def _change(self, name: str, change: SignalChange) -> Flow[Signals | None]:
        return _RECORDS.change(name, change)

    def _get(self, name: str) -> Flow[Signals | None]:
        known, _, _ = yield from _RECORDS.load(name)
        return known

    def _names(self) -> Flow[Sequence[str]]:
        rows = yield Statement("SELECT name FROM retrykit.signals")
        return [name for (name,) in rows]

    def _mend(self, name: str) -> Flow[bool]:
        return _RECORDS.mend(name)
