"""The lines of a YAML header: which key owns which lines, what they say, how a value is written.

A line scanner, not a YAML parser: it knows top-level keys, plain and quoted scalars, block
scalars, lists, and mappings one level deep. Hooks read headers with it, since they have no YAML;
writers use it to replace the lines of one key and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from tiers.errors import HeaderNotParsed
from tiers.scalars import (
    NULLS,
    QUOTED,
    Scanned,
    Value,
    bare,
    cut_comment,
    find_close,
    flow,
    read_block_scalar,
    read_brackets,
    read_item,
    unquote,
    write_key,
    write_scalar,
)

_COLON = re.compile(r":(?=[ \t]|$)")
# The line breaks of YAML 1.1 that are none to anybody else.
_ODD_BREAKS = re.compile("[\x85\u2028\u2029]")


@dataclass(frozen=True, slots=True)
class Block:
    """One key and its lines, `lines[start:end]`; the value begins at `offset` of the first."""

    key: str
    start: int
    end: int
    offset: int


def find_blocks(lines: Sequence[str]) -> tuple[list[Block], list[int]]:
    """Divide header lines into the blocks of top-level keys.

    Also gives the numbers of the lines that are neither a key's, nor blank, nor a comment.
    """
    blocks: list[Block] = []
    strange: list[int] = []
    at = 0
    while at < len(lines):
        found = _find_key(lines[at])
        end = _end_of_value(lines, at, found[1]) if found else at + 1
        if end is None:
            # The rest belongs to an open quote or bracket: no line of it can be trusted.
            return blocks, [*strange, *range(at, len(lines))]
        if found:
            blocks.append(Block(found[0], at, end, found[1]))
        elif bare(lines[at]):
            strange.append(at)
        at = end
    return blocks, strange


def scan(lines: Sequence[str]) -> dict[str, Scanned]:
    """Read what the lines say, as text; lines that cannot be read are left out."""
    blocks, _ = find_blocks(lines)
    return {block.key: _read(lines, block) for block in blocks}


def patch(lines: Sequence[str], changes: Mapping[str, Value], newline: str) -> list[str]:
    """Replace, add or (None) remove the lines of the changed keys; keep every other line.

    `parent.child` means the key below `parent` where there is such a parent. Raises
    HeaderNotParsed when the lines cannot be scanned or a changed key stands there twice.
    """
    blocks, strange = find_blocks(lines)
    _refuse_strange(lines, strange)
    keys = [block.key for block in blocks]
    at_top, below = _by_parent(changes, keys, {b.key for b in blocks if _is_parent(lines, b)})
    patched: list[str] = []
    done = 0
    for block in blocks:
        if block.key not in at_top and block.key not in below:
            continue
        if keys.count(block.key) > 1:
            raise HeaderNotParsed(f"the key {block.key!r} is in the header twice")
        patched += lines[done : block.start]
        if block.key in at_top:
            patched += _replaced(lines, block, at_top[block.key])
        else:
            patched += _patched_below(lines, block, below[block.key], newline)
        done = block.end
    patched += lines[done:]
    for key, value in at_top.items():
        if value is not None and key not in keys:
            patched += write_lines(key, value, newline)
    return patched


def write_lines(key: str, value: Value, newline: str = "\n") -> list[str]:
    """Write one top-level key: a mapping as a block, anything else on one line."""
    name = write_key(key)
    if isinstance(value, Mapping) and value:
        children = (f"  {write_key(child)}: {flow(part)}" for child, part in value.items())
        return [f"{name}:{newline}", *(child + newline for child in children)]
    return [f"{name}: {write_scalar(value)}{newline}"]


# --- patching ----------------------------------------------------------------------------------


def _by_parent(
    changes: Mapping[str, Value], keys: Sequence[str], parents: Collection[str]
) -> tuple[dict[str, Value], dict[str, dict[str, Value]]]:
    """Divide changes into those of top-level keys and those of children, by parent."""
    at_top: dict[str, Value] = {}
    below: dict[str, dict[str, Value]] = {}
    for key, value in changes.items():
        parent, dot, child = key.partition(".")
        if dot and key not in keys and parent in parents and parent not in changes:
            below.setdefault(parent, {})[child] = value
        else:
            at_top[key] = value
    return at_top, below


def _is_parent(lines: Sequence[str], block: Block) -> bool:
    return isinstance(_read(lines, block), dict)


def _replaced(lines: Sequence[str], block: Block, value: Value) -> list[str]:
    if value is None:
        return []
    first = lines[block.start]
    text = first.rstrip("\r\n")
    newline = first[len(text) :]
    rest = lines[block.start + 1 : block.end]
    before = text[: block.offset].rstrip()
    gap = text[len(before) : block.offset] or " "
    if isinstance(value, Mapping) and value:
        return [before + newline, *write_lines(block.key, value, newline)[1:]]
    bullet = _first_bullet(rest) if not bare(text[block.offset :]) else None
    if bullet is not None and isinstance(value, Sequence) and not isinstance(value, str) and value:
        return [first, *(f"{bullet}{flow(item)}{newline}" for item in value)]
    tail = "" if rest else _comment_after(text[block.offset :])
    return [before + gap + write_scalar(value) + tail + newline]


def _first_bullet(rest: Sequence[str]) -> str | None:
    for line in rest:
        if found := re.match(r"[ ]*-[ ]+", line):
            return found.group()
        if bare(line):
            return None
    return None


def _comment_after(value: str) -> str:
    """Cut the comment, with the white space before it, that follows a value on its line."""
    if value.startswith("#"):
        return "  " + value
    close = find_close([value], 0, 0) if value[:1] and value[0] in "\"'[{" else None
    rest = value[close[1] + 1 :] if close else value
    kept = cut_comment(rest)
    return rest[len(kept) :].rstrip() if kept != rest else ""


def _patched_below(
    lines: Sequence[str], block: Block, changes: Mapping[str, Value], newline: str
) -> list[str]:
    first, rest = lines[block.start], lines[block.start + 1 : block.end]
    indent = _indent(rest)
    if bare(first[block.offset :]) or not indent:
        raise HeaderNotParsed(f"the value of {block.key!r} is not one key a line")
    if any(line.strip() and not line.startswith(indent) for line in rest):
        raise HeaderNotParsed(f"the lines below {block.key!r} are not indented alike")
    inner = [line.removeprefix(indent) if line.strip() else line for line in rest]
    patched = patch(inner, changes, newline)
    return [first, *(indent + line if line.strip() else line for line in patched)]


def _indent(lines: Sequence[str]) -> str:
    told = next((line for line in lines if bare(line)), "")
    return told[: len(told) - len(told.lstrip(" "))]


# --- keys and the extent of their values -------------------------------------------------------


def _find_key(line: str) -> tuple[str, int] | None:
    """Find a top-level key at the start of a line: its text and where its value begins."""
    text = line.rstrip("\r\n")
    if not text or text[0] in " \t#-?[]{},&*!|>%@`:" or _ODD_BREAKS.search(text):
        return None
    quoted = QUOTED.match(text)
    colon = _COLON.search(text, quoted.end() if quoted else 0)
    if colon is None or (text[0] in "\"'" and not quoted):
        return None
    if quoted and text[quoted.end() : colon.start()].strip():
        return None
    key = text[: colon.start()].rstrip()
    if not quoted and (" #" in key or "\t#" in key):
        return None
    start = colon.end()
    while start < len(text) and text[start] in " \t":
        start += 1
    return (unquote(key) if quoted else key), start


def _end_of_value(lines: Sequence[str], start: int, offset: int) -> int | None:
    """Find the line after the value's last one; None when a quote or bracket closes badly."""
    value = lines[start][offset:].strip()
    end = start + 1
    if value[:1] and value[0] in "\"'[{":
        close = find_close(lines, start, offset)
        if close is None or bare(lines[close[0]][close[1] + 1 :]):
            return None
        end = close[0] + 1
    scalar = value[:1] in ("|", ">")
    may_list = not value or value.startswith(("#", "&", "!"))
    for at in range(end, len(lines)):
        line, text = lines[at], lines[at].strip()
        if not text or (text.startswith("#") and not (scalar and line[0] == " ")):
            continue
        if line[0] in " \t" or (may_list and (text == "-" or line.startswith("- "))):
            end = at + 1
        else:
            break
    return end


