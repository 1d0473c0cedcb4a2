"""MEMORY.md: our block in it, and everything else, which is a person's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from memory.engine.host import Host
from memory.errors import Refused
from tests.support.people import Desk
from tiers import atomic, hot
from tiers.hot import LARGEST_FILE_BYTES
from tiers.records import Importance, Tier

BEGIN, END = b"<!-- tiermem:begin -->", b"<!-- tiermem:end -->"


@pytest.fixture
def desk(host: Host, tmp_path: Path) -> Desk:
    (tmp_path / "project").mkdir()
    return Desk(host, tmp_path / "project")


def around_block(content: bytes) -> tuple[bytes, bytes]:
    """Split MEMORY.md into what stands before and after our block."""
    before, _, rest = content.partition(BEGIN)
    block, _, after = rest.partition(END)
    assert block
    return before, after


def test_the_index_names_each_hot_memory_in_one_line(desk: Desk) -> None:
    desk.save("the port is 5432", "database port", description="where Postgres listens")
    desk.save("not pip\nand why", "use uv")
    desk.save("a thing found on the web", "deep one", tier=Tier.DEEP)

    lines = desk.read("MEMORY.md").decode().splitlines()

    assert sorted(lines[1:-1]) == [
        "- [database port](database-port.md) — where Postgres listens",
        "- [use uv](use-uv.md) — not pip",
    ]


def test_what_matters_more_comes_first(desk: Desk) -> None:
    desk.save("one", "low", importance=Importance.LOW)
    desk.save("two", "pinned", pinned=True)
    desk.save("three", "high", importance=Importance.HIGH)

    lines = desk.read("MEMORY.md").decode().splitlines()

    assert [line[3 : line.index("]")] for line in lines[1:-1]] == ["pinned", "high", "low"]


@pytest.mark.parametrize(
    "human",
    [
        b"# Ours\n\nAlways rebase.\n",
        b"# Ours\r\n\r\nAlways rebase.\r\n",
        b"\xef\xbb\xbf# Ours\n\nAlways rebase.\n",
        b"Always rebase.",
        b"Always rebase.\r\nAnd no newline",
        b"Always rebase.\n\n\n",
        b"Always rebase. na\xefve\n",
        b"---\ntitle: Ours\n---\nAlways rebase.\n",
        b"\tAlways rebase.  \x0c\n",
    ],
)
def test_no_byte_of_what_people_wrote_changes(desk: Desk, human: bytes) -> None:
    desk.write("MEMORY.md", human)
    desk.look()

    saved = desk.save("some text", "note")
    assert desk.read("MEMORY.md").startswith(human)
    assert b"(note.md)" in desk.read("MEMORY.md")
    before, after = around_block(desk.read("MEMORY.md"))
    desk.save("other text", "other")
    desk.save("new text", record_id=saved.record.id)
    desk.forget(saved.record.id)

    assert around_block(desk.read("MEMORY.md")) == (before, after)
    assert before.startswith(human)
    assert after in (b"\n", b"\r\n")


def test_text_below_the_block_stays_below(desk: Desk) -> None:
    desk.save("some text", "note")
    with (desk.root / "MEMORY.md").open("ab") as handle:
        handle.write(b"\r\nBelow it.")
    desk.look()

    desk.save("other text", "other")

    assert around_block(desk.read("MEMORY.md")) == (b"", b"\n\r\nBelow it.")


def test_what_people_write_in_memory_md_is_found_as_a_memory(desk: Desk) -> None:
    desk.save("some text", "note")
    desk.write("MEMORY.md", b"Always rebase, never merge.\n" + desk.read("MEMORY.md"))

    desk.look()

    record_id = desk.id_at("MEMORY.md")
    assert desk.found("rebase merge") == [record_id]
    assert desk.record(record_id).name == "MEMORY"
    assert desk.record(record_id).body == "Always rebase, never merge."
    assert desk.drain()
    assert desk.found("rebase merge")[0] == record_id


def test_our_own_writes_of_memory_md_are_no_edits(desk: Desk) -> None:
    desk.write("MEMORY.md", "Always rebase.\n")
    desk.look()
    desk.save("some text", "note")
    desk.save("other text", "other")

    assert desk.look().taken_in == []
    assert desk.history(desk.id_at("MEMORY.md")) == ["Always rebase."]


def test_an_unseen_edit_of_memory_md_survives_a_refresh_and_is_taken_in(desk: Desk) -> None:
    desk.save("some text", "note")
    desk.write("MEMORY.md", desk.read("MEMORY.md") + b"Just written.\n")

    desk.save("other text")

    assert b"Just written.\n" in desk.read("MEMORY.md")
    assert b"(other-text.md)" in desk.read("MEMORY.md")
    desk.look()
    assert desk.history(desk.id_at("MEMORY.md")) == ["Just written."]


def test_an_edit_inside_our_block_survives(desk: Desk) -> None:
    desk.save("some text", "note")
    content = desk.read("MEMORY.md").replace(END, b"A person's line.\n" + END)
    desk.write("MEMORY.md", content)

    desk.look()

    before, after = around_block(desk.read("MEMORY.md"))
    assert b"A person's line." in before + after
    desk.save("other text", "other")
    assert desk.read("MEMORY.md").count(b"A person's line.") == 1
    assert desk.found("person's line") == [desk.id_at("MEMORY.md")]


def test_a_block_that_people_took_out_is_put_back(desk: Desk) -> None:
    desk.save("some text", "note")
    desk.write("MEMORY.md", "Only mine.\n")

    desk.look()

    assert desk.read("MEMORY.md").startswith(b"Only mine.\n")
    assert b"(note.md)" in desk.read("MEMORY.md")


def test_a_line_that_people_took_out_of_the_block_is_put_back(desk: Desk) -> None:
    desk.save("some text", "note")
    content = desk.read("MEMORY.md")
    desk.write("MEMORY.md", content.replace(b"- [note](note.md) \xe2\x80\x94 some text\n", b""))

    desk.look()

    assert desk.read("MEMORY.md") == content


def test_a_topic_that_people_link_to_is_not_listed_twice(desk: Desk) -> None:
    desk.save("some text", "note")
    desk.save("other text", "other")
    desk.write("MEMORY.md", b"First of all: [the note](note.md)\n" + desk.read("MEMORY.md"))

    desk.look()

    assert desk.read("MEMORY.md").count(b"note.md") == 1
    assert desk.read("MEMORY.md").count(b"other.md") == 1


def test_memory_md_stays_within_what_the_client_loads(desk: Desk) -> None:
    human = "".join(f"Rule {n}: be kind.\n" for n in range(20))
    desk.write("MEMORY.md", human)
    for number in range(500):
        desk.write(f"note-{number}.md", f"---\ndescription: {'words ' * 20}\n---\ntext {number}\n")

    desk.look()

    content = desk.read("MEMORY.md")
    assert content.startswith(human.encode())
    assert len(content.splitlines()) <= 200
    assert len(content) <= 25_000
    lines = content.decode().splitlines()
    listed = [line for line in lines if line.startswith("- [note-")]
    assert len(listed) > 100
    assert f"… and {500 - len(listed)} more: tiermem list" in lines


def test_memory_md_that_people_fill_alone_is_not_cut(desk: Desk) -> None:
    human = "".join(f"Rule {n}: be kind.\n" for n in range(300))
    desk.write("MEMORY.md", human)
    desk.save("some text", "note")
    assert desk.read("MEMORY.md").startswith(human.encode())
    assert b"1 more: tiermem list" in desk.read("MEMORY.md")


def test_a_deleted_memory_md_is_written_again_without_the_lost_lines(desk: Desk) -> None:
    desk.write("MEMORY.md", "Always rebase.\n")
    desk.save("some text", "note")
    record_id = desk.id_at("MEMORY.md")
    (desk.root / "MEMORY.md").unlink()

    desk.save("other text", "other")
    desk.look()

    assert b"(other.md)" in desk.read("MEMORY.md")
    assert b"rebase" not in desk.read("MEMORY.md")
    assert desk.entry(record_id).tier is Tier.DEEP
    assert desk.found("rebase") == [record_id]
    desk.write("MEMORY.md", "Always rebase.\n")
    desk.look()
    assert desk.entry(record_id).tier is Tier.HOT


def test_the_human_part_is_neither_saved_over_nor_forgotten_by_others(desk: Desk) -> None:
    desk.write("MEMORY.md", "Always rebase.\n")
    desk.look()
    record_id = desk.id_at("MEMORY.md")

    with pytest.raises(Refused, match=r"MEMORY\.md"):
        desk.save("Never rebase.", record_id=record_id)
    with pytest.raises(Refused, match=r"MEMORY\.md"):
        desk.forget(record_id)
    assert desk.read("MEMORY.md").startswith(b"Always rebase.\n")


def test_memory_md_that_is_a_link_to_elsewhere_is_left_alone(desk: Desk, tmp_path: Path) -> None:
    mine = tmp_path / "dotfiles.md"
    mine.write_text("Mine.\n", encoding="utf-8")
    desk.save("some text", "note")
    (desk.root / "MEMORY.md").unlink()
    (desk.root / "MEMORY.md").symlink_to(mine)

    saved = desk.save("other text", "other")

    assert "hot" not in saved.pending
    assert desk.read("other.md")
    assert mine.read_text(encoding="utf-8") == "Mine.\n"
    desk.look()
    assert "link" in desk.status().problems["MEMORY.md"]


def test_memory_md_that_is_a_folder_stops_no_save(desk: Desk) -> None:
    desk.write("MEMORY.md/inner.md", "inner\n")
    saved = desk.save("some text", "note")
    assert "hot" not in saved.pending
    assert "no file" in desk.status().problems["MEMORY.md"]


def test_memory_md_that_is_too_large_is_left_alone_and_reported(desk: Desk) -> None:
    large = b"line of a person\n" * (LARGEST_FILE_BYTES // 17 + 10)
    desk.write("MEMORY.md", large)

    saved = desk.save("some text", "note")

    assert "hot" not in saved.pending
    assert desk.read("MEMORY.md") == large
    assert "too large" in desk.status().problems["MEMORY.md"]


# A person who edits MEMORY.md at the very moment of our write.


def at_swap_of_the_index(
    monkeypatch: pytest.MonkeyPatch,
    *,
    before: Callable[[], object] | None = None,
    after: Callable[[], object] | None = None,
) -> None:
    """Let a person act around the first swap that concerns MEMORY.md."""
    waiting = [before, after]
    real = atomic.exchange

    def act(moment: int) -> None:
        action, waiting[moment] = waiting[moment], None
        if action is not None:
            action()

    def acted(one: Path, other: Path) -> bool:
        if other.name != "MEMORY.md":
            return real(one, other)
        act(0)
        swapped = real(one, other)
        act(1)
        return swapped

    monkeypatch.setattr(hot, "exchange", acted)


def test_a_line_written_right_before_our_write_survives_it(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.write("MEMORY.md", "Always rebase.\n")
    desk.save("some text", "note")
    content = desk.read("MEMORY.md")
    at_swap_of_the_index(
        monkeypatch, before=lambda: desk.write("MEMORY.md", b"Right before.\n" + content)
    )

    desk.save("other text", "other")

    assert desk.read("MEMORY.md").startswith(b"Right before.\nAlways rebase.\n")
    assert b"(other.md)" in desk.read("MEMORY.md")
    desk.look()
    assert desk.history(desk.id_at("MEMORY.md")) == [
        "Always rebase.",
        "Right before.\nAlways rebase.",
    ]


def test_two_versions_around_our_write_are_both_in_the_history(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.write("MEMORY.md", "Always rebase.\n")
    desk.look()
    desk.save("some text", "note")
    at_swap_of_the_index(
        monkeypatch,
        before=lambda: desk.write("MEMORY.md", "First thought.\n"),
        after=lambda: desk.write("MEMORY.md", "Second thought.\n"),
    )

    desk.save("other text", "other")

    assert desk.read("MEMORY.md").startswith(b"Second thought.\n")
    assert b"(other.md)" in desk.read("MEMORY.md")
    desk.look()
    assert desk.history(desk.id_at("MEMORY.md")) == [
        "Always rebase.",
        "First thought.",
        "Second thought.",
    ]
    assert [path.name for path in desk.root.iterdir() if path.name.startswith(".")] == []


def test_a_line_written_right_after_our_write_is_taken_in(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.write("MEMORY.md", "Always rebase.\n")
    desk.save("some text", "note")

    def append() -> None:
        desk.write("MEMORY.md", desk.read("MEMORY.md") + b"Right after.\n")

    at_swap_of_the_index(monkeypatch, after=append)

    desk.save("other text", "other")
    desk.look()

    assert b"Right after.\n" in desk.read("MEMORY.md")
    assert desk.found("right after")[0] == desk.id_at("MEMORY.md")
