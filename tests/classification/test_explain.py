"""Why a failure got its class."""

from __future__ import annotations

from typing import Any

import pytest

from retrykit.classification import ErrorClassifier, HttpReply, Rule, SmtpReply, TaggedError
from retrykit.delivery import EventKind, ProviderEvent
from retrykit.errors import ConfigurationError
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


def test_own_rule_for_an_exception_is_asked_each_time() -> None:
    """Also where the type alone would decide, once the type is known."""
    classifier = ErrorClassifier([Rule("own", ErrorClass.QUOTA_EXCEEDED, words="slow down")])
    for _ in range(2):
        assert classifier.classify(TimeoutError("please slow down")).rule == "own"
        assert classifier.classify(TimeoutError("late")).rule == "exception.builtins.TimeoutError"


@pytest.mark.parametrize("stage", ["", 5])
def test_stage_that_is_no_name_is_refused(stage: Any) -> None:
    """It would count as one in which nothing is sent."""
    with pytest.raises(ConfigurationError, match=r"the stage is .*; allowed is text, such as 'send', and None"):
        ErrorClassifier().classify(TimeoutError("late"), stage=stage)


def test_rule_that_stands_alone_is_refused() -> None:
    """A list of one is meant."""
    with pytest.raises(ConfigurationError, match=r"rules is one Rule; allowed is a list of rules"):
        ErrorClassifier(OWN)  # type: ignore[arg-type]


@pytest.mark.parametrize("headers", [5, "Retry-After: 30", [("a",)], ["ab", "cd"]])
def test_headers_that_are_no_fields_are_refused(headers: Any) -> None:
    """A bug of the caller; None is none."""
    with pytest.raises(ConfigurationError, match=r"the headers of an HTTP answer are a .*; allowed are a mapping"):
        HttpReply(400, headers)
    assert dict(HttpReply(400, None).headers) == {}


def test_wait_that_the_body_names_is_kept() -> None:
    """It outranks the fields."""
    body = {
        "ok": False,
        "error_code": 429,
        "description": "Too Many Requests: retry after 7",
        "parameters": {"retry_after": 7},
    }
    assert ErrorClassifier().classify(HttpReply(429, {"Retry-After": "30"}, body)).retry_after == 7.0
