"""How an operation on the server is described: once, as a flow of scripts, for synchronous and asynchronous clients alike.

Every step is one Lua script, so it is atomic. It gets the beginning of all keys of its store, whose hash tag keeps them on one node
of a cluster, and makes the full keys itself. Its first argument is the instant, or empty: then it is the server's.

A cluster looks at the keys it is told of only. While it moves a slot, some of the store's keys are on the old node and some on the
new one, and a script that ran on either would take the others for missing, and a message for new. So a script is given two keys
that never exist: a command for several keys of which some are missing is answered TRYAGAIN until the whole slot has moved.

What a simple step cannot decide is judged here and written by `commit`, if the record is still the one that was judged.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator, Sequence
from datetime import datetime
from typing import Any, Final, TypeAlias, TypeVar

import attrs

from ...clock import Clock, SystemClock, current_clock
from ...times import from_millis, later, to_millis

__all__ = ["Call", "Command", "Flow", "Judgement", "Script", "Space", "millis", "sortable", "text"]

T = TypeVar("T")

_PRELUDE: Final = """
local base, now = KEYS[1], tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end
local function int(number) return string.format('%.0f', number) end
local function later(length) return math.min(now + length, 253402300799999) end
"""


class Script:
    """A Lua script: `base`, `now` in milliseconds, `int` and `later` are there; its own arguments begin at `ARGV[2]`."""

    def __init__(self, body: str) -> None:
        self.text: Final = _PRELUDE + body
        self.sha: Final = hashlib.sha1(self.text.encode(), usedforsecurity=False).hexdigest()


@attrs.frozen
class Call:
    """One script to be run."""

    script: Script
    keys: tuple[bytes, bytes]
    args: tuple[bytes, ...]


Flow: TypeAlias = Generator[Call, Any, T]
"""An operation: it yields calls, is sent their replies (bytes, integers, None, lists of these), and returns its answer."""

Command: TypeAlias = tuple[str | bytes | int, ...]
"""A command of the server's and its arguments; the key without what all keys begin with."""

Judgement: TypeAlias = tuple[Sequence[Command], T]
"""What is to be written, and the answer then."""

_READ: Final = Script("return {now, redis.call('GET', base .. ARGV[2])}")

_COMMIT: Final = Script("""
local answers, at = {now}, 2
while at <= #ARGV do
  local seen = redis.call('GET', base .. ARGV[at])
  local same = (seen and redis.sha1hex(seen) or '') == ARGV[at + 1]
  answers[#answers + 1] = same and 1 or seen
  local commands = tonumber(ARGV[at + 2])
  at = at + 3
  for _ = 1, commands do
    local last = at + tonumber(ARGV[at])
    if same then redis.call(ARGV[at + 1], base .. ARGV[at + 2], unpack(ARGV, at + 3, last)) end
    at = last + 1
  end
end
return answers
""")


class Space:
    """The keys of one store, and the clock by which it tells the time.

    Args:
        prefix: what all keys of the backend begin with.
        store: the name of the store.
        clock: None: the server's time, unless a clock that is not the system's is in force.
    """

    def __init__(self, prefix: str, store: str, clock: Clock | None) -> None:
        base = f"{{{prefix}:{store}}}:".encode()
        self._keys: Final = (base, base + b":")
        self._clock = clock

    def call(self, script: Script, *args: str | bytes | int) -> Flow[Any]:
        """Run a script."""
        clock = self._clock or current_clock()
        now = b"" if self._clock is None and isinstance(clock, SystemClock) else b"%d" % to_millis(clock.now())
        return (yield Call(script, self._keys, (now, *map(_bytes, args))))

    def read(self, record: str | bytes) -> Flow[tuple[datetime, bytes | None]]:
        """Return the instant, and the record of a key or None."""
        now, raw = yield from self.call(_READ, record)
        return from_millis(now), raw

    def alter(
        self,
        record: str | bytes,
        judge: Callable[[bytes | None, datetime], Judgement[T]],
        *,
        seen: tuple[datetime, bytes | None] | None = None,
    ) -> Flow[T]:
        """Let a record be judged, and write what that leads to in one step if the record is still as it was; else judge it again.

        Args:
            record: its key.
            judge: gets what stands there and the instant; without commands nothing is written.
            seen: what stands there, where that is known.
        """
        now, raw = (yield from self.read(record)) if seen is None else seen
        while True:
            commands, answer = judge(raw, now)
            if not commands:
                return answer
            at, is_done = yield from self.call(_COMMIT, *_block(record, raw, commands))
            if is_done == 1:
                return answer
            now, raw = from_millis(at), is_done

    def commit_each(self, writes: Sequence[tuple[str | bytes, bytes | None, Sequence[Command]]]) -> Flow[int]:
        """Run the commands of each record that is still as it was seen, and return of how many."""
        args = [arg for record, raw, commands in writes for arg in _block(record, raw, commands)]
        _, *answers = yield from self.call(_COMMIT, *args)
        return sum(answer == 1 for answer in answers)


def _block(record: str | bytes, raw: bytes | None, commands: Sequence[Command]) -> list[str | bytes | int]:
    digest = "" if raw is None else hashlib.sha1(raw, usedforsecurity=False).hexdigest()
    parts = [part for command in commands for part in (len(command), *command)]
    return [record, digest, len(commands), *parts]


def _bytes(value: str | bytes | int) -> bytes:
    if isinstance(value, str):
        return text(value)
    return b"%d" % value if isinstance(value, int) else value  # a truth value is 1 or 0


def text(value: str) -> bytes:
    """Return text as it is kept: UTF-8, whose order is that of the code points, and lone surrogates as they come."""
    return value.encode("utf-8", "surrogatepass")


def millis(delay: float) -> int:
    """Return a duration in whole milliseconds, rounded up."""
    return to_millis(later(from_millis(0), delay))


def sortable(number: int) -> str:
    """Return a number between -10**15 and 9 * 10**15 as text of 16 digits that sorts like the number."""
    return f"{number + 10**15:016d}"
