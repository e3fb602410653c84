"""The dispatcher: what becomes of a message, in both colours."""

from __future__ import annotations

import functools
import smtplib
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import attrs
import pytest

from retrykit import (
    EMAIL_MATRIX,
    Action,
    AsyncDispatcher,
    DeadLetter,
    Dispatcher,
    ErrorClass,
    Message,
    PolicyMatrix,
    RetryLater,
    RetryPolicy,
    TaggedError,
    open_async_backend,
)
from retrykit.backends import MemoryBackend
from retrykit.backends.sqlite import SQLiteBackend
from retrykit.decision import Decision, Disposition, DispositionKind
from retrykit.delivery import NotAccepted, Sent
from retrykit.errors import (
    ConfigurationError,
    FingerprintMismatchError,
    InvalidMessageError,
    PayloadTooLargeError,
    StoreUnavailableError,
)
from retrykit.events import AttemptFailed, Event, MessageHandled, OutcomeVerified
from retrykit.fingerprint import fingerprint
from retrykit.stores import Backend, ClaimState, DeliveryStatus, PoisonRule, as_async
from retrykit.testing import ManualClock, Paused
from tests.colours import Runner, both_loops

K = DispositionKind


class Outbox:
    """A sender that keeps what it was given and does what it is told."""

    def __init__(self, *outcomes: Exception | Sent | str | None) -> None:
        self.outcomes = list(outcomes)
        self.given: list[tuple[Any, ...]] = []

    def __call__(self, *args: Any) -> Sent | str | None:
        self.given.append(args)
        outcome = self.outcomes.pop(0) if self.outcomes else None
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


def greylisted() -> Exception:
    return smtplib.SMTPResponseException(451, b"4.7.1 Greylisted, please come back later")


def only_letter(backend: Backend) -> DeadLetter:
    (letter,) = backend.dead_letters.search().letters
    return letter


BODY = b'{"id": "m1", "recipient": "a@example.org", "campaign_id": "spring"}'


def test_handle_accepted_message_is_sent_and_logged(backend: Backend, clock: ManualClock) -> None:
    """The send gets message and key; what the provider said stands in the disposition and in the log."""
    outbox = Outbox(Sent("p-1", "ses"))
    disposition = Dispatcher(outbox, backend=backend, clock=clock).handle(BODY)
    assert disposition == Disposition(kind=K.SENT, message_id="m1", provider="ses", provider_id="p-1", attempts=1)
    ((message, key),) = outbox.given
    assert (message.id, key, message.payload["recipient"]) == ("m1", "m1", "a@example.org")
    delivery = backend.deliveries.get("m1")
    assert delivery is not None
    assert (delivery.status, delivery.provider, delivery.provider_id) == ("sent_to_provider", "ses", "p-1")


@pytest.mark.parametrize(("result", "provider_id"), [(None, None), ("p-7", "p-7"), (Sent("p-8"), "p-8")])
def test_handle_send_result_forms_give_provider_id(backend: Backend, result: Any, provider_id: str | None) -> None:
    """A send may return nothing, the provider's id, or the whole answer."""
    assert Dispatcher(Outbox(result), backend=backend).handle(BODY).provider_id == provider_id


def test_letters_of_one_cause_have_one_fingerprint(backend: Backend) -> None:
    """Whoever they were for; another cause has another one, and the place it was raised at stands in the history."""

    def render(message: Message) -> str:
        if message.attributes["recipient"].startswith("c"):
            raise LookupError(f"no template for {message.attributes['recipient']}")
        raise LookupError(f"no name for {message.attributes['recipient']}")

    dispatcher = Dispatcher(lambda message, key, content: None, backend=backend, render=render)
    for name in ("ada", "bob", "carl"):
        dispatcher.handle({"id": name, "recipient": f"{name}@example.org"})
    letters = {letter.message_id: letter for letter in backend.dead_letters.search().letters}
    ada, bob, carl = (letters[name] for name in ("ada", "bob", "carl"))
    assert ada.attempts[-1].failure.frame == f"{__name__}:{render.__qualname__}"
    assert ada.fingerprint is not None
    assert ada.fingerprint == fingerprint(ada.attempts[-1].failure) == bob.fingerprint != carl.fingerprint


def test_handle_message_again_is_duplicate_and_not_sent(backend: Backend) -> None:
    """A message that was sent is not sent again, and the duplicate says what became of it."""
    outbox = Outbox("p-1")
    dispatcher = Dispatcher(outbox, backend=backend)
    dispatcher.handle(BODY)
    disposition = dispatcher.handle(BODY)
    assert (disposition.kind, disposition.settled, disposition.provider_id) == (K.DUPLICATE, K.SENT, "p-1")
    assert len(outbox.given) == 1


