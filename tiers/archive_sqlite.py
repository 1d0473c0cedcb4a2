"""The archive in one SQLite file."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import islice
from pathlib import Path

from tiers.archive import (
    Appended,
    AppendOutcome,
    ArchiveHit,
    ChunkedMemory,
    Head,
    StoredChunk,
)
from tiers.archive_file import ArchiveFile, erase_words
from tiers.archive_rules import checked, record_from_text
from tiers.archive_sqlite_append import append_revision, last_seq, read_head, to_head
from tiers.archive_sqlite_search import (
    CURRENT,
    count_current,
    find_nearest,
    find_words,
    scan_current,
)
from tiers.archive_vectors import from_float16, to_float16, unit_vector
from tiers.deep import Health, StoreHealth
from tiers.errors import TierError
from tiers.filters import Filter
from tiers.records import MemoryRecord, Usage, format_time, parse_time

_PAGE = 500


class SqliteArchive:
    """An `Archive` in one SQLite file (WAL, synchronous FULL), for one home.

    A new revision leaves a cold memory cold, until `set_cold` says otherwise. `put_chunks` replaces
    the chunks of the spaces it is given and of older revisions; with no chunks, all of them.
    """

    def __init__(self, path: Path, *, max_bytes: int | None = None) -> None:
        self._file = ArchiveFile(path, max_bytes=max_bytes)

    def open(self) -> None:
        self._file.open()

    def append(self, records: Sequence[MemoryRecord]) -> list[AppendOutcome]:
        outcomes: list[AppendOutcome] = []
        has_erased = False
        with self._file.write() as db:
            for record in map(checked, records):
                outcome = append_revision(db, record)
                outcomes.append(outcome)
                has_erased |= record.deleted and outcome.fate is not Appended.ALREADY_THERE
            if has_erased:
                erase_words(db)
        if has_erased:
            self._file.erase_log()
        return outcomes

    def current(self, record_id: str) -> MemoryRecord | None:
        with self._file.read() as db:
            row = db.execute(f"SELECT body {CURRENT} WHERE id = ?", (record_id,)).fetchone()
        return None if row is None else record_from_text(row["body"])

    def head(self, record_id: str) -> Head | None:
        with self._file.read() as db:
            return read_head(db, record_id)

    def heads(self, *, after: int = 0) -> Iterator[Head]:
        while True:
            with self._file.read() as db:
                rows = db.execute(
                    "SELECT * FROM memory_head WHERE seq > ? ORDER BY seq LIMIT ?", (after, _PAGE)
                ).fetchall()
            if not rows:
                return
            yield from map(to_head, rows)
            after = rows[-1]["seq"]

    def last_seq(self) -> int:
        with self._file.read() as db:
            return last_seq(db)

    def history(self, record_id: str) -> list[MemoryRecord]:
        with self._file.read() as db:
            rows = db.execute(
                "SELECT body FROM memory_revision AS revision"
                " JOIN memory_head AS head ON head.key = revision.memory"
                " WHERE id = ? ORDER BY revision.revision",
                (record_id,),
            ).fetchall()
        return [record_from_text(row["body"]) for row in rows]

    def set_cold(self, record_ids: Sequence[str], cold: bool) -> None:
        with self._file.write() as db:
            for record_id in record_ids:
                db.execute(
                    "UPDATE memory_head SET cold = ?, seq = ?"
                    " WHERE id = ? AND cold <> ? AND tombstone = 0",
                    (cold, last_seq(db) + 1, record_id, cold),
                )

    def scan(
        self, condition: Filter, *, after: str = "", limit: int = 500, cold: bool | None = None
    ) -> list[MemoryRecord]:
        with self._file.read() as db:
            found = scan_current(db, condition, after=after, cold=cold)
            return list(islice(found, max(limit, 0)))

    def count(self, condition: Filter, *, cold: bool | None = None) -> int:
        with self._file.read() as db:
            return count_current(db, condition, cold=cold)

    def search_text(self, query: str, condition: Filter, *, limit: int) -> list[ArchiveHit]:
        with self._file.read() as db:
            return list(islice(find_words(db, query, condition), max(limit, 0)))

    def search_vector(
        self, vector: Sequence[float], space: str, condition: Filter, *, limit: int
    ) -> list[ArchiveHit]:
        query = unit_vector(vector)
        with self._file.read() as db:
            return find_nearest(db, query, space, condition, limit=limit) if limit > 0 else []

    def put_chunks(self, memories: Sequence[ChunkedMemory]) -> None:
        packed = [(memory, [_packed(chunk) for chunk in memory.chunks]) for memory in memories]
        with self._file.write() as db:
            for memory, vectors in packed:
                _put_chunks(db, memory, vectors)

    def chunks(self, record_id: str, space: str) -> list[StoredChunk]:
        with self._file.read() as db:
            rows = db.execute(
                "SELECT chunk.* FROM chunk"
                " JOIN memory_head AS head ON head.key = memory AND head.revision = chunk.revision"
                " WHERE id = ? AND space = ? ORDER BY ordinal",
                (record_id, space),
            ).fetchall()
        return [_to_chunk(row) for row in rows]

    def vectors(self, space: str, chunk_hashes: Sequence[str]) -> dict[str, tuple[float, ...]]:
        with self._file.read() as db:
            rows = db.execute(
                "SELECT chunk_hash, vector FROM chunk WHERE space = ? AND vector IS NOT NULL"
                " AND chunk_hash IN (SELECT value FROM json_each(?))",
                (space, json.dumps(list(chunk_hashes))),
            )
            return {row["chunk_hash"]: from_float16(row["vector"]) for row in rows}

    def count_chunks(self) -> int:
        with self._file.read() as db:
            sql = """
                SELECT COUNT(*) FROM (
                    SELECT DISTINCT memory, ordinal FROM chunk
                      JOIN memory_head AS head
                        ON head.key = memory AND head.revision = chunk.revision
                     WHERE tombstone = 0 AND cold = 0)
            """
            return int(db.execute(sql).fetchone()[0])

    def record_use(self, record_id: str, *, task: str, at: datetime) -> None:
        with self._file.write() as db:
            db.execute(
                "INSERT OR IGNORE INTO memory_use (id, task, at) VALUES (?, ?, ?)",
                (record_id, task, format_time(at)),
            )

    def usage(self, record_ids: Sequence[str]) -> dict[str, Usage]:
        uses: dict[str, list[tuple[datetime, str]]] = {}
        with self._file.read() as db:
            for row in db.execute(
                "SELECT * FROM memory_use WHERE id IN (SELECT value FROM json_each(?))",
                (json.dumps(list(record_ids)),),
            ):
                uses.setdefault(row["id"], []).append((parse_time(row["at"]), row["task"]))
        return {
            record_id: Usage(len(found), tuple(task for _, task in sorted(found)), max(found)[0])
            for record_id, found in uses.items()
        }

    def health(self) -> StoreHealth:
        try:
            with self._file.read() as db:
                sql = "SELECT COUNT(*) FROM memory_head WHERE tombstone = 0"
                return StoreHealth(Health.READY, count=int(db.execute(sql).fetchone()[0]))
        except TierError as error:
            return StoreHealth(Health.DOWN, error.message)

    def close(self) -> None:
        self._file.close()


def _put_chunks(
    db: sqlite3.Connection, memory: ChunkedMemory, vectors: Sequence[bytes | None]
) -> None:
    head = db.execute(
        "SELECT key FROM memory_head WHERE id = ? AND revision = ? AND tombstone = 0",
        (memory.id, memory.revision),
    ).fetchone()
    if head is None:
        return
    spaces = json.dumps(sorted({chunk.space for chunk in memory.chunks}))
    db.execute(
        "DELETE FROM chunk WHERE memory = ?"
        " AND (revision <> ? OR space IN (SELECT value FROM json_each(?)) OR ? = '[]')",
        (head["key"], memory.revision, spaces, spaces),
    )
    db.executemany(
        "INSERT OR REPLACE INTO chunk"
        " (memory, revision, space, ordinal, chunk_hash, vector, text)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        [
            (head["key"], memory.revision, c.space, c.ordinal, c.chunk_hash, vector, c.text)
            for c, vector in zip(memory.chunks, vectors, strict=True)
        ],
    )


def _packed(chunk: StoredChunk) -> bytes | None:
    return None if chunk.vector is None else to_float16(chunk.vector)


def _to_chunk(row: sqlite3.Row) -> StoredChunk:
    return StoredChunk(
        ordinal=row["ordinal"],
        chunk_hash=row["chunk_hash"],
        text=row["text"],
        space=row["space"],
        vector=None if row["vector"] is None else from_float16(row["vector"]),
    )
