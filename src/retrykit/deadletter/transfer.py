"""Dead letters as a file: one line of JSON for each, oldest first, the same letters in the same order wherever it is imported.

Both directions go letter by letter: memory holds a page of letters or one line, however many there are. An import may be stopped and
repeated; a letter that is there already stays as it is. Broken lines are told by number, the rest is imported. Letters of a newer
version are kept whole.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Iterator
from typing import Final, TypeAlias

import attrs

from .._steps import Steps, arun, do, run
from ..checks import check_limit
from ..dead_letter import SCHEMA_VERSION, DeadLetter, dead_letter_id
from ..errors import ConfigurationError, InvalidPayloadError
from ..stores import AsyncDeadLetterStore, DeadLetterQuery, DeadLetterStore

__all__ = [
    "BrokenLine",
    "ImportReport",
    "export_letters",
    "export_letters_async",
    "import_letters",
    "import_letters_async",
]

MAX_LINE: Final = 16 * 1_048_576
"""Bytes that a line may have, unless said otherwise."""

_REPORTED: Final = 100
"""Broken lines that are told in full."""

_REASON: Final = 300
"""Characters of a reason."""

_ALL: Final = DeadLetterQuery()

Line: TypeAlias = bytes | str


class _Export:
    """The pages of an export; the one logic of both colours.

    A store gives the letters put last first. So the first round only notes where each page begins, and the second gives the pages from
    the last to the first.
    """

    def __init__(self, store: DeadLetterStore | AsyncDeadLetterStore, query: DeadLetterQuery, page: int) -> None:
        self._store = store
        self._query = query
        self._limit = check_limit(page, "page")
        self._first: list[DeadLetter] | None = None
        self._cursors: list[str] = []
        self._given = frozenset[str]()

    def begin(self) -> Steps[None]:
        """Note where the pages begin."""
        page = yield from do(self._store.search, self._query, limit=self._limit)
        self._first = list(page.letters)
        while page.cursor is not None:
            self._cursors.append(page.cursor)
            page = yield from do(self._store.search, self._query, limit=self._limit, cursor=page.cursor)

    def next(self) -> Steps[list[bytes] | None]:
        """Return the lines of the next page, or None when there are no more."""
        if self._cursors:
            cursor = self._cursors.pop()
            letters = (yield from do(self._store.search, self._query, limit=self._limit, cursor=cursor)).letters
        elif self._first is not None:
            letters, self._first = self._first, None
        else:
            return None
        # Where letters were deleted meanwhile, a page reaches into the one that was given before.
        lines = [
            f"{letter.to_json()}\n".encode("ascii") for letter in reversed(letters) if letter.id not in self._given
        ]
        self._given = frozenset(letter.id for letter in letters)
        return lines


def export_letters(store: DeadLetterStore, query: DeadLetterQuery = _ALL, *, page: int = 100) -> Iterator[bytes]:
    """Give letters as lines of JSON, the one put first first.

    Letters put since the export began are not in it. Where more than a page of letters is deleted meanwhile, one may come twice, which
    an import sorts out.

    Args:
        store: where they are.
        query: which letters.
        page: how many are read at once, at least 1.

    Returns:
        The lines, in ASCII, each with its end of line; the store is read as they are taken.

    Raises:
        ConfigurationError: the page is not allowed.
        StoreError: the store failed.

    Example:
        >>> from retrykit.backends import MemoryBackend
        >>> with open("/dev/null", "wb") as file:
        ...     file.writelines(export_letters(MemoryBackend().dead_letters))
    """
    export = _Export(store, query, page)

    def lines() -> Iterator[bytes]:
        run(export.begin())
        while (page := run(export.next())) is not None:
            yield from page

    return lines()


def export_letters_async(
    store: AsyncDeadLetterStore, query: DeadLetterQuery = _ALL, *, page: int = 100
) -> AsyncIterator[bytes]:
    """Give letters as lines of JSON, as `export_letters`."""
    export = _Export(store, query, page)

    async def lines() -> AsyncIterator[bytes]:
        """Give the lines page by page."""
        await arun(export.begin())
        while (page := await arun(export.next())) is not None:
            for line in page:
                yield line

    return lines()


@attrs.frozen
class BrokenLine:
    """A line that is no dead letter."""

    number: int
    """Counted from 1."""
    reason: str
    """Why, in one sentence, without the payload."""


@attrs.frozen(kw_only=True)
class ImportReport:
    """What became of the lines of an import. Empty lines are none."""

    imported: int = 0
    """Letters that were put."""
    present: int = 0
    """Letters that were there already, and stay as they were."""
    newer: int = 0
    """How many of both are of a newer version: kept whole, also what this version does not know."""
    broken: int = 0
    """Lines that are no letter."""
    broken_lines: tuple[BrokenLine, ...] = ()
    """The first hundred of them."""

    def _with_broken(self, number: int, reason: str) -> ImportReport:
        lines = self.broken_lines
        if len(lines) < _REPORTED:
            lines = (*lines, BrokenLine(number, reason[:_REASON]))
        return attrs.evolve(self, broken=self.broken + 1, broken_lines=lines)


def import_letters(store: DeadLetterStore, lines: Iterable[Line], *, max_line: int = MAX_LINE) -> ImportReport:
    """Put letters that `export_letters` gave, or records of other tools with the nine minimal fields.

    Args:
        store: where to.
        lines: a file opened in binary mode, of which no more than a line is read at once, or any lines.
        max_line: bytes that a line may have, at least 1; a longer one is broken.

    Raises:
        ConfigurationError: `lines` is one text, or `max_line` is not allowed.
        StoreError: the store failed. What was put stays; import the file again.

    Example:
        >>> from retrykit.backends import MemoryBackend
        >>> report = import_letters(MemoryBackend().dead_letters, [b'{"message_id": "m-1"}'])
        >>> report.broken_lines[0].number, report.broken_lines[0].reason
        (1, 'a dead letter needs the fields error_class, attempt_count, last_failed_at, original_payload')
    """
    return run(_import(store, lines, max_line))


async def import_letters_async(
    store: AsyncDeadLetterStore, lines: Iterable[Line] | AsyncIterable[Line], *, max_line: int = MAX_LINE
) -> ImportReport:
    """Put letters, as `import_letters`; the lines may also come asynchronously."""
    return await arun(_import(store, lines, max_line))


def _import(
    store: DeadLetterStore | AsyncDeadLetterStore, lines: Iterable[Line] | AsyncIterable[Line], max_line: int
) -> Steps[ImportReport]:
    read, report, number = _reader(lines, check_limit(max_line, "max_line")), ImportReport(), 0
    while (line := (yield from do(read))) is not None:
        number += 1
        if not isinstance(line, (bytes, str)):  # pyright: ignore[reportUnnecessaryIsInstance]
            report = report._with_broken(number, f"it is of type {type(line).__name__}; allowed are bytes and text")
            continue
        if not line.strip():
            continue
        if len(line) > max_line:
            report = report._with_broken(number, f"it is longer than {max_line:,} bytes")
            continue
        try:
            letter = _letter(line)
        except InvalidPayloadError as error:
            report = report._with_broken(number, str(error))
            continue
        if (yield from do(store.get, letter.id)) is None:
            yield from do(store.put, letter)
            report = attrs.evolve(report, imported=report.imported + 1)
        else:
            report = attrs.evolve(report, present=report.present + 1)
        if letter.schema_version > SCHEMA_VERSION:
            report = attrs.evolve(report, newer=report.newer + 1)
    return report


def _letter(line: Line) -> DeadLetter:
    """Read a letter; one of another id than its own would be put back beside the true one."""
    letter = DeadLetter.from_json(line)
    own = dead_letter_id(letter.message_id, letter.generation)
    if letter.id != own:
        raise InvalidPayloadError(f"the id of the dead letter {own!r} is {letter.id!r}; allowed is the former, or none")
    return letter


def _reader(
    lines: Iterable[Line] | AsyncIterable[Line], max_line: int
) -> Callable[[], Awaitable[Line | None] | Line | None]:
    """Return what gives the next line, at the end None; of a line that is too long only so much that it is seen to be."""
    if isinstance(lines, (str, bytes)):
        raise ConfigurationError(
            "lines is one text; allowed are a file and the lines of one, such as text.splitlines()"
        )
    if isinstance(lines, AsyncIterable):
        coming = aiter(lines)

        async def next_line() -> Line | None:
            return await anext(coming, None)

        return next_line
    readline: Callable[[int], Line] | None = getattr(lines, "readline", None)
    if readline is not None:
        return lambda: _bounded(readline, max_line)
    iterator = iter(lines)
    return lambda: next(iterator, None)


def _bounded(readline: Callable[[int], Line], max_line: int) -> Line | None:
    line = rest = readline(max_line + 1)
    while len(rest) > max_line and rest[-1:] not in (b"\n", "\n"):
        rest = readline(max_line + 1)
    return line or None
