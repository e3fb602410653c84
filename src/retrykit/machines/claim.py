"""How a claim record changes: who is granted the work on a message, and what became of it.

Every function here is pure: it takes the record and the store's `now`, and returns the next record. A store only has to
apply one of them atomically.

A holder whose lease has ended is gone: in `claimed` that is a crash before the send and the work may be repeated, in
`sending` the outcome is unknown and has to be verified. Over the crash limit the message is settled as poison in the
same operation, unprocessed; `poison` has the rule.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final, TypeAlias

import attrs

from ..dead_letter import dead_letter_id
from ..decision import Action, Attempt, DeadLetterReason, Decision, DispositionKind
from ..errors import FingerprintMismatchError
from ..failure import Failure, Outcome
from ..lease import Lease
from ..times import from_millis, later
from .claim_record import ClaimRecord, ClaimState, Counters, changed
from .poison import Marks, PoisonRule, lost_worker, mark_of, verdict, with_mark

__all__ = [
    "HISTORY_LIMIT",
    "ClaimAnswer",
    "ClaimRecord",
    "ClaimState",
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
    "changed",
]

HISTORY_LIMIT: Final = 100
"""Attempts that a record keeps; a policy may allow no more of them in one generation."""

_EVER: Final = from_millis(0)
"""Before every instant that a record has."""

NO_MARKS: Final[Marks] = {}
"""Of a payload that nothing is known of."""

_REPLACED: Final = 16
"""Replaced payloads that a record remembers."""


@attrs.frozen(kw_only=True)
class ClaimTerms:
    """On which terms a key is claimed."""

    poison: PoisonRule = PoisonRule()  # noqa: RUF009 - an immutable value
    """Over how many crashes the message is settled as poison instead of granted."""
    sending: bool = False
    """Whether the send begins with the claim: a holder that is lost may have sent."""
    ttl: float | None = None
    """Seconds after which a settled key counts as new; None: never."""
    suspects: bool = True
    """Whether a suspect is granted as well; False: it is answered `Suspect`, and nobody holds it."""
    lost: str | None = None
    """How the worker ended that had this copy before, as somebody saw it; None: nobody did."""


@attrs.frozen(kw_only=True)
class ReopenTerms:
    """What is put back into circulation."""

    letter_id: str
    generation: int
    """The letter's."""
    fingerprint: str | None = None
    """Of the payload that is put back; None: the one that is known."""
    replaced: tuple[str, ...] = ()
    """Of payloads that must not be sent any more."""
    not_sent: bool = False
    """Whether somebody has made sure that it was not sent, where nobody knew."""


@attrs.frozen
class Claimed:
    """The caller holds the message and may work on it, until the lease ends."""

    record: ClaimRecord
    is_suspect: bool = False
    """Whether a worker was lost with it in this generation, within the window of the poison rule: it had better run alone."""


@attrs.frozen
class NotDue:
    """A retry or a verification waits for its time. The caller makes sure that its entry in the retry queue exists."""

    record: ClaimRecord
    due_at: datetime


@attrs.frozen
class InProgress:
    """Somebody else holds it. The caller parks its copy until the lease ends; it never acks it as a duplicate."""

    record: ClaimRecord
    until: datetime


@attrs.frozen
class Unknown:
    """It may have been sent, and the caller now holds it to find out. It must not send it again before it knows."""

    record: ClaimRecord


@attrs.frozen
class Done:
    """It is settled. The caller makes sure that the other stores show it, then answers duplicate."""

    record: ClaimRecord
    convicted: bool = False
    """Whether this very claim settled it, as poison."""


@attrs.frozen
class Replaced:
    """The copy has a payload that an edited one has replaced. The caller answers duplicate, and does nothing else with it."""

    record: ClaimRecord


@attrs.frozen
class Suspect:
    """A worker was lost with it, and the caller did not want it so. The caller claims it again once nothing else is at work."""

    record: ClaimRecord


