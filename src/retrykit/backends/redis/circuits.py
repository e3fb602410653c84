"""The pauses and the circuits on the server: each as JSON, and beside the circuits a list of their names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Final, TypeVar, cast

from ... import codec
from ...codec import JSON
from ...lease import Lease
from ...machines import circuit
from ...stores.circuits import Circuit, Pause
from ...times import from_millis, to_millis
from ..damage import readable
from .commands import Command, Flow, Script, Space

__all__ = ["Circuits"]

T = TypeVar("T")

_PAUSE: Final = Script("""
local pauses = redis.call('HGETALL', base .. 'pauses')
for at = 1, #pauses, 2 do
  local until_ = tonumber(pauses[at + 1]:match('^%-?%d+ (%-?%d+) '))
  if until_ and until_ <= now then redis.call('HDEL', base .. 'pauses', pauses[at]) end
end
redis.call('HSET', base .. 'pauses', ARGV[2], int(now) .. ' ' .. ARGV[3] .. ' ' .. ARGV[4])
return now
""")

_RESUME: Final = Script("""
local seen = redis.call('HGET', base .. 'pauses', ARGV[2])
if not seen then return 0 end
redis.call('HDEL', base .. 'pauses', ARGV[2])
local until_ = tonumber(seen:match('^%-?%d+ (%-?%d+) '))
return (not until_ or until_ > now) and 1 or 0
""")

_PAUSES: Final = Script("return {now, redis.call('HGETALL', base .. 'pauses')}")

_CIRCUITS: Final = Script("""
local answer = {now}
for _, name in ipairs(redis.call('ZRANGE', base .. 'names', 0, -1)) do
  answer[#answer + 1] = name
  answer[#answer + 1] = redis.call('GET', base .. 'c:' .. name)
end
return answer
""")


class Circuits:
    """The flows of the circuit store."""

    def __init__(self, space: Space) -> None:
        self._space = space

    def _pause(self, key: str, reason: str, by: str, until: datetime | None) -> Flow[Pause]:
        end = "-" if until is None else str(to_millis(until))
        since = yield from self._space.call(_PAUSE, key, end, codec.encode([reason, by]))
        return Pause(key=key, reason=reason, by=by, since=from_millis(since), until=until)

    def _resume(self, key: str) -> Flow[bool]:
        answer = yield from self._space.call(_RESUME, key)
        return bool(answer)

    def _pauses(self) -> Flow[Sequence[Pause]]:
        now, rows = yield from self._space.call(_PAUSES)
        pauses = [_pause(key.decode(), raw) for key, raw in zip(rows[::2], rows[1::2], strict=True)]
        in_force = [each for each in pauses if each.until is None or each.until > from_millis(now)]
        return sorted(in_force, key=lambda pause: pause.key)

    def _trip(self, name: str, by: str, recovery: float) -> Flow[Circuit]:
        yield from self._forget()
        return (
            yield from self._changed(
                name, lambda known, now: circuit.trip(known, name, by=by, recovery=recovery, now=now)
            )
        )

    def _lease_probe(self, name: str, owner: str, limit: int, length: float) -> Flow[Lease | None]:
        return self._alter(
            name,
            lambda known, now: circuit.lease_probe(known, owner=owner, limit=limit, length=length, now=now),
        )

    def _record_probe(
        self, name: str, token: int, succeeded: bool | None, close_after: int, recovery: float
    ) -> Flow[Circuit | None]:
        def record(known: Circuit | None, now: datetime) -> tuple[Circuit | None, Circuit | None]:
            changed = circuit.record_probe(
                known, token, succeeded=succeeded, close_after=close_after, recovery=recovery, now=now
            )
            return changed, changed

        return self._alter(name, record)

    def _reset(self, name: str) -> Flow[bool]:
        def close(known: Circuit | None, now: datetime) -> tuple[Circuit | None, bool]:
            is_open = known is not None and known.is_open
            return (circuit.close(known, now=now) if known is not None and is_open else None), is_open

        return self._alter(name, close)

    def _report(self, name: str, instance: str, calls: int, failures: int, length: float) -> Flow[Circuit]:
        return self._changed(
            name,
            lambda known, now: circuit.report(
                known, name, instance=instance, calls=calls, failures=failures, length=length, now=now
            ),
        )

    def _circuits(self) -> Flow[Sequence[Circuit]]:
        at, *rows = yield from self._space.call(_CIRCUITS)
        known = [_read(raw) for raw in rows[1::2]]
        return [each for each in known if not circuit.is_forgotten(each, from_millis(at))]

    def _forget(self) -> Flow[None]:
        """Delete the circuits that nobody needs to know of any more."""
        at, *rows = yield from self._space.call(_CIRCUITS)
        names = [name.decode() for name in rows[::2]]
        old = [
            (f"c:{name}", raw, [("DEL", f"c:{name}"), ("ZREM", "names", name)])
            for name, raw in zip(names, rows[1::2], strict=True)
            if circuit.is_forgotten(_read(raw), from_millis(at))
        ]
        if old:
            yield from self._space.commit_each(old)

    def _changed(self, name: str, change: Callable[[Circuit | None, datetime], Circuit]) -> Flow[Circuit]:
        def changed(known: Circuit | None, now: datetime) -> tuple[Circuit, Circuit]:
            after = change(known, now)
            return after, after

        return self._alter(name, changed)

    def _alter(self, name: str, change: Callable[[Circuit | None, datetime], tuple[Circuit | None, T]]) -> Flow[T]:
        """Apply a pure function that gives the circuit to store, or None, and the answer."""

        def judge(raw: bytes | None, now: datetime) -> tuple[Sequence[Command], T]:
            before = None if raw is None else _read(raw)
            after, answer = change(before, now)
            return ([] if after is None or after is before else _writing(after)), answer

        return self._space.alter(f"c:{name}", judge)


def _writing(known: Circuit) -> list[Command]:
    return [("SET", f"c:{known.name}", codec.encode(known.to_dict())), ("ZADD", "names", 0, known.name)]


def _read(raw: bytes) -> Circuit:
    with readable("a circuit"):
        return Circuit.from_dict(cast("Mapping[str, JSON]", codec.decode(raw)))


def _pause(key: str, raw: bytes) -> Pause:
    with readable(f"the pause of {key!r}"):
        since, until, rest = raw.split(b" ", 2)
        reason, by = cast("list[str]", codec.decode(rest))
        end = None if until == b"-" else from_millis(int(until))
        return Pause(key=key, reason=reason, by=by, since=from_millis(int(since)), until=end)
