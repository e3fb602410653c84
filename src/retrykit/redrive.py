"""Run redrives: put dead letters back into circulation, a slice at a time, and look how it goes.

Each letter is put back in three writes: its message's claim is reopened as the next generation, a copy is scheduled into the retry
queue, and the letter is marked. They may be repeated, so a runner may die at any point and another one goes on. Any number of runners
may be there; one at a time holds a redrive. `retrykit.machines.redrive` decides how many letters move when.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Iterable
from datetime import timedelta
from typing import Final

import attrs

from ._steps import Steps, arun, do, run
from .clock import Clock, current_clock
from .dead_letter import DeadLetter, DeadLetterState
from .deadletter.payload import Cipher, message_to_put_back
from .decision import DispositionKind
from .errors import ConfigurationError, RedriveConflictError, StoreError
from .events import Listener, RedriveChanged, emit, listeners_of
from .exporters.logs import LOGGED
from .lease import new_owner
from .machines import redrive as machine
from .machines.claim import ClaimRecord, ClaimState, ReopenTerms
from .machines.redrive import Ending, PutBack, RedriveJob, RedriveState, Watched
from .message import Message
from .redrive_plan import blocked_by
from .stores import AsyncBackend, Backend, DeadLetterQuery
from .times import Duration, later, seconds

__all__ = ["AsyncRedriver", "Redriver"]

_RENEWED_EVERY: Final = 20
"""Letters after which a runner makes sure that it still holds the redrive."""

_BLOCKED: Final = timedelta(seconds=30)
"""For so long a redrive waits when something is paused, before it looks again."""


class _RedriverFlow:
    """The one logic of both colours."""

    def __init__(
        self,
        backend: Backend | AsyncBackend,
        lease: Duration,
        poll: Duration,
        cipher: Cipher | None,
        on_event: Iterable[Listener],
        clock: Clock | None,
    ) -> None:
        self._backend = backend
        self._cipher = cipher
        self._lease = seconds(lease, "lease", positive=True)
        self._poll = seconds(poll, "poll", positive=True)
        self._listeners = listeners_of(on_event)
        self._clock = clock
        self._owner = new_owner()
        self._stopped = False

    def stop(self) -> None:
        """Let `run` end after the slice it is at; safe from other threads and from signal handlers."""
        self._stopped = True

    def _time(self) -> Clock:
        return self._clock or current_clock()

    def _run(self, job_id: str | None, sleep: Callable[[float], Awaitable[None] | None]) -> Steps[RedriveJob | None]:
        job: RedriveJob | None = None
        while not self._stopped:
            try:
                if job_id is None:
                    yield from self._run_once()
                else:
                    job = yield from self._step(job_id)
                    if job.state is not RedriveState.RUNNING:
                        return job
            except StoreError as error:
                _log_store_error(error)
            if not self._stopped:
                yield from do(sleep, self._poll)
        if job is not None:
            yield from self._release(job.id)
        return job

    def _release(self, job_id: str) -> Steps[None]:
        yield from do(self._backend.redrives.change, job_id, lambda job, _: machine.release(job, self._owner))

    def _run_once(self) -> Steps[int]:
        moved = 0
        for known in (yield from do(self._backend.redrives.jobs, active=True, limit=1000)):
            if known.state is RedriveState.RUNNING:
                try:
                    job = yield from self._step(known.id)
                except RedriveConflictError:  # somebody else is at it
                    continue
                moved += max(0, job.put_back - known.put_back)
        return moved

    def _step(self, job_id: str) -> Steps[RedriveJob]:
        """Go one step on with a redrive: settle what was reserved, look how it goes, and take the next slice if it is time."""
        job = yield from do(self._backend.redrives.hold, job_id, owner=self._owner, lease=self._lease)
        if job is None:
            raise ConfigurationError(f"there is no redrive {job_id!r}; start one with DeadLetterQueue.redrive")
        if job.state is not RedriveState.RUNNING:
            return job
        assert job.lease is not None  # of us, or of somebody else
        if job.lease.owner != self._owner:
            raise RedriveConflictError(job.id, job.lease.owner, held_until=job.lease.deadline)
        token = job.lease.token
        if machine.due(job):
            job = yield from self._put_back(job, token)
        job = yield from self._observe(job, token)
        allowed = machine.allowance(job, self._time().now())
        if allowed and machine.holds(job, token):
            query = DeadLetterQuery.parse(job.query)
            page = yield from do(self._backend.dead_letters.search, query, limit=allowed, cursor=job.cursor)
            blocked = yield from blocked_by(self._backend, page.letters)
            if blocked:
                until = self._time().now() + _BLOCKED
                change = functools.partial(machine.postpone, token=token, reason=f"waits: {blocked[0]}", until=until)
                return (yield from self._change(job, change))
            ids = [letter.id for letter in page.letters]
            change = functools.partial(machine.reserve, token=token, letter_ids=ids, cursor=page.cursor)
            job = yield from self._change(job, change)
            job = yield from self._put_back(job, token)
        return job

    def _change(self, job: RedriveJob, change: Callable[..., RedriveJob]) -> Steps[RedriveJob]:
        changed = yield from do(self._backend.redrives.change, job.id, lambda known, now: change(known, now=now))
        assert changed is not None, "redrives are never deleted"
        if changed.state is not job.state:
            emit(
                self._listeners,
                RedriveChanged(at=self._time().now(), redrive_id=job.id, state=changed.state.value, note=changed.note),
            )
        return changed

    def _put_back(self, job: RedriveJob, token: int) -> Steps[RedriveJob]:
        """Put the reserved letters back."""
        results: list[tuple[PutBack, Watched | None]] = []
        for number, letter_id in enumerate(machine.due(job)):
            if number % _RENEWED_EVERY == 0:
                held = yield from do(self._backend.redrives.hold, job.id, owner=self._owner, lease=self._lease)
                if held is None or not machine.holds(held, token):
                    return held or job
            letter = yield from do(self._backend.dead_letters.get, letter_id)
            message = None if letter is None else message_to_put_back(letter, self._cipher)
            if letter is None or message is None or letter.redrive_count >= job.max_redrives:
                results.append(("passed_over", None))
                continue
            delay = 0.0 if job.rate is None else number / job.rate
            results.append((yield from self._put_back_one(job, letter, message, delay)))
        return (yield from self._change(job, functools.partial(machine.put_back, token=token, results=results)))

    def _put_back_one(
        self, job: RedriveJob, letter: DeadLetter, message: Message, delay: float
    ) -> Steps[tuple[PutBack, Watched | None]]:
        claims, letters = self._backend.claims, self._backend.dead_letters
        record: ClaimRecord | None
        if letter.state is DeadLetterState.QUARANTINED:
            record = yield from self._reopened(job, letter, message)
        else:  # a runner that died had put it back, or somebody else was here first
            record = yield from do(claims.get, letter.message_id)
        if record is None or record.redriven_from != letter.id:
            if record is not None and record.disposition is DispositionKind.SENT:
                yield from do(letters.resolve, letter.id)
                return "already_sent", None
            return "passed_over", None
        if record.state is not ClaimState.DONE:
            due_at = later(self._time().now(), delay)
            yield from do(
                self._backend.retries.schedule,
                message,
                due_at,
                generation=record.generation,
                version=record.seq,
            )
        yield from do(letters.put_back, letter.id, redrive_id=job.id, note=job.root_cause)
        if record.disposition is DispositionKind.SENT:
            yield from do(letters.resolve, letter.id)
        elif record.state is ClaimState.DONE:
            yield from do(letters.supersede, letter.id)
        return "put_back", Watched(letter.id, letter.message_id, letter.generation, str(letter.error_class))

    def _reopened(self, job: RedriveJob, letter: DeadLetter, message: Message) -> Steps[ClaimRecord]:
        """Reopen the claim of a letter's message, unless it is known that it was sent."""
        delivery = yield from do(self._backend.deliveries.get, letter.message_id)
        if delivery is not None and delivery.is_accepted:
            return (
                yield from do(
                    self._backend.claims.confirm,
                    letter.message_id,
                    provider=delivery.provider,
                    provider_id=delivery.provider_id,
                )
            )
        original = None if letter.edit is None else message_to_put_back(attrs.evolve(letter, edit=None), self._cipher)
        terms = ReopenTerms(
            letter_id=letter.id,
            generation=letter.generation,
            fingerprint=message.fingerprint,
            replaced=() if original is None else (original.fingerprint,),
            not_sent=job.not_sent,
        )
        return (yield from do(self._backend.claims.reopen, letter.message_id, terms))

    def _observe(self, job: RedriveJob, token: int) -> Steps[RedriveJob]:
        """Look what became of the messages that were put back."""
        endings: dict[str, Ending] = {}
        for watched in job.watched:
            record = yield from do(self._backend.claims.get, watched.message_id)
            ending = _ending(watched, record)
            if ending is not None:
                endings[watched.letter_id] = ending
        return (yield from self._change(job, functools.partial(machine.observe, token=token, endings=endings)))


