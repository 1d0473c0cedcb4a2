"""Foreign values as ours, or a problem said in words."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeVar

from memory.importers.template import as_text
from tiers.records import Importance, MemoryType, parse_time

T = TypeVar("T")

#: Numbers above this are milliseconds: as seconds they would lie beyond the year 5000.
_MILLISECONDS_FROM = 1e11


def our_id(value: object) -> str | None:
    """Read an id of ours: a UUID in its canonical form."""
    try:
        return value if isinstance(value, str) and str(uuid.UUID(value)) == value else None
    except ValueError:
        return None


def as_time(value: Any) -> datetime:
    """Read a time: RFC 3339, a date, or seconds or milliseconds since 1970. Raises ValueError."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise ValueError(f"{as_text(value)} is no time")
    if isinstance(value, str):
        return parse_time(value)
    seconds = value / 1000 if abs(value) >= _MILLISECONDS_FROM else value
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, OSError) as error:
        raise ValueError(f"{value} is no time") from error


def as_type(value: Any) -> MemoryType:
    """Read a type of ours. Raises ValueError."""
    if value not in {str(kind) for kind in MemoryType}:
        raise ValueError(f"{as_text(value)!r} is none of {', '.join(MemoryType)}")
    return MemoryType(value)


def as_importance(value: Any) -> Importance:
    """Read an importance. Raises ValueError."""
    if value not in {str(kind) for kind in Importance}:
        raise ValueError(f"{as_text(value)!r} is none of {', '.join(Importance)}")
    return Importance(value)


def as_words(value: Any) -> tuple[str, ...]:
    """Read a list of words, or words separated by commas."""
    entries = value if isinstance(value, list) else as_text(value).split(",")
    return tuple(word for entry in entries if (word := as_text(entry).strip()))


def as_bool(value: Any) -> bool:
    """Read true or false. Raises ValueError."""
    if isinstance(value, bool):
        return value
    raise ValueError(f"{as_text(value)} is neither true nor false")


def as_position(value: Any) -> int:
    """Read a whole number. Raises ValueError."""
    if isinstance(value, bool):
        raise ValueError("a position is a whole number")
    number = int(value)
    if number != float(value):
        raise ValueError("a position is a whole number")
    return number


@dataclass(slots=True)
class Fields:
    """The fields of one line, taken one after the other; what is left over is `rest`."""

    rest: dict[str, Any]
    problems: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Fields:
        return cls(dict(data))

    def take(self, name: str, read: Callable[[Any], T]) -> T | None:
        """Take a field out; one that cannot be read stays among the rest, with a problem."""
        value = self.rest.get(name)
        if value in (None, ""):
            self.rest.pop(name, None)
            return None
        try:
            taken = read(value)
        except (ValueError, TypeError, OverflowError) as error:
            self.problems.append(f"{name}: {error}; kept as an extra field")
            return None
        del self.rest[name]
        return taken
