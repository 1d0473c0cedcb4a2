"""Two owners of one home: what is private to one is nothing to the other, in any verb."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from memory.drafts import Draft
from memory.engine.host import Host
from memory.errors import Ambiguous, Forgotten, NotFound, Refused, ServiceError
from memory.search import Answer, Query
from memory.service import MemoryService, Receipt, Save
from tiers.archive_sqlite import SqliteArchive
from tiers.deep import DeepStore
from tiers.errors import StoreUnavailable
from tiers.filters import All
from tiers.records import MemoryType, Tier, Visibility

PRIVATE = Visibility.PRIVATE


@dataclass(frozen=True)
class Person:
    """Somebody who uses a project of an open home."""

    host: Host
    key: str
    name: str

    @property
    def service(self) -> MemoryService:
        return self.host.app.service.seen_by(self.name)

    def save(
        self,
        text: str,
        name: str | None = None,
        *,
        record_id: str | None = None,
        tier: Tier | None = Tier.DEEP,
        **draft: Any,
    ) -> Receipt:
        saved = Save(draft=Draft(text=text, name=name, **draft), record_id=record_id, tier=tier)
        return self.service.save(self.key, saved)

    def ask(self, text: str, **query: Any) -> Answer:
        search = self.host.app.search.seen_by(self.name)
        return search.search(Query(text=text, project=self.key, **query))

    def texts(self, text: str, **query: Any) -> list[str]:
        return sorted(hit.payload["text"] for hit in self.ask(text, **query).hits)

    def forget(self, ref: str) -> None:
        self.service.forget(self.key, [self.service.find(self.key, ref)])


@pytest.fixture
def project(host: Host, tmp_path: Path) -> str:
    (tmp_path / "project").mkdir()
    return host.enter(str(tmp_path / "project")).key


@pytest.fixture
def ann(host: Host, project: str) -> Person:
    return Person(host, project, "ann")


@pytest.fixture
def ben(host: Host, project: str) -> Person:
    return Person(host, project, "ben")


@pytest.fixture
def keeper(host: Host, project: str) -> Person:
    """Whose home it is, and whose hot files."""
    return Person(host, project, host.app.settings.owner)


def root(person: Person) -> Path:
    return person.host.app.folders.get(person.key).hot.root


# Views.


def test_a_view_changes_nobody_elses_view(host: Host, ann: Person) -> None:
    assert ann.service.owner == "ann"
    assert ann.service.seen_by("ben").owner == "ben"
    assert host.app.service.owner == host.app.settings.owner


def test_what_is_saved_belongs_to_who_saved_it(ann: Person, ben: Person) -> None:
    assert ann.save("the office is in Bern").record.owner == "ann"
    assert ben.save("the lab is in Basel").record.owner == "ben"


# Finding by reference.


def test_no_reference_leads_to_anothers_private_memory(ann: Person, ben: Person) -> None:
    saved = ann.save("my salary is secret", "salary", type=MemoryType.USER).record
    assert saved.visibility is PRIVATE

    for ref in (saved.id, saved.id.upper(), saved.id[:8], "salary"):
        assert ann.service.get(ann.key, ref).record.body == "my salary is secret"
        for act in (
            lambda ref: ben.service.find(ben.key, ref),
            lambda ref: ben.service.get(ben.key, ref),
            lambda ref: ben.service.history(ben.key, ref),
            lambda ref: ben.service.move(ben.key, ref, Tier.HOT),
            lambda ref: ben.service.pin(ben.key, ref, pinned=True),
            lambda ref: ben.forget(ref),
            lambda ref: ben.service.not_forgotten(ben.key, [ref]),
        ):
            with pytest.raises(NotFound) as refused:
                act(ref)
            with pytest.raises(NotFound) as unknown:
                act("0" * len(ref))
            # What is not to be seen is answered as what is not there.
            assert type(refused.value) is type(unknown.value)
            assert refused.value.hint == unknown.value.hint
            assert refused.value.message.replace(ref, "") == unknown.value.message.replace(
                "0" * len(ref), ""
            )


def test_an_entry_that_was_found_by_another_is_not_forgotten(ann: Person, ben: Person) -> None:
    saved = ann.save("my salary is secret", visibility=PRIVATE).record
    entry = ann.service.find(ann.key, saved.id)

    with pytest.raises(NotFound):
        ben.service.forget(ben.key, [entry])

    assert ann.service.get(ann.key, saved.id).record.body == "my salary is secret"


def test_anothers_private_memory_makes_neither_name_nor_id_ambiguous(
    ann: Person, ben: Person
) -> None:
    mine = "abcd0000-0000-4000-8000-00000000000a"
    theirs = "abcd0000-0000-4000-8000-00000000000b"
    ann.save("mine", "note", record_id=mine)
    ben.save("theirs", "note", record_id=theirs, visibility=PRIVATE)

    for ref in ("note", "abcd", "abcd0000-0000"):
        assert ann.service.find(ann.key, ref).id == mine
        with pytest.raises(Ambiguous):
            ben.service.find(ben.key, ref)
    assert ann.save("mine again", "note").record.id == mine


def test_lists_and_exports_leave_out_what_is_anothers(ann: Person, ben: Person) -> None:
    ann.save("hers alone", visibility=PRIVATE)
    ben.save("his alone", visibility=PRIVATE)
    ann.save("for both")

    def listed(person: Person) -> list[str]:
        return sorted(entry.name for entry in person.service.entries(person.key))

    def exported(person: Person) -> list[str]:
        return sorted(record.body for record, _ in person.service.export(person.key))

    assert listed(ann) == exported(ann) == ["for both", "hers alone"]
    assert listed(ben) == exported(ben) == ["for both", "his alone"]


def test_the_history_from_a_private_time_is_its_owners(ann: Person, ben: Person) -> None:
    saved = ann.save("drafted in private", "plan", visibility=PRIVATE).record
    ann.save("told to everybody", record_id=saved.id, visibility=Visibility.PROJECT)

    for _ in range(2):  # queued, then archived
        assert [r.body for r in ben.service.history(ben.key, "plan")] == ["told to everybody"]
        assert len(ann.service.history(ann.key, "plan")) == 2
        assert ann.host.app.drain()


# Saving.


def test_the_same_text_as_anothers_private_memory_is_a_new_memory(ann: Person, ben: Person) -> None:
    hers = ann.save("prefers tabs", visibility=PRIVATE)

    his = ben.save("prefers tabs", visibility=PRIVATE)

    assert not his.unchanged
    assert his.record.id != hers.record.id
    assert ben.save("prefers tabs", visibility=PRIVATE).record.id == his.record.id
    assert ann.save("prefers tabs", visibility=PRIVATE).record.id == hers.record.id


def test_the_name_of_anothers_private_memory_is_free(ann: Person, ben: Person) -> None:
    hers = ann.save("hers", "note", visibility=PRIVATE)

    his = ben.save("his", "note")

    assert (his.record.id != hers.record.id, his.record.revision) == (True, 1)
    assert ann.service.get(ann.key, hers.record.id).record.body == "hers"


def test_anothers_private_memory_is_not_revised_by_id(ann: Person, ben: Person) -> None:
    hers = ann.save("hers", visibility=PRIVATE).record

    with pytest.raises(NotFound) as refused:
        ben.save("taken over", record_id=hers.id)

    assert not isinstance(refused.value, Forgotten)
    assert ben.service.is_elsewhere(ben.key, hers.id)
    assert not ann.service.is_elsewhere(ann.key, hers.id)
    assert ann.service.get(ann.key, hers.id).record.body == "hers"


def test_that_another_forgot_something_private_is_not_told(ann: Person, ben: Person) -> None:
    hers = ann.save("hers", visibility=PRIVATE).record
    ann.forget(hers.id)

    for act in (
        lambda: ben.save("x", record_id=hers.id),
        lambda: ben.service.not_forgotten(ben.key, [hers.id]),
    ):
        with pytest.raises(NotFound) as refused:
            act()
        assert not isinstance(refused.value, Forgotten)
    with pytest.raises(Forgotten):
        ann.save("x", record_id=hers.id)
    assert ann.service.not_forgotten(ann.key, [hers.id]) == []


def test_a_batch_tells_no_more_than_a_save(ann: Person, ben: Person) -> None:
    hers = ann.save("hers", visibility=PRIVATE).record
    saves = [Save(draft=Draft(text="x"), record_id=hers.id), Save(draft=Draft(text="hers"))]

    refused, kept = ben.service.save_many(ben.key, saves)

    assert isinstance(refused, NotFound)
    assert not isinstance(kept, ServiceError)
    assert not kept.unchanged


def test_nobody_makes_anothers_memory_private(ann: Person, ben: Person) -> None:
    hers = ann.save("the office is in Bern", "office").record

    with pytest.raises(Refused, match="belongs to ann"):
        ben.save("the office is mine", "office", visibility=PRIVATE)
    revised = ben.save("the office is in Basel", "office").record

    assert (revised.id, revised.owner, revised.revision) == (hers.id, "ann", 2)


# Searching.


def _queued(_: Host) -> None:
    """Leave everything pending."""


def _indexed(host: Host) -> None:
    assert host.app.drain()


def _without_index(host: Host) -> None:
    assert host.app.drain()

    def broken() -> DeepStore:
        raise StoreUnavailable("the index is away")

    host.app.search._deep = broken


def _cold(host: Host) -> None:
    assert host.app.drain()
    heads = list(host.app.archive.heads())
    host.app.archive.set_cold([head.id for head in heads], True)
    for head in heads:
        host.app.catalogue.set_tier(head.id, Tier.COLD)


@pytest.mark.parametrize("arrange", [_queued, _indexed, _without_index, _cold])
@pytest.mark.parametrize("tier", [Tier.HOT, Tier.DEEP])
def test_a_search_finds_ones_own_and_shared_memories_alone(
    keeper: Person, ben: Person, arrange: Callable[[Host], None], tier: Tier
) -> None:
    keeper.save("the gate code is hers", "hers", visibility=PRIVATE, tier=tier)
    keeper.save("the gate opens at six", "shared", tier=tier)
    ben.save("the gate code is his", "his", visibility=PRIVATE, tier=tier)
    arrange(keeper.host)
    query = {"tier": Tier.COLD} if arrange is _cold else {}

    hers = keeper.texts("gate code", **query)
    his = ben.texts("gate code", **query)

    assert hers == ["the gate code is hers", "the gate opens at six"]
    assert his == ["the gate code is his", "the gate opens at six"]


def test_what_became_private_is_hidden_before_the_index_knows(ann: Person, ben: Person) -> None:
    saved = ann.save("the gate code is 12", "code").record
    assert ann.host.app.drain()

    ann.save("the gate code is 34", record_id=saved.id, visibility=PRIVATE)

    assert ben.texts("gate code") == []
    assert ann.texts("gate code") == ["the gate code is 34"]


def test_an_index_that_says_otherwise_makes_nothing_visible(ann: Person, ben: Person) -> None:
    ann.save("the gate code is 12", visibility=PRIVATE)
    assert ann.host.app.drain()
    ann.host.app.deep().set_payload(All(()), {"visibility": "project"})

    assert ben.texts("gate code") == []


def test_what_another_home_keeps_in_the_same_stores_is_as_private(ann: Person, ben: Person) -> None:
    """This home's catalogue does not know it, so the stores' own condition has to hold."""
    app = ann.host.app
    record = ann.save("the gate code is 12", visibility=PRIVATE).record
    theirs = replace(record, id="11111111-2222-4333-8444-555555555555", body="her other code is 34")
    app.archive.append([theirs])
    app.outbox.invalidate([(theirs.id, theirs.project)], now=record.created_at)
    assert app.drain()

    assert ben.texts("gate code other") == []
    assert ann.texts("gate code other") == ["her other code is 34", "the gate code is 12"]


def test_many_pending_memories_of_another_hide_none_of_mine(
    ann: Person, ben: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memory.overlay.MOST_PENDING", 3)
    ann.save("the gate opens at six")
    for number in range(5):
        ben.save(f"the gate note {number}", visibility=PRIVATE)

    answer = ann.ask("gate")

    assert [hit.payload["text"] for hit in answer.hits] == ["the gate opens at six"]
    assert "pending" not in answer.degraded


def test_anothers_private_memory_supersedes_nothing_of_mine(ann: Person, ben: Person) -> None:
    old = ann.save("deploys happen on Mondays", "old").record
    ben.save("deploys happen on Fridays", visibility=PRIVATE, supersedes=(old.id,))

    for _ in range(2):  # queued, then indexed
        assert ann.texts("deploys happen") == ["deploys happen on Mondays"]
        assert ben.texts("deploys happen") == ["deploys happen on Fridays"]
        assert ann.service.get(ann.key, "old").superseded_by == ()
        assert len(ben.service.get(ben.key, "old").superseded_by) == 1
        assert ann.host.app.drain()


def test_a_shared_memory_of_another_supersedes_nothing_private_of_mine(
    ann: Person, ben: Person
) -> None:
    mine = ann.save("I deploy on Mondays", visibility=PRIVATE).record
    ben.save("deploys happen on Fridays", supersedes=(mine.id,))

    assert "I deploy on Mondays" in ann.texts("deploy Mondays")


# Hot files: whoever's home it is loads them.


def test_anothers_private_memory_is_never_a_file(ben: Person, keeper: Person) -> None:
    saved = ben.save("his alone", "his", visibility=PRIVATE, tier=Tier.HOT)
    also = ben.save("his as well", "also", type=MemoryType.USER, tier=None)

    assert saved.tier is also.tier is Tier.DEEP
    assert (saved.path, also.path) == (None, None)
    with pytest.raises(Refused, match="private to ben"):
        ben.service.move(ben.key, "his", Tier.HOT)
    assert [path.name for path in root(ben).glob("*") if path.name != "MEMORY.md"] == []
    assert keeper.save("hers alone", visibility=PRIVATE, tier=None).tier is Tier.HOT


def test_a_memory_that_its_owner_makes_private_leaves_the_files(ben: Person) -> None:
    saved = ben.save("for everybody", "note", tier=Tier.HOT)
    assert ben.host.app.drain()
    assert saved.path is None, "the files are another's"
    path = root(ben) / "note.md"
    assert path.exists()

    private = ben.save("for me alone", "note", tier=None, visibility=PRIVATE)

    assert private.tier is Tier.DEEP
    assert "for me alone" not in path.read_text("utf-8")
    assert ben.host.app.drain()
    assert not path.exists()
    assert "note" not in (root(ben) / "MEMORY.md").read_text("utf-8")
    assert ben.texts("for me alone") == ["for me alone"]


def test_the_index_line_of_a_memory_stays_when_another_replaces_it_in_private(
    keeper: Person, ben: Person
) -> None:
    old = keeper.save("deploys happen on Mondays", "deploys", tier=Tier.HOT).record
    ben.save("deploys happen on Fridays", "his", visibility=PRIVATE, supersedes=(old.id,))
    keeper.save("something else that is hot", "else", tier=Tier.HOT)

    assert "deploys.md" in (root(keeper) / "MEMORY.md").read_text("utf-8")

    keeper.save("deploys happen on Sundays", "new", visibility=PRIVATE, supersedes=(old.id,))
    keeper.save("one more that is hot", "more", tier=Tier.HOT)

    assert "deploys.md" not in (root(keeper) / "MEMORY.md").read_text("utf-8")


def test_the_files_that_one_may_load_are_told(keeper: Person, ben: Person) -> None:
    keeper.save("hers alone", "hers", visibility=PRIVATE, tier=Tier.HOT)
    keeper.save("for both", "both", tier=Tier.HOT)
    (root(keeper) / "unseen.md").write_text("not looked at yet\n", encoding="utf-8")

    assert ben.service.visible_files(ben.key) == {"both.md"}
    assert keeper.service.visible_files(keeper.key) == {"both.md", "hers.md"}


@pytest.mark.parametrize("names_the_id", [False, True])
def test_a_file_like_anothers_private_memory_is_a_memory_of_its_own(
    keeper: Person, ben: Person, names_the_id: bool
) -> None:
    his = ben.save("prefers tabs", "tabs", visibility=PRIVATE).record
    header = f"---\nid: {his.id}\nname: tabs\n---\n" if names_the_id else ""
    (root(keeper) / "tabs.md").write_text(f"{header}prefers tabs\n", encoding="utf-8")

    keeper.host.app.hot_sink.look(keeper.host.app.folders.get(keeper.key))

    assert keeper.texts("prefers tabs") == ["prefers tabs"]
    (entry,) = keeper.service.entries(keeper.key)
    assert entry.id != his.id
    assert ben.service.find(ben.key, his.id).tier is Tier.DEEP
    assert len(ben.service.history(ben.key, his.id)) == 1


# What became of searches.


def test_use_and_receipts_are_told_to_those_who_may_see_the_memory(
    ann: Person, ben: Person
) -> None:
    hers = ann.save("hers", visibility=PRIVATE).record
    receipt = ann.service.note_search(ann.key, [hers.id])
    assert receipt is not None

    with pytest.raises(NotFound):
        ben.service.feedback(ben.key, receipt, used=[hers.id])
    ann.service.feedback(ann.key, receipt, used=[hers.id])

    assert ann.service.usage([hers.id])[hers.id].uses == 1
    assert ben.service.usage([hers.id]) == {}


def test_while_the_archive_is_away_nothing_more_is_told(
    ann: Person, ben: Person, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    hers = ann.save("hers", "note", visibility=PRIVATE).record
    assert ann.host.app.drain()

    def away(*_: object, **__: object) -> None:
        raise StoreUnavailable("the archive is away")

    monkeypatch.setattr(SqliteArchive, "current", away)
    with caplog.at_level(logging.WARNING):
        his = ben.save("hers", "note", visibility=PRIVATE)

    assert his.record.id != hers.id
    assert hers.id not in caplog.text
