"""The plots of the documentation are what their script draws."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

PLOTS = Path(__file__).parent.parent / "docs" / "plots"
NAMES = sorted(path.name for path in PLOTS.glob("*.svg"))


def test_plots_are_drawn_anew_as_they_stand(tmp_path: Path) -> None:
    """Running the scripts changes no file, so a plot never shows what the code no longer does."""
    for script in PLOTS.glob("*.py"):
        subprocess.run([sys.executable, str(script), str(tmp_path)], check=True, timeout=50)
    assert sorted(path.name for path in tmp_path.iterdir()) == NAMES
    assert [name for name in NAMES if (tmp_path / name).read_bytes() != (PLOTS / name).read_bytes()] == []


@pytest.mark.parametrize("name", NAMES)
def test_plot_is_small_svg_with_a_title_that_loads_nothing(name: str) -> None:
    """It has a title for those who do not see it, and no script, link or style from elsewhere."""
    text = (PLOTS / name).read_text(encoding="utf-8")
    tags = {element.tag.rpartition("}")[2] for element in ET.fromstring(text).iter()}
    assert tags <= {"svg", "title", "rect", "polyline", "path", "text"}
    assert "title" in tags
    assert len(text) < 10_000
