"""The dispatcher: what becomes of a message, in both colours."""

from __future__ import annotations

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
)
from retrykit.backends import MemoryBackend
from retrykit.backends.sqlite import SQLiteBackend
from retrykit.decision import Decision, Disposition, DispositionKind
from retrykit.delivery import Sent
from retrykit.errors import (
    ConfigurationError,
    FingerprintMismatchError,
    InvalidMessageError,
    PayloadTooLargeError,
    StoreUnavailableError,
)
from retrykit.events import AttemptFailed, Event, MessageHandled
from retrykit.stores import Backend, ClaimState, DeliveryStatus, as_async
from retrykit.testing import ManualClock
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
    assert disposition == Disposition(kind=K.SENT, message_id="m1", provider="ses", provider_id="p-1")
    ((message, key),) = outbox.given
    assert (message.id, key, message.payload["recipient"]) == ("m1", "m1", "a@example.org")
    delivery = backend.deliveries.get("m1")
    assert delivery is not None
    assert (delivery.status, delivery.provider, delivery.provider_id) == ("sent_to_provider", "ses", "p-1")


@pytest.mark.parametrize(("result", "provider_id"), [(None, None), ("p-7", "p-7"), (Sent("p-8"), "p-8")])
def test_handle_send_result_forms_give_provider_id(backend: Backend, result: Any, provider_id: str | None) -> None:
    """A send may return nothing, the provider's id, or the whole answer."""
    assert Dispatcher(Outbox(result), backend=backend).handle(BODY).provider_id == provider_id


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
    """A paused campaign's messages wait until the pause ends; that is no try."""
    outbox = Outbox()
    until = clock.now() + timedelta(hours=1)
    backend.circuits.pause("campaign:spring", reason="wrong prices", by="ada", until=until)
    dispatcher = Dispatcher(outbox, backend=backend, clock=clock)
    disposition = dispatcher.handle(BODY)
    assert (disposition.kind, disposition.due_at) == (K.RETRY_SCHEDULED, until)
    assert disposition.reason == "campaign:spring is paused by ada: wrong prices"
    record = backend.claims.get("m1")
    assert record is not None
    assert record.attempts == ()
    assert dispatcher.handle(b'{"id": "m2", "campaign_id": "autumn"}').kind is K.SENT
    clock.move_to(until)
    assert dispatcher.handle(BODY).kind is K.SENT


def test_handle_pause_without_end_is_looked_at_again(backend: Backend, clock: ManualClock) -> None:
    """A pause that nobody has limited is looked at again every minute, and noticed within a second of its start."""
    dispatcher = Dispatcher(Outbox(), backend=backend, clock=clock)
    assert dispatcher.handle(b'{"id": "m0", "campaign_id": "spring"}').kind is K.SENT
    backend.circuits.pause("campaign:spring", reason="wrong prices", by="ada")
    clock.advance("1s")
    assert dispatcher.handle(BODY).due_at == clock.now() + timedelta(seconds=60)
    backend.circuits.resume("campaign:spring")
    clock.advance("60s")
    assert dispatcher.handle(BODY).kind is K.SENT


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


def test_dispatcher_settings_out_of_range_are_refused() -> None:
    """Settings are checked when the dispatcher is made."""
    backend = MemoryBackend()

    async def send(_message: Message, _key: str) -> None: ...

    with pytest.raises(ConfigurationError, match="use AsyncDispatcher"):
        Dispatcher(send, backend=backend)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="lease is 0"):
        Dispatcher(Outbox(), backend=backend, lease=0)
    with pytest.raises(ConfigurationError, match="allows 101 attempts; a message's history holds 100"):
        Dispatcher(Outbox(), backend=backend, matrix=attrs.evolve(EMAIL_MATRIX, max_attempts=101))
    with pytest.raises(TypeError, match="colour"):
        Dispatcher(Outbox(), backend=backend, colour="red")  # type: ignore[call-overload]


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
