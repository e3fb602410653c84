"""Dead letters put back: planned, a canary first, in slices, stopped when it goes wrong, and each exactly once whoever dies."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import attrs
import pytest

from retrykit import Dispatcher, Message, RetryScheduler
from retrykit.backends.memory import MemoryBackend
from retrykit.backends.sqlite import SQLiteBackend
from retrykit.classification import TaggedError
from retrykit.dead_letter import DeadLetterState
from retrykit.dead_letter_queue import AsyncDeadLetterQueue, DeadLetterQueue
from retrykit.deadletter import Capture
from retrykit.decision import DispositionKind
from retrykit.delivery import Sent
from retrykit.errors import (
    ConfigurationError,
    InvalidPayloadError,
    PayloadTooLargeError,
    RedriveConflictError,
    StoreUnavailableError,
)
from retrykit.events import Event, RedriveChanged
from retrykit.failure import ErrorClass
from retrykit.machines.redrive import RedriveJob, RedriveState
from retrykit.redrive import AsyncRedriver, Redriver
from retrykit.stores import ClaimState, DeadLetterQuery, Delivery, DeliveryStatus, as_async
from retrykit.testing import ManualClock
from tests.deadletter.ciphers import XorCipher

R, D = RedriveState, DeadLetterState


class TemplateError(TaggedError):
    error_class = ErrorClass.RENDERING_FAILURE


class Scene:
    """A backend, a worker whose template is broken at first, and the workbench, in either colour."""

    def __init__(self, colour: str = "sync", backend: Any = None) -> None:
        self.colour = colour
        self.clock = ManualClock()
        self.backend = backend or MemoryBackend(clock=self.clock)
        self.broken: Callable[[Message], bool] = lambda _: True
        self.sent: list[str] = []
        self.bodies: list[bytes] = []
        self.queue: list[Message] = []
        self.heard: list[Event] = []
        self.dispatcher = Dispatcher(
            self._send, render=self._render, backend=self.backend, clock=self.clock, lookup=lambda _: None
        )

    def _render(self, message: Message) -> None:
        if self.broken(message):
            raise TemplateError("no first_name")

    def _send(self, message: Message, key: str, content: object) -> None:
        self.sent.append(message.id)
        self.bodies.append(message.body)

    def die(self, count: int, **attributes: str) -> None:
        """Let messages die of the broken template."""
        for number in range(count):
            self.dispatcher.handle(Message(f"m-{number}", {"n": number}, attributes))
        self.clock.advance("1m")

    def work(self) -> None:
        """Do all that is due."""
        scheduler = RetryScheduler(self.backend, self.queue.append, clock=self.clock)
        while scheduler.run_once():
            while self.queue:
                self.dispatcher.handle(self.queue.pop(0))

    @property
    def bench(self) -> Any:
        """The workbench."""
        if self.colour == "sync":
            return DeadLetterQueue(self.backend, clock=self.clock)
        return Blocking(AsyncDeadLetterQueue(as_async(self.backend), clock=self.clock))

    def runner(self, **options: Any) -> Any:
        options = {"clock": self.clock, "on_event": [self.heard.append], **options}
        if self.colour == "sync":
            return Redriver(self.backend, **options)
        return Blocking(AsyncRedriver(as_async(self.backend), **options))

    def start(self, query: str = "class:rendering_failure", **options: Any) -> RedriveJob:
        options = {"root_cause": "release 42 repairs the template", "by": "ada", **options}
        return cast("RedriveJob", self.bench.redrive(self.bench.plan(query), **options))

    def job(self, job_id: str) -> RedriveJob:
        job = self.backend.redrives.get(job_id)
        assert job is not None
        return cast("RedriveJob", job)

    def to_the_end(self, job: RedriveJob, runner: Any = None) -> RedriveJob:
        """Step and work in turn until the redrive rests."""
        runner = runner or self.runner()
        for _ in range(100):
            job = runner.step(job.id)
            if job.state is not R.RUNNING:
                return job
            self.work()
            self.clock.advance("1s")
        raise AssertionError(f"it runs for ever: {job}")

    def states(self) -> Counter[str]:
        letters = self.backend.dead_letters.search(limit=1000).letters
        return Counter(letter.state.value for letter in letters)


class Blocking:
    """An asynchronous part, called from synchronous code."""

    def __init__(self, part: object) -> None:
        self._part = part

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._part, name)
        return cast(
            "Callable[..., Any]", method if name == "stop" and isinstance(self._part, AsyncRedriver) else
            lambda *args, **options: asyncio.run(method(*args, **options))
        )  # fmt: skip


@pytest.fixture(params=["sync", "async"])
def scene(request: pytest.FixtureRequest) -> Scene:
    return Scene(request.param)


def whole(_: Message) -> bool:
    return False


# Plans


def test_plan_says_what_would_be_put_back_and_changes_nothing(scene: Scene) -> None:
    """How many, of which class, provider and campaign, and some of them."""
    scene.die(3, campaign_id="spring", provider="ses")
    plan = scene.bench.plan("class:rendering_failure")
    assert (3, [("rendering_failure", 3)], [("ses", 3)], [("spring", 3)], []) == (
        plan.count,
        list(plan.error_classes),
        list(plan.providers),
        list(plan.campaigns),
        list(plan.warnings),
    )
    assert ["m-2#1", "m-1#1", "m-0#1"] == plan.to_dict()["samples"]
    assert scene.clock.now() == plan.cut_off
    assert {"quarantined": 3} == scene.states()
    json.dumps(plan.to_dict())


def test_plan_warns_of_what_stands_in_the_way(scene: Scene) -> None:
    """Pauses, open breakers, what had been sent after all, what nobody is sure of, and what was put back too often."""
    scene.die(3, campaign_id="spring", provider="ses", tenant="acme")
    scene.backend.circuits.pause("campaign:spring", reason="bad template", by="ada")
    scene.backend.circuits.pause("tenant:other", reason="unpaid", by="ada")
    scene.backend.circuits.trip("ses", by="worker", recovery="1m")
    scene.backend.deliveries.record(
        Delivery(message_id="m-1", status=DeliveryStatus.DELIVERED, version=9, updated_at=scene.clock.now())
    )
    assert [
        "campaign:spring is paused by ada: bad template; nothing of it is put back before that is over",
        "the breaker of ses is open; nothing of it is put back before that is over",
        "1 of the 3 letters looked at had been sent after all; they are resolved instead of being sent again",
    ] == list(scene.bench.plan("class:rendering_failure").warnings)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("", "the query has no condition"),
        ("state:quarantined", "the query has no condition"),
        ("state:resolved", "the query asks for letters that are resolved; allowed are quarantined ones"),
        ("clas:rendering_failure", "did you mean 'class'"),
    ],
)
def test_plan_of_too_much_or_of_something_else_is_refused(scene: Scene, query: str, said: str) -> None:
    """Never a blind redrive of the whole queue."""
    with pytest.raises(ConfigurationError, match=said):
        scene.bench.plan(query)


def test_plan_of_everything_has_to_be_said(scene: Scene) -> None:
    """Then it is possible."""
    scene.die(2)
    assert 2 == scene.bench.plan(DeadLetterQuery(), everything=True).count


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"root_cause": " "}, "root_cause has 0 characters"),
        ({"root_cause": 3}, "root_cause is of type int"),
        ({"by": ""}, "by is empty"),
        ({"canary": -1}, "canary is -1"),
        ({"rate": 0}, "rate is 0"),
        ({"tolerance": 1}, "tolerance is 1"),
        ({"patience": "0s"}, "patience"),
    ],
)
def test_redrive_with_a_value_that_is_not_allowed_is_refused(scene: Scene, options: dict[str, Any], said: str) -> None:
    """By its name, and nothing is started."""
    with pytest.raises(ConfigurationError, match=said):
        scene.start(**options)
    assert [] == list(scene.backend.redrives.jobs())


def test_redrive_without_a_plan_is_refused(scene: Scene) -> None:
    """A query is none."""
    with pytest.raises(ConfigurationError, match="the plan is of type str"):
        scene.bench.redrive("class:rendering_failure", root_cause="fixed", by="ada")


# How it goes


def test_redrive_puts_back_everything_after_its_canary_has_passed(scene: Scene) -> None:
    """A canary of three first; then slices that double; each message is sent once, each letter is resolved."""
    scene.die(40)
    job = scene.start(canary=3)
    scene.broken = whole
    runner = scene.runner()
    slices = [runner.step(job.id).put_back]
    assert 3 == runner.step(job.id).put_back, "nothing more before the canary's messages have come to an end"
    while (now := scene.job(job.id)).state is R.RUNNING:
        scene.work()
        scene.clock.advance("1s")
        slices.append(runner.step(job.id).put_back)
    assert [3, 9, 21, 40, 40] == slices
    assert (R.DONE, 40, 0) == (now.state, now.succeeded, now.failed)
    assert sorted(f"m-{n}" for n in range(40)) == sorted(scene.sent)
    assert {"resolved": 40} == scene.states()
    letter = scene.backend.dead_letters.get("m-7#1")
    assert (job.id, "release 42 repairs the template") == (letter.redrive_id, letter.note)
    assert [RedriveChanged] == [type(event) for event in scene.heard]


def test_redriven_message_begins_anew_with_its_history_kept(scene: Scene) -> None:
    """Counters, tries and age are those of a new generation."""
    scene.die(1)
    job = scene.start()
    scene.runner().step(job.id)
    record = scene.backend.claims.get("m-0")
    assert (ClaimState.FREE, 2, (), 1) == (record.state, record.generation, record.tries, len(record.attempts))
    assert (0, 0, "m-0#1") == (record.counters.failed, record.counters.crashed, record.redriven_from)


def test_redrive_whose_canary_fails_stops_with_no_more_sent_than_the_canary(scene: Scene) -> None:
    """What failed again has a new letter, behind the cut-off."""
    scene.die(40)
    job = scene.to_the_end(scene.start(canary=5))
    assert (R.STOPPED, "the canary failed: 5 of 5 messages failed again", 5) == (job.state, job.note, job.put_back)
    assert {"quarantined": 40, "superseded": 5} == scene.states()
    letter = scene.backend.dead_letters.get("m-39#2")
    assert (2, 1, 1) == (letter.generation, letter.redrive_count, letter.attempt_count)


def test_what_fails_during_the_redrive_is_not_picked_up_again(scene: Scene) -> None:
    """Resumed with the cause repaired at last, it puts back the rest, and leaves those of the failed canary to another one."""
    scene.die(20)
    job = scene.to_the_end(scene.start(canary=5))
    scene.broken = whole
    scene.bench.resume(job.id, by="ada", why="release 43 does repair it")
    job = scene.to_the_end(job)
    assert (R.DONE, 20, 15, 5) == (job.state, job.put_back, job.succeeded, job.failed)
    assert 15 == len(scene.sent)
    assert {"quarantined": 5, "superseded": 5, "resolved": 15} == scene.states()
    job = scene.to_the_end(scene.start())
    assert (R.DONE, 5) == (job.state, job.succeeded)
    assert {"superseded": 0, "resolved": 20, "quarantined": 0} | scene.states() == {
        "superseded": 5, "resolved": 20, "quarantined": 0
    }  # fmt: skip


def test_redrive_stops_when_too_much_of_what_follows_fails_again(scene: Scene) -> None:
    """The canary was lucky; the share of the latest messages tells."""
    scene.die(200)
    scene.broken = lambda message: int(message.id[2:]) < 150  # the letters put last come first
    job = scene.to_the_end(scene.start(canary=5))
    assert R.STOPPED is job.state
    assert "messages failed again" in job.note
    assert job.put_back < 150
    assert job.put_back == len(scene.sent) + job.failed


def test_some_failures_are_tolerated(scene: Scene) -> None:
    """As many as the tolerance says."""
    scene.die(40)
    scene.broken = lambda message: message.id in ("m-39", "m-20")
    job = scene.to_the_end(scene.start(canary=10, tolerance=0.1))
    assert (R.DONE, 38, 2) == (job.state, job.succeeded, job.failed)


def test_message_that_fails_again_for_the_same_reason_counts_before_it_is_dead(scene: Scene) -> None:
    """A canary does not wait for hours of retries."""

    def full(message: Message, key: str) -> None:
        raise DownError("mailbox full")

    class DownError(TaggedError):
        error_class = ErrorClass.PROVIDER_UNAVAILABLE

    dispatcher = Dispatcher(full, backend=scene.backend, clock=scene.clock)
    scene.dispatcher = cast("Any", dispatcher)
    dispatcher.handle(Message("m", {"n": 1}))
    while not scene.backend.dead_letters.count():
        scene.clock.advance("1h")
        scene.work()
    scene.clock.advance("1s")
    job = scene.start("class:provider_unavailable", not_sent=True)
    runner = scene.runner()
    runner.step(job.id)
    scene.work()
    assert R.STOPPED is runner.step(job.id).state
    assert ClaimState.WAITING is scene.backend.claims.get("m").state or scene.backend.claims.get("m").generation == 2


def test_rate_spreads_the_messages(scene: Scene) -> None:
    """Two a second: a slice holds ten seconds' worth, each due half a second after the one before."""
    scene.die(30)
    scene.broken = whole
    job = scene.start(canary=0, rate=2.0)
    runner = scene.runner()
    assert 20 == runner.step(job.id).put_back
    assert 20 == runner.step(job.id).put_back, "before the time of the slice is over nothing follows"
    scene.work()
    assert 1 == len(scene.sent)
    scene.clock.advance("5s")
    scene.work()
    assert 11 == len(scene.sent)
    scene.clock.advance("5s")
    assert 30 == runner.step(job.id).put_back
    assert R.DONE is scene.to_the_end(job, runner).state


