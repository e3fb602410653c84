"""The dead letter queue as a workbench: plan a redrive, start it, stop it, repair a letter, give letters up.

Every act has somebody who does it and a reason, and stands in the audit log. Nothing is put back without a plan.
"""

from __future__ import annotations

import difflib
import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias, cast

import attrs

from . import codec
from ._steps import Steps, arun, do, run
from .checks import check_note, counted, whole
from .clock import Clock, current_clock
from .codec import JSON
from .dead_letter import DeadLetter, DeadLetterState, Edit, PayloadState
from .deadletter.payload import Cipher, message_of, repaired_by, seal
from .errors import ConfigurationError, InvalidPayloadError, PayloadTooLargeError, PayloadUnavailableError
from .machines import redrive as machine
from .machines.redrive import AuditEntry, RedriveJob
from .message import Message, check_author
from .redrive_plan import MAX_REDRIVES, RedrivePlan, plan_flow, waiting
from .stores import AsyncBackend, Backend, DeadLetterQuery
from .times import Duration, later, seconds

__all__ = ["AsyncDeadLetterQueue", "DeadLetterQueue", "RedrivePlan"]

_ALL: Final = DeadLetterQuery()
_PAGE: Final = 500
_DIFF: Final = 10_000
"""Characters of a diff that are kept."""

Progress: TypeAlias = Callable[[int], object]
"""Told how many letters are done."""

Payload: TypeAlias = bytes | str | Mapping[str, JSON]
"""What a letter's payload may be replaced by: bytes or text that is JSON, or an object."""


def _untold(_: int) -> None:
    """Tell nobody."""


