"""`retrykit alerts`, and what `retrykit runbook` says of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from retrykit.events import BreakerChanged, UnknownCode
from retrykit.monitor import DEFAULT_RULES, BreakerOpens, Monitor, prometheus_rules, runbook_page
from retrykit.testing import ManualClock
from tests.cli.dead_letters import Post
from tests.monitor.test_monitor import failure


@pytest.fixture
def post(tmp_path: Path) -> Post:
    """A file with some letters."""
    made = Post(tmp_path)
    made.die(3)
    return made


def let_it_fire(post: Post, name: str = "default") -> None:
    backend = post.backend()
    monitor = Monitor(backend, notifiers=[], name=name)
    at = ManualClock().now()
    monitor(BreakerChanged(at=at, name="ses\x1b[2J", before="closed", after="open"))
    monitor(UnknownCode(at=at, code="X1", provider="ses", failure=failure()))
    monitor.run_once()
    backend.close()


def test_alerts_lists_what_is_wrong_and_exits_with_1(post: Post) -> None:
    """With what to type; what a terminal would obey is spelled out."""
    let_it_fire(post)
    result = post.run("alerts")
    assert 1 == result.exit_code
    assert r"the breaker of ses\x1b[2J is open" in result.stdout
    assert "no rule knows the code ses: X1" in result.stdout
    assert "$ retrykit runbook --since 15m" in result.stdout
    assert 1 == result.stdout.count("$ retrykit runbook")
    said = [json.loads(line) for line in post.run("alerts", "--json").stdout.splitlines()]
    assert ["breaker-opens", "unknown-code"] == [each["rule"] for each in said]


def test_alerts_of_another_name_are_listed_by_it(post: Post) -> None:
    """Where no monitor of a name has run, that is said."""
    let_it_fire(post, "billing")
    assert "no monitor called default has ever run" in post.run("alerts").stdout
    assert 0 == post.run("alerts").exit_code
    assert "" == post.run("alerts", "--json").stdout
    assert 1 == post.run("alerts", "--name", "billing").exit_code


def test_alerts_says_that_nothing_is_wrong(post: Post) -> None:
    """And exits with 0."""
    backend = post.backend()
    Monitor(backend, notifiers=[]).run_once()
    backend.close()
    result = post.run("alerts")
    assert (0, True) == (result.exit_code, "nothing is wrong" in result.stdout)


def test_rules_and_runbook_are_those_of_the_library(post: Post) -> None:
    """With the breakers that matter."""
    assert prometheus_rules() == post.run("alerts", "rules").stdout
    assert runbook_page() == post.run("alerts", "runbook").stdout
    rules = [BreakerOpens(primary=["a", "b"]) if isinstance(rule, BreakerOpens) else rule for rule in DEFAULT_RULES]
    primary = ("--primary", "a", "--primary", "b")
    assert (
        prometheus_rules(rules, namespace="mail") == post.run("alerts", "rules", *primary, "--namespace", "mail").stdout
    )
    assert runbook_page(rules) == post.run("alerts", "runbook", *primary).stdout


def test_runbook_begins_with_the_alerts_in_force(post: Post) -> None:
    """And says which class has too large a share, by the rule's own limit."""
    assert "alert since" not in post.run("runbook").stdout
    let_it_fire(post)
    said = post.run("runbook").stdout
    assert r": the breaker of ses\x1b[2J is open" in said
    assert "$ retrykit alerts" in said
    assert "rendering_failure: 3 of 3 (100%) - code or data of ours" in said
    assert "; more than 20%" in said
