"""MEMORY.md: one line a memory, in a marked block that is ours; every other line is a person's."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from tiers.scalars import without_surrogates

BEGIN: Final = "<!-- tiermem:begin -->"
END: Final = "<!-- tiermem:end -->"

_MAX_LINE_CHARS: Final = 200
_MAX_TITLE_CHARS: Final = 80
_LINE: Final = re.compile(
    r"- \[(?P<title>(?:[^\[\]\\]|\\.)+)\]\((?P<path>[^()\s]+)\)(?: — (?P<hook>.+))?"
)
_LINK: Final = re.compile(r"\]\(<?([^()<>\n]+?)>?(?:\s+\"[^\"\n]*\")?\)")
_POINTER: Final = re.compile(r"… and \d+ more: tiermem list")
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|[/#]")
_UNFIT_IN_PATH: Final = re.compile(r"[\s()<>%#\\\x00-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class IndexLine:
    """What a line of the index says: a memory's name, its file and, in few words, its content."""

    name: str
    path: str
    hook: str


def index_line(name: str, path: str, description: str = "") -> str:
    """Write the line that points to a file: `- [Title](file.md) — hook`.

    One line of at most 200 characters, unless the path alone is too long for that.
    """
    target = _UNFIT_IN_PATH.sub(_percent, without_surrogates(path))
    room = max(_MAX_LINE_CHARS - len(f"- []({target})"), 1)
    title = _cut(_one_line(name) or _one_line(path), min(_MAX_TITLE_CHARS, room), _escape_title)
    line = f"- [{title}]({target})"
    hook = _cut(_one_line(description), _MAX_LINE_CHARS - len(line) - len(" — "), _escape_hook)
    return f"{line} — {hook}" if hook else line


def parse_index_line(line: str) -> IndexLine | None:
    """Read a line that `index_line` could have written; None for any other."""
    found = _LINE.fullmatch(line.strip())
    if found is None or _SCHEME.match(found["path"]):
        return None
    hook = (found["hook"] or "").replace("&lt;!--", "<!--")
    title = re.sub(r"\\(.)", r"\1", found["title"]).replace("&lt;!--", "<!--")
    return IndexLine(title, unquote(found["path"]), hook)


def linked_paths(text: str) -> frozenset[str]:
    """Find the relative paths that a text links to."""
    targets = (found.group(1).strip() for found in _LINK.finditer(text))
    paths = (unquote(target.partition("#")[0]) for target in targets if not _SCHEME.match(target))
    return frozenset(path.removeprefix("./") for path in paths if path)


def pointer_line(dropped: int) -> str:
    """Write the line that stands for the lines there was no room for."""
    return f"… and {dropped} more: tiermem list"


def fit_block(
    lines: Sequence[str],
    human: str,
    *,
    max_lines: int = 200,
    max_bytes: int = 25_000,
    pointer: Callable[[int], str] = pointer_line,
) -> list[str]:
    """Drop lines from the end until they, the marks and people's text fit the budget.

    One pointer line stands for all that were dropped; it is kept even when nothing fits.
    """
    # An empty line may set the block apart.
    fixed = [*human.splitlines(), BEGIN, END, ""]
    rows, room = max_lines - len(fixed), max_bytes - sum(map(_cost, fixed))
    if not lines or (len(lines) <= rows and sum(map(_cost, lines)) <= room):
        return list(lines)
    rows, room = rows - 1, room - _cost(pointer(len(lines)))
    kept: list[str] = []
    for line in lines:
        room -= _cost(line)
        if room < 0 or len(kept) >= rows:
            break
        kept.append(line)
    return [*kept, pointer(len(lines) - len(kept))]


def replace_block(raw: bytes, lines: Sequence[str]) -> bytes:
    """Put `lines` between our marks and touch nothing outside them.

    Without marks the block goes to the end. What a person wrote between the marks is moved to
    right after the block. With broken marks no line is lost but the ones that `lines` has anyway:
    the first whole block is the one that is kept, other marks are taken out, and the lines below a
    mark that nothing closes count as a person's.
    """
    bom, raw = _without_bom(raw)
    pieces = list(_pieces(raw))
    marked = [piece for piece in pieces if piece.lines]
    if not marked and not lines:
        return bom + raw
    newline = _newline(raw)
    block = [(line + newline).encode() for line in (BEGIN, *lines, END)]
    if not marked:
        return b"".join([bom, raw, *_gap(raw, newline), *block])
    place = next((piece for piece in marked if piece.closed), marked[0])
    ours = {line.strip() for line in lines}
    out = [bom]
    for piece in pieces:
        if piece is place:
            out += _with_last_newline_of(block, piece)
        out += piece.outside
        human = [line for line in piece.human if piece.closed or _text(line) not in ours]
        if piece is place and human and not out[-1].endswith((b"\n", b"\r")):
            out.append(newline.encode())
        out += human
    return b"".join(out)


