"""Importing and exporting with the command line, good sources and bad ones."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.homes import Home


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Home]:
    """A second home, as on another machine."""
    home = Home(tmp_path / "other-home", tmp_path / "other-project")
    yield home
    home.end()


def lines(path: Path, *items: object) -> str:
    text = "".join(f"{item if isinstance(item, str) else json.dumps(item)}\n" for item in items)
    path.write_text(text, encoding="utf-8")
    return str(path)


def exported(home: Home) -> dict[str, dict[str, Any]]:
    records = map(json.loads, home.cli("export", "-").stdout.splitlines())
    return {record["id"]: record for record in records}


def test_an_export_comes_back_whole_under_the_same_ids(
    home: Home, other: Home, tmp_path: Path
) -> None:
    old = home.json("save", "deploys happen on Mondays", "--name", "old")["id"]
    home.cli(
        *("save", "deploys happen on Tuesdays", "--name", "deploys", "--description", "when"),
        *("--type", "user", "--category", "ops", "--tag", "a", "--tag", "b"),
        *("--importance", "high", "--ttl", "52w", "--pin", "--supersedes", old),
    )
    home.cli("save", "-", "--name", "odd", stdin="# Ü\r\n\n\ttab 🎉\n---\n".encode())
    home.cli("save", "found on demand", "--tier", "deep")
    file = str(tmp_path / "out.jsonl")
    home.cli("export", file)

    answer = other.json("import", file)

    assert (answer["imported"], answer["failed"]) == (4, [])
    before, after = exported(home), exported(other)
    assert before.keys() == after.keys()
    local = {"project", "home_id", "updated_at"}
    for record_id, record in before.items():
        kept = {key: value for key, value in record.items() if key not in local}
        assert kept == {key: value for key, value in after[record_id].items() if key not in local}
    again = other.json("import", file)
    assert (again["imported"], again["unchanged"]) == (0, 4)
    assert sorted(record["tier"] for record in after.values()) == ["deep", "hot", "hot", "hot"]
    assert "nothing changed" in other.cli("import", file).stdout


def test_an_export_imported_into_another_project_makes_copies(home: Home, tmp_path: Path) -> None:
    home.cli("save", "mine", "--name", "mine")
    file = str(tmp_path / "out.jsonl")
    home.cli("export", file)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()

    assert home.json("import", file, project=elsewhere)["imported"] == 1
    assert home.json("import", file, project=elsewhere)["unchanged"] == 1

    assert home.json("get", "mine", project=elsewhere)["id"] != home.json("get", "mine")["id"]


def test_what_was_forgotten_is_left_out(home: Home, tmp_path: Path) -> None:
    file = lines(tmp_path / "notes.jsonl", {"text": "an old address"}, {"text": "a new address"})
    home.cli("import", file)
    home.cli("forget", "old address", "--yes")

    answer = home.json("import", file)

    assert (answer["imported"], answer["unchanged"], answer["forgotten"]) == (0, 1, 1)
    assert "1 left out: forgotten here before" in home.cli("import", file).stdout
    assert home.json("list")["total"] == 1


def test_good_lines_are_kept_and_bad_ones_reported(home: Home, tmp_path: Path) -> None:
    file = lines(
        tmp_path / "mixed.jsonl",
        {"id": "a", "text": "first"},
        "not json",
        {"id": "a", "text": "same id, other text"},
        [1, 2],
        {"text": " "},
        {"title": "no text"},
        "",
        {"text": 5},
        {"text": "half \ud800 a pair"},
        {"text": "w " * 2_600_000},
        {"text": "w " * 600_000},
        {"text": "x", "name": "n" * 5_000},
        {"text": "huge position", "position": 10**30},
        {"text": "last", "tags": "a, b", "created_at": "junk"},
    )

    answer = home.json("import", file, code=3)

    assert {failure["line"] for failure in answer["failed"]} >= {2, 4, 5, 6, 8, 9, 10}
    assert all(failure["path"] == file and failure["reason"] for failure in answer["failed"])
    reasons = " ".join(failure["reason"] for failure in answer["failed"])
    for words in ("no JSON", "no JSON object", "empty", "--field text=", "4 MB", "1,200,000 bytes"):
        assert words in reasons
    texts = {record["body"] for record in exported(home).values()}
    assert {"first", "same id, other text", "last"} <= texts
    assert answer["imported"] == len(texts)
    assert any("created_at" in warning["reason"] for warning in answer["warnings"])
    again = home.json("import", file, code=3)
    assert (again["imported"], again["unchanged"]) == (0, len(texts))
    assert again["failed"] == answer["failed"]


def test_two_records_of_one_id_do_not_take_turns(home: Home, tmp_path: Path) -> None:
    home.cli("save", "first", "--name", "one")
    [record] = exported(home).values()
    file = lines(tmp_path / "doubled.jsonl", record, record, record | {"body": "other"})

    for _ in range(2):
        answer = home.json("import", file, code=3)
        assert (answer["imported"], answer["unchanged"]) == (0, 2)
        assert "came before" in answer["failed"][0]["reason"]

    assert home.json("get", "one")["revision"] == 1


def test_many_complaints_are_not_all_printed(home: Home, tmp_path: Path) -> None:
    file = lines(tmp_path / "bad.jsonl", *["broken"] * 100)

    done = home.cli("import", file, code=1)

    assert done.stdout == "0 imported, 0 unchanged, 100 failed\n"
    assert len(done.stderr.splitlines()) == 21
    assert "80 more" in done.stderr


def test_sources_that_are_none(home: Home, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "noise.bin").write_bytes(bytes(range(256)) * 9)
    (tmp_path / "noise.jsonl").write_bytes(b"\xff\x00\xfe\n" * 3)
    (tmp_path / "not.jsonl.gz").write_bytes(b"no gzip")

    assert home.cli("import", str(tmp_path / "empty")).stdout == "nothing to import was found\n"
    for name in ("missing.md", "noise.bin", "noise.jsonl", "not.jsonl.gz"):
        answer = home.json("import", str(tmp_path / name), code=1)
        assert answer["imported"] == 0
        assert answer["failed"][0]["path"].endswith(name) and answer["failed"][0]["reason"]
    assert home.json("list")["total"] == 0


def test_one_bad_source_does_not_stop_the_others(home: Home, tmp_path: Path) -> None:
    good = lines(tmp_path / "good.jsonl", {"text": "good"})

    answer = home.json("import", str(tmp_path / "missing"), good, code=3)

    assert (answer["imported"], len(answer["failed"])) == (1, 1)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--field", "nope=x"], "no 'nope'"),
        (["--field", "name"], "ours=theirs"),
        (["--field", "name="], "ours=theirs"),
        (["--field", "name=a", "--field", "name=b"], "twice"),
        (["--text", "{"], "--text"),
        (["--text", ""], "names no field"),
        (["--text", "{a.__class__}"], "plain {field}s"),
        (["--text", "{a}", "--field", "text=b"], "both"),
    ],
    ids=str,
)
def test_mistakes_of_fields_and_templates(
    home: Home, tmp_path: Path, options: list[str], complaint: str
) -> None:
    file = lines(tmp_path / "notes.jsonl", {"text": "x"})

    done = home.cli("import", file, *options, code=2)

    assert complaint in done.stderr and "→" in done.stderr
    assert done.stdout == ""


def test_other_names_of_fields_are_read(home: Home, tmp_path: Path) -> None:
    file = lines(
        tmp_path / "talk.jsonl",
        {"doc_id": "D1:1", "who": "Ann", "what": "we deploy on Tuesdays", "when": "2026-01-05"},
        {"doc_id": "D1:2", "who": "Bob", "what": "noted", "when": "2026-01-06"},
    )

    home.cli(
        *("import", file, "--field", "name=doc_id", "--field", "created_at=when"),
        *("--text", "{who}: {what}"),
    )

    memory = home.json("get", "D1:1")
    assert memory["text"] == "Ann: we deploy on Tuesdays"
    assert memory["created_at"] == "2026-01-05T00:00:00Z"
    assert (memory["thread"], memory["position"], memory["origin"]) == ("talk", 0, "import")
    assert home.json("get", "D1:2")["position"] == 1


def test_an_export_to_where_nothing_can_be_written(home: Home, tmp_path: Path) -> None:
    home.cli("save", "x")

    for place, code in (("/proc/x.jsonl", 1), (str(tmp_path), 2), ("", 2), ("/no/such/x", 2)):
        done = home.cli("export", place, code=code)
        assert done.stdout == ""
        assert "→" in done.stderr and "Traceback" not in done.stderr
    assert not list(tmp_path.glob(".tiermem-*"))


def test_an_export_replaces_a_file_as_a_whole(home: Home, tmp_path: Path) -> None:
    home.cli("save", "x")
    file = tmp_path / "out.jsonl"
    file.write_text("older\n" * 1_000, encoding="utf-8")

    done = home.cli("export", str(file))

    assert re.search(r"\b1 memor", done.stderr)
    assert len(file.read_text(encoding="utf-8").splitlines()) == 1
