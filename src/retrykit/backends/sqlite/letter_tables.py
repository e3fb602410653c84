"""The tables behind queries of dead letters: version 5 of the file.

Beside the letters stand

- a column, with an index in the order of putting, for each field that a query compares, and the message's attributes in a
  table of their own;
- ``totals``: a row for each combination of values that letters have in the fields they are counted by, with its number. A letter
  names its row as its ``kind``;
- ``minutes``: how many letters of a kind died in a minute, and how many of them the sums hold already;
- ``sums``: how many letters have a value in a field, in all and among those with a value in another one (`SUMMED` says which), for
  each hour, for each day and for all time;
- ``runs``: which numbers the letters of an hour and of a day have, so that a search within a window knows where to look;
- ``notes``: what people noted of a group.

Triggers keep totals, minutes and runs in the transaction of the letter, whoever writes it. A process of this version now and then
adds what is new in the minutes to the sums (`letter_sums.add_up`); whoever reads the sums adds the rest to them. A letter of a
process of an earlier version has no values in the new columns: they are filled when it is seen (`letter_rows.fill`).
"""

from __future__ import annotations

from typing import Final

from ..letter_fields import COMPARED, COUNTED

__all__ = ["AFTER_FILLING", "BEFORE_FILLING", "DAY", "HOUR", "KIND_OF", "MINUTE", "NEW_KIND", "SPANS"]

MINUTE: Final = 60_000
HOUR: Final = 60
DAY: Final = 24 * 60
"""Milliseconds of a minute, and minutes of the longer spans; 0 stands for all time."""

SPANS: Final = (HOUR, DAY)

_SAME: Final = " AND ".join(f"{name} IS new.{name}" for name in COUNTED)

KIND_OF: Final = f"SELECT id FROM retrykit_dead_letter_totals WHERE {' AND '.join(f'{name} IS ?' for name in COUNTED)}"
"""The kind of these values."""
NEW_KIND: Final = (
    f"INSERT INTO retrykit_dead_letter_totals ({', '.join(COUNTED)}, total) VALUES ({', '.join('?' * len(COUNTED))}, 0)"
)


def _floor(number: str, length: int) -> str:
    """Return the SQL that divides a whole number, rounded down also below 0."""
    return f"(({number} - ({number} % {length} + {length}) % {length}) / {length})"


def _bucket(row: str, span: int) -> str:
    return _floor(f"coalesce({row}dead_at, 0)", span * MINUTE)


_NAME_KIND: Final = f"""
    INSERT INTO retrykit_dead_letter_totals ({", ".join(COUNTED)}, total)
        SELECT {", ".join(f"new.{name}" for name in COUNTED)}, 0
        WHERE NOT EXISTS (SELECT 1 FROM retrykit_dead_letter_totals WHERE {_SAME});
    UPDATE retrykit_dead_letters SET kind = (SELECT id FROM retrykit_dead_letter_totals WHERE {_SAME})
        WHERE number = new.number;
"""

_ONE_MORE: Final = f"""
    UPDATE retrykit_dead_letter_totals SET total = total + 1 WHERE id = new.kind;
    INSERT INTO retrykit_dead_letter_minutes (minute, kind, total, added) VALUES ({_bucket("new.", 1)}, new.kind, 1, 0)
        ON CONFLICT (minute, kind) DO UPDATE SET total = total + 1;
""" + "".join(
    f"""
    INSERT INTO retrykit_dead_letter_runs (span, bucket, lowest, highest)
        VALUES ({span}, {_bucket("new.", span)}, new.number, new.number)
        ON CONFLICT (span, bucket) DO UPDATE SET lowest = min(lowest, new.number), highest = max(highest, new.number);
    """
    for span in SPANS
)

_ONE_LESS: Final = f"""
    UPDATE retrykit_dead_letter_totals SET total = total - 1 WHERE id = old.kind;
    UPDATE retrykit_dead_letter_minutes SET total = total - 1 WHERE minute = {_bucket("old.", 1)} AND kind = old.kind;
    DELETE FROM retrykit_dead_letter_minutes
        WHERE minute = {_bucket("old.", 1)} AND kind = old.kind AND total = 0 AND added = 0;
"""

