"""What psycopg, psycopg2 and asyncpg raise."""

from __future__ import annotations

from tests.capabilities import require

require("psycopg", "psycopg2", "psycopg_pool", "asyncpg", "loopback")

import asyncio
import socket

import asyncpg
import psycopg
import psycopg.errors
import psycopg2
import psycopg_pool
import pytest

from tests.libraries import servers
from tests.libraries.servers import PATIENCE, TIMEOUT, classified, closed_port, raised, serving


def connect(port, host="127.0.0.1", wait=10):
    psycopg.connect(
        f"host={host} port={port} user=x dbname=x sslmode=disable gssencmode=disable connect_timeout={wait}"
    )


def connect2(port, host="127.0.0.1", wait=10):
    psycopg2.connect(
        f"host={host} port={port} user=x dbname=x sslmode=disable gssencmode=disable connect_timeout={wait}"
    )


def connect_async(port, host="127.0.0.1"):
    async def main():
        await asyncpg.connect(host=host, port=port, user="x", database="x", ssl=False, timeout=PATIENCE)

    asyncio.run(main())


ALL = pytest.mark.parametrize("ask", [connect, connect2, connect_async])


def error_message(state, text):
    fields = f"SFATAL\0VFATAL\0C{state}\0M{text}\0\0".encode()
    return b"E" + (len(fields) + 4).to_bytes(4, "big") + fields


def message(kind, body=b""):
    return kind + (len(body) + 4).to_bytes(4, "big") + body


READY = message(b"Z", b"I")
SETTINGS = {
    "server_version": "16.0",
    "client_encoding": "UTF8",
    "standard_conforming_strings": "on",
    "DateStyle": "ISO",
}
WELCOME = message(b"R", (0).to_bytes(4, "big")) + b"".join(
    message(b"S", f"{name}\0{value}\0".encode()) for name, value in SETTINGS.items()
)


@ALL
def test_refused_connection_has_sent_nothing(ask):
    """The builtin, or an OperationalError."""
    assert ("connection_error", "not_sent") == classified(raised(lambda: ask(closed_port())))


@ALL
@pytest.mark.usefixtures("no_names")
def test_unknown_name_is_a_dns_failure(ask):
    """In words; a gaierror of asyncio; psycopg2 asks the system itself, for a name that needs no server."""
    name = "x" * 300 if ask is connect2 else "nowhere.invalid"
    assert ("dns_failure", "not_sent") == classified(raised(lambda: ask(5432, name)))


@ALL
@pytest.mark.parametrize(
    ("expected", "state", "text"),
    [
        ("provider_misconfigured", "28P01", 'password authentication failed for user "x"'),
        ("provider_misconfigured", "28000", 'no pg_hba.conf entry for host "127.0.0.1", user "x"'),
        ("provider_misconfigured", "28000", 'role "x" does not exist'),
        ("provider_misconfigured", "3D000", 'database "x" does not exist'),
        ("resource_contention", "53300", "sorry, too many clients already"),
        ("provider_unavailable", "57P03", "the database system is starting up"),
    ],
)
def test_refusal_to_let_us_in_has_done_nothing(ask, expected, state, text):
    """An InvalidPassword is an OperationalError; libpq loses its state while connecting."""
    with serving(servers.say(error_message(state, text))) as port:
        assert (expected, "not_sent") == classified(raised(lambda: ask(port)))


@ALL
def test_server_that_closes_while_we_connect_is_a_lost_connection(ask):
    """Nobody had been let in."""
    with serving(servers.hang_up_later) as port:
        assert "connection_error" == classified(raised(lambda: ask(port)))[0]


@pytest.mark.parametrize("library", [psycopg, asyncpg])
def test_silent_server_is_a_timeout(library):
    """That of psycopg counts whole seconds, at least two."""

    async def with_asyncpg(port):
        await asyncpg.connect(host="127.0.0.1", port=port, user="x", ssl=False, timeout=TIMEOUT)

    with serving(servers.stay_silent) as port:
        ask = {psycopg: lambda: connect(port, wait=2), asyncpg: lambda: asyncio.run(with_asyncpg(port))}[library]
        error = raised(ask)
    assert ("network_timeout", {psycopg: "not_sent", asyncpg: "unknown"}[library]) == classified(error)


