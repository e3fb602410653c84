"""The pytest plugin: what a user's tests get by installing retrykit."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from importlib import metadata

import pytest

from tests.fresh import run_fresh


@pytest.fixture
def run_tests(tmp_path):
    """Return a function that runs a test file of a user's in a pytest of its own and returns its exit code and output."""

    def run(source, *options):
        path = tmp_path / "test_of_a_user.py"
        path.write_text(textwrap.dedent(source), encoding="utf-8")
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *options, path.name],
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
            env={name: value for name, value in os.environ.items() if not name.startswith("PYTEST")},
        )
        return done.returncode, done.stdout + done.stderr

    return run


def test_plugin_is_announced_to_pytest():
    """Under the group that pytest looks at."""
    (plugin,) = metadata.entry_points(group="pytest11", name="retrykit")
    assert plugin.value == "retrykit.testing.plugin"


def test_fixtures_work_in_the_tests_of_a_user(run_tests):
    """Each on its own and together, and nothing stays behind for the next test."""
    code, output = run_tests("""
        from datetime import UTC, datetime

        import pytest

        from retrykit import Message, retry
        from retrykit.clock import SystemClock, current_clock


        @pytest.fixture(autouse=True)
        def nothing_stays_behind():
            assert type(current_clock()) is SystemClock
            yield


        def test_manual_clock(manual_clock):
            assert current_clock() is manual_clock
            manual_clock.advance("1h")
            assert current_clock().now() == datetime(2026, 1, 1, 1, tzinfo=UTC)


        def test_no_waiting(no_waiting):
            @retry(on=OSError, attempts=2)
            def down():
                raise OSError("down")

            with pytest.raises(OSError):
                down()
            assert len(no_waiting.sleeps) == 1


        def test_memory_backend(memory_backend):
            memory_backend.retries.schedule(Message("m", 1), datetime(2026, 1, 1, 1, tzinfo=UTC))
            assert memory_backend.retries.stats().due == 1


        def test_memory_backend_is_a_new_one(memory_backend):
            assert memory_backend.retries.stats().waiting == 0


        @pytest.mark.parametrize("clock", ["manual_clock", "no_waiting"])
        def test_memory_backend_on_a_clock(request, clock, memory_backend):
            clock = request.getfixturevalue(clock)
            assert current_clock() is clock


        def test_memory_backend_has_the_clock_of_its_test(memory_backend, manual_clock):
            memory_backend.retries.schedule(Message("m", 1), datetime(2026, 1, 1, 1, tzinfo=UTC))
            assert memory_backend.retries.stats().due == 0
            manual_clock.advance("1h")
            assert memory_backend.retries.stats().due == 1
    """)
    assert (0, True) == (code, "7 passed" in output), output


def test_assertion_of_a_suite_shows_its_values(run_tests):
    """A user sees what the own store answered."""
    code, output = run_tests("""
        from retrykit.backends.memory import _Circuits, _Shared
        from retrykit.testing.conformance import CircuitStoreSuite


        class Forgetful(_Circuits):
            def _resume(self, key):
                return "perhaps"


        class TestForgetful(CircuitStoreSuite):
            def make_store(self, place):
                return Forgetful(_Shared(place.clock))
    """)
    assert code == 1, output
    assert "assert 'perhaps' is False" in output, output


def test_plugin_loads_nothing_of_the_library_until_a_fixture_is_used():
    """A test run that has nothing to do with retrykit does not pay for it."""
    loaded = run_fresh(
        "import json, pytest, sys; before = set(sys.modules); import retrykit.testing.plugin\n"
        "print(json.dumps(sorted(set(sys.modules) - before)))"
    )
    assert loaded == ["retrykit", "retrykit.testing", "retrykit.testing.plugin"]