_INDEX_OF: Final = {
    "message_id": "message",
    "campaign_id": "campaign",
    "provider": "provider",
    "error_class": "class",
    "error_group": "group",
    "error_code": "code",
    "reason": "reason",
    "state": "state",
}
"""What the indexes of version 4 are called, by field."""

BEFORE_FILLING: Final = (
    "DROP TRIGGER retrykit_dead_letter_put",
    "DROP TRIGGER retrykit_dead_letter_changed",
    "DROP TRIGGER retrykit_dead_letter_gone",
    *(f"DROP INDEX retrykit_dead_letters_{name}" for name in _INDEX_OF.values()),
    *(f"ALTER TABLE retrykit_dead_letters ADD COLUMN {name} TEXT" for name in COMPARED if name not in _INDEX_OF),
    "ALTER TABLE retrykit_dead_letters ADD COLUMN said TEXT",
    "ALTER TABLE retrykit_dead_letters ADD COLUMN filled INTEGER",
    "ALTER TABLE retrykit_dead_letters ADD COLUMN kind INTEGER",
    """
    CREATE TABLE retrykit_dead_letter_attributes (
        number INTEGER NOT NULL, name TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (number, name)) WITHOUT ROWID
    """,
    """
    CREATE INDEX retrykit_dead_letters_unfilled ON retrykit_dead_letters (number)
        WHERE filled IS NULL AND record IS NOT NULL
    """,
)
"""The statements before the new columns are filled."""