def test_canary_that_comes_to_no_end_pauses_the_redrive(scene: Scene) -> None:
    """Nobody works: that is told, and resumed it waits again."""
    scene.die(20)
    job = scene.start(canary=5, patience="10m")
    runner = scene.runner()
    runner.step(job.id)
    scene.clock.advance("10m")
    paused = runner.step(job.id)
    assert R.PAUSED is paused.state
    assert "5 messages of the canary have not come to an end within 10m; does a worker run?" == paused.note
    scene.broken = whole
    scene.bench.resume(job.id, by="ada", why="the workers are back")
    assert (R.DONE, 20) == ((ended := scene.to_the_end(job, runner)).state, ended.succeeded)


def test_slice_that_comes_to_no_end_is_told(scene: Scene) -> None:
    """Nothing follows until more of it has; the redrive says what it waits for."""
    scene.die(60)
    scene.broken = whole
    job = scene.start(canary=5, patience="10m")
    runner = scene.runner()
    runner.step(job.id)
    scene.work()
    assert 15 == runner.step(job.id).put_back
    scene.clock.advance("10m")
    waiting = runner.step(job.id)
    assert (15, R.RUNNING, "waits: 10 messages have not come to an end within 10m") == (
        waiting.put_back,
        waiting.state,
        waiting.note,
    )
    scene.work()
    assert (35, "") == ((after := runner.step(job.id)).put_back, after.note)


