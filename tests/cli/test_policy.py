"""`retrykit policy`, `retrykit lint` and `retrykit completion`, as a user runs them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.capabilities import require

require("click", "rich")

from click.testing import CliRunner, Result

from retrykit import EMAIL_MATRIX, Dispatcher, PolicyMatrix
from retrykit.backends.sqlite import SQLiteBackend
from retrykit.cli.app import app
from retrykit.policy import HTTP_API_MATRIX

STRANGE = """
[policies.sender]
max_retries = 2
backoff = ["1d", "6d"]
"""


def run(*args: str) -> Result:
    return CliRunner().invoke(app, args)


@pytest.fixture
def strange(tmp_path: Path) -> str:
    file = tmp_path / "strange.toml"
    file.write_text(STRANGE)
    return str(file)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store with one dead letter of a bug and one of a content refusal."""
    path = tmp_path / "mail.db"
    backend = SQLiteBackend(path)

    def send(message: object, key: str) -> None:
        raise AttributeError("name")

    dispatcher = Dispatcher(send, backend=backend)
    dispatcher.handle(b'{"id": "m1"}')
    dispatcher.handle(b"not JSON", id="m2")
    backend.close()
    return path


@pytest.mark.parametrize(("name", "matrix"), [("email", EMAIL_MATRIX), ("http", HTTP_API_MATRIX)])
def test_show_toml_is_the_matrix(name: str, matrix: PolicyMatrix) -> None:
    """What is printed as TOML reads back as the same matrix."""
    assert PolicyMatrix.from_toml(run("policy", "show", name, "--toml").stdout) == matrix


def test_show_json_is_the_matrix() -> None:
    """With --json one object is printed and nothing else."""
    assert json.loads(run("policy", "show", "--json").stdout) == EMAIL_MATRIX.to_dict()


def test_show_text_and_markdown_hold_every_row() -> None:
    """A table for people, in the terminal and for a page."""
    text, markdown = run("policy", "show").stdout, run("policy", "show", "--markdown").stdout
    assert all(str(key) in text and f"| {key} |" in markdown for key in EMAIL_MATRIX.policies)
    assert markdown.strip() == EMAIL_MATRIX.to_markdown()


def test_show_colours_only_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """What goes into a file or a pipe holds no escape sequences."""
    assert "\x1b" not in run("lint").output
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    assert "\x1b[" in run("lint").output


def test_schema_is_printed_as_json() -> None:
    """The schema is there to be saved beside the file."""
    assert json.loads(run("policy", "schema").stdout)["title"] == "retrykit policy matrix"


def test_lint_of_a_sound_matrix_succeeds() -> None:
    """The built-in matrix has nothing to find fault with, and its figures are printed."""
    result = run("lint")
    assert result.exit_code == 0
    assert "nothing to find fault with" in result.output
    assert "At most 12 tries of one message" in result.output


def test_lint_of_a_contradiction_fails_and_names_it(strange: str) -> None:
    """What cannot be meant is named, and the exit code is 1."""
    result = run("lint", strange)
    assert result.exit_code == 1
    assert "error sender: its 2 retries wait 604800 s in all, max_age is 259200 s" in result.output


def test_lint_json_holds_findings_and_figures(strange: str) -> None:
    """The same as one JSON object."""
    result = run("lint", strange, "--json")
    report = json.loads(result.stdout)
    assert (result.exit_code, report["passed"]) == (1, False)
    assert [finding["check"] for finding in report["findings"] if finding["severity"] == "error"] == [
        "ladder-longer-than-max-age"
    ]
    assert report["policies"][0]["attempts"] == 2  # the third would come after the maximum age


def test_lint_recovery_is_what_retries_are_compared_with() -> None:
    """A breaker that stays open for a day outlives every retry."""
    findings = json.loads(run("lint", "--recovery", "1d", "--json").stdout)["findings"]
    assert {finding["check"] for finding in findings} == {"gives-up-before-breaker-recovers"}


def test_lint_replay_of_a_store_tells_what_would_have_been(store: Path, tmp_path: Path) -> None:
    """A matrix that retries bugs would have gone another way with one of two letters."""
    file = tmp_path / "new.toml"
    file.write_text('[policies.internal_error]\nmax_retries = 1\nbackoff = ["1m"]\n')
    report = json.loads(run("lint", str(file), "--replay-db", f"sqlite:///{store}", "--json").stdout)["replay"]
    assert (report["letters"], report["same"], report["different"]) == (2, 1, 1)
    assert report["changes"] == [
        {"error_class": "internal_error", "decided": "dead_letter", "would": "verify", "letters": 1}
    ]
    text = run("lint", "--replay-db", f"sqlite:///{store}").output
    assert "Replayed 2 dead letters: 2 would have ended as they did, 0 would have gone another way" in text


def test_lint_replay_of_a_file_leaves_out_broken_lines_by_number(store: Path, tmp_path: Path) -> None:
    """A line that is no letter is named on standard error; the others are replayed."""
    backend = SQLiteBackend(store)
    lines = [letter.to_json() for letter in backend.dead_letters.search().letters]
    backend.close()
    file = tmp_path / "dead.jsonl"
    file.write_text("\n".join([lines[0], "{broken", "", lines[1]]))
    result = run("lint", "--replay", str(file), "--json")
    assert json.loads(result.stdout)["replay"]["letters"] == 2
    assert f"{file}, line 2, is left out: not JSON" in result.stderr
    assert "e.g." not in run("lint", "--replay", str(file)).output


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["lint", "missing.toml"], "the matrix cannot be read from 'missing.toml'"),
        (["lint", "--recovery", "soon"], "recovery_timeout is 'soon'"),
        (["lint", "--replay-db", "mysql://x"], "unknown backend 'mysql'"),
        (["lint", "--replay", "missing.jsonl"], "does not exist"),
        (["lint", "--replay", __file__, "--replay-db", "memory://"], "not both"),
        (["policy", "show", "missing.toml"], "cannot be read"),
        (["policy", "show", "--json", "--toml"], "give one of --json, --toml and --markdown"),
        (["lint", "--replay-db", "sqlite:///missing.db"], "there is no file 'missing.db'"),
        (["completion", "tcsh"], "'tcsh' is not one of 'bash', 'zsh', 'fish'"),
    ],
)
def test_wrong_call_exits_with_2_and_says_why(args: list[str], message: str) -> None:
    """What cannot be worked with is named; exit code 2."""
    result = run(*args)
    assert result.exit_code == 2
    assert message in result.output


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script_for_the_shell(shell: str) -> None:
    """The script asks this very command what it knows."""
    result = run("completion", shell)
    assert result.exit_code == 0
    assert "_RETRYKIT_COMPLETE" in result.stdout


def test_folder_with_the_name_of_a_built_in_matrix_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder called email stands in nobody's way, and what cannot be replayed makes no file."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "email").mkdir()
    assert run("lint").exit_code == 0
    assert run("lint", "--replay-db", "sqlite:///typo.db").exit_code == 2
    assert [path.name for path in tmp_path.iterdir()] == ["email"]