AFTER_FILLING: Final = (
    "CREATE INDEX retrykit_dead_letter_attributes_value ON retrykit_dead_letter_attributes (name, value, number)",
    "DROP TABLE retrykit_dead_letter_totals",
    f"""
    CREATE TABLE retrykit_dead_letter_totals (
        id INTEGER PRIMARY KEY, {", ".join(f"{name} TEXT" for name in COUNTED)}, total INTEGER NOT NULL)
    """,
    f"""
    INSERT INTO retrykit_dead_letter_totals ({", ".join(COUNTED)}, total)
        SELECT {", ".join(COUNTED)}, count(*) FROM retrykit_dead_letters WHERE record IS NOT NULL GROUP BY {", ".join(COUNTED)}
    """,
    f"CREATE INDEX retrykit_dead_letter_totals_row ON retrykit_dead_letter_totals ({', '.join(COUNTED)})",
    *(
        f"CREATE INDEX retrykit_dead_letter_totals_{name} ON retrykit_dead_letter_totals ({name})"
        for name in COUNTED[1:]
    ),
    "CREATE INDEX retrykit_dead_letter_totals_empty ON retrykit_dead_letter_totals (id) WHERE total = 0",
    f"""
    UPDATE retrykit_dead_letters SET kind = (
        SELECT id FROM retrykit_dead_letter_totals AS totals
        WHERE {" AND ".join(f"totals.{name} IS retrykit_dead_letters.{name}" for name in COUNTED)}) WHERE record IS NOT NULL
    """,
    """
    CREATE TABLE retrykit_dead_letter_minutes (
        minute INTEGER NOT NULL, kind INTEGER NOT NULL, total INTEGER NOT NULL, added INTEGER NOT NULL,
        PRIMARY KEY (minute, kind)) WITHOUT ROWID
    """,
    f"""
    INSERT INTO retrykit_dead_letter_minutes (minute, kind, total, added)
        SELECT {_bucket("", 1)}, kind, count(*), 0 FROM retrykit_dead_letters WHERE record IS NOT NULL GROUP BY 1, 2
    """,
    """
    CREATE INDEX retrykit_dead_letter_minutes_new ON retrykit_dead_letter_minutes (minute, kind) WHERE total <> added
    """,
    """
    CREATE TABLE retrykit_dead_letter_sums (
        span INTEGER NOT NULL, bucket INTEGER NOT NULL, field TEXT NOT NULL, value TEXT NOT NULL, by_field TEXT NOT NULL,
        by_value TEXT NOT NULL, total INTEGER NOT NULL, PRIMARY KEY (span, bucket, field, value, by_field, by_value))
        WITHOUT ROWID
    """,
    """
    CREATE TABLE retrykit_dead_letter_runs (
        span INTEGER NOT NULL, bucket INTEGER NOT NULL, lowest INTEGER NOT NULL, highest INTEGER NOT NULL,
        PRIMARY KEY (span, bucket)) WITHOUT ROWID
    """,
    *(
        f"""
        INSERT INTO retrykit_dead_letter_runs SELECT {span}, {_bucket("", span)},
            min(number), max(number) FROM retrykit_dead_letters WHERE record IS NOT NULL GROUP BY 2
        """
        for span in SPANS
    ),
    """
    CREATE TABLE retrykit_dead_letter_notes (
        fingerprint TEXT NOT NULL PRIMARY KEY, muted INTEGER NOT NULL, muted_until INTEGER, owner TEXT NOT NULL,
        note TEXT NOT NULL, updated_by TEXT NOT NULL, updated_at INTEGER NOT NULL) WITHOUT ROWID
    """,
    *(
        f"""
        CREATE INDEX retrykit_dead_letters_by_{name} ON retrykit_dead_letters ({name}, number, dead_at)
            WHERE {name} IS NOT NULL
        """
        for name in COMPARED
        if name != "state"
    ),
    "CREATE INDEX retrykit_dead_letters_by_state ON retrykit_dead_letters (state, number, dead_at)",
    "CREATE INDEX retrykit_dead_letters_early ON retrykit_dead_letters (dead_at) WHERE record IS NULL",
    "CREATE INDEX retrykit_dead_letters_kind ON retrykit_dead_letters (kind, dead_at) WHERE kind IS NOT NULL",
    """
    CREATE INDEX retrykit_dead_letters_seen ON retrykit_dead_letters (fingerprint, dead_at)
        WHERE fingerprint IS NOT NULL
    """,
    """
    CREATE INDEX retrykit_dead_letters_waiting ON retrykit_dead_letters (dead_at)
        WHERE state = 'quarantined' AND record IS NOT NULL
    """,
    f"""
    CREATE TRIGGER retrykit_dead_letter_put AFTER INSERT ON retrykit_dead_letters WHEN new.kind IS NOT NULL
    BEGIN {_ONE_MORE} END
    """,
    f"""
    CREATE TRIGGER retrykit_dead_letter_named AFTER INSERT ON retrykit_dead_letters
        WHEN new.kind IS NULL AND new.record IS NOT NULL
    BEGIN {_NAME_KIND} END
    """,
    f"""
    CREATE TRIGGER retrykit_dead_letter_changed AFTER UPDATE OF {", ".join(COUNTED)} ON retrykit_dead_letters
        WHEN new.record IS NOT NULL AND ({" OR ".join(f"new.{name} IS NOT old.{name}" for name in COUNTED)})
    BEGIN {_NAME_KIND} END
    """,
    f"""
    CREATE TRIGGER retrykit_dead_letter_moved AFTER UPDATE OF kind, dead_at ON retrykit_dead_letters
        WHEN new.kind IS NOT NULL AND (new.kind IS NOT old.kind OR new.dead_at IS NOT old.dead_at)
    BEGIN {_ONE_LESS} {_ONE_MORE} END
    """,
    f"""
    CREATE TRIGGER retrykit_dead_letter_gone AFTER DELETE ON retrykit_dead_letters WHEN old.record IS NOT NULL
    BEGIN
        {_ONE_LESS}
        DELETE FROM retrykit_dead_letter_attributes WHERE number = old.number;
    END
    """,
)
"""The statements after it. The indexes and triggers come last, so that a file of a million letters is not changed row by row."""
