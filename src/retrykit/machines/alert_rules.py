"""The five rules, and the one of poison messages: their constants, and what each says of the figures. Pure.

Each has a guard against little traffic: a share of few messages says nothing, so a share counts only as far as it is certain.
"""

from __future__ import annotations

import abc
import math
import shlex
from collections.abc import Iterable, Mapping
from typing import Final

import attrs

from ..codec import JSON
from ..times import plain, short
from . import rule_checks
from .alerts import Alert, Finding, Severity, Terms
from .signals import BUCKET, Occurrence, Signals

__all__ = [
    "DEFAULT_RULES",
    "BacklogGrows",
    "BreakerOpens",
    "DeadLettersJump",
    "ErrorClassDominates",
    "MessageQuarantines",
    "Rule",
    "UnknownCodesAppear",
]

_CLASS: Final = "class:"


@attrs.frozen(kw_only=True)
class Rule(abc.ABC):
    """What is watched for. Subclass it for a rule of your own: a pure function of the figures, with a name of its own."""

    name: str = attrs.field(validator=rule_checks.is_name)
    """Of the rule, and of its entry in the runbook: 1 to 64 letters, digits and any of "_.-", a letter first."""
    severity: Severity = attrs.field(default=Severity.PAGE, converter=rule_checks.severity)
    hold: float = attrs.field(default=0.0, converter=rule_checks.hold)
    """Seconds for which the condition has to hold before the alert fires."""
    clear_after: float = attrs.field(default=600.0, converter=rule_checks.clear_after)
    """Seconds for which it has to be gone before the alert is over."""

    @property
    def terms(self) -> Terms:
        """What the life of an alert depends on."""
        return Terms(name=self.name, severity=self.severity, hold=self.hold, clear_after=self.clear_after)

    @property
    @abc.abstractmethod
    def meaning(self) -> str:
        """When it fires and when that is over, in sentences with its constants."""

    @property
    @abc.abstractmethod
    def first_steps(self) -> tuple[str, ...]:
        """The commands for whoever is woken."""

    @abc.abstractmethod
    def judge(self, signals: Signals, firing: Mapping[str, Alert]) -> Iterable[Finding]:
        """Return what is wrong, and what of the alerts in force is not yet gone.

        Args:
            signals: the figures.
            firing: this rule's alerts in force, by key, with the figures that they fired on.
        """


def _clear_ratio(rule: DeadLettersJump) -> float:
    return (
        max(1.0, min(2.0, rule.ratio / 2)) if rule_checks.is_number(rule.ratio) else 1.0
    )  # its own check says what is wrong


