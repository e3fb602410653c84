"""The policy matrix: how it is made, looked up and printed, and the decision in each case."""

from __future__ import annotations

import math
import pickle
import random

import attrs
import pytest

from retrykit.decision import Action, DeadLetterReason, Decision
from retrykit.errors import ConfigurationError
from retrykit.failure import ErrorClass, ErrorGroup, Outcome
from retrykit.policy import PolicyMatrix, RetryPolicy, constant, delays
from tests.policy.examples import failed, history

E, G = ErrorClass, ErrorGroup
OWN = ErrorClass("shard_moved", group=G.TRANSIENT_INFRASTRUCTURE)
MATRIX = PolicyMatrix(
    {
        E.NETWORK_TIMEOUT: RetryPolicy(max_retries=3, backoff=delays(5, 15, 30, jitter="none")),
        G.TRANSIENT_INFRASTRUCTURE: RetryPolicy(max_retries=2, backoff=[60]),
        G.THROTTLING: RetryPolicy(max_retries=9, backoff=constant(10)),
        G.PERMANENT_RECIPIENT: RetryPolicy.never(Action.MARK_BOUNCED, audit=True),
        G.CONTENT_POLICY: RetryPolicy(max_retries=1, on_exhausted=Action.MANUAL_REVIEW),
        G.UNMAPPED: RetryPolicy(max_retries=1, backoff=[1]),
    },
    max_attempts=6,
    max_age="1h",
)


@pytest.mark.parametrize(
    ("error_class", "key"),
    [
        (E.NETWORK_TIMEOUT, E.NETWORK_TIMEOUT),
        (E.DNS_FAILURE, G.TRANSIENT_INFRASTRUCTURE),
        (OWN, G.TRANSIENT_INFRASTRUCTURE),
        (E.QUOTA_EXCEEDED, G.THROTTLING),
        (E.UNKNOWN, G.UNMAPPED),
        (E.MAILBOX_FULL, G.UNMAPPED),
    ],
)
def test_policy_is_looked_up_by_class_then_group_then_default(error_class, key):
    """Without a default the unmapped group stands for what is not listed."""
    assert MATRIX.policy(error_class) is MATRIX.policies[key]


def test_policy_of_what_is_not_listed_is_the_default_where_one_is_given():
    """It goes before the unmapped group; with neither nothing is retried."""
    default = RetryPolicy(max_retries=7)
    assert attrs.evolve(MATRIX, default=default).policy(E.MAILBOX_FULL) is default
    assert PolicyMatrix({}).policy(E.MAILBOX_FULL) == RetryPolicy.never(Action.DEAD_LETTER)


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (1, Decision(Action.RETRY, 5.0, "network_timeout, retry 1 of 3, waits 5 s")),
        (2, Decision(Action.RETRY, 15.0, "network_timeout, retry 2 of 3, waits 15 s")),
        (3, Decision(Action.RETRY, 30.0, "network_timeout, retry 3 of 3, waits 30 s")),
        (
            4,
            Decision(
                Action.DEAD_LETTER,
                0.0,
                "network_timeout, all 3 retries used: dead letter",
                DeadLetterReason.RETRIES_EXHAUSTED,
            ),
        ),
    ],
)
def test_decision_for_each_try_of_one_class(number, expected):
    """`max_retries=3` allows four tries, counted or as a history alike."""
    assert expected == MATRIX.decide(failed(E.NETWORK_TIMEOUT), number)
    assert expected == MATRIX.decide(failed(E.NETWORK_TIMEOUT), history(*[E.NETWORK_TIMEOUT] * (number - 1)))


def test_retries_are_counted_for_each_policy():
    """A throttle does not use up a timeout's retries; classes that share a policy share its count."""
    earlier = history(E.PROVIDER_THROTTLED, E.NETWORK_TIMEOUT, E.DNS_FAILURE)
    reasons = [
        MATRIX.decide(failed(error_class), earlier).reason.split(", ")[1]
        for error_class in (E.NETWORK_TIMEOUT, E.QUOTA_EXCEEDED, OWN, E.UNKNOWN)
    ]
    assert ["retry 2 of 3", "retry 2 of 9", "retry 2 of 2", "retry 1 of 1"] == reasons


