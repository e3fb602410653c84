"""The classifier: order of evidence, chains, groups, stages, and what a failure keeps."""

from __future__ import annotations

import asyncio
import concurrent.futures
import itertools
import smtplib
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrykit.classification import ErrorClassifier, Rule, SmtpReply, TaggedError, stage, tag
from retrykit.classification.chains import MAX_DEPTH, MAX_EXCEPTIONS
from retrykit.decision import Action, Decision
from retrykit.errors import ConfigurationError, RetryLater
from retrykit.failure import ErrorClass, ErrorGroup, Failure, Outcome

CLASSIFIER = ErrorClassifier()
CARD_DECLINED = ErrorClass("card_declined", group=ErrorGroup.PERMANENT_RECIPIENT)
NOT_SENT, REJECTED, UNKNOWN = Outcome.NOT_SENT, Outcome.REJECTED, Outcome.UNKNOWN
from tests.fresh import run_fresh


class CardDeclinedError(TaggedError):
    error_class = CARD_DECLINED


class ShopError(Exception): ...


def chained(*errors, implicit=False):
    """Put each error behind the one before it, and give the outermost."""
    for outer, inner in itertools.pairwise(errors):
        if implicit:
            outer.__context__ = inner
        else:
            outer.__cause__ = inner
    return errors[0]


def marked(error, *boundaries):
    for boundary in boundaries:
        with pytest.raises(type(error)), boundary:
            raise error
    return error


def rule_of(signal, classifier=CLASSIFIER, **where):
    return classifier.classify(signal, **where).rule


# what comes in


@pytest.mark.parametrize("signal", ["550 no", None, KeyError, 550])
def test_classify_something_that_cannot_fail_is_refused(signal):
    """Only exceptions and replies are classified."""
    with pytest.raises(ConfigurationError, match="cannot classify"):
        CLASSIFIER.classify(signal)


@pytest.mark.parametrize(
    "signal",
    [
        asyncio.CancelledError(),
        type("Cancelled", (BaseException,), {"__module__": "trio"})(),
        KeyboardInterrupt(),
        SystemExit(1),
        GeneratorExit(),
        BaseExceptionGroup("all", [KeyboardInterrupt(), BaseExceptionGroup("more", [asyncio.CancelledError()])]),
    ],
    ids=lambda signal: type(signal).__name__,
)
def test_classify_a_cancellation_is_refused(signal):
    """Who ends work from outside has not failed."""
    with pytest.raises(ConfigurationError, match="is a cancellation"):
        CLASSIFIER.classify(signal)


def test_classify_a_cancelled_future_is_unknown():
    """The cancellation of a future reaches a caller who was not cancelled as an ordinary exception."""
    assert rule_of(concurrent.futures.CancelledError()) == "unknown"


def test_classify_an_unknown_base_exception_is_unknown():
    """What is no cancellation gets an answer."""

    class OddError(BaseException): ...

    assert rule_of(OddError()) == "unknown"


@pytest.mark.parametrize("rules", [["x"], [None], [Rule]])
def test_classifier_with_something_else_than_rules_is_refused(rules):
    """A wrong rule is refused where it is given."""
    with pytest.raises(ConfigurationError, match="as a rule"):
        ErrorClassifier(rules)


# the order of evidence

MINE = Rule("shop.mine", CARD_DECLINED, exceptions=[ConnectionResetError, ShopError])


def test_tag_stands_before_the_applications_rules():
    """What an exception says of itself counts first."""
    error = marked(ConnectionResetError("x"), tag(ErrorClass.POLICY_VIOLATION))
    assert rule_of(error, ErrorClassifier([MINE])) == "tag.policy_violation"
    assert rule_of(CardDeclinedError("x"), ErrorClassifier([MINE])) == "tag.card_declined"


def test_applications_rules_stand_before_the_built_in_ones():
    """The application knows its trade; the outcome is still that of the exception."""
    classifier = ErrorClassifier([Rule("shop.mine", CARD_DECLINED, exceptions=OSError)])
    failure = classifier.classify(ConnectionRefusedError("x"), stage="send")
    assert (failure.rule, failure.error_class, failure.outcome) == ("shop.mine", CARD_DECLINED, NOT_SENT)


