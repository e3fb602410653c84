"""Fixtures for tests against real libraries."""

from __future__ import annotations

import gc
import socket
import ssl
from collections.abc import Iterator

import pytest

from tests.libraries import servers


@pytest.fixture(scope="session")
def untrusted() -> ssl.SSLContext:
    """Give the settings of a TLS server whose certificate nobody trusts."""
    import trustme

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1", "localhost").configure_cert(context)
    return context


@pytest.fixture
def tls_port(untrusted: ssl.SSLContext) -> Iterator[int]:
    """Give the port of such a server."""
    with servers.serving(servers.stay_silent, untrusted) as port:
        yield port


@pytest.fixture
def swept(recwarn: pytest.WarningsRecorder) -> Iterator[None]:
    """Drop what a client leaves open after its failure, so that nobody is blamed for it later."""
    yield
    gc.collect()


@pytest.fixture
def no_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every name be unknown, without asking any server."""

    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
