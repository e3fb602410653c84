"""Rules: what they accept, what they match, in which order they are asked."""

from __future__ import annotations

import logging

import pytest

from retrykit.classification import Rule, SmtpReply
from retrykit.classification.rules import Evidence, RuleList, Scope, qualified_name
from retrykit.errors import ConfigurationError
from retrykit.failure import ErrorClass, Outcome

CLASS = ErrorClass.POLICY_VIOLATION
REPLY = SmtpReply(550, "no")


def evidence(text="", names=(), signal=REPLY, **scope):
    return Evidence(signal, Scope(**scope), text, names)


def matches(rule, evidence):
    return rule.is_in_scope(evidence.scope) and rule.matches(evidence)


@pytest.mark.parametrize(
    ("match", "arguments"),
    [
        ("names nothing", {}),
        ("names nothing", {"source": "nowhere"}),
        ("holds no word", {"words": [" "]}),
        ("holds no word", {"words": ["fine", ""]}),
        ("without `words`", {"codes": 550, "also": ["x"]}),
        ("code_class", {"code_class": 3}),
        ("phase", {"phases": "quit"}),
        ("enhanced", {"enhanced": "5.1"}),
        ("enhanced", {"enhanced": "5.1.1.1"}),
        ("enhanced", {"enhanced": "2.1.1"}),
        ("retry_after", {"codes": 550, "retry_after": -1}),
        ("name", {"name": "", "codes": 550}),
        ("name", {"name": None, "codes": 550}),
        ("needs a group", {"error_class": "no_such_class", "codes": 550}),
    ],
)
def test_rule_value_that_is_not_allowed_is_refused(match, arguments):
    """A rule that cannot do what was meant is refused where it is written."""
    with pytest.raises(ConfigurationError, match=match):
        Rule(**{"name": "test", "error_class": CLASS, **arguments})


def test_rule_outcome_that_does_not_exist_is_refused():
    """An outcome is one of three."""
    with pytest.raises(ValueError, match="perhaps"):
        Rule("test", CLASS, codes=550, outcome="perhaps")


def test_rule_single_values_become_tuples():
    """One code, phrase, phase or exception needs no list around it; names stand for built-in classes and outcomes."""
    rule = Rule(
        "test", "policy_violation", codes=550, words="Go  AWAY!", phases="rcpt", exceptions=KeyError, outcome="not_sent"
    )
    assert (rule.error_class, rule.codes, rule.words, rule.phases, rule.exceptions, rule.outcome) == (
        ErrorClass.POLICY_VIOLATION,
        (550,),
        ("go away",),
        ("rcpt",),
        ("builtins.KeyError",),
        Outcome.NOT_SENT,
    )


