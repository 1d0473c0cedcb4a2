from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiers.archive_vectors import from_float16, nearest, to_float16, unit_vector
from tiers.errors import InvalidPoint

coordinates = st.integers(-5, 5).map(float)
vectors = st.tuples(coordinates, coordinates, coordinates)


@given(
    rows=st.lists(st.tuples(st.integers(0, 6), vectors), max_size=40),
    query=vectors,
    banned=st.sets(st.integers(0, 6), max_size=3),
    limit=st.integers(1, 5),
    batch=st.integers(1, 7),
)
def test_the_search_finds_what_sorting_everything_would_find(
    rows: list[tuple[int, tuple[float, ...]]],
    query: tuple[float, ...],
    banned: set[int],
    limit: int,
    batch: int,
) -> None:
    packed = [(memory, chunk, to_float16(vector)) for chunk, (memory, vector) in enumerate(rows)]
    batches = [packed[start : start + batch] for start in range(0, len(packed), batch)]

    found = nearest(unit_vector(query), batches, lambda memory: memory not in banned, limit)

    best: dict[int, float] = {}
    for memory, vector in rows:
        if memory not in banned:
            best[memory] = max(best.get(memory, -2.0), cosine(query, vector))
    expected = sorted(best.values(), reverse=True)[:limit]
    assert [item.score for item in found] == pytest.approx(expected, abs=1e-3)
    for item in found:
        assert item.score == pytest.approx(best[item.memory], abs=1e-3)
        assert item.score == pytest.approx(cosine(query, rows[item.chunk][1]), abs=1e-3)
    assert len({item.memory for item in found}) == len(found)


def cosine(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    norms = math.hypot(*one) * math.hypot(*other)
    return sum(a * b for a, b in zip(one, other, strict=True)) / norms if norms else 0.0


def test_a_memory_is_asked_for_only_when_it_would_be_an_answer() -> None:
    asked: list[int] = []
    rows = [(memory, memory, to_float16((1.0, float(memory)))) for memory in range(100)]

    nearest(unit_vector((1.0, 0.0)), [rows], lambda memory: not asked.append(memory), 3)

    assert asked == [0, 1, 2]


@given(vector=st.lists(st.floats(-60000, 60000), max_size=20))
def test_a_vector_survives_in_half_precision(vector: list[float]) -> None:
    packed = to_float16(vector)

    assert len(packed) == 2 * len(vector)
    assert from_float16(packed) == pytest.approx(tuple(vector), rel=1e-3, abs=1e-7)
    assert to_float16(from_float16(packed)) == packed


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf, 70_000.0, 1e300])
def test_what_half_precision_cannot_hold_is_refused(number: float) -> None:
    with pytest.raises(InvalidPoint):
        to_float16([0.5, number])
