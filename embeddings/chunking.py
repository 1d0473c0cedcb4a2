"""Markdown to chunks that fit a model's window; pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from embeddings.blocks import Block, blocks, one_line

#: Tokens that models add to a text, such as [CLS] and [SEP].
SPECIAL_TOKENS = 2

#: The smallest window that can be filled; less would cut every word apart.
SMALLEST_WINDOW = 16

#: A section joins the chunk before it while that chunk fills less than this share of the window.
_JOIN_BELOW = 0.25

#: Title and headings may take this share of the window.
_CONTEXT_SHARE = 0.25

# Tokenizers may count a run of any length as one unknown token, so characters are bounded too.
_CHARACTERS_PER_TOKEN = 32

#: Where a text may be cut, best first.
_CUTS = (
    re.compile(r"\n[ \t]*\r?\n"),
    re.compile(r"\n"),
    re.compile(r"[.!?…][)\"'”’]*\s|[。！？]"),
    re.compile(r"\s"),
)

CountTokens = Callable[[str], int]


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a text.

    `text` is the piece as it stands in the text, without white space around it: what is shown.
    `embedded` is what is embedded: the title and the headings above the piece, then the piece.
    `hash` is the SHA-256 of `embedded`, content alone and no place in the file, so that an edit
    leaves the chunks it does not touch, and their vectors, as they are.
    """

    text: str
    ordinal: int
    hash: str
    embedded: str


def chunk(
    text: str, *, window_tokens: int, count_tokens: CountTokens, title: str = ""
) -> list[Chunk]:
    """Cut a text into chunks that fit the window, special tokens and headings included.

    A text that fits is one chunk. Others are cut at headings, then between paragraphs and code
    fences, then at lines, sentences, words, and only then inside a word. Small sections share a
    chunk. A chunk has at most 32 characters for each token of the window, however few tokens a
    long run of characters counts as. Every character but white space is in exactly one chunk, in
    order. A blank text is one chunk if there is a title, else none.

    `count_tokens` counts without special tokens; for a model with a document prefix, give a window
    that is smaller by the prefix. Takes time in proportion to the text.
    """
    if window_tokens < SMALLEST_WINDOW:
        raise ValueError(f"a window of {window_tokens} tokens is less than {SMALLEST_WINDOW}")
    ruler = _Ruler(count_tokens, window_tokens - SPECIAL_TOKENS, one_line(title))
    shown = _trimmed(text)
    if not shown:
        return [_chunk("", ruler.context((), ruler.budget), 0)] if ruler.title else []
    if ruler.fits(shown, ruler.budget):
        room = ruler.budget - ruler.count(shown)
        return [_chunk(shown, ruler.context((), room), 0)]
    pieces = [piece for block in blocks(text) for piece in _fitting(block, text, ruler)]
    groups = [
        (_trimmed(text[group[0].start : group[-1].end]), ruler.above(group[0].path))
        for group in _packed(pieces, ruler)
    ]
    written = [(shown, above) for shown, above in groups if shown]
    return [_chunk(shown, above, ordinal) for ordinal, (shown, above) in enumerate(written)]


def _chunk(text: str, context: str, ordinal: int) -> Chunk:
    embedded = "\n".join(part for part in (context, text) if part)
    digest = hashlib.sha256(embedded.encode("utf-8", "surrogatepass")).hexdigest()
    return Chunk(text, ordinal, digest, embedded)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Piece:
    """A part of a block that fits a chunk; nothing may follow a closed one in its chunk."""

    start: int
    end: int
    path: tuple[str, ...]
    tokens: int
    is_heading: bool = False
    is_closed: bool = False


