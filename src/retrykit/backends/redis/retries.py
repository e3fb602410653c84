"""The retry queue on the server: a sorted set scored by when an entry may be taken, and a hash of what waits.

A member of the set is the message's id and the generation, so that equal scores are in the contract's order. `held` has the token
and the owner of entries that are leased, `further` the members of generations other than the first, to find them by the id.
A waiting entry is ``version due_at length-of-attributes``, a line feed, the attributes as JSON, and the body.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Final, cast

import attrs

from ... import codec
from ...lease import Lease
from ...message import Message
from ...stores.retries import DueMessage, RetryStats
from ...times import from_millis, to_millis
from ..damage import due_messages
from .commands import Flow, Script, Space, millis, text

__all__ = ["Retries"]


_SCHEDULE: Final = Script("""
local member, version, due = ARGV[2], ARGV[3], ARGV[4]
local seen = redis.call('HGET', base .. 'entries', member)
local rest = ARGV[5]
if seen then
  local old, at = seen:match('^(%-?%d+) %-?%d+ ()')
  if tonumber(version) <= tonumber(old) then
    if redis.call('HEXISTS', base .. 'held', member) == 0 then return 0 end
    version, rest = old, seen:sub(at)
  end
  redis.call('HDEL', base .. 'held', member)
elseif ARGV[6] == '1' then
  redis.call('ZADD', base .. 'further', 0, member)
