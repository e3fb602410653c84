"""The server that answers probes: a thread for each, and a time limit for those that say nothing."""

from __future__ import annotations

from collections.abc import Callable
from socketserver import ThreadingMixIn
from threading import Thread
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

__all__ = ["serve"]


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _Handler(WSGIRequestHandler):
    timeout = 5.0

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as the class has it
        """Say nothing: a probe comes every few seconds."""


def serve(application: Callable[..., Any], host: str, port: int) -> WSGIServer:
    """Serve a WSGI application in daemon threads."""
    server = make_server(host, port, application, server_class=_Server, handler_class=_Handler)
    Thread(target=server.serve_forever, name="retrykit probes", daemon=True).start()
    return server