def test_handle_temporary_failure_waits_in_retry_queue(backend: Backend, clock: ManualClock) -> None:
    """A greylisted message is due again after the matrix's first rung, and is not sent before."""
    outbox = Outbox(greylisted())
    dispatcher = Dispatcher(outbox, backend=backend, clock=clock)
    disposition = dispatcher.handle(BODY)
    due_at = clock.now() + timedelta(minutes=15)
    assert (disposition.kind, disposition.due_at) == (K.RETRY_SCHEDULED, due_at)
    assert disposition.reason == "greylisted, retry 1 of 3, waits 900 s; rule " + (disposition.failure or 0).rule  # type: ignore[union-attr]
    clock.advance("14m59s")
    early = dispatcher.handle(BODY)
    assert (early.kind, early.due_at, len(outbox.given)) == (K.RETRY_SCHEDULED, due_at, 1)
    clock.advance("1s")
    assert dispatcher.handle(BODY).kind is K.SENT


def test_handle_permanent_recipient_is_bounced_without_letter(backend: Backend) -> None:
    """An unknown user is marked bounced, and the provider's own words are kept."""
    error = smtplib.SMTPResponseException(550, b"5.1.1 The account does not exist")
    disposition = Dispatcher(Outbox(error), backend=backend).handle(BODY)
    assert (disposition.kind, disposition.dead_letter_id) == (K.BOUNCED, None)
    assert disposition.failure is not None
    assert (disposition.failure.error_code, disposition.failure.enhanced_code) == ("550", "5.1.1")
    assert backend.deliveries.counts() == {DeliveryStatus.BOUNCED_PERMANENT: 1}
    assert backend.dead_letters.count() == 0


def test_handle_bounce_with_audit_leaves_letter(backend: Backend) -> None:
    """Where the policy asks for an audit, a bounced message leaves a dead letter as well."""
    policies = {ErrorClass.INVALID_RECIPIENT: RetryPolicy.never(Action.MARK_BOUNCED, audit=True)}
    error = smtplib.SMTPResponseException(550, b"5.1.1 The account does not exist")
    disposition = Dispatcher(Outbox(error), backend=backend, matrix=PolicyMatrix(policies)).handle(BODY)
    assert (disposition.kind, disposition.dead_letter_id) == (K.BOUNCED, "m1#1")
    assert only_letter(backend).error_class == "invalid_recipient"


def test_handle_discard_keeps_the_evidence(backend: Backend) -> None:
    """A discarded message leaves a letter that says so."""
    matrix = PolicyMatrix({ErrorClass.GREYLISTED: RetryPolicy.never(Action.DISCARD)})
    assert Dispatcher(Outbox(greylisted()), backend=backend, matrix=matrix).handle(BODY).kind is K.DISCARDED
    assert only_letter(backend).state == "discarded"


def test_handle_refused_content_is_held_with_all_evidence(backend: Backend, clock: ManualClock) -> None:
    """The letter of a refused message has the provider's words, the history and the payload byte for byte."""
    error = smtplib.SMTPResponseException(554, b"5.7.1 Message refused as spam")
    disposition = Dispatcher(Outbox(error), backend=backend, clock=clock).handle(BODY)
    letter = only_letter(backend)
    assert (disposition.kind, disposition.dead_letter_id) == (K.HELD_FOR_REVIEW, letter.id)
    assert letter.original_payload == BODY
    assert (letter.campaign_id, letter.recipient) == ("spring", "a@example.org")
    assert (letter.error_class, letter.error_code, letter.enhanced_code) == ("content_rejected", "554", "5.7.1")
    assert (letter.reason, letter.attempt_count, letter.stage) == ("policy_rejected", 1, "send")
    assert letter.first_failed_at == letter.last_failed_at == letter.dead_lettered_at == clock.now()


def test_handle_stages_run_in_order_and_feed_each_other(backend: Backend) -> None:
    """Parse makes the message that validate and render see; send gets it with what render made."""
    seen: list[str] = []
    outbox = Outbox()

    def parse(message: Message) -> Message:
        seen.append("parse")
        return Message(message.id, {"subject": "Spring"}, message.attributes)

    def validate(message: Message) -> None:
        seen.append(f"validate {message.payload}")

    def render(message: Message) -> str:
        seen.append("render")
        return f"content of {message.id}"

    Dispatcher(outbox, backend=backend, parse=parse, validate=validate, render=render).handle(BODY)
    assert seen == ["parse", "validate {'subject': 'Spring'}", "render"]
    ((message, key, content),) = outbox.given
    assert (message.payload, key, content) == ({"subject": "Spring"}, "m1", "content of m1")


