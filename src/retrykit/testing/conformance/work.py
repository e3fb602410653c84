"""What other processes do to a store while a suite watches. Each function gets the store and returns JSON."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import count

import attrs

from ...codec import JSON
from ...errors import RedriveConflictError
from ...machines import claim as machine
from ...message import Message
from ...stores.circuits import CircuitStore
from ...stores.claims import Claimed, ClaimStore
from ...stores.dead_letters import DeadLetterStore
from ...stores.deliveries import DeliveryEvent, DeliveryStatus, DeliveryStore
from ...stores.redrives import RedriveStore
from ...stores.retries import RetryStore
from ...stores.signals import SignalStore
from .child import say
from .dead_letters_samples import letter
from .deliveries_samples import EVENTS, delivery
from .redrives_samples import job, stopping

__all__ = [
    "add_many",
    "add_without_end",
    "apply_many",
    "apply_without_end",
    "claim_many",
    "discard_many",
    "pause_many",
    "pause_without_end",
    "put_and_resolve_many",
    "put_and_resolve_without_end",
    "report_many",
    "report_without_end",
    "resume_many",
    "schedule_without_end",
    "settle_without_end",
    "start_and_hold_many",
    "start_without_end",
    "take_all_due",
    "trip_and_probe_many",
    "trip_without_end",
]


def pause_many(store: CircuitStore, keys: list[str], by: str) -> JSON:
    """Pause all keys, and return the pauses in force afterwards."""
    for key in keys:
        store.pause(key, reason="a race", by=by)
    return [pause.key for pause in store.pauses()]


def claim_many(store: ClaimStore, keys: list[str], owner: str) -> JSON:
    """Claim all keys, settle those that were granted as sent by their holder, and return them."""
    granted: list[str] = []
    for key in keys:
        answer = store.claim(key, owner=owner)
        if isinstance(answer, Claimed):
            held = answer.record
            assert store.begin_send(key, held.seq, lease=30) is not None
            assert store.settle(machine.sent(held, provider_id=owner), held.seq) is not None
            granted.append(key)
    return granted


def settle_without_end(store: ClaimStore, by: str) -> JSON:
    """Claim one key after the other, settle it as sent, and tell each key of which that was answered."""
    for number in count():
        key = f"{by} {number}"
        answer = store.claim(key, owner=by, lease=30)
        assert isinstance(answer, Claimed)
        assert store.begin_send(key, answer.record.seq, lease=30) is not None
        assert store.settle(machine.sent(answer.record, provider_id=key), answer.record.seq) is not None
        say(key)
    raise AssertionError


def resume_many(store: CircuitStore, keys: list[str]) -> JSON:
    """Resume all keys, and return those that were paused."""
    return [key for key in keys if store.resume(key)]


def pause_without_end(store: CircuitStore, by: str) -> JSON:
    """Pause one key after the other, and tell each."""
    for number in count():
        say(store.pause(f"tenant:{by} {number}", reason="a race", by=by).key)
    raise AssertionError


def trip_and_probe_many(store: CircuitStore, names: list[str], by: str, limit: int) -> JSON:
    """Trip all circuits and ask for a probe of each; return who opened them, and the token of the probe that was granted."""
    openers: dict[str, JSON] = {}
    tokens: dict[str, JSON] = {}
    for name in names:
        openers[name] = store.trip(name, by=by, recovery=60).by
        lease = store.lease_probe(name, owner=by, limit=limit)
        if lease is not None:
            tokens[name] = lease.token
    return {"openers": openers, "tokens": tokens}


def trip_without_end(store: CircuitStore, by: str) -> JSON:
    """Open one circuit after the other, and tell each."""
    for number in count():
        say(store.trip(f"{by} {number}", by=by, recovery=5).name)
    raise AssertionError


def put_and_resolve_many(store: DeadLetterStore, names: list[str], by: str) -> JSON:
    """Put and resolve a letter of each name, and return whose letters were kept."""
    kept: list[JSON] = []
    for name in names:
        kept.append(store.put(letter(name, error_message=by)).error_message)
        store.resolve(f"{name}#1")
    return kept


def discard_many(store: DeadLetterStore, names: list[str], by: str) -> JSON:
    """Discard a letter of each name, and return what is noted on each."""
    kept = [store.discard(f"{name}#1", note=by) for name in names]
    return [None if each is None else each.note for each in kept]


def put_and_resolve_without_end(store: DeadLetterStore, by: str) -> JSON:
    """Resolve one letter after the other, before or after it is put, and tell the name of each."""
    for number in count():
        name = f"{by} {number}"
        if number % 2:
            store.resolve(f"{name}#1")
        store.put(letter(name))
        if not number % 2:
            store.resolve(f"{name}#1")
        say(name)
    raise AssertionError


def report_many(store: DeliveryStore, names: list[str], reports: list[tuple[str, int]]) -> JSON:
    """Make all reports for each message, and return the statuses that stand afterwards."""
    for name in names:
        for status, version in reports:
            store.record(delivery(DeliveryStatus(status), version, name))
    stands = [store.get(name) for name in names]
    return [None if each is None else each.status.value for each in stands]


def report_without_end(store: DeliveryStore, by: str) -> JSON:
    """Report one message after the other, twice each, and tell its name."""
    for number in count():
        name = f"{by} {number}"
        for version, status in enumerate((DeliveryStatus.PROCESSING, DeliveryStatus.SENT_TO_PROVIDER)):
            store.record(delivery(status, version, name))
        say(name)
    raise AssertionError


def apply_many(store: DeliveryStore, names: list[str], events: list[Mapping[str, JSON]]) -> JSON:
    """Apply all events to each message, and return the statuses that stand afterwards."""
    for name in names:
        for each in events:
            store.apply(attrs.evolve(DeliveryEvent.from_dict(each), message_id=name))
    stands = [store.get(name) for name in names]
    return [None if each is None else each.status.value for each in stands]


def apply_without_end(store: DeliveryStore, by: str) -> JSON:
    """Apply all events to one message after the other, and tell its name."""
    for number in count():
        name = f"{by} {number}"
        for each in EVENTS:
            store.apply(attrs.evolve(each, message_id=name))
        say(name)
    raise AssertionError


def take_all_due(store: RetryStore, owner: str) -> JSON:
    """Take what is due in small batches until nothing is left, acknowledge it, and return the ids."""
    taken: list[str] = []
    while batch := store.claim_due(3, owner=owner, lease="1h"):
        taken += [entry.message.id for entry in batch if store.ack(entry)]
    return taken


def schedule_without_end(store: RetryStore, by: str) -> JSON:
    """Schedule one message that stays and one that is taken and acknowledged, and tell each pair that is done."""
    for number in count():
        store.schedule(Message(f"{by} waits {number}", number), datetime(9000, 1, 1, tzinfo=UTC))
        store.schedule(Message(f"{by} acked {number}", number), datetime(2020, 1, 1, tzinfo=UTC))
        (entry,) = store.claim_due(owner=by, lease=30)
        assert store.ack(entry)
        say(number)
    raise AssertionError


def start_and_hold_many(store: RedriveStore, groups: list[str], by: str) -> JSON:
    """Start a redrive of each group and take hold of the one that stands; return those that were started, and held."""
    started: list[JSON] = []
    held: list[JSON] = []
    for group in groups:
        try:
            standing = store.start(job(f"{group} of {by}", group, by=by)).id
            started.append(group)
        except RedriveConflictError as error:
            standing = error.redrive_id
        known = store.hold(standing, owner=by, lease=30)
        assert known is not None
        assert known.lease is not None
        if known.lease.owner == by:
            held.append(group)
    return {"started": started, "held": held}


def start_without_end(store: RedriveStore, by: str) -> JSON:
    """Start and stop one redrive after the other, and tell the id of each."""
    for number in count():
        job_id = f"{by} {number}"
        store.start(job(job_id, job_id))
        assert store.change(job_id, stopping()) is not None
        say(job_id)
    raise AssertionError


def add_many(store: SignalStore, by: str, times: int) -> JSON:
    """Add to the same record again and again."""
    from .signals import adding

    for _ in range(times):
        store.change("all", adding(by))
    return None


def add_without_end(store: SignalStore, by: str) -> JSON:
    """Add to the same record again and again, and tell how often."""
    from .signals import adding

    for number in count(1):
        store.change("all", adding(by))
        say([by, number])
    raise AssertionError
