"""Keeps our block of MEMORY.md in step with what is hot; every other line there is a person's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from memory.hand_edits import HandEdits, index_id
from memory.hot_folders import HotFolder
from tiers.catalogue import Catalogue, Entry
from tiers.errors import InvalidRecord, StoreUnavailable
from tiers.hot import INDEX, LARGEST_FILE_BYTES, HotFile, UnseenEdit, file_hash
from tiers.markdown import (
    canonical_body,
    fit_block,
    human_part,
    index_line,
    linked_paths,
    replace_block,
)
from tiers.records import Importance, MemoryRecord, format_time

_TRIES = 5


@dataclass(frozen=True, slots=True)
class IndexBudget:
    """What the client itself would load of MEMORY.md (Claude Code: 200 lines, 25 KB)."""

    max_lines: int = 200
    max_bytes: int = 25_000


class HotIndex:
    """Writes the index of a hot root. Callers hold the folder's lock."""

    def __init__(
        self,
        *,
        catalogue: Catalogue,
        edits: HandEdits,
        current: Callable[[str], MemoryRecord | None],
        clock: Callable[[], datetime],
        budget: IndexBudget,
    ) -> None:
        self._catalogue = catalogue
        self._edits = edits
        self._current = current
        self._clock = clock
        self._budget = budget

    def refresh(self, folder: HotFolder) -> None:
        """Rewrite our block of MEMORY.md when it does not say what is hot; nothing else in it."""
        if not folder.hot.exists() or self._catalogue.held(folder.key):
            # While a checkout is held, MEMORY.md is as it was checked out: git can switch back.
            return
        folder.problems.pop(INDEX, None)
        for _ in range(_TRIES):
            file = folder.hot.read(INDEX)
            raw = file.content if file else b""
            if len(raw) > LARGEST_FILE_BYTES:
                folder.problems[INDEX] = "too large, so the index in it is not kept in step"
                return
            content = replace_block(raw, self._block(folder, raw))
            if content == raw:
                return
            try:
                expected = file.hash if file else None
                written = folder.hot.write(INDEX, content, expected=expected, now=self._clock())
            except UnseenEdit as exc:
                for displaced in exc.displaced:
                    self._edits.take_in(folder, INDEX, displaced, now=self._clock())
                continue
            except InvalidRecord as exc:
                # A link to somewhere else: people keep it there, and it is theirs alone.
                folder.problems[INDEX] = exc.message
                return
            self._index_written(folder, written, raw)
            # People's part of it is a memory with a history; the rest names what may be forgotten.
            folder.hot.snapshots.forget(INDEX)
            return
        folder.problems[INDEX] = "is edited all the time, or no file; its index is not kept in step"

    def put_back(self, folder: HotFolder) -> bool:
        """Give people's part of MEMORY.md back as its memory has it; False when it is as it was."""
        placement = self._catalogue.placements(folder.key).get(INDEX)
        record = self._current(placement.id) if placement and not placement.masked else None
        file = folder.hot.read(INDEX)
        if record is None or record.deleted:
            return False
        if file is not None and canonical_body(human_part(file.content)) == record.body:
            return False
        raw = f"{record.body}\n".encode()
        content = replace_block(raw, self._block(folder, raw))
        expected = file.hash if file else None
        written = folder.hot.write(INDEX, content, expected=expected, now=self._clock())
        self._catalogue.place(folder.placement(written, record.id))
        return True

    def _index_written(self, folder: HotFolder, written: HotFile, before: bytes) -> None:
        """Note the new file, unless people's part of it has not been taken in yet."""
        placement = self._catalogue.placements(folder.key).get(INDEX)
        unseen = placement is not None and placement.file_hash != file_hash(before)
        if unseen or (placement is None and human_part(written.content).strip()):
            return
        masked = placement.masked if placement else False
        self._catalogue.place(folder.placement(written, index_id(folder.key), masked=masked))

    def _block(self, folder: HotFolder, raw: bytes) -> list[str]:
        human = human_part(raw)
        linked = linked_paths(human)
        rows = [
            (weight, "" if folder.tracked else format_time(entry.updated_at), path, entry, hook)
            for path, entry in self._placed_entries(folder)
            if path not in linked
            for hook, weight in [self._hook(folder, entry)]
        ]
        # In a tracked folder the order must not depend on who saw which change when.
        rows.sort(key=lambda row: row[2])
        rows.sort(key=lambda row: row[:2], reverse=True)
        return fit_block(
            [index_line(entry.name, path, hook) for _, _, path, entry, hook in rows],
            human,
            max_lines=self._budget.max_lines,
            max_bytes=self._budget.max_bytes,
        )

    def _placed_entries(self, folder: HotFolder) -> list[tuple[str, Entry]]:
        placements = [p for p in self._catalogue.placements(folder.key).values() if p.path != INDEX]
        entries = self._catalogue.get_many(p.id for p in placements)
        # In a tracked folder a line must not be missing for what one person knows.
        reader = "" if folder.tracked else folder.owner
        replaced = self._catalogue.superseded_by(list(entries), owner=reader)
        now = self._clock()
        return [
            (placement.path, entry)
            for placement in placements
            if (entry := entries.get(placement.id)) is not None
            and not (entry.tombstone or entry.is_expired(now) or entry.id in replaced)
        ]

    def _hook(self, folder: HotFolder, entry: Entry) -> tuple[str, int]:
        """Say in a few words what a memory is about, and how much it matters."""
        known = folder.hooks.get(entry.id)
        if known is None or known[0] != entry.revision:
            try:
                record = self._current(entry.id)
            except StoreUnavailable:
                # Without the archive a line says only the name; the next refresh completes it.
                return "", 0
            hook = (record.description or _first_line(record.body)) if record else ""
            known = (entry.revision, hook, _weight(record) if record else 0)
            folder.hooks[entry.id] = known
        return known[1], known[2]


def _weight(record: MemoryRecord) -> int:
    order = {Importance.LOW: 0, Importance.MEDIUM: 1, Importance.HIGH: 2}
    return order[record.importance] + (3 if record.pinned else 0)


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")
