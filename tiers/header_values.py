"""How the values of header keys are read. Each reader gets a value and its text as written.

The text matters where YAML would make something else of it: a tag `1.10`, `yes` or `2024-01-01`.
Readers raise ValueError with a reason for people.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from typing import Any, TypeVar

from tiers.records import Importance, parse_time

_Member = TypeVar("_Member", bound=StrEnum)
_LIFETIME = re.compile(r"(\d{1,6})\s*(m|h|d|w|days?|weeks?|)")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks", "": "days"}
_LONGEST_ID = 200


def as_text(value: Any, text: Any = None) -> str:
    """Read a scalar as the text that stands there."""
    if isinstance(value, (list, dict, set)):
        raise ValueError("should be one text")
    return text if isinstance(text, str) else str(value)


def as_id(value: Any, text: Any = None) -> str:
    """Read an id: one short printable line."""
    name = as_text(value, text).strip()
    if not 0 < len(name) <= _LONGEST_ID or not name.isprintable():
        raise ValueError(f"should be one line of at most {_LONGEST_ID} characters")
    return name


def as_words(value: Any, text: Any = None) -> tuple[str, ...]:
    """Read a list, or one text with commas, as distinct words without outer white space."""
    if isinstance(value, list):
        told = zip(value, text if isinstance(text, list) else value, strict=True)
        return _distinct(as_text(*item).strip() for item in told if item[0] is not None)
    return _distinct(word.strip() for word in as_text(value, text).split(","))


def as_lower_words(value: Any, text: Any = None) -> tuple[str, ...]:
    """Read words as `as_words` does, without regard to case."""
    return _distinct(word.casefold() for word in as_words(value, text))


def as_member(kind: type[_Member]) -> Callable[[Any, Any], _Member]:
    """Make a reader of one of some names."""

    def read(value: Any, text: Any = None) -> _Member:
        name = as_text(value, text).strip()
        try:
            return kind(name.lower())
        except ValueError:
            raise ValueError(f"{_short(name)} is none of {', '.join(kind)}") from None

    return read


def as_importance(value: Any, text: Any = None) -> Importance:
    """Read low, medium or high, or a number from 0 to 1."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= 1:
        if value >= 0.8:
            return Importance.HIGH
        return Importance.LOW if value < 0.4 else Importance.MEDIUM
    return as_member(Importance)(value, text)


def as_flag(value: Any, text: Any = None) -> bool:
    """Read a yes or no."""
    if isinstance(value, bool):
        return value
    word = as_text(value, text).strip().lower()
    if word not in ("true", "yes", "on", "false", "no", "off"):
        raise ValueError(f"{_short(word)} is neither true nor false")
    return word in ("true", "yes", "on")


def as_time(value: Any, text: Any = None) -> datetime | None:
    """Read a time or a date, in UTC when no zone is said; "never" is none."""
    try:
        if isinstance(value, datetime):
            return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
        if isinstance(value, date):
            return datetime(value.year, value.month, value.day, tzinfo=UTC)
        word = as_text(value, text).strip()
        return None if word.lower() == "never" else parse_time(word)
    except (ValueError, OverflowError):
        raise ValueError(f"{_short(text if isinstance(text, str) else value)} is no time") from None


def as_lifetime(value: Any, text: Any = None) -> timedelta | None:
    """Read a lifetime such as 30m, 12h, 14d, 2w or a number of days; "never" is none."""
    word = as_text(value, text).strip().lower()
    if word == "never":
        return None
    found = _LIFETIME.fullmatch(word)
    if found is None or int(found[1]) == 0:
        raise ValueError(f"{_short(word)} is no lifetime")
    return timedelta(**{_UNITS[found[2][:1]]: int(found[1])})


def _distinct(words: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(word for word in words if word))


def _short(value: Any) -> str:
    text = repr(str(value))
    return text if len(text) <= 40 else text[:38] + "…'"
