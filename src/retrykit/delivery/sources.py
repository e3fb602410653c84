"""Where a reconciler gets a provider's events from: an API that is asked for a time, a file, or any events at hand."""

from __future__ import annotations

import os
from array import array
from bisect import bisect_left
from collections.abc import AsyncIterable, Awaitable, Iterable, Iterator
from datetime import datetime
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
    does not say when it happened counts as of the time of the one before it. Lines that cannot be read are passed over and told
    in `unreadable`.

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
        self._times = array("q")
        self._offsets = array("q")
        self.unreadable_lines = 0
        """How many lines could not be read."""
        self.unreadable: list[tuple[int, str]] = []
        """The first of them: number, and why."""

    @property
    def span(self) -> tuple[datetime, datetime] | None:
        """The instants of the first and the last event, or None where there is none."""
        from ..times import from_millis

        self._read_on()
        return (from_millis(self._times[0]), from_millis(self._times[-1])) if self._times else None

    def __call__(self, start: datetime, end: datetime, /) -> Iterator[ProviderEvent]:
        """Give the events of a time."""
        self._read_on()
        begin, until = to_millis(utc(start, "start")), to_millis(utc(end, "end"))
        first, last = bisect_left(self._times, begin), bisect_left(self._times, until)
        times = dict(zip(self._offsets[first:last], self._times[first:last], strict=True))
        with open(self._path, "rb") as file:
            for offset in sorted(times):
                file.seek(offset)
                for event in parse_events(self._provider, file.readline(MAX_LINE + 1)):
                    if begin <= (times[offset] if event.at is None else to_millis(event.at)) < until:
                        yield event

    def _read_on(self) -> None:
        """Take in what the file has grown by; one that is shorter than before is another."""
        if os.path.getsize(self._path) < self._read_to:
            self._forget()
        at = self._times[-1] if self._times else 0
        with open(self._path, "rb") as file:
            file.seek(self._read_to)
            for offset, line in self._lines_of(file):
                try:
                    events = parse_events(self._provider, line) if line.strip() else []
                except InvalidPayloadError as error:
                    if not line.endswith(b"\n"):
                        break  # somebody is still writing it
                    self._pass_over(str(error))
                    events = []
                self._read_to = offset + len(line)
                self._lines += 1
                for at in dict.fromkeys(at if event.at is None else to_millis(event.at) for event in events):
                    self._times.append(at)
                    self._offsets.append(offset)
        if any(self._times[place] > self._times[place + 1] for place in range(len(self._times) - 1)):
            order = sorted(range(len(self._times)), key=self._times.__getitem__)
            self._times = array("q", (self._times[place] for place in order))
            self._offsets = array("q", (self._offsets[place] for place in order))

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
        self.unreadable_lines += 1
        if len(self.unreadable) < _SHOWN:
            self.unreadable.append((self._lines + 1, why))