def test_classes_without_a_policy_share_the_default():
    """What is not listed is one policy, so it is counted as one."""
    decision = MATRIX.decide(failed(E.MAILBOX_FULL), history(E.GREYLISTED))
    assert (Action.DEAD_LETTER, "mailbox_full, all 1 retries used: dead letter") == (decision.action, decision.reason)


def test_attempts_are_bounded_whatever_their_classes():
    """Five earlier tries and this one are the six that are allowed."""
    mixed = [E.NETWORK_TIMEOUT, E.PROVIDER_THROTTLED, E.DNS_FAILURE, E.PROVIDER_THROTTLED]
    assert MATRIX.decide(failed(E.PROVIDER_THROTTLED), history(*mixed)).action is Action.RETRY
    assert Decision(
        Action.DEAD_LETTER,
        0.0,
        "provider_throttled, all 6 attempts used: dead letter",
        DeadLetterReason.RETRIES_EXHAUSTED,
    ) == MATRIX.decide(failed(E.PROVIDER_THROTTLED), history(*mixed, E.NETWORK_TIMEOUT))


@pytest.mark.parametrize(("age", "action"), [(0, Action.RETRY), (3595, Action.RETRY), (3595.001, Action.DEAD_LETTER)])
def test_wait_that_would_pass_the_maximum_age_is_not_waited(age, action):
    """The age counts when the next try would come, not when this one failed; the limit itself is allowed."""
    decision = MATRIX.decide(failed(E.NETWORK_TIMEOUT), 1, age=age)
    assert action is decision.action
    if action is Action.DEAD_LETTER:
        text = "network_timeout, the next try would come later than 3600 s after the first: dead letter"
        assert (text, DeadLetterReason.EXPIRED) == (decision.reason, decision.dead_letter_reason)


def test_no_maximum_age_allows_any_age():
    """None is no limit."""
    assert attrs.evolve(MATRIX, max_age=None).decide(failed(E.NETWORK_TIMEOUT), 1, age=1e12).action is Action.RETRY


@pytest.mark.parametrize(
    ("retry_after", "delay"),
    [(None, 5.0), (0.0, 5.0), (4.0, 5.0), (5.5, 5.5), (900.0, 900.0), (1e9, 1800.0), (math.inf, 1800.0)],
)
def test_retry_after_is_a_floor_up_to_its_cap(retry_after, delay):
    """The other side may ask for longer, not for shorter, and not for ever."""
    matrix = attrs.evolve(MATRIX, max_retry_after="30m")
    decision = matrix.decide(failed(E.NETWORK_TIMEOUT, retry_after=retry_after), 1)
    assert Decision(Action.RETRY, delay, f"network_timeout, retry 1 of 3, waits {delay:g} s") == decision


@pytest.mark.parametrize("retry_after", [-5.0, math.nan, -math.inf])
def test_retry_after_that_is_no_duration_changes_nothing(retry_after):
    """A rule of an application may get it wrong; the policy's own wait stands."""
    assert MATRIX.decide(failed(E.NETWORK_TIMEOUT, retry_after=retry_after), 1).delay == 5.0


def test_retry_after_that_passes_the_maximum_age_ends_it():
    """Waiting longer than a message may live makes no sense."""
    decision = MATRIX.decide(failed(E.NETWORK_TIMEOUT, retry_after=3601.0), 1)
    assert (Action.DEAD_LETTER, DeadLetterReason.EXPIRED) == (decision.action, decision.dead_letter_reason)


def test_final_policy_takes_its_action_at_once():
    """`RetryPolicy.never` retries nothing, and says whether a letter is kept."""
    assert MATRIX.decide(failed(E.INVALID_RECIPIENT, outcome=Outcome.REJECTED, rule="smtp.5.1.1"), 1) == Decision(
        Action.MARK_BOUNCED,
        0.0,
        "invalid_recipient, not retried: mark bounced; rule smtp.5.1.1",
        DeadLetterReason.POLICY_REJECTED,
        audit=True,
    )


@pytest.mark.parametrize("number", [1, 4, 50])
def test_unknown_outcome_turns_a_retry_into_a_verification(number):
    """A try that may have happened is looked up first, also when its retries are used up."""
    matrix = attrs.evolve(MATRIX, verify_backoff=constant(30))
    expected = Decision(Action.VERIFY, 30.0, "network_timeout, may have been sent, verified in 30 s; rule r")
    assert expected == matrix.decide(failed(E.NETWORK_TIMEOUT, outcome=Outcome.UNKNOWN, rule="r"), number)