@pytest.mark.parametrize(
    ("stage", "error_class", "reason"),
    [
        ("parse", "invalid_payload", "invalid_payload"),
        ("validate", "invalid_payload", "invalid_payload"),
        ("render", "rendering_failure", "rendering_failure"),
    ],
)
def test_handle_bug_before_send_is_dead_lettered_by_stage(
    backend: Backend, stage: str, error_class: str, reason: str
) -> None:
    """A bug in a stage goes straight to the dead letters, named after the stage, and nothing is sent."""
    outbox = Outbox()

    def bug(_message: Message) -> Any:
        raise KeyError("first_name")

    stages: Mapping[str, Any] = {stage: bug}
    assert Dispatcher(outbox, backend=backend, **stages).handle(BODY).kind is K.DEAD_LETTERED
    letter = only_letter(backend)
    assert (letter.error_class, letter.reason, letter.stage) == (error_class, reason, stage)
    assert outbox.given == []


def test_handle_lost_infrastructure_while_rendering_is_retried(backend: Backend, clock: ManualClock) -> None:
    """A template database that cannot be reached is no rendering failure."""

    def render(_message: Message) -> str:
        raise ConnectionRefusedError("the template database")

    disposition = Dispatcher(Outbox(), backend=backend, render=render, clock=clock).handle(BODY)
    assert (disposition.kind, disposition.failure and disposition.failure.stage) == (K.RETRY_SCHEDULED, "render")


@pytest.mark.parametrize("body", [b"not JSON", b'{"a": ', b"\xff\xfe", b"", b"[" * 5000, b'{"x": NaN}'])
def test_handle_body_that_is_no_json_is_kept_byte_for_byte(backend: Backend, body: bytes) -> None:
    """A broken body is dead-lettered as it came, and its second copy is a duplicate."""
    dispatcher = Dispatcher(Outbox(), backend=backend)
    assert dispatcher.handle(body).kind is K.DEAD_LETTERED
    assert dispatcher.handle(body).kind is K.DUPLICATE
    letter = only_letter(backend)
    assert (letter.original_payload, letter.reason, letter.error_class) == (body, "invalid_payload", "invalid_payload")


def test_handle_parse_that_changes_the_id_is_dead_lettered(backend: Backend) -> None:
    """A parse function that gives another message's id would break the claim: it is our own bug."""
    dispatcher = Dispatcher(Outbox(), backend=backend, parse=lambda _message: Message("other", {}))
    assert dispatcher.handle(BODY).kind is K.DEAD_LETTERED
    assert "parse gave Message for the message 'm1'" in only_letter(backend).error_message


def test_handle_tagged_error_decides(backend: Backend) -> None:
    """An application's own error class goes by its own tag."""

    class NoConsentError(TaggedError):
        error_class = ErrorClass.POLICY_VIOLATION

    assert Dispatcher(Outbox(NoConsentError("no")), backend=backend).handle(BODY).kind is K.HELD_FOR_REVIEW


def test_handle_retry_later_from_an_inner_retry_is_honoured(backend: Backend, clock: ManualClock) -> None:
    """A send that asks to be tried later waits at least as long as it asked for."""
    failure = Dispatcher(Outbox(greylisted()), backend=MemoryBackend()).handle(BODY).failure
    assert failure is not None
    later = RetryLater(failure, Decision(Action.RETRY, 7200.0, "asked for"))
    disposition = Dispatcher(Outbox(later), backend=backend, clock=clock).handle(BODY)
    assert disposition.due_at == clock.now() + timedelta(hours=2)


def test_handle_unknown_outcome_is_verified_by_lookup(backend: Backend, clock: ManualClock) -> None:
    """A timeout in the send is not repeated: the provider is asked, and it was sent."""
    outbox = Outbox(TimeoutError("timed out"))
    asked: list[str] = []

    def lookup(key: str) -> Sent:
        asked.append(key)
        return Sent("p-1")

    dispatcher = Dispatcher(outbox, backend=backend, lookup=lookup, clock=clock)
    assert dispatcher.handle(BODY).kind is K.VERIFYING
    assert backend.deliveries.counts() == {DeliveryStatus.UNKNOWN: 1}
    clock.advance("30s")
    disposition = dispatcher.handle(BODY)
    assert (disposition.kind, disposition.provider_id, asked, len(outbox.given)) == (K.SENT, "p-1", ["m1"], 1)


