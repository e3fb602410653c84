"""A call with a key is made once, and repeated calls get what the first one gave."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from retrykit import Dispatcher, ErrorClass, Message, Outcome, TaggedError
from retrykit.backends.memory import MemoryBackend
from retrykit.backends.sqlite import SQLiteBackend
from retrykit.decision import DispositionKind
from retrykit.delivery.lookup import NotAccepted, Sent
from retrykit.errors import (
    AlreadyInProgressError,
    ConfigurationError,
    FingerprintMismatchError,
    InvalidMessageError,
    OutcomeUnknownError,
    ResultLostError,
    StoredFailureError,
    StoreUnavailableError,
)
from retrykit.events import OutcomeVerified
from retrykit.guard import AsyncIdempotencyGuard, IdempotencyGuard, current_hold
from retrykit.reconcile import Reconciler
from retrykit.stores import ClaimState, ReopenTerms, as_async
from retrykit.testing import manual_clock
from tests.colours import run_asyncio
from tests.guard.guards import Awaited, Sync, Work, coroutine, every_colour, memory, stored


class DeclinedError(TaggedError):
    error_class = ErrorClass.INVALID_RECIPIENT


class BusyError(TaggedError):
    error_class = ErrorClass.PROVIDER_UNAVAILABLE
    outcome = Outcome.NOT_SENT


@every_colour
@pytest.mark.parametrize(
    "result",
    ["receipt", None, 0, "", [], {"a": [1, 2.5, None]}, Decimal("9.90"), b"\xff", datetime(2026, 11, 30, tzinfo=UTC)],
    ids=repr,
)
def test_repeated_call_gets_what_the_first_one_gave(make: Any, result: Any) -> None:
    """Whatever it is: None and nothing are results too."""
    guard, work = make(memory()), Work(result)
    assert [guard.call("k", work) for _ in range(3)] == [result] * 3
    assert work.calls == 1


@every_colour
def test_calls_with_other_keys_are_made(make: Any) -> None:
    """Any text is a key; in another namespace it is another key."""
    store, work = memory(), Work()
    for key in ("k", "K", "k ", "\N{PILE OF POO}", "a/b", "x" * 253):
        make(store).call(key, work)
    assert work.calls == 6
    make(store, namespace="tenant").call("k", work)
    make(store, namespace="tenant").call("k", work)
    assert work.calls == 7


@every_colour
def test_namespace_and_key_are_never_taken_for_another_pair(make: Any) -> None:
    """Wherever the slash is, and whether there is a namespace at all: no caller gets another one's result."""
    store = memory()
    pairs = [("", "a/b/c"), ("a", "b/c"), ("a/b", "c"), ("a/b/c", "x"), ("a", "b"), ("", "a/b"), ("x" * 252, "k")]
    for number in (1, 2):
        for pair in pairs:
            namespace, key = pair
            assert make(store, namespace=namespace).call(key, Work([number, *pair])) == [1, *pair]
    with pytest.raises(InvalidMessageError, match="allowed is text of 1 to 1 characters: 253 together with the name"):
        make(store, namespace="x" * 252).call("kk", Work())


@every_colour
def test_message_and_call_never_share_a_key(make: Any) -> None:
    """A dispatched id is not taken for a call, nor a call for a message: both are done."""
    backend, sent = MemoryBackend(), list[str]()

    def send(message: Message, key: str) -> str:
        sent.append(key)
        return "p1"

    dispatcher = Dispatcher(send, backend=backend)
    for id, namespace, key in (("welcome-17", "", "welcome-17"), ("ns/17", "ns", "17")):
        guard = make(backend.claims, namespace=namespace)
        assert guard.call(key, Work("called")) == "called"
        assert dispatcher.handle(b"{}", id=id).kind is DispositionKind.SENT
        assert guard.call(key, Work("again")) == "called"
    assert sent == ["welcome-17", "ns/17"]


