"""Claims that are renewed, taken away and given back while their handlers run."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any, Self

import pytest

from retrykit import AsyncDispatcher, Dispatcher, Message
from retrykit.backends import MemoryBackend
from retrykit.clock import use_clock
from retrykit.decision import DispositionKind
from retrykit.delivery import NotAccepted, Sent
from retrykit.dispatch import HandedBack
from retrykit.errors import ConfigurationError, ProcessStoppingError, StoreUnavailableError
from retrykit.stores import Backend, ClaimRecord, ClaimState, InProgress, as_async
from retrykit.testing import ManualClock
from retrykit.testing.harness import run_until
from tests.colours import Runner, both_loops, cancel, hang

K = DispositionKind
BODY = b'{"id": "m1"}'
LEASE = 60.0


class Handling:
    """A handler in a thread that stands in one of its stages until it is let go.

    Args:
        backend: of its dispatcher.
        clock: of its dispatcher.
        where: "render" or "send".
    """

    def __init__(self, backend: Backend, clock: ManualClock, where: str) -> None:
        self.backend, self.clock = backend, clock
        self.sent = 0
        self._stands, self._goes = threading.Event(), threading.Event()
        self._where = where
        self.dispatcher: Dispatcher[Any] = Dispatcher(
            self._send,
            backend=backend,
            render=self._render,
            lease=LEASE,
            clock=clock,
            lookup=lambda _key: NotAccepted(),
        )
        self.answers: list[Any] = []
        self._thread = threading.Thread(target=self._run)

    def _stand(self, where: str) -> None:
        if where == self._where and not self._goes.is_set():
            self._stands.set()
            assert self._goes.wait(20)

    def _render(self, _message: Message) -> str:
        self._stand("render")
        return "content"

    def _send(self, _message: Message, _key: str, _content: str) -> str:
        self._stand("send")
        self.sent += 1
        return "p-1"

    def _run(self) -> None:
        with use_clock(self.clock):
            self.answers.append(self.dispatcher.handle(BODY))

    def go_on(self) -> Any:
        """Let it go on to its end, and return what became of the message."""
        self._goes.set()
        self._thread.join()
        return self.answers[0]

    @property
    def record(self) -> ClaimRecord:
        """The claim."""
        record = self.backend.claims.get("m1")
        assert record is not None
        return record

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._stands.wait(20)
        return self

    def __exit__(self, *_: object) -> None:
        self._goes.set()
        self._thread.join()


@contextmanager
def failing(store: object, name: str) -> Iterator[None]:
    """Let a primitive of a store fail."""

    def fail(*_args: object, **_more: object) -> None:
        raise StoreUnavailableError("down")

    setattr(store, name, fail)
    try:
        yield
    finally:
        delattr(store, name)


def test_keep_renews_the_lease_of_what_runs(backend: Backend, clock: ManualClock) -> None:
    """A handler that is at work for longer than a lease is not taken for lost."""
    with Handling(backend, clock, "send") as handling:
        for _ in range(6):
            clock.advance(LEASE / 2)
            handling.dispatcher.keep()
        answer = backend.claims.claim("m1", owner="another")
        assert isinstance(answer, InProgress)
        assert clock.now() + timedelta(seconds=LEASE) == answer.until
        assert 1 == handling.dispatcher.in_work
        assert K.SENT is handling.go_on().kind
    assert (0, 0) == (handling.record.counters.crashed, handling.dispatcher.in_work)


def test_keep_leaves_fresh_leases_alone(backend: Backend, clock: ManualClock) -> None:
    """No round trip before a third of the lease has passed."""
    with Handling(backend, clock, "render") as handling:
        before = handling.record
        clock.advance(LEASE / 4)
        handling.dispatcher.keep()
        assert before == handling.record


def test_keep_that_finds_the_store_down_tries_again(
    backend: Backend, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """One warning, and the next time it is renewed."""
    with Handling(backend, clock, "render") as handling:
        clock.advance(LEASE / 2)
        with failing(backend.claims, "_renew"):
            handling.dispatcher.keep()
        assert "the lease of 'm1' cannot be renewed now, trying again: down" in caplog.text
        handling.dispatcher.keep()
        lease = handling.record.lease
        assert lease is not None
        assert clock.now() + timedelta(seconds=LEASE) == lease.deadline


def test_keep_of_a_claim_that_others_have_taken_over_is_fenced(backend: Backend, clock: ManualClock) -> None:
    """A late worker neither renews nor settles what is somebody else's by now."""
    with Handling(backend, clock, "render") as handling:
        clock.advance(LEASE * 2)
        backend.claims.claim("m1", owner="another", lease=LEASE)
        before = handling.record
        handling.dispatcher.keep()
        handling.dispatcher.keep()
        assert HandedBack() == handling.dispatcher.hand_back()
        assert before == handling.record


