"""What this home knows: one row a memory, and which file holds what."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from tiers.home_database import HomeDatabase
from tiers.records import MemoryRecord, Tier, Visibility, format_time, parse_time

#: SQLite's default limit of variables is 32,766; stay well below it.
_BATCH = 500


@dataclass(frozen=True, slots=True)
class Entry:
    """What the catalogue knows of one memory."""

    id: str
    project: str
    name: str
    revision: int
    content_hash: str
    text_hash: str
    tier: Tier
    tombstone: bool
    owner: str
    visibility: Visibility
    expires_at: datetime | None
    updated_at: datetime

    def is_expired(self, now: datetime) -> bool:
        return self.expires_at is not None and self.expires_at <= now

    def is_seen_by(self, owner: str) -> bool:
        """Say whether somebody may see this: private memories are their owner's alone."""
        return self.visibility is not Visibility.PRIVATE or self.owner == owner


@dataclass(frozen=True, slots=True)
class Placement:
    """A hot file and what it held when it was last read or written.

    `masked` says that the file holds a secret that no tier has, so it is not rewritten.
    """

    project: str
    path: str
    id: str
    file_hash: str
    size: int
    mtime_ns: int
    inode: int
    masked: bool = False
    missing_since: datetime | None = None


@dataclass(frozen=True, slots=True)
class Held:
    """Changes of hot files that wait for a person's word."""

    project: str
    reason: str
    since: datetime
    paths: tuple[str, ...]


