"""`retrykit dlq edit`, `discard`, `export` and `import`."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

import attrs
import click
from rich.progress import Progress

from ..checks import counted
from ..clock import current_clock
from ..dead_letter_queue import DeadLetterQueue
from ..deadletter import Cipher, export_letters, import_letters, message_of
from ..deadletter.payload import message_to_put_back
from ..message import check_author
from ..stores import AuditEntry
from .backend import opened, with_backend
from .dlq import query_of, with_query
from .dlq_redrive import whole_queue
from .imports import cipher_option
from .output import Unusable, as_json, by_user, confirm, console, is_attended, printable, progress

__all__ = ["discard", "edit", "export", "import_"]

_SHOWN = 20


@click.command()
@click.argument("letter_id")
@with_backend
@click.option(
    "--payload", "file", type=click.File("rb"), help="A file with the repaired payload, JSON; - for standard input."
)
@click.option("--editor", is_flag=True, help="Repair the payload in an editor.")
@click.option(
    "--attribute",
    "changed",
    multiple=True,
    metavar="NAME=VALUE",
    help="Set an attribute; without =VALUE it goes. May be repeated.",
)
@cipher_option
@by_user
@click.option("--why", required=True, help="What is repaired, and why.")
@as_json
def edit(
    letter_id: str,
    url: str | None,
    file: BinaryIO | None,
    editor: bool,
    changed: tuple[str, ...],
    cipher: Cipher | None,
    by: str,
    why: str,
    json_: bool,
) -> None:
    """Repair a dead letter: what is put back from then on is this. The original stays as evidence, and is never sent."""
    if (file is not None) + editor + bool(changed) == 0 or (file is not None and editor):
        raise click.UsageError("give --payload FILE or --editor, or --attribute, or one of the first with the last")
    with opened(url) as backend:
        letter = backend.dead_letters.get(letter_id)
        if letter is None:
            raise Unusable(f"there is no dead letter {letter_id!r}")
        payload = None if file is None else file.read(16 * 1024 * 1024)
        # A whole payload may stand in for what is not there; the attributes are then to be given, all of them.
        standing = message_of(letter, cipher) if file is None else message_to_put_back(letter, cipher)
        if editor and standing is not None:
            payload = _edited(standing.body)
        attributes = _changed({} if standing is None else standing.attributes, changed) if changed else None
        bench = DeadLetterQueue(backend, cipher=cipher)
        repaired = bench.edit(letter_id, payload, attributes=attributes, by=by, why=why)
    if json_:
        click.echo(repaired.to_json())
    else:
        console().print(f"{printable(letter_id)} is repaired; retrykit dlq redrive message:ID puts it back")


def _changed(attributes: Mapping[str, str], changed: tuple[str, ...]) -> dict[str, str]:
    """Return attributes with some set, as NAME=VALUE, and some left out, as NAME."""
    new = dict(attributes)
    for each in changed:
        name, given, value = each.partition("=")
        if not name or (not given and name not in new):
            said = "has no name" if not name else "is not there, so it cannot go"
            raise click.UsageError(
                f"the attribute {each!r} {said}; allowed are NAME=VALUE, and the NAME of one that is there"
            )
        if given:
            new[name] = value
        else:
            new.pop(name)
    if new == attributes:
        raise click.UsageError("the attributes are so already; nothing would be repaired")
    return new


def _edited(payload: bytes) -> bytes:
    try:
        shown = json.dumps(json.loads(payload), indent=2, ensure_ascii=False)
    except ValueError:
        shown = payload.decode("utf-8", "replace")
    if not is_attended():
        raise Unusable("an editor needs a terminal; give --payload FILE")
    try:
        edited = click.edit(shown, extension=".json")
    except click.ClickException as error:
        raise Unusable(f"{error.message}; give --payload FILE, or set EDITOR") from None
    if edited is None:
        raise Unusable("the editor was left without saving; nothing was changed")
    return edited.encode()


@click.command()
@with_query
@with_backend
@by_user
@click.option("--why", required=True, help="Why they are given up.")
@whole_queue
@click.option("--yes", is_flag=True, help="Do not ask.")
@as_json
def discard(
    query: tuple[str, ...], url: str | None, by: str, why: str, everything: bool, yes: bool, json_: bool
) -> None:
    """Give the letters of a QUERY up for good. They stay as evidence, and are not put back any more."""
    with opened(url) as backend:
        bench = DeadLetterQueue(backend)
        made = bench.plan(query_of(query), everything=everything)
        if made.count == 0:
            raise Unusable("there is nothing to discard")
        if not yes:
            confirm(f"Discard {counted(made.count, 'letter')}?")
        with progress() as shown:
            task = shown.add_task("discarded", total=made.count)
            count = bench.discard(
                made.query,
                by=by,
                why=why,
                everything=everything,
                on_progress=lambda done: shown.update(task, completed=done),
            )
    if json_:
        click.echo(json.dumps({"discarded": count}))
    else:
        console().print(f"{counted(count, 'letter')} discarded")


@click.command("export")
@with_query
@with_backend
@click.option(
    "--to",
    "file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="A file, made anew.  [default: standard output]",
)
def export(query: tuple[str, ...], url: str | None, file: Path | None) -> None:
    """Write the letters of a QUERY as JSON, one a line, the one put first first. retrykit dlq import reads them."""
    with opened(url) as backend:
        lines = export_letters(backend.dead_letters, query_of(query))
        if file is None:
            for line in lines:
                click.echo(line, nl=False)
            return
        count = 0
        with _made_anew(file.resolve()) as out, progress() as shown:
            task = shown.add_task("exported", total=None)
            for count, line in enumerate(lines, 1):
                out.write(line)
                shown.update(task, completed=count)
    click.echo(f"{counted(count, 'letter')} exported to {file}", err=True)


@contextmanager
def _made_anew(file: Path) -> Generator[BinaryIO]:
    """Give a file to write, which takes the place of the old one at the end; what is no plain file is written as it is."""
    if file.exists() and not file.is_file():
        with file.open("wb") as out:
            yield out
        return
    with tempfile.NamedTemporaryFile(dir=file.parent, prefix=f".{file.name}.", delete=False) as out:
        new = Path(out.name)
        try:
            yield cast("BinaryIO", out)
        except BaseException:
            new.unlink()
            raise
    new.chmod(file.stat().st_mode if file.exists() else 0o600)
    new.replace(file)


class _Watched:
    """A file of which somebody watches how far it is read."""

    def __init__(self, file: BinaryIO, shown: Progress) -> None:
        self._file = file
        self._shown = shown
        self._task = shown.add_task("lines read", total=None)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._file)

    def readline(self, size: int) -> bytes:
        self._shown.advance(self._task)
        return self._file.readline(size)


@click.command("import")
@click.argument("file", type=click.File("rb"))
@with_backend
@by_user
@as_json
def import_(file: BinaryIO, url: str | None, by: str, json_: bool) -> None:
    """Put the letters of a FILE, one JSON object a line; - for standard input. What is there already stays as it is.

    Lines that are no letter are told by their number, and the rest is imported. Exits with 1 if there are any.
    """
    with opened(url) as backend:
        begun = AuditEntry(at=current_clock().now(), by=check_author(by), action="import begun", subject=file.name)
        backend.redrives.note(begun)
        with progress() as shown:
            report = import_letters(backend.dead_letters, _Watched(file, shown))
        result = f"{report.imported} imported, {report.present} were there already, {report.broken} lines broken"
        backend.redrives.note(attrs.evolve(begun, at=current_clock().now(), action="imported", result=result, step=1))
    if json_:
        click.echo(json.dumps(attrs.asdict(report)))
    else:
        for broken in report.broken_lines[:_SHOWN]:
            click.echo(f"line {broken.number} was passed over: {printable(broken.reason)}", err=True)
        console().print(
            f"{counted(report.imported, 'letter')} imported, {report.present:,} were there already, {counted(report.broken, 'broken line')}"
        )
        if report.newer:
            console().print(f"{report.newer:,} of them are of a newer version: kept whole, and not put back")
    if report.broken:
        raise SystemExit(1)
