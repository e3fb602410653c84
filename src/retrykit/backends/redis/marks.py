"""What came of payloads on the server: the marks that `retrykit.machines.poison` counts.

``m:`` and a fingerprint has the sources by when they left their mark, ``marked`` the fingerprints by their oldest one.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from ...machines import poison
from ...stores.claims import ClaimRecord
from ...times import from_millis, to_millis
from ..damage import readable
from .commands import Command

__all__ = ["PURGE_MARKS", "marking", "read_marks", "writes_marks"]

PURGE_MARKS: Final = """
for _, fingerprint in ipairs(redis.call('ZRANGEBYSCORE', base .. 'marked', '-inf', '(' .. ARGV[2], 'LIMIT', 0, ARGV[3])) do
  redis.call('ZREMRANGEBYSCORE', base .. 'm:' .. fingerprint, '-inf', '(' .. ARGV[2])
  local oldest = redis.call('ZRANGE', base .. 'm:' .. fingerprint, 0, 0, 'WITHSCORES')
  if oldest[2] then redis.call('ZADD', base .. 'marked', oldest[2], fingerprint)
  else redis.call('ZREM', base .. 'marked', fingerprint) end
end
"""
"""A part of a script: forgets marks from before `ARGV[2]`, of up to `ARGV[3]` payloads."""


def read_marks(flat: Sequence[bytes]) -> poison.Marks:
    """Return the marks of a payload as they stand on the server."""
    with readable("what is noted of a payload"):
        pairs = zip(flat[::2], flat[1::2], strict=True)
        return {source.decode("utf-8", "surrogatepass"): from_millis(int(float(at))) for source, at in pairs}


def marking(before: ClaimRecord | None, after: ClaimRecord, now: datetime) -> list[Command]:
    """Return the commands for what a change of a record at `now` says of its payload."""
    commands: list[Command] = []
    mark = poison.mark_of(before, after, now)
    if mark is not None:
        fingerprint, at = after.fingerprint or "", to_millis(mark.at)
        commands += [
            ("ZADD", f"m:{fingerprint}", "GT", at, mark.source),
            ("ZREMRANGEBYRANK", f"m:{fingerprint}", 0, -poison.MARKS_KEPT - 1),
            ("ZADD", "marked", "LT", at, fingerprint),
        ]
    for fingerprint in poison.cleared(before, after):
        commands += [("DEL", f"m:{fingerprint}"), ("ZREM", "marked", fingerprint)]
    return commands


def writes_marks(settled: ClaimRecord, before: ClaimRecord, now: datetime) -> bool:
    """Tell whether a settlement says anything of its payload, if `before` is what it was made of."""
    return bool(settled.attempts) and bool(marking(before, settled, now))