class Catalogue:
    """Rows about memories and hot files of this home. Any thread may use it."""

    def __init__(self, database: HomeDatabase) -> None:
        self._db = database

    def put(self, record: MemoryRecord, tier: Tier) -> None:
        """Note a revision as current, with what it supersedes, unless a later one is known."""
        with self._db.write() as db:
            noted = db.execute(
                """
                INSERT INTO catalogue VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
                ON CONFLICT (id) DO UPDATE SET
                    project = excluded.project, name = excluded.name, revision = excluded.revision,
                    content_hash = excluded.content_hash, text_hash = excluded.text_hash,
                    tier = excluded.tier, tombstone = excluded.tombstone, owner = excluded.owner,
                    visibility = excluded.visibility, expires_at = excluded.expires_at,
                    updated_at = excluded.updated_at
                WHERE excluded.revision >= catalogue.revision
                """,
                (
                    record.id,
                    record.project,
                    record.name,
                    record.revision,
                    record.content_hash,
                    record.text_hash,
                    tier,
                    record.deleted,
                    record.owner,
                    record.visibility,
                    format_time(record.expires_at) if record.expires_at else None,
                    format_time(record.updated_at),
                ),
            )
            if not noted.rowcount:
                return
            db.execute("DELETE FROM superseded WHERE by = ?", (record.id,))
            db.executemany(
                "INSERT OR IGNORE INTO superseded VALUES (?, ?)",
                [(old, record.id) for old in record.supersedes if old != record.id],
            )

    def renumber(self, record_id: str, revision: int) -> None:
        """Note that the archive keeps this memory's head under another number."""
        with self._db.write() as db:
            db.execute(
                "UPDATE catalogue SET revision = max(revision, ?) WHERE id = ?",
                (revision, record_id),
            )

    def set_tier(self, record_id: str, tier: Tier) -> None:
        with self._db.write() as db:
            db.execute("UPDATE catalogue SET tier = ? WHERE id = ?", (tier, record_id))

    def get(self, record_id: str) -> Entry | None:
        return self.get_many([record_id]).get(record_id)

    def get_many(self, record_ids: Iterable[str]) -> dict[str, Entry]:
        """Read entries by id, tombstones included; unknown ids are left out."""
        found = _by_batches(self._db, "SELECT * FROM catalogue WHERE id IN ({})", list(record_ids))
        return {row["id"]: _entry(row) for row in found}

    def with_text(self, project: str, text_hash: str) -> list[Entry]:
        """Find the memories of a project whose body is the same."""
        return self._entries(
            "WHERE project = ? AND text_hash = ? AND NOT tombstone ORDER BY updated_at, id",
            (project, text_hash),
        )

    def named(self, project: str, name: str) -> list[Entry]:
        """Find the memories of a project by exact name."""
        return self._entries(
            "WHERE project = ? AND name = ? AND NOT tombstone ORDER BY updated_at DESC, id",
            (project, name),
        )

    def starting_with(self, project: str, prefix: str, *, owner: str) -> list[Entry]:
        """Find the first 20 memories of a project that `owner` may see and whose id starts so."""
        return self._entries(
            "WHERE project = ? AND substr(id, 1, ?) = ? AND NOT tombstone"
            " AND (visibility != 'private' OR owner = ?) ORDER BY id LIMIT 20",
            (project, len(prefix), prefix, owner),
        )

    def entries(self, project: str, *, tier: Tier | None = None) -> list[Entry]:
        """Read every live memory of a project, newest first."""
        if tier is None:
            return self._entries(
                "WHERE project = ? AND NOT tombstone ORDER BY updated_at DESC, id", (project,)
            )
        return self._entries(
            "WHERE project = ? AND tier = ? AND NOT tombstone ORDER BY updated_at DESC, id",
            (project, tier),
        )

    def all_revisions(self) -> dict[str, tuple[int, str, bool]]:
        """Read id → (revision, content hash, tombstone) of every memory of this home."""
        rows = self._db.read("SELECT id, revision, content_hash, tombstone FROM catalogue")
        return {
            row["id"]: (row["revision"], row["content_hash"], bool(row["tombstone"]))
            for row in rows
        }

    def counts(self, project: str | None = None) -> dict[Tier, int]:
        """Count live memories by tier."""
        rows = self._db.read(
            "SELECT tier, count(*) AS n FROM catalogue"
            " WHERE NOT tombstone AND (? IS NULL OR project = ?) GROUP BY tier",
            (project, project),
        )
        return {Tier(row["tier"]): row["n"] for row in rows}

    def superseded_by(self, record_ids: Iterable[str], *, owner: str) -> dict[str, list[str]]:
        """Read which live memories replace the given ones, as `owner` sees it.

        They do so only within one project. Nobody's private memory replaces anything for others,
        and a private memory is replaced by its owner's alone.
        """
        rows = _by_batches(
            self._db,
            "SELECT superseded.id, superseded.by FROM superseded"
            " JOIN catalogue AS newer ON newer.id = superseded.by AND NOT newer.tombstone"
            " LEFT JOIN catalogue AS older ON older.id = superseded.id"
            " WHERE (newer.visibility != 'private' OR newer.owner = ?)"
            " AND (older.id IS NULL OR older.project = newer.project"
            "  AND (older.visibility != 'private' OR older.owner = newer.owner))"
            " AND superseded.id IN ({})",
            list(record_ids),
            (owner,),
        )
        found: dict[str, list[str]] = {}
        for row in rows:
            found.setdefault(row["id"], []).append(row["by"])
        return found

    # Placement: the manifest of hot files.

    def place(self, placement: Placement) -> None:
        """Note what a hot file holds now."""
        with self._db.write() as db:
            db.execute(
                "INSERT OR REPLACE INTO placement VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    placement.project,
                    placement.path,
                    placement.id,
                    placement.file_hash,
                    placement.size,
                    placement.mtime_ns,
                    placement.inode,
                    placement.masked,
                    format_time(placement.missing_since) if placement.missing_since else None,
                ),
            )

    def displace(self, project: str, path: str) -> None:
        """Note that a path holds nothing of ours any more; copies of what it held may be left."""
        with self._db.write() as db:
            db.execute(
                "INSERT OR IGNORE INTO left_behind SELECT id, project, path FROM placement"
                " WHERE project = ? AND path = ?",
                (project, path),
            )
            db.execute("DELETE FROM placement WHERE project = ? AND path = ?", (project, path))

    def left_behind(self, record_id: str) -> list[tuple[str, str]]:
        """Read (project, path) of each place that a memory's file has left."""
        rows = self._db.read(
            "SELECT project, path FROM left_behind WHERE id = ? ORDER BY project, path",
            (record_id,),
        )
        return [(row["project"], row["path"]) for row in rows]

    def forget_left_behind(self, record_id: str) -> None:
        """Forget the places that a memory's file has left, when no copies are there any more."""
        with self._db.write() as db:
            db.execute("DELETE FROM left_behind WHERE id = ?", (record_id,))

    def placements(self, project: str) -> dict[str, Placement]:
        """Read a project's manifest: path → placement."""
        rows = self._db.read("SELECT * FROM placement WHERE project = ? ORDER BY path", (project,))
        return {row["path"]: _placement(row) for row in rows}

    def placed(self, record_id: str) -> list[Placement]:
        """Read the files that hold one memory."""
        rows = self._db.read("SELECT * FROM placement WHERE id = ? ORDER BY path", (record_id,))
        return [_placement(row) for row in rows]

    # Held changes, and what was checked out when a hot root was last believed.

    def head(self, project: str) -> str:
        return self._db.fact(f"head:{project}") or ""

    def set_head(self, project: str, head: str) -> None:
        if head != self.head(project):
            self._db.set_fact(f"head:{project}", head)

    def hold(self, held: Held) -> None:
        """Keep changes of hot files for a person's word; the first moment is kept."""
        with self._db.write() as db:
            db.execute(
                "INSERT INTO held VALUES (?, ?, ?, ?) ON CONFLICT (project) DO UPDATE SET"
                " reason = excluded.reason, paths = excluded.paths",
                (held.project, held.reason, format_time(held.since), json.dumps(held.paths)),
            )

    def release(self, project: str) -> None:
        if self.held(project) is not None:
            with self._db.write() as db:
                db.execute("DELETE FROM held WHERE project = ?", (project,))

    def held(self, project: str) -> Held | None:
        rows = self._db.read("SELECT * FROM held WHERE project = ?", (project,))
        return _held(rows[0]) if rows else None

    def _entries(self, where: str, values: Sequence[object]) -> list[Entry]:
        # `where` is one of the constant clauses above; values are always bound.
        return [_entry(row) for row in self._db.read(f"SELECT * FROM catalogue {where}", values)]  # noqa: S608