@attrs.frozen(kw_only=True)
class DeadLettersJump(Rule):
    """Far more of the messages die than usually."""

    name: str = attrs.field(default="dead-letters-jump", validator=rule_checks.is_name)
    hold: float = attrs.field(default=30.0, converter=rule_checks.hold)
    window: float = attrs.field(default=300.0, converter=rule_checks.window)
    ratio: float = attrs.field(default=4.0, validator=rule_checks.at_least(1.0))
    """How many times as many letters as usual."""
    minimum: int = attrs.field(default=10, validator=rule_checks.is_count)
    """Letters within the window."""
    chance: float = attrs.field(default=1e-6, validator=rule_checks.is_share)
    """How unlikely so many letters are, at the most, where nothing is wrong (a Poisson distribution's bound)."""
    drift: float = attrs.field(default=2.0, validator=rule_checks.at_least(1.0))
    """How many times as many letters as usual are no surprise in a bad hour; chance is counted from there."""
    clear_ratio: float = attrs.field(
        default=attrs.Factory(_clear_ratio, takes_self=True),
        validator=[rule_checks.at_least(1.0), rule_checks.is_at_most("ratio")],
    )
    """Below how many times as many letters as usual it is over: 2, or half of a `ratio` below 4, and no more than `ratio`."""
    expected_share: float = attrs.field(default=0.01, validator=rule_checks.is_share)
    """What share of messages is thought to die while little is known: as if this share of 500 messages had."""

    @property
    def meaning(self) -> str:
        """When it fires and when that is over."""
        return (
            f"In {short(self.window)} at least {self.minimum} messages died, at least {plain(self.ratio)} times as many as the share of "
            f"the last 24 hours lets expect, and more than chance brings once in {1 / self.chance:,.0f} times were {plain(self.drift)} times as many usual, for "
            f"{short(self.hold)}. It is over when for {short(self.clear_after)} less than {plain(self.clear_ratio)} times as many die."
        )

    @property
    def first_steps(self) -> tuple[str, ...]:
        """The commands for whoever is woken."""
        return ("retrykit runbook --since 15m", "retrykit dlq groups since:15m", "retrykit dlq top since:15m")

    def judge(self, signals: Signals, firing: Mapping[str, Alert]) -> Iterable[Finding]:
        """Compare the latest letters with the usual share; an alert in force keeps to the share that it fired on."""
        now, before = signals.within(self.window), signals.usual()
        died = now["dead"]
        handled = max(now["handled"], died)
        usual = (before["dead"] + self.expected_share * 500) / (before["handled"] + 500)
        fired = firing.get(self.name)
        if fired is not None:
            kept = fired.evidence.get("usual_share")
            usual = kept if isinstance(kept, float) else usual
            return [Finding(key=self.name, is_met=True)] if died > self.clear_ratio * usual * handled else []
        expected = usual * handled
        is_met = (
            died >= self.minimum
            and died >= self.ratio * expected
            and _chance(died, self.drift * expected) <= self.chance
        )
        if not is_met:
            return []
        evidence: dict[str, JSON] = {
            "window": short(self.window),
            "died": died,
            "handled": handled,
            "expected": round(expected, 1),
            "usual_share": usual,
            "classes": _top_classes(now),
            "message_ids": list(signals.samples),
        }
        if signals.backlog is not None:
            evidence |= {"depth": signals.backlog.letters, "died_last_hour": signals.backlog.died_last_hour}
        title = f"{died:,} of {handled:,} messages died within {short(self.window)}; {expected:.1f} would be usual"
        return [Finding(key=self.name, is_met=True, title=title, evidence=evidence, commands=self.first_steps)]


def _clear_share(rule: ErrorClassDominates) -> float:
    return min(0.15, 0.75 * rule.share) if rule_checks.is_number(rule.share) else 0.15


