"""The sink that writes hot memories as files and keeps MEMORY.md's block in step."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from memory.hand_edits import HandEdits, Report, index_id
from memory.hot_folders import HotFolder, HotFolders
from tiers.catalogue import Catalogue, Entry, Placement
from tiers.errors import InvalidRecord
from tiers.hot import INDEX, HotFile, UnseenEdit, topic_path
from tiers.markdown import fit_block, human_part, index_line, linked_paths, replace_block
from tiers.outbox import Delivery, SinkName
from tiers.records import Importance, MemoryRecord, Tier
from tiers.topic import write_topic

_TRIES = 5


@dataclass(frozen=True, slots=True)
class IndexBudget:
    """What the client itself would load of MEMORY.md (Claude Code: 200 lines, 25 KB)."""

    max_lines: int = 200
    max_bytes: int = 25_000


class HotSink:
    """Writes topic files. Calls for one hot root are serialised by its folder's lock."""

    name = SinkName.HOT

    def __init__(
        self,
        *,
        folders: HotFolders,
        catalogue: Catalogue,
        edits: HandEdits,
        current: Callable[[str], MemoryRecord | None],
        clock: Callable[[], datetime],
        budget: IndexBudget,
    ) -> None:
        self._folders = folders
        self._catalogue = catalogue
        self._edits = edits
        self._current = current
        self._clock = clock
        self._budget = budget

    def apply(self, deliveries: Sequence[Delivery]) -> Collection[str]:
        """Write, rewrite or remove the files of these memories, then refresh the indexes."""
        for key in dict.fromkeys(delivery.project for delivery in deliveries):
            folder = self._folders.get(key)
            with folder.lock:
                for delivery in deliveries:
                    if delivery.project == key and delivery.record is not None:
                        self._apply(folder, delivery.record)
                self.refresh_index(folder)
        return ()

    def _apply(self, folder: HotFolder, record: MemoryRecord) -> None:
        entry = self._catalogue.get(record.id)
        if record.deleted:
            self._remove(folder, record)
        elif entry and entry.tier is Tier.HOT and entry.revision <= record.revision:
            self._write(folder, record)

    def _write(self, folder: HotFolder, record: MemoryRecord) -> None:
        folder.hot.create()
        placements = [p for p in self._catalogue.placed(record.id) if p.project == folder.key]
        if not placements:
            self._write_new(folder, record)
        for placement in placements:
            if placement.path != INDEX:
                self._rewrite(folder, record, placement)

    def _write_new(self, folder: HotFolder, record: MemoryRecord) -> None:
        content = write_topic(None, record)
        for _ in range(_TRIES):
            taken = {*folder.hot.listing(), *self._catalogue.placements(folder.key), INDEX}
            path = topic_path(record.name, taken)
            try:
                file = folder.hot.write(path, content, expected=None, now=self._clock())
            except UnseenEdit:
                continue
            self._note(folder, file, record.id)
            return
        raise UnseenEdit(f"no free file name for {record.name!r}")

    def _rewrite(self, folder: HotFolder, record: MemoryRecord, placement: Placement) -> None:
        file = folder.hot.read(placement.path)
        now = self._clock()
        if file is not None and file.hash != placement.file_hash:
            self._take_in(folder, placement.path, UnseenEdit(f"{placement.path} was edited"))
            return
        if placement.masked:
            raise InvalidRecord(
                f"{placement.path} holds a secret that is masked here, so it is not rewritten",
                hint="edit that file by hand",
            )
        content = write_topic(file.content if file else None, record)
        if file is not None and content == file.content:
            return
        try:
            expected = file.hash if file else None
            written = folder.hot.write(placement.path, content, expected=expected, now=now)
        except UnseenEdit as exc:
            self._take_in(folder, placement.path, exc)
            return
        self._note(folder, written, record.id)

    def _take_in(self, folder: HotFolder, path: str, edit: UnseenEdit) -> None:
        """Let a person's version win: it becomes the newest revision, ours stays in the history."""
        now = self._clock()
        for content in edit.displaced:
            self._edits.take_in(folder, path, content, now=now)
        report = self._edits.look(folder, now=now, only=path)
        if report.unsettled or report.held:
            raise edit

    def _remove(self, folder: HotFolder, record: MemoryRecord) -> None:
        for placement in self._catalogue.placed(record.id):
            if placement.path != INDEX:
                folder.hot.remove(
                    placement.path, expected=placement.file_hash, now=self._clock(), keep=False
                )
                folder.hot.forget_snapshots(placement.path)
            self._catalogue.displace(placement.project, placement.path)

    def look(self, folder: HotFolder, *, confirmed: bool = False) -> Report:
        """Take in what people changed in a hot root, and keep its index in step."""
        with folder.lock:
            now = self._clock()
            for late in folder.hot.late_edits(now):
                self._late(folder, late, now)
            report = self._edits.look(folder, now=now, confirmed=confirmed)
            folder.problems.update(report.problems)
            if report.taken_in or report.demoted:
                self.refresh_index(folder)
            return report

    def restore(self, folder: HotFolder) -> int:
        """Put hot files back as their memories are: the answer "no" to held changes.

        What the files hold now is kept as snapshots. Returns how many files were written.
        """
        written = 0
        with folder.lock:
            folder.hot.create()
            for placement in self._catalogue.placements(folder.key).values():
                record = self._current(placement.id)
                if placement.path == INDEX or placement.masked or record is None:
                    continue
                written += self._put_back(folder, record, placement)
            self._catalogue.release(folder.key)
            self._catalogue.set_head(folder.key, folder.head())
            self.refresh_index(folder)
        return written

    def _put_back(self, folder: HotFolder, record: MemoryRecord, placement: Placement) -> bool:
        file = folder.hot.read(placement.path)
        if file is not None and file.hash == placement.file_hash:
            return False
        expected = file.hash if file else None
        content = write_topic(None, record)
        written = folder.hot.write(placement.path, content, expected=expected, now=self._clock())
        self._note(folder, written, record.id)
        return True

    def _late(self, folder: HotFolder, late: HotFile, now: datetime) -> None:
        """Give back what an editor wrote into a file that had been replaced under it."""
        record_id = self._edits.take_in(folder, late.path, late.content, now=now)
        record = self._current(record_id) if record_id else None
        if record is not None:
            self._write(folder, record)

    def refresh_index(self, folder: HotFolder) -> None:
        """Rewrite our block of MEMORY.md when it does not say what is hot; nothing else in it."""
        if not folder.hot.exists():
            return
        for _ in range(_TRIES):
            file = folder.hot.read(INDEX)
            raw = file.content if file else b""
            content = replace_block(raw, self._block(folder, raw))
            if content == raw:
                return
            try:
                expected = file.hash if file else None
                written = folder.hot.write(INDEX, content, expected=expected, now=self._clock())
            except UnseenEdit:
                continue
            self._index_written(folder, written, raw)
            return

    def _index_written(self, folder: HotFolder, written: HotFile, before: bytes) -> None:
        """Note the new file, unless people's part of it has not been taken in yet."""
        placement = self._catalogue.placements(folder.key).get(INDEX)
        unseen = (
            placement is not None
            and placement.file_hash != HotFile(INDEX, before, written.seen).hash
        )
        if unseen or (placement is None and human_part(written.content).strip()):
            return
        masked = placement.masked if placement else False
        self._note(folder, written, index_id(folder.key), masked=masked)

    def _block(self, folder: HotFolder, raw: bytes) -> list[str]:
        human = human_part(raw)
        linked = linked_paths(human)
        rows = [
            (weight, entry.updated_at, index_line(entry.name, path, hook))
            for path, entry in self._placed_entries(folder)
            if path not in linked
            for hook, weight in [self._hook(folder, entry)]
        ]
        rows.sort(reverse=True)
        return fit_block(
            [line for _, _, line in rows],
            human,
            max_lines=self._budget.max_lines,
            max_bytes=self._budget.max_bytes,
        )

    def _placed_entries(self, folder: HotFolder) -> list[tuple[str, Entry]]:
        placements = [p for p in self._catalogue.placements(folder.key).values() if p.path != INDEX]
        entries = self._catalogue.get_many(p.id for p in placements)
        placed = [(p.path, entries[p.id]) for p in placements if p.id in entries]
        return [(path, entry) for path, entry in placed if not entry.tombstone]

    def _hook(self, folder: HotFolder, entry: Entry) -> tuple[str, int]:
        """Say in a few words what a memory is about, and how much it matters."""
        known = folder.hooks.get(entry.id)
        if known is None or known[0] != entry.revision:
            record = self._current(entry.id)
            hook = (record.description or _first_line(record.body)) if record else ""
            known = (entry.revision, hook, _weight(record) if record else 0)
            folder.hooks[entry.id] = known
        return known[1], known[2]

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


def _weight(record: MemoryRecord) -> int:
    order = {Importance.LOW: 0, Importance.MEDIUM: 1, Importance.HIGH: 2}
    return order[record.importance] + (3 if record.pinned else 0)


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")
