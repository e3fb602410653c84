"""Every error pickles with its attributes and derives from the closest builtin."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from retrykit import errors
from retrykit.decision import Action, Decision
from retrykit.failure import ErrorClass, Failure, Outcome

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
FAILURE = Failure(error_class=ErrorClass.NETWORK_TIMEOUT, outcome=Outcome.UNKNOWN, error_message="read timed out")
DECISION = Decision(Action.RETRY, 900.0, "network_timeout, retry 1 of 5, waits 900 s")

EXAMPLES: dict[str, BaseException] = {
    "AlreadyInProgressError": errors.AlreadyInProgressError("order 1", 2.5),
    "BreakerOpenError": errors.BreakerOpenError("ses", 12.5, FAILURE),
    "CallRefusedError": errors.CallRefusedError("not now"),
    "ConfigurationError": errors.ConfigurationError("lease is -1; allowed are finite durations > 0"),
    "EventSourceError": errors.EventSourceError("ses", NOON, NOON + timedelta(hours=1), OSError("no route")),
    "FingerprintMismatchError": errors.FingerprintMismatchError("welcome-17"),
    "HandBackError": errors.HandBackError([f"m{number}" for number in range(60)]),
    "HoldLostError": errors.HoldLostError("order 1"),
    "InvalidMessageError": errors.InvalidMessageError("the message id is empty"),
    "InvalidPayloadError": errors.InvalidPayloadError("not JSON"),
    "MissingExtraError": errors.MissingExtraError("redis", "redis"),
    "NoProviderAvailableError": errors.NoProviderAvailableError({"ses": "open", "backup": "paused"}, None),
    "NotificationError": errors.NotificationError("https://hooks.example.com answered 500; allowed are 200 to 299"),
    "OutcomeUnknownError": errors.OutcomeUnknownError("order 1"),
    "PayloadTooLargeError": errors.PayloadTooLargeError(2_000_000, 1_048_576),
    "PayloadUnavailableError": errors.PayloadUnavailableError("welcome-17#1", "it is masked"),
    "PicklableError": errors.PicklableError("base"),
    "ProcessStoppingError": errors.ProcessStoppingError("m1"),
    "RedriveConflictError": errors.RedriveConflictError("20260101T000000-1", "ada"),
    "ResultLostError": errors.ResultLostError("order 1"),
    "RetryLater": errors.RetryLater(FAILURE, DECISION),
    "RetrykitError": errors.RetrykitError("something"),
    "SchemaVersionError": errors.SchemaVersionError("mail.db", 7, 1),
    "StoreCorruptError": errors.StoreCorruptError("damaged"),
    "StoreError": errors.StoreError("no"),
    "StoreUnavailableError": errors.StoreUnavailableError("locked"),
    "StoredFailureError": errors.StoredFailureError("order 1", FAILURE),
    "ThrottledError": errors.ThrottledError("ses", 2.0),
    "WebhookRefusedError": errors.WebhookRefusedError("ses", "signature", "the signature is not that of the provider"),
    "WorkerStuckError": errors.WorkerStuckError(9, 120.0),
}

BUILTINS: dict[str, type[BaseException]] = {
    "CallRefusedError": RuntimeError,
    "ConfigurationError": ValueError,
    "EventSourceError": ConnectionError,
    "FingerprintMismatchError": ValueError,
    "HandBackError": RuntimeError,
    "HoldLostError": RuntimeError,
    "InvalidMessageError": ValueError,
    "InvalidPayloadError": ValueError,
    "MissingExtraError": ImportError,
    "NotificationError": ConnectionError,
    "PayloadTooLargeError": ValueError,
    "PayloadUnavailableError": LookupError,
    "RedriveConflictError": RuntimeError,
    "ResultLostError": LookupError,
    "StoreUnavailableError": ConnectionError,
    "StoredFailureError": RuntimeError,
    "WebhookRefusedError": ValueError,
}


def test_examples_cover_every_public_error():
    """An error that is added gets an example here."""
    assert sorted(errors.__all__) == sorted(EXAMPLES)


@pytest.mark.parametrize("name", errors.__all__)
def test_error_derives_from_retrykit_error_and_the_closest_builtin(name):
    """Code that knows nothing of retrykit catches each error as the builtin it is closest to."""
    cls = getattr(errors, name)
    assert issubclass(cls, errors.PicklableError)
    assert issubclass(cls, errors.RetrykitError) or name == "PicklableError"
    assert issubclass(cls, BUILTINS.get(name, Exception))


@pytest.mark.parametrize("name", errors.__all__)
@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_error_pickled_keeps_type_text_attributes_and_notes(name, protocol):
    """An error survives every pickle protocol of Python 3 whole."""
    error = copy.copy(EXAMPLES[name])
    error.add_note("seen on the third try")
    again = pickle.loads(pickle.dumps(error, protocol))
    assert type(error) is type(again)
    assert (error.args, str(error), vars(error)) == (again.args, str(again), vars(again))
    assert again.__notes__ == ["seen on the third try"]


def test_errors_through_a_process_pool_arrive_equal():
    """What a worker process raises or returns reaches its parent with all attributes."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        for error, again in zip(EXAMPLES.values(), pool.map(copy.copy, EXAMPLES.values()), strict=True):
            assert (type(error), str(error), vars(error)) == (type(again), str(again), vars(again))


def test_error_copied_is_another_object_with_the_same_attributes():
    """`copy.copy` gives an independent error."""
    error = errors.PayloadTooLargeError(10, 5)
    again = copy.copy(error)
    again.size = 11
    assert (10, 5) == (error.size, again.limit)


def test_subclass_with_its_own_init_pickles():
    """An application's subclass needs no pickle support of its own."""
    error = pickle.loads(pickle.dumps(_OwnError(first=1, second="two")))
    assert (1, "two", "own 1") == (error.first, error.second, str(error))


class _OwnError(errors.StoreUnavailableError):
    def __init__(self, *, first: int, second: str) -> None:
        super().__init__(f"own {first}")
        self.first = first
        self.second = second


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("MissingExtraError", "'redis' is not installed; install it with: pip install 'retrykit[redis]'"),
        (
            "PayloadTooLargeError",
            (
                "the payload has 2,000,000 bytes, allowed are at most 1,048,576; "
                "store large content elsewhere and send a reference, or raise max_payload"
            ),
        ),
        (
            "FingerprintMismatchError",
            (
                "the key 'welcome-17' was already used for another payload; give every message or call a key of its own, "
                "or come with the payload that belongs to this one"
            ),
        ),
        (
            "SchemaVersionError",
            (
                "mail.db has schema version 7, this retrykit reads versions up to 1; "
                "upgrade retrykit, or open another store"
            ),
        ),
        ("RetryLater", "retry in 900 s: network_timeout, retry 1 of 5, waits 900 s"),
    ],
)
def test_error_message_says_what_was_seen_and_what_to_do(name, text):
    """The messages made from attributes are exactly these."""
    assert text == str(EXAMPLES[name])


def test_error_attributes_are_those_given():
    """Attributes carry the values that the message is made of."""
    assert ("redis", "redis") == (EXAMPLES["MissingExtraError"].extra, EXAMPLES["MissingExtraError"].package)
    assert (FAILURE, DECISION) == (EXAMPLES["RetryLater"].failure, EXAMPLES["RetryLater"].decision)
    newer = EXAMPLES["SchemaVersionError"]
    assert ("mail.db", 7, 1) == (newer.where, newer.found, newer.supported)
    assert EXAMPLES["FingerprintMismatchError"].key == "welcome-17"
