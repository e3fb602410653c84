"""The delivery log on the server: each record as JSON, and the lists it stands in.

``s:`` and a status has the ids of that status, ``u:`` and a status the same by the latest news; ``unexpected`` and ``settled`` are
what they say, and ``p:`` and a provider's id has the messages that it may mean.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final, cast

from ... import codec
from ...codec import JSON
from ...stores.deliveries import Delivery, DeliveryStatus
from ...times import from_millis, to_millis
from ..damage import readable
from .commands import Command, Flow, Script, Space, sortable, text

__all__ = ["Deliveries"]

_LIST: Final = Script("""
local answer = {}
local members = redis.call('ZRANGEBYLEX', base .. ARGV[2], ARGV[3], ARGV[4], 'LIMIT', 0, ARGV[5])
for _, member in ipairs(members) do
  answer[#answer + 1] = redis.call('GET', base .. 'd:' .. member:sub(tonumber(ARGV[6])))
end
return answer
""")

_OF_PROVIDER_ID: Final = Script("""
local answer = {}
for _, id in ipairs(redis.call('SMEMBERS', base .. 'p:' .. ARGV[2])) do
  answer[#answer + 1] = redis.call('GET', base .. 'd:' .. id)
end
return answer
""")

_OLD: Final = Script("""
local answer = {}
for _, id in ipairs(redis.call('ZRANGEBYSCORE', base .. 'settled', '-inf', '(' .. ARGV[2], 'LIMIT', 0, ARGV[3])) do
  answer[#answer + 1] = redis.call('GET', base .. 'd:' .. id)
end
return answer
""")

_COUNTS: Final = Script("""
local answer = {}
for at = 2, #ARGV do answer[#answer + 1] = redis.call('ZCARD', base .. 's:' .. ARGV[at]) end
return answer
""")

_BOOKMARK: Final = Script("return redis.call('HGET', base .. 'bookmarks', ARGV[2])")

_MOVE_BOOKMARK: Final = Script("""
local stands = redis.call('HGET', base .. 'bookmarks', ARGV[2])
if stands and tonumber(stands) >= tonumber(ARGV[3]) then return stands end
redis.call('HSET', base .. 'bookmarks', ARGV[2], ARGV[3])
return ARGV[3]
""")


class Deliveries:
    """The flows of the delivery log."""

    def __init__(self, space: Space) -> None:
        self._space = space

    def _record(self, delivery: Delivery) -> Flow[Delivery]:
        def judge(raw: bytes | None, _: datetime) -> tuple[Sequence[Command], Delivery]:
            stored = None if raw is None else _read(raw)
            new = delivery.after(stored)
            if new is None:
                assert stored is not None
                return [], stored
            return _writing(stored, new), new

        first = (
            delivery.updated_at,
            None,
        )  # most are the first of their message: then there is nothing to be read before
        return self._space.alter(f"d:{delivery.message_id}", judge, seen=first)

    def _get(self, message_id: str) -> Flow[Delivery | None]:
        _, raw = yield from self._space.read(f"d:{message_id}")
        return None if raw is None else _read(raw)

    def _by_provider_id(self, provider: str, provider_id: str) -> Flow[Delivery | None]:
        rows = yield from self._space.call(_OF_PROVIDER_ID, provider_id)
        found = [row for row in map(_read, rows) if row.provider in (provider, None)]
        return found[0] if len(found) == 1 else None

    def _with_status(self, status: DeliveryStatus, limit: int, after: str) -> Flow[Sequence[Delivery]]:
        return self._listed(f"s:{status.value}", b"(" + text(after), b"+", limit)

    def _unexpected(self, limit: int, after: str) -> Flow[Sequence[Delivery]]:
        return self._listed("unexpected", b"(" + text(after), b"+", limit)

    def _updated_between(
        self, start: datetime, end: datetime, status: DeliveryStatus, limit: int, after: Delivery | None
    ) -> Flow[Sequence[Delivery]]:
        first = b"[" + _at(start)
        if after is not None:
            first = max(first, b"(" + _at(after.updated_at) + text(after.message_id), key=lambda bound: bound[1:])
        return self._listed(f"u:{status.value}", first, b"(" + _at(end), limit, skipped=len(_at(end)))

    def _bookmark(self, source: str) -> Flow[datetime | None]:
        stands = yield from self._space.call(_BOOKMARK, source)
        return None if stands is None else from_millis(int(stands))

    def _move_bookmark(self, source: str, to: datetime) -> Flow[datetime]:
        stands = yield from self._space.call(_MOVE_BOOKMARK, source, to_millis(to))
        return from_millis(int(stands))

    def _counts(self) -> Flow[Mapping[DeliveryStatus, int]]:
        counts = yield from self._space.call(_COUNTS, *(status.value for status in DeliveryStatus))
        return {status: total for status, total in zip(DeliveryStatus, counts, strict=True) if total}

    def _purge(self, before: datetime, limit: int) -> Flow[int]:
        rows = yield from self._space.call(_OLD, to_millis(before), limit)
        old = [(_read(raw), raw) for raw in rows]
        if not old:
            return 0
        return (
            yield from self._space.commit_each(
                [(f"d:{row.message_id}", raw, [("DEL", f"d:{row.message_id}"), *_unlisting(row)]) for row, raw in old]
            )
        )

    def _listed(self, key: str, first: bytes, last: bytes, limit: int, *, skipped: int = 0) -> Flow[Sequence[Delivery]]:
        rows = yield from self._space.call(_LIST, key, first, last, limit, skipped + 1)
        return [_read(raw) for raw in rows]


def _writing(stored: Delivery | None, new: Delivery) -> list[Command]:
    """Return the commands that store a record and keep the lists it stands in."""
    commands: list[Command] = [("SET", f"d:{new.message_id}", codec.encode(new.to_dict()))]
    if stored is not None:
        commands += _unlisting(stored)
    return commands + _listing(new)


def _listing(row: Delivery) -> list[Command]:
    status, message_id, at = row.status.value, row.message_id, _at(row.updated_at)
    commands: list[Command] = [
        ("ZADD", f"s:{status}", 0, message_id),
        ("ZADD", f"u:{status}", 0, at + text(message_id)),
    ]
    if row.is_unexpected:
        commands.append(("ZADD", "unexpected", 0, message_id))
    if row.is_settled:
        commands.append(("ZADD", "settled", to_millis(row.updated_at), message_id))
    if row.provider_id is not None:
        commands.append(("SADD", f"p:{row.provider_id}", message_id))
    return commands


def _unlisting(row: Delivery) -> list[Command]:
    undone = {"ZADD": "ZREM", "SADD": "SREM"}
    return [(undone[str(command[0])], command[1], command[-1]) for command in _listing(row)]


def _at(instant: datetime) -> bytes:
    return sortable(to_millis(instant)).encode()


def _read(raw: bytes) -> Delivery:
    with readable("a record of a delivery"):
        return Delivery.from_dict(cast("Mapping[str, JSON]", codec.decode(raw)))
