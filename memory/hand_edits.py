"""Turns what people do to hot files into revisions: edits, new files, renames and deletions."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from memory.drafts import Drafted, Drafter, visibility_for
from memory.hot_folders import HotFolder
from tiers import scan
from tiers.catalogue import Catalogue, Held, Placement
from tiers.hot import INDEX, LARGEST_FILE_BYTES, HotFile, Seen
from tiers.markdown import human_part
from tiers.outbox import Change, Outbox, SinkName
from tiers.records import MemoryRecord, Origin, Tier
from tiers.topic import Topic, read_topic

log = logging.getLogger(__name__)

_INDEX_NAMESPACE = uuid.UUID("3d8d7b7e-0e0a-5d0d-8f77-1f1e2a1f6b0e")


@dataclass(frozen=True, slots=True)
class Settling:
    """How long things must be quiet, and how much loss is believed."""

    file_s: float = 0.15
    deletion_s: float = 30.0
    hold_share: float = 0.2


@dataclass(slots=True)
class Report:
    """What one look at a hot root brought.

    `unsettled` says that something is still moving, so another look is due soon.
    """

    taken_in: list[str] = field(default_factory=list)
    demoted: list[str] = field(default_factory=list)
    problems: dict[str, str] = field(default_factory=dict)
    unsettled: bool = False
    held: str | None = None


class HandEdits:
    """Looks at hot roots and accepts what people changed. Callers hold the folder's lock.

    `current` reads the newest known revision of a memory, or None.
    """

    def __init__(
        self,
        *,
        catalogue: Catalogue,
        outbox: Outbox,
        drafter: Drafter,
        current: Callable[[str], MemoryRecord | None],
        settling: Settling,
    ) -> None:
        self._catalogue = catalogue
        self._outbox = outbox
        self._drafter = drafter
        self._current = current
        self._settling = settling

    def look(
        self,
        folder: HotFolder,
        *,
        now: datetime,
        only: str | None = None,
        confirmed: bool = False,
    ) -> Report:
        """Compare a hot root with its manifest and take in what people changed.

        `only` narrows the look to one path. `confirmed` applies what was held. Raises
        HotRootNotWritable when files cannot be read.
        """
        report = Report()
        manifest = self._catalogue.placements(folder.key)
        listing = folder.hot.listing()
        difference = scan.compare(manifest, listing)
        self._returned(manifest, listing, difference)
        files = self._read_settled(folder, difference, manifest, now, report)
        moved = self._moved(difference, manifest, files)
        difference = scan.Difference(
            new=tuple(path for path in difference.new if path in files),
            changed=tuple(
                path
                for path in difference.changed
                if path in files and files[path].hash != manifest[path].file_hash
            ),
            missing=tuple(p for p in difference.missing if p not in moved.values()),
        )
        if not confirmed and self._must_hold(folder, manifest, difference, now, report):
            return report
        wanted = difference.narrowed(only) if only else difference
        for path, old in moved.items():
            self._move(folder, files[path], manifest[old], now, report)
        for path in wanted.changed:
            self._changed(folder, files[path], manifest[path], now, report)
        for path in wanted.new:
            if path not in moved:
                self._appeared(folder, files[path], now, report)
        self._settle_missing(folder, wanted, manifest, now, report)
        return report

    def take_in(self, folder: HotFolder, path: str, content: bytes, *, now: datetime) -> str | None:
        """Accept a version that a file held for a moment as a revision; the file is not looked at.

        Returns the memory's id, or None when there was nothing to keep.
        """
        placement = self._catalogue.placements(folder.key).get(path)
        record = self._current(placement.id) if placement else None
        drafted = self._drafted(folder, path, content, record, now, record_id=None)
        if drafted is None or record is None or drafted.record.content_hash == record.content_hash:
            return None
        self._accept(drafted.record, now)
        return drafted.record.id

    # What is there, and what is still moving.

    def _returned(
        self,
        manifest: Mapping[str, Placement],
        listing: Mapping[str, Seen],
        difference: scan.Difference,
    ) -> None:
        """Stop the clock of files that are back as they were."""
        for path, placement in manifest.items():
            if placement.missing_since and path in listing and path not in difference.changed:
                self._catalogue.place(replace(placement, missing_since=None))

    def _read_settled(
        self,
        folder: HotFolder,
        difference: scan.Difference,
        manifest: Mapping[str, Placement],
        now: datetime,
        report: Report,
    ) -> dict[str, HotFile]:
        files: dict[str, HotFile] = {}
        for path in (*difference.new, *difference.changed):
            file = folder.hot.read(path)
            if file is None:
                report.unsettled = True
                continue
            age_s = now.timestamp() - file.seen.mtime_ns / 1e9
            if 0 <= age_s < self._settling.file_s:
                report.unsettled = True
                continue
            files[path] = file
            if path in manifest and file.hash == manifest[path].file_hash:
                self._note(folder, file, manifest[path].id, masked=manifest[path].masked)
        return files

    def _moved(
        self,
        difference: scan.Difference,
        manifest: Mapping[str, Placement],
        files: Mapping[str, HotFile],
    ) -> dict[str, str]:
        missing = {path: manifest[path] for path in difference.missing if path != INDEX}
        new = {path: files[path] for path in difference.new if path in files and path != INDEX}
        if not missing or not new:
            return {}
        return scan.renames(
            missing,
            {path: file.hash for path, file in new.items()},
            {path: read_topic(file.content).id for path, file in new.items()},
        )

    def _must_hold(
        self,
        folder: HotFolder,
        manifest: Mapping[str, Placement],
        difference: scan.Difference,
        now: datetime,
        report: Report,
    ) -> bool:
        head = folder.head()
        reason = scan.reason_to_hold(
            placed=len(manifest),
            difference=difference,
            root_exists=folder.hot.exists(),
            head_before=self._catalogue.head(folder.key),
            head_now=head,
            share=self._settling.hold_share,
        )
        if reason is None:
            self._catalogue.release(folder.key)
            self._catalogue.set_head(folder.key, head)
            return False
        paths = (*difference.changed, *difference.new, *difference.missing)
        self._catalogue.hold(Held(folder.key, reason, now, paths))
        report.held = reason
        return True

    # One file at a time.

    def _changed(
        self, folder: HotFolder, file: HotFile, placement: Placement, now: datetime, report: Report
    ) -> None:
        if not file.content.strip():
            # Emptied is deleted: it settles like a missing file.
            self._miss(folder, placement, now, report)
            return
        record = self._current(placement.id)
        siblings = [p for p in self._catalogue.placed(placement.id) if p.path != file.path]
        if siblings and file.path != INDEX:
            # One of two copies was edited: from now on it is a memory of its own.
            self._keep(folder, file, None, now, report)
            return
        self._keep(folder, file, record, now, report, record_id=placement.id)

    def _appeared(self, folder: HotFolder, file: HotFile, now: datetime, report: Report) -> None:
        if not file.content.strip():
            report.problems[file.path] = "the file is empty"
            return
        if file.path == INDEX:
            record_id = index_id(folder.key)
            self._keep(folder, file, self._current(record_id), now, report, record_id=record_id)
            return
        owner = self._identity(folder, file, read_topic(file.content))
        known = self._current(owner) if owner else None
        self._keep(folder, file, known, now, report, record_id=owner)

    def _identity(self, folder: HotFolder, file: HotFile, topic: Topic) -> str | None:
        """Find whose file this is: by the id in its header, else by its text; None for nobody's."""
        entry = self._catalogue.get(topic.id) if topic.id else None
        if topic.id and entry is None:
            return topic.id
        if entry and not entry.tombstone and entry.project == folder.key:
            placed = [p for p in self._catalogue.placed(entry.id) if p.path != file.path]
            if not placed or all(folder.hot.read(p.path) is None for p in placed):
                return entry.id
        drafted = self._drafted(folder, file.path, file.content, None, _EPOCH, record_id=None)
        if drafted is None:
            return None
        same = self._catalogue.with_text(folder.key, drafted.record.text_hash)
        return same[0].id if same else None

    def _move(
        self, folder: HotFolder, file: HotFile, placement: Placement, now: datetime, report: Report
    ) -> None:
        self._catalogue.displace(folder.key, placement.path)
        if file.hash == placement.file_hash:
            self._note(folder, file, placement.id, masked=placement.masked)
            report.taken_in.append(placement.id)
        else:
            record = self._current(placement.id)
            self._keep(folder, file, record, now, report, record_id=placement.id)

    def _keep(
        self,
        folder: HotFolder,
        file: HotFile,
        record: MemoryRecord | None,
        now: datetime,
        report: Report,
        *,
        record_id: str | None = None,
    ) -> None:
        """Make a file's content the newest revision of its memory and note what the file holds."""
        drafted = self._drafted(folder, file.path, file.content, record, now, record_id, report)
        if drafted is None:
            if record_id:
                self._note(folder, file, record_id)
            if file.path == INDEX and record is not None:
                self._catalogue.set_tier(record.id, Tier.DEEP)
            return
        new = drafted.record
        if record is None or record.deleted or new.content_hash != record.content_hash:
            self._accept(new, now)
            report.taken_in.append(new.id)
        elif (entry := self._catalogue.get(new.id)) is None or entry.tier is not Tier.HOT:
            self._catalogue.put(record, Tier.HOT)
            report.taken_in.append(new.id)
        self._note(folder, file, new.id, masked=bool(drafted.masked))

    def _drafted(
        self,
        folder: HotFolder,
        path: str,
        content: bytes,
        record: MemoryRecord | None,
        now: datetime,
        record_id: str | None,
        report: Report | None = None,
    ) -> Drafted | None:
        if len(content) > LARGEST_FILE_BYTES:
            _report(report, path, f"larger than {LARGEST_FILE_BYTES:,} bytes")
            return None
        base = record or _first(record_id or self._drafter.new_id(), folder.key, self._drafter, now)
        revision = record.revision + 1 if record else self._next_revision(base.id)
        if path == INDEX:
            text = human_part(content)
            if not text.strip():
                return None
            new = replace(
                base, name="MEMORY", body=text, revision=revision, updated_at=now, deleted=False
            )
            return self._drafter.masked(new)
        topic = read_topic(content)
        if topic.problems:
            _report(report, path, "; ".join(topic.problems))
        if not topic.body.strip() and not topic.description:
            _report(report, path, "there is no text in it")
            return None
        new = apply_topic(base, topic, path, revision=revision, now=now)
        if record is None:
            new = replace(
                new,
                visibility=visibility_for(new.type, folder.key),
                origin=topic.origin or Origin.HUMAN,
            )
        return self._drafter.masked(new)

    def _next_revision(self, record_id: str) -> int:
        entry = self._catalogue.get(record_id)
        return entry.revision + 1 if entry else 1

    def _accept(self, record: MemoryRecord, now: datetime) -> None:
        # The file is where it came from, so the hot sink need not hear of it.
        sinks = (SinkName.ARCHIVE, SinkName.DEEP)
        self._outbox.accept([Change(record, Tier.HOT, sinks)], now=now)

    def _note(
        self, folder: HotFolder, file: HotFile, record_id: str, *, masked: bool = False
    ) -> None:
        self._catalogue.place(
            Placement(
                project=folder.key,
                path=file.path,
                id=record_id,
                file_hash=file.hash,
                size=file.seen.size,
                mtime_ns=file.seen.mtime_ns,
                inode=file.seen.inode,
                masked=masked,
            )
        )

    # What is gone.

    def _settle_missing(
        self,
        folder: HotFolder,
        difference: scan.Difference,
        manifest: Mapping[str, Placement],
        now: datetime,
        report: Report,
    ) -> None:
        for path in difference.missing:
            self._miss(folder, manifest[path], now, report)

    def _miss(self, folder: HotFolder, placement: Placement, now: datetime, report: Report) -> None:
        """Demote a memory whose file has been gone for long enough; until then note since when."""
        since = placement.missing_since
        if since is None:
            self._catalogue.place(replace(placement, missing_since=now))
            report.unsettled = True
            return
        if (now - since).total_seconds() < self._settling.deletion_s:
            report.unsettled = True
            return
        self._catalogue.displace(folder.key, placement.path)
        if not self._catalogue.placed(placement.id):
            self._catalogue.set_tier(placement.id, Tier.DEEP)
            report.demoted.append(placement.id)
        log.info("%s is gone from the hot root; %s is deep now", placement.path, placement.id)


