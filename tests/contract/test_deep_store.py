"""What every deep store promises, whichever engine it stands on."""

from __future__ import annotations

import math
import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.memory_folder import folder_in_memory
from tiers.deep import Arm, DeepSpec, DeepStore, Health, Point, SparseVector, StoredPoint
from tiers.deep_edge import EdgeStore
from tiers.errors import InvalidPoint, StoreMismatch, StoreUnavailable, TierError
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
)
from tiers.records import format_time

MakeStore = Callable[[Path], DeepStore]

#: Every store that passes this suite: the folder it may use → the store, not yet open.
STORES: dict[str, MakeStore] = {
    "edge": lambda folder: EdgeStore(folder / "deep", min_free_bytes=0),
}

SPEC = DeepSpec(active="mini", vectors={"mini": 4})
EVERYTHING = All(())


@pytest.fixture(scope="module", params=STORES.values(), ids=STORES)
def make_store(request: pytest.FixtureRequest) -> MakeStore:
    return request.param


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    with folder_in_memory() as folder:
        yield folder


@pytest.fixture
def open_store(make_store: MakeStore, tmp_path: Path) -> Iterator[Callable[..., DeepStore]]:
    """Open the store of this test, as often as it was closed before."""
    opened: list[DeepStore] = []

    def open_again(spec: DeepSpec = SPEC, folder: Path = tmp_path) -> DeepStore:
        store = make_store(folder)
        store.open(spec)
        opened.append(store)
        return store

    yield open_again
    for store in opened:
        store.close()


@pytest.fixture
def store(open_store: Callable[..., DeepStore]) -> DeepStore:
    return open_store()


@pytest.fixture(scope="module")
def shared_store(make_store: MakeStore) -> Iterator[DeepStore]:
    with folder_in_memory() as folder:
        store = make_store(folder)
        store.open(SPEC)
        yield store
        store.close()


def an_id(number: int) -> str:
    return str(uuid.UUID(int=number))


def a_point(
    number: int = 1,
    *,
    dense: tuple[float, ...] | None = (1.0, 0.0, 0.0, 0.0),
    words: dict[int, float] | None = None,
    **payload: Any,
) -> Point:
    words = {7: 1.0} if words is None else words
    return Point(
        id=an_id(number),
        payload={"id": f"memory-{number}", "project": "p", "text": "a text"} | payload,
        sparse=SparseVector(tuple(sorted(words)), tuple(words[key] for key in sorted(words))),
        dense={} if dense is None else {"mini": dense},
    )


def ids(points: list[StoredPoint] | Iterator[StoredPoint]) -> list[str]:
    return [point.id for point in points]


# -- open ------------------------------------------------------------------------------------


def test_a_store_that_is_not_there_is_created_empty(store: DeepStore) -> None:
    assert store.count(EVERYTHING) == 0
    assert store.active_vector == "mini"
    assert store.mark() == 0


def test_what_was_written_is_there_after_closing_and_opening(
    open_store: Callable[..., DeepStore],
) -> None:
    store = open_store()
    store.upsert([a_point(1), a_point(2)])
    store.close()

    assert ids(open_store().scroll(EVERYTHING)) == [an_id(1), an_id(2)]


@pytest.mark.parametrize(
    "other",
    [
        DeepSpec("mini", {"mini": 5}),
        DeepSpec("mini", {"mini": 4}, schema_version=2),
        DeepSpec("new", {"mini": 4, "new": 8}),
    ],
    ids=["another dimension", "another schema", "a vector that the points lack"],
)
def test_a_store_that_is_not_what_is_asked_for_is_refused_and_left_as_it_is(
    open_store: Callable[..., DeepStore], other: DeepSpec
) -> None:
    store = open_store()
    store.upsert([a_point(1)])
    store.close()

    with pytest.raises(StoreMismatch) as refused:
        open_store(other)

    assert refused.value.hint
    reopened = open_store()
    assert ids(reopened.scroll(EVERYTHING)) == [an_id(1)]
    assert reopened.active_vector == "mini"