def test_redrive_is_done_though_its_last_messages_wait_for_long(scene: Scene) -> None:
    """It says how many."""
    scene.die(3)
    job = scene.start(patience="10m")
    runner = scene.runner()
    runner.step(job.id)
    scene.clock.advance("10m")
    done = runner.step(job.id)
    assert (R.DONE, "3 put back, 0 sent, 0 failed again, 3 have not come to an end yet") == (done.state, done.note)


def test_pause_of_a_campaign_holds_the_redrive_back(scene: Scene) -> None:
    """It goes on soon after somebody has resumed."""
    scene.die(3, campaign_id="spring")
    scene.broken = whole
    job = scene.start()
    scene.backend.circuits.pause("campaign:spring", reason="looking at it", by="bob")
    runner = scene.runner()
    waiting = runner.step(job.id)
    assert (0, "waits: campaign:spring is paused by bob: looking at it") == (waiting.put_back, waiting.note)
    scene.backend.circuits.resume("campaign:spring")
    scene.clock.advance("30s")
    assert 3 == runner.step(job.id).put_back


def test_paused_redrive_rests_until_it_is_resumed(scene: Scene) -> None:
    """Its runner may not go on; stopped for good it goes on only as a new canary."""
    scene.die(40)
    scene.broken = whole
    job = scene.start(canary=5)
    runner = scene.runner()
    runner.step(job.id)
    scene.bench.pause(job.id, by="ada", why="lunch")
    scene.work()
    assert (R.PAUSED, 5, "lunch") == ((resting := runner.step(job.id)).state, resting.put_back, resting.note)
    scene.bench.resume(job.id, by="ada", why="back")
    assert 15 == runner.step(job.id).put_back
    stopped = scene.bench.stop(job.id, by="ada", why="enough")
    assert (R.STOPPED, stopped) == (stopped.state, runner.step(job.id))
    assert stopped == scene.bench.pause(job.id, by="ada", why="too late"), "what has ended does not rest"


