"""Bring a home's stores together at start: after a crash, a lost index, or a backup put back."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from memory.hand_edits import apply_topic
from memory.hot_folders import HotFolders
from tiers.archive import Archive, Head
from tiers.catalogue import Catalogue, Entry, Placement
from tiers.deep import DeepStore, StoredPoint
from tiers.errors import TierError
from tiers.filters import All, Eq
from tiers.hot import INDEX
from tiers.markdown import canonical_body, human_part
from tiers.outbox import Change, Outbox, SinkName
from tiers.records import MemoryRecord, Tier, from_json
from tiers.topic import read_topic

log = logging.getLogger(__name__)

#: The hot file is where a recovered memory came from, or was never asked for.
_STORES = (SinkName.ARCHIVE, SinkName.DEEP)


@dataclass(frozen=True, slots=True)
class Reconciled:
    """How much had to be made equal; `queued` numbers what the deep sink was asked for."""

    learnt: int = 0
    recovered: int = 0
    queued: tuple[int, ...] = ()


class Reconciler:
    """Compares heads: the archive's with the catalogue's and with what the deep store holds.

    Relays may deliver meanwhile: whatever is asked for twice changes nothing. `mask` takes the
    secrets out of what a hot file says.
    """

    def __init__(
        self,
        *,
        archive: Archive,
        catalogue: Catalogue,
        outbox: Outbox,
        deep: Callable[[], DeepStore],
        folders: HotFolders,
        mask: Callable[[MemoryRecord], MemoryRecord],
        clock: Callable[[], datetime],
    ) -> None:
        self._archive = archive
        self._catalogue = catalogue
        self._outbox = outbox
        self._deep = deep
        self._folders = folders
        self._mask = mask
        self._clock = clock
        self._is_reopened = False
        self._catalogue_was_lost = False

    def heads(self) -> Reconciled:
        """Make the catalogue know what the archive knows, and the archive what this home knows.

        The first call, before the relays start, also delivers again what is open. Needs no deep
        store.
        """
        self._reopen()
        known = self._catalogue.all_revisions()
        learnt = 0
        for head in self._archive.heads():
            revision, content_hash, _ = known.get(head.id, (0, "", False))
            if (head.revision, head.content_hash) != (revision, content_hash):
                learnt += head.revision >= revision and self._learn(head)
        self._catalogue_was_lost |= learnt > 0 and not known
        return Reconciled(learnt=learnt, recovered=self._recover_here())

    def deep_store(self, *, thorough: bool = False, everything: bool = False) -> Reconciled:
        """Recover what only the deep store has, then ask the deep sink for what it may lack.

        Heads after its mark were not flushed. `thorough` compares every memory by its hash; so does
        a mark or a number of points that shows that another index was put in its place.
        `everything` indexes every memory anew, as when words are weighed in another way.
        """
        deep = self._deep()
        mark = deep.mark()
        ahead: set[str] = set()
        if thorough or mark > self._archive.last_seq() or self._counts_differ(deep):
            wanted, ahead = self._differing(deep)
        else:
            wanted = {head.id: head.project for head in self._archive.heads(after=mark)}
        if everything or self._catalogue_was_lost:
            # With it went the knowledge which vectors are still to come.
            wanted |= {head.id: head.project for head in self._archive.heads()}
        recovered = self._recover({*self.missing_from_archive(), *ahead}, deep)
        queued = self._outbox.invalidate(wanted.items(), now=self._clock())
        if queued:
            log.info("%d memories are made equal in the deep store", len(queued))
        return Reconciled(recovered=recovered, queued=tuple(queued))

    def missing_from_archive(self) -> list[str]:
        """List memories that this home accepted, and that neither archive nor outbox holds."""
        archived = {head.id: head.revision for head in self._archive.heads()}
        return [
            record_id
            for record_id, (revision, _, _) in self._catalogue.all_revisions().items()
            if archived.get(record_id, 0) < revision and not self._is_queued(record_id, revision)
        ]

    def _reopen(self) -> None:
        if not self._is_reopened:
            self._is_reopened = True
            for sink in SinkName:
                self._outbox.reopen(sink)

    def _is_queued(self, record_id: str, revision: int) -> bool:
        queued = self._outbox.newest(record_id)
        return queued is not None and queued.revision >= revision

    def _learn(self, head: Head) -> bool:
        record = self._archive.current(head.id)
        if record is None:
            return False
        entry = self._catalogue.get(head.id)
        tier = Tier.COLD if head.cold else entry.tier if entry else Tier.DEEP
        self._catalogue.put(record, tier)
        return True

    # What an older archive does not know.

    def _recover_here(self) -> int:
        """Accept anew what hot files still say, and that something was forgotten."""
        changes: list[Change] = []
        for record_id in self.missing_from_archive():
            entry, head = self._catalogue.get(record_id), self._archive.head(record_id)
            if entry is None or (head is not None and head.revision >= entry.revision):
                continue
            record = _tombstone(entry) if entry.tombstone else self._from_hot_files(entry)
            if record is not None:
                changes.append(Change(record, entry.tier, _STORES))
        return self._accept(changes, "this home")

    def _from_hot_files(self, entry: Entry) -> MemoryRecord | None:
        for placement in self._catalogue.placed(entry.id):
            try:
                file = self._folders.get(placement.project).hot.read(placement.path)
            except TierError as exc:
                log.warning("%s cannot be recovered from: %s", placement.path, exc.message)
                continue
            if file is not None:
                base = self._archive.current(entry.id) or _blank(entry)
                record = _from_file(base, entry, placement, file.content)
                if record.body.strip() or record.description:
                    return self._mask(record)
        return None

    def _recover(self, record_ids: Iterable[str], deep: DeepStore) -> int:
        """Accept anew what only the deep store has, else the newest that the archive has."""
        changes: list[Change] = []
        for record_id in sorted(record_ids):
            # Read again: a relay may have delivered it since it was found missing.
            entry, head = self._catalogue.get(record_id), self._archive.head(record_id)
            if (entry and entry.tombstone) or (head and head.tombstone):
                continue
            points = _newest(deep.scroll(Eq("id", record_id)))
            indexed = int(points[0].payload["revision"]) if points else 0
            revision = max(indexed, entry.revision if entry else 0)
            archived = head.revision if head else 0
            if archived >= revision or self._is_queued(record_id, revision):
                continue
            record = _joined(points) if indexed > archived else self._archive.current(record_id)
            if record is not None:
                tier = entry.tier if entry else Tier.DEEP
                changes.append(Change(replace(record, revision=revision), tier, _STORES))
        return self._accept(changes, "the deep store")

    def _accept(self, changes: list[Change], source: str) -> int:
        if changes:
            self._outbox.accept(changes, now=self._clock())
            log.warning("%d memories were recovered from %s", len(changes), source)
        return len(changes)

    # What the deep store lacks, or has of another revision.

    def _counts_differ(self, deep: DeepStore) -> bool:
        waiting = self._outbox.backlog(SinkName.DEEP)
        if waiting.waiting or waiting.vector_pending or waiting.dead:
            return False
        return deep.count(All(())) != self._archive.count_chunks()

    def _differing(self, deep: DeepStore) -> tuple[dict[str, str], set[str]]:
        """Compare every point with the heads, by hash.

        Returns the project of each id that is to be made equal, and the ids that are ahead.
        """
        heads = {head.id: head for head in self._archive.heads()}
        live = {key: head for key, head in heads.items() if not (head.tombstone or head.cold)}
        lacking: Counter[str] = Counter()
        equal: set[str] = set()
        differing: dict[str, str] = {}
        ahead: set[str] = set()
        for point in deep.scroll(All(())):
            record_id, head = str(point.payload["id"]), heads.get(str(point.payload["id"]))
            if record_id in live and _is_equal(point, live[record_id]):
                if record_id not in equal:
                    equal.add(record_id)
                    lacking[record_id] += int(point.payload["chunks"])
                lacking[record_id] -= 1
                continue
            differing[record_id] = str(point.payload["project"])
            if head is None or int(point.payload["revision"]) > head.revision:
                ahead.add(record_id)
        for record_id, live_head in live.items():
            if record_id not in equal or lacking[record_id]:
                differing[record_id] = live_head.project
        return differing, ahead


def _is_equal(point: StoredPoint, head: Head) -> bool:
    found = point.payload
    return (found["revision"], found["hash"]) == (head.revision, head.content_hash)


def _newest(points: Iterable[StoredPoint]) -> list[StoredPoint]:
    """Keep the chunks of the latest revision, in their order."""
    found = sorted(points, key=lambda point: int(point.payload["ordinal"]))
    latest = max((int(point.payload["revision"]) for point in found), default=0)
    return [point for point in found if int(point.payload["revision"]) == latest]


def _joined(points: list[StoredPoint]) -> MemoryRecord:
    """Put a memory together from its chunks; blank lines between chunks may differ."""
    body = "\n\n".join(str(point.payload["text"]) for point in points)
    return from_json({**points[0].payload, "body": body})


def _from_file(
    base: MemoryRecord, entry: Entry, placement: Placement, content: bytes
) -> MemoryRecord:
    if placement.path == INDEX:
        return replace(
            base,
            name="MEMORY",
            body=canonical_body(human_part(content)),
            revision=entry.revision,
            deleted=False,
        )
    return apply_topic(
        base,
        read_topic(content),
        placement.path,
        revision=entry.revision,
        now=entry.updated_at,
    )


def _blank(entry: Entry) -> MemoryRecord:
    return MemoryRecord(
        id=entry.id,
        project=entry.project,
        name=entry.name,
        body="",
        revision=entry.revision,
        owner=entry.owner,
        visibility=entry.visibility,
        created_at=entry.updated_at,
        updated_at=entry.updated_at,
    )


def _tombstone(entry: Entry) -> MemoryRecord:
    return replace(_blank(entry), name="", deleted=True)
