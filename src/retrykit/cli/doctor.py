"""`retrykit doctor`: is the backend well?"""

from __future__ import annotations

import json

import attrs
import click

from ..backends.doctor import Level, diagnose
from ..errors import RetrykitError
from .backend import needed, with_backend
from .output import Unusable, as_json, console, table

__all__ = ["doctor"]


@click.command()
@with_backend
@as_json
def doctor(url: str | None, json_: bool) -> None:
    """Look at the backend: version, schema, clock, eviction, persistence, speed. It changes nothing.

    Exits with 1 if there is a problem; a warning is none. With --json, one JSON object a line.
    """
    try:
        found = diagnose(needed(url))
    except RetrykitError as error:
        raise Unusable(str(error)) from None
    if json_:
        for each in found:
            click.echo(json.dumps(attrs.asdict(each)))
    else:
        made = table("", "", "what", "found")
        for each in found:
            made.add_row(each.level.value, each.subject, f"{each.said}; {each.advice}" if each.advice else each.said)
        console().print(made)
    if any(each.level is Level.PROBLEM for each in found):
        raise SystemExit(1)