def _ending(watched: Watched, record: ClaimRecord | None) -> Ending | None:
    """Return what became of a message that was put back; None: it is on its way."""
    if record is None:
        return "lost"
    if record.disposition is DispositionKind.SENT:
        return "succeeded"
    if record.state is ClaimState.DONE or record.generation > watched.generation + 1:
        return "failed"
    if record.tries and str(record.tries[-1].failure.error_class) == watched.error_class:
        return "failed"
    return None


def _log_store_error(error: StoreError) -> None:
    import logging  # only on the failing path

    logging.getLogger("retrykit.redrive").warning("nothing can be put back now, trying again: %s", error)


class Redriver(_RedriverFlow):
    """Runs the redrives that `DeadLetterQueue.redrive` has started.

    Args:
        backend: where the stores are; a `RetryScheduler` and workers have to be there for what is put back.
        lease: for how long a redrive is held, longer than twenty letters take.
        poll: the pause between two looks.
        cipher: opens payloads that were encrypted when their letters were written.
        on_event: listeners, told of `RedriveChanged`. Default a `LogListener`.
        clock: where the time comes from; None: the clock in force.

    Raises:
        ConfigurationError: a value is not allowed.
    """

    def __init__(
        self,
        backend: Backend,
        *,
        lease: Duration = "1m",
        poll: Duration = 1.0,
        cipher: Cipher | None = None,
        on_event: Iterable[Listener] = LOGGED,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(backend, lease, poll, cipher, on_event, clock)

    def step(self, redrive_id: str) -> RedriveJob:
        """Go one step on with a redrive: look what became of the last slice, and put the next one back if it is time.

        Returns:
            The redrive as it is afterwards.

        Raises:
            RedriveConflictError: another runner is at it.
            ConfigurationError: there is none of that id.
            StoreError: a store failed; what was done stands, and is not done again.
        """
        return run(self._step(redrive_id))

    def release(self, redrive_id: str) -> None:
        """Let another runner go on with a redrive at once, instead of when this one's lease is over."""
        run(self._release(redrive_id))

    def run_once(self) -> int:
        """Go one step on with every redrive that runs and that nobody else is at; return how many letters were put back."""
        return run(self._run_once())

    def run(self, redrive_id: str | None = None) -> RedriveJob | None:
        """Run one redrive until it is done, stopped or paused; or all there are, until `stop` is called.

        Args:
            redrive_id: which one; None: all, also those that are started later.

        Returns:
            The redrive at its end; None where there was none to name.

        Raises:
            RedriveConflictError: another runner is at the one that was named.
            ConfigurationError: there is none of that id.
        """
        return run(self._run(redrive_id, self._time().sleep))


class AsyncRedriver(_RedriverFlow):
    """`Redriver` for asynchronous callers, under asyncio and trio."""

    def __init__(
        self,
        backend: AsyncBackend,
        *,
        lease: Duration = "1m",
        poll: Duration = 1.0,
        cipher: Cipher | None = None,
        on_event: Iterable[Listener] = LOGGED,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(backend, lease, poll, cipher, on_event, clock)

    async def step(self, redrive_id: str) -> RedriveJob:
        """Go one step on with a redrive, as `Redriver.step`."""
        return await arun(self._step(redrive_id))

    async def release(self, redrive_id: str) -> None:
        """Let another runner go on with a redrive at once, as `Redriver.release`."""
        await arun(self._release(redrive_id))

    async def run_once(self) -> int:
        """Go one step on with every redrive, as `Redriver.run_once`."""
        return await arun(self._run_once())

    async def run(self, redrive_id: str | None = None) -> RedriveJob | None:
        """Run one redrive to its end, or all there are, as `Redriver.run`."""
        return await arun(self._run(redrive_id, self._time().sleep_async))
