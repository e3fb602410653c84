"""The same rules for Prometheus, made from the same constants; for who has one, instead of a monitor or beside it.

What they ask for are the metrics of `retrykit.exporters.prometheus`, gauges of a backend included.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from typing import Final

import attrs

from ..errors import ConfigurationError
from ..exporters.labels import check_namespace
from ..machines.alert_rules import (
    DEFAULT_RULES,
    BacklogGrows,
    BreakerOpens,
    DeadLettersJump,
    ErrorClassDominates,
    MessageQuarantines,
    Rule,
    UnknownCodesAppear,
)
from ..machines.rule_checks import check_rules
from ..machines.signals import KEPT
from ..times import plain

__all__ = ["METRICS", "prometheus_rules"]

METRICS: Final = {
    "messages": "messages_total",
    "failed": "attempts_failed_total",
    "breaker": "breaker_state",
    "waiting": "retry_queue_messages",
    "codes": "unknown_codes_total",
    "quarantined": "quarantined_total",
}
"""The metrics that the rules ask for, without the namespace."""

_DEAD: Final = 'disposition=~"dead_lettered|held_for_review"'
_DONE: Final = 'disposition=~"sent|bounced|dead_lettered|held_for_review|discarded"'


@attrs.frozen
class _Recording:
    """A figure that is kept under a name."""

    name: str
    expression: str


@attrs.frozen
class _Alerting:
    """When Prometheus is to fire."""

    expression: str
    summary: str


def prometheus_rules(rules: Iterable[Rule] = DEFAULT_RULES, *, namespace: str = "retrykit") -> str:
    r"""Return alert rules for Prometheus (2.42 or newer) as YAML.

    Args:
        rules: rules of ours, with your constants; others have no form for Prometheus and are left out. Two of one kind have names of
            their own, and what they ask for is kept under these.
        namespace: that of the exporter.

    Raises:
        ConfigurationError: the namespace or a rule is not allowed, or two rules have one name.

    Example:
        >>> print(prometheus_rules([BreakerOpens(primary=["ses"])]))
        groups:
        - name: retrykit
          rules:
          - alert: RetrykitBreakerOpens
            expr: "max by (breaker) (retrykit_breaker_state{state=~\"open|half_open\",breaker=~\"ses\"}) == 1"
            keep_firing_for: 120s
            labels: {severity: page}
            annotations:
              summary: "the breaker of {{ $labels.breaker }} is open"
              description: "The breaker of ses opens in any process; at once. It is over when for 2m it is closed in all of them; half open is not closed."
              runbook: "breaker-opens"
        <BLANKLINE>
    """
    metrics = {key: f"{check_namespace(namespace)}_{name}" for key, name in METRICS.items()}
    lines = ["groups:", f"- name: {namespace}", "  rules:"]
    taken = dict[str, str]()
    for rule in check_rules(rules):
        recordings, alerting = _translated(rule, metrics, _prefix(rule, namespace))
        if alerting is None:
            continue
        alert = namespace.title() + "".join(word.title() for word in rule.name.split("-"))
        for name in (alert, *(recording.name for recording in recordings)):
            if taken.setdefault(name, rule.name) != rule.name:
                raise ConfigurationError(
                    f"the rules {taken[name]!r} and {rule.name!r} would both be {name} in Prometheus; give one another name: name="
                )
        for recording in recordings:
            lines += [f"  - record: {recording.name}", f"    expr: {json.dumps(recording.expression)}"]
        lines += [f"  - alert: {alert}"]
        lines += [f"    expr: {json.dumps(alerting.expression)}"]
        lines += [f"    for: {plain(rule.hold)}s"] if rule.hold else []
        lines += [f"    keep_firing_for: {plain(rule.clear_after)}s"] if rule.clear_after else []
        lines += [f"    labels: {{severity: {rule.severity.value}}}", "    annotations:"]
        lines += [f"      summary: {json.dumps(alerting.summary)}"]
        lines += [f"      description: {json.dumps(rule.meaning)}", f"      runbook: {json.dumps(rule.name)}"]
    return "\n".join(lines) + "\n"


def _prefix(rule: Rule, namespace: str) -> str:
    """Return what the names of a rule's recorded figures begin with: two rules of one kind must not share them."""
    usual = next((each.name for each in DEFAULT_RULES if isinstance(rule, type(each))), "")
    name = rule.terms.name
    return namespace if name == usual else f"{namespace}:{re.sub('[^A-Za-z0-9]', '_', name)}"


def _translated(rule: Rule, metrics: dict[str, str], namespace: str) -> tuple[list[_Recording], _Alerting | None]:
    match rule:
        case DeadLettersJump():
            return _letters(rule, metrics["messages"], namespace)
        case ErrorClassDominates():
            return _classes(rule, metrics, namespace)
        case BreakerOpens():
            named = "" if rule.primary is None else f',breaker=~"{"|".join(map(_literal, sorted(rule.primary)))}"'
            expression = f'max by (breaker) ({metrics["breaker"]}{{state=~"open|half_open"{named}}}) == 1'
            return [], _Alerting(expression, "the breaker of {{ $labels.breaker }} is open")
        case BacklogGrows():
            return _backlog(rule, metrics, namespace)
        case UnknownCodesAppear():
            total = f"sum by (provider, code) ({metrics['codes']})"
            before = f"sum by (provider, code) ({metrics['codes']} offset {plain(KEPT)}s)"
            said = "no rule knows the code {{ $labels.code }} of {{ $labels.provider }}"
            return [], _Alerting(f"{total} unless {before}", said)
        case MessageQuarantines():
            expression = f"sum(increase({metrics['quarantined']}[{plain(KEPT)}s])) > 0"
            return [], _Alerting(expression, "messages were taken out of circulation as poison")
        case _:
            return [], None


