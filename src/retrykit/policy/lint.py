"""What a matrix amounts to: contradictions in it, and the numbers that follow from it.

`lint` names what cannot be meant (a ladder longer than the maximum age, a throttle that does not pause, retries for a
recipient who is gone) and works out, for each policy, how long it waits in all, when it gives up, and how much load its
retries add while a share of all tries fails.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from enum import StrEnum
from typing import Final, Literal, TypeAlias

import attrs

from ..codec import JSON
from ..decision import Action
from ..failure import BUILT_IN_CLASSES, ErrorClass, ErrorGroup
from ..times import Duration, plain, seconds
from .backoff import Backoff, Rng
from .matrix import PolicyKey, PolicyMatrix, RetryPolicy

__all__ = [
    "SHARES",
    "Finding",
    "LintReport",
    "PolicyFigures",
    "Severity",
    "budgeted_load_factor",
    "lint",
    "load_factor",
    "residual",
]

SHARES: Final = (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)
"""Failure shares for which the load is worked out."""

LintKey: TypeAlias = PolicyKey | Literal["default"]
"""What a policy of a matrix is listed under."""

_PERMANENT: Final = frozenset({ErrorGroup.PERMANENT_RECIPIENT, ErrorGroup.CONTENT_POLICY, ErrorGroup.INTERNAL})
_SAMPLES: Final = 1000
_MOST_DRAWS: Final = 1_000_000
_MASK: Final = (1 << 64) - 1


def load_factor(share: float, retries: int) -> float:
    """Return how many tries one call makes on average when each try fails independently with probability `share`.

    ``(1 - p ** (n + 1)) / (1 - p)`` for n retries.

    Args:
        share: 0 to 1.
        retries: >= 0.

    Example:
        >>> load_factor(0.5, 2), load_factor(1.0, 3)
        (1.75, 4.0)
    """
    return math.fsum(share**tries for tries in range(retries + 1))


def residual(share: float, retries: int) -> float:
    """Return the share of calls that fail in the end: ``p ** (n + 1)``."""
    return float(share ** (retries + 1))


def budgeted_load_factor(share: float, per_success: float) -> float:
    """Return the tries a call makes when retries are paid for by successes, one level of retries.

    Args:
        share: the share of tries that fail, 0 to 1.
        per_success: tokens that one success earns; a retry costs one.

    Example:
        >>> round(budgeted_load_factor(0.5, 0.1), 4)
        1.0526
    """
    earned = per_success * (1 - share) / (1 - per_success * (1 - share))
    return 1 + min(share, earned)


class Severity(StrEnum):
    """How much a finding matters."""

    ERROR = "error"
    """It cannot be meant."""
    WARNING = "warning"
    """It may be meant, and then costs something."""


@attrs.frozen
class Finding:
    """One thing about a matrix that should be looked at."""

    severity: Severity
    check: str
    """The check's name, for looking it up."""
    where: str
    """The policy or limit it is about."""
    message: str
    """What is wrong, with the numbers, and what to do."""

    def to_dict(self) -> dict[str, JSON]:
        """Return the finding as JSON values."""
        return {
            "severity": self.severity.value,
            "check": self.check,
            "where": self.where,
            "message": self.message,
        }


@attrs.frozen(kw_only=True)
class PolicyFigures:
    """What one policy amounts to, if a message fails with nothing but its class."""

    key: LintKey
    """The class or group, or "default"."""
    attempts: int
    """Tries in the worst case."""
    gives_up_after: tuple[float, float, float, float]
    """Seconds of waiting until the last try: at least, half of the messages, 95 of 100, at most."""
    then: Action
    load: tuple[float, ...]
    """Tries for each call, by the failure shares of `SHARES`."""
    left: tuple[float, ...]
    """The share of calls that fail in the end, by the failure shares of `SHARES`."""

    def to_dict(self) -> dict[str, JSON]:
        """Return the figures as JSON values."""
        low, half, most, high = self.gives_up_after
        return {
            "policy": str(self.key),
            "attempts": self.attempts,
            "gives_up_after": {"min": low, "p50": half, "p95": most, "max": high},
            "then": self.then.value,
            "load": {f"{share:g}": factor for share, factor in zip(SHARES, self.load, strict=True)},
            "residual": {f"{share:g}": rest for share, rest in zip(SHARES, self.left, strict=True)},
        }


