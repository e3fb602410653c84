"""Poison in the dispatchers: who is told, what stands in the letter, and what is counted of a payload."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import pytest

from retrykit import AsyncDispatcher, Dispatcher, Message, PolicyMatrix
from retrykit.decision import Disposition, DispositionKind
from retrykit.delivery import NotAccepted
from retrykit.errors import ConfigurationError
from retrykit.events import Event, MessageHandled, MessageQuarantined
from retrykit.machines.poison import is_crash
from retrykit.stores import Backend, DeadLetterQuery, PoisonRule, as_async
from retrykit.testing import ManualClock
from tests.colours import Runner, both_loops

K = DispositionKind
LEASE = 60.0


class Deadly:
    """A payload that kills whoever parses it, or fails there."""

    def __init__(self, ends: BaseException) -> None:
        self.ends = ends
        self.starts = 0

    def __call__(self, message: Message) -> Message:
        self.starts += 1
        if message.payload["deadly"]:
            raise self.ends
        return message


class KilledError(BaseException):
    """The process is gone: nothing catches this, and nothing is done on the way out."""


def dispatcher(
    backend: Backend, clock: ManualClock, deadly: Deadly, events: list[Event], *listeners: Any, **options: Any
) -> Any:
    return Dispatcher(
        lambda message, key: key,
        backend=backend,
        parse=deadly,
        lease=LEASE,
        clock=clock,
        on_event=[events.append, *listeners],
        **options,
    )


def lose(backend: Backend, clock: ManualClock, message: Message, *, owner: str) -> None:
    """Let a worker die that holds a message."""
    backend.claims.claim(message.id, owner=owner, fingerprint=message.fingerprint, lease=LEASE)
    clock.advance(LEASE)


def quarantined(events: list[Event]) -> list[MessageQuarantined]:
    return [event for event in events if isinstance(event, MessageQuarantined)]


KILLER = Message("m1", {"deadly": True})


def test_killer_is_quarantined_unprocessed_and_told_once(backend: Backend, clock: ManualClock) -> None:
    """The letter is there when the event is told, with who was lost, since when and in which stage; copies change nothing."""
    deadly, events, seen, begun = Deadly(KilledError()), list[Event](), list[Any](), list[Any]()
    for number in range(3):
        begun.append(clock.now())
        lose(backend, clock, KILLER, owner=f"host:{number}/1")

    def look(event: Event) -> None:
        if isinstance(event, MessageQuarantined):
            seen.append(backend.dead_letters.get(event.dead_letter_id))

    handling = dispatcher(backend, clock, deadly, events, look)
    disposition = handling.handle(KILLER)
    assert (K.DEAD_LETTERED, "m1#1", 0) == (disposition.kind, disposition.dead_letter_id, deadly.starts)
    event = MessageQuarantined(
        at=clock.now(),
        message_id="m1",
        dead_letter_id="m1#1",
        reason="3 workers were lost while they had this message, within 259200 s; the last was host:2/1",
    )
    assert [event, MessageHandled(at=clock.now(), disposition=disposition)] == events
    (letter,) = seen
    assert ("poison_message", 3, event.reason) == (letter.reason, letter.attempt_count, letter.error_message)
    assert [f"host:{number}/1" for number in range(3)] == [attempt.worker for attempt in letter.attempts[:3]]
    assert begun == [attempt.started_at for attempt in letter.attempts[:3]]
    assert handling.handle(KILLER).kind is K.DUPLICATE
    assert [event] == quarantined(events)


@both_loops
def test_async_dispatcher_tells_of_a_quarantined_message(backend: Backend, clock: ManualClock, runner: Runner) -> None:
    """As the other one does, and writes down how the worker ended."""
    events = list[Event]()

    async def send(_message: Message, key: str) -> str:
        return key

    lose(backend, clock, KILLER, owner="host:1/1")

    async def main() -> Disposition:
        handling = AsyncDispatcher(
            send,
            backend=as_async(backend),
            poison=PoisonRule(limit=1),
            lease=LEASE,
            clock=clock,
            on_event=[events.append],
        )
        return await handling.handle(KILLER, lost="exit code 1")

    assert runner(main).kind is K.DEAD_LETTERED
    (event,) = quarantined(events)
    assert event.reason == "1 workers were lost while they had this message, within 259200 s; the last was host:1/1"
    record = backend.claims.get("m1")
    assert record is not None
    assert record.attempts[0].failure.error_message == "the lease of host:1/1 ended before it had sent: exit code 1"


@pytest.mark.parametrize("ends", ["fails", "kills"])
def test_payload_that_fails_or_kills_is_not_started_under_a_new_id(
    backend: Backend, clock: ManualClock, ends: str
) -> None:
    """Three internal failures or lost processes are enough; another payload goes its way."""
    deadly, events = Deadly(ValueError("a bug")), list[Event]()
    handling = dispatcher(backend, clock, deadly, events)
    for number in range(3):
        message = Message(f"m{number}", {"deadly": True})
        if ends == "fails":
            assert handling.handle(message).kind is K.DEAD_LETTERED
        else:
            lose(backend, clock, message, owner=f"host:{number}/1")
            backend.claims.cancel(message.id)
    assert [] == quarantined(events)
    starts = deadly.starts
    assert handling.handle(Message("m4", {"deadly": True})).kind is K.DEAD_LETTERED
    assert starts == deadly.starts
    (event,) = quarantined(events)
    assert ("m4", "m4#1") == (event.message_id, event.dead_letter_id)
    what = "3 internal failures within 900 s" if ends == "fails" else "3 lost workers within 259200 s"
    assert event.reason == f"{what} had the same payload"
    (letter,) = backend.dead_letters.search(DeadLetterQuery(reason="poison_message")).letters  # type: ignore[arg-type]
    assert (letter.message_id, letter.attempts[-1].number) == ("m4", 1)
    assert handling.handle(Message("m5", {"deadly": False})).kind is K.SENT


def test_payload_that_others_sent_is_not_condemned_by_failures(backend: Backend, clock: ManualClock) -> None:
    """Messages that carry little in their payload share it: what is sent now and then is no poison."""
    failing = [True, True, False] * 5

    def render(_message: Message) -> str:
        if failing.pop(0):
            raise ValueError("a bug")
        return "content"

    events = list[Event]()
    handling: Any = Dispatcher(
        lambda message, key, content: key, backend=backend, render=render, clock=clock, on_event=[events.append]
    )
    kinds = [handling.handle(Message(f"m{number}", {"job": "nightly"})).kind for number in range(15)]
    assert [K.DEAD_LETTERED, K.DEAD_LETTERED, K.SENT] * 5 == kinds
    assert [] == quarantined(events)


def test_message_that_was_sent_after_all_is_not_quarantined(backend: Backend, clock: ManualClock) -> None:
    """The log knows of it: whoever learned that it was sent died before the claim was settled."""
    events = list[Event]()
    for number in range(3):
        lose(backend, clock, KILLER, owner=f"host:{number}/1")
    backend.deliveries.record(attrs.evolve(_delivery(backend, clock), message_id="m1", version=1))
    disposition = dispatcher(backend, clock, Deadly(KilledError()), events).handle(KILLER)
    assert disposition.kind is K.SENT
    assert [] == quarantined(events)


def _delivery(backend: Backend, clock: ManualClock) -> Any:
    Dispatcher(lambda message, key: key, backend=backend, clock=clock).handle({"id": "other"})
    return backend.deliveries.get("other")


def test_word_of_a_supervisor_reaches_the_letter_although_the_lease_still_runs(
    backend: Backend, clock: ManualClock
) -> None:
    """It sees the death at once; whoever has the copy later does not know."""
    events = list[Event]()
    handling = dispatcher(backend, clock, Deadly(KilledError()), events, poison=PoisonRule(limit=1))
    backend.claims.claim("m1", owner="host:1/1", fingerprint=KILLER.fingerprint, lease=LEASE)
    assert handling.handle(KILLER, lost="signal 11 (SIGSEGV)").kind is K.RETRY_SCHEDULED
    clock.advance(LEASE)
    handling.handle(KILLER)
    (letter,) = backend.dead_letters.search().letters
    crash = letter.attempts[0]
    assert is_crash(crash)
    assert crash.failure.error_message == "the lease of host:1/1 ended before it had sent: signal 11 (SIGSEGV)"


def test_word_that_is_no_text_is_refused_before_anything_is_claimed(backend: Backend, clock: ManualClock) -> None:
    """The application keeps its copy."""
    with pytest.raises(ConfigurationError, match="lost is -11"):
        dispatcher(backend, clock, Deadly(KilledError()), []).handle(KILLER, lost=-11)
    assert backend.claims.get("m1") is None


@pytest.mark.parametrize("stage", ["parse", "send"])
def test_ten_restarts_in_a_row_condemn_nobody(backend: Backend, clock: ManualClock, stage: str) -> None:
    """Interruptions are no crashes, make no suspect and burn no attempt, before the send and in it."""
    stops = [KeyboardInterrupt()] * 10

    def work(*_: Any) -> Any:
        if stops:
            raise stops.pop()
        return _[0] if stage == "parse" else "p-1"

    others: dict[str, Callable[..., Any]] = {"parse": lambda message: message, "send": lambda message, key: "p-1"}
    functions = {**others, stage: work}
    send = functions.pop("send")
    handling: Any = Dispatcher(
        send, backend=backend, clock=clock, lease=LEASE, matrix=PolicyMatrix({}), lookup=_not_accepted, **functions
    )
    for _ in range(10):
        with pytest.raises(KeyboardInterrupt):
            handling.handle(KILLER)
    assert handling.handle(KILLER).kind is K.SENT
    record = backend.claims.get("m1")
    assert record is not None
    assert (0, 0, 10, ()) == (
        record.counters.crashed,
        record.counters.failed,
        record.counters.interrupted,
        record.attempts,
    )


def _not_accepted(_key: str) -> Any:
    return NotAccepted()
