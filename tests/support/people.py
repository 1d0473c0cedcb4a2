"""A project of an open home, and the people who edit its files."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from memory import wire
from memory.app import now_utc
from memory.drafts import Draft
from memory.engine import answers, health
from memory.engine.access import local_view
from memory.engine.host import Host
from memory.hand_edits import Report
from memory.hot_folders import HotFolder
from memory.search import Query
from memory.service import Receipt, Save
from tiers.catalogue import Entry, Placement
from tiers.records import MemoryRecord, Tier


@dataclass(frozen=True)
class Desk:
    """One project: what an agent saves, what a person does to files, what becomes of it."""

    host: Host
    project: Path

    @property
    def key(self) -> str:
        return self.host.enter(str(self.project)).key

    @property
    def folder(self) -> HotFolder:
        return self.host.app.folders.get(self.key)

    @property
    def root(self) -> Path:
        return self.folder.hot.root

    # The agent.

    def save(
        self,
        text: str,
        name: str | None = None,
        *,
        record_id: str | None = None,
        tier: Tier | None = None,
        **draft: Any,
    ) -> Receipt:
        saved = Save(draft=Draft(text=text, name=name, **draft), record_id=record_id, tier=tier)
        return self.host.app.service.save(self.key, saved)

    def forget(self, record_id: str) -> None:
        self.host.app.service.forget(self.key, [self.entry(record_id)])

    # People.

    def write(self, path: str, content: str | bytes) -> Path:
        full = self.root / path
        full.parent.mkdir(parents=True, exist_ok=True)
        full.write_bytes(content.encode() if isinstance(content, str) else content)
        return full

    def edit(self, path: str, old: str, new: str) -> None:
        content = self.read(path).decode()
        assert old in content, f"{old!r} is not in {path}"
        self.write(path, content.replace(old, new))

    def read(self, path: str) -> bytes:
        return (self.root / path).read_bytes()

    def files(self) -> list[str]:
        """Name every file of the hot root, ours and hidden ones included, but for the index."""
        found = (path for path in self.root.rglob("*") if path.is_file() or path.is_symlink())
        return sorted(
            path.relative_to(self.root).as_posix() for path in found if path.name != "MEMORY.md"
        )

    # What becomes of it.

    def look(self) -> Report:
        return self.host.app.hot_sink.look(self.folder)

    def wait_for_deletions(self) -> None:
        """Let so much time pass, as the manifest counts, that what is gone is gone for good."""
        for placement in self.placements().values():
            if placement.missing_since is not None:
                earlier = placement.missing_since - timedelta(seconds=31)
                self.host.app.catalogue.place(replace(placement, missing_since=earlier))

    def drain(self) -> bool:
        return self.host.app.drain()

    def entry(self, record_id: str) -> Entry:
        entry = self.host.app.catalogue.get(record_id)
        assert entry is not None
        return entry

    def entries(self) -> list[Entry]:
        return self.host.app.service.entries(self.key)

    def placements(self) -> dict[str, Placement]:
        return self.host.app.catalogue.placements(self.key)

    def id_at(self, path: str) -> str:
        return self.placements()[path].id

    def record(self, record_id: str) -> MemoryRecord:
        record = self.host.app.current(record_id)
        assert record is not None
        return record

    def history(self, record_id: str) -> list[str]:
        """Read the bodies of every revision, oldest first."""
        assert self.drain()
        return [record.body for record in self.host.app.service.history(self.key, record_id)]

    def found(self, text: str) -> list[str]:
        """Search, and give the ids that were found."""
        answer = self.host.app.search.search(Query(text=text, project=self.key))
        return [hit.ranked.record_id for hit in answer.hits]

    def status(self) -> wire.StatusAnswer:
        return health.status(local_view(self.host), wire.ProjectRequest(project=str(self.project)))

    def decide(self, action: str) -> wire.HeldAnswer:
        request = wire.HeldRequest.model_validate({"project": str(self.project), "action": action})
        return answers.held(local_view(self.host), request)

    def load(self) -> wire.LoadAnswer:
        return answers.load(local_view(self.host), wire.LoadRequest(project=str(self.project)))


def git(folder: Path, *arguments: str) -> str:
    """Run git in a folder, whatever settings the user has."""
    identity = ("-c", "user.name=t", "-c", "user.email=t@localhost", "-c", "commit.gpgsign=false")
    done = subprocess.run(
        ["git", *identity, *arguments],
        cwd=folder,
        check=True,
        capture_output=True,
        encoding="utf-8",
        env={**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"},
    )
    return done.stdout.strip()


def seconds_ago(seconds: float) -> float:
    """Give a time of change for a file that was written a while ago."""
    return now_utc().timestamp() - seconds