@pytest.mark.parametrize("answer", [NotAccepted(), Sent("p7"), None], ids=repr)
@every_colour
def test_reconciler_of_messages_never_settles_a_call(make: Any, answer: Any) -> None:
    """It asks the provider of mail, who knows nothing of a payment: the call stays unknown until its own lookup has been asked."""
    with manual_clock() as clock:
        backend, asked = MemoryBackend(), list[str]()

        def lookup(key: str) -> Any:
            asked.append(key)
            return answer

        guard, work = make(backend.claims, namespace="payments"), Work(TimeoutError("the bank took it"))
        with pytest.raises(TimeoutError):
            guard.call("17", work)
        backend.claims.claim(stored("lost", "payments"), owner="killed", sending=True)
        reconciler = Reconciler(backend, lookup=lookup)
        for _ in range(20):
            clock.advance("2h")
            reconciler.run_once()
        for key in ("17", "lost"):
            with pytest.raises(OutcomeUnknownError):
                guard.call(key, work)
        assert (work.calls, asked, list(backend.deliveries.counts())) == (1, [], [])


@every_colour
@pytest.mark.parametrize(
    ("key", "error"),
    [(key, InvalidMessageError) for key in ("", None, 7, "x" * 254, "a\0b", "\ud800", "a\x1eb")],
)
def test_key_that_is_not_allowed_is_refused_before_anything_is_done(make: Any, key: Any, error: Any) -> None:
    """An empty key would be everybody's."""
    work = Work()
    with pytest.raises(error, match="key"):
        make(memory()).call(key, work)
    assert work.calls == 0


@every_colour
def test_decorated_function_takes_its_key_from_the_call_and_hands_it_on(make: Any) -> None:
    """So that the other side can recognise a repetition too."""
    seen: list[Any] = []

    def send(to: str, body: str, idempotency_key: str = "") -> str:
        seen.append((to, body, idempotency_key))
        return "sent"

    call = make(memory()).decorated(send, key=lambda to, body: f"{to}/{body}", pass_key="idempotency_key")
    assert [call("ada", "hi"), call("ada", body="hi"), call("bob", "hi")] == ["sent"] * 3
    assert seen == [("ada", "hi", "ada/hi"), ("bob", "hi", "bob/hi")]


@every_colour
def test_call_knows_its_hold_while_it_runs(make: Any) -> None:
    """And nothing of it is left afterwards, however it ended."""
    seen: list[Any] = []

    def work() -> None:
        hold = current_hold()
        assert hold is not None
        seen.append((hold.key, hold.is_new, hold.is_lost, hold.is_live, repr(hold)))

    guard = make(memory())
    guard.call("k", work)
    assert seen == [("k", True, False, True, "<Hold 'k'>")]
    with pytest.raises(BusyError):
        guard.call("other", Work(BusyError("no")))
    assert current_hold() is None


@every_colour
def test_block_does_the_work_once(make: Any) -> None:
    """The same, with the result set by the block."""
    guard, work = make(memory()), Work("receipt")
    holds = [guard.block("k", work) for _ in range(2)]
    assert [(hold.is_new, hold.result) for hold in holds] == [(True, "receipt"), (False, "receipt")]
    with pytest.raises(BusyError):
        guard.block("other", Work(BusyError("no")))
    assert guard.block("other", work).is_new


@every_colour
@pytest.mark.parametrize("fingerprint", [["to", "body"], lambda to, body: {"body": body, "to": to}])
def test_key_that_comes_with_another_payload_is_refused(make: Any, fingerprint: Any) -> None:
    """By the chosen fields; how the arguments were given makes no difference."""
    work = Work()
    call = make(memory()).decorated(lambda to, body="hi": work(), key=lambda *_, **__: "k", fingerprint=fingerprint)
    call("ada", "hi")
    assert call(body="hi", to="ada") == "receipt"
    with pytest.raises(FingerprintMismatchError):
        call("ada", "bye")
    assert work.calls == 1


def test_payload_of_a_block_is_compared_too() -> None:
    """The order of a mapping's keys makes no difference."""
    guard = IdempotencyGuard(memory())
    for payload in ({"a": 1, "b": 2}, {"b": 2, "a": 1}):
        with guard.hold("k", payload=payload):
            pass
    with pytest.raises(FingerprintMismatchError), guard.hold("k", payload={"a": 2, "b": 2}):
        pass
    with pytest.raises(ConfigurationError, match="cannot be written as JSON"), guard.hold("x", payload=object()):
        pass


