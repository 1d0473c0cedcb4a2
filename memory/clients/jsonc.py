"""JSON as settings files have it, read so that everything keeps its place in the text.

Standard library only. A file of somebody else's is data: depth and size are bounded by the reader.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_DEEPEST = 100

_TOKEN = re.compile(
    r"""
    (?P<space> [ \t\r\n]+ )
  | (?P<line_comment> //[^\r\n]* )
  | (?P<block_comment> /\*[\s\S]*?\*/ )
  | (?P<string> "(?:[^"\\\x00-\x1f]|\\.)*" )
  | (?P<literal> (?:-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null)
                 (?![\w.+-]) )
  | (?P<mark> [][{}:,] )
    """,
    re.VERBOSE,
)


class JsonError(ValueError):
    """A text is not what its client could read; the message says where."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """What a client allows beyond plain JSON."""

    comments: bool = False
    trailing_commas: bool = False


@dataclass(frozen=True, slots=True)
class Token:
    """One piece of the text that is not white space: `kind` is a mark itself, or names it."""

    kind: str
    start: int
    end: int

    @property
    def is_comment(self) -> bool:
        return self.kind.endswith("comment")


@dataclass(frozen=True, slots=True)
class Node:
    """A value and the tokens it stands in, both ends included; `members` is None for no object."""

    value: Any
    first: int
    last: int
    members: tuple[Member, ...] | None = None


@dataclass(frozen=True, slots=True)
class Member:
    """One entry of an object; `name` is the token of its key."""

    key: str
    name: int
    node: Node


@dataclass(frozen=True, slots=True)
class Document:
    """A whole text: its tokens, comments included, and the value at its root."""

    text: str
    tokens: tuple[Token, ...]
    root: Node

    def where(self, token: int) -> str:
        return position(self.text, self.tokens[token].start)


def parse(text: str, dialect: Dialect) -> Document:
    """Read a text. Raises JsonError, with the position, for what the dialect does not have."""
    tokens = tuple(_tokens(text, dialect))
    return Document(text, tokens, _Parser(text, tokens, dialect).document())


def position(text: str, offset: int) -> str:
    """Name a place in a text as editors do."""
    before = text[:offset].removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    lines = before.split("\n")
    return f"line {len(lines)}, column {len(lines[-1]) + 1}"


def _tokens(text: str, dialect: Dialect) -> Iterator[Token]:
    offset = 1 if text.startswith("\ufeff") else 0
    while offset < len(text):
        found = _TOKEN.match(text, offset)
        if found is None:
            raise JsonError(f"{text[offset]!r} is not expected at {position(text, offset)}")
        kind = str(found.lastgroup)
        if kind.endswith("comment") and not dialect.comments:
            raise JsonError(f"a comment, which plain JSON has not, at {position(text, offset)}")
        if kind != "space":
            yield Token(found[0] if kind == "mark" else kind, offset, found.end())
        offset = found.end()


class _Parser:
    """One pass over the tokens; `_at` is the next one that is no comment."""

    def __init__(self, text: str, tokens: tuple[Token, ...], dialect: Dialect) -> None:
        self._text = text
        self._tokens = tokens
        self._dialect = dialect
        self._at = 0
        self._skip_comments()

    def document(self) -> Node:
        root = self._value(0)
        if self._at < len(self._tokens):
            raise self._unexpected()
        return root

    def _value(self, depth: int) -> Node:
        if depth > _DEEPEST:
            raise JsonError(f"values lie more than {_DEEPEST} deep at {self._where()}")
        match self._kind():
            case "{":
                return self._object(depth)
            case "[":
                return self._array(depth)
            case "string" | "literal":
                value = self._scalar()
                return Node(value, self._at, self._step())
        raise self._unexpected()

    def _object(self, depth: int) -> Node:
        first = self._step()
        members: list[Member] = []
        while self._kind() != "}":
            if self._kind() != "string":
                raise self._unexpected()
            key = self._scalar()
            name = self._step()
            self._expect(":")
            members.append(Member(key, name, self._value(depth + 1)))
            self._comma("}")
        value = {member.key: member.node.value for member in members}
        return Node(value, first, self._step(), tuple(members))

    def _array(self, depth: int) -> Node:
        first = self._step()
        values: list[Any] = []
        while self._kind() != "]":
            values.append(self._value(depth + 1).value)
            self._comma("]")
        return Node(values, first, self._step())

    def _comma(self, closing: str) -> None:
        """Pass the comma between two items, or the one after the last where it is allowed."""
        if self._kind() == closing:
            return
        comma = self._at
        self._expect(",")
        if self._kind() == closing and not self._dialect.trailing_commas:
            where = position(self._text, self._tokens[comma].start)
            raise JsonError(f"a comma with nothing after it at {where}")

    def _scalar(self) -> Any:
        token = self._tokens[self._at]
        try:
            return json.loads(self._text[token.start : token.end])
        except ValueError as exc:
            raise JsonError(f"{exc.args[0].partition(':')[0]} at {self._where()}") from exc

    def _expect(self, mark: str) -> None:
        if self._kind() != mark:
            raise self._unexpected()
        self._step()

    def _kind(self) -> str:
        return self._tokens[self._at].kind if self._at < len(self._tokens) else "end"

    def _step(self) -> int:
        """Pass a token and say which it was."""
        passed = self._at
        self._at += 1
        self._skip_comments()
        return passed

    def _skip_comments(self) -> None:
        while self._at < len(self._tokens) and self._tokens[self._at].is_comment:
            self._at += 1

    def _where(self) -> str:
        token = self._tokens[self._at] if self._at < len(self._tokens) else None
        return position(self._text, token.start if token else len(self._text))

    def _unexpected(self) -> JsonError:
        if self._at >= len(self._tokens):
            return JsonError(f"it ends too early, at {self._where()}")
        token = self._tokens[self._at]
        # What a text says may be nobody else's business, and messages end up in logs.
        shown = "a text" if token.kind == "string" else repr(self._text[token.start : token.end])
        return JsonError(f"{shown[:30]} is not expected at {self._where()}")
