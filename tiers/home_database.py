"""The SQLite file behind a home's outbox and catalogue."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tiers.migrations import migrate
from tiers.sqlite import connect, sqlite_errors

_MIGRATIONS = Path(__file__).parent / "sql" / "home"


class HomeDatabase:
    """One file, one writing and one reading connection; any thread may use either.

    A transaction is durable when `write` returns (WAL, synchronous FULL). Beyond `max_bytes`,
    where given, a write is refused as it is on a full disk.
    """

    def __init__(self, path: Path, *, max_bytes: int | None = None) -> None:
        self._path = path
        with sqlite_errors(path):
            self._writer = connect(path)
            migrate(self._writer, _MIGRATIONS)
            if max_bytes is not None:
                (page_size,) = self._writer.execute("PRAGMA page_size").fetchone()
                self._writer.execute(f"PRAGMA max_page_count = {max(1, max_bytes // page_size)}")
            self._reader = connect(path)
        self._write_lock = threading.RLock()  # guards _writer and _depth
        self._read_lock = threading.Lock()  # guards _reader
        self._depth = 0

    @contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """Open a transaction; a nested one belongs to the outermost."""
        with self._write_lock, sqlite_errors(self._path):
            self._depth += 1
            try:
                if self._depth == 1:
                    self._writer.execute("BEGIN IMMEDIATE")
                yield self._writer
                if self._depth == 1:
                    self._writer.execute("COMMIT")
            except BaseException:
                # A commit can fail too, and a transaction left open would fail every later one.
                if self._depth == 1 and self._writer.in_transaction:
                    self._writer.execute("ROLLBACK")
                raise
            finally:
                self._depth -= 1

    def read(self, sql: str, values: Sequence[Any] | Mapping[str, Any] = ()) -> list[sqlite3.Row]:
        """Run a query on what is committed."""
        with self._read_lock, sqlite_errors(self._path):
            return self._reader.execute(sql, values).fetchall()

    def fact(self, name: str) -> str | None:
        """Read a small fact."""
        rows = self.read("SELECT value FROM fact WHERE name = ?", (name,))
        return str(rows[0]["value"]) if rows else None

    def set_fact(self, name: str, value: str) -> None:
        """Keep a small fact."""
        with self.write() as db:
            db.execute(
                "INSERT INTO fact VALUES (?, ?)"
                " ON CONFLICT (name) DO UPDATE SET value = excluded.value",
                (name, value),
            )

    def close(self) -> None:
        """Close both connections; closing twice is no error."""
        with self._write_lock, self._read_lock:
            self._writer.close()
            self._reader.close()