ClaimAnswer: TypeAlias = Claimed | NotDue | InProgress | Unknown | Done | Replaced | Suspect
"""What a claim is answered; match on it."""


def take(
    record: ClaimRecord | None,
    key: str,
    *,
    fingerprint: str | None,
    owner: str,
    lease: float,
    terms: ClaimTerms,
    now: datetime,
    marks: Marks = NO_MARKS,
) -> tuple[ClaimRecord, ClaimAnswer]:
    """Answer a claim on `key`; return the record to store and the answer. `marks` are those of the payload `fingerprint`.

    A repeated claim by the same owner, whose first answer was lost, is granted again; a holder that claims with `sending` does
    not begin before it has the answer.

    Raises:
        FingerprintMismatchError: the key was claimed before with another payload.
    """
    if record is not None and terms.ttl is not None and is_expired(record, now - timedelta(seconds=terms.ttl)):
        record = ClaimRecord(
            key=key, seq=record.seq, generation=record.generation + 1, opened_at=now, fingerprint=fingerprint
        )
    if record is None:
        record = ClaimRecord(key=key, opened_at=now, fingerprint=fingerprint)
    elif fingerprint is not None and record.fingerprint not in (None, fingerprint):
        if fingerprint in record.replaced:
            return record, Replaced(record)
        raise FingerprintMismatchError(key)
    if record.lease is not None and not record.lease.is_over(now):
        return _taken(record, record.lease, owner, terms, now)
    held = record
    record = _without_lapsed_holder(held, now, lost=terms.lost)
    if record.state is ClaimState.DONE:
        return record, Done(record)
    if record.not_before is not None and record.not_before > now:
        return record, NotDue(record, record.not_before)
    if record.state is ClaimState.UNKNOWN:
        record = _hold(record, ClaimState.UNKNOWN, owner, lease, now)
        return record, Unknown(record)
    poison = verdict(record, with_mark(marks, mark_of(held, record, now)), terms.poison, now)
    if poison is not None:
        record = _convict(record, poison, now)
        return record, Done(record, convicted=True)
    if not terms.suspects and _is_suspect(record, terms, now):
        if record is not held:  # its holder is out, and finds that out
            record = changed(record, seq=record.seq + 1)
        return record, Suspect(record)
    counters = record.counters.plus(started=1)
    state = ClaimState.SENDING if terms.sending else ClaimState.CLAIMED
    record = changed(_hold(record, state, owner, lease, now), counters=counters)
    return record, _claimed(record, terms, now)


def _taken(
    record: ClaimRecord, lease: Lease, owner: str, terms: ClaimTerms, now: datetime
) -> tuple[ClaimRecord, ClaimAnswer]:
    """Answer a claim on what somebody holds."""
    if lease.owner == owner and (record.state is not ClaimState.SENDING or terms.sending):
        return record, Unknown(record) if record.state is ClaimState.UNKNOWN else _claimed(record, terms, now)
    if terms.lost is not None and lease.lost is None:  # it ends later, and whoever sees that may not know how
        record = changed(record, lease=attrs.evolve(lease, lost=terms.lost))
    return record, InProgress(record, lease.deadline)


def _claimed(record: ClaimRecord, terms: ClaimTerms, now: datetime) -> Claimed:
    return Claimed(record, is_suspect=_is_suspect(record, terms, now))


def _is_suspect(record: ClaimRecord, terms: ClaimTerms, now: datetime) -> bool:
    return record.crashes_since(now - timedelta(seconds=terms.poison.window)) > 0