@pytest.mark.parametrize(
    ("where", "state", "kind"),
    [("render", ClaimState.WAITING, K.RETRY_SCHEDULED), ("send", ClaimState.UNKNOWN, K.VERIFYING)],
)
def test_keep_takes_away_what_is_over_the_time_limit(
    backend: Backend, clock: ManualClock, where: str, state: ClaimState, kind: DispositionKind
) -> None:
    """It has failed: an attempt is counted, unknown in mid-send; the handler that comes back in render does not send any more."""
    with Handling(backend, clock, where) as handling:
        clock.advance(10)
        handling.dispatcher.keep(time_limit=10)
        assert handling.record.lease is not None
        clock.advance(1)
        handling.dispatcher.keep(time_limit=10)
        handling.dispatcher.keep(time_limit=10)
        assert (state, 1) == (handling.record.state, handling.record.counters.failed)
        assert 1 == backend.retries.stats().waiting
        if where == "render":
            assert (kind, 0) == (handling.go_on().kind, handling.sent)


def test_send_that_comes_back_after_its_time_limit_is_known_to_have_sent(backend: Backend, clock: ManualClock) -> None:
    """An acceptance is a fact, also a late one."""
    with Handling(backend, clock, "send") as handling:
        clock.advance(11)
        handling.dispatcher.keep(time_limit=10)
        assert K.SENT is handling.go_on().kind
    assert (ClaimState.DONE, K.SENT) == (handling.record.state, handling.record.disposition)


