"""Memories that no index shows: pending changes, and hot files while the deep store is down."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from embeddings.sparse import SparseEncoder
from memory.file_drafts import apply_topic
from memory.hot_folders import HotFolders
from memory.indexer import searchable_text
from tiers.catalogue import Catalogue, Entry
from tiers.deep import chunk_payload
from tiers.errors import TierError
from tiers.hot import INDEX
from tiers.markdown import canonical_body, human_part
from tiers.outbox import Outbox
from tiers.records import MemoryRecord
from tiers.topic import read_topic

#: Pending changes of a project that a search looks through; newer ones first.
MOST_PENDING = 2_000


@dataclass(frozen=True, slots=True)
class Unindexed:
    """A memory that is searched without an index: its payload and its words with their weights."""

    record_id: str
    payload: Mapping[str, Any]
    words: Mapping[int, float]


@dataclass(frozen=True, slots=True)
class Seen:
    """What was found, and whether anything had to be left out."""

    memories: tuple[Unindexed, ...]
    is_complete: bool = True


class Overlay:
    """Reads what lies beside the index. Any thread may use it."""

    def __init__(
        self,
        *,
        catalogue: Catalogue,
        outbox: Outbox,
        folders: HotFolders,
        sparse: SparseEncoder,
    ) -> None:
        self._catalogue = catalogue
        self._outbox = outbox
        self._folders = folders
        self._sparse = sparse
        self._encoded: OrderedDict[int, Unindexed] = OrderedDict()

    def pending(self, project: str) -> Seen:
        """Read the newest pending revision of each memory of a project."""
        rows = self._outbox.overlay(project, limit=MOST_PENDING)
        found: dict[str, Unindexed] = {}
        for seq, record_id in rows:
            if record_id not in found and (one := self._queued(seq)) is not None:
                found[record_id] = one
        return Seen(tuple(found.values()), is_complete=len(rows) < MOST_PENDING)

    def hot_files(self, project: str) -> Seen:
        """Read hot files as they are now; their texts need no store."""
        folder = self._folders.get(project)
        found: list[Unindexed] = []
        complete = True
        for path, placement in self._catalogue.placements(project).items():
            try:
                file = folder.hot.read(path)
            except TierError:
                complete = False
                continue
            entry = self._catalogue.get(placement.id)
            if file is not None and entry is not None and not entry.tombstone:
                found.append(self._encode(_record_of_file(entry, path, file.content)))
        return Seen(tuple(found), complete)

    def words(self, texts: Sequence[str]) -> list[Mapping[int, float]]:
        """Weigh the words of texts as an index would."""
        encoded = (self._sparse.encode_document(text) for text in texts)
        return [dict(zip(words.indices, words.values, strict=True)) for words in encoded]

    def _queued(self, seq: int) -> Unindexed | None:
        known = self._encoded.get(seq)
        if known is None:
            record = self._outbox.record(seq)
            if record is None:
                return None
            known = self._encoded[seq] = self._encode(record)
            while len(self._encoded) > 2 * MOST_PENDING:
                self._encoded.popitem(last=False)
        return known

    def _encode(self, record: MemoryRecord) -> Unindexed:
        payload = chunk_payload(record, text=record.body, ordinal=0, chunks=1)
        return Unindexed(record.id, payload, self.words([searchable_text(record)])[0])


def _record_of_file(entry: Entry, path: str, content: bytes) -> MemoryRecord:
    base = MemoryRecord(
        id=entry.id,
        project=entry.project,
        name=entry.name,
        body=canonical_body(human_part(content)) if path == INDEX else "",
        owner=entry.owner,
        visibility=entry.visibility,
        created_at=entry.updated_at,
        updated_at=entry.updated_at,
        revision=entry.revision,
    )
    if path == INDEX:
        return base
    topic = read_topic(content)
    return apply_topic(base, topic, path, revision=entry.revision, now=entry.updated_at)
