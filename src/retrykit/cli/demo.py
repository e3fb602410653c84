"""`retrykit demo`: the scripted day, live, and its audit."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

import click
from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar
from rich.table import Table
from rich.text import Text

from ..errors import MissingExtraError, RetrykitError
from .output import Unusable, as_json, table

if TYPE_CHECKING:
    from ..dead_letter import DeadLetter
    from ..demo.audit import Audit
    from ..demo.day import Progress

__all__ = ["demo"]


@click.command()
@click.option(
    "--messages", default=2000, show_default=True, type=click.IntRange(25, 100_000), help="How many messages."
)
@click.option("--seed", default=1, show_default=True, help="The same seed tells the same story.")
@click.option(
    "--speed",
    default=1500.0,
    show_default=True,
    type=click.FloatRange(1, 5000),
    help="Seconds of the day in one real second.",
)
@click.option("--workers", default=8, show_default=True, type=click.IntRange(1, 64), help="Threads that send.")
@click.option(
    "--db",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The SQLite file, made anew.  [default: in a new temporary folder]",
)
@as_json
def demo(messages: int, seed: int, speed: float, workers: int, db: Path | None, json_: bool) -> None:
    """Watch a day of e-mail fail in every way, and audit what became of it.

    Two real SMTP servers on the loopback interface act by a script: throttling, an outage, timeouts after acceptance,
    full mailboxes, greylisting, unknown users, refused content, broken payloads, duplicates, killed workers. What they
    took they tell of by webhook calls: late, twice, in disorder or never. A delivered message is billed. Everything is
    kept in a SQLite file. In the end every message is compared with the servers' own logs: none may be lost, none sent
    twice, none billed twice. Exits with 1 if the audit fails.
    """
    try:
        from ..demo.day import Day, Progress, run_day
        from ..demo.scenarios import messages_of
    except ModuleNotFoundError as error:
        raise Unusable(str(MissingExtraError("demo", error.name or "aiosmtpd"))) from None
    path = db or Path(tempfile.mkdtemp(prefix="retrykit-demo-")) / "demo.db"
    day = Day(messages=messages, seed=seed, path=path, speed=speed, workers=workers)
    progress = Progress(messages)
    began = time.monotonic()
    try:
        todays = messages_of(messages, seed)
        run = partial(run_day, day, progress, todays)
        audit = run() if json_ else _watched(progress, run)
    except RetrykitError as error:
        raise Unusable(str(error)) from None
    elapsed = time.monotonic() - began
    if json_:
        click.echo(json.dumps({"audit": audit.to_dict(), "seconds": round(elapsed, 1), "seed": seed, "db": str(path)}))
    else:
        _report(audit, path, elapsed)
    if not audit.passed:
        raise SystemExit(1)


def _watched(progress: Progress, run: Callable[[], Audit]) -> Audit:
    """Run the day with a live display; without a terminal, with a line every few seconds."""
    console = Console()
    result: list[Audit] = []
    errors: list[BaseException] = []

    def target() -> None:
        try:
            result.append(run())
        except BaseException as error:  # noqa: BLE001 - raised again in the main thread
            errors.append(error)

    thread = Thread(target=target, daemon=True)
    thread.start()
    if console.is_terminal:
        bar = Bar(
            TextColumn("settled"), BarColumn(bar_width=50), MofNCompleteColumn(), TimeElapsedColumn(), console=console
        )
        task = bar.add_task("", total=progress.total)
        with Live(console=console, refresh_per_second=10, transient=True) as live:
            while thread.is_alive():
                bar.update(task, completed=progress.settled)
                live.update(Group(bar, _counts(progress)))
                thread.join(0.1)
    else:
        console.print(f"{progress.total:,} messages, two SMTP servers, one SQLite file")
        while thread.is_alive():
            thread.join(3.0)
            console.print(
                f"{time.monotonic() - progress.began:5.0f} s  settled {progress.settled:,} of {progress.total:,}, "
                f"waiting {progress.waiting:,}, failed tries {sum(progress.failed_tries.values()):,}; "
                f"{progress.hour.value}",
                soft_wrap=True,
                highlight=False,
            )
    if errors:
        raise errors[0]
    return result[0]


def _counts(progress: Progress) -> Table:
    table = Table.grid(padding=(0, 3))
    table.add_row("the day", progress.hour.value)
    table.add_row("handled", _tally(progress.dispositions))
    table.add_row("failed tries", _tally(progress.failed_tries))
    table.add_row("waiting", f"{progress.waiting:,}")
    table.add_row("unknown, asked", _tally(progress.verified))
    table.add_row("workers killed", f"{progress.killed:,}")
    table.add_row("webhook calls", _tally(progress.webhooks))
    return table


def _tally(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in sorted(dict(counts).items(), key=lambda item: -item[1]))


def _report(audit: Audit, path: Path, elapsed: float) -> None:
    """Print the audit, the dead letters' top error classes and one of them, and how to look further."""
    console = Console(highlight=False)
    numbers = ("messages", "as expected")
    ends = table("How every message ended", "scenario", *numbers, "has to end", right=numbers)
    for result in audit.scenarios:
        right = Text(f"{result.as_expected:,}", "green" if result.as_expected == result.messages else "red")
        ends.add_row(result.name, f"{result.messages:,}", right, result.expected)
    console.print(ends)
    console.print(
        f"\nAudit against the servers' own logs: {audit.messages:,} messages, {audit.accepted:,} accepted, "
        f"lost {audit.lost}, sent twice {audit.sent_twice}, in two places {audit.in_two_places}, "
        f"otherwise than expected {audit.unexpected}; unknown outcomes settled {audit.unknown_settled}, "
        f"left {audit.unknown_left}. {elapsed:.0f} s.",
        soft_wrap=True,
    )
    found = audit.reconciled
    console.print(
        f"The providers' own logs: {audit.events:,} events, {found.events:,} read by the reconciler; no webhook told of "
        f"{audit.events_lost}, found {audit.events_found} of these; not in the delivery log {audit.events_unseen}; "
        f"messages that match {found.matched:,}, missing {found.missing}, unexpected {found.unexpected}, conflicting "
        f"{found.conflicting}, of another status {audit.disagreeing}. Delivered {audit.delivered:,}, bills "
        f"{audit.bills:,}, billed wrongly {audit.misbilled}.",
        soft_wrap=True,
    )
    for problem in audit.problems:
        console.print(f"  {problem}", style="red", markup=False)
    verdict = "PASSED: none lost, none sent twice, none billed twice" if audit.passed else "FAILED"
    console.print(f"[bold {'green' if audit.passed else 'red'}]{verdict}[/]")
    console.print("\nDead letters, top error classes:")
    for name, count in audit.top_error_classes:
        console.print(f"  {count:6,}  {name}", markup=False)
    letter = _longest_history(path)
    if letter is not None:
        console.print("\nOne of them in full:")
        console.print(json.dumps(letter.to_dict(), indent=2, ensure_ascii=False), markup=False, soft_wrap=True)
    console.print(
        f"\nLook further: the store is {path}. For example:\n"
        f"  export RETRYKIT_URL=sqlite:///{path}\n"
        "  retrykit runbook\n"
        "  retrykit dlq groups\n"
        "  retrykit dlq list class:mailbox_full\n"
        "  retrykit deliveries",
        markup=False,
        soft_wrap=True,
    )


def _longest_history(path: Path) -> DeadLetter | None:
    """Return the latest dead letter that was tried most often."""
    from ..backends.sqlite import SQLiteBackend

    backend = SQLiteBackend(path)
    try:
        letters = backend.dead_letters.search(limit=1000).letters
        return max(letters, key=lambda letter: letter.attempt_count, default=None)
    finally:
        backend.close()