@pytest.mark.parametrize(
    ("expected", "signal", "provider"),
    [
        ("shop.code", SmtpReply(571, "no"), None),
        ("shop.words", SmtpReply(550, "Account  SUSPENDED for non-payment"), None),
        ("shop.words", smtplib.SMTPDataError(550, b"account suspended"), None),
        ("shop.words", ShopError("account suspended"), None),
        ("shop.provider", SmtpReply(599, "no"), "ses"),
        ("smtp.5xx", SmtpReply(599, "no"), "backup"),
        ("shop.predicate", ShopError("teapot"), None),
        ("unknown", ShopError("kettle"), None),
    ],
)
def test_applications_rules_see_replies_and_exceptions(expected, signal, provider):
    """Codes, words, providers and predicates may be asked of either."""
    rules = [
        Rule("shop.code", CARD_DECLINED, codes=571),
        Rule("shop.words", CARD_DECLINED, words="account suspended"),
        Rule("shop.provider", CARD_DECLINED, provider="SES", codes=599),
        Rule("shop.predicate", CARD_DECLINED, predicate=lambda signal: str(signal) == "teapot"),
    ]
    assert expected == rule_of(signal, ErrorClassifier(rules), provider=provider)


def test_applications_rule_says_outcome_and_wait():
    """What a rule says of them stands before what is assumed."""
    rule = Rule("shop.mine", CARD_DECLINED, exceptions=ShopError, outcome="rejected", retry_after="90s")
    failure = ErrorClassifier([rule]).classify(ShopError("x"), stage="send")
    assert (failure.outcome, failure.retry_after) == (REJECTED, 90.0)


def test_rules_are_shown_in_the_order_of_their_rank():
    """The application's stand first, exceptions last."""
    names = [rule.name for rule in ErrorClassifier([MINE]).rules]
    assert names[:2] == ["shop.mine", "stage.parse"]
    assert names.index("stage.render") < names.index("smtp.5xx") < names.index("exception.builtins.TimeoutError")


# stages


@pytest.mark.parametrize(
    ("expected", "at", "error"),
    [
        ("stage.render", "render", KeyError("name")),
        ("stage.render", "render", TypeError("x")),
        ("stage.render", "render", FileNotFoundError("template")),
        ("stage.parse", "parse", ValueError("x")),
        ("stage.validate", "validate", AssertionError("x")),
        ("exception.builtins.TypeError", "send", TypeError("x")),
        ("exception.builtins.TypeError", "charge", TypeError("x")),
        ("unknown", "send", ValueError("x")),
        ("unknown", "charge", ValueError("x")),
        ("unknown", None, ValueError("x")),
        ("exception.builtins.ConnectionError", "render", ConnectionResetError("x")),
        ("exception.socket.gaierror", "validate", socket.gaierror("x")),
    ],
)
def test_stage_speaks_for_bugs_and_for_what_is_not_recognised(expected, at, error):
    """A bug in render is a rendering failure, a lost template database is not."""
    assert expected == rule_of(error, stage=at)
    if at is not None:
        assert expected == rule_of(marked(error, stage(at)), stage="send")


@pytest.mark.parametrize(
    ("expected", "name", "marks", "given"),
    [
        (NOT_SENT, "render", ["render"], "send"),
        (NOT_SENT, "render", ["render", "send"], None),
        (NOT_SENT, "render", [], "render"),
        (NOT_SENT, "charge", ["charge"], None),
        (NOT_SENT, "charge", [], "charge"),
        (UNKNOWN, "charge", ["charge"], "send"),
        (UNKNOWN, "charge", ["charge", "send"], None),
        (UNKNOWN, "send", ["send"], None),
        (UNKNOWN, "send", [], "send"),
        (UNKNOWN, None, [], None),
    ],
)
def test_outcome_is_open_in_send_and_within_it(expected, name, marks, given):
    """The innermost stage is named; what runs inside of send, render aside, may have sent."""
    error = marked(ShopError("x"), *map(stage, marks))
    failure = CLASSIFIER.classify(error, stage=given)
    assert (expected, name) == (failure.outcome, failure.stage)


def test_tag_says_the_outcome_whatever_the_stage():
    """An explicit word stands before what is assumed of the place."""
    error = marked(ShopError("x"), tag(CARD_DECLINED, outcome=UNKNOWN))
    assert UNKNOWN is CLASSIFIER.classify(error, stage="render").outcome


def test_tagged_error_says_code_and_wait():
    """What the class says is in the failure."""

    class BusyError(TaggedError):
        error_class = ErrorClass.PROVIDER_THROTTLED
        outcome = REJECTED
        retry_after = 30
        error_code = "E17"

    assert Failure(
        error_class=ErrorClass.PROVIDER_THROTTLED,
        outcome=REJECTED,
        error_code="E17",
        error_message="busy",
        retry_after=30.0,
        stage="send",
        rule="tag.provider_throttled",
    ) == CLASSIFIER.classify(BusyError("busy"), stage="send")


