"""The port of the archive: every revision of every memory, the system of record."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from tiers.deep import StoreHealth
from tiers.filters import Filter
from tiers.records import MemoryRecord, Usage


@dataclass(frozen=True, slots=True)
class Head:
    """What is current of a memory. `seq` grows with every change of any head in this archive.

    `cold` says that the memory lives in the archive alone, so no index may hold it.
    """

    id: str
    project: str
    revision: int
    content_hash: str
    tombstone: bool
    cold: bool
    seq: int


class Appended(StrEnum):
    """What became of a revision that was handed to the archive."""

    APPENDED = "appended"
    ALREADY_THERE = "already there"
    #: The number was taken by other content: kept under the next free number, as the new head.
    RENUMBERED = "renumbered"


@dataclass(frozen=True, slots=True)
class AppendOutcome:
    """The fate of one revision, in the order given; `revision` is the number it has now."""

    id: str
    revision: int
    fate: Appended
    seq: int


@dataclass(frozen=True, slots=True)
class StoredChunk:
    """One chunk of a memory's current revision.

    `vector` is None while no model could embed it (vector pending). Vectors are kept as float16.
    """

    ordinal: int
    chunk_hash: str
    text: str
    space: str
    vector: tuple[float, ...] | None


@dataclass(frozen=True, slots=True)
class ChunkedMemory:
    """The chunks that one revision of a memory was cut into."""

    id: str
    revision: int
    chunks: tuple[StoredChunk, ...]


@dataclass(frozen=True, slots=True)
class ArchiveHit:
    """A memory found in the archive; higher scores are better."""

    record: MemoryRecord
    score: float
    text: str
    cold: bool


class Archive(Protocol):
    """Every revision of every memory.

    All methods are synchronous, may be called from any thread, and raise only `TierError`s. What a
    method wrote is durable when it returns. Filters see the keys of `records.to_json`.
    """

    def open(self) -> None:
        """Open the archive, creating or migrating its schema; opening twice is no error.

        Raises StoreMismatch for a newer schema.
        """

    def append(self, records: Sequence[MemoryRecord]) -> list[AppendOutcome]:
        """Append revisions in one transaction and move each memory's head by compare-and-swap.

        A revision that is there already, by id, number and content hash, changes nothing. A number
        behind the head with new content is kept under the next free number and becomes the head.
        A gap in the numbers is allowed. After a tombstone no revision becomes the head any more,
        except by `restore`; such a late revision is reported as ALREADY_THERE and not kept.
        A tombstone erases the text of all earlier revisions, their chunks and their full-text rows.
        """

    def current(self, record_id: str) -> MemoryRecord | None:
        """Read the head's record, tombstones included; None for an unknown id."""

    def head(self, record_id: str) -> Head | None:
        """Read what is current of one memory."""

    def heads(self, *, after: int = 0) -> Iterator[Head]:
        """Yield heads whose `seq` is greater than `after`, ascending."""

    def last_seq(self) -> int:
        """The greatest `seq` given out so far; 0 for an empty archive."""

    def history(self, record_id: str) -> list[MemoryRecord]:
        """Read every revision, oldest first."""

    def set_cold(self, record_ids: Sequence[str], cold: bool) -> None:
        """Say that memories live in the archive alone, or no longer do; this moves their `seq`."""

    def scan(
        self, condition: Filter, *, after: str = "", limit: int = 500, cold: bool | None = None
    ) -> list[MemoryRecord]:
        """Read a page of current records in the order of ids, tombstones left out.

        `after` is the last id of the page before. `cold` narrows to one side when given.
        """

    def count(self, condition: Filter, *, cold: bool | None = None) -> int:
        """Count current records, tombstones left out."""

    def search_text(self, query: str, condition: Filter, *, limit: int) -> list[ArchiveHit]:
        """Find current records by words; never raises for odd characters in `query`."""

    def search_vector(
        self, vector: Sequence[float], space: str, condition: Filter, *, limit: int
    ) -> list[ArchiveHit]:
        """Find current records by meaning: the cosine of the best chunk, exact."""

    def put_chunks(self, memories: Sequence[ChunkedMemory]) -> None:
        """Replace the chunks of memories in one transaction.

        A memory whose revision is no longer its head keeps what it has.
        """

    def chunks(self, record_id: str, space: str) -> list[StoredChunk]:
        """Read a memory's chunks of one space, in order."""

    def vectors(self, space: str, chunk_hashes: Sequence[str]) -> dict[str, tuple[float, ...]]:
        """Look up vectors of any memory's chunks by content, so that no text is embedded twice."""

    def count_chunks(self) -> int:
        """Count the chunks of every memory that is neither cold nor forgotten."""

    def record_use(self, record_id: str, *, task: str, at: datetime) -> None:
        """Count a use, at most once per memory and task."""

    def usage(self, record_ids: Sequence[str]) -> dict[str, Usage]:
        """Read how often memories were of use; ids without a use are left out."""

    def health(self) -> StoreHealth:
        """Say how the archive is; never raises."""

    def close(self) -> None:
        """Close; later calls raise StoreUnavailable. Closing twice is no error."""
