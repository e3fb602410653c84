"""The suites are sharp: for every promise there is a store that breaks it, and the suite's test that catches it."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
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


@cache
def outcomes(module: str) -> dict[str, dict[str, bool]]:
    """Run, for each broken store of a module, the tests that are to catch it; by class and test whether it passed."""
    path = Path(__file__).parent / "mutants" / f"{module}.py"
    tests = [f"{path}::{name}::{test}" for name, caught_by in mutants_in(module).items() for test in caught_by]
    done = subprocess.run([sys.executable, "-c", PROGRAM, *tests], capture_output=True, text=True, check=False)
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize(
    ("module", "mutant"), [(module, mutant) for module in MODULES for mutant in mutants_in(module)]
)
def test_store_that_breaks_a_promise_is_caught(module: str, mutant: str) -> None:
    """Each of the tests that are said to catch it fails."""
    ran = outcomes(module)[mutant]
    assert dict.fromkeys(mutants_in(module)[mutant], False) == ran