def test_handle_unknown_outcome_without_an_answer_goes_to_a_person(backend: Backend, clock: ManualClock) -> None:
    """With nobody to ask, an unknown outcome is held for review at the maximum age and never sent again."""
    outbox = Outbox(TimeoutError("timed out"))
    dispatcher = Dispatcher(outbox, backend=backend, clock=clock)
    kinds = {dispatcher.handle(BODY).kind}
    while (record := backend.claims.get("m1")) and record.state is ClaimState.UNKNOWN:
        assert record.not_before is not None
        clock.move_to(record.not_before)
        kinds.add(dispatcher.handle(BODY).kind)
    assert kinds == {K.VERIFYING, K.HELD_FOR_REVIEW}
    assert len(outbox.given) == 1
    letter = only_letter(backend)
    assert (letter.reason, letter.state) == ("expired", "quarantined")
    assert backend.deliveries.counts() == {DeliveryStatus.UNKNOWN: 1}


def test_handle_lookup_that_fails_cannot_tell(backend: Backend, clock: ManualClock) -> None:
    """A lookup that raises is asked again later; nothing is sent meanwhile."""
    outbox = Outbox(TimeoutError("timed out"))

    def lookup(_key: str) -> Sent:
        raise ConnectionRefusedError("nobody there")

    dispatcher = Dispatcher(outbox, backend=backend, lookup=lookup, clock=clock)
    dispatcher.handle(BODY)
    clock.advance("30s")
    assert (dispatcher.handle(BODY).kind, len(outbox.given)) == (K.VERIFYING, 1)


@pytest.mark.parametrize(
    ("action", "kind"), [(Action.MANUAL_REVIEW, K.HELD_FOR_REVIEW), (Action.DEAD_LETTER, K.DEAD_LETTERED)]
)
def test_handle_on_unknown_by_hand_is_held(backend: Backend, action: Action, kind: DispositionKind) -> None:
    """An application may choose that a person decides about every unknown outcome."""
    matrix = attrs.evolve(EMAIL_MATRIX, on_unknown=action)
    outbox = Outbox(TimeoutError("timed out"))
    assert Dispatcher(outbox, backend=backend, matrix=matrix).handle(BODY).kind is kind


@pytest.mark.parametrize(
    ("action", "kind", "sends"),
    [(Action.RETRY, K.SENT, 1), (Action.MANUAL_REVIEW, K.HELD_FOR_REVIEW, 0), (Action.VERIFY, K.VERIFYING, 0)],
)
def test_handle_after_a_crash_in_the_send_goes_by_on_unknown(
    backend: Backend, clock: ManualClock, action: Action, kind: DispositionKind, sends: int
) -> None:
    """A worker that died while sending left an unknown outcome; only on_unknown=RETRY sends without asking."""
    matrix = attrs.evolve(EMAIL_MATRIX, on_unknown=action)
    claimed = backend.claims.claim("m1", owner="dead")
    backend.claims.begin_send("m1", claimed.record.seq, lease=30)
    clock.advance("30s")
    outbox = Outbox()
    assert Dispatcher(outbox, backend=backend, matrix=matrix, clock=clock).handle(BODY).kind is kind
    assert len(outbox.given) == sends


def test_handle_crashes_in_the_send_use_up_all_attempts(backend: Backend, clock: ManualClock) -> None:
    """Where every attempt was a lost worker, the message goes to the dead letters instead of round for ever."""
    matrix = attrs.evolve(EMAIL_MATRIX, max_attempts=1, on_unknown=Action.RETRY)
    claimed = backend.claims.claim("m1", owner="dead")
    backend.claims.begin_send("m1", claimed.record.seq, lease=30)
    clock.advance("30s")
    disposition = Dispatcher(Outbox(), backend=backend, matrix=matrix, clock=clock).handle(BODY)
    assert (disposition.kind, only_letter(backend).reason) == (K.DEAD_LETTERED, "retries_exhausted")


def test_handle_delivery_log_answers_before_the_provider_is_asked(backend: Backend, clock: ManualClock) -> None:
    """A worker died after it had logged the acceptance: the log is evidence enough."""
    claimed = backend.claims.claim("m1", owner="dead")
    record = backend.claims.begin_send("m1", claimed.record.seq, lease=30)
    assert record is not None
    dispatcher = Dispatcher(Outbox(), backend=backend, clock=clock, lookup=lambda _key: pytest.fail("asked"))
    list(_ended(dispatcher._projection.log(record, DeliveryStatus.SENT_TO_PROVIDER, provider_id="p-1")))
    clock.advance("30s")
    disposition = dispatcher.handle(BODY)
    assert (disposition.kind, disposition.provider_id) == (K.SENT, "p-1")


def _ended(flow: Any) -> Any:
    from retrykit._steps import run

    run(flow)
    yield from ()