@attrs.frozen(kw_only=True)
class ErrorClassDominates(Rule):
    """One error class has too large a share of the attempts."""

    name: str = attrs.field(default="error-class-dominates", validator=rule_checks.is_name)
    hold: float = attrs.field(default=30.0, converter=rule_checks.hold)
    window: float = attrs.field(default=300.0, converter=rule_checks.window)
    share: float = attrs.field(default=0.2, validator=rule_checks.is_share)
    """Of the attempts, which have to be certain to fail with one class."""
    clear_share: float = attrs.field(
        default=attrs.Factory(_clear_share, takes_self=True),
        validator=[rule_checks.is_share, rule_checks.is_at_most("share")],
    )
    """Below which share it is over: 0.15, or three quarters of a `share` below 0.2, and no more than `share`."""
    minimum: int = attrs.field(default=50, validator=rule_checks.is_count)
    """Attempts within the window."""
    certainty: float = attrs.field(default=4.0, validator=rule_checks.at_least(0.0))
    """Standard deviations by which the share has to be above the limit (the lower end of Wilson's interval)."""
    ignore: frozenset[str] = attrs.field(default=frozenset[str](), converter=rule_checks.ignore)
    """Classes that may have any share, such as "greylisted" where all addresses are new."""

    @property
    def meaning(self) -> str:
        """When it fires and when that is over."""
        return (
            f"Within {short(self.window)} more than {self.share:.0%} of at least {self.minimum} attempts failed with one error class, "
            f"by {plain(self.certainty)} standard deviations, for {short(self.hold)}. It is over when for {short(self.clear_after)} "
            f"they are at most {self.clear_share:.0%}."
        )

    @property
    def first_steps(self) -> tuple[str, ...]:
        """The commands for whoever is woken."""
        return ("retrykit runbook --since 15m", "retrykit dlq groups since:15m")

    def judge(self, signals: Signals, firing: Mapping[str, Alert]) -> Iterable[Finding]:
        """Compare each class with the limit."""
        now = signals.within(self.window)
        attempts = now["sent"] + now["failed"]
        for name, count in now.items():
            error_class = name.removeprefix(_CLASS)
            if not name.startswith(_CLASS) or error_class in self.ignore:
                continue
            key = f"{self.name}:{error_class}"
            if key in firing:
                if count > self.clear_share * attempts:
                    yield Finding(key=key, is_met=True)
            elif attempts >= self.minimum and _wilson(count, attempts, self.certainty) > self.share:
                evidence: dict[str, JSON] = {
                    "window": short(self.window),
                    "error_class": error_class,
                    "failed": count,
                    "attempts": attempts,
                    "share": round(count / attempts, 3),
                    "classes": _top_classes(now),
                }
                title = f"{count / attempts:.0%} of {attempts:,} attempts within {short(self.window)} failed with {error_class}"
                query = f"retrykit dlq list {shlex.quote(f'class:{error_class}')} since:15m"
                yield Finding(key=key, is_met=True, title=title, evidence=evidence, commands=(*self.first_steps, query))


@attrs.frozen(kw_only=True)
class BreakerOpens(Rule):
    """The breaker of a primary provider is open somewhere."""

    name: str = attrs.field(default="breaker-opens", validator=rule_checks.is_name)
    clear_after: float = attrs.field(default=120.0, converter=rule_checks.clear_after)
    primary: frozenset[str] | None = attrs.field(default=None, converter=rule_checks.primary)
    """Names of the breakers that matter; None: all."""

    @property
    def meaning(self) -> str:
        """When it fires and when that is over."""
        which = "A breaker" if self.primary is None else f"The breaker of {' or '.join(sorted(self.primary))}"
        return (
            f"{which} opens in any process; at once. It is over when for {short(self.clear_after)} it is closed in all of them; "
            "half open is not closed."
        )

    @property
    def first_steps(self) -> tuple[str, ...]:
        """The commands for whoever is woken."""
        return ("retrykit runbook --since 15m", "retrykit pauses", 'retrykit pause provider:NAME --reason "..."')

    def judge(self, signals: Signals, firing: Mapping[str, Alert]) -> Iterable[Finding]:
        """Say which are open."""
        for breaker, processes in signals.open_breakers().items():
            if self.primary is None or breaker in self.primary:
                pause = f'retrykit pause {shlex.quote(f"provider:{breaker}")} --reason "..."'
                yield Finding(
                    key=f"{self.name}:{breaker}",
                    is_met=True,
                    title=f"the breaker of {breaker} is open",
                    evidence={"breaker": breaker, "processes": processes},
                    commands=(*self.first_steps[:2], pause),
                )