@every_colour
def test_failure_without_effect_leaves_the_key_free(make: Any) -> None:
    """The error comes through, and the next call is made."""
    guard, work = make(memory()), Work(BusyError("no"), "receipt")
    with pytest.raises(BusyError):
        guard.call("k", work)
    assert guard.call("k", work) == "receipt"
    assert guard.store.get(stored("k")).counters.failed == 1


@every_colour
def test_failure_for_good_is_kept_as_the_answer(make: Any) -> None:
    """A declined card is not asked again under the same key."""
    guard, work = make(memory()), Work(DeclinedError("no funds"))
    with pytest.raises(DeclinedError):
        guard.call("k", work)
    with pytest.raises(StoredFailureError) as caught:
        guard.call("k", work)
    assert caught.value.failure.error_class == "invalid_recipient"
    assert work.calls == 1


@every_colour
def test_which_failures_are_kept_is_a_choice(make: Any) -> None:
    """By their group."""
    guard = make(memory(), keeps=["transient_infrastructure"])
    for work in (Work(DeclinedError("x")), Work(BusyError("x"))):
        with pytest.raises(TaggedError):
            guard.call("k", work)
    with pytest.raises(StoredFailureError):
        guard.call("k", Work())


@every_colour
@pytest.mark.parametrize("error", [TimeoutError("late"), ValueError("a bug, perhaps after the effect")])
def test_failure_that_may_have_had_its_effect_is_not_repeated(make: Any, error: Exception) -> None:
    """Until somebody can tell."""
    guard, work = make(memory()), Work(error)
    with pytest.raises(type(error)):
        guard.call("k", work)
    for _ in range(2):
        with pytest.raises(OutcomeUnknownError, match="'k' may have had its effect"):
            guard.call("k", work)
    assert work.calls == 1
    assert guard.store.get(stored("k")).state is ClaimState.UNKNOWN


@every_colour
def test_failure_that_may_have_had_its_effect_is_repeated_by_choice(make: Any) -> None:
    """For calls that may happen twice."""
    guard, work = make(memory(), on_unknown="repeat"), Work(TimeoutError("late"), "receipt")
    with pytest.raises(TimeoutError):
        guard.call("k", work)
    assert (guard.call("k", work), work.calls) == ("receipt", 2)


@every_colour
@pytest.mark.parametrize(
    ("answer", "calls"),
    [(Sent("p7"), 1), (NotAccepted(), 2), (None, 2), (LookupError("down"), 2)],
    ids=["done", "not done", "cannot tell", "down"],
)
@pytest.mark.parametrize("is_killed", [False, True], ids=["timed out", "killed"])
def test_call_that_may_be_repeated_is_looked_up_first(make: Any, answer: Any, calls: int, is_killed: bool) -> None:
    """Whatever left it unknown; it is repeated where nobody can tell, and not where it is known to be done."""
    with manual_clock() as clock:
        asked: list[str] = []

        def lookup(key: str) -> Any:
            asked.append(key)
            if isinstance(answer, Exception):
                raise answer
            return answer

        guard = make(memory(), on_unknown="repeat", lookup=lookup, recover=lambda found: found)
        work = Work(TimeoutError("late"), "receipt")
        if is_killed:
            with pytest.raises(TimeoutError):
                work()
            guard.store.claim(stored("k"), owner="killed", lease=30, sending=True)
        else:
            with pytest.raises(TimeoutError):
                guard.call("k", work)
        clock.advance("30s")
        assert guard.call("k", work) == ("p7" if calls == 1 else "receipt")
        assert (work.calls, asked) == (calls, ["k"])


@every_colour
def test_unknown_outcome_is_looked_up(make: Any) -> None:
    """Done: the result is made again. Not done: the call is made. Cannot tell: it is told, and asked again next time."""
    heard: list[Any] = []
    answers: list[Any] = [None, LookupError("down"), Sent("p7", "bank")]
    asked: list[str] = []

    def lookup(key: str) -> Any:
        asked.append(key)
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    guard = make(
        memory(), namespace="t", lookup=lookup, recover=lambda found: f"again {found}", on_event=[heard.append]
    )
    work = Work(TimeoutError("late"))
    with pytest.raises(TimeoutError):
        guard.call("k", work)
    for _ in range(2):
        with pytest.raises(OutcomeUnknownError):
            guard.call("k", work)
    assert [guard.call("k", work) for _ in range(2)] == ["again p7"] * 2
    assert (asked, work.calls) == (["k"] * 3, 1)
    assert [(type(event), event.accepted, event.error) for event in heard] == [
        (OutcomeVerified, None, None),
        (OutcomeVerified, None, "LookupError: down"),
        (OutcomeVerified, True, None),
    ]
    answers.append(NotAccepted())
    other = Work(TimeoutError("late"), "receipt")
    with pytest.raises(TimeoutError):
        guard.call("other", other)
    assert guard.call("other", other) == "receipt"


