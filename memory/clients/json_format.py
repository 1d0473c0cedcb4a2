"""Edits of JSON settings that touch nothing but one member.

An edit is undone without any memory of it, from how it lies in the text: a member that was put into
an object which was empty stands right behind its brace, and an object that was made for a member
has it on a line of its own. So removing gives back every byte that adding found.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from memory.clients.jsonc import Dialect, Document, JsonError, Member, Node, Token, parse

Keys = tuple[str, ...]

#: A span and what shall stand there instead; edits of one text never overlap.
Edit = tuple[int, int, str]


@dataclass(frozen=True, slots=True)
class JsonFormat:
    """JSON in the dialect that one client reads."""

    dialect: Dialect

    def read(self, text: str) -> dict[str, Any]:
        """Read the settings. Raises JsonError unless they are an object."""
        return dict(self._document(text).root.value)

    def new(self, keys: Keys, value: Any) -> str:
        """Write a file that holds one value."""
        return f"{_expanded(_nested(keys, value), '', _Style())}\n"

    def add(self, text: str, keys: Keys, value: Any) -> str:
        """Add a member, and what it lies in. Raises JsonError where that is no object."""
        document = self._document(text)
        holder, depth = _deepest(document, keys)
        if depth == len(keys):
            raise JsonError(f"{'.'.join(keys)} is there already")
        made = keys[depth + 1 :]
        return _apply(
            text, _addition(document, holder, keys[depth], _nested(made, value), is_made=bool(made))
        )

    def set(self, text: str, keys: Keys, value: Any) -> str:
        """Replace a value, or add it."""
        document = self._document(text)
        node, depth = _deepest(document, keys)
        if depth < len(keys):
            return self.add(text, keys, value)
        span = document.tokens[node.first].start, document.tokens[node.last].end
        return _apply(text, [(*span, _compact(value))])

    def remove(self, text: str, keys: Keys) -> str | None:
        """Take a member away, and the objects that were made for it; None when no file is left."""
        edits = _removal(self._document(text), keys)
        return None if edits is None else _apply(text, edits)

    def _document(self, text: str) -> Document:
        document = parse(text, self.dialect)
        if document.root.members is None:
            raise JsonError(f"it holds {_named(document.root)}, not an object")
        return document


def _deepest(document: Document, keys: Keys) -> tuple[Node, int]:
    """Follow keys as far as they lead; says how many of them are there."""
    node = document.root
    for depth, key in enumerate(keys):
        if node.members is None:
            raise JsonError(
                f"{'.'.join(keys[:depth])} is {_named(node)}, not an object, "
                f"at {document.where(node.first)}"
            )
        found = [member for member in node.members if member.key == key]
        if not found:
            return node, depth
        if len(found) > 1:
            places = " and at ".join(document.where(member.name) for member in found)
            raise JsonError(f"{key!r} stands there more than once: at {places}")
        node = found[0].node
    return node, len(keys)


def _named(node: Node) -> str:
    if isinstance(node.value, list):
        return "a list"
    return "a text" if isinstance(node.value, str) else json.dumps(node.value)


# Adding.


@dataclass(frozen=True, slots=True)
class _Style:
    """How a text is laid out: its line end, and what one level of it is indented by."""

    newline: str = "\n"
    unit: str = "  "


def _addition(
    document: Document, holder: Node, key: str, value: Any, *, is_made: bool
) -> list[Edit]:
    """Add a member; `is_made` says that its value is an object made for something in it."""
    text, tokens, style = document.text, document.tokens, _style(document)
    outer = _line_indentation(text, tokens[holder.first].start)
    inner = _inner_indentation(document, holder) or outer + style.unit
    if not holder.members:
        last = holder.last - 1
        if last == holder.first:
            return [_insertion(tokens[last], _member(key, value, outer, style))]
        return [_insertion(tokens[last], style.newline + inner + _member(key, value, inner, style))]
    last = holder.members[-1].node.last
    following = _next(tokens, last)
    has_comma = tokens[following].kind == ","
    comma = [] if has_comma else [_insertion(tokens[last], ",")]
    last = _with_remarks(document, following if has_comma else last)
    if _breaks(text[tokens[holder.first].start : tokens[holder.last].end]):
        member = style.newline + inner + _member(key, value, inner, style)
    elif is_made:
        member = f" {_member(key, value, outer, style)}"
    else:
        member = f" {_compact(key)}: {_compact(value)}"
    return [*comma, _insertion(tokens[last], member + "," * has_comma)]


def _with_remarks(document: Document, token: int) -> int:
    """Pass the comments that stand behind a token on its line."""
    text, tokens = document.text, document.tokens
    while tokens[token + 1].is_comment and not _breaks(
        text[tokens[token].end : tokens[token + 1].start]
    ):
        token += 1
    return token


def _style(document: Document) -> _Style:
    text, tokens = document.text, document.tokens
    newline = next((end for end in ("\r\n", "\n", "\r") if end in text), "\n")
    for member in document.root.members or ():
        if unit := _indentation(text, tokens[member.name].start):
            return _Style(newline, unit)
    return _Style(newline)


def _inner_indentation(document: Document, holder: Node) -> str | None:
    """Find how the last member is indented that begins a line."""
    found = (
        _indentation(document.text, document.tokens[member.name].start)
        for member in reversed(holder.members or ())
    )
    return next((indentation for indentation in found if indentation is not None), None)


def _indentation(text: str, offset: int) -> str | None:
    """Find how something is indented; None when it does not begin a line."""
    start = offset
    while start and text[start - 1] in " \t":
        start -= 1
    begins = start == 0 or text[start - 1] in "\r\n\ufeff"
    return text[start:offset] if begins else None


def _line_indentation(text: str, offset: int) -> str:
    start = max(text.rfind("\n", 0, offset), text.rfind("\r", 0, offset)) + 1
    end = start
    while text[end] in " \t":
        end += 1
    return text[start:end]


def _member(key: str, value: Any, indentation: str, style: _Style) -> str:
    return f"{_compact(key)}: {_expanded(value, indentation, style)}"


def _expanded(value: Any, indentation: str, style: _Style) -> str:
    """Write objects over several lines, and everything else on one."""
    if not isinstance(value, dict):
        return _compact(value)
    inner = indentation + style.unit
    lines = f",{style.newline}".join(
        inner + _member(key, item, inner, style) for key, item in value.items()
    )
    return f"{{{style.newline}{lines}{style.newline}{indentation}}}"


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _nested(keys: Sequence[str], value: Any) -> Any:
    for key in reversed(keys):
        value = {key: value}
    return value


# Removing.


def _removal(document: Document, keys: Keys) -> list[Edit] | None:
    text, tokens = document.text, document.tokens
    holder, member = _find(document, keys)
    is_alone = len(holder.members or ()) == 1 and not _has_remarks(document, holder, member)
    if is_alone and _breaks(text[tokens[member.name - 1].end : tokens[member.name].start]):
        if len(keys) > 1:
            return _removal(document, keys[:-1])
        if holder.first == 0 and holder.last == len(tokens) - 1:
            return None
    last = tokens[member.node.last]
    comma = _comma(tokens, member)
    edits = [] if comma is None else [(tokens[comma].start, tokens[comma].end, "")]
    return [*edits, (_start(document, member, comma), last.end, "")]


def _find(document: Document, keys: Keys) -> tuple[Node, Member]:
    _, depth = _deepest(document, keys)
    if depth < len(keys):
        raise JsonError(f"{'.'.join(keys)} is not there")
    holder, _ = _deepest(document, keys[:-1])
    return holder, next(found for found in holder.members or () if found.key == keys[-1])


def _comma(tokens: Sequence[Token], member: Member) -> int | None:
    """Find the comma that goes with a member: the one behind it, else the one before."""
    following = _next(tokens, member.node.last)
    if tokens[following].kind == ",":
        return following
    previous = member.name - 1
    while tokens[previous].is_comment:
        previous -= 1
    return previous if tokens[previous].kind == "," else None


def _start(document: Document, member: Member, comma: int | None) -> int:
    """Find where a member begins; the white space before it goes with it."""
    text, tokens = document.text, document.tokens
    before, last = tokens[member.name - 1], member.node.last
    stays = last + 2 if comma == last + 1 else last + 1
    gap = text[tokens[stays - 1].end : tokens[stays].start]
    if before.kind == "line_comment" and not _breaks(gap):
        # What stands behind it on its line must not become a part of that comment.
        return tokens[member.name].start
    return before.end


def _has_remarks(document: Document, holder: Node, member: Member) -> bool:
    outside = (*range(holder.first, member.name), *range(member.node.last, holder.last))
    return any(document.tokens[token].is_comment for token in outside)


# Both.


def _next(tokens: Sequence[Token], token: int) -> int:
    """Find the next token that is no comment."""
    token += 1
    while tokens[token].is_comment:
        token += 1
    return token


def _breaks(text: str) -> bool:
    return "\n" in text or "\r" in text


def _insertion(behind: Token, text: str) -> Edit:
    return behind.end, behind.end, text


def _apply(text: str, edits: list[Edit]) -> str:
    """Apply edits; of two at one place the earlier in the list comes first."""
    pieces, done = [], 0
    for start, end, new in sorted(edits, key=lambda edit: edit[0]):
        pieces += [text[done:start], new]
        done = end
    return "".join([*pieces, text[done:]])
