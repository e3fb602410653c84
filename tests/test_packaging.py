"""What a user gets who installs the package."""

from __future__ import annotations

import re
import tomllib
from importlib import metadata, resources
from pathlib import Path

from tests.fresh import run_fresh

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_metadata_runtime_dependencies_are_attrs_and_typing_extensions() -> None:
    """Without extras, two small packages come along and nothing else."""
    required = [line for line in metadata.requires("retrykit") or () if "extra ==" not in line]
    assert sorted(re.split(r"[^\w-]", line)[0] for line in required) == ["attrs", "typing-extensions"]


def test_metadata_version_is_the_one_in_pyproject() -> None:
    """The version stands in one place and reaches the installed metadata."""
    assert metadata.version("retrykit") == PROJECT["version"]


def test_metadata_extra_all_names_every_other_extra() -> None:
    """`retrykit[all]` leaves no extra out."""
    extras = PROJECT["optional-dependencies"]
    (everything,) = extras["all"]
    named = re.fullmatch(r"retrykit\[(.*)\]", everything)
    assert named is not None
    assert sorted(named[1].split(",")) == sorted(set(extras) - {"all"})


def test_package_is_marked_as_typed() -> None:
    """`py.typed` lies in the package, so checkers read its annotations (PEP 561)."""
    assert resources.files("retrykit").joinpath("py.typed").is_file()


def test_license_is_mit_in_file_and_metadata() -> None:
    """The licence file and the metadata agree."""
    assert (ROOT / "LICENSE").read_text(encoding="utf-8").startswith("MIT License")
    assert metadata.metadata("retrykit")["License-Expression"] == "MIT"


def test_command_retrykit_is_installed() -> None:
    """The package brings the command `retrykit`."""
    (command,) = metadata.entry_points(group="console_scripts", name="retrykit")
    assert command.value == PROJECT["scripts"]["retrykit"]


def test_import_loads_no_heavy_module() -> None:
    """`import retrykit` loads no event loop, database, TLS, network or client library."""
    loaded = run_fresh("import json, sys, retrykit; print(json.dumps(sorted(sys.modules)))")
    assert isinstance(loaded, list)
    heavy = {
        "aiosmtpd",
        "asyncio",
        "attr",
        "click",
        "concurrent.futures",
        "decimal",
        "email",
        "http",
        "inspect",
        "logging",
        "multiprocessing",
        "psycopg",
        "redis",
        "rich",
        "smtplib",
        "socket",
        "sqlite3",
        "ssl",
        "subprocess",
        "tomllib",
        "trio",
        "typing_extensions",
        "urllib",
    }
    assert sorted(heavy.intersection(loaded)) == []


def test_import_of_retry_loads_no_heavy_module() -> None:
    """The first use of `retrykit.retry` loads attrs, and still nothing heavy."""
    loaded = run_fresh("import json, sys, retrykit; retrykit.retry; print(json.dumps(sorted(sys.modules)))")
    assert isinstance(loaded, list)
    heavy = {
        "asyncio",
        "concurrent.futures",
        "email",
        "http",
        "multiprocessing",
        "smtplib",
        "socket",
        "sqlite3",
        "ssl",
        "trio",
    }
    assert sorted(heavy.intersection(loaded)) == []


def test_import_of_every_library_module_needs_no_third_party_package() -> None:
    """With attrs and typing-extensions alone, all modules below the faces and the testing kit can be imported."""
    program = """
import importlib, json, pkgutil, sys

allowed = {"attr", "attrs", "retrykit", "typing_extensions", *sys.stdlib_module_names}

class OnlyAllowed:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in allowed:
            raise ModuleNotFoundError(f"{name} is not installed", name=name)

sys.meta_path.insert(0, OnlyAllowed())
import retrykit
failed = {}
pending = [retrykit]
while pending:
    package = pending.pop()
    for module in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
        if module.name in ("retrykit.cli", "retrykit.dashboard", "retrykit.demo", "retrykit.testing") or module.name.endswith("__main__"):
            continue
        try:
            loaded = importlib.import_module(module.name)
        except ImportError as error:
            failed[module.name] = str(error)
        else:
            if module.ispkg:
                pending.append(loaded)
print(json.dumps(failed))
"""
    assert run_fresh(program) == {}


def test_no_module_states_the_version_again() -> None:
    """No source file repeats the version that pyproject.toml states."""
    pattern = re.compile(rf"""["']{re.escape(PROJECT["version"])}["']""")
    repeated = [path.name for path in (ROOT / "src").rglob("*.py") if pattern.search(path.read_text(encoding="utf-8"))]
    assert repeated == []


def test_package_brings_the_pages_of_the_dashboard() -> None:
    """Templates, style and script of the dashboard are installed with it."""
    folder = resources.files("retrykit").joinpath("dashboard")
    for name in ("templates/base.html", "static/style.css", "static/app.js", "static/icon.svg"):
        assert folder.joinpath(name).is_file()