@attrs.frozen(kw_only=True)
class BacklogGrows(Rule):
    """More and more messages wait for a retry while fewer and fewer are sent."""

    name: str = attrs.field(default="backlog-grows", validator=rule_checks.is_name)
    hold: float = attrs.field(default=60.0, converter=rule_checks.hold)
    window: float = attrs.field(default=900.0, converter=rule_checks.window)
    """The first third of it is compared with the last."""
    growth: float = attrs.field(default=1.5, validator=rule_checks.at_least(1.0))
    """How many times as many wait."""
    minimum: int = attrs.field(default=100, validator=rule_checks.is_count)
    """How many more wait."""
    fall: float = attrs.field(default=0.3, validator=rule_checks.is_share)
    """By what share fewer messages are sent."""
    minimum_sent: int = attrs.field(default=50, validator=rule_checks.is_count)
    """Messages sent in the first third."""
    certainty: float = attrs.field(default=4.0, validator=rule_checks.at_least(0.0))
    """Standard deviations by which the fall is beyond chance."""

    @property
    def meaning(self) -> str:
        """When it fires and when that is over."""
        return (
            f"From the first to the last third of {short(self.window)} the retry queue grew to {plain(self.growth)} times its length, by at "
            f"least {self.minimum} messages, while at least {self.fall:.0%} fewer messages were sent, of {self.minimum_sent} or more, "
            f"for {short(self.hold)}. It is over when for {short(self.clear_after)} half of what had come has gone, or sending is "
            f"back to {1 - self.fall / 2:.0%} of what it was."
        )

    @property
    def first_steps(self) -> tuple[str, ...]:
        """The commands for whoever is woken."""
        return ("retrykit runbook --since 15m", "retrykit deliveries", "retrykit pauses")

    def judge(self, signals: Signals, firing: Mapping[str, Alert]) -> Iterable[Finding]:
        """Compare the ends of the window; an alert in force is compared with what was before it."""
        third = round(self.window / 3 / BUCKET) * BUCKET or BUCKET
        waiting = signals.waiting_between(0, third)
        before = signals.waiting_between(self.window - third, self.window)
        sent = signals.between(0, third)["sent"]
        sent_before = signals.between(self.window - third, self.window)["sent"]
        fired = firing.get(self.name)
        if fired is not None:
            return [Finding(key=self.name, is_met=True)] if self._lasts(fired.evidence, waiting, sent) else []
        if waiting is None or before is None:
            return []
        grew = waiting - before >= self.minimum and waiting >= self.growth * before
        lost = sent_before - sent
        fell = lost >= self.fall * sent_before and lost >= self.certainty * math.sqrt(sent + sent_before)
        if not grew or not fell or sent_before < self.minimum_sent:
            return []
        title = f"{waiting:,.0f} messages wait for a retry, {before:,.0f} before; {sent:,} were sent in {short(third)}, {sent_before:,} before"
        evidence: dict[str, JSON] = {
            "window": short(self.window),
            "waiting": round(waiting),
            "waiting_before": round(before),
            "sent": sent,
            "sent_before": sent_before,
        }
        if signals.backlog is not None:
            evidence |= {"due": signals.backlog.due, "overdue_seconds": round(signals.backlog.overdue)}
        return [Finding(key=self.name, is_met=True, title=title, evidence=evidence, commands=self.first_steps)]

    def _lasts(self, fired: Mapping[str, JSON], waiting: float | None, sent: int) -> bool:
        figures = [fired.get(name) for name in ("waiting", "waiting_before", "sent_before")]
        if waiting is None or not all(isinstance(each, int) for each in figures):
            return False
        peak, before, sent_before = (each for each in figures if isinstance(each, int))
        return waiting > (peak + before) / 2 and sent < (1 - self.fall / 2) * sent_before


@attrs.frozen(kw_only=True)
class _Once(Rule):
    """Something that happens once is told once; the sixth and further ones within an hour stand in one alert."""

    kind: str = attrs.field(init=False)
    clear_after: float = attrs.field(default=0.0, converter=rule_checks.clear_after)

    @abc.abstractmethod
    def title(self, occurrence: Occurrence) -> str:
        """Return what happened, in one sentence."""

    def steps_for(self, occurrence: Occurrence) -> tuple[str, ...]:
        """Return the commands for whoever is told of it."""
        return self.first_steps

    def judge(self, signals: Signals, firing: Mapping[str, Alert]) -> Iterable[Finding]:
        """Say what happened within the hour."""
        for each in signals.occurrences:
            if each.kind == self.kind:
                evidence: dict[str, JSON] = {"detail": each.detail} if each.subject else {"samples": list(each.samples)}
                yield Finding(
                    key=f"{self.name}:{each.subject or '*'}",
                    is_met=True,
                    title=self.title(each),
                    evidence={**evidence, "subject": each.subject, "count": each.count},
                    commands=self.steps_for(each),
                )


