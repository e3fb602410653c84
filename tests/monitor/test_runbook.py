"""The runbook: an entry for each rule, made from it; the page of the documents is the same; each command exists."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from retrykit.errors import ConfigurationError
from retrykit.monitor import DEFAULT_RULES, BreakerOpens, ErrorClassDominates, runbook_page
from retrykit.monitor.monitor import _Guarded
from tests.capabilities import require

require("click", "rich")

from click.testing import CliRunner

from retrykit.cli.app import app

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "runbook.md"


def test_page_of_the_documents_is_made_from_the_rules():
    """After a change: retrykit alerts runbook > docs/reference/runbook.md."""
    assert runbook_page() == PAGE.read_text(encoding="utf-8")


def test_every_rule_has_an_entry_under_the_name_that_its_alerts_give():
    """With its severity, its meaning and its commands."""
    rules = (ErrorClassDominates(share=0.5, severity="ticket"), BreakerOpens())
    page = runbook_page(rules)
    assert ["error-class-dominates", "breaker-opens"] == re.findall("^## (.*)$", page, re.MULTILINE)
    assert "Severity: ticket. Within 5m more than 50% of" in page


@pytest.mark.parametrize("rules", [None, [BreakerOpens], [BreakerOpens()] * 2, [5], [_Guarded(BreakerOpens())]])
def test_rules_that_are_none_have_no_runbook(rules):
    """Nor has one that does not say what it means."""
    with pytest.raises(ConfigurationError, match=r"allowed|give each a name of its own"):
        runbook_page(rules)


@pytest.mark.parametrize("command", sorted({step for rule in DEFAULT_RULES for step in rule.first_steps}))
def test_command_of_the_runbook_is_one_that_there_is(command):
    """Its words and options are known, and a query in it can be read."""
    words = shlex.split(command)[1:]
    end = next((number for number, word in enumerate(words) if word.startswith("-") or ":" in word), len(words))
    known = words[: min(end, 2 if words[0] == "dlq" else 1)]
    helped = CliRunner().invoke(app, [*known, "--help"])
    assert (0, []) == (
        helped.exit_code,
        [word for word in words if word.startswith("--") and word not in helped.output],
    )
    for word in words:
        if re.fullmatch(r"(class|since|reason):\S+", word):
            from retrykit.stores import DeadLetterQuery
            from retrykit.testing import ManualClock

            assert DeadLetterQuery.parse(word, now=ManualClock().now())
