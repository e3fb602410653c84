"""The suites are sharp: for every promise there is a store that breaks it, and the suite's test that catches it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.stores.mutants import MODULES, mutants_in

PROGRAM = """
import json, sys
import pytest

class Recorder:
    def __init__(self):
        self.outcomes = {}

    def pytest_collection_finish(self):  # that a property fails is enough: nobody reads its smallest example
        import hypothesis

        hypothesis.settings.register_profile("any failure", hypothesis.settings(), phases=[hypothesis.Phase.generate])
        hypothesis.settings.load_profile("any failure")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item, call):
        report = yield
        error = None if call.excinfo is None else call.excinfo.value
        if isinstance(error, TypeError) and "argument" in str(error):
            report.outcome = "passed"  # a store that cannot be called any more breaks no promise
        return report

    def pytest_runtest_logreport(self, report):
        if report.when == "call" or report.failed:
            cls, name = report.nodeid.split("::")[-2:]
            names = self.outcomes.setdefault(cls, {})
            name = name.partition("[")[0]
            names[name] = names.get(name, True) and report.passed

recorder = Recorder()
options = ["-q", "--tb=no", "--assert=plain", "-n", "0", "-p", "no:randomly", "-p", "no:cacheprovider"]
pytest.main([*options, *sys.argv[1:]], plugins=[recorder])
print(json.dumps(recorder.outcomes))
"""


RUNS = 4
"""How often a test is run at the most that has to meet a race, or draw an example."""


def missed(module: str, expected: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Run tests on the broken stores of a module, each given by class and name, and return those that did not fail.

    Coverage does not follow: that code runs on a broken store says nothing.
    """
    path = Path(__file__).parent / "mutants" / f"{module}.py"
    tests = [f"{path}::{mutant}::{test}" for mutant, test in expected]
    drawn = {name: value for name, value in os.environ.items() if name != "CI" and not name.startswith("COV")}
    done = subprocess.run(  # without CI it has other examples at each run
        [sys.executable, "-c", PROGRAM, *tests], env=drawn, capture_output=True, text=True, check=False
    )
    ran = json.loads(done.stdout.splitlines()[-1])
    assert {(mutant, test) for mutant in ran for test in ran[mutant]} == set(expected)
    return [(mutant, test) for mutant, test in expected if ran[mutant][test]]


@pytest.mark.parametrize("module", MODULES)
def test_stores_that_break_a_promise_each_are_caught(module: str) -> None:
    """Each of the tests that are said to catch a store fails on it; one that waits for a race or an example within a few runs."""
    left = [(mutant, test) for mutant, caught_by in mutants_in(module).items() for test in caught_by]
    assert left
    for _ in range(RUNS):
        left = missed(module, left)
        if not left:
            break
    assert left == []