def test_an_empty_store_takes_over_the_vectors_that_are_asked_for(
    open_store: Callable[..., DeepStore],
) -> None:
    open_store().close()
    store = open_store(DeepSpec("new", {"new": 2}))

    store.upsert([replace(a_point(1), dense={"new": (0.0, 1.0)})])

    assert store.active_vector == "new"
    assert dense_hits(store, (0.0, 1.0)) == [an_id(1)]


def test_a_spec_whose_active_vector_has_no_dimension_is_refused(
    open_store: Callable[..., DeepStore],
) -> None:
    with pytest.raises(StoreMismatch):
        open_store(DeepSpec("mini", {"other": 4}))


# -- upsert ----------------------------------------------------------------------------------


def test_a_point_replaces_the_one_of_the_same_id_with_all_it_had(store: DeepStore) -> None:
    store.upsert([a_point(1, category="old", words={7: 1.0})])
    store.upsert([a_point(1, dense=None, words={8: 2.0})])

    (point,) = store.fetch([an_id(1)], with_vectors=True)
    assert "category" not in point.payload
    assert point.dense == {}
    assert point.sparse == SparseVector((8,), (2.0,))


def test_writing_the_same_points_again_changes_nothing(store: DeepStore) -> None:
    points = [a_point(1), a_point(2, dense=None)]
    store.upsert(points)
    before = list(store.scroll(EVERYTHING, with_vectors=True))

    store.upsert(points)

    assert list(store.scroll(EVERYTHING, with_vectors=True)) == before


def test_of_two_points_with_one_id_in_a_batch_the_last_one_stays(store: DeepStore) -> None:
    store.upsert([a_point(1, text="first"), a_point(1, text="last")])

    assert [point.payload["text"] for point in store.scroll(EVERYTHING)] == ["last"]


def test_more_points_than_the_store_takes_at_once_are_all_written(store: DeepStore) -> None:
    store.upsert([a_point(number) for number in range(1, 1202)])

    assert store.count(EVERYTHING) == 1201


BAD_POINTS = {
    "an id that is no UUID": replace(a_point(2), id="memory-2"),
    "an unknown vector": replace(a_point(2), dense={"other": (1.0, 0.0, 0.0, 0.0)}),
    "a vector that is too short": a_point(2, dense=(1.0, 0.0)),
    "no number": a_point(2, dense=(1.0, 0.0, 0.0, math.nan)),
    "an infinite number": a_point(2, dense=(1.0, 0.0, 0.0, -math.inf)),
    "a number too large to be squared": a_point(2, dense=(1e30, 0.0, 0.0, 0.0)),
    "a word without a weight": replace(a_point(2), sparse=SparseVector((1, 2), (1.0,))),
    "words out of order": replace(a_point(2), sparse=SparseVector((2, 1), (1.0, 1.0))),
    "a word twice": replace(a_point(2), sparse=SparseVector((1, 1), (1.0, 1.0))),
    "a negative word": replace(a_point(2), sparse=SparseVector((-1,), (1.0,))),
    "a word of 33 bits": replace(a_point(2), sparse=SparseVector((2**32,), (1.0,))),
    "a weight that is no number": a_point(2, words={1: math.nan}),
    "a payload with NaN": a_point(2, category=math.nan),
    "a payload that is no JSON": a_point(2, category=object()),
    "half a surrogate pair": a_point(2, category="\ud800"),
    "a number of 65 bits": a_point(2, position=2**64),
}


@pytest.mark.parametrize("bad", BAD_POINTS.values(), ids=BAD_POINTS)
def test_a_bad_point_is_refused_before_anything_of_its_batch_is_written(
    shared_store: DeepStore, bad: Point
) -> None:
    shared_store.delete(EVERYTHING)

    with pytest.raises(InvalidPoint):
        shared_store.upsert([a_point(1), bad, a_point(3)])

    assert shared_store.count(EVERYTHING) == 0


def test_a_refused_point_does_not_appear_when_the_store_is_opened_again(
    open_store: Callable[..., DeepStore],
) -> None:
    store = open_store()
    for bad in BAD_POINTS.values():
        with pytest.raises(InvalidPoint):
            store.upsert([bad])
    store.close()

    assert open_store().count(EVERYTHING) == 0


