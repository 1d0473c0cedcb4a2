"""Reading what a home knows, as one owner may see it: find, get, list, history, export."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Self

from memory.drafts import Drafter
from memory.errors import Ambiguous, NotFound
from memory.hot_folders import HotFolders
from tiers.archive import Archive
from tiers.catalogue import Catalogue, Entry
from tiers.errors import StoreUnavailable, TierError
from tiers.hot import INDEX
from tiers.outbox import Outbox, SinkName
from tiers.records import MemoryRecord, Tier, Usage
from tiers.usage import UsageLog

log = logging.getLogger(__name__)

_SHORTEST_PREFIX = 4


@dataclass(frozen=True, slots=True)
class Known:
    """A memory as this home knows it."""

    record: MemoryRecord
    tier: Tier
    path: str | None
    pending: tuple[SinkName, ...] = ()
    superseded_by: tuple[str, ...] = ()


class MemoryReader:
    """The verbs that change no memory. Any thread may use it.

    Nothing here tells whether a memory that the owner may not see exists.
    """

    def __init__(
        self,
        *,
        catalogue: Catalogue,
        outbox: Outbox,
        archive: Archive,
        usage: UsageLog,
        folders: HotFolders,
        drafter: Drafter,
        clock: Callable[[], datetime],
    ) -> None:
        self._catalogue = catalogue
        self._outbox = outbox
        self._archive = archive
        self._usage = usage
        self._folders = folders
        self._drafter = drafter
        self._clock = clock

    def seen_by(self, owner: str) -> Self:
        """Give this home as somebody else may see and change it; costs next to nothing."""
        view = copy.copy(self)
        view._drafter = self._drafter.for_owner(owner)
        return view

    @property
    def owner(self) -> str:
        """Whose private memories are seen, and who new ones belong to."""
        return self._drafter.owner

    # One memory.

    def current(self, record_id: str) -> MemoryRecord | None:
        """Read the newest revision that this home accepted or the archive has, whoever's it is."""
        queued = self._outbox.newest(record_id)
        entry = self._catalogue.get(record_id)
        if queued is not None and entry is not None and queued.revision >= entry.revision:
            return queued
        archived = self._archive.current(record_id)
        if queued is None or (archived is not None and archived.revision >= queued.revision):
            return archived
        return queued

    def get(self, project: str, ref: str) -> Known:
        """Read one memory by id, start of id, or name. Raises NotFound or Ambiguous."""
        entry = self.find(project, ref)
        return self._known(entry, self._read(entry, ref))

    def _read(self, entry: Entry, ref: str) -> MemoryRecord:
        record = self.current(entry.id)
        if record is None or record.deleted or not record.is_seen_by(self.owner):
            raise NotFound(f"no memory goes by {ref!r} here")
        return record

    def _known(self, entry: Entry, record: MemoryRecord) -> Known:
        replaced = self._catalogue.superseded_by([entry.id], owner=self.owner)
        return Known(
            record=record,
            tier=entry.tier,
            path=self.path_of(entry.id),
            pending=tuple(self._outbox.pending(entry.id)),
            superseded_by=tuple(replaced.get(entry.id, ())),
        )

    def find(self, project: str, ref: str) -> Entry:
        """Find a memory of a project by id, start of id, or name. Raises NotFound or Ambiguous."""
        text = ref.strip()
        entry = self._catalogue.get(text.lower())
        if entry is not None and self._is_live(project, entry):
            return entry
        matches = self._going_by(project, text)
        if not matches and len(text) >= _SHORTEST_PREFIX:
            matches = self._catalogue.starting_with(project, text.lower(), owner=self.owner)
        if not matches:
            short = 0 < len(text) < _SHORTEST_PREFIX
            hint = NotFound.default_hint
            if short:
                hint = f"of an id give at least {_SHORTEST_PREFIX} characters, or {hint}"
            raise NotFound(f"no memory goes by {text!r} here", hint=hint)
        if len(matches) > 1:
            raise Ambiguous(f"{len(matches)} memories go by {text!r}: {some_ids(matches)}")
        return matches[0]

    def _is_live(self, project: str, entry: Entry) -> bool:
        is_here = entry.project == project and not entry.tombstone
        return is_here and entry.is_seen_by(self.owner)

    def _going_by(self, project: str, name: str) -> list[Entry]:
        """Find memories by exact name; expired ones only when there is nothing else."""
        named = [e for e in self._catalogue.named(project, name) if e.is_seen_by(self.owner)]
        now = self._clock()
        return [entry for entry in named if not entry.is_expired(now)] or named

    def is_elsewhere(self, project: str, record_id: str) -> bool:
        """Say whether an id is taken by what is not to be seen here.

        That is a memory of another project, or another owner's private one.
        """
        entry = self._catalogue.get(record_id)
        if entry is None:
            return False
        return entry.project != project or not entry.is_seen_by(self.owner)

    def history(self, project: str, ref: str) -> list[MemoryRecord]:
        """Read every revision of a memory, oldest first, those still queued included.

        Revisions from when it was private to somebody else are left out.
        """
        entry = self.find(project, ref)
        revisions = {record.revision: record for record in self._archive.history(entry.id)}
        for queued in self._outbox.queued(entry.id):
            revisions.setdefault(queued.revision, queued)
        ordered = (revisions[number] for number in sorted(revisions))
        return [record for record in ordered if record.is_seen_by(self.owner)]

    def not_forgotten(self, project: str, record_ids: Sequence[str]) -> list[Entry]:
        """Find memories by whole id, leaving out what was forgotten. Raises NotFound."""
        found: list[Entry] = []
        for record_id in record_ids:
            entry = self._catalogue.get(record_id)
            is_gone = entry is not None and entry.tombstone and entry.project == project
            if entry is None or not is_gone or not entry.is_seen_by(self.owner):
                found.append(self.find(project, record_id))
        return found

    def _last_known(self, entry: Entry) -> MemoryRecord:
        """Read a memory; while the archive is away, as little as the catalogue knows of it."""
        try:
            record = self.current(entry.id)
        except StoreUnavailable as exc:
            log.warning("%s is taken as the catalogue knows it: %s", entry.id, exc.message)
            record = None
        return record or MemoryRecord(
            id=entry.id,
            project=entry.project,
            name=entry.name,
            body="",
            revision=entry.revision,
            owner=entry.owner,
            visibility=entry.visibility,
            expires_at=entry.expires_at,
            created_at=entry.updated_at,
            updated_at=entry.updated_at,
        )

    # Many memories.

    def entries(self, project: str, *, tier: Tier | None = None) -> list[Entry]:
        """List a project's live memories, newest first."""
        now = self._clock()
        return [
            entry
            for entry in self._catalogue.entries(project, tier=tier)
            if entry.is_seen_by(self.owner) and not entry.is_expired(now)
        ]

    def export(self, project: str) -> Iterator[tuple[MemoryRecord, Tier]]:
        """Yield every current memory of a project and its tier, what is still queued included."""
        for entry in self._catalogue.entries(project):
            record = self.current(entry.id) if entry.is_seen_by(self.owner) else None
            if record is not None and not record.deleted and record.is_seen_by(self.owner):
                yield record, entry.tier

    def usage(self, record_ids: Iterable[str]) -> dict[str, Usage]:
        """Read of how much use memories were; those that nobody judged are left out.

        All are while that cannot be read: a memory is worth reading without it.
        """
        entries = self._catalogue.get_many(record_ids)
        try:
            return self._usage.of([key for key, e in entries.items() if e.is_seen_by(self.owner)])
        except TierError as exc:
            log.warning("the use of memories cannot be read: %s", exc.message)
            return {}

    # Hot files.

    def path_of(self, record_id: str) -> str | None:
        """Say where a memory's hot file lies, to the one whose files they are.

        Others are not told: a file's name may say that there is another of the kind.
        """
        placed = self._catalogue.placed(record_id)
        folder = self._folders.get(placed[0].project) if placed else None
        if folder is None or folder.owner != self.owner:
            return None
        return str(folder.hot.root / placed[0].path)

    def visible_files(self, project: str) -> frozenset[str]:
        """Name the topic files, relative to the hot root, that hold what the owner may see.

        A file that was not looked at yet is not among them: whose it is is not known. The index
        is not either, since its lines name all of them.
        """
        placements = self._catalogue.placements(project)
        entries = self._catalogue.get_many(placement.id for placement in placements.values())
        return frozenset(
            path
            for path, placement in placements.items()
            if (entry := entries.get(placement.id)) and path != INDEX
            if entry.is_seen_by(self.owner)
        )

    def held(self, project: str) -> str | None:
        """Say why changes of hot files wait for a person's word; None when none do."""
        held = self._catalogue.held(project)
        return held.reason if held else None


def some_ids(entries: Sequence[Entry]) -> str:
    """Name a few memories by as much of their ids as tells them apart."""
    shown = [entry.id[:13] for entry in entries[:5]]
    return ", ".join(shown if len(set(shown)) == len(shown) else [e.id for e in entries[:5]])