def test_tag_on_an_exception_with_a_reply_keeps_what_the_reply_shows():
    """The tag changes the class; code, enhanced code, outcome and the wished wait are the provider's."""
    error = marked(smtplib.SMTPDataError(451, b"4.7.1 try again in 60 seconds"), tag(CARD_DECLINED))
    failure = CLASSIFIER.classify(error)
    assert (
        failure.error_class,
        failure.outcome,
        failure.error_code,
        failure.enhanced_code,
        failure.retry_after,
    ) == (CARD_DECLINED, REJECTED, "451", "4.7.1", 60.0)


# chains


@pytest.mark.parametrize("implicit", [False, True])
def test_chain_is_followed_to_the_first_that_is_recognised(implicit):
    """`raise B from A`, and `raise B` while A is handled, are both read."""
    error = chained(ShopError("x"), ValueError("y"), socket.gaierror("z"), TimeoutError(), implicit=implicit)
    failure = CLASSIFIER.classify(error, stage="send")
    assert (
        failure.rule,
        failure.error_message,
        failure.error_code,
    ) == ("exception.socket.gaierror", "z", "socket.gaierror")


def test_chain_outermost_recognised_exception_wins():
    """What was raised last knows most."""
    error = chained(ConnectionRefusedError("x"), TimeoutError("y"))
    assert rule_of(error) == "exception.builtins.ConnectionRefusedError"


def test_chain_suppressed_context_is_not_followed():
    """`raise B from None` says that A does not matter."""
    error = chained(ShopError("x"), TimeoutError(), implicit=True)
    error.__suppress_context__ = True
    assert rule_of(error) == "unknown"


def test_chain_tag_or_reply_behind_an_unknown_exception_counts():
    """A wrapper around a tagged exception or a reply is seen through."""
    assert rule_of(chained(ShopError("x"), CardDeclinedError("y"))) == "tag.card_declined"
    assert rule_of(chained(ShopError("x"), smtplib.SMTPDataError(550, b"5.1.1 no"))) == "smtp.enhanced.5.1.1"


@pytest.mark.parametrize(
    ("expected", "implicit", "at"), [(NOT_SENT, False, "send"), (UNKNOWN, True, "send"), (NOT_SENT, True, "render")]
)
def test_chain_certain_outcome_behind_an_implicit_context_is_open_again(expected, implicit, at):
    """A handler may have sent by another way before it raised; only `from` says that the cause is the whole story."""
    error = chained(ShopError("x"), ConnectionRefusedError("y"), implicit=implicit)
    assert expected is CLASSIFIER.classify(error, stage=at).outcome


@pytest.mark.parametrize("implicit", [False, True])
@pytest.mark.parametrize("length", [1, 2, 3])
def test_chain_in_a_circle_ends(length, implicit):
    """`raise e from e`, and longer circles, are read once around."""
    errors = [ShopError(str(number)) for number in range(length)]
    chained(*errors, errors[0], implicit=implicit)
    assert rule_of(errors[0]) == "unknown"


def test_chain_in_a_circle_is_read_to_its_end():
    """The last of a circle is looked at before it closes."""
    first, second = ShopError("a"), TimeoutError("b")
    chained(first, second, first)
    assert rule_of(first) == "exception.builtins.TimeoutError"


@pytest.mark.parametrize(("expected", "length"), [("exception.builtins.TimeoutError", 31), ("unknown", 32)])
def test_chain_is_followed_for_a_bounded_depth(expected, length):
    """What lies 32 exceptions deep is out of sight."""
    assert MAX_DEPTH == 32
    assert expected == rule_of(chained(*(ShopError(str(number)) for number in range(length)), TimeoutError()))


def test_chain_with_a_cancellation_in_it_is_followed_past_it():
    """A deadline raises TimeoutError from CancelledError, and an error may come of a cancellation."""
    error = chained(ShopError("x"), asyncio.CancelledError(), TimeoutError("y"))
    assert rule_of(error) == "exception.builtins.TimeoutError"


def test_chain_real_timeout_of_asyncio_is_a_network_timeout():
    """`asyncio.timeout` cancels its own task, which is not the caller's cancellation."""

    async def main():
        async with asyncio.timeout(0):
            await asyncio.sleep(1)

    with pytest.raises(TimeoutError) as info:
        asyncio.run(main())
    assert rule_of(info.value) == "exception.builtins.TimeoutError"


