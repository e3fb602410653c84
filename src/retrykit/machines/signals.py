"""What all processes of a fleet have met lately, in one record of bounded size, and how it changes.

Each process adds what it counted since the last time; rules judge the sums. Nothing here depends on how many messages, error
classes or codes there are: rings of buckets hold the counts, classes beyond the first thirty count as "other", codes beyond
the first five that are new at a time stand in one line, and what was told is remembered by a hash.

The record has a time line of its own that never goes back: a store's clock that is set back an hour neither loses counts nor
lets them pile up.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final, Protocol, cast

import attrs

from ..codec import JSON
from ..errors import SchemaVersionError
from ..times import to_millis
from .alerts import Alert, AlertState, Finding, Terms, Watch, hand_out, resolve, step

__all__ = [
    "BUCKET",
    "Backlog",
    "Contribution",
    "Judge",
    "Occurrence",
    "Signals",
    "class_key",
    "exchange",
    "limited",
    "told",
]

SCHEMA_VERSION: Final = 1
"""Of a record's JSON form."""
BUCKET: Final = 30.0
"""Seconds of a bucket."""
BUCKETS: Final = 60
"""Buckets that are kept: half an hour."""
HOURS: Final = 24
"""Whole hours before the current one that are kept."""
MAX_CLASSES: Final = 30
"""Error classes counted by name in a bucket; further ones count as "other"."""
MAX_SOURCES: Final = 500
MAX_SEEN: Final = 500
MAX_PER_RULE: Final = 25
"""Alerts of one rule, in force or about to be; further ones wait until one of them is over."""
MOST_AT_ONCE: Final = 5
"""Things of one kind that stand by themselves at a time; further ones stand in one line."""
KEPT: Final = 3600.0
"""Seconds for which what happened once is kept."""

_OTHER: Final = "other"
_CLASS: Final = "class:"
_SAMPLES: Final = 10
_TOLERANCE: Final = 60_000
"""Milliseconds by which clocks of processes may differ without being taken for one that was set back."""
_LOST: Final = 300_000
"""Milliseconds after which a process that says nothing has no open breaker any more."""
_FORGOTTEN: Final = 3_600_000


@attrs.frozen(kw_only=True)
class Backlog:
    """What a backend says of its queues."""

    waiting: int
    """Messages in the retry queue."""
    due: int
    """Those of them that are due."""
    overdue: float
    """For how many seconds the oldest has been due."""
    letters: int
    """Dead letters that wait for a person: the depth."""
    died_last_hour: int
    """The growth."""


@attrs.frozen(kw_only=True)
class Occurrence:
    """Something that happens once, such as a code that was never met before."""

    kind: str
    subject: str
    """What it happened to; "" for all beyond the first five."""
    detail: str = ""
    count: int = 1
    samples: tuple[str, ...] = ()
    at: int = 0
    """When it was last added to."""


@attrs.frozen(kw_only=True)
class Contribution:
    """What one process met since its last one."""

    instance: str
    seq: int
    """Counted from 1: one that comes twice, since its answer was lost, counts once."""
    counts: Mapping[str, int] = attrs.field(factory=dict[str, int])
    samples: tuple[str, ...] = ()
    """Ids of dead letters."""
    occurrences: tuple[Occurrence, ...] = ()
    open_breakers: tuple[str, ...] = ()
    """All that are open, and those that were since the last time."""
    backlog: Backlog | None = None
    """None: the backend could not say."""


