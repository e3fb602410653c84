"""What can go wrong, by name.

Every error says what happened, to which named thing, the value seen, what is allowed and what to do next. Each also
derives from the closest builtin, so that code which knows nothing of retrykit catches it sensibly, and each pickles with
all its attributes, so that it survives a process pool or a result backend.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from datetime import datetime

    from .decision import Decision
    from .failure import Failure

__all__ = [
    "AlreadyInProgressError",
    "BreakerOpenError",
    "CallRefusedError",
    "ConfigurationError",
    "EventSourceError",
    "FingerprintMismatchError",
    "HandBackError",
    "HoldLostError",
    "InvalidMessageError",
    "InvalidPayloadError",
    "MissingExtraError",
    "NoProviderAvailableError",
    "NotificationError",
    "OutcomeUnknownError",
    "PayloadTooLargeError",
    "PayloadUnavailableError",
    "PicklableError",
    "ProcessStoppingError",
    "RedriveConflictError",
    "ResultLostError",
    "RetryLater",
    "RetrykitError",
    "SchemaVersionError",
    "StoreCorruptError",
    "StoreError",
    "StoreUnavailableError",
    "StoredFailureError",
    "ThrottledError",
    "WebhookRefusedError",
    "WorkerStuckError",
]


_NAMES: Final = 50
"""How many messages are named in one text."""


def _rebuild(cls: type[BaseException], args: tuple[Any, ...], state: dict[str, Any]) -> BaseException:
    """Make an error again without calling its `__init__`, whose parameters are not its `args`."""
    error = cls.__new__(cls)
    error.args = args
    error.__dict__.update(state)
    return error


class PicklableError(Exception):
    """Base of errors that pickle by class, arguments and attributes, whatever the signature of `__init__`."""

    def __reduce__(self) -> tuple[Any, ...]:
        """See the class."""
        return _rebuild, (type(self), self.args, self.__dict__)


class RetrykitError(PicklableError):
    """Any error that retrykit raises itself."""


class ConfigurationError(RetrykitError, ValueError):
    """A setting or an argument has a value that is not allowed."""


class MissingExtraError(RetrykitError, ImportError):
    """A feature needs an optional dependency that is not installed."""

    def __init__(self, extra: str, package: str) -> None:
        super().__init__(f"{package!r} is not installed; install it with: pip install 'retrykit[{extra}]'")
        self.extra = extra
        self.package = package


class InvalidMessageError(RetrykitError, ValueError):
    """A message cannot be taken in: its id, its attributes or its size is not allowed. Nothing was stored."""


class PayloadTooLargeError(InvalidMessageError):
    """A payload is larger than the limit. Nothing was stored; the caller still holds the message."""

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(
            f"the payload has {size:,} bytes, allowed are at most {limit:,}; "
            "store large content elsewhere and send a reference, or raise max_payload"
        )
        self.size = size
        self.limit = limit


class InvalidPayloadError(RetrykitError, ValueError):
    """A value cannot be written as JSON, or bytes cannot be read as JSON."""


class PayloadUnavailableError(RetrykitError, LookupError):
    """A dead letter does not hold its message as it came in, or nobody here can decrypt it."""

    def __init__(self, letter_id: str, reason: str) -> None:
        super().__init__(f"the payload of the dead letter {letter_id!r} cannot be had: {reason}")
        self.letter_id = letter_id


class WebhookRefusedError(RetrykitError, ValueError):
    """A webhook request was refused before any event was read: nothing shows that the provider sent it, or sent it now.

    The message quotes nothing of the request. `reason` is one of "missing" (a header or field that is signed, or the
    secret), "signature", "too_old", "in_the_future", "replay", "topic", "certificate" and "too_large".
    """

    def __init__(self, provider: str, reason: str, detail: str) -> None:
        super().__init__(f"the webhook of {provider!r} was refused: {detail}")
        self.provider = provider
        self.reason = reason


class EventSourceError(RetrykitError, ConnectionError):
    """A source of provider events could not be read. Nothing is lost: the same time is asked for again.

    It names the type of what the source raised and not its text; `__cause__` has both.
    """

    def __init__(self, source: str, start: datetime, end: datetime, error: Exception) -> None:
        ours = isinstance(error, (ConfigurationError, InvalidPayloadError))
        why = f"{type(error).__name__}: {error}" if ours else type(error).__name__  # others may quote what is secret
        super().__init__(
            f"the events of {source!r} from {start.isoformat()} to {end.isoformat()} cannot be read: {why}"
        )
        self.source = source
        self.start = start
        self.end = end


class NotificationError(RetrykitError, ConnectionError):
    """Nobody could be told of an alert; the monitor tries again."""


class FingerprintMismatchError(RetrykitError, ValueError):
    """A key came back with a payload that differs from the one it was claimed with."""

    def __init__(self, key: str) -> None:
        super().__init__(
            f"the key {key!r} was already used for another payload; give every message or call a key of its own, "
            "or come with the payload that belongs to this one"
        )
        self.key = key


class StoreError(RetrykitError):
    """A store could not do what it was asked."""


class StoreUnavailableError(StoreError, ConnectionError):
    """A store cannot be reached or written now: locked, read-only, full or gone."""


class StoreCorruptError(StoreError):
    """What a store holds cannot be read."""


class SchemaVersionError(StoreError):
    """A store was written by a newer retrykit than this one, or has yet to be brought to this one's version."""

    def __init__(self, where: str, found: int, supported: int) -> None:
        if found > supported:
            super().__init__(
                f"{where} has schema version {found}, this retrykit reads versions up to {supported}; "
                "upgrade retrykit, or open another store"
            )
        else:
            has = f"has schema version {found}" if found else "has no tables of retrykit's"
            super().__init__(f"{where} {has}, this retrykit needs version {supported}; run: retrykit migrate --url ...")
        self.where = where
        self.found = found
        self.supported = supported


