"""How a dead letter stands on the server, and the scripts that change what stands there.

Each letter has a number, in the order in which letters are put. ``l:`` and the number is its JSON, ``h:`` and the number a small hash
of what queries look at: the fields, its id, and when it died. These sorted sets and hashes list the numbers (12 digits):

- ``all`` by number, ``dead`` and of those in quarantine ``waiting`` by when they died;
- ``f:field:value`` by number, for each field that a query compares;
- ``g:`` and a fingerprint by when they died, ``gs:`` the same counted by state, and ``seen`` the fingerprints by their latest death.

``v:`` and a facet has how many letters there are of each value, negative, so that the most frequent come first. ``ids`` leads from
an id to the number, ``early`` has the ids that were resolved before their letter came, ``notes`` what people noted of groups.
"""

from __future__ import annotations

from typing import Final

from ...stores.dead_letter_query import EQUAL_FIELDS
from ...stores.dead_letters import FACETS
from .commands import Script

__all__ = ["CHANGE", "DROP", "FORGET_EARLY", "GET", "PUT", "RESOLVE"]

_LISTS: Final = (
    f"local fields = {{{', '.join(repr(name) for name in EQUAL_FIELDS)}}}\n"
    f"local facets = {{{', '.join(f'{name} = true' for name in FACETS)}}}\n"
    """
local function list(number, field, value)
  redis.call('ZADD', base .. 'f:' .. field .. ':' .. value, number, number)
  if facets[field] then redis.call('ZINCRBY', base .. 'v:' .. field, -1, value) end
end
local function unlist(number, field, value)
  redis.call('ZREM', base .. 'f:' .. field .. ':' .. value, number)
  if facets[field] then
    local left = redis.call('ZINCRBY', base .. 'v:' .. field, 1, value)
    if tonumber(left) == 0 then redis.call('ZREM', base .. 'v:' .. field, value) end
  end
end
local function move(number, state)
  local known = redis.call('HMGET', base .. 'h:' .. number, 'state', 'fingerprint')
  local old, fingerprint = known[1], known[2]
  if old == state then return end
  unlist(number, 'state', old)
  list(number, 'state', state)
  redis.call('HSET', base .. 'h:' .. number, 'state', state)
  redis.call('ZREM', base .. 'waiting', number)
  if fingerprint then
    redis.call('HINCRBY', base .. 'gs:' .. fingerprint, old, -1)
    redis.call('HINCRBY', base .. 'gs:' .. fingerprint, state, 1)
  end
end
"""
)

PUT: Final = Script(
    _LISTS
    + """
local id, at = ARGV[2], ARGV[4]
local known = redis.call('HGET', base .. 'ids', id)
if known then return {redis.call('HGET', base .. 'h:' .. known, 'state'), redis.call('GET', base .. 'l:' .. known)} end
local number = string.format('%012.0f', redis.call('INCR', base .. 'number'))
local is_early = redis.call('ZREM', base .. 'early', id) == 1
redis.call('HSET', base .. 'ids', id, number)
redis.call('SET', base .. 'l:' .. number, ARGV[3])
redis.call('ZADD', base .. 'all', number, number)
redis.call('ZADD', base .. 'dead', at, number)
local letter = {}
for each = 5, #ARGV, 2 do
  local field, value = ARGV[each], ARGV[each + 1]
  if field == 'state' and is_early then value = 'resolved' end
  letter[field] = value
  list(number, field, value)
  redis.call('HSET', base .. 'h:' .. number, field, value)
end
redis.call('HSET', base .. 'h:' .. number, 'at', at, 'id', id)
if letter.state == 'quarantined' then redis.call('ZADD', base .. 'waiting', at, number) end
if letter.fingerprint then
  local latest = redis.call('ZSCORE', base .. 'seen', letter.fingerprint)
  if not latest or tonumber(latest) < tonumber(at) then redis.call('ZADD', base .. 'seen', at, letter.fingerprint) end
  redis.call('ZADD', base .. 'g:' .. letter.fingerprint, at, number)
  redis.call('HINCRBY', base .. 'gs:' .. letter.fingerprint, letter.state, 1)
end
return {letter.state, false}
"""
)

GET: Final = Script("""
local number = redis.call('HGET', base .. 'ids', ARGV[2])
if not number then return false end
return {redis.call('HGET', base .. 'h:' .. number, 'state'), redis.call('GET', base .. 'l:' .. number)}
""")

CHANGE: Final = Script(
    _LISTS
    + """
local number = redis.call('HGET', base .. 'ids', ARGV[2])
if not number or redis.call('HGET', base .. 'h:' .. number, 'state') ~= ARGV[3] then return 0 end
if redis.sha1hex(redis.call('GET', base .. 'l:' .. number)) ~= ARGV[4] then return 0 end
redis.call('SET', base .. 'l:' .. number, ARGV[6])
move(number, ARGV[5])
return 1
"""
)

RESOLVE: Final = Script(
    _LISTS
    + """
local number = redis.call('HGET', base .. 'ids', ARGV[2])
if number then move(number, 'resolved') else redis.call('ZADD', base .. 'early', int(now), ARGV[2]) end
return 1
"""
)

DROP: Final = Script(
    _LISTS
    + """
local dropped = 0
for each = 2, #ARGV do
  local number = ARGV[each]
  local pairs_ = redis.call('HGETALL', base .. 'h:' .. number)
  local letter = {}
  for at = 1, #pairs_, 2 do letter[pairs_[at]] = pairs_[at + 1] end
  if letter.id then
    dropped = dropped + 1
    for _, field in ipairs(fields) do
      if letter[field] then unlist(number, field, letter[field]) end
    end
    for _, name in ipairs({'all', 'dead', 'waiting'}) do redis.call('ZREM', base .. name, number) end
    redis.call('HDEL', base .. 'ids', letter.id)
    redis.call('DEL', base .. 'l:' .. number, base .. 'h:' .. number)
    local fingerprint = letter.fingerprint
    if fingerprint then
      redis.call('ZREM', base .. 'g:' .. fingerprint, number)
      redis.call('HINCRBY', base .. 'gs:' .. fingerprint, letter.state, -1)
      local latest = redis.call('ZRANGE', base .. 'g:' .. fingerprint, -1, -1, 'WITHSCORES')
      if latest[2] then
        redis.call('ZADD', base .. 'seen', latest[2], fingerprint)
      else
        redis.call('ZREM', base .. 'seen', fingerprint)
        redis.call('DEL', base .. 'gs:' .. fingerprint)
      end
    end
  end
end
return dropped
"""
)

FORGET_EARLY: Final = Script("return redis.call('ZREMRANGEBYSCORE', base .. 'early', ARGV[2], ARGV[3])")
