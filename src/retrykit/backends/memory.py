"""The memory backend: all seven stores in this process, for tests and for work that may be lost with it.

It is also the model of the contracts: each operation is one small critical section around the pure functions.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from itertools import count

import attrs

from ..clock import Clock, current_clock
from ..dead_letter import DeadLetter, DeadLetterState
from ..lease import Lease
from ..machines import circuit, poison
from ..machines import claim as machine
from ..machines.letter import LetterChange
from ..message import Message
from ..stores.circuits import Circuit, CircuitStore, Pause
from ..stores.claims import ClaimAnswer, ClaimRecord, ClaimStore, ClaimTerms, ReopenTerms
from ..stores.dead_letter_figures import DeadLetterStats, spread, stats_of
from ..stores.dead_letter_groups import (
    DeadLetterGroup,
    DeadLetterGroupPage,
    GroupChange,
    GroupNote,
    GroupOrder,
    group_letters,
    page_of_groups,
)
from ..stores.dead_letter_query import DeadLetterQuery
from ..stores.dead_letters import DeadLetterPage, DeadLetterStore, Facet
from ..stores.deliveries import Delivery, DeliveryStatus, DeliveryStore
from ..stores.redrives import RedriveStore
from ..stores.retries import DueMessage, RetryStats, RetryStore
from ..stores.signals import SignalStore
from ..times import later
from .cursors import read_cursor, write_cursor
from .memory_redrives import Redrives
from .memory_signals import MemorySignals

__all__ = ["MemoryBackend"]


class _Shared:
    """The lock and the clock that the stores of one backend share."""

    def __init__(self, clock: Clock | None) -> None:
        self._lock = threading.Lock()
        self._clock = clock

    @contextmanager
    def locked(self) -> Generator[datetime]:
        """Hold the lock; gives the instant of the operation."""
        with self._lock:
            yield (self._clock or current_clock()).now()


class _Claims(ClaimStore):
    def __init__(self, shared: _Shared) -> None:
        self._shared = shared
        self._records: dict[str, ClaimRecord] = {}
        self._marks: dict[str, poison.Marks] = {}

    def _claim(self, key: str, fingerprint: str | None, owner: str, lease: float, terms: ClaimTerms) -> ClaimAnswer:
        with self._shared.locked() as now:
            record, answer = machine.take(
                self._records.get(key),
                key,
                fingerprint=fingerprint,
                owner=owner,
                lease=lease,
                terms=terms,
                now=now,
                marks=self._marks.get(fingerprint or "", machine.NO_MARKS),
            )
            self._kept(record, now)
            return answer

    def _claim_unknown(self, key: str, owner: str, lease: float) -> ClaimRecord | None:
        with self._shared.locked() as now:
            return self._keep(machine.take_unknown(self._records.get(key), owner=owner, lease=lease, now=now), now)

    def _begin_send(self, key: str, token: int, lease: float) -> ClaimRecord | None:
        with self._shared.locked() as now:
            return self._keep(machine.begin_send(self._records.get(key), token, lease=lease, now=now), now)

    def _renew(self, key: str, token: int, lease: float) -> ClaimRecord | None:
        with self._shared.locked() as now:
            return self._keep(machine.renew(self._records.get(key), token, lease=lease, now=now), now)

    def _settle(self, record: ClaimRecord, token: int, delay: float) -> ClaimRecord | None:
        with self._shared.locked() as now:
            return self._keep(machine.write(self._records.get(record.key), record, token, delay=delay, now=now), now)

    def _confirm(self, key: str, provider: str | None, provider_id: str | None) -> ClaimRecord:
        with self._shared.locked() as now:
            before = self._records.get(key)
            return self._kept(machine.confirm(before, key, provider=provider, provider_id=provider_id, now=now), now)

    def _cancel(self, key: str) -> ClaimRecord:
        with self._shared.locked() as now:
            return self._kept(machine.cancel(self._records.get(key), key, now=now), now)

    def _reopen(self, key: str, terms: ReopenTerms) -> ClaimRecord:
        with self._shared.locked() as now:
            return self._kept(machine.reopen(self._records.get(key), key, terms, now=now), now)

    def _get(self, key: str) -> ClaimRecord | None:
        with self._shared.locked():
            return self._records.get(key)

    def _unsettled(self, limit: int) -> Sequence[str]:
        with self._shared.locked() as now:
            known = [(machine.unsettled_at(record), key) for key, record in self._records.items()]
        return [key for _, key in sorted((at, key) for at, key in known if at is not None and at <= now)[:limit]]

    def _purge(self, before: datetime, limit: int) -> int:
        with self._shared.locked():
            expired = [record for record in self._records.values() if machine.is_expired(record, before)]
            expired.sort(key=lambda record: record.settled_at or before)
            for record in expired[:limit]:
                del self._records[record.key]
            young = {
                name: {source: at for source, at in marks.items() if at >= before}
                for name, marks in self._marks.items()
            }
            self._marks = {name: marks for name, marks in young.items() if marks}
            return len(expired[:limit])

    def _keep(self, record: ClaimRecord | None, now: datetime) -> ClaimRecord | None:
        return None if record is None else self._kept(record, now)

    def _kept(self, record: ClaimRecord, now: datetime) -> ClaimRecord:
        """Keep a record, and what its change says of its payload."""
        before = self._records.get(record.key)
        self._records[record.key] = record
        mark = poison.mark_of(before, record, now)
        if mark is not None:
            known = self._marks.get(record.fingerprint or "", machine.NO_MARKS)
            self._marks[record.fingerprint or ""] = poison.with_mark(known, mark)
        for fingerprint in poison.cleared(before, record):
            self._marks.pop(fingerprint, None)
        return record


@attrs.frozen(kw_only=True)
class _Entry:
    message: Message
    generation: int
    version: int
    due_at: datetime
    lease: Lease | None = None

    @property
    def ready_at(self) -> datetime:
        return self.due_at if self.lease is None else self.lease.deadline


class _Retries(RetryStore):
    def __init__(self, shared: _Shared) -> None:
        self._shared = shared
        self._entries: dict[tuple[str, int], _Entry] = {}
        self._tokens = count(1)

    def _schedule(self, message: Message, due_at: datetime, generation: int, version: int) -> None:
        key = (message.id, generation)
        new = _Entry(message=message, generation=generation, version=version, due_at=due_at)
        with self._shared.locked():
            old = self._entries.get(key)
            if old is None or version > old.version:
                self._entries[key] = new
            elif old.lease is not None:
                self._entries[key] = attrs.evolve(new, version=old.version, message=old.message)

    def _claim_due(self, limit: int, owner: str, lease: float) -> Sequence[DueMessage]:
        with self._shared.locked() as now:
            ready = [entry for entry in self._entries.values() if entry.ready_at <= now]
            ready.sort(key=lambda entry: (entry.ready_at, entry.message.id, entry.generation))
            claimed: list[DueMessage] = []
            for entry in ready[:limit]:
                held = Lease.granted(owner, next(self._tokens), now, lease)
                self._entries[entry.message.id, entry.generation] = attrs.evolve(entry, lease=held)
                claimed.append(
                    DueMessage(message=entry.message, generation=entry.generation, due_at=entry.due_at, lease=held)
                )
            return sorted(claimed, key=lambda entry: (entry.due_at, entry.message.id, entry.generation))

    def _ack(self, due: DueMessage) -> bool:
        with self._shared.locked():
            return self._held(due) is not None and bool(self._entries.pop((due.message.id, due.generation)))

    def _release(self, due: DueMessage, delay: float) -> bool:
        with self._shared.locked() as now:
            entry = self._held(due)
            if entry is None:
                return False
            self._entries[due.message.id, due.generation] = attrs.evolve(entry, lease=None, due_at=later(now, delay))
            return True

    def _extend(self, due: DueMessage, lease: float) -> DueMessage | None:
        with self._shared.locked() as now:
            entry = self._held(due)
            if entry is None:
                return None
            held = due.lease.renewed(now, lease)
            self._entries[due.message.id, due.generation] = attrs.evolve(entry, lease=held)
            return attrs.evolve(due, lease=held)

    def _cancel(self, message_id: str) -> bool:
        with self._shared.locked():
            keys = [key for key in self._entries if key[0] == message_id]
            for key in keys:
                del self._entries[key]
            return bool(keys)

    def _held(self, due: DueMessage) -> _Entry | None:
        entry = self._entries.get((due.message.id, due.generation))
        return entry if entry is not None and entry.lease is not None and entry.lease.token == due.lease.token else None

    def _stats(self) -> RetryStats:
        with self._shared.locked() as now:
            entries = list(self._entries.values())
        leased = sum(entry.lease is not None for entry in entries)
        return RetryStats(
            waiting=len(entries) - leased,
            leased=leased,
            due=sum(entry.ready_at <= now for entry in entries),
            next_due_at=min((entry.ready_at for entry in entries), default=None),
        )


class _DeadLetters(DeadLetterStore):
    def __init__(self, shared: _Shared) -> None:
        self._shared = shared
        self._letters: dict[str, tuple[int, DeadLetter]] = {}
        self._numbers = count(1)
        self._resolved_early: dict[str, datetime] = {}
        self._notes: dict[str, GroupNote] = {}

    def _put(self, letter: DeadLetter) -> DeadLetter:
        with self._shared.locked():
            if letter.id not in self._letters:
                if self._resolved_early.pop(letter.id, None) is not None:
                    letter = attrs.evolve(letter, state=DeadLetterState.RESOLVED)
                self._letters[letter.id] = next(self._numbers), letter
            return self._letters[letter.id][1]

    def _resolve(self, letter_id: str) -> None:
        with self._shared.locked() as now:
            if letter_id not in self._letters:
                self._resolved_early[letter_id] = now
                return
            number, letter = self._letters[letter_id]
            self._letters[letter_id] = number, attrs.evolve(letter, state=DeadLetterState.RESOLVED)

    def _change(self, letter_id: str, change: LetterChange) -> DeadLetter | None:
        with self._shared.locked():
            if letter_id not in self._letters:
                return None
            number, letter = self._letters[letter_id]
            self._letters[letter_id] = number, change(letter)
            return self._letters[letter_id][1]

    def _get(self, letter_id: str) -> DeadLetter | None:
        with self._shared.locked():
            return self._letters[letter_id][1] if letter_id in self._letters else None

    def _matching(self, query: DeadLetterQuery) -> list[tuple[int, DeadLetter]]:
        """Return numbers and letters, oldest first; the lock is held."""
        return [row for row in self._letters.values() if query.matches(row[1])]

    def _newest_first(self) -> list[DeadLetter]:
        return [letter for _, letter in reversed(self._letters.values())]

    def _search(self, query: DeadLetterQuery, limit: int, cursor: str | None) -> DeadLetterPage:
        with self._shared.locked():
            found = self._matching(query)
        if cursor is not None:
            del found[bisect_left(found, read_cursor(cursor), key=lambda row: row[0]) :]
        rows = found[-limit:]
        more = len(found) > limit
        return DeadLetterPage([letter for _, letter in reversed(rows)], write_cursor(rows[0][0]) if more else None)

    def _count(self, query: DeadLetterQuery) -> int:
        with self._shared.locked():
            return len(self._matching(query))

    def _top(self, facet: Facet, query: DeadLetterQuery, limit: int) -> Sequence[tuple[str, int]]:
        with self._shared.locked():
            values = [getattr(letter, facet) for _, letter in self._matching(query)]
        tally = Counter(str(value) for value in values if value is not None)
        return sorted(tally.items(), key=lambda item: (-item[1], item[0]))[:limit]

    def _purge(self, before: datetime, query: DeadLetterQuery, limit: int) -> int:
        with self._shared.locked():
            old = [row for row in self._matching(query) if row[1].dead_lettered_at < before]
            old.sort(key=lambda row: (row[1].dead_lettered_at, row[0]))
            for _, letter in old[:limit]:
                del self._letters[letter.id]
            for letter_id, at in list(self._resolved_early.items()):
                if at < before and query.matches_early(at):
                    del self._resolved_early[letter_id]
            return len(old[:limit])

    def _groups(
        self, query: DeadLetterQuery, order: GroupOrder, muted: bool, limit: int, cursor: str | None
    ) -> DeadLetterGroupPage:
        with self._shared.locked() as now:
            groups = group_letters(self._newest_first(), query, self._notes, now)
        return page_of_groups(groups, order, limit, cursor, muted=muted)

    def _annotate(self, fingerprint: str, change: GroupChange) -> DeadLetterGroup | None:
        with self._shared.locked() as now:
            own = DeadLetterQuery(fingerprint=fingerprint)
            if not self._matching(own):
                return None
            self._notes[fingerprint] = change.made_to(self._notes.get(fingerprint, GroupNote()), now)
            (group,) = group_letters(self._newest_first(), own, self._notes, now)
            return group

    def _trend(self, query: DeadLetterQuery, start: datetime, step: float, steps: int) -> Sequence[int]:
        with self._shared.locked():
            instants = [letter.dead_lettered_at for _, letter in self._matching(query)]
        return spread(instants, start, step, steps)

    def _stats(self) -> DeadLetterStats:
        with self._shared.locked() as now:
            letters = [letter for _, letter in self._letters.values()]
        return stats_of(letters, now)


class _Deliveries(DeliveryStore):
    def __init__(self, shared: _Shared) -> None:
        self._shared = shared
        self._rows: dict[str, Delivery] = {}
        self._of_provider_id: dict[str, set[str]] = {}
        self._bookmarks: dict[str, datetime] = {}

    def _record(self, delivery: Delivery) -> Delivery:
        with self._shared.locked():
            new = delivery.after(self._rows.get(delivery.message_id))
            if new is not None:
                self._rows[new.message_id] = new
                if new.provider_id is not None:
                    self._of_provider_id.setdefault(new.provider_id, set()).add(new.message_id)
            return self._rows[delivery.message_id]

    def _get(self, message_id: str) -> Delivery | None:
        with self._shared.locked():
            return self._rows.get(message_id)

    def _by_provider_id(self, provider: str, provider_id: str) -> Delivery | None:
        with self._shared.locked():
            rows = [self._rows[each] for each in self._of_provider_id.get(provider_id, ()) if each in self._rows]
        found = [row for row in rows if row.provider_id == provider_id and row.provider in (provider, None)]
        return found[0] if len(found) == 1 else None

    def _with_status(self, status: DeliveryStatus, limit: int, after: str) -> Sequence[Delivery]:
        return self._page(lambda row: row.status is status, limit, after)

    def _unexpected(self, limit: int, after: str) -> Sequence[Delivery]:
        return self._page(lambda row: row.is_unexpected, limit, after)

    def _page(self, wanted: Callable[[Delivery], bool], limit: int, after: str) -> Sequence[Delivery]:
        with self._shared.locked():
            rows = [row for row in self._rows.values() if wanted(row) and row.message_id > after]
        return sorted(rows, key=lambda row: row.message_id)[:limit]

    def _updated_between(
        self, start: datetime, end: datetime, status: DeliveryStatus, limit: int, after: Delivery | None
    ) -> Sequence[Delivery]:
        begin = (start, "") if after is None else max((start, ""), (after.updated_at, after.message_id))
        with self._shared.locked():
            rows = [row for row in self._rows.values() if row.status is status and row.updated_at < end]
        found = sorted((row.updated_at, row.message_id, row) for row in rows)
        return [row for at, message_id, row in found if (at, message_id) > begin][:limit]

    def _bookmark(self, source: str) -> datetime | None:
        with self._shared.locked():
            return self._bookmarks.get(source)

    def _move_bookmark(self, source: str, to: datetime) -> datetime:
        with self._shared.locked():
            self._bookmarks[source] = stands = max(to, self._bookmarks.get(source, to))
            return stands

    def _counts(self) -> Mapping[DeliveryStatus, int]:
        with self._shared.locked():
            return dict(Counter(row.status for row in self._rows.values()))

    def _purge(self, before: datetime, limit: int) -> int:
        with self._shared.locked():
            old = [row for row in self._rows.values() if row.is_settled and row.updated_at < before]
            old.sort(key=lambda row: (row.updated_at, row.message_id))
            for row in old[:limit]:
                del self._rows[row.message_id]
                if row.provider_id is not None:
                    self._of_provider_id.get(row.provider_id, set[str]()).discard(row.message_id)
            return len(old[:limit])


class _Circuits(CircuitStore):
    def __init__(self, shared: _Shared) -> None:
        self._shared = shared
        self._rows: dict[str, Pause] = {}
        self._known: dict[str, Circuit] = {}

    def _pause(self, key: str, reason: str, by: str, until: datetime | None) -> Pause:
        with self._shared.locked() as now:
            self._rows[key] = Pause(key=key, reason=reason, by=by, since=now, until=until)
            return self._rows[key]

    def _resume(self, key: str) -> bool:
        with self._shared.locked() as now:
            pause = self._rows.pop(key, None)
            return pause is not None and (pause.until is None or pause.until > now)

    def _pauses(self) -> Sequence[Pause]:
        with self._shared.locked() as now:
            rows = [row for row in self._rows.values() if row.until is None or row.until > now]
        return sorted(rows, key=lambda row: row.key)

    def _trip(self, name: str, by: str, recovery: float) -> Circuit:
        with self._shared.locked() as now:
            self._known = {key: each for key, each in self._known.items() if not circuit.is_forgotten(each, now)}
            return self._keep(circuit.trip(self._known.get(name), name, by=by, recovery=recovery, now=now))

    def _lease_probe(self, name: str, owner: str, limit: int, length: float) -> Lease | None:
        with self._shared.locked() as now:
            changed, lease = circuit.lease_probe(
                self._known.get(name), owner=owner, limit=limit, length=length, now=now
            )
            if changed is not None:
                self._keep(changed)
            return lease

    def _record_probe(
        self, name: str, token: int, succeeded: bool | None, close_after: int, recovery: float
    ) -> Circuit | None:
        with self._shared.locked() as now:
            changed = circuit.record_probe(
                self._known.get(name),
                token,
                succeeded=succeeded,
                close_after=close_after,
                recovery=recovery,
                now=now,
            )
            return None if changed is None else self._keep(changed)

    def _reset(self, name: str) -> bool:
        with self._shared.locked() as now:
            known = self._known.get(name)
            if known is None or not known.is_open:
                return False
            self._keep(circuit.close(known, now=now))
            return True

    def _report(self, name: str, instance: str, calls: int, failures: int, length: float) -> Circuit:
        with self._shared.locked() as now:
            return self._keep(
                circuit.report(
                    self._known.get(name),
                    name,
                    instance=instance,
                    calls=calls,
                    failures=failures,
                    length=length,
                    now=now,
                )
            )

    def _circuits(self) -> Sequence[Circuit]:
        with self._shared.locked() as now:
            known = [each for each in self._known.values() if not circuit.is_forgotten(each, now)]
        return sorted(known, key=lambda each: each.name)

    def _keep(self, known: Circuit) -> Circuit:
        self._known[known.name] = known
        return known


class MemoryBackend:
    """Seven stores in this process's memory, safe for many threads.

    Args:
        clock: where the time comes from; None: the clock in force when a store is used.

    Example:
        >>> backend = MemoryBackend()
        >>> type(backend.claims.claim("welcome-17", owner="me")).__name__
        'Claimed'
    """

    blocks = False
    """No call waits for anything but the stores' own short lock."""

    def __init__(self, *, clock: Clock | None = None) -> None:
        shared = _Shared(clock)
        self.claims: ClaimStore = _Claims(shared)
        self.retries: RetryStore = _Retries(shared)
        self.dead_letters: DeadLetterStore = _DeadLetters(shared)
        self.deliveries: DeliveryStore = _Deliveries(shared)
        self.circuits: CircuitStore = _Circuits(shared)
        self.redrives: RedriveStore = Redrives(shared.locked)
        self.signals: SignalStore = MemorySignals(shared.locked)

    def close(self) -> None:
        """Do nothing: there is nothing to close."""