def test_chain_stage_is_that_of_the_outermost_exception():
    """A failure in render that was handled is not where the next one happened."""
    error = chained(ShopError("x"), marked(ValueError("y"), stage("render")), implicit=True)
    failure = CLASSIFIER.classify(error, stage="send")
    assert (failure.rule, failure.outcome, failure.stage) == ("unknown", UNKNOWN, "send")


# groups


@pytest.mark.parametrize(
    ("expected", "outcome", "members"),
    [
        ("exception.socket.gaierror", NOT_SENT, [socket.gaierror("x"), ConnectionRefusedError("y")]),
        ("exception.builtins.ConnectionRefusedError", NOT_SENT, [ConnectionRefusedError("y"), socket.gaierror("x")]),
        ("exception.socket.gaierror", UNKNOWN, [ShopError("x"), socket.gaierror("y")]),
        ("exception.socket.gaierror", UNKNOWN, [socket.gaierror("x"), TimeoutError("y")]),
        ("exception.socket.gaierror", NOT_SENT, [asyncio.CancelledError(), socket.gaierror("x"), KeyboardInterrupt()]),
        ("exception.socket.gaierror", NOT_SENT, [ExceptionGroup("in", [socket.gaierror("x")])]),
        ("exception.builtins.TimeoutError", UNKNOWN, [ExceptionGroup("in", [ShopError("x")]), TimeoutError("y")]),
        ("smtp.enhanced.5.1.1", REJECTED, [smtplib.SMTPDataError(550, b"5.1.1 no")]),
        ("unknown", UNKNOWN, [ShopError("x"), ShopError("y")]),
    ],
)
def test_group_first_recognised_member_answers_and_any_open_outcome_counts(expected, outcome, members):
    """Members are read in order; what one of them may have done may have been done."""
    failure = CLASSIFIER.classify(BaseExceptionGroup("group", members), stage="send")
    assert (expected, outcome) == (failure.rule, failure.outcome)


def test_group_member_keeps_its_own_stage():
    """A member that failed in render has sent nothing, whatever the group's own stage."""
    group = ExceptionGroup("group", [marked(KeyError("x"), stage("render")), socket.gaierror("y")])
    failure = CLASSIFIER.classify(group, stage="send")
    assert (failure.rule, failure.outcome, failure.stage) == ("exception.socket.gaierror", NOT_SENT, "send")


def test_group_that_a_rule_or_tag_names_is_not_looked_into():
    """What is said of the whole group stands before its members."""
    group = ExceptionGroup("group", [TimeoutError("x")])
    assert (
        rule_of(group, ErrorClassifier([Rule("shop.group", CARD_DECLINED, exceptions=ExceptionGroup)])) == "shop.group"
    )
    assert rule_of(marked(group, tag(CARD_DECLINED))) == "tag.card_declined"


def test_group_in_a_chain_and_a_chain_in_a_group_are_read():
    """Chains and groups nest."""
    inner = chained(ShopError("x"), TimeoutError("y"))
    assert rule_of(chained(ShopError("z"), ExceptionGroup("group", [inner]))) == "exception.builtins.TimeoutError"


def test_group_that_is_behind_its_own_members_ends():
    """Circles through groups are read once around, and do not multiply."""
    members = [ShopError(str(number)) for number in range(20)]
    group = ExceptionGroup("group", members)
    for member in members:
        member.__context__ = group
    assert rule_of(group) == "unknown"


def test_group_of_very_many_members_is_read_for_a_bounded_number():
    """What was not looked at leaves the outcome open."""
    members = [socket.gaierror("x"), *(ConnectionRefusedError("y") for _ in range(MAX_EXCEPTIONS))]
    failure = CLASSIFIER.classify(ExceptionGroup("group", members), stage="send")
    assert (failure.rule, failure.outcome) == ("exception.socket.gaierror", UNKNOWN)


def test_group_nested_very_deep_ends():
    """A hostile nest costs a bounded walk."""
    error = TimeoutError("x")
    for _ in range(500):
        error = ExceptionGroup("group", [error])
    assert rule_of(error) == "unknown"


# what a failure keeps


def test_retry_later_gives_the_failure_it_carries_with_the_decided_delay():
    """A signal to come back later is the failure that led to it."""
    failure = CLASSIFIER.classify(TimeoutError("x"), stage="send")
    later = RetryLater(failure, Decision(Action.RETRY, 120.0, "because"))
    found = CLASSIFIER.classify(later, stage="send")
    assert (failure.error_class, failure.rule, UNKNOWN, 120.0) == (
        found.error_class,
        found.rule,
        found.outcome,
        found.retry_after,
    )


