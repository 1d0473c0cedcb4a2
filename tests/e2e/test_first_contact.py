"""What somebody meets who tries tiermem for the first time."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support.homes import Home, wait_until


def test_a_slip_in_a_template_damages_nothing(home: Home, tmp_path: Path) -> None:
    lines = tmp_path / "turns.jsonl"
    lines.write_text('{"text": "I adopted a cat", "speaker": "Ann"}\n', encoding="utf-8")
    home.cli("import", str(lines), "--text", "{speaker}: {text}")

    failed = home.json("import", str(lines), "--text", "{speakr}: {text}", code=1)

    assert "speakr" in failed["failed"][0]["reason"]
    found = home.json("search", "adopted a cat")["hits"]
    assert [hit["text"] for hit in found] == ["Ann: I adopted a cat"]


def test_a_name_made_from_a_text_shows_no_marks_of_masks(home: Home) -> None:
    key = "AKIA" + "Q3ZT7RWN5KXH2PVB"

    saved = home.json("save", f"the key is {key} for uploads")

    assert saved["name"] == "the key is for uploads"
    assert saved["masked"] == [{"kind": "aws-access-key", "count": 1}]


def test_short_ids_and_empty_filters_are_explained(home: Home) -> None:
    home.cli("save", "use uv, not pip")

    assert "at least 4 characters" in home.cli("get", "zz", code=1).stderr
    assert "nothing like that" in home.cli("list", "--type", "user").stdout


def test_git_can_switch_to_another_branch_and_back(home: Home) -> None:
    def git(*arguments: str) -> None:
        identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
        subprocess.run(
            ["git", *identity, *arguments], cwd=home.project, check=True, capture_output=True
        )

    git("init", "-q", "-b", "main")
    home.cli("init", "--hot-root", ".memory", "--tracked")
    for number in range(4):
        home.cli("save", f"fact {number} of main", "--name", f"m{number}")
    git("add", "-A")
    git("commit", "-qm", "main")
    git("checkout", "-qb", "feature")
    for number in range(4):
        home.cli("save", f"fact {number} of the feature", "--name", f"f{number}")
    git("add", "-A")
    git("commit", "-qm", "feature")

    git("checkout", "-q", "main")
    wait_until(lambda: home.json("status", code=None)["held"])
    git("checkout", "-q", "feature")

    wait_until(lambda: home.json("status", code=None)["held"] is None)
    assert len(home.json("list")["memories"]) == 8


def test_a_running_engine_leaves_nothing_outside_of_its_home(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ORT_DISABLE_TELEMETRY")
    monkeypatch.delenv("TIERMEM_EMBEDDING_MODEL")
    del home.environment["TIERMEM_EMBEDDING_MODEL"]
    user = tmp_path / "user"
    user.mkdir()
    home.environment |= {"HOME": str(user), "XDG_CACHE_HOME": str(user / "cache")}

    home.cli("save", "use uv, not pip")
    # By words alone while the model loads.
    wait_until(lambda: home.json("search", "which installer", code=None)["degraded"] == [])

    assert [path for path in user.rglob("*") if path.is_file()] == []
