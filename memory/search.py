"""Finding memories: by meaning and by words, in every tier that answers, as one ranked list."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from embeddings.errors import EmbeddingError
from embeddings.sparse import SparseEncoder
from memory.hand_edits import apply_topic
from memory.hot_folders import HotFolders
from memory.indexer import searchable_text
from memory.lexical import coverage
from memory.model import Model
from memory.ranking import Ranked, is_confident, rank
from tiers.archive import Archive, ArchiveHit
from tiers.catalogue import Catalogue, Entry
from tiers.deep import Arm, Candidate, DeepStore, SparseVector, chunk_payload
from tiers.errors import TierError
from tiers.filters import All, AnyOf, Eq, Filter, In, Not, TimeRange, matches
from tiers.outbox import Outbox
from tiers.records import GLOBAL_PROJECT, MemoryRecord, MemoryType, Tier, Visibility
from tiers.topic import read_topic

#: Candidates that each arm gives. Deep enough that neighbours of a good turn are among them.
DEPTH = 100

#: A search waits so long for a model that is being loaded, then answers by words alone.
MODEL_PATIENCE_S = 1.0

_MOST_PENDING = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """What to look for, and in which memories."""

    text: str
    project: str
    limit: int = 10
    tier: Tier | None = None
    type: MemoryType | None = None
    category: str | None = None
    tags: tuple[str, ...] = ()
    since: datetime | None = None
    until: datetime | None = None
    include_global: bool = False
    include_superseded: bool = False


@dataclass(frozen=True, slots=True)
class Hit:
    """One memory that was found and why it ranks where it does."""

    ranked: Ranked
    tier: Tier
    path: str | None
    pending: bool

    @property
    def payload(self) -> Mapping[str, Any]:
        return self.ranked.payload


@dataclass(frozen=True, slots=True)
class Answer:
    """What was found; `degraded` names what could not be asked."""

    hits: tuple[Hit, ...]
    degraded: tuple[str, ...] = ()
    confident: bool = True


@dataclass(slots=True)
class _Asked:
    """What came back from the arms, and which of them did not answer."""

    arms: dict[Arm, list[Candidate]] = field(default_factory=dict)
    degraded: list[str] = field(default_factory=list)
    pending: set[str] = field(default_factory=set)


class Search:
    """Asks the tiers and fuses their answers. Any thread may use it."""

    def __init__(
        self,
        *,
        catalogue: Catalogue,
        outbox: Outbox,
        archive: Archive,
        deep: Callable[[], DeepStore],
        folders: HotFolders,
        model: Model,
        sparse: SparseEncoder,
        owner: str,
        clock: Callable[[], datetime],
        path_of: Callable[[str], str | None],
    ) -> None:
        self._catalogue = catalogue
        self._outbox = outbox
        self._archive = archive
        self._deep = deep
        self._folders = folders
        self._model = model
        self._sparse = sparse
        self._owner = owner
        self._clock = clock
        self._path_of = path_of
        self._queued: OrderedDict[int, _Queued] = OrderedDict()

    def search(self, query: Query) -> Answer:
        """Find memories, minding what is pending, forgotten, expired or superseded."""
        now = self._clock()
        condition = self._condition(query, now)
        asked = _Asked()
        words = self._sparse.encode_query(query.text)
        vector = self._vector(query.text, asked)
        if query.tier is not Tier.COLD:
            self._ask_deep(vector, SparseVector(words.indices, words.values), condition, asked)
            self._ask_local(query, words.indices, condition, asked)
        self._ask_archive(query, vector, condition, asked)
        ranked = rank(asked.arms, now=now)
        hits = self._visible(query, ranked, asked, now)
        return Answer(hits, tuple(dict.fromkeys(asked.degraded)), is_confident(asked.arms))

    def _vector(self, text: str, asked: _Asked) -> list[float] | None:
        embedder = self._model.get(wait_s=MODEL_PATIENCE_S)
        if embedder is None:
            asked.degraded.append("model")
            return None
        try:
            return [float(number) for number in embedder.embed_query(text)]
        except EmbeddingError:
            asked.degraded.append("model")
            return None

    # The arms.

    def _ask_deep(
        self, vector: Sequence[float] | None, words: SparseVector, condition: Filter, asked: _Asked
    ) -> None:
        try:
            arms = self._deep().candidates(
                dense=vector,
                sparse=words if words.indices else None,
                condition=condition,
                depth=DEPTH,
            )
        except TierError:
            asked.degraded.append("deep")
            return
        asked.arms.update({arm: list(found) for arm, found in arms.items()})

    def _ask_local(
        self, query: Query, words: Sequence[int], condition: Filter, asked: _Asked
    ) -> None:
        """Search pending changes, which no index shows yet, and hot files when deep is down."""
        payloads: dict[str, _Queued] = {}
        for project in self._projects(query):
            for queued in self._overlay(project):
                payloads.setdefault(queued.record_id, queued)
        asked.pending.update(payloads)
        if "deep" in asked.degraded:
            for project in self._projects(query):
                for queued in self._hot_texts(project, asked):
                    payloads.setdefault(queued.record_id, queued)
        self._drop_stale(payloads.keys(), asked)
        shown = {key: q for key, q in payloads.items() if matches(condition, q.payload)}
        scores = coverage(words, {key: queued.words for key, queued in shown.items()})
        if scores:
            asked.arms[Arm.LOCAL] = [
                Candidate(key, score, shown[key].payload) for key, score in scores.items()
            ]

    def _drop_stale(self, newer: Iterable[str], asked: _Asked) -> None:
        """What is pending replaces what the deep store still shows of it."""
        ids = set(newer)
        for arm, found in asked.arms.items():
            asked.arms[arm] = [c for c in found if c.payload["id"] not in ids]

    def _overlay(self, project: str) -> list[_Queued]:
        found: list[_Queued] = []
        seen: set[str] = set()
        for seq, record_id in self._outbox.overlay(project, limit=_MOST_PENDING):
            if record_id in seen:
                continue
            seen.add(record_id)
            queued = self._queued.get(seq)
            if queued is None:
                record = self._outbox.record(seq)
                if record is None:
                    continue
                queued = self._queued[seq] = self._encoded(record)
                while len(self._queued) > 2 * _MOST_PENDING:
                    self._queued.popitem(last=False)
            found.append(queued)
        return found

    def _hot_texts(self, project: str, asked: _Asked) -> list[_Queued]:
        """Read hot files as they are now; their records need no store."""
        folder = self._folders.get(project)
        texts: list[_Queued] = []
        for path, placement in self._catalogue.placements(project).items():
            try:
                file = folder.hot.read(path)
            except TierError:
                asked.degraded.append("hot")
                continue
            entry = self._catalogue.get(placement.id)
            if file is None or entry is None or entry.tombstone:
                continue
            texts.append(self._encoded(_record_of_file(entry, path, file.content)))
        return texts

    def _encoded(self, record: MemoryRecord) -> _Queued:
        words = self._sparse.encode_document(searchable_text(record))
        payload = chunk_payload(record, text=record.body, ordinal=0, chunks=1)
        return _Queued(record.id, payload, dict(zip(words.indices, words.values, strict=True)))

    def _ask_archive(
        self, query: Query, vector: Sequence[float] | None, condition: Filter, asked: _Asked
    ) -> None:
        """Ask the archive for what is cold, and for everything when the deep store is down."""
        deep_is_down = "deep" in asked.degraded
        if query.tier not in (None, Tier.COLD) and not deep_is_down:
            return
        thin = len({c.payload["id"] for found in asked.arms.values() for c in found}) < query.limit
        if not (deep_is_down or query.tier is Tier.COLD or thin):
            return
        try:
            hits = self._archive.search_text(query.text, condition, limit=DEPTH)
            if vector is not None and (deep_is_down or query.tier is Tier.COLD):
                space = self._model.space().id
                hits += self._archive.search_vector(vector, space, condition, limit=DEPTH)
        except TierError:
            asked.degraded.append("archive")
            return
        known = {c.payload["id"] for found in asked.arms.values() for c in found}
        fresh = [h for h in hits if h.record.id not in known and (h.cold or deep_is_down)]
        if fresh:
            asked.arms[Arm.ARCHIVE] = _archive_candidates(fresh)

    # What may be shown.

    def _condition(self, query: Query, now: datetime) -> Filter:
        """Build the one rule of scope, and the narrowing that was asked for."""
        parts: list[Filter] = [
            In("project", tuple(self._projects(query))),
            AnyOf((Not(Eq("visibility", Visibility.PRIVATE)), Eq("owner", self._owner))),
            Not(TimeRange("expires_at", lte=now)),
        ]
        if query.type:
            parts.append(Eq("type", query.type))
        if query.category:
            parts.append(Eq("category", query.category))
        parts += [Eq("tags", tag) for tag in query.tags]
        if query.since or query.until:
            parts.append(TimeRange("created_at", gte=query.since, lte=query.until))
        return All(tuple(parts))

    def _projects(self, query: Query) -> list[str]:
        return [query.project, GLOBAL_PROJECT] if query.include_global else [query.project]

    def _visible(
        self, query: Query, ranked: Sequence[Ranked], asked: _Asked, now: datetime
    ) -> tuple[Hit, ...]:
        """Drop what this home knows to be gone or replaced, then cut to the limit."""
        entries = self._catalogue.get_many(hit.record_id for hit in ranked)
        replaced = self._catalogue.superseded_by(hit.record_id for hit in ranked)
        hits: list[Hit] = []
        for found in ranked:
            entry = entries.get(found.record_id)
            if not _is_current(entry, found, now):
                continue
            if found.record_id in replaced and not query.include_superseded:
                continue
            tier = entry.tier if entry else Tier.DEEP
            if query.tier and tier is not query.tier:
                continue
            pending = found.record_id in asked.pending
            hits.append(Hit(found, tier, self._path_of(found.record_id), pending))
            if len(hits) == query.limit:
                break
        return tuple(hits)


@dataclass(frozen=True, slots=True)
class _Queued:
    """A memory that is searched without an index."""

    record_id: str
    payload: Mapping[str, Any]
    words: Mapping[int, float]


def _is_current(entry: Entry | None, found: Ranked, now: datetime) -> bool:
    if entry is None:
        # Saved by another home into a store that both use.
        return True
    newest = int(found.payload.get("revision", 0)) >= entry.revision
    return newest and not entry.tombstone and not entry.is_expired(now)


def _record_of_file(entry: Entry, path: str, content: bytes) -> MemoryRecord:
    base = MemoryRecord(
        id=entry.id,
        project=entry.project,
        name=entry.name,
        body="",
        owner=entry.owner,
        visibility=entry.visibility,
        created_at=entry.updated_at,
        updated_at=entry.updated_at,
    )
    topic = read_topic(content)
    return apply_topic(base, topic, path, revision=entry.revision, now=entry.updated_at)


def _archive_candidates(hits: Sequence[ArchiveHit]) -> list[Candidate]:
    best = max((hit.score for hit in hits), default=0.0) or 1.0
    return [
        Candidate(
            hit.record.id,
            max(hit.score / best, 0.0),
            chunk_payload(hit.record, text=hit.text or hit.record.body, ordinal=0, chunks=1),
        )
        for hit in hits
    ]
