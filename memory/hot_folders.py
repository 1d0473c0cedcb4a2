"""The hot roots of the projects that this engine serves, one value and one lock for each."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from memory.projects import Project
from tiers import git
from tiers.catalogue import Placement
from tiers.hot import HotFile, HotTier
from tiers.records import MemoryRecord, Visibility


@dataclass(slots=True)
class HotFolder:
    """One project's hot root. `lock` guards the files and their manifest within this process."""

    key: str
    hot: HotTier
    #: Who loads the files.
    owner: str
    #: Whether git tracks the files, so that everybody with the repository sees them.
    tracked: bool = False
    lock: threading.RLock = field(default_factory=threading.RLock)
    #: What the last look at a file complained of: path → reason.
    problems: dict[str, str] = field(default_factory=dict)
    #: What the index says of a memory: id → (revision, hook, weight).
    hooks: dict[str, tuple[int, str, int]] = field(default_factory=dict)

    #: Whether what killed writers left has been looked at.
    recovered: bool = False

    def may_hold(self, record: MemoryRecord) -> bool:
        """Say whether a file here may hold a memory: others would read a private one in it."""
        is_mine_alone = record.owner == self.owner and not self.tracked
        return record.visibility is not Visibility.PRIVATE or is_mine_alone

    def repository(self) -> git.Repository | None:
        """The repository that the hot root lies in."""
        return git.find_repository(self.hot.root)

    def head(self) -> str:
        """What is checked out where the hot root lies; empty outside of a repository."""
        repository = self.repository()
        return git.head(repository) if repository else ""

    def placement(self, file: HotFile, record_id: str, *, masked: bool = False) -> Placement:
        """Describe what a file of this folder holds, for the manifest."""
        return Placement(
            project=self.key,
            path=file.path,
            id=record_id,
            file_hash=file.hash,
            size=file.seen.size,
            mtime_ns=file.seen.mtime_ns,
            inode=file.seen.inode,
            masked=masked,
        )


class HotFolders:
    """Hot folders by project key, made when first asked for. Any thread may use it.

    `owner` is whose home it is: the one who loads the files.
    """

    def __init__(self, home: Path, find: Callable[[str], Project | None], *, owner: str) -> None:
        self._home = home
        self._find = find
        self._owner = owner
        self._folders: dict[str, HotFolder] = {}
        self._lock = threading.Lock()  # guards _folders

    def get(self, key: str) -> HotFolder:
        """Give a project's folder; a project that is not registered lives at the default place."""
        with self._lock:
            folder = self._folders.get(key)
            if folder is None:
                folder = self._folders[key] = self._make(key)
            return folder

    def all(self) -> list[HotFolder]:
        with self._lock:
            return list(self._folders.values())

    def drop(self, key: str) -> None:
        """Look at a project's settings again when it is next asked for."""
        with self._lock:
            self._folders.pop(key, None)

    def _make(self, key: str) -> HotFolder:
        project = self._find(key) or Project(key=key, name=key, anchor="")
        return HotFolder(
            key,
            HotTier(project.hot_folder(self._home), project.state_folder(self._home)),
            self._owner,
            tracked=project.tracked,
        )
