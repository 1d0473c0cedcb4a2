"""Receipts of searches, and what was said of them afterwards."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiers.errors import StoreFull, StoreUnavailable, TierError
from tiers.records import Usage
from tiers.usage import KEPT, Shown, UsageLog, Verdict

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)
USED, IGNORED, WRONG = Verdict.USED, Verdict.IGNORED, Verdict.WRONG


def new_ids() -> Callable[[], str]:
    numbers = iter(range(1, 1_000_000))
    return lambda: f"r{next(numbers)}"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "usage.db"


@pytest.fixture
def usage(path: Path) -> Iterator[UsageLog]:
    usage = UsageLog(path, new_id=new_ids())
    yield usage
    usage.close()


def note(usage: UsageLog, *record_ids: str, now: datetime = NOW) -> str:
    return usage.note("p", "ann", record_ids, now=now)


def test_a_receipt_says_what_was_shown_to_whom(usage: UsageLog) -> None:
    receipt = note(usage, "a", "b", "a")

    assert usage.shown(receipt, now=NOW) == Shown("p", "ann", frozenset({"a", "b"}))
    assert usage.shown("nobody's", now=NOW) is None


def test_verdicts_are_counted_by_memory(usage: UsageLog) -> None:
    usage.tell(note(usage, "a", "b", "c"), {"a": USED, "b": IGNORED}, now=NOW)
    usage.tell(note(usage, "a", "b", "c"), {"a": USED, "b": WRONG}, now=LATER)

    assert usage.of(["a", "b", "c", "nobody"]) == {
        "a": Usage(uses=2, last_used_at=LATER),
        "b": Usage(ignored=1, wrong=1),
    }


def test_the_same_verdict_again_counts_once_and_keeps_its_time(usage: UsageLog) -> None:
    receipt = note(usage, "a")

    usage.tell(receipt, {"a": USED}, now=NOW)
    usage.tell(receipt, {"a": USED}, now=LATER)

    assert usage.of(["a"]) == {"a": Usage(uses=1, last_used_at=NOW)}


def test_a_later_other_verdict_replaces_the_one_before(usage: UsageLog) -> None:
    receipt = note(usage, "a")

    usage.tell(receipt, {"a": USED}, now=NOW)
    usage.tell(receipt, {"a": WRONG}, now=LATER)

    assert usage.of(["a"]) == {"a": Usage(wrong=1)}


def test_a_verdict_on_what_was_not_shown_is_not_kept(usage: UsageLog) -> None:
    usage.tell(note(usage, "a"), {"b": USED}, now=NOW)
    usage.tell("no receipt", {"a": USED}, now=NOW)

    assert usage.of(["a", "b"]) == {}


def test_an_old_receipt_is_unknown_and_its_verdicts_stay(usage: UsageLog) -> None:
    receipt = note(usage, "a")
    usage.tell(receipt, {"a": USED}, now=NOW)

    assert usage.shown(receipt, now=NOW + KEPT) is not None
    assert usage.shown(receipt, now=NOW + KEPT + timedelta(seconds=1)) is None
    assert usage.of(["a"]) == {"a": Usage(uses=1, last_used_at=NOW)}


def test_old_receipts_are_taken_away_by_new_ones(usage: UsageLog, path: Path) -> None:
    for _ in range(50):
        note(usage, "a", "b")
    for _ in range(3):
        fresh = note(usage, "c", now=NOW + KEPT + timedelta(days=1))

    with sqlite3.connect(path) as db:
        assert db.execute("SELECT count(*) FROM receipt").fetchone() == (3,)
        assert db.execute("SELECT count(*) FROM shown").fetchone() == (3,)
    assert usage.shown(fresh, now=NOW + KEPT + timedelta(days=2)) is not None


def test_what_is_forgotten_leaves_receipts_and_verdicts(usage: UsageLog, path: Path) -> None:
    receipt = note(usage, "a", "b")
    usage.tell(receipt, {"a": USED, "b": USED}, now=NOW)

    usage.forget(["a"])
    usage.tell(receipt, {"a": WRONG}, now=LATER)

    assert usage.shown(receipt, now=NOW) == Shown("p", "ann", frozenset({"b"}))
    assert usage.of(["a", "b"]) == {"b": Usage(uses=1, last_used_at=NOW)}


def test_receipts_are_there_after_the_file_is_opened_again(usage: UsageLog, path: Path) -> None:
    receipt = note(usage, "a")
    usage.tell(receipt, {"a": USED}, now=NOW)
    usage.close()

    again = UsageLog(path, new_id=new_ids())
    assert again.shown(receipt, now=NOW) == Shown("p", "ann", frozenset({"a"}))
    assert again.of(["a"]) == {"a": Usage(uses=1, last_used_at=NOW)}
    again.close()


def _overwrite(path: Path) -> None:
    path.write_bytes(b"no database at all " * 1_000)


def _spoil(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(4_096)
        file.write(b"\xff" * 40_000)


@pytest.mark.parametrize("damage", [_overwrite, _spoil])
@pytest.mark.parametrize("is_open", [True, False])
def test_a_damaged_file_is_made_anew_and_said_to_be(
    usage: UsageLog,
    path: Path,
    damage: Callable[[Path], None],
    is_open: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    for number in range(200):
        note(usage, f"a{number}")
    # Else what is damaged would lie in the log beside the file once more.
    with sqlite3.connect(path, isolation_level=None) as other:
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        other.execute("CREATE TABLE somebody_elses (a)")
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    other.close()
    if not is_open:
        usage.close()
        usage = UsageLog(path, new_id=new_ids())
    damage(path)

    with caplog.at_level(logging.WARNING):
        receipt = note(usage, "a")

    assert usage.shown(receipt, now=NOW) == Shown("p", "ann", frozenset({"a"}))
    assert "is lost" in caplog.text
    assert path.with_name("usage.db.damaged").exists()
    usage.close()


def test_a_full_disk_is_said_and_later_notes_succeed(path: Path) -> None:
    full = UsageLog(path, new_id=new_ids(), max_bytes=80_000)
    with pytest.raises(StoreFull):
        for number in range(1_000):
            note(full, *(f"{number}-{n}" for n in range(20)))
    full.close()

    roomy = UsageLog(path, new_id=lambda: "after")
    assert roomy.shown(note(roomy, "a"), now=NOW) is not None
    roomy.close()


def test_a_place_that_cannot_be_a_file_is_an_error_of_ours(tmp_path: Path) -> None:
    (tmp_path / "usage.db").mkdir()

    with pytest.raises(TierError):
        UsageLog(tmp_path / "usage.db", new_id=new_ids()).open()


def test_another_programs_lock_is_not_waited_for(usage: UsageLog, path: Path) -> None:
    usage.open()
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    with pytest.raises(TierError):
        note(usage, "a")

    other.execute("ROLLBACK")
    other.close()
    assert usage.shown(note(usage, "a"), now=NOW) is not None


def test_what_is_closed_stays_closed(usage: UsageLog) -> None:
    usage.close()
    usage.close()

    with pytest.raises(StoreUnavailable):
        note(usage, "a")


_SAID = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from("abc"), st.sampled_from(list(Verdict))),
    max_size=30,
)


@given(said=_SAID)
def test_each_receipt_counts_once_a_memory_with_what_was_said_last(
    said: list[tuple[int, str, Verdict]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    usage = UsageLog(tmp_path_factory.mktemp("usage") / "usage.db", new_id=new_ids())
    receipts = [note(usage, "a", "b", "c") for _ in range(4)]
    last: dict[tuple[int, str], Verdict] = {}
    for number, memory, verdict in said:
        usage.tell(receipts[number], {memory: verdict}, now=NOW)
        last[number, memory] = verdict

    found = usage.of(list("abc"))

    usage.close()
    for memory in "abc":
        mine = [verdict for (_, key), verdict in last.items() if key == memory]
        counted = found.get(memory, Usage())
        assert (counted.uses, counted.ignored, counted.wrong) == tuple(
            mine.count(verdict) for verdict in (USED, IGNORED, WRONG)
        )