@attrs.frozen(kw_only=True)
class UnknownCodesAppear(_Once):
    """A provider says something that no rule knows."""

    name: str = attrs.field(default="unknown-code", validator=rule_checks.is_name)
    severity: Severity = attrs.field(default=Severity.TICKET, converter=rule_checks.severity)
    kind: str = attrs.field(default="unknown_code", init=False)

    @property
    def meaning(self) -> str:
        """When it fires and when that is over."""
        return (
            "A classifier met a provider's code, or a type of exception, that none of its rules knows; at once, and once for each in the "
            "whole fleet. More than five within an hour are told together. It is over after an hour."
        )

    @property
    def first_steps(self) -> tuple[str, ...]:
        """The commands for whoever reads it."""
        return ("retrykit dlq list class:unknown since:1h", 'retrykit classify --smtp "..." --all')

    def title(self, occurrence: Occurrence) -> str:
        """Return what happened, in one sentence."""
        if not occurrence.subject:
            return f"{occurrence.count:,} more codes appeared that no rule knows"
        return f"no rule knows the code {occurrence.subject}"


@attrs.frozen(kw_only=True)
class MessageQuarantines(_Once):
    """A message was taken out of circulation as poison."""

    name: str = attrs.field(default="poison-message", validator=rule_checks.is_name)
    kind: str = attrs.field(default="poison", init=False)

    @property
    def meaning(self) -> str:
        """When it fires and when that is over."""
        return (
            "A message was taken out of circulation since its workers keep dying or failing; at once, for each message. More than five "
            "within an hour are told together. It is over after an hour."
        )

    @property
    def first_steps(self) -> tuple[str, ...]:
        """The commands for whoever is woken."""
        return ("retrykit dlq list reason:poison_message since:1h", "retrykit dlq show ID")

    def steps_for(self, occurrence: Occurrence) -> tuple[str, ...]:
        """Return the commands, with the id of the letter where there is one."""
        if not occurrence.subject:
            return self.first_steps[:1]
        return (self.first_steps[0], f"retrykit dlq show {shlex.quote(occurrence.subject)}")

    def title(self, occurrence: Occurrence) -> str:
        """Return what happened, in one sentence."""
        if not occurrence.subject:
            return f"{occurrence.count:,} more messages were taken out of circulation as poison"
        return f"the message of {occurrence.subject} was taken out of circulation as poison"


DEFAULT_RULES: Final[tuple[Rule, ...]] = (
    DeadLettersJump(),
    ErrorClassDominates(),
    BreakerOpens(),
    BacklogGrows(),
    UnknownCodesAppear(),
    MessageQuarantines(),
)
"""The five rules of a mail system, and the one of poison messages."""


def _top_classes(counts: Mapping[str, int]) -> dict[str, JSON]:
    found = {name.removeprefix(_CLASS): count for name, count in counts.items() if name.startswith(_CLASS)}
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0]))[:5])


def _chance(count: int, expected: float) -> float:
    """Return how likely a Poisson count is at least `count`, at the most (Chernoff's bound)."""
    if count <= expected:
        return 1.0
    return math.exp(count - expected - count * math.log(count / expected))


def _wilson(count: int, total: int, deviations: float) -> float:
    """Return the lower end of Wilson's interval of a share.

    Source:
        E. B. Wilson, Probable inference, the law of succession, and statistical inference, JASA 22 (1927).
    """
    share, square = min(1.0, count / total), deviations**2 / total
    spread = deviations * math.sqrt((share * (1 - share) + square / 4) / total)
    return (share + square / 2 - spread) / (1 + square)
