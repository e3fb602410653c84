"""The suites are sharp: for every promise there is a store that breaks it, and the suite's test that catches it."""

from __future__ import annotations

import json
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

    def pytest_runtest_logreport(self, report):
        if report.when == "call" or report.failed:
            cls, name = report.nodeid.split("::")[-2:]
            names = self.outcomes.setdefault(cls, {})
            name = name.partition("[")[0]
            names[name] = names.get(name, True) and report.passed

recorder = Recorder()
pytest.main(["-q", "--tb=no", "-n", "0", "-p", "no:randomly", "-p", "no:cacheprovider", *sys.argv[1:]], plugins=[recorder])
print(json.dumps(recorder.outcomes))
"""


def outcomes(module: str) -> dict[str, dict[str, bool]]:
    """Run, for each broken store of a module, the tests that are to catch it; by class and test whether it passed."""
    path = Path(__file__).parent / "mutants" / f"{module}.py"
    tests = [f"{path}::{name}::{test}" for name, caught_by in mutants_in(module).items() for test in caught_by]
    done = subprocess.run([sys.executable, "-c", PROGRAM, *tests], capture_output=True, text=True, check=False)
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("module", MODULES)
def test_stores_that_break_a_promise_each_are_caught(module: str) -> None:
    """Each of the tests that are said to catch a store fails on it."""
    expected = {mutant: dict.fromkeys(caught_by, False) for mutant, caught_by in mutants_in(module).items()}
    assert expected == outcomes(module)
