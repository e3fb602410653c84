"""Run a server until this process's standard input is closed: so it ends with the tests that began it, however they end."""

from __future__ import annotations

import subprocess
import sys

server = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL)
try:
    sys.stdin.buffer.read()
finally:
    server.kill()
    server.wait()
