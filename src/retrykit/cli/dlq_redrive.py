"""`retrykit dlq plan`, `redrive`, `redrives` and `audit`: put dead letters back, and see who did what."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Sequence
from typing import Final

import attrs
import click

from ..checks import counted
from ..clock import current_clock
from ..dead_letter_queue import DeadLetterQueue, RedrivePlan
from ..deadletter import Cipher
from ..errors import StoreError
from ..machines.redrive import RedriveJob, RedriveState
from ..redrive import Redriver
from ..stores import AuditEntry, Backend
from ..times import read_instant, to_iso
from .backend import given, opened, with_backend
from .dlq import query_of, with_query
from .imports import cipher_option
from .output import Refused, Unusable, as_json, by_user, confirm, console, printable, progress, table

__all__ = ["audit", "plan", "redrive", "redrives", "whole_queue"]

_POLL: Final = 0.5
"""Seconds between two steps of a redrive that is watched."""

whole_queue = click.option("--everything", is_flag=True, help="Has to be said where the query has no condition.")
parked = click.option(
    "--max-redrives",
    type=click.IntRange(min=1),
    default=3,
    show_default=True,
    help="Letters put back so often are parked.",
)


@click.command()
@with_query
@with_backend
@whole_queue
@parked
@cipher_option
@as_json
def plan(
    query: tuple[str, ...], url: str | None, everything: bool, max_redrives: int, cipher: Cipher | None, json_: bool
) -> None:
    """Say what a redrive of a QUERY's letters would do, and what speaks against it. Nothing is changed."""
    with opened(url) as backend:
        made = DeadLetterQueue(backend, cipher=cipher).plan(
            query_of(query), everything=everything, max_redrives=max_redrives
        )
    if json_:
        click.echo(json.dumps(made.to_dict()))
        return
    _print_plan(made)
    if made.count:
        asked = str(attrs.evolve(made.query, state=None, until=None))  # a window that slides stands still in it
        words = [*([shlex.quote(asked)] if asked else []), "--cut-off", to_iso(made.cut_off)]
        said = given("max_redrives", "everything", "url", "cipher")
        command = f'retrykit dlq redrive {" ".join(words)}{said} --root-cause "..."'
        console().print(f"\nTo put back exactly these, once their cause is known and repaired:\n  {printable(command)}")


def _print_plan(plan: RedrivePlan) -> None:
    out = console()
    out.print(f"{plan.count:,} dead letters that wait, dead before {to_iso(plan.cut_off)}.")
    for name, counts in (("class", plan.error_classes), ("provider", plan.providers), ("campaign", plan.campaigns)):
        if counts:
            out.print(f"{name:10}{printable(', '.join(f'{value} {count:,}' for value, count in counts))}")
    for letter in plan.samples:
        said = " ".join(letter.error_message.split())[:60]
        out.print(f"e.g.      {printable(f'{letter.id}: {letter.error_class}, {said}')}")
    for warning in plan.warnings:
        out.print(f"warning   {printable(warning)}", style="yellow")


@click.command()
@with_query
@with_backend
@click.option("--root-cause", required=True, help="Why they had died, and why they will not again.")
@by_user
@click.option(
    "--canary", type=click.IntRange(min=0), default=10, show_default=True, help="Letters that go ahead; 0: none."
)
@click.option("--rate", type=click.FloatRange(min=0, min_open=True), help="Messages a second at the most.")
@click.option(
    "--tolerance",
    type=click.FloatRange(0, 1, max_open=True),
    default=0.1,
    show_default=True,
    help="The share that may fail again.",
)
@click.option("--patience", default="15m", show_default=True, help="How long the canary may take to come to an end.")
@click.option("--not-sent", is_flag=True, help="You made sure that messages with an unknown outcome were not sent.")
@click.option("--cut-off", help="Leave out what died from then on.  [default: now]")
@whole_queue
@parked
@cipher_option
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--detach", is_flag=True, help="Leave it to a Redriver of your service, instead of running it here.")
@as_json
def redrive(
    query: tuple[str, ...],
    url: str | None,
    root_cause: str,
    by: str,
    canary: int,
    rate: float | None,
    tolerance: float,
    patience: str,
    not_sent: bool,
    cut_off: str | None,
    everything: bool,
    max_redrives: int,
    cipher: Cipher | None,
    yes: bool,
    detach: bool,
    json_: bool,
) -> None:
    """Put the letters of a QUERY back into circulation: a canary first, the rest when that went well.

    Workers and a RetryScheduler have to run. Ctrl-C leaves the redrive where it is; retrykit dlq redrives ID --run goes
    on. Exits with 1 if it ends otherwise than done.
    """
    with opened(url) as backend:
        asked = query_of(query)
        if cut_off is not None:
            until = read_instant(cut_off, current_clock().now(), "--cut-off")
            asked = attrs.evolve(asked, until=until if asked.until is None else min(until, asked.until))
        bench = DeadLetterQueue(backend, cipher=cipher)
        made = bench.plan(asked, everything=everything, max_redrives=max_redrives)
        if not json_:
            _print_plan(made)
        if made.count == 0:
            raise Unusable("there is nothing to put back")
        if not yes:
            confirm(f"Put {counted(made.count, 'letter')} back?")
        job = bench.redrive(
            made,
            root_cause=root_cause,
            by=by,
            canary=canary,
            rate=rate,
            tolerance=tolerance,
            patience=patience,
            not_sent=not_sent,
        )
        if not detach:
            job = _run(backend, job, cipher)
    _end(job, json_, detached=detach)


