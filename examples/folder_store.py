"""Stores of your own: all seven contracts on JSON files in a folder, for any number of threads and processes.

Small rather than fast: one lock for everything, and a search reads every file. What it shows is what a store has to do.
"""

import fcntl
import hashlib
import os
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import attrs

from retrykit import Dispatcher, Message, codec
from retrykit.clock import Clock, current_clock
from retrykit.dead_letter import DeadLetter, DeadLetterState
from retrykit.errors import ConfigurationError, StoreCorruptError
from retrykit.lease import Lease
from retrykit.machines import circuit, poison, redrive
from retrykit.machines import claim as machine
from retrykit.machines.letter import LetterChange
from retrykit.stores import (
    AuditEntry,
    Circuit,
    CircuitStore,
    ClaimAnswer,
    ClaimRecord,
    ClaimStore,
    ClaimTerms,
    DeadLetterGroup,
    DeadLetterGroupPage,
    DeadLetterPage,
    DeadLetterQuery,
    DeadLetterStats,
    DeadLetterStore,
    Delivery,
    DeliveryStatus,
    DeliveryStore,
    DueMessage,
    Facet,
    GroupChange,
    GroupNote,
    GroupOrder,
    JobChange,
    Pause,
    RedriveJob,
    RedriveStore,
    ReopenTerms,
    RetryStats,
    RetryStore,
    SignalChange,
    Signals,
    SignalStore,
)
from retrykit.stores.dead_letter_figures import spread, stats_of
from retrykit.stores.dead_letter_groups import group_letters, page_of_groups
from retrykit.times import from_iso, later, to_iso

Document = dict[str, Any]


class Folder:
    """JSON documents in a folder: by kind and key, one operation at a time."""

    def __init__(self, path: Path, clock: Clock | None, *, flush: bool) -> None:
        self.path = path
        self.clock = clock
        self.flush = flush
        self.lock = threading.Lock()
        path.mkdir(parents=True, exist_ok=True)

    @contextmanager
    def operation(self) -> Generator[datetime]:
        """Keep everybody else out, other processes as well, and tell the time of the operation."""
        with self.lock, (self.path / "lock").open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # let go when the file is closed, also when the process dies
            yield (self.clock or current_clock()).now()

    def file(self, kind: str, key: str) -> Path:
        """Return the file of a document: keys may hold anything, names of files may not."""
        return self.path / f"{kind}-{hashlib.sha256(key.encode('utf-8', 'surrogatepass')).hexdigest()}.json"

    def read(self, kind: str, key: str) -> Document | None:
        """Return a document, or None."""
        try:
            return _document(self.file(kind, key))
        except FileNotFoundError:
            return None

    def write(self, kind: str, key: str, document: Mapping[str, object]) -> None:
        """Replace a document: whoever dies on the way leaves the old one."""
        new = self.path / "new"
        with new.open("wb") as file:
            file.write(codec.pack(document))
            if self.flush:  # else only the death of processes is survived, not that of the machine
                file.flush()
                os.fsync(file.fileno())
        new.replace(self.file(kind, key))

    def delete(self, kind: str, key: str) -> None:
        """Remove a document."""
        self.file(kind, key).unlink(missing_ok=True)

    def all(self, kind: str) -> list[Document]:
        """Return all documents of a kind."""
        return [_document(path) for path in self.path.glob(f"{kind}-*.json")]

    def next_number(self) -> int:
        """Return a number larger than every one before."""
        number = int((self.read("number", "") or {"last": 0})["last"]) + 1
        self.write("number", "", {"last": number})
        return number


def _document(path: Path) -> Document:
    document: Document = codec.unpack(path.read_bytes())  # type: ignore[assignment]
    return document


