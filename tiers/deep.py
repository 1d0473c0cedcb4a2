"""The port of the deep tier: points with vectors, found by meaning and by words."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from tiers.filters import Filter
from tiers.records import MemoryRecord, to_json

#: Version of the payload and index layout; a store with another one is refused.
SCHEMA_VERSION = 1

#: Name of the sparse vector that holds the words.
SPARSE_VECTOR = "bm25"

#: Payload fields that stores index: name → kind. Only what searches filter by: in Qdrant Edge an
#: index costs about 5 MB even when it is empty (2026-11-30); a filter on another field still works.
INDEXED_FIELDS: Mapping[str, str] = {
    "project": "tenant",
    "id": "keyword",
    "type": "keyword",
    "category": "keyword",
    "tags": "keyword",
    "owner": "keyword",
    "visibility": "keyword",
    "created_at": "datetime",
    "expires_at": "datetime",
}

_POINT_NAMESPACE = uuid.UUID("6f1d0c5e-7a55-5c0f-9d6f-5f5f4f1b6a01")


class Health(StrEnum):
    """What a store can do now."""

    READY = "ready"
    DEGRADED = "degraded"
    DOWN = "down"


@dataclass(frozen=True, slots=True)
class StoreHealth:
    """How a store is, in one word and one sentence."""

    state: Health
    detail: str = ""
    count: int | None = None


@dataclass(frozen=True, slots=True)
class SparseVector:
    """Token ids and their weights, ids ascending and distinct."""

    indices: tuple[int, ...]
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class DeepSpec:
    """What a deep store must be to be opened: dense vectors by name and dimension.

    `vectors` maps the name of each dense vector, its embedding space's id, to its dimension.
    """

    active: str
    vectors: Mapping[str, int]
    schema_version: int = SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class Point:
    """One chunk of one memory. Without `dense` it is found by words alone (vector pending)."""

    id: str
    payload: Mapping[str, Any]
    sparse: SparseVector
    dense: Mapping[str, Sequence[float]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StoredPoint:
    """What a store gives back of a point."""

    id: str
    payload: Mapping[str, Any]
    dense: Mapping[str, Sequence[float]] = field(default_factory=dict)
    sparse: SparseVector | None = None


@dataclass(frozen=True, slots=True)
class Candidate:
    """A point that an arm found, with that arm's raw score."""

    point_id: str
    score: float
    payload: Mapping[str, Any]


class Arm(StrEnum):
    """Where a candidate came from."""

    DENSE = "dense"
    SPARSE = "sparse"
    LOCAL = "local"
    ARCHIVE = "archive"


class DeepStore(Protocol):
    """Points with vectors; an index that can always be rebuilt from the archive.

    All methods are synchronous, may be called from any thread, and raise only `TierError`s.
    Writes are idempotent by point id. A write is safe from a killed process when it returns and
    from a power loss after `flush`.
    """

    def open(self, spec: DeepSpec) -> None:
        """Open the store, creating it when there is none.

        Raises StoreMismatch when it was made for another schema or when a vector of that name has
        another dimension. Never deletes or recreates anything.
        """

    def upsert(self, points: Sequence[Point]) -> None:
        """Write points, replacing those of the same id.

        Raises InvalidPoint, before anything is written, when an id is no UUID, a dense vector's
        name or dimension is unknown, or a number is not finite; StoreFull when space is short.
        """

    def delete(self, condition: Filter) -> None:
        """Delete every point that satisfies the condition."""

    def delete_ids(self, point_ids: Sequence[str]) -> None:
        """Delete points by id; unknown ids are no error."""

    def set_payload(self, condition: Filter, patch: Mapping[str, Any]) -> None:
        """Set some payload fields of every point that satisfies the condition."""

    def fetch(self, point_ids: Sequence[str], *, with_vectors: bool = False) -> list[StoredPoint]:
        """Read points by id; unknown ids are left out."""

    def candidates(
        self,
        *,
        dense: Sequence[float] | None,
        sparse: SparseVector | None,
        condition: Filter,
        depth: int,
    ) -> dict[Arm, list[Candidate]]:
        """Ask each arm that was given a vector for its best `depth` points, best first.

        The dense arm uses the active vector. Higher scores are better in both arms.
        """

    def scroll(
        self, condition: Filter, *, batch: int = 256, with_vectors: bool = False
    ) -> Iterator[StoredPoint]:
        """Yield every point that satisfies the condition, in the order of ids."""

    def count(self, condition: Filter) -> int:
        """Count points exactly."""

    def facet(self, name: str, condition: Filter, *, limit: int = 100) -> dict[str, int]:
        """Count points by value of an indexed keyword field."""

    def add_vector(self, name: str, dimension: int) -> None:
        """Add a dense vector of that name to the store; one that is there already is no error."""

    def drop_vector(self, name: str) -> None:
        """Drop a dense vector that is not active."""

    @property
    def active_vector(self) -> str:
        """The name of the dense vector that searches use."""

    def activate(self, name: str) -> None:
        """Make searches use another dense vector of this store."""

    def mark(self) -> int:
        """The archive sequence number up to which everything was flushed; 0 for a new store."""

    def flush(self, mark: int | None = None) -> None:
        """Make every write so far safe from a power loss, then remember `mark` beside it."""

    def backup(self, destination: Path) -> None:
        """Write a copy that `open` would accept to a folder that does not exist yet."""

    def health(self) -> StoreHealth:
        """Say how the store is; never raises."""

    def close(self) -> None:
        """Flush and close; later calls raise StoreUnavailable. Closing twice is no error."""


def point_id(record_id: str, chunk_hash: str, ordinal_among_equals: int) -> str:
    """Name the point of a chunk: equal for equal content, wherever the chunk stands in its text."""
    return str(uuid.uuid5(_POINT_NAMESPACE, f"{record_id}\0{ordinal_among_equals}\0{chunk_hash}"))


def chunk_payload(record: MemoryRecord, *, text: str, ordinal: int, chunks: int) -> dict[str, Any]:
    """Build the payload of one chunk: a complete answer, without a look into another store."""
    payload = {
        key: value
        for key, value in to_json(record).items()
        if key not in ("body", "extra", "deleted") and value not in (None, [], "")
    }
    return payload | {
        "text": text,
        "ordinal": ordinal,
        "chunks": chunks,
        "hash": record.content_hash,
    }
