"""How tiermem opens SQLite files, and what their errors mean here."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tiers.errors import StoreBusy, StoreDamaged, StoreFull, StoreUnavailable, TierError

_BY_CODE: dict[int, tuple[type[TierError], str]] = {
    sqlite3.SQLITE_FULL: (StoreFull, "no space is left"),
    sqlite3.SQLITE_BUSY: (StoreBusy, "is locked by another process"),
    sqlite3.SQLITE_LOCKED: (StoreBusy, "is locked"),
    sqlite3.SQLITE_CORRUPT: (StoreDamaged, "is damaged"),
    sqlite3.SQLITE_NOTADB: (StoreDamaged, "is no SQLite file"),
    sqlite3.SQLITE_READONLY: (StoreUnavailable, "cannot be written"),
    sqlite3.SQLITE_CANTOPEN: (StoreUnavailable, "cannot be opened"),
    sqlite3.SQLITE_IOERR: (StoreUnavailable, "cannot be read or written"),
    sqlite3.SQLITE_PERM: (StoreUnavailable, "may not be opened"),
}


def connect(
    path: Path, *, busy_timeout_s: float = 10.0, synchronous: str = "FULL"
) -> sqlite3.Connection:
    """Open a SQLite file for durable use: WAL, synchronous FULL, no implicit BEGIN.

    With synchronous NORMAL a power loss may take the last transactions, and none waits for a disk.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    db = sqlite3.connect(
        path, timeout=busy_timeout_s, isolation_level=None, check_same_thread=False
    )
    db.row_factory = sqlite3.Row
    db.execute("PRAGMA journal_mode = WAL")
    db.execute(f"PRAGMA synchronous = {synchronous}")
    db.execute("PRAGMA foreign_keys = ON")
    db.execute("PRAGMA secure_delete = ON")
    return db


@contextmanager
def sqlite_errors(path: Path) -> Iterator[None]:
    """Translate SQLite's errors by primary result code; anything unknown is a bug and passes."""
    try:
        yield
    except sqlite3.ProgrammingError as exc:
        if "closed" not in str(exc):
            raise
        raise StoreUnavailable(f"{path} is closed") from exc
    except sqlite3.Error as exc:
        kind, what = _BY_CODE.get((exc.sqlite_errorcode or 0) & 0xFF, (None, ""))
        if kind is None:
            raise
        raise kind(f"{path} {what} ({exc})") from exc
