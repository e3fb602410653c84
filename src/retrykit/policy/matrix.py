"""The policy matrix: error class to retries, delays and final action, and the decision that follows from it.

Deciding is pure: the same failure, history, age and randomness give the same decision. Retries are counted per policy,
so that a throttle does not use up a timeout's retries, and bounded over all by `max_attempts` and `max_age`.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias, TypedDict, Unpack

import attrs

from ..checks import whole
from ..codec import JSON
from ..decision import Action, Attempt, DeadLetterReason, Decision
from ..errors import ConfigurationError
from ..failure import ErrorClass, ErrorGroup, Failure, Outcome
from ..times import Duration, plain, seconds
from .backoff import Backoff, BackoffLike, Rng, as_backoff, constant, delays, exponential, upward

if TYPE_CHECKING:
    from ..dead_letter import DeadLetter
    from .lint import LintReport
    from .replay import ReplayReport

__all__ = ["EMAIL_MATRIX", "HTTP_API_MATRIX", "MatrixChanges", "PolicyKey", "PolicyMatrix", "RetryPolicy"]

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
        """Check the number of retries and the switches."""
        for name in ("throttle", "audit"):
            if not isinstance(getattr(self, name), bool):
                raise ConfigurationError(f"{name} is {getattr(self, name)!r}; allowed are True and False")
        whole(self.max_retries, "max_retries", least=0)

    @classmethod
    def never(cls, action: Action = Action.DEAD_LETTER, *, audit: bool = False) -> RetryPolicy:
        """Return a policy that retries nothing and takes `action` at once."""
        return cls(max_retries=0, on_exhausted=action, audit=audit)


def _max_age(value: Duration | None) -> float | None:
    return None if value is None else seconds(value, "max_age", positive=True)


def _max_retry_after(value: Duration) -> float:
    return seconds(value, "max_retry_after", positive=True)


def _policies(value: Mapping[PolicyKey, RetryPolicy]) -> dict[PolicyKey, RetryPolicy]:
    if not isinstance(value, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(f"the policies are {value!r}; allowed is a mapping of class or group to RetryPolicy")
    for key, policy in value.items():
        if not isinstance(key, (ErrorClass, ErrorGroup)):  # pyright: ignore[reportUnnecessaryIsInstance]
            kind = "ErrorGroup" if key in list(ErrorGroup) else "ErrorClass"
            raise ConfigurationError(
                f"a key of the matrix is {key!r}; allowed are ErrorClass and ErrorGroup: write {kind}({key!r})"
            )
        if not isinstance(policy, RetryPolicy):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"the policy of {str(key)!r} is {policy!r}; allowed is a RetryPolicy")
    return dict(value)


class MatrixChanges(TypedDict, total=False):
    """Limits that a derived matrix may have otherwise; see `PolicyMatrix`."""

    default: RetryPolicy | None
    max_attempts: int
    max_age: Duration | None
    max_retry_after: Duration
    on_unknown: Action
    verify_backoff: BackoffLike


@attrs.frozen(kw_only=True)
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

    policies: Mapping[PolicyKey, RetryPolicy] = attrs.field(converter=_policies, kw_only=False, hash=False)
    default: RetryPolicy | None = None
    max_attempts: int = 12
    max_age: float | None = attrs.field(default=seconds("3d"), converter=_max_age)
    max_retry_after: float = attrs.field(default=seconds("1d"), converter=_max_retry_after)
    on_unknown: Action = attrs.field(default=Action.VERIFY, validator=_action)
    verify_backoff: Backoff = attrs.field(default=exponential("30s", cap="1h"), converter=as_backoff)

    def __attrs_post_init__(self) -> None:
        """Check the limits."""
        whole(self.max_attempts, "max_attempts")
        if not isinstance(self.default, RetryPolicy | None):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"default is {self.default!r}; allowed is a RetryPolicy or None")

    def policy(self, error_class: ErrorClass) -> RetryPolicy:
        """Return the policy in force for a class."""
        return self._lookup(error_class)[1]

    def _lookup(self, error_class: ErrorClass) -> tuple[PolicyKey | None, RetryPolicy]:
        """Return the policy in force and what it is listed under; None for the default."""
        for key in (error_class, error_class.group):
            policy = self.policies.get(key)
            if policy is not None:
                return key, policy
        if self.default is not None:
            return None, self.default
        return ErrorGroup.UNMAPPED, self.policies.get(ErrorGroup.UNMAPPED) or RetryPolicy.never()

    def with_(
        self, policies: Mapping[PolicyKey, RetryPolicy] | None = None, **changes: Unpack[MatrixChanges]
    ) -> PolicyMatrix:
        """Return a matrix derived from this one.

        Args:
            policies: added to this matrix's, or put in the place of those with the same key.
            changes: limits that differ.

        Example:
            >>> strict = EMAIL_MATRIX.with_(
            ...     {ErrorClass.GREYLISTED: RetryPolicy(max_retries=1, backoff=["10m"])}, max_age="1d"
            ... )
            >>> strict.policy(ErrorClass.GREYLISTED).max_retries, strict.max_age
            (1, 86400.0)
        """
        return attrs.evolve(self, policies={**self.policies, **(policies or {})}, **changes)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> PolicyMatrix:
        """Read a matrix from a TOML file; from the table ``[tool.retrykit]`` of a ``pyproject.toml``.

        Raises:
            ConfigurationError: the file cannot be read, is not TOML, or holds a value that is not allowed; the error
                names the file and the line or key.
        """
        from . import config

        return config.load(path)

    @classmethod
    def from_toml(cls, text: str) -> PolicyMatrix:
        """Read a matrix from TOML text.

        Raises:
            ConfigurationError: as for `load`.
        """
        from ..tables import parse_table
        from . import config

        return config.from_dict(parse_table(text, "the text"))

    @classmethod
    def from_dict(cls, table: Mapping[str, object]) -> PolicyMatrix:
        """Make a matrix of a table, as TOML or JSON gives it.

        Raises:
            ConfigurationError: a key is unknown, or a value is not allowed.
        """
        from . import config

        return config.from_dict(table)

    def to_dict(self) -> dict[str, JSON]:
        """Return the matrix as a table of JSON values; `from_dict` makes an equal one of it.

        Raises:
            ConfigurationError: a backoff is a function, which only code can say.
        """
        from . import config

        return config.to_dict(self)

    def to_toml(self) -> str:
        """Return the matrix as TOML; `from_toml` makes an equal one of it.

        Raises:
            ConfigurationError: as for `to_dict`.
        """
        from . import config

        return config.to_toml(self)

    def decide(
        self,
        failure: Failure,
        tries: int | Sequence[Attempt],
        *,
        age: float = 0.0,
        rng: Rng | None = None,
        idempotent: bool = False,
    ) -> Decision:
        """Decide what to do about a failure.

        Args:
            failure: the failed try.
            tries: the number of this try (from 1), where all tries failed alike; or the failed tries before this one.
            age: seconds since the first try.
            rng: the source of the jitter; None adds none.
            idempotent: whether the call may be repeated although it may have had its effect; an unknown outcome is then
                retried like any other.

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
            previous = None
        else:
            attempt = len(tries) + 1
            alike = [earlier for earlier in tries if self._lookup(earlier.failure.error_class)[0] == key]
            retry = 1 + len(alike)
            previous = alike[-1].delay if alike else None
        must_ask = failure.outcome is Outcome.UNKNOWN and not idempotent and self.on_unknown is not Action.RETRY
        if must_ask and policy.max_retries:
            return self._unsure(failure, policy, rng)
        delay = policy.backoff.delay(retry, rng, previous=previous) if retry <= policy.max_retries else 0.0
        if failure.retry_after is not None:
            delay = max(delay, min(failure.retry_after, self.max_retry_after))
        limit = self._limit_reached(policy, retry, attempt, age + delay)
        if limit is None:
            what = f"retry {retry} of {policy.max_retries}, waits {plain(delay)} s"
            return Decision(Action.RETRY, delay, _sentence(failure, what))
        return self._final(failure, policy, policy.on_exhausted, *limit)

    def _limit_reached(
        self, policy: RetryPolicy, retry: int, attempt: int, age_when_due: float
    ) -> tuple[str, DeadLetterReason | None] | None:
        """Return what forbids a retry, and the reason where it is not the class's; None when it may be retried."""
        if not policy.max_retries:
            return "not retried", None
        if retry > policy.max_retries:
            return f"all {policy.max_retries} retries used", None
        if attempt >= self.max_attempts:
            return f"all {self.max_attempts} attempts used", None
        if self.max_age is not None and age_when_due > self.max_age:
            what = f"the next try would come later than {plain(self.max_age)} s after the first"
            return what, DeadLetterReason.EXPIRED
        return None

    def _unsure(self, failure: Failure, policy: RetryPolicy, rng: Rng | None) -> Decision:
        """Decide after a try that may have had its effect: never by repeating it."""
        if self.on_unknown is Action.VERIFY:
            delay = self.verify_backoff.delay(1, rng)
            return Decision(
                Action.VERIFY, delay, _sentence(failure, f"may have been sent, verified in {plain(delay)} s")
            )
        return self._final(failure, policy, self.on_unknown, "may have been sent", DeadLetterReason.APPLICATION)

    def _final(
        self, failure: Failure, policy: RetryPolicy, action: Action, what: str, reason: DeadLetterReason | None = None
    ) -> Decision:
        return Decision(
            action,
            0.0,
            _sentence(failure, f"{what}: {action.value.replace('_', ' ')}"),
            reason or _dead_letter_reason(failure.error_class, policy, action),
            audit=policy.audit,
        )

    def lint(self, *, classes: Collection[ErrorClass] = (), recovery_timeout: Duration = "60s") -> LintReport:
        """Check the matrix for contradictions, and work out what it amounts to.

        Args:
            classes: the application's own classes that its errors or rules give.
            recovery_timeout: how long a circuit breaker stays open before it lets a probe through.

        Returns:
            Findings and figures; the same matrix gives the same report.

        Example:
            >>> week = RetryPolicy(max_retries=2, backoff=delays("1d", "6d"))
            >>> [finding.check for finding in EMAIL_MATRIX.with_({ErrorGroup.SENDER: week}).lint().findings]
            ['ladder-longer-than-max-age']
        """
        from .lint import lint

        return lint(self, classes=classes, recovery_timeout=recovery_timeout)

    def replay(self, letters: Iterable[DeadLetter], *, idempotent: bool = False) -> ReplayReport:
        """Put failures on record to the matrix: what it would have decided beside what was decided.

        Args:
            letters: dead letters with their history; read once, one at a time.
            idempotent: whether the calls were declared so.
        """
        from .replay import replay

        return replay(self, letters, idempotent=idempotent)

    def rows(self) -> list[tuple[str, str, str, str]]:
        """Return the matrix as rows of text: class or group, retries, delays, what follows; the first row is the head."""
        rows = [("class or group", "retries", "delays", "then")]
        named: list[tuple[str, RetryPolicy]] = [(str(key), policy) for key, policy in self.policies.items()]
        if self.default is not None:
            named.append(("(any other)", self.default))
        for name, policy in named:
            waits = str(policy.backoff) if policy.max_retries else "-"
            extra = ", with a dead letter" if policy.audit else ""
            rows.append((name, str(policy.max_retries), waits, policy.on_exhausted.value + extra))
        return rows

    @property
    def limits(self) -> str:
        """The limits in one line."""
        age = "no maximum age" if self.max_age is None else f"at most {plain(self.max_age)} s after the first try"
        return f"at most {self.max_attempts} attempts, {age}; an unknown outcome: {self.on_unknown.value}"

    def __str__(self) -> str:
        """Return the matrix as a table of text."""
        rows = self.rows()
        widths = [max(len(row[column]) for row in rows) for column in range(4)]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        lines.insert(1, "  ".join("-" * width for width in widths))
        return "\n".join([*lines, self.limits])

    def to_markdown(self) -> str:
        """Return the matrix as a table in Markdown."""
        head, *rows = ["| " + " | ".join(row).replace("<", "\\<") + " |" for row in self.rows()]
        return "\n".join([head, "|---|---|---|---|", *rows, "", f"{self.limits}."])

    def __rich__(self) -> object:
        """Return the matrix as a table of rich, where that prints it."""
        from rich.table import Table

        head, *rows = self.rows()
        table = Table(*head, caption=self.limits, caption_justify="left")
        for row in rows:
            table.add_row(*row)
        return table


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
        ErrorGroup.THROTTLING: RetryPolicy(max_retries=4, backoff=delays("15m", "1h", "6h", "1d"), throttle=True),
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
"""For e-mail through a queue: how each kind of failure is treated. Derive your own with `with_`."""

