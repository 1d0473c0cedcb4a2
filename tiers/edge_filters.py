"""The filter tree in the embedded engine's words, with the meaning of `tiers.filters.matches`."""

from __future__ import annotations

import math
import re
from typing import Any, cast

import numpy as np
import qdrant_edge as qe

from tiers.deep import INDEXED_FIELDS
from tiers.errors import InvalidPoint
from tiers.filters import (
    All,
    AnyOf,
    Eq,
    Exists,
    Filter,
    In,
    Not,
    NumberRange,
    Prefix,
    TimeRange,
    time_bound,
)

_PLAIN_KEY = re.compile(r"[A-Za-z0-9_-]+")
_MIN_INT, _MAX_INT = -(2**63), 2**63 - 1


def compile_filter(condition: Filter) -> qe.Filter:
    """Build the engine's filter, which judges every payload as `matches` does.

    That holds while an indexed integer, flag or time field has values of its own kind, as those
    of `chunk_payload` have: an integer index does not see fractions.
    Raises InvalidPoint for a field name with a quotation mark, which the engine cannot address.
    """
    compiled = _compile(condition)
    return compiled if isinstance(compiled, qe.Filter) else qe.Filter(must=[compiled])


def _compile(condition: Filter) -> Any:
    match condition:
        case All(parts):
            return qe.Filter(must=[_compile(part) for part in parts])
        case AnyOf(parts):
            return _any_of([_compile(part) for part in parts])
        case Not(part):
            return qe.Filter(must_not=[_compile(part)])
        case Exists(field):
            return qe.Filter(must_not=[qe.IsEmptyCondition(_key(field))])
        case Eq(field, value):
            return _one_of(field, (value,))
        case In(field, values):
            return _one_of(field, values)
        case Prefix(field, prefix):
            return _prefix(field, prefix)
        case NumberRange():
            return _number_range(condition)
        case TimeRange():
            return _time_range(condition)


def _any_of(parts: list[Any]) -> Any:
    # An empty `should` holds for every point; an empty set of ids for none.
    return qe.Filter(should=parts) if parts else qe.HasIdCondition(set())


def _one_of(field: str, values: tuple[str | int | bool, ...]) -> Any:
    storable = [value for value in values if _can_be_stored(value)]
    texts = [value for value in storable if isinstance(value, str)]
    flags = [value for value in storable if isinstance(value, bool)]
    numbers = [v for v in storable if isinstance(v, int) and not isinstance(v, bool)]
    matches: list[Any] = [_flag(flag) for flag in flags]
    matches += [_any_value(found) for found in (texts, numbers) if found]
    key = _key(field)
    parts = [qe.FieldCondition(key, match=match) for match in matches]
    return parts[0] if len(parts) == 1 else _any_of(parts)


def _any_value(values: list[Any]) -> qe.MatchValue | qe.MatchAny:
    return qe.MatchValue(values[0]) if len(values) == 1 else qe.MatchAny(values)


def _flag(value: bool) -> qe.MatchValue:
    # The binding takes a Python bool for the integer 0 or 1 and would find no flag with it.
    return qe.MatchValue(cast("bool", np.bool_(value)))


def _prefix(field: str, prefix: str) -> Any:
    if not _can_be_stored(prefix):
        return _any_of([])
    return qe.FieldCondition(_key(field), match=qe.MatchPrefix(prefix))


def _number_range(bounds: NumberRange) -> Any:
    values = (bounds.gte, bounds.gt, bounds.lte, bounds.lt)
    if any(value is not None and math.isnan(value) for value in values):
        return _any_of([])  # The engine would order NaN above every number.
    if INDEXED_FIELDS.get(bounds.field) == "datetime":
        return _any_of([])  # Its index would compare with microseconds.
    return qe.FieldCondition(_key(bounds.field), range=qe.RangeFloat(**_tightest(*values)))


def _time_range(bounds: TimeRange) -> Any:
    if INDEXED_FIELDS.get(bounds.field) == "integer":
        return _any_of([])  # Its index would take the numbers for microseconds.
    sides = {
        side: time_bound(moment)
        for side, moment in _tightest(bounds.gte, bounds.gt, bounds.lte, bounds.lt).items()
    }
    return qe.FieldCondition(_key(bounds.field), range=qe.RangeDateTime(**sides))


def _tightest(gte: Any, gt: Any, lte: Any, lt: Any) -> dict[str, Any]:
    """Keep one bound a side: of `gte` and `gt`, an index of the engine heeds only one."""
    sides = {"gte": gte, "gt": gt, "lte": lte, "lt": lt}
    if gte is not None and gt is not None:
        del sides["gte" if gt >= gte else "gt"]
    if lte is not None and lt is not None:
        del sides["lte" if lt <= lte else "lt"]
    return sides


def _can_be_stored(value: str | int | bool) -> bool:
    if isinstance(value, str):
        return not any("\ud800" <= character <= "\udfff" for character in value)
    return _MIN_INT <= value <= _MAX_INT


def _key(field: str) -> str:
    if _PLAIN_KEY.fullmatch(field):
        return field
    if '"' in field:
        raise InvalidPoint(f"a payload field cannot be called {field!r}")
    return f'"{field}"'