class FolderClaims(ClaimStore):
    """Claim records: the pure functions decide, the folder keeps."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder

    def _load(self, key: str) -> ClaimRecord | None:
        document = self.folder.read("claim", key)
        return None if document is None else ClaimRecord.from_dict(document)

    def _marks(self, fingerprint: str | None) -> poison.Marks:
        return (self.folder.read("marks", fingerprint or "") or {"at": {}})["at"]  # type: ignore[no-any-return]

    def _save(self, before: ClaimRecord | None, record: ClaimRecord, now: datetime) -> ClaimRecord:
        """Keep a record, and what its change says of its payload."""
        self.folder.write("claim", record.key, record.to_dict())
        mark = poison.mark_of(before, record, now)
        if mark is not None and record.fingerprint is not None:
            marks = poison.with_mark(self._marks(record.fingerprint), mark)
            self.folder.write("marks", record.fingerprint, {"fingerprint": record.fingerprint, "at": marks})
        for fingerprint in poison.cleared(before, record):
            self.folder.delete("marks", fingerprint)
        return record

    def _change(self, key: str, change: Callable[[ClaimRecord | None, datetime], ClaimRecord]) -> ClaimRecord:
        with self.folder.operation() as now:
            before = self._load(key)
            return self._save(before, change(before, now), now)

    def _try(
        self, key: str, change: Callable[[ClaimRecord | None, datetime], ClaimRecord | None]
    ) -> ClaimRecord | None:
        with self.folder.operation() as now:
            before = self._load(key)
            record = change(before, now)
            return None if record is None else self._save(before, record, now)

    def _claim(self, key: str, fingerprint: str | None, owner: str, lease: float, terms: ClaimTerms) -> ClaimAnswer:
        with self.folder.operation() as now:
            before, marks = self._load(key), self._marks(fingerprint)
            record, answer = machine.take(
                before, key, fingerprint=fingerprint, owner=owner, lease=lease, terms=terms, now=now, marks=marks
            )
            self._save(before, record, now)
            return answer

    def _claim_unknown(self, key: str, owner: str, lease: float) -> ClaimRecord | None:
        return self._try(key, lambda record, now: machine.take_unknown(record, owner=owner, lease=lease, now=now))

    def _begin_send(self, key: str, token: int, lease: float) -> ClaimRecord | None:
        return self._try(key, lambda record, now: machine.begin_send(record, token, lease=lease, now=now))

    def _renew(self, key: str, token: int, lease: float) -> ClaimRecord | None:
        return self._try(key, lambda record, now: machine.renew(record, token, lease=lease, now=now))

    def _settle(self, record: ClaimRecord, token: int, delay: float) -> ClaimRecord | None:
        return self._try(record.key, lambda stored, now: machine.write(stored, record, token, delay=delay, now=now))

    def _confirm(self, key: str, provider: str | None, provider_id: str | None) -> ClaimRecord:
        return self._change(
            key,
            lambda record, now: machine.confirm(record, key, provider=provider, provider_id=provider_id, now=now),
        )

    def _cancel(self, key: str) -> ClaimRecord:
        return self._change(key, lambda record, now: machine.cancel(record, key, now=now))

    def _reopen(self, key: str, terms: ReopenTerms) -> ClaimRecord:
        return self._change(key, lambda record, now: machine.reopen(record, key, terms, now=now))

    def _get(self, key: str) -> ClaimRecord | None:
        with self.folder.operation():
            return self._load(key)

    def _unsettled(self, limit: int) -> Sequence[str]:
        with self.folder.operation() as now:
            records = [ClaimRecord.from_dict(document) for document in self.folder.all("claim")]
            known = [(machine.unsettled_at(record), record.key) for record in records]
            return [key for _, key in sorted((at, key) for at, key in known if at is not None and at <= now)[:limit]]

    def _purge(self, before: datetime, limit: int) -> int:
        with self.folder.operation():
            records = [ClaimRecord.from_dict(document) for document in self.folder.all("claim")]
            old = sorted((r.settled_at or before, r.key) for r in records if machine.is_expired(r, before))[:limit]
            for _, key in old:
                self.folder.delete("claim", key)
            for document in self.folder.all("marks"):
                young = {source: at for source, at in document["at"].items() if at >= before}
                self.folder.write("marks", document["fingerprint"], document | {"at": young})
            return len(old)


class FolderRetries(RetryStore):
    """Waiting messages: a document for each message and generation."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder

    def _schedule(self, message: Message, due_at: datetime, generation: int, version: int) -> None:
        with self.folder.operation():
            key = f"{generation} {message.id}"
            old = self.folder.read("retry", key)
            if old is not None and version <= old["version"] and old["token"] is None:
                return
            new: Document = {"key": key, "id": message.id, "generation": generation, "due_at": due_at}
            new |= {"ready_at": due_at, "token": None, "version": version}
            if old is not None and version <= old["version"]:  # leased: taken back, and the newest message stays
                new |= {name: old[name] for name in ("version", "body", "attributes")}
            else:
                new |= {"body": message.body, "attributes": message.attributes}
            self.folder.write("retry", key, new)

    def _claim_due(self, limit: int, owner: str, lease: float) -> Sequence[DueMessage]:
        with self.folder.operation() as now:
            ready = [entry for entry in self.folder.all("retry") if entry["ready_at"] <= now]
            ready.sort(key=lambda entry: (entry["ready_at"], entry["id"], entry["generation"]))
            held = [self._hold(entry, owner, now, lease) for entry in ready[:limit]]
            return sorted(held, key=lambda due: (due.due_at, due.message.id, due.generation))

    def _hold(self, entry: Document, owner: str, now: datetime, length: float) -> DueMessage:
        lease = Lease.granted(owner, self.folder.next_number(), now, length)
        self.folder.write("retry", entry["key"], entry | {"ready_at": lease.deadline, "token": lease.token})
        message = Message(entry["id"], entry["body"], entry["attributes"], max_payload=len(entry["body"]))
        return DueMessage(message=message, generation=entry["generation"], due_at=entry["due_at"], lease=lease)

    def _held(self, due: DueMessage) -> Document | None:
        entry = self.folder.read("retry", f"{due.generation} {due.message.id}")
        return entry if entry is not None and entry["token"] == due.lease.token else None

    def _ack(self, due: DueMessage) -> bool:
        with self.folder.operation():
            entry = self._held(due)
            if entry is not None:
                self.folder.delete("retry", entry["key"])
            return entry is not None

    def _release(self, due: DueMessage, delay: float) -> bool:
        with self.folder.operation() as now:
            entry, at = self._held(due), later(now, delay)
            if entry is not None:
                self.folder.write("retry", entry["key"], entry | {"token": None, "due_at": at, "ready_at": at})
            return entry is not None

    def _extend(self, due: DueMessage, lease: float) -> DueMessage | None:
        with self.folder.operation() as now:
            entry, held = self._held(due), due.lease.renewed(now, lease)
            if entry is None:
                return None
            self.folder.write("retry", entry["key"], entry | {"ready_at": held.deadline})
            return attrs.evolve(due, lease=held)

    def _cancel(self, message_id: str) -> bool:
        with self.folder.operation():
            keys = [entry["key"] for entry in self.folder.all("retry") if entry["id"] == message_id]
            for key in keys:
                self.folder.delete("retry", key)
            return bool(keys)

    def _stats(self) -> RetryStats:
        with self.folder.operation() as now:
            entries = self.folder.all("retry")
            leased = sum(entry["token"] is not None for entry in entries)
            return RetryStats(
                waiting=len(entries) - leased,
                leased=leased,
                due=sum(entry["ready_at"] <= now for entry in entries),
                next_due_at=min((entry["ready_at"] for entry in entries), default=None),
            )


