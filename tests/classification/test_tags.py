"""Saying what a failure is where it is raised: `TaggedError`, `tag` and `stage`."""

from __future__ import annotations

import asyncio
import functools
import inspect
import pickle
import traceback

import pytest

from retrykit.classification import ErrorClassifier, TaggedError, stage, tag
from retrykit.classification.tags import Tag, is_unsure, mark_unsure, stages_of, tag_of
from retrykit.errors import ConfigurationError
from retrykit.failure import ErrorClass, ErrorGroup, Outcome

CARD_DECLINED = ErrorClass("card_declined", group=ErrorGroup.PERMANENT_RECIPIENT)
DOWN = ErrorClass.PROVIDER_UNAVAILABLE


class CardDeclinedError(TaggedError):
    error_class = CARD_DECLINED

    def __init__(self, card, *, reason):
        super().__init__(f"{card}: {reason}")
        self.card = card


class BusyError(TaggedError):
    error_class = ErrorClass.PROVIDER_THROTTLED
    outcome = Outcome.NOT_SENT
    retry_after = 30
    error_code = "E17"


class StubbornError(Exception):
    def __setattr__(self, name, value):
        raise TypeError("no attributes here")


def caught(function, *args):
    with pytest.raises(BaseException) as info:
        function(*args)
    return info.value


def fail(error):
    raise error


async def fail_async(error):
    raise error


# TaggedError


@pytest.mark.parametrize(
    ("match", "attributes"),
    [
        ("error_class is None", {}),
        ("error_class is 'unknown'", {"error_class": "unknown"}),
        ("outcome of Wrong is 'maybe'", {"error_class": DOWN, "outcome": "maybe"}),
        ("retry_after is -1", {"error_class": DOWN, "retry_after": -1}),
        ("retry_after is 'soon'", {"error_class": DOWN, "retry_after": "soon"}),
    ],
)
def test_tagged_error_subclass_with_a_wrong_value_is_refused(match, attributes):
    """What a class says of its errors is checked where the class is written."""
    with pytest.raises(ConfigurationError, match=match):
        type("Wrong", (TaggedError,), attributes)


def test_tagged_error_subclass_of_a_subclass_inherits_what_it_does_not_say():
    """A family of errors names its class once."""

    class VeryBusyError(BusyError):
        retry_after = "5m"

    assert Tag(ErrorClass.PROVIDER_THROTTLED, Outcome.NOT_SENT, 300.0, "E17") == tag_of(VeryBusyError())


def test_tagged_error_instance_says_more_than_its_class():
    """What is known only at the raise is set on the instance."""
    error = CardDeclinedError("4242", reason="no funds")
    error.outcome, error.retry_after, error.error_code = Outcome.REJECTED, 1.5, 51
    assert Tag(CARD_DECLINED, Outcome.REJECTED, 1.5, "51") == tag_of(error)


@pytest.mark.parametrize(
    ("name", "value"),
    [("outcome", "perhaps"), ("retry_after", "soon"), ("retry_after", float("nan")), ("retry_after", -1)],
)
def test_tagged_error_instance_with_a_wrong_value_counts_as_not_saying_it(name, value):
    """An instance is made while something fails: that is no time to raise another error."""
    error = CardDeclinedError("4242", reason="no funds")
    setattr(error, name, value)
    assert Tag(CARD_DECLINED) == tag_of(error)


def test_tagged_error_instance_with_a_wrong_class_is_not_tagged():
    """What is no class is no answer."""
    error = CardDeclinedError("4242", reason="no funds")
    error.error_class = "declined"
    assert tag_of(error) is None


def test_tagged_error_base_itself_says_nothing():
    """The base has no class to give."""
    assert tag_of(TaggedError("hm")) is None


def test_tagged_error_pickled_keeps_its_attributes():
    """An error with any signature survives a process pool."""
    error = CardDeclinedError("4242", reason="no funds")
    error.retry_after = 7.0
    copy = pickle.loads(pickle.dumps(error))
    assert (CardDeclinedError, error.args, error.__dict__) == (type(copy), copy.args, copy.__dict__)
    assert tag_of(error) == tag_of(copy)


# tag


