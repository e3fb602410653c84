"""The failed attempts of one call: what is loaded and made at the first failure, and never on success."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from ..classification import ErrorClassifier
from ..decision import Action, Attempt, Decision
from ..errors import RetryLater
from ..events import AttemptFailed, emit
from ..failure import Failure
from ..policy.backoff import MAX_DELAY, Rng
from ..times import plain

if TYPE_CHECKING:
    from .decorator import retry

__all__ = ["Failures", "default_classifier"]


@functools.cache
def default_classifier() -> ErrorClassifier:
    """Return the classifier of those who were given none."""
    return ErrorClassifier()


class Failures:
    """The failed attempts of one call.

    Args:
        policy: the decorator.
        fn: the decorated function.
        began: when the call began, in the clock's monotonic seconds; None where its length does not matter.
    """

    __slots__ = ("_began", "_history", "_policy", "_subject")

    def __init__(self, policy: retry, fn: Callable[..., object], began: float | None) -> None:
        self._policy = policy
        self._subject: str = getattr(fn, "__qualname__", None) or repr(fn)
        self._began = began
        self._history: list[Attempt] = []

    def delay_after(self, error: Exception) -> float | None:
        """Decide on one more failed attempt.

        Returns:
            The seconds to wait before the next one; None when there is none, and then the error carries a note.

        Raises:
            RetryLater: the wait is longer than a caller should wait for.
        """
        policy = self._policy
        now = policy.time().now()
        number = len(self._history) + 1
        failure = (policy.classifier or default_classifier()).classify(error)
        age = (now - self._history[0].failed_at).total_seconds() if self._history else 0.0
        decision = self._within_limit(self._decide(error, failure, age), failure)
        emit(
            policy.listeners,
            AttemptFailed(at=now, subject=self._subject, attempt=number, failure=failure, decision=decision),
        )
        if decision.action is not Action.RETRY:
            error.add_note(f"retrykit: attempt {number} of {self._subject} was the last: {decision.reason}")
            return None
        asked = failure.retry_after or 0.0  # the short form sleeps through its own backoff, however long, but not this
        if decision.delay > policy.max_inline_delay and (policy.matrix is not None or asked > policy.max_inline_delay):
            raise RetryLater(failure, decision) from error
        attempt = Attempt(
            number=number,
            generation=1,
            failed_at=now,
            failure=failure,
            action=decision.action,
            delay=decision.delay,
            reason=decision.reason,
        )
        self._history.append(attempt)
        return decision.delay

    def _decide(self, error: Exception, failure: Failure, age: float) -> Decision:
        policy = self._policy
        rng = policy.rng or cast("Rng", random)
        number = len(self._history) + 1
        if policy.matrix is not None:
            decision = policy.matrix.decide(failure, self._history, age=age, rng=rng, idempotent=policy.idempotent)
            if decision.action is Action.VERIFY:  # nobody asks afterwards here: that is the dispatcher's work
                return Decision(Action.DEAD_LETTER, 0.0, f"{failure.error_class}, may have been done: not repeated")
            return decision
        if policy.matches is None or not policy.matches(error, failure):
            return Decision(Action.DEAD_LETTER, 0.0, f"{failure.error_class}, not among what is retried")
        if number >= policy.attempts:
            return Decision(Action.DEAD_LETTER, 0.0, f"{failure.error_class}, all {policy.attempts} attempts used")
        previous = self._history[-1].delay if self._history else None
        delay = max(policy.backoff.delay(number, rng, previous=previous), min(failure.retry_after or 0.0, MAX_DELAY))
        reason = f"{failure.error_class}, retry {number} of {policy.attempts - 1}, waits {plain(delay)} s"
        return Decision(Action.RETRY, delay, reason)

    def _within_limit(self, decision: Decision, failure: Failure) -> Decision:
        """Return the decision, or that to give up when its wait would end after the call's time limit."""
        limit = self._policy.max_elapsed
        if decision.action is not Action.RETRY or self._began is None or limit is None:
            return decision
        if self._policy.time().monotonic() - self._began + decision.delay <= limit:
            return decision
        reason = f"{failure.error_class}, a wait of {plain(decision.delay)} s would pass the limit of {plain(limit)} s"
        return Decision(Action.DEAD_LETTER, 0.0, reason)
