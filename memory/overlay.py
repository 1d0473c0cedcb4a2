"""Memories that no index shows: pending changes, and hot files while the deep store is down."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
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

#: What a search shows and reads of one memory that is not cut into chunks yet.
_SHOWN_CHARACTERS = 2_000
_READ_CHARACTERS = 200_000

#: Words with their weights that are kept between searches, about 100 bytes each.
_MOST_WORDS = 500_000


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
    """Reads what lies beside the index. Any thread may use it.

    `mask` takes the secrets out of what a hot file says. What was encoded is kept for the next
    search while it is pending, up to a bound.
    """

    def __init__(
        self,
        *,
        catalogue: Catalogue,
        outbox: Outbox,
        folders: HotFolders,
        sparse: SparseEncoder,
        mask: Callable[[MemoryRecord], MemoryRecord],
    ) -> None:
        self._catalogue = catalogue
        self._outbox = outbox
        self._folders = folders
        self._sparse = sparse
        self._mask = mask
        self._lock = threading.Lock()  # guards _encoded and _words_kept
        self._encoded: OrderedDict[int, Unindexed] = OrderedDict()
        self._words_kept = 0

    def pending(self, project: str, *, owner: str) -> Seen:
        """Read the newest pending revision of each memory of a project that `owner` may see."""
        rows = self._outbox.overlay(project, owner=owner, limit=MOST_PENDING)
        found: dict[str, Unindexed] = {}
        for seq, record_id in rows:
            if record_id not in found and (one := self._queued(seq)) is not None:
                found[record_id] = one
        return Seen(tuple(found.values()), is_complete=len(rows) < MOST_PENDING)

    def hot_files(self, project: str, *, owner: str) -> Seen:
        """Read hot files that `owner` may see as they are now; their texts need no store."""
        folder = self._folders.get(project)
        found: list[Unindexed] = []
        complete = True
        for path, placement in self._catalogue.placements(project).items():
            entry = self._catalogue.get(placement.id)
            if entry is None or entry.tombstone or not entry.is_seen_by(owner):
                continue
            try:
                file = folder.hot.read(path)
            except TierError:
                complete = False
                continue
            if file is not None:
                record = _record_of_file(entry, path, file.content)
                found.append(self._encode(self._mask(record)))
        return Seen(tuple(found), complete)

    def words(self, texts: Sequence[str]) -> list[Mapping[int, float]]:
        """Weigh the words of texts as an index would."""
        encoded = (self._sparse.encode_document(text) for text in texts)
        return [dict(zip(words.indices, words.values, strict=True)) for words in encoded]

    def _queued(self, seq: int) -> Unindexed | None:
        with self._lock:
            known = self._encoded.get(seq)
        if known is not None:
            return known
        record = self._outbox.record(seq)
        if record is None:
            return None
        known = self._encode(record)
        self._remember(seq, known)
        return known

    def _remember(self, seq: int, one: Unindexed) -> None:
        with self._lock:
            if self._encoded.setdefault(seq, one) is not one:
                return
            self._words_kept += len(one.words)
            while self._words_kept > _MOST_WORDS or len(self._encoded) > MOST_PENDING:
                _, dropped = self._encoded.popitem(last=False)
                self._words_kept -= len(dropped.words)

    def _encode(self, record: MemoryRecord) -> Unindexed:
        shown = record.body[:_SHOWN_CHARACTERS]
        if len(shown) < len(record.body):
            shown = f"{shown.rstrip()} …"
        pieces = -(-len(record.body) // _SHOWN_CHARACTERS) or 1
        payload = chunk_payload(record, text=shown, ordinal=0, chunks=pieces)
        text = searchable_text(record)[:_READ_CHARACTERS]
        return Unindexed(record.id, payload, self.words([text])[0])


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
