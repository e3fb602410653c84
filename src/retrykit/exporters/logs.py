"""Events as lines of a log: a warning when a message is given up, nothing when it is sent.

Lines carry ids, classes, codes and decisions as fields of their own, for loggers that write them as JSON. They carry no texts of
providers or exceptions: those like to repeat the recipient's address. What died is in the dead letters, under the id that the line names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from ..checks import instance_with
from ..decision import DispositionKind
from ..events import (
    AttemptFailed,
    BreakerChanged,
    DeliveryMismatch,
    Event,
    Listener,
    MessageHandled,
    MessageQuarantined,
    OutcomeVerified,
    PublishFailed,
    RedriveChanged,
    UnknownCode,
)
from ..failure import Failure

__all__ = ["LOGGED", "LogListener"]

_GIVEN_UP: Final = {
    DispositionKind.DEAD_LETTERED: "warning",
    DispositionKind.HELD_FOR_REVIEW: "warning",
    DispositionKind.DISCARDED: "warning",
    DispositionKind.BOUNCED: "info",  # an address that does not exist is nobody's emergency
}


_Line: TypeAlias = tuple[str, str, Mapping[str, Any]]
"""The level, the text and the fields; no class of its own, whose making would cost everybody's import a tenth of a millisecond and more."""


class LogListener:
    """A listener that logs events. Dispatchers, schedulers, reconcilers and redrivers have one unless they are given others.

    ======================================================= =======
    event                                                   level
    ======================================================= =======
    a message quarantined as poison                         error
    dead letter, manual review, discarded                   warning
    a due message that could not be published               warning
    a breaker that opens; a redrive that stops              warning
    a code that no rule knows; a delivery mismatch          warning
    a bounce; other changes of breakers and redrives        info
    a failed attempt; an unknown outcome that was asked for info
    a message that is sent, waits, or is a duplicate        nothing
    a process that stops: its shutdown logs that itself     nothing
    ======================================================= =======

    Args:
        logger: one of `logging` gets the fields as `extra=`; one of structlog, or anything else with methods that are named after levels
            and take a text and keywords, gets them as keywords. None: the logger "retrykit" of `logging`.

    Raises:
        ConfigurationError: it is no logger.

    Example:
        >>> import logging
        >>> from retrykit import Dispatcher, open_backend
        >>> listener = LogListener(logging.getLogger("mailer"))
        >>> dispatcher = Dispatcher(lambda message, key: None, backend=open_backend("memory://"), on_event=[listener])
    """

    def __init__(self, logger: Any = None) -> None:
        if logger is not None:
            instance_with(logger, "logger", "error warning info", "a logger, such as logging.getLogger('mailer')")
        self._logger: Any = logger
        self._is_standard: bool | None = None

    def __call__(self, event: Event) -> None:
        """Log an event, if it is worth a line."""
        read = _READERS.get(type(event))
        line = None if read is None else read(event)
        if line is not None:
            self._log(*line)

    def _log(self, level: str, text: str, fields: Mapping[str, Any]) -> None:
        if self._is_standard is None:
            import logging  # only here: a worker that gives nothing up need not load it

            self._logger = logging.getLogger("retrykit") if self._logger is None else self._logger
            self._is_standard = isinstance(self._logger, (logging.Logger, logging.LoggerAdapter))
        log = getattr(self._logger, level)
        if self._is_standard:
            log(text, extra=dict(fields))
        else:
            log(text, **fields)


LOGGED: Final[tuple[Listener, ...]] = (LogListener(),)
"""The listeners of those who are given none."""


