"""`retrykit dashboard`: it listens where it was told to, and only for whom it should."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.capabilities import require

require("click", "jinja2", "loopback", "rich", "starlette", "uvicorn")

from retrykit.backends.sqlite import SQLiteBackend
from tests.cli.dead_letters import Post


@pytest.fixture
def post(tmp_path: Path) -> Post:
    made = Post(tmp_path)
    made.die(2)
    return made


def tokens(folder: Path, text: str, mode: int = 0o600) -> str:
    file = folder / "tokens"
    file.write_text(text, encoding="utf-8")
    file.chmod(mode)
    return str(file)


def fetch(address: str, **headers: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(urllib.request.Request(address, headers=headers), timeout=20) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_dashboard_is_served_until_it_is_told_to_end(post: Post, number: int) -> None:
    """It prints its address, answers there, writes no addresses to its log, and ends in order."""
    command = [sys.executable, "-m", "retrykit", "dashboard", "--port", "0", "--url", post.url, "--by", "ada"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"}
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        found = re.search(r"http://127\.0\.0\.1:\d+/", process.stdout.readline())
        assert found is not None
        status, page = fetch(f"{found[0]}letters?q=campaign:spring")
        assert 200 == status and "2 dead letters" in page and "ada" in page
        assert f"--url {post.url}" in fetch(f"{found[0]}runbook")[1]
        assert 403 == fetch(found[0], Host="evil.example")[0]
        assert 403 == fetch(found[0], **{"X-Forwarded-For": "127.0.0.1"})[0]
        process.send_signal(number)
        process.wait(20)
        assert "" == process.stderr.read()
        assert process.returncode in (0, -signal.SIGTERM)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--host", "0.0.0.0"], "--token-file"),
        (["--host", "example.org"], "--token-file"),
        (["--port", "70000"], "70000"),
        (["--token-file", "/nowhere"], "does not exist"),
        (["--url", "sqlite:////nowhere/x.db"], "no file"),
    ],
)
def test_dashboard_that_cannot_be_served_safely_is_not(post: Post, args: list[str], said: str) -> None:
    """Open to others without tokens, or without a backend, it does not begin."""
    result = post.run("dashboard", *args)
    assert 2 == result.exit_code and said in result.output


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "names nobody"),
        ("# nobody\n", "names nobody"),
        ("operator ada short", "line 1"),
        ("admin ada long-enough-for-a-token", "line 1"),
        ("viewer bea long-enough-for-a-token\noperator ada", "line 2"),
    ],
)
def test_token_file_with_a_wrong_line_is_refused_by_its_number(
    post: Post, tmp_path: Path, text: str, said: str
) -> None:
    """What is wrong is told by the line, never by the token."""
    result = post.run("dashboard", "--token-file", tokens(tmp_path, text))
    assert 2 == result.exit_code and said in result.output and "long-enough" not in result.output


def test_token_file_that_others_can_read_is_refused(post: Post, tmp_path: Path) -> None:
    """Tokens are for their owners alone."""
    result = post.run("dashboard", "--token-file", tokens(tmp_path, "operator ada long-enough-for-a-token", 0o644))
    assert 2 == result.exit_code and "chmod 600" in result.output


def test_dashboard_without_its_extra_names_it(post: Post, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever has only the command line is told what to install."""
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    result = post.run("dashboard")
    assert 2 == result.exit_code and "retrykit[dashboard]" in result.output


def test_dashboard_signs_in_whom_its_file_names(post: Post, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tokens of the file reach the application, with their roles, and it may listen anywhere."""
    import uvicorn

    seen = list[Any]()

    async def serve(self: uvicorn.Server, sockets: Any) -> None:
        seen.append((self.config, sockets[0].getsockname()[0]))

    monkeypatch.setattr(uvicorn.Server, "serve", serve)
    file = tokens(
        tmp_path, "# who may sign in\noperator ada token-of-ada-the-operator\n\nviewer bea token-of-bea-the-viewer\n"
    )
    for host, shown in (("0.0.0.0", "http://0.0.0.0:"), ("::1", "http://[::1]:")):
        result = post.run("dashboard", "--host", host, "--port", "0", "--token-file", file, "--read-only")
        assert 0 == result.exit_code and shown in result.output, result.output
        config, address = seen.pop()
        assert host == address and not config.access_log and not config.proxy_headers
        names = sorted((each.name, each.role.value) for each in config.app._site.access._tokens.values())
        assert [("ada", "operator"), ("bea", "viewer")] == names and config.app._site.read_only


def test_dashboard_at_a_port_that_is_taken_says_so(post: Post) -> None:
    """Of two at one port the second does not begin."""
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        result = post.run("dashboard", "--port", str(taken.getsockname()[1]))
        said = f"cannot listen at port {taken.getsockname()[1]} of 127.0.0.1: it is in use"
    assert 2 == result.exit_code and said in result.output


def test_dashboard_at_an_address_of_another_machine_says_so(post: Post, tmp_path: Path) -> None:
    """Whatever the system says of it."""
    file = tokens(tmp_path, "operator ada long-enough-for-a-token")
    result = post.run("dashboard", "--host", "192.0.2.1", "--token-file", file)
    assert 2 == result.exit_code and "cannot listen at port 8025 of 192.0.2.1" in result.output


def test_file_of_an_earlier_version_is_not_changed_by_looking(post: Post) -> None:
    """Services of the version before might refuse it afterwards."""
    import sqlite3

    post.file.unlink()
    with closing(sqlite3.connect(post.file)) as db:
        db.executescript((Path(__file__).parents[1] / "stores" / "sqlite_version_5.sql").read_text(encoding="utf-8"))
    before = post.file.read_bytes()
    result = post.run("dashboard", "--port", "0", "--read-only")
    assert 2 == result.exit_code and "of version 5" in result.output and "retrykit migrate" in result.output
    assert before == post.file.read_bytes()


def test_backend_that_cannot_be_opened_ends_the_command(post: Post) -> None:
    """A file of a version that is not known yet is told, not served."""
    backend = SQLiteBackend(post.file)
    backend.close()
    import sqlite3

    with closing(sqlite3.connect(post.file)) as db, db:
        db.execute("UPDATE retrykit_schema SET version = 9999")
    result = post.run("dashboard", "--port", "0")
    assert 2 == result.exit_code and "9999" in result.output