def test_keep_that_cannot_settle_at_the_limit_leaves_it_to_the_lease(
    backend: Backend, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing else can be done; the claim is not renewed any more."""
    with Handling(backend, clock, "render") as handling:
        clock.advance(LEASE / 2)
        with failing(backend.claims, "_settle"):
            handling.dispatcher.keep(time_limit=10)
        before = handling.record
        handling.dispatcher.keep()
        assert before == handling.record
    assert "the claim on 'm1' could not be settled at its time limit: down" in caplog.text


def test_keep_that_could_not_settle_at_the_limit_tries_again(backend: Backend, clock: ManualClock) -> None:
    """The store is back: the message has failed, and was no lost worker."""
    with Handling(backend, clock, "render") as handling:
        clock.advance(LEASE / 2)
        with failing(backend.claims, "_settle"):
            handling.dispatcher.keep(time_limit=10)
        handling.dispatcher.keep(time_limit=10)
        record = handling.record
    assert (ClaimState.WAITING, 1, 0) == (record.state, record.counters.failed, record.counters.crashed)


@pytest.mark.parametrize(
    "take_away", [lambda dispatcher: dispatcher.keep(time_limit=10), lambda dispatcher: dispatcher.hand_back()]
)
def test_handler_that_was_fenced_out_by_who_could_not_settle_loses_no_message(
    take_away: Callable[[Dispatcher[object]], object], backend: Backend, clock: ManualClock
) -> None:
    """Nobody has decided: a copy waits for the end of the lease, and the claim is given back as soon as the store takes it."""
    with Handling(backend, clock, "render") as handling:
        clock.advance(LEASE / 2)
        with failing(backend.claims, "_settle"):
            take_away(handling.dispatcher)
        disposition = handling.go_on()
        assert (K.RETRY_SCHEDULED, 0, 1) == (disposition.kind, handling.sent, backend.retries.stats().waiting)
        handling.dispatcher.keep()
        record = handling.record
    assert (ClaimState.FREE, 1, 0) == (record.state, record.counters.interrupted, record.counters.crashed)


@pytest.mark.parametrize("limit", [0, -1, "soon"])
def test_keep_refuses_a_time_limit_that_is_none(backend: Backend, clock: ManualClock, limit: object) -> None:
    """By name."""
    dispatcher = Dispatcher(lambda _message, _key: None, backend=backend, clock=clock)
    with pytest.raises(ConfigurationError, match="time_limit"):
        dispatcher.keep(time_limit=limit)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("where", "given", "state"),
    [("render", HandedBack(free=("m1",)), ClaimState.FREE), ("send", HandedBack(unknown=("m1",)), ClaimState.UNKNOWN)],
)
def test_hand_back_gives_back_what_runs_and_counts_no_try(
    backend: Backend, clock: ManualClock, where: str, given: HandedBack, state: ClaimState
) -> None:
    """Free before the send, else unknown, with a copy in the retry queue either way; the second time there is nothing."""
    with Handling(backend, clock, where) as handling:
        assert given == handling.dispatcher.hand_back()
        assert HandedBack() == handling.dispatcher.hand_back()
        record = handling.record
        assert (state, 1, 0) == (record.state, record.counters.interrupted, record.counters.failed)
        (due,) = backend.retries.claim_due(10, owner="scheduler")
        assert BODY == due.message.body


def test_handler_that_comes_back_after_it_was_given_back_does_not_send(backend: Backend, clock: ManualClock) -> None:
    """It would be a second sender: another worker may be at it by now."""
    with Handling(backend, clock, "render") as handling:
        handling.dispatcher.hand_back()
        disposition = handling.go_on()
    assert (K.RETRY_SCHEDULED, 0) == (disposition.kind, handling.sent)
    assert "taken away from its handler" in disposition.reason


def test_dispatcher_that_has_given_back_takes_nothing_any_more(backend: Backend, clock: ManualClock) -> None:
    """Its copy stays in the queue; a claim that was granted at that very moment gives itself back."""
    dispatcher = Dispatcher(lambda _message, _key: pytest.fail("sent"), backend=backend, clock=clock)
    late = run_until(dispatcher._handle(BODY, None), 1)
    assert HandedBack() == dispatcher.hand_back()
    with pytest.raises(ProcessStoppingError, match="'m1' is not handled"):
        late.finish()
    with pytest.raises(ProcessStoppingError):
        dispatcher.handle(BODY)
    record = backend.claims.get("m1")
    assert record is not None
    assert (ClaimState.FREE, 1, False) == (record.state, record.counters.interrupted, any(dispatcher.open_claims))


def test_hand_back_with_a_store_that_fails_tells_and_goes_on(
    backend: Backend, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """The claim stays with its lease, and may be given back by another call; a copy that cannot be stored is told."""
    with Handling(backend, clock, "render") as handling:
        with failing(backend.claims, "_settle"):
            assert HandedBack() == handling.dispatcher.hand_back()
        assert "the claim on 'm1' could not be given back" in caplog.text
        with failing(backend.retries, "_schedule"):
            assert HandedBack(free=("m1",)) == handling.dispatcher.hand_back()
        assert "no copy of 'm1' could be put into the retry queue" in caplog.text


def test_begin_send_that_fails_is_no_send(backend: Backend, clock: ManualClock) -> None:
    """Nothing was sent, whatever the store took in: it is free again, not unknown, and no lost worker."""
    dispatcher = Dispatcher(lambda _message, _key: None, backend=backend, clock=clock)
    with failing(backend.claims, "_begin_send"), pytest.raises(StoreUnavailableError):
        dispatcher.handle(BODY)
    assert 0 == dispatcher.in_work
    dispatcher.keep()
    record = backend.claims.get("m1")
    assert record is not None
    assert (ClaimState.FREE, 1, 0) == (record.state, record.counters.interrupted, record.counters.crashed)
    assert K.SENT is dispatcher.handle(BODY).kind


def test_claim_that_a_failed_store_left_open_is_given_back_by_the_next_message(
    backend: Backend, clock: ManualClock
) -> None:
    """As soon as the store takes it; until then each message has its own trouble."""
    dispatcher = Dispatcher(lambda _message, _key: None, backend=backend, clock=clock)
    with failing(backend.claims, "_begin_send"), pytest.raises(StoreUnavailableError):
        dispatcher.handle(BODY)
    with failing(backend.claims, "_settle"), pytest.raises(StoreUnavailableError):
        dispatcher.handle({"id": "m2"})
    assert K.SENT is dispatcher.handle({"id": "m3"}).kind
    records = [backend.claims.get(key) for key in ("m1", "m2")]
    assert [(1, 0)] * 2 == [(each.counters.interrupted, each.counters.crashed) for each in records if each is not None]
    assert () == tuple(dispatcher.open_claims)


def test_open_claim_of_long_ago_is_forgotten(backend: Backend, clock: ManualClock) -> None:
    """Where nobody keeps the claims, those that failures left open do not pile up."""
    dispatcher = Dispatcher(lambda _message, _key: None, backend=backend, lease=LEASE, clock=clock)
    for number in range(5):
        with failing(backend.claims, "_begin_send"), pytest.raises(StoreUnavailableError):
            dispatcher.handle({"id": f"m{number}"})
        clock.advance(LEASE * 2)
    assert 1 == len(tuple(dispatcher._open))


def test_interrupted_handler_leaves_nothing_open(backend: Backend, clock: ManualClock) -> None:
    """It has given its message back itself."""

    def send(_message: Message, _key: str) -> None:
        raise KeyboardInterrupt

    dispatcher = Dispatcher(send, backend=backend, clock=clock)
    with pytest.raises(KeyboardInterrupt):
        dispatcher.handle(BODY)
    assert (HandedBack(), ()) == (dispatcher.hand_back(), tuple(dispatcher._open))


def test_interrupted_handler_whose_store_is_down_leaves_as_it_was_interrupted(
    backend: Backend, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever told it to stop does not get the error of a store, and the claim is given back later."""

    def send(_message: Message, _key: str) -> None:
        raise KeyboardInterrupt

    dispatcher = Dispatcher(send, backend=backend, clock=clock)
    with failing(backend.claims, "_settle"), pytest.raises(KeyboardInterrupt):
        dispatcher.handle(BODY)
    assert "the claim on 'm1' could not be given back now: down" in caplog.text
    assert HandedBack(unknown=("m1",)) == dispatcher.hand_back()


@both_loops
def test_cancelled_handler_is_given_back_by_the_next_message(runner: Runner, clock: ManualClock) -> None:
    """Where nobody keeps the claims: it counts as interrupted, also once its lease has ended, and not as a lost worker."""
    backend = MemoryBackend(clock=clock)

    async def send(message: Message, _key: str) -> None:
        if message.id == "m1":
            await hang(runner)

    dispatcher = AsyncDispatcher(send, backend=as_async(backend), lease=LEASE, clock=clock)

    async def handle() -> object:
        return await dispatcher.handle(BODY)

    async def handle_another() -> object:
        return await dispatcher.handle({"id": "m2"})

    cancel(runner, handle)
    clock.advance(LEASE * 2)
    runner(handle_another)
    record = backend.claims.get("m1")
    assert record is not None
    assert (ClaimState.UNKNOWN, 1, 0) == (record.state, record.counters.interrupted, record.counters.crashed)
    assert () == tuple(dispatcher.open_claims)


@both_loops
def test_cancelled_handler_is_given_back_when_the_claims_are_kept(runner: Runner, clock: ManualClock) -> None:
    """A cancellation takes no further step in the store; the worker does it afterwards, and it is no lost worker."""
    backend = MemoryBackend(clock=clock)

    async def send(_message: Message, _key: str) -> None:
        await hang(runner)

    dispatcher = AsyncDispatcher(send, backend=as_async(backend), clock=clock)

    async def handle() -> object:
        return await dispatcher.handle(BODY)

    cancel(runner, handle)
    assert 0 == dispatcher.in_work
    runner(dispatcher.keep)
    record = backend.claims.get("m1")
    assert record is not None
    assert (ClaimState.UNKNOWN, 1) == (record.state, record.counters.interrupted)
    assert HandedBack() == runner(dispatcher.hand_back)


def test_handed_back_adds_up() -> None:
    """Of several dispatchers."""
    assert HandedBack(("a", "b"), ("c",)) == HandedBack(("a",)) + HandedBack(("b",), ("c",))


class Truthful:
    """A provider that knows what it has accepted."""

    def __init__(self) -> None:
        self.accepted: list[str] = []

    def send(self, _message: Message, key: str) -> str:
        self.accepted.append(key)
        return "p-1"

    def lookup(self, key: str) -> Sent | NotAccepted:
        return Sent("p-1") if key in self.accepted else NotAccepted()


def give_back(dispatcher: Dispatcher[None], _clock: ManualClock) -> None:
    dispatcher.hand_back()


def let_fail(dispatcher: Dispatcher[None], clock: ManualClock) -> None:
    clock.advance(2)
    dispatcher.keep(time_limit=1)


@pytest.mark.parametrize("comes_back", [True, False])
@pytest.mark.parametrize("take_away", [give_back, let_fail])
@pytest.mark.parametrize("steps", range(8))
def test_claim_taken_away_before_any_step_is_neither_lost_nor_sent_twice(
    backend: Backend, clock: ManualClock, steps: int, take_away: Callable[..., None], comes_back: bool
) -> None:
    """Whether its handler comes back afterwards or not, and whatever it was about to do."""
    provider = Truthful()
    dispatcher = Dispatcher(provider.send, backend=backend, clock=clock, lookup=provider.lookup)
    handling = run_until(dispatcher._handle(BODY, None), steps)
    take_away(dispatcher, clock)
    with suppress(ProcessStoppingError):  # it came too late to begin
        if comes_back and not handling.done:
            handling.finish()
    other = Dispatcher(provider.send, backend=backend, clock=clock, lookup=provider.lookup)
    other.handle(BODY)  # the application's queue delivers again
    for _ in range(5):
        clock.advance("10m")
        for due in backend.retries.claim_due(10, owner="scheduler"):
            other.handle(due.message)
            backend.retries.ack(due)
    record = backend.claims.get("m1")
    assert record is not None
    assert (["m1"], K.SENT) == (provider.accepted, record.disposition)
    if take_away is give_back:
        assert 0 == record.counters.failed


@pytest.mark.parametrize("more", range(6))
@pytest.mark.parametrize("steps", range(8))
def test_handler_that_goes_on_while_its_claim_is_given_back_sends_no_second_time(
    steps: int, more: int, clock: ManualClock
) -> None:
    """It stands before any step when it is decided what to give back, goes on before that is written, and again after another worker."""
    backend, provider = MemoryBackend(clock=clock), Truthful()

    def send(message: Message, key: str, _content: object) -> str:
        return provider.send(message, key)

    def worker() -> Dispatcher[object]:
        return Dispatcher(send, backend=backend, render=lambda _message: None, clock=clock, lookup=provider.lookup)

    dispatcher, other = worker(), worker()
    handling = run_until(dispatcher._handle(BODY, None), steps)
    giving = run_until(dispatcher._open.hand_back(), 0)
    try:
        for _ in range(more):
            if not handling.done:
                handling.make_step()
    except ProcessStoppingError:
        handling.done = True  # it came too late to begin
    giving.finish()
    stands_before_send = handling.step is not None and handling.step.fn is send
    other.handle(BODY)
    clock.advance("1m")
    other.handle(BODY)
    with suppress(ProcessStoppingError):
        if not handling.done:
            handling.finish()
    clock.advance("10m")
    other.handle(BODY)  # the copy from the retry queue
    record = backend.claims.get("m1")
    assert record is not None
    # Asked before the provider had it, it was sent again: a process that gives back has to end, and its sends with it.
    is_late = steps in (3, 4) and stands_before_send  # before it marks that it begins, and before it does
    assert (["m1", "m1"] if is_late else ["m1"], K.SENT) == (provider.accepted, record.disposition)