def index_id(project: str) -> str:
    """Name the memory that is the human part of a project's MEMORY.md."""
    return str(uuid.uuid5(_INDEX_NAMESPACE, project))


def apply_topic(
    base: MemoryRecord, topic: Topic, path: str, *, revision: int, now: datetime
) -> MemoryRecord:
    """Make what a file says the next revision; what files cannot say is kept from `base`."""
    created_at = topic.created_at or base.created_at
    lifetime = created_at + topic.ttl if topic.ttl else None
    return replace(
        base,
        name=topic.name or path.rpartition("/")[2].rpartition(".")[0],
        description=topic.description,
        body=topic.body,
        type=topic.type,
        category=topic.category,
        tags=topic.tags,
        keywords=topic.keywords,
        importance=topic.importance,
        pinned=topic.pinned,
        created_at=created_at,
        expires_at=topic.expires_at or lifetime,
        supersedes=topic.supersedes,
        extra=topic.extra,
        revision=revision,
        updated_at=now,
        deleted=False,
    )


def _first(record_id: str, project: str, drafter: Drafter, now: datetime) -> MemoryRecord:
    return MemoryRecord(
        id=record_id,
        project=project,
        name="",
        body="",
        origin=Origin.HUMAN,
        owner=drafter.owner,
        home_id=drafter.home_id,
        created_at=now,
        updated_at=now,
    )


def _report(report: Report | None, path: str, problem: str) -> None:
    if report is not None:
        report.problems[path] = problem


_EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
