"""Models, stores and disks that fail: saves go on, answers say what is missing, nothing is lost."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest

from embeddings.embedder import Vectors
from embeddings.errors import ModelNotLoaded
from embeddings.hashing import HashingEmbedder
from memory import wire
from memory.app import prepare_home
from memory.config import load_settings
from memory.engine import answers
from memory.engine.access import local_view
from memory.engine.host import Host
from memory.engine.server import serve
from memory.errors import EngineFailed
from tests.support.homes import Home, wait_until
from tiers.deep import StoredPoint
from tiers.errors import StoreUnavailable
from tiers.filters import All
from tiers.home_database import HomeDatabase
from tiers.outbox import SinkName
from tiers.records import Tier

Make = Callable[..., Host]


@pytest.fixture
def project(tmp_path: Path) -> str:
    (tmp_path / "project").mkdir()
    return str(tmp_path / "project")


def save(host: Host, project: str, text: str, *, tier: Tier = Tier.HOT) -> wire.SaveAnswer:
    return answers.save(local_view(host), wire.SaveRequest(project=project, text=text, tier=tier))


def search(host: Host, project: str, query: str) -> wire.SearchAnswer:
    return answers.search(local_view(host), wire.SearchRequest(project=project, query=query))


def texts(answer: wire.SearchAnswer) -> list[str]:
    return [hit.text for hit in answer.hits]


# The model.


class FragileEmbedder(HashingEmbedder):
    """An embedder whose weights cannot be loaded while `is_broken`."""

    is_broken = True

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        self._complain()
        return super().embed_documents(texts)

    def embed_query(self, text: str) -> Vectors:
        self._complain()
        return super().embed_query(text)

    def _complain(self) -> None:
        if self.is_broken:
            raise ModelNotLoaded("the weights are gone", hint="install them again")


@pytest.fixture
def embedder(monkeypatch: pytest.MonkeyPatch) -> FragileEmbedder:
    embedder = FragileEmbedder()
    monkeypatch.setattr("memory.app.open_embedder", lambda *_, **__: embedder)
    return embedder


def test_without_a_model_words_are_found_and_vectors_come_when_it_is_back(
    make_host: Make, project: str, embedder: FragileEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = make_host()
    saved = save(host, project, "the sluice opens at high tide", tier=Tier.DEEP)
    host.app.drain()

    found = search(host, project, "sluice")
    assert [hit.id for hit in found.hits] == [saved.id]
    assert found.degraded == ["model"]
    assert host.app.outbox.backlog(SinkName.DEEP).vector_pending == 1
    assert host.app.outbox.backlog(SinkName.DEEP).dead == 0

    embedder.is_broken = False
    monkeypatch.setattr(host.app.model, "_retry_s", 0.0)  # as if the wait were over
    wait_until(lambda: search(host, project, "sluice").degraded == [])
    host.app.drain()

    assert host.app.outbox.backlog(SinkName.DEEP).vector_pending == 0
    (point,) = _points(host)
    assert point.dense
    (chunk,) = host.app.archive.chunks(saved.id, embedder.space.id)
    assert chunk.vector is not None


def _points(host: Host) -> list[StoredPoint]:
    return list(host.app.deep().scroll(All(()), with_vectors=True))


def test_a_model_that_nobody_knows_keeps_nobody_from_saving_and_finding(
    make_host: Make, project: str
) -> None:
    host = make_host(embedding__model="no-such-model-anywhere")
    save(host, project, "a file about the sluice")
    save(host, project, "the index would have the weir", tier=Tier.DEEP)
    host.app.drain()

    for word in ("sluice", "weir"):
        found = search(host, project, word)
        assert len(found.hits) == 1
        assert found.degraded == ["model", "deep"]
    host.stop()

    host = make_host()
    assert host.app.drain()
    assert search(host, project, "weir").degraded == []
    assert texts(search(host, project, "weir"))[0] == "the index would have the weir"


# The deep store.


def test_an_index_of_another_model_is_refused_and_everything_is_still_found(
    make_host: Make, project: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = make_host()
    save(host, project, "said before, in a file")
    save(host, project, "said before, deep", tier=Tier.DEEP)
    host.app.drain()
    host.stop()

    with monkeypatch.context() as patched:
        patched.setattr("memory.app.open_embedder", lambda *_, **__: HashingEmbedder(64))
        host = make_host()
        save(host, project, "said meanwhile", tier=Tier.DEEP)
        assert not host.app.drain()
        found = search(host, project, "said")
        assert sorted(texts(found)) == [
            "said before, deep",
            "said before, in a file",
            "said meanwhile",
        ]
        assert found.degraded == ["deep"]
        backlog = host.app.outbox.backlog(SinkName.DEEP)
        assert (backlog.waiting, backlog.dead) == (1, 0)
        host.stop()

    host = make_host()
    assert host.app.drain()
    found = search(host, project, "said")
    assert len(found.hits) == 3
    assert found.degraded == []


def test_a_full_disk_keeps_the_index_from_growing_and_nothing_from_being_saved(
    make_host: Make, project: str
) -> None:
    host = make_host()
    save(host, project, "kept before the flood", tier=Tier.DEEP)
    host.app.drain()
    host.stop()

    host = make_host(deep__min_free_mb=10**9)
    saved = save(host, project, "kept during the flood", tier=Tier.DEEP)
    assert saved.pending == ["archive", "deep"]
    assert not host.app.drain()
    found = search(host, project, "flood")
    assert sorted(texts(found)) == ["kept before the flood", "kept during the flood"]
    assert host.app.outbox.pending(saved.id) == [SinkName.DEEP]
    host.stop()

    host = make_host()
    assert host.app.drain()
    assert host.app.outbox.pending(saved.id) == []
    assert len(search(host, project, "flood").hits) == 2


def test_a_damaged_index_is_left_as_it_is_and_the_archive_answers(
    make_host: Make, project: str, tmp_path: Path
) -> None:
    host = make_host()
    save(host, project, "the archive knows this", tier=Tier.DEEP)
    host.app.drain()
    host.stop()
    meta = tmp_path / "home" / "deep" / "meta.json"
    meta.write_text("{ torn", encoding="utf-8")

    host = make_host()
    save(host, project, "and this is new", tier=Tier.DEEP)
    host.app.drain()

    assert texts(search(host, project, "archive knows"))[0] == "the archive knows this"
    assert texts(search(host, project, "new"))[0] == "and this is new"
    assert search(host, project, "new").degraded == ["deep"]
    assert meta.read_text(encoding="utf-8") == "{ torn"


# The archive.


def test_while_the_archive_is_away_new_memories_are_saved_and_found(
    make_host: Make, project: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = make_host()
    save(host, project, "an old note on ropes")
    save(host, project, "an old deep note on knots", tier=Tier.DEEP)
    host.app.drain()
    host.stop()
    archive = tmp_path / "home" / "archive.db"
    moved = tmp_path / "archive.db"
    archive.rename(moved)
    archive.mkdir()  # not even root can open that

    with monkeypatch.context() as patched:
        patched.setattr("memory.reconcile.Reconciler.heads", lambda self: None)
        host = make_host()
    host.app.start()
    saved = save(host, project, "a new note on sails")
    deep = save(host, project, "a new deep note on masts", tier=Tier.DEEP)
    assert saved.path is not None
    assert "a new note on sails" in Path(saved.path).read_text(encoding="utf-8")
    assert not host.app.drain()
    for word, text in (
        ("ropes", "an old note on ropes"),
        ("knots", "an old deep note on knots"),
        ("sails", "a new note on sails"),
        ("masts", "a new deep note on masts"),
    ):
        assert texts(search(host, project, word))[:1] == [text]
    assert host.app.outbox.pending(deep.id) == [SinkName.ARCHIVE, SinkName.DEEP]

    archive.rmdir()
    moved.rename(archive)
    wait_until(host.app.drain)
    assert host.app.outbox.pending(deep.id) == []
    assert host.app.archive.current(saved.id) is not None


def test_a_file_that_was_edited_while_the_archive_is_away_is_taken_in_afterwards(
    make_host: Make, project: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = make_host()
    saved = save(host, project, "the anchor weighs two tons")
    host.app.drain()
    assert saved.path is not None
    file = Path(saved.path)
    file.write_bytes(file.read_bytes().replace(b"two", b"three"))
    host.leave(host.enter(project).key)

    with monkeypatch.context() as patched:
        patched.setattr(host.app.archive, "current", _away)
        save(host, project, "saved all the same", tier=Tier.DEEP)
        assert texts(search(host, project, "saved all the same"))[0] == "saved all the same"

    host.leave(host.enter(project).key)
    assert texts(search(host, project, "anchor"))[0] == "the anchor weighs three tons"


def _away(record_id: str) -> None:
    raise StoreUnavailable("the archive is away")


def test_an_archive_without_space_keeps_changes_queued_until_there_is_some(
    make_host: Make, project: str
) -> None:
    host = make_host()
    host.app.drain()
    with host.app.archive._file.write() as db:
        (pages,) = db.execute("PRAGMA page_count").fetchone()
    host.app.archive._file._writer.execute(f"PRAGMA max_page_count = {pages}")
    saved = save(host, project, "weighty words " * 3_000, tier=Tier.DEEP)
    assert not host.app.drain()

    found = search(host, project, "weighty")
    assert [hit.id for hit in found.hits] == [saved.id]
    assert host.app.outbox.backlog(SinkName.ARCHIVE).waiting == 1

    host.app.archive._file._writer.execute(f"PRAGMA max_page_count = {pages * 100}")
    assert host.app.drain()
    assert host.app.archive.current(saved.id) is not None


# The outbox: here a save must fail, and say so.


@pytest.fixture
def small_home(home: Home, monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    """A home whose own database has room for little, served from this process."""
    monkeypatch.setattr("memory.app.HomeDatabase", partial(HomeDatabase, max_bytes=400_000))
    prepare_home(home.path)
    engine = threading.Thread(target=serve, args=(load_settings(home=home.path),), daemon=True)
    engine.start()
    wait_until(lambda: home.client().is_running())
    yield home
    home.client().stop()
    engine.join(30)


def test_a_save_that_finds_no_space_fails_whole_and_says_what_to_do(small_home: Home) -> None:
    small_home.cli("save", "there was room for this")

    done = small_home.cli("save", "-", stdin=b"heavy cargo " * 50_000, code=1)

    assert "no space is left" in done.stderr
    assert "free some disk space" in done.stderr
    listed = small_home.json("list")
    assert listed["total"] == 1
    assert list(small_home.path.glob("projects/*/memory/heavy*")) == []
    with pytest.raises(EngineFailed) as refused:
        small_home.client().call("save", small_home.request(text="heavy cargo " * 50_000))
    assert refused.value.code == "store-full"

    small_home.cli("save", "there is room for this again")
    assert small_home.json("list")["total"] == 2
