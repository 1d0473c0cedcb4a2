"""The use cases, without any transport: save, move, pin, forget. Searching is in `search.py`."""

from __future__ import annotations

import logging
import secrets
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from memory.drafts import Draft, Drafted, Drafter
from memory.errors import Ambiguous, Forgotten, NotFound, Refused, ServiceError, UsageError
from memory.feedback import verdicts_on
from memory.hand_edits import index_id
from memory.hot_folders import HotFolder, HotFolders
from memory.hot_sink import HotSink
from memory.moves import refusal, tier_of
from memory.reader import Known, MemoryReader, some_ids
from memory.redaction import Found
from tiers.archive import Archive
from tiers.catalogue import Catalogue, Entry
from tiers.errors import TierError
from tiers.hot import INDEX
from tiers.outbox import Change, Delivery, Outbox, SinkName
from tiers.records import Importance, MemoryRecord, Tier, Visibility, next_revision
from tiers.usage import Recall, UsageLog, Verdict

__all__ = ["Known", "MemoryService", "Receipt", "Save", "new_id"]

log = logging.getLogger(__name__)


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


@dataclass(slots=True)
class _Plan:
    """What is going to be accepted: revisions, and then moves of what is kept already.

    `takes_out` says that a tier which is asked for may take a memory out of hot.
    """

    folder: HotFolder
    now: datetime
    takes_out: bool
    changes: list[Change] = field(default_factory=list)
    moves: list[Change] = field(default_factory=list)

    @property
    def records(self) -> dict[str, MemoryRecord]:
        return {change.record.id: change.record for change in self.changes}