@click.command()
@click.argument("redrive_id", required=False)
@with_backend
@click.option("--active", is_flag=True, help="Only those that run or are paused.")
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="How many at the most.")
@click.option("--run", is_flag=True, help="Go on with it here, until it ends.")
@click.option("--pause", is_flag=True, help="Let it rest.")
@click.option("--resume", is_flag=True, help="Let it go on; one that was stopped begins with a canary.")
@click.option("--stop", is_flag=True, help="End it; what was put back goes on.")
@cipher_option
@by_user
@click.option("--why", help="Needed to pause, resume or stop.")
@as_json
def redrives(
    redrive_id: str | None,
    url: str | None,
    active: bool,
    limit: int,
    run: bool,
    pause: bool,
    resume: bool,
    stop: bool,
    cipher: Cipher | None,
    by: str,
    why: str | None,
    json_: bool,
) -> None:
    """List redrives, show one, or pause, resume, stop or run it. With --json, one JSON object a line."""
    acts = [name for name, said in {"run": run, "pause": pause, "resume": resume, "stop": stop}.items() if said]
    if len(acts) > 1:
        raise click.UsageError(f"give one of --{' and --'.join(acts)}, not both")
    act = acts[0] if acts else None
    if act is not None and redrive_id is None:
        raise click.UsageError(f"--{act} needs the id of a redrive")
    if act in ("pause", "resume", "stop") and why is None:
        raise click.UsageError(f"--{act} needs --why")
    with opened(url) as backend:
        if redrive_id is None:
            jobs = backend.redrives.jobs(active=active, limit=limit)
            if json_:
                for each in jobs:
                    click.echo(json.dumps(_as_json(each)))
            else:
                _print_jobs(jobs)
            return
        job = backend.redrives.get(redrive_id)
        if job is None:
            raise Unusable(f"there is no redrive {redrive_id!r}; retrykit dlq redrives lists them")
        if act == "run":
            job = _run(backend, job, cipher)
        elif act is not None:
            before = job
            job = getattr(DeadLetterQueue(backend), act)(redrive_id, by=by, why=why)
            if job.seq == before.seq and job.state is before.state:
                _end(job, json_, detached=True)
                raise Refused(f"the redrive {job.id} is {job.state.value}; there is nothing to {act}")
    _end(job, json_, detached=act != "run")
    if act == "resume" and not json_:
        click.echo(f"a Redriver of your service goes on with it, or: retrykit dlq redrives {job.id} --run", err=True)


@click.command()
@with_backend
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="How many at the most.")
@as_json
def audit(url: str | None, limit: int, json_: bool) -> None:
    """Say who did what to dead letters, why, and with what result; the latest first. With --json, an object a line."""
    with opened(url) as backend:
        entries = backend.redrives.audit(limit=limit)
    for entry in entries:
        if json_:
            click.echo(json.dumps({**attrs.asdict(entry), "at": to_iso(entry.at)}))
        else:
            console().print(_said(entry))


def _said(entry: AuditEntry) -> str:
    why = f": {entry.why}" if entry.why else ""
    result = f"\n    {entry.result}" if entry.result else ""
    lines = f"{to_iso(entry.at)} {entry.by} {entry.action} {entry.subject}{why}{result}".splitlines()
    return "\n    ".join(printable(line.strip("\r")) for line in lines)


def _run(backend: Backend, job: RedriveJob, cipher: Cipher | None) -> RedriveJob:
    """Go on with a redrive to its end, and show how it goes."""
    runner = Redriver(backend, cipher=cipher)
    with progress() as shown:
        task = shown.add_task("put back", total=job.planned)
        try:
            while True:
                try:
                    job = runner.step(job.id)
                except StoreError as error:
                    click.echo(f"{printable(str(error))}; trying again", err=True)
                stand = job.note or f"put back, {job.succeeded:,} sent, {job.failed:,} failed again"
                shown.update(
                    task, completed=job.put_back + job.already_sent + job.passed_over, description=printable(stand)
                )
                if job.state is not RedriveState.RUNNING:
                    return job
                time.sleep(_POLL)
        except KeyboardInterrupt:
            runner.release(job.id)
            click.echo(f"it goes on with: retrykit dlq redrives {job.id} --run{given('url', 'cipher')}", err=True)
            return job


def _as_json(job: RedriveJob) -> dict[str, object]:
    fields = job.to_dict()
    for internal in ("taken", "watched", "lease", "seq", "recent", "cursor", "history", "tried_from", "size"):
        del fields[internal]
    for name in ("created_at", "next_at", "slice_at", "finished_at"):
        instant = getattr(job, name)
        fields[name] = instant and to_iso(instant)
    return {**fields, "pending": job.pending}


def _print_jobs(jobs: Sequence[RedriveJob]) -> None:
    made = table(
        "",
        "redrive",
        "state",
        "put back",
        "of",
        "sent",
        "failed",
        "by",
        "root cause",
        right=("put back", "of", "sent", "failed"),
    )
    for job in jobs:
        figures = (f"{each:,}" for each in (job.put_back, job.planned, job.succeeded, job.failed))
        made.add_row(job.id, job.state.value, *figures, job.by, job.root_cause[:60])
    console().print(made)


def _end(job: RedriveJob, json_: bool, *, detached: bool) -> None:
    if json_:
        click.echo(json.dumps(_as_json(job)))
    else:
        out = console()
        out.print(f"{job.id} is {job.state.value}{f': {printable(job.note)}' if job.note else ''}")
        out.print(
            f"of {counted(job.planned, 'letter')} {job.put_back:,} were put back, {job.already_sent:,} had been sent, "
            f"{job.passed_over:,} were passed over; {job.succeeded:,} are sent, {job.failed:,} failed again, {job.pending:,} on their way"
            f"{'' if job.state is RedriveState.RUNNING else ', as it was then'}"
        )
    if not detached and job.state is not RedriveState.DONE:
        raise SystemExit(1)
