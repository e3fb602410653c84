"""The claim store: one record per message, on which every decision rests.

Guarantees every store has to give, and every method relies on:

- each operation is atomic: of many claimers racing for a key exactly one is answered `Claimed`;
- a holder is fenced by its token: `begin_send`, `renew` and `settle` are refused (None) once somebody else has taken
  over; only `confirm`, `cancel` and `reopen` need no token;
- time is the store's own: a wait or a lease is never over early by its clock;
- every operation may be repeated after a lost answer;
- what was called under a guard is never offered as a send to find out about;
- records of unfinished messages never expire, and tokens never restart while there is a record;
- with each change of a record the marks of its payload change as `retrykit.machines.poison` says: `mark_of` adds one, `cleared`
  takes them away, and `claim` hands those of its fingerprint to `take`. A store that cannot reach both in one atomic command
  writes the record first; a mark that a crash between the two loses is missed by nobody but the rule that counts it.
"""

from __future__ import annotations

import abc
from collections.abc import Awaitable, Sequence
from datetime import datetime
from typing import cast, final

from .._steps import Steps, arun, do, run
from ..checks import check_limit
from ..machines.claim import (
    ClaimAnswer,
    Claimed,
    ClaimRecord,
    ClaimState,
    ClaimTerms,
    Counters,
    Done,
    InProgress,
    NotDue,
    PoisonRule,
    ReopenTerms,
    Replaced,
    Suspect,
    Unknown,
)
from ..machines.poison import last_words
from ..message import check_id
from ..times import Duration, seconds, utc

__all__ = [
    "AsyncClaimStore",
    "ClaimAnswer",
    "ClaimRecord",
    "ClaimState",
    "ClaimStore",
    "ClaimTerms",
    "Claimed",
    "Counters",
    "Done",
    "InProgress",
    "NotDue",
    "PoisonRule",
    "ReopenTerms",
    "Replaced",
    "Suspect",
    "Unknown",
]


class _Claims(abc.ABC):
    """The one logic of both colours: check, then call the primitive."""

    @abc.abstractmethod
    def _claim(
        self, key: str, fingerprint: str | None, owner: str, lease: float, terms: ClaimTerms
    ) -> Awaitable[ClaimAnswer] | ClaimAnswer: ...

    @abc.abstractmethod
    def _claim_unknown(
        self, key: str, owner: str, lease: float
    ) -> Awaitable[ClaimRecord | None] | ClaimRecord | None: ...

    @abc.abstractmethod
    def _begin_send(self, key: str, token: int, lease: float) -> Awaitable[ClaimRecord | None] | ClaimRecord | None: ...

    @abc.abstractmethod
    def _renew(self, key: str, token: int, lease: float) -> Awaitable[ClaimRecord | None] | ClaimRecord | None: ...

    @abc.abstractmethod
    def _settle(
        self, record: ClaimRecord, token: int, delay: float
    ) -> Awaitable[ClaimRecord | None] | ClaimRecord | None: ...

    @abc.abstractmethod
    def _confirm(
        self, key: str, provider: str | None, provider_id: str | None
    ) -> Awaitable[ClaimRecord] | ClaimRecord: ...

    @abc.abstractmethod
    def _cancel(self, key: str) -> Awaitable[ClaimRecord] | ClaimRecord: ...

    @abc.abstractmethod
    def _reopen(self, key: str, terms: ReopenTerms) -> Awaitable[ClaimRecord] | ClaimRecord: ...

    @abc.abstractmethod
    def _get(self, key: str) -> Awaitable[ClaimRecord | None] | ClaimRecord | None: ...

    @abc.abstractmethod
    def _unsettled(self, limit: int) -> Awaitable[Sequence[str]] | Sequence[str]: ...

    @abc.abstractmethod
    def _purge(self, before: datetime, limit: int) -> Awaitable[int] | int: ...

    def _claim_flow(
        self,
        key: str,
        fingerprint: str | None,
        owner: str,
        lease: Duration,
        poison: PoisonRule,
        sending: bool,
        ttl: Duration | None,
        suspects: bool,
        lost: str | None,
    ) -> Steps[ClaimAnswer]:
        length = seconds(lease, "lease", positive=True)
        terms = ClaimTerms(
            poison=poison,
            sending=sending,
            ttl=None if ttl is None else seconds(ttl, "ttl", positive=True),
            suspects=suspects,
            lost=last_words(lost),
        )
        answer = yield from do(self._claim, check_id(key, "key"), fingerprint, owner, length, terms)
        return cast("ClaimAnswer", answer)  # checkers widen the union

    def _claim_unknown_flow(self, key: str, owner: str, lease: Duration) -> Steps[ClaimRecord | None]:
        length = seconds(lease, "lease", positive=True)
        return (yield from do(self._claim_unknown, check_id(key, "key"), owner, length))

    def _begin_send_flow(self, key: str, token: int, lease: Duration) -> Steps[ClaimRecord | None]:
        length = seconds(lease, "lease", positive=True)
        return (yield from do(self._begin_send, check_id(key, "key"), token, length))

    def _renew_flow(self, key: str, token: int, lease: Duration) -> Steps[ClaimRecord | None]:
        length = seconds(lease, "lease", positive=True)
        return (yield from do(self._renew, check_id(key, "key"), token, length))

    def _settle_flow(self, record: ClaimRecord, token: int, delay: Duration) -> Steps[ClaimRecord | None]:
        return (yield from do(self._settle, record, token, seconds(delay, "delay")))

    def _confirm_flow(self, key: str, provider: str | None, provider_id: str | None) -> Steps[ClaimRecord]:
        return (yield from do(self._confirm, check_id(key, "key"), provider, provider_id))

    def _cancel_flow(self, key: str) -> Steps[ClaimRecord]:
        return (yield from do(self._cancel, check_id(key, "key")))

    def _reopen_flow(self, key: str, terms: ReopenTerms) -> Steps[ClaimRecord]:
        return (yield from do(self._reopen, check_id(key, "key"), terms))

    def _get_flow(self, key: str) -> Steps[ClaimRecord | None]:
        return (yield from do(self._get, check_id(key, "key")))

    def _unsettled_flow(self, limit: int) -> Steps[Sequence[str]]:
        return (yield from do(self._unsettled, check_limit(limit)))

    def _purge_flow(self, before: datetime, limit: int) -> Steps[int]:
        return (yield from do(self._purge, utc(before, "before"), check_limit(limit)))


