"""Record ⇄ topic file: what the keys of a header mean, and which of them a change touches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from tiers.errors import HeaderNotParsed
from tiers.header_values import (
    as_flag,
    as_id,
    as_importance,
    as_lifetime,
    as_lower_words,
    as_member,
    as_text,
    as_time,
    as_words,
)
from tiers.markdown import Parts, Value, canonical_body, patch, render, split
from tiers.parsed_header import json_safe, read_header
from tiers.records import Importance, MemoryRecord, MemoryType, Origin, format_time


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """What a topic file says. None stands for what the file does not say.

    `extra` holds the keys that are not ours and the values of ours that cannot be read, as plain
    JSON values. `body` is in the form of `canonical_body`; the whole text when the header cannot
    be parsed, and then `writable` is false. Each problem names its line, where it has one.
    """

    id: str = ""
    name: str = ""
    description: str = ""
    type: MemoryType = MemoryType.PROJECT
    category: str = ""
    tags: tuple[str, ...] = ()
    keywords: tuple[str, ...] = ()
    importance: Importance = Importance.MEDIUM
    pinned: bool = False
    created_at: datetime | None = None
    updated_at: datetime | None = None
    expires_at: datetime | None = None
    ttl: timedelta | None = None
    supersedes: tuple[str, ...] = ()
    origin: Origin | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    body: str = ""
    problems: tuple[str, ...] = ()
    writable: bool = True


@dataclass(frozen=True, slots=True)
class _Key:
    """A key of ours: how it may be spelled (the first is what we write) and how it is read.

    A key that is `silent` is not written to a file that says nothing by it.
    """

    field: str
    spellings: tuple[str, ...]
    read: Callable[[Any, Any], Any]
    silent: bool = False


_KEYS = (
    _Key("name", ("name",), as_text),
    _Key("description", ("description",), as_text),
    _Key("type", ("type", "metadata.type"), as_member(MemoryType)),
    _Key("id", ("id",), as_id, silent=True),
    _Key("category", ("category",), as_text),
    _Key("tags", ("tags",), as_words),
    _Key("keywords", ("keywords",), as_lower_words),
    _Key("importance", ("importance",), as_importance),
    _Key("pinned", ("pinned",), as_flag),
    _Key("created_at", ("created", "created_at"), as_time, silent=True),
    _Key("expires_at", ("expires", "expires_at"), as_time),
    _Key("supersedes", ("supersedes",), as_words),
    _Key("origin", ("origin",), as_member(Origin), silent=True),
)
# Read alone: a time of writing is no reason to rewrite a file, a lifetime becomes `expires`.
_READ_ONLY = (
    _Key("updated_at", ("updated", "updated_at", "modified", "metadata.modified"), as_time),
    _Key("ttl", ("ttl",), as_lifetime),
)
_OURS = frozenset(spelling for key in (*_KEYS, *_READ_ONLY) for spelling in key.spellings)
# What a file without keys means: a person wrote it, and nothing is known but its text.
_NEW_FILE = Topic(origin=Origin.HUMAN)
_ALWAYS = frozenset({"name", "type", "id"})


@dataclass(frozen=True, slots=True)
class _Reading:
    """A topic, under which spelling each field was found, and which keys have keys below."""

    topic: Topic
    found: Mapping[str, str]
    parents: frozenset[str]


def read_topic(raw: bytes, *, default_name: str = "") -> Topic:
    """Read a topic file. Never raises: what cannot be read is in the topic's `problems`."""
    return _read(split(raw), default_name).topic


def topic_fields(record: MemoryRecord) -> dict[str, Value]:
    """Choose the keys of a new file for a record: its name and id, and what is not the default."""
    wanted = _wanted(record)
    fields = {
        key.spellings[0]: _written(wanted[key.field])
        for key in _KEYS
        if key.field in _ALWAYS or wanted[key.field] != getattr(_NEW_FILE, key.field)
    }
    others = {key: part for key, part in json_safe(record.extra).items() if key not in _OURS}
    return fields | others


def write_topic(raw: bytes | None, record: MemoryRecord, *, default_name: str = "") -> bytes:
    """Write a record over the file `raw`, or as a new file for None.

    An existing file keeps every byte but the lines of keys whose value, as `read_topic` reads it,
    is not the record's; when nothing differs, the result is `raw` itself. `default_name` is the
    name of a file that has none in its header. Raises HeaderNotParsed when the header cannot be
    parsed or the change cannot be made without touching other lines.
    """
    if raw is None:
        return render(topic_fields(record), record.body)
    reading = _read(split(raw), default_name)
    changes = _changes(reading, record)
    body = canonical_body(record.body)
    if not changes and body == reading.topic.body:
        return raw
    if not reading.topic.writable:
        raise HeaderNotParsed(f"the header cannot be parsed: {reading.topic.problems[-1]}")
    changes |= _time_of_writing(reading, record)
    written = patch(raw, changes, None if body == reading.topic.body else body)
    again = _read(split(written), default_name)
    if again.topic.body != body or _changes(again, record):
        raise HeaderNotParsed("the header cannot say what the memory says")
    return written


