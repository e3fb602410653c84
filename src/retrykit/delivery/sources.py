"""Where a reconciler gets a provider's events from: an API that is asked for a time, a file, or any events at hand."""

from __future__ import annotations

import os
from array import array
from bisect import bisect_left
from collections.abc import AsyncIterable, Awaitable, Iterable, Iterator, Sequence
from datetime import datetime
from itertools import groupby
from operator import itemgetter
from os import PathLike
from typing import BinaryIO, Final, Protocol

from ..classification.provider_event import ProviderEvent
from ..errors import ConfigurationError, InvalidPayloadError
from ..times import to_millis, utc
from .events import parse_events

__all__ = ["AsyncProviderEvents", "EventFile", "EventList", "ProviderEvents"]

MAX_LINE: Final = 1024 * 1024
"""Bytes that a line of a file of events may have."""

_SHOWN: Final = 100
"""Lines that could not be read and are told one by one."""


class ProviderEvents(Protocol):
    """Ask for a provider's events of a time, for example from its events API."""

    def __call__(self, start: datetime, end: datetime, /) -> Iterable[ProviderEvent]:
        """Return the events that happened from `start` on and before `end`, in any order; more than those do no harm."""
        ...


class AsyncProviderEvents(Protocol):
    """`ProviderEvents` for asynchronous callers: a coroutine function, or an asynchronous generator function."""

    def __call__(
        self, start: datetime, end: datetime, /
    ) -> AsyncIterable[ProviderEvent] | Awaitable[Iterable[ProviderEvent]]:
        """Return the events that happened from `start` on and before `end`, in any order; more than those do no harm."""
        ...


class EventList:
    """Events at hand, as a source for a reconciler; those that do not say when they happened come with every time.

    Args:
        events: any, in any order; they are kept in memory.
    """

    def __init__(self, events: Iterable[ProviderEvent]) -> None:
        self._events: Final = list(events)

    def __call__(self, start: datetime, end: datetime, /) -> Iterator[ProviderEvent]:
        """Give the events of a time."""
        return (each for each in self._events if each.at is None or start <= each.at < end)


