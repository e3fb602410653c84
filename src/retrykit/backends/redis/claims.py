"""The claim records on the server: one value for each, its head what scripts look at, then the rest as JSON.

The head is ``state seq deadline opened_at not_before settled_at`` and a line feed; what is not there is ``-``. Of a lease the JSON
has the owner, and the head the deadline that counts, with a ``+`` where it was renewed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final, TypeVar, cast

from ... import codec
from ...decision import DispositionKind
from ...machines import claim as machine
from ...machines import poison
from ...message import CALL_MARK
from ...stores.claims import ClaimAnswer, ClaimRecord, ClaimState, ClaimTerms, ReopenTerms
from ...times import from_millis, later, to_millis
from ..damage import readable
from .commands import Command, Flow, Script, Space, millis
from .marks import PURGE_MARKS, marking, read_marks, writes_marks

__all__ = ["Claims"]

T = TypeVar("T")

_CLAIM: Final = Script("""
local key = base .. 'r:' .. ARGV[2]
local seen = redis.call('GET', key)
local marks = ARGV[7] ~= '' and redis.call('ZRANGE', base .. 'm:' .. ARGV[7]:sub(2), 0, -1, 'WITHSCORES') or {}
if seen or #marks > 0 then return {now, seen, marks} end
local deadline = int(later(ARGV[4]))
redis.call('SET', key, ARGV[3] .. ' 1 ' .. deadline .. ' ' .. int(now) .. ' - -\\n' .. ARGV[5])
if ARGV[6] == '1' then redis.call('ZADD', base .. 'unsettled', deadline, ARGV[2]) end
return {now, 1, marks}
""")

_RENEW: Final = Script("""
local key = base .. 'r:' .. ARGV[2]
local seen = redis.call('GET', key)
if not seen then return false end
local state, seq, deadline, rest = seen:match('^(%a+) (%d+) (%S+) ()')
if seq ~= ARGV[3] or deadline == '-' then return false end
if ARGV[5] == '1' then
  if state ~= 'claimed' and state ~= 'sending' then return false end
  state = 'sending'
end
deadline = int(later(ARGV[4]))
local record = state .. ' ' .. seq .. ' ' .. deadline .. '+ ' .. seen:sub(rest)
redis.call('SET', key, record)
if state ~= 'claimed' and ARGV[6] == '1' then redis.call('ZADD', base .. 'unsettled', deadline, ARGV[2]) end
return record
""")

_SETTLE: Final = Script("""
local key = base .. 'r:' .. ARGV[2]
local seen = redis.call('GET', key)
if not seen then return {now, false} end
local seq, deadline = seen:match('^%a+ (%d+) (%S+) ')
if seq ~= ARGV[3] or deadline == '-' then return {now, seen} end
local due, done = '-', '-'
if ARGV[4] ~= '' then due = int(later(ARGV[4])) end
if ARGV[5] == '1' then
  done = int(now)
  redis.call('ZADD', base .. 'settled', done, ARGV[2])
end
redis.call('SET', key, ARGV[6] .. ' ' .. due .. ' ' .. done .. '\\n' .. ARGV[7])
if ARGV[8] == '1' then redis.call('ZADD', base .. 'unsettled', due, ARGV[2])
else redis.call('ZREM', base .. 'unsettled', ARGV[2]) end
if ARGV[9] ~= '' then
  redis.call('DEL', base .. 'm:' .. ARGV[9]:sub(2))
  redis.call('ZREM', base .. 'marked', ARGV[9]:sub(2))
end
return {now, 1}
""")

_UNSETTLED: Final = Script(
    "return redis.call('ZRANGEBYSCORE', base .. 'unsettled', '-inf', int(now), 'LIMIT', 0, ARGV[2])"
)

_PURGE: Final = Script(
    PURGE_MARKS
    + """
local old = redis.call('ZRANGEBYSCORE', base .. 'settled', '-inf', '(' .. ARGV[2], 'LIMIT', 0, ARGV[3])
for _, id in ipairs(old) do
  redis.call('DEL', base .. 'r:' .. id)
  redis.call('ZREM', base .. 'settled', id)