def take_unknown(record: ClaimRecord | None, *, owner: str, lease: float, now: datetime) -> ClaimRecord | None:
    """Take hold of an unknown message to find out about it, or return None when there is nothing to find out now.

    Repeated by the same owner, whose first answer was lost, it is granted again.
    """
    if record is None:
        return None
    if record.state is ClaimState.UNKNOWN and record.lease is not None and not record.lease.is_over(now):
        return record if record.lease.owner == owner else None
    at = _found_out_from(record)
    if at is None or at > now:
        return None
    return _hold(_without_lapsed_holder(record, now), ClaimState.UNKNOWN, owner, lease, now)


def unsettled_at(record: ClaimRecord) -> datetime | None:
    """Return when it is time to find out whether a send had happened.

    None: there is nothing to find out, or it is a call, of which that is not for others.
    """
    return None if record.is_call else _found_out_from(record)


def is_unsettled(record: ClaimRecord, now: datetime) -> bool:
    """Tell whether it is time, as `unsettled_at` says."""
    at = unsettled_at(record)
    return at is not None and at <= now


def _found_out_from(record: ClaimRecord) -> datetime | None:
    if record.lease is not None:
        return record.lease.deadline if record.state in (ClaimState.SENDING, ClaimState.UNKNOWN) else None
    if record.state is not ClaimState.UNKNOWN:
        return None
    return record.not_before or _EVER


def _hold(record: ClaimRecord, state: ClaimState, owner: str, lease: float, now: datetime) -> ClaimRecord:
    seq = record.seq + 1
    hold = Lease(owner, seq, later(now, lease), granted_at=now)
    return changed(record, state=state, seq=seq, lease=hold, not_before=None)


def _without_lapsed_holder(record: ClaimRecord, now: datetime, *, lost: str | None = None) -> ClaimRecord:
    """Return the record after its holder, if any, is known to be gone; `lost` is how it ended, where somebody saw it."""
    lease = record.lease
    if lease is None:
        return record
    if record.state is ClaimState.UNKNOWN:  # it only asked; nothing was tried
        return changed(record, lease=None)
    sending = record.state is ClaimState.SENDING
    failure = lost_worker(attrs.evolve(lease, lost=lease.lost or lost), sending=sending)
    action = Action.VERIFY if sending else Action.RETRY
    attempt = _attempt(record, failure, action, 0.0, "the worker was lost", min(lease.deadline, now), lease.owner)
    return changed(
        record,
        state=ClaimState.UNKNOWN if sending else ClaimState.FREE,
        lease=None,
        attempts=(*record.attempts, attrs.evolve(attempt, started_at=lease.granted_at))[-HISTORY_LIMIT:],
        counters=record.counters.plus(crashed=1),
    )


def _convict(record: ClaimRecord, failure: Failure, now: datetime) -> ClaimRecord:
    note = "poison message, quarantined unprocessed"
    attempt = _attempt(record, failure, Action.DEAD_LETTER, 0.0, note, now, None)
    record = changed(record, note=note)
    dead = _done(record, DispositionKind.DEAD_LETTERED, DeadLetterReason.POISON_MESSAGE, letter=True)
    return changed(dead, attempts=(*record.attempts, attempt)[-HISTORY_LIMIT:], settled_at=now)


def begin_send(record: ClaimRecord | None, token: int, *, lease: float, now: datetime) -> ClaimRecord | None:
    """Mark that the send begins and renew the lease; None when the claim is not held with `token` any more."""
    if record is None or record.state not in (ClaimState.CLAIMED, ClaimState.SENDING):
        return None
    renewed = renew(record, token, lease=lease, now=now)
    return None if renewed is None else changed(renewed, state=ClaimState.SENDING)


def renew(record: ClaimRecord | None, token: int, *, lease: float, now: datetime) -> ClaimRecord | None:
    """Return the record with its lease moved; None when the claim is not held with `token` any more.

    A lease that has ended may be renewed as long as nobody else has taken over.
    """
    if record is None or record.seq != token or record.lease is None:
        return None
    return changed(record, lease=record.lease.renewed(now, lease))


