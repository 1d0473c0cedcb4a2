"""How records are found in a SQLite archive: by filter, by words and by vectors."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from tiers.archive import ArchiveHit
from tiers.archive_rules import record_from_text
from tiers.archive_vectors import VectorRow, nearest
from tiers.errors import InvalidPoint
from tiers.filters import Filter, matches
from tiers.narrowing import is_exactly, text_values
from tiers.passages import passage
from tiers.records import MemoryRecord, from_json

#: A memory's head with the body of its current revision.
CURRENT = """
  FROM memory_head AS head
  JOIN memory_revision AS revision
    ON revision.memory = head.key AND revision.revision = head.revision
"""

_VECTORS_AT_ONCE = 2048
#: Words of a query that are looked up; nobody asks in more.
_MAX_WORDS = 200


def scan_current(
    db: sqlite3.Connection, condition: Filter, *, after: str, cold: bool | None
) -> Iterator[MemoryRecord]:
    """Yield current records in the order of ids."""
    where, values = _narrowed(condition, cold)
    sql = f"SELECT body {CURRENT} WHERE {where} AND id > ? ORDER BY id"
    for row in db.execute(sql, (*values, after)):
        data = json.loads(row["body"])
        if matches(condition, data):
            yield from_json(data)


def count_current(db: sqlite3.Connection, condition: Filter, *, cold: bool | None) -> int:
    """Count current records, without reading them when an index can tell."""
    where, values = _narrowed(condition, cold)
    if is_exactly(condition, "project"):
        sql = f"SELECT COUNT(*) FROM memory_head AS head WHERE {where}"  # noqa: S608
        return int(db.execute(sql, values).fetchone()[0])
    rows = db.execute(f"SELECT body {CURRENT} WHERE {where}", values)
    return sum(matches(condition, json.loads(row["body"])) for row in rows)


def find_words(db: sqlite3.Connection, query: str, condition: Filter) -> Iterator[ArchiveHit]:
    """Yield the current records that have any of the query's words, best first."""
    words = _words(query)
    if not words:
        return
    where, values = _narrowed(condition, None)
    # Weights: name, description, body, tags.
    sql = f"""
        SELECT head.key, head.cold, found.score FROM (
            SELECT rowid AS key, bm25(memory_text, 4.0, 2.0, 1.0, 2.0) AS score
              FROM memory_text WHERE memory_text MATCH ?
        ) AS found
        JOIN memory_head AS head ON head.key = found.key
        WHERE {where} ORDER BY found.score, head.id
    """  # noqa: S608
    # Each word is quoted, so that none is an operator.
    any_word = " OR ".join(f'"{word}"' for word in words)
    for row in db.execute(sql, (any_word, *values)):
        data = json.loads(_body(db, row["key"]))
        if matches(condition, data):
            # Not snippet(): its time grows with the square of how often a text has a word.
            record = from_json(data)
            text = passage(record.body, words)
            yield ArchiveHit(record, -row["score"], text, bool(row["cold"]))


def find_nearest(
    db: sqlite3.Connection,
    query: npt.NDArray[np.float32],
    space: str,
    condition: Filter,
    *,
    limit: int,
) -> list[ArchiveHit]:
    """Find current records by their best chunk. Raises InvalidPoint for another dimension."""
    _refuse_other_dimension(db, space, len(query))

    @lru_cache(maxsize=4096)
    def admit(memory: int) -> bool:
        return matches(condition, json.loads(_body(db, memory)))

    batches = _vector_batches(db, space, 2 * len(query), condition)
    return [
        _vector_hit(db, found.chunk, found.score) for found in nearest(query, batches, admit, limit)
    ]


def _narrowed(condition: Filter, cold: bool | None) -> tuple[str, list[Any]]:
    """Say in SQL what the filter says of indexed columns; the rest is matched on the record.

    The text is made of constants; what came from outside is among the values.
    """
    clauses = ["head.tombstone = 0"]
    values: list[Any] = []
    for column in ("project", "id"):
        limit = text_values(condition, column)
        if limit is not None and len(limit) == 1:
            clauses.append(f"head.{column} = ?")
            values.extend(limit)
        elif limit is not None:
            clauses.append(f"head.{column} IN (SELECT value FROM json_each(?))")  # noqa: S608
            values.append(json.dumps(sorted(limit)))
    if cold is not None:
        clauses.append("head.cold = ?")
        values.append(int(cold))
    return " AND ".join(clauses), values


def _body(db: sqlite3.Connection, key: int) -> str:
    return str(db.execute(f"SELECT body {CURRENT} WHERE head.key = ?", (key,)).fetchone()["body"])


def _words(query: str) -> list[str]:
    return list(dict.fromkeys(re.findall(r"\w+", query)))[:_MAX_WORDS]


def _refuse_other_dimension(db: sqlite3.Connection, space: str, dimension: int) -> None:
    row = db.execute(
        "SELECT length(vector) / 2 AS size FROM chunk WHERE space = ? AND vector IS NOT NULL"
        " LIMIT 1",
        (space,),
    ).fetchone()
    if row is not None and row["size"] != dimension:
        raise InvalidPoint(f"the vectors of {space} have {row['size']} numbers, not {dimension}")


def _vector_batches(
    db: sqlite3.Connection, space: str, size_bytes: int, condition: Filter
) -> Iterator[list[VectorRow]]:
    where, values = _narrowed(condition, None)
    sql = f"""
        SELECT chunk.memory, chunk.rowid, chunk.vector FROM memory_head AS head
          JOIN chunk ON chunk.memory = head.key AND chunk.revision = head.revision
         WHERE {where} AND chunk.space = ? AND length(chunk.vector) = ?
    """  # noqa: S608
    cursor = db.execute(sql, (*values, space, size_bytes))
    while rows := cursor.fetchmany(_VECTORS_AT_ONCE):
        yield [(row[0], row[1], row[2]) for row in rows]


def _vector_hit(db: sqlite3.Connection, chunk: int, score: float) -> ArchiveHit:
    row = db.execute(
        f"SELECT body, cold, chunk.text AS passage {CURRENT}"
        " JOIN chunk ON chunk.memory = head.key WHERE chunk.rowid = ?",
        (chunk,),
    ).fetchone()
    return ArchiveHit(record_from_text(row["body"]), score, row["passage"], bool(row["cold"]))
