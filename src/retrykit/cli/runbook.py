"""`retrykit runbook`: what to do now, step by step, with the commands, filled in from the live store."""

from __future__ import annotations

import json
from datetime import timedelta

import attrs
import click

from .._steps import run
from ..clock import current_clock
from ..codec import JSON
from ..monitor.guide import guide, situation_flow
from ..stores import DeadLetterQuery
from ..times import read_instant, to_iso
from .backend import opened, with_backend, with_url
from .output import as_json, console, printable

__all__ = ["runbook"]


@click.command()
@with_backend
@click.option("--since", default="1h", show_default=True, help="What counts as now: how long ago it may have begun.")
@as_json
def runbook(url: str | None, since: str, json_: bool) -> None:
    """Say what to do when dead letters pile up: each step with its command, filled in from the live store.

    Is it the provider, the data or deployed code; pause the campaign or leave the provider; look at the top classes and
    at samples; put back only after the cause is confirmed. Nothing is changed.
    """
    with opened(url) as backend:
        now = current_clock().now()
        begin = read_instant(since, now, "--since")
        recent = DeadLetterQuery(since=begin, until=now + timedelta(milliseconds=1))
        steps = guide(run(situation_flow(backend, recent)), since)
        steps = [attrs.evolve(each, commands=[with_url(command) for command in each.commands]) for each in steps]
    if json_:
        shown: list[dict[str, JSON]] = [
            {"title": each.title, "facts": list(each.facts), "commands": list(each.commands)} for each in steps
        ]
        click.echo(json.dumps({"since": to_iso(begin), "steps": shown}))
        return
    out = console()
    for number, step in enumerate(steps, 1):
        out.print(f"{number}. {step.title}", style="bold")
        for fact in step.facts:
            out.print(f"   {printable(fact)}")
        for command in step.commands:
            out.print(f"   $ {printable(command)}", style="cyan")
        out.print()