@pytest.mark.parametrize(
    ("expected", "own", "given"), [("a", "a", None), ("b", "a", "b"), (None, None, None), ("", "a", "")]
)
def test_provider_is_the_given_one_or_the_classifiers(expected, own, given):
    """Who answered is said once, or for each call."""
    assert expected == ErrorClassifier(provider=own).classify(ShopError("x"), provider=given).provider


@pytest.mark.parametrize("signal", [SmtpReply(550, "x" * 5_000), ShopError("x" * 5_000)])
def test_message_is_kept_up_to_a_bound(signal):
    """The words stay verbatim; of a very long text the beginning and how much more there was."""
    message = CLASSIFIER.classify(signal).error_message
    assert message == "x" * 2_000 + "... [3,000 more characters]"


@pytest.mark.parametrize(
    ("expected", "error"),
    [
        (("ValueError", "x"), ValueError("x")),
        (("KeyError", "'x'"), KeyError("x")),
        ((f"{__name__}.ShopError", ""), ShopError()),
        (("socket.gaierror", "[Errno -2] no name"), socket.gaierror(-2, "no name")),
    ],
)
def test_exception_name_and_text_are_kept_verbatim(expected, error):
    """The evidence of an exception is its name and its text."""
    failure = CLASSIFIER.classify(error)
    assert expected == (failure.error_code, failure.error_message)


def test_reply_code_and_text_are_kept_verbatim():
    """The evidence of a reply is its code, its enhanced code and its text."""
    failure = CLASSIFIER.classify(SmtpReply(550, "5.1.1 <ADA@Example.org>:\n5.1.1 User  unknown"))
    assert (
        failure.error_code,
        failure.enhanced_code,
        failure.error_message,
    ) == ("550", "5.1.1", "5.1.1 <ADA@Example.org>:\n5.1.1 User  unknown")


def test_classifier_forgets_types_beyond_a_bound():
    """Classes made on the fly do not pile up."""
    classifier = ErrorClassifier()
    for number in range(2_000):
        classifier.classify(type(f"Made{number}Error", (TimeoutError,), {})())
    assert len(classifier._kinds.known) <= 1_024


ERRORS = st.sampled_from(
    [ShopError, ValueError, TimeoutError, socket.gaierror, asyncio.CancelledError, CardDeclinedError]
)
TREES = st.recursive(
    st.builds(lambda cls, text: cls(text), ERRORS, st.text(max_size=5)),
    lambda inner: st.lists(inner, min_size=1, max_size=3).map(lambda members: BaseExceptionGroup("group", members)),
    max_leaves=8,
)


@given(st.lists(TREES, min_size=1, max_size=5), st.data())
def test_any_tangle_of_chains_and_groups_gets_one_and_the_same_answer(errors, data):
    """Whatever hangs together in whatever way, an answer comes, and always the same."""
    for error in errors:
        error.__cause__ = data.draw(st.none() | st.sampled_from(errors))
        error.__context__ = data.draw(st.none() | st.sampled_from(errors))
    signal = chained(ShopError("x"), errors[0])
    at = data.draw(st.sampled_from([None, "send", "render"]))
    failure = CLASSIFIER.classify(signal, stage=at)
    assert failure == ErrorClassifier().classify(signal, stage=at)
    assert failure.rule


def test_import_loads_no_client_library_and_no_event_loop():
    """Exceptions are recognised by name, so nothing needs to be imported for them."""
    loaded = run_fresh(
        "import json, sys, retrykit.classification as c; c.ErrorClassifier().classify(TimeoutError()); "
        "heavy = {'asyncio', 'email', 'logging', 'smtplib', 'socket', 'sqlite3', 'ssl'}; "
        "print(json.dumps(sorted(heavy & set(sys.modules))))"
    )
    assert loaded == []


def test_mark_far_behind_a_failed_send_is_out_of_sight():
    """However long the chain of causes is, it is followed so far and no further."""
    refused = behind = ConnectionRefusedError("no")
    for number in range(3 * MAX_DEPTH):
        behind.__cause__ = ValueError(number)
        behind = behind.__cause__
    failure = ErrorClassifier().classify(refused, stage="send")
    assert (ErrorClass.CONNECTION_ERROR, Outcome.NOT_SENT) == (failure.error_class, failure.outcome)