def _read(parts: Parts, default_name: str) -> _Reading:
    header = read_header(parts)
    problems = [*map(str, parts.problems), *header.problems]
    values: dict[str, Any] = {}
    found: dict[str, str] = {}
    consumed: set[str] = set()
    for key in (*_KEYS, *_READ_ONLY):
        spelling = next((each for each in key.spellings if header.has(each)), None)
        if spelling is None:
            continue
        found[key.field] = spelling
        value, text = header.value(spelling), header.text(spelling)
        try:
            if value is not None:
                values[key.field] = key.read(value, text)
            consumed.add(spelling)
        except ValueError as exc:
            problems.append(f"{header.where(spelling)}{spelling}: {exc}")
    if not values.get("name"):
        values["name"] = default_name
    if "expires_at" not in found:
        values["expires_at"] = _end_of_life(values)
    topic = Topic(
        **values,
        extra=header.without(consumed),
        body=parts.body_text if header.parsed else canonical_body(_whole(parts)),
        problems=tuple(problems),
        writable=header.parsed and not parts.unclosed,
    )
    return _Reading(topic, found, header.parents)


def _end_of_life(values: Mapping[str, Any]) -> datetime | None:
    """Count a lifetime from the last time of writing that the file tells."""
    base: datetime | None = values.get("updated_at") or values.get("created_at")
    ttl: timedelta | None = values.get("ttl")
    try:
        return base + ttl if base and ttl else None
    except OverflowError:
        return None  # later than any time there is


def _whole(parts: Parts) -> str:
    lines = (parts.opening, *parts.header, parts.closing, parts.body)
    return b"".join(lines).decode("utf-8", "replace")


def _wanted(record: MemoryRecord) -> dict[str, Any]:
    """Read a record's fields as a file would give them back."""
    wanted = {key.field: getattr(record, key.field) for key in _KEYS}
    wanted["tags"] = as_words(list(record.tags))
    wanted["keywords"] = as_lower_words(list(record.keywords))
    wanted["supersedes"] = as_words(list(record.supersedes))
    return wanted


def _changes(reading: _Reading, record: MemoryRecord) -> dict[str, Value]:
    topic, wanted = reading.topic, _wanted(record)
    changes: dict[str, Value] = {}
    for key in _KEYS:
        value = wanted[key.field]
        told = getattr(topic, key.field)
        unsaid = key.field not in reading.found
        # What a file does not say, or not legibly, is not told it either.
        silent = (key.silent or key.field == "name") and not told
        if value == told or silent:
            continue
        if key.field == "expires_at" and unsaid and "ttl" in reading.found:
            if topic.expires_at is None and value is not None and topic.ttl:
                continue  # the lifetime counts from a time that the file does not say
            changes[reading.found["ttl"]] = None
        changes[reading.found.get(key.field, key.spellings[0])] = _written(value)
    return changes | _extra_changes(reading, json_safe(record.extra))


def _written(value: Any) -> Value:
    """Turn a field into the value of its key; what is empty has no key."""
    if isinstance(value, datetime):
        return format_time(value)
    if isinstance(value, tuple):
        return list(value) or None
    return value if isinstance(value, bool) else str(value or "") or None


def _extra_changes(reading: _Reading, wanted: Mapping[str, Any]) -> dict[str, Value]:
    """Find the other keys that differ; a mapping changes key by key, as ours may stand in it."""
    extra = reading.topic.extra
    shared = {path.partition(".")[0] for path in reading.found.values() if "." in path}
    changes: dict[str, Value] = {}
    for key in dict.fromkeys((*extra, *wanted)):
        before, after = extra.get(key), wanted.get(key)
        inner = after if isinstance(after, Mapping) else {}
        if key in reading.parents and (inner or (key in shared and after is None)):
            below = before or {}
            changes |= {
                f"{key}.{child}": inner.get(child)
                for child in dict.fromkeys((*below, *inner))
                if f"{key}.{child}" not in _OURS
                and _told(below.get(child)) != _told(inner.get(child))
            }
        elif key not in _OURS and _told(before) != _told(after):
            changes[key] = after
    return changes


def _told(value: Any) -> Any:
    """Take a key without a value, or with an empty mapping, for no key at all."""
    return None if value == {} else value


def _time_of_writing(reading: _Reading, record: MemoryRecord) -> dict[str, Value]:
    """Bring a time of writing up to date, unless a lifetime counts from it."""
    path = reading.found.get("updated_at")
    if path is None or "." in path or "ttl" in reading.found:
        return {}
    return {path: format_time(record.updated_at)}