# -- delete, set_payload ---------------------------------------------------------------------


def test_delete_removes_exactly_what_satisfies_the_condition(store: DeepStore) -> None:
    store.upsert([a_point(1, project="p"), a_point(2, project="q"), a_point(3, project="p")])

    store.delete(Eq("project", "p"))

    assert ids(store.scroll(EVERYTHING)) == [an_id(2)]


def test_delete_by_id_ignores_ids_that_are_not_there(store: DeepStore) -> None:
    store.upsert([a_point(1), a_point(2)])

    store.delete_ids([an_id(1), an_id(99), "no id at all"])
    store.delete_ids([])

    assert ids(store.scroll(EVERYTHING)) == [an_id(2)]


def test_set_payload_changes_those_fields_of_those_points_only(store: DeepStore) -> None:
    store.upsert([a_point(1, category="x"), a_point(2, category="x")])

    store.set_payload(Eq("id", "memory-1"), {"category": "y", "pinned": True})

    first, second = store.fetch([an_id(1), an_id(2)])
    assert first.payload == dict(a_point(1).payload) | {"category": "y", "pinned": True}
    assert second.payload == dict(a_point(2).payload) | {"category": "x"}
    assert ids(store.scroll(Eq("pinned", True))) == [an_id(1)]


def test_set_payload_refuses_what_cannot_be_kept(store: DeepStore) -> None:
    with pytest.raises(InvalidPoint):
        store.set_payload(EVERYTHING, {"category": math.inf})


# -- fetch, scroll, count, facet -------------------------------------------------------------


def test_fetch_leaves_out_unknown_ids(store: DeepStore) -> None:
    store.upsert([a_point(1), a_point(2)])

    assert sorted(ids(store.fetch([an_id(2), an_id(99), "no id", an_id(1)]))) == [
        an_id(1),
        an_id(2),
    ]
    assert store.fetch([]) == []


def test_fetch_gives_vectors_only_when_asked(store: DeepStore) -> None:
    store.upsert([a_point(1, dense=(3.0, 0.0, 4.0, 0.0), words={2: 0.5, 9: 1.5})])

    (plain,) = store.fetch([an_id(1)])
    (full,) = store.fetch([an_id(1)], with_vectors=True)

    assert (plain.dense, plain.sparse) == ({}, None)
    assert full.payload == plain.payload == a_point(1).payload
    # A store may normalise what it compares by cosine, and keep it as float16.
    assert list(full.dense["mini"]) == pytest.approx([0.6, 0.0, 0.8, 0.0], abs=1e-3)
    assert full.sparse == SparseVector((2, 9), (0.5, 1.5))


def test_a_point_without_words_is_kept(store: DeepStore) -> None:
    store.upsert([a_point(1, words={})])

    assert dense_hits(store, (1.0, 0.0, 0.0, 0.0)) == [an_id(1)]
    assert word_hits(store, 7) == []


@pytest.mark.parametrize("batch", [1, 3, 7, 100])
def test_scroll_yields_every_point_once_in_the_order_of_ids(store: DeepStore, batch: int) -> None:
    numbers = [5, 2**100, 1, 9, 2**64, 3, 4]
    store.upsert([a_point(number) for number in numbers])

    assert ids(store.scroll(EVERYTHING, batch=batch)) == [an_id(n) for n in sorted(numbers)]


def test_scroll_gives_vectors_only_when_asked(store: DeepStore) -> None:
    store.upsert([a_point(1)])

    (plain,) = store.scroll(EVERYTHING)
    (full,) = store.scroll(EVERYTHING, with_vectors=True)

    assert (plain.dense, plain.sparse) == ({}, None)
    assert list(full.dense["mini"]) == [1.0, 0.0, 0.0, 0.0]
    assert full.sparse == SparseVector((7,), (1.0,))