def write(
    stored: ClaimRecord | None, settled: ClaimRecord, token: int, *, delay: float, now: datetime
) -> ClaimRecord | None:
    """Return `settled` with its instants if the claim is still held with `token`, else None.

    Repeating a settlement whose answer was lost gives what was stored the first time.
    """
    if stored is None:
        return None
    if stored.seq == token and stored.lease is not None:
        waits = settled.state in (ClaimState.WAITING, ClaimState.UNKNOWN)
        return changed(
            settled,
            not_before=later(now, delay) if waits else None,
            settled_at=now if settled.state is ClaimState.DONE else None,
        )
    same = changed(settled, not_before=stored.not_before, settled_at=stored.settled_at)
    return stored if stored == same else None


def confirm(
    record: ClaimRecord | None, key: str, *, provider: str | None, provider_id: str | None, now: datetime
) -> ClaimRecord:
    """Return the record once it is known that the provider accepted the message: a fact, whoever holds the claim.

    Of a message that was recorded as sent before, only what was not known yet is filled in.
    """
    if record is None:
        record = ClaimRecord(key=key, opened_at=now)
    if record.disposition is not DispositionKind.SENT:
        return changed(sent(record, provider=provider, provider_id=provider_id), settled_at=now)
    known = changed(record, provider=record.provider or provider, provider_id=record.provider_id or provider_id)
    return record if known == record else changed(known, seq=record.seq + 1)


def cancel(record: ClaimRecord | None, key: str, *, now: datetime) -> ClaimRecord:
    """Return the record after the application has taken its message back.

    What is settled stays. What somebody holds, or what may have been sent, stays as well: the caller sees its state.
    """
    if record is None:
        record = ClaimRecord(key=key, opened_at=now)
    if record.lease is not None:
        if not record.lease.is_over(now) or record.state is not ClaimState.CLAIMED:
            return record
        record = _without_lapsed_holder(record, now)
    if record.state not in (ClaimState.FREE, ClaimState.WAITING):
        return record
    record = changed(record, note="cancelled by the application")
    return changed(_done(record, DispositionKind.DISCARDED, None, letter=False), settled_at=now)


def reopen(record: ClaimRecord | None, key: str, terms: ReopenTerms, *, now: datetime) -> ClaimRecord:
    """Return the record after its message was put back into circulation from a dead letter, as the generation after the letter's.

    What was sent, what is in circulation, and what has left the letter's generation behind stays: the caller sees it in the record.
    What may have been sent is verified before it is tried again, unless the terms say that it was not.
    """
    if record is None:
        record = ClaimRecord(key=key, opened_at=now, state=ClaimState.DONE)
    if (
        record.state is not ClaimState.DONE
        or record.disposition is DispositionKind.SENT
        or record.generation > terms.generation
    ):
        return record
    new = terms.fingerprint or record.fingerprint
    known = (*record.replaced, record.fingerprint, *terms.replaced)
    replaced = tuple(each for each in known if each is not None and each != new)
    unsure = record.is_unsure and not terms.not_sent
    return ClaimRecord(
        key=key,
        state=ClaimState.UNKNOWN if unsure else ClaimState.FREE,
        seq=record.seq + 1,
        generation=terms.generation + 1,
        fingerprint=new,
        opened_at=now,
        note=f"put back from the dead letter {terms.letter_id!r}",
        attempts=record.attempts,
        redriven_from=terms.letter_id,
        replaced=tuple(dict.fromkeys(replaced))[-_REPLACED:],
        extra=record.extra,
    )


def is_expired(record: ClaimRecord, before: datetime) -> bool:
    """Tell whether the message was settled before an instant; of unfinished messages never."""
    return record.state is ClaimState.DONE and record.settled_at is not None and record.settled_at < before


def sent(
    record: ClaimRecord, *, provider: str | None = None, provider_id: str | None = None, result: str | None = None
) -> ClaimRecord:
    """Return the record after the provider accepted the message; `result` is what the call gave, packed."""
    done = _done(changed(record, note="", is_unsure=False), DispositionKind.SENT, None, letter=False)
    return changed(done, provider=provider, provider_id=provider_id, result=result)


