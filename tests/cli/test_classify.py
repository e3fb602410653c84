"""`retrykit classify`, as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.capabilities import require

require("click", "rich")

from click.testing import CliRunner, Result

from retrykit.cli.app import app

BOUNCE = """\
Content-Type: multipart/report; report-type=delivery-status; boundary=b

--b
Content-Type: message/delivery-status

Reporting-MTA: dns; mx.example.net

Final-Recipient: rfc822; ada@example.org
Action: failed
Status: 5.1.1

Final-Recipient: rfc822; bob@example.org
Action: delayed
Status: 4.2.2

--b--
"""


def run(*args: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(app, ["classify", *args], input=stdin)


def fields(result: Result) -> dict[str, str]:
    assert result.exit_code == 0, result.output
    return {line[:13].strip(): line[13:].strip() for line in result.stdout.splitlines()}


def test_reply_is_told_with_its_rule_source_and_decision() -> None:
    """All that a reader asks: what is it, who says so, what follows."""
    assert fields(run("--smtp", "550 5.1.1 user unknown")) == {
        "class": "invalid_recipient (permanent_recipient)",
        "outcome": "rejected",
        "code": "550 5.1.1",
        "rule": "smtp.enhanced.5.1.1",
        "source": "RFC 3463 section 3",
        "decision": "mark_bounced: invalid_recipient, not retried: mark bounced; rule smtp.enhanced.5.1.1",
    }


def test_phase_and_provider_are_taken_into_account() -> None:
    """The same bare refusal is our standing at connect, and nobody's otherwise."""
    assert fields(run("--smtp", "554 no", "--phase", "connect"))["class"] == "reputation_blocked (sender)"
    assert fields(run("--smtp", "554 no"))["class"] == "unknown (unmapped)"


def test_answer_is_read_from_status_fields_and_body(tmp_path: Path) -> None:
    """The body in the command, in a file, or from standard input."""
    told = fields(run("--http", "429", "--header", "Retry-After: 30"))
    assert (told["class"], told["retry after"]) == ("provider_throttled (throttling)", "30s")
    assert told["decision"].startswith("retry in 30s: ")
    body = '{"ErrorCode": 406, "Message": "Inactive recipient"}'
    file = tmp_path / "body.json"
    file.write_text(body)
    for arguments, stdin in (
        (["--body", body], None),
        (["--body-file", str(file)], None),
        (["--body-file", "-"], body),
    ):
        assert fields(run("--http", "422", *arguments, stdin=stdin))["code"] == "406"


def test_event_and_bounce_are_read_from_files(tmp_path: Path) -> None:
    """A webhook's body, and a bounce as it came by mail: one JSON object for each event."""
    event = tmp_path / "event.json"
    event.write_text('[{"event": "bounce", "reason": "550 5.1.1 no such user", "email": "ada@example.org"}]')
    assert fields(run("--event", str(event), "--provider", "sendgrid"))["class"].startswith("invalid_recipient")
    bounce = tmp_path / "bounce.eml"
    bounce.write_text(BOUNCE)
    lines = run("--bounce", str(bounce), "--json").stdout.splitlines()
    classes = [json.loads(line)["failure"]["error_class"] for line in lines]
    assert classes == ["invalid_recipient", "mailbox_full"]


def test_event_that_tells_of_no_failure_is_told_as_such() -> None:
    """There is nothing to decide."""
    told = fields(run("--event", "-", "--provider", "sendgrid", stdin='[{"event": "delivered"}]'))
    assert (told["rule"], told["decision"]) == ("event.no_failure", "none: this tells of no failure")


REPLIES = "550-5.1.1 no such\n550 5.1.1 user\n\n421 too many connections\n550 5.1.1 nobody\n451-unfinished\n"


def test_file_of_replies_is_told_line_by_line_and_counted() -> None:
    """A reply of several lines is one; the last one may be unfinished."""
    result = run("--file", "-", stdin=REPLIES)
    assert result.exit_code == 0
    head = [line.split()[0] for line in result.stdout.splitlines()[:4]]
    assert head == ["invalid_recipient", "provider_throttled", "invalid_recipient", "provider_unavailable"]
    assert "4 replies" in result.stdout
    assert "50.0%" in result.stdout


def test_file_of_replies_as_json_is_one_object_a_line() -> None:
    """For other programs; in the order of the file."""
    result = run("--file", "-", "--json", stdin=REPLIES)
    said: list[dict[str, Any]] = [json.loads(line) for line in result.stdout.splitlines()]
    assert [each["failure"]["rule"] for each in said][:2] == ["smtp.enhanced.5.1.1", "smtp.words.too_fast"]
    assert said[1]["decision"]["action"] == "retry"


def test_lines_of_different_codes_are_different_replies() -> None:
    """First lines of replies, as they stand in logs."""
    result = run(
        "--file", "-", "--json", stdin="550-5.1.1 no such user\n552-5.2.2 full\n452-4.2.2 full\n550-5.1.1 gone\n"
    )
    codes = [json.loads(line)["failure"]["error_code"] for line in result.stdout.splitlines()]
    assert codes == ["550", "552", "452", "550"]


def test_empty_file_has_no_replies() -> None:
    """An answer, not a division by zero."""
    result = run("--file", "-", stdin="")
    assert (result.exit_code, "0 replies" in result.stdout) == (0, True)


def test_all_prints_every_rule_that_was_asked() -> None:
    """To see what came before the winner."""
    result = run("--smtp", "550 5.1.1 user unknown", "--all")
    assert "rules were asked" in result.stdout
    assert "smtp.words.spam" not in result.stdout  # comes after the winner
    tried = json.loads(run("--smtp", "550 5.1.1 user unknown", "--all", "--json").stdout)["tried"]
    assert tried[-1] == {"rule": "smtp.enhanced.5.1.1", "matched": True}


def test_own_rules_and_matrix_are_asked(tmp_path: Path) -> None:
    """One file may hold both."""
    file = tmp_path / "retrykit.toml"
    file.write_text(
        '[classes]\nfrozen = "sender"\n[policies.frozen]\nmax_retries = 1\nbackoff = ["7m"]\n'
        '[[rules]]\nname = "shop.frozen"\nclass = "frozen"\nwords = "on ice"\n'
    )
    told = fields(run("--smtp", "550 we are on ice", "--rules", str(file), "--matrix", str(file)))
    assert (told["class"], told["rule"]) == ("frozen (sender)", "shop.frozen")
    assert told["decision"].startswith("retry in 7m")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give one of --smtp, --http, --event, --bounce, --file"),
        (["--smtp", "x", "--http", "400"], "not --smtp and --http"),
        (["--smtp", "x", "--header", "a: b"], "belong to an HTTP answer"),
        (["--http", "400", "--body", "x", "--body-file", "-"], "not both"),
        (["--http", "400", "--header", "nonsense"], "--header is 'nonsense'; allowed is NAME:VALUE"),
        (["--event", "-"], "--event needs --provider"),
        (["--http", "400", "--phase", "rcpt"], "--phase belongs to SMTP replies"),
        (["--file", "-", "--all"], "--all is for one answer"),
        (["--event", "-", "--provider", "ses"], "ses"),
        (["--smtp", "x", "--matrix", "absent.toml"], "absent.toml"),
        (["--smtp", "x", "--rules", "absent.toml"], "absent.toml"),
    ],
)
def test_wrong_call_is_refused_with_what_is_allowed(arguments: list[str], message: str) -> None:
    """Exit code 2, and a sentence that helps."""
    result = run(*arguments, stdin="no JSON")
    assert result.exit_code == 2
    assert message in result.stderr
