from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tiers.catalogue import Catalogue
from tiers.errors import StoreFull
from tiers.home_database import HomeDatabase
from tiers.outbox import Change, Outbox, SinkName, State
from tiers.records import MemoryRecord, Tier, Visibility

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
HOT, ARCHIVE, DEEP = SinkName.HOT, SinkName.ARCHIVE, SinkName.DEEP


def a_record(record_id: str = "a", *, revision: int = 1, body: str = "text") -> MemoryRecord:
    return MemoryRecord(
        id=record_id,
        project="p",
        name=record_id,
        body=body,
        revision=revision,
        created_at=NOW,
        updated_at=NOW,
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "home.db"


@pytest.fixture
def database(path: Path) -> Iterator[HomeDatabase]:
    database = HomeDatabase(path)
    yield database
    database.close()


@pytest.fixture
def outbox(database: HomeDatabase) -> Outbox:
    return Outbox(database, Catalogue(database))


def accept(outbox: Outbox, *records: MemoryRecord, tier: Tier = Tier.DEEP) -> list[int]:
    return outbox.accept([Change(record, tier) for record in records], now=NOW)


def claimed(outbox: Outbox, sink: SinkName, *, clock: float = 0.0) -> list[int]:
    return [delivery.seq for delivery in outbox.claim(sink, 10, clock=clock)]


def test_an_accepted_change_is_there_after_the_file_is_opened_again(
    outbox: Outbox, database: HomeDatabase, path: Path
) -> None:
    accept(outbox, a_record(body="durable"))
    database.close()

    again = HomeDatabase(path)
    (delivery,) = Outbox(again, Catalogue(again)).claim(ARCHIVE, 10, clock=0)
    again.close()
    assert delivery.record == a_record(body="durable")


def test_a_hot_change_concerns_every_sink_and_a_deep_one_no_file(outbox: Outbox) -> None:
    (hot,) = accept(outbox, a_record("hot"), tier=Tier.HOT)
    (deep,) = accept(outbox, a_record("deep"))

    assert claimed(outbox, HOT) == [hot]
    assert claimed(outbox, ARCHIVE) == [hot, deep]
    assert outbox.pending("hot") == [ARCHIVE, DEEP, HOT]
    assert outbox.pending("deep") == [ARCHIVE, DEEP]


def test_a_change_that_was_only_claimed_is_claimed_again(outbox: Outbox) -> None:
    seqs = accept(outbox, a_record("a"), a_record("b"))

    assert claimed(outbox, ARCHIVE) == seqs
    assert claimed(outbox, ARCHIVE) == seqs


def test_the_index_hears_of_a_change_after_the_archive_has_it(outbox: Outbox) -> None:
    (seq,) = accept(outbox, a_record())
    assert claimed(outbox, DEEP) == []

    outbox.ack(ARCHIVE, [seq])

    assert claimed(outbox, DEEP) == [seq]


def test_the_index_waits_for_what_the_archive_refused_and_it_is_still_found(
    outbox: Outbox,
) -> None:
    (seq,) = accept(outbox, a_record())

    outbox.fail(ARCHIVE, [seq], error="too odd", dead=True)

    assert claimed(outbox, DEEP) == []
    assert outbox.overlay("p", owner="ann", limit=10) == [(seq, "a")]
    assert outbox.record(seq) == a_record()


def test_a_later_change_waits_while_an_earlier_one_of_the_same_memory_is_put_off(
    outbox: Outbox,
) -> None:
    first, second = accept(outbox, a_record(revision=1), a_record(revision=2))
    (other,) = accept(outbox, a_record("b"))

    outbox.fail(ARCHIVE, [first], error="not now", not_before=100.0)

    assert claimed(outbox, ARCHIVE, clock=99.0) == [other]
    assert claimed(outbox, ARCHIVE, clock=100.0) == [first, second, other]


def test_a_dead_change_no_longer_holds_up_its_memory(outbox: Outbox) -> None:
    first, second = accept(outbox, a_record(revision=1), a_record(revision=2))

    outbox.fail(ARCHIVE, [first], error="never", dead=True)

    assert claimed(outbox, ARCHIVE) == [second]
    assert outbox.backlog(ARCHIVE).dead == 1
    assert outbox.backlog(ARCHIVE).error == "never"


def test_what_waits_for_vectors_comes_after_what_waits_for_everything(outbox: Outbox) -> None:
    without_vector, new = accept(outbox, a_record("a"), a_record("b"))
    outbox.ack(ARCHIVE, [without_vector, new])
    outbox.fail(DEEP, [without_vector], error="no model", not_before=5.0, vector_pending=True)

    assert claimed(outbox, DEEP, clock=4.0) == [new]
    assert claimed(outbox, DEEP, clock=5.0) == [new, without_vector]


def test_a_model_that_is_back_wakes_what_waits_for_vectors(outbox: Outbox) -> None:
    (seq,) = accept(outbox, a_record())
    outbox.ack(ARCHIVE, [seq])
    outbox.fail(DEEP, [seq], error="no model", not_before=1e9, vector_pending=True)

    outbox.wake(DEEP, vector_pending=True)

    assert claimed(outbox, DEEP) == [seq]
    assert outbox.backlog(DEEP).vector_pending == 1


def test_a_change_is_pruned_when_every_sink_has_it_for_good(
    outbox: Outbox, database: HomeDatabase
) -> None:
    (seq,) = accept(outbox, a_record(), tier=Tier.HOT)
    outbox.ack(HOT, [seq])
    outbox.ack(ARCHIVE, [seq])
    outbox.ack(DEEP, [seq], State.APPLIED)
    assert outbox.newest("a") == a_record()
    assert outbox.backlog(DEEP).unflushed == 1

    outbox.ack(DEEP, [seq])

    assert outbox.newest("a") is None
    assert database.read("SELECT * FROM delivery") == []


def test_reopening_delivers_again_what_was_not_flushed_or_was_put_aside(outbox: Outbox) -> None:
    applied, dead, later = accept(outbox, a_record("a"), a_record("b"), a_record("c"))
    outbox.ack(ARCHIVE, [applied, dead, later])
    outbox.ack(DEEP, [applied], State.APPLIED)
    outbox.fail(DEEP, [dead], error="never", dead=True)
    outbox.fail(DEEP, [later], error="later", not_before=1e9)

    outbox.reopen(DEEP)

    assert claimed(outbox, DEEP) == [applied, dead, later]
    assert {delivery.attempts for delivery in outbox.claim(DEEP, 10, clock=0)} == {0}


def test_a_tombstone_takes_queued_text_with_it(outbox: Outbox, database: HomeDatabase) -> None:
    accept(outbox, a_record(body="a secret plan"), tier=Tier.HOT)

    (seq,) = accept(outbox, a_record().tombstone(NOW))

    assert claimed(outbox, ARCHIVE) == [seq]
    assert claimed(outbox, HOT) == [seq]
    rows = database.read("SELECT record FROM outbox")
    assert not any("a secret plan" in row["record"] for row in rows)


def test_an_invalidation_goes_to_the_index_alone_and_not_twice(outbox: Outbox) -> None:
    first = outbox.invalidate([("a", "p"), ("b", "p")], now=NOW)
    again = outbox.invalidate([("a", "p"), ("c", "p")], now=NOW)

    assert len(first) == 2
    assert len(again) == 1
    assert [d.record for d in outbox.claim(DEEP, 10, clock=0)] == [None, None, None]
    assert claimed(outbox, ARCHIVE) == []
    assert outbox.waits(DEEP, first=first[0], last=first[1])
    outbox.ack(DEEP, first)
    assert not outbox.waits(DEEP, first=first[0], last=first[1])


def test_the_overlay_shows_the_newest_pending_change_first(outbox: Outbox) -> None:
    first, second = accept(outbox, a_record("a"), a_record("b"))

    assert outbox.overlay("p", owner="ann", limit=10) == [(second, "b"), (first, "a")]
    assert outbox.overlay("p", owner="ann", limit=1) == [(second, "b")]
    assert outbox.overlay("other", owner="ann", limit=10) == []


def test_the_overlay_leaves_out_what_a_later_revision_replaced(outbox: Outbox) -> None:
    """An old change that the index refused must not hide the newer one that it took."""
    first, second = accept(outbox, a_record(revision=1), a_record(revision=2))
    outbox.ack(ARCHIVE, [first, second])
    outbox.fail(DEEP, [first], error="never", dead=True)
    outbox.ack(DEEP, [second])

    assert outbox.overlay("p", owner="ann", limit=10) == []


def test_the_overlay_leaves_out_what_is_private_to_somebody_else(outbox: Outbox) -> None:
    """However much of it there is: it must not fill the places of what may be seen."""
    mine = replace(a_record("mine"), owner="ann", visibility=Visibility.PRIVATE)
    others = [
        replace(a_record(f"b{n}"), owner="ben", visibility=Visibility.PRIVATE) for n in range(5)
    ]
    (seq, *_) = accept(outbox, mine, *others)

    assert outbox.overlay("p", owner="ann", limit=3) == [(seq, "mine")]


def demote(outbox: Outbox, record: MemoryRecord) -> int:
    (seq,) = outbox.accept([Change(record, Tier.DEEP, (HOT,))], now=NOW)
    return seq


def test_a_file_goes_when_archive_and_index_have_the_memory_for_good(outbox: Outbox) -> None:
    (kept,) = accept(outbox, a_record(), tier=Tier.HOT)
    outbox.ack(HOT, [kept])
    moved = demote(outbox, a_record())
    assert (claimed(outbox, HOT), outbox.is_settled("a")) == ([], False)

    outbox.ack(ARCHIVE, [kept])
    assert (claimed(outbox, HOT), outbox.is_settled("a")) == ([], False)

    outbox.ack(DEEP, [kept], State.APPLIED)
    assert (claimed(outbox, HOT), outbox.is_settled("a")) == ([], False)

    outbox.ack(DEEP, [kept])
    assert (claimed(outbox, HOT), outbox.is_settled("a")) == ([moved], True)


def test_a_file_may_go_when_only_vectors_are_missing(outbox: Outbox) -> None:
    (kept,) = accept(outbox, a_record())
    outbox.ack(ARCHIVE, [kept])
    outbox.fail(DEEP, [kept], error="no model", vector_pending=True)

    assert claimed(outbox, HOT) == []
    moved = demote(outbox, a_record())
    assert (claimed(outbox, HOT), outbox.is_settled("a")) == ([moved], True)


@pytest.mark.parametrize("sink", [ARCHIVE, DEEP])
def test_a_file_stays_while_a_store_refuses_the_memory(outbox: Outbox, sink: SinkName) -> None:
    (kept,) = accept(outbox, a_record())
    for other in (ARCHIVE, DEEP):
        if other is sink:
            outbox.fail(other, [kept], error="too odd", dead=True)
        else:
            outbox.ack(other, [kept])

    demote(outbox, a_record())

    assert (claimed(outbox, HOT), outbox.is_settled("a")) == ([], False)


def test_a_file_that_is_to_go_waits_for_a_later_revision_too(outbox: Outbox) -> None:
    moved = demote(outbox, a_record())
    assert claimed(outbox, HOT) == [moved]

    accept(outbox, a_record(revision=2))

    assert claimed(outbox, HOT) == []


def test_files_of_hot_and_of_forgotten_memories_wait_for_nobody(outbox: Outbox) -> None:
    (hot,) = accept(outbox, a_record("hot"), tier=Tier.HOT)
    accept(outbox, a_record("gone"))
    (gone,) = accept(outbox, a_record("gone").tombstone(NOW))

    assert claimed(outbox, HOT) == [hot, gone]


def test_a_change_and_its_entry_are_accepted_together_or_not_at_all(
    outbox: Outbox, database: HomeDatabase
) -> None:
    odd = replace(a_record("b"), extra={"key": object()})
    with pytest.raises(RecursionError):
        accept(outbox, a_record("a"), replace(odd, extra=_endless()))

    assert Catalogue(database).get("a") is None
    assert outbox.newest("a") is None
    accept(outbox, a_record("a"))
    assert outbox.newest("a") == a_record("a")


def _endless() -> dict[str, object]:
    endless: dict[str, object] = {}
    endless["again"] = endless
    return endless


def test_a_full_disk_refuses_a_change_whole_and_the_next_is_accepted(tmp_path: Path) -> None:
    database = HomeDatabase(tmp_path / "small.db", max_bytes=200_000)
    catalogue = Catalogue(database)
    outbox = Outbox(database, catalogue)
    accept(outbox, a_record("before"))

    with pytest.raises(StoreFull) as refused:
        accept(outbox, a_record("large", body="x" * 500_000))

    assert "free some disk space" in refused.value.hint
    assert catalogue.get("large") is None
    assert outbox.newest("large") is None
    accept(outbox, a_record("after"))
    assert [d.record_id for d in outbox.claim(ARCHIVE, 10, clock=0)] == ["before", "after"]
    database.close()


def test_a_commit_that_fails_leaves_no_transaction_open(
    outbox: Outbox, database: HomeDatabase
) -> None:
    """A foreign key that is checked at the end fails the commit, not the statement."""
    with pytest.raises(sqlite3.IntegrityError), database.write() as db:
        db.execute("PRAGMA defer_foreign_keys = ON")
        db.execute("INSERT INTO delivery (seq, sink) VALUES (999, 'deep')")

    (seq,) = accept(outbox, a_record())
    assert claimed(outbox, ARCHIVE) == [seq]
