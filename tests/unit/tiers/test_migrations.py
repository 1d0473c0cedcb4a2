from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from tiers.errors import StoreMismatch
from tiers.migrations import Migration, due, migrate, read_migrations, statements

ONE = Migration(1, "0001_one.sql", "CREATE TABLE one (a);")
TWO = Migration(2, "0002_two.sql", "CREATE TABLE two (a);")


@pytest.fixture
def db() -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    yield connection
    connection.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path / ONE.name, ONE.sql)
    return tmp_path


def write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def tables(db: sqlite3.Connection) -> set[str]:
    return {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


def test_what_was_not_applied_is_due() -> None:
    assert due([ONE, TWO], {}) == [ONE, TWO]
    assert due([ONE, TWO], {1: ONE.sha256}) == [TWO]
    assert due([ONE, TWO], {1: ONE.sha256, 2: TWO.sha256}) == []


def test_an_edited_applied_file_is_refused() -> None:
    with pytest.raises(StoreMismatch, match="was edited"):
        due([ONE, TWO], {1: "another hash"})


def test_a_newer_schema_is_refused() -> None:
    with pytest.raises(StoreMismatch, match="version 3"):
        due([ONE, TWO], {1: ONE.sha256, 2: TWO.sha256, 3: "unknown"})


def test_files_are_read_in_the_order_of_their_numbers_and_others_left_out(folder: Path) -> None:
    write(folder / "0010_ten.sql", "SELECT 1;")
    write(folder / "0002_two.sql", "SELECT 1;")
    write(folder / "notes.sql", "nonsense")

    assert [m.version for m in read_migrations(folder)] == [1, 2, 10]


def test_line_ends_of_a_checkout_make_no_difference(folder: Path) -> None:
    (folder / "0001_one.sql").write_bytes(b"CREATE\r\nTABLE one (a);")
    with_crlf = read_migrations(folder)
    (folder / "0001_one.sql").write_bytes(b"CREATE\nTABLE one (a);")

    assert with_crlf[0].sha256 == read_migrations(folder)[0].sha256


def test_each_file_runs_once(db: sqlite3.Connection, folder: Path) -> None:
    migrate(db, folder)
    migrate(db, folder)
    write(folder / "0002_two.sql", "ALTER TABLE one ADD COLUMN b;\nINSERT INTO one VALUES (1, 2);")
    migrate(db, folder)
    migrate(db, folder)

    assert db.execute("SELECT * FROM one").fetchall() == [(1, 2)]
    assert db.execute("SELECT version FROM schema_migrations").fetchall() == [(1,), (2,)]


def test_a_failing_file_leaves_nothing_of_its_run(db: sqlite3.Connection, folder: Path) -> None:
    write(folder / "0002_two.sql", "CREATE TABLE two (a);\nINSERT INTO nowhere VALUES (1);")

    with pytest.raises(sqlite3.OperationalError):
        migrate(db, folder)

    assert tables(db) == set()
    assert not db.in_transaction


def test_an_edited_file_changes_nothing(db: sqlite3.Connection, folder: Path) -> None:
    migrate(db, folder)
    write(folder / "0001_one.sql", "CREATE TABLE other (a);")
    write(folder / "0002_two.sql", TWO.sql)

    with pytest.raises(StoreMismatch):
        migrate(db, folder)

    assert tables(db) == {"one", "schema_migrations"}


def test_a_script_is_split_at_whole_statements() -> None:
    script = """-- a comment; with a semicolon
CREATE TABLE a (b TEXT DEFAULT ';');
CREATE TRIGGER t AFTER INSERT ON a BEGIN
    DELETE FROM a;
    SELECT 1;
END;
SELECT 1"""

    assert [part.strip()[:10] for part in statements(script)] == [
        "-- a comme",
        "CREATE TRI",
        "SELECT 1",
    ]


def test_the_shipped_schemas_apply(db: sqlite3.Connection) -> None:
    root = Path(__file__).parents[3] / "tiers" / "sql"
    migrate(db, root / "sqlite")

    assert {"memory_head", "memory_revision", "chunk", "memory_use", "memory_text"} <= tables(db)