def test_unknown_outcome_leaves_final_actions_alone():
    """Only a retry is gated: what is final anyway stands."""
    assert MATRIX.decide(failed(E.INVALID_RECIPIENT, outcome=Outcome.UNKNOWN), 1).action is Action.MARK_BOUNCED


@pytest.mark.parametrize("action", [Action.MANUAL_REVIEW, Action.DEAD_LETTER, Action.DISCARD])
def test_unknown_outcome_may_end_in_a_final_action(action):
    """The matrix says what a retry becomes."""
    decision = attrs.evolve(MATRIX, on_unknown=action).decide(failed(E.DNS_FAILURE, outcome=Outcome.UNKNOWN), 1)
    words = action.value.replace("_", " ")
    assert (action, 0.0, f"dns_failure, may have been sent: {words}") == (
        decision.action,
        decision.delay,
        decision.reason,
    )


def test_unknown_outcome_is_retried_only_where_the_application_says_so():
    """`on_unknown=RETRY` is the application's own choice."""
    matrix = attrs.evolve(MATRIX, on_unknown=Action.RETRY)
    failure = failed(E.NETWORK_TIMEOUT, outcome=Outcome.UNKNOWN)
    assert [Action.RETRY] * 3 + [Action.DEAD_LETTER] == [matrix.decide(failure, n).action for n in range(1, 5)]


@pytest.mark.parametrize(
    ("error_class", "number", "reason"),
    [
        (E.INVALID_PAYLOAD, 1, DeadLetterReason.INVALID_PAYLOAD),
        (E.RENDERING_FAILURE, 1, DeadLetterReason.RENDERING_FAILURE),
        (E.POISON_MESSAGE, 1, DeadLetterReason.POISON_MESSAGE),
        (E.INTERNAL_ERROR, 1, DeadLetterReason.APPLICATION),
        (E.CONTENT_REJECTED, 2, DeadLetterReason.POLICY_REJECTED),
        (E.INVALID_DOMAIN, 1, DeadLetterReason.POLICY_REJECTED),
        (E.UNKNOWN, 2, DeadLetterReason.UNMAPPED_ERROR),
        (E.DNS_FAILURE, 3, DeadLetterReason.RETRIES_EXHAUSTED),
        (OWN, 3, DeadLetterReason.RETRIES_EXHAUSTED),
    ],
)
def test_reason_of_a_dead_letter_follows_from_class_and_policy(error_class, number, reason):
    """Operators search by it."""
    matrix = PolicyMatrix({**MATRIX.policies, G.INTERNAL: RetryPolicy.never()})
    assert reason is matrix.decide(failed(error_class), number).dead_letter_reason


def test_random_source_is_used_for_the_jitter_only_if_given():
    """Deciding reads no global randomness."""
    matrix = PolicyMatrix({G.THROTTLING: RetryPolicy(max_retries=1, backoff=constant(10))})
    failure = failed(E.PROVIDER_THROTTLED)
    drawn = [matrix.decide(failure, 1, rng=random.Random(2026)).delay for _ in range(2)]
    assert drawn[0] == drawn[1] == pytest.approx(10.119119884963963)
    assert matrix.decide(failure, 1).delay == 10.0


