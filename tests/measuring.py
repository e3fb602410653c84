"""Coverage watches what tests and fixtures do, and rests while pytest works around them: there it would take longer than most tests."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager

import pytest

IN_PROCESSES = "COVERAGE_PROCESS_CONFIG"
"""By which coverage measures the processes that tests start."""


class Measuring:
    """A plugin that turns the tracing of coverage on and off, where there is any."""

    def __init__(self) -> None:
        self._tracers = sys.gettrace(), threading.gettrace()
        self.is_measured = type(self._tracers[0]).__module__.startswith("coverage")

    def _trace(self, is_on: bool) -> None:
        if self.is_measured:
            trace, trace_threads = self._tracers if is_on else (None, None)
            threading.settrace(trace_threads)  # type: ignore[arg-type]
            sys.settrace(trace)

    @contextmanager
    def _traced(self) -> Generator[None]:
        self._trace(True)
        try:
            yield
        finally:
            self._trace(False)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtestloop(self) -> Generator[None, object, object]:
        """Rest from the first test to the last."""
        self._trace(False)
        try:
            return (yield)
        finally:
            self._trace(True)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Rest all through a test that is marked so, in the processes it starts as well."""
        was_measured, config = self.is_measured, os.environ.get(IN_PROCESSES)
        if not was_measured or not item.get_closest_marker("unmeasured"):
            return (yield)
        self.is_measured = False
        os.environ.pop(IN_PROCESSES, None)
        try:
            return (yield)
        finally:
            self.is_measured = was_measured
            if config is not None:
                os.environ[IN_PROCESSES] = config

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_fixture_setup(self) -> Generator[None, object, object]:
        """Watch a fixture."""
        with self._traced():
            return (yield)

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_pyfunc_call(self) -> Generator[None, object, object]:
        """Watch a test."""
        with self._traced():
            return (yield)

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        """Watch an example in a docstring, which is no function."""
        if isinstance(item, pytest.Function):
            return (yield)
        with self._traced():
            return (yield)
