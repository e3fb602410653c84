"""The policy matrix: error class to retries, delays and final action, and the decision that follows from it.

Deciding is pure: the same failure, history, age and randomness give the same decision. Retries are counted per policy,
so that a throttle does not use up a timeout's retries, and bounded over all by `max_attempts` and `max_age`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

import attrs

from ..decision import Action, Attempt, DeadLetterReason, Decision
from ..errors import ConfigurationError
from ..failure import ErrorClass, ErrorGroup, Failure, Outcome
from ..times import Duration, seconds
from .backoff import Backoff, Rng, as_backoff, constant, delays, exponential, upward

__all__ = ["EMAIL_MATRIX", "PolicyKey", "PolicyMatrix", "RetryPolicy"]

PolicyKey: TypeAlias = ErrorClass | ErrorGroup


def _action(_: object, attribute: attrs.Attribute[Action], value: Action) -> None:
    if not isinstance(value, Action):  # pyright: ignore[reportUnnecessaryIsInstance] - callers without a type checker
        raise ConfigurationError(f"{attribute.name} is {value!r}; allowed is an Action, for example Action.DEAD_LETTER")


def _final_action(_: object, attribute: attrs.Attribute[Action], value: Action) -> None:
    _action(_, attribute, value)
    if value in (Action.RETRY, Action.VERIFY):
        raise ConfigurationError(f"{attribute.name} is {value.value!r}, which ends nothing; allowed are final actions")


@attrs.frozen(kw_only=True)
class RetryPolicy:
    """How one class or group of failures is treated.

    Example:
        >>> RetryPolicy(max_retries=3, backoff=delays("15m", "1h", "6h")).max_retries
        3
    """

    max_retries: int
    """Retries after the first try, >= 0."""
    backoff: Backoff = attrs.field(default=delays(0, jitter="none"), converter=as_backoff)
    """The wait before each retry; also given as a list of durations, or as a function of the retry's number."""
    on_exhausted: Action = attrs.field(default=Action.DEAD_LETTER, validator=_final_action)
    """What follows the last retry."""
    throttle: bool = False
    """Whether such failures also lower the rate of sending."""
    audit: bool = False
    """Whether a bounced message leaves a dead letter as well."""

    def __attrs_post_init__(self) -> None:
        """Check the number of retries."""
        if isinstance(self.max_retries, bool) or not isinstance(self.max_retries, int) or self.max_retries < 0:
            raise ConfigurationError(f"max_retries is {self.max_retries!r}; allowed are whole numbers >= 0")

    @classmethod
    def never(cls, action: Action = Action.DEAD_LETTER, *, audit: bool = False) -> RetryPolicy:
        """Return a policy that retries nothing and takes `action` at once."""
        return cls(max_retries=0, on_exhausted=action, audit=audit)


def _max_age(value: Duration | None) -> float | None:
    return None if value is None else seconds(value, "max_age", positive=True)


def _max_retry_after(value: Duration) -> float:
    return seconds(value, "max_retry_after", positive=True)


def _policies(value: Mapping[PolicyKey, RetryPolicy]) -> dict[PolicyKey, RetryPolicy]:
    for key, policy in value.items():
        if not isinstance(key, (ErrorClass, ErrorGroup)):  # pyright: ignore[reportUnnecessaryIsInstance]
            kind = "ErrorGroup" if key in list(ErrorGroup) else "ErrorClass"
            raise ConfigurationError(
                f"a key of the matrix is {key!r}; allowed are ErrorClass and ErrorGroup: write {kind}({key!r})"
            )
        if not isinstance(policy, RetryPolicy):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"the policy of {str(key)!r} is {policy!r}; allowed is a RetryPolicy")
    return dict(value)


