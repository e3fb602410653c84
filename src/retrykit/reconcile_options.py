"""What a reconciler may be told, and what it reports."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Final, TypedDict

import attrs

from .checks import check_options, having, provider_name
from .classification import ErrorClassifier
from .clock import Clock
from .codec import JSON
from .decision import DispositionKind
from .errors import ConfigurationError
from .events import DeliveryMismatch, Listener, listeners_of
from .exporters.logs import LOGGED
from .message import check_id
from .policy import EMAIL_MATRIX, PolicyMatrix
from .stores import ClaimRecord, ClaimState
from .times import Duration, seconds, to_iso, utc

__all__ = ["SHOWN", "CheckedReconcileOptions", "ReconcileOptions", "ReconcileReport", "checked"]

SHOWN: Final = 100
"""Mismatches that a report spells out; listeners are told of all."""


class ReconcileOptions(TypedDict, total=False):
    """What either reconciler may be told besides its backend, its lookup and its source of events."""

    provider: str | None
    """Whose events the source gives, in any case: only messages that this provider took can be missing there, and the bookmark has its name.
    Default none: the events are of all providers."""
    window: Duration
    """How much time is compared at once. Default one hour."""
    patience: Duration
    """How long the first event of a message may take to appear: a window is compared that much after its end. Default one hour."""
    since: datetime | None
    """Where the first window begins when there is no bookmark, aware. Default: the matrix's `max_age` ago."""
    stuck_after: Duration
    """After which a message without a claim that stands in `processing` or `unknown` is asked about, and how often. Default 15
    minutes."""
    matrix: PolicyMatrix
    """The policy that goes on when a message was not accepted; the dispatcher's. Default `EMAIL_MATRIX`."""
    classifier: ErrorClassifier | None
    """Says what kind of failure an event is. Default: the built-in rules."""
    lease: Duration
    """For how long one message is held, longer than one lookup takes. Default one minute."""
    poll: Duration
    """The pause of `run` when there is nothing to do. Default 10 seconds."""
    on_event: Iterable[Listener]
    """Listeners, told of `DeliveryMismatch`, `OutcomeVerified` and `MessageHandled`. Default a `LogListener`."""
    clock: Clock | None
    """Where the time comes from. Default: the clock in force."""


def _window(value: Duration) -> float:
    return seconds(value, "window", positive=True)


def _stuck_after(value: Duration) -> float:
    return seconds(value, "stuck_after", positive=True)


def _lease(value: Duration) -> float:
    return seconds(value, "lease", positive=True)


def _poll(value: Duration) -> float:
    return seconds(value, "poll", positive=True)


def _patience(value: Duration) -> float:
    return seconds(value, "patience")


def _since(value: datetime | None) -> datetime | None:
    return None if value is None else utc(value, "since")


def _provider(value: str | None) -> str | None:
    return None if value is None else provider_name(check_id(value, "provider"))


def _matrix(_: object, __: object, value: PolicyMatrix) -> None:
    if not isinstance(value, PolicyMatrix):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(f"the matrix is {value!r}; allowed is a PolicyMatrix, for example EMAIL_MATRIX")


@attrs.frozen(kw_only=True)
class CheckedReconcileOptions:
    """`ReconcileOptions`, checked and with their defaults."""

    provider: str | None = attrs.field(default=None, converter=_provider)
    window: float = attrs.field(default=3600.0, converter=_window)
    patience: float = attrs.field(default=3600.0, converter=_patience)
    since: datetime | None = attrs.field(default=None, converter=_since)
    stuck_after: float = attrs.field(default=900.0, converter=_stuck_after)
    matrix: PolicyMatrix = attrs.field(default=EMAIL_MATRIX, validator=_matrix)
    classifier: ErrorClassifier | None = attrs.field(default=None, validator=having("classify"))
    lease: float = attrs.field(default=60.0, converter=_lease)
    poll: float = attrs.field(default=10.0, converter=_poll)
    on_event: tuple[Listener, ...] = attrs.field(default=LOGGED, converter=listeners_of)
    clock: Clock | None = attrs.field(default=None, validator=having("now monotonic"))


def checked(options: ReconcileOptions) -> CheckedReconcileOptions:
    """Return the options, checked.

    Raises:
        ConfigurationError: a value is not allowed.
        TypeError: there is no option of that name.
    """
    check_options(options, ReconcileOptions.__annotations__, "a reconciler")
    return CheckedReconcileOptions(**options)


@attrs.frozen
class ReconcileReport:
    """What one run of a reconciler found and settled."""

    sent: int = 0
    """Unknown outcomes: had been accepted."""
    not_sent: int = 0
    """Unknown outcomes: had not been accepted; the policy went on."""
    unsure: int = 0
    """Unknown outcomes: could not be told yet."""
    given_up: int = 0
    """Unknown outcomes: went to a person or to the dead letters."""
    events: int = 0
    """The provider's events in the window."""
    matched: int = 0
    """Messages in the window of which the log and the provider tell the same."""
    missing: int = 0
    """Messages that the log has as sent in the window, and of which the provider tells nothing."""
    unexpected: int = 0
    """Messages that the provider tells of, and the log does not know."""
    conflicting: int = 0
    """Messages of which the log and the provider tell what cannot both be true."""
    elsewhere: int = 0
    """Messages that the log has as sent in the window through another provider than the one named: these are not looked for."""
    mismatches: tuple[DeliveryMismatch, ...] = ()
    """The first hundred of what is missing, unexpected or conflicting."""
    window: tuple[datetime, datetime] | None = None
    """The time that was compared, from the first instant up to the second; None: no window was due."""
    is_behind: bool = False
    """Whether there is more to do at once: another window is due, or more messages than the limit are unsettled."""

    @property
    def is_clean(self) -> bool:
        """Whether nothing is missing, unexpected or conflicting."""
        return not (self.missing or self.unexpected or self.conflicting)

    def __add__(self, other: ReconcileReport) -> ReconcileReport:
        """Return what this run and one after it have found together; a message in two windows counts in both."""
        begins = [each.window for each in (self, other) if each.window]
        counts = {name: getattr(self, name) + getattr(other, name) for name in _COUNTS}
        return ReconcileReport(
            **counts,
            mismatches=(self.mismatches + other.mismatches)[:SHOWN],
            window=(begins[0][0], begins[-1][1]) if begins else None,
            is_behind=other.is_behind,
        )

    def to_dict(self) -> dict[str, JSON]:
        """Return the report as JSON values."""
        return {
            "window": None if self.window is None else [to_iso(each) for each in self.window],
            **{name: getattr(self, name) for name in _COUNTS},
            "is_clean": self.is_clean,
            "is_behind": self.is_behind,
            "mismatches": [{**attrs.asdict(each), "at": to_iso(each.at)} for each in self.mismatches],
        }

    def plus(self, record: ClaimRecord | None) -> ReconcileReport:
        """Return the report with one more message whose outcome was unknown."""
        if record is None:
            return self
        if record.disposition is DispositionKind.SENT:
            return attrs.evolve(self, sent=self.sent + 1)
        if record.state is ClaimState.UNKNOWN:
            return attrs.evolve(self, unsure=self.unsure + 1)
        if record.state is ClaimState.WAITING:
            return attrs.evolve(self, not_sent=self.not_sent + 1)
        return attrs.evolve(self, given_up=self.given_up + 1)


_COUNTS: Final = tuple(field.name for field in attrs.fields(ReconcileReport) if type(field.default) is int)
