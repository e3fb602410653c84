# pyright: reportUnnecessaryTypeIgnoreComment=true
"""The words of the core, as a checker sees them. A line that must not type carries an ignore; an unused one is an error."""

from collections.abc import Mapping
from datetime import datetime
from typing import assert_type

from retrykit.codec import JSON
from retrykit.dead_letter import DeadLetter
from retrykit.decision import Action, Decision
from retrykit.errors import ConfigurationError, RetrykitError, RetryLater
from retrykit.failure import ErrorClass, ErrorGroup, Failure, Outcome
from retrykit.message import Message
from retrykit.policy import EMAIL_MATRIX, Backoff, PolicyMatrix, RetryPolicy, decorrelated, delays, formula, plus_minus
from retrykit.policy.lint import LintReport
from retrykit.policy.replay import ReplayReport

# An error class is a text with a group.
assert_type(ErrorClass.NETWORK_TIMEOUT, ErrorClass)
assert_type(ErrorClass.NETWORK_TIMEOUT.group, ErrorGroup)
CARD_DECLINED = ErrorClass("card_declined", group=ErrorGroup.PERMANENT_RECIPIENT)
text: str = CARD_DECLINED
ErrorClass("card_declined", ErrorGroup.INTERNAL)  # type: ignore[call-arg]  # the group goes by name
ErrorClass(550)  # type: ignore[arg-type]
ErrorClass.NO_SUCH_CLASS  # type: ignore[attr-defined]

# A failure is frozen and made by name.
failure = Failure(error_class=ErrorClass.MAILBOX_FULL, outcome=Outcome.REJECTED)
assert_type(failure.group, ErrorGroup)
assert_type(failure.error_code, str | None)
assert_type(failure.to_dict(), dict[str, JSON])
Failure(ErrorClass.MAILBOX_FULL, Outcome.REJECTED)  # type: ignore[call-arg]
Failure(error_class="mailbox_full", outcome=Outcome.REJECTED)  # type: ignore[arg-type]
Failure(error_class=ErrorClass.MAILBOX_FULL)  # type: ignore[call-arg]
failure.error_code = "552"  # type: ignore[misc]

# A message takes JSON or bytes.
message = Message("m-1", {"to": ["ada@example.org"], "retries": 3, "nested": {"deep": None}})
Message("m-2", b"\x00 not JSON", {"campaign_id": "spring"})
assert_type(message.payload, JSON)
assert_type(message.body, bytes)
Message("m-3", {"when": datetime})  # type: ignore[dict-item]
Message(4, None)  # type: ignore[arg-type]
Message("m-5", None, {"tries": 1})  # type: ignore[dict-item]
message.id = "m-6"  # type: ignore[misc]

# A matrix is keyed by classes and groups.
matrix = PolicyMatrix(
    {
        ErrorClass.NETWORK_TIMEOUT: RetryPolicy(max_retries=2, backoff=delays(1, "5m")),
        ErrorGroup.INTERNAL: RetryPolicy.never(Action.DEAD_LETTER),
    }
)
assert_type(matrix.decide(failure, 1), Decision)
assert_type(EMAIL_MATRIX.decide(failure, (), age=60.0).action, Action)
PolicyMatrix({"network_timeout": RetryPolicy(max_retries=2)})  # type: ignore[dict-item]
RetryPolicy(max_retries="2")  # type: ignore[arg-type]
RetryPolicy.never("dead_letter")  # type: ignore[arg-type]
matrix.decide(failure)  # type: ignore[call-arg]
matrix.decide(failure, 1, 60.0)  # type: ignore[call-arg]

# A derived matrix changes what it names, and nothing that there is not.
assert_type(EMAIL_MATRIX.with_({ErrorGroup.INTERNAL: RetryPolicy.never()}, max_age="2d", max_attempts=3), PolicyMatrix)
EMAIL_MATRIX.with_(max_age=None, verify_backoff=["1m", "5m"])
EMAIL_MATRIX.with_(max_tries=3)  # type: ignore[call-arg]
EMAIL_MATRIX.with_(max_attempts="3")  # type: ignore[arg-type]
EMAIL_MATRIX.with_({"internal": RetryPolicy.never()})  # type: ignore[dict-item]
assert_type(PolicyMatrix.from_toml(EMAIL_MATRIX.to_toml()), PolicyMatrix)
assert_type(PolicyMatrix.load("matrix.toml"), PolicyMatrix)
assert_type(EMAIL_MATRIX.to_dict(), dict[str, JSON])
assert_type(EMAIL_MATRIX.lint(classes=[CARD_DECLINED]), LintReport)
assert_type(EMAIL_MATRIX.replay([]), ReplayReport)
matrix.decide(failure, 1, idempotent="yes")  # type: ignore[arg-type]

# A backoff is one of ours, a list, or a function.
backoffs: list[Backoff] = [decorrelated(1, cap="1h"), formula(lambda n: n**2, jitter=plus_minus(0.1))]
RetryPolicy(max_retries=1, backoff=lambda n: 2.0 * n)
RetryPolicy(max_retries=1, backoff=5)  # type: ignore[arg-type]
assert_type(backoffs[0].bounds(3), tuple[float, float])
assert_type(backoffs[0].delay(3, previous=1.5), float)


def records(fields: Mapping[str, JSON]) -> str | None:
    letter = DeadLetter.from_dict(fields)
    assert_type(letter.last_failed_at, datetime)
    assert_type(letter.original_payload, bytes)
    return letter.campaign_id


def errors(error: RetrykitError) -> None:
    value_error: ValueError = ConfigurationError("no")
    if isinstance(error, RetryLater):
        assert_type(error.decision, Decision)
    print(value_error)
    RetryLater("later")  # type: ignore[arg-type, call-arg]
