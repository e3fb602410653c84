"""How a query finds dead letters on the server.

What fields and a window ask for is decided there, along the shortest of the lists that the query names, some thousand letters at a
time, so that one call never holds the server for long. Attributes and text are looked for here, in the letters that are left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final, TypeAlias

import attrs

from ...dead_letter import DeadLetter, DeadLetterState
from ...stores.dead_letter_query import DeadLetterQuery
from ...times import to_millis
from ..damage import readable
from .commands import Flow, Script, Space

__all__ = ["Row", "aged", "count", "listed", "over_time", "read", "tally", "value_of"]

Row: TypeAlias = tuple[int, DeadLetter]
"""A letter's number, and the letter."""

_BATCH: Final = 2000
"""Letters that one call of a script looks at."""
_PAGE: Final = 200
"""Letters that one call gives, where they are looked through here."""

_CONDITIONS: Final = """
local since, before = ARGV[2], ARGV[3]
local is_windowed = since ~= '-inf' or before ~= '+inf'
local all, dead, lists = base .. 'all', base .. 'dead', {}
local source, size = all, redis.call('ZCARD', all)
for at = 8, #ARGV, 2 do
  local key = base .. 'f:' .. ARGV[at] .. ':' .. ARGV[at + 1]
  local length = redis.call('ZCARD', key)
  if length <= size then source, size = key, length end
  lists[#lists + 1] = key
end
local inside = is_windowed and redis.call('ZCOUNT', dead, since, before) or math.huge
local first = since == '-inf' and -1e18 or tonumber(since)
local last = before == '+inf' and 1e18 or tonumber(before:sub(2))
local function within(numbers, key, low, high)
  local kept = {}
  for from = 1, #numbers, 1000 do
    local upto = math.min(from + 999, #numbers)
    for at, score in ipairs(redis.call('ZMSCORE', key, unpack(numbers, from, upto))) do
      local value = score and tonumber(score)
      if value and value >= low and value < high then kept[#kept + 1] = numbers[from + at - 1] end
    end
  end
  return kept
end
local function fitting(numbers, from)
  for _, key in ipairs(lists) do
    if key ~= from then numbers = within(numbers, key, -1e18, 1e18) end
  end
  if is_windowed and from ~= dead then numbers = within(numbers, dead, first, last) end
  return numbers
end
"""

_LIST: Final = Script(
    _CONDITIONS
    + """
local bound, batch, wanted = ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6])
local candidates, from, goes_on
if #lists < 2 and not is_windowed then batch = math.min(batch, wanted) end
if inside < size and inside <= batch then
  local younger = redis.call('ZRANGEBYSCORE', dead, since, before)
  candidates, from, goes_on = {}, dead, false
  for _, number in ipairs(younger) do
    if tonumber(number) < tonumber(bound) then candidates[#candidates + 1] = number end
  end
  table.sort(candidates, function(one, other) return one > other end)
else
  candidates, from = redis.call('ZREVRANGEBYSCORE', source, '(' .. bound, '-inf', 'LIMIT', 0, batch), source
  goes_on = #candidates == batch
end
local answer, found, at = {false}, 0, 1
while at <= #candidates and found < wanted do
  local part = {unpack(candidates, at, math.min(at + 199, #candidates))}
  at = at + #part
  for _, number in ipairs(fitting(part, from)) do
    answer[#answer + 1] = number
    answer[#answer + 1] = redis.call('HGET', base .. 'h:' .. number, 'state')
    answer[#answer + 1] = redis.call('GET', base .. 'l:' .. number)
    found = found + 1
    if found == wanted then
      answer[1] = number
      return answer
    end
  end
end
if goes_on then answer[1] = candidates[#candidates] end
return answer
"""
)

