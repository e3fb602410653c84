"""What must not stand in any file of the repository."""

from __future__ import annotations

import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
BUILT = {"__pycache__", "build", "dist"}

# A letter in brackets keeps each pattern from matching itself.
REGISTRY = re.compile(r"pypi[.]org|pythonhosted[.]org|npmjs[.]|--(?:extra-)?index[-]url")
MACHINE_PATH = re.compile(r"/hom[e]/\w|/roo[t]/\w|/User[s]/\w|[A-Z]:\\{1,2}User[s]")
UNFINISHED = re.compile(r"\b(?:TOD[O]|FIXM[E]|XX[X])\b")


def listed_by_git() -> list[Path] | None:
    """Return the files that git knows or would add, or None where this is no checkout or git is absent."""
    if not (ROOT / ".git").exists():
        return None
    command = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return [ROOT / name for name in done.stdout.split("\0") if name]


def found_by_walking() -> list[Path]:
    """Return the files outside hidden and built folders."""
    return [
        path
        for path in ROOT.rglob("*")
        if not any(part.startswith(".") or part in BUILT for part in path.relative_to(ROOT).parts)
    ]


@cache
def texts() -> dict[str, str]:
    """Return the text of every text file, by its path in the repository."""
    paths = listed_by_git() or found_by_walking()
    contents = {str(path.relative_to(ROOT)): path.read_bytes() for path in paths if path.is_file()}
    return {name: content.decode(errors="replace") for name, content in contents.items() if b"\0" not in content}


def lines_with(pattern: re.Pattern[str]) -> list[str]:
    """Return `file:line: text` of each line that `pattern` is found in."""
    return [
        f"{name}:{number}: {line.strip()[:120]}"
        for name, text in texts().items()
        for number, line in enumerate(text.splitlines(), 1)
        if pattern.search(line)
    ]


def test_files_hold_no_registry_address() -> None:
    """Where packages come from is the business of each machine."""
    assert lines_with(REGISTRY) == []


def test_files_hold_no_path_of_a_machine() -> None:
    """No file speaks of somebody's home folder or of the place of this checkout."""
    found = lines_with(MACHINE_PATH)
    if len(ROOT.parts) > 2:  # a checkout right under / has a name that is also an ordinary word
        found += lines_with(re.compile(rf"(?<![\w.]){re.escape(str(ROOT))}(?!\w)"))
    assert found == []


def test_files_hold_no_unfinished_mark() -> None:
    """What is left to do is not kept in comments."""
    assert lines_with(UNFINISHED) == []


@pytest.mark.parametrize("name", ["pdm.lock", "poetry.lock", "pylock.toml", "uv.lock"])
def test_lock_file_is_not_kept(name: str) -> None:
    """Lock files that record addresses stay out; the pins are plain."""
    assert name not in texts()


def test_pins_are_plain_versions() -> None:
    """Each line of the pins is a name, a version and perhaps a Python marker."""
    bound = r"python_version (>=|<) '3\.\d+'"
    pin = re.compile(rf"[\w.-]+==[\w.]+(; {bound}( and {bound})?)?")
    lines = [line for line in texts()["requirements-test.txt"].splitlines() if not line.startswith("#")]
    assert len(lines) > 20
    assert [line for line in lines if not pin.fullmatch(line)] == []


def test_text_files_end_with_one_newline() -> None:
    """Every text file ends with exactly one newline."""
    assert [name for name, text in texts().items() if text and (not text.endswith("\n") or text.endswith("\n\n"))] == []
