"""The one flow of a message, of both colours: each step in the order that loses and doubles nothing.

claim -> parse, validate, render -> begin_send -> send -> settle the claim -> show it in the other stores -> return
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from itertools import count
from math import inf
from typing import Final, TypeAlias, cast

import attrs

from ._steps import Steps, do
from .classification.tags import is_unsure
from .clock import Clock, current_clock
from .codec import JSON
from .decision import Action, DeadLetterReason, Decision, Disposition, DispositionKind
from .delivery import AsyncStatusLookup, Sent, StatusLookup
from .dispatch_options import DispatchOptions, Isolating, check_functions, check_isolation, checked
from .errors import CallRefusedError, ConfigurationError, InvalidMessageError, ProcessStoppingError
from .events import AttemptFailed, MessageHandled, MessageQuarantined, emit
from .failure import Failure
from .lease import new_owner
from .machines import claim as machine
from .machines.status import DeliveryStatus
from .message import Message, receive
from .open_claims import End, OpenClaim, OpenClaims, logged
from .projection import Projection, disposition_of
from .stores import (
    AsyncBackend,
    Backend,
    ClaimAnswer,
    Claimed,
    ClaimRecord,
    Done,
    InProgress,
    NotDue,
    Pause,
    Replaced,
    Suspect,
    Unknown,
)
from .times import Duration, plain, seconds
from .verification import Verification

__all__ = ["DispatchFlow", "Raw", "SendResult"]

Raw: TypeAlias = Message | bytes | str | Mapping[str, JSON]
"""What an application's queue may deliver."""

SendResult: TypeAlias = Sent | str | None
"""What a send may return: nothing, the provider's own id, or the whole answer."""

_Answer: TypeAlias = Claimed | NotDue | InProgress | Unknown | Done | Replaced
"""What a claim is answered where suspects are wanted as well."""

_PAUSE_CHECK: Final = 60.0
"""Seconds after which a paused message is looked at again, at the latest."""

_LEAST_REFUSAL: Final = 1.0
"""Seconds for which a message waits at least when the send was refused."""

_PAUSES_FRESH: Final = 1.0
"""Seconds for which the list of pauses is used before it is read again."""

_PAUSE_KEYS: Final = ("campaign", "campaign_id"), ("provider", "provider"), ("tenant", "tenant")


