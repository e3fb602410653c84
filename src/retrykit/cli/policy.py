"""`retrykit policy` and `retrykit lint`: look at a matrix, check it, and try it on failures on record."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..dead_letter import DeadLetter
from ..errors import RetrykitError
from ..failure import ErrorClass
from ..policy.config import matrix_schema
from ..policy.lint import SHARES, LintReport, Severity, budgeted_load_factor
from ..policy.replay import ReplayReport
from ..stores import Backend
from ..times import short
from .backend import opened
from .output import Unusable, as_json, console, load_matrix, table

__all__ = ["lint", "policy"]

_MATRIX = click.argument("matrix", metavar="FILE|email|http", default="email")


@click.group()
def policy() -> None:
    """Look at policy matrices."""


@policy.command()
@_MATRIX
@click.option("--toml", "form", flag_value="toml", help="Print it as TOML, to begin a file of your own.")
@click.option("--markdown", "form", flag_value="markdown", help="Print it as a table in Markdown.")
@as_json
def show(matrix: str, form: str | None, json_: bool) -> None:
    """Print a matrix: what is retried how often, after which delays, and what follows."""
    if json_ and form is not None:
        raise click.UsageError("give one of --json, --toml and --markdown")
    loaded = load_matrix(matrix)
    try:
        if json_:
            click.echo(json.dumps(loaded.to_dict()))
        elif form == "toml":
            click.echo(loaded.to_toml(), nl=False)
        elif form == "markdown":
            click.echo(loaded.to_markdown())
        else:
            console().print(loaded)
    except RetrykitError as error:
        raise Unusable(str(error)) from None


@policy.command()
def schema() -> None:
    """Print the JSON Schema of a matrix in TOML, for editors that complete and check it."""
    click.echo(json.dumps(matrix_schema(), indent=2))


@click.command()
@_MATRIX
@click.option("--recovery", default="60s", show_default=True, help="How long a circuit breaker stays open.")
@click.option(
    "--replay",
    "recorded",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A file of dead letters, one JSON object a line: what would this matrix have decided about them?",
)
@click.option("--replay-db", "url", help="The same for the dead letters of a backend, such as sqlite:///mail.db.")
@click.option("--idempotent", is_flag=True, help="The recorded calls were declared idempotent.")
@as_json
def lint(matrix: str, recovery: str, recorded: Path | None, url: str | None, idempotent: bool, json_: bool) -> None:
    """Check a matrix for contradictions, and say what it amounts to.

    Prints for each policy how many tries it makes in the worst case, when it gives up, and how much load its retries add
    while a share of all tries fails. Exits with 1 if something in the matrix cannot be meant.
    """
    if recorded is not None and url is not None:
        raise click.UsageError("give --replay or --replay-db, not both")
    loaded = load_matrix(matrix)
    try:
        own = [
            key for key in loaded.policies if isinstance(key, ErrorClass) and not key.is_built_in
        ]  # all are declared
        report = loaded.lint(classes=own, recovery_timeout=recovery)
        replayed = None
        if recorded is not None or url is not None:
            with _letters(recorded, url) as letters:
                replayed = loaded.replay(letters, idempotent=idempotent)
    except RetrykitError as error:
        raise Unusable(str(error)) from None
    if json_:
        click.echo(json.dumps(report.to_dict() | ({"replay": replayed.to_dict()} if replayed else {})))
    else:
        _print_report(console(), report)
        if replayed is not None:
            _print_replay(console(), replayed)
    if not report.passed:
        raise SystemExit(1)


@contextmanager
def _letters(recorded: Path | None, url: str | None) -> Generator[Iterator[DeadLetter]]:
    """Give the dead letters of a file or of a backend, one at a time."""
    if recorded is not None:
        with recorded.open("rb") as lines:
            yield _from_lines(lines, recorded)
        return
    with opened(url) as backend:
        yield _from_store(backend)


def _from_lines(lines: Iterable[bytes], file: Path) -> Iterator[DeadLetter]:
    """Give the letters of a file; a line that is none is named and left out."""
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                yield DeadLetter.from_json(line)
            except RetrykitError as error:
                click.echo(f"{file}, line {number}, is left out: {error}", err=True)


def _from_store(backend: Backend) -> Iterator[DeadLetter]:
    cursor: str | None = None
    while True:
        page = backend.dead_letters.search(limit=500, cursor=cursor)
        yield from page.letters
        cursor = page.cursor
        if cursor is None:
            return


def _print_report(out: Console, report: LintReport) -> None:
    numbers = ("tries", "gives up after", "half of them")
    amounts = table("What each policy amounts to", "policy", *numbers, "then", right=numbers)
    for figures in report.figures:
        low, half, _, high = figures.gives_up_after
        waits = (f"{short(low)} to {short(high)}", short(half)) if high else ("at once", "")
        amounts.add_row(str(figures.key), str(figures.attempts), *waits, figures.then.value)
    out.print(amounts)
    out.print()
    retried = [figures for figures in report.figures if figures.attempts > 1]
    title = "Tries for each call, by the share of all tries that fail"
    loads = {str(f.key): [f"{load:.4f}" for load in f.load] for f in retried}
    loads["paid for by successes*"] = [f"{budgeted_load_factor(share, 0.1):.4f}" for share in SHARES]
    out.print(_by_share(title, loads))
    out.print("* one retry, of which each success earns a tenth: what a retry budget would make of it")
    out.print()
    title = "The share of calls that fail in the end"
    out.print(_by_share(title, {str(f.key): [f"{left:.2g}" for left in f.left] for f in retried}))
    out.print(f"\nAt most {report.worst_case_attempts} tries of one message, whatever it fails with.")
    for finding in report.findings:
        colour = "red" if finding.severity is Severity.ERROR else "yellow"
        said = f" {finding.where}: {finding.message}  ({finding.check})"
        out.print(Text.assemble((finding.severity.value, colour), said))
    if not report.findings:
        out.print("nothing to find fault with", style="green")


def _by_share(title: str, rows: Mapping[str, Sequence[str]]) -> Table:
    shares = [f"{share:.0%}" for share in SHARES]
    made = table(title, "policy", *shares, right=shares)
    for name, cells in rows.items():
        made.add_row(name, *cells)
    return made


def _print_replay(out: Console, report: ReplayReport) -> None:
    out.print(
        f"\nReplayed {report.letters:,} dead letters: {report.same:,} would have ended as they did, "
        f"{report.different:,} would have gone another way, {report.without_history:,} have no history."
    )
    for (name, then, now), count in sorted(report.changes.items(), key=lambda item: -item[1]):
        out.print(f"  {count:6,}  {name}: {then}, now {now}")
    for example in report.examples[:3]:
        out.print(f"  e.g. {example.letter_id}, attempt {example.attempt}: {example.would.reason}")
