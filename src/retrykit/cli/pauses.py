"""`retrykit pause`, `resume` and `pauses`: stop a campaign, a provider or a tenant for the whole fleet, and let it go on."""

from __future__ import annotations

import json
from datetime import timedelta

import click

from ..checks import check_note
from ..clock import current_clock
from ..message import check_author
from ..stores import AuditEntry, Pause
from ..times import read_instant, seconds, to_iso
from .backend import opened, with_backend
from .output import Unusable, as_json, by_user, console, printable, table

__all__ = ["pause", "pauses", "resume"]


@click.command()
@click.argument("key", metavar="campaign:NAME|provider:NAME|tenant:NAME")
@with_backend
@click.option("--reason", required=True, help="Why, for whoever finds it paused.")
@by_user
@click.option("--for", "length", help="End it by itself after a time, such as 2h.")
@click.option("--until", help="End it by itself at an instant, such as 2026-01-31T08:00:00Z.")
@as_json
def pause(key: str, url: str | None, reason: str, by: str, length: str | None, until: str | None, json_: bool) -> None:
    """Let the messages of a campaign, a provider or a tenant wait; no attempt is lost."""
    if length is not None and until is not None:
        raise click.UsageError("give --for or --until, not both")
    with opened(url) as backend:
        now = current_clock().now()
        end = None if until is None else read_instant(until, now, "--until")
        if length is not None:
            end = now + timedelta(seconds=seconds(length, "--for", positive=True))
        if end is not None and end <= now:
            raise Unusable(f"the pause would have ended at {to_iso(end)}; allowed is an end in the future")
        by, reason = check_author(by), check_note(reason, "reason", least=1)
        made = backend.circuits.pause(key, reason=reason, by=by, until=end)
        backend.redrives.note(AuditEntry(at=now, by=by, action="paused", subject=key, why=reason))
    if json_:
        click.echo(json.dumps(_as_json(made)))
        return
    ends = "until it is resumed" if made.until is None else f"until {to_iso(made.until)}"
    console().print(f"{printable(made.key)} is paused {ends}")


@click.command()
@click.argument("key", metavar="campaign:NAME|provider:NAME|tenant:NAME")
@with_backend
@click.option("--why", default="", help="Why it may go on.")
@by_user
@as_json
def resume(key: str, url: str | None, why: str, by: str, json_: bool) -> None:
    """Let what was paused go on. Exits with 1 if it was not paused."""
    with opened(url) as backend:
        by = check_author(by)
        was_paused = backend.circuits.resume(key)
        if was_paused:
            now = current_clock().now()
            backend.redrives.note(AuditEntry(at=now, by=by, action="resumed", subject=key, why=why))
    if json_:
        click.echo(json.dumps({"key": key, "was_paused": was_paused}))
    else:
        console().print(f"{printable(key)} goes on" if was_paused else f"{printable(key)} was not paused")
    if not was_paused:
        raise SystemExit(1)


@click.command()
@with_backend
@as_json
def pauses(url: str | None, json_: bool) -> None:
    """List what is paused. With --json, one JSON object a line."""
    with opened(url) as backend:
        found = backend.circuits.pauses()
    if json_:
        for each in found:
            click.echo(json.dumps(_as_json(each)))
        return
    made = table("" if found else "nothing is paused", "paused", "by", "since", "until", "reason")
    for each in found:
        until = "" if each.until is None else to_iso(each.until)
        made.add_row(each.key, each.by, to_iso(each.since), until, each.reason)
    console().print(made)


def _as_json(each: Pause) -> dict[str, str | None]:
    until = None if each.until is None else to_iso(each.until)
    return {"key": each.key, "reason": each.reason, "by": each.by, "since": to_iso(each.since), "until": until}
