"""The deep sink on real stores: it makes the index equal to the archive's heads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from embeddings.embedder import EmbeddingSpace, Vectors
from embeddings.errors import ModelNotLoaded
from embeddings.hashing import HashingEmbedder
from memory.app import now_utc
from memory.drafts import Draft
from memory.engine.host import Host
from memory.service import Save
from tests.support.homes import wait_until
from tiers.filters import Eq
from tiers.outbox import SinkName
from tiers.records import MemoryRecord, Tier

LONG = "\n\n".join(
    f"## Part {number}\n\n" + f"Sentence about subject {number}. " * 120 for number in range(6)
)


class CountingEmbedder:
    """An embedder that remembers what it was asked to embed, and can be broken."""

    def __init__(self) -> None:
        self._real = HashingEmbedder()
        self.embedded: list[str] = []
        self.broken = False

    @property
    def space(self) -> EmbeddingSpace:
        return self._real.space

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        if self.broken:
            raise ModelNotLoaded("no model today")
        self.embedded += texts
        return self._real.embed_documents(texts)

    def embed_query(self, text: str) -> Vectors:
        return self._real.embed_query(text)

    def count_tokens(self, text: str) -> int:
        return self._real.count_tokens(text)


@pytest.fixture
def embedder(host: Host) -> CountingEmbedder:
    counting = CountingEmbedder()
    host.app.model._open = lambda: counting
    host.app.model.get(wait_s=30)
    counting.embedded.clear()
    return counting


@pytest.fixture
def project(host: Host, tmp_path: Path) -> str:
    folder = tmp_path / "project"
    folder.mkdir()
    return host.enter(str(folder)).key


@pytest.fixture
def keep(host: Host, project: str) -> Callable[..., MemoryRecord]:
    def save(text: str, **draft: str) -> MemoryRecord:
        saved = Save(draft=Draft(text=text, **draft), tier=Tier.DEEP)  # type: ignore[arg-type]
        record = host.app.service.save(project, saved).record
        host.app.drain()
        return record

    return save


def texts_of(host: Host, record: MemoryRecord) -> list[str]:
    points = host.app.deep().scroll(Eq("id", record.id))
    return [p.payload["text"] for p in sorted(points, key=lambda p: p.payload["ordinal"])]


def test_a_long_memory_has_a_point_for_each_chunk_and_a_shorter_revision_leaves_none_over(
    host: Host, keep: Callable[..., MemoryRecord]
) -> None:
    keep(LONG, name="manual")
    record = keep("now it is short", name="manual")

    assert record.revision == 2
    assert texts_of(host, record) == ["now it is short"]
    assert host.app.deep().count(Eq("id", record.id)) == 1


def test_chunks_that_did_not_change_are_not_embedded_again(
    embedder: CountingEmbedder, keep: Callable[..., MemoryRecord]
) -> None:
    keep(LONG, name="manual")
    first = len(embedder.embedded)
    embedder.embedded.clear()

    keep(LONG + "\n\n## Part 7\n\nOne more part, about something new.", name="manual")

    assert first > 5
    assert 1 <= len(embedder.embedded) <= 2


def test_a_lost_index_is_rebuilt_from_archived_vectors_without_the_model(
    host: Host, embedder: CountingEmbedder, keep: Callable[..., MemoryRecord]
) -> None:
    record = keep(LONG, name="manual")
    before = texts_of(host, record)
    host.app.deep().delete(Eq("id", record.id))
    embedder.embedded.clear()

    host.app.outbox.invalidate([(record.id, record.project)], now=now_utc())
    host.app.drain()

    assert texts_of(host, record) == before
    assert embedder.embedded == []


def test_a_late_delivery_brings_back_neither_an_old_revision_nor_a_forgotten_memory(
    host: Host, project: str, keep: Callable[..., MemoryRecord]
) -> None:
    old = keep("the first text", name="note")
    new = keep("the second text", name="note")
    host.app.outbox.invalidate([(old.id, project)], now=now_utc())
    host.app.drain()
    assert texts_of(host, new) == ["the second text"]

    host.app.service.forget(project, [host.app.service.find(project, "note")])
    host.app.drain()
    host.app.outbox.invalidate([(old.id, project)], now=now_utc())
    host.app.drain()

    assert host.app.deep().count(Eq("id", old.id)) == 0


def test_without_vectors_a_memory_is_found_by_words_and_gets_them_when_the_model_is_back(
    host: Host, project: str, embedder: CountingEmbedder, keep: Callable[..., MemoryRecord]
) -> None:
    embedder.broken = True
    record = keep("the retry budget is five")
    assert host.app.outbox.backlog(SinkName.DEEP).vector_pending == 1
    stored = next(iter(host.app.deep().scroll(Eq("id", record.id), with_vectors=True)))
    assert stored.dense == {}

    embedder.broken = False
    host.app.outbox.wake(SinkName.DEEP, vector_pending=True)
    host.app.drain()

    assert host.app.outbox.backlog(SinkName.DEEP).vector_pending == 0
    stored = next(iter(host.app.deep().scroll(Eq("id", record.id), with_vectors=True)))
    assert list(stored.dense) == [embedder.space.id]


def test_the_first_backend_leaves_probes_that_a_later_one_must_reproduce(
    host: Host, tmp_path: Path
) -> None:
    model = host.app.model
    assert model.get(wait_s=30) is not None

    class Liar(CountingEmbedder):
        def embed_documents(self, texts: Sequence[str]) -> Vectors:
            return -super().embed_documents(texts)

    liar = type(model)(Liar, name="liar", probes=host.app.home / "spaces")
    liar.warm()
    wait_until(lambda: liar.error is not None)

    assert liar.get() is None
    assert "probe" in str(liar.error).lower() or "agree" in str(liar.error).lower()
