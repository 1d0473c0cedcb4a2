"""Where a revision belongs in an archive, and how it is written down: pure, the same for each."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tiers.archive import Appended, Head
from tiers.errors import InvalidRecord
from tiers.records import MemoryRecord, from_json, to_json


@dataclass(frozen=True, slots=True)
class Known:
    """What an archive holds of a memory when a revision of it arrives.

    `hash_at_number` is the content hash kept under the revision's number; `renumbered_as` is the
    number under which this very revision was kept before, after another content had its own.
    """

    head: Head | None = None
    hash_at_number: str | None = None
    renumbered_as: int | None = None


@dataclass(frozen=True, slots=True)
class Placement:
    """What to do with a revision: keep it as the head under `revision`, or nothing."""

    fate: Appended
    revision: int


def place(revision: int, content_hash: str, known: Known) -> Placement:
    """Decide the fate of a revision; after a tombstone each one answers with the tombstone's."""
    head = known.head
    if head is None:
        return Placement(Appended.APPENDED, revision)
    if head.tombstone:
        return Placement(Appended.ALREADY_THERE, head.revision)
    if known.hash_at_number == content_hash:
        return Placement(Appended.ALREADY_THERE, revision)
    if known.renumbered_as is not None:
        return Placement(Appended.ALREADY_THERE, known.renumbered_as)
    if revision > head.revision:
        return Placement(Appended.APPENDED, revision)
    return Placement(Appended.RENUMBERED, head.revision + 1)


def checked(record: MemoryRecord) -> MemoryRecord:
    """Refuse what is no revision, and give `extra` values that JSON can hold.

    Raises InvalidRecord.
    """
    if record.revision < 1:
        raise InvalidRecord(f"revision {record.revision} of {record.id}: revisions count from 1")
    if record.deleted and (record.body or record.name or record.tags or record.extra):
        raise InvalidRecord(f"the tombstone of {record.id} still carries text")
    return replace(record, extra=_finite(record.extra))


def erased(record: MemoryRecord) -> MemoryRecord:
    """Leave of an earlier revision only that it was there and when; its text was forgotten."""
    return replace(record.tombstone(record.updated_at), revision=record.revision)


def record_to_text(record: MemoryRecord) -> str:
    """Write a record down as one JSON text."""
    data = to_json(record)
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), default=str)
    if any("\ud800" <= character <= "\udfff" for character in text):
        # Half a surrogate pair is no Unicode text, but its escape is JSON.
        return json.dumps(data, separators=(",", ":"), default=str)
    return text


def record_from_text(text: str) -> MemoryRecord:
    """Read what `record_to_text` wrote."""
    return from_json(json.loads(text))


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value
