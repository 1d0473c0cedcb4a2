"""Finding memories: by meaning and by words, in every tier that answers, as one ranked list."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Protocol

import numpy as np

from embeddings.errors import EmbeddingError
from embeddings.sparse import SparseEncoder
from memory.lexical import coverage
from memory.model import Model
from memory.overlay import Overlay, Seen, Unindexed
from memory.ranking import Ranked, is_confident, rank
from tiers.archive import Archive, ArchiveHit
from tiers.catalogue import Catalogue, Entry
from tiers.deep import Arm, Candidate, DeepStore, SparseVector, chunk_payload
from tiers.errors import TierError
from tiers.filters import All, AnyOf, Eq, Filter, In, Not, TimeRange, matches
from tiers.records import GLOBAL_PROJECT, MemoryType, Tier, Visibility

#: Candidates that each arm gives. Deep enough that neighbours of a good turn are among them.
DEPTH = 100

#: A search waits so long for a model that is being loaded, then answers by words alone.
MODEL_PATIENCE_S = 1.0

#: How often the deep store is asked while few memories fill all its places with their chunks.
_MOST_ROUNDS = 4

#: Of the pending memories, so many that share the most with the question join the arms; each costs
#: one embedding, 5 to 10 ms.
MOST_JOINING = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """What to look for, and in which memories; those of all projects only `with_global`."""

    text: str
    project: str
    with_global: bool = False
    limit: int = 10
    tier: Tier | None = None
    type: MemoryType | None = None
    category: str | None = None
    tags: tuple[str, ...] = ()
    since: datetime | None = None
    until: datetime | None = None
    include_superseded: bool = False

    @property
    def projects(self) -> tuple[str, ...]:
        """Whose memories are searched."""
        both = (self.project, GLOBAL_PROJECT) if self.with_global else (self.project,)
        return tuple(dict.fromkeys(both))


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

    @property
    def project(self) -> str:
        """Which project the memory is of: with global ones asked for, not always the same."""
        return str(self.payload["project"])


@dataclass(frozen=True, slots=True)
class Answer:
    """What was found; `degraded` names what could not be asked."""

    hits: tuple[Hit, ...]
    degraded: tuple[str, ...] = ()
    confident: bool = True


class _Read(Protocol):
    """Reads what lies beside the index."""

    def __call__(self, project: str, *, owner: str) -> Seen: ...


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
        overlay: Overlay,
        archive: Archive,
        deep: Callable[[], DeepStore],
        model: Model,
        sparse: SparseEncoder,
        owner: str,
        clock: Callable[[], datetime],
        path_of: Callable[[str, str], str | None],
    ) -> None:
        self._catalogue = catalogue
        self._overlay = overlay
        self._archive = archive
        self._deep = deep
        self._model = model
        self._sparse = sparse
        self._owner = owner
        self._clock = clock
        self._path_of = path_of

    def seen_by(self, owner: str) -> Search:
        """Give the same search for somebody else; costs next to nothing."""
        view = copy.copy(self)
        view._owner = owner
        return view

    def search(self, query: Query) -> Answer:
        """Find memories, minding what is pending, forgotten, expired or superseded."""
        now = self._clock()
        condition = self._condition(query, now)
        asked = _Asked()
        words = self._sparse.encode_query(query.text)
        vector = self._vector(query.text, asked)
        if query.tier is not Tier.COLD:
            # Before the index is asked: what is indexed in between would be in neither answer.
            pending = self._beside(query, self._overlay.pending, asked, "pending")
            sparse = SparseVector(words.indices, words.values)
            self._ask_deep(vector, sparse, condition, query.limit, asked)
            self._ask_beside(query, pending, words.indices, vector, condition, asked)
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
        self,
        vector: Sequence[float] | None,
        words: SparseVector,
        condition: Filter,
        limit: int,
        asked: _Asked,
    ) -> None:
        """Ask for the best chunks, and again without a memory whose chunks crowd the others out."""
        depth = max(DEPTH, 2 * limit)
        narrowed = condition
        for _ in range(_MOST_ROUNDS):
            try:
                arms = self._deep().candidates(
                    dense=vector,
                    sparse=words if words.indices else None,
                    condition=narrowed,
                    depth=depth,
                )
            except TierError:
                asked.degraded.append("deep")
                return
            for arm, found in arms.items():
                asked.arms.setdefault(arm, []).extend(found)
            full = any(len(found) == depth for found in arms.values())
            known = {c.payload["id"] for found in asked.arms.values() for c in found}
            if not full or len(known) >= 2 * limit:
                return
            narrowed = All((condition, Not(In("id", tuple(sorted(known))))))

    def _ask_beside(
        self,
        query: Query,
        pending: dict[str, Unindexed],
        words: Sequence[int],
        vector: Sequence[float] | None,
        condition: Filter,
        asked: _Asked,
    ) -> None:
        """Search pending changes, which no index shows yet, and hot files when deep is down."""
        found = pending
        asked.pending.update(found)
        deep_is_down = "deep" in asked.degraded
        if deep_is_down:
            found = self._beside(query, self._overlay.hot_files, asked, "hot") | found
        self._drop_stale(found, asked)
        shown = {key: one for key, one in found.items() if matches(condition, one.payload)}
        scores = coverage(words, {key: one.words for key, one in shown.items()})
        if deep_is_down and scores:
            asked.arms[Arm.LOCAL] = [
                Candidate(key, score, shown[key].payload) for key, score in scores.items()
            ]
        elif scores:
            best = sorted(scores, key=lambda key: (-scores[key], key))[:MOST_JOINING]
            self._join([shown[key] for key in best], words, vector, asked)

    def _beside(self, query: Query, read: _Read, asked: _Asked, name: str) -> dict[str, Unindexed]:
        seen = [read(project, owner=self._owner) for project in query.projects]
        if not all(each.is_complete for each in seen):
            asked.degraded.append(name)
        return {one.record_id: one for each in seen for one in each.memories}

    def _join(
        self,
        pending: Sequence[Unindexed],
        words: Sequence[int],
        vector: Sequence[float] | None,
        asked: _Asked,
    ) -> None:
        """Put pending memories into the arms, measured as the indexed ones are.

        The words of both are weighed anew over what was found, since the index's own rarities are
        not told; the meaning of the pending ones is embedded here and now.
        """
        indexed = asked.arms.get(Arm.SPARSE, [])
        texts = [_text(candidate.payload) for candidate in indexed]
        weights = {
            candidate.point_id: weight
            for candidate, weight in zip(indexed, self._overlay.words(texts), strict=True)
        }
        scores = coverage(words, weights | {one.record_id: one.words for one in pending})
        everyone = [
            *indexed,
            *(Candidate(one.record_id, 0.0, one.payload) for one in pending),
        ]
        asked.arms[Arm.SPARSE] = [
            replace(candidate, score=scores[candidate.point_id])
            for candidate in everyone
            if candidate.point_id in scores
        ]
        embedder = self._model.get()
        if vector is None or embedder is None:
            return
        try:
            made = embedder.embed_documents([_text(one.payload) for one in pending])
        except EmbeddingError:
            return
        asked.arms[Arm.DENSE] = [
            *asked.arms.get(Arm.DENSE, []),
            *(
                Candidate(one.record_id, float(row @ np.asarray(vector)), one.payload)
                for one, row in zip(pending, made, strict=True)
            ),
        ]

    def _drop_stale(self, newer: Iterable[str], asked: _Asked) -> None:
        """Let what is pending replace what the deep store still shows of it."""
        ids = set(newer)
        for arm, found in asked.arms.items():
            asked.arms[arm] = [c for c in found if c.payload["id"] not in ids]

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
            In("project", query.projects),
            AnyOf((Not(Eq("visibility", Visibility.PRIVATE)), Eq("owner", self._owner))),
            Not(TimeRange("expires_at", lte=now)),
        ]
        if query.tier in (Tier.HOT, Tier.DEEP):
            # What is hot is this home's choice, so no store knows it; there is little of it.
            hot = In("id", self._hot_ids(query.projects))
            parts.append(hot if query.tier is Tier.HOT else Not(hot))
        if query.type:
            parts.append(Eq("type", query.type))
        if query.category:
            parts.append(Eq("category", query.category))
        parts += [Eq("tags", tag) for tag in query.tags]
        if query.since or query.until:
            parts.append(TimeRange("created_at", gte=query.since, lte=query.until))
        return All(tuple(parts))

    def _hot_ids(self, projects: Iterable[str]) -> tuple[str, ...]:
        return tuple(
            entry.id
            for project in projects
            for entry in self._catalogue.entries(project, tier=Tier.HOT)
        )

    def _visible(
        self, query: Query, ranked: Sequence[Ranked], asked: _Asked, now: datetime
    ) -> tuple[Hit, ...]:
        """Drop what this home knows to be gone or replaced, then cut to the limit."""
        entries = self._catalogue.get_many(hit.record_id for hit in ranked)
        replaced = self._catalogue.superseded_by(
            (hit.record_id for hit in ranked), owner=self._owner
        )
        hits: list[Hit] = []
        for found in ranked:
            entry = entries.get(found.record_id)
            if entry is not None and not self._is_shown(entry, found, now):
                continue
            if found.record_id in replaced and not query.include_superseded:
                continue
            tier = entry.tier if entry else Tier.DEEP
            if query.tier and tier is not query.tier:
                continue
            pending = found.record_id in asked.pending
            path = self._path_of(found.record_id, self._owner)
            hits.append(Hit(found, tier, path, pending))
            if len(hits) == query.limit:
                break
        return tuple(hits)

    def _is_shown(self, entry: Entry, found: Ranked, now: datetime) -> bool:
        """Say whether what was found is still so; the index may not know yet that it is private."""
        newest = int(found.payload.get("revision", 0)) >= entry.revision
        is_live = not entry.tombstone and not entry.is_expired(now)
        return newest and is_live and entry.is_seen_by(self._owner)


def _text(payload: Mapping[str, Any]) -> str:
    """Join what words can find of a memory, from its payload."""
    tags = " ".join((*payload.get("tags", ()), *payload.get("keywords", ())))
    parts = (payload["name"], payload.get("description", ""), tags, payload["text"])
    return "\n".join(part for part in parts if part)


def _archive_candidates(hits: Sequence[ArchiveHit]) -> list[Candidate]:
    best = max((hit.score for hit in hits), default=0.0) or 1.0
    return [
        Candidate(hit.record.id, max(hit.score / best, 0.0), _archive_payload(hit)) for hit in hits
    ]


def _archive_payload(hit: ArchiveHit) -> dict[str, Any]:
    text = hit.text or hit.record.body
    # How many chunks there are is not told, only that this is not all.
    chunks = 1 if len(text) >= len(hit.record.body) else 2
    return chunk_payload(hit.record, text=text, ordinal=0, chunks=chunks)