def human_part(raw: bytes) -> str:
    r"""Read what people wrote: the text outside our block, lines ending in `\n`."""
    out: list[bytes] = []
    for piece in _pieces(_without_bom(raw)[1]):
        out += [*piece.outside, *piece.human]
    text = b"".join(out).decode("utf-8", "replace")
    return text.replace("\r\n", "\n").replace("\r", "\n")


@dataclass(frozen=True, slots=True, eq=False)
class _Piece:
    """Either lines outside every block, or a block: its marks and what stands between them."""

    outside: tuple[bytes, ...] = ()
    lines: tuple[bytes, ...] = ()
    closed: bool = False

    @property
    def human(self) -> list[bytes]:
        """The lines of a block that we did not write; of an unclosed one, all but the pointer."""
        return [
            line
            for line in self.lines
            if (text := _text(line)) not in (BEGIN, END)
            and not _POINTER.fullmatch(text)
            and not (self.closed and (not text or parse_index_line(text)))
        ]


def _pieces(raw: bytes) -> Iterator[_Piece]:
    outside: list[bytes] = []
    block: list[bytes] = []
    for line in raw.splitlines(keepends=True):
        text = _text(line)
        if text == BEGIN:
            yield from _piece(outside, block, closed=False)
            outside, block = [], [line]
        elif text == END:
            # A mark that closes nothing is a block of its own, without a line.
            yield from _piece(outside, [*block, line], closed=bool(block))
            outside, block = [], []
        else:
            (block or outside).append(line)
    yield from _piece(outside, block, closed=False)


def _piece(outside: Sequence[bytes], block: Sequence[bytes], *, closed: bool) -> Iterator[_Piece]:
    if outside:
        yield _Piece(outside=tuple(outside))
    if block:
        yield _Piece(lines=tuple(block), closed=closed)


def _text(line: bytes) -> str:
    return line.decode("utf-8", "replace").strip()


def _without_bom(raw: bytes) -> tuple[bytes, bytes]:
    bom = codecs.BOM_UTF8 if raw.startswith(codecs.BOM_UTF8) else b""
    return bom, raw[len(bom) :]


def _newline(raw: bytes) -> str:
    found = re.search(rb"\r\n|\n|\r", raw)
    return found.group().decode() if found else "\n"


def _gap(raw: bytes, newline: str) -> list[bytes]:
    """Set a block at the end apart from the text before it."""
    ends = raw.endswith((b"\n", b"\r"))
    blank = not raw.splitlines()[-1].strip() if raw else True
    return [newline.encode()] * ((not ends and bool(raw)) + (not blank))


def _with_last_newline_of(block: Sequence[bytes], piece: _Piece) -> list[bytes]:
    """Let the closing mark end as the old one did, if that was the end of the file."""
    last = piece.lines[-1]
    ends = last.endswith((b"\n", b"\r"))
    return list(block) if ends or not piece.closed else [*block[:-1], block[-1].rstrip(b"\r\n")]


def _cost(line: str) -> int:
    # Two bytes more than its text, as in a file with CRLF.
    return len(line.encode("utf-8", "replace")) + 2


def _one_line(text: str) -> str:
    spaced = "".join(char if char.isprintable() else " " for char in without_surrogates(text))
    return " ".join(spaced.split())


def _percent(found: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in found.group().encode())


def _escape_title(text: str) -> str:
    return re.sub(r"([\[\]\\])", r"\\\1", _escape_hook(text))


def _escape_hook(text: str) -> str:
    # An open comment would hide every line below it.
    return text.replace("<!--", "&lt;!--")


def _cut(text: str, room: int, escape: Callable[[str], str]) -> str:
    """Escape a text, shortened so far that the result has at most `room` characters."""
    whole = escape(text)
    if len(whole) <= room:
        return whole
    keep = max(room - 1, 0)
    while keep > 0 and len(escape(text[:keep].rstrip())) > room - 1:
        keep -= 1
    return escape(text[:keep].rstrip()) + "…" if keep else ""
