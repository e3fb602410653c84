"""`retrykit reconcile`: compare the delivery log with what a provider tells, and settle what nobody is sure of."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final, cast

import click

from ..clock import current_clock
from ..delivery import EventFile, ProviderEvents, StatusLookup
from ..errors import ConfigurationError
from ..events import Event, OutcomeVerified
from ..policy import EMAIL_MATRIX
from ..reconcile import Reconciler, ReconcileReport
from ..reconcile_options import ReconcileOptions
from ..stores import Backend
from ..times import plain, read_instant, seconds, to_iso
from ..verification import MAX_AGE
from .backend import opened, with_backend
from .imports import function_option
from .output import Unusable, as_json, console, load_matrix, printable, progress, table

__all__ = ["reconcile"]

_MAX_WINDOWS: Final = 100_000
"""Windows that one run may go through."""

_SHOWN: Final = 20
"""Mismatches in the table; --json has a hundred."""


@click.command()
@with_backend
@click.option(
    "--events",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A file of the provider's events: one webhook body a line. Needs --provider.",
)
@function_option("--source", "Instead of a file: a function of two instants that gives the events.")
@click.option(
    "--provider", help="Whose events: ses, sendgrid, mailgun, ... Only what it took over can be missing there."
)
@function_option("--lookup", "A function that asks the provider about one message id.")
@click.option(
    "--matrix",
    "matrix_name",
    metavar="FILE|email|http",
    default="email",
    show_default=True,
    help="The dispatcher's matrix: what follows when a message was not accepted.",
)
@click.option(
    "--since", help="Compare from there on: '3d' ago, a date, or an instant.  [default: where the last run ended]"
)
@click.option("--until", help="With --since: where to end.  [default: now, less the patience]")
@click.option("--window", default="1h", show_default=True, help="How much time is compared at once.")
@click.option(
    "--patience", default="1h", show_default=True, help="How long a message's first event may take to appear."
)
@as_json
def reconcile(
    url: str | None,
    events: Path | None,
    source: ProviderEvents | None,
    provider: str | None,
    lookup: StatusLookup | None,
    matrix_name: str,
    since: str | None,
    until: str | None,
    window: str,
    patience: str,
    json_: bool,
) -> None:
    """Compare what was sent with what the provider tells, and settle what nobody is sure of.

    \b
    retrykit reconcile --events events.jsonl --provider ses
    retrykit reconcile --source myapp.mail:events --lookup myapp.mail:lookup

    Events go into the delivery log, as those of webhooks do. A window of time is compared once, and a later run goes on
    where this one ended; --since compares again. With --lookup, sends whose outcome is unknown are asked about. Run it
    from a timer. Exits with 1 if something is missing, unexpected or conflicting,
    and otherwise with 2 if the lookup failed.
    """  # noqa: D301 - the mark by which click keeps the lines apart
    if events is not None and source is not None:
        raise click.UsageError("give --events or --source, not both")
    if events is not None and provider is None:
        raise click.UsageError("--events needs --provider: whose events are these?")
    if events is None and source is None and lookup is None:
        raise click.UsageError("nothing to compare with: give --events FILE or --source MODULE:FUNCTION, or --lookup")
    if since is not None and events is None and source is None:
        raise click.UsageError("--since needs --events or --source")
    if until is not None and since is None:
        raise click.UsageError("--until needs --since")
    with opened(url) as backend:
        file = None if events is None else EventFile(events, cast("str", provider))
        options = ReconcileOptions(provider=provider, window=window, patience=patience, matrix=load_matrix(matrix_name))
        span = None if since is None else _span(since, until, seconds(patience, "patience"))
        _check_windows(span, window, options)
        run = _Run(backend, lookup, file or source, options, span)
        total = ReconcileReport()
        with progress() as shown:
            task = shown.add_task("windows", total=None)
            for report in run.reports():
                total += report
                shown.update(task, advance=1, total=run.windows)
    _say(total, file, run, json_)
    if total.elsewhere and not (total.matched or total.missing or total.conflicting):
        click.echo(_nothing_of(cast("str", provider), total.elsewhere), err=True)
    failed = _lookup_failures(run)
    if total.is_clean and failed:
        raise Unusable(failed)
    if failed:
        click.echo(failed, err=True)
    if not total.is_clean:
        raise SystemExit(1)


def _nothing_of(provider: str, elsewhere: int) -> str:
    return (
        f"of the compared time the log has {elsewhere:,} messages that wait for their first event, none of them sent through "
        f"{provider!r}: is that what the log calls the provider? See `retrykit deliveries --status sent_to_provider`"
    )


def _span(since: str, until: str | None, patience: float) -> tuple[datetime, datetime]:
    now = current_clock().now()
    end = now - timedelta(seconds=patience) if until is None else read_instant(until, now, "--until")
    begin = read_instant(since, now, "--since")
    if begin >= end:
        raise ConfigurationError(
            f"--since is {to_iso(begin)} and the end {to_iso(end)}; allowed is a time that ends after it begins"
        )
    return begin, end


def _check_windows(span: tuple[datetime, datetime] | None, window: str, options: ReconcileOptions) -> None:
    """Refuse a length of which it would take ages to get through the time."""
    length = seconds(window, "window", positive=True)
    matrix = options.get("matrix", EMAIL_MATRIX)
    whole = (matrix.max_age or MAX_AGE) if span is None else (span[1] - span[0]).total_seconds()
    if whole / length > _MAX_WINDOWS:
        raise ConfigurationError(
            f"--window is {window!r}, of which {plain(whole)} s have {whole / length:,.0f}; allowed are {_MAX_WINDOWS:,} windows: "
            f"give at least {plain(math.ceil(whole / _MAX_WINDOWS))}s"
        )


def _lookup_failures(run: _Run) -> str | None:
    """Say what went wrong in asking; of the application's own errors no more than the types, for their texts may hold secrets."""
    if not run.failed:
        return None
    kinds = ", ".join(f"{kind} {number:,}" for kind, number in run.failed.most_common())
    said = f"the lookup failed for {run.failed.total():,} of the {run.asked:,} messages it was asked about: {kinds}"
    wrong = ConfigurationError.__name__
    return f"{said} ({wrong}: it gave something else than Sent, NotAccepted or None)" if wrong in run.failed else said


