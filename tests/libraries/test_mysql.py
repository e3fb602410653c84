"""What PyMySQL raises."""

from __future__ import annotations

from tests.capabilities import require

require("pymysql", "loopback")

import struct

import pymysql
import pytest

from tests.libraries import servers
from tests.libraries.servers import PATIENCE, classified, closed_port, patience, raised, serving


def connect(port, host="127.0.0.1", wait=PATIENCE):
    return pymysql.connect(
        host=host, port=port, user="x", password="", connect_timeout=wait, read_timeout=wait, ssl_disabled=True
    )


def packet(number, body):
    return struct.pack("<I", len(body))[:3] + bytes([number]) + body


GREETING = packet(
    0,
    b"\x0a8.0.0\0"
    + struct.pack("<I", 1)
    + b"12345678\0"
    + struct.pack("<H", 0xFFFF)
    + b"\x21"
    + struct.pack("<HH", 2, 0x000F | 0x0008)
    + b"\x15"
    + b"\0" * 10
    + b"123456789012\0mysql_native_password\0",
)
OK = b"\0\0\0\2\0\0\0"


def refused(number, code, text="no"):
    return packet(number, b"\xff" + struct.pack("<H", code) + b"#HY000" + text.encode())


def answering(login=None, statement=None):
    """Serve MySQL: answer the login so, or let everybody in and answer each statement so; None closes the connection."""

    def handle(connection):
        connection.sendall(GREETING)
        connection.recv(65_536)
        if login is not None:
            connection.sendall(refused(2, login))
            return
        connection.sendall(packet(2, OK))
        while request := connection.recv(65_536):
            if b"select" not in request:
                connection.sendall(packet(1, OK))
            elif statement is None:
                return
            else:
                connection.sendall(refused(1, statement))

    return serving(handle)


def test_refused_connection_has_sent_nothing():
    """Number 2003."""
    assert ("connection_error", "not_sent") == classified(raised(lambda: connect(closed_port())))


@pytest.mark.parametrize(
    ("expected", "code"),
    [
        ("provider_misconfigured", 1044),
        ("provider_misconfigured", 1045),
        ("provider_misconfigured", 1049),
        ("provider_misconfigured", 1130),
        ("resource_contention", 1040),
    ],
)
def test_refusal_to_let_us_in_has_done_nothing(expected, code):
    """All are OperationalErrors: the number tells."""
    with answering(login=code) as port:
        error = raised(lambda: connect(port))
    assert (code, (expected, "not_sent")) == (error.args[0], classified(error))


@pytest.mark.parametrize(
    ("expected", "outcome", "code"),
    [
        ("resource_contention", "not_sent", 1213),
        ("resource_contention", "unknown", 1205),
        ("resource_contention", "unknown", 3024),
        ("provider_unavailable", "unknown", 1053),
        ("provider_unavailable", "unknown", 1290),
        ("provider_misconfigured", "rejected", 1142),
        ("internal_error", "rejected", 1062),
        ("internal_error", "unknown", 1064),
        ("unknown", "unknown", 1105),
    ],
)
def test_refused_statement_is_known_by_its_number(expected, outcome, code):
    """After a deadlock the transaction is undone, after a lock timeout only the statement."""
    with answering(statement=code) as port, connect(port) as connection:
        error = raised(lambda: connection.cursor().execute("select 1"))
    assert (code, (expected, outcome)) == (error.args[0], classified(error))


def test_connection_lost_after_the_statement_leaves_the_outcome_open():
    """Number 2013; then an InterfaceError for what comes next."""
    with answering() as port:
        connection = connect(port)
        assert ("connection_error", "unknown") == classified(raised(lambda: connection.cursor().execute("select 1")))
        assert ("connection_error", "not_sent") == classified(raised(lambda: connection.cursor().execute("select 1")))


@pytest.mark.parametrize("handle", [servers.hang_up, servers.stay_silent])
def test_server_without_a_greeting_is_a_lost_connection(handle):
    """Closed, or silent."""
    with serving(handle) as port:
        assert "connection_error" == classified(raised(lambda: connect(port, wait=patience(handle))))[0]


@pytest.mark.usefixtures("no_names")
def test_unknown_name_cannot_be_told_from_a_refused_connection():
    """The number is that of any failure to connect; nothing was sent all the same."""
    assert ("connection_error", "not_sent") == classified(raised(lambda: connect(3306, "nowhere.invalid")))
