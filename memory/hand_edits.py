"""Turns what people do to hot files into revisions: edits, new files, renames and deletions."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from memory.drafts import Drafted, Drafter
from memory.file_drafts import FileDrafter, apply_topic, index_id
from memory.hot_folders import HotFolder
from tiers import git, scan
from tiers.catalogue import Catalogue, Held, Placement
from tiers.errors import HotRootNotWritable
from tiers.hot import INDEX, HotFile
from tiers.outbox import Change, Outbox, SinkName
from tiers.records import MemoryRecord, Tier
from tiers.survey import Seen
from tiers.topic import read_topic

__all__ = ["HandEdits", "Report", "Settling", "apply_topic", "index_id"]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Settling:
    """How long things must be quiet, and how much loss is believed."""

    file_s: float = 0.15
    deletion_s: float = 30.0
    hold_share: float = 0.2


@dataclass(slots=True)
class Report:
    """What one look at a hot root brought.

    `listed` are the files that are there, `looked_at` those that were read. `unsettled` says that
    something is still moving, so another look is due soon.
    """

    taken_in: list[str] = field(default_factory=list)
    demoted: list[str] = field(default_factory=list)
    problems: dict[str, str] = field(default_factory=dict)
    listed: frozenset[str] = frozenset()
    looked_at: set[str] = field(default_factory=set)
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
        self._files = FileDrafter(drafter, catalogue)
        self._current = current
        self.settling = settling

    def look(
        self,
        folder: HotFolder,
        *,
        now: datetime,
        only: str | None = None,
        confirmed: bool = False,
    ) -> Report:
        """Compare a hot root with its manifest and take in what people changed.

        `only` narrows the look to one path, which is read whatever its metadata say. `confirmed`
        applies what was held, and deletions at once. Raises HotRootNotWritable when the folder
        cannot be read.
        """
        manifest = self._catalogue.placements(folder.key)
        survey = folder.hot.survey()
        report = Report(problems=dict(survey.left_out), listed=frozenset(survey.files))
        difference = scan.compare(manifest, survey.files, suspect=only)
        self._returned(manifest, survey.files, difference)
        files = self._read_settled(folder, difference, manifest, now, report)
        difference = scan.Difference(
            new=tuple(path for path in difference.new if path in files),
            changed=tuple(
                path
                for path in difference.changed
                if path in files and files[path].hash != manifest[path].file_hash
            ),
            missing=difference.missing,
        )
        moved = self._moved(difference, manifest, files)
        left = scan.after_renames(difference, moved)
        # Emptied is deleted.
        emptied = tuple(path for path in difference.changed if not files[path].content.strip())
        held = replace(difference, missing=(*left.missing, *emptied))
        if not confirmed and self._must_wait(folder, held, manifest, files, now, report):
            return report
        self._move(folder, moved, files, manifest, now, report)
        wanted = left.only(lambda path: only in (None, path))
        for path in wanted.changed:
            self._changed(folder, files[path], manifest[path], now, report)
        for path in wanted.new:
            self._appeared(folder, files[path], now, report)
        for path in wanted.missing:
            self._miss(folder, manifest[path], now, report, at_once=confirmed)
        if confirmed:
            self._believe(folder)
        return report

    def take_in(
        self, folder: HotFolder, path: str, content: bytes, *, now: datetime
    ) -> Drafted | None:
        """Accept a version that a file held for a moment as a revision; the file is not looked at.

        None when there was nothing to keep. A version of what was forgotten meanwhile is a memory
        of its own, without a file.
        """
        placement = self._catalogue.placements(folder.key).get(path)
        known = placement.id if placement else index_id(folder.key) if path == INDEX else None
        record = self._current(known) if known else None
        if record is not None and record.deleted:
            known, record = None, None
        drafted = self._files.draft(
            folder.key, path, content, now=now, record=record, record_id=known
        )
        if drafted is None or (record and drafted.record.content_hash == record.content_hash):
            return None
        self._accept(drafted.record, now, Tier.HOT if known else Tier.DEEP)
        return drafted

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
            try:
                file = folder.hot.read(path)
            except HotRootNotWritable as exc:
                report.problems[path] = exc.message
                continue
            age_s = now.timestamp() - file.seen.mtime_ns / 1e9 if file else 0.0
            if file is None or 0 <= age_s < self.settling.file_s:
                report.unsettled = True
                continue
            files[path] = file
            report.looked_at.add(path)
            if path in manifest and file.hash == manifest[path].file_hash:
                self._note(folder, file, manifest[path].id, masked=manifest[path].masked)
        return files

    def _moved(
        self,
        difference: scan.Difference,
        manifest: Mapping[str, Placement],
        files: Mapping[str, HotFile],
    ) -> dict[str, str]:
        here = [path for path in (*difference.new, *difference.changed) if path != INDEX]
        return scan.renames(
            manifest,
            difference,
            {path: files[path].hash for path in here},
            {path: read_topic(files[path].content).id for path in here},
        )

    # What waits for a person's word.

    def _must_wait(
        self,
        folder: HotFolder,
        difference: scan.Difference,
        manifest: Mapping[str, Placement],
        files: Mapping[str, HotFile],
        now: datetime,
        report: Report,
    ) -> bool:
        """Hold changes that nobody seems to have meant, and wait while git is at work."""
        repository = folder.repository()
        head = git.head(repository) if repository else ""
        before = self._catalogue.head(folder.key)
        switched = bool(before) and not _same_files(repository, before, head)
        if repository and (difference or report.unsettled):
            quiet_s = self.settling.file_s
            if git.is_busy(repository, now=now.timestamp(), quiet_s=quiet_s):
                report.unsettled = True
                return True
        if switched and report.unsettled:
            # What has not settled yet may be what was checked out.
            return True
        reason = scan.reason_to_hold(
            placed=sum(path != INDEX for path in manifest),
            missing=difference.missing,
            root_exists=folder.hot.exists(),
            share=self.settling.hold_share,
        )
        if reason is None and switched and _may_be_checked_out(repository, difference, files):
            reason = scan.switch(before, head)
        if reason is None:
            self._believe(folder)
            return False
        self._catalogue.hold(Held(folder.key, reason, now, difference.paths))
        report.held = reason
        return True

    def _believe(self, folder: HotFolder) -> None:
        """Take what is there for what is meant from now on."""
        self._catalogue.release(folder.key)
        self._catalogue.set_head(folder.key, folder.head())

    # One file at a time.

    def _changed(
        self, folder: HotFolder, file: HotFile, placement: Placement, now: datetime, report: Report
    ) -> None:
        if not file.content.strip():
            # Emptied is deleted: it settles like a missing file.
            self._miss(folder, placement, now, report)
            return
        record = self._current(placement.id)
        if file.path != INDEX and self._lies_elsewhere(folder, placement.id, file.path):
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
        owner = self._named_in(folder, file)
        if owner is None and self._is_copy(folder, file, now, report):
            return
        known = self._current(owner) if owner else None
        self._keep(folder, file, known, now, report, record_id=owner)

    def _named_in(self, folder: HotFolder, file: HotFile) -> str | None:
        """Find whose file this is by the id in its header; None when that is taken or not ours."""
        named = read_topic(file.content).id
        entry = self._catalogue.get(named) if named else None
        if entry is None:
            return named or None
        if entry.tombstone or entry.project != folder.key or not entry.is_seen_by(folder.owner):
            return None
        return None if self._lies_elsewhere(folder, entry.id, file.path) else entry.id

    def _lies_elsewhere(self, folder: HotFolder, record_id: str, path: str) -> bool:
        """Say whether another file that is there holds the memory as well."""
        others = [p for p in self._catalogue.placed(record_id) if p.path != path]
        return any(folder.hot.read(other.path) is not None for other in others)

    def _is_copy(self, folder: HotFolder, file: HotFile, now: datetime, report: Report) -> bool:
        """Note a file that says the same as a memory as one more place of it."""
        drafted = self._files.draft(folder.key, file.path, file.content, now=now)
        if drafted is None:
            return False
        for entry in self._catalogue.with_text(folder.key, drafted.record.text_hash):
            if not entry.is_seen_by(folder.owner):
                continue
            record = self._current(entry.id)
            if record is None or entry.is_expired(now) or entry.id == index_id(folder.key):
                continue
            same = self._files.says_the_same(folder.key, file.path, file.content, record, now=now)
            if same is None:
                continue
            if entry.tier is not Tier.HOT:
                self._catalogue.put(record, Tier.HOT)
            report.taken_in.append(entry.id)
            self._note(folder, file, entry.id, masked=bool(same.masked))
            return True
        return False

    def _move(
        self,
        folder: HotFolder,
        moved: Mapping[str, str],
        files: Mapping[str, HotFile],
        manifest: Mapping[str, Placement],
        now: datetime,
        report: Report,
    ) -> None:
        """Let memories follow their files; one whose place was taken by another has none left."""
        for path in {*moved, *moved.values()}:
            self._catalogue.displace(folder.key, path)
        for path, old in moved.items():
            record_id = manifest[old].id
            folder.hot.snapshots.follow(old, path)
            record = self._current(record_id)
            self._keep(folder, files[path], record, now, report, record_id=record_id)
            report.taken_in += [record_id] if record_id not in report.taken_in else []
        for path in moved:
            if path in manifest:
                self._demote_unplaced(manifest[path], report)

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
        """Make a file's content the newest revision of its memory and note what the file holds.

        What was forgotten stays so: its file is a new memory.
        """
        if record is not None and record.deleted:
            record, record_id = None, None
        drafted = self._files.draft(
            folder.key,
            file.path,
            file.content,
            now=now,
            record=record,
            record_id=record_id,
            problems=report.problems,
        )
        if drafted is None:
            if record_id:
                self._note(folder, file, record_id)
            if file.path == INDEX and record is not None:
                self._catalogue.set_tier(record.id, Tier.DEEP)
            return
        new = drafted.record
        if record is None or new.content_hash != record.content_hash:
            self._accept(new, now, Tier.HOT)
            report.taken_in.append(new.id)
        elif (entry := self._catalogue.get(new.id)) is None or entry.tier is not Tier.HOT:
            self._catalogue.put(record, Tier.HOT)
            report.taken_in.append(new.id)
        self._note(folder, file, new.id, masked=bool(drafted.masked))

    def _accept(self, record: MemoryRecord, now: datetime, tier: Tier) -> None:
        # The file is where it came from, so the hot sink need not hear of it.
        sinks = (SinkName.ARCHIVE, SinkName.DEEP)
        self._outbox.accept([Change(record, tier, sinks)], now=now)

    def _note(
        self, folder: HotFolder, file: HotFile, record_id: str, *, masked: bool = False
    ) -> None:
        self._catalogue.place(folder.placement(file, record_id, masked=masked))

    # What is gone.

    def _miss(
        self,
        folder: HotFolder,
        placement: Placement,
        now: datetime,
        report: Report,
        *,
        at_once: bool = False,
    ) -> None:
        """Demote a memory whose file has been gone for long enough; until then note since when."""
        since = placement.missing_since or now
        if not at_once and (now - since).total_seconds() < self.settling.deletion_s:
            if placement.missing_since is None:
                self._catalogue.place(replace(placement, missing_since=now))
            report.unsettled = True
            return
        self._catalogue.displace(folder.key, placement.path)
        self._demote_unplaced(placement, report)

    def _demote_unplaced(self, placement: Placement, report: Report) -> None:
        entry = self._catalogue.get(placement.id)
        if entry is None or entry.tombstone or self._catalogue.placed(placement.id):
            return
        self._catalogue.set_tier(placement.id, Tier.DEEP)
        report.demoted.append(placement.id)
        log.info("%s is gone from the hot root; %s is deep now", placement.path, placement.id)


def _same_files(repository: git.Repository | None, before: str, head: str) -> bool:
    return before == head or (repository is not None and git.same_files(repository, before, head))


def _may_be_checked_out(
    repository: git.Repository | None, difference: scan.Difference, files: Mapping[str, HotFile]
) -> bool:
    """Say whether a checkout could have done this: whoever edits later leaves a later time."""
    at = git.switched_at(repository) if repository else float("inf")
    written = (files[path].seen.mtime_ns / 1e9 for path in (*difference.new, *difference.changed))
    return bool(difference.missing) or any(time <= at for time in written)
