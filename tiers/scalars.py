"""Scalars and lists of a header: their text read without YAML, their values written as text."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

Value = str | bool | int | float | None | Sequence["Value"] | Mapping[str, "Value"]
Scanned = str | list[str] | dict[str, str]

QUOTED = re.compile(r"\"(?:[^\"\\]|\\.)*+\"|'(?:[^']|'')*+'")
_BARE_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_UNFIT_INSIDE = re.compile(r"[,\[\]{}:?#&*!|>'\"%@`]")
_RESERVED = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf"})
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "a": "\a", "b": "\b", "e": "\x1b"} | {
    "f": "\f", "v": "\v", "N": "\x85", "_": "\xa0", "L": "\u2028", "P": "\u2029"
}  # fmt: skip
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)")
_SURROGATE = re.compile("[\ud800-\udfff]")


def write_key(key: str) -> str:
    """Write a key so that YAML and TOML read the same text back."""
    bare = _BARE_KEY.fullmatch(key) and key.lower() not in _RESERVED
    return key if bare else quote(key)


def quote(text: str) -> str:
    """Write text between double quotes, on one line, for YAML and TOML alike."""
    out = []
    for char in without_surrogates(text):
        if char in '"\\':
            out.append("\\" + char)
        elif char == "\n":
            out.append("\\n")
        elif char.isprintable():
            out.append(char)
        else:
            out.append(f"\\u{ord(char):04x}" if ord(char) < 0x10000 else f"\\U{ord(char):08x}")
    return f'"{"".join(out)}"'


def without_surrogates(text: str) -> str:
    """Replace what no UTF-8 file can hold."""
    return _SURROGATE.sub("\ufffd", text)


def flow(value: Value) -> str:
    """Write a value on one line, fit for the inside of a list or mapping."""
    if isinstance(value, str):
        return value if _is_plain(value) and not _UNFIT_INSIDE.search(value) else quote(value)
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return _number(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{write_key(k)}: {flow(v)}" for k, v in value.items()) + "}"
    return "[" + ", ".join(flow(item) for item in value) + "]"


def write_scalar(value: Value) -> str:
    """Write a value on one line, to stand after a top-level key."""
    if isinstance(value, str):
        return value if _is_plain(value) else quote(value)
    return flow(value)


def _is_plain(text: str) -> bool:
    """Say whether YAML reads the bare text as that very string; rather no than a wrong yes."""
    return (
        text[:1].isalpha()
        and text.isprintable()
        and text[-1] not in " :"
        and ": " not in text
        and " #" not in text
        and text.lower() not in _RESERVED
    )


def _number(value: float) -> str:
    text = repr(value)
    if text in ("inf", "-inf", "nan"):
        return text.replace("inf", ".inf").replace("nan", ".nan")
    # YAML 1.1 takes 1e+16 for a string; it wants a point in every float.
    return text.replace("e", ".0e") if "e" in text and "." not in text else text


def find_close(lines: Sequence[str], line: int, column: int) -> tuple[int, int] | None:
    """Find where the quote or bracket that opens at that place closes; None when it never does."""
    depth, quoted, before = 0, "", ""
    for at in range(line, len(lines)):
        text = lines[at]
        column = column if at == line else 0
        while column < len(text):
            char = text[column]
            if quoted:
                if text[column : column + 2] == "''" == quoted * 2 or (
                    char == "\\" and quoted == '"'
                ):
                    column += 1
                elif char == quoted:
                    quoted = ""
            elif char in "\"'" and before in ("", "[", "{", ",", ":"):
                quoted = char
            elif char == "#" and text[max(column - 1, 0)] in " \t#":
                break
            elif char in "[{":
                depth += 1
            elif char in "]}":
                depth -= 1
            if not char.isspace():
                before = char
            if depth <= 0 and not quoted and before:
                return at, column
            column += 1
    return None


def read_block_scalar(first: str, rest: Sequence[str]) -> str:
    """Read a literal or folded scalar from its first line's mark and the lines below it."""
    indents = [len(line) - len(line.lstrip(" ")) for line in rest if line.strip()]
    inner = [line[min(indents, default=0) :] for line in rest]
    if first[0] == "|":
        return "\n".join(inner).strip("\n")
    return re.sub(r"(?<!\n)\n(?!\n)", " ", "\n".join(inner).strip("\n")).replace("\n\n", "\n")


def read_brackets(text: str) -> Scanned:
    """Read a list or a flat mapping between brackets; what is nested deeper stays text."""
    close = find_close([text], 0, 0)
    body, is_map = text[1 : close[1] if close else len(text)], text[0] == "{"
    parts = [part for part in _split_outside_quotes(body, ",") if part.strip()]
    if not is_map:
        return [read_item(part) for part in parts]
    pairs = (_split_outside_quotes(part, ":") for part in parts)
    return {read_item(pair[0]): read_item(":".join(pair[1:])) for pair in pairs}


def _split_outside_quotes(text: str, mark: str) -> list[str]:
    parts, start, depth, quoted, skip, fresh = [], 0, 0, "", False, True
    for at, char in enumerate(text):
        if skip:
            skip = False
        elif quoted:
            skip = text[at : at + 2] == "''" == quoted * 2 or (char == "\\" and quoted == '"')
            if char == quoted and not skip:
                quoted = ""
        elif char in "\"'" and fresh:
            quoted = char
        elif char in "[{":
            depth += 1
        elif char in "]}":
            depth -= 1
        elif char == mark and depth == 0:
            parts.append(text[start:at])
            start = at + 1
        fresh = not quoted and (char in "[{,:" or (fresh and char in " \t"))
    return [*parts, text[start:]]


def read_item(text: str) -> str:
    """Read a plain or quoted scalar; null is the empty text."""
    text = text.strip()
    if text[:1] in ('"', "'"):
        return unquote(text)
    told = bare(text)
    return "" if told in NULLS else told


def bare(text: str) -> str:
    """Take off outer white space and a comment."""
    text = text.strip()
    return "" if text.startswith("#") else cut_comment(text)


def cut_comment(text: str) -> str:
    """Cut at the first mark of a comment, with the white space before it."""
    at = min((found for mark in (" #", "\t#") if (found := text.find(mark)) >= 0), default=-1)
    return text if at < 0 else text[:at].rstrip()


def unquote(text: str) -> str:
    """Read a quoted scalar at the start of `text`; what follows it is a comment."""
    quoted = QUOTED.match(text)
    if not quoted:
        return text
    inner = quoted.group()[1:-1]
    return inner.replace("''", "'") if text[0] == "'" else _ESCAPE.sub(_unescape, inner)


def _unescape(escape: re.Match[str]) -> str:
    code = escape.group(1)
    if len(code) == 1:
        return _ESCAPES.get(code, code)
    number = int(code[1:], 16)
    return chr(number) if number < 0x110000 else "\ufffd"
