"""What a guard does, for both colours: claim, answer from the record, settle.

Two round trips for a call, one for a repetition. The claim marks that the work begins, so a caller who is lost leaves an unknown
outcome, which is looked up and never simply repeated; the settlement stores what the call gave. Who comes too late with a result
that another has meanwhile claimed away reports the effect all the same: it is a fact.

A transactional call is settled within the transaction that has its effect. Its claim does not mark that the work begins, since a caller
who is lost there has done nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable, Collection, Iterable
from contextvars import Token
from itertools import count
from time import monotonic
from typing import Any, Final, Literal, TypeAlias, TypedDict

import attrs

from .._steps import Steps, do
from ..checks import check_options
from ..classification import ErrorClassifier
from ..clock import Clock, current_clock
from ..codec import pack, unpack
from ..decision import Action, Decision, DispositionKind
from ..delivery.lookup import AsyncStatusLookup, NotAccepted, Sent, StatusLookup
from ..draining import outlasts_drain
from ..errors import (
    AlreadyInProgressError,
    ConfigurationError,
    FingerprintMismatchError,
    HoldLostError,
    InvalidPayloadError,
    OutcomeUnknownError,
    ResultLostError,
    StoredFailureError,
    StoreError,
)
from ..events import Listener, OutcomeVerified, emit, listeners_of
from ..failure import ErrorGroup, Failure, Outcome
from ..lease import new_owner
from ..machines import claim as machine
from ..machines.claim import ClaimRecord
from ..retrying.functions import check_parts
from ..stores.claims import (
    AsyncClaimStore,
    Claimed,
    ClaimStore,
    Done,
    InProgress,
    NotDue,
    PoisonRule,
    Replaced,
    Suspect,
    Unknown,
)
from ..times import Duration, seconds
from .entering import NotEnteredError, plainly, was_entered_by
from .hold import Hold
from .hold import _current as current  # pyright: ignore[reportPrivateUsage]
from .keys import Keys
from .renewal import AsyncRenewals, Renewals

__all__ = ["GuardFlow", "GuardOptions", "OnUnknown"]

OnUnknown: TypeAlias = Literal["raise", "repeat"]
"""What becomes of a call whose predecessor may have had its effect, where nobody can tell."""

_NEVER: Final = PoisonRule(limit=1_000_000_000)
_FIRST_PAUSE: Final = 0.02
_LONGEST_PAUSE: Final = 1.0
_PUTS: Final = 2
"""How often a settlement is tried."""


def _lease(value: Duration) -> float:
    return seconds(value, "lease", positive=True)


def _ttl(value: Duration | None) -> float | None:
    return None if value is None else seconds(value, "ttl", positive=True)


def _wait(value: Duration) -> float:
    return seconds(value, "wait")


def _classifier(value: ErrorClassifier | None) -> ErrorClassifier:
    return ErrorClassifier() if value is None else value


def _groups(value: Collection[ErrorGroup]) -> frozenset[ErrorGroup]:
    try:
        return frozenset(ErrorGroup(group) for group in value)
    except (TypeError, ValueError):
        allowed = ", ".join(repr(group.value) for group in ErrorGroup)
        raise ConfigurationError(f"keeps is {value!r}; allowed is a list of groups of failures: {allowed}") from None


class GuardOptions(TypedDict, total=False):
    """What either guard may be told besides its store."""

    lease: Duration
    """For how long a call is trusted to be alive without a word; renewed while it runs. Default 30 seconds."""
    ttl: Duration | None
    """For how long a key counts as used, and its result is kept, unless the store is purged earlier; None: for good. Default 24 h."""
    wait: Duration
    """How long to wait for another who is at work under the same key, before `AlreadyInProgressError`. Default: not at all."""
    namespace: str
    """What the keys belong to, such as a tenant's name: one key in two namespaces is two keys. It has up to 252 characters, and 253
    together with a key. Default none."""
    lookup: StatusLookup | AsyncStatusLookup | None
    """Asks the other side whether a call whose outcome is unknown had its effect. Default none."""
    recover: Callable[[str | None], object] | None
    """Makes the result of a call that is known to be done and whose result is not on record, from the other side's id (None where
    that is not known). Default none: `ResultLostError`."""
    on_unknown: OnUnknown
    """What becomes of a call whose predecessor may have had its effect, where nobody can tell, the lookup included: "raise"
    `OutcomeUnknownError`, or "repeat" it, for calls that may happen twice. Default "raise"."""
    keeps: Collection[ErrorGroup]
    """Groups of failures that are kept as the answer, as a result is: `StoredFailureError` from then on. Others leave the key free
    if they had no effect. Default: the recipient and the content for good."""
    encode: Callable[[Any], bytes]
    """Writes a result, as UTF-8. Default JSON, with instants, bytes, decimals and UUIDs."""
    decode: Callable[[bytes], Any]
    """Reads it."""
    classifier: ErrorClassifier | None
    """How failures are recognised. Default: the built-in rules."""
    on_event: Iterable[Listener]
    """Listeners, told of lookups (`OutcomeVerified`). Default none."""
    clock: Clock | None
    """Where the time of waits comes from. Default: the clock in force."""
    transactional: bool
    """Whether the effect is a change in the database that holds the claims, committed together with its completion by `complete`. A
    call that is lost or fails had no effect then, and is made again; its outcome is never unknown. Default False."""


_ALLOWED_UNKNOWN: Final = ("raise", "repeat")


@attrs.frozen(kw_only=True)
class _Checked:
    """`GuardOptions`, checked and with their defaults."""

    lease: float = attrs.field(default=30.0, converter=_lease)
    ttl: float | None = attrs.field(default=86_400.0, converter=_ttl)
    wait: float = attrs.field(default=0.0, converter=_wait)
    namespace: str = ""
    lookup: StatusLookup | AsyncStatusLookup | None = None
    recover: Callable[[str | None], object] | None = None
    on_unknown: OnUnknown = "raise"
    keeps: frozenset[ErrorGroup] = attrs.field(
        default=frozenset({ErrorGroup.PERMANENT_RECIPIENT, ErrorGroup.CONTENT_POLICY}), converter=_groups
    )
    encode: Callable[[Any], bytes] = pack
    decode: Callable[[bytes], Any] = unpack
    classifier: ErrorClassifier = attrs.field(default=None, converter=_classifier)
    on_event: tuple[Listener, ...] = attrs.field(default=(), converter=listeners_of)
    clock: Clock | None = None
    transactional: bool = False

    def __attrs_post_init__(self) -> None:
        """Check what converters do not."""
        check_parts(classifier=self.classifier, clock=self.clock)
        if self.on_unknown not in _ALLOWED_UNKNOWN:
            raise ConfigurationError(f"on_unknown is {self.on_unknown!r}; allowed are 'raise' and 'repeat'")
        if not isinstance(self.transactional, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"transactional is {self.transactional!r}; allowed are True and False")
        if self.transactional and (self.lookup is not None or self.on_unknown != "raise"):
            name = "on_unknown" if self.lookup is None else "lookup"
            raise ConfigurationError(
                f"the guard is transactional and has {name}=; allowed is one of them: the outcome of a transactional call is never unknown"
            )
        for name in ("lookup", "recover", "encode", "decode"):
            value = getattr(self, name)
            if not callable(value) and not (value is None and name in ("lookup", "recover")):
                raise ConfigurationError(f"{name} is {value!r}; allowed is a function")


class GuardFlow:
    """The logic of a guard, in steps.

    Args:
        store: the claims.
        renewals: makes what keeps leases alive, for a lease of so many seconds.
        sleep: the clock's sleep of the guard's colour.
        options: see `GuardOptions`.
    """

    def __init__(
        self,
        store: ClaimStore | AsyncClaimStore,
        renewals: Callable[[float], Renewals | AsyncRenewals],
        sleep: Callable[[Clock], Callable[[float], Awaitable[None] | None]],
        options: GuardOptions,
    ) -> None:
        if not callable(getattr(store, "claim", None)):
            raise ConfigurationError(f"store is {store!r}; allowed is a store of claims: backend.claims")
        check_options(options, GuardOptions.__annotations__, "a guard")
        self._options: Final = _Checked(**options)
        self._keys: Final = Keys(self._options.namespace)
        self._store: Final = store
        self._renewals: Final = renewals(self._options.lease)
        self._sleep: Final = sleep
        self._owner: Final = new_owner()
        self._holds: Final = count(1)

    @property
    def is_transactional(self) -> bool:
        """Whether calls are completed by `complete`."""
        return self._options.transactional

    @property
    def room(self) -> int:
        """Characters that a key may have."""
        return self._keys.room

    def _time(self) -> Clock:
        return self._options.clock or current_clock()

    def guarded(self, key: str, payload: object, fn: Callable[[], object]) -> Steps[object]:
        """Call a function under a key, or return what it gave before."""
        hold, token = yield from self.enter(key, payload)
        if token is None:
            return hold.result
        try:
            result = yield from do(fn if isinstance(self._renewals, AsyncRenewals) else plainly(fn))
        except NotEnteredError as error:
            yield from self.fail(hold, token, error, was_entered=False)
            raise TypeError(str(error)) from None
        except BaseException as error:
            yield from self.fail(hold, token, error, was_entered=was_entered_by(fn, error))
            raise
        yield from self.leave(hold, token, result)
        return result

    def enter(self, key: str, payload: object) -> Steps[tuple[Hold, Token[Hold | None] | None]]:
        """Claim a key until it is held or known to be done; wait for others as long as is allowed.

        Returns:
            The hold; with it, where the work is to be done, what ends it.
        """
        options, store_key = self._options, self._keys.stored(key)
        owner = f"{self._owner}/{next(self._holds)}"
        fingerprint = None if payload is None else _digest(payload)
        clock, began, pause = self._time(), self._time().monotonic(), _FIRST_PAUSE
        while True:
            deadline = monotonic() + options.lease
            try:
                answer = yield from do(
                    self._store.claim,
                    store_key,
                    owner=owner,
                    fingerprint=fingerprint,
                    lease=options.lease,
                    poison=_NEVER,
                    sending=not options.transactional,
                    ttl=options.ttl,
                )
            except FingerprintMismatchError:
                raise FingerprintMismatchError(key) from None
            match answer:
                case Claimed(record):
                    hold = Hold(key, store_key, record, deadline, is_new=True)
                    self._renewals.start(hold)
                    return hold, current.set(hold)
                case Done(record):
                    hold = Hold(key, store_key, record, deadline, is_new=False)
                    hold.result = self._replayed(key, record)
                    return hold, None
                case Unknown(record):
                    yield from self._find_out(key, record)
                case InProgress(_, until) | NotDue(_, until):
                    left = options.wait - (clock.monotonic() - began)
                    if left <= 0 or outlasts_drain(min(pause, left)):
                        raise AlreadyInProgressError(key, (until - clock.now()).total_seconds())
                    yield from do(self._sleep(clock), min(pause, left))
                    pause = min(pause * 2, _LONGEST_PAUSE)
                case Replaced():  # somebody has put the call back with another payload
                    raise FingerprintMismatchError(key)
                case _:  # suspects are granted to whoever does not say otherwise
                    assert not isinstance(answer, Suspect)

    def _replayed(self, key: str, record: ClaimRecord) -> object:
        """Return what the call gave when it was done."""
        if record.disposition is not DispositionKind.SENT:
            raise StoredFailureError(key, record.failure)
        if record.result is not None:
            return self._options.decode(record.result.encode())
        if self._options.recover is not None:
            return self._options.recover(record.provider_id)
        raise ResultLostError(key)

    def leave(self, hold: Hold, token: Token[Hold | None], result: object) -> Steps[None]:
        """Settle a call that gave a result, unless `complete` has.

        Raises:
            ConfigurationError: it has not, and it should have.
        """
        self._end(hold, token)
        if hold.is_completed:
            return
        yield from self._settle_done(hold, result)
        if self._options.transactional:
            raise ConfigurationError(
                f"the call with the key {hold.key!r} returned without being completed, and is recorded as done since it may have been "
                "committed; call guard.complete(hold, result, within=...) in its transaction, and let the errors of that leave the call"
            )

    def _settle_done(self, hold: Hold, result: object) -> Steps[None]:
        packed = self._packed(hold, result)
        settled = machine.sent(hold.record, result=packed)
        for attempt in range(_PUTS):
            try:
                stored = yield from do(self._store.settle, settled, hold.record.seq)
                if stored is None:  # another has taken over; that the effect has happened is a fact all the same
                    yield from do(self._store.confirm, hold.store_key)
            except StoreError as error:
                if attempt + 1 == _PUTS:
                    _log("the call with the key %r was done and that could not be stored: %s", hold.key, error)
            else:
                return

    def complete(self, hold: Hold | None, result: object, within: ClaimStore | AsyncClaimStore) -> Steps[None]:
        """Settle a call within the transaction that has its effect.

        Raises:
            HoldLostError: somebody else has taken over.
            ConfigurationError: there is nothing that this may complete, or `within` is no store of a transaction.
        """
        hold = self._completable(hold)
        if within is self._store or not callable(getattr(within, "settle", None)):
            seen = "the store of the guard itself" if within is self._store else repr(within)
            raise ConfigurationError(
                f"within is {seen}; allowed are the claims of the transaction: backend.using(connection).claims"
            )
        settled = machine.sent(hold.record, result=self._options.encode(result).decode())
        if (yield from do(within.settle, settled, hold.record.seq)) is None:
            now = (yield from do(within.get, hold.store_key)) if hold.is_completed else None
            if now is not None and (now.state, now.seq) == (settled.state, settled.seq):
                raise ConfigurationError(
                    f"{hold!r} was completed before, with another result; complete a call once in its transaction, and again only in one "
                    "that repeats it after a rollback"
                )
            hold.is_lost = True
            raise HoldLostError(hold.key)
        hold.is_completed, hold.result = True, result
        self._renewals.stop(hold)  # a renewal would wait for the transaction, and there is nothing to renew after it

    def _completable(self, hold: Hold | None) -> Hold:
        """Return a hold that `complete` may settle."""
        if not self._options.transactional:
            raise ConfigurationError("only calls of a guard with transactional=True are completed in a transaction")
        if hold is None:
            what = "the hold is None: no guarded call is running here"
        elif not hold.is_new:
            what = f"{hold!r} was done before"
        elif hold.is_over:
            what = f"{hold!r} is of a call that has ended"
        elif hold.record.lease is None or not hold.record.lease.owner.startswith(f"{self._owner}/"):
            what = f"{hold!r} is of another guard"
        else:
            return hold
        raise ConfigurationError(f"{what}; allowed is the hold of a call of this guard, while it runs")

    def _packed(self, hold: Hold, result: object) -> str | None:
        try:
            return self._options.encode(result).decode()
        except Exception as error:  # noqa: BLE001 - whatever an application's encoder does: the effect has happened
            _log("the call with the key %r was done; what it gave cannot be kept: %s", hold.key, error)
            return None

    def fail(
        self, hold: Hold, token: Token[Hold | None], error: BaseException, *, was_entered: bool = True
    ) -> Steps[None]:
        """Settle a call that failed: free where it had no effect, done where that is for good, else unknown."""
        self._end(hold, token)
        record = hold.record
        if isinstance(error, Exception):
            failure = self._options.classifier.classify(error, stage="send" if was_entered else "call")
            settled = self._after(record, failure)
        else:  # told to stop in the middle
            settled = machine.interrupted(record)
        try:
            yield from do(self._store.settle, settled, record.seq)
        except StoreError as broken:
            _log("the failed call with the key %r could not be settled: %s", hold.key, broken)

    def _after(self, record: ClaimRecord, failure: Failure) -> ClaimRecord:
        now = self._time().now()
        if self._options.transactional and failure.outcome is Outcome.UNKNOWN:
            failure = attrs.evolve(
                failure, outcome=Outcome.NOT_SENT
            )  # else `complete` has settled it, and this is refused
        asks = self._options.on_unknown == "raise" or self._options.lookup is not None
        may_have_happened = failure.outcome is Outcome.UNKNOWN and asks
        if not may_have_happened and failure.group not in self._options.keeps:
            return machine.released(record, failure, failed_at=now)
        action = Action.VERIFY if may_have_happened else Action.DISCARD
        reason = f"{failure.error_class}, {'may have been done' if may_have_happened else 'kept as the answer'}"
        return machine.failed(record, failure, Decision(action, 0.0, reason), failed_at=now)

    def _end(self, hold: Hold, token: Token[Hold | None]) -> None:
        hold.is_over = True
        self._renewals.stop(hold)
        try:  # noqa: SIM105 - suppress costs as much as the rest
            current.reset(token)
        except ValueError:  # a block that was entered in another context
            pass

    def confirm(self, key: str, provider_id: str | None) -> Steps[bool]:
        """Record that the effect of an unknown call is known to have happened; False where that is not asked."""
        return self._say(key, lambda record: machine.sent(record, provider_id=provider_id))

    def release(self, key: str) -> Steps[bool]:
        """Record that the effect of an unknown call is known not to have happened; False where that is not asked."""
        decision = Decision(Action.RETRY, 0.0, "released: it was not done")
        return self._say(key, lambda record: machine.decided(record, decision))

    def _say(self, key: str, following: Callable[[ClaimRecord], ClaimRecord]) -> Steps[bool]:
        store_key, owner = self._keys.stored(key), f"{self._owner}/{next(self._holds)}"
        record = yield from do(self._store.claim_unknown, store_key, owner=owner, lease=self._options.lease)
        if record is None:
            return False
        return (yield from do(self._store.settle, following(record), record.seq)) is not None

    def _find_out(self, key: str, record: ClaimRecord) -> Steps[None]:
        """Ask whether an earlier call had its effect; come back when the key may be claimed again.

        Raises:
            OutcomeUnknownError: nobody can tell.
        """
        found: Sent | NotAccepted | None = None
        broken: Exception | None = None
        if self._options.lookup is not None:
            try:
                found = _checked_answer((yield from do(self._options.lookup, key)))
            except Exception as error:  # noqa: BLE001 - whatever a lookup raises or gives: nobody can tell
                broken = error
            self._tell(key, found, broken)
        if isinstance(found, Sent):
            yield from do(self._store.confirm, record.key, provider=found.provider, provider_id=found.provider_id)
            return
        if found is not None or self._options.on_unknown == "repeat":
            reason = "it was not done" if found is not None else "repeated by choice"
            decision = Decision(Action.RETRY, 0.0, reason)
            yield from do(self._store.settle, machine.decided(record, decision), record.seq)
            return
        decision = Decision(Action.VERIFY, 0.0, "nobody can tell whether it was done")
        yield from do(self._store.settle, machine.decided(record, decision), record.seq)
        raise OutcomeUnknownError(key) from broken

    def _tell(self, key: str, found: object, broken: Exception | None) -> None:
        if self._options.on_event:
            accepted = None if found is None else isinstance(found, Sent)
            error = None if broken is None else f"{type(broken).__name__}: {broken}"
            emit(
                self._options.on_event,
                OutcomeVerified(at=self._time().now(), message_id=key, accepted=accepted, error=error),
            )


def _checked_answer(value: object) -> Sent | NotAccepted | None:
    if value is None or isinstance(value, (Sent, NotAccepted)):
        return value
    raise ConfigurationError(
        f"lookup= gave {type(value).__name__}; allowed are Sent(...), NotAccepted(), or None if it cannot tell"
    )


def _log(text: str, *args: object) -> None:
    import logging  # only on the failing path

    logging.getLogger("retrykit.guard").warning(text, *args)


def _digest(payload: object) -> str:
    """Return the fingerprint of what a key belongs to; the order of a mapping's keys makes no difference."""
    try:
        plain = json.loads(pack(payload))
    except InvalidPayloadError as error:
        raise ConfigurationError(
            f"what the fingerprint is made of cannot be written as JSON: {error}; choose fields that can"
        ) from None
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()[:32]
