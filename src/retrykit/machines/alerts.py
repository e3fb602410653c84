"""When an alert fires and when it is over: a condition that has held for a while, and one that has been gone for a while.

Pure: instants on the record's own time line are whole milliseconds (`at`), those that people read are given (`now`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import cast

import attrs

from ..codec import JSON
from ..times import from_millis, to_iso, to_millis

__all__ = ["Alert", "AlertState", "Finding", "Severity", "Terms", "Watch", "hand_out", "step"]


class Severity(StrEnum):
    """Whom an alert is for."""

    PAGE = "page"
    """Somebody should look now."""
    TICKET = "ticket"
    """Somebody should look on the next working day."""


class AlertState(StrEnum):
    """Where an alert stands."""

    FIRING = "firing"
    RESOLVED = "resolved"


@attrs.frozen(kw_only=True)
class Alert:
    """What somebody is told: that something began, or that it is over."""

    key: str
    """What it is about, beginning with the name of the rule; of two alerts with the same key at most one is in force."""
    rule: str
    """The rule's name, which is that of its entry in the runbook."""
    severity: Severity
    title: str
    """What is wrong, in one sentence."""
    evidence: Mapping[str, JSON]
    """The figures that it fired on, or later ones."""
    commands: tuple[str, ...] = ()
    """What to type first."""
    state: AlertState = AlertState.FIRING
    since: datetime
    """When its condition began to hold."""
    changed_at: datetime
    """When it fired, or was over."""

    def to_dict(self) -> dict[str, JSON]:
        """Return the alert as JSON values, instants as ISO 8601 text."""
        return {
            "key": self.key,
            "rule": self.rule,
            "severity": self.severity.value,
            "state": self.state.value,
            "title": self.title,
            "since": to_iso(self.since),
            "changed_at": to_iso(self.changed_at),
            "evidence": self.evidence,
            "runbook": self.rule,
            "commands": list(self.commands),
        }


@attrs.frozen(kw_only=True)
class Finding:
    """What a rule says of one key: its condition holds, or is not yet gone. No finding: it is gone."""

    key: str
    is_met: bool
    title: str = ""
    """For an alert in force "" leaves its title and its figures as they were when it fired."""
    evidence: Mapping[str, JSON] = attrs.field(factory=dict[str, JSON])
    commands: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class Terms:
    """What all rules have."""

    name: str
    severity: Severity
    hold: float
    """Seconds for which the condition has to hold before the alert fires."""
    clear_after: float
    """Seconds for which it has to be gone before the alert is over."""


@attrs.frozen(kw_only=True)
class Watch:
    """One key that a rule has an eye on."""

    key: str
    rule: str
    met_at: int
    """Since when its condition holds."""
    judged_at: int
    """When somebody last looked."""
    gone_at: int | None = None
    """Since when the condition is gone; None: it is not."""
    alert: Alert | None = None
    """The alert, once it has fired."""
    is_told: bool = True
    """Whether people were told of the latest change."""
    holder: str | None = None
    """Which process tells them."""
    held_until: int = 0

    def to_dict(self) -> dict[str, JSON]:
        """Return the watch as JSON values."""
        fields: dict[str, JSON] = attrs.asdict(self, filter=lambda field, _: field.name != "alert")
        if self.alert is not None:
            instants: dict[str, JSON] = {name: to_millis(getattr(self.alert, name)) for name in ("since", "changed_at")}
            fields["alert"] = {**attrs.asdict(self.alert), **instants, "commands": list(self.alert.commands)}
        return fields

    @classmethod
    def from_dict(cls, fields: Mapping[str, JSON]) -> Watch:
        """Make a watch of what `to_dict` gave."""
        known = {field.name: fields[field.name] for field in attrs.fields(cls) if field.name != "alert"}
        alert = cast("Mapping[str, JSON] | None", fields.get("alert"))
        return cls(**cast("dict[str, object]", known), alert=None if alert is None else _alert(alert))  # type: ignore[arg-type]  # as it was written


def _alert(fields: Mapping[str, JSON]) -> Alert:
    return Alert(
        key=str(fields["key"]),
        rule=str(fields["rule"]),
        severity=Severity(cast("str", fields["severity"])),
        title=str(fields["title"]),
        evidence=cast("Mapping[str, JSON]", fields["evidence"]),
        commands=tuple(map(str, cast("Sequence[JSON]", fields["commands"]))),
        state=AlertState(cast("str", fields["state"])),
        since=from_millis(cast("int", fields["since"])),
        changed_at=from_millis(cast("int", fields["changed_at"])),
    )


def step(watch: Watch | None, finding: Finding | None, terms: Terms, at: int, now: datetime) -> Watch | None:
    """Return what becomes of a watch, None: there is nothing to watch.

    An alert that fired is over only once people were told that it fired: every notice that something is over follows one that
    it began.

    Args:
        watch: as it stands, or None.
        finding: what the rule says of its key.
        terms: the rule's.
        at: the instant on the record's time line, in milliseconds.
        now: the instant that people read.
    """
    if watch is None or watch.alert is None:
        if finding is None or not finding.is_met:
            return None
        begun = at if watch is None else watch.met_at
        held = Watch(key=finding.key, rule=terms.name, met_at=begun, judged_at=at)
        return held if at - begun < terms.hold * 1000 else _fired(held, finding, terms, now)
    if watch.alert.state is AlertState.RESOLVED:
        return attrs.evolve(watch, judged_at=at)
    if finding is not None:
        alert = watch.alert
        if finding.title:  # the latest figures; nobody is told of them
            alert = attrs.evolve(alert, title=finding.title, evidence=finding.evidence)
        return attrs.evolve(watch, judged_at=at, gone_at=None, alert=alert)
    gone = at if watch.gone_at is None else watch.gone_at
    watch = attrs.evolve(watch, judged_at=at, gone_at=gone)
    return resolve(watch, now) if watch.is_told and at - gone >= terms.clear_after * 1000 else watch


def _fired(watch: Watch, finding: Finding, terms: Terms, now: datetime) -> Watch:
    alert = Alert(
        key=watch.key,
        rule=terms.name,
        severity=terms.severity,
        title=finding.title,
        evidence=finding.evidence,
        commands=finding.commands,
        since=from_millis(to_millis(now) - (watch.judged_at - watch.met_at)),
        changed_at=now,
    )
    return attrs.evolve(watch, alert=alert, is_told=False)


def resolve(watch: Watch, now: datetime) -> Watch:
    """Return the watch with its alert over, and nobody told of that yet."""
    assert watch.alert is not None, "only an alert that fired can be over"
    alert = attrs.evolve(watch.alert, state=AlertState.RESOLVED, changed_at=now)
    return attrs.evolve(watch, alert=alert, is_told=False, holder=None)


def hand_out(watch: Watch, owner: str, lease: float, at: int) -> Watch:
    """Let a process tell people of a change that nobody is at; who is at it goes on for another lease."""
    if watch.is_told or (watch.holder not in (None, owner) and at < watch.held_until):
        return watch
    return attrs.evolve(watch, holder=owner, held_until=at + round(lease * 1000))
