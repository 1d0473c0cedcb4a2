"""What people do to files reaches the index by itself, with the engine running or not."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memory.cli.client import EngineClient
from tests.support.homes import Home, wait_until


@pytest.fixture
def client(home: Home) -> EngineClient:
    return home.client()


@pytest.fixture
def root(home: Home, client: EngineClient) -> Path:
    return Path(client.call("status", home.request())["hot_root"])


def names(home: Home, client: EngineClient, query: str) -> list[str]:
    answer: dict[str, Any] = client.call("search", home.request(query=query))
    return [hit["name"] for hit in answer["hits"] if query in hit["text"]]


def measured(what: str, condition: Callable[[], bool]) -> None:
    """Wait for something and print how long it took."""
    started = time.monotonic()
    wait_until(condition)
    sys.stdout.write(f"{what}: {time.monotonic() - started:.2f} s\n")


def test_new_edited_and_deleted_files_are_noticed(
    home: Home, client: EngineClient, root: Path
) -> None:
    note = root / "note.md"

    note.write_text("zebras cross\n", encoding="utf-8")
    measured("a new file is found", lambda: names(home, client, "zebras") == ["note"])

    note.write_text("giraffes cross\n", encoding="utf-8")
    measured("an edit is found", lambda: names(home, client, "giraffes") == ["note"])
    assert names(home, client, "zebras") == []

    fresh = root / ".note.swp"
    fresh.write_text("okapis cross\n", encoding="utf-8")
    fresh.replace(note)
    measured("an edit by rename is found", lambda: names(home, client, "okapis") == ["note"])

    note.rename(root / "renamed.md")
    measured("a rename is found", lambda: names(home, client, "okapis") == ["renamed"])
    assert client.call("list", home.request())["total"] == 1


def test_a_file_in_a_new_subfolder_is_noticed(home: Home, client: EngineClient, root: Path) -> None:
    (root / "team" / "rules").mkdir(parents=True)
    (root / "team" / "rules" / "reviews.md").write_text("quagga reviews\n", encoding="utf-8")
    measured("a file in a subfolder is found", lambda: names(home, client, "quagga") == ["reviews"])


def test_a_deleted_file_is_demoted_and_still_found(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIERMEM_HOT_DELETION_SETTLE_S", "0.3")
    client = home.client()
    saved = client.call("save", home.request(text="zebras cross", name="note"))
    Path(saved["path"]).unlink()

    def tier() -> str:
        return str(client.call("get", home.request(ref=saved["id"]))["tier"])

    measured("a deletion is noticed", lambda: tier() == "deep")
    assert names(home, client, "zebras") == ["note"]


def test_a_folder_that_was_replaced_by_another_is_watched_again(
    home: Home, client: EngineClient, root: Path
) -> None:
    client.call("save", home.request(text="zebras cross", name="note"))
    shutil.copytree(root, root.with_name("other"))
    root.rename(root.with_name("old"))
    root.with_name("other").rename(root)

    (root / "new.md").write_text("giraffes cross\n", encoding="utf-8")

    measured(
        "a file in the new folder is found", lambda: names(home, client, "giraffes") == ["new"]
    )
    (root / "new.md").write_text("okapis cross\n", encoding="utf-8")
    measured("an edit in the new folder is found", lambda: names(home, client, "okapis") == ["new"])


def test_a_project_that_comes_later_is_watched_as_well(
    home: Home, client: EngineClient, root: Path, tmp_path: Path
) -> None:
    (tmp_path / "second").mkdir()
    second = {"project": str(tmp_path / "second")}
    other = Path(client.call("status", second)["hot_root"])
    (root / "one.md").write_text("zebras cross\n", encoding="utf-8")
    (other / "two.md").write_text("giraffes cross\n", encoding="utf-8")

    wait_until(lambda: names(home, client, "zebras") == ["one"])
    wait_until(lambda: client.call("search", {**second, "query": "giraffes"})["hits"] != [])
    assert names(home, client, "giraffes") == []


def test_edits_made_while_no_engine_runs_are_taken_in_at_the_next_start(home: Home) -> None:
    client = home.client()
    saved = client.call("save", home.request(text="zebras cross", name="note"))
    gone = client.call("save", home.request(text="moas cross", name="gone"))
    client.stop()
    note = Path(saved["path"])
    content = note.read_text(encoding="utf-8").replace("zebras", "giraffes")
    note.write_text(content, encoding="utf-8")
    note.with_name("new.md").write_text("okapis cross\n", encoding="utf-8")
    note.rename(note.with_name("renamed.md"))
    Path(gone["path"]).unlink()

    client = home.client()
    measured("a start with edits", lambda: names(home, client, "giraffes") == ["note"])

    assert names(home, client, "okapis") == ["new"]
    assert names(home, client, "moas") == ["gone"]
    texts = [
        revision["text"]
        for revision in client.call("history", home.request(ref=saved["id"]))["revisions"]
    ]
    assert texts == ["zebras cross", "giraffes cross"]


def test_an_edit_just_before_a_kill_is_taken_in_at_the_next_start(
    home: Home, client: EngineClient, root: Path
) -> None:
    saved = client.call("save", home.request(text="zebras cross", name="note"))
    content = Path(saved["path"]).read_text(encoding="utf-8").replace("zebras", "giraffes")
    Path(saved["path"]).write_text(content, encoding="utf-8")
    home.kill_engine()

    client = home.client()

    measured("a start after a kill", lambda: names(home, client, "giraffes") == ["note"])
    assert client.call("list", home.request())["total"] == 1
