"""`retrykit migrate`: make the tables of a backend, or bring them to this version."""

from __future__ import annotations

import click

from ..backends.migrations import migrate as bring
from ..backends.migrations import planned
from ..errors import RetrykitError
from .backend import needed, with_backend
from .output import Unusable, console

__all__ = ["migrate"]


@click.command()
@with_backend
@click.option("--dry-run", is_flag=True, help="Print the SQL, and change nothing.")
def migrate(url: str | None, *, dry_run: bool) -> None:
    """Make the tables of a backend, or bring them to this version.

    It may run while services of the version before are at work, and several may run at once.
    """
    url = needed(url)
    try:
        found = planned(url) if dry_run else bring(url)
    except RetrykitError as error:
        raise Unusable(str(error)) from None
    if dry_run:
        for statement in found.statements:
            click.echo(f"{statement};")
    elif found.statements:
        console().print(f"brought from version {found.found} to {found.version}")
    else:
        console().print(f"of version {found.version} already")
