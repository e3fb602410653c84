"""Compare what retrykit believes it has sent with what the provider tells, and settle what nobody is sure of.

A reconciler runs beside the workers, as a loop or from a timer. It takes the provider's events window by window, applies them to the
delivery log, and tells of every message in which the two do not agree. It asks about sends whose outcome is unknown, and about those
that stand in `processing` for too long. It may die at any point and any number may run: the windows go on from a bookmark in the
store, and everything may be done twice.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Final, Unpack

import attrs

from ._steps import Steps, arun, do, run
from .checks import whole
from .clock import Clock, current_clock
from .comparison import Comparison
from .delivery import AsyncStatusLookup, NotAccepted, Sent, StatusLookup
from .delivery.sources import AsyncProviderEvents, ProviderEvents
from .errors import ConfigurationError, EventSourceError, StoreError
from .events import MessageHandled, emit
from .lease import new_owner
from .machines.status import DeliveryStatus
from .projection import Projection, disposition_of
from .reconcile_options import ReconcileOptions, ReconcileReport, checked
from .stores import AsyncBackend, AsyncClaimStore, Backend, ClaimStore, Delivery
from .times import to_iso, utc
from .verification import MAX_AGE, Verification

__all__ = ["AsyncReconciler", "ReconcileOptions", "ReconcileReport", "Reconciler"]

_BATCH: Final = 500
"""Unsettled messages that `run` takes at once."""

_BEGINNING: Final = datetime(1970, 1, 1, tzinfo=UTC)


class _ReconcileFlow:
    """The one logic of both colours."""

    def __init__(
        self,
        backend: Backend | AsyncBackend,
        lookup: StatusLookup | AsyncStatusLookup | None,
        events: ProviderEvents | AsyncProviderEvents | None,
        options: ReconcileOptions,
    ) -> None:
        self._options = given = checked(options)
        for name, part in (("lookup", lookup), ("events", events)):
            if part is not None and not callable(part):
                raise ConfigurationError(f"{name} is {part!r}; allowed is a function, or None")
        if not all(hasattr(backend, name) for name in ("claims", "deliveries", "dead_letters")):
            raise ConfigurationError(
                f"the backend is {backend!r}; allowed is a backend with all its stores, for example open_backend(url)"
            )
        self._backend = backend
        self._source = given.provider or "all providers"
        self._comparison = None if events is None else Comparison(backend, events, self._source, given)
        self._verification = Verification(
            backend, matrix=given.matrix, lookup=lookup, on_event=given.on_event, clock=given.clock, rng=None
        )
        self._projection = Projection(backend, given.clock)
        self._owner = new_owner()
        self._holds = count(1)
        self._round: list[tuple[DeliveryStatus, Delivery | None]] = []
        self._next_round = _BEGINNING
        self._stopped = False

    def stop(self) -> None:
        """Let `run` end after the window it is at; safe from other threads and from signal handlers."""
        self._stopped = True

    def _time(self) -> Clock:
        return self._options.clock or current_clock()

    def _run_once(self, limit: int) -> Steps[ReconcileReport]:
        whole(limit, "limit", least=0)
        report, is_behind = ReconcileReport(), False
        if self._comparison is not None:
            start, end = yield from self._next_window()
            if self._is_due(end):
                report = yield from self._comparison.compare(start, end)
                end = yield from do(self._backend.deliveries.move_bookmark, self._source, end)
                is_behind = self._is_due(end + timedelta(seconds=self._options.window))
        if limit == 0:
            return attrs.evolve(report, is_behind=is_behind)
        keys = yield from do(self._backend.claims.unsettled, limit)
        settled = yield from self._settle(report, keys)
        is_behind = is_behind or (len(keys) == limit and settled != report)
        report = yield from self._settle_stuck(settled, limit)
        return attrs.evolve(report, is_behind=is_behind or bool(self._round))

    def _run(self, sleep: Callable[[float], Awaitable[None] | None]) -> Steps[None]:
        while not self._stopped:
            try:
                report = yield from self._run_once(_BATCH)
            except (StoreError, EventSourceError) as error:
                _log_error(error)
                report = ReconcileReport()
            if not report.is_behind and not self._stopped:
                yield from do(sleep, self._options.poll)

    def _next_window(self) -> Steps[tuple[datetime, datetime]]:
        """Return the window after the bookmark; the first one begins where all reconcilers let it begin."""
        length = self._options.window
        start = (yield from do(self._backend.deliveries.bookmark, self._source)) or self._options.since
        if start is None:
            back = self._time().now() - timedelta(seconds=self._options.matrix.max_age or MAX_AGE)
            start = utc(back - timedelta(seconds=(back - _BEGINNING).total_seconds() % length))
        return start, utc(start + timedelta(seconds=length))

    def _is_due(self, end: datetime) -> bool:
        return end + timedelta(seconds=self._options.patience) <= self._time().now()

    def _compare(self, start: datetime, end: datetime) -> Steps[ReconcileReport]:
        if self._comparison is None:
            raise ConfigurationError("there is nothing to compare the log with; give the reconciler events=")
        begin, until = utc(start, "start"), utc(end, "end")
        if begin >= until:
            raise ConfigurationError(
                f"the window is {to_iso(begin)} to {to_iso(until)}; allowed is one that ends after it begins"
            )
        return (yield from self._comparison.compare(begin, until))

    def _settle(self, report: ReconcileReport, keys: Sequence[str]) -> Steps[ReconcileReport]:
        """Settle messages whose outcome is unknown and whose time has come."""
        for key in keys:
            owner = f"{self._owner}/{next(self._holds)}"
            record = yield from do(self._backend.claims.claim_unknown, key, owner=owner, lease=self._options.lease)
            if record is None:
                continue
            settled = yield from self._verification.settle(record)
            if settled is not None:
                yield from self._projection.show(settled, None)
                emit(self._options.on_event, MessageHandled(at=self._time().now(), disposition=disposition_of(settled)))
            report = report.plus(settled)
        return report

    def _settle_stuck(self, report: ReconcileReport, limit: int) -> Steps[ReconcileReport]:
        """Settle messages that an application's own log has left in processing or unknown: those without a claim.

        All of them are asked about in rounds, `limit` of each status in one run, and a round begins `stuck_after` after the one before.
        """
        now, options = self._time().now(), self._options
        turn, self._round = self._round, []  # whoever runs beside this one has no part in it
        if not turn and now >= self._next_round:
            turn = [(DeliveryStatus.PROCESSING, None), (DeliveryStatus.UNKNOWN, None)]
            self._next_round = now + timedelta(seconds=options.stuck_after)
        for status, after in turn:
            page = yield from do(
                self._backend.deliveries.updated_between,
                now - timedelta(seconds=options.matrix.max_age or MAX_AGE),
                now - timedelta(seconds=options.stuck_after),
                status=status,
                limit=limit,
                after=after,
            )
            if len(page) == limit:
                self._round.append((status, page[-1]))
            for delivery in page:
                if (yield from do(self._backend.claims.get, delivery.message_id)) is None:
                    report = yield from self._ask(report, delivery)
        return report

    def _ask(self, report: ReconcileReport, delivery: Delivery) -> Steps[ReconcileReport]:
        answer = yield from self._verification.ask(delivery.message_id)
        if isinstance(answer, Sent):
            status, report = DeliveryStatus.SENT_TO_PROVIDER, attrs.evolve(report, sent=report.sent + 1)
        elif isinstance(answer, NotAccepted):
            status, report = DeliveryStatus.FAILED_INTERNAL, attrs.evolve(report, not_sent=report.not_sent + 1)
        else:
            status, report = DeliveryStatus.UNKNOWN, attrs.evolve(report, unsure=report.unsure + 1)
        if status is not delivery.status:
            settled = Delivery(
                message_id=delivery.message_id,
                status=status,
                version=delivery.version + 1,
                provider=answer.provider if isinstance(answer, Sent) else None,
                provider_id=answer.provider_id if isinstance(answer, Sent) else None,
                updated_at=self._time().now(),
            )
            yield from do(self._backend.deliveries.record, settled)
        return report


def _log_error(error: Exception) -> None:
    import logging  # only on the failing path

    logging.getLogger("retrykit.reconcile").warning("nothing can be reconciled now, trying again: %s", error)


class Reconciler(_ReconcileFlow):
    """Compares the delivery log with a provider's events, and settles unknown outcomes where no copy of the message comes by.

    Args:
        backend: where the claims and the delivery log are.
        lookup: asks the provider about one message; None relies on the delivery log alone.
        events: gives the provider's events of a time; None compares nothing. See `retrykit.delivery.sources`.
        options: see `ReconcileOptions`.

    Raises:
        ConfigurationError: a value is not allowed.
        TypeError: there is no option of that name.
    """

    def __init__(
        self,
        backend: Backend,
        *,
        lookup: StatusLookup | None = None,
        events: ProviderEvents | None = None,
        **options: Unpack[ReconcileOptions],
    ) -> None:
        if isinstance(getattr(backend, "claims", None), AsyncClaimStore):
            raise ConfigurationError(f"the backend is the asynchronous {backend!r}; use AsyncReconciler for it")
        super().__init__(backend, lookup, events, options)

    def run_once(self, limit: int = 100) -> ReconcileReport:
        """Compare the next window, if one is due, and settle up to `limit` messages whose outcome is unknown.

        Args:
            limit: of each kind of unsettled messages; 0 settles none but those that events prove.

        Returns:
            What was found; where it `is_behind`, run it again at once.

        Raises:
            StoreError: a store failed. What was done stands; the window is compared again.
            EventSourceError: the source of events failed; likewise.
        """
        return run(self._run_once(limit))

    def compare(self, start: datetime, end: datetime) -> ReconcileReport:
        """Compare one window, whatever the bookmark says, which stays where it is.

        Args:
            start: aware.
            end: aware, after `start`; a message sent shortly before it may have no event yet.

        Raises:
            ConfigurationError: there is no source of events, an instant is naive, or the window is empty.
            StoreError: a store failed.
            EventSourceError: the source of events failed.
        """
        return run(self._compare(start, end))

    def run(self) -> None:
        """Reconcile until `stop` is called. A store or a source that fails is logged and tried again."""
        run(self._run(self._time().sleep))


class AsyncReconciler(_ReconcileFlow):
    """`Reconciler` for asynchronous callers, under asyncio and trio."""

    def __init__(
        self,
        backend: AsyncBackend,
        *,
        lookup: AsyncStatusLookup | None = None,
        events: AsyncProviderEvents | None = None,
        **options: Unpack[ReconcileOptions],
    ) -> None:
        if isinstance(getattr(backend, "claims", None), ClaimStore):
            raise ConfigurationError(f"the backend is the synchronous {backend!r}; use as_async(backend) for it")
        super().__init__(backend, lookup, events, options)

    async def run_once(self, limit: int = 100) -> ReconcileReport:
        """Compare the next window and settle what is unknown, as `Reconciler.run_once`."""
        return await arun(self._run_once(limit))

    async def compare(self, start: datetime, end: datetime) -> ReconcileReport:
        """Compare one window, as `Reconciler.compare`."""
        return await arun(self._compare(start, end))

    async def run(self) -> None:
        """Reconcile until `stop` is called, as `Reconciler.run`."""
        await arun(self._run(self._time().sleep_async))
