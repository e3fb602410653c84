"""The attempts of one call: what is loaded and made at the first failure, and never on success."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from contextvars import ContextVar, Token
from datetime import datetime
from typing import TYPE_CHECKING, Final, TypeAlias, cast

from ..classification import ErrorClassifier
from ..decision import Action, Attempt, Decision
from ..errors import CallRefusedError, RetryLater
from ..events import AttemptFailed, emit
from ..failure import ErrorClass, Failure, Outcome
from ..policy.backoff import MAX_DELAY, Rng
from ..times import plain
from .functions import name_of

if TYPE_CHECKING:
    from .decorator import retry

__all__ = ["Attempts", "CurrentAttempt", "Hook", "attempt_of", "default_classifier", "nesting"]


@functools.cache
def default_classifier() -> ErrorClassifier:
    """Return the classifier of those who were given none."""
    return ErrorClassifier()


class CurrentAttempt:
    """What a function may know about the call that it is in."""

    __slots__ = ("_before", "number")

    def __init__(self, number: int = 1, before: Sequence[Attempt | Glimpse] = ()) -> None:
        self.number = number
        """Counted from 1."""
        self._before = before

    @property
    def history(self) -> tuple[Attempt, ...]:
        """The failed attempts of this call, oldest first."""
        earlier = self._before[: self.number - 1]
        return tuple(
            each.looked_at(number) if isinstance(each, Glimpse) else each for number, each in enumerate(earlier, 1)
        )

    def __repr__(self) -> str:
        return f"<attempt {self.number}>"


class Glimpse:
    """A failed attempt that was not looked at closely: nobody listens, and the exception has nothing more to say."""

    __slots__ = ("_args", "_at", "_type", "delay")

    def __init__(self, error: Exception, at: datetime, delay: float) -> None:
        self._type = type(error)
        self._args = error.args  # not the exception: with its traceback it would keep the whole call alive
        self._at = at
        self.delay = delay

    def looked_at(self, number: int) -> Attempt:
        """Return the attempt as one that was looked at."""
        failure = default_classifier().classify(self._type(*self._args))
        reason = f"{failure.error_class}, retry {number}, waits {plain(self.delay)} s"
        return _attempt(number, self._at, failure, Decision(Action.RETRY, self.delay, reason))


def _attempt(number: int, at: datetime, failure: Failure, decision: Decision) -> Attempt:
    return Attempt(
        number=number,
        generation=1,
        failed_at=at,
        failure=failure,
        action=decision.action,
        delay=decision.delay,
        reason=decision.reason,
    )


Hook: TypeAlias = Callable[[AttemptFailed], object]
"""Called before a wait; a context manager that it returns is entered before and left after it."""

_GLANCE: Final = 0.1
"""Seconds between two looks, in an asynchronous wait, at whether everything is to stop."""

_Running: TypeAlias = "tuple[retry, CurrentAttempt, _Running] | None"
_running: ContextVar[_Running] = ContextVar("retrykit.retry", default=None)
_inside: ContextVar[bool] = ContextVar("retrykit.retry.inside", default=False)
_FIRST: Final = CurrentAttempt()


def attempt_of(policy: retry) -> CurrentAttempt:
    """Return the attempt of a policy's innermost call that is running here; the first where none is known to have failed."""
    running = _running.get()
    while running is not None:
        if running[0] is policy:
            return running[1]
        running = running[2]
    return _FIRST


class nesting:  # noqa: N801 - used as a statement
    """While it lasts, retries inside it do not retry."""

    def __enter__(self) -> None:
        """Begin."""
        self._token = _inside.set(True)

    def __exit__(self, *_: object) -> None:
        """End."""
        _inside.reset(self._token)


