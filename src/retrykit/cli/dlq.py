"""`retrykit dlq`: look at dead letters. What changes them stands in `dlq_redrive` and `dlq_change`."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final, TypeVar, cast, get_args

import attrs
import click
from rich.console import Group
from rich.live import Live
from rich.table import Table

from ..checks import counted
from ..clock import current_clock
from ..dead_letter import DeadLetter
from ..stores import Backend, DeadLetterGroup, DeadLetterQuery, DeadLetterStats
from ..stores.dead_letter_groups import GroupOrder
from ..stores.dead_letters import Facet
from ..times import from_iso, read_instant, short, to_iso
from .backend import opened, with_backend
from .output import Unusable, as_json, by_user, console, printable, table

__all__ = ["dlq", "query_of", "with_query"]

_FACETS: Final[dict[str, Facet]] = {name.removeprefix("error_").removesuffix("_id"): name for name in get_args(Facet)}

F = TypeVar("F", bound=Callable[..., Any])


def with_query(command: F) -> F:
    """Give a command the argument QUERY, which arrives as `query`; several words are one query."""
    return click.argument("query", nargs=-1)(command)


def query_of(words: tuple[str, ...]) -> DeadLetterQuery:
    """Return the query that was given on the command line."""
    return DeadLetterQuery.parse(" ".join(words))


@click.group()
def dlq() -> None:
    """Look at dead letters, find what they have in common, repair them and put them back.

    A QUERY is the same everywhere: campaign:spring class:rendering_failure provider:ses since:2h text:"first name".
    Keys: message, campaign, provider, recipient, class, group, code, enhanced, reason, state, stage, source,
    fingerprint, attribute.NAME, since, until, text.
    """


@dlq.command("list")
@with_query
@with_backend
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="How many at the most.")
@click.option("--cursor", help="Go on where the list before ended: what that one has printed.")
@as_json
def list_(query: tuple[str, ...], url: str | None, limit: int, cursor: str | None, json_: bool) -> None:
    """List dead letters, the one put last first. With --json, one JSON object a line."""
    with opened(url) as backend:
        asked, own = _going_on(query_of(query), cursor)
        page = backend.dead_letters.search(asked, limit=limit, cursor=own)
    if json_:
        for letter in page.letters:
            click.echo(letter.to_json())
    else:
        made = table("", "letter", "died", "class", "code", "provider", "campaign", "state", "said")
        for letter in page.letters:
            made.add_row(*_row(letter))
        console().print(made)
    if page.cursor is not None:
        click.echo(f"there are more: --cursor {_with_window(page.cursor, asked)}", err=True)


def _with_window(cursor: str, query: DeadLetterQuery) -> str:
    """Return a cursor that has its query's window with it: ``since:2h`` is another instant at the next call."""
    return "@".join([cursor, *(to_iso(each) if each else "" for each in (query.since, query.until))])


def _going_on(query: DeadLetterQuery, cursor: str | None) -> tuple[DeadLetterQuery, str | None]:
    """Return the query of the page before, and the store's cursor."""
    own, *window = (cursor or "").split("@")
    if len(window) != 2:
        return query, cursor
    since, until = (from_iso(each, "the cursor's window") if each else None for each in window)
    return attrs.evolve(query, since=since, until=until), own


def _row(letter: DeadLetter) -> tuple[str, ...]:
    return (
        letter.id,
        _minute(letter.dead_lettered_at),
        str(letter.error_class),
        letter.error_code or "",
        letter.provider or "",
        letter.campaign_id or "",
        letter.state.value,
        " ".join(letter.error_message.split())[:60],
    )


