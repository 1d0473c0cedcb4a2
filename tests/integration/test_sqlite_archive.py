"""The SQLite archive against kills, full disks, damage and eyes on its bytes."""

from __future__ import annotations

import random
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.support.archives import put_chunks
from tests.support.memory_folder import folder_in_memory
from tiers.archive import Appended, StoredChunk
from tiers.archive_sqlite import SqliteArchive
from tiers.deep import Health
from tiers.errors import StoreDamaged, StoreFull, StoreMismatch, StoreUnavailable
from tiers.filters import All, Eq
from tiers.records import MemoryRecord, next_revision

ROOT = Path(__file__).parents[2]
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
EVERYTHING = All(())


@pytest.fixture
def path() -> Iterator[Path]:
    with folder_in_memory() as folder:
        yield folder / "archive.db"


@pytest.fixture
def open_archive(path: Path) -> Iterator[Callable[..., SqliteArchive]]:
    opened: list[SqliteArchive] = []

    def open_it(*, max_bytes: int | None = None) -> SqliteArchive:
        archive = SqliteArchive(path, max_bytes=max_bytes)
        opened.append(archive)
        archive.open()
        return archive

    yield open_it
    for archive in opened:
        archive.close()


def a_record(number: int = 1, body: str = "a body") -> MemoryRecord:
    return MemoryRecord(
        id=f"m-{number:04}",
        project="p",
        name=f"note {number}",
        body=body,
        created_at=NOW,
        updated_at=NOW,
    )


def execute(path: Path, sql: str) -> list[tuple[object, ...]]:
    db = sqlite3.connect(path)
    try:
        with db:
            return db.execute(sql).fetchall()
    finally:
        db.close()


WRITER = """
import sys
from datetime import datetime, UTC
from pathlib import Path
from tiers.archive_sqlite import SqliteArchive
from tiers.records import MemoryRecord

archive = SqliteArchive(Path(sys.argv[1]))
archive.open()
now = datetime(2026, 3, 1, tzinfo=UTC)
for batch in range(10_000):
    numbers = range(batch * 5, batch * 5 + 5)
    archive.append([
        MemoryRecord(id=f"m-{n:04}", project="p", name=f"note {n}", body="x" * 500,
                     created_at=now, updated_at=now)
        for n in numbers
    ])
    print(batch, flush=True)
"""


@pytest.mark.parametrize("seed", range(3))
def test_everything_acknowledged_is_there_once_after_a_kill(
    open_archive: Callable[..., SqliteArchive], path: Path, seed: int
) -> None:
    batches = random.Random(seed).randrange(1, 80)
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    ) as process:
        assert process.stdout is not None
        for batch in range(batches):
            assert int(process.stdout.readline()) == batch
        process.send_signal(signal.SIGKILL)

    archive = open_archive()

    kept = archive.count(EVERYTHING)
    assert kept >= batches * 5
    assert kept % 5 == 0, "a batch was kept in part"
    assert len(list(archive.heads())) == kept == archive.last_seq()
    assert {len(archive.history(head.id)) for head in archive.heads()} == {1}
    assert len(archive.search_text("note", EVERYTHING, limit=10**6)) == kept


def test_a_full_disk_refuses_the_batch_and_loses_nothing(
    open_archive: Callable[..., SqliteArchive],
) -> None:
    archive = open_archive(max_bytes=2**20)
    kept = 0
    with pytest.raises(StoreFull) as refused:
        for number in range(10_000):
            archive.append([a_record(number, body="word " * 400)])
            kept += 1

    assert "free" in refused.value.hint
    assert 0 < kept < 10_000
    assert archive.count(EVERYTHING) == kept
    assert archive.head(f"m-{kept:04}") is None
    assert archive.health().state is Health.READY
    archive.close()

    roomier = open_archive()
    (outcome,) = roomier.append([a_record(kept, body="word " * 400)])
    assert (outcome.fate, outcome.seq) == (Appended.APPENDED, kept + 1)


def test_a_forgotten_text_is_in_no_byte_of_the_files(
    open_archive: Callable[..., SqliteArchive], path: Path
) -> None:
    archive = open_archive()
    archive.append([a_record(number) for number in range(2, 200)])
    first = a_record(1, body="the passphrase is Xylophon-Quagga")
    archive.append([first])
    put_chunks(
        archive, first.id, 1, [StoredChunk(0, "hash", "Xylophon-Quagga", "mini", (0.5, 0.5))]
    )
    second = next_revision(first, now=NOW, body="it was xylophon-quagga")
    archive.append([second])
    assert traces(path) != set()

    archive.append([second.tombstone(NOW)])

    assert traces(path) == set()