class _QueueFlow:
    """The one logic of both colours."""

    def __init__(
        self, backend: Backend | AsyncBackend, max_payload: int, cipher: Cipher | None, clock: Clock | None
    ) -> None:
        self._backend = backend
        self._cipher = cipher
        self._max_payload = whole(max_payload, "max_payload")
        self._clock = clock

    def _time(self) -> Clock:
        return self._clock or current_clock()

    def _plan(self, query: DeadLetterQuery | str, everything: bool, max_redrives: int) -> Steps[RedrivePlan]:
        return (
            yield from plan_flow(
                self._backend,
                self._read(query),
                everything=everything,
                max_redrives=whole(max_redrives, "max_redrives"),
                cipher=self._cipher,
                clock=self._clock,
            )
        )

    def _read(self, query: DeadLetterQuery | str) -> DeadLetterQuery:
        return DeadLetterQuery.parse(query, now=self._time().now()) if isinstance(query, str) else query

    def _redrive(
        self,
        plan: RedrivePlan,
        root_cause: str,
        by: str,
        canary: int,
        rate: float | None,
        tolerance: float,
        patience: Duration,
        not_sent: bool,
    ) -> Steps[RedriveJob]:
        if not isinstance(plan, RedrivePlan):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"the plan is of type {type(plan).__name__}; allowed is what plan() gives")
        if rate is not None and not 0 < rate < float("inf"):
            raise ConfigurationError(f"rate is {rate!r}; allowed are messages a second > 0, or None")
        if not 0 <= tolerance < 1:
            raise ConfigurationError(f"tolerance is {tolerance!r}; allowed is a share >= 0 and < 1")
        text = str(plan.query)
        if DeadLetterQuery.parse(text, now=self._time().now()) != plan.query:
            raise ConfigurationError("the query does not fit into the text form; use shorter values")
        now = self._time().now()
        job = RedriveJob(
            id=f"{now:%Y%m%dT%H%M%S}-{secrets.token_hex(4)}",
            query=text,
            group=plan.query.fingerprint,
            root_cause=check_note(root_cause, "root_cause", least=1),
            by=check_author(by),
            created_at=now,
            planned=plan.count,
            canary=whole(canary, "canary", least=0),
            canary_passed=canary == 0,
            rate=rate,
            tolerance=tolerance,
            patience=seconds(patience, "patience", positive=True),
            max_redrives=plan.max_redrives,
            not_sent=bool(not_sent),
            slice_at=now,
        )
        begun = AuditEntry(
            at=now,
            by=by,
            action="redrive started",
            subject=job.id,
            why=root_cause,
            result=f"{counted(plan.count, 'letter')}: {text}",
        )
        return (yield from do(self._backend.redrives.start, attrs.evolve(job, history=(begun,))))

    def _act(self, redrive_id: str, act: Callable[..., RedriveJob], by: str, why: str) -> Steps[RedriveJob]:
        by, why = check_author(by), check_note(why, "why", least=1)
        changed = yield from do(self._backend.redrives.change, redrive_id, lambda job, now: act(job, by, why, now))
        if changed is None:
            raise ConfigurationError(
                f"there is no redrive {redrive_id!r}; allowed are those of backend.redrives.jobs()"
            )
        return changed

    def _edit(
        self,
        letter_id: str,
        payload: Payload | None,
        attributes: Mapping[str, str] | None,
        by: str,
        why: str,
        validate: Callable[[Message], object] | None,
    ) -> Steps[DeadLetter]:
        by, why = check_author(by), check_note(why, "why", least=1)
        letter = yield from do(self._backend.dead_letters.get, letter_id)
        if letter is None:
            raise ConfigurationError(f"there is no dead letter {letter_id!r}")
        if letter.state is not DeadLetterState.QUARANTINED:
            raise ConfigurationError(
                f"the dead letter {letter_id!r} is {letter.state.value}; allowed are quarantined ones"
            )
        before = _standing(letter, self._cipher)
        if before is None and (payload is None or attributes is None):
            raise ConfigurationError(
                f"the message of the dead letter {letter_id!r} is {letter.payload_state.value}; give a whole payload and all attributes"
            )
        body = payload if payload is not None else cast("Message", before).body
        kept = attributes if attributes is not None else cast("Message", before).attributes
        message = Message(letter.message_id, body, kept)
        if len(message.body) > self._max_payload:
            raise PayloadTooLargeError(len(message.body), self._max_payload)
        _ = message.payload  # one that is not JSON is refused here
        if validate is not None and (yield from do(validate, message)) is False:
            raise InvalidPayloadError(
                f"validate gave False for the payload that the dead letter {letter_id!r} is to get; it raises what is wrong instead"
            )
        now = self._time().now()
        edit = Edit(payload=message.body, attributes=message.attributes, by=by, why=why, at=now)
        result = _diff(before, message)
        if letter.payload_state is PayloadState.ENCRYPTED:  # nobody is to read it here, so neither its repair
            edit, result = self._sealed(letter, edit), "the message is encrypted"
        entry = AuditEntry(at=now, by=by, action="edited", subject=letter_id, why=why, result=result)
        yield from do(self._backend.redrives.note, entry)
        edited = yield from do(self._backend.dead_letters.edit, letter_id, edit)
        if edited is None or edited.edit != edit:
            raise ConfigurationError(f"the dead letter {letter_id!r} is no longer quarantined; nothing was changed")
        return edited

    def _sealed(self, letter: DeadLetter, edit: Edit) -> Edit:
        if self._cipher is None:
            raise ConfigurationError(
                f"the dead letter {letter.id!r} is encrypted for {letter.payload_cipher!r}; give the queue its cipher"
            )
        sealed = seal(repaired_by(letter, edit), self._cipher)
        return attrs.evolve(edit, payload=sealed, attributes=letter.attributes, cipher=self._cipher.name)

    def _discard(
        self, query: DeadLetterQuery | str, by: str, why: str, everything: bool, on_progress: Progress
    ) -> Steps[int]:
        by, why = check_author(by), check_note(why, "why", least=1)
        now = self._time().now()
        # Stores keep whole milliseconds: what has died within this one is meant as well.
        wanted = waiting(self._read(query), later(now, 0.001), everything=everything)
        note = self._backend.redrives.note
        begun = AuditEntry(at=now, by=by, action="discard begun", subject=str(wanted), why=why)
        yield from do(note, begun)
        done, cursor = 0, None
        while True:
            page = yield from do(self._backend.dead_letters.search, wanted, limit=_PAGE, cursor=cursor)
            for letter in page.letters:
                gone = yield from do(self._backend.dead_letters.discard, letter.id, note=f"{by}: {why}")
                done += gone is not None and gone.state is DeadLetterState.DISCARDED
                on_progress(done)
            cursor = page.cursor
            if cursor is None:
                break
        result = counted(done, "letter")
        yield from do(note, attrs.evolve(begun, at=self._time().now(), action="discarded", result=result, step=1))
        return done


def _standing(letter: DeadLetter, cipher: Cipher | None) -> Message | None:
    """Return what a letter would put back as it stands, or None where that is not there."""
    try:
        return message_of(letter, cipher)
    except PayloadUnavailableError:
        return None