@every_colour
def test_caller_that_was_lost_leaves_an_unknown_outcome(make: Any) -> None:
    """Its lease ends without a word: it may have had its effect."""
    with manual_clock() as clock:
        store = memory()
        store.claim(stored("k"), owner="lost", lease=30, sending=True)
        guard, work = make(store), Work()
        with pytest.raises(AlreadyInProgressError) as caught:
            guard.call("k", work)
        assert caught.value.retry_after == 30.0
        clock.advance("30s")
        with pytest.raises(OutcomeUnknownError):
            guard.call("k", work)
        assert work.calls == 0
        assert make(store, on_unknown="repeat").call("k", work) == "receipt"


@every_colour
def test_result_that_is_not_on_record_is_told(make: Any) -> None:
    """It was done; what it gave nobody knows."""
    store = memory()
    store.confirm(stored("k"), provider_id="p7")
    with pytest.raises(ResultLostError, match="'k' was done before"):
        make(store).call("k", Work())
    assert make(store, recover=lambda found: found).call("k", Work()) == "p7"


@every_colour
def test_result_that_cannot_be_written_is_returned_and_the_key_is_done(
    make: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """The effect has happened: that is what counts."""
    guard, result = make(memory()), object()
    with caplog.at_level(logging.WARNING, "retrykit.guard"):
        assert guard.call("k", Work(result)) is result
    assert "what it gave cannot be kept" in caplog.text
    with pytest.raises(ResultLostError):
        guard.call("k", Work())


@every_colour
def test_results_are_written_and_read_by_the_callers_own_functions(make: Any) -> None:
    """Any text will do."""
    guard = make(memory(), encode=lambda value: f"<{value}>".encode(), decode=lambda data: data.decode()[1:-1])
    assert [guard.call("k", Work("x")) for _ in range(2)] == ["x", "x"]
    assert guard.store.get(stored("k")).result == "<x>"


@every_colour
def test_key_counts_for_its_time(make: Any) -> None:
    """After that the call is made again."""
    with manual_clock() as clock:
        guard, work = make(memory(), ttl="1h"), Work(1, 2)
        assert guard.call("k", work) == 1
        clock.advance("59m")
        assert guard.call("k", work) == 1
        clock.advance("2m")
        assert guard.call("k", work) == 2


@every_colour
def test_waiting_caller_gets_the_result_of_the_one_before(make: Any) -> None:
    """Or gives up when its patience is over."""
    with manual_clock() as clock:
        store = memory()
        answer = store.claim(stored("k"), owner="other", lease=30, sending=True)
        with pytest.raises(AlreadyInProgressError):
            make(store, wait="5s").call("k", Work())
        assert sum(clock.sleeps) == pytest.approx(5)
        from retrykit.machines import claim as machine

        store.settle(machine.sent(answer.record, result='"theirs"'), answer.record.seq)
        assert make(store, wait="5s").call("k", Work()) == "theirs"


class Broken:
    """A store some operations of which fail so many times, before or after they are done."""

    def __init__(self, store: Any, operation: str, times: int, *, after: bool = False) -> None:
        self.store, self.operation, self.left, self.after = store, operation, times, after

    def __getattr__(self, name: str) -> Any:
        real = getattr(self.store, name)
        if name != self.operation:
            return real

        def failing(*args: Any, **kwargs: Any) -> Any:
            if self.left == 0:
                return real(*args, **kwargs)
            self.left -= 1
            if self.after:
                real(*args, **kwargs)
            raise StoreUnavailableError("gone")

        return failing


def test_store_that_fails_before_the_work_lets_nothing_happen() -> None:
    """The error comes through; nobody was called."""
    work = Work()
    guard = IdempotencyGuard(Broken(memory(), "claim", 1))  # type: ignore[arg-type]
    with pytest.raises(StoreUnavailableError):
        guard.call("k", work)
    assert (guard.call("k", work), work.calls) == ("receipt", 1)


@pytest.mark.parametrize("after", [False, True])
def test_settlement_whose_answer_was_lost_is_repeated(after: bool) -> None:
    """Done once, whichever half of it was lost."""
    store, work = memory(), Work()
    guard = IdempotencyGuard(Broken(store, "settle", 1, after=after))  # type: ignore[arg-type]
    assert [guard.call("k", work) for _ in range(2)] == ["receipt"] * 2
    assert work.calls == 1


def test_work_that_cannot_be_settled_is_returned_and_stays_unknown(caplog: pytest.LogCaptureFixture) -> None:
    """The effect has happened; the lease ends, and the outcome is looked up."""
    with manual_clock() as clock:
        store, work = memory(), Work()
        guard = IdempotencyGuard(Broken(store, "settle", 99))  # type: ignore[arg-type]
        with caplog.at_level(logging.WARNING, "retrykit.guard"):
            assert guard.call("k", work) == "receipt"
            with pytest.raises(BusyError):
                guard.call("failed", Work(BusyError("no")))
        assert "could not be stored" in caplog.text
        assert "could not be settled" in caplog.text
        clock.advance("31s")
        found = IdempotencyGuard(store, lookup=lambda key: Sent("p7"), recover=lambda found: found)
        assert (found.call("k", work), work.calls) == ("p7", 1)


def test_call_that_another_has_taken_over_reports_its_effect() -> None:
    """It came back after its lease: the settlement is refused, the fact is recorded."""
    with manual_clock() as clock:
        store = memory()
        guard = IdempotencyGuard(store, recover=lambda found: "recovered")

        def late() -> str:
            clock.advance("31s")
            with pytest.raises(OutcomeUnknownError):
                guard.call("k", Work())
            return "late"

        assert guard.call("k", late) == "late"
        assert guard.call("k", Work()) == "recovered"


def test_interrupted_call_is_unknown() -> None:
    """Ctrl-C in the middle."""
    store = memory()
    with pytest.raises(KeyboardInterrupt):
        IdempotencyGuard(store).call("k", Work(KeyboardInterrupt()))
    record = store.get(stored("k"))
    assert record is not None
    assert (record.state, record.counters.interrupted) == (ClaimState.UNKNOWN, 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lease": 0}, "lease"),
        ({"ttl": "never"}, "never"),
        ({"wait": -1}, "wait"),
        ({"namespace": 5}, "namespace is 5"),
        ({"namespace": "x" * 253}, r"the namespace 'x{20}'... is 253 characters long; allowed are 252"),
        ({"namespace": "x" * 300}, r"the namespace is 300 characters long"),
        ({"namespace": "a\0b"}, "the namespace 'a.x00b' holds a NUL"),
        ({"namespace": "a\x1eb"}, "the namespace 'a.x1eb' holds '.x1e', which separates it from keys"),
        ({"on_unknown": "hope"}, "on_unknown is 'hope'; allowed are 'raise' and 'repeat'"),
        ({"lookup": 5}, "lookup is 5; allowed is a function"),
        ({"encode": None}, "encode is None"),
        ({"classifier": 5}, "classifier is 5"),
        ({"keeps": ["nonsense"]}, r"keeps is \['nonsense'\]; allowed is a list of groups of failures: 'transient"),
        ({"keeps": 5}, "keeps is 5; allowed is a list of groups"),
        (
            {"transactional": True, "lookup": print},
            "the guard is transactional and has lookup=; allowed is one of them",
        ),
        ({"transactional": True, "on_unknown": "repeat"}, "the guard is transactional and has on_unknown="),
        ({"on_event": print}, "on_event"),
    ],
)
def test_option_that_is_not_allowed_is_refused(options: Any, message: str) -> None:
    """When the guard is made, not when the first call fails."""
    with pytest.raises(ConfigurationError, match=message):
        IdempotencyGuard(memory(), **options)


