"""What a dispatcher may be told, and the checks that find a wrong setting before the first message does."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable
from typing import Protocol, TypedDict

import attrs

from ._steps import is_async as is_async_function
from .checks import check_limit, check_options, having
from .classification import ErrorClassifier
from .clock import Clock
from .deadletter.capture import Capture
from .errors import ConfigurationError
from .events import Listener, listeners_of
from .exporters.logs import LOGGED
from .machines.claim import HISTORY_LIMIT
from .message import DEFAULT_MAX_PAYLOAD
from .policy import EMAIL_MATRIX, PolicyMatrix, Rng
from .stores import PoisonRule
from .times import Duration, plain, seconds

__all__ = [
    "CheckedOptions",
    "DispatchOptions",
    "Isolating",
    "TakenTurn",
    "check_functions",
    "check_isolation",
    "checked",
]


class TakenTurn(Protocol):
    """A place in the order in which a process works."""

    def wait(self, limit: float, /) -> Awaitable[bool] | bool:
        """Wait up to `limit` seconds until it is this turn's time; return whether it is."""
        ...

    def leave(self) -> None:
        """End the turn, or give its place up; never waits."""
        ...


class Isolating(Protocol):
    """What gives turns: `retrykit.worker.Isolation`, `AsyncIsolation`, or an application's own."""

    def turn(self, *, alone: bool) -> TakenTurn:
        """Take a turn, in which nothing else works if it is `alone`."""
        ...


class DispatchOptions(TypedDict, total=False):
    """What either dispatcher may be told besides its functions and its backend."""

    matrix: PolicyMatrix
    """The policy; at most 100 attempts. Default `EMAIL_MATRIX`."""
    classifier: ErrorClassifier
    """How failures are recognised. Default: the built-in rules; codes that they do not know are told to `on_event`."""
    lease: Duration
    """For how long one worker holds a message, and longer than a send may take. Default two minutes."""
    max_payload: int
    """Bytes that a payload may have. Default 1 MiB."""
    poison: PoisonRule
    """Over how many lost workers, or internal failures of its payload, a message is quarantined. Default three in 72 hours."""
    isolation: Isolating | None
    """By which a suspect, a message that a worker was lost with, runs alone in its process. Default none: beside others."""
    capture: Capture | None
    """What is written down of a message that dies. Default none: all of it."""
    on_event: Iterable[Listener]
    """Listeners. Default a `LogListener`: a warning when a message is given up."""
    clock: Clock | None
    """Where the time comes from. Default: the clock in force."""
    rng: Rng | None
    """The source of the jitter, for example `random.Random()`. Default none: waits are the policy's own."""


def _matrix(_: object, __: object, matrix: PolicyMatrix) -> None:
    if not isinstance(matrix, PolicyMatrix):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(f"the matrix is {matrix!r}; allowed is a PolicyMatrix, for example EMAIL_MATRIX")
    if matrix.max_attempts > HISTORY_LIMIT:
        raise ConfigurationError(
            f"the matrix allows {matrix.max_attempts} attempts; a message's history holds {HISTORY_LIMIT}"
        )


def _lease(value: Duration) -> float:
    return seconds(value, "lease", positive=True)


def _max_payload(value: int) -> int:
    return check_limit(value, "max_payload")


@attrs.frozen(kw_only=True)
class CheckedOptions:
    """`DispatchOptions`, checked and with their defaults."""

    matrix: PolicyMatrix = attrs.field(default=EMAIL_MATRIX, validator=_matrix)
    on_event: tuple[Listener, ...] = attrs.field(default=LOGGED, converter=listeners_of)
    classifier: ErrorClassifier = attrs.field(
        default=attrs.Factory(lambda self: ErrorClassifier(on_event=self.on_event), takes_self=True),
        validator=having("classify"),
    )
    lease: float = attrs.field(default=seconds("2m"), converter=_lease)
    max_payload: int = attrs.field(default=DEFAULT_MAX_PAYLOAD, converter=_max_payload)
    poison: PoisonRule = attrs.field(factory=PoisonRule, validator=having("limit window failures"))
    isolation: Isolating | None = attrs.field(default=None, validator=having("turn"))
    capture: Capture | None = attrs.field(default=None, validator=having("apply"))
    clock: Clock | None = attrs.field(default=None, validator=having("now monotonic"))
    rng: Rng | None = attrs.field(default=None, validator=having("random"))

    def __attrs_post_init__(self) -> None:
        """Check what has to fit together."""
        if self.poison.window <= self.lease:
            raise ConfigurationError(
                f"the window of the PoisonRule is {plain(self.poison.window)} s and the lease {plain(self.lease)} s; "
                "a lost worker shows only when its lease ends, so the window has to be longer"
            )


def checked(options: DispatchOptions) -> CheckedOptions:
    """Return the options, checked and with their defaults.

    Raises:
        ConfigurationError: a value is not allowed.
        TypeError: there is no option of that name.
    """
    check_options(options, DispatchOptions.__annotations__, "a dispatcher")
    return CheckedOptions(**options)


def check_isolation(isolation: Isolating, *, is_async: bool) -> None:
    """See that an isolation gives turns of the dispatcher's colour.

    Raises:
        ConfigurationError: it does not.
    """
    if not callable(getattr(isolation, "turn", None)):
        raise ConfigurationError(f"isolation is {isolation!r}, which has no turn()")
    turn = isolation.turn(alone=False)
    turn.leave()
    if is_async and not is_async_function(turn.wait):
        raise ConfigurationError(
            f"the isolation is the synchronous {isolation!r}; use AsyncIsolation() for an AsyncDispatcher"
        )
    if is_async_function(turn.wait) and not is_async:
        raise ConfigurationError(f"the isolation is the asynchronous {isolation!r}; use Isolation() for a Dispatcher")


def check_functions(arguments: int, send: Callable[..., object], **others: Callable[..., object] | None) -> None:
    """Refuse what cannot be called, and a send that cannot take its arguments: each message would fail for it.

    Args:
        arguments: how many `send` is called with.
        send: the application's send.
        others: its other functions by name; None where there is none.

    Raises:
        ConfigurationError: one of them cannot be called so.
    """
    for name, function in {"send": send, **others}.items():
        if not callable(function) and not (function is None and name != "send"):
            raise ConfigurationError(f"{name} is {function!r}; allowed is a function")
    try:
        inspect.signature(send).bind(*range(arguments))
    except ValueError:  # a builtin that does not tell
        return
    except TypeError as error:
        wants = "(message, key, content)" if arguments == 3 else "(message, key)"
        raise ConfigurationError(f"send is called as send{wants}, which {send!r} does not take: {error}") from None