@attrs.frozen(kw_only=True)
class Source:
    """A process that contributes."""

    seq: int
    at: int
    open_breakers: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class Signals:
    """What the fleet has met lately, and which alerts are in force."""

    name: str
    at: int = 0
    """Milliseconds on the record's own time line, which never goes back."""
    shift: int = 0
    """Milliseconds by which it is ahead of the store's clock."""
    buckets: Mapping[int, Mapping[str, int]] = attrs.field(factory=dict[int, Mapping[str, int]])
    """Counts by the number of the bucket and by what is counted."""
    hours: Mapping[int, Mapping[str, int]] = attrs.field(factory=dict[int, Mapping[str, int]])
    """"handled" and "dead" by the number of the hour."""
    waiting: Mapping[int, int] = attrs.field(factory=dict[int, int])
    """Messages in the retry queue, the latest figure of each bucket."""
    backlog: Backlog | None = None
    sources: Mapping[str, Source] = attrs.field(factory=dict[str, Source])
    samples: tuple[str, ...] = ()
    """Ids of the latest dead letters."""
    occurrences: tuple[Occurrence, ...] = ()
    seen: tuple[str, ...] = ()
    """Hashes of what happened once and is not to be told again, the latest last."""
    watches: tuple[Watch, ...] = ()

    def within(self, window: float) -> Counter[str]:
        """Return the counts of the last `window` seconds, the current bucket included."""
        return self.between(0, window)

    def between(self, start: float, end: float) -> Counter[str]:
        """Return the counts from `end` to `start` seconds ago; both are whole numbers of buckets."""
        last = self._bucket
        numbers = range(last - round(end / BUCKET) + 1, last - round(start / BUCKET) + 1)
        return _sums(self.buckets[number] for number in numbers if number in self.buckets)

    def waiting_between(self, start: float, end: float) -> float | None:
        """Return the mean of what waited in the retry queue from `end` to `start` seconds ago; None: nobody knows."""
        last = self._bucket
        numbers = range(last - round(end / BUCKET) + 1, last - round(start / BUCKET) + 1)
        found = [self.waiting[number] for number in numbers if number in self.waiting]
        return sum(found) / len(found) if found else None

    def usual(self) -> Counter[str]:
        """Return what was handled and what died in the whole hours before the current one, a day of them at the most."""
        return _sums(counts for number, counts in self.hours.items() if number != self._hour)

    def open_breakers(self) -> Mapping[str, int]:
        """Return in how many processes each breaker is open."""
        found = Counter[str]()
        for source in self.sources.values():
            if self.at - source.at < _LOST:
                found.update(source.open_breakers)
        return found

    def alerts(self) -> Sequence[Alert]:
        """Return the alerts in force, by key."""
        found = [watch.alert for watch in self.watches if watch.alert is not None]
        return sorted((each for each in found if each.state is AlertState.FIRING), key=lambda each: each.key)

    def notices(self, owner: str) -> Sequence[Alert]:
        """Return the changes of which a process is to tell people."""
        mine = [each for each in self.watches if not each.is_told and each.holder == owner]
        return [watch.alert for watch in mine if watch.alert is not None]

    @property
    def _bucket(self) -> int:
        return self.at // round(BUCKET * 1000)

    @property
    def _hour(self) -> int:
        return self.at // 3_600_000

    def to_dict(self) -> dict[str, JSON]:
        """Return the record as JSON values."""
        return {
            "schema_version": SCHEMA_VERSION,
            "name": self.name,
            "at": self.at,
            "shift": self.shift,
            "buckets": {str(number): dict(counts) for number, counts in self.buckets.items()},
            "hours": {str(number): dict(counts) for number, counts in self.hours.items()},
            "waiting": {str(number): waiting for number, waiting in self.waiting.items()},
            "backlog": None if self.backlog is None else attrs.asdict(self.backlog),
            "sources": {
                name: [source.seq, source.at, list(source.open_breakers)] for name, source in self.sources.items()
            },
            "samples": list(self.samples),
            "occurrences": [{**attrs.asdict(each), "samples": list(each.samples)} for each in self.occurrences],
            "seen": list(self.seen),
            "watches": [watch.to_dict() for watch in self.watches],
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, JSON]) -> Signals:
        """Make a record of what `to_dict` gave.

        Raises:
            KeyError, TypeError, ValueError, AttributeError: it is no such thing.
            SchemaVersionError: a newer retrykit wrote it.
        """
        version = _number(fields["schema_version"])
        if version > SCHEMA_VERSION:
            raise SchemaVersionError(f"the record of signals {fields['name']!r}", version, SCHEMA_VERSION)
        backlog = cast("Mapping[str, int] | None", fields["backlog"])
        sources = cast("Mapping[str, tuple[int, int, Sequence[str]]]", fields["sources"])
        return cls(
            name=str(fields["name"]),
            at=_number(fields["at"]),
            shift=_number(fields["shift"]),
            buckets={int(number): _counts(counts) for number, counts in _items(fields, "buckets")},
            hours={int(number): _counts(counts) for number, counts in _items(fields, "hours")},
            waiting={int(number): _number(waiting) for number, waiting in _items(fields, "waiting")},
            backlog=None if backlog is None else Backlog(**backlog),
            sources={
                name: Source(seq=_number(seq), at=_number(at), open_breakers=tuple(names))
                for name, (seq, at, names) in sources.items()
            },
            samples=_texts(fields["samples"]),
            occurrences=tuple(map(_occurrence, cast("Sequence[JSON]", fields["occurrences"]))),
            seen=_texts(fields["seen"]),
            watches=tuple(Watch.from_dict(each) for each in cast("Sequence[Mapping[str, JSON]]", fields["watches"])),
        )


