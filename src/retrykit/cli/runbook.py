"""`retrykit runbook`: what to do now, step by step, with the commands, filled in from the live store."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from datetime import timedelta
from typing import Final

import attrs
import click

from ..clock import current_clock
from ..codec import JSON
from ..errors import StoreCorruptError
from ..failure import BUILT_IN_CLASSES, ErrorGroup
from ..monitor import Alert, ErrorClassDominates
from ..stores import Backend, DeadLetterQuery
from ..times import read_instant, to_iso
from .backend import opened, with_backend, with_url
from .output import as_json, console, printable

__all__ = ["runbook"]

_BLAME: Final = {
    ErrorGroup.TRANSIENT_INFRASTRUCTURE: "the provider or the network",
    ErrorGroup.THROTTLING: "the provider, which throttles",
    ErrorGroup.TEMPORARY_MAILBOX: "the recipients' mailboxes",
    ErrorGroup.PERMANENT_RECIPIENT: "the data: addresses that do not exist",
    ErrorGroup.CONTENT_POLICY: "the content, which is refused",
    ErrorGroup.SENDER: "the account with the provider, or its settings",
    ErrorGroup.INTERNAL: "code or data of ours: a deployment, a template, a payload",
    ErrorGroup.UNMAPPED: "something that no rule knows",
}
"""Who is at fault, by the group of the most frequent class."""

_MANY: Final = 3

_LIMIT: Final = ErrorClassDominates().share
"""Above what share one class is the trouble, here of the letters."""


@attrs.frozen
class _Step:
    title: str
    facts: Sequence[str]
    commands: Sequence[str]


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
        steps = _steps(backend, DeadLetterQuery(since=begin, until=now + timedelta(milliseconds=1)), since)
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


def _steps(backend: Backend, recent: DeadLetterQuery, since: str) -> list[_Step]:
    letters = backend.dead_letters
    stats = letters.stats()
    classes = letters.top("error_class", query=recent, limit=_MANY)
    campaigns = letters.top("campaign_id", query=recent, limit=_MANY)
    providers = letters.top("provider", query=recent, limit=_MANY)
    groups = letters.groups(recent, order="matching", limit=_MANY).groups
    total = letters.count(recent)
    paused = backend.circuits.pauses()
    alerts, trouble = _alerts(backend)
    broken = [each.name for each in backend.circuits.circuits() if each.is_open]
    return [
        _Step(
            "How bad is it?",
            [
                f"{total:,} messages died since {since}, {stats.died_last_day:,} in a day; {stats.quarantined:,} wait.",
                *trouble,
                *(f"alert since {to_iso(each.since)}: {each.title}" for each in alerts),
                *(f"{each.key} is paused by {each.by}: {each.reason}" for each in paused),
                *(f"the breaker of {name} is open" for name in broken),
            ],
            ["retrykit alerts", "retrykit dlq watch", "retrykit deliveries", "retrykit pauses"],
        ),
        _Step(
            "Is it the provider, the data, or code that was deployed?",
            [_share(name, count, total) for name, count in classes]
            + [f"provider {name}: {count:,} of {total:,}" for name, count in providers]
            or ["nothing died"],
            [f"retrykit dlq top since:{since}", f"retrykit dlq groups since:{since}"],
        ),
        _Step(
            "Stop the bleeding: pause the campaign, or leave the provider",
            [f"campaign {name}: {count:,} of {total:,}" for name, count in campaigns],
            [
                *(_command("retrykit pause", f"campaign:{name}", '--reason "..."') for name, _ in campaigns[:1]),
                *(_command("retrykit pause", f"provider:{name}", '--reason "..."') for name, _ in providers[:1]),
            ]
            or ['retrykit pause campaign:NAME --reason "..."'],
        ),
        _Step(
            "Look at samples until the cause is known",
            [
                f"{group.matching:,} x {group.error_class}: {' '.join(group.error_message.split())[:80]}"
                for group in groups
            ],
            [
                *(_command("retrykit dlq show", group.letter_ids[0]) for group in groups),
                *(
                    _command("retrykit dlq note", group.fingerprint, '--owner "..." --note "..."')
                    for group in groups[:1]
                ),
            ]
            or ["retrykit dlq list"],
        ),
        _Step(
            "Repair the cause. Only then put back what it had stopped",
            ["A canary goes first, and the rest only when it went well; what fails again is not picked up again."],
            [
                *(_command("retrykit resume", pause.key) for pause in paused),
                *(_command("retrykit dlq plan", f"fingerprint:{group.fingerprint}") for group in groups[:1]),
                *(
                    _command("retrykit dlq redrive", f"fingerprint:{group.fingerprint}", '--root-cause "..."')
                    for group in groups[:1]
                ),
            ]
            or ['retrykit dlq redrive QUERY --root-cause "..."'],
        ),
        _Step(
            "Give up what cannot be repaired, and see that all is done",
            [],
            ['retrykit dlq discard QUERY --why "..."', "retrykit dlq redrives", "retrykit dlq audit"],
        ),
    ]


def _alerts(backend: Backend) -> tuple[Sequence[Alert], Sequence[str]]:
    """Return the alerts in force of the monitors that have no name of their own, and why they cannot be read, if they cannot."""
    try:
        signals = backend.signals.get("default")
    except StoreCorruptError as error:
        return [], [f"alerts: {error}; a monitor that runs begins them anew"]
    return [] if signals is None else signals.alerts(), []


def _share(name: str, count: int, total: int) -> str:
    known = BUILT_IN_CLASSES.get(name)
    blame = "a class of your own" if known is None else _BLAME[known.group]
    limit = f"; more than {_LIMIT:.0%}" if count > _LIMIT * total else ""
    return f"{name}: {count:,} of {total:,} ({count / total:.0%}) - {blame}{limit}"


def _command(name: str, *words: str) -> str:
    return " ".join((name, shlex.quote(words[0]), *words[1:]))
