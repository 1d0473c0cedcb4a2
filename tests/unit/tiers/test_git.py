from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.support.people import git as run
from tiers import git


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    root = tmp_path / "repo"
    root.mkdir()
    run(root, "init", "-q", "-b", "main")
    return root


def commit(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text, encoding="utf-8")
    run(folder, "add", name)
    run(folder, "commit", "-q", "-m", f"add {name}")
    return run(folder, "rev-parse", "HEAD")


def found(folder: Path) -> git.Repository:
    repository = git.find_repository(folder)
    assert repository is not None
    return repository


def test_a_repository_is_found_from_a_folder_below(repo: Path) -> None:
    below = repo / "a" / "b"
    below.mkdir(parents=True)
    assert found(below).root == repo
    assert found(below).common == repo / ".git"


def test_a_folder_outside_of_git_has_no_repository(tmp_path: Path) -> None:
    assert git.find_repository(tmp_path) is None


def test_head_is_branch_and_commit(repo: Path) -> None:
    assert git.head(found(repo)) == "refs/heads/main"
    sha = commit(repo, "a", "1")
    assert git.head(found(repo)) == f"refs/heads/main {sha}"
    run(repo, "checkout", "-q", "--detach")
    assert git.head(found(repo)) == sha


def test_head_is_read_from_packed_references(repo: Path) -> None:
    sha = commit(repo, "a", "1")
    run(repo, "pack-refs", "--all")
    assert not (repo / ".git" / "refs" / "heads" / "main").exists()
    assert git.head(found(repo)) == f"refs/heads/main {sha}"


def test_worktrees_share_one_common_folder_and_have_their_own_head(
    repo: Path, tmp_path: Path
) -> None:
    sha = commit(repo, "a", "1")
    run(repo, "worktree", "add", "-q", "-b", "side", str(tmp_path / "side"))
    side = found(tmp_path / "side")
    assert side.common == (repo / ".git").resolve()
    assert git.head(side) == f"refs/heads/side {sha}"


def test_the_remote_is_read_without_credentials(repo: Path) -> None:
    run(repo, "remote", "add", "origin", "https://user:secret@example.com/x.git")
    assert git.remote(found(repo)) == "example.com/x.git"


def test_commits_change_no_file(repo: Path) -> None:
    unborn = git.head(found(repo))
    commit(repo, "a", "1")
    first = git.head(found(repo))
    assert git.same_files(found(repo), unborn, first)
    commit(repo, "a", "2")
    run(repo, "commit", "-q", "--amend", "-m", "better words")
    third = git.head(found(repo))
    assert git.same_files(found(repo), unborn, third)
    assert git.same_files(found(repo), first, third)
    assert git.same_files(found(repo), third, third)


def test_a_commit_is_known_whatever_zeros_its_name_begins_and_ends_with(repo: Path) -> None:
    commit(repo, "a", "1")
    first, second = "0" * 2 + "1" * 36 + "0" * 2, "2" * 40
    log = repo / ".git" / "logs" / "HEAD"
    log.write_text(f"{first} {second} t <t@localhost> 1 +0000\tcommit: more\n", encoding="utf-8")
    assert git.same_files(found(repo), f"refs/heads/main {first}", f"refs/heads/main {second}")
    assert not git.same_files(found(repo), "refs/heads/main", f"refs/heads/main {second}")


def test_a_new_branch_at_the_same_commit_changes_no_file(repo: Path) -> None:
    commit(repo, "a", "1")
    before = git.head(found(repo))
    run(repo, "checkout", "-q", "-b", "side")
    assert git.head(found(repo)) != before
    assert git.same_files(found(repo), before, git.head(found(repo)))


@pytest.mark.parametrize(
    "arguments",
    [
        ("checkout", "-q", "side"),
        ("merge", "-q", "side"),
        ("reset", "-q", "--hard", "side"),
        ("cherry-pick", "side"),
        ("rebase", "-q", "side"),
    ],
)
def test_whatever_brings_other_files_is_told_from_a_commit(
    repo: Path, arguments: tuple[str, ...]
) -> None:
    commit(repo, "a", "1")
    run(repo, "checkout", "-q", "-b", "side")
    commit(repo, "b", "2")
    run(repo, "checkout", "-q", "main")
    before = git.head(found(repo))
    run(repo, *arguments)
    assert git.head(found(repo)) != before
    assert not git.same_files(found(repo), before, git.head(found(repo)))


def test_a_checkout_followed_by_a_commit_is_no_commit(repo: Path) -> None:
    commit(repo, "a", "1")
    run(repo, "checkout", "-q", "-b", "side")
    commit(repo, "b", "2")
    run(repo, "checkout", "-q", "main")
    before = git.head(found(repo))
    run(repo, "checkout", "-q", "side")
    commit(repo, "c", "3")
    assert not git.same_files(found(repo), before, git.head(found(repo)))


def test_without_a_log_nothing_is_taken_for_a_commit(repo: Path) -> None:
    commit(repo, "a", "1")
    before = git.head(found(repo))
    commit(repo, "a", "2")
    (repo / ".git" / "logs" / "HEAD").unlink()
    assert not git.same_files(found(repo), before, git.head(found(repo)))


def test_a_switch_is_dated_after_the_files_it_wrote(repo: Path) -> None:
    commit(repo, "a", "1")
    run(repo, "checkout", "-q", "-b", "side")
    commit(repo, "a", "2")
    run(repo, "checkout", "-q", "main")
    assert git.switched_at(found(repo)) >= (repo / "a").stat().st_mtime


def test_git_is_busy_while_it_holds_its_lock(repo: Path) -> None:
    commit(repo, "a", "1")
    index, lock = repo / ".git" / "index", repo / ".git" / "index.lock"
    now = index.stat().st_mtime + 100.0
    assert not git.is_busy(found(repo), now=now, quiet_s=0.15)
    assert git.is_busy(found(repo), now=now - 99.9, quiet_s=0.15)
    assert not git.is_busy(found(repo), now=now - 99.9, quiet_s=0.0)
    lock.touch()
    assert git.is_busy(found(repo), now=time.time(), quiet_s=0.0)


def test_a_lock_that_a_killed_git_left_does_not_count_for_ever(repo: Path) -> None:
    (repo / ".git" / "index.lock").touch()
    assert not git.is_busy(found(repo), now=time.time() + 120.0, quiet_s=0.0)
