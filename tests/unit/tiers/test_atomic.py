from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from tiers import atomic
from tiers.atomic import (
    TEMPORARY_PREFIX,
    exchange,
    meant_for,
    place_new,
    replace,
    temporary_path,
    write_temporary,
)


@pytest.fixture
def no_links(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system without hard links, such as exFAT."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", refuse)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_temporary_file_says_which_file_it_is_meant_for(tmp_path: Path) -> None:
    path = temporary_path(tmp_path, "a note.md")
    assert path.name.startswith(TEMPORARY_PREFIX)
    assert meant_for(path.name) == "a note.md"
    assert meant_for(temporary_path(tmp_path).name) == ""
    assert meant_for("a note.md") is None
    assert meant_for(".tiermem-notes.md") is None


def test_a_temporary_name_that_would_be_too_long_leaves_the_file_out(tmp_path: Path) -> None:
    path = write_temporary(tmp_path, b"x", name="é" * 120 + ".md")
    assert len(os.fsencode(path.name)) <= 255
    assert meant_for(path.name) == ""


def test_a_temporary_file_has_its_mode_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        path = write_temporary(tmp_path, b"x", mode=0o644)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


def test_files_written_at_once_with_one_size_differ_in_time(tmp_path: Path) -> None:
    times = [write_temporary(tmp_path, b"same").stat().st_mtime_ns for _ in range(50)]
    assert len(set(times)) == len(times)


def test_a_name_that_is_taken_is_not_placed_over(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("theirs", encoding="utf-8")
    temporary = write_temporary(tmp_path, b"ours")
    with pytest.raises(FileExistsError):
        place_new(temporary, tmp_path / "a.md")
    assert (tmp_path / "a.md").read_bytes() == b"theirs"
    assert temporary.read_bytes() == b"ours"


def test_a_new_file_gets_its_place_and_the_temporary_name_is_gone(tmp_path: Path) -> None:
    place_new(write_temporary(tmp_path, b"ours"), tmp_path / "a.md")
    assert names(tmp_path) == ["a.md"]
    assert (tmp_path / "a.md").read_bytes() == b"ours"


@pytest.mark.usefixtures("no_links")
def test_a_new_file_gets_its_place_where_there_are_no_links(tmp_path: Path) -> None:
    place_new(write_temporary(tmp_path, b"ours"), tmp_path / "a.md")
    assert names(tmp_path) == ["a.md"]
    assert (tmp_path / "a.md").read_bytes() == b"ours"
    with pytest.raises(FileExistsError):
        place_new(write_temporary(tmp_path, b"second"), tmp_path / "a.md")
    assert (tmp_path / "a.md").read_bytes() == b"ours"


def test_two_files_swap(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.write_bytes(b"1")
    other.write_bytes(b"2")
    if not exchange(one, other):
        pytest.skip("files cannot be swapped here")
    assert (one.read_bytes(), other.read_bytes()) == (b"2", b"1")


def test_swapping_with_a_file_that_is_gone_says_so(tmp_path: Path) -> None:
    one = tmp_path / "one"
    one.write_bytes(b"1")
    with pytest.raises(FileNotFoundError):
        exchange(one, tmp_path / "other")
    assert one.read_bytes() == b"1"


def test_a_system_that_cannot_swap_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(atomic, "_swap", lambda one, other: errno.EINVAL)
    assert exchange(tmp_path / "one", tmp_path / "other") is False
    monkeypatch.setattr(atomic, "_swap", None)
    assert exchange(tmp_path / "one", tmp_path / "other") is False


def test_a_replaced_file_has_the_new_content_and_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "a.md"
    replace(path, b"one")
    replace(path, b"two")
    assert path.read_bytes() == b"two"
    assert names(tmp_path) == ["a.md"]


def test_a_file_that_cannot_be_replaced_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "a.md").mkdir()
    with pytest.raises(OSError, match="directory"):
        replace(tmp_path / "a.md", b"one")
    assert names(tmp_path) == ["a.md"]