class MemoryService(MemoryReader):
    """The verbs of the product. Any thread may use it.

    `save` returns when the memory is durable in the outbox; no model and no server is on its path.
    """

    def __init__(
        self,
        *,
        catalogue: Catalogue,
        outbox: Outbox,
        archive: Archive,
        usage: UsageLog,
        folders: HotFolders,
        hot_sink: HotSink,
        drafter: Drafter,
        clock: Callable[[], datetime],
        notify: Callable[[], None],
    ) -> None:
        super().__init__(
            catalogue=catalogue,
            outbox=outbox,
            archive=archive,
            usage=usage,
            folders=folders,
            drafter=drafter,
            clock=clock,
        )
        self._hot_sink = hot_sink
        self._notify = notify

    # Saving.

    def save(self, project: str, save: Save) -> Receipt:
        """Keep one memory. Raises UsageError, NotFound or Refused for what cannot be kept.

        The tier that is asked for holds for a memory that exists, too.
        """
        (receipt,) = self._save(project, [save], takes_out=True)
        if isinstance(receipt, ServiceError):
            raise receipt
        return receipt

    def save_many(self, project: str, saves: Sequence[Save]) -> list[Receipt | ServiceError]:
        """Keep memories in one transaction; each that cannot be kept gives its error instead.

        The tiers are for new memories: an import that is run again takes none out of hot.
        """
        return self._save(project, saves, takes_out=False)

    def _save(
        self, project: str, saves: Sequence[Save], *, takes_out: bool
    ) -> list[Receipt | ServiceError]:
        folder = self._folders.get(project)
        plan = _Plan(folder, self._clock(), takes_out)
        results: list[Receipt | ServiceError] = []
        with folder.lock:
            self._take_in_edits(folder, saves)
            for save in saves:
                try:
                    results.append(self._plan(plan, save))
                except ServiceError as exc:
                    results.append(exc)
            self._accept(plan.changes, plan.now)
            self._accept(plan.moves, plan.now)
        return [
            self._receipt(result) if isinstance(result, Receipt) else result for result in results
        ]

    def _plan(self, plan: _Plan, save: Save) -> Receipt:
        folder = plan.folder
        base = self._base(plan, save)
        drafted = self._drafter.draft(
            save.draft,
            project=folder.key,
            now=plan.now,
            base=base,
            record_id=save.record_id,
            allow=save.allow,
        )
        record = drafted.record
        if save.tier is Tier.COLD:
            raise UsageError("a memory is saved hot or deep", hint="say --tier hot or --tier deep")
        if base is None and not save.record_id and not save.draft.name:
            base = self._same_text(plan, record)
            if base is not None:
                return self._unchanged(plan, base, save, drafted)
        if base is not None and record.content_hash == base.content_hash:
            return self._unchanged(plan, base, save, drafted)
        self._refuse_masked_file(base)
        _refuse_taking(base, record, self.owner)
        return Receipt(record, self._put(plan, base, save, record), None, masked=drafted.masked)

    def _put(
        self, plan: _Plan, base: MemoryRecord | None, save: Save, record: MemoryRecord
    ) -> Tier:
        """Plan a revision for its tier; returns that."""
        folder = plan.folder
        known = self._tier_of(base)
        wanted = None if known is Tier.HOT and not plan.takes_out else save.tier
        tier = tier_of(record, folder, base=base, known=known, wanted=wanted)
        if known is not Tier.HOT or tier is Tier.HOT:
            plan.changes.append(Change(record, tier))
        elif folder.may_hold(record):
            # Until the file goes, it says what is current.
            plan.changes.append(Change(record, Tier.HOT))
            plan.moves.append(_move(record, tier))
        else:
            plan.changes.append(Change(record, tier, tuple(SinkName)))
        return tier

    def _tier_of(self, base: MemoryRecord | None) -> Tier | None:
        entry = self._catalogue.get(base.id) if base else None
        return entry.tier if entry else None

    def _base(self, plan: _Plan, save: Save) -> MemoryRecord | None:
        """Find the memory that a save revises: by id, else by its exact name."""
        planned, project = plan.records, plan.folder.key
        record_id = save.record_id
        if record_id is None and save.draft.name:
            name = save.draft.name.strip()
            for record in planned.values():
                if record.name == name:
                    return record
            record_id = self._named(project, name)
        if record_id is None:
            return None
        if record_id in planned:
            return planned[record_id]
        entry = self._catalogue.get(record_id)
        if entry is None:
            return None
        if entry.tombstone and entry.is_seen_by(self.owner):
            raise Forgotten(f"memory {record_id} was forgotten")
        if not self._is_live(project, entry):
            raise NotFound(f"no memory {record_id} is in this project")
        return self._last_known(entry)

    def _named(self, project: str, name: str) -> str | None:
        named = self._going_by(project, name)
        if len(named) > 1:
            ids = some_ids(named)
            raise Ambiguous(f"{len(named)} memories go by {name!r}: {ids}", hint="say --id ID")
        return named[0].id if named else None

    def _take_in_edits(self, folder: HotFolder, saves: Sequence[Save]) -> None:
        """Make a person's edits revisions before anything is written over them."""
        if any(save.record_id or save.draft.name for save in saves):
            self._look(folder)

    def _look(self, folder: HotFolder) -> None:
        if folder.hot.exists():
            self._hot_sink.look(folder)

    def _same_text(self, plan: _Plan, record: MemoryRecord) -> MemoryRecord | None:
        for other in plan.changes:
            if other.record.text_hash == record.text_hash:
                return other.record
        project = plan.folder.key
        for entry in self._catalogue.with_text(project, record.text_hash):
            if entry.is_expired(plan.now) or entry.id == index_id(project):
                continue
            if entry.is_seen_by(self.owner):
                return self._last_known(entry)
        return None

    def _unchanged(self, plan: _Plan, base: MemoryRecord, save: Save, drafted: Drafted) -> Receipt:
        """Keep what is there; only the tier that was asked for may be another one."""
        tier = self._tier_of(base) or Tier.DEEP
        is_whole = base.text_hash == drafted.record.text_hash
        if plan.takes_out and is_whole and save.tier not in (None, tier) and tier is not Tier.COLD:
            placed = self._catalogue.placed(base.id)
            if refusal(base, save.tier, plan.folder, placed) is None:
                tier = save.tier
                plan.moves.append(_move(base, tier))
        return Receipt(base, tier, None, unchanged=True, masked=drafted.masked)

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

    # Accepting.

    def _accept(self, changes: Sequence[Change], now: datetime) -> None:
        """Make changes durable, and write hot files at once where that is possible."""
        if changes:
            self._write_hot(changes, self._outbox.accept(changes, now=now))
            self._notify()

    def _write_hot(self, changes: Sequence[Change], seqs: Sequence[int]) -> None:
        """Try to write hot files at once; the relay tries again what does not succeed."""
        mine = [
            Delivery(seq, change.record.id, change.record.project, change.record, 0)
            for seq, change in zip(seqs, changes, strict=True)
            if SinkName.HOT in change.concerned and self._is_due(change)
        ]
        if not mine:
            return
        numbers = [delivery.seq for delivery in mine]
        try:
            self._hot_sink.apply(mine)
            self._outbox.ack(SinkName.HOT, numbers)
        except TierError as exc:
            self._note_hot_failure(numbers, exc)

    def _is_due(self, change: Change) -> bool:
        """Say whether a file can be written or removed now: some go only when others have it."""
        is_written = change.tier is Tier.HOT or change.record.deleted
        return is_written or self._outbox.is_settled(change.record.id)

    def _note_hot_failure(self, numbers: Sequence[int], exc: TierError) -> None:
        log.warning("hot files are written later: %s", exc.message)
        try:
            self._outbox.fail(SinkName.HOT, numbers, error=exc.message)
        except TierError as again:
            # The save is accepted all the same, and its delivery is still open.
            log.warning("that is not noted: %s", again.message)

    def _receipt(self, receipt: Receipt) -> Receipt:
        record_id = receipt.record.id
        pending = tuple(self._outbox.pending(record_id))
        return replace(receipt, path=self.path_of(record_id), pending=pending)

    # Moving and pinning.

    def move(self, project: str, ref: str, to: Tier) -> Receipt:
        """Make a memory hot (a file, loaded at every start) or deep (found by searching).

        Its text, revision and origin stay. A file goes only when archive and deep store have what
        it says, so it may be there for a while; what a person writes into it until then wins.
        Raises Refused for what must stay where it is, UsageError for another tier, and
        StoreUnavailable when its text cannot be read now.
        """
        if to is Tier.COLD:
            raise UsageError(
                "a memory is moved to hot or to deep", hint="say hot (a file) or deep (an index)"
            )
        folder = self._folders.get(project)
        now = self._clock()
        with folder.lock:
            self._look(folder)
            entry = self.find(project, ref)
            record = self._read(entry, ref)
            if entry.tier is not to:
                refused = refusal(record, to, folder, self._catalogue.placed(record.id))
                if refused is not None:
                    raise refused
                if entry.tier is Tier.COLD:
                    self._archive.set_cold([record.id], False)
                self._accept([_move(record, to, was=entry.tier)], now)
        return self._receipt(Receipt(record, to, None, unchanged=entry.tier is to))

    def pin(self, project: str, ref: str, pinned: bool) -> Receipt:
        """Keep a memory where it is, or no longer; what is so already is not changed.

        Raises Refused for a file that is people's to write.
        """
        return self._revise(project, ref, lambda _: {"pinned": pinned})

    def weigh(self, project: str, ref: str, importance: Importance) -> Receipt:
        """Say how much a memory matters; what is so already is not changed. Raises as `pin`."""
        return self._revise(project, ref, lambda _: {"importance": importance})

    def label(self, project: str, ref: str, tag: str, *, is_on: bool) -> Receipt:
        """Give a memory a tag or take it away; what is so already is not changed.

        Raises as `pin`.
        """

        def tags(record: MemoryRecord) -> dict[str, tuple[str, ...]]:
            others = tuple(one for one in record.tags if one != tag)
            if is_on == (tag in record.tags):
                return {}
            return {"tags": (*others, tag) if is_on else others}

        return self._revise(project, ref, tags)

    def _revise(
        self, project: str, ref: str, changes: Callable[[MemoryRecord], Mapping[str, Any]]
    ) -> Receipt:
        """Change something beside the text, as a new revision of what is there now."""
        folder = self._folders.get(project)
        now = self._clock()
        with folder.lock:
            self._look(folder)
            entry = self.find(project, ref)
            record = self._read(entry, ref)
            changed = next_revision(record, now=now, **changes(record))
            unchanged = changed.content_hash == record.content_hash
            if not unchanged:
                self._refuse_masked_file(record)
                self._accept([Change(changed, entry.tier)], now)
        kept = record if unchanged else changed
        return self._receipt(Receipt(kept, entry.tier, None, unchanged=unchanged))

    # Forgetting.

    def forget(self, project: str, entries: Sequence[Entry]) -> dict[str, list[SinkName]]:
        """Forget memories in every tier; returns, by id, the stores that are still to follow.

        Raises Refused for the human part of MEMORY.md, which only people change, and NotFound for
        what is not to be seen here.
        """
        folder = self._folders.get(project)
        now = self._clock()
        with folder.lock:
            for entry in entries:
                if entry.project != project or not entry.is_seen_by(self.owner):
                    raise NotFound(f"no memory goes by {entry.id!r} here")
                if entry.id == index_id(project):
                    raise Refused(
                        f"this memory is what people wrote in {INDEX}",
                        hint=f"delete the lines in {folder.hot.root / INDEX}",
                    )
            changes = [
                Change(self._last_known(entry).tombstone(now), entry.tier) for entry in entries
            ]
            self._accept(changes, now)
        self._forget_usage([entry.id for entry in entries])
        return {entry.id: self._outbox.pending(entry.id) for entry in entries}

    def _forget_usage(self, record_ids: Sequence[str]) -> None:
        try:
            self._usage.forget(record_ids)
        except TierError as exc:
            # Nothing but ids lies there.
            log.warning("the use of what was forgotten is still noted: %s", exc.message)

    # What became of a search.

    def note_search(self, project: str, record_ids: Collection[str]) -> str | None:
        """Note what a search gave; returns the receipt for `feedback`, or None without one.

        A search goes on when it cannot be noted.
        """
        if not record_ids:
            return None
        try:
            return self._usage.note(project, self.owner, record_ids, now=self._clock())
        except TierError as exc:
            log.warning("a search has no receipt: %s", exc.message)
            return None

    def recalled(self, project: str, limit: int) -> list[Recall]:
        """Read what the last searches gave, newest first, without what was forgotten since."""
        return self._usage.recent(project, self.owner, limit)

    def feedback(
        self,
        project: str,
        receipt: str,
        *,
        used: Collection[str] = (),
        ignored: Collection[str] = (),
        wrong: Collection[str] = (),
    ) -> dict[str, Verdict]:
        """Keep what is said of the memories that a search gave, by id or its start.

        Saying it again changes nothing, saying otherwise replaces it. Returns what was understood,
        by whole id. Raises NotFound for a receipt or a memory in it that is not to be seen here.
        """
        now = self._clock()
        shown = self._usage.shown(receipt.strip(), now=now)
        if shown is None or (shown.project, shown.owner) != (project, self.owner):
            raise NotFound(
                f"there is no receipt {receipt!r} here",
                hint="give the receipt of a search in this project; it is kept for 90 days",
            )
        said: Mapping[Verdict, Collection[str]] = {
            Verdict.USED: used,
            Verdict.IGNORED: ignored,
            Verdict.WRONG: wrong,
        }
        verdicts = verdicts_on(shown.memories, said)
        self._usage.tell(receipt.strip(), verdicts, now=now)
        return verdicts


def _move(record: MemoryRecord, to: Tier, *, was: Tier | None = None) -> Change:
    """Say that a memory belongs to another tier; archive and index have it, but not if it is cold.

    The index is then asked to take it from the archive again.
    """
    sinks = (SinkName.HOT, SinkName.DEEP) if was is Tier.COLD else (SinkName.HOT,)
    return Change(record, to, sinks)


def _refuse_taking(base: MemoryRecord | None, record: MemoryRecord, owner: str) -> None:
    """Refuse to make somebody else's memory private, which would take it from everybody else."""
    if base is None or base.owner == owner or base.visibility is Visibility.PRIVATE:
        return
    if record.visibility is Visibility.PRIVATE:
        raise Refused(
            f"{base.name!r} belongs to {base.owner}, who alone can make it private",
            hint="save it as a memory of your own, under another name",
        )


def new_id() -> str:
    """Make the id of a new memory."""
    return str(uuid.uuid4())


def new_receipt_id() -> str:
    """Make the id of a receipt: short, since agents carry it about."""
    return secrets.token_hex(6)
