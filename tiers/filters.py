"""A small filter tree that every store understands, and its meaning in Python.

The meaning is Qdrant's: a condition on a list field holds when any element satisfies it, and a
missing field satisfies nothing but `Not`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tiers.records import format_time, parse_time


@dataclass(frozen=True, slots=True)
class Eq:
    """The field, or one of its elements, equals the value."""

    field: str
    value: str | int | bool


@dataclass(frozen=True, slots=True)
class In:
    """The field, or one of its elements, is one of the values; no values match nothing."""

    field: str
    values: tuple[str, ...] | tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Prefix:
    """The text field starts with the prefix."""

    field: str
    prefix: str


@dataclass(frozen=True, slots=True)
class NumberRange:
    """The number lies between the bounds that are given."""

    field: str
    gte: float | None = None
    gt: float | None = None
    lte: float | None = None
    lt: float | None = None


@dataclass(frozen=True, slots=True)
class TimeRange:
    """The time lies between the bounds that are given."""

    field: str
    gte: datetime | None = None
    gt: datetime | None = None
    lte: datetime | None = None
    lt: datetime | None = None


@dataclass(frozen=True, slots=True)
class Exists:
    """The field is there and is neither null nor an empty list."""

    field: str


@dataclass(frozen=True, slots=True)
class All:
    """Every part holds; without parts, always true."""

    parts: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """At least one part holds; without parts, never true."""

    parts: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """The part does not hold."""

    part: Filter


Filter = Eq | In | Prefix | NumberRange | TimeRange | Exists | All | AnyOf | Not


def matches(condition: Filter, payload: Mapping[str, Any]) -> bool:
    """Say whether `payload` satisfies `condition`."""
    match condition:
        case All(parts):
            return all(matches(part, payload) for part in parts)
        case AnyOf(parts):
            return any(matches(part, payload) for part in parts)
        case Not(part):
            return not matches(part, payload)
        case Exists(field):
            return bool(_values(payload, field))
        case Eq(field, value):
            return any(_same(found, value) for found in _values(payload, field))
        case In(field, values):
            return any(_same(found, value) for found in _values(payload, field) for value in values)
        case Prefix(field, prefix):
            return any(
                isinstance(found, str) and found.startswith(prefix)
                for found in _values(payload, field)
            )
        case NumberRange():
            return any(
                _is_number(found) and _between(found, condition)
                for found in _values(payload, condition.field)
            )
        case TimeRange():
            times = (_as_time(found) for found in _values(payload, condition.field))
            return any(moment is not None and _between(moment, condition) for moment in times)


def _values(payload: Mapping[str, Any], field: str) -> list[Any]:
    found = payload.get(field)
    if found is None:
        return []
    return list(found) if isinstance(found, (list, tuple)) else [found]


def _same(found: Any, value: Any) -> bool:
    # True is not 1 here and 1 is not 1.0, but a member of a StrEnum is its text.
    if isinstance(found, str) and isinstance(value, str):
        return found == value
    return type(found) is type(value) and bool(found == value)


def _is_number(found: Any) -> bool:
    return isinstance(found, (int, float)) and not isinstance(found, bool)


def _as_time(found: Any) -> datetime | None:
    if isinstance(found, datetime):
        return found
    try:
        return parse_time(found) if isinstance(found, str) else None
    except ValueError:
        return None


def _between(found: Any, bounds: NumberRange | TimeRange) -> bool:
    return (
        (bounds.gte is None or found >= bounds.gte)
        and (bounds.gt is None or found > bounds.gt)
        and (bounds.lte is None or found <= bounds.lte)
        and (bounds.lt is None or found < bounds.lt)
    )


def time_bound(moment: datetime | None) -> str | None:
    """Render a bound as the text that stores compare with."""
    return None if moment is None else format_time(moment)
