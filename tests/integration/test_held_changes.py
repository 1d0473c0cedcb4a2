"""Changes of hot files that nobody seems to have meant wait for a person's word."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from memory.engine.host import Host
from tests.support.people import Desk, git, seconds_ago
from tiers.records import Tier


@pytest.fixture
def desk(host: Host, tmp_path: Path) -> Desk:
    (tmp_path / "project").mkdir()
    return Desk(host, tmp_path / "project")


@pytest.fixture
def tracked(host: Host, tmp_path: Path) -> Desk:
    """A project in a git repository that tracks its hot files in .memory/, seven of them."""
    return in_repository(host, tmp_path / "project")


def in_repository(host: Host, project: Path) -> Desk:
    project.mkdir()
    git(project, "init", "-q", "-b", "main")
    desk = Desk(host, project)
    (project / ".memory").mkdir()
    host.app.projects.set_hot_root(desk.key, project / ".memory", tracked=True)
    host.leave(desk.key)
    for number in range(7):
        desk.save(f"text number {number}", f"note {number}")
    commit(desk, "memories")
    desk.look()
    return desk


def commit(desk: Desk, message: str) -> None:
    git(desk.project, "add", "-A")
    git(desk.project, "commit", "-q", "-m", message)


def make_branch(desk: Desk, name: str = "side") -> None:
    """Make a branch that edits one memory, adds one and lacks one, and go back to main."""
    git(desk.project, "checkout", "-q", "-b", name)
    desk.edit("note-0.md", "text number 0", "the branch's text")
    desk.write("only-there.md", "a memory of the branch alone\n")
    (desk.root / "note-1.md").unlink()
    commit(desk, "other memories")
    git(desk.project, "checkout", "-q", "main")
    desk.look()


def state(desk: Desk) -> dict[str, tuple[int, Tier]]:
    return {entry.name: (entry.revision, entry.tier) for entry in desk.entries()}


def seven(desk: Desk) -> list[str]:
    return [desk.save(f"text number {n}", f"note {n}").record.id for n in range(7)]


# Losses.


def test_the_loss_of_many_files_is_held_and_shown(desk: Desk) -> None:
    seven(desk)
    before = state(desk)
    for number in range(3):
        (desk.root / f"note-{number}.md").unlink()

    report = desk.look()
    desk.wait_for_deletions()
    again = desk.look()

    status = desk.status()
    assert report.held == again.held == status.held == "3 of 7 files are gone"
    assert sorted(status.held_paths) == ["note-0.md", "note-1.md", "note-2.md"]
    assert (status.tiers["hot"].state, status.tiers["hot"].detail) == (
        "degraded",
        "changes of files are held",
    )
    assert (report.demoted, again.demoted) == ([], [])
    assert state(desk) == before


def test_the_loss_of_two_files_is_an_ordinary_deletion(desk: Desk) -> None:
    ids = seven(desk)
    for number in range(2):
        (desk.root / f"note-{number}.md").unlink()
    desk.look()
    desk.wait_for_deletions()

    assert sorted(desk.look().demoted) == sorted(ids[:2])


def test_a_held_loss_is_applied_at_once_on_a_persons_word(desk: Desk) -> None:
    ids = seven(desk)
    for number in range(3):
        (desk.root / f"note-{number}.md").unlink()
    desk.look()

    answer = desk.decide("apply")

    assert (answer.demoted, answer.taken_in) == (3, 0)
    assert [desk.entry(record_id).tier for record_id in ids] == [Tier.DEEP] * 3 + [Tier.HOT] * 4
    assert desk.status().held is None
    assert desk.look().held is None
    assert desk.drain()
    assert set(desk.found("text number")) == set(ids)


def test_a_held_loss_is_put_back_on_a_persons_word(desk: Desk) -> None:
    seven(desk)
    before = {path: desk.read(path) for path in desk.files()}
    for number in range(3):
        (desk.root / f"note-{number}.md").unlink()
    desk.look()

    answer = desk.decide("restore")

    assert answer.restored == 3
    assert {path: desk.read(path) for path in desk.files()} == before
    assert desk.status().held is None
    report = desk.look()
    assert (report.held, report.taken_in, report.unsettled) == (None, [], False)


def test_a_held_loss_is_over_when_the_files_are_back(desk: Desk) -> None:
    seven(desk)
    before = {path: desk.read(path) for path in desk.files()}
    for number in range(3):
        (desk.root / f"note-{number}.md").unlink()
    assert desk.look().held
    for path, content in before.items():
        desk.write(path, content)

    report = desk.look()

    assert (report.held, desk.status().held) == (None, None)
    assert not report.unsettled


@pytest.mark.parametrize("count", [1, 7])
def test_the_loss_of_the_whole_folder_is_held(desk: Desk, count: int) -> None:
    for number in range(count):
        desk.save(f"text number {number}", f"note {number}")
    before = state(desk)
    shutil.rmtree(desk.root)

    report = desk.look()
    desk.wait_for_deletions()

    assert report.held == desk.look().held == "the folder is gone"
    assert state(desk) == before
    assert desk.decide("restore").restored == count
    assert len(desk.files()) == count
    assert desk.status().held is None


def test_a_save_does_not_make_a_new_folder_where_one_is_lost(desk: Desk) -> None:
    desk.save("text one", "one")
    away = desk.root.with_name("away")
    desk.root.rename(away)

    saved = desk.save("text two", "two")
    desk.drain()

    assert "hot" in saved.pending
    assert not desk.root.exists()
    assert "held restore" in desk.status().tiers["hot"].detail or desk.look().held
    away.rename(desk.root)
    assert desk.drain()
    assert desk.look().held is None
    assert desk.files() == ["one.md", "two.md"]


def test_the_loss_of_the_folder_is_applied_on_a_persons_word(desk: Desk) -> None:
    ids = seven(desk)
    shutil.rmtree(desk.root)
    desk.look()

    assert desk.decide("apply").demoted == 7

    assert {desk.entry(record_id).tier for record_id in ids} == {Tier.DEEP}
    saved = desk.save("a new beginning", "new")
    assert saved.pending == ("archive", "deep")
    assert desk.files() == ["new.md"]


def test_edits_wait_while_a_loss_is_held_and_are_not_overwritten(desk: Desk) -> None:
    ids = seven(desk)
    for number in range(3):
        (desk.root / f"note-{number}.md").unlink()
    desk.edit("note-6.md", "text number 6", "a person's version")
    desk.look()

    desk.save("an agent's version", record_id=ids[6])
    desk.drain()

    assert b"a person's version" in desk.read("note-6.md")
    desk.decide("apply")
    assert desk.drain()
    assert desk.history(ids[6]) == ["text number 6", "an agent's version", "a person's version"]
    assert b"a person's version" in desk.read("note-6.md")


def test_a_save_does_not_write_a_file_that_is_held_as_lost(desk: Desk) -> None:
    ids = seven(desk)
    for number in range(3):
        (desk.root / f"note-{number}.md").unlink()
    desk.look()

    saved = desk.save("an agent's version", record_id=ids[0])

    assert "hot" in saved.pending
    assert "note-0.md" not in desk.files()
    desk.decide("restore")
    assert desk.drain()
    assert b"an agent's version" in desk.read("note-0.md")


# Other branches.


def test_a_checkout_of_another_branch_demotes_and_takes_in_nothing(tracked: Desk) -> None:
    make_branch(tracked)
    before = state(tracked)

    git(tracked.project, "checkout", "-q", "side")
    report = tracked.look()
    tracked.wait_for_deletions()
    again = tracked.look()

    assert report.held is not None
    assert report.held.startswith("something else was checked out (main ")
    assert " → side " in report.held
    assert again.held == tracked.status().held == report.held
    assert sorted(tracked.status().held_paths) == ["note-0.md", "note-1.md", "only-there.md"]
    assert state(tracked) == before


def test_switching_back_releases_by_itself(tracked: Desk) -> None:
    make_branch(tracked)
    before = state(tracked)
    git(tracked.project, "checkout", "-q", "side")
    assert tracked.look().held
    git(tracked.project, "checkout", "-q", "main")

    report = tracked.look()
    tracked.wait_for_deletions()

    assert (report.held, report.taken_in, report.demoted) == (None, [], [])
    assert tracked.status().held is None
    assert tracked.look().demoted == []
    assert state(tracked) == before


def test_what_was_checked_out_is_taken_in_on_a_persons_word(tracked: Desk) -> None:
    make_branch(tracked)
    git(tracked.project, "checkout", "-q", "side")
    tracked.look()

    answer = tracked.decide("apply")

    assert (answer.taken_in, answer.demoted) == (2, 1)
    assert state(tracked)["note 0"] == (2, Tier.HOT)
    assert state(tracked)["note 1"] == (1, Tier.DEEP)
    assert state(tracked)["only-there"] == (1, Tier.HOT)
    assert tracked.status().held is None


def test_memories_are_put_back_over_what_was_checked_out_on_a_persons_word(tracked: Desk) -> None:
    make_branch(tracked)
    git(tracked.project, "checkout", "-q", "side")
    tracked.look()

    assert tracked.decide("restore").restored == 2

    assert b"text number 0" in tracked.read("note-0.md")
    assert b"text number 1" in tracked.read("note-1.md")
    kept = tracked.folder.hot.snapshots.of("note-0.md")
    assert b"the branch's text" in kept[-1].read_bytes()


def test_a_checkout_whose_files_have_not_settled_is_not_believed_meanwhile(
    make_host: Callable[..., Host], tmp_path: Path
) -> None:
    desk = in_repository(make_host(hot__settle_s=60.0), tmp_path / "project")
    git(desk.project, "checkout", "-q", "-b", "side")
    desk.edit("note-0.md", "text number 0", "the branch's text")
    commit(desk, "another text")
    git(desk.project, "checkout", "-q", "main")
    for path in (*desk.root.iterdir(), desk.project / ".git" / "index"):
        os.utime(path, (seconds_ago(99), seconds_ago(99)))
    desk.look()
    before = state(desk)

    git(desk.project, "checkout", "-q", "side")
    assert desk.look().unsettled
    for path in (desk.root / "note-0.md", desk.project / ".git" / "index"):
        os.utime(path, (seconds_ago(61), seconds_ago(61)))
    report = desk.look()

    assert report.held is not None
    assert state(desk) == before


def test_while_git_is_at_work_nothing_is_believed(tracked: Desk) -> None:
    before = state(tracked)
    lock = tracked.project / ".git" / "index.lock"
    lock.touch()
    tracked.edit("note-0.md", "text number 0", "half of a checkout")

    report = tracked.look()

    assert (report.unsettled, report.held, report.taken_in) == (True, None, [])
    assert state(tracked) == before
    lock.unlink()
    assert len(tracked.look().taken_in) == 1


def test_a_plain_commit_holds_nothing(tracked: Desk) -> None:
    tracked.edit("note-0.md", "text number 0", "a person's version")
    tracked.look()
    commit(tracked, "edited")

    report = tracked.look()

    assert (report.held, report.taken_in) == (None, [])


def test_an_edit_and_its_commit_in_one_go_hold_nothing(tracked: Desk) -> None:
    tracked.edit("note-0.md", "text number 0", "a person's version")
    commit(tracked, "edited")
    git(tracked.project, "commit", "-q", "--amend", "-m", "edited, in better words")

    report = tracked.look()

    assert (report.held, report.taken_in) == (None, [tracked.id_at("note-0.md")])


def test_an_edit_after_a_checkout_that_touched_no_memory_is_not_held(tracked: Desk) -> None:
    git(tracked.project, "checkout", "-q", "-b", "side")
    (tracked.project / "code.py").write_text("x = 1\n", encoding="utf-8")
    commit(tracked, "code")
    git(tracked.project, "checkout", "-q", "main")
    tracked.look()
    git(tracked.project, "checkout", "-q", "side")
    full = tracked.root / "note-0.md"
    tracked.edit("note-0.md", "text number 0", "a person's version")
    os.utime(full, (seconds_ago(-1), seconds_ago(-1)))

    report = tracked.look()

    assert (report.held, report.taken_in) == (None, [tracked.id_at("note-0.md")])


def test_a_merge_that_brings_other_memories_is_held(tracked: Desk) -> None:
    make_branch(tracked)
    before = state(tracked)

    git(tracked.project, "merge", "-q", "--no-edit", "side")

    report = tracked.look()
    assert report.held is not None
    assert state(tracked) == before


def test_a_worktree_of_another_branch_holds_nothing(tracked: Desk, tmp_path: Path) -> None:
    make_branch(tracked)
    before = state(tracked)

    git(tracked.project, "worktree", "add", "-q", str(tmp_path / "elsewhere"), "side")

    assert tracked.look().held is None
    assert state(tracked) == before
