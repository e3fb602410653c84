"""The runbook filled in from the live store: what to do now, step by step, with the commands. Nothing is changed."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from typing import Final, cast

import attrs

from .._steps import Steps, do
from ..checks import counted
from ..errors import StoreCorruptError
from ..failure import BUILT_IN_CLASSES, ErrorGroup
from ..machines.alert_rules import ErrorClassDominates
from ..machines.alerts import Alert
from ..stores import AsyncBackend, Backend, DeadLetterGroup, DeadLetterGroupPage, DeadLetterQuery, Pause
from ..times import to_iso

__all__ = ["GuideStep", "Situation", "alerts_flow", "guide", "situation_flow"]

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
class GuideStep:
    """One step of the runbook."""

    title: str
    facts: Sequence[str]
    """What the store holds that bears on it, a sentence each."""
    commands: Sequence[str]
    """What to type."""


@attrs.frozen(kw_only=True)
class Situation:
    """What the stores hold that the runbook goes by."""

    died: int
    """Letters of the window."""
    died_last_day: int
    quarantined: int
    classes: Sequence[tuple[str, int]]
    """The most frequent ones of the window, with how many letters have each."""
    campaigns: Sequence[tuple[str, int]]
    providers: Sequence[tuple[str, int]]
    groups: Sequence[DeadLetterGroup]
    """Those with the most letters of the window."""
    pauses: Sequence[Pause]
    open_breakers: Sequence[str]
    alerts: Sequence[Alert]
    trouble: Sequence[str]
    """Why the alerts cannot be read, if they cannot."""


def situation_flow(backend: Backend | AsyncBackend, recent: DeadLetterQuery) -> Steps[Situation]:
    """Find out what the runbook goes by.

    Args:
        backend: of either colour.
        recent: the letters of a window.

    Raises:
        StoreError: the stores cannot be read now.
    """
    letters = backend.dead_letters
    top = cast("Callable[..., Sequence[tuple[str, int]]]", letters.top)  # checkers do not see both colours in one
    groups = cast("Callable[..., DeadLetterGroupPage]", letters.groups)
    stats = yield from do(letters.stats)
    alerts, trouble = yield from alerts_flow(backend)
    return Situation(
        died=(yield from do(letters.count, recent)),
        died_last_day=stats.died_last_day,
        quarantined=stats.quarantined,
        classes=(yield from do(top, "error_class", query=recent, limit=_MANY)),
        campaigns=(yield from do(top, "campaign_id", query=recent, limit=_MANY)),
        providers=(yield from do(top, "provider", query=recent, limit=_MANY)),
        groups=(yield from do(groups, recent, order="matching", limit=_MANY)).groups,
        pauses=(yield from do(backend.circuits.pauses)),
        open_breakers=[each.name for each in (yield from do(backend.circuits.circuits)) if each.is_open],
        alerts=alerts,
        trouble=trouble,
    )


def alerts_flow(backend: Backend | AsyncBackend) -> Steps[tuple[Sequence[Alert], Sequence[str]]]:
    """Read the alerts in force of the monitors that have no name of their own, and why they cannot be read, if they cannot."""
    try:
        signals = yield from do(backend.signals.get, "default")
    except StoreCorruptError as error:
        return [], [f"alerts: {error}; a monitor that runs begins them anew"]
    return [] if signals is None else signals.alerts(), []


def guide(found: Situation, since: str) -> Sequence[GuideStep]:
    """Return what to do, step by step.

    Args:
        found: what the stores hold.
        since: how long ago the window begins, as a person wrote it.
    """
    classes, campaigns, providers, groups = found.classes, found.campaigns, found.providers, found.groups
    total, first = found.died, groups[:1]
    return [
        GuideStep(
            "How bad is it?",
            [
                f"{counted(total, 'message')} died since {since}, {found.died_last_day:,} in a day; {found.quarantined:,} wait.",
                *found.trouble,
                *(f"alert since {to_iso(each.since)}: {each.title}" for each in found.alerts),
                *(f"{each.key} is paused by {each.by}: {each.reason}" for each in found.pauses),
                *(f"the breaker of {name} is open" for name in found.open_breakers),
            ],
            ["retrykit alerts", "retrykit dlq watch", "retrykit deliveries", "retrykit pauses"],
        ),
        GuideStep(
            "Is it the provider, the data, or code that was deployed?",
            [_share(name, count, total) for name, count in classes]
            + [f"provider {name}: {count:,} of {total:,}" for name, count in providers]
            or ["nothing died in this time" + (": look further back, such as since 1d" if found.quarantined else "")],
            [f"retrykit dlq top since:{since}", f"retrykit dlq groups since:{since}"],
        ),
        GuideStep(
            "Stop the bleeding: pause the campaign, or leave the provider",
            [f"campaign {name}: {count:,} of {total:,}" for name, count in campaigns],
            [
                *(_command("retrykit pause", f"campaign:{name}", '--reason "..."') for name, _ in campaigns[:1]),
                *(_command("retrykit pause", f"provider:{name}", '--reason "..."') for name, _ in providers[:1]),
            ]
            or ['retrykit pause campaign:NAME --reason "..."'],
        ),
        GuideStep(
            "Look at samples until the cause is known",
            [
                f"{group.matching:,} x {group.error_class}: {' '.join(group.error_message.split())[:80]}"
                for group in groups
            ],
            [
                *(_command("retrykit dlq show", group.letter_ids[0]) for group in groups),
                *(_command("retrykit dlq note", group.fingerprint, '--owner "..." --note "..."') for group in first),
            ]
            or ["retrykit dlq list"],
        ),
        GuideStep(
            "Repair the cause. Only then put back what it had stopped",
            ["A canary goes first, and the rest only when it went well; what fails again is not picked up again."],
            [
                *(_command("retrykit resume", pause.key) for pause in found.pauses),
                *(_command("retrykit dlq plan", f"fingerprint:{group.fingerprint}") for group in first),
                *(
                    _command("retrykit dlq redrive", f"fingerprint:{group.fingerprint}", '--root-cause "..."')
                    for group in first
                ),
            ]
            or ['retrykit dlq redrive QUERY --root-cause "..."'],
        ),
        GuideStep(
            "Give up what cannot be repaired, and see that all is done",
            [],
            ['retrykit dlq discard QUERY --why "..."', "retrykit dlq redrives", "retrykit dlq audit"],
        ),
    ]


def _share(name: str, count: int, total: int) -> str:
    known = BUILT_IN_CLASSES.get(name)
    blame = "a class of your own" if known is None else _BLAME[known.group]
    limit = f"; more than {_LIMIT:.0%}" if count > _LIMIT * total else ""
    return f"{name}: {count:,} of {total:,} ({count / total:.0%}) - {blame}{limit}"


def _command(name: str, *words: str) -> str:
    return " ".join((name, shlex.quote(words[0]), *words[1:]))