class ClaimStore(_Claims):
    """Claim records, for synchronous callers. Subclass it and write the eleven primitives.

    The pure functions of `retrykit.machines.claim` say what each operation does to the record; a primitive loads the
    record, applies its function and stores the result, all in one atomic command. Those of `retrykit.machines.poison` say
    which marks of its payload go with it.
    """

    @abc.abstractmethod
    def _claim(self, key: str, fingerprint: str | None, owner: str, lease: float, terms: ClaimTerms) -> ClaimAnswer: ...

    @abc.abstractmethod
    def _claim_unknown(self, key: str, owner: str, lease: float) -> ClaimRecord | None: ...

    @abc.abstractmethod
    def _begin_send(self, key: str, token: int, lease: float) -> ClaimRecord | None: ...

    @abc.abstractmethod
    def _renew(self, key: str, token: int, lease: float) -> ClaimRecord | None: ...

    @abc.abstractmethod
    def _settle(self, record: ClaimRecord, token: int, delay: float) -> ClaimRecord | None: ...

    @abc.abstractmethod
    def _confirm(self, key: str, provider: str | None, provider_id: str | None) -> ClaimRecord: ...

    @abc.abstractmethod
    def _cancel(self, key: str) -> ClaimRecord: ...

    @abc.abstractmethod
    def _reopen(self, key: str, terms: ReopenTerms) -> ClaimRecord: ...

    @abc.abstractmethod
    def _get(self, key: str) -> ClaimRecord | None: ...

    @abc.abstractmethod
    def _unsettled(self, limit: int) -> Sequence[str]: ...

    @abc.abstractmethod
    def _purge(self, before: datetime, limit: int) -> int: ...

    @final
    def claim(
        self,
        key: str,
        *,
        owner: str,
        fingerprint: str | None = None,
        lease: Duration = 30.0,
        poison: PoisonRule = PoisonRule(),  # noqa: B008 - an immutable value
        sending: bool = False,
        ttl: Duration | None = None,
        suspects: bool = True,
        lost: str | None = None,
    ) -> ClaimAnswer:
        """Ask for the work on `key`.

        Args:
            key: the message id, 1 to 255 characters.
            owner: who asks; a name of its own for every hold, since a repeated claim by the same owner is granted again.
            fingerprint: a digest of the payload, to spot a key that is used for another one; None does not look.
            lease: for how long the caller wants to hold it, > 0.
            poison: over how many crashes, or failures of its payload, the message is settled as poison instead of granted.
            sending: whether the send begins with the claim, which saves `begin_send`: a holder that is lost may have sent.
            ttl: for how long a settled key counts; after that it is granted as if it were new. None: for good.
            suspects: whether a message that a worker was lost with is granted as well; False answers `Suspect`, so that it can
                be run while nothing else is.
            lost: how the worker ended that held it before, as somebody saw it, such as "signal 11 (SIGSEGV)": it is written
                into the crash that this claim notices, or a later one of the same lease. One line of 200 characters is kept.

        Returns:
            `Claimed` when nobody holds it, it is not settled and no wait is running; a holder whose lease ended before
            the send counts as a crash, and the message as a suspect (`Suspect` where those were not wanted). `Unknown` when it may have been sent. `NotDue`, `InProgress` or `Done` otherwise.

        Raises:
            FingerprintMismatchError: the key was claimed before with another payload.
            InvalidMessageError: the key is not allowed.
            ConfigurationError: another value is not allowed.
        """
        return run(self._claim_flow(key, fingerprint, owner, lease, poison, sending, ttl, suspects, lost))

    @final
    def claim_unknown(self, key: str, *, owner: str, lease: Duration = 30.0) -> ClaimRecord | None:
        """Take hold of a message whose outcome is unknown, to find out about it; None when there is nothing to find out.

        Args:
            key: the message id.
            owner: who asks; a name of its own for every hold, since the same owner is given its hold again.
            lease: for how long the caller wants to hold it, > 0.
        """
        return run(self._claim_unknown_flow(key, owner, lease))

    @final
    def begin_send(self, key: str, token: int, *, lease: Duration) -> ClaimRecord | None:
        """Mark that the send begins, and renew the lease.

        Args:
            key: the message id.
            token: the `seq` of the record that `Claimed` carried.
            lease: seconds from now; the send has to end before.

        Returns:
            The record in state `sending`, or None when somebody else has taken over: then go back to `claim`.
        """
        return run(self._begin_send_flow(key, token, lease))

    @final
    def renew(self, key: str, token: int, *, lease: Duration = 30.0) -> ClaimRecord | None:
        """Hold the message longer.

        Args:
            key: the message id.
            token: the `seq` of the record that is held; it stays the same.
            lease: for how long from now on, > 0.

        Returns:
            The record with its new deadline, or None when somebody else has taken over: then stop the work.
        """
        return run(self._renew_flow(key, token, lease))

    @final
    def settle(self, record: ClaimRecord, token: int, *, delay: Duration = 0.0) -> ClaimRecord | None:
        """Store a decision: the first write after the outcome of a try is known.

        Args:
            record: the next record, made by one of the functions of `retrykit.machines.claim`.
            token: the `seq` of the record that was held.
            delay: seconds from now until a waiting or unknown message is due.

        Returns:
            The record as stored, or None when somebody else decides: then go back to `claim`.
        """
        return run(self._settle_flow(record, token, delay))

    @final
    def confirm(self, key: str, *, provider: str | None = None, provider_id: str | None = None) -> ClaimRecord:
        """Record that the provider is known to have accepted the message: a fact, so it needs no token.

        Args:
            key: the message id.
            provider: who accepted it, where known.
            provider_id: the provider's own id, where known.
        """
        return run(self._confirm_flow(key, provider, provider_id))

    @final
    def cancel(self, key: str) -> ClaimRecord:
        """Take a message back that nobody works on: settled as discarded, so that no copy of it is sent any more.

        Also of a key never claimed. What is settled already, is held by somebody, or may have been sent stays as it is.

        Args:
            key: the message id.

        Returns:
            The record afterwards; its disposition is `discarded` if the message will not be sent.
        """
        return run(self._cancel_flow(key))

    @final
    def reopen(self, key: str, terms: ReopenTerms) -> ClaimRecord:
        """Put a settled message back into circulation from its dead letter: the next generation, with counters of its own.

        Somebody vouches for it: whatever came of its payload, and of those that it had before, does not count any more.

        The history stays. Also of a key whose record was purged. A message that was sent, is in circulation, or has died again since,
        stays as it is. One of which nobody knows whether it was sent becomes unknown, to be verified before it is tried again.

        Args:
            key: the message id.
            terms: which letter, and whether its payload was edited.

        Returns:
            The record afterwards; the message was put back, now or before, if its `redriven_from` is the letter.
        """
        return run(self._reopen_flow(key, terms))

    @final
    def get(self, key: str) -> ClaimRecord | None:
        """Return the record of `key`, or None when it was never claimed."""
        return run(self._get_flow(key))

    @final
    def unsettled(self, limit: int = 100) -> Sequence[str]:
        """Return up to `limit` keys about which it is time to find out whether a send had happened, longest due first.

        Keys of guarded calls (`ClaimRecord.is_call`) are not among them: what was done there only their callers know to ask.
        """
        return run(self._unsettled_flow(limit))

    @final
    def purge(self, before: datetime, *, limit: int = 1000) -> int:
        """Delete records of messages that were settled before an instant, longest settled first.

        A copy of a message whose record is gone is sent again: keep records for longer than the application's queue may
        deliver an old copy. Records of unfinished messages are never deleted. What was noted before that instant of payloads
        that failed or killed goes as well.

        Args:
            before: aware.
            limit: how many at the most, at least 1; repeat while it gives as many.

        Returns:
            How many were deleted.

        Raises:
            ConfigurationError: `before` is naive.
        """
        return run(self._purge_flow(before, limit))


