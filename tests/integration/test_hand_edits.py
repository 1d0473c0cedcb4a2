"""What people do to hot files, and what becomes of their memories."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from memory.engine.host import Host
from memory.errors import Refused
from tests.support.people import Desk, seconds_ago
from tiers import hot
from tiers.errors import StoreUnavailable
from tiers.hot import LARGEST_FILE_BYTES
from tiers.records import Importance, Origin, Tier, Visibility


@pytest.fixture
def desk(host: Host, tmp_path: Path) -> Desk:
    (tmp_path / "project").mkdir()
    return Desk(host, tmp_path / "project")


# Edits.


def test_an_edited_file_becomes_a_new_revision_and_is_found(desk: Desk) -> None:
    saved = desk.save("the port is 5432", "database port")
    desk.edit("database-port.md", "5432", "6543 behind pgbouncer")

    report = desk.look()

    assert report.taken_in == [saved.record.id]
    assert desk.found("pgbouncer") == [saved.record.id]
    assert desk.history(saved.record.id) == [
        "the port is 5432",
        "the port is 6543 behind pgbouncer",
    ]
    assert desk.found("pgbouncer") == [saved.record.id]
    assert desk.record(saved.record.id).revision == 2


def test_an_edit_of_the_header_changes_what_it_says(desk: Desk) -> None:
    saved = desk.save("the port is 5432", "database port", tags=("db",))
    desk.edit("database-port.md", "tags: [db]", "tags: [db, network]\nimportance: high")

    desk.look()

    record = desk.record(saved.record.id)
    assert (record.tags, record.importance) == (("db", "network"), Importance.HIGH)
    assert record.body == "the port is 5432"


def test_a_look_at_files_as_they_are_brings_nothing(desk: Desk) -> None:
    saved = desk.save("the port is 5432", "database port")
    os.utime(desk.root / "database-port.md", (seconds_ago(9), seconds_ago(9)))

    report = desk.look()

    assert (report.taken_in, report.demoted, report.held) == ([], [], None)
    assert not report.unsettled
    assert desk.record(saved.record.id).revision == 1


def test_an_edit_that_is_not_yet_quiet_is_waited_for(
    make_host: Callable[..., Host], tmp_path: Path
) -> None:
    (tmp_path / "project").mkdir()
    desk = Desk(make_host(hot__settle_s=60.0), tmp_path / "project")
    saved = desk.save("the port is 5432", "database port")
    desk.edit("database-port.md", "5432", "6543")
    assert desk.look().unsettled
    assert desk.record(saved.record.id).revision == 1

    os.utime(desk.root / "database-port.md", (seconds_ago(61), seconds_ago(61)))

    assert not desk.look().unsettled
    assert desk.record(saved.record.id).body == "the port is 6543"


def test_a_save_over_an_unseen_edit_keeps_both_and_knows_of_the_edit(desk: Desk) -> None:
    saved = desk.save("version one", "note")
    desk.edit("note.md", "version one", "a person's version")

    again = desk.save("version three", record_id=saved.record.id)

    assert again.record.revision == 3
    assert desk.history(saved.record.id) == ["version one", "a person's version", "version three"]
    assert b"version three" in desk.read("note.md")


def test_an_edit_that_hides_from_a_look_is_not_written_over(desk: Desk) -> None:
    saved = desk.save("version one", "note")
    before = (desk.root / "note.md").stat()
    with (desk.root / "note.md").open("r+b") as file:
        file.write(desk.read("note.md").replace(b"version one", b"version too"))
    os.utime(desk.root / "note.md", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert desk.look().taken_in == []

    desk.save("version three", record_id=saved.record.id)

    assert b"version too" in desk.read("note.md")
    assert desk.history(saved.record.id) == ["version one", "version three", "version too"]


def test_an_edit_beside_a_deletion_that_settles_is_taken_in_at_once(desk: Desk) -> None:
    saved, gone = desk.save("version one", "note"), desk.save("other text", "gone")
    away = desk.root.with_name("away")
    desk.root.rename(away)
    desk.save("version two", record_id=saved.record.id)
    away.rename(desk.root)
    (desk.root / "gone.md").unlink()
    desk.edit("note.md", "version one", "a person's version")

    assert desk.drain()

    assert desk.history(saved.record.id) == ["version one", "version two", "a person's version"]
    assert desk.entry(gone.record.id).tier is Tier.HOT


def test_an_edit_made_while_a_revision_waits_wins_over_it(desk: Desk) -> None:
    saved = desk.save("version one", "note")
    away = desk.root.with_name("away")
    desk.root.rename(away)
    waiting = desk.save("version two", record_id=saved.record.id)
    assert waiting.pending == ("archive", "deep", "hot")
    away.rename(desk.root)
    desk.edit("note.md", "version one", "a person's version")

    assert desk.drain()

    assert b"a person's version" in desk.read("note.md")
    assert desk.history(saved.record.id) == ["version one", "version two", "a person's version"]
    assert desk.found("person's version") == [saved.record.id]


def test_an_older_queued_revision_does_not_overwrite_a_newer_edit(desk: Desk) -> None:
    saved = desk.save("version one", "note")
    away = desk.root.with_name("away")
    desk.root.rename(away)
    desk.save("version two", record_id=saved.record.id)
    away.rename(desk.root)
    desk.edit("note.md", "version one", "a person's version")
    desk.look()
    before = desk.read("note.md")

    assert desk.drain()

    assert desk.read("note.md") == before
    assert desk.history(saved.record.id) == ["version one", "version two", "a person's version"]


def test_unknown_keys_comments_and_order_survive_a_write_of_ours(desk: Desk) -> None:
    desk.write(
        "note.md",
        "---\n# mine\nzeta: 1\nname: note\nalpha:\n  deep: [x, y]\ndate: 2024-01-05\n---\n\nold\n",
    )
    desk.look()

    desk.save("new text", record_id=desk.id_at("note.md"), importance=Importance.HIGH)

    assert desk.read("note.md").decode() == (
        "---\n# mine\nzeta: 1\nname: note\nalpha:\n  deep: [x, y]\ndate: 2024-01-05\n"
        "importance: high\n---\n\nnew text\n"
    )


def test_a_lifetime_that_no_calendar_holds_is_reported_and_stops_nothing(desk: Desk) -> None:
    desk.write("note.md", "---\ncreated: 2026-01-01\nttl: 999999w\n---\nfor ever and ever\n")
    desk.write("other.md", "another one\n")

    desk.look()

    assert sorted(desk.placements()) == ["MEMORY.md", "note.md", "other.md"]


# New files.


def test_a_new_file_becomes_a_hot_memory_and_no_byte_of_it_changes(desk: Desk) -> None:
    content = "# How we deploy\r\n\r\nWith the blue pipeline only.\r\n"
    path = desk.write("deploys.md", content)
    before = path.stat()

    report = desk.look()

    assert report.taken_in == [desk.id_at("deploys.md")]
    record = desk.record(desk.id_at("deploys.md"))
    assert (record.name, record.origin, record.owner) == ("deploys", Origin.HUMAN, "tester")
    assert desk.entry(record.id).tier is Tier.HOT
    assert desk.found("blue pipeline") == [record.id]
    assert path.read_bytes() == content.encode()
    assert (path.stat().st_mtime_ns, path.stat().st_ino) == (before.st_mtime_ns, before.st_ino)
    assert b"[deploys](deploys.md)" in desk.read("MEMORY.md")


def test_a_new_file_about_a_person_is_private(desk: Desk) -> None:
    desk.write("me.md", "---\ntype: user\n---\nprefers short answers\n")
    desk.look()
    assert desk.record(desk.id_at("me.md")).visibility is Visibility.PRIVATE


def test_a_new_file_keeps_the_id_in_its_header(desk: Desk) -> None:
    desk.write("note.md", "---\nid: from-elsewhere\n---\nsome text\n")
    desk.look()
    assert desk.id_at("note.md") == "from-elsewhere"


def test_files_in_subfolders_are_memories_and_hidden_ones_are_not(desk: Desk) -> None:
    desk.write("team/rules/reviews.md", "two reviewers\n")
    desk.write(".obsidian/plugin.md", "not a memory\n")
    desk.write(".draft.md", "not a memory\n")

    desk.look()

    assert sorted(desk.placements()) == ["MEMORY.md", "team/rules/reviews.md"]
    assert b"(team/rules/reviews.md)" in desk.read("MEMORY.md")
    assert desk.found("reviewers") == [desk.id_at("team/rules/reviews.md")]
    desk.save("three reviewers", record_id=desk.id_at("team/rules/reviews.md"))
    assert desk.read("team/rules/reviews.md") == b"three reviewers\n"


def test_two_new_files_with_one_text_are_two_places_of_one_memory(desk: Desk) -> None:
    desk.write("one.md", "the very same text\n")
    desk.write("two.md", "the very same text\n")

    desk.look()

    assert desk.id_at("one.md") == desk.id_at("two.md")
    assert len(desk.entries()) == 1


def test_two_new_files_with_one_id_and_two_texts_are_two_memories(desk: Desk) -> None:
    desk.write("one.md", "---\nid: same\n---\nfirst text\n")
    desk.write("two.md", "---\nid: same\n---\nsecond text\n")

    desk.look()

    assert desk.id_at("one.md") == "same"
    assert desk.id_at("two.md") != "same"
    assert desk.record(desk.id_at("two.md")).body == "second text"


# Copies.


def test_a_copy_is_a_second_place_until_it_differs_and_then_a_memory_of_its_own(
    desk: Desk,
) -> None:
    saved = desk.save("the original text", "note")
    desk.write("copy.md", desk.read("note.md"))
    desk.look()
    assert desk.id_at("copy.md") == saved.record.id
    assert len(desk.entries()) == 1

    desk.edit("copy.md", "the original text", "another text")
    desk.look()

    assert desk.id_at("note.md") == saved.record.id
    assert desk.id_at("copy.md") != saved.record.id
    assert desk.record(desk.id_at("copy.md")).body == "another text"
    assert desk.record(saved.record.id).body == "the original text"
    assert saved.record.id.encode() in desk.read("copy.md")


def test_both_places_of_a_memory_are_written(desk: Desk) -> None:
    saved = desk.save("the original text", "note")
    desk.write("copy.md", desk.read("note.md"))
    desk.look()

    desk.save("the new text", record_id=saved.record.id)

    assert b"the new text" in desk.read("note.md")
    assert desk.read("copy.md") == desk.read("note.md")


def test_a_copy_of_the_text_alone_takes_nothing_from_the_memory(desk: Desk) -> None:
    saved = desk.save("the original text", "note", tags=("db",), description="about it")
    desk.write("plain.md", "the original text\n")

    desk.look()

    record = desk.record(saved.record.id)
    assert desk.id_at("plain.md") == saved.record.id
    assert (record.revision, record.name, record.tags) == (1, "note", ("db",))


def test_a_file_with_the_same_text_that_says_more_is_a_memory_of_its_own(desk: Desk) -> None:
    saved = desk.save("the original text", "note", tags=("db",))
    desk.write("other.md", "---\ntags: [web]\n---\nthe original text\n")

    desk.look()

    assert desk.id_at("other.md") != saved.record.id
    assert desk.record(desk.id_at("other.md")).tags == ("web",)
    assert desk.record(saved.record.id).tags == ("db",)


def test_a_file_that_repeats_what_memory_md_says_is_a_memory_of_its_own(desk: Desk) -> None:
    desk.write("MEMORY.md", "Always rebase.\n")
    desk.look()
    desk.write("rebase.md", "Always rebase.\n")

    desk.look()

    assert desk.id_at("rebase.md") != desk.id_at("MEMORY.md")


def test_a_copy_pasted_over_another_file_is_an_edit_of_that_file(desk: Desk) -> None:
    one, two = desk.save("text one", "one"), desk.save("text two", "two")
    desk.write("two.md", desk.read("one.md"))

    desk.look()

    assert desk.id_at("one.md") == one.record.id
    assert desk.id_at("two.md") == two.record.id
    assert desk.history(two.record.id) == ["text two", "text one"]


# Renames.


def test_a_renamed_file_keeps_its_memory(desk: Desk) -> None:
    saved = desk.save("the text", "note")
    desk.look()
    (desk.root / "note.md").rename(desk.root / "renamed.md")

    desk.look()

    assert desk.id_at("renamed.md") == saved.record.id
    assert "note.md" not in desk.placements()
    assert desk.history(saved.record.id) == ["the text"]
    assert b"(renamed.md)" in desk.read("MEMORY.md")
    assert b"(note.md)" not in desk.read("MEMORY.md")


def test_a_file_that_was_renamed_and_edited_keeps_its_memory_by_its_id(desk: Desk) -> None:
    saved = desk.save("the text", "note")
    desk.look()
    (desk.root / "note.md").rename(desk.root / "renamed.md")
    desk.edit("renamed.md", "the text", "the edited text")

    desk.look()

    assert desk.id_at("renamed.md") == saved.record.id
    assert desk.history(saved.record.id) == ["the text", "the edited text"]


def test_a_file_without_a_header_that_was_renamed_keeps_its_memory_by_its_content(
    desk: Desk,
) -> None:
    desk.write("note.md", "the text\n")
    desk.look()
    record_id = desk.id_at("note.md")
    (desk.root / "note.md").rename(desk.root / "renamed.md")

    desk.look()

    assert desk.id_at("renamed.md") == record_id
    assert [(entry.id, entry.name) for entry in desk.entries()] == [(record_id, "renamed")]


def test_a_rename_seen_in_two_looks_keeps_its_memory(desk: Desk) -> None:
    saved = desk.save("the text", "note")
    content = desk.read("note.md")
    (desk.root / "note.md").unlink()
    desk.look()
    desk.write("renamed.md", content.replace(b"the text", b"the edited text"))

    desk.look()
    desk.wait_for_deletions()
    desk.look()

    assert desk.id_at("renamed.md") == saved.record.id
    assert desk.entry(saved.record.id).tier is Tier.HOT
    assert desk.record(saved.record.id).body == "the edited text"


def test_two_files_that_swap_names_keep_their_memories(desk: Desk) -> None:
    one, two = desk.save("text one", "one"), desk.save("text two", "two")
    desk.look()
    (desk.root / "one.md").rename(desk.root / "t")
    (desk.root / "two.md").rename(desk.root / "one.md")
    (desk.root / "t").rename(desk.root / "two.md")

    desk.look()

    assert (desk.id_at("one.md"), desk.id_at("two.md")) == (two.record.id, one.record.id)
    assert desk.history(one.record.id) == ["text one"]
    assert desk.history(two.record.id) == ["text two"]


def test_a_file_moved_over_another_takes_its_place_and_that_one_is_deep(desk: Desk) -> None:
    one, two = desk.save("text one", "one"), desk.save("text two", "two")
    desk.look()
    (desk.root / "two.md").replace(desk.root / "one.md")

    report = desk.look()

    assert report.demoted == [one.record.id]
    assert desk.id_at("one.md") == two.record.id
    assert desk.entry(one.record.id).tier is Tier.DEEP
    assert desk.found("text one")[0] == one.record.id
    assert desk.history(one.record.id) == ["text one"]


def test_many_files_moved_into_a_folder_are_no_loss(desk: Desk) -> None:
    ids = [desk.save(f"text number {n}", f"note {n}").record.id for n in range(6)]
    desk.look()
    (desk.root / "sub").mkdir()
    for path in desk.files():
        (desk.root / path).rename(desk.root / "sub" / path)

    report = desk.look()

    assert report.held is None
    assert [desk.id_at(f"sub/note-{n}.md") for n in range(6)] == ids


def test_a_file_whose_name_changes_only_in_case_keeps_its_memory(desk: Desk) -> None:
    saved = desk.save("the text", "note")
    desk.look()
    (desk.root / "note.md").rename(desk.root / "Note.MD")

    desk.look()

    assert desk.id_at("Note.MD") == saved.record.id


def test_a_new_memory_never_takes_a_name_that_differs_only_in_case(desk: Desk) -> None:
    desk.write("NOTE.md", "a person's\n")
    desk.look()
    saved = desk.save("an agent's", "note")
    assert saved.path == str(desk.root / "note-2.md")


def test_a_new_memory_never_takes_the_name_of_a_file_that_nobody_has_seen(desk: Desk) -> None:
    desk.write("note.md", "a person's\n")
    desk.write("note-2.md", "another of hers\n")

    saved = desk.save("Note")

    assert saved.path == str(desk.root / "note-3.md")
    assert desk.read("note.md") == b"a person's\n"
    assert desk.read("note-2.md") == b"another of hers\n"


# Deletions.


def test_a_deleted_file_is_a_demotion_after_a_while_and_nothing_is_lost(desk: Desk) -> None:
    saved = desk.save("the retry budget is five", "note")
    desk.drain()
    (desk.root / "note.md").unlink()

    first = desk.look()
    assert (first.demoted, first.unsettled) == ([], True)
    assert desk.entry(saved.record.id).tier is Tier.HOT
    desk.wait_for_deletions()
    report = desk.look()

    assert report.demoted == [saved.record.id]
    assert not report.unsettled
    assert desk.entry(saved.record.id).tier is Tier.DEEP
    assert desk.found("retry budget") == [saved.record.id]
    assert desk.history(saved.record.id) == ["the retry budget is five"]
    assert b"note.md" not in desk.read("MEMORY.md")
    assert "note.md" not in desk.files()


def test_a_file_that_is_back_before_that_was_never_gone(desk: Desk) -> None:
    saved = desk.save("the text", "note")
    content = desk.read("note.md")
    (desk.root / "note.md").unlink()
    desk.look()
    desk.write("note.md", content)

    report = desk.look()
    desk.wait_for_deletions()

    assert (report.taken_in, report.demoted, report.unsettled) == ([], [], False)
    assert desk.look().demoted == []
    assert desk.placements()["note.md"].missing_since is None
    assert desk.entry(saved.record.id).tier is Tier.HOT


def test_an_emptied_file_settles_like_a_deleted_one(desk: Desk) -> None:
    saved = desk.save("the text", "note")
    desk.write("note.md", "\n")

    assert desk.look().unsettled
    assert desk.entry(saved.record.id).tier is Tier.HOT
    desk.wait_for_deletions()

    assert desk.look().demoted == [saved.record.id]
    assert desk.read("note.md") == b"\n"
    assert desk.look().problems == {"note.md": "the file is empty"}
    assert desk.history(saved.record.id) == ["the text"]


def test_a_file_emptied_for_a_moment_is_a_plain_edit(desk: Desk) -> None:
    saved = desk.save("the text", "note")
    content = desk.read("note.md")
    desk.write("note.md", "")
    desk.look()
    desk.write("note.md", content.replace(b"the text", b"the edited text"))

    report = desk.look()

    assert report.taken_in == [saved.record.id]
    assert not report.unsettled
    assert desk.history(saved.record.id) == ["the text", "the edited text"]


def test_a_file_put_back_after_its_demotion_is_hot_again(desk: Desk) -> None:
    saved = desk.save("the text", "note")
    content = desk.read("note.md")
    (desk.root / "note.md").unlink()
    desk.look()
    desk.wait_for_deletions()
    desk.look()
    desk.write("elsewhere.md", content)

    desk.look()

    assert desk.id_at("elsewhere.md") == saved.record.id
    assert desk.entry(saved.record.id).tier is Tier.HOT
    assert len(desk.entries()) == 1


def test_a_save_after_a_deletion_writes_the_file_again(desk: Desk) -> None:
    saved = desk.save("the text", "note")
    (desk.root / "note.md").unlink()
    desk.look()

    desk.save("the new text", record_id=saved.record.id)
    desk.wait_for_deletions()

    assert b"the new text" in desk.read("note.md")
    assert desk.look().demoted == []


def test_the_first_of_two_copies_deleted_leaves_the_memory_hot(desk: Desk) -> None:
    saved = desk.save("the text", "note")
    desk.write("copy.md", desk.read("note.md"))
    desk.look()
    (desk.root / "note.md").unlink()
    desk.look()
    desk.edit("copy.md", "the text", "the edited text")
    desk.look()
    desk.wait_for_deletions()
    desk.look()

    assert desk.id_at("copy.md") == saved.record.id
    assert desk.entry(saved.record.id).tier is Tier.HOT
    assert desk.history(saved.record.id) == ["the text", "the edited text"]


def test_a_file_replaced_by_a_folder_is_a_deletion(desk: Desk) -> None:
    saved = desk.save("the text", "note")
    (desk.root / "note.md").unlink()
    desk.write("note.md/inner.md", "inner text\n")

    desk.look()
    desk.wait_for_deletions()
    report = desk.look()

    assert report.demoted == [saved.record.id]
    assert desk.record(desk.id_at("note.md/inner.md")).body == "inner text"


# Forgetting.


def test_a_forgotten_memory_leaves_no_file_and_no_copy(desk: Desk) -> None:
    saved = desk.save("a thing to forget", "note")
    desk.save("a thing to forget soon", record_id=saved.record.id)
    assert desk.folder.hot.snapshots.of("note.md")

    desk.forget(saved.record.id)

    assert desk.files() == []
    assert desk.folder.hot.snapshots.of("note.md") == []
    assert b"note.md" not in desk.read("MEMORY.md")


def test_a_forgotten_memorys_file_brought_back_is_a_new_memory(desk: Desk) -> None:
    saved = desk.save("a thing to forget", "note")
    content = desk.read("note.md")
    desk.forget(saved.record.id)
    desk.drain()
    desk.write("note.md", content)

    desk.look()
    desk.drain()

    assert desk.id_at("note.md") != saved.record.id
    assert desk.entry(saved.record.id).tombstone
    assert desk.found("thing to forget") == [desk.id_at("note.md")]
    assert desk.read("note.md") == content
    desk.edit("note.md", "a thing to forget", "a thing to keep")
    desk.look()
    assert desk.record(desk.id_at("note.md")).body == "a thing to keep"


def test_an_unseen_edit_of_what_is_forgotten_is_a_new_memory(desk: Desk) -> None:
    saved = desk.save("a thing to forget", "note")
    desk.edit("note.md", "a thing to forget", "a person's new thought")

    desk.forget(saved.record.id)
    desk.drain()

    assert desk.entry(saved.record.id).tombstone
    assert b"a person's new thought" in desk.read("note.md")
    assert desk.id_at("note.md") != saved.record.id
    assert desk.found("new thought") == [desk.id_at("note.md")]


# Files that are odd.


def test_a_header_that_does_not_parse_is_searchable_and_never_rewritten(desk: Desk) -> None:
    odd = b"---\nname: [unclosed\n  : {\n---\nthe odd body\n"
    desk.write("odd.md", odd)
    desk.look()
    record_id = desk.id_at("odd.md")
    assert desk.found("odd body") == [record_id]
    assert "odd.md" in desk.status().problems

    saved = desk.save("the agent's body", record_id=record_id)
    assert "hot" in saved.pending
    for _ in range(3):
        desk.drain()

    status = desk.status()
    assert desk.read("odd.md") == odd
    assert desk.host.app.service.history(desk.key, record_id)[-1].body == "the agent's body"
    assert (status.tiers["hot"].state, status.tiers["hot"].dead) == ("degraded", 1)
    assert "odd.md" in status.tiers["hot"].detail
    assert "cannot be parsed" in status.tiers["hot"].detail


def test_a_repaired_header_is_no_problem_any_more(desk: Desk) -> None:
    desk.write("odd.md", "---\nname: [unclosed\n---\nthe odd body\n")
    desk.look()
    assert "odd.md" in desk.status().problems
    desk.write("odd.md", "---\nname: closed\n---\nthe odd body\n")

    desk.look()

    assert desk.status().problems == {}
    assert desk.record(desk.id_at("odd.md")).name == "closed"


def test_a_problem_of_a_file_that_is_gone_is_gone(desk: Desk) -> None:
    desk.write("empty.md", "")
    desk.look()
    assert desk.status().problems == {"empty.md": "the file is empty"}
    (desk.root / "empty.md").unlink()

    desk.look()

    assert desk.status().problems == {}


def test_a_file_that_is_too_large_is_reported_and_stops_no_other(desk: Desk) -> None:
    desk.write("large.md", b"x" * (LARGEST_FILE_BYTES + 1))
    desk.write("small.md", "small text\n")

    desk.look()

    assert "larger than 1,000,000 bytes" in desk.status().problems["large.md"]
    assert sorted(desk.placements()) == ["MEMORY.md", "small.md"]


def test_a_file_that_grew_too_large_is_not_rewritten(desk: Desk) -> None:
    saved = desk.save("the text", "note")
    large = desk.read("note.md") + b"x" * LARGEST_FILE_BYTES
    desk.write("note.md", large)
    desk.look()

    desk.save("another text", record_id=saved.record.id)
    desk.drain()

    assert desk.read("note.md") == large
    assert desk.record(saved.record.id).body == "another text"
    assert "too large" in desk.status().tiers["hot"].detail


def test_a_file_that_is_not_utf8_is_reported_and_loads(desk: Desk) -> None:
    content = b"---\nname: caf\xc3\xa9\n---\nna\xefve text\n"
    desk.write("latin.md", content)
    desk.write("plain.md", "plain text\n")

    desk.look()

    assert "UTF-8" in desk.status().problems["latin.md"]
    assert desk.record(desk.id_at("latin.md")).body == "na\ufffdve text"
    assert desk.read("latin.md") == content
    assert desk.id_at("plain.md")


def test_a_file_whose_name_is_not_utf8_is_reported_and_stops_no_other(desk: Desk) -> None:
    desk.write("plain.md", "plain text\n")
    Path(os.fsdecode(os.fsencode(desk.root) + b"/caf\xe9.md")).write_bytes(b"coffee")

    desk.look()

    assert desk.status().problems == {"caf\ufffd.md": "its name is not UTF-8"}
    assert desk.id_at("plain.md")


def test_a_link_to_a_file_beside_it_is_no_second_memory_and_stays_a_link(desk: Desk) -> None:
    saved = desk.save("the text", "note")
    (desk.root / "also.md").symlink_to("note.md")

    desk.look()
    desk.save("the new text", record_id=saved.record.id)
    desk.look()

    assert sorted(desk.placements()) == ["MEMORY.md", "note.md"]
    assert len(desk.entries()) == 1
    assert (desk.root / "also.md").is_symlink()
    assert desk.read("also.md") == desk.read("note.md")
    assert b"the new text" in desk.read("note.md")


def test_a_link_that_leaves_the_root_is_reported_and_never_read(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "outside.md").write_text("an outside secret\n", encoding="utf-8")
    desk.write("inside.md", "inside\n")
    (desk.root / "link.md").symlink_to(tmp_path / "outside.md")

    desk.look()

    assert desk.status().problems == {"link.md": "it is a link that leaves the hot root"}
    assert desk.found("outside secret") == []
    assert "outside secret" not in desk.load().formatted_prompt


# Secrets.

SECRET = "ghp_" + "".join(f"{n:02d}aB" for n in range(9))


def test_a_file_with_a_secret_is_masked_everywhere_and_never_changed(desk: Desk) -> None:
    content = f"---\nname: access\n---\nthe deploy token is {SECRET}\n"
    desk.write("access.md", content)
    desk.look()
    desk.drain()
    record_id = desk.id_at("access.md")

    assert SECRET not in desk.record(record_id).body
    assert desk.found("deploy token") == [record_id]
    assert SECRET not in desk.load().formatted_prompt
    assert "secrets" in desk.load().problems["access.md"]
    assert desk.placements()["access.md"].masked
    home = desk.host.app.home
    stores = [path for path in home.rglob("*") if path.is_file() and path.suffix != ".md"]
    assert not [path for path in stores if SECRET.encode() in path.read_bytes()]
    assert desk.read("access.md").decode() == content


def test_saving_over_a_file_with_a_secret_is_refused_with_what_to_do(desk: Desk) -> None:
    content = f"the deploy token is {SECRET}\n"
    desk.write("access.md", content)
    desk.look()

    with pytest.raises(Refused) as caught:
        desk.save("no token any more", record_id=desk.id_at("access.md"))

    assert "access.md" in caught.value.message
    assert caught.value.hint == "edit that file by hand"
    assert desk.read("access.md").decode() == content


def test_a_secret_that_a_person_takes_out_makes_the_file_writable_again(desk: Desk) -> None:
    desk.write("access.md", f"the deploy token is {SECRET}\n")
    desk.look()
    desk.write("access.md", "the deploy token is in the vault\n")
    desk.look()

    desk.save("the token is in the new vault", record_id=desk.id_at("access.md"))

    assert desk.read("access.md") == b"the token is in the new vault\n"


# Hot roots that cannot be used.


def test_a_save_is_kept_while_its_hot_root_cannot_be_written(desk: Desk) -> None:
    saved = desk.save("the text", "note")
    parent = desk.root.parent
    parent.rename(parent.with_name("away"))
    parent.write_bytes(b"a file where the folder was")

    new = desk.save("text for later", "later")
    changed = desk.save("the new text", record_id=saved.record.id)
    desk.drain()

    assert "hot" in new.pending
    assert "hot" in changed.pending
    status = desk.status()
    assert (status.tiers["hot"].state, status.tiers["hot"].pending) == ("degraded", 2)
    assert desk.found("text for later")[0] == new.record.id
    parent.unlink()
    parent.with_name("away").rename(parent)
    assert desk.drain()
    assert b"text for later" in desk.read("later.md")
    assert b"the new text" in desk.read("note.md")
    assert desk.status().tiers["hot"].state == "ready"


def test_a_save_is_kept_while_hot_files_are_read_only(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved, other = desk.save("the text", "note"), desk.save("other text", "other")
    desk.edit("other.md", "other text", "a person's text")

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    with monkeypatch.context() as patch:
        patch.setattr(hot, "write_temporary", refuse)
        again = desk.save("the new text", record_id=saved.record.id)
        new = desk.save("text for later", "later")
        assert not desk.drain()
        status = desk.status()
    assert ("hot" in again.pending, "hot" in new.pending) == (True, True)
    assert (status.tiers["hot"].state, status.tiers["hot"].pending) == ("degraded", 2)
    assert "Read-only file system" in status.tiers["hot"].detail
    assert desk.record(other.record.id).body == "a person's text"
    assert desk.files() == ["note.md", "other.md"]

    assert desk.drain()

    assert b"the new text" in desk.read("note.md")
    assert b"text for later" in desk.read("later.md")
    assert desk.status().tiers["hot"].state == "ready"


def test_a_folder_that_cannot_be_read_is_a_problem_and_no_loss(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved = desk.save("the text", "note")
    real = os.scandir

    def refuse(path: str) -> object:
        if str(path) == str(desk.root):
            raise PermissionError(13, "Permission denied", path)
        return real(path)

    with monkeypatch.context() as patch:
        patch.setattr(os, "scandir", refuse)
        report = desk.look()
        again = desk.save("the new text", record_id=saved.record.id)
        assert "Permission denied" in desk.status().problems[str(desk.root)]
    assert (report.demoted, report.held) == ([], None)
    assert again.record.revision == 2

    desk.look()

    assert desk.status().problems == {}
    assert desk.entry(saved.record.id).tier is Tier.HOT


def test_an_edit_waits_for_an_archive_that_is_away_and_stops_no_save(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved = desk.save("the text", "note")
    desk.drain()
    desk.edit("note.md", "the text", "a person's text")

    def refuse(_: str) -> None:
        raise StoreUnavailable("the archive is away")

    with monkeypatch.context() as patch:
        patch.setattr(desk.host.app.archive, "current", refuse)
        new = desk.save("some other text", "other")
        assert desk.status().problems == {str(desk.root): "the archive is away"}
    assert new.path == str(desk.root / "other.md")
    assert desk.record(saved.record.id).revision == 1

    desk.look()

    assert desk.record(saved.record.id).body == "a person's text"
    assert desk.status().problems == {}


def test_one_file_that_cannot_be_read_stops_no_other(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.write("locked.md", "locked text\n")
    desk.write("open.md", "open text\n")
    real = os.open

    def refuse(path: object, flags: int, *rest: int, **options: int) -> int:
        if str(path).endswith("locked.md"):
            raise PermissionError(13, "Permission denied", path)
        return real(path, flags, *rest, **options)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refuse)
        desk.look()

    assert "Permission denied" in desk.status().problems["locked.md"]
    assert sorted(desk.placements()) == ["MEMORY.md", "open.md"]
    desk.look()
    assert desk.status().problems == {}
    assert sorted(desk.placements()) == ["MEMORY.md", "locked.md", "open.md"]


def test_a_file_that_cannot_be_written_holds_up_no_other(desk: Desk) -> None:
    odd, fine = desk.save("odd one", "odd"), desk.save("fine one", "fine")
    (desk.root / "odd.md").unlink()
    (desk.root / "odd.md").mkdir()
    away = desk.root.with_name("away")
    desk.root.rename(away)
    desk.save("odd two", record_id=odd.record.id)
    desk.save("fine two", record_id=fine.record.id)
    away.rename(desk.root)

    assert not desk.drain()

    assert b"fine two" in desk.read("fine.md")
    assert (desk.root / "odd.md").is_dir()


# Editors and writers that get into each other's way.


def test_what_an_editor_writes_into_a_replaced_file_comes_back(desk: Desk) -> None:
    saved = desk.save("version one", "note")
    with (desk.root / "note.md").open("ab") as editor:
        desk.save("version two", record_id=saved.record.id)
        editor.write(b"and a late line\n")

    report = desk.look()

    assert report.taken_in == [saved.record.id]
    assert b"version one\nand a late line\n" in desk.read("note.md")
    assert desk.history(saved.record.id) == [
        "version one",
        "version two",
        "version one\nand a late line",
    ]
    assert desk.look().taken_in == []


def test_a_late_line_in_memory_md_comes_back(desk: Desk) -> None:
    desk.write("MEMORY.md", "# Ours\n")
    desk.look()
    with (desk.root / "MEMORY.md").open("ab") as editor:
        desk.save("some text", "note")
        editor.write(b"a late line\n")

    desk.look()

    assert b"a late line\n" in desk.read("MEMORY.md")
    assert b"(note.md)" in desk.read("MEMORY.md")
    assert desk.found("late line") == [desk.id_at("MEMORY.md")]


def test_an_edit_that_a_killed_writer_had_swapped_out_comes_back_into_the_history(
    desk: Desk,
) -> None:
    saved = desk.save("version one", "note")
    ours = desk.read("note.md").replace(b"version one", b"version two")
    theirs = desk.read("note.md").replace(b"version one", b"a person's version")
    # Killed right after the swap: their file lies aside, ours has its place.
    desk.write(f".tiermem-{'0' * 16}-note.md", theirs)
    desk.write("note.md", ours)
    desk.host.leave(desk.key)

    desk.look()

    assert desk.files() == ["note.md"]
    assert set(desk.history(saved.record.id)) == {
        "version one",
        "a person's version",
        "version two",
    }


def test_what_a_killed_writer_had_not_placed_yet_is_cleared_away(desk: Desk) -> None:
    saved = desk.save("version one", "note")
    desk.write(f".tiermem-{'0' * 16}-note.md", desk.read("note.md"))
    desk.write(f".tiermem-{'1' * 16}-new.md", "a new one that is still queued\n")
    desk.host.leave(desk.key)

    desk.look()

    assert desk.files() == ["note.md"]
    assert desk.history(saved.record.id) == ["version one"]


# Loading.


def test_loading_changes_no_byte_and_no_time_of_any_file(desk: Desk, tmp_path: Path) -> None:
    odd = {
        "crlf.md": b"---\r\nname: crlf\r\n---\r\nbody\r\n",
        "bom.md": b"\xef\xbb\xbf---\nname: bom\n---\nbody\n",
        "plain.md": b"no header, no newline",
        "unclosed.md": b"---\nname: unclosed\nbody\n",
        "invalid.md": b"---\nname: [x\n---\nbody\n",
        "toml.md": b'+++\nname = "toml"\n+++\nbody\n',
        "twice.md": b"---\nname: a\nname: b\n---\nbody\n",
        "fence.md": b"```\n---\nname: x\n---\n```\n",
        "empty.md": b"",
        "large.md": b"word " * 20_000,
        "latin.md": b"na\xefve\n",
        "nul.md": b"a\0b\n",
        "secret.md": f"token {SECRET}\n".encode(),
        "MEMORY.md": b"# Ours\r\n- [x](plain.md)",
    }
    for path, content in odd.items():
        full = desk.write(path, content)
        os.utime(full, (1_700_000_000, 1_700_000_000))
    before = {path: (desk.root / path).stat() for path in odd}

    loaded = desk.load()

    assert {path: desk.read(path) for path in odd} == odd
    after = {path: (desk.root / path).stat() for path in odd}
    assert {p: (s.st_mtime_ns, s.st_ino) for p, s in after.items()} == {
        p: (s.st_mtime_ns, s.st_ino) for p, s in before.items()
    }
    assert set(loaded.problems) == {"latin.md", "secret.md"}
    assert {file.path for file in loaded.memory_files} == set(odd) - {"MEMORY.md", "empty.md"}
