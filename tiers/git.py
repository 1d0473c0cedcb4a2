"""Read a few facts about a git repository from its files; no program is run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

_MOST_LINES = 5_000


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