def answering_queries(answer):
    """Serve PostgreSQL: let everybody in, and answer each query so; None closes the connection."""

    def handle(connection: socket.socket):
        connection.recv(65_536)
        connection.sendall(WELCOME + READY)
        while connection.recv(65_536):
            if answer is None:
                return
            connection.sendall(answer + READY)

    return serving(handle)


STATES = [
    ("resource_contention", "not_sent", "40001"),
    ("resource_contention", "not_sent", "40P01"),
    ("resource_contention", "unknown", "40003"),
    ("resource_contention", "unknown", "55P03"),
    ("resource_contention", "unknown", "57014"),
    ("resource_contention", "unknown", "53100"),
    ("provider_unavailable", "unknown", "57P01"),
    ("provider_unavailable", "unknown", "25006"),
    ("connection_error", "unknown", "08006"),
    ("provider_misconfigured", "rejected", "42501"),
    ("internal_error", "rejected", "42P01"),
    ("internal_error", "rejected", "23505"),
    ("internal_error", "rejected", "22001"),
]


@pytest.mark.parametrize("library", [psycopg, psycopg2])
@pytest.mark.parametrize(("expected", "outcome", "state"), STATES)
def test_refused_statement_is_known_by_its_state(library, expected, outcome, state):
    """A ReadOnlySqlTransaction is an InternalError, a deadlock an OperationalError: the type says little."""
    with answering_queries(error_message(state, "no")) as port:
        link = f"host=127.0.0.1 port={port} user=x dbname=x sslmode=disable gssencmode=disable"
        connection = library.connect(link)
        try:
            connection.autocommit = True
            error = raised(lambda: connection.cursor().execute("select 1"))
        finally:
            connection.close()
    assert state == (error.sqlstate if library is psycopg else error.pgcode)
    assert (expected, outcome) == classified(error)


@pytest.mark.parametrize(("expected", "outcome", "state"), STATES)
def test_refused_statement_of_asyncpg_is_known_by_its_state(expected, outcome, state):
    """Its classes carry the state too."""

    async def main(port):
        connection = await asyncpg.connect(
            host="127.0.0.1", port=port, user="x", database="x", ssl=False, timeout=PATIENCE
        )
        try:
            await connection.execute("select 1")
        finally:
            connection.terminate()

    with answering_queries(error_message(state, "no")) as port:
        error = raised(lambda: asyncio.run(main(port)))
    assert state == error.sqlstate
    assert (expected, outcome) == classified(error)


@pytest.mark.parametrize("library", [psycopg, psycopg2])
def test_connection_lost_after_the_statement_leaves_the_outcome_open(library):
    """An OperationalError without a state."""
    with answering_queries(None) as port:
        connection = library.connect(f"host=127.0.0.1 port={port} user=x dbname=x sslmode=disable gssencmode=disable")
        try:
            connection.autocommit = True
            error = raised(lambda: connection.cursor().execute("select 1"))
        finally:
            connection.close()
    assert ("connection_error", "unknown") == classified(error)


def test_connection_of_asyncpg_lost_after_the_statement_leaves_the_outcome_open():
    """A ConnectionDoesNotExistError, and an InterfaceError for what comes then."""

    async def main(port):
        connection = await asyncpg.connect(
            host="127.0.0.1", port=port, user="x", database="x", ssl=False, timeout=PATIENCE
        )
        errors = []
        for _ in range(2):
            try:
                await connection.execute("select 1")
            except Exception as error:  # noqa: BLE001 - any
                errors.append(error)
        return errors

    with answering_queries(None) as port:
        lost, closed = asyncio.run(main(port))
    assert ("connection_error", "unknown") == classified(lost)
    assert ("connection_error", "not_sent") == classified(closed)


def test_pool_without_a_free_connection_has_sent_nothing():
    """A PoolTimeout is an OperationalError."""
    with psycopg_pool.ConnectionPool("host=127.0.0.1 port=1", min_size=0, max_size=1, open=True) as pool:
        error = raised(lambda: pool.getconn(timeout=0.05))
    assert isinstance(error, psycopg_pool.PoolTimeout)
    assert ("resource_contention", "not_sent") == classified(error)
    assert ("internal_error", "not_sent") == classified(raised(pool.getconn))


def test_wrong_arguments_are_our_mistake():
    """Nothing was tried."""
    assert "internal_error" == classified(raised(lambda: psycopg.connect("nonsense")))[0]
    assert ("internal_error", "not_sent") == classified(
        raised(lambda: asyncio.run(asyncpg.connect("nonsense://", host=[])))
    )