@attrs.frozen
class LintReport:
    """The findings and figures of a matrix."""

    findings: Sequence[Finding]
    figures: Sequence[PolicyFigures]
    worst_case_attempts: int
    """Tries of one message in the worst case, whatever it fails with."""

    @property
    def passed(self) -> bool:
        """Whether nothing is wrong; warnings do not count."""
        return not any(finding.severity is Severity.ERROR for finding in self.findings)

    def to_dict(self) -> dict[str, JSON]:
        """Return the report as JSON values."""
        return {
            "passed": self.passed,
            "worst_case_attempts": self.worst_case_attempts,
            "findings": [finding.to_dict() for finding in self.findings],
            "policies": [figures.to_dict() for figures in self.figures],
        }


class _Draws:
    """Random numbers that are the same on every run (SplitMix64), so that figures repeat exactly.

    Source: Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators" (2014).
    """

    def __init__(self) -> None:
        self._state = 0

    def random(self) -> float:
        self._state = (self._state + 0x9E3779B97F4A7C15) & _MASK
        mixed = self._state
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
        return ((mixed ^ (mixed >> 31)) >> 11) / (1 << 53)


def lint(
    matrix: PolicyMatrix, *, classes: Collection[ErrorClass] = (), recovery_timeout: Duration = "60s"
) -> LintReport:
    """Check a matrix and work out what it amounts to.

    Args:
        matrix: the matrix.
        classes: the application's own classes that its errors or rules give, besides those that retrykit gives itself.
        recovery_timeout: how long a circuit breaker stays open before it lets a probe through.

    Returns:
        The report; the same matrix gives the same report.

    """
    recovery = seconds(recovery_timeout, "recovery_timeout")
    findings: list[Finding] = []
    figures: list[PolicyFigures] = []
    policies: list[tuple[LintKey, RetryPolicy]] = [*matrix.policies.items()]
    if matrix.default is not None:
        policies.append(("default", matrix.default))
    for key, policy in policies:
        figures.append(_figures(key, policy, matrix))
        findings += _findings(key, policy, matrix, frozenset(classes), recovery)
    total = min(matrix.max_attempts, 1 + sum(policy.max_retries for _, policy in policies))
    for name in ErrorGroup:
        if name not in matrix.policies and matrix.default is None and name is not ErrorGroup.UNMAPPED:
            missing = [c for c in BUILT_IN_CLASSES.values() if c.group is name and c not in matrix.policies]
            if missing:
                findings.append(
                    Finding(
                        Severity.WARNING,
                        "group-without-policy",
                        name.value,
                        f"{', '.join(missing)} fall to the policy of unmapped errors; give the group a policy of its own",
                    )
                )
    return LintReport(findings, figures, total)


def _possible_retries(policy: RetryPolicy, matrix: PolicyMatrix) -> int:
    return min(policy.max_retries, matrix.max_attempts - 1)


def _waits(backoff: Backoff, retries: int, rng: Rng) -> list[float]:
    """Draw the waits of one message."""
    waits: list[float] = []
    for number in range(1, retries + 1):
        waits.append(backoff.delay(number, rng, previous=waits[-1] if waits else None))
    return waits