class _Run:
    """All that one call of the command does."""

    def __init__(
        self,
        backend: Backend,
        lookup: StatusLookup | None,
        events: ProviderEvents | None,
        options: ReconcileOptions,
        span: tuple[datetime, datetime] | None,
    ) -> None:
        self.windows: int | None = None
        """How many windows there are in all, as soon as that is known."""
        self.asked = 0
        """How many messages the lookup was asked about."""
        self.failed = Counter[str]()
        """How often it could not answer, by the type of the error."""
        options = {**options, "on_event": [self._hear]}
        self._limit = 0 if lookup is None else 500
        self._span = span
        self._length = timedelta(seconds=seconds(options.get("window", ""), "--window", positive=True))
        self._patience = timedelta(seconds=seconds(options.get("patience", ""), "--patience"))
        self._comparing = Reconciler(backend, events=events, **options)
        self._settling = Reconciler(backend, lookup=lookup, events=None if span else events, **options)

    def _hear(self, event: Event) -> None:
        if isinstance(event, OutcomeVerified):
            self.asked += 1
            if event.error is not None:
                self.failed[event.error.partition(":")[0]] += 1

    def reports(self) -> Iterator[ReconcileReport]:
        """Give what each step found."""
        if self._span is not None:
            begin, until = self._span
            self.windows = -((begin - until) // self._length)
            while begin < until:
                end = min(begin + self._length, until)
                yield self._comparing.compare(begin, end)
                begin = end
        while True:
            report = self._settling.run_once(self._limit)
            if self.windows is None and report.window is not None:
                due = current_clock().now() - self._patience
                self.windows = max(1, (due - report.window[0]) // self._length)
            yield report
            if not report.is_behind:
                return


def _say(total: ReconcileReport, file: EventFile | None, run: _Run, json_: bool) -> None:
    """Print what was found, and on standard error what of the file was not used."""
    if file is not None:
        for number, why in file.unreadable[:_SHOWN]:
            click.echo(f"line {number} was passed over: {printable(why)}", err=True)
        if file.unreadable_lines > _SHOWN:
            click.echo(f"{file.unreadable_lines:,} lines were passed over in all", err=True)
        span = file.span
        if span is not None and (total.window is None or span[0] < total.window[0] or span[1] >= total.window[1]):
            click.echo(
                f"the file has events from {to_iso(span[0])} to {to_iso(span[1])}; --since compares with those before the window",
                err=True,
            )
    if json_:
        unreadable = {} if file is None else {"unreadable_lines": file.unreadable_lines}
        click.echo(json.dumps(total.to_dict() | unreadable | {"lookup_errors": dict(run.failed)}))
        return
    out = console()
    if total.window is None:
        out.print("No window was due to be compared.")
    else:
        out.print(f"Compared {to_iso(total.window[0])} to {to_iso(total.window[1])}: {total.events:,} events.")
        counts = table("", "messages", "", right=("messages",))
        for count, said in (
            (total.matched, "of which the log and the provider tell the same"),
            (total.missing, "missing: sent, and the provider tells nothing of them"),
            (total.unexpected, "unexpected: the provider tells of them, and the log does not know them"),
            (total.conflicting, "conflicting: what the two tell cannot both be true"),
        ):
            counts.add_row(f"{count:,}", said)
        out.print(counts)
    settled = total.sent + total.not_sent + total.unsure + total.given_up
    if settled:
        out.print(
            f"Unknown outcomes: {total.sent:,} had been accepted, {total.not_sent:,} had not, {total.unsure:,} could not be told yet, "
            f"{total.given_up:,} went to a person."
        )
    if total.mismatches:
        _print_mismatches(total)


def _print_mismatches(total: ReconcileReport) -> None:
    found = total.missing + total.unexpected + total.conflicting
    out = console()
    out.print(f"The first {_SHOWN} of {found:,} that do not agree:" if found > _SHOWN else "What does not agree:")
    for each in total.mismatches[:_SHOWN]:
        theirs = "" if each.provider_id is None else f" ({each.provider_id})"
        out.print(printable(f"{each.kind:12} {each.message_id or 'without our id'}{theirs}: {each.detail}"))