class FolderDeadLetters(DeadLetterStore):
    """Dead letters: numbered as they come, so that a page goes on where the one before ended."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder

    def _put(self, letter: DeadLetter) -> DeadLetter:
        with self.folder.operation():
            stored = self.folder.read("letter", letter.id)
            if stored is not None and stored["letter"] is not None:
                return _letter(stored)
            if stored is not None:  # resolved before it came
                letter = attrs.evolve(letter, state=DeadLetterState.RESOLVED)
            self._write(letter.id, self.folder.next_number(), letter)
            return letter

    def _write(self, letter_id: str, number: int, letter: DeadLetter | None, at: datetime | None = None) -> None:
        fields = None if letter is None else letter.to_dict()
        self.folder.write("letter", letter_id, {"id": letter_id, "number": number, "letter": fields, "at": at})

    def _resolve(self, letter_id: str) -> None:
        with self.folder.operation() as now:
            stored = self.folder.read("letter", letter_id)
            if stored is None or stored["letter"] is None:
                self._write(letter_id, 0, None, now)
            else:
                letter = attrs.evolve(_letter(stored), state=DeadLetterState.RESOLVED)
                self._write(letter_id, stored["number"], letter)

    def _change(self, letter_id: str, change: LetterChange) -> DeadLetter | None:
        with self.folder.operation():
            stored = self.folder.read("letter", letter_id)
            if stored is None or stored["letter"] is None:
                return None
            letter = change(_letter(stored))
            self._write(letter_id, stored["number"], letter)
            return letter

    def _get(self, letter_id: str) -> DeadLetter | None:
        with self.folder.operation():
            stored = self.folder.read("letter", letter_id)
            return None if stored is None or stored["letter"] is None else _letter(stored)

    def _matching(self, query: DeadLetterQuery) -> list[tuple[int, DeadLetter]]:
        """Return numbers and letters, newest first."""
        stored = [each for each in self.folder.all("letter") if each["letter"] is not None]
        found = [(int(each["number"]), _letter(each)) for each in stored]
        return sorted((row for row in found if query.matches(row[1])), key=lambda row: -row[0])

    def _search(self, query: DeadLetterQuery, limit: int, cursor: str | None) -> DeadLetterPage:
        if cursor is not None and not (cursor.isascii() and cursor.isdigit() and len(cursor) < 19):
            raise ConfigurationError(f"the cursor is {cursor[:40]!r}; allowed is the cursor of the page before")
        with self.folder.operation():
            found = [row for row in self._matching(query) if cursor is None or row[0] < int(cursor)]
        rows = found[:limit]
        return DeadLetterPage([letter for _, letter in rows], str(rows[-1][0]) if len(found) > limit else None)

    def _count(self, query: DeadLetterQuery) -> int:
        with self.folder.operation():
            return len(self._matching(query))

    def _top(self, facet: Facet, query: DeadLetterQuery, limit: int) -> Sequence[tuple[str, int]]:
        with self.folder.operation():
            values = [getattr(letter, facet) for _, letter in self._matching(query)]
        tally = Counter(str(value) for value in values if value is not None)
        return sorted(tally.items(), key=lambda item: (-item[1], item[0]))[:limit]

    def _purge(self, before: datetime, query: DeadLetterQuery, limit: int) -> int:
        with self.folder.operation():
            found = sorted((letter.dead_lettered_at, number, letter.id) for number, letter in self._matching(query))
            gone = [letter_id for died_at, _, letter_id in found if died_at < before][:limit]
            early = [
                each
                for each in self.folder.all("letter")
                if each["at"] is not None and each["at"] < before and query.matches_early(each["at"])
            ]
            for letter_id in gone + [each["id"] for each in early]:
                self.folder.delete("letter", letter_id)
            return len(gone)

    def _notes(self) -> dict[str, GroupNote]:
        return {each["fingerprint"]: GroupNote(**each["note"]) for each in self.folder.all("note")}

    def _groups(
        self, query: DeadLetterQuery, order: GroupOrder, muted: bool, limit: int, cursor: str | None
    ) -> DeadLetterGroupPage:
        with self.folder.operation() as now:
            letters = [letter for _, letter in self._matching(DeadLetterQuery())]
            groups = group_letters(letters, query, self._notes(), now)
        return page_of_groups(groups, order, limit, cursor, muted=muted)

    def _annotate(self, fingerprint: str, change: GroupChange) -> DeadLetterGroup | None:
        with self.folder.operation() as now:
            own = DeadLetterQuery(fingerprint=fingerprint)
            letters = [letter for _, letter in self._matching(own)]
            if not letters:
                return None
            note = change.made_to(self._notes().get(fingerprint, GroupNote()), now)
            self.folder.write("note", fingerprint, {"fingerprint": fingerprint, "note": attrs.asdict(note)})
            return group_letters(letters, own, {fingerprint: note}, now)[0]

    def _trend(self, query: DeadLetterQuery, start: datetime, step: float, steps: int) -> Sequence[int]:
        with self.folder.operation():
            return spread((letter.dead_lettered_at for _, letter in self._matching(query)), start, step, steps)

    def _stats(self) -> DeadLetterStats:
        with self.folder.operation() as now:
            return stats_of((letter for _, letter in self._matching(DeadLetterQuery())), now)


def _letter(stored: Document) -> DeadLetter:
    return DeadLetter.from_dict(stored["letter"])


class FolderDeliveries(DeliveryStore):
    """The delivery log."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder

    def _load(self, document: Document | None) -> Delivery | None:
        return None if document is None else Delivery.from_dict(document)

    def _all(self) -> list[Delivery]:
        return [delivery for document in self.folder.all("delivery") if (delivery := self._load(document)) is not None]

    def _record(self, delivery: Delivery) -> Delivery:
        with self.folder.operation():
            stored = self._load(self.folder.read("delivery", delivery.message_id))
            new = delivery.after(stored)
            if new is not None:
                self.folder.write("delivery", new.message_id, new.to_dict())
                return new
            assert stored is not None
            return stored

    def _get(self, message_id: str) -> Delivery | None:
        with self.folder.operation():
            return self._load(self.folder.read("delivery", message_id))

    def _by_provider_id(self, provider: str, provider_id: str) -> Delivery | None:
        with self.folder.operation():
            found = [
                each for each in self._all() if each.provider_id == provider_id and each.provider in (provider, None)
            ]
        return found[0] if len(found) == 1 else None

    def _with_status(self, status: DeliveryStatus, limit: int, after: str) -> Sequence[Delivery]:
        return self._page(lambda each: each.status is status, limit, after)

    def _unexpected(self, limit: int, after: str) -> Sequence[Delivery]:
        return self._page(lambda each: each.is_unexpected, limit, after)

    def _page(self, wanted: Callable[[Delivery], bool], limit: int, after: str) -> Sequence[Delivery]:
        with self.folder.operation():
            found = [each for each in self._all() if wanted(each) and each.message_id > after]
        return sorted(found, key=lambda each: each.message_id)[:limit]

    def _updated_between(
        self, start: datetime, end: datetime, status: DeliveryStatus, limit: int, after: Delivery | None
    ) -> Sequence[Delivery]:
        def place(each: Delivery) -> tuple[datetime, str]:
            return each.updated_at, each.message_id

        begin = (start, "") if after is None else max((start, ""), place(after))
        with self.folder.operation():
            found = [each for each in self._all() if each.status is status and begin < place(each) < (end, "")]
        return sorted(found, key=place)[:limit]

    def _bookmark(self, source: str) -> datetime | None:
        with self.folder.operation():
            document = self.folder.read("bookmark", source)
        return None if document is None else from_iso(document["at"])

    def _move_bookmark(self, source: str, to: datetime) -> datetime:
        with self.folder.operation():
            document = self.folder.read("bookmark", source)
            stands = to if document is None else max(to, from_iso(document["at"]))
            self.folder.write("bookmark", source, {"at": to_iso(stands)})
            return stands

    def _counts(self) -> Mapping[DeliveryStatus, int]:
        with self.folder.operation():
            return dict(Counter(each.status for each in self._all()))

    def _purge(self, before: datetime, limit: int) -> int:
        with self.folder.operation():
            old = [each for each in self._all() if each.is_settled and each.updated_at < before]
            old.sort(key=lambda each: (each.updated_at, each.message_id))
            for each in old[:limit]:
                self.folder.delete("delivery", each.message_id)
            return len(old[:limit])