def _figures(key: LintKey, policy: RetryPolicy, matrix: PolicyMatrix) -> PolicyFigures:
    retries = _possible_retries(policy, matrix)
    bounds = [policy.backoff.bounds(number) for number in range(1, retries + 1)]
    lows, highs = (
        _within([low for low, _ in bounds], matrix.max_age),
        _within([high for _, high in bounds], matrix.max_age),
    )
    rng = _Draws()
    samples = max(1, min(_SAMPLES, _MOST_DRAWS // max(1, retries)))
    totals = sorted(math.fsum(_within(_waits(policy.backoff, retries, rng), matrix.max_age)) for _ in range(samples))
    low, high = sorted((math.fsum(lows), max(math.fsum(highs), totals[-1])))
    return PolicyFigures(
        key=key,
        attempts=len(lows) + 1,
        gives_up_after=(min(low, totals[0]), totals[samples // 2], totals[samples * 95 // 100 - 1], high),
        then=policy.on_exhausted,
        load=tuple(load_factor(share, len(lows)) for share in SHARES),
        left=tuple(residual(share, len(lows)) for share in SHARES),
    )


def _within(waits: Sequence[float], max_age: float | None) -> Sequence[float]:
    """Return the waits that are waited: none that would end later than the maximum age."""
    if max_age is None:
        return waits
    total = 0.0
    for number, wait in enumerate(waits):
        total += wait
        if total > max_age:
            return waits[:number]
    return waits


def _findings(
    key: LintKey, policy: RetryPolicy, matrix: PolicyMatrix, classes: Collection[ErrorClass], recovery: float
) -> list[Finding]:
    group = key.group if isinstance(key, ErrorClass) else key
    where = str(key)
    retries = policy.max_retries
    bounds = [policy.backoff.bounds(number) for number in range(1, _possible_retries(policy, matrix) + 1)]
    ladder, longest = math.fsum(low for low, _ in bounds), math.fsum(high for _, high in bounds)
    found: list[Finding] = []

    def say(severity: Severity, check: str, message: str) -> None:
        found.append(Finding(severity, check, where, message))

    if matrix.max_age is not None and ladder > matrix.max_age:
        say(
            Severity.ERROR,
            "ladder-longer-than-max-age",
            f"its {len(bounds)} retries wait {plain(ladder)} s in all, max_age is {plain(matrix.max_age)} s: "
            "the last never come; "
            "shorten the ladder or raise max_age",
        )
    elif matrix.max_age is not None and longest > matrix.max_age:
        say(
            Severity.WARNING,
            "ladder-may-exceed-max-age",
            f"with its jitter its {len(bounds)} retries wait up to {plain(longest)} s in all, max_age is "
            f"{plain(matrix.max_age)} s: the last may not come; leave room for the jitter",
        )
    if retries + 1 > matrix.max_attempts:
        say(
            Severity.ERROR,
            "more-retries-than-max-attempts",
            f"max_retries is {retries}, but max_attempts allows {matrix.max_attempts} attempts in all; raise max_attempts to {retries + 1}",
        )
    if policy.throttle and (not bounds or bounds[0][0] == 0):
        say(
            Severity.ERROR,
            "throttle-without-pause",
            "throttle is on, but no wait comes before a retry; give it retries with a backoff of seconds, or turn it off",
        )
    if retries and group in _PERMANENT:
        say(
            Severity.ERROR,
            "retries-for-what-does-not-heal",
            f"{retries} retries for the group {str(group)!r}, which does not heal by itself; use RetryPolicy.never(...)",
        )
    if isinstance(key, ErrorClass) and not key.is_built_in and key not in classes:
        say(
            Severity.WARNING,
            "class-nobody-gives",
            "no rule of retrykit gives this class; name it with a TaggedError, tag() or a Rule, and pass it to lint",
        )
    if retries and group in (ErrorGroup.TRANSIENT_INFRASTRUCTURE, ErrorGroup.SENDER) and longest < recovery:
        say(
            Severity.WARNING,
            "gives-up-before-breaker-recovers",
            f"it gives up after {plain(longest)} s at the latest, before a breaker that opened lets a probe through "
            f"({plain(recovery)} s); wait longer in all",
        )
    if retries and not policy.backoff.jitter.only_adds:
        say(
            Severity.WARNING,
            "queue-wait-below-its-rung",
            f"the jitter ({policy.backoff.jitter}) makes waits shorter than their rung; for a queue use 'quarter' or upward()",
        )
    if longest > 0 and all(low == high for low, high in bounds):
        say(
            Severity.WARNING,
            "no-jitter",
            "what failed together comes back together; give the backoff a jitter",
        )
    return found