class _Ruler:
    """Measures texts against one window."""

    def __init__(self, count_tokens: CountTokens, budget: int, title: str) -> None:
        self.count = count_tokens
        self.budget = budget
        self.title = title
        self._contexts: dict[tuple[str, ...], tuple[str, int]] = {}

    def fits(self, text: str, tokens: int) -> bool:
        return len(text) <= tokens * _CHARACTERS_PER_TOKEN and self.count(text) <= tokens

    def above(self, path: tuple[str, ...]) -> str:
        """Say what stands above a chunk: the title and the headings."""
        return self._context_of(path)[0]

    def room(self, path: tuple[str, ...]) -> int:
        """Return how many tokens are left for a chunk below these headings."""
        return self.budget - self._context_of(path)[1]

    def context(self, path: tuple[str, ...], room: int) -> str:
        """Join title and headings, leaving out outer headings, then the title's end, to fit."""
        for first in range(len(path) + 1):
            parts = dict.fromkeys(part for part in (self.title, *path[first:]) if part)
            text = " > ".join(parts)
            if self.fits(text + "\n", room):
                return text
        words = self.title.split()
        while words and not self.fits(" ".join(words) + "\n", room):
            words.pop()
        return " ".join(words)

    def _context_of(self, path: tuple[str, ...]) -> tuple[str, int]:
        if path not in self._contexts:
            text = self.context(path, int(self.budget * _CONTEXT_SHARE))
            self._contexts[path] = text, self.count(text + "\n") if text else 0
        return self._contexts[path]


def _fitting(block: Block, text: str, ruler: _Ruler) -> Iterator[_Piece]:
    """Measure a block, and cut it where it is larger than a chunk."""
    start, path = block.start, block.above
    while start < block.end:
        stop = block.end
        if start == block.start and _fence_fits_alone(block, text, ruler):
            stop = block.content
        end = _cut(text, start, stop, ruler.room(path), ruler)
        yield _Piece(
            start=start,
            end=end,
            path=path,
            tokens=ruler.count(text[start:end]),
            is_heading=block.has_heading and start == block.start,
            is_closed=end < block.end,
        )
        start, path = end, block.inner


def _fence_fits_alone(block: Block, text: str, ruler: _Ruler) -> bool:
    """Say whether a fence can only be kept whole without the headings before it."""
    return (
        block.is_fence
        and block.has_heading
        and not ruler.fits(text[block.start : block.end], ruler.room(block.above))
        and ruler.fits(text[block.content : block.end], ruler.room(block.inner))
    )


def _cut(text: str, start: int, end: int, room: int, ruler: _Ruler) -> int:
    """Find the best place to end a piece that starts at `start` and fits the room."""
    length = _fitting_length(text, start, end, room, ruler)
    stop = start + length
    if stop == end:
        return end
    for boundary in _CUTS:
        places = [match.end() for match in boundary.finditer(text, start + length // 2, stop)]
        if places:
            return places[-1]
    return stop


def _fitting_length(text: str, start: int, end: int, room: int, ruler: _Ruler) -> int:
    """Find how many characters fit, without ever measuring much more than fits."""
    if ruler.fits(text[start:end], room):
        return end - start
    # A sample tells how dense the text is here; a guess from the text before would make the cuts
    # of a paragraph depend on what stands above it.
    sample = ruler.count(text[start : start + room])
    most = min(end - start, room * _CHARACTERS_PER_TOKEN)
    length = min(most, room * room * 9 // 8 // max(sample, 1))
    while length > 1 and (tokens := ruler.count(text[start : start + length])) > room:
        # In proportion, and a little less: tokens are not spread evenly.
        length = max(1, min(length * room // tokens, length * 7 // 8))
    return length


def _packed(pieces: Sequence[_Piece], ruler: _Ruler) -> Iterator[list[_Piece]]:
    """Group neighbours into chunks."""
    group: list[_Piece] = []
    tokens = 0
    for piece in pieces:
        if group and not _joins(group, tokens, piece, ruler):
            yield group
            group, tokens = [], 0
        group.append(piece)
        tokens += piece.tokens
    if group:
        yield group


def _joins(group: Sequence[_Piece], tokens: int, piece: _Piece, ruler: _Ruler) -> bool:
    room = ruler.room(group[0].path)
    characters = piece.end - group[0].start
    if group[-1].is_closed or characters > room * _CHARACTERS_PER_TOKEN:
        return False
    if tokens + piece.tokens > room:
        return False
    return not piece.is_heading or tokens < _JOIN_BELOW * room


def _trimmed(text: str) -> str:
    """Drop blank lines before a text and white space after it; its first line keeps its indent."""
    body = text.rstrip()
    start = len(body) - len(body.lstrip())
    return body[body.rfind("\n", 0, start) + 1 :] if body else ""