def test_tag_block_marks_the_exception_and_lets_it_go():
    """The same exception leaves, with its type and its cause."""
    error = ConnectionResetError("gone")
    error.__cause__ = cause = OSError("cable")
    with pytest.raises(ConnectionResetError) as info, tag(DOWN, outcome=Outcome.NOT_SENT, retry_after="1m"):
        raise error
    assert error is info.value
    assert cause is error.__cause__
    assert Tag(DOWN, Outcome.NOT_SENT, 60.0) == tag_of(error)


def test_tag_block_without_an_exception_does_nothing():
    """Success passes."""
    with tag(DOWN):
        passed = True
    assert passed


@pytest.mark.parametrize("error", [ValueError("x"), asyncio.CancelledError(), KeyboardInterrupt(), SystemExit(1)])
def test_tag_other_exceptions_pass_unmarked(error):
    """What is not named, and what is no failure, is not touched."""
    assert error is caught(tag(DOWN, on=(KeyError, OSError))(fail), error)
    assert error.__dict__ == {}


def test_tag_on_base_exceptions_still_spares_cancellation():
    """Whatever is named, a cancellation is not a failure."""
    error = KeyboardInterrupt()
    assert error is caught(tag(DOWN, on=BaseException)(fail), error)
    assert tag_of(error) is None


def test_tag_within_a_tag_the_inner_one_stands():
    """Who stands nearer to the failure knows more."""
    error = OSError("x")
    caught(tag(ErrorClass.UNKNOWN)(tag(DOWN)(fail)), error)
    assert Tag(DOWN) == tag_of(error)


def test_tag_around_a_tagged_error_leaves_it_as_it_is():
    """An error that says itself what it is needs no tag."""
    error = BusyError()
    caught(tag(DOWN)(fail), error)
    assert tag_of(error).error_class == ErrorClass.PROVIDER_THROTTLED


@pytest.mark.parametrize("mark", [tag(DOWN), stage("send")])
def test_mark_on_an_exception_that_refuses_attributes_leaves_it_untouched(mark):
    """No other error comes of it."""
    error = StubbornError("x")
    assert error is caught(mark(fail), error)
    assert (tag_of(error), stages_of(error)) == (None, ())


def test_tagged_exception_pickled_keeps_its_tag_and_stage():
    """What was said survives a process pool."""
    error = OSError("x")
    caught(stage("charge")(tag(DOWN)(fail)), error)
    copy = pickle.loads(pickle.dumps(error))
    assert (Tag(DOWN), ("charge",)) == (tag_of(copy), stages_of(copy))


def test_tag_or_stage_written_by_somebody_else_is_ignored():
    """An attribute of that name with another content says nothing."""
    error = OSError("x")
    error.__dict__.update({"__retrykit_tag__": "x", "__retrykit_stages__": "y"})
    assert (tag_of(error), stages_of(error)) == (None, ())


@pytest.mark.parametrize(
    ("match", "arguments"),
    [
        ("needs a group", {"error_class": "mystery"}),
        ("on is 'OSError'", {"on": "OSError"}),
        ("on is ", {"on": (OSError, int)}),
        ("outcome of the tag", {"outcome": "maybe"}),
        ("retry_after", {"retry_after": -1}),
    ],
)
def test_tag_argument_that_is_not_allowed_is_refused(match, arguments):
    """A tag is checked where it is written, not when something fails."""
    with pytest.raises(ConfigurationError, match=match):
        tag(**{"error_class": DOWN, **arguments})


def test_tag_names_of_built_in_classes_will_do():
    """A name from a file is as good as the class."""
    error = OSError("x")
    caught(tag("provider_unavailable", outcome="not_sent")(fail), error)
    assert Tag(DOWN, Outcome.NOT_SENT) == tag_of(error)


# stage


def test_stage_marks_the_innermost_first():
    """An exception remembers each stage that it leaves."""
    error = KeyError("name")
    caught(stage("send")(stage("render")(fail)), error)
    assert stages_of(error) == ("render", "send")


def test_stage_left_again_is_counted_once_and_bounded():
    """An exception that is raised over and over does not grow."""
    error = KeyError("name")
    for number in range(100):
        caught(stage("render")(fail), error)
        caught(stage(f"own{number}")(fail), error)
    assert len(stages_of(error)) == 16
    assert stages_of(error)[0] == "render"


@pytest.mark.parametrize("name", ["", "x" * 65, None, 3])
def test_stage_name_that_is_not_allowed_is_refused(name):
    """A stage has a short name."""
    with pytest.raises(ConfigurationError, match="name of a stage"):
        stage(name)


