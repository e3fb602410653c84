"""The attempts of one call: what is loaded and made at the first failure, and never on success."""

from __future__ import annotations

import functools
import random
from collections.abc import Sequence
from contextvars import ContextVar, Token
from datetime import datetime
from time import time_ns
from typing import TYPE_CHECKING, Final, TypeAlias, cast

import attrs

from ..classification import ErrorClassifier
from ..classification.tags import is_unsure, mark_unsure
from ..clock import SystemClock
from ..decision import Action, Attempt, Decision
from ..draining import outlasts_drain, sleep, sleep_async
from ..errors import CallRefusedError, RetryLater
from ..events import AttemptFailed, emit
from ..failure import ErrorClass, Failure, Outcome
from ..policy.backoff import MAX_DELAY, Rng
from ..times import from_millis, plain
from .functions import name_of
from .hooks import Hook, around

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
            _looked_at(each, number) if isinstance(each, tuple) else each for number, each in enumerate(earlier, 1)
        )

    def __repr__(self) -> str:
        return f"<attempt {self.number}>"


Glimpse: TypeAlias = tuple[type[Exception], tuple[object, ...], datetime | int, float, int]
"""A failed attempt that was not looked at closely: nobody listens, and the exception has nothing more to say.

The type and the arguments of the exception (not itself: with its traceback it would keep the whole call alive), the instant (the
system's in nanoseconds, which cost a fifth), the wait, and how many retries there are. Looked at later it tells the same, but for the place where it was raised.
"""