def test_what_cannot_be_decorated_is_refused() -> None:
    """By name, and with what to do."""
    guard, waiting = IdempotencyGuard(memory()), AsyncIdempotencyGuard(Awaited(memory()))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="use AsyncIdempotencyGuard"):
        guard(key=str)(coroutine(print))
    with pytest.raises(TypeError, match="use IdempotencyGuard"):
        waiting(key=str)(Work())
    with pytest.raises(TypeError, match="generator"):
        guard(key=str)(lambda: (yield))
    with pytest.raises(ConfigurationError, match=r"allowed are names of parameters .* to, body"):
        guard(key=str, fingerprint=["too"])(lambda to, body: None)
    with pytest.raises(TypeError, match="a guard has no option 'lese'; allowed are lease"):
        IdempotencyGuard(memory(), lese=5)  # type: ignore[call-arg]


def test_groups_that_are_kept_may_be_none() -> None:
    """Then every failure without effect leaves the key free."""
    guard, work = IdempotencyGuard(memory(), keeps=()), Work(DeclinedError("x"), "receipt")
    with pytest.raises(DeclinedError):
        guard.call("k", work)
    assert guard.call("k", work) == "receipt"


@pytest.mark.parametrize("answer", [True, False, "sent", 5, {}], ids=repr)
def test_lookup_that_gives_something_else_is_told_and_nothing_is_repeated(answer: Any) -> None:
    """To take it for "not done" could do it twice."""
    guard, work = IdempotencyGuard(memory(), lookup=lambda key: answer), Work(TimeoutError("late"))
    with pytest.raises(TimeoutError):
        guard.call("k", work)
    with pytest.raises(OutcomeUnknownError) as caught:
        guard.call("k", work)
    assert "allowed are Sent(...), NotAccepted(), or None" in str(caught.value.__cause__)
    assert work.calls == 1


