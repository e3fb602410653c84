"""How a dead letter stands in its row, and how a query finds it there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

import attrs

from ...dead_letter import DeadLetter, DeadLetterState
from ...stores.dead_letter_query import DeadLetterQuery
from ...times import to_millis
from ..letter_fields import COMPARED
from ..spans import pieces, window
from .letter_tables import HOUR, SPANS
from .records import Records
from .statements import Condition, between, joined, text

__all__ = ["LETTERS", "PUT", "conditions", "equal", "put_values", "source", "within"]

_SEPARATOR: Final = "A"
"""Between two texts of which it cannot be a part: `str.casefold` leaves no capitals."""


def _read(state: str, record: str) -> DeadLetter:
    return attrs.evolve(DeadLetter.from_json(record), state=DeadLetterState(state))


def _write(letter: DeadLetter) -> Mapping[str, object]:
    return {"state": letter.state.value, "record": letter.to_json()}


LETTERS: Final = Records("letters", "id", "state, record", read=_read, write=_write, what="the dead letter")

_COLUMNS: Final = ("id", "dead_at", *COMPARED, "attributes", "said", "record")

PUT: Final = f"""
    INSERT INTO retrykit.letters AS known ({", ".join(_COLUMNS)})
        VALUES ({", ".join(f"%({name})s" for name in _COLUMNS)})
    ON CONFLICT (id) DO UPDATE SET number = excluded.number, version = DEFAULT, {
    ", ".join(f"{name} = excluded.{name}" for name in _COLUMNS if name not in ("id", "state"))
}
        WHERE known.record IS NULL
    RETURNING state
"""
"""Puts a letter that is not there yet; one that was resolved before it came stays resolved. Of others no row is returned."""


def put_values(letter: DeadLetter) -> Mapping[str, object]:
    """Return the values of a letter's columns."""
    said = _SEPARATOR.join((letter.error_message.casefold(), letter.decision.casefold()))
    fields = {name: getattr(letter, name) for name in COMPARED}
    return {
        "id": text(letter.id),
        "dead_at": to_millis(letter.dead_lettered_at),
        **{name: None if value is None else text(str(value)) for name, value in fields.items()},
        "attributes": _json(letter.attributes),
        "said": text(said),
        "record": letter.to_json(),
    }


def _json(attributes: Mapping[str, str]) -> str:
    return json.dumps({text(name): text(value) for name, value in attributes.items()}, ensure_ascii=False)


def equal(column: str, value: str, name: str) -> Condition:
    """Return the condition for a column that is indexed by the beginnings of its texts to have a value.

    `texteq` is what stands behind ``=``: the planner counts the condition once, and goes by the index in the order of putting.
    """
    return Condition(
        f"left({column}, 100) = left(%({name})s, 100) AND texteq({column}, %({name})s)", {name: text(value)}
    )


def conditions(query: DeadLetterQuery) -> list[Condition]:
    """Return the conditions for a letter to have the fields and to have died in the window of a query."""
    fields = [equal(f"letters.{name}", value, f"is_{name}") for name, value in query.conditions().items()]
    return [Condition("letters.record IS NOT NULL"), *fields, *between("letters.dead_at", *window(query), "dead")]


def source(query: DeadLetterQuery, *more: Condition) -> Condition:
    """Return where the letters of a query are that meet more conditions: what follows FROM, with its WHERE.

    An attribute is joined: by its index the letters come in the order of putting as well.
    """
    tables, found = ["retrykit.letters"], conditions(query)
    for number, (name, value) in enumerate(query.attributes.items()):
        held = f"attribute{number}"
        tables.append(f"retrykit.letter_attributes AS {held}")
        found.append(Condition(f"{held}.number = letters.number"))
        found += [equal(f"{held}.name", name, f"{held}_name"), equal(f"{held}.value", value, f"{held}_value")]
    if query.text is not None:
        wanted = text(query.text.casefold())
        for each in "\\%_":
            wanted = wanted.replace(each, f"\\{each}")
        found.append(Condition("letters.said LIKE %(said)s", {"said": f"%{wanted}%"}))
    where = joined([*found, *more])
    return Condition(f"{', '.join(tables)} WHERE {where.sql}", where.values)


def within(query: DeadLetterQuery) -> list[Condition]:
    """Return the condition for a letter to have one of the numbers that those of a window have, for who goes through them in order.

    Letters come nearly in the order in which they died. The planner does not know, and would look for those of last week among all
    that came since.
    """
    start, end = window(query)
    if start is None and end is None:
        return []
    parts, values = list[str](), dict[str, object]()
    hours = None if start is None else start // HOUR * HOUR, None if end is None else -(-end // HOUR) * HOUR
    for number, (length, first, before) in enumerate(pieces(*hours, SPANS)):
        of = joined([Condition(f"runs.span = {length}"), *between("runs.bucket", first, before, f"run{number}")])
        parts.append(f"SELECT lowest, highest FROM retrykit.letter_runs AS runs WHERE {of.sql}")
        values |= of.values
    new = joined(between("changes.dead_at", start, end, "fresh"))
    parts.append(f"SELECT number, number FROM retrykit.letter_changes AS changes WHERE {new.sql}")
    runs = f"FROM ({' UNION ALL '.join(parts)}) AS runs (lowest, highest)"
    numbers = f"letters.number >= (SELECT min(lowest) {runs}) AND letters.number <= (SELECT max(highest) {runs})"
    return [Condition(numbers, {**values, **new.values})]
