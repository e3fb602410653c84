"""`retrykit stats`: how much is in each store."""

from __future__ import annotations

import json
from collections.abc import Mapping

import click

from .._steps import run
from ..clock import current_clock
from ..exporters.gauges import figures_of
from ..stores import Backend
from .backend import opened, with_backend
from .output import as_json, console, table

__all__ = ["stats"]


@click.command()
@with_backend
@as_json
def stats(url: str | None, json_: bool) -> None:
    """Count what is in each store: waiting messages, dead letters, deliveries, what is unsettled, paused, open or being put back.

    The names are those of the exported metrics. The delivery log is counted through each time. With --json, one JSON object.
    """
    with opened(url) as backend:
        found = _counted(backend)
    if json_:
        click.echo(json.dumps(found))
        return
    made = table("", "figure", "of", "value", right=("value",))
    for name, values in found.items():
        for label, value in values.items():
            made.add_row(name, label, f"{value:,.15g}")
    console().print(made)


def _counted(backend: Backend) -> Mapping[str, Mapping[str, float]]:
    read = {each.gauge.name: each.values for each in run(figures_of(backend, current_clock().now()))}
    circuits = backend.circuits.circuits()
    return {
        **read,
        "circuits": {"known": len(circuits), "open": sum(each.is_open for each in circuits)},
        "pauses": {"": len(backend.circuits.pauses())},
        "redrives.active": {"": len(backend.redrives.jobs(active=True, limit=1000))},
    }
