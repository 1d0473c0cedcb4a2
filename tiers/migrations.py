"""Numbered schema changes: which are due, and running them on SQLite.

A folder holds `0001_name.sql`, `0002_name.sql`, …; each runs once, and a file that was applied may
never be edited again.
"""

from __future__ import annotations

import hashlib
import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tiers.errors import StoreMismatch

_NAME = re.compile(r"(\d{4})_[a-z0-9_]+\.sql")

_LEDGER = """
CREATE TABLE IF NOT EXISTS schema_migrations (
    version     INTEGER PRIMARY KEY,
    name        TEXT NOT NULL,
    sha256      TEXT NOT NULL,
    applied_at  TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP
)
"""


@dataclass(frozen=True, slots=True)
class Migration:
    """One numbered file."""

    version: int
    name: str
    sql: str

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.sql.encode()).hexdigest()


def read_migrations(folder: Path) -> list[Migration]:
    """Read the numbered files of a folder, in order."""
    return [
        # Universal newlines: a checkout with CRLF must not look edited.
        Migration(int(found[1]), path.name, path.read_text(encoding="utf-8"))
        for path in sorted(folder.iterdir())
        if (found := _NAME.fullmatch(path.name))
    ]


def due(known: Sequence[Migration], applied: Mapping[int, str]) -> list[Migration]:
    """Choose what is still to run; `applied` maps versions to hashes.

    Raises StoreMismatch for a schema that is newer than `known` and for an edited applied file.
    """
    newest = max((migration.version for migration in known), default=0)
    if any(version > newest for version in applied):
        raise StoreMismatch(
            f"the schema is at version {max(applied)}, this tiermem knows {newest}",
            hint="use the newer tiermem that wrote this store; nothing was changed",
        )
    for migration in known:
        if applied.get(migration.version, migration.sha256) != migration.sha256:
            raise StoreMismatch(
                f"{migration.name} was edited after it had been applied",
                hint="reinstall tiermem; nothing was changed",
            )
    return [migration for migration in known if migration.version not in applied]


def migrate(db: sqlite3.Connection, folder: Path) -> None:
    """Bring a SQLite file up to date in one transaction, safe with other processes doing the same.

    `db` begins no transactions by itself (`isolation_level=None`). Raises StoreMismatch, before
    anything is changed.
    """
    known = read_migrations(folder)
    if not due(known, _applied(db)):
        return
    db.execute("BEGIN IMMEDIATE")
    try:
        db.execute(_LEDGER)
        for migration in due(known, _applied(db)):
            _run(db, migration)
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def _applied(db: sqlite3.Connection) -> dict[int, str]:
    ledger = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'schema_migrations'"
    if db.execute(ledger).fetchone() is None:
        return {}
    return {
        int(version): str(sha256)
        for version, sha256 in db.execute("SELECT version, sha256 FROM schema_migrations")
    }


def _run(db: sqlite3.Connection, migration: Migration) -> None:
    # Not executescript: it would commit what is open.
    for statement in statements(migration.sql):
        db.execute(statement)
    db.execute(
        "INSERT INTO schema_migrations (version, name, sha256) VALUES (?, ?, ?)",
        (migration.version, migration.name, migration.sha256),
    )


def statements(sql: str) -> Iterator[str]:
    """Split a script at the semicolons that end a line and complete a statement."""
    text = ""
    for line in sql.splitlines(keepends=True):
        text += line
        if line.rstrip().endswith(";") and sqlite3.complete_statement(text):
            yield text
            text = ""
    if text.strip():
        yield text