class Attempts:
    """The attempts of one call that has failed.

    Args:
        policy: the decorator.
        fn: the decorated function.
        began: when the call began, in the clock's monotonic seconds; None where its length does not matter.
    """

    __slots__ = ("_began", "_delay", "_event", "_failure", "_history", "_policy", "_subject", "_token")

    def __init__(self, policy: retry, fn: object, began: float | None) -> None:
        self._policy = policy
        self._subject: str = name_of(fn)
        self._began = began
        self._history: list[Attempt | Glimpse] = []
        self._failure: Failure | None = None
        self._event: AttemptFailed | None = None
        self._delay = 0.0
        self._token: Token[_Running] | None = None

    @property
    def number(self) -> int:
        """The number of the attempt that is running or comes next, counted from 1."""
        return len(self._history) + 1

    def again_after(self, error: BaseException) -> bool:
        """Decide on a failed attempt, and wait for the next one; False when there is none.

        Raises:
            RetryLater: the wait is longer than a caller should wait for.
        """
        return self.is_worth(error) and self.wait()

    async def again_after_async(self, error: BaseException) -> bool:
        """Decide on a failed attempt, and wait for the next one, as `again_after`."""
        return self.is_worth(error) and await self.wait_async()

    def again_with(self, result: object) -> bool:
        """Decide on a result, and wait for the next attempt; False when the result is to be returned."""
        return self._is_unwanted(result) and self.wait()

    async def again_with_async(self, result: object) -> bool:
        """Decide on a result, and wait for the next attempt, as `again_with`."""
        return self._is_unwanted(result) and await self.wait_async()

    def is_worth(self, error: BaseException) -> bool:
        """Tell whether another attempt follows a failed one; if none does, the error carries a note that says why.

        Raises:
            RetryLater: the wait is longer than a caller should wait for.
        """
        self.leave()
        if not isinstance(error, Exception) or isinstance(error, (CallRefusedError, RetryLater)):
            return False  # nothing was tried: whoever refused has said when to come again
        policy = self._policy
        if policy.quick_types and self._at_a_glance(error):
            return True
        failure = (policy.classifier or default_classifier()).classify(error)
        decision = self._after(failure, error)
        if decision.action is not Action.RETRY:
            error.add_note(f"retrykit: attempt {self.number} of {self._subject} was the last: {decision.reason}")
            return False
        asked = failure.retry_after or 0.0  # the short form sleeps through its own backoff, however long, but not this
        if decision.delay > policy.max_inline_delay and (policy.matrix is not None or asked > policy.max_inline_delay):
            raise RetryLater(failure, decision) from error
        return self._note(failure, decision)

    def _at_a_glance(self, error: Exception) -> bool:
        """Tell that an error is worth another attempt, where no closer look could tell anything else.

        One of Python's own exceptions that carries no attribute has neither a tag nor a wait that it asks for.
        """
        policy, number = self._policy, len(self._history) + 1
        if number >= policy.attempts or not isinstance(error, policy.quick_types) or _inside.get():
            return False
        if type(error).__module__ != "builtins" or error.__dict__:
            return False
        previous = self._history[-1].delay if self._history else None
        self._delay = policy.backoff.delay(number, policy.rng or cast("Rng", random), previous=previous)
        self._history.append(Glimpse(error, policy.time().now(), self._delay))
        return True

    def _is_unwanted(self, result: object) -> bool:
        """Tell whether another attempt follows a result."""
        self.leave()
        policy = self._policy
        if policy.on_result is None or not policy.on_result(result):
            if policy.budget is not None:
                policy.budget.retried(self._failure)
            return False
        failure = Failure(
            error_class=ErrorClass.UNKNOWN,
            error_code=type(result).__name__,
            error_message="the result is not the one that was wanted",
            outcome=Outcome.UNKNOWN,
            rule="retry.on_result",
        )
        decision = self._after(failure, None)
        return decision.action is Action.RETRY and self._note(failure, decision)

    def leave(self) -> None:
        """Forget which attempt is running here."""
        if self._token is not None:
            _running.reset(self._token)
            self._token = None

    def _enter(self) -> None:
        current = CurrentAttempt(self.number, self._history)
        self._token = _running.set((self._policy, current, _running.get()))

    def wait(self) -> bool:
        """Wait; False when the wait was ended because everything is to stop."""
        policy = self._policy
        if self._delay or policy.hooks or policy.stop is not None:
            with self._surroundings():
                if policy.stop is not None:
                    if policy.stop.wait(self._delay):
                        return False
                elif self._delay:
                    policy.time().sleep(self._delay)
        self._enter()
        return True

    async def wait_async(self) -> bool:
        """Wait; False when the wait was ended because everything is to stop."""
        policy = self._policy
        if self._delay or policy.hooks or policy.stop is not None:
            with self._surroundings():
                left = self._delay
                while left > 0:
                    if policy.stop is not None and policy.stop.is_set():
                        return False
                    part = left if policy.stop is None else min(left, _GLANCE)
                    await policy.time().sleep_async(part)
                    left -= part
        self._enter()
        return policy.stop is None or not policy.stop.is_set()

    def _surroundings(self) -> AbstractContextManager[object]:
        """Return what surrounds the wait: what the hooks gave, entered in their order and left in the opposite one."""
        stack = ExitStack()
        for hook in self._policy.hooks:
            held = hook(cast("AttemptFailed", self._event))
            if isinstance(held, AbstractContextManager):
                stack.enter_context(cast("AbstractContextManager[object]", held))
        return stack

    def _after(self, failure: Failure, error: Exception | None) -> Decision:
        """Decide, within the limits, and tell the listeners."""
        policy = self._policy
        now = policy.time().now()
        self._failure = failure
        first = self._history[0] if self._history else None
        age = (now - first.failed_at).total_seconds() if isinstance(first, Attempt) else 0.0
        decision = self._within_budget(self._within_limit(self._decide(error, failure, age), failure), failure)
        number = self.number
        if policy.listeners or policy.hooks:
            self._event = AttemptFailed(
                at=now, subject=self._subject, attempt=number, failure=failure, decision=decision
            )
            emit(policy.listeners, self._event)
        return decision

    def _note(self, failure: Failure, decision: Decision) -> bool:
        """Note the attempt and its wait."""
        self._history.append(_attempt(self.number, self._policy.time().now(), failure, decision))
        self._delay = decision.delay
        return True

    def _decide(self, error: Exception | None, failure: Failure, age: float) -> Decision:
        policy = self._policy
        rng = policy.rng or cast("Rng", random)
        number = self.number
        if _inside.get():
            return Decision(Action.DEAD_LETTER, 0.0, f"{failure.error_class}, left to the retry around it")
        if policy.matrix is not None and error is not None:
            tries = cast("Sequence[Attempt]", self._history)  # a matrix always looks closely
            decision = policy.matrix.decide(failure, tries, age=age, rng=rng, idempotent=policy.idempotent)
            if decision.action is Action.VERIFY:  # nobody asks afterwards here: that is the dispatcher's work
                return Decision(Action.DEAD_LETTER, 0.0, f"{failure.error_class}, may have been done: not repeated")
            return decision
        if error is not None and (policy.matches is None or not policy.matches(error, failure)):
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

    def _within_budget(self, decision: Decision, failure: Failure) -> Decision:
        """Return the decision, or that to give up when the budget denies the retry."""
        budget = self._policy.budget
        if budget is None:
            return decision
        if decision.action is not Action.RETRY:
            budget.failed(failure)
            return decision
        if budget.take(failure):
            return decision
        return Decision(Action.DEAD_LETTER, 0.0, f"{failure.error_class}, the retry budget is used up")
