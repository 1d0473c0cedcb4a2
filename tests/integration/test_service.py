"""The use cases on an open home: save, read, list, forget; asked as the engine's routes ask."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from memory import wire
from memory.app import now_utc
from memory.engine import answers
from memory.engine.access import local_view
from memory.engine.host import Host
from memory.errors import Ambiguous, NotFound, Refused, UsageError
from tests.support.hosts import open_host
from tiers.records import MemoryType, Tier, Visibility

MISSING = "11111111-2222-4333-8444-555555555555"


class Memories:
    """One project of an open home, spoken to in requests."""

    def __init__(self, host: Host, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self.host = host
        self.folder = str(folder)

    def save(self, text: str, **fields: Any) -> wire.SaveAnswer:
        return answers.save(
            local_view(self.host), wire.SaveRequest(project=self.folder, text=text, **fields)
        )

    def bring(self, *items: dict[str, Any]) -> list[wire.BatchResult]:
        """Save many at once, as an import does."""
        request = wire.SaveBatchRequest.model_validate({"project": self.folder, "items": items})
        return answers.save_batch(local_view(self.host), request).results

    def get(self, ref: str) -> wire.MemoryAnswer:
        return answers.get(local_view(self.host), wire.RefRequest(project=self.folder, ref=ref))

    def texts(self, query: str, **fields: Any) -> list[str]:
        request = wire.SearchRequest(project=self.folder, query=query, **fields)
        return [hit.text for hit in answers.search(local_view(self.host), request).hits]

    def list(self, **fields: Any) -> wire.ListAnswer:
        return answers.list_memories(
            local_view(self.host), wire.ListRequest(project=self.folder, **fields)
        )

    def history(self, ref: str) -> list[wire.MemoryAnswer]:
        return answers.history(
            local_view(self.host), wire.RefRequest(project=self.folder, ref=ref)
        ).revisions

    def forget(self, **fields: Any) -> wire.ForgetAnswer:
        return answers.forget(
            local_view(self.host), wire.ForgetRequest(project=self.folder, **fields)
        )


@pytest.fixture
def memories(host: Host, tmp_path: Path) -> Memories:
    return Memories(host, tmp_path / "project")


# Saving.


def test_the_same_text_again_changes_nothing(memories: Memories) -> None:
    first = memories.save("use uv, not pip")

    again = memories.save("  use uv, not pip\n")

    assert (again.id, again.revision, again.unchanged) == (first.id, 1, True)
    assert memories.list().total == 1


def test_the_same_name_revises(memories: Memories) -> None:
    first = memories.save("deploys on Mondays", name="deploys", tags=["ops"])

    memories.host.app.drain()

    second = memories.save("deploys on Tuesdays", name=" deploys ")

    assert (second.id, second.revision, second.unchanged) == (first.id, 2, False)
    assert memories.get("deploys").tags == ["ops"]
    assert [r.text for r in memories.history("deploys")] == [
        "deploys on Mondays",
        "deploys on Tuesdays",
    ]


def test_an_id_revises_and_may_be_named_by_its_start(memories: Memories) -> None:
    saved = memories.save("deploys on Mondays")

    revised = memories.save("deploys on Tuesdays", id=saved.id[:8])

    assert (revised.id, revised.revision) == (saved.id, 2)


def test_a_save_of_an_unknown_id_is_an_error_and_keeps_nothing(memories: Memories) -> None:
    with pytest.raises(NotFound, match=MISSING):
        memories.save("x", id=MISSING)
    with pytest.raises(NotFound, match=MISSING):
        memories.save("x", supersedes=[MISSING])

    assert memories.list().total == 0


def test_an_import_may_bring_its_own_id(memories: Memories) -> None:
    [result] = memories.bring({"text": "brought along", "id": MISSING})

    assert result.saved is not None
    assert memories.get(MISSING).text == "brought along"


def test_an_import_of_the_same_key_is_the_same_memory(memories: Memories) -> None:
    [first] = memories.bring({"text": "one", "key": "docs/a.md"})
    [same] = memories.bring({"text": "one", "key": "docs/a.md"})
    [revised] = memories.bring({"text": "two", "key": "docs/a.md"})

    assert first.saved and same.saved and revised.saved
    assert first.saved.id == same.saved.id == revised.saved.id
    assert (same.saved.unchanged, revised.saved.revision) == (True, 2)


def test_an_import_of_what_another_project_holds_is_a_copy(
    memories: Memories, tmp_path: Path
) -> None:
    other = Memories(memories.host, tmp_path / "other")
    saved = memories.save("mine")
    item = {"text": "mine", "id": saved.id, "key": saved.id}

    [copy], [again] = other.bring(item), other.bring(item)

    assert copy.saved and again.saved
    assert copy.saved.id == again.saved.id != saved.id
    assert again.saved.unchanged
    assert memories.list().total == other.list().total == 1


def test_a_name_that_two_memories_have_must_be_told_apart(memories: Memories) -> None:
    memories.bring(
        {"text": "one", "name": "twin", "key": "1"}, {"text": "two", "name": "twin", "key": "2"}
    )

    for act in (lambda: memories.get("twin"), lambda: memories.save("three", name="twin")):
        with pytest.raises(Ambiguous, match="2 memories") as refused:
            act()
        assert "id" in refused.value.hint

    assert memories.list().total == 2


def test_a_lifetime_is_taken_away_by_never(memories: Memories) -> None:
    memories.save("the demo is on Friday", name="demo", ttl="5d")
    assert memories.get("demo").expires_at is not None

    memories.save("the demo is on Friday", name="demo", ttl="never")

    assert memories.get("demo").expires_at is None


def test_the_human_part_of_the_index_is_not_saved_over(memories: Memories) -> None:
    memories.save("x")
    root = memories.host.app.folders.get(memories.host.enter(memories.folder).key).hot.root
    index = root / "MEMORY.md"
    index.write_text("# ours\n\nread this first\n\n" + index.read_text("utf-8"), encoding="utf-8")
    memories.host._look(memories.host.enter(memories.folder).key)
    [entry] = [item for item in memories.list().memories if item.path == str(index)]

    with pytest.raises(Refused, match=r"MEMORY\.md"):
        memories.save("mine now", id=entry.id)
    with pytest.raises(Refused, match=r"MEMORY\.md"):
        memories.forget(ref=entry.id, confirm=True)

    assert "read this first" in index.read_text("utf-8")


# Reading: what must not be shown.


def test_projects_do_not_see_each_other(memories: Memories, tmp_path: Path) -> None:
    other = Memories(memories.host, tmp_path / "other")
    saved = memories.save("the password rotates on Mondays", name="rotation")

    assert other.texts("password rotates Mondays") == []
    assert other.list().total == 0
    for ref in (saved.id, saved.id[:8], "rotation"):
        for act in (other.get, other.history, lambda ref: other.forget(ref=ref, confirm=True)):
            with pytest.raises(NotFound):
                act(ref)
    with pytest.raises(NotFound):
        other.save("taken over", id=saved.id)
    assert memories.get("rotation").text == "the password rotates on Mondays"


def test_private_memories_of_another_owner_are_not_shown(tmp_path: Path) -> None:
    ann = open_host(tmp_path / "home", owner="ann")
    hers = Memories(ann, tmp_path / "project")
    private = hers.save("my salary is secret", type=MemoryType.USER, name="salary")
    hers.save("the office is in Bern", name="office")
    ann.stop()
    bob = open_host(tmp_path / "home", owner="bob")
    try:
        his = Memories(bob, tmp_path / "project")

        assert his.texts("salary secret office Bern") == ["the office is in Bern"]
        assert [item.name for item in his.list().memories] == ["office"]
        for ref in (private.id, private.id[:8], "salary"):
            with pytest.raises(NotFound):
                his.get(ref)
        key = bob.enter(his.folder).key
        assert [record.name for record, _ in bob.app.service.export(key)] == ["office"]
        mine = his.save("my salary is secret", type=MemoryType.USER, name="salary")
        assert mine.id != private.id
    finally:
        bob.stop()


def test_what_expired_is_not_found_and_can_be_said_again(memories: Memories) -> None:
    past = now_utc() - timedelta(seconds=1)
    memories.save("the demo is on Friday", name="demo", expires_at=past)

    assert memories.texts("demo Friday") == []
    assert memories.list().total == 0

    memories.save("the demo is on Monday", name="demo")

    assert memories.texts("demo Monday") == ["the demo is on Monday"]
    assert memories.get("demo").text == "the demo is on Monday"


def test_what_is_superseded_is_hidden_unless_it_is_asked_for(memories: Memories) -> None:
    old = memories.save("deploys happen on Mondays", name="old")
    new = memories.save("deploys happen on Tuesdays", name="new", supersedes=["old"])

    assert memories.texts("deploys happen") == ["deploys happen on Tuesdays"]
    assert set(memories.texts("deploys happen", include_superseded=True)) == {
        "deploys happen on Mondays",
        "deploys happen on Tuesdays",
    }
    assert memories.get("old").superseded_by == [new.id]

    memories.forget(ref="new", confirm=True)

    assert memories.texts("deploys happen") == ["deploys happen on Mondays"]
    assert memories.get(old.id).superseded_by == []


@pytest.mark.parametrize("query", ["the of and", "?!.,;:", "🎉🎉", "\u200b", "x" * 20_000])
def test_an_odd_query_is_answered(memories: Memories, query: str) -> None:
    memories.save("deploys happen on Tuesdays")
    memories.host.app.drain()

    assert set(memories.texts(query)) <= {"deploys happen on Tuesdays"}


def test_lists_are_filtered_and_paged(memories: Memories) -> None:
    for number in range(7):
        kind = MemoryType.USER if number % 2 else MemoryType.PROJECT
        memories.save(f"memory number {number}", type=kind, tier=Tier.DEEP)

    page = memories.list(type=MemoryType.USER, limit=2, offset=1)

    assert page.total == 3
    assert [item.name for item in page.memories] == ["memory number 3", "memory number 1"]
    assert memories.list(tier=Tier.HOT).memories == []


# Forgetting.


def test_forgetting_is_shown_before_it_is_done(memories: Memories) -> None:
    saved = memories.save("an old address")

    shown = memories.forget(ref=saved.id)

    assert (shown.done, [memory.id for memory in shown.memories]) == (False, [saved.id])
    assert memories.get(saved.id).text == "an old address"


def test_what_is_forgotten_is_gone_everywhere(memories: Memories) -> None:
    saved = memories.save("an old address in Bern", name="address")
    memories.save("an older address in Basel", name="address")
    memories.host.app.drain()
    assert saved.path is not None and Path(saved.path).exists()

    memories.forget(ref="address", confirm=True)

    assert not Path(saved.path).exists()
    assert memories.texts("address Bern Basel") == []
    assert memories.list().total == 0
    memories.host.app.drain()
    assert memories.texts("address Bern Basel") == []
    archived = memories.host.app.archive.history(saved.id)
    assert archived and archived[-1].deleted
    assert {record.body for record in archived} == {""}
    memories.host.app.stop()
    for file in memories.host.app.home.glob("*.db*"):
        assert b"address in B" not in file.read_bytes(), file


def test_what_is_forgotten_is_not_revived_by_an_import(memories: Memories) -> None:
    item = {"text": "an old address", "key": "notes.md"}
    [first] = memories.bring(item)
    assert first.saved is not None
    memories.forget(ref=first.saved.id, confirm=True)

    [by_key] = memories.bring(item)
    [by_id] = memories.bring({"text": "an old address", "id": first.saved.id})

    for result in (by_key, by_id):
        assert result.saved is None
        assert result.problem is not None and result.problem.code == "forgotten"
        assert "tiermem save" in result.problem.hint
    assert memories.texts("old address") == []


def test_what_is_forgotten_can_be_saved_anew(memories: Memories) -> None:
    saved = memories.save("an old address", name="address")
    memories.forget(ref=saved.id, confirm=True)

    again = memories.save("an old address", name="address")

    assert again.id != saved.id
    assert memories.texts("old address") == ["an old address"]
    with pytest.raises(NotFound):
        memories.save("x", id=saved.id)


def test_a_query_forgets_only_what_has_all_its_words(memories: Memories) -> None:
    memories.save("the office address is Bern")
    memories.save("the office opens at nine")
    memories.save("the postal address is Basel")
    memories.host.app.drain()

    nothing = memories.forget(query="zzzz", confirm=True)
    done = memories.forget(query="address of the OFFICE", confirm=True)

    assert nothing.memories == []
    assert [memory.name for memory in done.memories] == ["the office address is Bern"]
    assert memories.list().total == 2


def test_words_name_a_memory_to_forget_when_only_one_has_them(memories: Memories) -> None:
    memories.save("the office address is Bern")
    memories.save("the office opens at nine")

    with pytest.raises(Ambiguous, match="2 memories have all the words"):
        memories.forget(ref="office", confirm=True)
    done = memories.forget(ref="office address", confirm=True)

    assert [memory.name for memory in done.memories] == ["the office address is Bern"]
    with pytest.raises(NotFound):
        memories.forget(ref=MISSING, confirm=True)
    with pytest.raises(UsageError):
        memories.forget()


def test_budgets_of_the_project_are_minded(memories: Memories) -> None:
    for number in range(4):
        memories.save(f"memory number {number} " + "and more of it " * 30)
    (Path(memories.folder) / ".tiermem.toml").write_text(
        "[search]\nlimit = 2\n[load]\ntopic_chars = 1000\nmax_files = 1\n", encoding="utf-8"
    )

    loaded = answers.load(local_view(memories.host), wire.LoadRequest(project=memories.folder))

    assert len(memories.texts("memory number")) == 2
    assert sum(file.loaded for file in loaded.memory_files) == 1
    assert len(loaded.truncated) == 3


def test_visibility_can_be_chosen(memories: Memories) -> None:
    memories.save("mine", name="mine", visibility=Visibility.PRIVATE)

    assert memories.get("mine").visibility is Visibility.PRIVATE


def test_forgetting_again_by_id_is_no_error_so_a_request_can_be_repeated(
    memories: Memories,
) -> None:
    saved = memories.save("the old office is in Kassel")

    first = memories.forget(ids=[saved.id], confirm=True)
    again = memories.forget(ids=[saved.id], confirm=True)

    assert ([memory.id for memory in first.memories], first.done) == ([saved.id], True)
    assert (again.memories, again.done) == ([], True)
    with pytest.raises(NotFound):
        memories.forget(ids=[MISSING], confirm=True)


def test_a_memory_is_forgotten_while_the_archive_is_away(host: Host, memories: Memories) -> None:
    saved = memories.save("the old office is in Kassel", tier=Tier.DEEP)
    host.app.drain()
    host.app.archive.close()

    answer = memories.forget(ids=[saved.id], confirm=True)

    assert answer.done
    assert "archive" in answer.pending
    assert memories.texts("old office Kassel") == []