@dlq.command()
@click.argument("letter_id")
@with_backend
@as_json
def show(letter_id: str, url: str | None, json_: bool) -> None:
    """Show one dead letter whole: what came in, what was tried, what was decided. By its id, such as welcome-17#1."""
    with opened(url) as backend:
        letter = backend.dead_letters.get(letter_id)
        if letter is None:
            raise Unusable(
                f"there is no dead letter {letter_id!r}; retrykit dlq list message:ID finds those of a message"
            )
        claim = backend.claims.get(letter.message_id)
        delivery = backend.deliveries.get(letter.message_id)
    if json_:
        click.echo(letter.to_json())
        return
    out = console()
    fields = letter.to_dict()
    for hidden in ("attempts", "original_payload", "original_payload_encoding", "attributes", "edit"):
        fields.pop(hidden)
    facts = {
        **fields,
        **{f"attribute.{name}": value for name, value in letter.attributes.items()},
        "claim now": "" if claim is None else f"{claim.state.value}, generation {claim.generation}",
        "delivery now": "" if delivery is None else delivery.status.value,
    }
    for name, value in facts.items():
        if value not in (None, "", {}):
            out.print(f"{printable(name):23} {printable(str(value))}")
    if letter.attempts:
        made = table("", "try", "at", "class", "code", "then", "after", "worker", right=("try", "after"))
        for attempt in letter.attempts:
            failure = attempt.failure
            made.add_row(
                f"{attempt.generation}.{attempt.number}",
                to_iso(attempt.failed_at),
                str(failure.error_class),
                failure.error_code or "",
                attempt.action.value,
                short(attempt.delay) if attempt.delay else "",
                attempt.worker or "",
            )
        out.print(made)
    _print_payload("payload", letter.original_payload)
    if letter.edit is not None:
        out.print(f"repaired by {printable(letter.edit.by)} at {to_iso(letter.edit.at)}: {printable(letter.edit.why)}")
        _print_payload("repaired payload", letter.edit.payload)
        new, old = letter.edit.attributes, letter.attributes
        for name in [*new, *(name for name in old if name not in new)]:
            if new.get(name) != old.get(name):
                out.print(f"{printable(f'repaired attribute.{name}'):23} {printable(new.get(name, 'is left out'))}")


def _print_payload(name: str, payload: bytes) -> None:
    console().print(f"{name}:")
    for line in payload.decode("utf-8", "backslashreplace").splitlines():
        console().print(f"  {printable(line)}")


@dlq.command()
@with_query
@with_backend
@click.option(
    "--by", type=click.Choice(list(_FACETS)), help="One of them.  [default: class, code, provider and campaign]"
)
@click.option("--limit", type=click.IntRange(min=1), default=10, show_default=True, help="How many of each.")
@as_json
def top(query: tuple[str, ...], url: str | None, by: str | None, limit: int, json_: bool) -> None:
    """Count dead letters by class, code, provider and campaign, the most frequent first."""
    facets = [by] if by else ["class", "code", "provider", "campaign"]
    with opened(url) as backend:
        asked = query_of(query)
        found = {name: backend.dead_letters.top(_FACETS[name], query=asked, limit=limit) for name in facets}
        total = backend.dead_letters.count(asked)
    if json_:
        click.echo(json.dumps({"total": total, **{name: dict(counts) for name, counts in found.items()}}))
        return
    for name, counts in found.items():
        console().print(_counts(name, counts, total))


def _counts(name: str, counts: Sequence[tuple[str, int]], total: int) -> Table:
    made = table("", name, "letters", "share", right=("letters", "share"))
    for value, count in counts:
        made.add_row(value, f"{count:,}", f"{count / total:.1%}" if total else "")
    return made


@dlq.command()
@with_query
@with_backend
@click.option("--order", type=click.Choice(get_args(GroupOrder)), default="last_seen", show_default=True)
@click.option("--muted", is_flag=True, help="Also those that are muted.")
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="How many at the most.")
@click.option("--cursor", help="Go on where the list before ended: what that one has printed.")
@as_json
def groups(
    query: tuple[str, ...], url: str | None, order: str, muted: bool, limit: int, cursor: str | None, json_: bool
) -> None:
    """List groups: one cause, many messages. With --json, one JSON object a line."""
    with opened(url) as backend:
        asked, own = _going_on(query_of(query), cursor)
        page = backend.dead_letters.groups(asked, order=cast("GroupOrder", order), muted=muted, limit=limit, cursor=own)
    if json_:
        for group in page.groups:
            click.echo(json.dumps(_group(group)))
    else:
        made = table(
            "",
            "group",
            "letters",
            "waiting",
            "first seen",
            "last seen",
            "class",
            "owner",
            "said",
            right=("letters", "waiting"),
        )
        for group in page.groups:
            made.add_row(
                group.fingerprint,
                f"{group.matching:,}",
                f"{sum(count for state, count in group.counts.items() if state == 'quarantined'):,}",
                _minute(group.first_seen),
                _minute(group.last_seen),
                str(group.error_class),
                group.owner,
                " ".join(group.error_message.split())[:60],
            )
        console().print(made)
    if page.cursor is not None:
        click.echo(f"there are more: --cursor {_with_window(page.cursor, asked)}", err=True)


def _group(group: DeadLetterGroup) -> dict[str, object]:
    return {
        "fingerprint": group.fingerprint,
        "error_class": str(group.error_class),
        "error_code": group.error_code,
        "provider": group.provider,
        "error_message": group.error_message,
        "matching": group.matching,
        "total": group.total,
        "counts": {state.value: count for state, count in group.counts.items()},
        "first_seen": to_iso(group.first_seen),
        "last_seen": to_iso(group.last_seen),
        "letter_ids": list(group.letter_ids),
        "owner": group.owner,
        "note": group.note,
        "muted": group.muted,
        "muted_until": group.muted_until and to_iso(group.muted_until),
    }


