"""Settings of the documentation; `.ci/run` builds it with every warning as an error."""

import builtins
from importlib import metadata
from typing import Any

from sphinx.application import Sphinx

project = "retrykit"
author = "the retrykit authors"
copyright = "2026, the retrykit authors"
release = version = metadata.version("retrykit")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.doctest",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"retrykit {release}"

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_preprocess_types = False
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_class_signature = "separated"

# Examples in docstrings run with the tests (pytest --doctest-modules). Here run those of the pages: {doctest}, {testcode}.
doctest_test_doctest_blocks = ""
doctest_global_setup = (
    "import logging; logging.getLogger('retrykit').addHandler(logging.NullHandler())"  # messages die in them
)
trim_doctest_flags = True

nitpick_ignore_regex = [
    # Links into the documents of Python, Hypothesis and psycopg would need their inventory, and so a network at build time.
    (
        r"py:.*",
        r"(abc|asyncio|collections|contextlib|contextvars|datetime|email|enum|hypothesis|os|pathlib|psycopg|random|smtplib|sqlite3|types|typing)\..*",
    ),
    (r"py:.*", r"retrykit\..*\.[A-Z]"),  # type variables have no page
    (r"py:.*", "|".join(name for name in dir(builtins) if not name.startswith("_"))),
]
nitpick_ignore = [
    ("py:class", "Duration"),  # an alias, where the types beside it are for type checkers only
    ("py:class", "retrykit.policy.backoff.Delays"),  # what the functions return is a Backoff to everybody else
    ("py:class", "JSON"),  # a recursive alias: inside itself it is only a name
    ("py:class", "Hook"),  # the same
    ("py:class", "~P"),  # a parameter specification, where it stands in a page by itself
    ("py:class", "P"),  # the same, and type variables, where types beside them are for type checkers only
    ("py:class", "T"),
    ("py:class", "Send"),
    ("py:class", "TracerProvider"),  # of OpenTelemetry, imported for type checkers only
    ("py:class", "WSGIServer"),  # of Python, the same
    ("py:class", "Raw"),  # an alias, where it stands in another one
    ("py:class", "Listener"),  # an alias that retry.py imports for type checkers only
]


def keep_colons(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Let napoleon take a colon in an attribute's text or after `Returns:` for punctuation, not for the end of a type.

    The type is what stands before the first colon; so the text gets one in front, and the type is empty.
    """
    texts = [number + 1 for number, line in enumerate(lines[:-1]) if line.strip() in {"Returns:", "Yields:"}]
    if lines and what in {"attribute", "data", "property"}:
        texts.append(0)
    for number in texts:
        text = lines[number].lstrip()
        lines[number] = lines[number].removesuffix(text) + ": " + text


def setup(app: Sphinx) -> None:
    """Prepare docstrings before napoleon, which has priority 500, reads them."""
    app.connect("autodoc-process-docstring", keep_colons, priority=400)