def test_handle_paused_campaign_waits_without_burning_an_attempt(backend: Backend, clock: ManualClock) -> None:
    """A paused campaign's messages wait, are looked at again within a minute, and that is no try."""
    outbox = Outbox()
    until = clock.now() + timedelta(seconds=90)
    backend.circuits.pause("campaign:spring", reason="wrong prices", by="ada", until=until)
    dispatcher = Dispatcher(outbox, backend=backend, clock=clock)
    disposition = dispatcher.handle(BODY)
    assert (disposition.kind, disposition.due_at) == (K.RETRY_SCHEDULED, clock.now() + timedelta(seconds=60))
    assert disposition.reason == "campaign:spring is paused by ada: wrong prices"
    record = backend.claims.get("m1")
    assert record is not None
    assert record.attempts == ()
    assert dispatcher.handle(b'{"id": "m2", "campaign_id": "autumn"}').kind is K.SENT
    clock.advance(60)
    assert dispatcher.handle(BODY).due_at == until
    clock.move_to(until)
    assert dispatcher.handle(BODY).kind is K.SENT


def test_handle_resumed_campaign_goes_on_within_a_minute(backend: Backend, clock: ManualClock) -> None:
    """A pause for days that is resumed early holds its messages no longer; it is noticed within a second of its start."""
    dispatcher = Dispatcher(Outbox(), backend=backend, clock=clock)
    assert dispatcher.handle(b'{"id": "m0", "campaign_id": "spring"}').kind is K.SENT
    until = clock.now() + timedelta(days=3)
    backend.circuits.pause("campaign:spring", reason="wrong prices", by="ada", until=until)
    clock.advance("1s")
    assert dispatcher.handle(BODY).due_at == clock.now() + timedelta(seconds=60)
    backend.circuits.resume("campaign:spring")
    clock.advance("60s")
    assert dispatcher.handle(BODY).kind is K.SENT


@pytest.mark.parametrize(
    "raw",
    [
        Message("m1", {"campaign_id": "7"}),
        Message("m1", {"campaign_id": 7}),
        Message("m1", {}, {"campaign_id": "7"}),
        b'{"id": "m1", "campaign_id": 7}',
    ],
)
def test_handle_pause_finds_its_messages_however_they_name_the_campaign(backend: Backend, raw: Message | bytes) -> None:
    """In the payload or the attributes, as text or as a number."""
    backend.circuits.pause("campaign:7", reason="wrong prices", by="ada")
    assert Dispatcher(Outbox(), backend=backend).handle(raw).kind is K.RETRY_SCHEDULED


def test_handle_pause_goes_by_what_parse_gave(backend: Backend) -> None:
    """A campaign that only the parser knows is paused as well."""
    backend.circuits.pause("campaign:7", reason="wrong prices", by="ada")
    outbox = Outbox()

    def parse(message: Message) -> Message:
        return Message(message.id, message.payload, {"campaign_id": "7"})

    assert Dispatcher(outbox, backend=backend, parse=parse).handle(b'{"id": "m1"}').kind is K.RETRY_SCHEDULED
    assert outbox.given == []


def test_handle_long_pause_does_not_use_up_the_messages_age(backend: Backend, clock: ManualClock) -> None:
    """The maximum age counts from the first failed try, so days of pause leave the retries as they were."""
    backend.circuits.pause("campaign:spring", reason="wrong prices", by="ada")
    dispatcher = Dispatcher(Outbox(greylisted()), backend=backend, clock=clock)
    dispatcher.handle(BODY)
    backend.circuits.resume("campaign:spring")
    clock.advance("4d")
    assert dispatcher.handle(BODY).reason.startswith("greylisted, retry 1 of 3")


# What the application gives


@pytest.mark.parametrize("result", [False, 0, {}, NotAccepted()])
def test_handle_send_result_that_means_nothing_is_unknown(backend: Backend, result: Any) -> None:
    """A send that gives what it may not give may have sent: nobody takes it for a success."""
    outbox = Outbox()
    dispatcher = Dispatcher(lambda *args: outbox(*args) or result, backend=backend)
    disposition = dispatcher.handle(BODY)
    assert (disposition.kind, disposition.failure and disposition.failure.outcome) == (K.DEAD_LETTERED, "unknown")
    assert "allowed are None, the provider's id, or Sent(...)" in only_letter(backend).error_message
    assert backend.deliveries.counts() == {DeliveryStatus.UNKNOWN: 1}


def test_handle_sent_with_a_number_as_id_keeps_it_as_text(backend: Backend) -> None:
    """Providers that number their messages are common."""
    assert Dispatcher(Outbox(Sent(123)), backend=backend).handle(BODY).provider_id == "123"  # type: ignore[arg-type]


