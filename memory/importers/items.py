"""What an import yields, and how it was asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Self

from memory.errors import UsageError
from memory.importers.template import TextTemplate
from tiers.records import Importance, MemoryRecord, MemoryType

#: A larger file or line is no memory; it is reported and left alone.
MAX_BYTES = 4 * 1024 * 1024

#: What `--field` may map.
FIELDS = (
    "id",
    "text",
    "name",
    "description",
    "type",
    "category",
    "tags",
    "keywords",
    "importance",
    "pinned",
    "created_at",
    "expires_at",
    "thread",
    "position",
    "supersedes",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportItem:
    """One memory as its source has it.

    `key` is the same each time the same source is read, so a second import meets its own memories.
    `id` is set when the source names a memory of ours; `record` when the source is an export,
    and is then to be taken as it stands. `problems` are for people: what was read in another way
    than it was meant. `hot_hint` says that the source kept this memory in view.
    """

    key: str
    source_path: Path
    text: str
    name: str = ""
    description: str = ""
    type: MemoryType | None = None
    category: str = ""
    tags: tuple[str, ...] = ()
    keywords: tuple[str, ...] = ()
    importance: Importance | None = None
    pinned: bool = False
    created_at: datetime | None = None
    expires_at: datetime | None = None
    thread: str = ""
    position: int | None = None
    supersedes: tuple[str, ...] = ()
    id: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    hot_hint: bool = False
    record: MemoryRecord | None = None
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ImportFailure:
    """A file, or a line of one, that could not be read, and why."""

    path: Path
    line: int | None
    reason: str


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """How fields of a JSONL file are to be understood.

    `fields` maps our names to theirs. `template` builds the text when there is one.
    """

    fields: Mapping[str, str] = field(default_factory=dict)
    template: TextTemplate | None = None

    @classmethod
    def parse(cls, fields: Sequence[str] = (), text: str | None = None) -> Self:
        """Read the values of `--field` and `--text`. Raises UsageError."""
        mapping: dict[str, str] = {}
        for pair in fields:
            ours, theirs = _split_pair(pair)
            if mapping.setdefault(ours, theirs) != theirs:
                raise UsageError(
                    f"--field names {ours} twice: {mapping[ours]} and {theirs}",
                    hint="give each of our fields once",
                )
        if text is not None and "text" in mapping:
            raise UsageError(
                "--field text=… and --text both say what the text is", hint="give one of them"
            )
        return cls(mapping, None if text is None else TextTemplate.parse(text))

    def theirs(self, ours: str) -> str:
        """Name the field of the source that holds one of ours."""
        return self.fields.get(ours, ours)


def _split_pair(pair: str) -> tuple[str, str]:
    ours, equals, theirs = (part.strip() for part in pair.partition("="))
    if not (ours and equals and theirs):
        raise UsageError(
            f"--field {pair!r} is not of the form ours=theirs",
            hint="for example: --field name=title",
        )
    if ours not in FIELDS:
        raise UsageError(
            f"--field {pair!r}: we have no {ours!r}", hint=f"take one of {', '.join(FIELDS)}"
        )
    return ours, theirs
