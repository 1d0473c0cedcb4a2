"""A copy put back, of the whole home or of one store, converges without losing or doubling."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from embeddings.embedder import Vectors
from embeddings.errors import ModelNotLoaded
from embeddings.hashing import HashingEmbedder
from memory import wire
from memory.engine import answers
from memory.engine.access import local_view
from memory.engine.host import Host
from tests.support.homes import Home
from tests.support.stores import assert_each_once, hot_files, read_stores
from tiers.filters import All

EARLY = [f"early bird number {number} sings at dawn" for number in range(8)]
LATE = [f"late owl number {number} hoots at night" for number in range(8)]


def _save(home: Home, texts: Sequence[str]) -> list[str]:
    """Save every second text as a hot file, the others deep; returns the ids."""
    client = home.client()
    return [
        client.call("save", home.request(text=text, tier="deep" if number % 2 else "hot"))["id"]
        for number, text in enumerate(texts)
    ]


def _settle(home: Home) -> None:
    """Deliver everything, and end the engine in peace."""
    client = home.client()
    client.call("drain", {"wait": True})
    client.stop()


def _copy(source: Path, destination: Path) -> None:
    # As people do it. A copy in Python would write the holes of a shard out: 99 MB.
    subprocess.run(["cp", "-a", str(source), str(destination)], check=True)


def _put_back(copy: Path, place: Path) -> None:
    for old in sorted(place.parent.glob(f"{place.name}*")):
        shutil.rmtree(old) if old.is_dir() else old.unlink()
    for saved in sorted(copy.glob(f"{place.name}*")):
        _copy(saved, place.parent / saved.name)


def _assert_found(home: Home, texts: Sequence[str]) -> None:
    client = home.client()
    for text in texts:
        found = client.call("search", home.request(query=text, limit=50))
        assert [hit["text"] for hit in found["hits"]].count(text) == 1, text
        assert found["degraded"] == []


def test_a_copy_of_a_home_that_was_in_use_converges(home: Home, tmp_path: Path) -> None:
    """Taken before the last flush: what was acknowledged before the copy is there once."""
    _save(home, EARLY)
    pid = home.engine_pid()
    assert pid is not None
    # As a snapshot of the file system is taken: at one moment, with everything unflushed.
    os.kill(pid, signal.SIGSTOP)
    _copy(home.path, tmp_path / "copy")
    os.kill(pid, signal.SIGCONT)
    _save(home, LATE)
    home.kill_engine()
    shutil.rmtree(home.path)
    (tmp_path / "copy").rename(home.path)

    _assert_found(home, EARLY)
    assert_each_once(home, EARLY)


def test_a_copy_of_a_home_at_rest_converges_with_what_came_after_it(
    home: Home, tmp_path: Path
) -> None:
    _save(home, EARLY)
    _settle(home)
    _copy(home.path, tmp_path / "copy")
    _save(home, LATE)
    home.kill_engine()
    shutil.rmtree(home.path)
    (tmp_path / "copy").rename(home.path)

    _save(home, LATE[:2])

    _assert_found(home, [*EARLY, *LATE[:2]])
    assert_each_once(home, [*EARLY, *LATE[:2]])


@pytest.mark.parametrize("in_peace", [True, False])
def test_an_older_index_put_back_catches_up(home: Home, tmp_path: Path, in_peace: bool) -> None:
    client = home.client()
    first, forgotten, *_ = _save(home, EARLY)
    _settle(home)
    backup = tmp_path / "backup"
    backup.mkdir()
    _copy(home.path / "deep", backup / "deep")
    _save(home, LATE)
    client.call("save", home.request(text="the early bird sleeps in", id=first))
    client.call("forget", home.request(ref=forgotten, confirm=True))
    client.call("drain", {"wait": True})
    client.stop() if in_peace else home.kill_engine()
    _put_back(backup, home.path / "deep")

    texts = ["the early bird sleeps in", *EARLY[2:], *LATE]
    _assert_found(home, texts)
    assert_each_once(home, texts)


def test_an_index_that_is_gone_is_built_from_archived_vectors_without_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make_host: Callable[..., Host]
) -> None:
    embedder = _Leaving()
    monkeypatch.setattr("memory.app.open_embedder", lambda *_, **__: embedder)
    host = make_host()
    project = tmp_path / "project"
    project.mkdir()
    long = "\n\n".join(f"Paragraph {n}. " + "The owl hoots at night. " * 10 for n in range(40))
    for text in (*EARLY, long):
        answers.save(local_view(host), wire.SaveRequest(project=str(project), text=text))
    host.app.drain()
    before = {point.id: point.dense for point in _points(host)}
    host.stop()
    shutil.rmtree(tmp_path / "home" / "deep")
    embedder.has_left = True

    host = make_host()
    host.app.reconciler.deep_store()
    assert host.app.drain()

    after = {point.id: point.dense for point in _points(host)}
    assert after.keys() == before.keys()
    assert len(after) > len(EARLY) + 3
    for key, vectors in before.items():
        for name, vector in vectors.items():
            assert np.allclose(after[key][name], vector, atol=2e-3)


class _Leaving(HashingEmbedder):
    """A model that can be told to be away; its space is known even then."""

    has_left = False

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        if self.has_left:
            raise ModelNotLoaded("the weights are gone")
        return super().embed_documents(texts)


def _points(host: Host) -> list[Any]:
    return list(host.app.deep().scroll(All(()), with_vectors=True))


def test_an_older_archive_put_back_loses_nothing_that_files_or_the_index_hold(
    home: Home, tmp_path: Path
) -> None:
    client = home.client()
    hot, deep, forgotten, deep_to_forget, *_ = _save(home, EARLY)
    _settle(home)
    backup = tmp_path / "backup"
    backup.mkdir()
    for path in home.path.glob("archive.db*"):
        _copy(path, backup / path.name)
    _save(home, LATE)
    client.call("save", home.request(text="the early bird sleeps in", id=hot))
    client.call("save", home.request(text="the second bird sleeps too", id=deep))
    for gone in (forgotten, deep_to_forget):
        client.call("forget", home.request(ref=gone, confirm=True))
    _settle(home)
    _put_back(backup, home.path / "archive.db")

    texts = ["the early bird sleeps in", "the second bird sleeps too", *EARLY[4:], *LATE]
    _assert_found(home, texts)
    assert_each_once(home, texts)


def test_an_older_archive_and_a_lost_index_leave_what_hot_files_hold(
    home: Home, tmp_path: Path
) -> None:
    _save(home, EARLY)
    _settle(home)
    backup = tmp_path / "backup"
    backup.mkdir()
    for path in home.path.glob("archive.db*"):
        _copy(path, backup / path.name)
    _save(home, LATE)
    _settle(home)
    _put_back(backup, home.path / "archive.db")
    shutil.rmtree(home.path / "deep")

    texts = [*EARLY, *LATE[::2]]
    _assert_found(home, texts)
    home.client().call("drain", {"wait": True})
    home.client().stop()
    found = read_stores(home.path)
    assert {text: found.texts[text] for text in texts} == dict.fromkeys(texts, 1)
    assert found.deep == found.archive


@pytest.mark.parametrize("index_too", [False, True])
def test_a_lost_catalogue_is_learnt_from_the_archive_and_files_find_their_memories(
    home: Home, index_too: bool
) -> None:
    _save(home, EARLY)
    _settle(home)
    files = hot_files(home)
    assert len(files) == len(EARLY) / 2
    for path in home.path.glob("home.db*"):
        path.unlink()
    if index_too:
        shutil.rmtree(home.path / "deep")

    _assert_found(home, EARLY)
    listed = home.client().call("list", home.request())
    assert listed["total"] == len(EARLY)
    assert [item["tier"] for item in listed["memories"]].count("hot") == len(files)
    assert_each_once(home, EARLY)
    assert hot_files(home) == files
    assert sorted(p.name for p in home.path.glob("projects/*/memory/*.md")) == [
        "MEMORY.md",
        *files,
    ]


def test_a_catalogue_and_an_archive_put_back_together_get_what_the_index_still_has(
    home: Home, tmp_path: Path
) -> None:
    """The index is ahead of everything else: what only it knows was accepted once, so it stays."""
    _save(home, EARLY)
    _settle(home)
    backup = tmp_path / "backup"
    backup.mkdir()
    for pattern in ("archive.db*", "home.db*"):
        for path in home.path.glob(pattern):
            _copy(path, backup / path.name)
    _save(home, LATE)
    _settle(home)
    for name in ("archive.db", "home.db"):
        _put_back(backup, home.path / name)

    _assert_found(home, EARLY)
    home.client().call("drain", {"wait": True})
    _assert_found(home, LATE)
    assert_each_once(home, [*EARLY, *LATE])