@pytest.mark.parametrize("number", [0, -1])
def test_try_below_one_is_refused(number):
    """Tries are counted from 1; an index would shift every wait by one."""
    with pytest.raises(ConfigurationError) as caught:
        MATRIX.decide(failed(E.NETWORK_TIMEOUT), number)
    assert f"tries is {number}; tries are counted from 1" == str(caught.value)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: RetryPolicy(max_retries=-1), "max_retries is -1; allowed are whole numbers >= 0"),
        (lambda: RetryPolicy(max_retries=True), "max_retries is True; allowed are whole numbers >= 0"),
        (lambda: RetryPolicy(max_retries=1.5), "max_retries is 1.5; allowed are whole numbers >= 0"),
        (lambda: RetryPolicy(max_retries=1, backoff="5s"), "the backoff is '5s'; allowed are delays(...)"),
        (
            lambda: RetryPolicy.never(Action.RETRY),
            "on_exhausted is 'retry', which ends nothing; allowed are final actions",
        ),
        (
            lambda: RetryPolicy.never(Action.VERIFY),
            "on_exhausted is 'verify', which ends nothing; allowed are final actions",
        ),
        (
            lambda: RetryPolicy.never("dead_letter"),
            "on_exhausted is 'dead_letter'; allowed is an Action, for example Action.DEAD_LETTER",
        ),
        (lambda: PolicyMatrix({}, on_unknown="verify"), "on_unknown is 'verify'; allowed is an Action, for example"),
        (lambda: PolicyMatrix({}, default=3), "default is 3; allowed is a RetryPolicy or None"),
        (lambda: PolicyMatrix({}, max_attempts=0), "max_attempts is 0; allowed are whole numbers >= 1"),
        (lambda: PolicyMatrix({}, max_attempts=True), "max_attempts is True; allowed are whole numbers >= 1"),
        (lambda: PolicyMatrix({}, max_attempts="12"), "max_attempts is '12'; allowed are whole numbers >= 1"),
        (lambda: PolicyMatrix({}, max_age=0), "max_age is 0; allowed are finite durations > 0"),
        (lambda: PolicyMatrix({}, max_age="soon"), "max_age is 'soon'; allowed is text such as"),
        (lambda: PolicyMatrix({}, max_retry_after=-1), "max_retry_after is -1; allowed are finite durations > 0"),
        (lambda: PolicyMatrix({}, verify_backoff=5), "the backoff is 5; allowed are"),
        (
            lambda: PolicyMatrix({"network_timeout": RetryPolicy.never()}),
            "a key of the matrix is 'network_timeout'; allowed are ErrorClass and ErrorGroup",
        ),
        (
            lambda: PolicyMatrix({E.UNKNOWN: 3}),
            "the policy of 'unknown' is 3; allowed is a RetryPolicy",
        ),
    ],
)
def test_bad_setting_is_refused_when_it_is_made(call, message):
    """Not on the first failure in production."""
    with pytest.raises(ConfigurationError) as caught:
        call()
    assert str(caught.value).startswith(message)


def test_matrix_is_independent_of_the_mapping_it_was_made_of():
    """Later changes to the caller's mapping change no policy."""
    policies = {G.INTERNAL: RetryPolicy.never()}
    matrix = PolicyMatrix(policies)
    policies.clear()
    assert {G.INTERNAL: RetryPolicy.never()} == matrix.policies


def test_matrix_survives_pickle():
    """Decorated functions go to process pools with their policy."""
    assert MATRIX == pickle.loads(pickle.dumps(MATRIX))


def test_matrix_prints_as_a_table():
    """Each row is a class or group with its retries, waits and final action; the limits stand below."""
    assert str(MATRIX).splitlines() == [
        "class or group            retries  delays            then",
        "------------------------  -------  ----------------  --------------------------------",
        "network_timeout           3        5, 15, 30 s       dead_letter",
        "transient_infrastructure  2        60 s + up to 10%  dead_letter",
        "throttling                9        10 s + up to 10%  dead_letter",
        "permanent_recipient       0        -                 mark_bounced, with a dead letter",
        "content_policy            1        0 s               manual_review",
        "unmapped                  1        1 s + up to 10%   dead_letter",
        "at most 6 attempts, at most 3600 s after the first try; an unknown outcome: verify",
    ]


def test_matrix_prints_its_default_and_the_lack_of_a_limit():
    """Any other class stands last."""
    matrix = PolicyMatrix({}, default=RetryPolicy(max_retries=2, backoff=["1h"]), max_age=None)
    assert str(matrix).splitlines() == [
        "class or group  retries  delays              then",
        "--------------  -------  ------------------  -----------",
        "(any other)     2        3600 s + up to 10%  dead_letter",
        "at most 12 attempts, no maximum age; an unknown outcome: verify",
    ]


@pytest.mark.parametrize(("name", "value"), [("throttle", "no"), ("audit", 3)])
def test_policy_switch_that_is_no_switch_is_refused(name, value):
    """Text is not taken for true."""
    with pytest.raises(ConfigurationError, match=f"{name} is {value!r}; allowed are True and False"):
        RetryPolicy(max_retries=0, **{name: value})


def test_matrix_of_something_else_than_a_mapping_is_refused():
    """A list of policies has no keys."""
    with pytest.raises(ConfigurationError, match=r"the policies are \[\]; allowed is a mapping"):
        PolicyMatrix([])
