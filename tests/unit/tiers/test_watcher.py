from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.homes import wait_until
from tiers import watcher as watching
from tiers.errors import HotRootNotWritable
from tiers.watcher import Watcher


class Looks:
    """Notes which roots were looked at; `answer` says what a look does."""

    def __init__(self) -> None:
        self.keys: list[str] = []
        self.answer: Callable[[str], bool] = lambda _: False
        self._lock = threading.Lock()

    def __call__(self, key: str) -> bool:
        with self._lock:
            self.keys.append(key)
        return self.answer(key)

    def forget(self) -> None:
        with self._lock:
            self.keys.clear()


@pytest.fixture
def looks() -> Looks:
    return Looks()


@pytest.fixture
def watcher(looks: Looks, monkeypatch: pytest.MonkeyPatch) -> Iterator[Watcher]:
    """A running watcher that looks at roots only when it has a reason to."""
    monkeypatch.setattr(watching, "EVERYTHING_S", 1_000.0)
    running = Watcher(looks)
    running.start()
    yield running
    running.stop()


@pytest.fixture
def root(watcher: Watcher, looks: Looks, tmp_path: Path) -> Path:
    """A watched root that has been looked at once."""
    folder = tmp_path / "root"
    folder.mkdir()
    watcher.add("p", folder)
    wait_until(lambda: "p" in looks.keys)
    looks.forget()
    return folder


def test_a_changed_file_brings_a_look(root: Path, looks: Looks) -> None:
    (root / "a.md").write_text("x", encoding="utf-8")
    wait_until(lambda: "p" in looks.keys)


def test_a_changed_file_in_a_subfolder_brings_a_look(root: Path, looks: Looks) -> None:
    (root / "sub").mkdir()
    wait_until(lambda: "p" in looks.keys)
    looks.forget()
    (root / "sub" / "a.md").write_text("x", encoding="utf-8")
    wait_until(lambda: "p" in looks.keys)


def test_a_root_that_still_moves_is_looked_at_until_it_does_not(root: Path, looks: Looks) -> None:
    looks.answer = lambda _: len(looks.keys) < 4
    (root / "a.md").write_text("x", encoding="utf-8")
    wait_until(lambda: len(looks.keys) >= 4)


def test_a_look_that_stumbles_ends_no_watch(
    root: Path, looks: Looks, caplog: pytest.LogCaptureFixture
) -> None:
    def stumble(_: str) -> bool:
        raise OverflowError("a date that no calendar holds")

    looks.answer = stumble
    (root / "a.md").write_text("x", encoding="utf-8")
    wait_until(lambda: "p" in looks.keys)
    looks.answer = lambda _: False
    looks.forget()
    (root / "b.md").write_text("x", encoding="utf-8")
    wait_until(lambda: "p" in looks.keys)
    assert "a date that no calendar holds" in caplog.text


def test_a_root_that_cannot_be_looked_at_is_complained_of_once(
    root: Path, looks: Looks, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(_: str) -> bool:
        raise HotRootNotWritable("the root cannot be read")

    looks.answer = refuse
    for name in ("a.md", "b.md", "c.md"):
        looks.forget()
        (root / name).write_text("x", encoding="utf-8")
        wait_until(lambda: "p" in looks.keys)
    complaints = [r for r in caplog.records if r.levelno == logging.WARNING]
    assert [record.getMessage() for record in complaints] == [
        "p cannot be looked at: the root cannot be read"
    ]


def test_a_root_that_is_made_later_is_watched_then(
    watcher: Watcher, looks: Looks, tmp_path: Path
) -> None:
    watcher.add("later", tmp_path / "later")
    wait_until(lambda: "later" in looks.keys)
    (tmp_path / "later").mkdir()
    looks.forget()
    wait_until(lambda: "later" in looks.keys)
    (tmp_path / "later" / "a.md").write_text("x", encoding="utf-8")
    looks.forget()
    wait_until(lambda: "later" in looks.keys)


def test_another_folder_by_the_same_name_is_watched_anew(root: Path, looks: Looks) -> None:
    root.rename(root.with_name("old"))
    root.mkdir()
    looks.forget()
    wait_until(lambda: "p" in looks.keys)
    for number in range(3):
        looks.forget()
        (root / f"{number}.md").write_text("x", encoding="utf-8")
        wait_until(lambda: "p" in looks.keys)


def test_a_root_behind_a_link_is_watched(watcher: Watcher, looks: Looks, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    watcher.add("linked", tmp_path / "link")
    wait_until(lambda: "linked" in looks.keys)
    looks.forget()
    (tmp_path / "real" / "a.md").write_text("x", encoding="utf-8")
    wait_until(lambda: "linked" in looks.keys)


def test_a_second_project_ends_the_watch_of_no_other(
    watcher: Watcher, looks: Looks, root: Path, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    watcher.add("other", tmp_path / "other")
    watcher.add("other", tmp_path / "other")
    wait_until(lambda: {"p", "other"} <= set(looks.keys))
    looks.forget()
    (root / "a.md").write_text("x", encoding="utf-8")
    wait_until(lambda: "p" in looks.keys)