@pytest.mark.parametrize("answer", ["p-1", True, {}])
def test_handle_lookup_answer_that_means_nothing_cannot_tell(backend: Backend, clock: ManualClock, answer: Any) -> None:
    """A lookup that gives what it may not give is not taken for "not accepted": that would send twice."""
    outbox = Outbox(TimeoutError("timed out"))
    heard: list[Event] = []
    dispatcher = Dispatcher(outbox, backend=backend, lookup=lambda _key: answer, clock=clock, on_event=[heard.append])
    dispatcher.handle(BODY)
    clock.advance("1m")
    assert (dispatcher.handle(BODY).kind, len(outbox.given)) == (K.VERIFYING, 1)
    (told,) = [event for event in heard if isinstance(event, OutcomeVerified)]
    assert told.accepted is None
    assert f"gave {type(answer).__name__}; allowed are Sent(...), NotAccepted(), or None" in (told.error or "")


def test_handle_validate_that_gives_false_sends_nothing(backend: Backend) -> None:
    """A check that says no with its result instead of an exception is heard."""
    outbox = Outbox()
    assert Dispatcher(outbox, backend=backend, validate=lambda _message: False).handle(BODY).kind is K.DEAD_LETTERED
    assert outbox.given == []
    assert "validate gave False" in only_letter(backend).error_message


async def asend(_message: Message, _key: str) -> None: ...


class AsyncCallable:
    async def __call__(self, _message: Message, _key: str) -> None: ...


@pytest.mark.parametrize("send", [asend, AsyncCallable(), functools.partial(asend)])
def test_dispatcher_of_an_asynchronous_send_is_refused(send: Any) -> None:
    """A send that would have to be awaited is refused when the dispatcher is made."""
    with pytest.raises(ConfigurationError, match="use AsyncDispatcher"):
        Dispatcher(send, backend=MemoryBackend())


def test_handle_send_that_gives_a_coroutine_is_an_error_at_the_call(backend: Backend) -> None:
    """What only shows when it is called is an error for the application, and never called sent."""
    dispatcher = Dispatcher(lambda message, key: asend(message, key), backend=backend)  # type: ignore[call-overload]
    with pytest.raises(ConfigurationError, match="gave coroutine, which has to be awaited"):
        dispatcher.handle(BODY)
    assert backend.deliveries.counts() == {}


def test_dispatcher_on_an_asynchronous_backend_is_refused_at_once() -> None:
    """A backend of the other colour is said, instead of going round for ever."""
    with pytest.raises(ConfigurationError, match="use AsyncDispatcher for it"):
        Dispatcher(Outbox(), backend=open_async_backend("memory://"))  # type: ignore[arg-type]


def test_handle_backoff_function_that_fails_leaves_the_message_decided(backend: Backend) -> None:
    """A bug in an application's backoff sends the message to the dead letters, not into limbo."""
    policy = RetryPolicy(max_retries=3, backoff=lambda retry: 1 / (retry - 1))
    matrix = PolicyMatrix({ErrorClass.GREYLISTED: policy})
    assert Dispatcher(Outbox(greylisted()), backend=backend, matrix=matrix).handle(BODY).kind is K.DEAD_LETTERED
    assert only_letter(backend).decision == "greylisted, and the policy failed with ZeroDivisionError: dead letter"


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
def test_handle_interrupted_before_the_send_gives_the_message_back(
    backend: Backend, clock: ManualClock, stop: type[BaseException]
) -> None:
    """Whoever is told to stop frees what it held: no lost worker, and the next one goes on at once."""
    stops = [stop()] * 5

    def validate(_message: Message) -> None:
        if stops:
            raise stops.pop()

    dispatcher = Dispatcher(Outbox(), backend=backend, validate=validate, clock=clock)
    for _ in range(5):
        with pytest.raises(stop):
            dispatcher.handle(BODY)
    assert dispatcher.handle(BODY).kind is K.SENT
    record = backend.claims.get("m1")
    assert record is not None
    assert (record.counters.crashed, record.counters.interrupted, record.attempts) == (0, 5, ())


def test_handle_interrupted_in_the_send_leaves_an_unknown_outcome(backend: Backend, clock: ManualClock) -> None:
    """A send that was interrupted may have happened: it is verified, and the interruption is no try."""

    def send(_message: Message, _key: str) -> None:
        raise KeyboardInterrupt

    dispatcher = Dispatcher(send, backend=backend, lookup=lambda _key: Sent("p-1"), clock=clock)
    with pytest.raises(KeyboardInterrupt):
        dispatcher.handle(BODY)
    disposition = dispatcher.handle(BODY)
    assert (disposition.kind, disposition.failure) == (K.SENT, None)


