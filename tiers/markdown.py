"""Topic files and MEMORY.md as bytes: take them apart, change what is asked, keep every other byte.

Pure, and standard library alone, since hooks import it. `topic.py` knows what the keys mean.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from tiers import header, header_toml
from tiers.errors import HeaderNotParsed
from tiers.memory_index import (
    IndexLine,
    fit_block,
    human_part,
    index_line,
    linked_paths,
    parse_index_line,
    pointer_line,
    replace_block,
)
from tiers.scalars import Scanned, Value, without_surrogates

__all__ = [
    "HeaderStyle",
    "IndexLine",
    "Parts",
    "Problem",
    "Scanned",
    "Value",
    "canonical_body",
    "fit_block",
    "human_part",
    "index_line",
    "join",
    "linked_paths",
    "parse_index_line",
    "patch",
    "pointer_line",
    "render",
    "replace_block",
    "scan_header",
    "split",
]

_BLANK_LINES: Final = re.compile(r"\A(?:\ufeff|[ \t]*\n)+")
_FENCES: Final = (b"```", b"~~~")


class HeaderStyle(StrEnum):
    """How a file's header is written."""

    NONE = "none"
    YAML = "yaml"
    TOML = "toml"


_MARKS: Final = {b"---": HeaderStyle.YAML, b"+++": HeaderStyle.TOML}


@dataclass(frozen=True, slots=True)
class Problem:
    """Something in a file that could not be read, and where; lines count from 1."""

    line: int | None
    reason: str

    def __str__(self) -> str:
        return self.reason if self.line is None else f"line {self.line}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Parts:
    """A file taken apart: bom + opening + header + closing + body is the file, byte for byte.

    A file whose header is never closed has no header: all of it is body, and `unclosed` is set.
    """

    bom: bytes
    style: HeaderStyle
    opening: bytes
    header: tuple[bytes, ...]
    closing: bytes
    body: bytes
    unclosed: bool = False
    problems: tuple[Problem, ...] = ()

    @property
    def newline(self) -> str:
        """The file's way to end a line: that of its first line."""
        first = re.search(rb"\r\n|\n|\r", self.opening or self.body)
        return first.group().decode() if first else "\n"

    @property
    def header_lines(self) -> list[str]:
        """The header's lines as text, ends of lines kept."""
        return [line.decode("utf-8", "replace") for line in self.header]

    @property
    def body_text(self) -> str:
        """The body in the form records keep it in; bytes that are not UTF-8 become U+FFFD."""
        return canonical_body(self.body.decode("utf-8", "replace"))


def canonical_body(text: str) -> str:
    r"""Bring a body into the form in which records keep it.

    Lines end with `\n`; blank lines at the start and white space at the end are gone. A record
    whose body is not in this form would look edited as soon as its file is read.
    """
    text = without_surrogates(text).replace("\r\n", "\n").replace("\r", "\n")
    return _BLANK_LINES.sub("", text).rstrip(" \t\n")


def split(raw: bytes) -> Parts:
    """Take a file apart. Never raises: what cannot be read is in `problems`."""
    bom = codecs.BOM_UTF8 if raw.startswith(codecs.BOM_UTF8) else b""
    rest = raw[len(bom) :]
    problems = _encoding_problems(raw)
    lines = rest.splitlines(keepends=True)
    style = _MARKS.get(lines[0].rstrip(), HeaderStyle.NONE) if lines else HeaderStyle.NONE
    if style is HeaderStyle.NONE:
        return Parts(bom, style, b"", (), b"", rest, problems=problems)
    end = _closing_line(lines, style)
    if end is None:
        unclosed = Problem(1, "the header that opens here is never closed")
        return Parts(
            bom, HeaderStyle.NONE, b"", (), b"", rest, unclosed=True, problems=(*problems, unclosed)
        )
    body = b"".join(lines[end + 1 :])
    return Parts(bom, style, lines[0], tuple(lines[1:end]), lines[end], body, problems=problems)


def join(parts: Parts) -> bytes:
    """Put a file together again."""
    return parts.bom + parts.opening + b"".join(parts.header) + parts.closing + parts.body


def scan_header(parts: Parts) -> dict[str, Scanned]:
    """Read the header without YAML: every value as text, a list of texts, or a flat mapping.

    Lines that cannot be read are left out; this never raises.
    """
    if parts.style is HeaderStyle.TOML:
        return header_toml.scan(parts.header_lines)
    return header.scan(parts.header_lines)