def _sums(parts: Iterable[Mapping[str, int]]) -> Counter[str]:
    found = dict[str, int]()  # a store may be locked meanwhile, and Counter's own update takes twice as long
    for counts in parts:
        for name, count in counts.items():
            found[name] = found.get(name, 0) + count
    return Counter(found)


def _number(value: object) -> int:
    if type(value) is not int:
        raise TypeError(f"{value!r} is no whole number")
    return value


def _items(fields: Mapping[str, JSON], name: str) -> Iterable[tuple[str, JSON]]:
    return cast("Mapping[str, JSON]", fields[name]).items()


def _counts(counts: JSON) -> dict[str, int]:
    return {name: _number(count) for name, count in cast("Mapping[str, JSON]", counts).items()}


def _texts(values: JSON) -> tuple[str, ...]:
    return tuple(map(str, cast("Sequence[JSON]", values)))


def _occurrence(fields: JSON) -> Occurrence:
    known = dict(cast("Mapping[str, JSON]", fields))
    return Occurrence(
        kind=str(known["kind"]),
        subject=str(known["subject"]),
        detail=str(known["detail"]),
        count=_number(known["count"]),
        samples=_texts(known["samples"]),
        at=_number(known["at"]),
    )


class Judge(Protocol):
    """A rule: its terms, and what it says of the figures."""

    @property
    def terms(self) -> Terms:
        """Its name, and how long its condition has to hold and to be gone."""
        ...

    def judge(self, signals: Signals, firing: Mapping[str, Alert]) -> Iterable[Finding]:
        """Return what is wrong, and what of the alerts in force is not yet gone.

        Args:
            signals: the figures.
            firing: this rule's alerts in force, by key, with the figures that they fired on.
        """
        ...


def class_key(error_class: str) -> str:
    """Return under which name the failures of a class are counted."""
    return f"{_CLASS}{error_class[:64]}"


def limited(counts: Mapping[str, int], more: Mapping[str, int]) -> dict[str, int]:
    """Return the sums of two counts, with classes beyond the first thirty as one."""
    found = dict(counts)
    room = MAX_CLASSES - sum(name.startswith(_CLASS) for name in found)
    for counted, count in more.items():
        name = counted
        if name not in found and name.startswith(_CLASS):
            if room <= 0:
                name = class_key(_OTHER)
            else:
                room -= 1
        found[name] = found.get(name, 0) + count
    return found


def exchange(
    signals: Signals | None,
    name: str,
    given: Contribution,
    rules: Iterable[Judge],
    *,
    lease: float,
    now: datetime,
) -> Signals:
    """Add what a process met, judge the sums, and hand out what is to be told.

    Args:
        signals: as the record stands, None: there is none.
        name: the record's.
        given: what the process met.
        rules: by which the sums are judged.
        lease: seconds for which the process may take to tell people.
        now: the store's.
    """
    signals = _moved(Signals(name=name) if signals is None else signals, to_millis(now))
    known = signals.sources.get(given.instance)
    if known is None or known.seq < given.seq:
        signals = _added(signals, given)
    signals = attrs.evolve(signals, sources=_sources(signals, given))
    watches = [hand_out(watch, given.instance, lease, signals.at) for watch in _judged(signals, rules, now)]
    return attrs.evolve(signals, watches=tuple(watches))


def told(signals: Signals | None, name: str, notices: Iterable[Alert]) -> Signals:
    """Note that people were told of changes; an alert that is over is forgotten then."""
    if signals is None:
        return Signals(name=name)
    changes = {(each.key, each.state, each.changed_at) for each in notices}
    kept = list[Watch]()
    for watch in signals.watches:
        alert = watch.alert
        if alert is None or (alert.key, alert.state, alert.changed_at) not in changes:
            kept.append(watch)
        elif alert.state is AlertState.FIRING:
            kept.append(attrs.evolve(watch, is_told=True, holder=None))
    return attrs.evolve(signals, watches=tuple(kept))


