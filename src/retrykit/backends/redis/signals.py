"""The signals on the server: each record is JSON under a key of its own, and is written if it is still as it was judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import cast

from ... import codec
from ...codec import JSON
from ...stores.signals import SignalChange, Signals
from ..damage import readable
from .commands import Command, Flow, Space, text

__all__ = ["SignalRecords"]


class SignalRecords:
    """The flows of the signal store."""

    def __init__(self, space: Space) -> None:
        self._space = space

    def _change(self, name: str, change: SignalChange) -> Flow[Signals]:
        def judge(raw: bytes | None, now: datetime) -> tuple[Sequence[Command], Signals]:
            before = _read(name, raw)
            after = change(before, now)
            return ([] if after is before else [("SET", _key(name), codec.encode(after.to_dict()))]), after

        return self._space.alter(_key(name), judge)

    def _get(self, name: str) -> Flow[Signals | None]:
        _, raw = yield from self._space.read(_key(name))
        return _read(name, raw)


def _key(name: str) -> bytes:
    return b"s:" + text(name)


def _read(name: str, raw: bytes | None) -> Signals | None:
    if raw is None:
        return None
    with readable(f"the signals {name!r}"):
        return Signals.from_dict(cast("Mapping[str, JSON]", codec.decode(raw)))
