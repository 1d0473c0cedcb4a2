"""Short ways to fill an archive."""

from __future__ import annotations

from collections.abc import Sequence

from tiers.archive import Archive, ChunkedMemory, StoredChunk


def put_chunks(
    archive: Archive, record_id: str, revision: int, chunks: Sequence[StoredChunk]
) -> None:
    """Store the chunks of one memory."""
    archive.put_chunks([ChunkedMemory(record_id, revision, tuple(chunks))])