HTTP_API_MATRIX: Final = PolicyMatrix(
    {
        ErrorGroup.TRANSIENT_INFRASTRUCTURE: RetryPolicy(
            max_retries=3, backoff=exponential(0.5, cap=20, jitter="full")
        ),
        ErrorGroup.THROTTLING: RetryPolicy(
            max_retries=4, backoff=exponential(1, cap=60, jitter=upward(0.25)), throttle=True
        ),
        ErrorClass.QUOTA_EXCEEDED: RetryPolicy(max_retries=1, backoff=delays("1h"), throttle=True),
        ErrorGroup.TEMPORARY_MAILBOX: RetryPolicy(max_retries=1, backoff=delays("15m")),
        ErrorGroup.SENDER: RetryPolicy.never(Action.DEAD_LETTER),
        ErrorGroup.INTERNAL: RetryPolicy.never(Action.DEAD_LETTER),
        ErrorGroup.PERMANENT_RECIPIENT: RetryPolicy.never(Action.DEAD_LETTER),
        ErrorGroup.CONTENT_POLICY: RetryPolicy.never(Action.MANUAL_REVIEW),
        ErrorGroup.UNMAPPED: RetryPolicy.never(Action.DEAD_LETTER),
    },
    max_attempts=6,
    max_age="1d",
    on_unknown=Action.VERIFY,
)
"""For calls of an HTTP API from the process that needs the answer: short waits, few tries.

An outcome that is unknown is not repeated unless the call is declared `idempotent=True`.
"""