def released(record: ClaimRecord, failure: Failure, *, failed_at: datetime) -> ClaimRecord:
    """Return the record after a try that had no effect, and that anybody may repeat at once."""
    decision = Decision(Action.RETRY, 0.0, f"{failure.error_class}, nothing was done")
    return changed(failed(record, failure, decision, failed_at=failed_at), state=ClaimState.FREE)


def failed(record: ClaimRecord, failure: Failure, decision: Decision, *, failed_at: datetime) -> ClaimRecord:
    """Return the record after a failed try and the decision on it."""
    worker = record.lease.owner if record.lease else None
    attempt = _attempt(record, failure, decision.action, decision.delay, decision.reason, failed_at, worker)
    record = changed(
        record,
        attempts=(*record.attempts, attempt)[-HISTORY_LIMIT:],
        counters=record.counters.plus(failed=1),
    )
    return decided(record, decision, is_unsure=failure.outcome is Outcome.UNKNOWN)


def decided(record: ClaimRecord, decision: Decision, *, is_unsure: bool = False) -> ClaimRecord:
    """Return the record after a decision that adds no try: a pause, or the answer to a verification.

    Args:
        record: held by the caller.
        decision: what is to be done.
        is_unsure: whether the message may have been sent, for all that is known.
    """
    record = changed(record, note=decision.reason)
    if decision.action is Action.RETRY:
        return _let_go(record, ClaimState.WAITING)
    if decision.action is Action.VERIFY:
        return _let_go(record, ClaimState.UNKNOWN, checks=record.checks + (record.state is ClaimState.UNKNOWN))
    letter = decision.action is not Action.MARK_BOUNCED or decision.audit
    settled = _done(record, DISPOSITIONS[decision.action], decision.dead_letter_reason, letter=letter)
    return changed(settled, is_unsure=is_unsure)


def interrupted(record: ClaimRecord) -> ClaimRecord:
    """Return the record after its holder was told to stop: free again before the send, else unknown; no try either way."""
    counters = record.counters.plus(interrupted=1)
    state = ClaimState.FREE if record.state is ClaimState.CLAIMED else ClaimState.UNKNOWN
    given_back = _let_go(record, state, checks=record.checks)
    return changed(given_back, counters=counters, note="the worker was interrupted")


DISPOSITIONS: Final = {
    Action.DEAD_LETTER: DispositionKind.DEAD_LETTERED,
    Action.MARK_BOUNCED: DispositionKind.BOUNCED,
    Action.MANUAL_REVIEW: DispositionKind.HELD_FOR_REVIEW,
    Action.DISCARD: DispositionKind.DISCARDED,
}
"""What becomes of a message by each final action."""


def _done(
    record: ClaimRecord, disposition: DispositionKind, reason: DeadLetterReason | None, *, letter: bool
) -> ClaimRecord:
    letter_id = dead_letter_id(record.key, record.generation) if letter else record.dead_letter_id
    return changed(_let_go(record, ClaimState.DONE), disposition=disposition, reason=reason, dead_letter_id=letter_id)


def _let_go(record: ClaimRecord, state: ClaimState, *, checks: int = 0) -> ClaimRecord:
    return changed(record, state=state, seq=record.seq + 1, lease=None, not_before=None, checks=checks)


def _attempt(
    record: ClaimRecord,
    failure: Failure,
    action: Action,
    delay: float,
    reason: str,
    failed_at: datetime,
    worker: str | None,
) -> Attempt:
    return Attempt(
        number=record.counters.failed + record.counters.crashed + 1,
        generation=record.generation,
        failed_at=failed_at,
        failure=failure,
        action=action,
        delay=delay,
        reason=reason,
        worker=worker,
    )