# What is not put back


def test_letter_of_a_message_that_had_been_sent_is_resolved(scene: Scene) -> None:
    """Whether the claim knows or only the delivery log; it is not sent again."""
    scene.die(2)
    scene.backend.claims.confirm("m-0", provider="ses", provider_id="p-0")
    scene.backend.deliveries.record(
        Delivery(message_id="m-1", status=DeliveryStatus.DELIVERED, version=9, updated_at=scene.clock.now())
    )
    job = scene.to_the_end(scene.start())
    assert (R.DONE, 0, 2) == (job.state, job.put_back, job.already_sent)
    assert {"resolved": 2} == scene.states()
    assert [] == scene.sent


def test_letter_that_was_put_back_too_often_is_parked(scene: Scene) -> None:
    """The plan says so, and a redrive that allows more takes it."""
    scene.die(1)
    for _ in range(3):
        scene.to_the_end(scene.start())
        scene.clock.advance("1s")
    plan = scene.bench.plan("class:rendering_failure")
    assert ["1 of the 1 letters looked at were put back 3 times and more already; they are parked"] == list(
        plan.warnings
    )
    job = scene.to_the_end(scene.start())
    assert (R.DONE, 0, 1) == (job.state, job.put_back, job.passed_over)
    scene.broken = whole
    more = scene.bench.redrive(
        scene.bench.plan("class:rendering_failure", max_redrives=4), root_cause="found it at last", by="ada"
    )
    assert 1 == scene.to_the_end(more).succeeded