def traces(path: Path) -> set[str]:
    """Name the files in which a part of the secret can be read; the index keeps stems."""
    return {
        file.name
        for file in path.parent.iterdir()
        if any(word in file.read_bytes().lower() for word in (b"xylophon", b"quagga"))
    }


def test_the_full_text_index_agrees_with_the_heads_whatever_happened(
    open_archive: Callable[..., SqliteArchive], path: Path
) -> None:
    archive = open_archive()
    chance = random.Random(7)
    for _ in range(300):
        record = a_record(chance.randrange(40), body=f"word{chance.randrange(9)} body")
        head = archive.head(record.id)
        if head is not None and chance.random() < 0.1:
            archive.append([next_revision(record, now=NOW).tombstone(NOW)])
        else:
            archive.append([record])
    archive.close()

    # FTS5 compares every row of the index with the text of the view; it raises on a difference.
    execute(path, "INSERT INTO memory_text (memory_text, rank) VALUES ('integrity-check', 1)")
    counted = open_archive()
    assert len(counted.search_text("body note", EVERYTHING, limit=100)) == counted.count(EVERYTHING)


def test_two_processes_worth_of_connections_append_without_a_lock_error(
    open_archive: Callable[..., SqliteArchive],
) -> None:
    archives = [open_archive(), open_archive()]
    failures: list[BaseException] = []

    def write(archive: SqliteArchive, first: int) -> None:
        try:
            for number in range(first, first + 50):
                archive.append([a_record(number)])
        except BaseException as failure:
            failures.append(failure)
            raise

    threads = [
        threading.Thread(target=write, args=(archive, 100 * place))
        for place, archive in enumerate(archives)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert failures == []
    assert archives[0].last_seq() == archives[1].count(EVERYTHING) == 100


def test_a_newer_schema_is_refused_and_left_as_it_is(
    open_archive: Callable[..., SqliteArchive], path: Path
) -> None:
    open_archive().close()
    execute(path, "INSERT INTO schema_migrations (version, name, sha256) VALUES (99, 'x', 'y')")

    with pytest.raises(StoreMismatch, match="99"):
        open_archive()

    assert execute(path, "SELECT MAX(version) FROM schema_migrations") == [(99,)]


def test_a_file_that_is_no_database_is_damaged_and_left_as_it_is(
    open_archive: Callable[..., SqliteArchive], path: Path
) -> None:
    path.write_text("not a database, but something a person wrote\n" * 100, encoding="utf-8")
    before = path.read_bytes()

    with pytest.raises(StoreDamaged):
        open_archive()

    assert path.read_bytes() == before


def test_a_place_that_cannot_hold_a_file_is_unavailable(path: Path) -> None:
    path.mkdir()
    (path.parent / "file").write_text("in the way", encoding="utf-8")

    for place in (path, path.parent / "file" / "archive.db"):
        with pytest.raises(StoreUnavailable):
            SqliteArchive(place).open()


def test_a_call_before_opening_is_unavailable(path: Path) -> None:
    archive = SqliteArchive(path)

    with pytest.raises(StoreUnavailable):
        archive.count(EVERYTHING)
    assert archive.health().state is Health.DOWN


@pytest.mark.parametrize("condition", [Eq("project", "p"), All((Eq("project", "p"),))])
def test_a_project_is_read_through_its_index(
    open_archive: Callable[..., SqliteArchive], path: Path, condition: All | Eq
) -> None:
    archive = open_archive()
    archive.append([a_record(1)])
    # Whatever was not asked for cannot be read: its body is no JSON any more.
    archive.append(
        [MemoryRecord(id="other", project="q", name="", body="", created_at=NOW, updated_at=NOW)]
    )
    execute(path, "UPDATE memory_revision SET body = 'broken' WHERE body LIKE '%\"q\"%'")

    assert [record.id for record in archive.scan(condition)] == ["m-0001"]
    assert archive.count(condition) == 1


def test_an_index_in_a_format_of_a_newer_sqlite_is_made_anew(
    open_archive: Callable[..., SqliteArchive], path: Path
) -> None:
    archive = open_archive()
    archive.append([a_record(1, body="zanzibar"), a_record(2)])
    archive.close()
    execute(path, "UPDATE memory_text_config SET v = 5 WHERE k = 'version'")

    archive = open_archive()

    hits = archive.search_text("zanzibar", EVERYTHING, limit=5)
    assert [hit.record.id for hit in hits] == ["m-0001"]
    archive.append([next_revision(a_record(1), now=NOW, body="changed")])
    assert archive.search_text("zanzibar", EVERYTHING, limit=5) == []