@every_colour
def test_call_that_never_entered_the_function_leaves_the_key_free(make: Any) -> None:
    """Wrong arguments are a bug that is mended; the key has not been used."""
    guard = make(memory())

    def send(to: str) -> str:
        return f"sent to {to}"

    with pytest.raises(TypeError, match="argument"):
        guard.call("k", send, "ada", "bob")
    assert guard.call("k", send, "ada") == "sent to ada"

    def broken(to: str) -> str:
        raise TypeError("after the effect, perhaps")

    with pytest.raises(TypeError, match="perhaps"):
        guard.call("other", broken, "ada")
    with pytest.raises(OutcomeUnknownError):
        guard.call("other", broken, "ada")


def test_function_whose_answer_would_have_to_be_awaited_is_refused() -> None:
    """At once where it says so, else when it is called; nothing was done, and the key is free."""
    guard = IdempotencyGuard(memory())
    fetch = coroutine(Work())
    with pytest.raises(TypeError, match="use AsyncIdempotencyGuard"):
        guard.call("k", fetch)
    with pytest.raises(TypeError, match=r"<lambda> at .* returned an awaitable") as caught:
        guard.call("k", lambda: fetch())
    assert type(caught.value) is TypeError
    assert guard.call("k", Work()) == "receipt"
    assert guard.call("len", len, "abc") == 3
    with pytest.raises(TypeError):
        guard.call("dict", dict, 5)


def test_person_who_knows_settles_an_unknown_call() -> None:
    """Done: a repetition asks for the result. Not done: the call is made."""
    guard = IdempotencyGuard(memory(), recover=lambda found: f"again {found}")
    for key in ("done", "not done"):
        with pytest.raises(TimeoutError):
            guard.call(key, Work(TimeoutError("late")))
    assert guard.confirm("done", "p7") is True
    assert guard.call("done", Work()) == "again p7"
    assert [guard.release(key) for key in ("not done", "done", "never seen")] == [True, False, False]
    assert guard.call("not done", Work()) == "receipt"