end
return #old
"""
)


class Claims:
    """The flows of the claim store."""

    def __init__(self, space: Space) -> None:
        self._space = space

    def _claim(
        self, key: str, fingerprint: str | None, owner: str, lease: float, terms: ClaimTerms
    ) -> Flow[ClaimAnswer]:
        marks = machine.NO_MARKS

        def take(record: ClaimRecord | None, now: datetime) -> tuple[ClaimRecord, ClaimAnswer]:
            return machine.take(
                record,
                key,
                fingerprint=fingerprint,
                owner=owner,
                lease=lease,
                terms=terms,
                now=now,
                marks=marks,
            )

        first, _ = take(None, from_millis(0))
        at, seen, flat = yield from self._space.call(
            _CLAIM,
            key,
            first.state.value,
            millis(lease),
            _rest(first),
            terms.sending and not first.is_call,
            f"+{fingerprint}" if poison.has_marks(key, fingerprint) else "",
        )
        now = from_millis(at)
        if seen == 1:
            return take(None, now)[1]
        marks = read_marks(flat)
        return (yield from self._alter(key, take, (now, seen)))

    def _claim_unknown(self, key: str, owner: str, lease: float) -> Flow[ClaimRecord | None]:
        def take(record: ClaimRecord | None, now: datetime) -> tuple[ClaimRecord | None, ClaimRecord | None]:
            taken = machine.take_unknown(record, owner=owner, lease=lease, now=now)
            return taken, taken

        return self._alter(key, take)

    def _begin_send(self, key: str, token: int, lease: float) -> Flow[ClaimRecord | None]:
        return self._renewed(key, token, lease, sends=True)

    def _renew(self, key: str, token: int, lease: float) -> Flow[ClaimRecord | None]:
        return self._renewed(key, token, lease, sends=False)

    def _renewed(self, key: str, token: int, lease: float, *, sends: bool) -> Flow[ClaimRecord | None]:
        is_listed = not key.startswith(CALL_MARK)
        raw = yield from self._space.call(_RENEW, key, token, millis(lease), sends, is_listed)
        return None if raw is None else _read(key, raw)

    def _settle(self, record: ClaimRecord, token: int, delay: float) -> Flow[ClaimRecord | None]:
        is_sent = record.disposition is DispositionKind.SENT
        before_it = machine.changed(record, counters=record.counters.plus(failed=-1))
        if not is_sent and writes_marks(record, before_it, record.opened_at):

            def write(before: ClaimRecord | None, now: datetime) -> tuple[ClaimRecord | None, ClaimRecord | None]:
                after = machine.write(before, record, token, delay=delay, now=now)
                return after, after

            return (yield from self._alter(record.key, write))
        waits = record.state in (ClaimState.WAITING, ClaimState.UNKNOWN)
        cleared = poison.cleared(None, record) if is_sent else ()
        at, seen = yield from self._space.call(
            _SETTLE,
            record.key,
            token,
            millis(delay) if waits else "",
            record.state is ClaimState.DONE,
            _front(record),
            _rest(record),
            record.state is ClaimState.UNKNOWN and not record.is_call,
            f"+{cleared[0]}" if cleared else "",
        )
        now = from_millis(at)
        if seen == 1:
            done = now if record.state is ClaimState.DONE else None
            return machine.changed(record, not_before=later(now, delay) if waits else None, settled_at=done)
        return machine.write(_read(record.key, seen), record, token, delay=delay, now=now)

    def _confirm(self, key: str, provider: str | None, provider_id: str | None) -> Flow[ClaimRecord]:
        return self._changed(
            key,
            lambda record, now: machine.confirm(record, key, provider=provider, provider_id=provider_id, now=now),
        )

    def _cancel(self, key: str) -> Flow[ClaimRecord]:
        return self._changed(key, lambda record, now: machine.cancel(record, key, now=now))

    def _reopen(self, key: str, terms: ReopenTerms) -> Flow[ClaimRecord]:
        return self._changed(key, lambda record, now: machine.reopen(record, key, terms, now=now))

    def _get(self, key: str) -> Flow[ClaimRecord | None]:
        _, raw = yield from self._space.read(f"r:{key}")
        return _read(key, raw)

    def _unsettled(self, limit: int) -> Flow[Sequence[str]]:
        keys = yield from self._space.call(_UNSETTLED, limit)
        return [key.decode() for key in keys]

    def _purge(self, before: datetime, limit: int) -> Flow[int]:
        return self._space.call(_PURGE, to_millis(before), limit)

    def _changed(self, key: str, change: Callable[[ClaimRecord | None, datetime], ClaimRecord]) -> Flow[ClaimRecord]:
        def changed(record: ClaimRecord | None, now: datetime) -> tuple[ClaimRecord, ClaimRecord]:
            after = change(record, now)
            return after, after

        return self._alter(key, changed)

    def _alter(
        self,
        key: str,
        change: Callable[[ClaimRecord | None, datetime], tuple[ClaimRecord | None, T]],
        seen: tuple[datetime, bytes | None] | None = None,
    ) -> Flow[T]:
        """Apply a pure function that gives the record to store, or None, and the answer."""

        def judge(raw: bytes | None, now: datetime) -> tuple[Sequence[Command], T]:
            before = _read(key, raw)
            after, answer = change(before, now)
            if after is None or after is before:
                return [], answer
            return [*_writing(after), *marking(before, after, now)], answer

        return self._space.alter(f"r:{key}", judge, seen=seen)


def _writing(record: ClaimRecord) -> list[Command]:
    """Return the commands that store a record and keep the lists it stands in."""
    settled, unsettled = record.settled_at, machine.unsettled_at(record)
    front = f"{_front(record)} {_instant(record.not_before)} {_instant(settled)}\n"
    commands: list[Command] = [("SET", f"r:{record.key}", front.encode() + _rest(record))]
    if record.state is ClaimState.DONE and settled is not None:
        commands.append(("ZADD", "settled", to_millis(settled), record.key))
    else:
        commands.append(("ZREM", "settled", record.key))
    if unsettled is None:
        commands.append(("ZREM", "unsettled", record.key))
    else:
        commands.append(("ZADD", "unsettled", to_millis(unsettled), record.key))
    return commands


def _instant(at: datetime | None) -> str:
    return "-" if at is None else str(to_millis(at))


_IN_FRONT: Final = ("key", "state", "seq", "opened_at", "not_before", "settled_at")


def _front(record: ClaimRecord) -> str:
    deadline = _instant(None if record.lease is None else record.lease.deadline)
    return f"{record.state.value} {record.seq} {deadline} {to_millis(record.opened_at)}"


def _rest(record: ClaimRecord) -> bytes:
    fields = record.to_dict()
    for name in _IN_FRONT:
        del fields[name]
    return codec.encode(fields)


def _read(key: str, raw: bytes | None) -> ClaimRecord | None:
    if raw is None:
        return None
    with readable(f"the claim record of {key!r}"):
        head, _, rest = raw.partition(b"\n")
        state, seq, deadline, opened, due, done = head.decode("ascii").split(" ")
        fields = cast("dict[str, Any]", codec.decode(rest))
        lease = fields.pop("lease")
        if lease is not None:
            lease[1:3] = int(seq), int(deadline.rstrip("+"))
            if deadline.endswith("+"):
                del lease[4:]  # what was said of a holder that lives after all
            if seq == "1":  # of the first hold the head tells when it began
                lease[3] = int(opened)
        return ClaimRecord.from_dict(
            {
                **fields,
                "key": key,
                "state": state,
                "seq": int(seq),
                "lease": lease,
                "opened_at": int(opened),
                "not_before": None if due == "-" else int(due),
                "settled_at": None if done == "-" else int(done),
            }
        )
