"""What the stores of a home hold, read while no engine runs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from embeddings.hashing import HashingEmbedder
from memory.hand_edits import index_id
from tests.support.homes import Home
from tiers.archive_sqlite import SqliteArchive
from tiers.catalogue import Catalogue, Entry
from tiers.deep import DeepSpec
from tiers.deep_edge import EdgeStore
from tiers.filters import All
from tiers.home_database import HomeDatabase
from tiers.outbox import Outbox, SinkName


@dataclass(frozen=True, slots=True)
class Contents:
    """Live memories in each store: id → content hash. A torn index shows as a hash of its own."""

    catalogue: dict[str, str]
    archive: dict[str, str]
    deep: dict[str, str]
    texts: Counter[str]
    undelivered: int


def read_stores(path: Path) -> Contents:
    """Open every store of a home; its engine must have ended."""
    with _catalogue(path) as (database, catalogue):
        outbox = Outbox(database, catalogue)
        revisions = catalogue.all_revisions()
        known = {key: digest for key, (_, digest, gone) in revisions.items() if not gone}
        undelivered = sum(outbox.unfinished(sink) for sink in SinkName)
        undelivered += sum(outbox.backlog(sink).vector_pending for sink in SinkName)
    archived, texts = _archive(path)
    return Contents(known, archived, _deep(path), texts, undelivered)


@contextmanager
def _catalogue(path: Path) -> Iterator[tuple[HomeDatabase, Catalogue]]:
    database = HomeDatabase(path / "home.db")
    try:
        yield database, Catalogue(database)
    finally:
        database.close()


def _archive(path: Path) -> tuple[dict[str, str], Counter[str]]:
    archive = SqliteArchive(path / "archive.db")
    archive.open()
    try:
        heads = [head for head in archive.heads() if not head.tombstone]
        bodies = [record.body for head in heads if (record := archive.current(head.id))]
        return {head.id: head.content_hash for head in heads}, Counter(bodies)
    finally:
        archive.close()


def _deep(path: Path) -> dict[str, str]:
    space = HashingEmbedder().space
    store = EdgeStore(path / "deep", min_free_bytes=0)
    store.open(DeepSpec(active=space.id, vectors={space.id: space.dimension}))
    places: dict[str, list[tuple[int, int]]] = defaultdict(list)
    hashes: dict[str, set[str]] = defaultdict(set)
    try:
        for point in store.scroll(All(()), with_vectors=True):
            record_id = point.payload["id"]
            places[record_id].append((point.payload["ordinal"], point.payload["chunks"]))
            hashes[record_id].add(point.payload["hash"] if point.dense else "no vector")
    finally:
        store.close()
    return {
        key: next(iter(found)) if _is_whole(places[key]) and len(found) == 1 else f"torn {found}"
        for key, found in hashes.items()
    }


def _is_whole(places: list[tuple[int, int]]) -> bool:
    chunks = places[0][1]
    return sorted(places) == [(ordinal, chunks) for ordinal in range(chunks)]


def assert_each_once(home: Home, texts: Collection[str], *, only: bool = True) -> None:
    """End the engine in peace; every text must be one memory, and every store hold the same.

    With `only`, nothing but these texts may be there.
    """
    client = home.client()
    client.call("drain", {"wait": True})
    client.stop()
    found = read_stores(home.path)
    assert {text: found.texts[text] for text in texts if found.texts[text] != 1} == {}
    if only:
        assert found.texts == Counter(texts)
    assert found.archive == found.catalogue
    assert found.deep == found.catalogue
    assert found.undelivered == 0


def hot_files(home: Home) -> list[str]:
    """Name the topic files of the home's only project that belong to a memory."""
    with _catalogue(home.path) as (_, catalogue):
        projects = {entry.project for entry in _entries(catalogue)}
        return sorted(
            placement.path
            for project in projects
            for placement in catalogue.placements(project).values()
            if placement.id != index_id(project)
        )


def _entries(catalogue: Catalogue) -> list[Entry]:
    return list(catalogue.get_many(catalogue.all_revisions()).values())