@attrs.frozen(kw_only=True, hash=False)
class PolicyMatrix:
    """Error class to policy. Looked up by the exact class, then its group, then `default`.

    Args:
        policies: mapping of error class or group to policy.
        default: the policy of what is not listed; by default that of the unmapped group, else a dead letter at once.
        max_attempts: tries in all, whatever their classes, >= 1.
        max_age: how long after its first try a message may still be retried.
        max_retry_after: the longest wait that the other side may ask for.
        on_unknown: what a retry becomes after a try whose outcome is unknown.
        verify_backoff: the waits between attempts to find out whether an unknown send had happened.

    Raises:
        ConfigurationError: a key, a policy or a limit is not allowed.

    Example:
        >>> matrix = PolicyMatrix({ErrorGroup.THROTTLING: RetryPolicy(max_retries=2, backoff=[1, 5])})
        >>> failure = Failure(error_class=ErrorClass.PROVIDER_THROTTLED, outcome=Outcome.REJECTED, rule="example")
        >>> matrix.decide(failure, 1).reason
        'provider_throttled, retry 1 of 2, waits 1 s; rule example'
    """

    policies: Mapping[PolicyKey, RetryPolicy] = attrs.field(converter=_policies, kw_only=False)
    default: RetryPolicy | None = None
    max_attempts: int = 12
    max_age: float | None = attrs.field(default=seconds("3d"), converter=_max_age)
    max_retry_after: float = attrs.field(default=seconds("1d"), converter=_max_retry_after)
    on_unknown: Action = attrs.field(default=Action.VERIFY, validator=_action)
    verify_backoff: Backoff = attrs.field(default=exponential("30s", cap="1h"), converter=as_backoff)

    def __attrs_post_init__(self) -> None:
        """Check the limits."""
        if isinstance(self.max_attempts, bool) or not isinstance(self.max_attempts, int) or self.max_attempts < 1:
            raise ConfigurationError(f"max_attempts is {self.max_attempts!r}; allowed are whole numbers >= 1")
        if not isinstance(self.default, RetryPolicy | None):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"default is {self.default!r}; allowed is a RetryPolicy or None")

    def policy(self, error_class: ErrorClass) -> RetryPolicy:
        """Return the policy in force for a class."""
        return self._lookup(error_class)[1]

    def _lookup(self, error_class: ErrorClass) -> tuple[PolicyKey, RetryPolicy]:
        for key in (error_class, error_class.group):
            policy = self.policies.get(key)
            if policy is not None:
                return key, policy
        return ErrorGroup.UNMAPPED, self.default or self.policies.get(ErrorGroup.UNMAPPED) or RetryPolicy.never()

    def decide(
        self,
        failure: Failure,
        tries: int | Sequence[Attempt],
        *,
        age: float = 0.0,
        rng: Rng | None = None,
    ) -> Decision:
        """Decide what to do about a failure.

        Args:
            failure: the failed try.
            tries: the number of this try (from 1), where all tries failed alike; or the failed tries before this one.
            age: seconds since the first try.
            rng: the source of the jitter; None adds none.

        Returns:
            The decision, with its reason in one sentence.

        Raises:
            ConfigurationError: `tries` is a number below 1.
        """
        key, policy = self._lookup(failure.error_class)
        if isinstance(tries, int):
            if tries < 1:
                raise ConfigurationError(f"tries is {tries!r}; tries are counted from 1")
            attempt = retry = tries
        else:
            attempt = len(tries) + 1
            retry = 1 + sum(self._lookup(earlier.failure.error_class)[0] == key for earlier in tries)
        if failure.outcome is Outcome.UNKNOWN and policy.max_retries and self.on_unknown is not Action.RETRY:
            return self._unsure(failure, policy, rng)
        delay = policy.backoff.delay(retry, rng) if retry <= policy.max_retries else 0.0
        if failure.retry_after is not None:
            delay = max(delay, min(failure.retry_after, self.max_retry_after))
        limit = self._limit_reached(policy, retry, attempt, age + delay)
        if limit is None:
            what = f"retry {retry} of {policy.max_retries}, waits {delay:g} s"
            return Decision(Action.RETRY, delay, _sentence(failure, what))
        what, expired = limit
        return self._final(failure, policy, policy.on_exhausted, what, expired=expired)

    def _limit_reached(
        self, policy: RetryPolicy, retry: int, attempt: int, age_when_due: float
    ) -> tuple[str, bool] | None:
        """Return what forbids a retry, and whether it is the message's age; None when it may be retried."""
        if not policy.max_retries:
            return "not retried", False
        if retry > policy.max_retries:
            return f"all {policy.max_retries} retries used", False
        if attempt >= self.max_attempts:
            return f"all {self.max_attempts} attempts used", False
        if self.max_age is not None and age_when_due > self.max_age:
            return f"the next try would come later than {self.max_age:g} s after the first", True
        return None

    def _unsure(self, failure: Failure, policy: RetryPolicy, rng: Rng | None) -> Decision:
        """Decide after a try that may have had its effect: never by repeating it."""
        if self.on_unknown is Action.VERIFY:
            delay = self.verify_backoff.delay(1, rng)
            return Decision(Action.VERIFY, delay, _sentence(failure, f"may have been sent, verified in {delay:g} s"))
        return self._final(failure, policy, self.on_unknown, "may have been sent")

    def _final(
        self, failure: Failure, policy: RetryPolicy, action: Action, what: str, *, expired: bool = False
    ) -> Decision:
        reason = DeadLetterReason.EXPIRED if expired else _dead_letter_reason(failure.error_class, policy, action)
        return Decision(
            action, 0.0, _sentence(failure, f"{what}: {action.value.replace('_', ' ')}"), reason, audit=policy.audit
        )

    def __str__(self) -> str:
        """Return the matrix as a table of text."""
        rows = [("class or group", "retries", "delays", "then")]
        for key, policy in self.policies.items():
            waits = str(policy.backoff) if policy.max_retries else "-"
            rows.append((str(key), str(policy.max_retries), waits, policy.on_exhausted.value))
        widths = [max(len(row[column]) for row in rows) for column in range(4)]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        lines.insert(1, "  ".join("-" * width for width in widths))
        age = "no limit" if self.max_age is None else f"{self.max_age:g} s"
        lines.append(f"at most {self.max_attempts} attempts, max age {age}, unknown outcome: {self.on_unknown.value}")
        return "\n".join(lines)