class CallRefusedError(RetrykitError, RuntimeError):
    """A call was not made, to spare the other side: it used no attempt, and is tried again later or elsewhere."""

    retry_after: float | None = None
    """Seconds after which to ask again; None where nobody knows, as for what a person has switched off."""


def _when(retry_after: float | None) -> str:
    from .times import plain  # times raises the errors of this module

    return (
        "until somebody resets or resumes it"
        if retry_after is None
        else f"for another {plain(round(retry_after, 3))} s"
    )


class AlreadyInProgressError(CallRefusedError):
    """Somebody else is at work under the same key, and the caller did not want to wait until he is done."""

    def __init__(self, key: str, retry_after: float) -> None:
        super().__init__(
            f"somebody is at work on the key {key!r} for up to another {max(0.0, retry_after):.3f} s; ask again then, or give the "
            "guard a longer wait="
        )
        self.key = key
        self.retry_after = max(0.0, retry_after)


class OutcomeUnknownError(CallRefusedError):
    """An earlier call under the same key may have had its effect, and nobody can tell: it is not repeated."""

    def __init__(self, key: str) -> None:
        super().__init__(
            f"an earlier call with the key {key!r} may have had its effect, and its outcome is not known; find out and confirm or "
            "release the key, or give the guard a lookup= that can ask"
        )
        self.key = key


class ResultLostError(RetrykitError, LookupError):
    """A call was done before, and what it gave was not kept."""

    def __init__(self, key: str) -> None:
        super().__init__(
            f"the call with the key {key!r} was done before, and what it gave is not on record; give the guard a recover= that "
            "makes the result again, or do without it"
        )
        self.key = key


class HoldLostError(RetrykitError, RuntimeError):
    """A call was to be completed within a transaction, and somebody else has taken over its key: the transaction must not count."""

    def __init__(self, key: str) -> None:
        super().__init__(
            f"the key {key!r} is not held any more, since its lease ended and somebody else has taken over; roll the transaction "
            "back, and call again for what the other one gave"
        )
        self.key = key


class StoredFailureError(RetrykitError, RuntimeError):
    """A call failed for good before, and is not tried again under the same key."""

    def __init__(self, key: str, failure: Failure | None) -> None:
        seen = "" if failure is None else f" with {failure.error_class}"
        super().__init__(f"the call with the key {key!r} failed for good before{seen}; use another key to try again")
        self.key = key
        self.failure = failure


