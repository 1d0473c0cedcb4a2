"""The sink that writes hot memories as files and has MEMORY.md's block kept in step."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime

from memory.hand_edits import HandEdits, Report
from memory.hot_folders import HotFolder, HotFolders
from memory.hot_index import HotIndex, IndexBudget
from tiers.catalogue import Catalogue, Placement
from tiers.errors import HeaderNotParsed, HotRootNotWritable, InvalidRecord, StoreFull, TierError
from tiers.hot import INDEX, LARGEST_FILE_BYTES, HotFile, UnseenEdit, topic_path
from tiers.outbox import Delivery, SinkName
from tiers.records import MemoryRecord, Tier
from tiers.snapshots import Late
from tiers.topic import write_topic

__all__ = ["HotSink", "IndexBudget"]

log = logging.getLogger(__name__)

_TRIES = 5


class StillNeeded(TierError):
    """A file is the only safe place of a memory, so it is not removed yet."""

    retryable = True
    default_hint = "it is removed when archive and deep store have what it says"


class HotSink:
    """Writes topic files. Calls for one hot root are serialised by its folder's lock.

    `is_kept` says whether archive and deep store have the newest revision of a memory.
    """

    name = SinkName.HOT

    def __init__(
        self,
        *,
        folders: HotFolders,
        catalogue: Catalogue,
        edits: HandEdits,
        current: Callable[[str], MemoryRecord | None],
        is_kept: Callable[[str], bool],
        clock: Callable[[], datetime],
        budget: IndexBudget,
    ) -> None:
        self._folders = folders
        self._catalogue = catalogue
        self._edits = edits
        self._current = current
        self._is_kept = is_kept
        self._clock = clock
        self._index = HotIndex(
            catalogue=catalogue, edits=edits, current=current, clock=clock, budget=budget
        )

    def apply(self, deliveries: Sequence[Delivery]) -> Collection[str]:
        """Write, rewrite or remove the files of these memories, then refresh the indexes.

        One that does not succeed stops no other; what will not pass by itself is raised first.
        """
        failed: list[TierError] = []
        for key in dict.fromkeys(delivery.project for delivery in deliveries):
            folder = self._folders.get(key)
            with folder.lock:
                self._take_in_leftovers(folder, self._clock())
                for delivery in deliveries:
                    if delivery.project == key and delivery.record is not None:
                        with _collected(failed):
                            self._apply(folder, delivery.record)
                with _collected(failed):
                    self._index.refresh(folder)
        if failed:
            raise min(failed, key=lambda error: error.retryable)
        return ()

    def _apply(self, folder: HotFolder, record: MemoryRecord) -> None:
        if record.deleted:
            self._remove(folder, record)
        elif self._is_demoted(record.id):
            self._take_out(folder, record.id)
        elif self._is_hot(record):
            self._write(folder, record)

    def _is_demoted(self, record_id: str) -> bool:
        entry = self._catalogue.get(record_id)
        return entry is not None and not entry.tombstone and entry.tier is not Tier.HOT

    def _is_hot(self, record: MemoryRecord) -> bool:
        """Say whether a revision belongs into a file: a later one may be there by now."""
        entry = self._catalogue.get(record.id)
        newest = entry is not None and entry.revision <= record.revision
        return newest and entry is not None and entry.tier is Tier.HOT

    def _write(self, folder: HotFolder, record: MemoryRecord) -> None:
        if not folder.hot.exists():
            self._refuse_lost(folder)
            folder.hot.create()
        placements = [p for p in self._catalogue.placed(record.id) if p.project == folder.key]
        if not placements:
            self._write_new(folder, record)
        for placement in placements:
            if placement.path != INDEX:
                self._rewrite(folder, record, placement.path)

    def _refuse_lost(self, folder: HotFolder) -> None:
        """Make no new folder where one is lost: that would look like the loss of each file."""
        if any(path != INDEX for path in self._catalogue.placements(folder.key)):
            raise HotRootNotWritable(
                f"{folder.hot.root} is gone",
                hint="put it back, or let tiermem write its files again: tiermem held restore",
            )

    def _write_new(self, folder: HotFolder, record: MemoryRecord) -> None:
        content = write_topic(None, record)
        taken = {*self._catalogue.placements(folder.key), INDEX}
        for _ in range(_TRIES):
            path = topic_path(record.name, taken)
            try:
                file = folder.hot.write(path, content, expected=None, now=self._clock())
            except UnseenEdit:
                taken |= {path, *folder.hot.listing()}
                continue
            self._note(folder, file, record.id)
            return
        raise UnseenEdit(f"no free file name for {record.name!r}")

    def _rewrite(self, folder: HotFolder, record: MemoryRecord, path: str) -> None:
        for _ in range(_TRIES):
            placement = self._placement(folder, record.id, path)
            if placement is None or not self._is_hot(record):
                # A person's edit won, or made a memory of its own of this file.
                return
            try:
                self._write_over(folder, record, placement)
            except UnseenEdit as exc:
                self._take_in(folder, path, exc)
            else:
                return
        raise UnseenEdit(f"{path} is being edited")

    def _write_over(self, folder: HotFolder, record: MemoryRecord, placement: Placement) -> None:
        path = placement.path
        file = folder.hot.read(path)
        if file is None:
            self._refuse_held(folder, path)
        elif file.hash != placement.file_hash:
            raise UnseenEdit(f"{path} was edited")
        elif len(file.content) > LARGEST_FILE_BYTES:
            raise InvalidRecord(
                f"{path} is too large to be a memory, so it is not rewritten",
                hint="split that file, or move it out of the hot root",
            )
        if placement.masked:
            raise InvalidRecord(
                f"{path} holds a secret that is masked here, so it is not rewritten",
                hint="edit that file by hand",
            )
        try:
            content = write_topic(file.content if file else None, record)
        except HeaderNotParsed as exc:
            raise HeaderNotParsed(f"{path}: {exc.message}", hint=exc.hint) from exc
        if file is None or content != file.content:
            expected = file.hash if file else None
            file = folder.hot.write(path, content, expected=expected, now=self._clock())
            self._note(folder, file, record.id)

    def _placement(self, folder: HotFolder, record_id: str, path: str) -> Placement | None:
        placed = self._catalogue.placed(record_id)
        return next((p for p in placed if (p.project, p.path) == (folder.key, path)), None)

    def _refuse_held(self, folder: HotFolder, path: str) -> None:
        held = self._catalogue.held(folder.key)
        if held is not None and path in held.paths:
            raise UnseenEdit(
                f"{path} is held: {held.reason}",
                hint="decide with: tiermem held apply, or: tiermem held restore",
            )

    def _take_in(self, folder: HotFolder, path: str, edit: UnseenEdit) -> None:
        """Let a person's version win: it becomes the newest revision, ours stays in the history."""
        now = self._clock()
        for content in edit.displaced:
            self._edits.take_in(folder, path, content, now=now)
        report = self._edits.look(folder, now=now, only=path)
        if report.held or path not in report.looked_at:
            # It waits for a person's word, or is still being written.
            raise edit

    def _remove(self, folder: HotFolder, record: MemoryRecord) -> None:
        for placement in self._catalogue.placed(record.id):
            for _ in range(_TRIES):
                current = self._placement(folder, record.id, placement.path)
                if current is None or self._is_removed(folder, current, keep=False):
                    break
            else:
                raise UnseenEdit(f"{placement.path} is being edited")
        self._forget_copies(record.id)

    def _forget_copies(self, record_id: str) -> None:
        """Remove the copies of what was forgotten, wherever its file has ever been."""
        for project, path in self._catalogue.left_behind(record_id):
            self._folders.get(project).hot.forget_copies(path)
        self._catalogue.forget_left_behind(record_id)

    def _take_out(self, folder: HotFolder, record_id: str) -> None:
        """Remove the files of a memory that is deep now. A person's edit of one keeps it hot."""
        placed = [p for p in self._catalogue.placed(record_id) if p.project == folder.key]
        if any(placement.masked for placement in placed):
            # What is masked lies nowhere else.
            self._catalogue.set_tier(record_id, Tier.HOT)
            return
        if placed and not self._is_kept(record_id):
            raise StillNeeded(f"{placed[0].path} stays for now")
        for placement in placed:
            for _ in range(_TRIES):
                current = self._placement(folder, record_id, placement.path)
                if current is None or not self._is_demoted(record_id):
                    break
                if self._is_removed(folder, current, keep=True):
                    break
            else:
                raise UnseenEdit(f"{placement.path} is being edited")

    def _is_removed(self, folder: HotFolder, placement: Placement, *, keep: bool) -> bool:
        """Remove a file that holds what it held; else take in what it says now, and say no."""
        path = placement.path
        if path != INDEX:
            try:
                folder.hot.remove(path, expected=placement.file_hash, now=self._clock(), keep=keep)
            except UnseenEdit as exc:
                self._take_in(folder, path, exc)
                return False
        self._catalogue.displace(placement.project, path)
        return True

    def look(self, folder: HotFolder, *, confirmed: bool = False) -> Report:
        """Take in what people changed in a hot root, and keep its index in step.

        What cannot be read or written now, files or stores, is a problem of the folder and not of
        whoever has it looked at; unless `confirmed`, which raises it.
        """
        with folder.lock:
            now = self._clock()
            self._take_in_leftovers(folder, now)
            late = self._take_in_late(folder, now)
            try:
                report = self._edits.look(folder, now=now, confirmed=confirmed)
            except TierError as exc:
                if confirmed:
                    raise
                self._note_problem(folder, exc)
                return late
            report.taken_in[:0] = late.taken_in
            report.unsettled |= late.unsettled
            folder.problems = _still_there(folder.problems, report) | report.problems
            if report.taken_in or report.demoted or INDEX in report.looked_at:
                errors: list[TierError] = []
                with _collected(errors):
                    self._index.refresh(folder)
                for error in errors:
                    folder.problems[INDEX] = error.message
            return report

    def _note_problem(self, folder: HotFolder, error: TierError) -> None:
        root = str(folder.hot.root)
        if folder.problems.get(root) != error.message:
            log.warning("%s cannot be looked at: %s", root, error.message)
        folder.problems[root] = error.message

    def _take_in_leftovers(self, folder: HotFolder, now: datetime) -> None:
        """Once, before anything is written: take in what killed writers left beside the files.

        It may be an edit that was swapped out a moment before.
        """
        if folder.recovered or not folder.hot.exists():
            return
        try:
            with folder.hot.lock():
                for left, file in folder.hot.leftovers():
                    placement = self._catalogue.placements(folder.key).get(file.path)
                    if placement is not None and placement.file_hash != file.hash:
                        self._edits.take_in(folder, file.path, file.content, now=now)
                    folder.hot.discard(left, file, now)
        except (HotRootNotWritable, StoreFull) as exc:
            log.warning("%s: %s", folder.hot.root, exc.message)
            return
        folder.recovered = True

    def _take_in_late(self, folder: HotFolder, now: datetime) -> Report:
        """Take in what editors wrote into files after those had been replaced."""
        report = Report()
        quiet_s = self._edits.settling.file_s
        try:
            late, report.unsettled = folder.hot.late_edits(now, quiet_s=quiet_s)
        except (HotRootNotWritable, StoreFull) as exc:
            log.warning("%s: %s", folder.hot.root, exc.message)
            return report
        for edit in late:
            if (record_id := self._late(folder, edit, now)) is not None:
                report.taken_in.append(record_id)
        return report

    def _late(self, folder: HotFolder, late: Late, now: datetime) -> str | None:
        """Give back what an editor wrote into a file that had been replaced under it."""
        placement = self._catalogue.placements(folder.key).get(late.path)
        drafted = self._edits.take_in(folder, late.path, late.content, now=now)
        if drafted is None or placement is None:
            return drafted.record.id if drafted else None
        try:
            file = folder.hot.write(
                late.path, late.content, expected=placement.file_hash, now=self._clock()
            )
            self._note(folder, file, placement.id, masked=bool(drafted.masked))
        except UnseenEdit:
            # There is a newer version by now, and the look that follows takes it in.
            pass
        except (HotRootNotWritable, StoreFull) as exc:
            log.warning("%s is not given back: %s", late.path, exc.message)
        return drafted.record.id

    def restore(self, folder: HotFolder) -> int:
        """Put hot files back as their memories are: the answer "no" to held changes.

        What the files hold now is kept as snapshots. Returns how many files were written.
        """
        written = 0
        with folder.lock:
            folder.hot.create()
            for placement in self._catalogue.placements(folder.key).values():
                record = self._current(placement.id)
                if placement.path == INDEX or placement.masked or record is None or record.deleted:
                    continue
                written += self._put_back(folder, record, placement)
            written += self._index.put_back(folder)
            self._take_away_new(folder)
            self._catalogue.release(folder.key)
            self._catalogue.set_head(folder.key, folder.head())
            self._index.refresh(folder)
        return written

    def _take_away_new(self, folder: HotFolder) -> None:
        """Remove files that came with held changes; copies of them are kept."""
        held = self._catalogue.held(folder.key)
        placed = self._catalogue.placements(folder.key)
        for path in held.paths if held else ():
            file = folder.hot.read(path) if path not in placed and path != INDEX else None
            if file is not None:
                folder.hot.remove(path, expected=file.hash, now=self._clock())

    def _put_back(self, folder: HotFolder, record: MemoryRecord, placement: Placement) -> bool:
        file = folder.hot.read(placement.path)
        if file is not None and file.hash == placement.file_hash:
            return False
        expected = file.hash if file else None
        content = write_topic(None, record)
        written = folder.hot.write(placement.path, content, expected=expected, now=self._clock())
        self._note(folder, written, record.id)
        return True

    def _note(
        self, folder: HotFolder, file: HotFile, record_id: str, *, masked: bool = False
    ) -> None:
        self._catalogue.place(folder.placement(file, record_id, masked=masked))


@contextmanager
def _collected(errors: list[TierError]) -> Iterator[None]:
    """Note the error that something ends with, and go on."""
    try:
        yield
    except TierError as exc:
        errors.append(exc)


def _still_there(problems: Mapping[str, str], report: Report) -> dict[str, str]:
    """Keep what was found wrong with files that are there and were not read again."""
    kept = (report.listed | {INDEX}) - report.looked_at
    return {path: problem for path, problem in problems.items() if path in kept}
