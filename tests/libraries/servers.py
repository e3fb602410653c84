"""Small servers on the loopback that fail in one certain way, so that real libraries raise their real exceptions."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from typing import TypeAlias

from retrykit.classification import ErrorClassifier

TIMEOUT = 0.2
"""Seconds that clients wait for what never comes."""
PATIENCE = 5.0
"""Seconds that they wait for what comes at once, even on a busy machine."""

Handler: TypeAlias = Callable[[socket.socket], None]
CLASSIFIER = ErrorClassifier()


def classified(error: BaseException) -> tuple[str, str]:
    """Return class and outcome of an exception that was raised while sending."""
    failure = CLASSIFIER.classify(error, stage="send")
    return str(failure.error_class), failure.outcome.value


def raised(call: Callable[[], object]) -> Exception:
    """Return what a call raises, with the chain that it has."""
    try:
        call()
    except Exception as error:  # noqa: BLE001 - that is what is asked for
        return error
    raise AssertionError("nothing was raised")


def patience(handle: Handler) -> float:
    """Return the seconds that a client waits for a server that handles connections so."""
    return TIMEOUT if handle is stay_silent else PATIENCE


def closed_port() -> int:
    """Return a port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


@contextlib.contextmanager
def serving(handle: Handler, tls: ssl.SSLContext | None = None) -> Iterator[int]:
    """Give the port of a server that calls `handle` with each connection, and ends with the block."""
    listener = socket.create_server(("127.0.0.1", 0))
    connections: list[socket.socket] = []
    threads: list[threading.Thread] = []

    def answer(connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection:
            if tls is None:
                handle(connection)
            else:
                with tls.wrap_socket(connection, server_side=True) as encrypted:
                    connections.append(encrypted)
                    handle(encrypted)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                connection.settimeout(5)
                connections.append(connection)
                threads.append(threading.Thread(target=answer, args=(connection,), daemon=True))
                threads[-1].start()

    acceptor = threading.Thread(target=accept, daemon=True)
    acceptor.start()
    try:
        yield listener.getsockname()[1]
    finally:
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        acceptor.join(5)
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in threads:
            thread.join(5)


def hang_up(_: socket.socket) -> None:
    """Close at once."""


def hang_up_later(connection: socket.socket) -> None:
    """Close after the first bytes; what is still unread would make a reset of it."""
    connection.recv(65_536)
    connection.shutdown(socket.SHUT_WR)
    while connection.recv(65_536):
        pass


def reset(connection: socket.socket) -> None:
    """Reset the connection after the first bytes."""
    connection.recv(65_536)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def stay_silent(connection: socket.socket) -> None:
    """Read, and never answer; ends when the client does."""
    while connection.recv(65_536):
        pass


def say(answer: bytes) -> Handler:
    """Answer the first bytes, and close."""

    def handle(connection: socket.socket) -> None:
        connection.recv(65_536)
        connection.sendall(answer)
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(65_536):
                pass

    return handle


def http(status: int, body: object = b"", **headers: str) -> Handler:
    """Answer each HTTP request so; a body that is not bytes is sent as JSON."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    fields = {
        "Content-Length": str(len(content)),
        "Content-Type": "text/plain" if isinstance(body, bytes) else "application/json",
        "Connection": "close",
    } | {name.replace("_", "-"): value for name, value in headers.items()}
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return say(f"HTTP/1.1 {status} Something\r\n{head}\r\n".encode() + content)


def talk(greeting: bytes, answers: dict[bytes, bytes]) -> Handler:
    """Speak SMTP: an answer for each command by how it begins; without one the connection is closed."""

    def handle(connection: socket.socket) -> None:
        connection.sendall(greeting)
        is_message = False
        with connection.makefile("rb") as lines:
            for line in lines:
                if is_message and line != b".\r\n":
                    continue
                found = next((text for start, text in answers.items() if line.upper().startswith(start)), None)
                if found is None:
                    return
                is_message = found.startswith(b"354")
                connection.sendall(found)

    return handle


@contextlib.contextmanager
def unreachable_port() -> Iterator[int]:
    """Give a port whose queue of connections is full: an attempt to connect waits and is never taken."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(4):
            client = stack.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]