def test_letter_of_a_newer_version_is_left_alone(scene: Scene) -> None:
    """Nobody knows what it means."""
    scene.die(1)
    letter = scene.backend.dead_letters.get("m-0#1")
    newer = attrs.evolve(letter, id="new#1", message_id="new", schema_version=9)
    scene.backend.dead_letters.put(newer)
    plan = scene.bench.plan("class:rendering_failure")
    assert ["1 of the 2 letters looked at were written by a newer retrykit; they are left alone"] == list(plan.warnings)
    scene.broken = whole
    job = scene.to_the_end(scene.start())
    assert (1, 1) == (job.put_back, job.passed_over)
    assert newer == scene.backend.dead_letters.get("new#1")


def test_message_with_an_unknown_outcome_is_verified_before_it_is_sent_again() -> None:
    """The provider has it: it is not sent again. Where somebody made sure that it has not, it is."""
    for not_sent, expected in ((False, 0), (True, 1)):
        scene = Scene()
        record_unsure(scene)
        scene.broken = whole
        scene.dispatcher = Dispatcher(
            scene._send, render=scene._render, backend=scene.backend, clock=scene.clock, lookup=lambda _: Sent("p-1")
        )
        plan = scene.bench.plan("class:network_timeout")
        assert 1 == sum("may have been sent" in warning for warning in plan.warnings)
        job = scene.bench.redrive(plan, root_cause="the line is back", by="ada", not_sent=not_sent)
        job = scene.to_the_end(job)
        assert (R.DONE, 1, expected) == (job.state, job.succeeded, len(scene.sent))
        assert {"resolved": 1} == scene.states()


def record_unsure(scene: Scene) -> None:
    """Let a message go to a person of which nobody knows whether it was sent."""

    def lost(message: Message, key: str) -> None:
        raise TimeoutError("no reply")

    dispatcher = Dispatcher(lost, backend=scene.backend, clock=scene.clock, lookup=lambda _: None)
    scene.dispatcher = cast("Any", dispatcher)
    dispatcher.handle(Message("m", {"n": 1}))
    while not scene.backend.dead_letters.count():
        scene.clock.advance("1h")
        scene.work()
    scene.clock.advance("1s")


def test_message_of_which_nobody_can_tell_goes_to_a_person_again() -> None:
    """It does not go round for ever, though it has no failed try to count its age from."""
    scene = Scene()
    record_unsure(scene)
    scene.runner().step(scene.start("class:network_timeout").id)
    for _ in range(200):
        scene.work()
        scene.clock.advance("1h")
    assert {"superseded": 1, "quarantined": 1} == scene.states()


def test_letter_without_its_message_is_left_alone_until_it_is_repaired(scene: Scene) -> None:
    """Masked for good; a repair has to be whole."""
    scene.dispatcher = Dispatcher(
        scene._send, render=scene._render, backend=scene.backend, clock=scene.clock, capture=Capture(mask=["n"])
    )
    scene.die(1)
    plan = scene.bench.plan("class:rendering_failure")
    assert 1 == sum("hold no whole message" in warning for warning in plan.warnings)
    assert (R.DONE, 1) == ((ended := scene.to_the_end(scene.start())).state, ended.passed_over)
    with pytest.raises(ConfigurationError, match="is masked; give a whole payload and all attributes"):
        scene.bench.edit("m-0#1", {"n": 5}, by="ada", why="from the source")
    scene.bench.edit("m-0#1", {"n": 5}, attributes={}, by="ada", why="from the source")
    scene.broken = whole
    assert 1 == scene.to_the_end(scene.start()).succeeded
    assert [b'{"n":5}'] == scene.bodies
    assert "in place of what was masked" in next(
        each.result for each in scene.backend.redrives.audit() if "edit" in each.action
    )