@dlq.command()
@click.argument("fingerprint")
@with_backend
@by_user
@click.option("--owner", help='Who looks after it; "" for nobody.')
@click.option("--note", "text", help='What is known of it; "" for nothing.')
@click.option(
    "--mute",
    is_flag=False,
    flag_value="",
    metavar="[WHEN]",
    help="Leave it out of groups, for good or until an instant.",
)
@click.option("--unmute", is_flag=True, help="List it again.")
@as_json
def note(
    fingerprint: str,
    url: str | None,
    by: str,
    owner: str | None,
    text: str | None,
    mute: str | None,
    unmute: bool,
    json_: bool,
) -> None:
    """Note something of a group: its owner, what is known, and whether it is muted."""
    if mute is not None and unmute:
        raise click.UsageError("give --mute or --unmute, not both")
    muted: bool | datetime | None = False if unmute else None
    with opened(url) as backend:
        if mute is not None:
            muted = read_instant(mute, current_clock().now(), "--mute") if mute else True
        group = backend.dead_letters.annotate(fingerprint, by=by, owner=owner, note=text, muted=muted)
        if group is None:
            raise Unusable(f"there is no dead letter with the fingerprint {fingerprint!r}")
    if json_:
        click.echo(json.dumps(_group(group)))
        return
    console().print(
        f"{counted(group.total, 'letter')}; owner {printable(group.owner) or 'nobody'}; {printable(group.note) or 'no note'}"
    )


@dlq.command()
@with_backend
@as_json
def stats(url: str | None, json_: bool) -> None:
    """Say how deep the queue is, and how fast it grows."""
    with opened(url) as backend:
        found = backend.dead_letters.stats()
    if json_:
        oldest = found.oldest_quarantined_at
        named = {name: getattr(found, name) for name in _STATS}
        click.echo(json.dumps({**named, "total": found.total, "oldest_quarantined_at": oldest and to_iso(oldest)}))
        return
    console().print(_stats(found))


_STATS: Final = (
    "quarantined", "redriving", "resolved", "discarded", "superseded", "died_last_hour", "died_last_day"
)  # fmt: skip


def _stats(found: DeadLetterStats) -> Table:
    made = table("", "letters", "", right=("letters",))
    for name in _STATS:
        made.add_row(f"{getattr(found, name):,}", name.replace("_", " "))
    if found.oldest_quarantined_at is not None:
        made.add_row("", f"the oldest that waits died at {to_iso(found.oldest_quarantined_at)}")
    return made


@dlq.command()
@with_query
@with_backend
@click.option(
    "--every", type=click.FloatRange(min=0.1), default=2.0, show_default=True, help="Seconds between two looks."
)
@click.option("--times", type=click.IntRange(min=1), help="How many looks.  [default: until Ctrl-C]")
def watch(query: tuple[str, ...], url: str | None, every: float, times: int | None) -> None:
    """Watch the depth of the queue and its top classes and groups. Into a file or a pipe, a line each time."""
    with opened(url) as backend:
        asked = query_of(query)
        out = console()
        looks = 0
        try:
            if out.is_terminal:
                with Live(_view(backend, asked), console=out, auto_refresh=False) as live:
                    while (looks := looks + 1) != times:
                        time.sleep(every)
                        live.update(_view(backend, asked), refresh=True)
                return
            while True:
                click.echo(_line(backend, asked))
                if (looks := looks + 1) == times:
                    return
                time.sleep(every)
        except KeyboardInterrupt:
            pass


def _view(backend: Backend, query: DeadLetterQuery) -> Group:
    total = backend.dead_letters.count(query)
    classes = _counts("class", backend.dead_letters.top("error_class", query=query, limit=5), total)
    found = table("", "group", "letters", "last seen", "said", right=("letters",))
    for group in backend.dead_letters.groups(query, limit=5).groups:
        said = " ".join(group.error_message.split())[:50]
        found.add_row(group.fingerprint, f"{group.matching:,}", _minute(group.last_seen), said)
    return Group(_stats(backend.dead_letters.stats()), "", classes, "", found)


def _line(backend: Backend, query: DeadLetterQuery) -> str:
    found = backend.dead_letters.stats()
    classes = ", ".join(
        f"{name} {count:,}" for name, count in backend.dead_letters.top("error_class", query=query, limit=3)
    )
    now = to_iso(current_clock().now())
    return f"{now} {found.quarantined:,} waiting, {found.died_last_hour:,} in the last hour; {printable(classes)}"


def _minute(instant: datetime) -> str:
    return f"{instant:%Y-%m-%d %H:%M}"