class BreakerOpenError(CallRefusedError):
    """A circuit breaker let a call not through."""

    def __init__(
        self, name: str, retry_after: float | None, last_failure: Failure | None = None, *, state: str = "open"
    ) -> None:
        seen = f"; the last failure was {last_failure.error_class}" if last_failure is not None else ""
        super().__init__(f"the breaker {name!r} is {state} {_when(retry_after)}{seen}")
        self.name = name
        self.retry_after = retry_after
        self.last_failure = last_failure
        self.state = state


class ThrottledError(CallRefusedError):
    """A call would have to wait for its turn longer than the caller wants to wait."""

    def __init__(self, name: str, retry_after: float) -> None:
        super().__init__(f"the throttle {name!r} lets nothing through {_when(retry_after)}")
        self.name = name
        self.retry_after = retry_after


class NoProviderAvailableError(CallRefusedError):
    """Every provider is closed off: by its breaker, its throttle or a pause."""

    def __init__(self, reasons: Mapping[str, str], retry_after: float | None) -> None:
        each = ", ".join(f"{name!r}: {reason}" for name, reason in reasons.items())
        super().__init__(f"no provider takes a call {_when(retry_after)} ({each})")
        self.reasons = dict(reasons)
        self.retry_after = retry_after


class ProcessStoppingError(CallRefusedError):
    """A dispatcher has given back all that it had, because the process stops, and takes nothing any more: the copy stays in its queue."""

    def __init__(self, message_id: str) -> None:
        super().__init__(
            f"the message {message_id!r} is not handled, since the process stops; leave its copy in its queue, where another finds it"
        )
        self.message_id = message_id


class RedriveConflictError(RetrykitError, RuntimeError):
    """Another redrive may be at the same letters, or another runner is at this one."""

    def __init__(self, redrive_id: str, by: str, *, held_until: datetime | None = None) -> None:
        super().__init__(
            f"the redrive {redrive_id!r} is being run by {by}, whose lease ends at {held_until:%Y-%m-%d %H:%M:%S} UTC unless renewed; "
            "wait for the end of the redrive, or of the lease of a runner that died"
            if held_until is not None
            else f"the redrive {redrive_id!r} of {by!r} is active and may be at the same letters; wait for its end, or stop it"
        )
        self.redrive_id = redrive_id
        self.by = by
        self.held_until = held_until


class WorkerStuckError(RetrykitError, RuntimeError):
    """So many handlers of a worker hang that it does not go on: the process is to be replaced."""

    def __init__(self, hanging: int, limit: float) -> None:
        from .times import plain  # times raises the errors of this module

        super().__init__(
            f"{hanging} handlers hang for more than {plain(limit)} s each and cannot be stopped; start the process anew, and give the "
            "client that they wait for a time limit of its own"
        )
        self.hanging = hanging
        self.limit = limit


class HandBackError(RetrykitError, RuntimeError):
    """A process that had to stop could not give back all that it held: the leases end by themselves, each as that of a lost worker."""

    def __init__(self, message_ids: Sequence[str]) -> None:
        names = ", ".join(map(repr, message_ids[:_NAMES])) + (", ..." if len(message_ids) > _NAMES else "")
        super().__init__(
            f"{len(message_ids)} of the messages in work could not be given back before the process had to stop: {names}; their leases end "
            "by themselves, each as that of a lost worker; see why the store took nothing"
        )
        self.message_ids = tuple(message_ids)


class RetryLater(RetrykitError):  # noqa: N818 - a signal, not an error: the work is to be put into a retry queue
    """The next try is due later than a caller should wait for: put the work into a retry queue.

    Raised from the original exception (`__cause__`) instead of sleeping longer than `max_inline_delay`.
    """

    def __init__(self, failure: Failure, decision: Decision) -> None:
        from .times import plain  # times raises the errors of this module

        super().__init__(f"retry in {plain(decision.delay)} s: {decision.reason}")
        self.failure = failure
        self.decision = decision
