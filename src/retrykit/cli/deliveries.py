"""`retrykit deliveries`: where the deliveries of a backend stand."""

from __future__ import annotations

import json
from collections.abc import Iterator

import click

from ..stores import Backend, Delivery, DeliveryStatus
from ..times import to_iso
from .backend import opened, with_backend
from .output import as_json, console, table

__all__ = ["deliveries"]

_PAGE = 500


@click.command()
@with_backend
@click.option(
    "--status", type=click.Choice([each.value for each in DeliveryStatus]), help="List the messages of a status."
)
@click.option("--unexpected", is_flag=True, help="List the messages that only a provider has told of.")
@click.option(
    "--limit", type=click.IntRange(min=1), default=50, show_default=True, help="How many to list at the most."
)
@as_json
def deliveries(url: str | None, status: str | None, unexpected: bool, limit: int, json_: bool) -> None:
    """Say how many messages have which status; or list those of one, such as --status unknown.

    With --json, a list is one JSON object a line.
    """
    if status is not None and unexpected:
        raise click.UsageError("give --status or --unexpected, not both")
    with opened(url) as backend:
        if status is None and not unexpected:
            _print_counts(backend, json_)
        else:
            _print_list(_some(backend, status, limit), json_)


def _print_counts(backend: Backend, json_: bool) -> None:
    counts = backend.deliveries.counts()
    if json_:
        click.echo(json.dumps({status.value: count for status, count in counts.items()}))
        return
    made = table(f"{sum(counts.values()):,} messages", "status", "messages", right=("messages",))
    for status in DeliveryStatus:
        if status in counts:
            made.add_row(status.value, f"{counts[status]:,}")
    console().print(made)


def _some(backend: Backend, status: str | None, limit: int) -> Iterator[Delivery]:
    """Give up to `limit` messages, a page at a time; of no status: those that only a provider has told of."""
    after = ""
    while limit > 0:
        size = min(limit, _PAGE)
        if status is None:
            page = backend.deliveries.unexpected(limit=size, after=after)
        else:
            page = backend.deliveries.with_status(DeliveryStatus(status), limit=size, after=after)
        yield from page
        if len(page) < size:
            return
        after, limit = page[-1].message_id, limit - size


def _print_list(found: Iterator[Delivery], json_: bool) -> None:
    if json_:
        for each in found:
            click.echo(json.dumps(each.to_dict()))
        return
    made = table("", "message", "status", "provider", "its id", "failure", "updated")
    for each in found:
        failure = each.failure.error_class or "" if each.failure else ""
        row = (
            each.message_id,
            each.status.value,
            each.provider or "",
            each.provider_id or "",
            failure,
            to_iso(each.updated_at),
        )
        made.add_row(*row)
    console().print(made)