def test_encrypted_letter_is_put_back_and_repaired_by_whoever_has_the_cipher(scene: Scene) -> None:
    """Its repair is encrypted as well, and the audit log does not show it."""
    cipher = XorCipher()
    scene.dispatcher = Dispatcher(
        scene._send, render=scene._render, backend=scene.backend, clock=scene.clock, capture=Capture(encrypt=cipher)
    )
    scene.die(2, recipient="ada@example.org")
    assert 1 == sum(
        "hold no whole message" in warning for warning in scene.bench.plan("class:rendering_failure").warnings
    )
    with pytest.raises(ConfigurationError, match="is encrypted for 'xor'; give the queue its cipher"):
        scene.bench.edit("m-0#1", {"n": 7}, attributes={}, by="ada", why="x")
    bench = DeadLetterQueue(scene.backend, cipher=cipher, clock=scene.clock)
    edited = bench.edit("m-0#1", {"n": 7}, by="ada", why="x")
    assert edited.edit is not None
    assert ("xor", False) == (edited.edit.cipher, b'"n":7' in edited.edit.payload)
    scene.broken = whole
    plan = bench.plan("class:rendering_failure")
    assert [] == list(plan.warnings)
    job = scene.to_the_end(bench.redrive(plan, root_cause="repaired", by="ada"), scene.runner(cipher=cipher))
    assert (R.DONE, 2) == (job.state, job.succeeded)
    assert [b'{"n":1}', b'{"n":7}'] == sorted(scene.bodies)
    assert not any('"n"' in entry.result for entry in scene.backend.redrives.audit())


# Repairs


def test_edited_letter_is_sent_as_repaired_and_never_as_it_was(scene: Scene) -> None:
    """The original stays; a late copy of it is a duplicate; what was changed stands in the audit log."""
    scene.die(1)
    edited = scene.bench.edit("m-0#1", {"n": 0, "first_name": "Ada"}, by="ada", why="the name was missing")
    assert (b'{"n":0}', b'{"n":0,"first_name":"Ada"}') == (edited.original_payload, edited.edit.payload)
    scene.broken = lambda message: "first_name" not in cast("dict[str, object]", message.payload)
    job = scene.start()
    runner = scene.runner()
    runner.step(job.id)
    late = scene.dispatcher.handle(Message("m-0", {"n": 0}))
    assert (DispositionKind.DUPLICATE, "an edited payload has replaced this one") == (late.kind, late.reason)
    assert R.DONE is scene.to_the_end(job, runner).state
    assert [b'{"n":0,"first_name":"Ada"}'] == scene.bodies
    assert DispositionKind.DUPLICATE is scene.dispatcher.handle(Message("m-0", {"n": 0})).kind
    (entry,) = [each for each in scene.backend.redrives.audit() if each.action == "edited"]
    assert ("ada", "m-0#1", "the name was missing") == (entry.by, entry.subject, entry.why)
    assert '+  "first_name": "Ada",' in entry.result


def test_edit_of_the_attributes_alone_keeps_the_payload(scene: Scene) -> None:
    """A recipient is repaired as often as a body."""
    scene.die(1, recipient="ada@example.com")
    edited = scene.bench.edit("m-0#1", attributes={"recipient": "ada@example.org"}, by="ada", why="typo")
    assert (b'{"n":0}', {"recipient": "ada@example.org"}) == (edited.edit.payload, edited.edit.attributes)


@pytest.mark.parametrize(
    ("letter_id", "payload", "error", "said"),
    [
        ("none#1", {}, ConfigurationError, "there is no dead letter 'none#1'"),
        ("m-0#1", b"{", InvalidPayloadError, "JSON"),
        ("m-0#1", {"long": "x" * 2_000_000}, PayloadTooLargeError, "allowed are at most 1,048,576"),
    ],
)
def test_edit_that_cannot_be_is_refused(
    scene: Scene, letter_id: str, payload: Any, error: type[Exception], said: str
) -> None:
    """And the letter is as it was."""
    scene.die(1)
    with pytest.raises(error, match=said):
        scene.bench.edit(letter_id, payload, by="ada", why="a try")
    assert scene.backend.dead_letters.get("m-0#1").edit is None


def test_edit_is_validated_as_the_dispatcher_would(scene: Scene) -> None:
    """By the application's own function."""
    scene.die(1)

    def validate(message: Message) -> bool:
        return "first_name" in cast("dict[str, object]", message.payload)

    async def avalidate(message: Message) -> bool:
        return validate(message)

    own = validate if scene.colour == "sync" else avalidate
    with pytest.raises(InvalidPayloadError, match="validate gave False for the payload that the dead letter 'm-0#1'"):
        scene.bench.edit("m-0#1", {"n": 1}, by="ada", why="a try", validate=own)
    assert scene.bench.edit("m-0#1", {"first_name": "Ada"}, by="ada", why="a try", validate=own).edit


