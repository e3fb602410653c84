"""The circuit breaker: stop calling what does not work, find out when it works again.

What counts is why a call failed, not that it failed: a refused recipient says that the provider works. By default the groups
`transient_infrastructure` and `sender` count as failures, whatever else the other side answers as a success, and what went
wrong on our own side not at all. Cancelled calls are neutral.

A closed breaker costs a call the reading of one attribute. Its lock is held for bookkeeping only, never across a call, and is
the same for synchronous and asynchronous callers.
"""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from itertools import count
from types import CoroutineType, TracebackType
from typing import TYPE_CHECKING, Final, ParamSpec, Self, TypeAlias, TypeVar, cast

from .._steps import is_async
from ..checks import whole
from ..clock import Clock, current_clock, current_monotonic
from ..codec import JSON
from ..errors import BreakerOpenError, CallRefusedError, ConfigurationError
from ..events import BreakerChanged, Listener, emit, listeners_of
from ..failure import ErrorGroup, Failure, Outcome
from ..machines.breaker import BreakerEvent, BreakerState, Machine, Pass, Permit, Settings
from ..machines.windows import Consecutive, TimeWindow, Trip
from ..message import check_name
from ..policy.backoff import Backoff, BackoffLike, Rng, as_backoff, exponential, upward
from ..retrying.functions import check_function, refuse_awaitable
from ..retrying.matching import Matcher, OnError, matcher
from ..retrying.signatures import exact
from ..times import Duration, seconds

if TYPE_CHECKING:
    from ..classification import ErrorClassifier

__all__ = ["COUNTED", "CircuitBreaker"]

P = ParamSpec("P")
R = TypeVar("R")

COUNTED: Final = (ErrorGroup.TRANSIENT_INFRASTRUCTURE, ErrorGroup.SENDER)
"""The groups that count as failures, unless said otherwise."""