@pytest.mark.parametrize("step", ["log", "settle"])
def test_handle_interrupted_after_the_answer_keeps_the_acceptance(backend: Backend, step: str) -> None:
    """A known acceptance is not thrown away because somebody pressed Ctrl-C: the claim and the log both have it."""
    worker = Paused(Dispatcher(Outbox("p-1"), backend=backend)._handle(BODY, None))
    while (
        worker.step is None
        or worker.step.fn != {"log": backend.deliveries.record, "settle": backend.claims.settle}[step]
    ):
        worker.make_step()
    worker.interrupt(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        worker.finish()
    record, delivery = backend.claims.get("m1"), backend.deliveries.get("m1")
    assert record is not None and delivery is not None
    assert (record.disposition, record.provider_id) == (K.SENT, "p-1")
    assert (delivery.status, delivery.provider_id) == ("sent_to_provider", "p-1")


def test_handle_verified_twice_as_not_accepted_is_known_to_have_failed(backend: Backend, clock: ManualClock) -> None:
    """When the retries are used up and the provider has none of them, the status says failed, not unknown."""
    matrix = PolicyMatrix({ErrorClass.NETWORK_TIMEOUT: RetryPolicy(max_retries=1, backoff=[1])})
    outbox = Outbox(TimeoutError("1"), TimeoutError("2"))
    dispatcher = Dispatcher(outbox, backend=backend, matrix=matrix, lookup=lambda _key: NotAccepted(), clock=clock)
    for _ in range(3):
        disposition = dispatcher.handle(BODY)
        clock.advance("10m")
    assert (disposition.kind, len(outbox.given)) == (K.DEAD_LETTERED, 2)
    assert (
        disposition.reason == "network_timeout, all 1 retries used: dead letter; rule exception.builtins.TimeoutError"
    )
    assert backend.deliveries.counts() == {DeliveryStatus.FAILED_INTERNAL: 1}


@pytest.mark.parametrize("message_id", ["", "x" * 256, "a\0b", "\ud800"])
def test_handle_impossible_id_is_refused_and_nothing_stored(backend: Backend, message_id: str) -> None:
    """An id that cannot be a key is an error at once; the application keeps its copy."""
    with pytest.raises(InvalidMessageError, match="message id"):
        Dispatcher(Outbox(), backend=backend).handle(b"{}", id=message_id)
    assert backend.deliveries.counts() == {}


def test_handle_payload_over_the_limit_is_refused_and_nothing_stored(backend: Backend) -> None:
    """A payload over max_payload is an error that names size and limit."""
    with pytest.raises(PayloadTooLargeError, match=r"has 67 bytes, allowed are at most 66"):
        Dispatcher(Outbox(), backend=backend, max_payload=66).handle(BODY)
    assert backend.claims.get("m1") is None


def test_handle_other_payload_under_the_same_id_is_refused(backend: Backend) -> None:
    """A reused id is an application's bug, said clearly; equal JSON with other spacing is the same payload."""
    dispatcher = Dispatcher(Outbox(), backend=backend)
    dispatcher.handle(BODY)
    with pytest.raises(FingerprintMismatchError, match="the key 'm1' was already used for another payload"):
        dispatcher.handle(b'{"id": "m1"}')
    assert dispatcher.handle(BODY.replace(b": ", b":")).kind is K.DUPLICATE


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"lease": 0}, "lease is 0"),
        (
            {"matrix": attrs.evolve(EMAIL_MATRIX, max_attempts=101)},
            "allows 101 attempts; a message's history holds 100",
        ),
        ({"matrix": {}}, "the matrix is {}; allowed is a PolicyMatrix"),
        ({"max_payload": "1MB"}, "max_payload is '1MB'"),
        ({"max_payload": 0}, "max_payload is 0"),
        ({"on_event": print}, "on_event is <built-in function print>; allowed is a list of functions"),
        ({"on_event": 3}, "on_event is 3"),
        ({"clock": 3}, r"clock is 3, which has no now\(\)"),
        ({"rng": 3}, r"rng is 3, which has no random\(\)"),
        ({"classifier": 3}, r"classifier is 3, which has no classify\(\)"),
        ({"poison": PoisonRule(window=60)}, "window of the PoisonRule is 60 s and the lease 120 s"),
        ({"backend": None}, r"the backend is None, which has no claims; use open_backend\(url\)"),
        ({"send": None}, "send is None; allowed is a function"),
        ({"send": lambda message: None}, r"send is called as send\(message, key\), which"),
        ({"send": lambda m, k: None, "render": str}, r"send is called as send\(message, key, content\), which"),
        ({"validate": "strictly"}, "validate is 'strictly'; allowed is a function"),
    ],
)
def test_dispatcher_settings_out_of_range_are_refused(settings: dict[str, Any], message: str) -> None:
    """Settings are checked when the dispatcher is made, and the error names the setting and what is allowed."""
    given = {"send": lambda _message, _key: None, "backend": MemoryBackend(), **settings}
    with pytest.raises(ConfigurationError, match=message):
        Dispatcher(given.pop("send"), **given)