class DispatchFlow:
    """The one logic of both colours."""

    _is_async = False

    def __init__(
        self,
        send: Callable[..., object],
        *,
        backend: Backend | AsyncBackend,
        parse: Callable[[Message], object] | None,
        validate: Callable[[Message], object] | None,
        render: Callable[[Message], object] | None,
        lookup: StatusLookup | AsyncStatusLookup | None,
        options: DispatchOptions,
    ) -> None:
        self._options = given = checked(options)
        if given.isolation is not None:
            check_isolation(given.isolation, is_async=self._is_async)
        check_functions(2 if render is None else 3, send, parse=parse, validate=validate, render=render, lookup=lookup)
        for name in ("claims", "retries", "dead_letters", "deliveries", "circuits"):
            if not hasattr(backend, name):
                raise ConfigurationError(f"the backend is {backend!r}, which has no {name}; use open_backend(url)")
        self._send = send
        self._parse = parse
        self._validate = validate
        self._render = render
        self._backend = backend
        self._projection = Projection(backend, given.clock, given.capture)
        self._verification = Verification(
            backend,
            matrix=given.matrix,
            lookup=lookup,
            on_event=given.on_event,
            clock=given.clock,
            rng=given.rng,
        )
        self._open = OpenClaims(backend, given.lease, self._projection, given.clock)
        self._owner = new_owner()
        self._holds = count(1)
        self._pauses: Sequence[Pause] = ()
        self._pauses_read: float | None = None

    @property
    def lease(self) -> float:
        """Seconds for which a message is held, unless that is renewed."""
        return self._options.lease

    @property
    def in_work(self) -> int:
        """How many messages are being handled at this moment, from their claim on."""
        return len(self._open)

    @property
    def open_claims(self) -> OpenClaims:
        """What is held at this moment, and would be given back by `hand_back`; for those who look after it."""
        return self._open

    def isolate(self, isolation: Isolating) -> None:
        """Let suspects run alone from now on; what the dispatcher was given before stays.

        Args:
            isolation: `Isolation` for a Dispatcher, `AsyncIsolation` for an AsyncDispatcher, or your own of that colour.

        Raises:
            ConfigurationError: it is of the other colour, or gives no turns.
        """
        check_isolation(isolation, is_async=self._is_async)
        if self._options.isolation is None:
            self._options = attrs.evolve(self._options, isolation=isolation)

    def _time(self) -> Clock:
        return self._options.clock or current_clock()

    def _handle(self, raw: Raw, id: str | None, lost: str | None = None) -> Steps[Disposition]:
        message = receive(raw, id=id, max_payload=self._options.max_payload)
        if self._open.is_closed:
            raise ProcessStoppingError(message.id)
        if self._open.abandoned:
            yield from self._open.collect()
        yield from self._read_pauses()
        disposition: Disposition | None = None
        while disposition is None:  # a lost claim means that somebody else decides: ask again
            if self._options.isolation is None:
                disposition = yield from self._answered(message, (yield from self._claim(message, lost)))
            else:
                disposition = yield from self._in_turn(message, self._options.isolation, lost)
        emit(self._options.on_event, MessageHandled(at=self._time().now(), disposition=disposition))
        return disposition

    def _ask(self, message: Message, lost: str | None, *, suspects: bool) -> Steps[ClaimAnswer]:
        answer = yield from do(
            self._backend.claims.claim,
            message.id,
            owner=f"{self._owner}/{next(self._holds)}",
            fingerprint=message.fingerprint,
            lease=self._options.lease,
            poison=self._options.poison,
            suspects=suspects,
            lost=lost,
        )
        return cast("ClaimAnswer", answer)  # checkers widen the union

    def _claim(self, message: Message, lost: str | None = None) -> Steps[_Answer]:
        return cast("_Answer", (yield from self._ask(message, lost, suspects=True)))

    def _in_turn(self, message: Message, isolation: Isolating, lost: str | None) -> Steps[Disposition | None]:
        """Handle a message beside others, or alone in this process once it is known as a suspect.

        Nobody holds a claim while it waits for its turn: a suspect that dies alone takes nobody's with it. Nobody waits for
        longer than a lease either, which every send has ended before.
        """
        turn = isolation.turn(alone=False)
        try:
            yield from do(turn.wait, self._options.lease)
            answer = yield from self._ask(message, lost, suspects=False)
            if not isinstance(answer, Suspect):
                return (yield from self._answered(message, answer))
        finally:
            turn.leave()
        turn = isolation.turn(alone=True)
        try:
            if (yield from do(turn.wait, self._options.lease)):
                return (yield from self._answered(message, (yield from self._claim(message))))
        finally:
            turn.leave()
        answer = yield from self._claim(message)
        if isinstance(answer, Claimed):
            reason = "a worker was lost with it, and found no time to run it alone"
            return (yield from self._let_wait(message, answer.record, self._options.lease, reason))
        return (yield from self._answered(message, answer))

    def _answered(self, message: Message, answer: _Answer) -> Steps[Disposition | None]:
        """Do what a claim's answer asks for; None when the claim was lost on the way."""
        match answer:
            case Claimed(record):
                return (yield from self._work(message, record))
            case Unknown(record):
                return (yield from self._verify(message, record))
            case NotDue(record):
                yield from self._projection.show(record, message)
                return disposition_of(record)
            case InProgress(record, until):
                yield from do(
                    self._backend.retries.schedule,
                    message,
                    until,
                    generation=record.generation,
                    version=record.seq,
                )
                return Disposition(
                    kind=DispositionKind.RETRY_SCHEDULED,
                    message_id=message.id,
                    due_at=until,
                    reason="another copy is in progress, this one waits until its lease ends",
                    attempts=len(record.tries),
                )
            case Done(record, convicted):
                record = yield from self._verification.reconsider(record)
                if record.disposition is not DispositionKind.SENT or record.dead_letter_id or record.redriven_from:
                    yield from self._projection.show(record, message)
                if not convicted:
                    return _duplicate(record)
                self._tell_of_poison(record)
                return disposition_of(record)
            case Replaced(record):
                reason = "an edited payload has replaced this one"
                return attrs.evolve(_duplicate(record), reason=reason)

    def _tell_of_poison(self, record: ClaimRecord) -> None:
        """Tell that this very claim condemned the message, unless the log knew that it was sent after all."""
        if record.disposition is not DispositionKind.SENT and record.failure is not None:
            event = MessageQuarantined(
                at=self._time().now(),
                message_id=record.key,
                dead_letter_id=record.dead_letter_id or "",
                reason=record.failure.error_message or record.note,
            )
            emit(self._options.on_event, event)

    def _work(self, message: Message, record: ClaimRecord) -> Steps[Disposition | None]:
        """Try to send a message that is held; None when the claim was lost on the way."""
        opened = yield from self._opened(message, record)
        sent: Sent | None = None
        try:
            prepared, pause = message, None
            content: tuple[object, ...] = ()
            try:
                prepared.payload  # noqa: B018 - a body that is not JSON fails here
                if self._parse is not None:
                    prepared = yield from self._parsed(message)
                pause = self._pause_of(prepared)
                if pause is None:
                    opened.stage = "validate"
                    if self._validate is not None:
                        yield from self._validated(prepared)
                    opened.stage = "render"
                    if self._render is not None:
                        content = ((yield from do(self._render, prepared)),)
            except Exception as error:  # noqa: BLE001 - the boundary: every error becomes a classified failure
                outcome = yield from self._fail(message, record, self._classify(error, message, opened.stage))
                return self._closed(opened, outcome)
            if pause is not None:
                return self._closed(opened, (yield from self._postpone(message, record, pause)))
            sending = yield from self._begin_send(opened)
            if sending is None:
                return self._closed(opened, None)
            answer = yield from self._try(message, sending, (prepared, message.id, *content))
            if not isinstance(answer, Sent):
                return self._closed(opened, answer)
            sent = answer
            return self._closed(opened, (yield from self._accepted(message, sending, sent)))
        except BaseException as error:
            yield from self._broken_off(opened, sent, error)
            raise

    def _broken_off(self, opened: OpenClaim, sent: Sent | None, error: BaseException) -> Steps[None]:
        """Note that a handler did not come to its end; where it was told to stop, settle its claim."""
        if isinstance(error, GeneratorExit):  # nobody goes on: only who keeps the claims knows that the process does
            opened.is_abandoned = True
            return
        self._open.abandon(opened)  # a store failed; or what follows may not be done any more, or fails
        if isinstance(error, Exception):
            return
        with logged("the claim on %r could not be given back now: %s", opened.message.id):
            if sent is None:  # given back, unknown if the send had begun
                yield from self._open.interrupt(opened)
            else:
                yield from self._accepted(opened.message, opened.held, sent)
                self._open.remove(opened)
                opened.ended(End.FINISHED)

    def _opened(self, message: Message, record: ClaimRecord) -> Steps[OpenClaim]:
        opened = self._open.add(record, message)
        if not self._open.is_closed:
            return opened
        # It was claimed while all others were given back.
        yield from self._open.give_back(opened)
        raise ProcessStoppingError(message.id)

    def _begin_send(self, opened: OpenClaim) -> Steps[ClaimRecord | None]:
        """Mark that the send begins; None when the claim was lost or taken away: then nothing may be sent."""
        if not self._open.may_send(opened):
            return None
        record, sending = opened.record, None
        try:
            sending = yield from do(self._backend.claims.begin_send, record.key, record.seq, lease=self._options.lease)
        finally:
            opened.is_sending = sending is not None  # where it failed nothing was sent, whatever the store took in
        opened.renewed = self._open.now()
        return sending

    def _closed(self, opened: OpenClaim, disposition: Disposition | None) -> Disposition | None:
        """Return what became of a message that is not worked on any more; None when its claim was lost."""
        self._open.remove(opened)
        if disposition is not None or not opened.is_taken_away:
            return disposition
        if not opened.is_settled:  # whoever took it away could not, or has not yet: the claim is asked what to do
            self._open.abandon(opened)
            return None
        kind = DispositionKind.VERIFYING if opened.is_sending else DispositionKind.RETRY_SCHEDULED
        reason = "taken away from its handler: the worker stops, or the time limit has passed"
        return Disposition(kind=kind, message_id=opened.message.id, reason=reason)

    def _keep(self, time_limit: Duration | None) -> Steps[None]:
        """Take away what has run for too long, as failed; renew the rest."""
        limit = inf if time_limit is None else seconds(time_limit, "time_limit", positive=True)
        for opened in self._open.older_than(limit):
            reason = f"its handler has not ended within the time limit of {plain(limit)} s"
            failure = self._classify(TimeoutError(reason), opened.message, opened.stage)
            with logged("the claim on %r could not be settled at its time limit: %s", opened.message.id):
                failed = yield from self._fail(opened.message, opened.held, failure)
                opened.is_settled = True
                self._open.remove(opened)
                if failed is not None:
                    opened.ended(End.TIMED_OUT)
        yield from self._open.renew()

    def _try(
        self, message: Message, record: ClaimRecord, arguments: tuple[object, ...]
    ) -> Steps[Sent | Disposition | None]:
        """Send once; return the provider's answer, or what became of a message that was not sent."""
        try:
            return _as_sent(self._send, (yield from do(self._send, *arguments)))
        except Exception as error:  # noqa: BLE001 - the boundary: every error becomes a classified failure
            if isinstance(error, CallRefusedError) and not is_unsure(error):  # nothing was tried: that is no attempt
                return (yield from self._let_wait(message, record, _refused_for(error), str(error)))
            return (yield from self._fail(message, record, self._classify(error, message, "send")))

    def _parsed(self, message: Message) -> Steps[Message]:
        assert self._parse is not None
        parsed = yield from do(self._parse, message)
        if not isinstance(parsed, Message) or parsed.id != message.id:
            raise InvalidMessageError(
                f"parse gave {type(parsed).__name__} for the message {message.id!r}; it returns a Message of the same id"
            )
        return parsed

    def _validated(self, message: Message) -> Steps[None]:
        assert self._validate is not None
        if (yield from do(self._validate, message)) is False:
            raise InvalidMessageError(
                f"validate gave False for the message {message.id!r}; it raises what is wrong instead"
            )

    def _classify(self, error: Exception, message: Message, stage: str) -> Failure:
        provider = message.attributes.get("provider")
        return self._options.classifier.classify(error, provider=provider, stage=stage)

    def _accepted(self, message: Message, record: ClaimRecord, sent: Sent) -> Steps[Disposition]:
        """Record that the provider took the message: the log first, so that the settled claim proves it."""
        status = DeliveryStatus.SENT_TO_PROVIDER
        yield from self._projection.log(record, status, provider=sent.provider, provider_id=sent.provider_id)
        settled = yield from do(
            self._backend.claims.settle,
            _sent(record, sent),
            record.seq,
        )
        if settled is None:  # somebody else has taken over, but that it was sent is a fact
            now = self._time().now()
            yield from do(
                self._backend.retries.schedule, message, now, generation=record.generation, version=record.seq
            )
            settled = yield from do(
                self._backend.claims.confirm, message.id, provider=sent.provider, provider_id=sent.provider_id
            )
        yield from self._projection.close_letters(settled)
        return disposition_of(settled)

    def _fail(self, message: Message, record: ClaimRecord, failure: Failure) -> Steps[Disposition | None]:
        """Decide on a failed try and carry the decision out; None when somebody else decides."""
        now = self._time().now()
        decision = self._decide(failure, record, now)
        settled = yield from do(
            self._backend.claims.settle,
            machine.failed(record, failure, decision, failed_at=now),
            record.seq,
            delay=decision.delay,
        )
        if settled is None:
            return None
        attempt = settled.attempts[-1].number
        emit(
            self._options.on_event,
            AttemptFailed(at=now, subject=message.id, attempt=attempt, failure=failure, decision=decision),
        )
        yield from self._projection.show(settled, message)
        return disposition_of(settled)

    def _decide(self, failure: Failure, record: ClaimRecord, now: datetime) -> Decision:
        """Ask the matrix; a backoff function of the application's that fails must not leave the message undecided."""
        try:
            return self._options.matrix.decide(failure, record.tries, age=record.age(now), rng=self._options.rng)
        except Exception as error:  # noqa: BLE001 - whatever the function raises
            reason = f"{failure.error_class}, and the policy failed with {type(error).__name__}: dead letter"
            return Decision(Action.DEAD_LETTER, 0.0, reason, DeadLetterReason.APPLICATION)

    def _verify(self, message: Message, record: ClaimRecord) -> Steps[Disposition | None]:
        """Find out whether an earlier try had sent the message; None when it may be tried again, or was lost."""
        settled = yield from self._verification.settle(record)
        if settled is None or settled.state is machine.ClaimState.WAITING:
            return None
        yield from self._projection.show(settled, message)
        return disposition_of(settled)

    def _read_pauses(self) -> Steps[None]:
        """Read the pauses, before anything is held, unless they were read a moment ago."""
        now = self._time().monotonic()
        if self._pauses_read is None or not 0 <= now - self._pauses_read < _PAUSES_FRESH:
            self._pauses = yield from do(self._backend.circuits.pauses)
            self._pauses_read = now
            tell = getattr(self._send, "pause_providers", None)
            if tell is not None:  # a failover passes over those that are paused
                kinds = [(pause.key.partition(":"), pause) for pause in self._pauses]
                tell({name: self._until(pause) for (kind, _, name), pause in kinds if kind == "provider"})

    def _until(self, pause: Pause) -> float | None:
        """Return the seconds until a pause ends by itself, or None."""
        return None if pause.until is None else max(0.0, (pause.until - self._time().now()).total_seconds())

    def _pause_of(self, message: Message) -> Pause | None:
        if not self._pauses:
            return None
        keys = {f"{kind}:{message.attributes[name]}" for kind, name in _PAUSE_KEYS if name in message.attributes}
        return next((pause for pause in self._pauses if pause.key in keys), None)

    def _postpone(self, message: Message, record: ClaimRecord, pause: Pause) -> Steps[Disposition | None]:
        """Let a paused message wait: not for long, so that it goes on soon after somebody has resumed."""
        left = self._until(pause)
        delay = _PAUSE_CHECK if left is None else min(_PAUSE_CHECK, left)
        return (
            yield from self._let_wait(message, record, delay, f"{pause.key} is paused by {pause.by}: {pause.reason}")
        )

    def _let_wait(self, message: Message, record: ClaimRecord, delay: float, reason: str) -> Steps[Disposition | None]:
        """Let a message wait that nobody may send now; that is no try."""
        settled = yield from do(
            self._backend.claims.settle,
            machine.decided(record, Decision(Action.RETRY, delay, reason)),
            record.seq,
            delay=delay,
        )
        if settled is None:
            return None
        yield from self._projection.show(settled, message)
        return attrs.evolve(disposition_of(settled), failure=None, reason=reason)


def _refused_for(refused: CallRefusedError) -> float:
    """Return the seconds after which a refused call is tried again."""
    return _PAUSE_CHECK if refused.retry_after is None else max(_LEAST_REFUSAL, refused.retry_after)


def _sent(record: ClaimRecord, sent: Sent) -> ClaimRecord:
    return machine.sent(record, provider=sent.provider, provider_id=sent.provider_id)


def _as_sent(send: object, result: object) -> Sent:
    """Return what a send answered.

    Raises:
        ConfigurationError: it is none that a send may give; nobody knows what it stands for, so the outcome is unknown.
    """
    if isinstance(result, Sent):
        return result
    if result is None or isinstance(result, str):
        return Sent(result)
    raise ConfigurationError(
        f"{send!r} gave {type(result).__name__}; allowed are None, the provider's id, or Sent(...); a refusal is raised"
    )


def _duplicate(record: ClaimRecord) -> Disposition:
    settled = disposition_of(record)
    return attrs.evolve(settled, kind=DispositionKind.DUPLICATE, settled=settled.kind)
