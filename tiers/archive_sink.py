"""The sink that appends accepted revisions to the archive."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tiers.archive import Appended, Archive
from tiers.catalogue import Catalogue
from tiers.outbox import Delivery, SinkName


class ArchiveSink:
    """Appends revisions; a number that was taken elsewhere is noted in the catalogue."""

    name = SinkName.ARCHIVE

    def __init__(self, archive: Archive, catalogue: Catalogue) -> None:
        self._archive = archive
        self._catalogue = catalogue

    def apply(self, deliveries: Sequence[Delivery]) -> Collection[str]:
        """Append a batch in one transaction, opening the archive if it could not be opened yet."""
        self._archive.open()
        records = [delivery.record for delivery in deliveries if delivery.record is not None]
        for outcome in self._archive.append(records):
            if outcome.fate is Appended.RENUMBERED:
                self._catalogue.renumber(outcome.id, outcome.revision)
        return ()
