"""The tables of the SQLite file, and how they grew from version to version.

A migration adds tables, columns that may be empty, and triggers, and it changes indexes; it takes nothing away, though it may make
a table anew that triggers alone write, with more columns. So a process that still runs the version before may go on with a file that
a newer one has migrated: what it writes is complete, and what it reads is right.

What has to be counted is counted by triggers, in the same transaction as the row that is counted, whoever writes it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Final, TypeAlias

from .letter_rows import fill
from .letter_sums import add_up
from .letter_tables import AFTER_FILLING, BEFORE_FILLING

__all__ = ["MIGRATIONS", "SCHEMA_VERSION"]

_TABLES: Final = (
    """
    CREATE TABLE retrykit_schema (
        only INTEGER PRIMARY KEY CHECK (only = 1), version INTEGER NOT NULL, token INTEGER NOT NULL DEFAULT 0)
    """,
    "INSERT INTO retrykit_schema (only, version) VALUES (1, 0)",
    """
    CREATE TABLE retrykit_claims (
        key TEXT NOT NULL PRIMARY KEY, state TEXT NOT NULL, unsettled_at INTEGER, record TEXT NOT NULL)
    """,
    "CREATE INDEX retrykit_claims_unsettled ON retrykit_claims (unsettled_at, key) WHERE unsettled_at IS NOT NULL",
    """
    CREATE TABLE retrykit_retries (
        message_id TEXT NOT NULL, generation INTEGER NOT NULL, version INTEGER NOT NULL, due_at INTEGER NOT NULL,
        ready_at INTEGER NOT NULL, lease_owner TEXT, lease_token INTEGER, body BLOB NOT NULL, attributes TEXT NOT NULL,
        PRIMARY KEY (message_id, generation))
    """,
    "CREATE INDEX retrykit_retries_ready ON retrykit_retries (ready_at, message_id)",
    """
    CREATE TABLE retrykit_dead_letters (
        number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, message_id TEXT, campaign_id TEXT,
        provider TEXT, error_class TEXT, error_group TEXT, error_code TEXT, reason TEXT, state TEXT NOT NULL,
        record TEXT)
    """,
    "CREATE INDEX retrykit_dead_letters_message ON retrykit_dead_letters (message_id, number)",
    "CREATE INDEX retrykit_dead_letters_campaign ON retrykit_dead_letters (campaign_id, number)",
    "CREATE INDEX retrykit_dead_letters_provider ON retrykit_dead_letters (provider, number)",
    "CREATE INDEX retrykit_dead_letters_class ON retrykit_dead_letters (error_class, number)",
    """
    CREATE TABLE retrykit_deliveries (
        message_id TEXT NOT NULL PRIMARY KEY, status TEXT NOT NULL, version INTEGER NOT NULL, provider TEXT,
        provider_id TEXT, updated_at INTEGER NOT NULL)
    """,
    "CREATE INDEX retrykit_deliveries_status ON retrykit_deliveries (status, message_id)",
    """
    CREATE TABLE retrykit_pauses (
        key TEXT NOT NULL PRIMARY KEY, reason TEXT NOT NULL, by TEXT NOT NULL, since INTEGER NOT NULL, until INTEGER)
    """,
)
"""Version 1."""

_COUNTED: Final = "campaign_id provider error_class error_group error_code reason state".split()


def _same(row: str) -> str:
    return " AND ".join(f"{name} IS {row}.{name}" for name in _COUNTED)


_COUNT_ONE: Final = f"""
    INSERT INTO retrykit_dead_letter_totals ({", ".join(_COUNTED)}, total)
        SELECT {", ".join(f"new.{name}" for name in _COUNTED)}, 0
        WHERE NOT EXISTS (SELECT 1 FROM retrykit_dead_letter_totals WHERE {_same("new")});
    UPDATE retrykit_dead_letter_totals SET total = total + 1 WHERE {_same("new")};