def _handled(event: MessageHandled) -> _Line | None:
    disposition = event.disposition
    level = _GIVEN_UP.get(disposition.kind)
    if level is None:
        return None
    tries = "1 attempt" if disposition.attempts == 1 else f"{disposition.attempts} attempts"
    text = f"{disposition.message_id!r} is {disposition.kind.value} after {tries}"
    if disposition.failure is not None:
        text += f": {disposition.failure.error_class}"
    if disposition.dead_letter_id is not None:
        text += f"; dead letter {disposition.dead_letter_id}"
    return (
        level,
        text,
        _fields(
            event,
            disposition.failure,
            message_id=disposition.message_id,
            disposition=disposition.kind.value,
            attempts=disposition.attempts,
            dead_letter_id=disposition.dead_letter_id,
            dead_letter_reason=None if disposition.dead_letter_reason is None else disposition.dead_letter_reason.value,
        ),
    )


def _attempt(event: AttemptFailed) -> _Line:
    decision = event.decision
    text = f"attempt {event.attempt} of {event.subject!r} failed: {event.failure.error_class}, {decision.action.value}"
    fields = _fields(
        event,
        event.failure,
        subject=event.subject,
        attempt=event.attempt,
        action=decision.action.value,
        delay=decision.delay,
    )
    return "info", text, fields


def _quarantined(event: MessageQuarantined) -> _Line:
    text = f"{event.message_id!r} is quarantined as poison; dead letter {event.dead_letter_id}"
    return "error", text, _fields(event, message_id=event.message_id, dead_letter_id=event.dead_letter_id)


def _breaker(event: BreakerChanged) -> _Line:
    text = f"the breaker {event.name!r} is {event.after}, was {event.before}"
    fields = _fields(event, event.failure, breaker=event.name, before=event.before, after=event.after)
    return "warning" if event.after == "open" else "info", text, fields


def _publish_failed(event: PublishFailed) -> _Line:
    error = event.error.partition(":")[0]
    text = f"{event.message_id!r} could not be put into the application's queue, it stays in the retry queue: {error}"
    return "warning", text, _fields(event, message_id=event.message_id, error=error)


def _unknown_code(event: UnknownCode) -> _Line:
    text = f"no rule knows the code {event.code[:64]!r} of {event.provider or 'an unnamed provider'}"
    return "warning", text, _fields(event, event.failure, code=event.code[:64], provider=event.provider)


def _verified(event: OutcomeVerified) -> _Line:
    answer = {True: "the provider has it", False: "the provider does not have it", None: "nobody can tell yet"}
    text = f"it was asked whether {event.message_id!r} was sent: {answer[event.accepted]}"
    return "info", text, _fields(event, message_id=event.message_id, accepted=event.accepted)


def _mismatch(event: DeliveryMismatch) -> _Line:
    what = event.message_id or event.provider_id
    text = f"the delivery of {what!r} is {event.kind}: the log and {event.provider or 'the provider'} do not agree"
    fields = _fields(
        event,
        message_id=event.message_id,
        mismatch=event.kind,
        provider=event.provider,
        provider_id=event.provider_id,
    )
    return "warning", text, fields


def _redrive(event: RedriveChanged) -> _Line:
    text = f"the redrive {event.redrive_id!r} is {event.state}"
    fields = _fields(event, redrive_id=event.redrive_id, state=event.state)
    return "warning" if event.state == "stopped" else "info", text, fields


def _fields(event: Event, failure: Failure | None = None, **fields: object) -> dict[str, Any]:
    """Return the fields that say something; none has the name of one that `logging` or structlog writes itself."""
    if failure is not None:
        fields = {
            "error_class": str(failure.error_class),
            "error_group": failure.group.value,
            "error_code": None if failure.error_code is None else failure.error_code[:64],
            "stage": failure.stage,
            "provider": failure.provider,
            **fields,
        }
    return {"kind": type(event).__name__} | {name: value for name, value in fields.items() if value is not None}


_READERS: Final[Mapping[type[Event], Callable[[Any], _Line | None]]] = {
    AttemptFailed: _attempt,
    BreakerChanged: _breaker,
    DeliveryMismatch: _mismatch,
    MessageHandled: _handled,
    MessageQuarantined: _quarantined,
    OutcomeVerified: _verified,
    PublishFailed: _publish_failed,
    RedriveChanged: _redrive,
    UnknownCode: _unknown_code,
}
