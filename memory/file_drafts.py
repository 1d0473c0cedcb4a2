"""From a hot file's bytes to the revision of a memory that they say."""

from __future__ import annotations

import uuid
from collections.abc import MutableMapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from memory.drafts import Drafted, Drafter, visibility_for
from tiers.catalogue import Catalogue
from tiers.hot import INDEX, LARGEST_FILE_BYTES
from tiers.markdown import canonical_body, human_part
from tiers.records import MemoryRecord, Origin
from tiers.topic import Topic, read_topic

_INDEX_NAMESPACE = uuid.UUID("3d8d7b7e-0e0a-5d0d-8f77-1f1e2a1f6b0e")


@dataclass(frozen=True, slots=True)
class FileDrafter:
    """Reads files of one home as revisions."""

    drafter: Drafter
    catalogue: Catalogue

    def draft(
        self,
        project: str,
        path: str,
        content: bytes,
        *,
        now: datetime,
        record: MemoryRecord | None = None,
        record_id: str | None = None,
        problems: MutableMapping[str, str] | None = None,
    ) -> Drafted | None:
        """Make what a file says the next revision of `record`, or the first of a new memory.

        None when the file holds nothing to remember; why is noted in `problems`.
        """
        notes = _Notes(path, {} if problems is None else problems)
        if len(content) > LARGEST_FILE_BYTES:
            notes.add(f"larger than {LARGEST_FILE_BYTES:,} bytes, so it is not a memory")
            return None
        base = record or self._first(project, record_id, now)
        revision = record.revision + 1 if record else self._next_revision(base.id)
        if path == INDEX:
            return self._index(base, content, revision, now)
        topic = read_topic(content)
        if topic.problems:
            notes.add("; ".join(topic.problems))
        if not topic.body.strip() and not topic.description:
            notes.add("there is no text in it")
            return None
        new = apply_topic(base, topic, path, revision=revision, now=now)
        if record is None:
            new = replace(
                new,
                visibility=visibility_for(new.type, project),
                origin=topic.origin or Origin.HUMAN,
            )
        return self.drafter.masked(new)

    def says_the_same(
        self, project: str, path: str, content: bytes, record: MemoryRecord, *, now: datetime
    ) -> Drafted | None:
        """Read a file that is a second copy of a memory; None when it says anything else.

        A file of text alone says the same when its text is the same.
        """
        drafted = self.draft(project, path, content, now=now, record=record)
        if drafted is None or drafted.record.text_hash != record.text_hash:
            return None
        topic = read_topic(content)
        if replace(topic, body="", problems=(), writable=True) == Topic():
            return drafted
        named = drafted.record if topic.name else replace(drafted.record, name=record.name)
        return drafted if named.content_hash == record.content_hash else None

    def _index(
        self, base: MemoryRecord, content: bytes, revision: int, now: datetime
    ) -> Drafted | None:
        text = canonical_body(human_part(content))
        if not text:
            return None
        new = replace(
            base, name="MEMORY", body=text, revision=revision, updated_at=now, deleted=False
        )
        return self.drafter.masked(new)

    def _next_revision(self, record_id: str) -> int:
        entry = self.catalogue.get(record_id)
        return entry.revision + 1 if entry else 1

    def _first(self, project: str, record_id: str | None, now: datetime) -> MemoryRecord:
        return MemoryRecord(
            id=record_id or self.drafter.new_id(),
            project=project,
            name="",
            body="",
            origin=Origin.HUMAN,
            owner=self.drafter.owner,
            home_id=self.drafter.home_id,
            created_at=now,
            updated_at=now,
        )


@dataclass(frozen=True, slots=True)
class _Notes:
    path: str
    problems: MutableMapping[str, str] = field(default_factory=dict)

    def add(self, problem: str) -> None:
        known = self.problems.get(self.path)
        self.problems[self.path] = f"{known}; {problem}" if known else problem


def index_id(project: str) -> str:
    """Name the memory that is the human part of a project's MEMORY.md."""
    return str(uuid.uuid5(_INDEX_NAMESPACE, project))


def apply_topic(
    base: MemoryRecord, topic: Topic, path: str, *, revision: int, now: datetime
) -> MemoryRecord:
    """Make what a file says the next revision; what files cannot say is kept from `base`."""
    created_at = topic.created_at or base.created_at
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
        expires_at=topic.expires_at or _end(created_at, topic),
        supersedes=topic.supersedes,
        extra=topic.extra,
        revision=revision,
        updated_at=now,
        deleted=False,
    )


def _end(created_at: datetime, topic: Topic) -> datetime | None:
    try:
        return created_at + topic.ttl if topic.ttl else None
    except OverflowError:
        return None
