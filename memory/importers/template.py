"""Text built from the fields of a line: `'[{date_text}] {speaker}: {text}'`."""

from __future__ import annotations

import json
import string
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from memory.errors import UsageError

_HINT = "for example: --text '[{date}] {speaker}: {text}'; write {{ and }} for braces"


@dataclass(frozen=True, slots=True)
class TextTemplate:
    """Literal text and field names, in turns."""

    parts: tuple[tuple[str, str | None], ...]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a template of plain `{field}`s. Raises UsageError."""
        try:
            parsed = list(string.Formatter().parse(text))
        except ValueError as error:
            raise UsageError(f"--text {text!r}: {error}", hint=_HINT) from error
        for _, name, spec, conversion in parsed:
            if name is not None and (not name or spec or conversion or set(name) & set(".[]")):
                raise UsageError(f"--text {text!r}: only plain {{field}}s are allowed", hint=_HINT)
        if not any(name for _, name, _, _ in parsed):
            raise UsageError(f"--text {text!r} names no field", hint=_HINT)
        return cls(tuple((literal, name) for literal, name, _, _ in parsed))

    @property
    def fields(self) -> frozenset[str]:
        return frozenset(name for _, name in self.parts if name)

    def render(self, data: Mapping[str, Any]) -> str:
        """Fill in the fields of a line; one that is missing or null leaves no gap behind.

        White space inside a value is left as it is: it may be code.
        """
        text = ""
        for literal, name in self.parts:
            text += literal.lstrip(" ") if text == "" or text.endswith(" ") else literal
            text += as_text(data.get(name)).strip() if name else ""
        return text.strip()


def as_text(value: Any) -> str:
    """Render a JSON value for people."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return ", ".join(as_text(entry) for entry in value)
    return json.dumps(value, ensure_ascii=False)