def _looked_at(glimpse: Glimpse, number: int) -> Attempt:
    """Return the attempt as one that was looked at."""
    error_type, args, at, delay, retries = glimpse
    failure = default_classifier().classify(error_type(*args))
    instant = from_millis(at // 1_000_000) if isinstance(at, int) else at
    return _attempt(number, instant, failure, _another(failure, number, retries, delay))


def _another(failure: Failure, number: int, retries: int, delay: float) -> Decision:
    reason = f"{failure.error_class}, retry {number} of {retries}, waits {plain(delay)} s"
    return Decision(Action.RETRY, delay, reason)


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


_RANDOM: Final = cast("Rng", random)

_Running: TypeAlias = "tuple[retry, int, Sequence[Attempt | Glimpse], _Running] | None"
_running: ContextVar[_Running] = ContextVar("retrykit.retry", default=None)
_inside: ContextVar[bool] = ContextVar("retrykit.retry.inside", default=False)
_FIRST: Final = CurrentAttempt()


def attempt_of(policy: retry) -> CurrentAttempt:
    """Return the attempt of a policy's innermost call that is running here; the first where none is known to have failed."""
    running = _running.get()
    while running is not None:
        if running[0] is policy:
            return CurrentAttempt(running[1], running[2])
        running = running[3]
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

    __slots__ = ("_around", "_began", "_delay", "_event", "_failure", "_fn", "_history", "_left", "_policy", "_token")

    def __init__(self, policy: retry, fn: object, began: float | None) -> None:
        self._policy = policy
        self._fn = fn
        self._began = began
        self._history: list[Attempt | Glimpse] = []
        self._failure: Failure | None = None
        self._event: AttemptFailed | None = None
        self._delay = 0.0
        self._left = 0.0
        self._token: Token[_Running] | None = None
        self._around: _Running = None

    @property
    def number(self) -> int:
        """The number of the attempt that is running or comes next, counted from 1."""
        return len(self._history) + 1

    def again_after(self, error: BaseException, final: str | None = None) -> bool:
        """Decide on a failed attempt, and wait for the next one; False when there is none.

        Args:
            error: as it was raised.
            final: why no other attempt may follow, whatever the policy says.

        Raises:
            RetryLater: the wait is longer than a caller should wait for.
        """
        if not self.is_worth(error, final):
            return False
        if self._delay or self._policy.waits_for_others:
            return self.wait() or self.stopped(cast("Exception", error))
        self.enter()
        return True

    async def again_after_async(self, error: BaseException, final: str | None = None) -> bool:
        """Decide on a failed attempt, and wait for the next one, as `again_after`."""
        if not self.is_worth(error, final):
            return False
        if self._delay or self._policy.waits_for_others:
            return await self.wait_async() or self.stopped(cast("Exception", error))
        self.enter()
        return True

    def again_with(self, result: object) -> bool:
        """Decide on a result that is not the one that was wanted, and wait for the next attempt; False: return it."""
        return self._is_worth_more(result) and self.wait()

    async def again_with_async(self, result: object) -> bool:
        """Decide on a result that is not the one that was wanted, as `again_with`."""
        return self._is_worth_more(result) and await self.wait_async()

    def succeeded(self) -> None:
        """Take in that an attempt succeeded."""
        self.leave()
        budget = self._policy.budget
        if budget is None:
            return
        if self._failure is not None:
            budget.retried(self._failure)
        elif budget.note is not None:
            budget.note()

    def is_worth(self, error: BaseException, final: str | None = None) -> bool:
        """Tell whether another attempt follows a failed one; if none does, the error carries a note that says why.

        Raises:
            RetryLater: the wait is longer than a caller should wait for.
        """
        policy = self._policy
        try:
            if final is None and isinstance(error, policy.quick_types) and self._at_a_glance(error):
                return True
        except BaseException:
            self.leave()
            raise
        self.leave()
        if not isinstance(error, Exception):
            return False
        if isinstance(error, (CallRefusedError, RetryLater)):
            # Nothing was tried: whoever refused says when to come again.
            self._mark(error)
            return False
        failure = (policy.classifier or default_classifier()).classify(error)
        decision = self._after(failure, error, final)
        if decision.action is not Action.RETRY:
            self._say_why(error, self.number, decision.reason)
            self._mark(error)
            return False
        asked = failure.retry_after or 0.0  # the short form sleeps through its own backoff, however long, but not this
        is_long = decision.delay > policy.max_inline_delay
        if (is_long and (policy.matrix is not None or asked > policy.max_inline_delay)) or outlasts_drain(
            decision.delay
        ):
            raise self._later(error, failure, decision) from error
        return self._note(failure, decision)

    def _later(self, error: Exception, failure: Failure, decision: Decision) -> RetryLater:
        """Return what says that the next attempt is due when nobody waits for it any more."""
        self._mark(error)
        outcome = Outcome.UNKNOWN if is_unsure(error) else failure.outcome
        return RetryLater(attrs.evolve(failure, outcome=outcome), decision)

    def stopped(self, error: Exception) -> bool:
        """Say in the error that its attempt was the last because the wait was ended; False.

        Raises:
            RetryLater: it was ended because the process is told to stop, and would have outlived the drain.
        """
        if self._left:
            last = CurrentAttempt(self.number, self._history).history[-1]
            reason = f"{last.failure.error_class}, the wait would outlive the shutdown"
            raise self._later(error, last.failure, Decision(Action.RETRY, self._left, reason)) from error
        self._say_why(error, len(self._history), "everything is to stop")
        self._mark(error)
        return False

    def _mark(self, error: Exception) -> None:
        """Say in the error that leaves that an earlier attempt may have had its effect, whatever the last one's was."""
        history = CurrentAttempt(self.number, self._history).history
        if any(attempt.failure.outcome is Outcome.UNKNOWN for attempt in history):
            mark_unsure(error)

    def _say_why(self, error: BaseException, number: int, reason: str) -> None:
        note = f"retrykit: attempt {number} of {name_of(self._fn)} was the last: {reason}"
        if note not in getattr(error, "__notes__", ()):  # one object may be raised by many calls
            error.add_note(note)

    def _at_a_glance(self, error: Exception) -> bool:
        """Tell that an error is worth another attempt, where no closer look could tell anything else.

        One of Python's own exceptions that carries no attribute, and no other exception, has neither a tag nor a wait that
        it asks for.
        """
        policy, history, kind = self._policy, self._history, type(error)
        number = len(history) + 1
        if number >= policy.attempts or _inside.get() or kind.__module__ != "builtins":
            return False
        if error.__dict__ or error.__cause__ or error.__context__:
            return False
        if isinstance(error, ExceptionGroup) or getattr(error, "filename", None) is not None:
            return False
        delay = 0.0
        if not policy.never_waits:
            previous = self._delay if history else None
            delay = policy.backoff.delay(number, policy.rng or _RANDOM, previous=previous)
        if delay and outlasts_drain(delay):
            return False
        self._delay = delay
        clock = policy.time()
        at = time_ns() if type(clock) is SystemClock else clock.now()
        history.append((kind, error.args, at, delay, policy.attempts - 1))
        return True

    def _is_worth_more(self, result: object) -> bool:
        """Tell whether another attempt follows a result."""
        self.leave()
        failure = Failure(
            error_class=ErrorClass.UNKNOWN,
            error_code=type(result).__name__,
            error_message="the result is not the one that was wanted",
            outcome=Outcome.UNKNOWN,
            rule="retry.on_result",
        )
        decision = self._after(failure, None)
        return decision.action is Action.RETRY and not outlasts_drain(decision.delay) and self._note(failure, decision)

    def enter(self) -> None:
        """Remember which attempt is running here."""
        if self._token is None:
            self._around = around = _running.get()
            self._token = _running.set((self._policy, len(self._history) + 1, self._history, around))
        else:
            _running.set((self._policy, len(self._history) + 1, self._history, self._around))

    def leave(self) -> None:
        """Forget which attempt is running here."""
        token = self._token
        if token is not None:
            self._token = None
            try:  # noqa: SIM105 - suppress costs as much as the rest
                _running.reset(token)
            except ValueError:  # a generator may go on in another context, where nothing was remembered
                pass

    def wait(self) -> bool:
        """Wait; False when the wait was ended because everything is to stop."""
        policy = self._policy
        if self._delay or policy.waits_for_others:
            self.leave()
            with around(policy.hooks, self._event):
                if self._delay:
                    self._left = sleep(policy.time(), self._delay, policy.stop)
            if self._is_ended():
                return False
        self.enter()
        return True

    async def wait_async(self) -> bool:
        """Wait; False when the wait was ended because everything is to stop."""
        policy = self._policy
        if self._delay or policy.waits_for_others:
            self.leave()
            with around(policy.hooks, self._event):
                if self._delay:
                    self._left = await sleep_async(policy.time(), self._delay, policy.stop)
            if self._is_ended():
                return False
        self.enter()
        return True

    def _is_ended(self) -> bool:
        """Tell whether a wait was ended, by the stop or by the drain."""
        stop = self._policy.stop
        if stop is not None and stop.is_set():
            self._left = 0.0  # nothing waits for it elsewhere: the error leaves
            return True
        return self._left > 0

    def _after(self, failure: Failure, error: Exception | None, final: str | None = None) -> Decision:
        """Decide, within the limits, and tell the listeners."""
        policy = self._policy
        now = policy.time().now()
        self._failure = failure
        first = self._history[0] if self._history else None
        age = (now - first.failed_at).total_seconds() if isinstance(first, Attempt) else 0.0
        if final is None:
            decision = self._within_limit(self._decide(error, failure, age), failure)
        else:
            decision = Decision(Action.DEAD_LETTER, 0.0, f"{failure.error_class}, {final}")
        decision = self._within_budget(decision, failure)
        number = self.number
        if policy.listeners or policy.hooks:
            self._event = AttemptFailed(
                at=now, subject=name_of(self._fn), attempt=number, failure=failure, decision=decision
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
        rng = policy.rng or _RANDOM
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
        previous = self._delay if self._history else None
        delay = max(policy.backoff.delay(number, rng, previous=previous), min(failure.retry_after or 0.0, MAX_DELAY))
        return _another(failure, number, policy.attempts - 1, delay)

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