def test_facet_counts_points_by_value(store: DeepStore) -> None:
    store.upsert(
        [
            a_point(1, project="p", tags=["a", "b"]),
            a_point(2, project="p", tags=["a", "a"]),
            a_point(3, project="q", tags=["c"]),
            a_point(4, project="p", tags=[]),
        ]
    )

    assert store.facet("project", EVERYTHING) == {"p": 3, "q": 1}
    assert store.facet("tags", EVERYTHING) == {"a": 2, "b": 1, "c": 1}
    assert store.facet("tags", Eq("project", "p")) == {"a": 2, "b": 1}
    assert store.facet("tags", EVERYTHING, limit=1) == {"a": 2}
    assert store.facet("owner", EVERYTHING) == {}


@pytest.mark.parametrize("name", ["position", "text", "unknown"])
def test_facet_refuses_a_field_that_is_no_indexed_keyword(
    shared_store: DeepStore, name: str
) -> None:
    with pytest.raises(InvalidPoint):
        shared_store.facet(name, EVERYTHING)


# -- candidates ------------------------------------------------------------------------------


def dense_hits(
    store: DeepStore,
    vector: tuple[float, ...],
    condition: Filter = EVERYTHING,
    depth: int = 10,
) -> list[str]:
    found = store.candidates(dense=vector, sparse=None, condition=condition, depth=depth)
    assert list(found) == [Arm.DENSE]
    return [candidate.point_id for candidate in found[Arm.DENSE]]


def word_hits(
    store: DeepStore, word: int, condition: Filter = EVERYTHING, depth: int = 10
) -> list[str]:
    sparse = SparseVector((word,), (1.0,))
    found = store.candidates(dense=None, sparse=sparse, condition=condition, depth=depth)
    assert list(found) == [Arm.SPARSE]
    return [candidate.point_id for candidate in found[Arm.SPARSE]]


def test_the_dense_arm_orders_by_cosine_and_says_it(store: DeepStore) -> None:
    store.upsert(
        [
            a_point(1, dense=(1.0, 1.0, 0.0, 0.0)),
            a_point(2, dense=(5.0, 0.0, 0.0, 0.0)),
            a_point(3, dense=(-1.0, 0.0, 0.0, 0.0)),
            a_point(4, dense=None),
        ]
    )

    found = store.candidates(
        dense=(2.0, 0.0, 0.0, 0.0), sparse=None, condition=EVERYTHING, depth=10
    )[Arm.DENSE]

    assert [candidate.point_id for candidate in found] == [an_id(2), an_id(1), an_id(3)]
    assert [candidate.score for candidate in found] == pytest.approx([1.0, 0.7071, -1], abs=1e-3)
    assert found[0].payload == a_point(2).payload


def test_the_sparse_arm_finds_words_and_prefers_the_rare_one(store: DeepStore) -> None:
    store.upsert([a_point(n, dense=None, words={7: 1.0}) for n in range(1, 9)])
    store.upsert([a_point(9, dense=None, words={8: 1.0})])

    found = store.candidates(
        dense=None, sparse=SparseVector((7, 8), (1.0, 1.0)), condition=EVERYTHING, depth=3
    )[Arm.SPARSE]

    assert found[0].point_id == an_id(9)
    assert len(found) == 3
    assert found[0].score > found[1].score > 0


def test_a_word_is_as_rare_as_it_is_in_the_projects_that_are_asked_for(store: DeepStore) -> None:
    store.upsert([a_point(n, project="other", words={7: 1.0}) for n in range(1, 31)])
    store.upsert([a_point(31, project="mine", words={7: 1.0})])
    store.upsert([a_point(n, project="mine", words={8: 1.0}) for n in range(32, 40)])

    mine = word_scores(store, All((Eq("project", "mine"), Not(Eq("type", "user")))))
    everywhere = word_scores(store, EVERYTHING)

    assert mine[an_id(31)] > mine[an_id(32)]
    assert everywhere[an_id(31)] < everywhere[an_id(32)]


def word_scores(store: DeepStore, condition: Filter) -> dict[str, float]:
    found = store.candidates(
        dense=None, sparse=SparseVector((7, 8), (1.0, 1.0)), condition=condition, depth=100
    )
    return {candidate.point_id: candidate.score for candidate in found[Arm.SPARSE]}


