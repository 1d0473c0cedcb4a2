"""The deep sink: makes the deep store equal to the archive's heads."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from embeddings.chunking import Chunk, chunk
from embeddings.embedder import Embedder, EmbeddingSpace
from embeddings.errors import EmbeddingError
from embeddings.sparse import SparseEncoder
from memory.model import Model
from tiers.archive import Archive, ChunkedMemory, StoredChunk
from tiers.deep import DeepStore, Point, SparseVector, chunk_payload, point_id
from tiers.errors import StoreUnavailable
from tiers.filters import In
from tiers.outbox import Delivery, SinkName
from tiers.records import MemoryRecord

log = logging.getLogger(__name__)

#: A delivery waits so long for a model that is being loaded, then indexes by words alone.
MODEL_PATIENCE_S = 5.0

_TELLING = re.compile(r"[^\W\d_]{3,}")


@dataclass(frozen=True, slots=True)
class _Part:
    """A chunk as points and the archive have it."""

    ordinal: int
    hash: str
    text: str


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A record's chunks, and the vectors that are known by the hashes of their chunks."""

    record: MemoryRecord
    parts: tuple[_Part, ...]
    vectors: Mapping[str, tuple[float, ...]]

    @property
    def lacks_vectors(self) -> bool:
        return any(part.hash not in self.vectors for part in self.parts)


class Indexer:
    """Copies heads into the deep store: chunk, embed what is new, upsert, delete what is stale.

    A delivery is only a hint that a memory changed: what counts is the archive's head, so late or
    repeated deliveries cannot bring back an old revision or a forgotten memory. One relay thread
    uses it.
    """

    name = SinkName.DEEP

    def __init__(
        self,
        *,
        archive: Archive,
        deep: Callable[[], DeepStore],
        model: Model,
        sparse: SparseEncoder,
    ) -> None:
        self._archive = archive
        self._deep = deep
        self._model = model
        self._sparse = sparse

    def apply(self, deliveries: Sequence[Delivery]) -> Collection[str]:
        """Index the memories that changed; returns the ids that still wait for vectors."""
        deep = self._deep()
        space = self._space()
        ids = list(dict.fromkeys(delivery.record_id for delivery in deliveries))
        live = [record for record in map(self._head, ids) if record is not None]
        known = {record.id: self._archived(record, space) for record in live}
        made = self._make([record for record in live if known[record.id] is None], space)
        prepared = [known[record.id] or made[record.id] for record in live]
        points = [point for entry in prepared for point in self._points(entry, space)]
        stale = _point_ids(deep, ids) - {point.id for point in points}
        deep.upsert(points)
        deep.delete_ids(sorted(stale))
        if made:
            self._archive.put_chunks([_chunked(entry, space) for entry in made.values()])
        return {entry.record.id for entry in prepared if entry.lacks_vectors}

    def _space(self) -> EmbeddingSpace:
        try:
            return self._model.space()
        except EmbeddingError as exc:
            raise StoreUnavailable(f"no model: {exc.message}", hint=exc.hint) from exc

    def _head(self, record_id: str) -> MemoryRecord | None:
        head = self._archive.head(record_id)
        if head is None or head.tombstone or head.cold:
            return None
        return self._archive.current(record_id)

    def _archived(self, record: MemoryRecord, space: EmbeddingSpace) -> _Prepared | None:
        """Take a revision's chunks from the archive: a lost index needs no model to come back."""
        stored = self._archive.chunks(record.id, space.id)
        vectors = {chunk.chunk_hash: chunk.vector for chunk in stored if chunk.vector is not None}
        parts = tuple(_Part(chunk.ordinal, chunk.chunk_hash, chunk.text) for chunk in stored)
        prepared = _Prepared(record, parts, vectors)
        return None if prepared.lacks_vectors or not parts else prepared

    def _make(self, records: Sequence[MemoryRecord], space: EmbeddingSpace) -> dict[str, _Prepared]:
        """Cut records into chunks and embed those whose content no memory had before."""
        if not records:
            return {}
        embedder = self._model.get(wait_s=MODEL_PATIENCE_S)
        cut = [(record, _chunks(record, space, embedder)) for record in records]
        texts = {part.hash: part.embedded for _, chunks in cut for part in chunks}
        vectors = self._vectors(texts, space, embedder)
        return {
            record.id: _Prepared(
                record, tuple(_Part(part.ordinal, part.hash, part.text) for part in chunks), vectors
            )
            for record, chunks in cut
        }

    def _vectors(
        self, texts: Mapping[str, str], space: EmbeddingSpace, embedder: Embedder | None
    ) -> dict[str, tuple[float, ...]]:
        """Look vectors up by content; embed what is missing."""
        vectors = self._archive.vectors(space.id, list(texts))
        missing = [key for key in texts if key not in vectors]
        if not missing or embedder is None:
            return vectors
        try:
            made = embedder.embed_documents([texts[key] for key in missing])
        except EmbeddingError as exc:
            log.warning("%d chunks wait for their vectors: %s", len(missing), exc.message)
            return vectors
        rows = zip(missing, made, strict=True)
        return vectors | {key: tuple(float(number) for number in row) for key, row in rows}

    def _points(self, entry: _Prepared, space: EmbeddingSpace) -> list[Point]:
        seen: Counter[str] = Counter()
        points: list[Point] = []
        for part in entry.parts:
            words = self._sparse.encode_document(searchable_text(entry.record, part.text))
            vector = entry.vectors.get(part.hash)
            points.append(
                Point(
                    id=point_id(entry.record.id, part.hash, seen[part.hash]),
                    payload=chunk_payload(
                        entry.record, text=part.text, ordinal=part.ordinal, chunks=len(entry.parts)
                    ),
                    sparse=SparseVector(words.indices, words.values),
                    dense={space.id: vector} if vector is not None else {},
                )
            )
            seen[part.hash] += 1
        return points


def _chunked(entry: _Prepared, space: EmbeddingSpace) -> ChunkedMemory:
    return ChunkedMemory(
        entry.record.id,
        entry.record.revision,
        tuple(
            StoredChunk(part.ordinal, part.hash, part.text, space.id, entry.vectors.get(part.hash))
            for part in entry.parts
        ),
    )


def searchable_text(record: MemoryRecord, text: str | None = None) -> str:
    """Join what words can find of a memory: what it is called, its tags, and one of its texts."""
    parts = (
        record.name,
        record.description,
        " ".join((*record.tags, *record.keywords)),
        record.body if text is None else text,
    )
    return "\n".join(part for part in parts if part)


def embedded_title(record: MemoryRecord) -> str:
    """Say what is put before each chunk when it is embedded: only what adds a meaning to it."""
    name = record.name if _TELLING.search(record.name) else ""
    if name and record.body.lstrip("# ").startswith(name):
        name = ""
    return ". ".join(part for part in (name, record.description) if part)


def _chunks(
    record: MemoryRecord, space: EmbeddingSpace, embedder: Embedder | None
) -> tuple[Chunk, ...]:
    count = embedder.count_tokens if embedder else _guess_tokens
    title = embedded_title(record)
    return tuple(chunk(record.body, window_tokens=space.window, count_tokens=count, title=title))


def _guess_tokens(text: str) -> int:
    """Guess a count of tokens while there is no tokenizer; English has four letters a token."""
    return len(text) // 3 + 1


def _point_ids(deep: DeepStore, record_ids: Sequence[str]) -> set[str]:
    return {point.id for point in deep.scroll(In("id", tuple(record_ids)))}
