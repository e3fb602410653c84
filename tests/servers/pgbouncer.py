"""A PgBouncer in transaction mode before the tests' PostgreSQL server: few connections to it, lent for a transaction each.

`RETRYKIT_PGBOUNCER` names the program, and `RETRYKIT_PGBOUNCER_LIBRARIES` where its libraries are, if not where the system has them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psycopg

from tests.servers import postgres
from tests.servers.valkey import KEEP

PROGRAM = os.environ.get("RETRYKIT_PGBOUNCER") or shutil.which("pgbouncer", path=f"{os.environ.get('PATH')}:/usr/sbin")

_SETTINGS = """
[databases]
postgres = host={host} dbname=postgres user=postgres
[pgbouncer]
listen_addr =
listen_port = 6432
unix_socket_dir = {folder}
auth_type = any
pool_mode = transaction
default_pool_size = {size}
max_client_conn = 200
logfile = {folder}/log
"""


class Bouncer:
    """A PgBouncer that ends with this process.

    Args:
        size: connections that it opens to the server.
    """

    def __init__(self, size: int) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="rkb"))
        host = postgres.dsn().split()[0].removeprefix("host=")
        settings = self._folder / "settings.ini"
        settings.write_text(_SETTINGS.format(host=host, folder=self._folder, size=size))
        drop = []
        if os.getuid() == 0:  # it refuses to run as root
            shutil.chown(self._folder, "nobody")
            drop = ["--user", "nobody"]
        environment = {**os.environ, "LD_LIBRARY_PATH": os.environ.get("RETRYKIT_PGBOUNCER_LIBRARIES", "")}
        self._keeper = subprocess.Popen(
            [sys.executable, "-IS", KEEP, PROGRAM, "--quiet", *drop, settings], stdin=subprocess.PIPE, env=environment
        )
        self.dsn = f"host={self._folder} port=6432 user=postgres dbname=postgres"
        for _ in range(600):
            assert self._keeper.poll() is None, "pgbouncer has ended"
            try:
                psycopg.connect(self.dsn).close()
            except psycopg.OperationalError:
                time.sleep(0.02)
            else:
                return
        raise AssertionError((self._folder / "log").read_text())

    def end(self) -> None:
        """End it for good."""
        self._keeper.stdin.close()
        self._keeper.wait()
        shutil.rmtree(self._folder, ignore_errors=True)