def test_stage_group_of_failures_is_marked():
    """A task group's exception is a failure like any other, also where a cancellation is in it."""
    group = BaseExceptionGroup("two", [KeyError("a"), asyncio.CancelledError()])
    caught(stage("render")(fail), group)
    assert stages_of(group) == ("render",)


# both as decorators


class Sender:
    @tag(DOWN)
    def method(self, error):
        raise error

    @tag(DOWN)
    @staticmethod
    def static(error):
        raise error

    @tag(DOWN)
    @classmethod
    def of_class(cls, error):
        raise error

    @tag(DOWN)
    async def coroutine_method(self, error):
        raise error


@pytest.mark.parametrize("call", [Sender().method, Sender.static, Sender().static, Sender.of_class, Sender().of_class])
def test_decorator_on_methods_of_each_kind_marks(call):
    """Methods, static and class methods are called as before."""
    error = OSError("x")
    assert error is caught(call, error)
    assert Tag(DOWN) == tag_of(error)


class Callable:
    async def __call__(self, error):
        raise error


@pytest.mark.parametrize("function", [fail_async, functools.partial(fail_async), Callable(), Sender().coroutine_method])
def test_decorator_on_async_callables_marks(function):
    """The exception is marked when the coroutine fails, not when it is made."""
    error = OSError("x")
    marking = tag(DOWN)(function)
    assert inspect.iscoroutinefunction(marking)

    assert error is caught(asyncio.run, marking(error))
    assert Tag(DOWN) == tag_of(error)


def test_decorator_result_and_signature_stay():
    """A decorated function looks and answers as before."""

    def double(number: int, *, plus: int = 0) -> int:
        """Double it."""
        return 2 * number + plus

    marking = stage("charge")(double)
    assert marking(3, plus=1) == 7
    assert (inspect.signature(double), "Double it.") == (inspect.signature(marking), marking.__doc__)


async def items():
    yield 1


@pytest.mark.parametrize("function", [lambda: (yield), items])
def test_decorator_on_a_generator_function_is_refused(function):
    """A generator fails while it is iterated: a decorator would do nothing."""
    with pytest.raises(ConfigurationError, match="generator function"):
        tag(DOWN)(function)


def test_mark_in_async_code_is_a_plain_with():
    """A block in a coroutine needs nothing special; two tasks may share one mark."""
    render = stage("render")

    async def one(error):
        with render:
            await asyncio.sleep(0)
            raise error

    async def main():
        return await asyncio.gather(one(KeyError("a")), one(KeyError("b")), return_exceptions=True)

    assert [stages_of(error) for error in asyncio.run(main())] == [("render",), ("render",)]


def test_mark_adds_one_line_to_the_traceback_of_a_function():
    """A decorated function's traceback shows one frame more."""
    depth = len(traceback.extract_tb(caught(fail, OSError("x")).__traceback__))
    assert depth + 1 == len(traceback.extract_tb(caught(tag(DOWN)(fail), OSError("x")).__traceback__))


def test_tag_is_what_the_classifier_says():
    """The tag gives class, outcome and wait; the rest is what the exception shows."""
    error = ConnectionResetError(104, "reset")
    caught(tag(CARD_DECLINED, retry_after=5)(fail), error)
    failure = ErrorClassifier().classify(error, stage="send")
    assert (
        failure.error_class,
        failure.outcome,
        failure.retry_after,
        failure.error_code,
        failure.rule,
    ) == (CARD_DECLINED, Outcome.UNKNOWN, 5.0, "ConnectionResetError", "tag.card_declined")


def test_unsure_mark_makes_a_certain_outcome_unknown_where_the_stage_may_have_sent():
    """Also behind an error that was raised from the marked one, and not in a stage before the send."""
    error = ConnectionRefusedError("down")
    mark_unsure(error)
    outer = LookupError("no")
    outer.__cause__ = error
    classify = ErrorClassifier().classify
    assert is_unsure(error)
    assert (classify(error).outcome, classify(outer).outcome) == (Outcome.UNKNOWN, Outcome.UNKNOWN)
    assert classify(error, stage="render").outcome is Outcome.NOT_SENT
    assert pickle.loads(pickle.dumps(error)).__dict__ == error.__dict__
