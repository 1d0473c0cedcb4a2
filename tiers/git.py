"""Read a few facts about a git repository from its files; no program is run."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

_MOST_LINES = 5_000
_LOG_TAIL_BYTES = 65_536

#: A lock that is older than this was left by a git that was killed.
_STALE_LOCK_S = 60.0

#: How the log of HEAD begins lines about a commit, which leaves every file as it is.
_COMMITS = ("commit: ", "commit (amend): ", "commit (initial): ")


@dataclass(frozen=True, slots=True)
class Repository:
    """A work tree, its own git folder, and the one that all its work trees share."""

    root: Path
    folder: Path
    common: Path


def find_repository(folder: Path) -> Repository | None:
    """Find the repository that `folder` lies in."""
    for candidate in (folder, *folder.parents):
        git = candidate / ".git"
        if git.exists():
            own = _git_folder(git)
            shared = _first_line(own / "commondir")
            return Repository(candidate, own, (own / shared).resolve() if shared else own)
    return None


def head(repository: Repository) -> str:
    """Say what is checked out: branch and commit, or just the commit; empty when unknown."""
    line = _first_line(repository.folder / "HEAD")
    if not line.startswith("ref:"):
        return line
    name = line.removeprefix("ref:").strip()
    return f"{name} {_commit(repository, name)}".strip()


def same_files(repository: Repository, before: str, after: str) -> bool:
    """Say whether nothing but commits led from one head to another: those change no file.

    False when the log of HEAD does not tell.
    """
    old, new = _commit_in(before), _commit_in(after)
    if before == after or (old and old == new):
        return True
    for line in reversed(_tail(repository.folder / "logs" / "HEAD")):
        ids, _, message = line.partition("\t")
        came_from, _, led_to = " ".join(ids.split()[:2]).partition(" ")
        if led_to != new or not message.startswith(_COMMITS):
            return False
        if came_from == old or not (old or came_from.strip("0")):
            return True
        new = came_from
    return False


def switched_at(repository: Repository) -> float:
    """Say when HEAD last changed, as the times of files count; 0 when unknown."""
    return max(
        _changed_at(repository.folder / "HEAD"), _changed_at(repository.folder / "logs" / "HEAD")
    )


def is_busy(repository: Repository, *, now: float, quiet_s: float) -> bool:
    """Say whether git is changing files now, or has just done so and HEAD may follow."""
    if now - _changed_at(repository.folder / "index.lock") < _STALE_LOCK_S:
        return True
    return 0 <= now - _changed_at(repository.folder / "index") < quiet_s


def remote(repository: Repository) -> str:
    """Read the address of `origin`, without user names and passwords."""
    section = ""
    for line in _lines(repository.common / "config"):
        text = line.strip()
        if text.startswith("["):
            section = text
        elif section == '[remote "origin"]' and text.partition("=")[0].strip() == "url":
            return text.partition("=")[2].strip().rpartition("@")[2]
    return ""


def _commit(repository: Repository, name: str) -> str:
    for folder in (repository.folder, repository.common):
        if found := _first_line(folder / name):
            return found
    for line in _lines(repository.common / "packed-refs"):
        commit, _, packed = line.partition(" ")
        if packed.strip() == name:
            return commit
    return ""


def _commit_in(head: str) -> str:
    """Take the commit out of what `head` says; empty for a branch without one."""
    word = head.rpartition(" ")[2]
    return "" if word.startswith("refs/") else word


def _changed_at(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _tail(path: Path) -> list[str]:
    """Read the last lines of a file; the first of them may be cut."""
    try:
        with path.open("rb") as handle:
            handle.seek(0, os.SEEK_END)
            handle.seek(max(handle.tell() - _LOG_TAIL_BYTES, 0))
            return handle.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return []


def _git_folder(git: Path) -> Path:
    if git.is_file():
        line = _first_line(git)
        if line.startswith("gitdir:"):
            return (git.parent / line.removeprefix("gitdir:").strip()).resolve()
    return git.resolve()


def _first_line(path: Path) -> str:
    return next(iter(_lines(path)), "").strip()


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()[:_MOST_LINES]
    except OSError:
        return []