def test_letter_that_is_being_put_back_is_not_edited(scene: Scene) -> None:
    """It is too late."""
    scene.die(1)
    scene.runner().step(scene.start().id)
    with pytest.raises(ConfigurationError, match="the dead letter 'm-0#1' is redriving; allowed are quarantined ones"):
        scene.bench.edit("m-0#1", {"n": 2}, by="ada", why="a try")


def test_payload_that_is_no_json_is_repaired(scene: Scene) -> None:
    """The diff shows what it was."""
    scene.dispatcher.handle(b"{broken", id="m")
    scene.clock.advance("1s")
    scene.bench.edit("m#1", b'{"n": 1}', by="ada", why="the producer cut it")
    scene.broken = whole
    assert 1 == scene.to_the_end(scene.start("class:invalid_payload")).succeeded
    assert "{broken" in next(each.result for each in scene.backend.redrives.audit() if each.action == "edited")


def test_discarded_letters_stay_as_evidence(scene: Scene) -> None:
    """Only those that the query means, with who and why."""
    scene.die(3, campaign_id="spring")
    assert 2 == scene.bench.discard("campaign:spring message:m-1", by="ada", why="test") + scene.bench.discard(
        "message:m-2", by="ada", why="test"
    )
    assert {"quarantined": 1, "discarded": 2} == scene.states()
    assert "ada: test" == scene.backend.dead_letters.get("m-1#1").note
    actions = [(each.action, each.result) for each in scene.backend.redrives.audit()]
    assert ("discarded", "1 letter") == actions[0], "the latest, also where both are of one millisecond"
    assert Counter({("discard begun", ""): 2, ("discarded", "1 letter"): 2}) == Counter(actions)
    with pytest.raises(ConfigurationError, match="why has 0 characters"):
        scene.bench.discard("message:m-0", by="ada", why="")
    with pytest.raises(ConfigurationError, match="everything=True"):
        scene.bench.discard("", by="ada", why="test")


def test_discard_in_the_millisecond_of_the_death_takes_it_in(scene: Scene) -> None:
    """Whoever has seen a letter may give it up."""
    scene.dispatcher.handle(Message("m-0", {}, {}))
    assert scene.clock.now() == scene.backend.dead_letters.get("m-0#1").dead_lettered_at
    assert 1 == scene.bench.discard("message:m-0", by="ada", why="test")


def test_discard_goes_over_all_pages(scene: Scene) -> None:
    """More than one page of them."""
    scene.die(620)
    told = list[int]()
    query = "class:rendering_failure"
    assert 620 == scene.bench.discard(query, by="ada", why="an old test", on_progress=told.append)
    assert list(range(1, 621)) == told


# Runners


def test_two_runners_at_once_one_is_told(scene: Scene) -> None:
    """Clearly; and when the lease of the one that died is over, the other goes on."""
    scene.die(20)
    scene.broken = whole
    job = scene.start(canary=5)
    one, other = scene.runner(lease="1m"), scene.runner(lease="1m")
    one.step(job.id)
    with pytest.raises(RedriveConflictError, match=r"is being run by .*, whose lease ends at 2") as caught:
        other.step(job.id)
    assert scene.clock.now() + timedelta(minutes=1) == caught.value.held_until
    assert 0 == other.run_once(), "it passes over what somebody else is at"
    scene.work()
    scene.clock.advance("1m")
    assert (R.DONE, 20) == ((ended := scene.to_the_end(job, other)).state, ended.succeeded)


def test_two_redrives_of_one_group_at_once_one_is_refused(scene: Scene) -> None:
    """Those of different groups run side by side; one of several groups has to be alone."""
    scene.die(3)
    letter = scene.backend.dead_letters.get("m-0#1")
    first = scene.start(f"fingerprint:{letter.fingerprint}")
    for query in (f"fingerprint:{letter.fingerprint}", "class:rendering_failure"):
        with pytest.raises(RedriveConflictError, match=f"the redrive '{first.id}' of 'ada' is active"):
            scene.start(query)
    second = scene.start("fingerprint:v1:other")
    assert {first.id, second.id} == {job.id for job in scene.backend.redrives.jobs(active=True)}
    scene.bench.stop(first.id, by="ada", why="wrong one")
    third = scene.start(f"fingerprint:{letter.fingerprint}")
    with pytest.raises(RedriveConflictError, match=third.id):
        scene.bench.resume(first.id, by="ada", why="again")