_TALLY: Final = Script(
    _CONDITIONS
    + """
local place, batch, what, length = ARGV[4], tonumber(ARGV[5]), ARGV[6], tonumber(ARGV[7])
local kind, from = place:match('^(%a)(.*)$')
if not kind then
  kind, from = 'n', '1e18'
  if inside < size then kind, from = 'd', '0' end
end
local candidates
if kind == 'd' then candidates = redis.call('ZRANGEBYSCORE', dead, since, before, 'LIMIT', from, batch)
else candidates = redis.call('ZREVRANGEBYSCORE', source, '(' .. from, '-inf', 'LIMIT', 0, batch) end
local counts = {}
local fits = fitting(candidates, kind == 'd' and dead or source)
if what == '' then counts[''] = #fits
else
  for _, number in ipairs(fits) do
    local value = redis.call('HGET', base .. 'h:' .. number, what)
    if value and what == 'at' then value = int(math.floor(value / length)) end
    if value then counts[value] = (counts[value] or 0) + 1 end
  end
end
local answer = {false}
if #candidates == batch then answer[1] = kind == 'd' and 'd' .. int(from + batch) or 'n' .. candidates[#candidates] end
for value, number in pairs(counts) do
  answer[#answer + 1] = value
  answer[#answer + 1] = number
end
return answer
"""
)

_OLD: Final = Script(
    _CONDITIONS
    + """
local from, batch = tonumber(ARGV[4]), tonumber(ARGV[5])
local candidates = redis.call('ZRANGEBYSCORE', dead, since, before, 'LIMIT', from, batch)
local answer = {#candidates == batch and from + batch or false}
for _, number in ipairs(fitting(candidates, dead)) do
  answer[#answer + 1] = number
  if ARGV[6] == '1' then
    answer[#answer + 1] = redis.call('HGET', base .. 'h:' .. number, 'state')
    answer[#answer + 1] = redis.call('GET', base .. 'l:' .. number)
  end
end
return answer
"""
)

_COUNT: Final = Script("""
if ARGV[4] then return redis.call('ZCARD', base .. 'f:' .. ARGV[4] .. ':' .. ARGV[5]) end
return redis.call('ZCOUNT', base .. 'dead', ARGV[2], ARGV[3])
""")

_VALUES: Final = Script("return redis.call('ZRANGE', base .. 'v:' .. ARGV[2], 0, ARGV[3], 'WITHSCORES')")

_OVER_TIME: Final = Script("""
local since, before, start, length = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local answer = {}
for step = 1, tonumber(ARGV[6]) do
  local from = start + (step - 1) * length
  local first, last = math.max(since, from), math.min(before, from + length)
  answer[step] = redis.call('ZCOUNT', base .. 'dead', int(first), '(' .. int(last))
end
return answer
""")


def read(state: bytes, record: bytes) -> DeadLetter:
    """Make a letter of what stands on the server: its state is beside the record."""
    with readable("a dead letter"):
        return attrs.evolve(DeadLetter.from_json(record), state=DeadLetterState(state.decode()))


def value_of(raw: bytes) -> str:
    """Return the text that stands on the server."""
    return raw.decode("utf-8", "surrogatepass")


def _is_looked_through(query: DeadLetterQuery) -> bool:
    """Tell whether the letters themselves have to be seen."""
    return bool(query.attributes) or query.text is not None


def _window(query: DeadLetterQuery, before: int | None = None) -> tuple[str, str]:
    ends = [end for end in (None if query.until is None else to_millis(query.until), before) if end is not None]
    since = "-inf" if query.since is None else str(to_millis(query.since))
    return since, f"({min(ends)}" if ends else "+inf"


def _pairs(query: DeadLetterQuery) -> list[str]:
    return [part for pair in query.conditions().items() for part in pair]


def listed(space: Space, query: DeadLetterQuery, wanted: int, before: int | None = None) -> Flow[list[Row]]:
    """Return up to so many letters, the one put last first.

    Args:
        space: where they are.
        query: which.
        wanted: how many at the most.
        before: only letters of a smaller number.
    """
    rows: list[Row] = []
    bound = b"%d" % (10**15 if before is None else before)
    asked = max(wanted, _PAGE) if _is_looked_through(query) else wanted
    while True:
        answer = yield from space.call(_LIST, *_window(query), bound, _BATCH, asked, "", *_pairs(query))
        rows += _matching(query, answer[1:])
        if answer[0] is None or len(rows) >= wanted:
            return rows[:wanted]
        bound = answer[0]