class FolderCircuits(CircuitStore):
    """Pauses, and circuits as the pure functions make them."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder

    def _pause(self, key: str, reason: str, by: str, until: datetime | None) -> Pause:
        with self.folder.operation() as now:
            pause = Pause(key=key, reason=reason, by=by, since=now, until=until)
            self.folder.write("pause", key, attrs.asdict(pause))
            return pause

    def _resume(self, key: str) -> bool:
        with self.folder.operation() as now:
            stored = self.folder.read("pause", key)
            self.folder.delete("pause", key)
            return stored is not None and (stored["until"] is None or stored["until"] > now)

    def _pauses(self) -> Sequence[Pause]:
        with self.folder.operation() as now:
            pauses = [Pause(**stored) for stored in self.folder.all("pause")]
        return sorted((p for p in pauses if p.until is None or p.until > now), key=lambda pause: pause.key)

    def _load(self, name: str) -> Circuit | None:
        stored = self.folder.read("circuit", name)
        return None if stored is None else Circuit.from_dict(stored)

    def _save(self, known: Circuit) -> Circuit:
        self.folder.write("circuit", known.name, known.to_dict())
        return known

    def _trip(self, name: str, by: str, recovery: float) -> Circuit:
        with self.folder.operation() as now:
            return self._save(circuit.trip(self._load(name), name, by=by, recovery=recovery, now=now))

    def _lease_probe(self, name: str, owner: str, limit: int, length: float) -> Lease | None:
        with self.folder.operation() as now:
            changed, lease = circuit.lease_probe(self._load(name), owner=owner, limit=limit, length=length, now=now)
            if changed is not None:
                self._save(changed)
            return lease

    def _record_probe(
        self, name: str, token: int, succeeded: bool | None, close_after: int, recovery: float
    ) -> Circuit | None:
        with self.folder.operation() as now:
            changed = circuit.record_probe(
                self._load(name), token, succeeded=succeeded, close_after=close_after, recovery=recovery, now=now
            )
            return None if changed is None else self._save(changed)

    def _reset(self, name: str) -> bool:
        with self.folder.operation() as now:
            known = self._load(name)
            if known is None or not known.is_open:
                return False
            self._save(circuit.close(known, now=now))
            return True

    def _report(self, name: str, instance: str, calls: int, failures: int, length: float) -> Circuit:
        with self.folder.operation() as now:
            known = self._load(name)
            return self._save(
                circuit.report(known, name, instance=instance, calls=calls, failures=failures, length=length, now=now)
            )

    def _circuits(self) -> Sequence[Circuit]:
        with self.folder.operation() as now:
            known = [Circuit.from_dict(stored) for stored in self.folder.all("circuit")]
        return sorted((each for each in known if not circuit.is_forgotten(each, now)), key=lambda each: each.name)


class FolderRedrives(RedriveStore):
    """Redrives and the audit log, which is what was noted and what stands in the redrives' histories."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder

    def _load(self, job_id: str) -> RedriveJob | None:
        document = self.folder.read("redrive", job_id)
        return None if document is None else RedriveJob.from_dict(document)

    def _all(self) -> list[RedriveJob]:
        return [RedriveJob.from_dict(each) for each in self.folder.all("redrive")]

    def _keep(self, before: RedriveJob | None, after: RedriveJob) -> RedriveJob:
        if redrive.becomes_active(before, after):
            for other in self._all():
                if other.is_active and other.conflicts_with(after):
                    return other
        self.folder.write("redrive", after.id, after.to_dict())
        return after

    def _start(self, job: RedriveJob) -> RedriveJob:
        with self.folder.operation():
            return self._load(job.id) or self._keep(None, job)

    def _change(self, job_id: str, change: JobChange) -> RedriveJob | None:
        with self.folder.operation() as now:
            job = self._load(job_id)
            return None if job is None else self._keep(job, change(job, now))

    def _get(self, job_id: str) -> RedriveJob | None:
        with self.folder.operation():
            return self._load(job_id)

    def _jobs(self, active: bool, limit: int, after: RedriveJob | None) -> Sequence[RedriveJob]:
        with self.folder.operation():
            jobs = sorted((job for job in self._all() if job.is_active or not active), key=lambda job: job.position)
        return [job for job in jobs if after is None or job.position > after.position][:limit]

    def _note(self, entry: AuditEntry) -> None:
        with self.folder.operation():
            self.folder.write("audit", entry.key, entry.to_dict())

    def _audit(self, limit: int, after: AuditEntry | None) -> Sequence[AuditEntry]:
        with self.folder.operation():
            noted = [AuditEntry.from_dict(each) for each in self.folder.all("audit")]
            entries = {entry.key: entry for entry in (*noted, *(entry for job in self._all() for entry in job.history))}
        found = sorted(entries.values(), key=lambda entry: entry.position)
        return [entry for entry in found if after is None or entry.position > after.position][:limit]


