"""Bring a home's stores together at start: after a crash, a lost index, or a backup put back."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from tiers.archive import Archive, Head
from tiers.catalogue import Catalogue, Entry
from tiers.deep import DeepStore, StoredPoint
from tiers.filters import All, Eq
from tiers.outbox import Change, Outbox, SinkName
from tiers.records import MemoryRecord, Tier, from_json

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Reconciled:
    """How much had to be made equal."""

    learnt: int = 0
    reindexed: int = 0
    recovered: int = 0


class Reconciler:
    """Compares heads: the archive's with the catalogue's and with what the deep store flushed."""

    def __init__(
        self,
        *,
        archive: Archive,
        catalogue: Catalogue,
        outbox: Outbox,
        deep: Callable[[], DeepStore],
        clock: Callable[[], datetime],
    ) -> None:
        self._archive = archive
        self._catalogue = catalogue
        self._outbox = outbox
        self._deep = deep
        self._clock = clock

    def heads(self) -> Reconciled:
        """Make the catalogue know what the archive knows, and deliver again what is open.

        Needs no deep store.
        """
        for sink in SinkName:
            self._outbox.reopen(sink)
        known = self._catalogue.all_revisions()
        learnt = 0
        for head in self._archive.heads():
            revision, content_hash, _ = known.get(head.id, (0, "", False))
            if (head.revision, head.content_hash) != (revision, content_hash):
                learnt += head.revision >= revision and self._learn(head)
        return Reconciled(learnt=learnt)

    def _learn(self, head: Head) -> bool:
        record = self._archive.current(head.id)
        if record is None:
            return False
        entry = self._catalogue.get(head.id)
        tier = Tier.COLD if head.cold else entry.tier if entry else Tier.DEEP
        self._catalogue.put(record, tier)
        return True

    def deep_store(self) -> Reconciled:
        """Recover what only the deep store has, then ask the deep sink for what it may lack.

        Heads after its mark were not flushed. A wrong number of points means that an older or a
        foreign index was put in its place: then every head is asked for.
        """
        deep = self._deep()
        recovered = self._recover(deep)
        mark = deep.mark()
        if mark > self._archive.last_seq() or self._counts_differ(deep):
            mark = 0
        heads = [(head.id, head.project) for head in self._archive.heads(after=mark)]
        self._outbox.invalidate(heads, now=self._clock())
        if heads:
            log.info("%d memories are checked against the deep store", len(heads))
        return Reconciled(reindexed=len(heads), recovered=recovered)

    def missing_from_archive(self) -> list[str]:
        """List memories that this home accepted, and that neither archive nor outbox holds."""
        archived = {head.id: head.revision for head in self._archive.heads()}
        return [
            record_id
            for record_id, (revision, _, _) in self._catalogue.all_revisions().items()
            if archived.get(record_id, 0) < revision and self._outbox.newest(record_id) is None
        ]

    def _recover(self, deep: DeepStore) -> int:
        """Accept anew, from the deep store's own text, what an older archive does not know."""
        now = self._clock()
        changes: list[Change] = []
        for record_id in self.missing_from_archive():
            entry = self._catalogue.get(record_id)
            points = sorted(deep.scroll(Eq("id", record_id)), key=_ordinal)
            if entry is None or entry.tombstone or not points:
                continue
            record = _record(points, entry)
            sinks = (SinkName.ARCHIVE, SinkName.DEEP)
            changes.append(Change(replace(record, updated_at=now), entry.tier, sinks))
        if changes:
            self._outbox.accept(changes, now=now)
            log.warning("%d memories were recovered from the deep store", len(changes))
        return len(changes)

    def _counts_differ(self, deep: DeepStore) -> bool:
        waiting = self._outbox.backlog(SinkName.DEEP)
        if waiting.waiting or waiting.vector_pending or waiting.dead:
            return False
        return deep.count(All(())) != self._archive.count_chunks()


def _ordinal(point: StoredPoint) -> int:
    return int(point.payload["ordinal"])


def _record(points: list[StoredPoint], entry: Entry) -> MemoryRecord:
    """Put a memory together from its chunks; blank lines between chunks may differ."""
    payload = dict(points[0].payload)
    body = "\n\n".join(str(point.payload["text"]) for point in points)
    return from_json({**payload, "body": body, "revision": entry.revision})