def patch(raw: bytes, changes: Mapping[str, Value], body: str | None = None) -> bytes:
    """Change some keys of the header, and the body if one is given; keep every other byte.

    None removes a key; a new key goes to the end of the header; `parent.child` means a key one
    level down. A file without a header gets one when there is a key to write. Raises
    HeaderNotParsed, rather than guess, when the header or a line to change cannot be read.
    """
    parts = split(raw)
    lines, newline = parts.header_lines, parts.newline
    if parts.unclosed and (changes or body is not None):
        raise HeaderNotParsed("the header is never closed")
    if changes:
        _refuse_other_encodings(parts)
        patcher = header_toml.patch if parts.style is HeaderStyle.TOML else header.patch
        lines = patcher(lines, changes, newline)
        _refuse_collateral(parts, lines, changes)
    body_bytes = parts.body if body is None else _replaced_body(parts, body)
    opening, closing = parts.opening, parts.closing
    if parts.style is HeaderStyle.NONE and (lines or (body is not None and _opens(body_bytes))):
        opening = closing = f"---{newline}".encode()
        body_bytes = _after_new_header(body_bytes, newline)
    header_bytes = "".join(lines).encode() if changes else b"".join(parts.header)
    return parts.bom + opening + header_bytes + closing + body_bytes


def render(fields: Mapping[str, Value], body: str) -> bytes:
    r"""Write a new file: UTF-8, lines ending in `\n`, keys in the order given."""
    lines = [
        line
        for key, value in fields.items()
        if value is not None
        for line in header.write_lines(key, value)
    ]
    text = canonical_body(body)
    if not lines and not _opens(text.encode()):
        return f"{text}\n".encode() if text else b""
    return "".join(["---\n", *lines, "---\n", f"\n{text}\n" if text else ""]).encode()


def _encoding_problems(raw: bytes) -> tuple[Problem, ...]:
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError as exc:
        line = raw.count(b"\n", 0, exc.start) + 1
        return (Problem(line, f"byte 0x{raw[exc.start]:02x} is not UTF-8"),)
    return ()


def _closing_line(lines: list[bytes], style: HeaderStyle) -> int | None:
    for at, line in enumerate(lines[1:], start=1):
        if _MARKS.get(line.rstrip()) is style:
            return at
        # No YAML line starts with a code fence, so a mark inside the fence closes nothing.
        if style is HeaderStyle.YAML and line.startswith(_FENCES):
            return None
    return None


def _opens(body: bytes) -> bool:
    """Say whether text at the start of a file would be taken for a header."""
    return body.split(b"\n", 1)[0].rstrip() in _MARKS


def _refuse_other_encodings(parts: Parts) -> None:
    unreadable = b"".join(parts.header) if parts.style is not HeaderStyle.NONE else parts.body
    if _encoding_problems(unreadable):
        raise HeaderNotParsed("the header is not UTF-8", hint="save that file as UTF-8")


def _refuse_collateral(parts: Parts, lines: list[str], changes: Mapping[str, Value]) -> None:
    """Read the header again: no other key may have changed, and new texts must read as meant."""
    if parts.style is HeaderStyle.TOML:
        return
    before, after = scan_header(parts), header.scan(lines)
    touched = {key if key in before or key in after else key.partition(".")[0] for key in changes}
    kept = [(key, value) for key, value in before.items() if key not in touched]
    if kept != [(key, value) for key, value in after.items() if key not in touched]:
        raise HeaderNotParsed("the change would touch other keys of the header")
    for key, value in changes.items():
        if isinstance(value, str) and key in after and after[key] != without_surrogates(value):
            raise HeaderNotParsed(f"the key {key!r} cannot be written in its place")


def _replaced_body(parts: Parts, body: str) -> bytes:
    text = canonical_body(body)
    if text == parts.body_text:
        return parts.body
    old = parts.body.decode("utf-8", "replace")
    core = canonical_body(old)
    first = re.search(rb"\r\n|\n|\r", parts.body)
    newline = first.group().decode() if first else parts.newline
    before, after = ("", newline) if not core else _margins(old)
    if not core and parts.style is not HeaderStyle.NONE:
        before = newline
    return (before + text.replace("\n", newline) + after).encode()


def _margins(text: str) -> tuple[str, str]:
    """Cut what `canonical_body` takes off at both ends."""
    start = re.match(r"(?:\ufeff|[ \t]*(?:\r\n|\n|\r))*", text)
    end = len(text.rstrip(" \t\r\n"))
    return (start.group() if start else ""), text[end:]


def _after_new_header(body: bytes, newline: str) -> bytes:
    blank = newline.encode()
    return body if not body.strip() or body.startswith((b"\n", b"\r")) else blank + body
