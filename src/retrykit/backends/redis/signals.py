"""The signals on the server: each record is JSON under a key of its own, and is written if it is still as it was judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final, cast

from ... import codec
from ...codec import JSON
from ...errors import StoreCorruptError
from ...stores.signals import SignalChange, Signals
from ..damage import readable
from .commands import Command, Flow, Script, Space, text

__all__ = ["SignalRecords"]

_NAMES: Final = "names"
_ALL: Final = Script("return redis.call('SMEMBERS', base .. 'names')")


class SignalRecords:
    """The flows of the signal store."""

    def __init__(self, space: Space) -> None:
        self._space = space

    def _change(self, name: str, change: SignalChange) -> Flow[Signals]:
        def judge(raw: bytes | None, now: datetime) -> tuple[Sequence[Command], Signals]:
            before = _read(name, raw)
            after = change(before, now)
            if after is before:
                return [], after
            return [("SET", _key(name), codec.encode(after.to_dict())), ("SADD", _NAMES, name)], after

        return self._space.alter(_key(name), judge)

    def _get(self, name: str) -> Flow[Signals | None]:
        _, raw = yield from self._space.read(_key(name))
        return _read(name, raw)

    def _names(self) -> Flow[Sequence[str]]:
        return [each.decode("utf-8", "surrogatepass") for each in (yield from self._space.call(_ALL))]

    def _mend(self, name: str) -> Flow[bool]:
        def judge(raw: bytes | None, _: datetime) -> tuple[Sequence[Command], bool]:
            try:
                _read(name, raw)
            except StoreCorruptError:
                return [("DEL", _key(name)), ("SREM", _NAMES, name)], True
            return [], False

        return self._space.alter(_key(name), judge)


def _key(name: str) -> bytes:
    return b"s:" + text(name)


def _read(name: str, raw: bytes | None) -> Signals | None:
    if raw is None:
        return None
    with readable(f"the signals {name!r}"):
        return Signals.from_dict(cast("Mapping[str, JSON]", codec.decode(raw)))