class FolderSignals(SignalStore):
    """What the fleet has met lately: a document for each name."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder

    def _load(self, name: str) -> Signals | None:
        try:
            document = self.folder.read("signals", name)
            return None if document is None else Signals.from_dict(document)
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise StoreCorruptError(f"the signals {name!r} cannot be read: {error}") from error

    def _change(self, name: str, change: SignalChange) -> Signals:
        with self.folder.operation() as now:
            changed = change(self._load(name), now)
            self.folder.write("signals", name, {**changed.to_dict(), "key": name})
            return changed

    def _get(self, name: str) -> Signals | None:
        with self.folder.operation():
            return self._load(name)

    def _names(self) -> Sequence[str]:
        with self.folder.operation():
            return [str(document["key"]) for document in self.folder.all("signals")]

    def _mend(self, name: str) -> bool:
        with self.folder.operation():
            try:
                self._load(name)
            except StoreCorruptError:
                self.folder.delete("signals", name)
                return True
            return False


class FolderBackend:
    """The seven stores in one folder."""

    blocks = True

    def __init__(self, path: Path, *, clock: Clock | None = None, flush: bool = True) -> None:
        folder = Folder(path, clock, flush=flush)
        self.claims: ClaimStore = FolderClaims(folder)
        self.retries: RetryStore = FolderRetries(folder)
        self.dead_letters: DeadLetterStore = FolderDeadLetters(folder)
        self.deliveries: DeliveryStore = FolderDeliveries(folder)
        self.circuits: CircuitStore = FolderCircuits(folder)
        self.redrives: RedriveStore = FolderRedrives(folder)
        self.signals: SignalStore = FolderSignals(folder)

    def close(self) -> None:
        """Do nothing: no file stays open."""


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        backend = FolderBackend(Path(place))
        dispatcher = Dispatcher(lambda message, key: f"provider-{key}", backend=backend)
        for _ in range(2):
            print(dispatcher.handle(b'{"id": "welcome-17"}').kind.value)
        print(sorted(path.name.partition("-")[0] for path in Path(place).glob("*.json")))