def _sentence(failure: Failure, what: str) -> str:
    return f"{failure.error_class}, {what}" + (f"; rule {failure.rule}" if failure.rule else "")


_REASONS: Final[dict[str, DeadLetterReason]] = {
    ErrorClass.INVALID_PAYLOAD: DeadLetterReason.INVALID_PAYLOAD,
    ErrorClass.RENDERING_FAILURE: DeadLetterReason.RENDERING_FAILURE,
    ErrorClass.POISON_MESSAGE: DeadLetterReason.POISON_MESSAGE,
    ErrorGroup.INTERNAL: DeadLetterReason.APPLICATION,
    ErrorGroup.CONTENT_POLICY: DeadLetterReason.POLICY_REJECTED,
    ErrorGroup.UNMAPPED: DeadLetterReason.UNMAPPED_ERROR,
}


def _dead_letter_reason(error_class: ErrorClass, policy: RetryPolicy, action: Action) -> DeadLetterReason:
    reason = _REASONS.get(error_class) or _REASONS.get(error_class.group)
    if reason is not None:
        return reason
    if policy.max_retries and action is policy.on_exhausted:
        return DeadLetterReason.RETRIES_EXHAUSTED
    return DeadLetterReason.POLICY_REJECTED


EMAIL_MATRIX: Final = PolicyMatrix(
    {
        ErrorClass.NETWORK_TIMEOUT: RetryPolicy(max_retries=5, backoff=delays(5, 15, 30, 60, 120)),
        ErrorGroup.TRANSIENT_INFRASTRUCTURE: RetryPolicy(
            max_retries=5, backoff=exponential(5, cap="1h", jitter="quarter")
        ),
        ErrorClass.PROVIDER_THROTTLED: RetryPolicy(
            max_retries=8, backoff=constant(10, jitter=upward(0.25)), throttle=True
        ),
        ErrorGroup.TEMPORARY_MAILBOX: RetryPolicy(max_retries=3, backoff=delays("15m", "1h", "6h")),
        ErrorGroup.SENDER: RetryPolicy(max_retries=2, backoff=delays("5m", "30m")),
        ErrorClass.RENDERING_FAILURE: RetryPolicy.never(Action.DEAD_LETTER),
        ErrorGroup.INTERNAL: RetryPolicy.never(Action.DEAD_LETTER),
        ErrorGroup.PERMANENT_RECIPIENT: RetryPolicy.never(Action.MARK_BOUNCED),
        ErrorGroup.CONTENT_POLICY: RetryPolicy.never(Action.MANUAL_REVIEW),
        ErrorGroup.UNMAPPED: RetryPolicy(max_retries=1, backoff=constant(60)),
    },
    max_attempts=12,
    max_age="3d",
    on_unknown=Action.VERIFY,
)
"""For e-mail: how each kind of failure is treated. Derive your own by building another matrix from its policies."""