def _letters(rule: DeadLettersJump, messages: str, namespace: str) -> tuple[list[_Recording], _Alerting]:
    window, died, handled = f"{plain(rule.window)}s", f"{namespace}:died", f"{namespace}:handled"
    usual, expected = f"{namespace}:died:usual_share", f"{namespace}:died:expected"
    day = f"(sum(increase({messages}{{{{}}}}[1d] offset 1h)) or vector(0))".replace("{{}}", "{%s}")
    share = f"({day % _DEAD} + {plain(rule.expected_share * 500)}) / ({day % _DONE} + 500)"
    recordings = [
        _Recording(died, f"sum(increase({messages}{{{_DEAD}}}[{window}]))"),
        _Recording(handled, f"sum(increase({messages}{{{_DONE}}}[{window}]))"),
        _Recording(usual, share),
        _Recording(expected, f"{usual} * {handled}"),
    ]
    bad = f"({plain(rule.drift)} * {expected})"
    chance = f"{died} - {bad} - {died} * ln({died} / {bad}) <= {math.log(rule.chance):.4f}"
    enough = f"{died} >= {rule.minimum} and {died} >= {plain(rule.ratio)} * {expected} and {died} > {bad}"
    return recordings, _Alerting(
        f"{enough} and ({chance})", "{{ $value | humanize }} messages died, far more than usually"
    )


def _classes(rule: ErrorClassDominates, metrics: dict[str, str], namespace: str) -> tuple[list[_Recording], _Alerting]:
    window, failed, attempts = f"{plain(rule.window)}s", f"{namespace}:failed:by_class", f"{namespace}:attempts"
    share, square = f"{namespace}:failed:share", f"{plain(rule.certainty**2)}"
    sent = f'(sum(increase({metrics["messages"]}{{disposition="sent"}}[{window}])) or vector(0))'
    all_failed = f"(sum(increase({metrics['failed']}[{window}])) or vector(0))"
    ignored = f'{{error_class!~"{"|".join(map(_literal, sorted(rule.ignore)))}"}}' if rule.ignore else ""
    recordings = [
        _Recording(failed, f"sum by (error_class) (increase({metrics['failed']}{ignored}[{window}]))"),
        _Recording(attempts, f"{sent} + {all_failed}"),
        _Recording(share, f"{failed} / on() group_left() {attempts}"),
    ]
    # the lower end of Wilson's interval; each term keeps the label of the class
    n = f"on() group_left() {attempts}"
    spread = f"{plain(rule.certainty)} * sqrt(({share} * (1 - {share}) + ({square} / 4 / scalar({attempts}))) / {n})"
    low = f"({share} + {square} / 2 / scalar({attempts}) - {spread}) / (1 + {square} / scalar({attempts}))"
    expression = f"{low} > {plain(rule.share)} and on() {attempts} >= {rule.minimum}"
    return recordings, _Alerting(expression, "too many attempts fail with {{ $labels.error_class }}")


def _backlog(rule: BacklogGrows, metrics: dict[str, str], namespace: str) -> tuple[list[_Recording], _Alerting]:
    third = f"{plain(rule.window / 3)}s"
    back = f"offset {plain(rule.window * 2 / 3)}s"
    waiting, before = f"{namespace}:waiting", f"{namespace}:waiting:before"
    sent, sent_before = f"{namespace}:sent", f"{namespace}:sent:before"
    gauge, messages = f'{metrics["waiting"]}{{state="waiting"}}', f'{metrics["messages"]}{{disposition="sent"}}'
    recordings = [
        _Recording(waiting, f"max(avg_over_time({gauge}[{third}]))"),
        _Recording(before, f"max(avg_over_time({gauge}[{third}] {back}))"),
        _Recording(sent, f"sum(increase({messages}[{third}]))"),
        _Recording(sent_before, f"sum(increase({messages}[{third}] {back}))"),
    ]
    grew = f"{waiting} - {before} >= {rule.minimum} and {waiting} >= {plain(rule.growth)} * {before}"
    fell = f"{sent_before} - {sent} >= {plain(rule.fall)} * {sent_before}"
    certain = f"{sent_before} - {sent} >= {plain(rule.certainty)} * sqrt({sent} + {sent_before})"
    expression = f"{grew} and {fell} and {certain} and {sent_before} >= {rule.minimum_sent}"
    return recordings, _Alerting(expression, "more messages wait for a retry while fewer are sent")


def _literal(name: str) -> str:
    """Return a name as a regular expression that matches it alone, within a quoted text."""
    return json.dumps(re.escape(name))[1:-1]