end
redis.call('HSET', base .. 'entries', member, version .. ' ' .. due .. ' ' .. rest)
redis.call('ZADD', base .. 'due', due, member)
return 1
""")

_CLAIM_DUE: Final = Script("""
local found = redis.call('ZRANGEBYSCORE', base .. 'due', '-inf', int(now), 'LIMIT', 0, ARGV[2])
if #found == 0 then return {} end
local token = redis.call('INCR', base .. 'token')
local deadline = later(ARGV[3])
local score, holder = int(deadline), int(token) .. ' ' .. ARGV[4]
local answer = {token, deadline}
for first = 1, #found, 1000 do
  local last = math.min(first + 999, #found)
  local held, due = {}, {}
  for at = first, last do
    local member = found[at]
    held[#held + 1], held[#held + 2] = member, holder
    due[#due + 1], due[#due + 2] = score, member
  end
  redis.call('HSET', base .. 'held', unpack(held))
  redis.call('ZADD', base .. 'due', unpack(due))
  local entries = redis.call('HMGET', base .. 'entries', unpack(found, first, last))
  for at = first, last do
    answer[#answer + 1] = found[at]
    answer[#answer + 1] = entries[at - first + 1]
  end
end
return answer
""")

_IF_HELD: Final = """
local member = ARGV[2]
local holder = redis.call('HGET', base .. 'held', member)
if not holder or holder:match('^%d+') ~= ARGV[3] then return 0 end
"""

_ACK: Final = Script(
    _IF_HELD
    + """
redis.call('HDEL', base .. 'held', member)
redis.call('HDEL', base .. 'entries', member)
redis.call('ZREM', base .. 'due', member)
if ARGV[4] == '1' then redis.call('ZREM', base .. 'further', member) end
return 1
"""
)

_RELEASE: Final = Script(
    _IF_HELD
    + """
local due = int(later(ARGV[4]))
local seen = redis.call('HGET', base .. 'entries', member)
local version, at = seen:match('^(%-?%d+) %-?%d+ ()')
redis.call('HSET', base .. 'entries', member, version .. ' ' .. due .. ' ' .. seen:sub(at))
redis.call('HDEL', base .. 'held', member)
redis.call('ZADD', base .. 'due', due, member)
return 1
"""
)

_EXTEND: Final = Script(
    _IF_HELD
    + """
redis.call('ZADD', base .. 'due', int(later(ARGV[4])), member)
return {now}
"""
)

_CANCEL: Final = Script("""
local members = redis.call('ZRANGEBYLEX', base .. 'further', '[' .. ARGV[3], '[' .. ARGV[3] .. '\\255')
members[#members + 1] = ARGV[2]
local removed = 0
for _, member in ipairs(members) do
  removed = removed + redis.call('HDEL', base .. 'entries', member)
  redis.call('HDEL', base .. 'held', member)
  redis.call('ZREM', base .. 'due', member)
  redis.call('ZREM', base .. 'further', member)
end
return removed
""")

_STATS: Final = Script("""
local first = redis.call('ZRANGE', base .. 'due', 0, 0, 'WITHSCORES')
return {
  redis.call('ZCARD', base .. 'due'), redis.call('HLEN', base .. 'held'),
  redis.call('ZCOUNT', base .. 'due', '-inf', int(now)), first[2] or false,
}
""")


class Retries:
    """The flows of the retry queue."""

    def __init__(self, space: Space) -> None:
        self._space = space

    def _schedule(self, message: Message, due_at: datetime, generation: int, version: int) -> Flow[None]:
        attributes = codec.encode(dict(message.attributes))
        entry = b"%d\n%b%b" % (len(attributes), attributes, message.body)
        member = _member(message.id, generation)
        yield from self._space.call(_SCHEDULE, member, version, to_millis(due_at), entry, generation != 1)

    def _claim_due(self, limit: int, owner: str, lease: float) -> Flow[Sequence[DueMessage]]:
        answer = yield from self._space.call(_CLAIM_DUE, limit, millis(lease), owner)
        if not answer:
            return []
        token, deadline, *found = answer
        held = Lease(owner, token, from_millis(deadline))
        return due_messages(
            (member.partition(b"\0")[0].decode("utf-8", "replace"), partial(_due, member, entry, held))
            for member, entry in zip(found[::2], found[1::2], strict=True)
        )

    def _ack(self, due: DueMessage) -> Flow[bool]:
        answer = yield from self._space.call(_ACK, *_held(due), due.generation != 1)
        return bool(answer)

    def _release(self, due: DueMessage, delay: float) -> Flow[bool]:
        answer = yield from self._space.call(_RELEASE, *_held(due), millis(delay))
        return bool(answer)

    def _extend(self, due: DueMessage, lease: float) -> Flow[DueMessage | None]:
        answer = yield from self._space.call(_EXTEND, *_held(due), millis(lease))
        return attrs.evolve(due, lease=due.lease.renewed(from_millis(answer[0]), lease)) if answer else None

    def _cancel(self, message_id: str) -> Flow[bool]:
        removed = yield from self._space.call(_CANCEL, _member(message_id, 1), text(message_id) + b"\0")
        return bool(removed)

    def _stats(self) -> Flow[RetryStats]:
        total, leased, due, first = yield from self._space.call(_STATS)
        return RetryStats(
            waiting=total - leased,
            leased=leased,
            due=due,
            next_due_at=None if first is None else from_millis(int(first)),
        )


def _member(message_id: str, generation: int) -> bytes:
    """Return what stands for an entry: it sorts by the id, and then by the generation as a number."""
    digits = b"%d" % generation
    return text(message_id) + b"\0%c%b" % (len(digits), digits)


def _held(due: DueMessage) -> tuple[bytes, int]:
    return _member(due.message.id, due.generation), due.lease.token


def _due(member: bytes, entry: bytes, lease: Lease) -> DueMessage:
    message_id, _, generation = member.partition(b"\0")
    head, _, rest = entry.partition(b"\n")
    _, due_at, size = head.split(b" ")
    attributes = cast("Mapping[str, str]", codec.decode(rest[: int(size)]))
    body = rest[int(size) :]
    message = Message(message_id.decode(), body, attributes, max_payload=len(body))
    return DueMessage(message=message, generation=int(generation[1:]), due_at=from_millis(int(due_at)), lease=lease)
