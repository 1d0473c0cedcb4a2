"""The lines of a TOML header (`+++`): read with tomllib, patched statement by statement."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tiers.errors import HeaderNotParsed
from tiers.scalars import Scanned, Value, flow, quote, write_key

# A statement's end is found by parsing it with one line more each time.
_MAX_STATEMENT_LINES = 200


@dataclass(frozen=True, slots=True)
class _Statement:
    """One `key = value`, lines[start:end]; `path` includes the table it stands in."""

    path: tuple[str, ...]
    start: int
    end: int
    left: str


def parse(lines: Sequence[str]) -> dict[str, Any]:
    """Parse the header. Raises HeaderNotParsed, whose message names the reason."""
    try:
        # TOML knows no lone carriage return.
        return tomllib.loads("".join(line.rstrip("\r\n") + "\n" for line in lines))
    except (ValueError, RecursionError) as exc:
        raise HeaderNotParsed(str(exc) or "nested too deeply") from exc


def scan(lines: Sequence[str]) -> dict[str, Scanned]:
    """Read what the lines say, as text; nothing when they do not parse."""
    try:
        return {key: _scanned(value) for key, value in parse(lines).items()}
    except HeaderNotParsed:
        return {}


def patch(lines: Sequence[str], changes: Mapping[str, Value], newline: str) -> list[str]:
    """Replace, add or (None) remove the statements of the changed keys; keep every other line.

    `parent.child` means the key in table `parent` where there is such a table. Raises
    HeaderNotParsed when the header does not parse or would not say what it should afterwards.
    """
    before = parse(lines)
    statements, tables = _divide(lines)
    patched = list(lines)
    edits = [
        edit
        for key, value in reversed(list(changes.items()))
        if (edit := _edit(lines, _path(key, before, changes), value, statements, tables, newline))
    ]
    # From the last line to the first, so that earlier line numbers stay true.
    for start, end, new in sorted(edits, key=lambda edit: edit[0], reverse=True):
        patched[start:end] = new
    if parse(patched) != _expected(before, changes):
        raise HeaderNotParsed("the change would touch other keys of the header")
    return patched


def text_of(value: Any) -> str:
    """Write a TOML value as the text of a scalar."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


_Edit = tuple[int, int, list[str]]


def _edit(
    lines: Sequence[str],
    path: tuple[str, ...],
    value: Value,
    statements: Sequence[_Statement],
    tables: Mapping[tuple[str, ...], int],
    newline: str,
) -> _Edit | None:
    found = next((each for each in statements if each.path == path), None)
    if found:
        new = [] if value is None else [_replaced(lines, found, value, newline)]
        return found.start, found.end, new
    if value is None:
        return None
    in_table = path[:-1] in tables
    name = write_key(path[-1]) if in_table else ".".join(map(write_key, path))
    at = tables[path[:-1]] if in_table else tables[()]
    return at, at, [f"{name} = {_write(value)}{newline}"]


def _replaced(lines: Sequence[str], found: _Statement, value: Value, newline: str) -> str:
    line = lines[found.start]
    old = line[len(found.left) + 1 :]
    gap = old[: len(old) - len(old.lstrip(" \t"))]
    comment = _comment(line) if found.end == found.start + 1 else ""
    return f"{found.left}={gap}{_write(value)}{comment}{newline}"


def _comment(line: str) -> str:
    """Cut the comment, with the white space before it, that follows a statement on its line."""
    text = line.rstrip("\r\n")
    for mark in re.finditer("#", text):
        try:
            tomllib.loads(text[: mark.start()])
        except ValueError:
            continue
        return text[len(text[: mark.start()].rstrip()) :]
    return ""


def _path(key: str, before: Mapping[str, Any], changes: Mapping[str, Value]) -> tuple[str, ...]:
    parent, dot, child = key.partition(".")
    is_table = isinstance(before.get(parent), dict) and parent not in changes
    nested = dot and key not in before and is_table
    return (parent, child) if nested else (key,)


def _expected(before: Mapping[str, Any], changes: Mapping[str, Value]) -> dict[str, Any]:
    expected = {key: dict(v) if isinstance(v, dict) else v for key, v in before.items()}
    for key, value in changes.items():
        path = _path(key, before, changes)
        target = expected if len(path) == 1 else expected[path[0]]
        if value is None:
            target.pop(path[-1], None)
        else:
            target[path[-1]] = _plain(value)
    return expected


def _plain(value: Value) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(part) for part in value]
    return value


def _divide(lines: Sequence[str]) -> tuple[list[_Statement], dict[tuple[str, ...], int]]:
    """Find every statement, and for every table the line where a new one may be put."""
    statements: list[_Statement] = []
    tables: dict[tuple[str, ...], int] = {(): 0}
    table: tuple[str, ...] = ()
    at = 0
    while at < len(lines):
        text = lines[at].strip()
        if text.startswith("["):
            # The keys of an array of tables are not addressed: None matches no path.
            table = ("[[]]",) if text.startswith("[[") else _keys(text.split("]")[0][1:])
            at += 1
            tables[table] = at
        elif not text or text.startswith("#"):
            at += 1
        else:
            statement = _statement(lines, at, table)
            statements.append(statement)
            at = tables[table] = statement.end
    return statements, tables


def _statement(lines: Sequence[str], start: int, table: tuple[str, ...]) -> _Statement:
    for end in range(start + 1, min(start + _MAX_STATEMENT_LINES, len(lines)) + 1):
        try:
            parse(lines[start:end])
        except HeaderNotParsed:
            continue
        left = _left(lines[start])
        return _Statement((*table, *_keys(left)), start, end, left)
    raise HeaderNotParsed("a value of the header is too long to be looked through")


def _left(line: str) -> str:
    for equals in re.finditer("=", line):
        left = line[: equals.start()]
        try:
            tomllib.loads(f"{left}= 0")
        except ValueError:
            continue
        return left
    raise HeaderNotParsed("a line of the header has no key")


def _keys(left: str) -> tuple[str, ...]:
    try:
        node: Any = tomllib.loads(f"{left} = 0")
    except ValueError as exc:
        raise HeaderNotParsed("a key of the header cannot be read") from exc
    keys = []
    while isinstance(node, dict):
        ((key, node),) = node.items()
        keys.append(key)
    return tuple(keys)


def _write(value: Value) -> str:
    if isinstance(value, str):
        return quote(value)
    if value is None:
        raise HeaderNotParsed("TOML cannot hold an empty value inside a list or table")
    if isinstance(value, (bool, int, float)):
        return flow(value).replace(".inf", "inf").replace(".nan", "nan")
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{write_key(k)} = {_write(v)}" for k, v in value.items()) + "}"
    return "[" + ", ".join(_write(item) for item in value) + "]"


def _scanned(value: Any) -> Scanned:
    if isinstance(value, dict):
        return {key: text_of(part) for key, part in value.items()}
    if isinstance(value, list):
        return [text_of(item) for item in value]
    return text_of(value)
