"""The claims that a dispatcher holds at this moment: what has to be renewed, and given back when the process stops.

A message is open from its claim until it is settled. Whoever settles it while its handler still runs says so in here first, so that
a handler which comes back does not begin to send what was given away. The store decides who was first: both write with the token.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import StrEnum
from typing import Final, Protocol

import attrs

from ._steps import Steps, do
from .clock import Clock, current_clock
from .errors import StoreError
from .machines import claim as machine
from .message import Message
from .projection import Projection
from .stores import AsyncBackend, Backend, ClaimRecord, ClaimState

__all__ = ["End", "Follower", "HandedBack", "OpenClaim", "OpenClaims", "follower_here", "logged"]

RENEWED_AT: Final = 1 / 3
"""Of a lease that passes before it is renewed."""


@attrs.frozen
class HandedBack:
    """Whose work was given back because the process stops; none of it counts as a try."""

    free: tuple[str, ...] = ()
    """Ids of messages whose send had not begun: anybody may work on them at once."""
    unknown: tuple[str, ...] = ()
    """Ids of messages that were given back in mid-send: they are verified before they are sent again."""

    def __add__(self, other: HandedBack) -> HandedBack:
        """Return both together."""
        return HandedBack(self.free + other.free, self.unknown + other.unknown)


class End(StrEnum):
    """What becomes of a message that a process has taken."""

    FINISHED = "finished"
    """It was handled, and what became of it is recorded."""
    RETURNED = "returned"
    """Its copy went back to its source, and nothing was decided."""
    TIMED_OUT = "timed_out"
    """It was over its time limit, and has failed."""
    HANDED_BACK = "handed_back"
    """Its claim was given back before its send had begun."""
    UNKNOWN = "unknown"
    """Its claim was given back in mid-send."""
    STRANDED = "stranded"
    """Its claim could not be given back: its lease ends by itself."""


class Follower(Protocol):
    """Whoever took a message, and counts what becomes of it."""

    opened: OpenClaim | None
    """The message's claim, while there is one."""

    def ended(self, end: End, key: str = "") -> object:
        """Take in what became of it; `key` is its id."""
        ...


follower_here: Final[ContextVar[Follower | None]] = ContextVar("retrykit.follower", default=None)
"""Whose message is handled in this thread or task."""


class OpenClaim:
    """A message that somebody works on."""

    __slots__ = (
        "began",
        "follower",
        "is_abandoned",
        "is_overdue",
        "is_sending",
        "is_settled",
        "is_taken_away",
        "message",
        "record",
        "renewed",
        "stage",
    )

    def __init__(self, record: ClaimRecord, message: Message, began: float) -> None:
        self.follower: Follower | None = None
        self.record = record
        """As it was claimed; the send that begins does not change its token."""
        self.message = message
        self.began = began
        """When, in the monotonic seconds of the clock."""
        self.renewed = began
        self.stage = "parse"
        """Where its handler is."""
        self.is_sending = False
        """Whether the send may have begun."""
        self.is_taken_away = False
        """Whether somebody else settles it now: its handler must not begin to send."""
        self.is_overdue = False
        """Whether that is because it is over its time limit."""
        self.is_settled = False
        """Whether they have."""
        self.is_abandoned = False
        """Whether its handler has ended without settling it: it was cancelled, or a store failed."""

    @property
    def held(self) -> ClaimRecord:
        """The record as the store has it, or may have it."""
        return attrs.evolve(self.record, state=ClaimState.SENDING) if self.is_sending else self.record

    def follow(self, follower: Follower | None) -> None:
        """Let somebody know what becomes of it, unless they follow another claim."""
        if follower is not None and follower.opened is None:
            self.follower, follower.opened = follower, self

    def ended(self, end: End) -> None:
        """Say what became of it."""
        if self.follower is not None:
            self.follower.ended(end, self.message.id)


