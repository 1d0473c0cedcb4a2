"""What a start makes equal, on real stores in one process."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from memory import wire
from memory.engine import answers
from memory.engine.access import local_view
from memory.engine.host import Host
from memory.reconcile import Reconciled
from tiers.deep import Point, StoredPoint
from tiers.filters import All, Eq
from tiers.outbox import SinkName
from tiers.records import Tier

Make = Callable[..., Host]


@pytest.fixture
def project(tmp_path: Path) -> str:
    (tmp_path / "project").mkdir()
    return str(tmp_path / "project")


def save(host: Host, project: str, text: str, *, tier: Tier = Tier.DEEP, **fields: str) -> str:
    asked = wire.SaveRequest(project=project, text=text, tier=tier, **fields)
    return answers.save(local_view(host), asked).id


def points(host: Host) -> list[StoredPoint]:
    return list(host.app.deep().scroll(All(())))


def without(home: Path, pattern: str) -> None:
    for path in home.glob(pattern):
        path.unlink()


def bodies(host: Host) -> dict[str, str]:
    heads = host.app.archive.heads()
    found = {head.id: host.app.archive.current(head.id) for head in heads if not head.tombstone}
    return {key: record.body for key, record in found.items() if record}


def test_stores_that_agree_are_left_alone(make_host: Make, project: str) -> None:
    host = make_host()
    save(host, project, "nothing is wrong here", tier=Tier.HOT)
    host.app.drain()

    assert host.app.reconciler.heads() == Reconciled()
    assert host.app.reconciler.deep_store() == Reconciled()
    assert host.app.reconciler.deep_store(thorough=True) == Reconciled()


def test_heads_after_the_last_flush_are_asked_for(make_host: Make, project: str) -> None:
    host = make_host()
    save(host, project, "flushed")
    host.app.drain()
    late = save(host, project, "in the archive, and not in the index")
    host.app.relays[SinkName.ARCHIVE].drain()
    with host.app._database.write() as db:
        db.execute("DELETE FROM outbox")

    found = host.app.reconciler.deep_store()
    host.app.drain()

    assert len(found.queued) == 1
    assert late in {point.payload["id"] for point in points(host)}


def test_a_wrong_number_of_points_makes_every_memory_be_compared(
    make_host: Make, project: str
) -> None:
    host = make_host()
    kept, lost = save(host, project, "stays"), save(host, project, "was lost in the index")
    host.app.drain()
    host.app.deep().delete(Eq("id", lost))

    found = host.app.reconciler.deep_store()
    host.app.drain()

    assert len(found.queued) == 1
    assert {point.payload["id"] for point in points(host)} == {kept, lost}


def test_a_thorough_comparison_sees_points_of_other_content(make_host: Make, project: str) -> None:
    host = make_host()
    save(host, project, "as it is in the archive")
    host.app.drain()
    host.app.deep().set_payload(All(()), {"hash": "0" * 64, "text": "something else"})
    assert host.app.reconciler.deep_store().queued == ()

    found = host.app.reconciler.deep_store(thorough=True)
    host.app.drain()

    assert len(found.queued) == 1
    assert [point.payload["text"] for point in points(host)] == ["as it is in the archive"]


def test_points_of_a_forgotten_memory_are_removed(make_host: Make, project: str) -> None:
    host = make_host()
    gone = save(host, project, "to be forgotten")
    host.app.drain()
    (point,) = host.app.deep().scroll(All(()), with_vectors=True)
    answers.forget(local_view(host), wire.ForgetRequest(project=project, ref=gone, confirm=True))
    host.app.drain()
    assert points(host) == []
    _bring_back(host, point)

    host.app.reconciler.deep_store()
    host.app.drain()

    assert points(host) == []


def _bring_back(host: Host, point: StoredPoint) -> None:
    assert point.sparse is not None
    host.app.deep().upsert([Point(point.id, point.payload, point.sparse, point.dense)])


def test_a_lost_archive_is_filled_from_files_and_index(
    make_host: Make, project: str, tmp_path: Path
) -> None:
    host = make_host()
    hot = save(host, project, "a file has this", tier=Tier.HOT)
    deep = save(host, project, "the index has this")
    gone = save(host, project, "forgotten before", tier=Tier.HOT)
    host.app.drain()
    answers.forget(local_view(host), wire.ForgetRequest(project=project, ref=gone, confirm=True))
    host.app.drain()
    host.stop()
    without(tmp_path / "home", "archive.db*")

    host = make_host()
    host.app.reconciler.deep_store()
    host.app.drain()

    assert bodies(host) == {hot: "a file has this", deep: "the index has this"}
    tombstone = host.app.archive.head(gone)
    assert tombstone is not None
    assert tombstone.tombstone


def test_what_is_recovered_from_a_file_has_its_secrets_masked(
    make_host: Make, project: str, tmp_path: Path
) -> None:
    host = make_host()
    host.enter(project)
    token = "ghp_" + "a1B2c3D4e5" * 4
    root = host.app.folders.get(host.enter(project).key).hot.root
    (root / "token.md").write_text(f"the token is {token}\n", encoding="utf-8")
    host._look(host.enter(project).key)
    host.app.drain()
    host.stop()
    without(tmp_path / "home", "archive.db*")
    shutil.rmtree(tmp_path / "home" / "deep")

    host = make_host()
    host.app.drain()

    (body,) = bodies(host).values()
    assert "the token is" in body
    assert token not in body


def test_a_newer_text_that_only_the_index_has_is_kept(
    make_host: Make, project: str, tmp_path: Path
) -> None:
    host = make_host()
    record_id = save(host, project, "the first version")
    host.app.drain()
    host.stop()
    shutil.copytree(tmp_path / "home", tmp_path / "copy", ignore=shutil.ignore_patterns("deep"))
    host = make_host()
    answers.save(
        local_view(host), wire.SaveRequest(project=project, text="the second version", id=record_id)
    )
    host.app.drain()
    host.stop()
    for pattern in ("archive.db*", "home.db*"):
        without(tmp_path / "home", pattern)
        for path in (tmp_path / "copy").glob(pattern):
            shutil.copy(path, tmp_path / "home")

    host = make_host()
    host.app.reconciler.deep_store(thorough=True)
    host.app.drain()

    assert bodies(host) == {record_id: "the second version"}
    head = host.app.archive.head(record_id)
    assert head is not None
    assert head.revision == 2
    assert host.app.reconciler.deep_store(thorough=True) == Reconciled()


def test_a_memory_whose_newest_text_is_nowhere_shows_the_newest_that_is_left(
    make_host: Make, project: str, tmp_path: Path
) -> None:
    host = make_host()
    record_id = save(host, project, "the first version of the dam")
    host.app.drain()
    host.stop()
    shutil.copytree(tmp_path / "home", tmp_path / "copy")
    host = make_host()
    answers.save(
        local_view(host), wire.SaveRequest(project=project, text="the second version", id=record_id)
    )
    host.app.drain()
    host.stop()
    without(tmp_path / "home", "archive.db*")
    shutil.rmtree(tmp_path / "home" / "deep")
    shutil.copytree(tmp_path / "copy" / "deep", tmp_path / "home" / "deep")
    shutil.copy(tmp_path / "copy" / "archive.db", tmp_path / "home")

    host = make_host()
    host.app.reconciler.deep_store(thorough=True)
    host.app.drain()

    found = answers.search(local_view(host), wire.SearchRequest(project=project, query="dam"))
    assert [hit.text for hit in found.hits] == ["the first version of the dam"]
    assert host.app.reconciler.missing_from_archive() == []


def test_a_lost_catalogue_is_learnt_with_what_replaces_what(
    make_host: Make, project: str, tmp_path: Path
) -> None:
    host = make_host()
    old = save(host, project, "the old way to the harbour")
    new = answers.save(
        local_view(host),
        wire.SaveRequest(project=project, text="the new way to the harbour", supersedes=[old]),
    ).id
    host.app.drain()
    host.stop()
    without(tmp_path / "home", "home.db*")

    host = make_host()

    assert {entry.id for entry in host.app.catalogue.entries(host.enter(project).key)} == {old, new}
    found = answers.search(
        local_view(host), wire.SearchRequest(project=project, query="way to the harbour")
    )
    assert [hit.id for hit in found.hits] == [new]


def test_with_a_lost_catalogue_every_memory_is_given_to_the_index_again(
    make_host: Make, project: str, tmp_path: Path
) -> None:
    """What waited for vectors was known to the catalogue's file alone."""
    host = make_host()
    ids = [save(host, project, f"memory number {number}") for number in range(3)]
    host.app.drain()
    host.stop()
    without(tmp_path / "home", "home.db*")

    host = make_host()

    assert len(host.app.reconciler.deep_store().queued) == len(ids)
