"""The use cases, without any transport: save, read, list, forget. Searching is in `search.py`."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from memory.drafts import Draft, Drafter
from memory.errors import Ambiguous, Forgotten, NotFound, Refused, ServiceError, UsageError
from memory.hand_edits import index_id
from memory.hot_folders import HotFolder, HotFolders
from memory.hot_sink import HotSink
from memory.redaction import Found
from tiers.archive import Archive
from tiers.catalogue import Catalogue, Entry
from tiers.errors import StoreUnavailable, TierError
from tiers.hot import INDEX
from tiers.outbox import Change, Delivery, Outbox, SinkName
from tiers.records import MemoryRecord, Origin, Tier, Visibility

log = logging.getLogger(__name__)

_SHORTEST_PREFIX = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Save:
    """What to keep, and where. With `record_id` a memory of that id is revised or made."""

    draft: Draft
    record_id: str | None = None
    tier: Tier | None = None
    allow: frozenset[str] = field(default_factory=frozenset)


@dataclass(frozen=True, slots=True)
class Receipt:
    """Proof that a memory is durable. `pending` names the stores that get it later."""

    record: MemoryRecord
    tier: Tier
    path: str | None
    unchanged: bool = False
    pending: tuple[SinkName, ...] = ()
    masked: tuple[Found, ...] = ()


@dataclass(frozen=True, slots=True)
class Known:
    """A memory as this home knows it."""

    record: MemoryRecord
    tier: Tier
    path: str | None
    pending: tuple[SinkName, ...] = ()
    superseded_by: tuple[str, ...] = ()


class MemoryService:
    """The verbs of the product. Any thread may use it.

    `save` returns when the memory is durable in the outbox; no model and no server is on its path.
    """

    def __init__(
        self,
        *,
        catalogue: Catalogue,
        outbox: Outbox,
        archive: Archive,
        folders: HotFolders,
        hot_sink: HotSink,
        drafter: Drafter,
        clock: Callable[[], datetime],
        notify: Callable[[], None],
    ) -> None:
        self._catalogue = catalogue
        self._outbox = outbox
        self._archive = archive
        self._folders = folders
        self._hot_sink = hot_sink
        self._drafter = drafter
        self._clock = clock
        self._notify = notify

    # Saving.

    def save(self, project: str, save: Save) -> Receipt:
        """Keep one memory. Raises UsageError, NotFound or Refused for what cannot be kept."""
        receipts = self.save_many(project, [save])
        if isinstance(receipts[0], ServiceError):
            raise receipts[0]
        return receipts[0]

    def save_many(self, project: str, saves: Sequence[Save]) -> list[Receipt | ServiceError]:
        """Keep memories in one transaction; each that cannot be kept gives its error instead."""
        folder = self._folders.get(project)
        now = self._clock()
        changes: list[Change] = []
        results: list[Receipt | ServiceError] = []
        with folder.lock:
            self._take_in_edits(folder, saves)
            for save in saves:
                try:
                    results.append(self._plan(folder, save, changes, now))
                except ServiceError as exc:
                    results.append(exc)
            seqs = self._outbox.accept(changes, now=now) if changes else []
            self._write_hot(changes, seqs)
        if changes:
            self._notify()
        return [
            self._receipt(result) if isinstance(result, Receipt) else result for result in results
        ]

    def _plan(self, folder: HotFolder, save: Save, changes: list[Change], now: datetime) -> Receipt:
        planned = {change.record.id: change.record for change in changes}
        base = self._base(folder, save, planned)
        drafted = self._drafter.draft(
            save.draft,
            project=folder.key,
            now=now,
            base=base,
            record_id=save.record_id,
            allow=save.allow,
        )
        record = drafted.record
        if base is None and not save.record_id and not save.draft.name:
            base = self._same_text(folder.key, record, planned)
            if base is not None:
                return self._unchanged(base, drafted.masked)
        if base is not None and record.content_hash == base.content_hash:
            return self._unchanged(base, drafted.masked)
        tier = self._tier(folder, save.tier, base, record)
        if tier is Tier.COLD:
            raise UsageError("a memory is saved hot or deep", hint="demote it afterwards")
        self._refuse_masked_file(base)
        changes.append(Change(record, tier))
        return Receipt(record, tier, None, masked=drafted.masked)

    def _base(
        self, folder: HotFolder, save: Save, planned: dict[str, MemoryRecord]
    ) -> MemoryRecord | None:
        """Find the memory that a save revises: by id, else by its exact name."""
        record_id = save.record_id
        if record_id is None and save.draft.name:
            name = save.draft.name.strip()
            for record in planned.values():
                if record.name == name:
                    return record
            record_id = self._named(folder.key, name)
        if record_id is None:
            return None
        if record_id in planned:
            return planned[record_id]
        entry = self._catalogue.get(record_id)
        if entry is None:
            return None
        if entry.tombstone:
            raise Forgotten(f"memory {record_id} was forgotten")
        if entry.project != folder.key or not self._is_mine(entry):
            raise NotFound(f"no memory {record_id} is in this project")
        return self._last_known(entry)

    def _named(self, project: str, name: str) -> str | None:
        named = self._going_by(project, name)
        if len(named) > 1:
            ids = _some_ids(named)
            raise Ambiguous(f"{len(named)} memories go by {name!r}: {ids}", hint="say --id ID")
        return named[0].id if named else None

    def _take_in_edits(self, folder: HotFolder, saves: Sequence[Save]) -> None:
        """Make a person's edits revisions before anything is written over them."""
        if any(save.record_id or save.draft.name for save in saves) and folder.hot.exists():
            self._hot_sink.look(folder)

    def _same_text(
        self, project: str, record: MemoryRecord, planned: dict[str, MemoryRecord]
    ) -> MemoryRecord | None:
        for other in planned.values():
            if other.text_hash == record.text_hash:
                return other
        for entry in self._catalogue.with_text(project, record.text_hash):
            if entry.is_expired(record.updated_at) or entry.id == index_id(project):
                continue
            if self._is_mine(entry):
                return self._last_known(entry)
        return None

    def _unchanged(self, record: MemoryRecord, masked: tuple[Found, ...]) -> Receipt:
        entry = self._catalogue.get(record.id)
        tier = entry.tier if entry else Tier.DEEP
        return Receipt(record, tier, None, unchanged=True, masked=masked)

    def _tier(
        self,
        folder: HotFolder,
        wanted: Tier | None,
        base: MemoryRecord | None,
        record: MemoryRecord,
    ) -> Tier:
        """Choose where a revision belongs: a hot memory stays hot until it is demoted."""
        entry = self._catalogue.get(base.id) if base else None
        if entry is not None and entry.tier is Tier.HOT and wanted is not Tier.COLD:
            return Tier.HOT
        if folder.tracked and record.visibility is Visibility.PRIVATE:
            # Git would show the file to everybody who has the repository.
            return wanted if wanted is Tier.COLD else Tier.DEEP
        if wanted is not None:
            return wanted
        if entry is not None and entry.tier is not Tier.COLD:
            return entry.tier
        # What a tool or the web said never becomes always-loaded text by itself.
        trusted = record.origin in (Origin.HUMAN, Origin.USER, Origin.AGENT)
        return Tier.HOT if trusted else Tier.DEEP

    def _refuse_masked_file(self, base: MemoryRecord | None) -> None:
        if base is None:
            return
        if base.id == index_id(base.project):
            raise Refused(
                "this memory is what people wrote in MEMORY.md", hint="edit that file by hand"
            )
        for placement in self._catalogue.placed(base.id):
            if placement.masked:
                raise Refused(
                    f"{placement.path} holds a secret that is masked here; saving would lose it",
                    hint="edit that file by hand",
                )

    def _write_hot(self, changes: Sequence[Change], seqs: Sequence[int]) -> None:
        """Try to write hot files at once; the relay tries again what does not succeed."""
        mine = [
            Delivery(seq, change.record.id, change.record.project, change.record, 0)
            for seq, change in zip(seqs, changes, strict=True)
            if SinkName.HOT in change.concerned
        ]
        if not mine:
            return
        numbers = [delivery.seq for delivery in mine]
        try:
            self._hot_sink.apply(mine)
            self._outbox.ack(SinkName.HOT, numbers)
        except TierError as exc:
            self._note_hot_failure(numbers, exc)

    def _note_hot_failure(self, numbers: Sequence[int], exc: TierError) -> None:
        log.warning("hot files are written later: %s", exc.message)
        try:
            self._outbox.fail(SinkName.HOT, numbers, error=exc.message)
        except TierError as again:
            # The save is accepted all the same, and its delivery is still open.
            log.warning("that is not noted: %s", again.message)

    def _receipt(self, receipt: Receipt) -> Receipt:
        record = receipt.record
        return Receipt(
            record=record,
            tier=receipt.tier,
            path=self._path(record.id),
            unchanged=receipt.unchanged,
            pending=tuple(self._outbox.pending(record.id)),
            masked=receipt.masked,
        )

    # Reading.

    def current(self, record_id: str) -> MemoryRecord | None:
        """Read the newest revision that this home accepted or the archive has."""
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
        record = self.current(entry.id)
        if record is None or record.deleted:
            raise NotFound(f"no memory goes by {ref!r} here")
        return self._known(entry, record)

    def _known(self, entry: Entry, record: MemoryRecord) -> Known:
        return Known(
            record=record,
            tier=entry.tier,
            path=self._path(entry.id),
            pending=tuple(self._outbox.pending(entry.id)),
            superseded_by=tuple(self._catalogue.superseded_by([entry.id]).get(entry.id, ())),
        )

    def find(self, project: str, ref: str) -> Entry:
        """Find a memory of a project by id, start of id, or name."""
        text = ref.strip()
        entry = self._catalogue.get(text.lower())
        if entry is not None and entry.project == project and not entry.tombstone:
            matches = [entry]
        else:
            matches = self._going_by(project, text)
        if not matches and len(text) >= _SHORTEST_PREFIX:
            matches = self._catalogue.starting_with(project, text.lower())
        matches = [match for match in matches if self._is_mine(match)]
        if not matches:
            short = 0 < len(text) < _SHORTEST_PREFIX
            hint = NotFound.default_hint
            if short:
                hint = f"of an id give at least {_SHORTEST_PREFIX} characters, or {hint}"
            raise NotFound(f"no memory goes by {text!r} here", hint=hint)
        if len(matches) > 1:
            raise Ambiguous(f"{len(matches)} memories go by {text!r}: {_some_ids(matches)}")
        return matches[0]

    def _going_by(self, project: str, name: str) -> list[Entry]:
        """Find memories by exact name; expired ones only when there is nothing else."""
        named = [e for e in self._catalogue.named(project, name) if self._is_mine(e)]
        now = self._clock()
        return [entry for entry in named if not entry.is_expired(now)] or named

    def is_elsewhere(self, project: str, record_id: str) -> bool:
        """Say whether an id belongs to a memory of another project."""
        entry = self._catalogue.get(record_id)
        return entry is not None and entry.project != project

    def _is_mine(self, entry: Entry) -> bool:
        """Say whether the owner of this home may see a memory: others' private ones are theirs."""
        return entry.visibility is not Visibility.PRIVATE or entry.owner == self._drafter.owner

    def history(self, project: str, ref: str) -> list[MemoryRecord]:
        """Read every revision of a memory, oldest first, those still queued included."""
        entry = self.find(project, ref)
        revisions = {record.revision: record for record in self._archive.history(entry.id)}
        for queued in self._outbox.queued(entry.id):
            revisions.setdefault(queued.revision, queued)
        return [revisions[number] for number in sorted(revisions)]

    def entries(self, project: str, *, tier: Tier | None = None) -> list[Entry]:
        """List a project's live memories, newest first."""
        now = self._clock()
        return [
            entry
            for entry in self._catalogue.entries(project, tier=tier)
            if self._is_mine(entry) and not entry.is_expired(now)
        ]

    def export(self, project: str) -> Iterator[tuple[MemoryRecord, Tier]]:
        """Yield every current memory of a project and its tier, what is still queued included."""
        for entry in self._catalogue.entries(project):
            record = self.current(entry.id) if self._is_mine(entry) else None
            if record is not None and not record.deleted:
                yield record, entry.tier

    def path_of(self, record_id: str) -> str | None:
        """Say where a memory's hot file lies, relative to its hot root."""
        return self._path(record_id)

    def _path(self, record_id: str) -> str | None:
        placed = self._catalogue.placed(record_id)
        if not placed:
            return None
        return str(self._folders.get(placed[0].project).hot.root / placed[0].path)

    # Forgetting.

    def not_forgotten(self, project: str, record_ids: Sequence[str]) -> list[Entry]:
        """Find memories by whole id, leaving out what was forgotten. Raises NotFound."""
        found: list[Entry] = []
        for record_id in record_ids:
            entry = self._catalogue.get(record_id)
            if entry is None or not entry.tombstone or entry.project != project:
                found.append(self.find(project, record_id))
        return found

    def forget(self, project: str, entries: Sequence[Entry]) -> dict[str, list[SinkName]]:
        """Forget memories in every tier; returns, by id, the stores that are still to follow.

        Raises Refused for the human part of MEMORY.md, which only people change.
        """
        folder = self._folders.get(project)
        now = self._clock()
        with folder.lock:
            for entry in entries:
                if entry.id == index_id(project):
                    raise Refused(
                        f"this memory is what people wrote in {INDEX}",
                        hint=f"delete the lines in {folder.hot.root / INDEX}",
                    )
            changes = [Change(self._tombstone(entry, now), entry.tier) for entry in entries]
            seqs = self._outbox.accept(changes, now=now)
            self._write_hot(changes, seqs)
        self._notify()
        return {entry.id: self._outbox.pending(entry.id) for entry in entries}

    def _tombstone(self, entry: Entry, now: datetime) -> MemoryRecord:
        return self._last_known(entry).tombstone(now)

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

    # Hand edits that wait for a word.

    def held(self, project: str) -> str | None:
        held = self._catalogue.held(project)
        return held.reason if held else None


def _some_ids(entries: Sequence[Entry]) -> str:
    """Name a few memories by as much of their ids as tells them apart."""
    shown = [entry.id[:13] for entry in entries[:5]]
    return ", ".join(shown if len(set(shown)) == len(shown) else [e.id for e in entries[:5]])


def new_id() -> str:
    """Make the id of a new memory."""
    return str(uuid.uuid4())
