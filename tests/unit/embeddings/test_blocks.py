from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from embeddings.blocks import Block, blocks


def parts(text: str) -> list[str]:
    return [text[block.start : block.end] for block in blocks(text)]


@given(st.text(alphabet="a #`~\n\r", max_size=120))
def test_blocks_follow_each_other_without_gaps(text: str) -> None:
    assert "".join(parts(text)) == text


def test_headings_stay_with_what_follows_and_blank_lines_with_what_precedes() -> None:
    text = "intro\n\n# A\n## B\n\nfirst\n\nsecond\n```\ncode\n\n# x\n```\nafter"

    assert parts(text) == [
        "intro\n\n",
        "# A\n## B\n\nfirst\n\n",
        "second\n",
        "```\ncode\n\n# x\n```\n",
        "after",
    ]


def test_paths_are_the_headings_above_and_not_those_before() -> None:
    text = "# A\n\na\n\n## B ##\n\nb\n\n## C\n\nc\n\nd\n\n# E\n\ne"

    def path(block: Block) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return block.above, block.inner

    assert [path(block) for block in blocks(text)] == [
        ((), ("A",)),
        (("A",), ("A", "B")),
        (("A",), ("A", "C")),
        (("A", "C"), ("A", "C")),
        ((), ("E",)),
    ]


def test_what_only_looks_like_a_heading_or_fence_is_text() -> None:
    for text in ("#tag\nx", "    # indented\nx", "####### seven\nx", "``` a`b\n# x"):
        assert next(block.inner for block in blocks(text)) == ()


def test_windows_line_ends_and_empty_headings_are_understood() -> None:
    (block,) = blocks("# A\r\n#\r\n\r\ntext\r\n")

    assert block.inner == ()
    assert block.has_heading
