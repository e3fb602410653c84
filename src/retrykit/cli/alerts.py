"""`retrykit alerts`: what is wrong now, and the rules, for Prometheus and as a runbook."""

from __future__ import annotations

import json
from collections.abc import Sequence

import attrs
import click

from ..errors import StoreCorruptError
from ..monitor import DEFAULT_RULES, Alert, BreakerOpens, Rule, prometheus_rules, runbook_page
from ..stores import Backend
from ..times import to_iso
from .backend import opened, with_backend, with_url
from .output import Unusable, as_json, console, printable, table, usable

__all__ = ["alerts"]


@click.group(invoke_without_command=True)
@with_backend
@click.option("--name", default="default", show_default=True, help="Of the monitors.")
@as_json
@click.pass_context
def alerts(context: click.Context, url: str | None, name: str, json_: bool) -> None:
    """List the alerts in force. Exits with 1 if there are any, with 2 if no monitor of that name has ever run."""
    if context.invoked_subcommand is not None:
        return
    with opened(url) as backend:
        found = [attrs.evolve(each, commands=tuple(map(with_url, each.commands))) for each in _in_force(backend, name)]
    if json_:
        for each in found:
            click.echo(json.dumps(each.to_dict()))
    else:
        made = table("" if found else "nothing is wrong", "since", "severity", "rule", "what")
        for each in found:
            made.add_row(to_iso(each.since), each.severity.value, each.rule, each.title)
        console().print(made)
        for command in dict.fromkeys(command for each in found for command in each.commands):
            console().print(f"$ {printable(command)}", style="cyan")
    if found:
        raise SystemExit(1)


def _in_force(backend: Backend, name: str) -> Sequence[Alert]:
    try:
        signals = backend.signals.get(name)
    except StoreCorruptError as error:
        raise Unusable(f"{printable(str(error))}; a monitor that runs begins them anew at its next exchange") from None
    if signals is not None:
        return signals.alerts()
    names = ", ".join(printable(each) for each in backend.signals.names())
    raise Unusable(
        f"no monitor called {printable(name)} has ever run on this backend; "
        + (f"those that have: {names}; choose with --name" if names else "nor has any other: nobody watches it")
    )


@alerts.command()
@click.option("--primary", multiple=True, help="A breaker that matters; may be given again. All, unless given.")
@click.option("--namespace", default="retrykit", show_default=True, help="That of the exporter.")
def rules(primary: Sequence[str], namespace: str) -> None:
    """Print alert rules for Prometheus, made from the same constants."""
    with usable():
        text = prometheus_rules(_rules(primary), namespace=namespace)
    click.echo(text, nl=False)


@alerts.command()
@click.option("--primary", multiple=True, help="A breaker that matters; may be given again. All, unless given.")
def runbook(primary: Sequence[str]) -> None:
    """Print what each alert means and what to type first, as Markdown."""
    with usable():
        text = runbook_page(_rules(primary))
    click.echo(text, nl=False)


def _rules(primary: Sequence[str]) -> Sequence[Rule]:
    if not primary:
        return DEFAULT_RULES
    return [attrs.evolve(rule, primary=primary) if isinstance(rule, BreakerOpens) else rule for rule in DEFAULT_RULES]
