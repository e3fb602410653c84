"""What a worker may be told, and the checks that find a wrong setting before the first message does."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypedDict

import attrs

from ..checks import check_options, having, whole
from ..clock import Clock
from ..policy.backoff import Backoff, BackoffLike, Rng, as_backoff, exponential
from ..times import Duration, seconds
from .health import Health
from .shutdown import GracefulShutdown

__all__ = ["CheckedOptions", "WorkerOptions", "checked"]


class WorkerOptions(TypedDict, total=False):
    """What either worker may be told besides its source and its dispatcher."""

    concurrency: int
    """How many messages are handled at once. Default 8."""
    prefetch: int
    """How many more it may hold that nobody has begun. Default as many as `concurrency`."""
    time_limit: Duration
    """How long a message may take, from its claim on; longer, and it has failed. Default the dispatcher's lease."""
    spare: int
    """How many handlers may hang before the worker ends. Default as many as `concurrency`."""
    wait: Duration
    """For how long the source waits for a message at once, and so the longest time until a stop is noticed. Default one second."""
    backoff: BackoffLike
    """The waits after a failure of the source or of a store. Default `exponential(0.5, cap="30s", jitter="equal")`."""
    shutdown: GracefulShutdown | None
    """Not entered; the worker enters it. Default none: `GracefulShutdown()` with its 30 seconds."""
    health: Health | None
    """What is told of this worker. Default none."""
    clock: Clock | None
    """Where the time comes from. Default: the clock in force."""
    rng: Rng | None
    """The source of the jitter. Default: the `random` module."""


def _count(least: int) -> Callable[[object, attrs.Attribute[int], int], None]:
    def check(_: object, attribute: attrs.Attribute[int], value: int) -> None:
        whole(value, attribute.name, least=least)

    return check


def _time_limit(value: Duration | None) -> float | None:
    return None if value is None else seconds(value, "time_limit", positive=True)


def _wait(value: Duration) -> float:
    return seconds(value, "wait", positive=True)


@attrs.frozen(kw_only=True)
class CheckedOptions:
    """`WorkerOptions`, checked and with their defaults."""

    concurrency: int = attrs.field(default=8, validator=_count(1))
    prefetch: int = attrs.field(
        default=attrs.Factory(lambda self: self.concurrency, takes_self=True), validator=_count(0)
    )
    time_limit: float | None = attrs.field(default=None, converter=_time_limit)
    spare: int = attrs.field(default=attrs.Factory(lambda self: self.concurrency, takes_self=True), validator=_count(0))
    wait: float = attrs.field(default=1.0, converter=_wait)
    backoff: Backoff = attrs.field(default=exponential(0.5, cap="30s", jitter="equal"), converter=as_backoff)
    shutdown: GracefulShutdown | None = attrs.field(default=None, validator=having("take request"))
    health: Health | None = attrs.field(default=None, validator=having("beat ready unready"))
    clock: Clock | None = attrs.field(default=None, validator=having("now monotonic"))
    rng: Rng | None = attrs.field(default=None, validator=having("random"))


def checked(options: WorkerOptions) -> CheckedOptions:
    """Return the options, checked and with their defaults.

    Raises:
        ConfigurationError: a value is not allowed.
        TypeError: there is no option of that name.
    """
    check_options(options, WorkerOptions.__annotations__, "a worker")
    return CheckedOptions(**options)