def test_each_arm_that_is_given_a_vector_answers_and_no_other(store: DeepStore) -> None:
    store.upsert([a_point(1)])

    both = store.candidates(
        dense=(1.0, 0.0, 0.0, 0.0),
        sparse=SparseVector((7,), (1.0,)),
        condition=EVERYTHING,
        depth=5,
    )
    none = store.candidates(dense=None, sparse=None, condition=EVERYTHING, depth=5)

    assert {arm: [c.point_id for c in found] for arm, found in both.items()} == {
        Arm.DENSE: [an_id(1)],
        Arm.SPARSE: [an_id(1)],
    }
    assert none == {}


def test_both_arms_keep_to_the_condition_and_the_depth(store: DeepStore) -> None:
    store.upsert([a_point(n, project="p" if n % 2 else "q") for n in range(1, 11)])
    condition = Eq("project", "q")

    assert set(dense_hits(store, (1.0, 0.0, 0.0, 0.0), condition)) == {
        an_id(n) for n in (2, 4, 6, 8, 10)
    }
    assert set(word_hits(store, 7, condition)) == {an_id(n) for n in (2, 4, 6, 8, 10)}
    assert len(dense_hits(store, (1.0, 0.0, 0.0, 0.0), depth=3)) == 3
    assert len(word_hits(store, 7, depth=3)) == 3
    assert dense_hits(store, (1.0, 0.0, 0.0, 0.0), depth=0) == []


def test_a_query_without_known_words_finds_nothing(store: DeepStore) -> None:
    store.upsert([a_point(1)])

    empty = store.candidates(dense=None, sparse=SparseVector((), ()), condition=EVERYTHING, depth=5)

    assert empty == {Arm.SPARSE: []}
    assert word_hits(store, 1234) == []


@pytest.mark.parametrize("vector", [(1.0, 0.0), (math.nan, 0.0, 0.0, 0.0)])
def test_a_bad_query_vector_is_refused(shared_store: DeepStore, vector: tuple[float, ...]) -> None:
    with pytest.raises(InvalidPoint):
        shared_store.candidates(dense=vector, sparse=None, condition=EVERYTHING, depth=5)


# -- vectors ---------------------------------------------------------------------------------


def test_a_second_vector_is_searched_once_it_is_active_and_survives_reopening(
    open_store: Callable[..., DeepStore],
) -> None:
    store = open_store()
    store.upsert([a_point(1), a_point(2, dense=(0.0, 1.0, 0.0, 0.0))])
    store.add_vector("new", 2)
    store.add_vector("new", 2)
    store.upsert(
        [
            replace(a_point(1), dense={"mini": (1.0, 0.0, 0.0, 0.0), "new": (0.0, 1.0)}),
            replace(a_point(2), dense={"new": (1.0, 0.0)}),
        ]
    )
    assert dense_hits(store, (1.0, 0.0, 0.0, 0.0)) == [an_id(1)]

    store.activate("new")
    store.close()

    reopened = open_store()
    assert reopened.active_vector == "new"
    assert dense_hits(reopened, (1.0, 0.0)) == [an_id(2), an_id(1)]


def test_a_vector_of_another_dimension_is_refused(store: DeepStore) -> None:
    with pytest.raises(StoreMismatch):
        store.add_vector("mini", 8)

    store.upsert([a_point(1)])
    assert dense_hits(store, (1.0, 0.0, 0.0, 0.0)) == [an_id(1)]


def test_a_dropped_vector_is_gone_and_may_come_back_empty(
    open_store: Callable[..., DeepStore],
) -> None:
    store = open_store()
    store.add_vector("new", 2)
    store.upsert([replace(a_point(1), dense={"new": (0.0, 1.0)})])

    store.drop_vector("new")
    store.drop_vector("new")
    with pytest.raises(InvalidPoint):
        store.upsert([replace(a_point(2), dense={"new": (0.0, 1.0)})])
    store.close()

    reopened = open_store()
    reopened.add_vector("new", 3)
    reopened.activate("new")
    assert dense_hits(reopened, (0.0, 1.0, 0.0)) == []
    assert reopened.count(EVERYTHING) == 1


def test_the_active_vector_cannot_be_dropped_nor_an_unknown_one_activated(
    store: DeepStore,
) -> None:
    with pytest.raises(StoreMismatch):
        store.drop_vector("mini")
    with pytest.raises(StoreMismatch):
        store.activate("unknown")

    assert store.active_vector == "mini"


