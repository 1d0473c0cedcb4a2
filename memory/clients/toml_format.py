"""Edits of TOML settings that touch nothing but one table.

What stands where is found here, what it means is left to tomllib. A table is added at the end,
behind one line end that goes again with it: so removing gives back every byte that adding found.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

_KEY = r"""(?:[A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*')"""
_DOTTED = rf"{_KEY}(?:[ \t]*\.[ \t]*{_KEY})*"
_HEADER = re.compile(rf"\[\[?[ \t]*{_DOTTED}[ \t]*\]\]?")
_NAME = re.compile(rf"({_DOTTED})[ \t]*=[ \t]*")
_BLANK = re.compile(r"(?:[ \t\r\n]+|#[^\n]*)*")
_PIECE = re.compile(
    r'"""(?:[^\\]|\\[\s\S])*?""""{0,2}'
    r"|'''[\s\S]*?''''{0,2}"
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|'[^'\n]*'"
    r"|[\[{]|[\]}]|\r?\n|[#][^\n]*|[^\[\]{}\"'#\r\n]+"
)
_BYTE_ORDER_MARK = "\ufeff"

Keys = tuple[str, ...]


class TomlError(ValueError):
    """A text is not what its client could read, or is written in a way that is not edited."""


@dataclass(frozen=True, slots=True)
class Statement:
    """A header or an assignment, and the keys from the root to what it is about.

    Its value, which a header has not, stands in the text from `value` to `end`.
    """

    keys: Keys
    start: int
    value: int
    end: int

    @property
    def is_header(self) -> bool:
        return self.value == self.end


class TomlFormat:
    """TOML, with one table for each server."""

    def read(self, text: str) -> dict[str, Any]:
        """Read the settings. Raises TomlError, with the position, for what is no TOML."""
        try:
            return tomllib.loads(text.removeprefix(_BYTE_ORDER_MARK))
        except ValueError as exc:
            raise TomlError(str(exc)) from exc
        except RecursionError as exc:
            raise TomlError("its values lie too deep") from exc

    def new(self, keys: Keys, value: Mapping[str, Any]) -> str:
        """Write a file that holds one table."""
        return _block(keys, value, "\n")

    def add(self, text: str, keys: Keys, value: Mapping[str, Any]) -> str:
        """Add a table. Raises TomlError where it could not stand."""
        _check_way(self.read(text), keys)
        newline = _newline(text)
        return self._checked(text, text + newline + _block(keys, value, newline), keys, value)

    def set(self, text: str, keys: Keys, value: Any) -> str:
        """Replace a value, or add it to its table."""
        settings = self.read(text)
        statements = list(_statements(text))
        table = {**_at(settings, keys[:-1]), keys[-1]: value}
        for statement in statements:
            if statement.keys == keys and not statement.is_header:
                changed = text[: statement.value] + _value(value) + text[statement.end :]
                return self._checked(text, changed, keys[:-1], table)
        for statement in statements:
            if statement.keys == keys[:-1] and statement.is_header:
                line = _newline(text) + f"{keys[-1]} = {_value(value)}"
                changed = text[: statement.end] + line + text[statement.end :]
                return self._checked(text, changed, keys[:-1], table)
        raise TomlError(f"{'.'.join(keys[:-1])} is not written as a table of its own")

    def remove(self, text: str, keys: Keys) -> str | None:
        """Take a table away; None when no file is left."""
        self.read(text)
        own = [found for found in _statements(text) if found.keys[: len(keys)] == keys]
        spans = [_lines(text, statement) for statement in own]
        if own and own[0].is_header and own[0].keys == keys:
            if spans[0][0] == 0 and spans[-1][1] == len(text) and _is_whole(text, spans):
                return None
            spans[0] = (_before_line_end(text, spans), spans[0][1])
        return self._checked(text, _without(text, spans), keys, None)

    def _checked(self, before: str, after: str, keys: Keys, value: Mapping[str, Any] | None) -> str:
        """Let a changed text through if it says what was meant, and nothing else has changed."""
        refusal = TomlError(f"{'.'.join(keys)} is written in a way that is not edited here")
        try:
            changed = self.read(after)
        except TomlError as exc:
            raise refusal from exc
        if _with(self.read(before), keys, value) != _with(changed, keys, _at(changed, keys)):
            raise refusal
        return after


def _check_way(settings: dict[str, Any], keys: Keys) -> None:
    for depth, key in enumerate(keys):
        if not isinstance(settings, dict):
            raise TomlError(f"{'.'.join(keys[:depth])} is not a table")
        settings = settings.get(key, {})


def _at(settings: dict[str, Any], keys: Keys) -> Any:
    found: Any = settings
    for key in keys:
        found = found.get(key) if isinstance(found, dict) else None
    return found


def _with(settings: dict[str, Any], keys: Keys, value: Any) -> dict[str, Any]:
    """Copy settings with one value replaced, or left out for None; no table on the way is empty."""
    key, *rest = keys
    inner = settings.get(key)
    if rest:
        value = _with(inner if isinstance(inner, dict) else {}, tuple(rest), value) or None
    others = {name: item for name, item in settings.items() if name != key}
    return others if value is None else {**others, key: value}


def _block(keys: Keys, value: Mapping[str, Any], newline: str) -> str:
    lines = [f"[{'.'.join(keys)}]", *(f"{key} = {_value(item)}" for key, item in value.items())]
    return "".join(line + newline for line in lines)


def _value(value: Any) -> str:
    """Write texts and lists of texts, which are the same in TOML as in JSON but for DEL."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


# Where things stand. The text is known to be TOML.


def _statements(text: str) -> Iterator[Statement]:
    table: Keys = ()
    offset = len(_BYTE_ORDER_MARK) if text.startswith(_BYTE_ORDER_MARK) else 0
    while True:
        offset = _end(_BLANK.match(text, offset))
        if offset >= len(text):
            return
        if header := _HEADER.match(text, offset):
            table = _keys(header[0])
            yield Statement(table, offset, header.end(), header.end())
            offset = header.end()
            continue
        name = _NAME.match(text, offset)
        if name is None:
            raise TomlError("it is written in a way that is not edited here")
        end = _end_of_value(text, name.end())
        yield Statement(table + _keys(f"{name[1]} = 0"), offset, name.end(), end)
        offset = end


def _end(found: re.Match[str] | None) -> int:
    return found.end() if found else 0


def _keys(statement: str) -> Keys:
    """Take the keys out of a header or an assignment of a number."""
    found: Any = tomllib.loads(statement)
    keys: list[str] = []
    while isinstance(found, dict | list) and found:
        if isinstance(found, list):
            found = found[0]
            continue
        key, found = next(iter(found.items()))
        keys.append(key)
    return tuple(keys)


def _end_of_value(text: str, offset: int) -> int:
    depth, end = 0, offset
    while piece := _PIECE.match(text, offset):
        if depth == 0 and piece[0][0] in "\r\n#":
            break
        depth += (piece[0] in "[{") - (piece[0] in "]}")
        offset = piece.end()
        end = piece.start() + len(piece[0].rstrip(" \t")) if piece[0].strip() else end
    return end


def _lines(text: str, statement: Statement) -> tuple[int, int]:
    """Widen a statement to its lines, their end included."""
    start = text.rfind("\n", 0, statement.start) + 1
    end = text.find("\n", statement.end) + 1
    return start, end or len(text)


def _is_whole(text: str, spans: list[tuple[int, int]]) -> bool:
    return not _without(text, spans).strip()


def _before_line_end(text: str, spans: list[tuple[int, int]]) -> int:
    """Find the start of the line end that a table was added with, before its first line."""
    start = spans[0][0]
    before = text[:start]
    ending = "\r\n" if before.endswith("\r\n") else "\n" if before.endswith("\n") else ""
    kept = before[: len(before) - len(ending)]
    is_blank = kept.removeprefix(_BYTE_ORDER_MARK) == "" or kept.endswith("\n")
    return len(kept) if is_blank or spans[-1][1] == len(text) else start


def _without(text: str, spans: list[tuple[int, int]]) -> str:
    pieces, done = [], 0
    for start, end in spans:
        pieces.append(text[done:start])
        done = max(done, end)
    return "".join([*pieces, text[done:]])
