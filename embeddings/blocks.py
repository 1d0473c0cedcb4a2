"""Markdown to blocks: headings with the paragraph or code fence below them; pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

#: A heading is known by this many of its characters.
HEADING_CHARACTERS = 120

_HEADING = re.compile(r" {0,3}(#{1,6})(?=[ \t\r\n]|\Z)")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Headings, if any, and the paragraph or code fence below them.

    Blocks follow each other without gaps. `above` is the path of headings the block stands under,
    `inner` that of its content, which begins at `content`.
    """

    start: int
    content: int
    end: int
    above: tuple[str, ...]
    inner: tuple[str, ...]
    has_heading: bool
    is_fence: bool


def blocks(text: str) -> Iterator[Block]:
    """Divide a text into blocks; takes time in proportion to the text.

    Headings are those written with `#`; a blank line ends a paragraph, and so do a heading and a
    fence. A fence that is never closed runs to the end of the text.
    """
    return _Scanner().blocks(text)


def one_line(text: str) -> str:
    """Shorten a text to what is shown of a heading or title."""
    return " ".join(text[: 4 * HEADING_CHARACTERS].split())[:HEADING_CHARACTERS]


class _Scanner:
    """Divides a text into blocks, line by line."""

    def __init__(self) -> None:
        self._path: tuple[tuple[int, str], ...] = ()
        self._above: tuple[str, ...] = ()
        self._start = 0
        self._content: int | None = None  # none while the block has headings alone
        self._fence = ""  # the mark of the fence that is open
        self._has_heading = False
        self._is_fence = False
        self._is_over = False  # the next line that is not blank begins a block

    def blocks(self, text: str) -> Iterator[Block]:
        for at, line in _lines(text):
            heading = None if self._fence else _HEADING.match(line)
            opened = "" if self._fence or heading else _opening_fence(line)
            if self._content is not None and self._ends_before(line, bool(heading or opened)):
                yield self._block(at)
                self._begin(at)
            if heading:
                self._enter(len(heading[1]), _heading_name(line[heading.end() :]))
            else:
                self._take(at, line, opened)
        if self._start < len(text):
            yield self._block(len(text))

    def _ends_before(self, line: str, is_mark: bool) -> bool:
        return is_mark or (self._is_over and not self._fence and bool(line.strip()))

    def _block(self, end: int) -> Block:
        content = end if self._content is None else self._content
        inner = _names(self._path)
        return Block(
            start=self._start,
            content=content,
            end=end,
            above=self._above,
            inner=inner,
            has_heading=self._has_heading,
            is_fence=self._is_fence,
        )

    def _begin(self, at: int) -> None:
        self._start, self._content = at, None
        self._above = _names(self._path)
        self._has_heading = self._is_fence = self._is_over = False

    def _enter(self, level: int, name: str) -> None:
        outer = tuple(entry for entry in self._path if entry[0] < level)
        self._path = (*outer, (level, name))
        if not self._has_heading:
            self._has_heading = True
            self._above = _names(outer)

    def _take(self, at: int, line: str, opened: str) -> None:
        is_blank = not line.strip()
        if self._content is None and not is_blank:
            self._content = at
        if opened:
            self._fence, self._is_fence = opened, True
        elif self._fence and _closes(line, self._fence):
            self._fence, self._is_over = "", True
        elif is_blank and self._content is not None and not self._fence:
            self._is_over = True


def _lines(text: str) -> Iterator[tuple[int, str]]:
    at = 0
    while at < len(text):
        end = text.find("\n", at) + 1 or len(text)
        yield at, text[at:end]
        at = end


def _opening_fence(line: str) -> str:
    """Return the mark of a fence that this line opens; empty when it opens none."""
    match = _FENCE.match(line)
    if match is None or (match[1][0] == "`" and "`" in match[2]):
        return ""
    return match[1]


def _closes(line: str, fence: str) -> bool:
    mark = line.strip()
    return len(mark) >= len(fence) and not mark.strip(fence[0])


def _heading_name(text: str) -> str:
    return one_line(text).rstrip("#").rstrip()


def _names(path: Sequence[tuple[int, str]]) -> tuple[str, ...]:
    return tuple(name for _, name in path if name)