# -- flush, backup, health, close ------------------------------------------------------------


def test_the_mark_is_what_the_last_flush_said(open_store: Callable[..., DeepStore]) -> None:
    store = open_store()
    store.upsert([a_point(1)])
    store.flush(41)
    store.flush()
    assert store.mark() == 41
    store.close()

    assert open_store().mark() == 41


def test_a_backup_opens_as_a_store_of_its_own(
    open_store: Callable[..., DeepStore], tmp_path: Path
) -> None:
    store = open_store()
    store.upsert([a_point(1), a_point(2)])
    store.flush(7)

    store.backup(tmp_path / "copies" / "deep")
    store.delete_ids([an_id(1)])

    copy = open_store(folder=tmp_path / "copies")
    assert ids(copy.scroll(EVERYTHING)) == [an_id(1), an_id(2)]
    assert set(dense_hits(copy, (1.0, 0.0, 0.0, 0.0))) == {an_id(1), an_id(2)}
    assert copy.mark() == 7
    assert ids(store.scroll(EVERYTHING)) == [an_id(2)]


def test_a_backup_overwrites_nothing(store: DeepStore, tmp_path: Path) -> None:
    kept = tmp_path / "taken"
    kept.mkdir()

    with pytest.raises(TierError):
        store.backup(kept)

    assert list(kept.iterdir()) == []


def test_health_tells_ready_with_the_count_and_down_after_closing(store: DeepStore) -> None:
    store.upsert([a_point(1)])
    ready = store.health()
    store.close()

    assert (ready.state, ready.count) == (Health.READY, 1)
    assert store.health().state is Health.DOWN


def test_a_store_that_was_never_opened_is_down(make_store: MakeStore, tmp_path: Path) -> None:
    store = make_store(tmp_path)

    assert store.health().state is Health.DOWN
    store.close()


CALLS: dict[str, Callable[[DeepStore], object]] = {
    "open": lambda store: store.open(SPEC),
    "upsert": lambda store: store.upsert([a_point()]),
    "delete": lambda store: store.delete(EVERYTHING),
    "delete_ids": lambda store: store.delete_ids([an_id(1)]),
    "set_payload": lambda store: store.set_payload(EVERYTHING, {"category": "x"}),
    "fetch": lambda store: store.fetch([an_id(1)]),
    "candidates": lambda store: dense_hits(store, (1.0, 0.0, 0.0, 0.0)),
    "scroll": lambda store: list(store.scroll(EVERYTHING)),
    "count": lambda store: store.count(EVERYTHING),
    "facet": lambda store: store.facet("project", EVERYTHING),
    "add_vector": lambda store: store.add_vector("new", 2),
    "drop_vector": lambda store: store.drop_vector("new"),
    "active_vector": lambda store: store.active_vector,
    "activate": lambda store: store.activate("mini"),
    "mark": lambda store: store.mark(),
    "flush": lambda store: store.flush(),
    "backup": lambda store: store.backup(Path("never-written")),
}


@pytest.fixture(scope="module")
def closed_store(make_store: MakeStore) -> Iterator[DeepStore]:
    with folder_in_memory() as folder:
        store = make_store(folder)
        store.open(SPEC)
        store.close()
        store.close()
        yield store


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_after_closing_twice_every_call_says_unavailable(
    closed_store: DeepStore, call: Callable[[DeepStore], object]
) -> None:
    with pytest.raises(StoreUnavailable):
        call(closed_store)


