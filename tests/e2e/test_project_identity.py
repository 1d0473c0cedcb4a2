"""One memory for each project, wherever one stands and whatever is moved or copied."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.homes import Home, wait_until


def repository(path: Path) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    for arguments in (
        ["init", "--quiet", "."],
        ["-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", "c", "--allow-empty"],
    ):
        subprocess.run(["git", "-C", str(path), *arguments], check=True, capture_output=True)
    return path


def names(home: Home, folder: Path) -> set[str]:
    return {memory["name"] for memory in home.json("list", project=folder)["memories"]}


def test_projects_do_not_see_each_other(home: Home, tmp_path: Path) -> None:
    one, other = repository(tmp_path / "one"), repository(tmp_path / "other")
    home.cli("save", "the code name is Falcon", "--name", "code name", project=one)

    assert home.json("search", "code name Falcon", project=other)["hits"] == []
    assert names(home, other) == set()
    assert "Falcon" not in home.cli("load", project=other).stdout
    assert home.cli("export", "-", project=other).stdout == ""
    home.cli("forget", "--query", "Falcon", "--yes", project=other, code=1)
    assert names(home, one) == {"code name"}


def test_subfolders_and_worktrees_share_one_memory(home: Home, tmp_path: Path) -> None:
    root = repository(tmp_path / "repo")
    tree = tmp_path / "tree"
    subprocess.run(
        ["git", "-C", str(root), "worktree", "add", "-q", str(tree), "-b", "other"], check=True
    )
    (root / "src").mkdir()
    home.cli("save", "x", "--name", "from src", project=root / "src")
    home.cli("save", "y", "--name", "from tree", project=tree)

    assert names(home, root) == names(home, tree) == {"from src", "from tree"}


def test_a_subfolder_does_not_take_the_project_over(home: Home, tmp_path: Path) -> None:
    outer = tmp_path / "plain"
    (outer / "notes").mkdir(parents=True)
    home.cli("save", "x", "--name", "kept above", project=outer)

    assert names(home, outer / "notes") == {"kept above"}
    assert names(home, outer) == {"kept above"}


def test_a_moved_folder_keeps_its_memory(home: Home, tmp_path: Path) -> None:
    before = tmp_path / "before"
    before.mkdir()
    home.cli("init", project=before)
    home.cli("save", "x", "--name", "kept", project=before)
    before.rename(tmp_path / "after")

    assert names(home, tmp_path / "after") == {"kept"}


def test_a_copy_is_refused_until_it_is_adopted(home: Home, tmp_path: Path) -> None:
    original = tmp_path / "original"
    original.mkdir()
    home.cli("init", project=original)
    home.cli("save", "x", "--name", "kept", project=original)
    copy = tmp_path / "copy"
    shutil.copytree(original, copy)

    for verb in (["list"], ["load"], ["save", "y"], ["init"]):
        complaint = home.cli(*verb, project=copy, code=1).stderr
        assert str(original) in complaint and "init --adopt" in complaint

    home.cli("init", "--adopt", project=copy)

    assert names(home, copy) == {"kept"}


def test_init_twice_changes_nothing(home: Home) -> None:
    first = home.json("init")
    before = (home.project / ".tiermem.toml").read_bytes()

    second = home.json("init")

    assert (first["id_file_written"], second["id_file_written"]) == (True, False)
    assert first["project"] == second["project"]
    assert (home.project / ".tiermem.toml").read_bytes() == before


def test_remove_takes_only_the_id_away(home: Home) -> None:
    home.cli("save", "x", "--name", "kept")
    settings = home.project / ".tiermem.toml"
    settings.write_text("[load]\nmax_files = 3\n", encoding="utf-8")
    home.cli("init")

    assert home.json("init", "--remove") == {"removed": True}
    assert home.json("init", "--remove") == {"removed": False}

    assert settings.read_text(encoding="utf-8") == "[load]\nmax_files = 3\n"
    assert names(home, home.project) == {"kept"}


def test_a_hot_root_in_the_repository_is_ignored_by_git(home: Home) -> None:
    repository(home.project)
    (home.project / ".gitignore").write_text("*.pyc", encoding="utf-8")

    answer = home.json("init", "--hot-root", ".memory")
    home.cli("init", "--hot-root", ".memory")
    saved = home.json("save", "x")

    assert answer["hot_root"] == str(home.project / ".memory")
    assert Path(saved["path"]).parent == home.project / ".memory"
    assert (home.project / ".gitignore").read_text(encoding="utf-8") == "*.pyc\n/.memory/\n"
    status = subprocess.run(
        ["git", "-C", str(home.project), "status", "--porcelain"], capture_output=True, text=True
    )
    assert ".memory" not in status.stdout


def test_a_tracked_hot_root_is_not_ignored(home: Home) -> None:
    repository(home.project)

    home.cli("init", "--hot-root", ".memory", "--tracked")

    assert not (home.project / ".gitignore").exists()


@pytest.mark.parametrize("is_running", [True, False])
def test_a_new_hot_root_takes_the_files_along(home: Home, is_running: bool) -> None:
    for name in ("one", "two", "three"):
        home.cli("save", f"text of {name}", "--name", name)
    old = home.hot_root
    (old / "one.md").write_text(
        (old / "one.md").read_text(encoding="utf-8").replace("text of", "edited text of"),
        encoding="utf-8",
    )
    if not is_running:
        home.cli("stop")

    home.cli("init", "--hot-root", ".memory")

    status = home.json("status", code=None)
    assert status["held"] is None
    assert status["tiers"]["hot"]["count"] == 3
    assert {path.name for path in (home.project / ".memory").iterdir()} == {
        "MEMORY.md",
        "one.md",
        "two.md",
        "three.md",
    }
    assert list(old.glob("*.md")) == []
    assert home.json("get", "one")["text"] == "edited text of one"
    (home.project / ".memory" / "two.md").write_text(
        "---\nname: two\n---\n\nedited there\n", encoding="utf-8"
    )
    wait_until(lambda: home.json("get", "two")["text"].strip() == "edited there")


def test_a_hot_root_with_other_files_of_the_same_names_is_refused(home: Home) -> None:
    home.cli("save", "mine", "--name", "note")
    (home.project / "there").mkdir()
    (home.project / "there" / "note.md").write_text("somebody else's\n", encoding="utf-8")

    complaint = home.cli("init", "--hot-root", "there", code=2).stderr

    assert "note.md" in complaint
    assert (home.project / "there" / "note.md").read_text(encoding="utf-8") == "somebody else's\n"
    assert home.json("get", "note")["text"] == "mine"
    assert Path(home.json("get", "note")["path"]).is_file()


@pytest.mark.parametrize("place", [".", "..", ".git", ".git/memory", "file", "file/below"])
def test_a_hot_root_that_cannot_be_one_is_refused(home: Home, place: str) -> None:
    repository(home.project)
    (home.project / "file").touch()

    complaint = home.cli("init", "--hot-root", place, code=2).stderr

    assert "→ choose" in complaint
    assert Path(home.json("init")["hot_root"]).is_relative_to(home.path)


@pytest.mark.parametrize(
    "options", [["--tracked"], ["--remove", "--adopt"], ["--remove", "--hot-root", "x"]]
)
def test_options_that_do_not_go_together(home: Home, options: list[str]) -> None:
    assert "→" in home.cli("init", *options, code=2).stderr
    assert not (home.project / ".tiermem.toml").exists()


def test_a_link_to_a_project_is_the_project(home: Home, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(home.project)
    home.cli("save", "x", "--name", "kept")

    assert names(home, tmp_path / "link") == {"kept"}
