"""JSONL files: our own exports, and anybody's lines with a text in them."""

from __future__ import annotations

import gzip
import json
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

from memory.importers.items import MAX_BYTES, ImportFailure, ImportItem, ImportOptions
from memory.importers.template import as_text
from memory.importers.values import (
    Fields,
    as_bool,
    as_importance,
    as_position,
    as_time,
    as_type,
    as_words,
    our_id,
)
from tiers.records import MemoryRecord, Tier, from_json

_SUFFIXES = (".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz")

#: Lines of a file that are looked at for the fields of a template before any is read.
_LINES_LOOKED_AT = 200

#: Fields that together only an export of ours has.
_EXPORT_MARKS = frozenset({"id", "project", "body", "revision", "created_at", "updated_at"})


def is_jsonl(path: Path) -> bool:
    """Say whether a file's name promises one JSON object a line."""
    return path.name.lower().endswith(_SUFFIXES)


def read_jsonl(path: Path, options: ImportOptions) -> Iterator[ImportItem | ImportFailure]:
    """Read a file line by line; a line that cannot be read is reported and the rest goes on."""
    lines = _Lines.of(path, options)
    number = 0
    try:
        if unknown := _unknown_fields(path, options):
            yield ImportFailure(
                path, None, f"no line has the field {unknown!r} that --text names; nothing was read"
            )
            return
        with _open(path) as handle:
            while raw := handle.readline(MAX_BYTES + 1):
                number += 1
                is_whole = _is_whole(raw, handle)
                if raw.strip():
                    yield lines.read(raw, number) if is_whole else _too_long(path, number)
    except (OSError, EOFError, zlib.error) as error:
        yield ImportFailure(path, number + 1, f"the file cannot be read further: {error}")


def _unknown_fields(path: Path, options: ImportOptions) -> str:
    """Name the fields of the template that none of the first lines has: a slip of the pen."""
    if options.template is None:
        return ""
    missing = set(options.template.fields)
    with _open(path) as handle:
        for number in range(_LINES_LOOKED_AT):
            raw = handle.readline(MAX_BYTES + 1)
            if not raw:
                break
            try:
                missing -= _parse(raw, is_first=number == 0).keys()
            except (ValueError, RecursionError):
                continue
    return ", ".join(sorted(missing))


def _open(path: Path) -> BinaryIO:
    if path.suffix.lower() == ".gz":
        return cast("BinaryIO", gzip.open(path, "rb"))
    return path.open("rb")


def _is_whole(raw: bytes, handle: BinaryIO) -> bool:
    """Say whether a line was read whole; if not, pass over the rest of it."""
    if len(raw) <= MAX_BYTES or raw.endswith(b"\n"):
        return True
    while rest := handle.readline(MAX_BYTES):
        if rest.endswith(b"\n"):
            break
    return False


def _too_long(path: Path, number: int) -> ImportFailure:
    return ImportFailure(path, number, f"the line is longer than {MAX_BYTES // 1024**2} MB")