@pytest.mark.parametrize(
    ("expected", "rule", "failure"),
    [
        (True, {"codes": [550, 554]}, {"code": 554}),
        (False, {"codes": [550, 554]}, {"code": 551}),
        (True, {"code_class": 5}, {"code": 554}),
        (False, {"code_class": 4}, {"code": 554}),
        (True, {"code_class": 4}, {"enhanced_code": "4.1.1"}),
        (False, {"code_class": 4}, {"code": 550, "enhanced_code": "4.1.1"}),
        (False, {"code_class": 4}, {}),
        (True, {"enhanced": "5.1.1"}, {"enhanced_code": "5.1.1"}),
        (False, {"enhanced": "5.1.1"}, {"enhanced_code": "5.1.10"}),
        (False, {"enhanced": "5.1.1"}, {}),
        (True, {"enhanced": "x.2.2"}, {"enhanced_code": "4.2.2"}),
        (True, {"enhanced": "5.x.x"}, {"enhanced_code": "5.9.9"}),
        (True, {"enhanced": ["5.1.1", "5.7.500-699"]}, {"enhanced_code": "5.7.606"}),
        (False, {"enhanced": "5.7.500-699"}, {"enhanced_code": "5.7.700"}),
        (True, {"words": ["full", "quota"]}, {"text": "over QUOTA"}),
        (False, {"words": ["full", "quota"]}, {"text": "empty"}),
        (False, {"words": " full "}, {"text": "successfully"}),
        (True, {"words": " full "}, {"text": "the box is full."}),
        (True, {"words": "full", "also": ["box", "inbox"]}, {"text": "inbox full"}),
        (False, {"words": "full", "also": ["box"]}, {"text": "full"}),
        (False, {"words": "full", "unless": "moon"}, {"text": "full moon"}),
        (False, {"codes": 550, "unless": "moon"}, {"text": "full moon", "code": 550}),
        (True, {"codes": 550, "unless": "moon"}, {"text": "sun", "code": 550}),
        (True, {"exceptions": [OSError]}, {"names": ("x.MyError", "builtins.OSError")}),
        (False, {"exceptions": "x.Other"}, {"names": ("x.MyError", "builtins.OSError")}),
        (True, {"provider": "SES"}, {"provider": "ses"}),
        (False, {"provider": "ses"}, {"provider": "backup"}),
        (False, {"provider": "ses"}, {}),
        (True, {"phases": ["rcpt"]}, {"phase": "rcpt"}),
        (False, {"phases": ["rcpt"]}, {}),
        (True, {"phases": [None, "rcpt"]}, {}),
        (True, {"stages": "charge"}, {"stage": "charge"}),
        (False, {"stages": "charge"}, {"stage": "send"}),
        (True, {"predicate": lambda signal: signal is REPLY}, {}),
        (False, {"predicate": lambda _: False}, {}),
        (True, {"attribute": ("errno", {2})}, {"signal": FileNotFoundError(2, "gone")}),
        (False, {"attribute": ("errno", {3})}, {"signal": FileNotFoundError(2, "gone")}),
        (False, {"attribute": ("errno", {3})}, {}),
    ],
)
def test_rule_matches_where_everything_it_names_is_there(expected, rule, failure):
    """Plural fields are alternatives, fields together are conditions."""
    assert expected is matches(Rule("test", CLASS, **rule), evidence(**failure))


def test_rule_attribute_that_cannot_be_read_does_not_match():
    """An exception whose property raises is no reason to raise."""

    class OddError(Exception):
        @property
        def errno(self):
            raise RuntimeError

    assert not matches(Rule("test", CLASS, attribute=("errno", {3})), evidence(signal=OddError()))


def test_rule_predicate_that_raises_is_logged_and_does_not_match(caplog):
    """An application's mistake costs its own rule, not the answer."""
    rule = Rule("shop.broken", CLASS, predicate=lambda signal: signal.no_such_thing)
    with caplog.at_level(logging.ERROR, logger="retrykit.classification"):
        assert not matches(rule, evidence())
    assert "shop.broken" in caplog.text


def test_rule_list_first_match_wins():
    """Rules are asked in their order."""
    general, special = Rule("general", CLASS, code_class=5), Rule("special", CLASS, codes=550)
    assert general is RuleList([general, special]).first(evidence(code=550))
    assert special is RuleList([special, general]).first(evidence(code=550))
    assert RuleList([special]).first(evidence(code=551)) is None


def test_rule_list_words_are_asked_before_later_codes():
    """A rule of words stands in the way of a code only where the words are there."""
    rules = RuleList([Rule("words", CLASS, words="full"), Rule("code", CLASS, codes=550)])
    assert [rules.first(evidence(text, code=550)).name for text in ("full", "empty")] == ["words", "code"]


def test_rule_list_many_scopes_are_forgotten_and_answers_stay():
    """What is remembered is bounded."""
    rule = Rule("test", CLASS, codes=550)
    rules = RuleList([rule])
    for number in range(3_000):
        assert rule is rules.first(evidence(code=550, provider=str(number)))
    assert len(rules._in_scope) <= 1_024


def test_qualified_name_of_a_nested_class_has_its_owner():
    """The name is that of the module and of everything around the class."""

    class InnerError(Exception): ...

    assert f"{__name__}.test_qualified_name_of_a_nested_class_has_its_owner.<locals>.InnerError" == qualified_name(
        InnerError
    )


@pytest.mark.parametrize("codes", ["550", ["550"], [5.5], True])
def test_rule_code_that_is_no_whole_number_is_refused(codes: object) -> None:
    """Text is not taken for its digits."""
    with pytest.raises(ConfigurationError, match="allowed are whole numbers such as 550"):
        Rule("mine", ErrorClass.GREYLISTED, codes=codes)  # type: ignore[arg-type]
