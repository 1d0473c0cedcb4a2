from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

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
    matches,
    time_bound,
)
from tiers.narrowing import is_exactly, text_values
from tiers.records import MemoryType, Visibility

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
TRUE, FALSE = All(()), AnyOf(())

HOLDS: list[tuple[Filter, dict[str, Any]]] = [
    (Eq("a", "x"), {"a": "x"}),
    (Eq("a", "x"), {"a": ["y", "x"]}),
    (Eq("a", "x"), {"a": ("x",)}),
    (Eq("a", ""), {"a": ""}),
    (Eq("a", True), {"a": True}),
    (Eq("a", 0), {"a": 0}),
    (In("a", ("x", "y")), {"a": "y"}),
    (In("a", (1, 2)), {"a": [5, 2]}),
    (Prefix("a", "ab"), {"a": "abc"}),
    (Prefix("a", "ab"), {"a": ["x", "ab"]}),
    (Prefix("a", ""), {"a": ""}),
    (NumberRange("a", gte=1, lt=2), {"a": 1}),
    (NumberRange("a", gte=1, lt=2), {"a": [7, 1.5]}),
    (NumberRange("a"), {"a": 0}),
    (TimeRange("a", gte=NOON, lte=NOON), {"a": "2026-03-01T12:00:00Z"}),
    (TimeRange("a", gte=NOON, lte=NOON), {"a": "2026-03-01T13:00:00+01:00"}),
    (TimeRange("a", gt=NOON), {"a": "2026-03-01T12:00:00.000001Z"}),
    (TimeRange("a", lt=NOON), {"a": "2026-03-01"}),
    (TimeRange("a", gte=NOON), {"a": NOON}),
    (Exists("a"), {"a": 0}),
    (Exists("a"), {"a": ""}),
    (Exists("a"), {"a": False}),
    (TRUE, {}),
    (All((Eq("a", 1), Eq("b", 2))), {"a": 1, "b": 2}),
    (AnyOf((Eq("a", 1), Eq("b", 2))), {"b": 2}),
    (Not(Eq("a", 1)), {}),
    (Not(Exists("a")), {"a": None}),
    (Not(Not(TRUE)), {}),
]

FAILS: list[tuple[Filter, dict[str, Any]]] = [
    (Eq("a", "x"), {}),
    (Eq("a", "x"), {"a": None}),
    (Eq("a", "x"), {"a": []}),
    (Eq("a", "x"), {"a": "X"}),
    (Eq("a", "x"), {"b": "x"}),
    (Eq("a", 1), {"a": True}),
    (Eq("a", True), {"a": 1}),
    (Eq("a", 1), {"a": 1.0}),
    (Eq("a", 1), {"a": "1"}),
    (In("a", ()), {"a": "x"}),
    (In("a", (1,)), {"a": True}),
    (Prefix("a", "ab"), {"a": "a"}),
    (Prefix("a", ""), {"a": 1}),
    (Prefix("a", ""), {}),
    (NumberRange("a", gte=1), {"a": 0.5}),
    (NumberRange("a", gt=1), {"a": 1}),
    (NumberRange("a", gt=1, lt=2), {"a": [1, 2]}),
    (NumberRange("a", gt=1, lt=9), {"a": [0, 10]}),
    (NumberRange("a", gte=0), {"a": True}),
    (NumberRange("a"), {"a": "1"}),
    (NumberRange("a", gte=float("nan")), {"a": 1}),
    (TimeRange("a", gt=NOON), {"a": "2026-03-01T12:00:00Z"}),
    (TimeRange("a"), {"a": "no time"}),
    (TimeRange("a"), {"a": 5}),
    (TimeRange("a"), {}),
    (Exists("a"), {}),
    (Exists("a"), {"a": None}),
    (Exists("a"), {"a": []}),
    (FALSE, {}),
    (All((Eq("a", 1), Eq("b", 2))), {"a": 1}),
    (AnyOf((Eq("a", 1), Eq("b", 2))), {"a": 2}),
    (Not(TRUE), {}),
]


@pytest.mark.parametrize(("condition", "payload"), HOLDS, ids=map(str, HOLDS))
def test_a_condition_holds_and_its_opposite_does_not(
    condition: Filter, payload: dict[str, Any]
) -> None:
    assert matches(condition, payload)
    assert not matches(Not(condition), payload)


@pytest.mark.parametrize(("condition", "payload"), FAILS, ids=map(str, FAILS))
def test_a_condition_does_not_hold_and_its_opposite_does(
    condition: Filter, payload: dict[str, Any]
) -> None:
    assert not matches(condition, payload)
    assert matches(Not(condition), payload)


def test_a_bound_is_rendered_as_stores_compare_it() -> None:
    east = timezone(timedelta(hours=2))

    assert time_bound(None) is None
    assert time_bound(NOON) == "2026-03-01T12:00:00Z"
    assert time_bound(datetime(2026, 3, 1, 14, tzinfo=east)) == "2026-03-01T12:00:00Z"


P, Q = Eq("project", "p"), Eq("project", "q")


@pytest.mark.parametrize(
    ("condition", "values"),
    [
        (P, {"p"}),
        (In("project", ("p", "q")), {"p", "q"}),
        (In("project", ()), set()),
        (All((P, Eq("type", "user"))), {"p"}),
        (All((P, In("project", ("p", "q")))), {"p"}),
        (All((P, Q)), set()),
        (AnyOf((P, Q)), {"p", "q"}),
        (AnyOf((All((P, Exists("tags"))), Q)), {"p", "q"}),
        (FALSE, set()),
        (AnyOf((P, Eq("type", "user"))), None),
        (Not(P), None),
        (TRUE, None),
        (Eq("project", 1), None),
        (Prefix("project", "p"), None),
    ],
)
def test_the_values_that_a_filter_allows_for_a_field_are_known(
    condition: Filter, values: set[str] | None
) -> None:
    assert text_values(condition, "project") == values


@pytest.mark.parametrize(
    ("condition", "answer"),
    [
        (P, True),
        (TRUE, True),
        (All((P, AnyOf((P, Q)))), True),
        (In("project", ("p",)), True),
        (All((P, Eq("type", "user"))), False),
        (Not(P), False),
        (Eq("project", 1), False),
        (Exists("project"), False),
    ],
)
def test_a_filter_that_asks_nothing_but_a_field_is_told(condition: Filter, answer: bool) -> None:
    assert is_exactly(condition, "project") is answer


def test_a_member_of_an_enumeration_is_its_text() -> None:
    assert matches(Eq("visibility", Visibility.PRIVATE), {"visibility": "private"})
    assert matches(In("type", (MemoryType.USER,)), {"type": "user"})