def _by_batches(
    database: HomeDatabase, sql: str, keys: list[str], values: tuple[str, ...] = ()
) -> list[sqlite3.Row]:
    """Run a query once for each batch of keys; `values` are bound before them."""
    rows: list[sqlite3.Row] = []
    for start in range(0, len(keys), _BATCH):
        batch = keys[start : start + _BATCH]
        rows += database.read(sql.format(", ".join("?" * len(batch))), (*values, *batch))
    return rows


def _entry(row: sqlite3.Row) -> Entry:
    return Entry(
        id=row["id"],
        project=row["project"],
        name=row["name"],
        revision=row["revision"],
        content_hash=row["content_hash"],
        text_hash=row["text_hash"],
        tier=Tier(row["tier"]),
        tombstone=bool(row["tombstone"]),
        owner=row["owner"],
        visibility=Visibility(row["visibility"]),
        expires_at=parse_time(row["expires_at"]) if row["expires_at"] else None,
        updated_at=parse_time(row["updated_at"]),
    )


def _placement(row: sqlite3.Row) -> Placement:
    return Placement(
        project=row["project"],
        path=row["path"],
        id=row["id"],
        file_hash=row["file_hash"],
        size=row["size"],
        mtime_ns=row["mtime_ns"],
        inode=row["inode"],
        masked=bool(row["masked"]),
        missing_since=parse_time(row["missing_since"]) if row["missing_since"] else None,
    )


def _held(row: sqlite3.Row) -> Held:
    return Held(
        project=row["project"],
        reason=row["reason"],
        since=parse_time(row["since"]),
        paths=tuple(json.loads(row["paths"])),
    )