@every_colour
def test_confirmation_of_what_is_not_unknown_changes_nothing(make: Any) -> None:
    """Of a key never used, which the first call finds free; of a call in progress, whose result stays; of what is settled."""
    guard = make(memory(), recover=lambda found: f"again {found}")
    assert guard.confirm("never used", "p7") is False
    assert guard.call("never used", Work("first")) == "first"
    assert guard.store.get(stored("unseen")) is None

    def work() -> str:
        assert outside.confirm("running") is False
        return "result"

    outside = IdempotencyGuard(guard.store)
    assert [guard.call("running", work) for _ in range(2)] == ["result"] * 2
    assert guard.confirm("running", "p8") is False
    assert guard.call("running", Work()) == "result"
    with pytest.raises(BusyError):
        guard.call("free", Work(BusyError("no")))
    assert guard.confirm("free") is False


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"key": "order"}, "key is 'order'; allowed is a function"),
        ({"fingerprint": 5}, "fingerprint is 5; allowed is a list of names"),
        ({"fingerprint": "order"}, "fingerprint is 'order'; allowed is a list of names"),
        ({"pass_key": "zzz"}, "pass_key is 'zzz'; allowed is the name of a parameter of .*: order"),
    ],
)
def test_decoration_that_cannot_work_is_refused(how: Any, message: str) -> None:
    """When the function is decorated, not at the first call."""
    with pytest.raises(ConfigurationError, match=message):
        IdempotencyGuard(memory())(**{"key": str, **how})(lambda order: order)
    if "key" in how:
        with pytest.raises(ConfigurationError, match=message):
            AsyncIdempotencyGuard(Awaited(memory()))(**how)(coroutine(print))  # type: ignore[arg-type]


def test_store_that_is_none_is_refused() -> None:
    """A backend is not its store of claims."""
    for store in (None, MemoryBackend()):
        with pytest.raises(ConfigurationError, match=r"allowed is a store of claims: backend\.claims"):
            IdempotencyGuard(store)  # type: ignore[arg-type]


def test_payload_that_a_repair_has_replaced_is_refused() -> None:
    """Somebody has put the call back with another payload: the old one is not worked on."""
    store = memory()
    guard = IdempotencyGuard(store)
    with pytest.raises(DeclinedError), guard.hold("k", payload={"to": "old"}):
        raise DeclinedError
    store.reopen(stored("k"), ReopenTerms(letter_id="k#1", generation=1, fingerprint="that of the repair"))
    with pytest.raises(FingerprintMismatchError), guard.hold("k", payload={"to": "old"}):
        pass


def test_store_that_would_block_the_event_loop_is_refused(tmp_path: Path) -> None:
    """Whatever it is; its asynchronous twin is taken."""
    for backend in (MemoryBackend(), SQLiteBackend(tmp_path / "claims.db")):
        with pytest.raises(ConfigurationError, match=r"event loop wait; allowed is .* as_async\(backend\)\.claims"):
            AsyncIdempotencyGuard(backend.claims)  # type: ignore[arg-type]
        guard = AsyncIdempotencyGuard(as_async(backend).claims)
        assert run_asyncio(lambda: guard.call("k", coroutine(Work("receipt")))) == "receipt"  # noqa: B023
        backend.close()
    with pytest.raises(ConfigurationError, match=r"allowed is a store of claims: backend\.claims"):
        AsyncIdempotencyGuard(None)  # type: ignore[arg-type]


@every_colour
def test_call_of_a_generator_function_is_refused(make: Any) -> None:
    """It would do nothing yet, and count as done; the key is free."""

    def items() -> Any:
        yield work()

    async def more() -> Any:
        yield work()

    guard, work = make(memory()), Work()
    for fn in (items, more):
        with pytest.raises(TypeError, match="is a generator function, whose call does nothing yet"):
            guard.guard.call("k", fn) if isinstance(guard, Sync) else run_asyncio(lambda: guard.guard.call("k", fn))  # noqa: B023
    assert (work.calls, guard.store.get(stored("k"))) == (0, None)


@every_colour
def test_mismatch_of_a_call_speaks_of_its_key(make: Any) -> None:
    """As the caller gave it, not as it stands in the store."""
    call = make(memory(), namespace="ns").decorated(lambda to: to, key=lambda to: "k", fingerprint=["to"])
    call("ada")
    with pytest.raises(FingerprintMismatchError, match="the key 'k' was already used for another payload") as caught:
        call("bob")
    assert caught.value.key == "k"


def test_block_that_was_not_entered_cannot_be_left() -> None:
    """By name, and with what to do."""
    block = IdempotencyGuard(memory()).hold("k")
    with pytest.raises(ConfigurationError, match="the block of the key 'k' is left, and was not entered"):
        block.__exit__(None, None, None)
