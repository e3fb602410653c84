"""What is well and what is not with a SQLite file."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote

from ..doctor import Finding, Level, latency
from .schema import SCHEMA_VERSION

__all__ = ["diagnose"]

_CHECKED: Final = 2**30
"""Bytes up to which a file is read through."""
_LOG: Final = 256 * 2**20
"""Bytes of the write-ahead log."""
_FREE: Final = 256 * 2**20
_MUCH: Final = 0.005
"""Seconds of a read."""


def diagnose(url: str) -> Sequence[Finding]:
    """Look at a file: its tables, log, disk and speed, and whether it may be written."""
    file = Path(unquote(url.partition("://")[2].removeprefix("/"))).absolute()
    if not file.is_file():
        said = f"there is no file {str(file)!r}"
        return [Finding("file", Level.PROBLEM, said, "check the path; a service makes the file when it starts")]
    try:
        db = sqlite3.connect(f"file:{quote(str(file))}?mode=ro", uri=True, timeout=5)
        try:
            return [*_file(file), *_tables(db, file), latency(lambda: db.execute("SELECT 1 FROM sqlite_schema"), _MUCH)]
        finally:
            db.close()
    except sqlite3.Error as error:
        said = f"{str(file)!r} cannot be read: {error}"
        return [Finding("file", Level.PROBLEM, said, "restore it from a backup, or wait for who holds it")]


def _file(file: Path) -> list[Finding]:
    size, free = file.stat().st_size, shutil.disk_usage(file.parent).free
    found = [Finding("file", Level.OK, f"{str(file)!r} has {_mib(size)}; SQLite is {sqlite3.sqlite_version}")]
    if not os.access(file, os.W_OK) or not os.access(file.parent, os.W_OK):
        said = "this user may not write the file or its folder"
        found.append(Finding("access", Level.PROBLEM, said, "give it to the user that the service runs as"))
    full = free < _FREE
    advice = "make room, or purge what is settled" if full else ""
    found.append(Finding("disk", Level.WARNING if full else Level.OK, f"{_mib(free)} are free", advice))
    log = file.with_name(f"{file.name}-wal")
    length = log.stat().st_size if log.is_file() else 0
    if length > _LOG:
        said = f"the write-ahead log has {_mib(length)}: a reader may hold it"
        found.append(Finding("log", Level.WARNING, said, "end long transactions and backups on this file"))
    return found


def _tables(db: sqlite3.Connection, file: Path) -> list[Finding]:
    found: list[Finding] = []
    if not db.execute("SELECT 1 FROM sqlite_schema WHERE name = 'retrykit_schema'").fetchone():
        return [
            Finding("schema", Level.WARNING, "there are no tables of retrykit's in it yet", "start the service once")
        ]
    (version,) = db.execute("SELECT version FROM retrykit_schema").fetchone()
    said = f"the tables are of version {version}, this retrykit writes {SCHEMA_VERSION}"
    if version > SCHEMA_VERSION:
        found.append(Finding("schema", Level.PROBLEM, said, "upgrade retrykit here"))
    else:
        older = "the next process that opens the file for writing renews them"
        found.append(Finding("schema", Level.OK, said if version == SCHEMA_VERSION else f"{said}; {older}"))
    (mode,) = db.execute("PRAGMA journal_mode").fetchone()
    if mode != "wal":
        found.append(
            Finding("journal", Level.WARNING, f"the journal mode is {mode}", "let no other program change it from wal")
        )
    if file.stat().st_size <= _CHECKED:
        (answer,) = db.execute("PRAGMA quick_check(1)").fetchone()
        is_sound = answer == "ok"
        found.append(
            Finding("content", Level.OK, "the file is sound")
            if is_sound
            else Finding("content", Level.PROBLEM, f"the file is damaged: {answer}", "restore it from a backup")
        )
    return found


def _mib(size: int) -> str:
    return f"{size / 1024 / 1024:,.1f} MiB"
