"""The frame of the command line: the commands hang here."""

from __future__ import annotations

import click

from .demo import demo

__all__ = ["app"]


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="retrykit")
def app() -> None:
    """Decide what happens to work that failed.

    Exit codes: 0 success, 1 the command ran and its answer is no, 2 it was called wrongly or could not run.
    """


app.add_command(demo)
