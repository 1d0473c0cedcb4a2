"""How a revision gets into a SQLite archive."""

from __future__ import annotations

import sqlite3
from dataclasses import replace

from tiers.archive import Appended, AppendOutcome, Head
from tiers.archive_rules import Known, Placement, erased, place, record_from_text, record_to_text
from tiers.errors import StoreBusy
from tiers.records import MemoryRecord


def append_revision(db: sqlite3.Connection, record: MemoryRecord) -> AppendOutcome:
    """Keep one checked revision, inside a transaction; the head moves by compare-and-swap."""
    content_hash = record.content_hash
    known = _known(db, record, content_hash)
    placement = place(record.revision, content_hash, known)
    if placement.fate is Appended.ALREADY_THERE:
        seq = known.head.seq if known.head is not None else 0
        return AppendOutcome(record.id, placement.revision, placement.fate, seq)
    return _keep(db, record, content_hash, placement, known.head)


def read_head(db: sqlite3.Connection, record_id: str) -> Head | None:
    """Read one row of memory_head."""
    row = db.execute("SELECT * FROM memory_head WHERE id = ?", (record_id,)).fetchone()
    return None if row is None else to_head(row)


def to_head(row: sqlite3.Row) -> Head:
    """Turn a row of memory_head into a value."""
    return Head(
        id=row["id"],
        project=row["project"],
        revision=row["revision"],
        content_hash=row["content_hash"],
        tombstone=bool(row["tombstone"]),
        cold=bool(row["cold"]),
        seq=row["seq"],
    )


def last_seq(db: sqlite3.Connection) -> int:
    """Read the greatest seq; heads are never deleted, so it never goes back."""
    return int(db.execute("SELECT COALESCE(MAX(seq), 0) FROM memory_head").fetchone()[0])


def _known(db: sqlite3.Connection, record: MemoryRecord, content_hash: str) -> Known:
    head = read_head(db, record.id)
    if head is None:
        return Known()
    rows = db.execute(
        "SELECT revision.revision, revision.asked, revision.content_hash"
        "  FROM memory_revision AS revision"
        "  JOIN memory_head AS head ON head.key = revision.memory"
        " WHERE head.id = ? AND (revision.revision = ? OR revision.asked = ?)",
        (record.id, record.revision, record.revision),
    ).fetchall()
    at_number = [row["content_hash"] for row in rows if row["revision"] == record.revision]
    again = [
        row["revision"]
        for row in rows
        if row["asked"] == record.revision and row["content_hash"] == content_hash
    ]
    return Known(head, at_number[0] if at_number else None, again[0] if again else None)


def _keep(
    db: sqlite3.Connection,
    record: MemoryRecord,
    content_hash: str,
    placement: Placement,
    head: Head | None,
) -> AppendOutcome:
    seq = last_seq(db) + 1
    key = _memory_key(db, record, head, seq)
    if head is not None:
        _remove_words(db, key)
    body = record_to_text(replace(record, revision=placement.revision))
    db.execute(
        "INSERT INTO memory_revision (memory, revision, asked, content_hash, body)"
        " VALUES (?, ?, ?, ?, ?)",
        (key, placement.revision, record.revision, content_hash, body),
    )
    _move_head(db, key, record, content_hash, placement.revision, seq, head)
    if record.deleted:
        _erase_earlier(db, key, placement.revision)
    else:
        _add_words(db, key)
    return AppendOutcome(record.id, placement.revision, placement.fate, seq)


def _memory_key(db: sqlite3.Connection, record: MemoryRecord, head: Head | None, seq: int) -> int:
    if head is None:
        # Revision 0 is nobody's: the head has its first revision when it moves.
        db.execute(
            "INSERT INTO memory_head (id, project, revision, content_hash, tombstone, seq)"
            " VALUES (?, ?, 0, '', 1, ?)",
            (record.id, record.project, seq),
        )
    row = db.execute("SELECT key FROM memory_head WHERE id = ?", (record.id,)).fetchone()
    return int(row["key"])


def _move_head(
    db: sqlite3.Connection,
    key: int,
    record: MemoryRecord,
    content_hash: str,
    revision: int,
    seq: int,
    head: Head | None,
) -> None:
    moved = db.execute(
        "UPDATE memory_head SET project = ?, revision = ?, content_hash = ?, tombstone = ?, seq = ?"
        " WHERE key = ? AND revision = ?",
        (
            record.project,
            revision,
            content_hash,
            record.deleted,
            seq,
            key,
            0 if head is None else head.revision,
        ),
    )
    if moved.rowcount != 1:
        raise StoreBusy(f"the head of {record.id} moved meanwhile", hint="try again")


def _remove_words(db: sqlite3.Connection, key: int) -> None:
    db.execute(
        "INSERT INTO memory_text (memory_text, rowid, name, description, body, tags)"
        " SELECT 'delete', key, name, description, body, tags FROM head_text WHERE key = ?",
        (key,),
    )


def _add_words(db: sqlite3.Connection, key: int) -> None:
    db.execute(
        "INSERT INTO memory_text (rowid, name, description, body, tags)"
        " SELECT key, name, description, body, tags FROM head_text WHERE key = ?",
        (key,),
    )


def _erase_earlier(db: sqlite3.Connection, key: int, tombstone: int) -> None:
    db.execute("DELETE FROM chunk WHERE memory = ?", (key,))
    rows = db.execute(
        "SELECT revision, body FROM memory_revision WHERE memory = ? AND revision < ?",
        (key, tombstone),
    ).fetchall()
    for row in rows:
        rest = erased(record_from_text(row["body"]))
        db.execute(
            "UPDATE memory_revision SET content_hash = ?, body = ?"
            " WHERE memory = ? AND revision = ?",
            (rest.content_hash, record_to_text(rest), key, row["revision"]),
        )