def test_runner_of_all_redrives_takes_each_a_step_on(scene: Scene) -> None:
    """Those that are paused rest."""
    scene.die(3)
    letter = scene.backend.dead_letters.get("m-0#1")
    scene.start(f"fingerprint:{letter.fingerprint}")
    resting = scene.start("fingerprint:v1:other")
    scene.bench.pause(resting.id, by="ada", why="later")
    assert 3 == scene.runner().run_once()
    assert 0 == scene.runner().run_once()


def test_run_goes_on_to_the_end_of_one_redrive(scene: Scene) -> None:
    """Looking again after each pause; a store that fails is tried again."""
    scene.die(30)
    scene.broken = whole
    job = scene.start(canary=5)
    failures: list[bool] = [True, False]
    get = scene.backend.redrives._change

    def change(*args: Any) -> Any:
        if failures and failures.pop():
            raise StoreUnavailableError("gone for a moment")
        return get(*args)

    scene.backend.redrives._change = change
    worked = scene.work
    clock = scene.clock
    sleep, asleep = clock.sleep, clock.sleep_async

    def nap(delay: float) -> None:
        worked()
        sleep(delay)

    async def anap(delay: float) -> None:
        worked()
        await asleep(delay)

    clock.sleep, clock.sleep_async = nap, anap  # type: ignore[method-assign]
    ended = scene.runner().run(job.id)
    assert (R.DONE, 30) == (ended.state, ended.succeeded)


def test_run_of_all_ends_when_it_is_told(scene: Scene) -> None:
    """From another thread or a signal handler."""
    scene.die(3)
    scene.start()
    runner = scene.runner()
    sleep = scene.clock.sleep

    def nap(delay: float) -> None:
        runner.stop()
        sleep(delay)

    async def anap(delay: float) -> None:
        nap(delay)

    scene.clock.sleep, scene.clock.sleep_async = nap, anap  # type: ignore[method-assign]
    assert runner.run() is None
    assert {"redriving": 3} == scene.states()


def test_redrive_that_there_is_not_is_told(scene: Scene) -> None:
    """By every call that names one."""
    with pytest.raises(ConfigurationError, match="there is no redrive 'none'"):
        scene.runner().step("none")
    for act in ("pause", "resume", "stop"):
        with pytest.raises(ConfigurationError, match="there is no redrive 'none'"):
            getattr(scene.bench, act)("none", by="ada", why="a try")


# Deaths


class DyingError(BaseException):
    """The process dies."""


@contextmanager
def living(scene: Scene, steps: int) -> Iterator[None]:
    """Let the calls of the stores die after so many."""
    left = steps

    def dying(call: Callable[..., Any]) -> Callable[..., Any]:
        def made(*args: Any) -> Any:
            nonlocal left
            if left == 0:
                raise DyingError
            left -= 1
            return call(*args)

        return made

    with pytest.MonkeyPatch.context() as patch:
        backend = scene.backend
        for store in (backend.claims, backend.retries, backend.dead_letters, backend.redrives, backend.deliveries):
            for name in type(store).__mro__[1].__abstractmethods__:
                patch.setattr(store, name, dying(getattr(store, name)))
        yield


@pytest.mark.parametrize("heal", [True, False], ids=["repaired", "broken"])
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_runner_that_dies_at_any_step_loses_and_doubles_nothing(tmp_path: Path, kind: str, heal: bool) -> None:
    """Each message is sent once, or lies in quarantine; a failing canary is never more than the canary."""
    steps = 0
    while True:
        scene = Scene()
        if kind == "sqlite":
            backend = SQLiteBackend(tmp_path / f"{steps}.db", clock=scene.clock, synchronous="normal")
            scene = Scene(backend=backend)
            backend._database._clock = scene.clock  # one clock for all
        scene.die(8)
        if heal:
            scene.broken = whole
        job = scene.start(canary=3)
        died = False
        with living(scene, steps):
            try:
                scene.runner().step(job.id)
            except DyingError:
                died = True
        scene.work()  # what is in circulation goes on, whoever died
        scene.clock.advance("2m")
        ended = scene.to_the_end(job)
        scene.work()
        if heal:
            assert (R.DONE, 8) == (ended.state, ended.succeeded), f"died before step {steps}"
            assert sorted(f"m-{n}" for n in range(8)) == sorted(scene.sent)
            assert {"resolved": 8} == scene.states()
        else:
            assert (R.STOPPED, 3) == (ended.state, ended.put_back), f"died before step {steps}"
            assert {"quarantined": 8, "superseded": 3} == scene.states()
        scene.backend.close()
        if not died:
            break
        steps += 1
    assert steps > 20