def _refuse_strange(lines: Sequence[str], strange: Sequence[int]) -> None:
    if strange:
        raise HeaderNotParsed(f"a line of the header cannot be read: number {strange[0] + 1}")
    for at, line in enumerate(lines):
        indent = line[: len(line) - len(line.lstrip(" \t"))]
        if ("\t" in indent and line.strip()) or _ODD_BREAKS.search(line):
            raise HeaderNotParsed(f"a line of the header is broken or indented oddly: {at + 1}")


# --- reading values ----------------------------------------------------------------------------


def _read(lines: Sequence[str], block: Block) -> Scanned:
    first = lines[block.start][block.offset :].strip()
    rest = [line.rstrip("\r\n") for line in lines[block.start + 1 : block.end]]
    if first[:1] in ("|", ">"):
        return read_block_scalar(first, rest)
    if first[:1] in ('"', "'"):
        return unquote(" ".join([first, *(line.strip() for line in rest)]))
    if first[:1] in ("[", "{"):
        return read_brackets(" ".join([first, *(bare(line) for line in rest)]))
    first = bare(first)
    told = [line for line in rest if bare(line)]
    if first or not told:
        text = " ".join([first, *(bare(line) for line in told)]).strip()
        return "" if text in NULLS else text
    if told[0].strip() == "-" or told[0].lstrip().startswith("- "):
        items = (line.strip()[1:].strip() for line in told if line.strip().startswith("-"))
        return [read_item(item) for item in items]
    return _nested(told)


def _nested(lines: Sequence[str]) -> Scanned:
    indent = len(lines[0]) - len(lines[0].lstrip(" "))
    inner = [line[indent:] for line in lines]
    blocks, _ = find_blocks(inner)
    if not blocks:
        return " ".join(bare(line) for line in lines)
    return {block.key: _as_text(_read(inner, block)) for block in blocks}


def _as_text(value: Scanned) -> str:
    return value if isinstance(value, str) else flow(value)