class AsyncClaimStore(_Claims):
    """`ClaimStore` for asynchronous callers: the same names, answers and guarantees."""

    @abc.abstractmethod
    async def _claim(
        self, key: str, fingerprint: str | None, owner: str, lease: float, terms: ClaimTerms
    ) -> ClaimAnswer: ...

    @abc.abstractmethod
    async def _claim_unknown(self, key: str, owner: str, lease: float) -> ClaimRecord | None: ...

    @abc.abstractmethod
    async def _begin_send(self, key: str, token: int, lease: float) -> ClaimRecord | None: ...

    @abc.abstractmethod
    async def _renew(self, key: str, token: int, lease: float) -> ClaimRecord | None: ...

    @abc.abstractmethod
    async def _settle(self, record: ClaimRecord, token: int, delay: float) -> ClaimRecord | None: ...

    @abc.abstractmethod
    async def _confirm(self, key: str, provider: str | None, provider_id: str | None) -> ClaimRecord: ...

    @abc.abstractmethod
    async def _cancel(self, key: str) -> ClaimRecord: ...

    @abc.abstractmethod
    async def _reopen(self, key: str, terms: ReopenTerms) -> ClaimRecord: ...

    @abc.abstractmethod
    async def _get(self, key: str) -> ClaimRecord | None: ...

    @abc.abstractmethod
    async def _unsettled(self, limit: int) -> Sequence[str]: ...

    @abc.abstractmethod
    async def _purge(self, before: datetime, limit: int) -> int: ...

    @final
    async def claim(
        self,
        key: str,
        *,
        owner: str,
        fingerprint: str | None = None,
        lease: Duration = 30.0,
        poison: PoisonRule = PoisonRule(),  # noqa: B008 - an immutable value
        sending: bool = False,
        ttl: Duration | None = None,
        suspects: bool = True,
        lost: str | None = None,
    ) -> ClaimAnswer:
        """Ask for the work on `key`, as `ClaimStore.claim`."""
        return await arun(self._claim_flow(key, fingerprint, owner, lease, poison, sending, ttl, suspects, lost))

    @final
    async def claim_unknown(self, key: str, *, owner: str, lease: Duration = 30.0) -> ClaimRecord | None:
        """Take hold of a message whose outcome is unknown, as `ClaimStore.claim_unknown`."""
        return await arun(self._claim_unknown_flow(key, owner, lease))

    @final
    async def begin_send(self, key: str, token: int, *, lease: Duration) -> ClaimRecord | None:
        """Mark that the send begins, as `ClaimStore.begin_send`."""
        return await arun(self._begin_send_flow(key, token, lease))

    @final
    async def renew(self, key: str, token: int, *, lease: Duration = 30.0) -> ClaimRecord | None:
        """Hold the message longer, as `ClaimStore.renew`."""
        return await arun(self._renew_flow(key, token, lease))

    @final
    async def settle(self, record: ClaimRecord, token: int, *, delay: Duration = 0.0) -> ClaimRecord | None:
        """Store a decision, as `ClaimStore.settle`."""
        return await arun(self._settle_flow(record, token, delay))

    @final
    async def confirm(self, key: str, *, provider: str | None = None, provider_id: str | None = None) -> ClaimRecord:
        """Record a known acceptance, as `ClaimStore.confirm`."""
        return await arun(self._confirm_flow(key, provider, provider_id))

    @final
    async def cancel(self, key: str) -> ClaimRecord:
        """Take a message back that nobody works on, as `ClaimStore.cancel`."""
        return await arun(self._cancel_flow(key))

    @final
    async def reopen(self, key: str, terms: ReopenTerms) -> ClaimRecord:
        """Put a settled message back into circulation, as `ClaimStore.reopen`."""
        return await arun(self._reopen_flow(key, terms))

    @final
    async def get(self, key: str) -> ClaimRecord | None:
        """Return the record of `key`, or None when it was never claimed."""
        return await arun(self._get_flow(key))

    @final
    async def unsettled(self, limit: int = 100) -> Sequence[str]:
        """Return keys to find out about, as `ClaimStore.unsettled`."""
        return await arun(self._unsettled_flow(limit))

    @final
    async def purge(self, before: datetime, *, limit: int = 1000) -> int:
        """Delete records of messages that were settled before an instant, as `ClaimStore.purge`."""
        return await arun(self._purge_flow(before, limit))
