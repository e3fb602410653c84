"""What a process tells its orchestrator: whether it takes work, and whether it is alive.

Not ready: send it nothing for now; it may come to itself, or is about to stop. Not alive: start it anew. Loops say that they turn; one that
has not for too long is not alive, so a process that hangs does not look well because another thread of it answers.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ..clock import Clock, current_clock
from ..errors import ConfigurationError
from ..times import Duration, plain, seconds

if TYPE_CHECKING:
    from wsgiref.simple_server import WSGIServer

__all__ = ["Health"]

_TOUCH: Final = 1.0
"""Seconds between two touches of the file, at least."""
_METHODS: Final = "GET", "HEAD"


class Health:
    """Readiness and liveness of one process; safe from all threads.

    Args:
        file: touched while the process is alive, for a probe that looks at its age; None: there is none.
        stale_after: how long a loop may not turn, > 0.
        clock: where the time comes from; None: the clock in force.

    Raises:
        ConfigurationError: a value is not allowed.

    Example:
        >>> health = Health()
        >>> health.is_ready, health.is_alive
        (True, True)
        >>> health.unready("source", "the broker is down")
        >>> health.is_ready, health.status()
        (False, {'ready': False, 'alive': True, 'why': {'source': 'the broker is down'}})
        >>> health.ready("source")
        >>> health.is_ready
        True
    """

    def __init__(
        self,
        *,
        file: str | os.PathLike[str] | None = None,
        stale_after: Duration = "1m",
        clock: Clock | None = None,
    ) -> None:
        self._file: Final = None if file is None else _checked(file)
        self._stale_after: Final = seconds(stale_after, "stale_after", positive=True)
        self._clock: Final = clock or current_clock()
        self._unready: Final = dict[str, str]()
        self._beats: Final = dict[str, float]()
        self._dead: str | None = None
        self._touched: float | None = None

    def beat(self, loop: str) -> None:
        """Say that a loop turns; from the first time on it has to go on turning."""
        self._beats[loop] = now = self._clock.monotonic()
        if self._file is not None and (self._touched is None or now - self._touched >= _TOUCH) and self.is_alive:
            self._touched = now
            with contextlib.suppress(OSError):  # a full disk ends no loop; the probe finds the file too old
                self._file.touch()

    def end(self, loop: str) -> None:
        """Say that a loop has come to its end, and does not turn any more."""
        self._beats.pop(loop, None)

    def unready(self, part: str, why: str) -> None:
        """Say that a part of the process cannot work now."""
        self._unready[part] = why

    def ready(self, part: str) -> None:
        """Say that a part of the process can work."""
        self._unready.pop(part, None)

    def dead(self, why: str) -> None:
        """Say that the process will not come to itself; for good."""
        self._dead = why

    @property
    def is_ready(self) -> bool:
        """Whether it takes work."""
        return not self._unready and self.is_alive

    @property
    def is_alive(self) -> bool:
        """Whether it is worth keeping."""
        return self._dead is None and not self._stale()

    def _stale(self) -> dict[str, str]:
        now = self._clock.monotonic()
        ages = {loop: now - beat for loop, beat in tuple(self._beats.items())}
        return {
            loop: f"has not turned for {plain(round(age))} s" for loop, age in ages.items() if age > self._stale_after
        }

    def status(self) -> dict[str, object]:
        """Return both answers, and what speaks against them, as JSON values."""
        why = {**self._unready, **self._stale(), **({} if self._dead is None else {"process": self._dead})}
        return {"ready": self.is_ready, "alive": self.is_alive, "why": why}

    def _answer(self, path: str, method: str) -> tuple[int, dict[str, str], bytes]:
        is_well = {"/ready": self.is_ready, "/live": self.is_alive}.get(path)
        code = 404 if is_well is None else 200 if is_well else 503
        if code != 404 and method not in _METHODS:
            return 405, {"Allow": ", ".join(_METHODS), "Content-Length": "0"}, b""
        body = json.dumps({"allowed": ["/ready", "/live"]} if code == 404 else self.status()).encode()
        headers = {"Content-Type": "application/json", "Content-Length": str(len(body))}
        return code, headers, b"" if method == "HEAD" else body

    def wsgi(self, environ: Mapping[str, Any], start_response: Callable[..., object]) -> Iterable[bytes]:
        """Answer GET and HEAD of /ready and /live with 200 or 503, as a WSGI application; 405 to other methods, 404 to other paths."""
        code, headers, body = self._answer(environ.get("PATH_INFO", ""), environ.get("REQUEST_METHOD", "GET"))
        start_response(f"{code} {HTTPStatus(code).phrase}", list(headers.items()))
        return [body]

    def serve(self, port: int, host: str = "") -> WSGIServer:
        """Answer probes at a port, in daemon threads: one that says nothing is let go after five seconds, and keeps nobody else waiting.

        Args:
            port: 1 to 65535, or 0 for any that is free.
            host: the address to listen at; empty: all of this machine's, since a platform asks from outside.

        Returns:
            The server: ``server_port`` tells the port, ``shutdown()`` and ``server_close()`` end it, as does the end of the process.

        Raises:
            OSError: the port is taken, or may not be used.
        """
        from .probes import serve

        return serve(self.wsgi, host, port)

    async def asgi(
        self,
        scope: Mapping[str, Any],
        receive: Callable[[], Awaitable[Mapping[str, Any]]],
        send: Callable[[dict[str, Any]], Awaitable[None]],
    ) -> None:
        """Answer as `wsgi`, as an ASGI application."""
        if scope["type"] != "http":
            return
        code, headers, body = self._answer(scope["path"], scope.get("method", "GET"))
        raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": code, "headers": raw})
        await send({"type": "http.response.body", "body": body})


def _checked(file: str | os.PathLike[str]) -> Path:
    try:
        path = Path(file)
    except TypeError:
        raise ConfigurationError(f"file is {file!r}; allowed is a path, for example '/tmp/alive'") from None
    if path.is_dir():
        raise ConfigurationError(f"file is {str(path)!r}, which is a folder; name a file in it")
    if not path.parent.is_dir():
        raise ConfigurationError(f"the folder of the file {str(path)!r} does not exist; make it first")
    return path
