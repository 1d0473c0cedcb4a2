"""What every archive promises, whichever database it stands on."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.archives import put_chunks
from tests.support.memory_folder import folder_in_memory
from tiers.archive import Appended, AppendOutcome, Archive, StoredChunk
from tiers.archive_sqlite import SqliteArchive
from tiers.deep import Health
from tiers.errors import InvalidPoint, InvalidRecord, StoreUnavailable
from tiers.filters import All, AnyOf, Eq, Exists, Filter, In, Not, NumberRange, TimeRange, matches
from tiers.records import Importance, MemoryRecord, MemoryType, Usage, next_revision, to_json

MakeArchive = Callable[[Path], Archive]

#: Every archive that passes this suite: the folder it may use → the archive, not yet open.
ARCHIVES: dict[str, MakeArchive] = {
    "sqlite": lambda folder: SqliteArchive(folder / "archive.db"),
}

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
EVERYTHING = All(())


@pytest.fixture(params=ARCHIVES.values(), ids=ARCHIVES)
def make_archive(request: pytest.FixtureRequest) -> MakeArchive:
    return request.param


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    with folder_in_memory() as folder:
        yield folder


@pytest.fixture
def open_archive(make_archive: MakeArchive, tmp_path: Path) -> Iterator[Callable[[], Archive]]:
    opened: list[Archive] = []

    def open_again() -> Archive:
        archive = make_archive(tmp_path)
        archive.open()
        opened.append(archive)
        return archive

    yield open_again
    for archive in opened:
        archive.close()


@pytest.fixture
def archive(open_archive: Callable[[], Archive]) -> Archive:
    return open_archive()


def a_record(number: int = 1, body: str = "use uv, not pip", **changes: Any) -> MemoryRecord:
    values: dict[str, Any] = {
        "id": f"m-{number:03}",
        "project": "p",
        "name": f"note {number}",
        "body": body,
        "created_at": NOW,
        "updated_at": NOW,
    }
    return MemoryRecord(**values | changes)


def a_chunk(ordinal: int = 0, **changes: Any) -> StoredChunk:
    values: dict[str, Any] = {
        "ordinal": ordinal,
        "chunk_hash": f"hash-{ordinal}",
        "text": f"chunk {ordinal}",
        "space": "mini",
        "vector": (1.0, 0.0),
    }
    return StoredChunk(**values | changes)


def fates(outcomes: Sequence[AppendOutcome]) -> list[tuple[int, Appended]]:
    return [(outcome.revision, outcome.fate) for outcome in outcomes]


def ids(records: Sequence[MemoryRecord]) -> list[str]:
    return [record.id for record in records]


# -- append ----------------------------------------------------------------------------------


def test_a_record_comes_back_as_it_was_given(archive: Archive) -> None:
    record = a_record(
        description="how to install",
        type=MemoryType.FEEDBACK,
        tags=("python", "übung"),
        keywords=("uv",),
        importance=Importance.HIGH,
        pinned=True,
        position=3,
        expires_at=NOW + timedelta(microseconds=1),
        supersedes=("m-000",),
        extra={"nested": {"list": [1, 2.5, None, True]}, "text": "\0 and \u2028"},
    )

    archive.append([record])

    assert archive.current("m-001") == record
    assert archive.history("m-001") == [record]


def test_outcomes_come_in_the_order_given_with_rising_seqs(archive: Archive) -> None:
    outcomes = archive.append([a_record(2), a_record(1), a_record(3)])

    assert [outcome.id for outcome in outcomes] == ["m-002", "m-001", "m-003"]
    assert [outcome.fate for outcome in outcomes] == [Appended.APPENDED] * 3
    assert 0 < outcomes[0].seq < outcomes[1].seq < outcomes[2].seq == archive.last_seq()


def test_the_newest_revision_is_the_head_and_all_are_the_history(archive: Archive) -> None:
    first = a_record()
    second = next_revision(first, now=NOW, body="use uv")

    archive.append([first])
    (outcome,) = archive.append([second])

    head = archive.head("m-001")
    assert head is not None
    assert (head.revision, head.content_hash) == (2, second.content_hash)
    assert (head.project, head.tombstone, head.cold) == ("p", False, False)
    assert head.seq == outcome.seq
    assert archive.current("m-001") == second
    assert archive.history("m-001") == [first, second]


def test_a_revision_that_is_there_changes_nothing(archive: Archive) -> None:
    first = a_record()
    second = next_revision(first, now=NOW, body="use uv")
    archive.append([first, second])
    before = (archive.head("m-001"), archive.last_seq())

    again = archive.append([second, first, replace(second, updated_at=NOW + timedelta(days=1))])

    assert fates(again) == [
        (2, Appended.ALREADY_THERE),
        (1, Appended.ALREADY_THERE),
        (2, Appended.ALREADY_THERE),
    ]
    assert (archive.head("m-001"), archive.last_seq()) == before
    assert archive.history("m-001") == [first, second]


def test_a_taken_number_is_renumbered_and_becomes_the_head(archive: Archive) -> None:
    first = a_record()
    ours = next_revision(first, now=NOW, body="ours")
    theirs = next_revision(first, now=NOW, body="theirs")

    archive.append([first, ours])
    (outcome,) = archive.append([theirs])

    assert fates([outcome]) == [(3, Appended.RENUMBERED)]
    assert archive.current("m-001") == replace(theirs, revision=3)
    assert [record.body for record in archive.history("m-001")] == [first.body, "ours", "theirs"]


def test_a_renumbered_revision_that_is_handed_over_again_is_there_already(
    archive: Archive,
) -> None:
    first = a_record()
    theirs = next_revision(first, now=NOW, body="theirs")
    archive.append([first, next_revision(first, now=NOW, body="ours"), theirs])

    again = archive.append([theirs])

    assert fates(again) == [(3, Appended.ALREADY_THERE)]
    assert len(archive.history("m-001")) == 3


def test_a_gap_in_the_numbers_is_allowed_and_not_filled_later(archive: Archive) -> None:
    archive.append([a_record(revision=2, body="two")])

    assert fates(archive.append([a_record(revision=7, body="seven")])) == [(7, Appended.APPENDED)]
    assert fates(archive.append([a_record(revision=4, body="late")])) == [(8, Appended.RENUMBERED)]
    assert [record.revision for record in archive.history("m-001")] == [2, 7, 8]


def test_a_batch_is_kept_as_a_whole_or_not_at_all(archive: Archive) -> None:
    with pytest.raises(InvalidRecord):
        archive.append([a_record(1), a_record(2, revision=0)])

    assert archive.current("m-001") is None
    assert archive.last_seq() == 0
    assert archive.append([]) == []


def test_a_tombstone_erases_every_earlier_text(archive: Archive) -> None:
    first = a_record(body="the secret is zanzibar", name="secret", tags=("hidden",), extra={"k": 1})
    second = next_revision(first, now=NOW, body="the secret is zanzibar2")
    archive.append([first, second])
    put_chunks(archive, "m-001", 2, [a_chunk(text="zanzibar")])
    tombstone = second.tombstone(NOW)

    assert fates(archive.append([tombstone])) == [(3, Appended.APPENDED)]

    head = archive.head("m-001")
    assert head is not None
    assert (head.tombstone, head.revision) == (True, 3)
    assert archive.current("m-001") == tombstone
    history = archive.history("m-001")
    assert [record.revision for record in history] == [1, 2, 3]
    assert all(record.deleted for record in history)
    assert not any("zanzibar" in str(to_json(record)) for record in history)
    assert not any(record.name or record.tags or record.extra for record in history)
    assert archive.chunks("m-001", "mini") == []
    assert archive.vectors("mini", ["hash-0"]) == {}
    assert archive.search_text("zanzibar secret hidden", EVERYTHING, limit=5) == []
    assert archive.search_vector((1.0, 0.0), "mini", EVERYTHING, limit=5) == []
    assert archive.scan(EVERYTHING) == []
    assert archive.count(EVERYTHING) == 0


def test_nothing_follows_a_tombstone(archive: Archive) -> None:
    first = a_record()
    tombstone = first.tombstone(NOW)
    archive.append([first, tombstone])
    before = archive.head("m-001")

    late = archive.append([first, a_record(revision=9, body="back again"), tombstone])

    assert fates(late) == [
        (2, Appended.ALREADY_THERE),
        (2, Appended.ALREADY_THERE),
        (2, Appended.ALREADY_THERE),
    ]
    assert archive.head("m-001") == before
    assert [record.revision for record in archive.history("m-001")] == [1, 2]
    assert archive.search_text("back again uv", EVERYTHING, limit=5) == []


def test_a_late_tombstone_is_renumbered_and_forgets_all_the_same(archive: Archive) -> None:
    first = a_record()
    archive.append([first, next_revision(first, now=NOW, body="zanzibar")])

    assert fates(archive.append([first.tombstone(NOW)])) == [(3, Appended.RENUMBERED)]

    assert archive.search_text("zanzibar", EVERYTHING, limit=5) == []
    assert not any(record.body for record in archive.history("m-001"))


def test_a_tombstone_of_an_unknown_memory_keeps_it_forgotten(archive: Archive) -> None:
    archive.append([a_record().tombstone(NOW)])

    assert fates(archive.append([a_record()])) == [(2, Appended.ALREADY_THERE)]
    assert archive.scan(EVERYTHING) == []


def test_a_tombstone_that_carries_text_is_refused(archive: Archive) -> None:
    with pytest.raises(InvalidRecord):
        archive.append([replace(a_record(), deleted=True)])


def test_text_that_is_no_unicode_and_numbers_that_are_no_json_are_kept(archive: Archive) -> None:
    record = a_record(body="half \ud800 a pair", extra={"n": math.nan, "i": [math.inf]})

    archive.append([record])

    kept = archive.current("m-001")
    assert kept is not None
    assert kept.body == record.body
    assert kept.extra == {"n": "nan", "i": ["inf"]}
    assert [hit.record.id for hit in archive.search_text("pair", EVERYTHING, limit=5)] == ["m-001"]


def test_dates_below_extra_become_text_with_the_same_hash(archive: Archive) -> None:
    record = a_record(extra={"day": NOW.date()})

    archive.append([record])

    kept = archive.current("m-001")
    assert kept is not None
    assert kept.extra == {"day": "2026-03-01"}
    assert kept.content_hash == record.content_hash
    assert fates(archive.append([kept])) == [(1, Appended.ALREADY_THERE)]


class Model:
    """The rules of `append` in a few lines, to compare with."""

    def __init__(self) -> None:
        self.kept: list[MemoryRecord] = []
        self.asked: dict[tuple[int, str], int] = {}

    def append(self, record: MemoryRecord) -> tuple[int, Appended]:
        key = (record.revision, record.content_hash)
        by_number = {kept.revision: kept.content_hash for kept in self.kept}
        head = self.kept[-1] if self.kept else None
        if head is not None and head.deleted:
            return head.revision, Appended.ALREADY_THERE
        if by_number.get(record.revision) == record.content_hash:
            return record.revision, Appended.ALREADY_THERE
        if key in self.asked:
            return self.asked[key], Appended.ALREADY_THERE
        is_next = head is None or record.revision > head.revision
        number = record.revision if is_next or head is None else head.revision + 1
        self.asked[key] = number
        self.kept.append(replace(record, revision=number))
        return number, Appended.APPENDED if is_next else Appended.RENUMBERED


steps = st.lists(
    st.tuples(st.integers(1, 5), st.sampled_from(["a", "b", "c", None])), min_size=1, max_size=12
)


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(steps=steps)
def test_any_sequence_of_revisions_follows_the_rules(
    archive: Archive, steps: list[tuple[int, str | None]]
) -> None:
    # A fresh memory for each example.
    number = archive.last_seq() + 1
    model = Model()
    for revision, body in steps:
        record = a_record(number, body=body or "", revision=revision)
        if body is None:
            record = replace(record.tombstone(NOW), revision=revision)

        (outcome,) = archive.append([record])

        assert (outcome.revision, outcome.fate) == model.append(record)
        assert archive.current(record.id) == model.kept[-1]
    has_ended = model.kept[-1].deleted
    history = archive.history(record.id)
    assert [kept.revision for kept in history] == [kept.revision for kept in model.kept]
    assert has_ended or history == model.kept


# -- heads -----------------------------------------------------------------------------------


def test_an_unknown_id_has_neither_head_nor_record_nor_history(archive: Archive) -> None:
    assert archive.head("nobody") is None
    assert archive.current("nobody") is None
    assert archive.history("nobody") == []
    assert archive.last_seq() == 0
    assert list(archive.heads()) == []


def test_heads_come_once_each_in_the_order_of_their_last_change(archive: Archive) -> None:
    archive.append([a_record(number) for number in range(1, 1203)])
    middle = archive.last_seq()
    first = a_record(1)
    archive.append([next_revision(first, now=NOW, body="new"), a_record(2).tombstone(NOW)])

    heads = list(archive.heads())

    assert [head.id for head in heads] == [f"m-{n:03}" for n in [*range(3, 1203), 1, 2]]
    assert [head.seq for head in heads] == sorted({head.seq for head in heads})
    assert [head.id for head in archive.heads(after=middle)] == ["m-001", "m-002"]
    assert [head.tombstone for head in archive.heads(after=middle)] == [False, True]
    assert list(archive.heads(after=archive.last_seq())) == []


def test_set_cold_moves_the_seq_of_what_it_changes(archive: Archive) -> None:
    archive.append([a_record(1), a_record(2), a_record(3)])
    before = archive.last_seq()

    archive.set_cold(["m-001", "m-003", "nobody"], True)

    assert [(head.id, head.cold) for head in archive.heads(after=before)] == [
        ("m-001", True),
        ("m-003", True),
    ]
    before = archive.last_seq()
    archive.set_cold(["m-001"], False)
    assert [(head.id, head.cold) for head in archive.heads(after=before)] == [("m-001", False)]


# -- scan, count -----------------------------------------------------------------------------


def test_scan_reads_pages_of_current_records_in_the_order_of_ids(archive: Archive) -> None:
    archive.append([a_record(number) for number in (5, 3, 1, 4, 2)])
    archive.append([a_record(3).tombstone(NOW)])

    first = archive.scan(EVERYTHING, limit=3)
    second = archive.scan(EVERYTHING, limit=3, after=first[-1].id)

    assert ids(first) == ["m-001", "m-002", "m-004"]
    assert ids(second) == ["m-005"]
    assert archive.scan(EVERYTHING, after="m-005") == []
    assert archive.count(EVERYTHING) == 4


def test_cold_narrows_to_one_side(archive: Archive) -> None:
    archive.append([a_record(1), a_record(2), a_record(3, project="q")])
    archive.set_cold(["m-002", "m-003"], True)

    assert ids(archive.scan(EVERYTHING, cold=True)) == ["m-002", "m-003"]
    assert ids(archive.scan(Eq("project", "p"), cold=True)) == ["m-002"]
    assert ids(archive.scan(EVERYTHING, cold=False)) == ["m-001"]
    assert archive.count(EVERYTHING, cold=True) == 2
    assert archive.count(Eq("project", "p"), cold=False) == 1


def test_a_record_that_moved_to_another_project_is_found_there_only(archive: Archive) -> None:
    archive.append([a_record(1)])
    archive.append([next_revision(a_record(1), now=NOW, project="q")])

    assert archive.count(Eq("project", "p")) == 0
    assert ids(archive.scan(Eq("project", "q"))) == ["m-001"]


FILTERED = [
    a_record(1, project="p", tags=("a", "b"), importance=Importance.HIGH),
    a_record(2, project="q", tags=(), pinned=True, position=0),
    a_record(3, project="p", tags=("b",), position=7, expires_at=NOW),
    a_record(4, project="", owner="me", expires_at=NOW + timedelta(days=1)),
    a_record(5, project="q", type=MemoryType.USER, category="odd 'text' %"),
]
leaves: st.SearchStrategy[Filter] = st.sampled_from(
    [
        Eq("project", "p"),
        Eq("project", ""),
        In("project", ("p", "q")),
        In("project", ()),
        Not(Eq("project", "p")),
        Eq("project", True),
        Eq("id", "m-003"),
        In("id", ("m-001", "m-005", "nobody")),
        Eq("tags", "b"),
        Eq("pinned", True),
        Eq("position", 0),
        NumberRange("position", gte=1),
        TimeRange("expires_at", lte=NOW),
        Exists("expires_at"),
        Exists("tags"),
        Eq("type", "user"),
        Eq("category", "odd 'text' %"),
    ]
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
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(condition=filters)
def test_a_filter_means_in_the_archive_what_it_means_in_python(
    archive: Archive, condition: Filter
) -> None:
    archive.append(FILTERED)
    expected = [record.id for record in FILTERED if matches(condition, to_json(record))]

    assert ids(archive.scan(condition)) == expected
    assert archive.count(condition) == len(expected)
    hits = archive.search_text("note", condition, limit=10)
    assert sorted(hit.record.id for hit in hits) == expected


# -- search ----------------------------------------------------------------------------------


def test_words_are_found_in_name_description_body_and_tags(archive: Archive) -> None:
    archive.append(
        [
            a_record(1, name="alpha"),
            a_record(2, description="alpha"),
            a_record(3, body="alpha"),
            a_record(4, tags=("alpha",)),
            a_record(5, keywords=("alpha",)),
            a_record(6),
        ]
    )

    hits = archive.search_text("ALPHA", EVERYTHING, limit=10)

    assert sorted(hit.record.id for hit in hits) == [f"m-00{n}" for n in range(1, 6)]
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


def test_more_of_the_words_rank_higher_and_the_limit_keeps_the_best(archive: Archive) -> None:
    archive.append([a_record(n, body="install packages slowly") for n in range(2, 30)])
    archive.append([a_record(1, body="installing zanzibar packages")])

    hits = archive.search_text("install zanzibar package", EVERYTHING, limit=2)

    assert len(hits) == 2
    assert hits[0].record.id == "m-001"
    assert hits[0].score > hits[1].score
    assert "zanzibar" in hits[0].text


def test_only_the_current_text_is_found_cold_or_not(archive: Archive) -> None:
    archive.append([a_record(1, body="alpha"), a_record(2, body="alpha")])
    archive.append([next_revision(a_record(1), now=NOW, body="beta")])
    archive.set_cold(["m-002"], True)

    (hit,) = archive.search_text("alpha", EVERYTHING, limit=5)

    assert (hit.record.id, hit.cold) == ("m-002", True)
    (hit,) = archive.search_text("beta", EVERYTHING, limit=5)
    assert (hit.record.body, hit.cold) == ("beta", False)


@pytest.mark.parametrize(
    "query",
    [
        "",
        "   ",
        "!!!",
        '"',
        "'; DROP TABLE memory_head; --",
        'alpha" OR "x',
        "alpha AND OR NOT NEAR(",
        "alpha*",
        "name:alpha",
        "-alpha ^alpha {alpha}: alpha",
        "\0alpha\ud800",
        "alpha " * 5000,
        " ".join(f"w{n}" for n in range(3000)),
        "🦀 ﷽ \u202e",
    ],
)
def test_no_query_is_an_error(archive: Archive, query: str) -> None:
    archive.append([a_record(1, body="alpha")])

    hits = archive.search_text(query, EVERYTHING, limit=5)

    assert len(hits) == ("alpha" in query)
    assert archive.search_text("alpha", EVERYTHING, limit=0) == []


def test_vectors_rank_by_the_cosine_of_the_best_chunk(archive: Archive) -> None:
    archive.append([a_record(1), a_record(2), a_record(3), a_record(4)])
    put_chunks(archive, "m-001", 1, [a_chunk(0, vector=(0.0, 1.0)), a_chunk(1, vector=(3.0, 3.0))])
    put_chunks(archive, "m-002", 1, [a_chunk(0, vector=(5.0, 0.0), text="the best")])
    put_chunks(archive, "m-003", 1, [a_chunk(0, vector=None)])
    put_chunks(archive, "m-004", 1, [a_chunk(0, space="other", vector=(1.0, 0.0, 0.0))])
    archive.set_cold(["m-002"], True)

    hits = archive.search_vector((2.0, 0.0), "mini", EVERYTHING, limit=5)

    assert [(hit.record.id, hit.text, hit.cold) for hit in hits] == [
        ("m-002", "the best", True),
        ("m-001", "chunk 1", False),
    ]
    assert [hit.score for hit in hits] == pytest.approx([1.0, 0.7071], abs=1e-3)
    assert archive.search_vector((2.0, 0.0), "unknown", EVERYTHING, limit=5) == []
    assert archive.search_vector((2.0, 0.0), "mini", EVERYTHING, limit=0) == []


def test_vector_search_keeps_to_the_condition_and_stays_exact(archive: Archive) -> None:
    archive.append([a_record(n, tags=("odd",) if n % 2 else ()) for n in range(1, 61)])
    for n in range(1, 61):
        angle = n / 40
        vector = (math.cos(angle), math.sin(angle))
        put_chunks(archive, f"m-{n:03}", 1, [a_chunk(0, vector=vector)])

    hits = archive.search_vector((1.0, 0.0), "mini", Eq("tags", "odd"), limit=4)

    assert [hit.record.id for hit in hits] == ["m-001", "m-003", "m-005", "m-007"]


@pytest.mark.parametrize("vector", [(1.0, 0.0, 0.0), (math.nan, 0.0), (math.inf, 0.0)])
def test_a_bad_query_vector_is_refused(archive: Archive, vector: tuple[float, ...]) -> None:
    archive.append([a_record(1)])
    put_chunks(archive, "m-001", 1, [a_chunk(0)])

    with pytest.raises(InvalidPoint):
        archive.search_vector(vector, "mini", EVERYTHING, limit=5)


# -- chunks ----------------------------------------------------------------------------------


def test_chunks_come_back_in_order_with_vectors_as_float16(archive: Archive) -> None:
    archive.append([a_record(1)])
    put_chunks(archive, "m-001", 1, [a_chunk(1, vector=None), a_chunk(0, vector=(0.1, -0.25))])

    first, second = archive.chunks("m-001", "mini")

    assert first.vector is not None
    assert first.vector == pytest.approx((0.1, -0.25), abs=1e-4)
    assert replace(first, vector=None) == a_chunk(0, vector=None)
    assert second == a_chunk(1, vector=None)
    assert archive.chunks("m-001", "other") == []
    assert archive.chunks("nobody", "mini") == []


def test_put_chunks_replaces_what_was_there(archive: Archive) -> None:
    archive.append([a_record(1)])
    put_chunks(archive, "m-001", 1, [a_chunk(0), a_chunk(1), a_chunk(2)])

    put_chunks(archive, "m-001", 1, [a_chunk(0, text="anew")])

    assert [chunk.text for chunk in archive.chunks("m-001", "mini")] == ["anew"]
    put_chunks(archive, "m-001", 1, [])
    assert archive.chunks("m-001", "mini") == []
    assert archive.count_chunks() == 0


def test_chunks_of_another_space_stay_while_one_is_built_beside_it(archive: Archive) -> None:
    archive.append([a_record(1)])
    put_chunks(archive, "m-001", 1, [a_chunk(0), a_chunk(1)])

    put_chunks(archive, "m-001", 1, [a_chunk(0, space="new"), a_chunk(1, space="new")])

    assert len(archive.chunks("m-001", "mini")) == len(archive.chunks("m-001", "new")) == 2
    assert archive.count_chunks() == 2


def test_chunks_of_a_revision_that_is_no_longer_the_head_are_not_kept(archive: Archive) -> None:
    first = a_record(1)
    archive.append([first, next_revision(first, now=NOW, body="new")])

    put_chunks(archive, "m-001", 1, [a_chunk(0)])
    put_chunks(archive, "nobody", 1, [a_chunk(0)])

    assert archive.chunks("m-001", "mini") == []
    archive.append([replace(first.tombstone(NOW), revision=3)])
    put_chunks(archive, "m-001", 3, [a_chunk(0)])
    assert archive.count_chunks() == 0
    assert archive.vectors("mini", ["hash-0"]) == {}


def test_chunks_are_those_of_the_current_revision(archive: Archive) -> None:
    first = a_record(1)
    archive.append([first])
    put_chunks(archive, "m-001", 1, [a_chunk(0)])

    archive.append([next_revision(first, now=NOW, body="new")])

    assert archive.chunks("m-001", "mini") == []
    assert archive.count_chunks() == 0
    assert archive.search_vector((1.0, 0.0), "mini", EVERYTHING, limit=5) == []
    # What did not change of the text need not be embedded again.
    assert archive.vectors("mini", ["hash-0"]) == {"hash-0": (1.0, 0.0)}


def test_vectors_are_looked_up_by_content_however_many_are_asked_for(archive: Archive) -> None:
    archive.append([a_record(1)])
    chunks = [a_chunk(n, vector=(float(n), 1.0)) for n in range(1500)]
    put_chunks(archive, "m-001", 1, [*chunks, a_chunk(1500, vector=None)])

    found = archive.vectors("mini", [f"hash-{n}" for n in range(100_000)])

    assert len(found) == 1500
    assert found["hash-7"] == (7.0, 1.0)
    assert archive.vectors("other", ["hash-7"]) == {}
    assert archive.vectors("mini", []) == {}


@pytest.mark.parametrize("number", [math.nan, math.inf, 1e6])
def test_a_vector_that_float16_cannot_hold_is_refused(archive: Archive, number: float) -> None:
    archive.append([a_record(1)])

    with pytest.raises(InvalidPoint):
        put_chunks(archive, "m-001", 1, [a_chunk(0), a_chunk(1, vector=(number, 0.0))])

    assert archive.count_chunks() == 0


def test_count_chunks_leaves_out_cold_and_forgotten_memories(archive: Archive) -> None:
    archive.append([a_record(1), a_record(2), a_record(3)])
    for number in (1, 2, 3):
        put_chunks(archive, f"m-00{number}", 1, [a_chunk(0), a_chunk(1, vector=None)])
    assert archive.count_chunks() == 6

    archive.set_cold(["m-001"], True)
    archive.append([a_record(2).tombstone(NOW)])

    assert archive.count_chunks() == 2
    assert len(archive.chunks("m-001", "mini")) == 2


# -- usage -----------------------------------------------------------------------------------


def test_a_use_counts_once_a_task(archive: Archive) -> None:
    later = NOW + timedelta(microseconds=1)
    archive.record_use("m-001", task="one", at=NOW)
    archive.record_use("m-001", task="one", at=NOW)
    archive.record_use("m-001", task="two", at=later)
    archive.record_use("m-002", task="one", at=NOW)

    assert archive.usage(["m-001", "m-002", "m-003"]) == {
        "m-001": Usage(2, ("one", "two"), later),
        "m-002": Usage(1, ("one",), NOW),
    }
    assert archive.usage([f"m-{n:03}" for n in range(40_000)]).keys() == {"m-001", "m-002"}
    assert archive.usage([]) == {}


# -- open, health, close, threads ------------------------------------------------------------


def test_everything_is_there_after_closing_and_opening(
    open_archive: Callable[[], Archive],
) -> None:
    archive = open_archive()
    archive.append([a_record(1, body="alpha")])
    put_chunks(archive, "m-001", 1, [a_chunk(0)])
    archive.record_use("m-001", task="one", at=NOW)
    seq = archive.last_seq()
    archive.close()

    archive = open_archive()

    assert archive.current("m-001") == a_record(1, body="alpha")
    assert archive.last_seq() == seq
    assert len(archive.search_text("alpha", EVERYTHING, limit=5)) == 1
    assert len(archive.search_vector((1.0, 0.0), "mini", EVERYTHING, limit=5)) == 1
    assert archive.usage(["m-001"])["m-001"].uses == 1


def test_health_tells_ready_with_the_count_and_down_after_closing(archive: Archive) -> None:
    archive.append([a_record(1), a_record(2).tombstone(NOW)])
    ready = archive.health()
    archive.close()

    assert (ready.state, ready.count) == (Health.READY, 1)
    assert archive.health().state is Health.DOWN


CALLS: dict[str, Callable[[Archive], object]] = {
    "open": lambda archive: archive.open(),
    "append": lambda archive: archive.append([a_record()]),
    "current": lambda archive: archive.current("m-001"),
    "head": lambda archive: archive.head("m-001"),
    "heads": lambda archive: list(archive.heads()),
    "last_seq": lambda archive: archive.last_seq(),
    "history": lambda archive: archive.history("m-001"),
    "set_cold": lambda archive: archive.set_cold(["m-001"], True),
    "scan": lambda archive: archive.scan(EVERYTHING),
    "count": lambda archive: archive.count(EVERYTHING),
    "search_text": lambda archive: archive.search_text("x", EVERYTHING, limit=1),
    "search_vector": lambda archive: archive.search_vector((1.0,), "mini", EVERYTHING, limit=1),
    "put_chunks": lambda archive: put_chunks(archive, "m-001", 1, []),
    "chunks": lambda archive: archive.chunks("m-001", "mini"),
    "vectors": lambda archive: archive.vectors("mini", ["hash"]),
    "count_chunks": lambda archive: archive.count_chunks(),
    "record_use": lambda archive: archive.record_use("m-001", task="one", at=NOW),
    "usage": lambda archive: archive.usage(["m-001"]),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_after_closing_twice_every_call_says_unavailable(
    archive: Archive, call: Callable[[Archive], object]
) -> None:
    archive.close()
    archive.close()

    with pytest.raises(StoreUnavailable):
        call(archive)


def test_threads_may_share_an_archive(archive: Archive) -> None:
    failures: list[BaseException] = []

    def work(worker: int) -> None:
        try:
            for step in range(25):
                number = worker * 100 + step
                archive.append([a_record(number, body=f"worker{worker} step{step}")])
                put_chunks(archive, f"m-{number}", 1, [a_chunk(0)])
                hits = archive.search_text(f"worker{worker}", EVERYTHING, limit=100)
                assert len(hits) == step + 1
                archive.record_use("shared", task=f"{worker}-{step}", at=NOW)
        except BaseException as failure:
            failures.append(failure)
            raise

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert failures == []
    assert archive.count(EVERYTHING) == archive.count_chunks() == 100
    assert len({head.seq for head in archive.heads()}) == 100
    assert archive.usage(["shared"])["shared"].uses == 100


def test_heads_may_be_walked_while_they_move(archive: Archive) -> None:
    archive.append([a_record(n) for n in range(1, 1001)])
    seen = []
    for head in archive.heads():
        seen.append(head.id)
        if head.id == "m-001" and seen.count("m-001") == 1:
            archive.append([next_revision(a_record(1), now=NOW, body="moved")])

    assert len(set(seen)) == 1000
    assert seen[-1] == "m-001"


def test_a_text_that_repeats_a_word_is_found_at_once(archive: Archive) -> None:
    """SQLite's own snippets took minutes for it: their time grew with the square of the words."""
    record = a_record(body="big " * 200_000)
    archive.append([record])

    (hit,) = archive.search_text("big", EVERYTHING, limit=5)

    assert hit.record.id == record.id
    assert len(hit.text) < 1_000
