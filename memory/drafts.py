"""From what somebody wants kept to a record: checked, and with its secrets masked."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from memory.errors import UsageError
from memory.redaction import Found, redact
from tiers.markdown import canonical_body
from tiers.records import (
    GLOBAL_PROJECT,
    PRIVATE_TYPES,
    Importance,
    MemoryRecord,
    MemoryType,
    Origin,
    Visibility,
)

_LONGEST_NAME = 200
_NAME_CHARACTERS = 60
_MARKDOWN_LEAD = re.compile(r"^[\s>#*+\-`_]+|[\s`*_:]+$")
_MASK = re.compile(r"\[masked:[a-z-]+\]")
_TTL = re.compile(r"^(\d+)\s*(m|h|d|w)$")
_TTL_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """What somebody wants kept. None means: as it is, or the default for a new memory.

    `forever` takes an expiry away again.
    """

    text: str
    name: str | None = None
    description: str | None = None
    type: MemoryType | None = None
    category: str | None = None
    tags: tuple[str, ...] | None = None
    keywords: tuple[str, ...] | None = None
    importance: Importance | None = None
    pinned: bool | None = None
    origin: Origin | None = None
    visibility: Visibility | None = None
    session: str | None = None
    thread: str | None = None
    position: int | None = None
    created_at: datetime | None = None
    expires_at: datetime | None = None
    forever: bool = False
    supersedes: tuple[str, ...] | None = None
    extra: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Drafted:
    """A record with its secrets masked, and how many of which kind there were."""

    record: MemoryRecord
    masked: tuple[Found, ...] = ()


@dataclass(frozen=True, slots=True)
class Drafter:
    """Builds records for one home. Pure but for `new_id`."""

    owner: str
    home_id: str
    new_id: Callable[[], str]
    max_bytes: int = 1_000_000
    allowed_secrets: frozenset[str] = field(default_factory=frozenset)

    def for_owner(self, owner: str) -> Drafter:
        """Build records of this home for somebody else."""
        return self if owner == self.owner else replace(self, owner=owner)

    def draft(
        self,
        draft: Draft,
        *,
        project: str,
        now: datetime,
        base: MemoryRecord | None = None,
        record_id: str | None = None,
        allow: frozenset[str] = frozenset(),
    ) -> Drafted:
        """Build the next revision of `base`, or the first of a new memory.

        Raises UsageError for text that is empty, too long or not text, and for impossible names.
        """
        text = self._checked_text(draft.text)
        name = "" if draft.name is None else checked_name(draft.name)
        old = base or _blank(record_id or self.new_id(), project, self.owner, self.home_id, now)
        changes = {key: value for key, value in _changes(draft).items() if value is not None}
        if draft.forever or (draft.expires_at is None and old.is_expired(now)):
            # What is said again after it expired is meant to be known again.
            changes["expires_at"] = None
        kind = changes.get("type", old.type)
        if base is None:
            changes.setdefault("visibility", visibility_for(kind, project))
        record = replace(
            old,
            **changes,
            body=text,
            name=name or old.name,
            revision=old.revision + 1 if base else 1,
            updated_at=now,
        )
        drafted = self.masked(record, allow=allow)
        if drafted.record.name:
            return drafted
        return replace(drafted, record=_named_after_text(drafted.record))

    def masked(self, record: MemoryRecord, *, allow: frozenset[str] = frozenset()) -> Drafted:
        """Mask the secrets in everything of a record that can hold text."""
        counts: Counter[str] = Counter()

        def clean(text: str) -> str:
            result = redact(text, allow=self.allowed_secrets | allow)
            for found in result.found:
                counts[found.kind] += found.count
            return result.text

        cleaned = replace(
            record,
            name=clean(record.name),
            description=clean(record.description),
            body=clean(record.body),
            category=clean(record.category),
            session=clean(record.session),
            thread=clean(record.thread),
            tags=tuple(clean(tag) for tag in record.tags),
            keywords=tuple(clean(word) for word in record.keywords),
            extra=_clean_extra(record.extra, clean),
        )
        return Drafted(cleaned, tuple(Found(kind, n) for kind, n in sorted(counts.items())))

    def _checked_text(self, text: str) -> str:
        try:
            size = len(text.encode())
        except UnicodeEncodeError as exc:
            raise UsageError(
                "the text is not valid Unicode", hint="save it as UTF-8 and try again"
            ) from exc
        if not text.strip():
            raise UsageError("there is no text to remember", hint="tiermem save 'what to keep'")
        if size > self.max_bytes:
            raise UsageError(
                f"the text has {size:,} bytes; at most {self.max_bytes:,} are one memory",
                hint="split it, or put it into files and run: tiermem import FOLDER",
            )
        # NUL is valid Unicode, but neither files for people nor Postgres can hold it.
        return canonical_body(text.replace("\0", "\N{REPLACEMENT CHARACTER}"))


def checked_name(name: str) -> str:
    """Return a name without its outer white space; raises UsageError for an impossible one."""
    clean = name.strip()
    if not clean or len(clean) > _LONGEST_NAME or not clean.isprintable():
        raise UsageError(
            f"a name has 1 to {_LONGEST_NAME} printable characters on one line",
            hint="leave --name out to have one made from the text",
        )
    if ".." in clean.split("/") or "\\" in clean or clean.startswith("/"):
        raise UsageError(
            f"{clean!r} looks like a path, not a name", hint="use a name without ../ and /"
        )
    return clean


def derived_name(text: str) -> str:
    """Make a name from the first words of a text."""
    for line in text.splitlines():
        words = _MARKDOWN_LEAD.sub("", line).split()
        if not words:
            continue
        name = words[0][:_NAME_CHARACTERS]
        for word in words[1:]:
            if len(name) + 1 + len(word) > _NAME_CHARACTERS:
                break
            name = f"{name} {word}"
        printable = "".join(c for c in name if c.isprintable()).replace("\\", " ").strip("./ ")
        if printable:
            return printable
    return "note"


def _named_after_text(record: MemoryRecord) -> MemoryRecord:
    return replace(record, name=derived_name(_MASK.sub("", record.body)))


def parse_ttl(text: str, now: datetime) -> datetime | None:
    """Read a lifetime such as 30m, 12h, 14d or 2w; "never" means none. Raises UsageError."""
    word = text.strip().lower()
    if word == "never":
        return None
    found = _TTL.match(word)
    if not found or int(found[1]) == 0 or int(found[1]) > 100_000:
        raise UsageError(
            f"{text!r} is no lifetime",
            hint="give a number and a unit, as in 12h, 14d, 2w; or never",
        )
    return now + timedelta(**{_TTL_UNITS[found[2]]: int(found[1])})


def _blank(record_id: str, project: str, owner: str, home_id: str, now: datetime) -> MemoryRecord:
    return MemoryRecord(
        id=record_id,
        project=project,
        name="",
        body="",
        owner=owner,
        home_id=home_id,
        created_at=now,
        updated_at=now,
    )


def _changes(draft: Draft) -> dict[str, Any]:
    return {
        "description": draft.description,
        "type": draft.type,
        "category": draft.category,
        "tags": _words(draft.tags),
        "keywords": _words(draft.keywords),
        "importance": draft.importance,
        "pinned": draft.pinned,
        "origin": draft.origin,
        "visibility": draft.visibility,
        "session": draft.session,
        "thread": draft.thread,
        "position": draft.position,
        "created_at": draft.created_at,
        "expires_at": draft.expires_at,
        "supersedes": draft.supersedes,
        "extra": draft.extra,
    }


def _words(words: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """Strip words, and drop empty and repeated ones."""
    if words is None:
        return None
    return tuple(dict.fromkeys(clean for word in words if (clean := word.strip())))


def visibility_for(kind: MemoryType, project: str) -> Visibility:
    """Choose who may see a new memory: what is about a person stays with that person."""
    if kind in PRIVATE_TYPES or project == GLOBAL_PROJECT:
        return Visibility.PRIVATE
    return Visibility.PROJECT


def _clean_extra(extra: Any, clean: Callable[[str], str]) -> Any:
    if isinstance(extra, str):
        return clean(extra)
    if isinstance(extra, Mapping):
        return {clean(str(key)): _clean_extra(value, clean) for key, value in extra.items()}
    if isinstance(extra, (list, tuple)):
        return [_clean_extra(value, clean) for value in extra]
    return extra