class OpenClaims:
    """The open claims of one dispatcher; safe from all threads.

    Args:
        backend: whose stores hold them.
        lease: seconds.
        projection: shows in the other stores what is settled here.
        clock: where instants come from; None: the clock in force.
    """

    def __init__(
        self, backend: Backend | AsyncBackend, lease: float, projection: Projection, clock: Clock | None
    ) -> None:
        self._backend: Final = backend
        self._lease: Final = lease
        self._projection: Final = projection
        self._clock: Final = clock
        self._lock: Final = threading.Lock()
        self._open: Final = dict[OpenClaim, None]()
        self.abandoned: Final = dict[OpenClaim, None]()
        """Those whose handlers have ended without settling them."""
        self.is_closed = False
        """Whether all was given back, and nothing may be begun any more."""

    def add(self, record: ClaimRecord, message: Message) -> OpenClaim:
        """Take in a claim that was granted."""
        now = self.now()
        opened = OpenClaim(record, message, now)
        opened.follow(follower_here.get())
        with self._lock:
            oldest = next(iter(self._open), None)
            self._open[opened] = None
        if oldest is not None and oldest.is_abandoned and oldest.renewed + self._lease < now:
            self.remove(oldest)  # its lease is over, and others may have it
        return opened

    def now(self) -> float:
        """Return the monotonic seconds by which claims are measured."""
        return (self._clock or current_clock()).monotonic()

    def remove(self, opened: OpenClaim) -> None:
        """Forget a claim: it is settled, or somebody else has taken over."""
        with self._lock:
            self._open.pop(opened, None)
            self.abandoned.pop(opened, None)
        if opened.follower is not None and opened.follower.opened is opened:
            opened.follower.opened = None

    def abandon(self, opened: OpenClaim) -> None:
        """Note that nobody works on it any more, and that it is still to be settled."""
        opened.is_abandoned = True
        with self._lock:
            self._open[opened] = self.abandoned[opened] = None

    def may_send(self, opened: OpenClaim) -> bool:
        """Note that the send begins; False when the claim was taken away meanwhile: then nothing may be sent."""
        with self._lock:
            if opened.is_taken_away:
                return False
            opened.is_sending, opened.stage = True, "send"
            return True

    def take_away(self, opened: OpenClaim) -> bool:
        """Keep the handler from sending; False when it was taken away before."""
        with self._lock:
            if opened.is_taken_away:
                return False
            opened.is_taken_away = True
            return True

    def __iter__(self) -> Iterator[OpenClaim]:
        """Give those that are open now, longest first."""
        with self._lock:
            return iter(tuple(self._open))

    def __len__(self) -> int:
        """Return how many are open and have a handler that is at work."""
        with self._lock:
            return sum(not opened.is_abandoned for opened in self._open)

    def older_than(self, limit: float) -> Iterator[OpenClaim]:
        """Give those that a handler has had for longer, each taken away from it; again until they are settled."""
        began = self.now() - limit
        for opened in self:
            if opened.began < began and (opened.is_overdue or self.take_away(opened)):
                opened.is_overdue = True
                yield opened

    def renew(self) -> Steps[None]:
        """Renew the leases of which a third has passed; give back what was abandoned. A store that fails is logged."""
        for opened in self:
            due = opened.renewed + self._lease * RENEWED_AT
            if not opened.is_abandoned and (opened.is_taken_away or self.now() < due):
                continue
            asked, record = self.now(), opened.record
            with logged("the lease of %r cannot be renewed now, trying again: %s", record.key):
                if opened.is_abandoned:
                    yield from self.give_back(opened)
                    continue
                renewed = yield from do(self._backend.claims.renew, record.key, record.seq, lease=self._lease)
                opened.renewed = math.inf if renewed is None else asked  # it is settled, or somebody has taken over

    def collect(self) -> Steps[None]:
        """Give back what was abandoned, as far as the store takes it now."""
        with self._lock:
            abandoned = tuple(self.abandoned)
        for opened in abandoned:
            try:
                yield from self.give_back(opened)
            except StoreError:
                return  # the next message, or whoever keeps the claims, tries again

    def hand_back(self) -> Steps[HandedBack]:
        """Give back all that is open, because the process stops. What a store refuses is logged, and left to its lease.

        The claims come first, since they end with the process; then a copy of each message goes to the retry queue, so that none
        depends on an application's queue that delivers again.
        """
        self.is_closed = True  # before the look at what is open: what comes later gives itself back
        given = list[tuple[OpenClaim, ClaimRecord]]()
        for opened in self:
            with logged("the claim on %r could not be given back, and its lease will end: %s", opened.record.key):
                settled = yield from self.give_back(opened)
                if settled is not None:
                    _tell(opened, settled)
                    given.append((opened, settled))
        for opened, settled in given:
            with logged(
                "no copy of %r could be put into the retry queue, it comes from its own queue: %s", settled.key
            ):
                yield from self._show(settled, opened.message)
        records = [settled for _, settled in given]
        return HandedBack(
            free=tuple(record.key for record in records if record.state is ClaimState.FREE),
            unknown=tuple(record.key for record in records if record.state is ClaimState.UNKNOWN),
        )

    def interrupt(self, opened: OpenClaim) -> Steps[None]:
        """Give back what its own handler was interrupted in."""
        settled = yield from self.give_back(opened)
        if settled is not None:
            _tell(opened, settled)

    def give_back(self, opened: OpenClaim) -> Steps[ClaimRecord | None]:
        """Settle an open claim as interrupted; None when somebody else has settled it or taken over."""
        self.take_away(opened)
        held = opened.held
        settled = yield from do(self._backend.claims.settle, machine.interrupted(held), held.seq)
        opened.is_settled = True
        self.remove(opened)
        return settled

    def _show(self, settled: ClaimRecord, message: Message) -> Steps[None]:
        if settled.state is ClaimState.UNKNOWN:
            yield from self._projection.show(settled, message)
            return
        now = (self._clock or current_clock()).now()
        yield from do(self._backend.retries.schedule, message, now, generation=settled.generation, version=settled.seq)


def _tell(opened: OpenClaim, settled: ClaimRecord) -> None:
    opened.ended(End.UNKNOWN if settled.state is ClaimState.UNKNOWN else End.HANDED_BACK)


@contextmanager
def logged(text: str, key: str) -> Generator[None]:
    """Log the error of a store instead of raising it: other messages wait."""
    try:
        yield
    except StoreError as error:
        import logging  # only on the failing path

        logging.getLogger("retrykit.dispatch").warning(text, key, error)
