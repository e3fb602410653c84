"""Readiness and liveness, as objects, as a file, and over HTTP."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Mapping
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from retrykit import Dispatcher, Message
from retrykit.backends import MemoryBackend
from retrykit.errors import ConfigurationError
from retrykit.testing import ManualClock
from retrykit.worker import Health, QueueSource, Worker


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def test_health_of_a_loop_that_stops_turning_is_not_alive(clock: ManualClock) -> None:
    """It says which one and for how long; one that has come to its end is not missed."""
    health = Health(clock=clock, stale_after="30s")
    health.beat("source")
    health.beat("keeper")
    clock.advance(30)
    assert (True, True) == (health.is_alive, health.is_ready)
    health.beat("keeper")
    clock.advance(1)
    assert {"ready": False, "alive": False, "why": {"source": "has not turned for 31 s"}} == health.status()
    health.end("source")
    health.end("source")
    assert health.is_alive


def test_health_that_was_declared_dead_stays_so(clock: ManualClock) -> None:
    """Nothing brings it back but a new process."""
    health = Health(clock=clock)
    health.dead("9 handlers hang")
    health.beat("source")
    assert {"ready": False, "alive": False, "why": {"process": "9 handlers hang"}} == health.status()


def test_health_touches_its_file_while_it_is_alive(clock: ManualClock, tmp_path: Path) -> None:
    """Once a second at the most, and not any more when another loop stands still."""
    file = tmp_path / "alive"
    health = Health(file=file, clock=clock, stale_after=10)
    health.beat("keeper")
    assert file.exists()
    file.unlink()
    health.beat("keeper")
    assert not file.exists()
    clock.advance(1)
    health.beat("keeper")
    assert file.exists()
    file.unlink()
    health.beat("source")
    clock.advance(11)
    health.beat("keeper")
    assert not file.exists()


def test_health_whose_file_cannot_be_touched_keeps_its_loops(clock: ManualClock, tmp_path: Path) -> None:
    """The probe will find out."""
    folder = tmp_path / "run"
    folder.mkdir()
    health = Health(file=folder / "alive", clock=clock)
    folder.rmdir()
    health.beat("keeper")
    assert health.is_alive


def test_health_refuses_a_file_without_a_folder(tmp_path: Path) -> None:
    """A probe that never sees it would end the process again and again."""
    with pytest.raises(ConfigurationError, match="the folder of the file"):
        Health(file=tmp_path / "nowhere" / "alive")


@pytest.mark.parametrize(
    ("file", "match"), [(5, "file is 5; allowed is a path"), ("", "which is a folder"), ("/", "which is a folder")]
)
def test_health_refuses_what_is_no_file(file: Any, match: str) -> None:
    """By the value that was given."""
    with pytest.raises(ConfigurationError, match=match):
        Health(file=file)


def asked_by_wsgi(health: Health, path: str, method: str) -> tuple[int, dict[str, str], bytes]:
    answered: list[Any] = []
    environ = {"PATH_INFO": path, "REQUEST_METHOD": method}
    (body,) = health.wsgi(environ, lambda status, headers: answered.append((status, headers)))
    ((status, headers),) = answered
    return int(status.split()[0]), {name.lower(): value for name, value in headers}, body


def asked_by_asgi(health: Health, path: str, method: str) -> tuple[int, dict[str, str], bytes]:
    sent: list[Mapping[str, Any]] = []

    async def send(message: Mapping[str, Any]) -> None:
        sent.append(message)

    async def receive() -> Mapping[str, Any]:
        raise AssertionError

    asyncio.run(health.asgi({"type": "http", "path": path, "method": method}, receive, send))
    start, body = sent
    headers = {name.decode(): value.decode() for name, value in start["headers"]}
    return start["status"], headers, body["body"]


def over_wsgi(health: Health, path: str) -> tuple[int, Any]:
    code, _, body = asked_by_wsgi(health, path, "GET")
    return code, json.loads(body)


def over_asgi(health: Health, path: str) -> tuple[int, Any]:
    code, _, body = asked_by_asgi(health, path, "GET")
    return code, json.loads(body)


@pytest.mark.parametrize("ask", [asked_by_wsgi, asked_by_asgi])
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_health_answers_no_other_methods(ask: Any, method: str, clock: ManualClock) -> None:
    """A probe reads; what it may do is told."""
    code, headers, body = ask(Health(clock=clock), "/ready", method)
    assert (405, "GET, HEAD", b"") == (code, headers["allow"], body)
    assert 404 == ask(Health(clock=clock), "/", method)[0]


@pytest.mark.parametrize("ask", [asked_by_wsgi, asked_by_asgi])
def test_health_answers_head_without_a_body(ask: Any, clock: ManualClock) -> None:
    """The rest is as for GET."""
    health = Health(clock=clock)
    assert ask(health, "/live", "GET")[:2] == ask(health, "/live", "HEAD")[:2]
    assert b"" == ask(health, "/live", "HEAD")[2]


@pytest.mark.parametrize("ask", [over_wsgi, over_asgi])
def test_health_answers_probes(ask: Any, clock: ManualClock) -> None:
    """200 or 503 by path, with the reasons, and 404 for what is no probe."""
    health = Health(clock=clock)
    assert (200, 200, 404) == (ask(health, "/ready")[0], ask(health, "/live")[0], ask(health, "/")[0])
    health.unready("worker", "it is about to stop")
    code, status = ask(health, "/ready")
    assert (503, 200, {"worker": "it is about to stop"}) == (code, ask(health, "/live")[0], status["why"])
    health.ready("worker")
    health.dead("stuck")
    assert (503, 503) == (ask(health, "/ready")[0], ask(health, "/live")[0])


def test_health_lets_other_protocols_pass(clock: ManualClock) -> None:
    """A lifespan is none of its business."""

    async def never(*_: object) -> Any:
        raise AssertionError

    asyncio.run(Health(clock=clock).asgi({"type": "websocket"}, never, never))


def test_health_names_what_may_be_asked_for_elsewhere(clock: ManualClock) -> None:
    """A probe with a wrong path does not look as if all were well."""
    assert (404, {"allowed": ["/ready", "/live"]}) == over_wsgi(Health(clock=clock), "/healthz")


def test_health_serves_a_probe_while_others_say_nothing(clock: ManualClock) -> None:
    """One that connects and is silent does not make a healthy process look dead."""
    health = Health(clock=clock)
    server = health.serve(0, "127.0.0.1")
    try:
        address = "127.0.0.1", server.server_port
        with socket.create_connection(address), socket.create_connection(address):
            for path, expected in {"/ready": 200, "/live": 200, "/x": 404}.items():
                connection = HTTPConnection(*address, timeout=20)
                connection.request("GET", path)
                assert expected == connection.getresponse().status
                connection.close()
    finally:
        server.shutdown()
        server.server_close()


def test_health_at_a_port_that_is_taken_is_an_error(clock: ManualClock) -> None:
    """At once, in the caller."""
    health = Health(clock=clock)
    server = health.serve(0, "127.0.0.1")
    with pytest.raises(OSError, match="in use"):
        health.serve(server.server_port, "127.0.0.1")
    server.shutdown()
    server.server_close()


def test_health_of_a_worker_that_has_not_begun_is_not_ready() -> None:
    """A program that hangs while it starts gets nothing to do."""
    health = Health()
    dispatcher = Dispatcher(lambda _message, _key: None, backend=MemoryBackend())
    worker = Worker(QueueSource([b'{"id": "m1"}']), dispatcher, health=health)
    assert {"ready": False, "alive": True, "why": {"worker": "it has not begun"}} == health.status()
    dispatcher_said = []

    def send(_message: Message, _key: str) -> None:
        dispatcher_said.append(health.status())
        worker.stop()

    worker = Worker(QueueSource([b'{"id": "m1"}']), Dispatcher(send, backend=MemoryBackend()), health=health)
    worker.run()
    assert [{"ready": True, "alive": True, "why": {}}] == dispatcher_said