def _moved(signals: Signals, millis: int) -> Signals:
    """Move along the time line, and let go of what is too old."""
    at = millis + signals.shift
    if signals.at - at > _TOLERANCE:  # the clock was set back: time goes on from where it was
        signals, at = attrs.evolve(signals, shift=signals.shift + signals.at - at), signals.at
    moved = attrs.evolve(signals, at=max(at, signals.at))
    first, hour = moved._bucket - BUCKETS, moved._hour - HOURS
    return attrs.evolve(
        moved,
        buckets={number: counts for number, counts in moved.buckets.items() if number > first},
        hours={number: counts for number, counts in moved.hours.items() if number >= hour},
        waiting={number: waiting for number, waiting in moved.waiting.items() if number > first},
        occurrences=tuple(each for each in moved.occurrences if moved.at - each.at < KEPT * 1000),
    )


def _added(signals: Signals, given: Contribution) -> Signals:
    buckets, hours, waiting = dict(signals.buckets), dict(signals.hours), dict(signals.waiting)
    bucket, hour = signals._bucket, signals._hour
    if given.counts:
        buckets[bucket] = limited(buckets.get(bucket, {}), given.counts)
        lasting = {name: given.counts[name] for name in ("handled", "dead") if name in given.counts}
        hours[hour] = limited(hours.get(hour, {}), lasting)
    if given.backlog is not None:
        waiting[bucket] = given.backlog.waiting
    signals = attrs.evolve(
        signals,
        buckets=buckets,
        hours=hours,
        waiting=waiting,
        backlog=given.backlog or signals.backlog,
        samples=(*signals.samples, *given.samples)[-_SAMPLES:],
    )
    for occurrence in given.occurrences:
        signals = _met(signals, occurrence)
    return signals


def _met(signals: Signals, new: Occurrence) -> Signals:
    """Take in something that happens once, unless it was told before."""
    if new.subject:
        mark = hashlib.blake2b(f"{new.kind} {new.subject}".encode(errors="backslashreplace"), digest_size=8).hexdigest()
        if mark in signals.seen:
            return signals
        signals = attrs.evolve(signals, seen=(*signals.seen, mark)[-MAX_SEEN:])
    same = [each for each in signals.occurrences if each.kind == new.kind]
    if new.subject and sum(bool(each.subject) for each in same) < MOST_AT_ONCE:
        return attrs.evolve(signals, occurrences=(*signals.occurrences, attrs.evolve(new, at=signals.at)))
    before = next((each for each in same if not each.subject), Occurrence(kind=new.kind, subject="", count=0))
    samples = (*before.samples, *((new.subject,) if new.subject else ()))[:_SAMPLES]
    more = attrs.evolve(before, count=before.count + new.count, samples=samples, at=signals.at)
    return attrs.evolve(signals, occurrences=(*(each for each in signals.occurrences if each is not before), more))


def _sources(signals: Signals, given: Contribution) -> dict[str, Source]:
    """Return who contributes, the latest last; who has said nothing for an hour is forgotten."""
    sources = {
        name: source
        for name, source in signals.sources.items()
        if name != given.instance and signals.at - source.at < _FORGOTTEN
    }
    known = signals.sources.get(given.instance)
    seq = given.seq if known is None else max(known.seq, given.seq)
    sources[given.instance] = Source(seq=seq, at=signals.at, open_breakers=given.open_breakers)
    for name in list(sources)[:-MAX_SOURCES]:
        del sources[name]
    return sources


def _judged(signals: Signals, rules: Iterable[Judge], now: datetime) -> Sequence[Watch]:
    judged, left = list[Watch](), {watch.key: watch for watch in signals.watches}
    for rule in rules:
        terms = rule.terms
        watched = {key: watch for key, watch in left.items() if watch.rule == terms.name}
        firing = {
            key: watch.alert
            for key, watch in watched.items()
            if watch.alert is not None and watch.alert.state is AlertState.FIRING
        }
        findings = {finding.key: finding for finding in rule.judge(signals, firing)}
        kept = list[Watch]()
        for key in {**watched, **findings}:  # what is watched already first: it keeps its place
            left.pop(key, None)
            watch = step(watched.get(key), findings.get(key), terms, signals.at, now)
            if watch is not None and len(kept) < MAX_PER_RULE:
                kept.append(watch)
        judged += kept
    for watch in left.values():  # of rules that other processes have, or that nobody has any more
        if signals.at - watch.judged_at < _FORGOTTEN or not watch.is_told:
            judged.append(watch)
        elif watch.alert is not None:
            judged.append(resolve(watch, now))
    return judged
