"""What happened, told to whoever listens.

Listeners are callables given as `on_event=`; there is no registry. Events carry ids and core words only, never payloads.
A listener that raises is logged and ignored: it never breaks a call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Literal, TypeAlias

import attrs

from ._steps import is_async
from .decision import Decision, Disposition
from .errors import ConfigurationError
from .failure import Failure

__all__ = [
    "AttemptFailed",
    "BreakerChanged",
    "DeliveryMismatch",
    "Event",
    "Listener",
    "MessageHandled",
    "MessageQuarantined",
    "MessageRepublished",
    "MismatchKind",
    "OutcomeVerified",
    "PublishFailed",
    "RedriveChanged",
    "ShutdownChanged",
    "UnknownCode",
    "emit",
    "listeners_of",
]


@attrs.frozen(kw_only=True)
class Event:
    """Something that happened."""

    at: datetime
    """When, aware, in UTC."""


@attrs.frozen(kw_only=True)
class AttemptFailed(Event):
    """A try failed and it was decided what to do."""

    subject: str
    """The message id, or the name of the decorated function."""
    attempt: int
    """Counted from 1."""
    failure: Failure
    decision: Decision


@attrs.frozen(kw_only=True)
class BreakerChanged(Event):
    """A circuit breaker is in another state."""

    name: str
    before: str
    after: str
    failure: Failure | None = None
    """The failure that led there, if one did."""


@attrs.frozen(kw_only=True)
class MessageHandled(Event):
    """A dispatcher or a reconciler has settled a message."""

    disposition: Disposition


@attrs.frozen(kw_only=True)
class MessageQuarantined(Event):
    """A message was taken out of circulation as poison, unprocessed: the engineer on duty should know.

    Told by the dispatcher whose claim condemned it, once its letter is there; by a process that dies in between, not at all.
    """

    message_id: str
    dead_letter_id: str
    reason: str
    """What spoke against it, in one sentence: how many crashes or internal failures, within which time, with which worker the last."""


@attrs.frozen(kw_only=True)
class OutcomeVerified(Event):
    """It was asked whether an unknown send had happened."""

    message_id: str
    accepted: bool | None
    """True: the provider has it. False: it does not. None: it cannot tell."""
    error: str | None = None
    """Why it could not be asked, if that failed."""


@attrs.frozen(kw_only=True)
class MessageRepublished(Event):
    """A message whose wait was over went back to the application's queue."""

    message_id: str
    due_at: datetime


@attrs.frozen(kw_only=True)
class PublishFailed(Event):
    """A due message could not be handed to the application's queue; it stays in the retry queue."""

    message_id: str
    error: str
    """The exception, by name and text."""


@attrs.frozen(kw_only=True)
class UnknownCode(Event):
    """A classifier met a provider's code, or a type of exception, that none of its rules knows; told once for each."""

    code: str
    provider: str | None
    failure: Failure
    """What it was classified as all the same: by words, by a status, or as unknown."""


MismatchKind: TypeAlias = Literal["missing", "unexpected", "conflicting"]
"""Missing: only the log has it as sent. Unexpected: only the provider knows it. Conflicting: they cannot both be right."""


@attrs.frozen(kw_only=True)
class DeliveryMismatch(Event):
    """The delivery log and a provider do not tell the same of a message."""

    kind: MismatchKind
    message_id: str | None
    """Our own id, where it is known."""
    provider: str | None
    provider_id: str | None
    """The provider's id of it, where it is known."""
    detail: str
    """What does not agree, in one sentence."""


@attrs.frozen(kw_only=True)
class RedriveChanged(Event):
    """A redrive is in another state."""

    redrive_id: str
    state: str
    """running, paused, stopped or done."""
    note: str
    """Why, in one sentence."""


@attrs.frozen(kw_only=True)
class ShutdownChanged(Event):
    """A process that was told to stop is a step further."""

    state: str
    """quiet (nothing new is taken), handing_back (the time for what runs is over), or done."""
    reason: str
    """Who told it: the name of a signal, or "request"."""
    finished: int
    """Messages that were taken and finished so far."""
    handed_back: int
    """Messages that were given back unfinished so far; those in mid-send are among them."""


Listener: TypeAlias = Callable[[Event], object]


def listeners_of(value: Iterable[Listener], name: str = "on_event") -> tuple[Listener, ...]:
    """Return the listeners given as `on_event=`, or as another argument of that kind.

    Raises:
        ConfigurationError: it is not a list of functions, or one of them would have to be awaited.
    """
    if callable(value) or not isinstance(value, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(f"{name} is {value!r}; allowed is a list of functions, for example [print]")
    listeners = tuple(value)
    for listener in listeners:
        if not callable(listener):
            raise ConfigurationError(f"a listener of {name} is {listener!r}; allowed are functions of one event")
        if is_async(listener):
            raise ConfigurationError(
                f"a listener of {name} is the coroutine function {listener!r}; listeners are called, never awaited"
            )
    return listeners


def emit(listeners: Iterable[Listener], event: Event) -> None:
    """Tell every listener; log and ignore those that raise."""
    for listener in listeners:
        try:
            listener(event)
        except Exception:
            import logging  # only here: importing retrykit must stay cheap

            logging.getLogger("retrykit.events").exception(
                "the listener %r failed on %s", listener, type(event).__name__
            )