def _diff(before: Message | None, after: Message) -> str:
    """Return what differs between two messages, line by line, cut to what is kept."""
    if before is None:
        return "in place of what was masked, withheld or encrypted"
    lines = difflib.unified_diff(_lines(before), _lines(after), "before", "after", lineterm="", n=1)
    text = "\n".join(lines)
    return text if len(text) <= _DIFF else f"{text[:_DIFF]}\n... cut from {len(text):,} characters"


def _lines(message: Message) -> Sequence[str]:
    try:
        payload: object = codec.decode(message.body)
    except InvalidPayloadError:
        payload = message.body.decode("utf-8", "replace").splitlines()
    shown = {"payload": payload, "attributes": dict(message.attributes)}
    return json.dumps(shown, indent=1, sort_keys=True, ensure_ascii=False, default=str).splitlines()


class DeadLetterQueue(_QueueFlow):
    """What people do with dead letters, each act with its author and its reason.

    Looking is done in the store itself: `backend.dead_letters.search`, `top`, `groups`.

    Args:
        backend: where the stores are.
        max_payload: bytes that a repaired payload may have; the dispatcher's.
        cipher: opens payloads that were encrypted when their letters were written.
        clock: where the time comes from; None: the clock in force.

    Example:
        >>> from retrykit.backends import MemoryBackend
        >>> queue = DeadLetterQueue(MemoryBackend())
        >>> plan = queue.plan("class:rendering_failure since:2h")
        >>> plan.count, list(plan.warnings)
        (0, [])
        >>> job = queue.redrive(plan, root_cause="template fixed in release 42", by="ada")
        >>> job.state.value, job.canary
        ('running', 10)
    """

    def __init__(
        self,
        backend: Backend,
        *,
        max_payload: int = 1_048_576,
        cipher: Cipher | None = None,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(backend, max_payload, cipher, clock)

    def plan(
        self, query: DeadLetterQuery | str = _ALL, *, everything: bool = False, max_redrives: int = MAX_REDRIVES
    ) -> RedrivePlan:
        """Say what a redrive would put back, and what speaks against it; nothing is changed.

        Args:
            query: which letters, as an object or in its text form; of them those that are quarantined, and died before now.
            everything: has to be said where the query has no condition.
            max_redrives: letters that were put back so often before are left where they are.

        Raises:
            ConfigurationError: the query is none, asks for letters in another state, or has no condition.
        """
        return run(self._plan(query, everything, max_redrives))

    def redrive(
        self,
        plan: RedrivePlan,
        *,
        root_cause: str,
        by: str,
        canary: int = 10,
        rate: float | None = None,
        tolerance: float = 0.1,
        patience: Duration = "15m",
        not_sent: bool = False,
    ) -> RedriveJob:
        """Start a redrive of exactly the letters of a plan. A `Redriver` carries it out.

        First the canary is put back; only when its messages have come to an end, and well, the rest follows in slices that double.
        Counters begin anew, the history stays.

        Args:
            plan: what `plan` gave.
            root_cause: why they had died, and why they will not again: 1 to 10,000 characters.
            by: who puts them back, 1 to 255 characters.
            canary: how many letters go ahead; 0: none.
            rate: messages a second, at the most; None: as fast as they come to an end.
            tolerance: the share of messages that may fail again, of the canary and of the latest hundred; above it the redrive stops.
            patience: how long the canary may take, and the last slice; afterwards the redrive pauses, or is done.
            not_sent: whether somebody has made sure that messages whose outcome is unknown were not sent; otherwise the
                provider is asked before they are sent again.

        Raises:
            ConfigurationError: a value is not allowed.
            RedriveConflictError: another redrive may be at the same letters: only those of different groups run side by side.
        """
        return run(self._redrive(plan, root_cause, by, canary, rate, tolerance, patience, not_sent))

    def pause(self, redrive_id: str, *, by: str, why: str) -> RedriveJob:
        """Let a redrive rest until it is resumed.

        Raises:
            ConfigurationError: there is none of that id, or a value is not allowed.
        """
        return run(self._act(redrive_id, machine.pause, by, why))

    def resume(self, redrive_id: str, *, by: str, why: str) -> RedriveJob:
        """Let a redrive go on that is paused, or that was stopped: then with a canary again.

        Raises:
            ConfigurationError: there is none of that id, or a value is not allowed.
            RedriveConflictError: another redrive may be at the same letters.
        """
        return run(self._act(redrive_id, machine.resume, by, why))

    def stop(self, redrive_id: str, *, by: str, why: str) -> RedriveJob:
        """End a redrive; what it has put back goes on.

        Raises:
            ConfigurationError: there is none of that id, or a value is not allowed.
        """
        return run(self._act(redrive_id, machine.stop, by, why))

    def edit(
        self,
        letter_id: str,
        payload: Payload | None = None,
        *,
        attributes: Mapping[str, str] | None = None,
        by: str,
        why: str,
        validate: Callable[[Message], object] | None = None,
    ) -> DeadLetter:
        """Repair a letter: what is put back from then on is this, and the original is never sent any more. It stays as evidence.

        Args:
            letter_id: which letter; it has to be quarantined.
            payload: JSON; None: as it is.
            attributes: all of them; None: as they are.
            by: who repairs it, 1 to 255 characters.
            why: 1 to 10,000 characters.
            validate: raises when the message should not be sent; the dispatcher's.

        Returns:
            The letter afterwards. What was changed stands in the audit log.

        Raises:
            ConfigurationError: there is no such letter, it is not quarantined, or a value is not allowed.
            InvalidPayloadError: the payload is not JSON.
            PayloadTooLargeError: it is too large.
        """
        return run(self._edit(letter_id, payload, attributes, by, why, validate))

    def discard(
        self,
        query: DeadLetterQuery | str,
        *,
        by: str,
        why: str,
        everything: bool = False,
        on_progress: Progress = _untold,
    ) -> int:
        """Give letters up for good; they stay as evidence.

        Args:
            query: which letters; of them those that are quarantined, and died before now.
            by: who says so, 1 to 255 characters.
            why: 1 to 10,000 characters.
            everything: has to be said where the query has no condition.
            on_progress: called after each letter with how many are discarded.

        Returns:
            How many were discarded.

        Raises:
            ConfigurationError: as for `plan`, or a value is not allowed.
        """
        return run(self._discard(query, by, why, everything, on_progress))


class AsyncDeadLetterQueue(_QueueFlow):
    """`DeadLetterQueue` for asynchronous callers, under asyncio and trio."""

    def __init__(
        self,
        backend: AsyncBackend,
        *,
        max_payload: int = 1_048_576,
        cipher: Cipher | None = None,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(backend, max_payload, cipher, clock)

    async def plan(
        self, query: DeadLetterQuery | str = _ALL, *, everything: bool = False, max_redrives: int = MAX_REDRIVES
    ) -> RedrivePlan:
        """Say what a redrive would put back, as `DeadLetterQueue.plan`."""
        return await arun(self._plan(query, everything, max_redrives))

    async def redrive(
        self,
        plan: RedrivePlan,
        *,
        root_cause: str,
        by: str,
        canary: int = 10,
        rate: float | None = None,
        tolerance: float = 0.1,
        patience: Duration = "15m",
        not_sent: bool = False,
    ) -> RedriveJob:
        """Start a redrive, as `DeadLetterQueue.redrive`."""
        return await arun(self._redrive(plan, root_cause, by, canary, rate, tolerance, patience, not_sent))

    async def pause(self, redrive_id: str, *, by: str, why: str) -> RedriveJob:
        """Let a redrive rest, as `DeadLetterQueue.pause`."""
        return await arun(self._act(redrive_id, machine.pause, by, why))

    async def resume(self, redrive_id: str, *, by: str, why: str) -> RedriveJob:
        """Let a redrive go on, as `DeadLetterQueue.resume`."""
        return await arun(self._act(redrive_id, machine.resume, by, why))

    async def stop(self, redrive_id: str, *, by: str, why: str) -> RedriveJob:
        """End a redrive, as `DeadLetterQueue.stop`."""
        return await arun(self._act(redrive_id, machine.stop, by, why))

    async def edit(
        self,
        letter_id: str,
        payload: Payload | None = None,
        *,
        attributes: Mapping[str, str] | None = None,
        by: str,
        why: str,
        validate: Callable[[Message], object] | None = None,
    ) -> DeadLetter:
        """Repair a letter, as `DeadLetterQueue.edit`; `validate` may be a coroutine function."""
        return await arun(self._edit(letter_id, payload, attributes, by, why, validate))

    async def discard(
        self,
        query: DeadLetterQuery | str,
        *,
        by: str,
        why: str,
        everything: bool = False,
        on_progress: Progress = _untold,
    ) -> int:
        """Give letters up for good, as `DeadLetterQueue.discard`."""
        return await arun(self._discard(query, by, why, everything, on_progress))
