"""The documents keep what they promise."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^(`{3,})(\{?[\w-]*\}?)[^\n]*\n(.*?)^\1$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def links(page: Path) -> list[str]:
    """Return the relative link targets of a page, without their fragments."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    targets = [target for target in LINK.findall(text) if not re.match(r"[a-z]+:|#", target)]
    return [target.partition("#")[0] for target in targets]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_page_relative_links_lead_to_files(page: Path) -> None:
    """Every relative link of a page leads to a file or folder that exists."""
    assert [target for target in links(page) if not (page.parent / target).exists()] == []


def test_architecture_page_says_where_to_look() -> None:
    """The table from questions to files has many rows, each with a link."""
    text = (ROOT / "docs/explanation/architecture.md").read_text(encoding="utf-8")
    table = text.partition("| question | file |\n")[2].partition("\n\n")[0]
    rows = table.splitlines()[1:]
    assert len(rows) >= 15
    assert [row for row in rows if not LINK.search(row)] == []


def test_readme_python_blocks_run() -> None:
    """What the README shows can be pasted and run."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = [body for _, language, body in FENCE.findall(text) if language == "python"]
    assert blocks
    for body in blocks:
        exec(compile(body, "README.md", "exec"), {"__name__": "readme"})
