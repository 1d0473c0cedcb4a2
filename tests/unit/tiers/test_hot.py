from __future__ import annotations

import errno
import os
import stat
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tiers import atomic, hot
from tiers.errors import HotRootNotWritable, InvalidRecord, StoreFull
from tiers.hot import LARGEST_FILE_BYTES, HotTier, UnseenEdit, file_hash, topic_path

NOW = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)
SOON = NOW + timedelta(seconds=1)
LATER = NOW + timedelta(seconds=60)


@pytest.fixture
def tier(tmp_path: Path) -> HotTier:
    tier = HotTier(tmp_path / "hot", tmp_path / "state")
    tier.create()
    return tier


@pytest.fixture(params=["swap", "steps"])
def either_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Replace files by a swap, and as where the system has none."""
    if request.param == "steps":
        monkeypatch.setattr(atomic, "_swap", None)
    return str(request.param)


def put(tier: HotTier, path: str, content: bytes) -> str:
    full = tier.root / path
    full.parent.mkdir(parents=True, exist_ok=True)
    full.write_bytes(content)
    return file_hash(content)


def at_swap(
    monkeypatch: pytest.MonkeyPatch,
    *,
    before: Callable[[], object] | None = None,
    after: Callable[[], object] | None = None,
) -> None:
    """Let a person act right before or right after the first swap of two files."""
    waiting = {"before": before, "after": after}
    real = atomic.exchange

    def act(moment: str) -> None:
        action, waiting[moment] = waiting[moment], None
        if action is not None:
            action()

    def acted(one: Path, other: Path) -> bool:
        act("before")
        swapped = real(one, other)
        act("after")
        return swapped

    monkeypatch.setattr(hot, "exchange", acted)


def names(tier: HotTier) -> list[str]:
    return sorted(path.name for path in tier.root.rglob("*") if path.is_file())


def kept(tier: HotTier, path: str) -> list[bytes]:
    return [snapshot.read_bytes() for snapshot in tier.snapshots.of(path)]


# What is listed and read.


def test_markdown_files_are_listed_with_their_folders(tier: HotTier) -> None:
    for path in ("a.md", "B.MARKDOWN", "sub/deep/c.md", "notes.txt", "d.md.bak"):
        put(tier, path, b"x")
    assert sorted(tier.listing()) == ["B.MARKDOWN", "a.md", "sub/deep/c.md"]


def test_hidden_files_and_folders_are_not_listed(tier: HotTier) -> None:
    for path in (".a.md", ".git/b.md", "sub/.c.md", ".tiermem-0123456789abcdef-d.md"):
        put(tier, path, b"x")
    assert tier.listing() == {}
    assert tier.survey().left_out == {}


def test_a_folder_named_like_a_file_is_not_listed(tier: HotTier) -> None:
    put(tier, "a.md/b.md", b"x")
    assert list(tier.listing()) == ["a.md/b.md"]
    assert tier.read("a.md") is None


def test_a_link_that_leaves_the_root_is_left_out_with_a_reason(
    tier: HotTier, tmp_path: Path
) -> None:
    (tmp_path / "secret.md").write_text("x", encoding="utf-8")
    (tier.root / "out.md").symlink_to(tmp_path / "secret.md")
    (tier.root / "dead.md").symlink_to(tier.root / "nothing.md")
    (tier.root / "loop.md").symlink_to(tier.root / "loop.md")
    survey = tier.survey()
    assert survey.files == {}
    assert survey.left_out == {
        "out.md": "it is a link that leaves the hot root",
        "dead.md": "it is a link to nothing",
        "loop.md": "it is a link to nothing",
    }


def test_a_link_to_a_listed_file_is_only_another_name_of_it(tier: HotTier) -> None:
    put(tier, "a.md", b"x")
    put(tier, ".store/b.md", b"y")
    (tier.root / "also-a.md").symlink_to("a.md")
    (tier.root / "b.md").symlink_to(".store/b.md")
    assert sorted(tier.listing()) == ["a.md", "b.md"]
    assert tier.survey().left_out == {}


def test_a_name_that_is_no_text_is_left_out_and_stops_no_other(tier: HotTier) -> None:
    put(tier, "a.md", b"x")
    Path(os.fsdecode(os.fsencode(tier.root) + b"/caf\xe9.md")).write_bytes(b"y")
    survey = tier.survey()
    assert list(survey.files) == ["a.md"]
    assert survey.left_out == {"caf\ufffd.md": "its name is not UTF-8"}


def test_a_root_that_is_not_there_has_no_files(tmp_path: Path) -> None:
    tier = HotTier(tmp_path / "hot", tmp_path / "state")
    assert not tier.exists()
    assert tier.listing() == {}
    assert tier.read("a.md") is None


def test_a_folder_that_cannot_be_read_is_an_error_and_no_loss(
    tier: HotTier, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tier, "a.md", b"x")
    put(tier, "sub/b.md", b"x")
    real = os.scandir

    def refuse(path: str) -> object:
        if str(path).endswith("sub"):
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return real(path)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(HotRootNotWritable, match="Permission denied"):
        tier.survey()


@pytest.mark.timeout(20)
def test_a_pipe_is_not_waited_for(tier: HotTier) -> None:
    os.mkfifo(tier.root / "a.md")
    assert tier.listing() == {}
    assert tier.read("a.md") is None


def test_of_a_file_that_is_too_large_only_a_start_is_read(tier: HotTier) -> None:
    put(tier, "a.md", b"x" * (LARGEST_FILE_BYTES + 10))
    file = tier.read("a.md")
    assert file is not None
    assert len(file.content) == LARGEST_FILE_BYTES + 1
    assert file.seen.size == LARGEST_FILE_BYTES + 10


@pytest.mark.parametrize("path", ["../a.md", "/etc/passwd", "sub/../../a.md", ""])
def test_paths_that_leave_the_root_are_refused(tier: HotTier, path: str) -> None:
    with pytest.raises(InvalidRecord):
        tier.read(path)
    with pytest.raises(InvalidRecord):
        tier.write(path, b"x", expected=None, now=NOW)
    with pytest.raises(InvalidRecord):
        tier.remove(path, expected="", now=NOW)


# Writing.


def test_a_new_file_is_private_and_read_back(tier: HotTier) -> None:
    written = tier.write("sub/a.md", b"one", expected=None, now=NOW)
    assert tier.read("sub/a.md") == written
    assert tier.listing() == {"sub/a.md": written.seen}
    assert stat.S_IMODE((tier.root / "sub" / "a.md").stat().st_mode) == 0o600
    assert names(tier) == ["a.md"]


@pytest.mark.usefixtures("either_way")
def test_an_expected_file_is_replaced_and_its_old_content_kept(tier: HotTier) -> None:
    expected = put(tier, "a.md", b"one")
    (tier.root / "a.md").chmod(0o640)
    written = tier.write("a.md", b"two", expected=expected, now=NOW)
    assert tier.read("a.md") == written
    assert stat.S_IMODE((tier.root / "a.md").stat().st_mode) == 0o640
    assert kept(tier, "a.md") == [b"one"]
    assert names(tier) == ["a.md"]


@pytest.mark.usefixtures("either_way")
def test_an_edited_file_is_not_written_over(tier: HotTier) -> None:
    put(tier, "a.md", b"theirs")
    with pytest.raises(UnseenEdit):
        tier.write("a.md", b"ours", expected=file_hash(b"one"), now=NOW)
    with pytest.raises(UnseenEdit):
        tier.write("a.md", b"ours", expected=None, now=NOW)
    with pytest.raises(UnseenEdit):
        tier.write("gone.md", b"ours", expected=file_hash(b"one"), now=NOW)
    assert (tier.root / "a.md").read_bytes() == b"theirs"
    assert names(tier) == ["a.md"]


def test_what_is_noted_of_a_written_file_is_never_a_later_edit(
    tier: HotTier, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = put(tier, "a.md", b"one")
    at_swap(monkeypatch, after=lambda: put(tier, "a.md", b"edit after it"))
    written = tier.write("a.md", b"two", expected=expected, now=NOW)
    assert written.content == b"two"
    assert written.seen != tier.listing()["a.md"]


def test_an_edit_of_the_same_size_in_the_same_moment_is_told_by_its_time(tier: HotTier) -> None:
    written = tier.write("a.md", b"one", expected=None, now=NOW)
    put(tier, "a.md", b"two")
    assert tier.listing()["a.md"] != written.seen


def test_what_is_noted_of_a_read_file_is_never_later_than_its_content(
    tier: HotTier, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tier, "a.md", b"one")
    real, edits = os.fstat, iter([b"second", b"a third"])

    def edited(descriptor: int) -> os.stat_result:
        found = real(descriptor)
        if found.st_size < 10 and (edit := next(edits, None)):
            put(tier, "a.md", edit)
        return found

    monkeypatch.setattr(os, "fstat", edited)
    file = tier.read("a.md")
    assert file is not None
    assert (file.content, file.seen) == (b"a third", tier.listing()["a.md"])


def test_an_edit_between_look_and_swap_is_put_back(
    tier: HotTier, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = put(tier, "a.md", b"one")
    at_swap(monkeypatch, before=lambda: put(tier, "a.md", b"theirs"))
    with pytest.raises(UnseenEdit) as caught:
        tier.write("a.md", b"ours", expected=expected, now=NOW)
    assert caught.value.displaced == ()
    assert (tier.root / "a.md").read_bytes() == b"theirs"
    assert names(tier) == ["a.md"]


def test_a_second_edit_while_the_first_is_put_back_stays_and_the_first_is_told(
    tier: HotTier, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = put(tier, "a.md", b"one")
    at_swap(
        monkeypatch,
        before=lambda: put(tier, "a.md", b"first"),
        after=lambda: put(tier, "a.md", b"second"),
    )
    with pytest.raises(UnseenEdit) as caught:
        tier.write("a.md", b"ours", expected=expected, now=NOW)
    assert caught.value.displaced == (b"first",)
    assert (tier.root / "a.md").read_bytes() == b"second"
    assert names(tier) == ["a.md"]


def test_an_edit_whose_place_is_deleted_before_it_is_put_back_is_told(
    tier: HotTier, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = put(tier, "a.md", b"one")
    at_swap(
        monkeypatch,
        before=lambda: put(tier, "a.md", b"theirs"),
        after=(tier.root / "a.md").unlink,
    )
    with pytest.raises(UnseenEdit) as caught:
        tier.write("a.md", b"ours", expected=expected, now=NOW)
    assert caught.value.displaced == (b"theirs",)
    assert names(tier) == []


def test_a_file_deleted_between_look_and_swap_is_an_edit(
    tier: HotTier, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = put(tier, "a.md", b"one")
    at_swap(monkeypatch, before=(tier.root / "a.md").unlink)
    with pytest.raises(UnseenEdit, match="removed"):
        tier.write("a.md", b"ours", expected=expected, now=NOW)
    assert names(tier) == []


def test_a_file_that_became_a_folder_is_left_alone(
    tier: HotTier, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = put(tier, "a.md", b"one")

    def become_a_folder() -> None:
        (tier.root / "a.md").unlink()
        put(tier, "a.md/b.md", b"theirs")

    at_swap(monkeypatch, before=become_a_folder)
    with pytest.raises(HotRootNotWritable):
        tier.write("a.md", b"ours", expected=expected, now=NOW)
    assert (tier.root / "a.md" / "b.md").read_bytes() == b"theirs"
    assert [path.name for path in tier.root.iterdir()] == ["a.md"]


def test_a_file_that_appears_while_a_new_one_is_written_stays(
    tier: HotTier, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = atomic.place_new

    def appeared(temporary: Path, path: Path) -> None:
        put(tier, "a.md", b"theirs")
        real(temporary, path)

    monkeypatch.setattr(hot, "place_new", appeared)
    with pytest.raises(UnseenEdit):
        tier.write("a.md", b"ours", expected=None, now=NOW)
    assert (tier.root / "a.md").read_bytes() == b"theirs"
    assert names(tier) == ["a.md"]


def test_without_a_swap_a_file_recreated_meanwhile_stays(
    tier: HotTier, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(atomic, "_swap", None)
    expected = put(tier, "a.md", b"one")
    real = atomic.place_new

    def recreated(temporary: Path, path: Path) -> None:
        put(tier, "a.md", b"theirs")
        real(temporary, path)

    monkeypatch.setattr(hot, "place_new", recreated)
    with pytest.raises(UnseenEdit):
        tier.write("a.md", b"ours", expected=expected, now=NOW)
    assert (tier.root / "a.md").read_bytes() == b"theirs"
    assert kept(tier, "a.md") == [b"one"]
    assert names(tier) == ["a.md"]


def test_writing_through_a_link_inside_the_root_keeps_the_link(tier: HotTier) -> None:
    expected = put(tier, ".store/a.md", b"one")
    (tier.root / "a.md").symlink_to(".store/a.md")
    tier.write("a.md", b"two", expected=expected, now=NOW)
    assert (tier.root / "a.md").is_symlink()
    assert (tier.root / ".store" / "a.md").read_bytes() == b"two"


def test_a_link_that_leaves_the_root_is_not_written_through(tier: HotTier, tmp_path: Path) -> None:
    outside = tmp_path / "outside.md"
    outside.write_bytes(b"one")
    (tier.root / "a.md").symlink_to(outside)
    with pytest.raises(InvalidRecord, match="link"):
        tier.write("a.md", b"two", expected=file_hash(b"one"), now=NOW)
    assert outside.read_bytes() == b"one"


def test_a_full_disk_says_so_and_leaves_the_file_as_it_is(
    tier: HotTier, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = put(tier, "a.md", b"one")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreFull):
        tier.write("a.md", b"two", expected=expected, now=NOW)
    assert (tier.root / "a.md").read_bytes() == b"one"
    assert names(tier) == ["a.md"]


def test_a_root_below_a_file_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    tier = HotTier(tmp_path / "file" / "hot", tmp_path / "state")
    with pytest.raises(HotRootNotWritable) as caught:
        tier.write("a.md", b"x", expected=None, now=NOW)
    assert caught.value.retryable
    assert "writable" in caught.value.hint


# Removing.


def test_an_expected_file_is_removed_and_kept(tier: HotTier) -> None:
    expected = put(tier, "a.md", b"one")
    tier.remove("a.md", expected=expected, now=NOW)
    tier.remove("a.md", expected=expected, now=NOW)
    assert names(tier) == []
    assert kept(tier, "a.md") == [b"one"]


def test_a_file_is_removed_without_a_trace_when_asked(tier: HotTier) -> None:
    expected = put(tier, "a.md", b"one")
    written = tier.write("a.md", b"two", expected=expected, now=NOW)
    tier.remove("a.md", expected=written.hash, now=NOW, keep=False)
    assert tier.snapshots.forget("a.md") == 1
    assert kept(tier, "a.md") == []
    assert tier.snapshots.forget("never.md") == 0


def test_an_edited_file_is_not_removed(tier: HotTier) -> None:
    put(tier, "a.md", b"theirs")
    with pytest.raises(UnseenEdit) as caught:
        tier.remove("a.md", expected=file_hash(b"one"), now=NOW)
    assert caught.value.displaced == ()
    assert (tier.root / "a.md").read_bytes() == b"theirs"
    assert names(tier) == ["a.md"]


def test_an_edit_whose_place_is_taken_before_it_is_put_back_is_told(
    tier: HotTier, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tier, "a.md", b"first")
    real = atomic.place_new

    def taken(temporary: Path, path: Path) -> None:
        put(tier, "a.md", b"second")
        real(temporary, path)

    monkeypatch.setattr(hot, "place_new", taken)
    with pytest.raises(UnseenEdit) as caught:
        tier.remove("a.md", expected=file_hash(b"one"), now=NOW)
    assert caught.value.displaced == (b"first",)
    assert (tier.root / "a.md").read_bytes() == b"second"
    assert names(tier) == ["a.md"]


def test_of_a_link_only_the_link_is_removed(tier: HotTier) -> None:
    expected = put(tier, ".store/a.md", b"one")
    (tier.root / "a.md").symlink_to(".store/a.md")
    tier.remove("a.md", expected=expected, now=NOW, keep=False)
    assert [path.name for path in tier.root.iterdir()] == [".store"]
    assert (tier.root / ".store" / "a.md").read_bytes() == b"one"


# Editors that still have a replaced file open.


@pytest.fixture(params=["links", "no links"])
def any_disk(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """State on the disk of the hot root, and on another one."""
    if request.param == "no links":
        real = os.link

        def refuse(source: Path, target: Path) -> None:
            if "snapshots" in str(target):
                raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
            real(source, target)

        monkeypatch.setattr(os, "link", refuse)


@pytest.mark.usefixtures("any_disk", "either_way")
def test_what_an_editor_writes_into_a_replaced_file_is_found(tier: HotTier) -> None:
    expected = put(tier, "a.md", b"one")
    with (tier.root / "a.md").open("ab") as editor:
        tier.write("a.md", b"two", expected=expected, now=NOW)
        assert tier.late_edits(SOON) == ([], False)
        editor.write(b" and more")
    late, moving = tier.late_edits(SOON)
    assert [(edit.path, edit.content) for edit in late] == [("a.md", b"one and more")]
    assert not moving
    assert tier.late_edits(SOON) == ([], False)


@pytest.mark.usefixtures("either_way")
def test_a_write_that_falls_between_swap_and_snapshot_is_found(
    tier: HotTier, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = put(tier, "a.md", b"one")
    real = tier.snapshots.keep
    with (tier.root / "a.md").open("ab", buffering=0) as editor:

        def written_first(source: Path, path: str, *, seen: str, now: datetime) -> None:
            editor.write(b" and more")
            real(source, path, seen=seen, now=now)

        monkeypatch.setattr(tier.snapshots, "keep", written_first)
        tier.write("a.md", b"two", expected=expected, now=NOW)
    late, _ = tier.late_edits(SOON)
    assert [edit.content for edit in late] == [b"one and more"]


def test_a_late_edit_is_found_however_late_the_look_is(tier: HotTier) -> None:
    expected = put(tier, "a.md", b"one")
    with (tier.root / "a.md").open("ab") as editor:
        tier.write("a.md", b"two", expected=expected, now=NOW)
        editor.write(b" and more")
    assert [edit.content for edit in tier.late_edits(LATER)[0]] == [b"one and more"]


def test_a_replaced_file_is_not_watched_for_ever(tier: HotTier) -> None:
    expected = put(tier, "a.md", b"one")
    with (tier.root / "a.md").open("ab", buffering=0) as editor:
        tier.write("a.md", b"two", expected=expected, now=NOW)
        assert tier.late_edits(LATER) == ([], False)
        editor.write(b" and more")
    assert tier.late_edits(LATER) == ([], False)


def test_an_editor_that_still_writes_is_waited_for(tier: HotTier) -> None:
    expected = put(tier, "a.md", b"one")
    now = datetime.now(UTC)
    with (tier.root / "a.md").open("ab", buffering=0) as editor:
        tier.write("a.md", b"two", expected=expected, now=now)
        editor.write(b" and")
        os.utime(editor.fileno(), (now.timestamp(), now.timestamp()))
        assert tier.late_edits(now, quiet_s=0.5) == ([], True)
        editor.write(b" more")
        os.utime(editor.fileno(), (now.timestamp(), now.timestamp()))
    late, moving = tier.late_edits(now + timedelta(seconds=1), quiet_s=0.5)
    assert ([edit.content for edit in late], moving) == ([b"one and more"], False)


def test_only_the_last_copies_of_a_file_are_kept(tier: HotTier) -> None:
    expected = put(tier, "a.md", b"0")
    for number in range(1, 31):
        content = str(number).encode()
        expected = tier.write("a.md", content, expected=expected, now=NOW).hash
    assert len(kept(tier, "a.md")) == 20


def test_copies_of_a_file_with_a_very_long_name_are_kept(tier: HotTier) -> None:
    path = topic_path("記" * 70, set())
    expected = tier.write(path, b"one", expected=None, now=NOW).hash
    tier.write(path, b"two", expected=expected, now=NOW)
    assert kept(tier, path) == [b"one"]


# What a killed writer leaves.


def test_what_a_killed_writer_left_is_found_with_its_path_and_cleared(tier: HotTier) -> None:
    (tier.root / "sub").mkdir()
    left = atomic.write_temporary(tier.root / "sub", b"swapped out", name="a.md")
    put(tier, ".tiermem-notes.md", b"a person's")
    with tier.lock():
        found = tier.leftovers()
        assert [(path, file.path, file.content) for path, file in found] == [
            (left, "sub/a.md", b"swapped out")
        ]
        tier.discard(left, found[0][1], NOW)
    assert names(tier) == [".tiermem-notes.md"]
    assert kept(tier, "sub/a.md") == [b"swapped out"]


# One writer at a time.


def test_writers_of_two_tiers_take_turns(tier: HotTier, tmp_path: Path) -> None:
    other = HotTier(tier.root, tmp_path / "state")
    waiting, done = threading.Event(), threading.Event()

    def write() -> None:
        waiting.set()
        other.write("a.md", b"other", expected=None, now=NOW)
        done.set()

    with tier.lock():
        writer = threading.Thread(target=write)
        writer.start()
        assert waiting.wait(10)
        tier.write("b.md", b"nested", expected=None, now=NOW)
        assert not done.is_set()
        assert names(tier) == ["b.md"]
    writer.join(10)
    assert names(tier) == ["a.md", "b.md"]


# Names of new files.


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("Use uv, not pip!", "use-uv-not-pip.md"),
        ("../../etc/passwd", "etc-passwd.md"),
        ("Größe & Maß", "größe-maß.md"),
        ("MEMORY", "memory-note.md"),
        ("CON", "con-note.md"),
        ("lpt1", "lpt1-note.md"),
        ("***", "memory-note.md"),
        ("x" * 300, f"{'x' * 60}.md"),
    ],
)
def test_a_name_becomes_a_file_name_that_every_system_takes(name: str, path: str) -> None:
    assert topic_path(name, set()) == path


def test_a_taken_file_name_gets_a_number_whatever_its_case() -> None:
    assert topic_path("Use uv", {"USE-UV.md", "use-uv-2.MD"}) == "use-uv-3.md"
