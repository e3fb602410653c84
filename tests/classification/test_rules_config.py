"""The application's own rules in TOML."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from retrykit.classification import ErrorClassifier, HttpReply, SmtpReply, load_rules
from retrykit.classification.config import rules_from_dict
from retrykit.classification.rules import Rule
from retrykit.errors import ConfigurationError
from retrykit.failure import ErrorClass, ErrorGroup
from retrykit.policy import PolicyMatrix

BOTH = """
max_attempts = 3

[classes]
card_declined = "permanent_recipient"

[policies.card_declined]
on_exhausted = "mark_bounced"

[[rules]]
name = "shop.card_declined"
class = "card_declined"
provider = "payments"
tokens = ["declined", 51]

[[rules]]
name = "shop.warm_up"
class = "provider_throttled"
codes = 550
words = ["new sender limit"]
unless = "for good"
retry_after = "1h"
outcome = "rejected"
source = "their manual"
"""

ALL = """
[[rules]]
name = "everything"
class = "internal_error"
codes = [550]
code_class = 5
enhanced = "5.7.x"
tokens = "X1"
words = "a"
also = "b"
unless = "c"
exceptions = ["app.Error"]
attribute = { name = "errno", values = [1, 2] }
protocol = "smtp"
provider = "p"
phases = ["rcpt"]
stages = "send"
outcome = "unknown"
retry_after = 5
source = "s"
"""


def read(text: str) -> tuple[Rule, ...]:
    return rules_from_dict(tomllib.loads(text))


def test_rules_and_matrix_may_stand_in_one_file(tmp_path: Path) -> None:
    """Each loader takes its own part; the application's classes are the same for both."""
    file = tmp_path / "retrykit.toml"
    file.write_text(BOTH)
    classifier = ErrorClassifier(load_rules(file))
    declined = classifier.classify(HttpReply(402, body={"error": {"code": "declined"}}), provider="payments")
    assert (declined.error_class, declined.group) == ("card_declined", ErrorGroup.PERMANENT_RECIPIENT)
    limited = classifier.classify(SmtpReply(550, "New sender limit"))
    assert (limited.rule, limited.error_class, limited.retry_after) == ("shop.warm_up", "provider_throttled", 3600.0)
    assert classifier.classify(SmtpReply(550, "New sender limit, for good")).rule != "shop.warm_up"
    assert declined.error_class in PolicyMatrix.load(file).policies


def test_rules_of_a_pyproject_stand_in_the_tool_table(tmp_path: Path) -> None:
    """As the matrix does."""
    file = tmp_path / "pyproject.toml"
    file.write_text(
        BOTH.replace("[[rules]]", "[[tool.retrykit.rules]]").replace("[classes]", "[tool.retrykit.classes]")
    )
    assert [rule.name for rule in load_rules(file)] == ["shop.card_declined", "shop.warm_up"]


def test_rule_takes_every_key_that_code_can_say() -> None:
    """A rule in TOML is the rule that its arguments would make."""
    expected = Rule(
        "everything",
        ErrorClass.INTERNAL_ERROR,
        codes=[550],
        code_class=5,
        enhanced="5.7.x",
        tokens="X1",
        words="a",
        also="b",
        unless="c",
        exceptions="app.Error",
        attribute=("errno", (1, 2)),
        protocol="smtp",
        provider="p",
        phases=["rcpt"],
        stages="send",
        outcome="unknown",  # type: ignore[arg-type]
        retry_after=5,
        source="s",
    )
    assert read(ALL) == (expected,)


def test_file_without_rules_holds_none() -> None:
    """An empty list is no error: a matrix may be all there is."""
    assert read("max_attempts = 3") == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rules = 5", "rules is 5; allowed is a list of tables"),
        ("rules = [5]", "rule 1 is 5; allowed is a table"),
        ("[[rules]]\nclass = 'unknown'", "rule 1 has no name"),
        ("[[rules]]\nname = 'a'", "rule 1 has no class"),
        ("[[rules]]\nname = 'a'\nclas = 'unknown'", r"unknown key 'clas'; did you mean 'class'\?"),
        ("[[rules]]\nname = 'a'\nclass = 'unknwn'\nwords = 'x'", r"'unknwn'; did you mean 'unknown'\?"),
        ("[[rules]]\nname = 'a'\nclass = 5\nwords = 'x'", "class is 5"),
        ("[[rules]]\nname = 'a'\nclass = 'unknown'", r"rule 1 \('a'\): .* names nothing to look for"),
        ("[[rules]]\nname = 'a'\nclass = 'unknown'\nwords = 5", "words is 5; allowed is text, or a list"),
        ("[[rules]]\nname = 'a'\nclass = 'unknown'\ncodes = [true]", r"codes is \[True\]; allowed is whole numbers"),
        ("[[rules]]\nname = 'a'\nclass = 'unknown'\ntokens = [1.5]", "allowed is text or whole numbers"),
        ("[[rules]]\nname = 'a'\nclass = 'unknown'\nprovider = 5", "provider is 5; allowed is text"),
        (
            "[[rules]]\nname = 'a'\nclass = 'unknown'\nprotocol = 'ftp'",
            "protocol .* is 'ftp'; allowed are smtp, http, event",
        ),
        ("[[rules]]\nname = 'a'\nclass = 'unknown'\nattribute = 5", "attribute is 5; allowed is a table"),
        ("[[rules]]\nname = 'a'\nclass = 'unknown'\nattribute = { name = 'errno' }", "values = "),
        ("[[rules]]\nname = 'a'\nclass = 'unknown'\nwords = 'x'\nretry_after = 'soon'", "soon"),
        ("[[rules]]\nname = 'a'\nclass = 'unknown'\nwords = 'x'\n" * 2, "rule 2 is called 'a', as is one before it"),
        ("[classes]\nmine = 'nobody'", "classes.mine is 'nobody'"),
    ],
)
def test_rule_that_is_not_allowed_is_refused_by_its_place(text: str, message: str) -> None:
    """The error names the rule, the key, the value, and what is allowed."""
    with pytest.raises(ConfigurationError, match=message):
        read(text)


def test_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """As for the matrix."""
    with pytest.raises(ConfigurationError, match=r"the rules cannot be read from .*absent"):
        load_rules(tmp_path / "absent.toml")
