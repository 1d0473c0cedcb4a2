"""Which memories searches gave, and of how much use they were said to be: a file of its own.

It is less than a memory: a power loss may take its last second, and a damaged file is made anew.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

from tiers.errors import StoreDamaged, StoreUnavailable
from tiers.migrations import migrate
from tiers.records import Usage
from tiers.sqlite import connect, sqlite_errors

log = logging.getLogger(__name__)

#: How long a receipt can be answered.
KEPT = timedelta(days=90)

#: Each new receipt takes so many old ones away, so that no search waits for a great clean-up.
_PRUNED_AT_ONCE = 20

#: A search does not wait for whoever else has the file open.
_BUSY_S = 0.1

_MIGRATIONS = Path(__file__).parent / "sql" / "usage"

_Found = TypeVar("_Found")


class Verdict(StrEnum):
    """What was said of a memory that a search gave."""

    USED = "used"
    IGNORED = "ignored"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class Shown:
    """What a search gave, and to whom."""

    project: str
    owner: str
    memories: frozenset[str]


@dataclass(frozen=True, slots=True)
class Recall:
    """One search: its receipt, when it was, and what it gave, by id."""

    receipt: str
    at: datetime
    memories: tuple[str, ...]


class UsageLog:
    """Receipts of searches and the verdicts on them. Any thread may use it.

    Every method raises only `TierError`s. A receipt is answered within `KEPT`; verdicts stay.
    """

    def __init__(
        self, path: Path, *, new_id: Callable[[], str], max_bytes: int | None = None
    ) -> None:
        self._path = path
        self._new_id = new_id
        self._max_bytes = max_bytes
        self._lock = threading.Lock()  # guards _db and _is_closed
        self._db: sqlite3.Connection | None = None
        self._is_closed = False

    def open(self) -> None:
        """Open the file, making it when there is none or it is damaged; again is no error."""
        self._run(lambda _: None)

    def note(self, project: str, owner: str, record_ids: Collection[str], *, now: datetime) -> str:
        """Note what a search gave; returns the receipt."""
        return self._run(lambda db: self._note(db, project, owner, record_ids, now))

    def _note(
        self,
        db: sqlite3.Connection,
        project: str,
        owner: str,
        record_ids: Collection[str],
        now: datetime,
    ) -> str:
        receipt = self._new_id()
        db.execute(
            "DELETE FROM receipt WHERE key IN"
            " (SELECT key FROM receipt WHERE at < ? ORDER BY at LIMIT ?)",
            (_seconds(now - KEPT), _PRUNED_AT_ONCE),
        )
        key = db.execute(
            "INSERT INTO receipt (id, project, owner, at) VALUES (?, ?, ?, ?)",
            (receipt, project, owner, _seconds(now)),
        ).lastrowid
        db.executemany(
            "INSERT OR IGNORE INTO shown VALUES (?, ?)", [(key, each) for each in record_ids]
        )
        return receipt

    def shown(self, receipt: str, *, now: datetime) -> Shown | None:
        """Read what a search gave; None for a receipt that is unknown or too old."""
        return self._run(lambda db: _shown(db, receipt, now))

    def recent(self, project: str, owner: str, limit: int) -> list[Recall]:
        """Read the last searches of an owner in a project, newest first."""
        return self._run(lambda db: _recent(db, project, owner, limit))

    def tell(self, receipt: str, verdicts: Mapping[str, Verdict], *, now: datetime) -> None:
        """Keep one verdict for each memory that the receipt names; a later one replaces it."""
        rows = [
            (receipt, record_id, verdict, _seconds(now), receipt, record_id)
            for record_id, verdict in verdicts.items()
        ]
        # Only what was shown: a memory may have been forgotten since the receipt was read.
        self._run(
            lambda db: db.executemany(
                "INSERT INTO verdict SELECT ?, ?, ?, ? WHERE EXISTS"
                " (SELECT 1 FROM receipt JOIN shown ON shown.receipt = receipt.key"
                "  WHERE receipt.id = ? AND shown.memory = ?)"
                " ON CONFLICT DO UPDATE SET verdict = excluded.verdict, at = excluded.at"
                " WHERE verdict.verdict != excluded.verdict",
                rows,
            )
        )

    def of(self, record_ids: Sequence[str]) -> dict[str, Usage]:
        """Count the verdicts on memories; those without any are left out."""
        return self._run(lambda db: {key: u for key in record_ids if (u := _usage(db, key))})

    def forget(self, record_ids: Sequence[str]) -> None:
        """Remove memories from receipts and verdicts."""
        keys = [(record_id,) for record_id in record_ids]

        def remove(db: sqlite3.Connection) -> None:
            db.executemany("DELETE FROM shown WHERE memory = ?", keys)
            db.executemany("DELETE FROM verdict WHERE memory = ?", keys)

        self._run(remove)

    def close(self) -> None:
        """Close the file; closing twice is no error."""
        with self._lock:
            self._is_closed = True
            self._drop()

    # The file.

    def _run(self, work: Callable[[sqlite3.Connection], _Found]) -> _Found:
        """Do work in a transaction; when the file turns out to be damaged, in a new one."""
        with self._lock:
            if self._is_closed:
                raise StoreUnavailable(f"{self._path} is closed")
            try:
                return self._attempt(work)
            except StoreDamaged as exc:
                log.warning("what was known of the use of memories is lost: %s", exc.message)
                self._put_aside()
                return self._attempt(work)

    def _attempt(self, work: Callable[[sqlite3.Connection], _Found]) -> _Found:
        with sqlite_errors(self._path):
            if self._db is None:
                self._db = self._connect()
            db = self._db
            try:
                db.execute("BEGIN IMMEDIATE")
                found = work(db)
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise
            return found

    def _connect(self) -> sqlite3.Connection:
        db = connect(self._path, busy_timeout_s=_BUSY_S, synchronous="NORMAL")
        try:
            migrate(db, _MIGRATIONS)
            if self._max_bytes is not None:
                (page_size,) = db.execute("PRAGMA page_size").fetchone()
                db.execute(f"PRAGMA max_page_count = {max(1, self._max_bytes // page_size)}")
        except BaseException:
            db.close()
            raise
        return db

    def _put_aside(self) -> None:
        """Keep the damaged file under another name, in the place of an earlier one."""
        self._drop()
        try:
            for suffix in ("-wal", "-shm"):
                self._path.with_name(self._path.name + suffix).unlink(missing_ok=True)
            self._path.replace(self._path.with_name(f"{self._path.name}.damaged"))
        except OSError as exc:
            raise StoreUnavailable(f"{self._path} cannot be made anew: {exc.strerror}") from exc

    def _drop(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None


def _shown(db: sqlite3.Connection, receipt: str, now: datetime) -> Shown | None:
    row = db.execute(
        "SELECT key, project, owner FROM receipt WHERE id = ? AND at >= ?",
        (receipt, _seconds(now - KEPT)),
    ).fetchone()
    if row is None:
        return None
    memories = db.execute("SELECT memory FROM shown WHERE receipt = ?", (row["key"],))
    return Shown(row["project"], row["owner"], frozenset(each["memory"] for each in memories))


def _recent(db: sqlite3.Connection, project: str, owner: str, limit: int) -> list[Recall]:
    receipts = db.execute(
        "SELECT key, id, at FROM receipt WHERE project = ? AND owner = ?"
        " ORDER BY at DESC, key DESC LIMIT ?",
        (project, owner, limit),
    ).fetchall()

    def memories(key: int) -> tuple[str, ...]:
        rows = db.execute("SELECT memory FROM shown WHERE receipt = ? ORDER BY memory", (key,))
        return tuple(row["memory"] for row in rows)

    return [
        Recall(row["id"], datetime.fromtimestamp(row["at"], UTC), memories(row["key"]))
        for row in receipts
    ]


def _usage(db: sqlite3.Connection, record_id: str) -> Usage | None:
    rows = db.execute(
        "SELECT verdict, count(*) AS n, max(at) AS last FROM verdict WHERE memory = ?"
        " GROUP BY verdict",
        (record_id,),
    ).fetchall()
    if not rows:
        return None
    counts = {Verdict(row["verdict"]): int(row["n"]) for row in rows}
    used_at = next((row["last"] for row in rows if row["verdict"] == Verdict.USED), None)
    return Usage(
        uses=counts.get(Verdict.USED, 0),
        ignored=counts.get(Verdict.IGNORED, 0),
        wrong=counts.get(Verdict.WRONG, 0),
        last_used_at=None if used_at is None else datetime.fromtimestamp(used_at, UTC),
    )


def _seconds(moment: datetime) -> int:
    return int(moment.timestamp())