class CircuitBreaker:
    """Lets calls through as long as they work.

    Use it as a decorator, as a context manager, or through `call`; one object may guard many functions of both colours.

    Args:
        name: what it is called in events and errors, 1 to 255 characters.
        failure_threshold: failures in a row that open it, >= 1; default 10. Give either this or `trip`.
        recovery_timeout: how long it stays open before probes are let through; doubled each time it opens again before it
            was closed, each with up to a tenth added. A list or a backoff gives each of these times.
        max_recovery: the longest that doubling leads to, >= recovery_timeout; None: 10 minutes, or recovery_timeout if that
            is longer.
        trip: another rule: `failure_rate(...)` or `failure_count(...)`.
        probes: how many calls are let through at once while it is half-open, >= 1.
        close_after: how many of them have to succeed to close it, >= 1.
        probe_timeout: after this a probe that did not come back is taken for lost, and another is let through.
        counts: what counts as a failure: exception types, error groups or classes, a predicate, or a tuple of these.
        classifier: how failures are recognised.
        on_event: listeners; told of every change of state.
        clock: where the time comes from; None: the clock in force.
        rng: the source of the jitter of the recovery; None: the `random` module.

    Raises:
        ConfigurationError: a value is not allowed, or they contradict each other.

    Example:
        >>> breaker = CircuitBreaker("ses", failure_threshold=2)
        >>> @breaker
        ... def send() -> None:
        ...     raise ConnectionRefusedError("no answer")
        >>> for _ in range(3):
        ...     try:
        ...         send()
        ...     except (ConnectionError, BreakerOpenError) as error:
        ...         print(type(error).__name__)
        ConnectionRefusedError
        ConnectionRefusedError
        BreakerOpenError
    """

    def __init__(
        self,
        name: str,
        *,
        failure_threshold: int | None = None,
        recovery_timeout: Duration | BackoffLike = 60.0,
        max_recovery: Duration | None = None,
        trip: Trip | None = None,
        probes: int = 1,
        close_after: int = 1,
        probe_timeout: Duration = "30s",
        counts: OnError = COUNTED,
        classifier: ErrorClassifier | None = None,
        on_event: Iterable[Listener] = (),
        clock: Clock | None = None,
        rng: Rng | None = None,
    ) -> None:
        if trip is not None and failure_threshold is not None:
            raise ConfigurationError(f"the breaker {name!r} has failure_threshold= and trip=; give one of them")
        if trip is not None and not hasattr(trip, "is_met"):
            raise ConfigurationError(f"trip is {trip!r}; allowed are failure_rate(...) and failure_count(...)")
        threshold = 10 if failure_threshold is None else whole(failure_threshold, "failure_threshold")
        self.name = check_name(name, "name of a breaker")
        self.settings = Settings(
            trip=Consecutive(threshold) if trip is None else trip,
            recovery=_recovery(recovery_timeout, max_recovery),
            probes=whole(probes, "probes"),
            close_after=whole(close_after, "close_after"),
            probe_timeout=seconds(probe_timeout, "probe_timeout", positive=True),
        )
        self.last_failure: Failure | None = None
        """The latest failure that counted."""
        self.rejected = 0
        """How many calls were not let through, ever."""
        self._counts: Matcher = matcher(counts, "counts")
        self._classifier = classifier
        self._listeners = listeners_of(on_event)
        self._clock = clock
        self._monotonic = current_monotonic if clock is None else clock.monotonic
        self._bucket_at, self._bucket_ends = 0.0, -math.inf
        self._machine = Machine(self.settings, _random() if rng is None else rng)
        self._lock = threading.Lock()
        self._tally: Callable[[], int] = count().__next__
        self._tallied = 0
        self._throttled_since: float | None = None
        self.gate: Pass | None = None
        """What a wrapper reads before a call: a pass, or None when the call has to ask `admit`."""
        self._open_gate()

    # What a wrapper does: read `gate`, else `admit`; call; then the pass's `note` if it has one, or `failed`.

    def admit(self) -> Pass | None:
        """Ask for a call that the gate did not let through; None when it is refused: then raise `refusal()`."""
        with self._lock:
            before = self._machine.state
            permit = self._machine.admit(self._monotonic())
            after = self._machine.state
            if permit is None:
                self.rejected += 1
        self._tell(before, after)
        return None if permit is None else Pass(permit, functools.partial(self._proved, permit))

    def refusal(self) -> BreakerOpenError:
        """Return the error of a call that was refused."""
        with self._lock:
            retry_after = self._machine.retry_after(self._monotonic())
            return BreakerOpenError(self.name, retry_after, self.last_failure, state=self._machine.state.value)

    def failed(self, entered: Pass, error: BaseException, failure: Failure | None = None) -> None:
        """Take in how a call that was let through ended: with an error, whichever.

        Args:
            entered: as the gate or `admit` gave it.
            error: as the call raised it.
            failure: what it was classified as, where that is known.
        """
        permit = entered.permit
        if failure is None and isinstance(error, Exception) and not isinstance(error, CallRefusedError):
            from ..retrying.attempts import default_classifier  # only on the failing path

            failure = (self._classifier or default_classifier()).classify(error)
        counts = failure is not None and isinstance(error, Exception) and self._is_counted(error, failure)
        with self._lock:
            now = self._monotonic()
            machine = self._machine
            before = machine.state
            self._fold(now)
            is_late = permit.generation != machine.generation
            if failure is not None and not is_late and (self._persists(failure, now) or counts):
                if machine.failed(permit, now, failure.retry_after):
                    self.last_failure = failure
            elif failure is not None and failure.outcome is Outcome.REJECTED and not _is_throttled(failure):
                machine.succeeded(permit, now)  # the other side works: it has answered
            else:
                machine.released(permit)
            after = machine.state
            self._open_gate()
        self._tell(before, after, failure)

    def _is_counted(self, error: Exception, failure: Failure) -> bool:
        """Ask what counts; a predicate of the application's that fails must neither break the call nor keep its permit."""
        try:
            return bool(self._counts(error, failure))
        except Exception:
            import logging  # only here: importing retrykit must stay cheap

            logging.getLogger("retrykit.breaker").exception("counts= of the breaker %r failed; not counted", self.name)
            return False

    def _persists(self, failure: Failure, now: float) -> bool:
        """Tell whether nothing but throttling came for as long as a recovery takes. The lock is held."""
        if not _is_throttled(failure):
            self._throttled_since = None
            return False
        if self._throttled_since is None:
            self._throttled_since = now
        return now - self._throttled_since >= self.settings.recovery.delay(1, None)

    def _proved(self, permit: Permit) -> None:
        """Take in the success of a probe."""
        with self._lock:
            before = self._machine.state
            self._machine.succeeded(permit, self._monotonic())
            after = self._machine.state
            self._open_gate()
        self._tell(before, after)

    def _open_gate(self) -> None:
        """Let wrappers read what holds now. The lock is held."""
        machine = self._machine
        if machine.state not in (BreakerState.CLOSED, BreakerState.DISABLED):
            self.gate = None
            return
        gate = self.gate
        if gate is None or gate.permit.generation != machine.generation:
            self._throttled_since = None
            self._tally, self._tallied = count().__next__, 0  # what calls of the generation before add is not counted
            gate = Pass(Permit(machine.generation))
        if machine.state is BreakerState.CLOSED:
            trip = self.settings.trip
            if not trip.every_success:
                is_clean = not machine.window.failures and self._throttled_since is None
                gate.note = None if is_clean else functools.partial(self._streak_ended, gate)
            elif trip.length is None:
                gate.note = self._tally
            elif gate.note is None:
                gate.note = self._timed_note(gate)
        self.gate = gate

    def _streak_ended(self, gate: Pass) -> None:
        """Take in the first success after failures."""
        with self._lock:
            gate.note = None
            if self.gate is gate:  # else it comes too late
                self._machine.succeeded(gate.permit, self._monotonic())
                self._throttled_since = None

    def _timed_note(self, gate: Pass) -> Callable[[], object]:
        """Return what counts successes by time: without the lock, but for the first one of a bucket."""
        tally, monotonic = self._tally, self._monotonic

        def note() -> None:
            if monotonic() >= self._bucket_ends:
                with self._lock:
                    if self.gate is gate:
                        self._fold(monotonic())
            tally()

        return note

    def _fold(self, now: float) -> None:
        """Tell the window of the successes that were only counted. The lock is held."""
        trip, window = self.settings.trip, self._machine.window
        if not trip.every_success:
            return
        total = self._tally()  # which counts itself as well
        if self._machine.state is BreakerState.CLOSED and total > self._tallied:
            window.succeeded(total - self._tallied, now if trip.length is None else self._bucket_at)
            self._throttled_since = None
        self._tallied = total + 1
        if isinstance(window, TimeWindow) and now >= self._bucket_ends:
            self._bucket_at, self._bucket_ends = now, window.ends(now)

    def _tell(self, before: BreakerState, after: BreakerState, failure: Failure | None = None) -> None:
        if before is not after and self._listeners:
            now = (self._clock or current_clock()).now()
            emit(self._listeners, BreakerChanged(at=now, name=self.name, before=before, after=after, failure=failure))

    @property
    def state(self) -> BreakerState:
        """Whether calls are let through now."""
        return self._look(lambda machine, now: machine.state)

    @property
    def is_isolated(self) -> bool:
        """Whether somebody has isolated it; asking changes nothing, and tells no listener."""
        return self._machine.state is BreakerState.ISOLATED

    @property
    def retry_after(self) -> float | None:
        """The seconds until a call may be let through: 0 when one may be now, None when it is isolated."""
        return self._look(lambda machine, now: machine.retry_after(now))

    @property
    def counted(self) -> tuple[int, int]:
        """How many calls the rule looks at, and how many of them failed."""
        return self._look(lambda machine, now: (machine.window.calls, machine.window.failures))

    def snapshot(self) -> Mapping[str, JSON]:
        """Return what has to survive a restart, as JSON."""
        return self._look(lambda machine, now: machine.snapshot(now))

    def _look(self, view: Callable[[Machine, float], R]) -> R:
        with self._lock:
            now = self._monotonic()
            self._fold(now)
            before = self._machine.state
            self._machine.at(now)
            after = self._machine.state
            result = view(self._machine, now)
        self._tell(before, after)
        return result

    def restore(self, snapshot: Mapping[str, JSON]) -> None:
        """Take over what `snapshot` gave.

        Raises:
            ConfigurationError: it is none.
        """
        self._change(lambda machine, now: machine.restore(snapshot, now))

    def isolate(self) -> None:
        """Let nothing through until `reset`."""
        self._change(lambda machine, _: machine.by_hand(BreakerEvent.ISOLATE))

    def disable(self) -> None:
        """Let everything through, and count nothing, until `reset`."""
        self._change(lambda machine, _: machine.by_hand(BreakerEvent.DISABLE))

    def reset(self) -> None:
        """Close it, and forget all failures."""
        self._change(lambda machine, _: machine.by_hand(BreakerEvent.RESET))

    def open(self, recovery: Duration | None = None, *, opens: int | None = None) -> None:
        """Open it because of what somebody else found out. An isolated one stays.

        Args:
            recovery: for how long; None: its own time.
            opens: how often it has opened since it was last closed, which makes the next time longer; None: by its own count.

        Raises:
            ConfigurationError: `recovery` is no duration.
        """
        length = None if recovery is None else seconds(recovery, "recovery")
        self._change(lambda machine, now: machine.open(now, length, opens))

    def lead(self, length: float) -> None:
        """Leave it to somebody else for `length` seconds when it recovers: it lets through only what `grant` allows."""
        self._change(lambda machine, now: setattr(machine, "led_until", now + length))

    def grant(self, token: int, length: float) -> None:
        """Let one more call through as a probe, whose verdict is told under `token`; it is good for `length` seconds."""
        self._change(lambda machine, now: machine.grant(token, length, now))

    def verdicts(self) -> Sequence[tuple[int, bool | None]]:
        """Return what granted probes have found since the last call: token, and whether it succeeded, or None.

        A grant that no call has used by then is taken back, and stands here with None.
        """
        with self._lock:
            return self._machine.hand_over()

    def _change(self, change: Callable[[Machine, float], None]) -> None:
        with self._lock:
            before = self._machine.state
            change(self._machine, self._monotonic())
            after = self._machine.state
            self._open_gate()
        self._tell(before, after)

    def __call__(self, fn: Callable[P, R]) -> Callable[P, R]:
        """Return `fn` with its calls guarded.

        Raises:
            TypeError: `fn` is a generator function, a class, or not callable.
        """
        check_function(fn, "a breaker")
        if is_async(fn):
            return cast("Callable[P, R]", self._wrap_async(cast("Callable[P, Awaitable[object]]", fn)))
        return self._wrap(fn)

    def _wrap(self, fn: Callable[P, R]) -> Callable[P, R]:
        breaker = self  # a parameter of the same name, as every method has, would keep the wrapper a general one

        @functools.wraps(fn)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            entered = breaker.gate or breaker.admit()
            if entered is None:
                raise breaker.refusal()
            try:
                result = fn(*args, **kwargs)
                if result.__class__ is CoroutineType:
                    refuse_awaitable(fn, result)
            except BaseException as error:
                breaker.failed(entered, error)
                raise
            if entered.note is not None:
                entered.note()
            return result

        return exact(call, fn)

    def _wrap_async(self, fn: Callable[P, Awaitable[R]]) -> Callable[P, Awaitable[R]]:
        breaker = self

        @functools.wraps(fn)
        async def call(*args: P.args, **kwargs: P.kwargs) -> R:
            entered = breaker.gate or breaker.admit()
            if entered is None:
                raise breaker.refusal()
            try:
                result = await fn(*args, **kwargs)
            except BaseException as error:
                breaker.failed(entered, error)
                raise
            if entered.note is not None:
                entered.note()
            return result

        return exact(call, fn)

    def call(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call a function or a coroutine function, guarded.

        Raises:
            BreakerOpenError: the call is not let through.
        """
        guarded = self._wrap(fn) if isinstance(fn, type) else self(fn)  # a class may be called, though not decorated
        return guarded(*args, **kwargs)

    def __enter__(self) -> Self:
        """Guard a block.

        Raises:
            BreakerOpenError: it is not let through.
        """
        entered = self.gate or self.admit()
        if entered is None:
            raise self.refusal()
        _entered.set((self, entered, _entered.get()))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Take in how the block ended."""
        held = _entered.get()
        if held is None or held[0] is not self:
            raise RuntimeError(
                f"the block of the breaker {self.name!r} ends in another context than it began, or before one inside it; "
                "guard the function with @breaker instead of a block in a generator"
            )
        _entered.set(held[2])
        if error is not None:
            self.failed(held[1], error)
        elif held[1].note is not None:
            held[1].note()

    def __repr__(self) -> str:
        return f"<CircuitBreaker {self.name!r} {self.state}, opens at {self.settings.trip}>"


def _is_throttled(failure: Failure) -> bool:
    return failure.group is ErrorGroup.THROTTLING


_Entered: TypeAlias = "tuple[CircuitBreaker, Pass, _Entered] | None"
_entered: ContextVar[_Entered] = ContextVar("retrykit.breaker", default=None)


def _random() -> Rng:
    import random

    return cast("Rng", random)


def _recovery(recovery: Duration | BackoffLike, longest: Duration | None) -> Backoff:
    if isinstance(recovery, (list, tuple)) or callable(recovery) or hasattr(recovery, "delay"):
        if longest is not None:
            raise ConfigurationError(
                f"max_recovery is {longest!r}, but recovery_timeout is a backoff that has its own longest"
            )
        return as_backoff(cast("BackoffLike", recovery))
    first = seconds(cast("Duration", recovery), "recovery_timeout", positive=True)
    cap = max(first, _MAX_RECOVERY) if longest is None else seconds(longest, "max_recovery", positive=True)
    if cap < first:
        raise ConfigurationError(f"max_recovery is {longest!r}, less than recovery_timeout, which is {recovery!r}")
    return exponential(first, cap=cap, jitter=upward(0.1))


_MAX_RECOVERY: Final = 600.0
