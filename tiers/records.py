"""The values every tier keeps: frozen, without I/O."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any


class Tier(StrEnum):
    """The warmest projection a record has."""

    HOT = "hot"
    DEEP = "deep"
    COLD = "cold"


class MemoryType(StrEnum):
    """What a memory is about (requirement G-2)."""

    USER = "user"
    FEEDBACK = "feedback"
    PROJECT = "project"
    REFERENCE = "reference"


class Origin(StrEnum):
    """Who said it."""

    HUMAN = "human"
    USER = "user"
    AGENT = "agent"
    TOOL = "tool"
    WEB = "web"
    IMPORT = "import"


class Importance(StrEnum):
    """How much it matters (requirement P-5)."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


class Visibility(StrEnum):
    """Who may see it."""

    PRIVATE = "private"
    PROJECT = "project"
    TEAM = "team"


#: Types that are private to their owner unless somebody says otherwise.
PRIVATE_TYPES = frozenset({MemoryType.USER, MemoryType.FEEDBACK})

#: The scope that every project may ask for.
GLOBAL_PROJECT = "global"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRecord:
    """One revision of one memory.

    `revision` counts from 1. `deleted` marks a tombstone: it has no body, name, tags or extra.
    Times are aware and in UTC. `extra` holds frontmatter keys that are not ours.
    """

    id: str
    project: str
    name: str
    body: str
    revision: int = 1
    description: str = ""
    type: MemoryType = MemoryType.PROJECT
    category: str = ""
    tags: tuple[str, ...] = ()
    keywords: tuple[str, ...] = ()
    importance: Importance = Importance.MEDIUM
    pinned: bool = False
    origin: Origin = Origin.AGENT
    owner: str = ""
    visibility: Visibility = Visibility.PROJECT
    home_id: str = ""
    session: str = ""
    thread: str = ""
    position: int | None = None
    created_at: datetime
    updated_at: datetime
    expires_at: datetime | None = None
    supersedes: tuple[str, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)
    deleted: bool = False

    @property
    def content_hash(self) -> str:
        """SHA-256 over everything a reader can see or filter by; times of writing are left out.

        Two revisions with equal hashes need not both be kept.
        """
        return _digest({key: value for key, value in to_json(self).items() if key in _CONTENT_KEYS})

    @property
    def text_hash(self) -> str:
        """SHA-256 over the body alone, without its outer white space: the key of duplicates."""
        return text_hash(self.body)

    def is_expired(self, now: datetime) -> bool:
        return self.expires_at is not None and self.expires_at <= now

    def is_seen_by(self, owner: str) -> bool:
        """Say whether somebody may see this: private memories are their owner's alone."""
        return self.visibility is not Visibility.PRIVATE or self.owner == owner

    def tombstone(self, now: datetime) -> MemoryRecord:
        """The next revision, which says only that this memory was forgotten."""
        return MemoryRecord(
            id=self.id,
            project=self.project,
            name="",
            body="",
            revision=self.revision + 1,
            owner=self.owner,
            visibility=self.visibility,
            home_id=self.home_id,
            created_at=self.created_at,
            updated_at=now,
            deleted=True,
        )


_CONTENT_KEYS = frozenset(
    {
        "name",
        "description",
        "body",
        "type",
        "category",
        "tags",
        "keywords",
        "importance",
        "pinned",
        "owner",
        "visibility",
        "thread",
        "position",
        "expires_at",
        "supersedes",
        "extra",
        "deleted",
    }
)


@dataclass(frozen=True, slots=True)
class Usage:
    """How often a memory was of use, or was said to be of none; a search hit is not a use."""

    uses: int = 0
    tasks: tuple[str, ...] = ()
    last_used_at: datetime | None = None
    ignored: int = 0
    wrong: int = 0


def text_hash(text: str) -> str:
    """Hash `text` without its outer white space."""
    return hashlib.sha256(text.strip().encode()).hexdigest()


def format_time(moment: datetime) -> str:
    """Render an aware time as RFC 3339 in UTC, with microseconds only when it has some."""
    text = moment.astimezone(UTC).isoformat()
    return text.replace("+00:00", "Z")


def parse_time(text: str) -> datetime:
    """Read an RFC 3339 time or a date; a time without a zone counts as UTC.

    Raises ValueError for anything else.
    """
    moment = datetime.fromisoformat(text.strip())
    try:
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except OverflowError as exc:
        raise ValueError(f"{text!r} is outside of the calendar") from exc


def to_json(record: MemoryRecord) -> dict[str, Any]:
    """Turn a record into plain JSON values, every field present."""
    return {entry.name: _plain(getattr(record, entry.name)) for entry in fields(record)}


def from_json(data: Mapping[str, Any]) -> MemoryRecord:
    """Build a record from `to_json` output; unknown keys are ignored, missing ones take defaults.

    Raises KeyError or ValueError when what is there cannot be a record.
    """
    known = {entry.name for entry in fields(MemoryRecord)}
    values = {key: value for key, value in data.items() if key in known}
    for key in ("tags", "keywords", "supersedes"):
        if key in values:
            values[key] = tuple(values[key])
    for key in ("created_at", "updated_at", "expires_at"):
        if values.get(key) is not None:
            values[key] = parse_time(values[key])
    for key, kind in _ENUMS.items():
        if key in values:
            values[key] = kind(values[key])
    return MemoryRecord(**values)


def next_revision(record: MemoryRecord, *, now: datetime, **changes: Any) -> MemoryRecord:
    """Copy `record` with `changes`, one revision later."""
    return replace(record, revision=record.revision + 1, updated_at=now, **changes)


_ENUMS: dict[str, type[StrEnum]] = {
    "type": MemoryType,
    "importance": Importance,
    "origin": Origin,
    "visibility": Visibility,
}


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return format_time(value)
    if isinstance(value, StrEnum):
        return str(value)
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value


def _digest(value: Any) -> str:
    # default=str: frontmatter may hold dates and other YAML scalars below `extra`.
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
