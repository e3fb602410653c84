"""Where an exception was raised: in the application's own code, not in what it calls."""

from __future__ import annotations

import json
import smtplib
import sys
import types

import attrs
import pytest

from retrykit.classification import ErrorClassifier, SmtpReply, stage
from retrykit.classification.frames import MAX_FRAMES, own_frame
from retrykit.codec import decode
from retrykit.decision import Action, Decision
from retrykit.errors import RetryLater

HERE = __name__
CLASSIFIER = ErrorClassifier()


def raised(call, *args):
    """What a call raises; the traceback begins in this function."""
    try:
        call(*args)
    except Exception as error:  # noqa: BLE001 - any, for its traceback
        return error
    raise AssertionError("nothing was raised")


class Sender:
    @stage("send")
    def send(self):
        return json.loads("{")

    def refuse(self):
        raise smtplib.SMTPDataError(550, b"5.1.1 no such user")


def test_frame_is_the_innermost_of_the_application():
    """The standard library and retrykit lie further in and further out; neither is named."""
    assert own_frame(raised(Sender().send)) == f"{HERE}:Sender.send"
    assert own_frame(raised(Sender().refuse)) == f"{HERE}:Sender.refuse"
    assert own_frame(raised(decode, b"{")) == f"{HERE}:raised"
    assert own_frame(raised(attrs.evolve, 5)) == f"{HERE}:raised"


def test_frame_of_an_exception_that_was_never_raised_is_none():
    """There is no traceback."""
    assert own_frame(ValueError("x")) is None


def foreign(filename, body="raise ValueError(1)", name="foreign"):
    """A function as if it stood in another file."""
    module = types.ModuleType(name)
    exec(compile(f"def fail():\n    {body}", filename, "exec"), module.__dict__)
    return module.fail


@pytest.mark.parametrize(
    ("filename", "expected"),
    [
        ("/srv/app/mail.py", "foreign:fail"),
        ("mail.py", "foreign:fail"),
        ("<stdin>", "foreign:fail"),
        ("<string>", "foreign:fail"),
        ("/srv/app/.venv/lib/python3.11/site-packages/x/y.py", None),
        ("/usr/lib/python3/dist-packages/x.py", None),
        ("C:\\app\\venv\\Lib\\site-packages\\x.py", None),
        (json.__file__, None),
        (sys.modules["retrykit"].__file__, None),
        ("<frozen importlib._bootstrap>", None),
        ("<attrs generated init app.Message>", None),
        ("/srv/retrykit-app/site.py", "foreign:fail"),
    ],
)
def test_frame_depends_on_where_the_code_lies(filename, expected):
    """Installed and generated code is not the application's; what was typed in is."""
    error = raised(foreign(filename))
    error.__traceback__ = error.__traceback__.tb_next  # without the frame of this file
    assert expected == own_frame(error)


def test_frame_of_code_without_a_module_has_a_question_mark():
    """Code that was executed in a bare dictionary."""
    namespace = {"__name__": None}
    exec(compile("def fail():\n    raise ValueError(1)", "/srv/x.py", "exec"), namespace)
    del namespace["__name__"]
    assert own_frame(raised(namespace["fail"])) == "?:fail"


def test_frame_is_bounded():
    """Long names and long tracebacks cost no more than short ones."""
    assert len(own_frame(raised(foreign("/srv/x.py", name="m" * 1_000)))) == 255

    def down(levels):
        return foreign("/srv/deep.py")() if levels == 0 else down(levels - 1)

    assert own_frame(raised(down, MAX_FRAMES)).endswith("down")
    assert own_frame(raised(down, MAX_FRAMES - 3)) == "foreign:fail"


def test_classified_exception_has_its_frame():
    """By type, by reply, and where nothing recognises it."""
    assert CLASSIFIER.classify(raised(Sender().send)).frame == f"{HERE}:Sender.send"
    assert CLASSIFIER.classify(raised(Sender().refuse)).frame == f"{HERE}:Sender.refuse"
    assert (
        CLASSIFIER.classify(raised(foreign("/srv/x.py", "raise __import__('zlib').error(1)"))).frame == "foreign:fail"
    )


def test_classified_reply_has_no_frame():
    """Nobody raised it."""
    assert CLASSIFIER.classify(SmtpReply(550, "5.1.1 no such user")).frame is None


def wrap():
    try:
        Sender().refuse()
    except smtplib.SMTPDataError as error:
        raise LookupError("cannot send") from error


def test_classified_chain_has_the_frame_of_what_was_recognised():
    """Not that of the wrapper, which is the same for every cause."""
    failure = CLASSIFIER.classify(raised(wrap))
    assert (failure.error_code, failure.frame) == ("550", f"{HERE}:Sender.refuse")


def test_classified_chain_falls_back_to_the_frame_of_the_outermost():
    """What was recognised may never have been raised."""

    class ShopError(Exception): ...

    def fail():
        raise ShopError("x") from ConnectionResetError("never raised")

    failure = CLASSIFIER.classify(raised(fail))
    assert (failure.error_code, failure.frame) == ("ConnectionResetError", f"{HERE}:{fail.__qualname__}")
    error = raised(foreign(json.__file__, "raise KeyError(1) from ConnectionResetError(2)"))
    error.__traceback__ = error.__traceback__.tb_next
    assert CLASSIFIER.classify(error).frame is None


def test_classified_group_has_the_frame_of_its_member():
    """The first that was recognised."""
    group = ExceptionGroup("two", [raised(Sender().refuse), raised(Sender().send)])
    assert CLASSIFIER.classify(group).frame == f"{HERE}:Sender.refuse"


def test_wait_handed_to_a_queue_keeps_the_frame_of_its_failure():
    """`RetryLater` is raised by retrykit; the failure in it was not."""
    failure = CLASSIFIER.classify(raised(Sender().send))

    def later():
        raise RetryLater(failure, Decision(Action.RETRY, 3600.0, "later"))

    assert CLASSIFIER.classify(raised(later)).frame == f"{HERE}:Sender.send"