"""
_DISCOUNT_ONE: Final = f"""
    UPDATE retrykit_dead_letter_totals SET total = total - 1 WHERE {_same("old")};
    DELETE FROM retrykit_dead_letter_totals WHERE total = 0 AND {_same("old")};
"""

_TOTALS_AND_RETENTION: Final = (
    "ALTER TABLE retrykit_claims ADD COLUMN settled_at INTEGER",
    """
    UPDATE retrykit_claims SET settled_at = json_extract(record, '$.settled_at')
        WHERE state = 'done' AND json_valid(record)
    """,
    "CREATE INDEX retrykit_claims_settled ON retrykit_claims (settled_at) WHERE settled_at IS NOT NULL",
    "ALTER TABLE retrykit_dead_letters ADD COLUMN dead_at INTEGER",
    """
    UPDATE retrykit_dead_letters SET dead_at = strftime('%s', json_extract(record, '$.dead_lettered_at')) * 1000
        WHERE json_valid(record)
    """,
    "CREATE INDEX retrykit_dead_letters_age ON retrykit_dead_letters (dead_at)",
    "CREATE INDEX retrykit_dead_letters_group ON retrykit_dead_letters (error_group, number)",
    "CREATE INDEX retrykit_dead_letters_code ON retrykit_dead_letters (error_code, number)",
    "CREATE INDEX retrykit_dead_letters_reason ON retrykit_dead_letters (reason, number)",
    "CREATE INDEX retrykit_dead_letters_state ON retrykit_dead_letters (state, number)",
    f"""
    CREATE TABLE retrykit_dead_letter_totals ({", ".join(f"{name} TEXT" for name in _COUNTED)}, total INTEGER NOT NULL)
    """,
    f"CREATE INDEX retrykit_dead_letter_totals_row ON retrykit_dead_letter_totals ({', '.join(_COUNTED)})",
    f"""
    INSERT INTO retrykit_dead_letter_totals
        SELECT {", ".join(_COUNTED)}, count(*) FROM retrykit_dead_letters WHERE record IS NOT NULL
        GROUP BY {", ".join(_COUNTED)}
    """,
    f"""
    CREATE TRIGGER retrykit_dead_letter_put AFTER INSERT ON retrykit_dead_letters WHEN new.record IS NOT NULL
    BEGIN {_COUNT_ONE} END
    """,
    f"""
    CREATE TRIGGER retrykit_dead_letter_changed AFTER UPDATE OF state ON retrykit_dead_letters
        WHEN new.record IS NOT NULL AND new.state IS NOT old.state
    BEGIN {_DISCOUNT_ONE} {_COUNT_ONE} END
    """,
    f"""
    CREATE TRIGGER retrykit_dead_letter_gone AFTER DELETE ON retrykit_dead_letters WHEN old.record IS NOT NULL
    BEGIN {_DISCOUNT_ONE} END
    """,
    "DROP INDEX retrykit_retries_ready",
    "CREATE INDEX retrykit_retries_ready ON retrykit_retries (ready_at, message_id, generation)",
    "CREATE INDEX retrykit_retries_leased ON retrykit_retries (lease_token) WHERE lease_token IS NOT NULL",
    "CREATE TABLE retrykit_circuits (name TEXT NOT NULL PRIMARY KEY, keep_until INTEGER, record TEXT NOT NULL)",
    "CREATE INDEX retrykit_circuits_old ON retrykit_circuits (keep_until) WHERE keep_until IS NOT NULL",
    "CREATE INDEX retrykit_deliveries_age ON retrykit_deliveries (updated_at, status)",
)
"""Version 2: letters are counted as they come, every field of a query is indexed, old records can be found, and breakers share
their circuits."""

_DELIVERY_FACTS: Final = (
    "CREATE TABLE retrykit_delivery_facts (message_id TEXT NOT NULL PRIMARY KEY, told TEXT, record TEXT NOT NULL)",
    """
    CREATE TRIGGER retrykit_delivery_put AFTER INSERT ON retrykit_deliveries
        WHEN EXISTS (SELECT 1 FROM retrykit_delivery_facts WHERE message_id = new.message_id AND told <> new.status)
    BEGIN
        UPDATE retrykit_deliveries SET status = (
            SELECT told FROM retrykit_delivery_facts WHERE message_id = new.message_id) WHERE message_id = new.message_id;
    END
    """,
    """
    CREATE TRIGGER retrykit_delivery_gone AFTER DELETE ON retrykit_deliveries
    BEGIN DELETE FROM retrykit_delivery_facts WHERE message_id = old.message_id; END
    """,
    """
    CREATE INDEX retrykit_deliveries_provider ON retrykit_deliveries (provider_id, provider)
        WHERE provider_id IS NOT NULL
    """,
    "CREATE INDEX retrykit_deliveries_unexpected ON retrykit_deliveries (message_id) WHERE version < 0",
)
"""Version 3: what providers told of a message stands beside its delivery, where a process of the version before, which replaces whole
rows, does not lose it; the trigger shows it in the status whoever writes."""

_RECONCILIATION: Final = (
    "CREATE TABLE retrykit_bookmarks (source TEXT NOT NULL PRIMARY KEY, at INTEGER NOT NULL)",
    "CREATE INDEX retrykit_deliveries_silence ON retrykit_deliveries (status, updated_at, message_id)",
)
"""Version 4: how far a source of events was compared with the deliveries, and which of those have been silent for long."""

_REDRIVES: Final = (
    """
    CREATE TABLE retrykit_redrives (
        id TEXT NOT NULL PRIMARY KEY, is_active INTEGER NOT NULL, created_at INTEGER NOT NULL, record TEXT NOT NULL)
    """,
    "CREATE INDEX retrykit_redrives_age ON retrykit_redrives (created_at DESC, id)",
    "CREATE INDEX retrykit_redrives_active ON retrykit_redrives (created_at DESC, id) WHERE is_active",
    "CREATE TABLE retrykit_audit (entry TEXT NOT NULL PRIMARY KEY, at INTEGER NOT NULL, step INTEGER NOT NULL)",
    "CREATE INDEX retrykit_audit_age ON retrykit_audit (at DESC, step DESC, entry)",
    """
    CREATE TRIGGER retrykit_audit_changed BEFORE UPDATE ON retrykit_audit
    BEGIN SELECT raise(ABORT, 'the audit log of retrykit is not changed'); END
    """,
    """
    CREATE TRIGGER retrykit_audit_gone BEFORE DELETE ON retrykit_audit
    BEGIN SELECT raise(ABORT, 'the audit log of retrykit is not shortened'); END
    """,
)

Step: TypeAlias = str | Callable[[sqlite3.Connection], None]

_WORKBENCH: Final[tuple[Step, ...]] = (*BEFORE_FILLING, fill, *AFTER_FILLING, add_up, *_REDRIVES)
"""Version 5: letters are found by every field and attribute, and counted by each within any window; redrives and the audit log."""

_MARKS: Final = (
    """
    CREATE TABLE retrykit_marks (
        fingerprint TEXT NOT NULL, source TEXT NOT NULL, at INTEGER NOT NULL, PRIMARY KEY (fingerprint, source))
        WITHOUT ROWID
    """,
    "CREATE INDEX retrykit_marks_age ON retrykit_marks (at)",
)

_SIGNALS: Final = ("CREATE TABLE retrykit_signals (name TEXT NOT NULL PRIMARY KEY, record TEXT NOT NULL)",)

_WATCHING: Final[tuple[Step, ...]] = (*_MARKS, *_SIGNALS)
"""Version 6: what came of payloads, by their fingerprints; what a fleet has met lately, and the alerts in force."""

MIGRATIONS: Final[tuple[tuple[Step, ...], ...]] = (
    _TABLES,
    _TOTALS_AND_RETENTION,
    _DELIVERY_FACTS,
    _RECONCILIATION,
    _WORKBENCH,
    _WATCHING,
)
"""The steps that lead from each version to the next, from an empty file on: statements, and what no statement can do."""

SCHEMA_VERSION: Final = len(MIGRATIONS)