def test_dispatcher_unknown_option_is_refused_by_name() -> None:
    """A misspelt option is named, with those that there are."""
    with pytest.raises(TypeError, match="a dispatcher has no option 'leese'; allowed are matrix, classifier, lease"):
        Dispatcher(Outbox(), backend=MemoryBackend(), leese=3)  # type: ignore[call-overload]


def test_dispatcher_takes_a_send_that_does_not_tell_its_arguments() -> None:
    """Some builtins have no signature to look at."""
    assert Dispatcher(dict, backend=MemoryBackend()).handle(b'{"id": "m1"}').kind is not K.SENT  # type: ignore[arg-type]


def test_handle_store_failure_reaches_the_application(tmp_path: Any) -> None:
    """A store that fails is no failure of the message: the error comes out and the application keeps its copy."""
    backend = SQLiteBackend(tmp_path / "x.db", busy_timeout=0)
    other = SQLiteBackend(tmp_path / "x.db")
    with other._database.transaction(), pytest.raises(StoreUnavailableError):
        Dispatcher(Outbox(), backend=backend).handle(BODY)
    assert Dispatcher(Outbox(), backend=backend).handle(BODY).kind is K.SENT
    backend.close()
    other.close()


def test_handle_events_tell_failures_and_dispositions(backend: Backend, clock: ManualClock) -> None:
    """A listener hears of each failed try and of what became of the message; one that raises breaks nothing."""
    heard: list[Event] = []

    def broken(_event: Event) -> None:
        raise RuntimeError("the listener")

    dispatcher = Dispatcher(Outbox(greylisted()), backend=backend, clock=clock, on_event=[broken, heard.append])
    disposition = dispatcher.handle(BODY)
    failed, handled = heard
    assert isinstance(failed, AttemptFailed)
    assert (failed.subject, failed.attempt, failed.decision.action) == ("m1", 1, Action.RETRY)
    assert handled == MessageHandled(at=clock.now(), disposition=disposition)


def test_handle_costs_four_round_trips_and_a_duplicate_one(backend: Backend, clock: ManualClock) -> None:
    """A message that succeeds takes claim, begin_send, delivery log and settle; its duplicate one claim."""
    from retrykit.testing import StepLog, run_until

    dispatcher = Dispatcher(lambda _message, _key: None, backend=backend, clock=clock)
    dispatcher.handle(b'{"id": "m0"}')  # reads the pauses, which are good for a second
    log = StepLog()
    run_until(dispatcher._handle(BODY, None), 20, log)
    assert log.names == ["claim", "begin_send", "<lambda>", "record", "settle"]
    again = StepLog()
    run_until(dispatcher._handle(BODY, None), 20, again)
    assert again.names == ["claim"]


@both_loops
def test_async_handle_is_the_same_flow(backend: Backend, clock: ManualClock, runner: Runner) -> None:
    """The asynchronous dispatcher sends, retries and verifies as the synchronous one, under asyncio and trio."""
    outcomes: list[Exception | None] = [greylisted(), TimeoutError("timed out"), None]

    async def send(_message: Message, _key: str, content: str) -> str:
        outcome = outcomes.pop(0)
        if outcome is not None:
            raise outcome
        return content

    async def render(message: Message) -> str:
        return f"content of {message.id}"

    async def lookup(_key: str) -> None:
        return None

    async def main() -> list[Disposition]:
        twin = as_async(backend)
        dispatcher = AsyncDispatcher(send, backend=twin, render=render, lookup=lookup, clock=clock)
        seen = []
        for wait in ("0s", "15m", "30s"):
            clock.advance(wait)
            seen.append(await dispatcher.handle(BODY))
        seen.append(await dispatcher.handle(b'{"id": "m2"}'))
        await twin.aclose()
        return seen

    first, second, third, fourth = runner(main)
    assert [d.kind for d in (first, second, third)] == [K.RETRY_SCHEDULED, K.VERIFYING, K.VERIFYING]
    assert (fourth.kind, fourth.provider_id) == (K.SENT, "content of m2")
