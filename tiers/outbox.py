"""The durable queue of accepted changes, and the port of what they are delivered to."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from tiers.catalogue import Catalogue
from tiers.home_database import HomeDatabase
from tiers.records import MemoryRecord, Tier, format_time, from_json, parse_time, to_json


class SinkName(StrEnum):
    """Where changes are delivered to."""

    HOT = "hot"
    ARCHIVE = "archive"
    DEEP = "deep"


class State(StrEnum):
    """How far a delivery is."""

    WAITING = "waiting"
    #: Applied, but a power loss could still undo it.
    APPLIED = "applied"
    #: Found by words; its vectors come when the model is back.
    VECTOR_PENDING = "vector pending"
    DONE = "done"
    DEAD = "dead"


@dataclass(frozen=True, slots=True)
class Change:
    """A revision to keep, and the tier it belongs to in this home.

    `sinks` says who has to hear of it; None means everybody its tier concerns.
    """

    record: MemoryRecord
    tier: Tier
    sinks: tuple[SinkName, ...] | None = None

    @property
    def concerned(self) -> tuple[SinkName, ...]:
        if self.sinks is not None:
            return self.sinks
        everyone = (SinkName.HOT, SinkName.ARCHIVE, SinkName.DEEP)
        return everyone if self.tier is Tier.HOT or self.record.deleted else everyone[1:]


@dataclass(frozen=True, slots=True)
class Delivery:
    """An accepted change on its way to one sink.

    `record` is None when only the id matters: the sink is to make itself equal to the archive.
    """

    seq: int
    record_id: str
    project: str
    record: MemoryRecord | None
    attempts: int


@dataclass(frozen=True, slots=True)
class Backlog:
    """What one sink has not got yet."""

    waiting: int = 0
    vector_pending: int = 0
    dead: int = 0
    unflushed: int = 0
    oldest: datetime | None = None
    error: str = ""


class Sink(Protocol):
    """Something that keeps a projection of accepted changes.

    `apply` must be idempotent: the relay delivers at least once, in order per record. It either
    stores every change and returns, or raises a TierError and stores what it likes.
    """

    @property
    def name(self) -> SinkName:
        """Which sink this is."""

    def apply(self, deliveries: Sequence[Delivery]) -> Collection[str]:
        """Store changes; returns the ids that still wait for their vectors."""


class Outbox:
    """Accepted changes until every sink has them. Any thread may use it.

    `accept` is durable when it returns. Deliveries of one record reach a sink in order; the deep
    sink hears of a change only after the archive has it, since it copies the archive's head.
    """

    def __init__(self, database: HomeDatabase, catalogue: Catalogue) -> None:
        self._db = database
        self._catalogue = catalogue

    def accept(self, changes: Iterable[Change], *, now: datetime) -> list[int]:
        """Accept changes in one transaction, catalogue and queue together; returns numbers."""
        with self._db.write() as db:
            return [self._accept(db, change, now) for change in changes]

    def _accept(self, db: sqlite3.Connection, change: Change, now: datetime) -> int:
        record = change.record
        if record.deleted:
            # What was forgotten must not lie in the queue either.
            db.execute("DELETE FROM outbox WHERE id = ?", (record.id,))
        self._catalogue.put(record, change.tier)
        body = json.dumps(to_json(record), ensure_ascii=False, default=str)
        return self._queue(db, record.id, record.project, record.revision, body, change, now)

    def _queue(
        self,
        db: sqlite3.Connection,
        record_id: str,
        project: str,
        revision: int,
        body: str | None,
        change: Change | None,
        now: datetime,
    ) -> int:
        cursor = db.execute(
            "INSERT INTO outbox (id, project, revision, record, accepted_at)"
            " VALUES (?, ?, ?, ?, ?)",
            (record_id, project, revision, body, format_time(now)),
        )
        seq = cursor.lastrowid or 0
        sinks = change.concerned if change else (SinkName.DEEP,)
        db.executemany(
            "INSERT INTO delivery (seq, sink) VALUES (?, ?)", [(seq, sink) for sink in sinks]
        )
        return seq

    def invalidate(self, record_ids: Iterable[tuple[str, str]], *, now: datetime) -> list[int]:
        """Ask the deep sink to make memories, as (id, project), equal to the archive again.

        Those that it is going to be given anyway are left out. Returns the numbers of the others.
        """
        with self._db.write() as db:
            queued = {
                row["id"]
                for row in db.execute(
                    "SELECT o.id FROM delivery AS d JOIN outbox AS o ON o.seq = d.seq"
                    " WHERE d.sink = 'deep' AND d.state = 'waiting'"
                )
            }
            return [
                self._queue(db, record_id, project, 0, None, None, now)
                for record_id, project in record_ids
                if record_id not in queued
            ]

    def claim(self, sink: SinkName, limit: int, *, clock: float) -> list[Delivery]:
        """Read what to deliver next, oldest first; nothing changes until `ack` or `fail`.

        A change waits while an older one of the same record has not reached this sink, and, for the
        deep sink, while one of the record has not reached the archive. A file that is to go stays
        until the others are settled. What waits for vectors alone comes after everything else.
        """
        rows = self._due(sink, State.WAITING, limit, clock)
        if len(rows) < limit:
            rows += self._due(sink, State.VECTOR_PENDING, limit - len(rows), clock)
        return [_delivery(row) for row in rows]

    def _due(self, sink: SinkName, state: State, limit: int, clock: float) -> list[sqlite3.Row]:
        # One state at a time: the index then gives rows in order, and a long queue is not sorted.
        return self._db.read(
            """
            SELECT o.seq, o.id, o.project, o.record, d.attempts
            FROM delivery AS d JOIN outbox AS o ON o.seq = d.seq
            WHERE d.sink = :sink AND d.state = :state AND d.not_before <= :clock
              AND NOT EXISTS (
                SELECT 1 FROM outbox AS eo JOIN delivery AS e ON e.seq = eo.seq
                WHERE eo.id = o.id AND eo.seq < o.seq AND e.sink = :sink
                  AND e.state = 'waiting' AND e.not_before > :clock)
              AND (:sink != 'deep' OR NOT EXISTS (
                SELECT 1 FROM outbox AS ao JOIN delivery AS a ON a.seq = ao.seq
                WHERE ao.id = o.id AND a.sink = 'archive'
                  AND (a.state = 'waiting' OR (a.state = 'dead' AND ao.seq = o.seq))))
              AND (:sink != 'hot' OR NOT EXISTS (
                SELECT 1 FROM catalogue AS c
                JOIN outbox AS ko ON ko.id = c.id JOIN delivery AS k ON k.seq = ko.seq
                WHERE c.id = o.id AND c.tier != 'hot' AND NOT c.tombstone
                  AND k.sink != 'hot' AND k.state IN ('waiting', 'applied', 'dead')))
            ORDER BY d.seq LIMIT :limit
            """,
            {"sink": sink, "state": state, "clock": clock, "limit": limit},
        )

    def ack(self, sink: SinkName, seqs: Iterable[int], state: State = State.DONE) -> None:
        """Note that a sink has changes; rows that every sink has are pruned."""
        with self._db.write() as db:
            numbers = list(seqs)
            db.executemany(
                "UPDATE delivery SET state = ?, error = '' WHERE seq = ? AND sink = ?",
                [(state, seq, sink) for seq in numbers],
            )
            if state is State.DONE:
                _prune(db, numbers)

    def fail(
        self,
        sink: SinkName,
        seqs: Iterable[int],
        *,
        error: str,
        not_before: float = 0.0,
        dead: bool = False,
        vector_pending: bool = False,
    ) -> None:
        """Note that a delivery did not succeed, and when to try again."""
        state = State.DEAD if dead else State.VECTOR_PENDING if vector_pending else State.WAITING
        with self._db.write() as db:
            db.executemany(
                "UPDATE delivery SET state = ?, attempts = attempts + 1, not_before = ?, error = ?"
                " WHERE seq = ? AND sink = ?",
                [(state, not_before, error[:500], seq, sink) for seq in seqs],
            )

    def wake(self, sink: SinkName, *, vector_pending: bool = False) -> None:
        """Make deliveries due now that wait for their next attempt."""
        state = State.VECTOR_PENDING if vector_pending else State.WAITING
        with self._db.write() as db:
            db.execute(
                "UPDATE delivery SET not_before = 0 WHERE sink = ? AND state = ?", (sink, state)
            )

    def reopen(self, sink: SinkName) -> None:
        """Deliver again what may not have been flushed, and give the dead a new chance.

        A dead revision that a later one replaced stays dead: delivered now it would come last.
        """
        with self._db.write() as db:
            db.execute(
                "UPDATE delivery SET state = 'waiting', not_before = 0, attempts = 0"
                " WHERE sink = ? AND (state IN ('applied', 'waiting') OR (state = 'dead'"
                "  AND NOT EXISTS (SELECT 1 FROM outbox AS o JOIN catalogue AS c ON c.id = o.id"
                "   WHERE o.seq = delivery.seq AND o.record IS NOT NULL"
                "   AND c.revision > o.revision)))",
                (sink,),
            )

    def backlog(self, sink: SinkName) -> Backlog:
        """Say what one sink has not got yet."""
        rows = self._db.read(
            "SELECT state, count(*) AS n FROM delivery WHERE sink = ? AND state != 'done'"
            " GROUP BY state",
            (sink,),
        )
        counts = {State(row["state"]): int(row["n"]) for row in rows}
        return Backlog(
            waiting=counts.get(State.WAITING, 0),
            vector_pending=counts.get(State.VECTOR_PENDING, 0),
            dead=counts.get(State.DEAD, 0),
            unflushed=counts.get(State.APPLIED, 0),
            oldest=self._oldest(sink) if counts else None,
            error=self._last_error(sink) if counts else "",
        )

    def _oldest(self, sink: SinkName) -> datetime | None:
        rows = self._db.read(
            "SELECT min(o.accepted_at) AS at FROM delivery AS d JOIN outbox AS o ON o.seq = d.seq"
            " WHERE d.sink = ? AND d.state = 'waiting'",
            (sink,),
        )
        return parse_time(rows[0]["at"]) if rows and rows[0]["at"] else None

    def _last_error(self, sink: SinkName) -> str:
        rows = self._db.read(
            "SELECT error FROM delivery WHERE sink = ? AND error != '' ORDER BY seq DESC LIMIT 1",
            (sink,),
        )
        return str(rows[0]["error"]) if rows else ""

    def pending(self, record_id: str) -> list[SinkName]:
        """Say which sinks have not got the newest change of a record yet."""
        rows = self._db.read(
            "SELECT DISTINCT d.sink FROM delivery AS d JOIN outbox AS o ON o.seq = d.seq"
            " WHERE o.id = ? AND d.state IN ('waiting', 'dead')",
            (record_id,),
        )
        return sorted(SinkName(row["sink"]) for row in rows)

    def unfinished(self, sink: SinkName) -> int:
        """Count what a sink could still be given now or later, the dead left out."""
        rows = self._db.read(
            "SELECT count(*) AS n FROM delivery WHERE sink = ? AND state IN ('waiting', 'applied')",
            (sink,),
        )
        return int(rows[0]["n"])

    def is_settled(self, record_id: str) -> bool:
        """Say whether archive and deep store have all that was accepted of a memory, for good.

        What only waits for its vectors is there: it is found by its words.
        """
        rows = self._db.read(
            "SELECT 1 FROM outbox AS o JOIN delivery AS d ON d.seq = o.seq WHERE o.id = ?"
            " AND d.sink != 'hot' AND d.state IN ('waiting', 'applied', 'dead') LIMIT 1",
            (record_id,),
        )
        return not rows

    def overlay(self, project: str, *, owner: str, limit: int) -> list[tuple[int, str]]:
        """Read (number, id) of a project's changes that the deep store does not show yet.

        What a later revision replaced is left out, however far its own delivery is, and so is what
        `owner` may not see.
        """
        rows = self._db.read(
            "SELECT o.seq, o.id FROM delivery AS d JOIN outbox AS o ON o.seq = d.seq"
            " JOIN catalogue AS c ON c.id = o.id AND c.revision <= o.revision"
            " WHERE d.sink = 'deep' AND d.state IN ('waiting', 'dead') AND o.project = ?"
            " AND o.record IS NOT NULL AND (c.visibility != 'private' OR c.owner = ?)"
            " ORDER BY o.seq DESC LIMIT ?",
            (project, owner, limit),
        )
        return [(row["seq"], row["id"]) for row in rows]

    def record(self, seq: int) -> MemoryRecord | None:
        """Read the revision of one accepted change, while it is queued."""
        rows = self._db.read("SELECT record FROM outbox WHERE seq = ?", (seq,))
        return from_json(json.loads(rows[0]["record"])) if rows and rows[0]["record"] else None

    def queued(self, record_id: str) -> list[MemoryRecord]:
        """Read every queued revision of a record, oldest first."""
        rows = self._db.read(
            "SELECT record FROM outbox WHERE id = ? AND record IS NOT NULL ORDER BY revision, seq",
            (record_id,),
        )
        return [from_json(json.loads(row["record"])) for row in rows]

    def newest(self, record_id: str) -> MemoryRecord | None:
        """Read the newest queued revision of a record."""
        rows = self._db.read(
            "SELECT record FROM outbox WHERE id = ? AND record IS NOT NULL"
            " ORDER BY revision DESC, seq DESC LIMIT 1",
            (record_id,),
        )
        return from_json(json.loads(rows[0]["record"])) if rows else None

    def waits(self, sink: SinkName, *, first: int, last: int) -> bool:
        """Whether a sink still has to take something between two numbers, both included."""
        rows = self._db.read(
            "SELECT 1 FROM delivery WHERE sink = ? AND state = 'waiting'"
            " AND seq BETWEEN ? AND ? LIMIT 1",
            (sink, first, last),
        )
        return bool(rows)

    def last_seq(self) -> int:
        """The greatest number given out so far."""
        rows = self._db.read("SELECT seq FROM sqlite_sequence WHERE name = 'outbox'")
        return int(rows[0]["seq"]) if rows else 0


def _prune(db: sqlite3.Connection, seqs: Sequence[int]) -> None:
    db.executemany(
        "DELETE FROM outbox WHERE seq = ? AND NOT EXISTS"
        " (SELECT 1 FROM delivery WHERE delivery.seq = outbox.seq AND state != 'done')",
        [(seq,) for seq in seqs],
    )


def _delivery(row: sqlite3.Row) -> Delivery:
    return Delivery(
        seq=row["seq"],
        record_id=row["id"],
        project=row["project"],
        record=from_json(json.loads(row["record"])) if row["record"] else None,
        attempts=row["attempts"],
    )
