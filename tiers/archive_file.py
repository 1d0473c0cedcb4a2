"""The SQLite file of an archive: one writer, as many readers as ask at once."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tiers.errors import InvalidRecord, StoreUnavailable
from tiers.migrations import migrate
from tiers.sqlite import connect, sqlite_errors

_MIGRATIONS = Path(__file__).parent / "sql" / "sqlite"

#: From here on FTS5 can remove a word at once instead of marking it.
_HAS_SECURE_DELETE = sqlite3.sqlite_version_info >= (3, 42)
_SECURE_DELETE_FORMAT = 5


class ArchiveFile:
    """Transactions on one file; any thread may ask for any of them.

    A write is durable when its block ends. A read sees one moment, and waits for no writer.
    """

    def __init__(self, path: Path, *, max_bytes: int | None = None) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._write_lock = threading.Lock()  # guards what _writer does
        self._state_lock = threading.Lock()  # guards _writer, _idle and _is_closed
        self._writer: sqlite3.Connection | None = None
        self._idle: list[sqlite3.Connection] = []
        self._is_closed = False

    def open(self) -> None:
        """Create or migrate the file; again is no error. Raises StoreMismatch for a newer one."""
        with self._state_lock, self._errors():
            if self._is_closed:
                raise StoreUnavailable(f"{self._path} was closed", hint="build a new archive")
            if self._writer is None:
                self._writer = self._open_writer()

    def _open_writer(self) -> sqlite3.Connection:
        db = connect(self._path)
        try:
            if self._max_bytes is not None:
                (page_size,) = db.execute("PRAGMA page_size").fetchone()
                db.execute(f"PRAGMA max_page_count = {max(1, self._max_bytes // page_size)}")
            migrate(db, _MIGRATIONS)
            _settle_words(db)
        except BaseException:
            db.close()
            raise
        return db

    @contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """Run a transaction: all of it or nothing."""
        with self._write_lock, self._errors():
            db = self._open_connection()
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """Lend a connection that sees one moment of the file."""
        with self._errors():
            db = self._take_reader()
            try:
                db.execute("BEGIN")
                yield db
            finally:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                self._give_back(db)

    def erase_log(self) -> None:
        """Empty the write-ahead log, which still holds erased text; a busy reader delays it."""
        with self._write_lock, self._errors():
            self._open_connection().execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def close(self) -> None:
        """Close every connection, those that are lent when they come back."""
        with self._write_lock, self._state_lock:
            self._is_closed = True
            while self._idle:
                self._idle.pop().close()
            if self._writer is not None:
                self._writer.close()
                self._writer = None

    def _open_connection(self) -> sqlite3.Connection:
        with self._state_lock:
            if self._writer is None:
                raise StoreUnavailable(f"{self._path} is not open")
            return self._writer

    def _take_reader(self) -> sqlite3.Connection:
        with self._state_lock:
            if self._writer is None:
                raise StoreUnavailable(f"{self._path} is not open")
            if self._idle:
                return self._idle.pop()
        return connect(self._path)

    def _give_back(self, db: sqlite3.Connection) -> None:
        with self._state_lock:
            if not self._is_closed:
                self._idle.append(db)
                return
        db.close()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        with sqlite_errors(self._path):
            try:
                yield
            except OSError as error:
                raise StoreUnavailable(f"{self._path} cannot be opened: {error}") from error
            except (UnicodeEncodeError, OverflowError) as error:
                raise InvalidRecord(f"the archive cannot hold this: {error}") from error
            except sqlite3.DataError as error:
                raise InvalidRecord(f"too large for the archive: {error}") from error


def erase_words(db: sqlite3.Connection) -> None:
    """Rewrite the full-text index without the words of rows that left it, where they linger."""
    if not _HAS_SECURE_DELETE:
        db.execute("INSERT INTO memory_text (memory_text) VALUES ('optimize')")


def _settle_words(db: sqlite3.Connection) -> None:
    if _HAS_SECURE_DELETE:
        if _text_setting(db, "secure-delete") != 1:
            db.execute("INSERT INTO memory_text (memory_text, rank) VALUES ('secure-delete', 1)")
    elif _text_setting(db, "version") == _SECURE_DELETE_FORMAT:
        _rebuild_words(db)


def _rebuild_words(db: sqlite3.Connection) -> None:
    """Make the index anew, which a newer SQLite left in a format that this one cannot read."""
    db.execute("BEGIN IMMEDIATE")
    try:
        # Without it this SQLite would not even open the table; rebuilding reads none of the index.
        db.execute("UPDATE memory_text_config SET v = 4 WHERE k = 'version'")
        db.execute("INSERT INTO memory_text (memory_text) VALUES ('rebuild')")
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def _text_setting(db: sqlite3.Connection, name: str) -> int | None:
    row = db.execute("SELECT v FROM memory_text_config WHERE k = ?", (name,)).fetchone()
    return None if row is None else int(row[0])