class EventFile:
    r"""A file with one webhook body a line, as a source for a reconciler.

    The file may grow while it is used, and may be larger than the memory: kept is where the events of a time begin. An event that
    does not say when it happened counts as of the time of the one before it, in front of all that say so as of the first of these; where
    none does, all come with every time. Lines that cannot be read are passed over and told in `unreadable`; so is a last line without its
    end, which is read as soon as it is whole: JSON by itself, a form by its newline.

    Args:
        path: the file, UTF-8: JSON objects, or arrays of them as providers send them.
        provider: who sent them, as for `parse_events`.

    Raises:
        ConfigurationError: there is no such file.

    Example:
        >>> import tempfile
        >>> with tempfile.NamedTemporaryFile("w", suffix=".jsonl", delete=False) as file:
        ...     _ = file.write('{"event": "delivered", "message_id": "welcome-17", "timestamp": 1767225600}\n')
        >>> from datetime import UTC, datetime
        >>> source = EventFile(file.name, "sendgrid")
        >>> [event.message_id for event in source(datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC))]
        ['welcome-17']
    """

    def __init__(self, path: str | PathLike[str], provider: str) -> None:
        self._path: Final = os.fspath(path)
        self._provider: Final = provider
        if not os.path.isfile(self._path):
            raise ConfigurationError(f"there is no file {self._path!r}; allowed is a file with one JSON object a line")
        self._forget()

    def _forget(self) -> None:
        self._read_to = 0
        self._lines = 0
        self._last: int | None = None
        self._tail: str | None = None
        # One entry for each event, by time: when, where its line begins, and which of the line it is.
        self._times, self._offsets, self._places = array("q"), array("q"), array("q")
        self._passed_over = 0
        self._told: list[tuple[int, str]] = []

    @property
    def unreadable_lines(self) -> int:
        """How many lines could not be read, as of the last reading; the last one of a growing file may be whole the next time."""
        return self._passed_over + (self._tail is not None)

    @property
    def unreadable(self) -> list[tuple[int, str]]:
        """The first hundred of them: number, and why."""
        tail = [] if self._tail is None else [(self._lines + 1, self._tail)]
        return [*self._told, *tail][:_SHOWN]

    @property
    def span(self) -> tuple[datetime, datetime] | None:
        """The instants of the first and the last event that says when it happened, or None where there is none."""
        from ..times import from_millis

        self._read_on()
        return None if self._last is None else (from_millis(self._times[0]), from_millis(self._times[-1]))

    def __call__(self, start: datetime, end: datetime, /) -> Iterator[ProviderEvent]:
        """Give the events of a time."""
        self._read_on()
        begin, until = to_millis(utc(start, "start")), to_millis(utc(end, "end"))
        first, last = bisect_left(self._times, begin), bisect_left(self._times, until)
        if self._last is None:
            first, last = 0, len(self._times)
        found = sorted(zip(self._offsets[first:last], self._places[first:last], strict=True))
        with open(self._path, "rb") as file:
            for offset, entries in groupby(found, key=itemgetter(0)):
                file.seek(offset)
                events = parse_events(self._provider, file.readline(MAX_LINE + 1))
                for _, place in entries:
                    yield events[place]

    def _read_on(self) -> None:
        """Take in what the file has grown by; one that is shorter than before is another."""
        if os.path.getsize(self._path) < self._read_to:
            self._forget()
        self._tail = None
        with open(self._path, "rb") as file:
            file.seek(self._read_to)
            for offset, line in self._lines_of(file):
                is_whole = line.endswith(b"\n")
                try:
                    events = self._read(line)
                except InvalidPayloadError as error:
                    if not is_whole:
                        self._tail = f"{error}; the line has no end: it was cut off, or is still being written"
                        break
                    self._pass_over(str(error))
                    events = []
                self._read_to = offset + len(line)
                self._lines += is_whole
                self._take(offset, events)
        if any(self._times[place] > self._times[place + 1] for place in range(len(self._times) - 1)):
            order = sorted(range(len(self._times)), key=self._times.__getitem__)
            self._times = array("q", (self._times[place] for place in order))
            self._offsets = array("q", (self._offsets[place] for place in order))
            self._places = array("q", (self._places[place] for place in order))

    def _read(self, line: bytes) -> list[ProviderEvent]:
        """Read a line; the last one is not taken before it is certain to be whole."""
        if not line.strip():
            return []
        events = parse_events(self._provider, line)
        if not line.endswith(b"\n") and not line.lstrip().startswith((b"{", b"[")):
            raise InvalidPayloadError("it is a form, which may go on")
        return events

    def _take(self, offset: int, events: Sequence[ProviderEvent]) -> None:
        """Note where the events of a line are. What stands before the first that says when it happened gets that one's time."""
        for place, event in enumerate(events):
            if event.at is not None:
                at = to_millis(event.at)
                if self._last is None:
                    self._times = array("q", [at]) * len(self._times)
                self._last = at
            self._times.append(self._last or 0)
            self._offsets.append(offset)
            self._places.append(place)

    def _lines_of(self, file: BinaryIO) -> Iterator[tuple[int, bytes]]:
        """Give each line with where it begins; one that is too long is passed over."""
        while line := file.readline(MAX_LINE + 1):
            offset = file.tell() - len(line)
            if len(line) <= MAX_LINE:
                yield offset, line
                continue
            while line and not line.endswith(b"\n"):
                line = file.readline(MAX_LINE)
            self._pass_over(f"it is longer than {MAX_LINE:,} bytes")
            self._lines += 1
            self._read_to = file.tell()

    def _pass_over(self, why: str) -> None:
        self._passed_over += 1
        if len(self._told) < _SHOWN:
            self._told.append((self._lines + 1, why))