@dataclass(slots=True)
class _Lines:
    """What must be remembered from line to line of one file."""

    path: Path
    options: ImportOptions
    file_key: str
    stem: str
    keys: Counter[str]
    positions: Counter[str]

    @classmethod
    def of(cls, path: Path, options: ImportOptions) -> _Lines:
        real = path.resolve()
        stem = path.name.removesuffix(".gz").rpartition(".")[0]
        file_key = "/".join((*real.parent.parts[-2:], stem)).lstrip("/")
        return cls(path, options, file_key, stem, Counter(), Counter())

    def read(self, raw: bytes, number: int) -> ImportItem | ImportFailure:
        # Counted before the line is looked at: mending a bad line must not move the good ones.
        position = self._next(self.stem)
        try:
            data = _parse(raw, is_first=number == 1)
            if self.options == ImportOptions() and data.keys() >= _EXPORT_MARKS:
                return _exported(_record(data), self.path, was_hot=data.get("tier") == Tier.HOT)
            return self._item(data, position)
        except RecursionError:
            return ImportFailure(self.path, number, "is nested too deeply")
        except (ValueError, KeyError, TypeError) as error:
            return ImportFailure(self.path, number, _reason(error))

    def _next(self, thread: str) -> int:
        self.positions[thread] += 1
        return self.positions[thread] - 1

    def _item(self, data: Mapping[str, Any], position: int) -> ImportItem:
        text = self._text(data)
        left = Fields.of(data)
        values = {
            ours: left.take(self.options.theirs(ours), read) for ours, read in _READERS.items()
        }
        source_id, thread = values.pop("id"), values.pop("thread") or self.stem
        if thread != self.stem:
            position = self._next(thread)
        name = values.pop("name") or source_id or ""
        values |= {"position": position} if values["position"] is None else {}
        return ImportItem(
            key=self._key(source_id or name or str(position)),
            source_path=self.path,
            text=text,
            name=name,
            thread=thread,
            extra={key: value for key, value in left.rest.items() if key not in self._text_fields},
            problems=tuple(left.problems),
            **{ours: value for ours, value in values.items() if value is not None},
        )

    def _text(self, data: Mapping[str, Any]) -> str:
        template, field = self.options.template, self.options.theirs("text")
        if template is None and not isinstance(data.get(field), str):
            raise ValueError(
                f"has no text in {field!r}; say where it is with --field text=… or --text"
            )
        text = str(data[field]) if template is None else template.render(data)
        if not text.strip():
            raise ValueError("the text is empty")
        return text

    @property
    def _text_fields(self) -> frozenset[str]:
        template = self.options.template
        return frozenset({self.options.theirs("text")}) if template is None else template.fields

    def _key(self, identity: str) -> str:
        """Name a line; a name that comes again is told apart by how often it came."""
        key = f"{self.file_key}#{identity}"
        self.keys[key] += 1
        return key if self.keys[key] == 1 else f"{key}~{self.keys[key]}"


def _record(data: Mapping[str, Any]) -> MemoryRecord:
    if not all(isinstance(data[key], str) for key in ("id", "project", "name", "body")):
        raise ValueError("an export's id, project, name and body must be strings")
    if our_id(data["id"]) is None:
        raise ValueError(f"an export's id must be a UUID, not {data['id']!r}")
    return from_json(data)


def _exported(record: MemoryRecord, path: Path, *, was_hot: bool) -> ImportItem:
    return ImportItem(
        key=record.id,
        source_path=path,
        text=record.body,
        name=record.name,
        description=record.description,
        type=record.type,
        category=record.category,
        tags=record.tags,
        keywords=record.keywords,
        importance=record.importance,
        pinned=record.pinned,
        created_at=record.created_at,
        expires_at=record.expires_at,
        thread=record.thread,
        position=record.position,
        supersedes=record.supersedes,
        id=record.id,
        extra=record.extra,
        hot_hint=was_hot,
        record=record,
    )


def _parse(raw: bytes, *, is_first: bool) -> dict[str, Any]:
    data = json.loads(raw.decode("utf-8-sig" if is_first else "utf-8"), parse_constant=_refuse)
    if not isinstance(data, dict):
        raise ValueError("the line is no JSON object")
    if b"\\ud" in raw.lower():
        # Half a surrogate pair is legal JSON and no text: no store would take it.
        json.dumps(data, ensure_ascii=False).encode()
    return data


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON value")


def _reason(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"is no JSON: {error.msg} at column {error.colno}"
    if isinstance(error, (UnicodeDecodeError, UnicodeEncodeError)):
        return f"is no UTF-8 text: {error.reason}"
    if isinstance(error, KeyError):
        return f"has no {error}"
    return str(error)


#: How each of our fields but the text is read.
_READERS: Mapping[str, Callable[[Any], Any]] = {
    "id": as_text,
    "name": as_text,
    "description": as_text,
    "type": as_type,
    "category": as_text,
    "tags": as_words,
    "keywords": as_words,
    "importance": as_importance,
    "pinned": as_bool,
    "created_at": as_time,
    "expires_at": as_time,
    "thread": as_text,
    "position": as_position,
    "supersedes": as_words,
}