def _matching(query: DeadLetterQuery, flat: Sequence[bytes]) -> list[Row]:
    triples = zip(flat[::3], flat[1::3], flat[2::3], strict=True)
    rows = [(int(number), read(state, record)) for number, state, record in triples]
    return [row for row in rows if query.matches(row[1])] if _is_looked_through(query) else rows


def _all(space: Space, query: DeadLetterQuery) -> Flow[list[DeadLetter]]:
    rows = yield from listed(space, query, 10**15)
    return [letter for _, letter in rows]


def count(space: Space, query: DeadLetterQuery) -> Flow[int]:
    """Return how many letters match."""
    pairs, window = _pairs(query), _window(query)
    is_simple = not pairs or (len(pairs) == 2 and window == ("-inf", "+inf"))
    if is_simple and not _is_looked_through(query):
        total: int = yield from space.call(_COUNT, *window, *pairs)
        return total
    counts = yield from _tallied(space, query, "")
    return counts[""]


def tally(space: Space, query: DeadLetterQuery, facet: str, limit: int | None = None) -> Flow[list[tuple[str, int]]]:
    """Return the values of a facet with how many letters of each match, the most frequent first, ties by value."""
    if query == DeadLetterQuery():
        flat = yield from space.call(_VALUES, facet, -1 if limit is None else limit - 1)
        return [(value_of(value), -int(float(total))) for value, total in zip(flat[::2], flat[1::2], strict=True)]
    known = query.conditions().get(facet)
    if known is not None:
        total = yield from count(space, query)
        return [(known, total)] if total else []
    counts = yield from _tallied(space, query, facet)
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:limit]


def over_time(space: Space, query: DeadLetterQuery, start: int, length: int, steps: int) -> Flow[list[int]]:
    """Return how many letters that match died in each step, all in milliseconds."""
    assert query.since is not None
    assert query.until is not None
    if not _pairs(query) and not _is_looked_through(query):
        since, until = to_millis(query.since), to_millis(query.until)
        counted: list[int] = yield from space.call(_OVER_TIME, since, until, start, length, steps)
        return counted
    counts = yield from _tallied(space, query, "at", length)
    return [counts[str(start // length + step)] for step in range(steps)]


def _tallied(space: Space, query: DeadLetterQuery, what: str, length: int = 1) -> Flow[Counter[str]]:
    """Count the letters that match by a field, by steps of the time they died ("at"), or all together ("")."""
    if _is_looked_through(query):
        letters = yield from _all(space, query)
        return Counter(value for value in (_value(letter, what, length) for letter in letters) if value is not None)
    counts = Counter[str]()
    place: bytes | None = b""
    while place is not None:
        place, *flat = yield from space.call(_TALLY, *_window(query), place, _BATCH, what, length, *_pairs(query))
        for value, total in zip(flat[::2], flat[1::2], strict=True):
            counts[value_of(value)] += total
    return counts


def _value(letter: DeadLetter, what: str, length: int) -> str | None:
    if what == "at":
        return str(to_millis(letter.dead_lettered_at) // length)
    value = getattr(letter, what) if what else ""
    return None if value is None else str(value)


def aged(space: Space, query: DeadLetterQuery, before: int, limit: int) -> Flow[list[bytes]]:
    """Return the numbers of up to so many letters that match and died before an instant, the oldest first."""
    numbers: list[bytes] = []
    place: int | None = 0
    is_looked_through = _is_looked_through(query)
    while place is not None and len(numbers) < limit:
        batch = _PAGE if is_looked_through else _BATCH
        place, *found = yield from space.call(
            _OLD, *_window(query, before), place, batch, is_looked_through, "", *_pairs(query)
        )
        if is_looked_through:
            found = [b"%012d" % number for number, _ in _matching(query, found)]
        numbers += found
    return numbers[:limit]
