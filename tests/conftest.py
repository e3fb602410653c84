"""Settings that all tests share."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Generator, Iterable
from pathlib import Path

import hypothesis
import pytest

from tests import capabilities
from tests.measuring import Measuring

SOAK = os.environ.get("RETRYKIT_SOAK") == "1"

# Files for the type checkers; they hold mistakes on purpose and are never imported.
collect_ignore = ["typing"]

# No deadline: how long an example takes says nothing on a shared machine. Too slow: the same.
hypothesis.settings.register_profile(
    "dev", deadline=None, max_examples=50, suppress_health_check=[hypothesis.HealthCheck.too_slow], print_blob=True
)
# Nothing is read from or written to a database of earlier failures, so that a run repeats exactly.
hypothesis.settings.register_profile("ci", hypothesis.settings.get_profile("dev"), derandomize=True, database=None)
hypothesis.settings.register_profile("soak", hypothesis.settings.get_profile("dev"), max_examples=5000)
hypothesis.settings.load_profile("soak" if SOAK else "ci" if capabilities.is_ci() else "dev")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "soak(only=False): has a full count that takes minutes; scripts/soak runs it, scripts/test a hundredth, or nothing if only",
    )
    config.addinivalue_line(
        "markers", "unmeasured: goes over and over what other tests cover; coverage would take longer than the test"
    )
    config.pluginmanager.register(Measuring())


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave to a soak what says so."""
    left = (
        [] if SOAK else [item for item in items if any(mark.kwargs.get("only") for mark in item.iter_markers("soak"))]
    )
    config.hook.pytest_deselected(items=left)
    items[:] = [item for item in items if item not in left]


def pytest_report_header() -> str:
    names = [*capabilities.PROBES, "aiosmtpd", "rich", "trio"]
    absent = [name for name in names if not capabilities.is_present(name)]
    return f"absent capabilities: {', '.join(absent) or 'none'}"


class CapabilityModule(pytest.Module):
    """A test module that is empty where it requires what is absent."""

    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        try:
            return super().collect()
        except capabilities.AbsentCapabilityError:
            return []


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module:
    return CapabilityModule.from_parent(parent, path=module_path)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the collector of garbage away from the tests themselves: twelve thousand, each with its names and fixtures."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.collect()
        gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_collect_file() -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Leave out the doctest collectors of test files: only `src` has examples, and importing twice asks twice."""
    collectors = yield
    return [collector for collector in collectors if isinstance(collector, CapabilityModule)]


@pytest.fixture(scope="session")
def scale() -> Callable[[int], int]:
    """Map a full count to the count of this run: itself under scripts/soak, about a hundredth otherwise, at least 1."""
    return (lambda full: full) if SOAK else (lambda full: max(1, round(full / 100)))
