"""`retrykit alerts`, and what `retrykit runbook` says of them."""

from __future__ import annotations

import contextlib
import json
import shlex
import sqlite3
from pathlib import Path

import pytest

from tests.capabilities import require

require("click", "rich")

import click
from click.testing import CliRunner

from retrykit.cli.app import app
from retrykit.cli.backend import with_backend, with_url
from retrykit.events import BreakerChanged, UnknownCode
from retrykit.monitor import DEFAULT_RULES, BreakerOpens, Monitor, prometheus_rules, runbook_page
from retrykit.testing import ManualClock
from tests.cli.dead_letters import Post
from tests.exporters.samples import failure


@pytest.fixture
def post(tmp_path: Path) -> Post:
    """A file with some letters."""
    made = Post(tmp_path)
    made.die(3)
    return made


def let_it_fire(post: Post, name: str = "default", breaker: str = "ses\x1b[2J") -> None:
    backend = post.backend()
    monitor = Monitor(backend, notifiers=[], name=name)
    at = ManualClock().now()
    monitor(BreakerChanged(at=at, name=breaker, before="closed", after="open"))
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
    """Where no monitor of a name has run, that is an error, which says whose there are: silence would read as all is well."""
    for format_ in ((), ("--json",)):
        result = post.run("alerts", *format_)
        assert (2, "") == (result.exit_code, result.stdout)
        assert (
            "no monitor called default has ever run on this backend; nor has any other: nobody watches it"
            in result.stderr
        )
    let_it_fire(post, "billing")
    let_it_fire(post, "a\x1b[2J")
    for args in ((), ("--json",), ("--name", "nope")):
        result = post.run("alerts", *args)
        assert (2, "") == (result.exit_code, result.stdout)
        assert r"has ever run on this backend; those that have: a\x1b[2J, billing; choose with --name" in result.stderr
    assert 1 == post.run("alerts", "--name", "billing").exit_code
    assert 2 == post.run("alerts", "--name", "").exit_code


def test_commands_of_alerts_run_as_they_are_printed(post: Post, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the backend that was named, with nothing in the environment."""
    monkeypatch.delenv("RETRYKIT_URL", raising=False)
    let_it_fire(post, breaker="ses eu")
    listed = CliRunner().invoke(app, ["alerts", "--url", post.url])
    commands = [line.removeprefix("$ ") for line in listed.stdout.splitlines() if line.startswith("$ ")]
    commands_of_json = [
        command
        for line in CliRunner().invoke(app, ["alerts", "--url", post.url, "--json"]).stdout.splitlines()
        for command in json.loads(line)["commands"]
    ]
    assert (5, set(commands)) == (len(commands), set(commands_of_json))
    for command in commands:
        if "classify" not in command:
            assert 0 == CliRunner().invoke(app, shlex.split(command)[1:]).exit_code
    assert ['retrykit classify --smtp "..." --all'] == [each for each in commands if "--url" not in each]


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("redis://:s3cret@host:6379/0", ' --url "$RETRYKIT_URL"'),
        ("redis://host/0?password=s3cret", ' --url "$RETRYKIT_URL"'),
        ("redis://[::1/s3cret", ' --url "$RETRYKIT_URL"'),
        ("redis://ada@host/0", " --url redis://ada@host/0"),
        ("redis://host/0?prefix=mail", " --url 'redis://host/0?prefix=mail'"),
        ("sqlite:///a b@c.db", " --url 'sqlite:///a b@c.db'"),
    ],
)
def test_url_with_a_password_is_not_shown_in_commands(url: str, expected: str) -> None:
    """It is to be in the environment then, under the name that all commands know."""

    @click.command()
    @with_backend
    def command(url: str) -> None:
        click.echo(with_url("retrykit alerts"))

    assert f"retrykit alerts{expected}\n" == CliRunner().invoke(command, ["--url", url]).stdout


def test_damaged_record_is_named_with_what_mends_it(post: Post) -> None:
    """And keeps nobody from the runbook."""
    let_it_fire(post)
    with contextlib.closing(sqlite3.connect(post.file, isolation_level=None)) as db:
        db.execute("UPDATE retrykit_signals SET record = '{'")
    result = post.run("alerts")
    assert (2, "") == (result.exit_code, result.stdout)
    mended = "a monitor that runs begins them anew"
    assert "the signals 'default' cannot be read: " in result.stderr
    assert f"; {mended} at its next exchange" in result.stderr
    said = post.run("runbook")
    assert (0, True) == (said.exit_code, f"; {mended}" in said.stdout)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("rules", "--namespace", "a b"), "namespace is 'a b'; allowed are 1 to 64 letters, digits and '_'"),
        (("rules", "--namespace", ""), "namespace is ''; allowed"),
        (("rules", "--primary", ""), "primary holds ''; allowed are names"),
        (("runbook", "--primary", ""), "primary holds ''; allowed are names"),
    ],
)
def test_rules_that_cannot_be_made_are_an_error_and_nothing_is_printed(
    args: tuple[str, ...], message: str, post: Post
) -> None:
    """A file for Prometheus is not half written."""
    result = post.run("alerts", *args)
    assert (2, "") == (result.exit_code, result.stdout)
    assert message in result.stderr


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
