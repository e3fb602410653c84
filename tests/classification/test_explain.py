"""Why a failure got its class."""

from __future__ import annotations

from typing import Any

import pytest

from retrykit.classification import ErrorClassifier, HttpReply, Rule, SmtpReply, TaggedError
from retrykit.delivery import EventKind, ProviderEvent
from retrykit.failure import ErrorClass

OWN = Rule("shop.own", ErrorClass.QUOTA_EXCEEDED, words="own words")
CLASSIFIER = ErrorClassifier([OWN])


class CardError(TaggedError):
    error_class = ErrorClass.INVALID_RECIPIENT


SIGNALS = [
    SmtpReply(550, "5.1.1 user unknown"),
    SmtpReply(550, "own words"),
    SmtpReply(421, "AUP#In-1310"),
    SmtpReply(550, "nothing to go by"),
    HttpReply(429, {"Retry-After": "30"}),
    HttpReply(400, body={"code": 21211, "message": "no", "more_info": "https://www.twilio.com/docs/errors/21211"}),
    HttpReply(500, body="<html>oops</html>"),
    ProviderEvent(provider="ses", kind=EventKind.BOUNCED, reply=SmtpReply(550, "5.1.1 user unknown")),
    TimeoutError("late"),
    OSError(113, "no route"),
    KeyError("x"),
    CardError("no"),
    ExceptionGroup("both", [ValueError("x"), TimeoutError("late")]),
]


@pytest.mark.parametrize("signal", SIGNALS, ids=lambda signal: type(signal).__name__)
def test_explanation_is_about_the_answer_that_classify_gives(signal: Any) -> None:
    """To ask why changes nothing, whichever short ways classify takes."""
    for classifier in (CLASSIFIER, ErrorClassifier()):
        first = classifier.explain(signal)
        assert first.failure == classifier.classify(signal) == classifier.classify(signal)
        assert first.rule is None or first.rule.name == first.failure.rule


@pytest.mark.parametrize(
    ("signal", "expected"),
    [
        (SmtpReply(550, "5.1.1 user unknown"), "smtp.enhanced.5.1.1"),
        (SmtpReply(550, "own words"), "shop.own"),
        (SmtpReply(421, "AUP#In-1310"), "smtp.spectrum.1310"),
        (HttpReply(429), "http.429"),
        (TimeoutError("late"), "exception.builtins.TimeoutError"),
    ],
)
def test_explanation_ends_with_the_rule_that_won(signal: Any, expected: str) -> None:
    """The rules asked before it are told in their order, and none of them matched."""
    explanation = CLASSIFIER.explain(signal)
    assert explanation.rule is not None
    assert (explanation.rule.name, explanation.tried[-1].rule) == (expected, explanation.rule)
    assert [each.matched for each in explanation.tried[:-1]] == [False] * (len(explanation.tried) - 1)
    assert explanation.tried[0].rule is OWN


def test_explanation_of_what_no_rule_decided_has_no_rule() -> None:
    """A tag is no rule."""
    explanation = CLASSIFIER.explain(CardError("no"))
    assert (explanation.rule, explanation.failure.rule) == (None, "tag.invalid_recipient")


def test_explanation_as_json_names_rules_and_source() -> None:
    """What the command line prints."""
    said = CLASSIFIER.explain(SmtpReply(421, "AUP#In-1310")).to_dict()
    assert (said["source"], said["tried"]) == (
        "what spectrum says of its codes",
        [{"rule": "shop.own", "matched": False}, {"rule": "smtp.spectrum.1310", "matched": True}],
    )
    assert CLASSIFIER.explain(CardError("no")).to_dict()["source"] == ""