def test_threads_may_share_a_store(store: DeepStore) -> None:
    failures: list[BaseException] = []

    def write(worker: int) -> None:
        try:
            for step in range(20):
                number = worker * 1000 + step
                store.upsert([a_point(number, project=f"p{worker}")])
                assert ids(store.fetch([an_id(number)])) == [an_id(number)]
                assert an_id(number) in ids(store.scroll(Eq("project", f"p{worker}"), batch=7))
                store.flush(number)
        except BaseException as failure:
            failures.append(failure)
            raise

    threads = [threading.Thread(target=write, args=(worker,)) for worker in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert failures == []
    assert store.count(EVERYTHING) == 80
    assert store.facet("project", EVERYTHING) == {f"p{worker}": 20 for worker in range(1, 5)}


# -- the filter tree -------------------------------------------------------------------------

TEXTS = ["", "a", "ab", "b", "é", "A", 'with "marks"', "a.b"]
NUMBERS = [-3, 0, 1, 2, 2**53]
FRACTIONS = [-3.0, 0.0, 0.5, 1.0, 1.5, 1e300]
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
MOMENTS = [NOON + timedelta(microseconds=n) for n in (0, 1, 500_000, 86_400_000_000)]

texts = st.sampled_from(TEXTS)
numbers = st.sampled_from(NUMBERS)
flags = st.booleans()
moments = st.sampled_from(MOMENTS)
times = moments.map(format_time) | st.sampled_from(["no time", "2026-03-01T13:00:00+01:00"])


def one_or_some(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | values | st.lists(st.none() | values, max_size=3)


anything = one_or_some(texts | numbers | st.sampled_from(FRACTIONS) | flags | times) | st.just(
    {"a": 1}
)

#: Indexed fields hold their own kind, as chunk_payload writes them; the last two are not indexed.
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "category": one_or_some(texts | numbers | flags),
    "tags": one_or_some(texts),
    "position": one_or_some(numbers),
    "pinned": one_or_some(flags | numbers | texts),
    "expires_at": one_or_some(times),
    "free": anything,
    "an odd.name[]": anything,
}

payloads = st.fixed_dictionaries({}, optional=FIELDS)
names = st.sampled_from([*FIELDS, "missing"])


def bounds(values: st.SearchStrategy[Any]) -> dict[str, st.SearchStrategy[Any]]:
    return {side: st.none() | values for side in ("gte", "gt", "lte", "lt")}


leaves: st.SearchStrategy[Filter] = st.one_of(
    st.builds(Eq, names, texts | numbers | flags),
    st.builds(In, names, st.lists(texts, max_size=3).map(tuple)),
    st.builds(In, names, st.lists(numbers, max_size=3).map(tuple)),
    st.builds(Prefix, names, texts),
    st.builds(
        NumberRange,
        names,
        **bounds(numbers | st.sampled_from([*FRACTIONS, math.inf, -math.inf, math.nan])),
    ),
    st.builds(TimeRange, names, **bounds(moments)),
    st.builds(Exists, names),
)
filters: st.SearchStrategy[Filter] = st.recursive(
    leaves,
    lambda part: st.one_of(
        st.builds(All, st.lists(part, max_size=3).map(tuple)),
        st.builds(AnyOf, st.lists(part, max_size=3).map(tuple)),
        st.builds(Not, part),
    ),
    max_leaves=6,
)


@settings(
    max_examples=300,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(found=st.lists(payloads, min_size=1, max_size=8), conditions=st.lists(filters, min_size=4))
def test_a_filter_means_in_the_store_what_it_means_in_python(
    shared_store: DeepStore, found: list[dict[str, Any]], conditions: list[Filter]
) -> None:
    shared_store.delete(EVERYTHING)
    points = [replace(a_point(n), payload=payload) for n, payload in enumerate(found, 1)]
    shared_store.upsert(points)

    for condition in conditions:
        expected = [point.id for point in points if matches(condition, point.payload)]
        assert ids(shared_store.scroll(condition)) == expected, condition
        assert shared_store.count(condition) == len(expected)


def test_every_value_of_an_enumeration_is_filtered_like_its_text(shared_store: DeepStore) -> None:
    shared_store.delete(EVERYTHING)
    shared_store.upsert([a_point(1, type="user"), a_point(2, type="project")])

    assert ids(shared_store.scroll(In("type", ("user", "feedback")))) == [an_id(1)]


def test_a_field_that_cannot_be_addressed_is_refused(shared_store: DeepStore) -> None:
    with pytest.raises(InvalidPoint):
        shared_store.count(Eq('a "b"', "x"))
    with pytest.raises(InvalidPoint):
        shared_store.upsert([replace(a_point(1), payload={'a "b"': 1})])
