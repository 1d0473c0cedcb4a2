"""Memories of all projects: kept apart, and found only by who asks for them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memory.drafts import Draft
from memory.engine.host import Host
from memory.errors import NotFound
from memory.search import Answer, Query
from memory.service import Receipt, Save
from tiers.deep import DeepStore
from tiers.errors import StoreUnavailable
from tiers.records import GLOBAL_PROJECT, MemoryType, Tier, Visibility


@pytest.fixture
def project(host: Host, tmp_path: Path) -> str:
    (tmp_path / "project").mkdir()
    return host.enter(str(tmp_path / "project")).key


def keep(
    host: Host,
    project: str,
    text: str,
    name: str | None = None,
    *,
    tier: Tier | None = None,
    **draft: Any,
) -> Receipt:
    return host.app.service.save(
        project, Save(draft=Draft(text=text, name=name, **draft), tier=tier)
    )


def ask(host: Host, project: str, text: str, **query: Any) -> Answer:
    return host.app.search.search(Query(text=text, project=project, **query))


def found(answer: Answer) -> set[tuple[str, str]]:
    """What was found: (project, name)."""
    return {(hit.project, hit.payload["name"]) for hit in answer.hits}


def test_a_global_memory_is_private_and_deep_unless_somebody_says_otherwise(host: Host) -> None:
    usual = keep(host, GLOBAL_PROJECT, "prefers tabs")
    hot = keep(host, GLOBAL_PROJECT, "prefers dark mode", "mode", tier=Tier.HOT)
    shared = keep(host, GLOBAL_PROJECT, "the office is in Bern", visibility=Visibility.TEAM)

    assert (usual.tier, usual.record.visibility) == (Tier.DEEP, Visibility.PRIVATE)
    assert (hot.tier, shared.record.visibility) == (Tier.HOT, Visibility.TEAM)
    assert hot.path == str(host.app.home / "projects" / "global" / "memory" / "mode.md")


def test_every_verb_reads_and_changes_global_memories(host: Host, project: str) -> None:
    service = host.app.service
    first = keep(host, GLOBAL_PROJECT, "prefers tabs", "indent").record
    second = keep(host, GLOBAL_PROJECT, "prefers spaces", "indent").record
    keep(host, project, "this project has tabs", "indent")

    for _ in range(2):  # queued, then indexed
        assert (first.id, second.revision) == (second.id, 2)
        assert service.get(GLOBAL_PROJECT, "indent").record.body == "prefers spaces"
        assert service.get(project, "indent").record.body == "this project has tabs"
        assert [entry.id for entry in service.entries(GLOBAL_PROJECT)] == [first.id]
        bodies = [record.body for record in service.history(GLOBAL_PROJECT, first.id[:8])]
        assert bodies == ["prefers tabs", "prefers spaces"]
        assert [record.id for record, _ in service.export(GLOBAL_PROJECT)] == [first.id]
        with pytest.raises(NotFound):
            service.get(project, first.id)
        assert host.app.drain()

    assert service.pin(GLOBAL_PROJECT, "indent", pinned=True).record.pinned
    moved = service.move(GLOBAL_PROJECT, "indent", Tier.HOT)
    assert moved.path is not None and Path(moved.path).exists()
    service.forget(GLOBAL_PROJECT, [service.find(GLOBAL_PROJECT, "indent")])

    assert not Path(moved.path).exists()
    assert service.entries(GLOBAL_PROJECT) == []
    assert len(service.entries(project)) == 1


def _queued(_: Host) -> None:
    """Leave everything pending."""


def _indexed(host: Host) -> None:
    assert host.app.drain()


def _without_index(host: Host) -> None:
    assert host.app.drain()

    def broken() -> DeepStore:
        raise StoreUnavailable("the index is away")

    host.app.search._deep = broken


@pytest.mark.parametrize("arrange", [_queued, _indexed, _without_index])
def test_a_search_covers_global_memories_only_when_asked(
    host: Host, project: str, arrange: Callable[[Host], None], tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    other = host.enter(str(tmp_path / "other")).key
    for key, tier in ((project, Tier.HOT), (other, Tier.DEEP), (GLOBAL_PROJECT, Tier.DEEP)):
        keep(host, key, f"the gate of {tier} opens at six", "deep" if tier is Tier.DEEP else "hot")
    keep(host, GLOBAL_PROJECT, "the hot gate opens at seven", "hot", tier=Tier.HOT)
    keep(host, project, "the deep gate opens at eight", "deep", tier=Tier.DEEP)
    arrange(host)

    def names(**query: Any) -> set[tuple[str, str]]:
        return found(ask(host, project, "when does the gate open", **query))

    mine = {(project, "hot"), (project, "deep")}
    everybodys = {(GLOBAL_PROJECT, "hot"), (GLOBAL_PROJECT, "deep")}
    assert names() == mine
    assert names(with_global=True) == mine | everybodys
    assert names(with_global=True, tier=Tier.HOT) == {(project, "hot"), (GLOBAL_PROJECT, "hot")}
    assert names(with_global=True, tier=Tier.DEEP) == {(project, "deep"), (GLOBAL_PROJECT, "deep")}
    assert names(tier=Tier.HOT) == {(project, "hot")}
    only = ask(host, GLOBAL_PROJECT, "when does the gate open", with_global=True)
    assert found(only) == everybodys


def test_a_cold_global_memory_is_found_when_asked(host: Host, project: str) -> None:
    saved = keep(host, GLOBAL_PROJECT, "the gate opens at six", "gate").record
    assert host.app.drain()
    host.app.archive.set_cold([saved.id], True)
    host.app.catalogue.set_tier(saved.id, Tier.COLD)

    assert found(ask(host, project, "gate", tier=Tier.COLD)) == set()
    cold = ask(host, project, "gate", tier=Tier.COLD, with_global=True)
    assert found(cold) == {(GLOBAL_PROJECT, "gate")}


def test_global_memories_of_another_owner_are_private_to_them(host: Host, project: str) -> None:
    mine = host.app.service.owner
    keep(host, GLOBAL_PROJECT, "prefers tabs", "indent")
    keep(host, GLOBAL_PROJECT, "the office is in Bern", "office", visibility=Visibility.TEAM)

    for _ in range(2):  # queued, then indexed
        query = Query(text="prefers tabs office Bern", project=project, with_global=True)
        theirs = host.app.search.seen_by("somebody else").search(query)
        assert found(theirs) == {(GLOBAL_PROJECT, "office")}
        assert len(host.app.search.seen_by(mine).search(query).hits) == 2
        assert host.app.drain()


def test_the_same_text_may_be_kept_in_a_project_and_for_all(host: Host, project: str) -> None:
    mine = keep(host, project, "prefers tabs", type=MemoryType.USER)
    everybodys = keep(host, GLOBAL_PROJECT, "prefers tabs", type=MemoryType.USER)

    assert not everybodys.unchanged
    assert everybodys.record.id != mine.record.id


def test_an_edit_of_a_global_file_is_taken_in(host: Host, project: str) -> None:
    saved = keep(host, GLOBAL_PROJECT, "prefers tabs", "indent", tier=Tier.HOT)
    assert saved.path is not None
    path = Path(saved.path)
    path.write_text(path.read_text("utf-8").replace("tabs", "spaces"), encoding="utf-8")

    host.app.hot_sink.look(host.app.folders.get(GLOBAL_PROJECT))

    assert host.app.service.get(GLOBAL_PROJECT, "indent").record.body == "prefers spaces"
    (path.parent / "mine.md").write_text("written by hand\n", encoding="utf-8")
    host.app.hot_sink.look(host.app.folders.get(GLOBAL_PROJECT))
    written = host.app.service.get(GLOBAL_PROJECT, "mine").record
    assert written.visibility is Visibility.PRIVATE
    assert [each.key for each in host.app.projects.all()] == [project, GLOBAL_PROJECT]
