from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from embeddings.chunking import SPECIAL_TOKENS, Chunk, CountTokens, chunk
from embeddings.models import ALL_MINILM_L6_V2
from embeddings.tokenizer import load_tokenizer

WINDOW = 40
MINILM = load_tokenizer(ALL_MINILM_L6_V2.vocabulary, 256)


def words(text: str) -> int:
    return len(text.split())


def thirds_of_bytes(text: str) -> int:
    return math.ceil(len(text.encode("utf-8", "replace")) / 3)


def cut(text: str, *, window: int = WINDOW, title: str = "") -> list[Chunk]:
    return chunk(text, window_tokens=window, count_tokens=words, title=title)


def a_paragraph(about: str, length: int = 30) -> str:
    return " ".join(f"{about}{number}" for number in range(length))


def a_section(about: str) -> str:
    return f"## {about}\n\n{a_paragraph(about)}\n\n"


def shown(text: str) -> str:
    return "".join(text.split())


MARKDOWN = st.lists(
    st.one_of(
        st.text(max_size=300),
        st.sampled_from(
            ["# One\n", "## Two\n", "### Three\n", "\n\n", "```\n", "~~~~\n", "---\n", "word " * 60]
        ),
        st.text(alphabet="ab .\n#`", max_size=200),
        st.integers(1, 400).map(lambda length: "x" * length),
    ),
    max_size=12,
).map("".join)

COUNTERS = st.sampled_from([words, thirds_of_bytes, MINILM.count])


@given(MARKDOWN, COUNTERS, st.sampled_from(["", "a title", "long title " * 30]))
@settings(deadline=None)
def test_no_character_is_lost_and_every_chunk_fits(
    text: str, count: CountTokens, title: str
) -> None:
    chunks = chunk(text, window_tokens=WINDOW, count_tokens=count, title=title)

    assert "".join(shown(part.text) for part in chunks) == shown(text)
    assert [part.ordinal for part in chunks] == list(range(len(chunks)))
    for part in chunks:
        assert count(part.embedded) <= WINDOW - SPECIAL_TOKENS
        assert part.embedded.endswith(part.text)
        assert part.text.strip() or (title and not text.strip())


@given(MARKDOWN, COUNTERS)
@settings(deadline=None)
def test_the_same_text_gives_the_same_chunks(text: str, count: CountTokens) -> None:
    once = chunk(text, window_tokens=WINDOW, count_tokens=count, title="t")

    assert once == chunk(text, window_tokens=WINDOW, count_tokens=count, title="t")


@given(MARKDOWN, COUNTERS)
@settings(deadline=None)
def test_a_text_that_fits_is_one_chunk(text: str, count: CountTokens) -> None:
    budget = WINDOW - SPECIAL_TOKENS
    if text.strip() and count(text) <= budget and len(text) <= 32 * budget:
        chunks = chunk(text, window_tokens=WINDOW, count_tokens=count)

        assert [part.text.strip() for part in chunks] == [text.strip()]


def test_a_text_that_just_fits_is_one_chunk_and_one_word_more_is_two() -> None:
    assert len(cut(a_paragraph("w", WINDOW - SPECIAL_TOKENS))) == 1
    assert len(cut(a_paragraph("w", WINDOW - SPECIAL_TOKENS + 1))) == 2


def test_sections_become_chunks_with_the_headings_above_them() -> None:
    text = f"# Guide\n\n{a_section('Alpha')}{a_section('Beta')}### Deep\n\n{a_paragraph('deep')}"

    parts = cut(text, title="notes")

    assert [part.embedded.splitlines()[0] for part in parts] == [
        "notes",
        "notes > Guide",
        "notes > Guide > Beta",
    ]
    assert [part.text.split()[1] for part in parts] == ["Guide", "Beta", "Deep"]


def test_a_heading_stays_with_the_paragraph_below_it() -> None:
    parts = cut(a_section("Alpha") + "## Long\n\n" + a_paragraph("long", 100))

    assert parts[1].text.startswith("## Long\n\nlong0")
    assert [part.embedded.splitlines()[0] for part in parts[2:]] == ["Long"] * (len(parts) - 2)
    assert len(parts) > 3


def test_small_sections_share_a_chunk() -> None:
    text = "".join(f"## S{number}\n\nshort\n\n" for number in range(30))

    parts = cut(text)

    assert 1 < len(parts) < 15


def test_headings_and_rules_inside_a_fence_are_code() -> None:
    code = "```sh\n# not a heading\n---\necho 1\n```"

    parts = cut(a_section("Alpha") + code + "\n\n" + a_paragraph("after"))

    (fenced,) = [part for part in parts if "echo" in part.text]
    assert code in fenced.text
    assert all("not a heading" not in part.embedded.splitlines()[0] for part in parts)


@pytest.mark.parametrize("mark", ["```", "~~~~"])
def test_a_fence_that_fits_is_kept_whole(mark: str) -> None:
    lines = "\n\n".join(f"call {number}" for number in range(12))
    code = f"{mark}\n{lines}\n{mark}"

    parts = cut(f"{a_section('Alpha')}# {a_paragraph('heading', 12)}\n\n{code}\n\nend")

    assert sum(code in part.text for part in parts) == 1


def test_a_fence_inside_a_longer_fence_does_not_close_it() -> None:
    text = f"````\n```\n# code\n```\n{a_paragraph('c', 20)}\n````\n\n{a_paragraph('after')}"

    assert all(part.embedded == part.text for part in cut(text))


def test_an_open_fence_runs_to_the_end() -> None:
    parts = cut("```\n" + "# code\n" * 60)

    assert len(parts) > 1
    assert all(part.embedded == part.text for part in parts)


def test_a_long_paragraph_is_cut_after_sentences() -> None:
    sentence = "One sentence has exactly these eight words here. "

    parts = cut(sentence * 20)

    assert len(parts) > 1
    assert all(part.text.endswith("here.") for part in parts)


def test_a_long_list_is_cut_between_lines() -> None:
    parts = cut("\n".join(f"- item {number}. with some words" for number in range(40)))

    assert len(parts) > 1
    assert all(part.text.startswith("- item") for part in parts)


def test_an_edit_leaves_the_chunks_of_other_sections_as_they_are() -> None:
    sections = [a_section(name) for name in ("Alpha", "Beta", "Gamma")]
    before = cut("".join(sections))

    after = cut("".join([a_section("Changed") + "one more line\n\n", *sections[1:]]))

    assert [part.hash for part in after[-2:]] == [part.hash for part in before[-2:]]
    assert after[0].hash != before[0].hash


def test_equal_content_has_an_equal_hash_wherever_it_stands() -> None:
    parts = cut(a_section("Same") * 3)

    assert len({part.hash for part in parts}) == 1
    assert len(parts) == 3


def test_the_title_is_embedded_and_not_shown() -> None:
    (part,) = cut("the body", title="the title")

    assert (part.text, part.embedded) == ("the body", "the title\nthe body")
    assert part.hash != cut("the body")[0].hash


def test_a_title_gives_way_to_a_text_that_fills_the_window() -> None:
    body = a_paragraph("w", WINDOW - SPECIAL_TOKENS - 2)

    (part,) = cut(body, title="longer title still")

    assert (part.text, part.embedded) == (body, "longer title\n" + body)


def test_a_blank_text_is_known_by_its_title_alone() -> None:
    (part,) = cut(" \n\n", title="only a title")

    assert (part.text, part.embedded) == ("", "only a title")
    assert cut(" \n\n") == []


def test_code_keeps_the_indent_of_its_first_line() -> None:
    (part,) = cut("\n\n    indented code\n")

    assert part.text == "    indented code"


@pytest.mark.parametrize(
    "text",
    [
        "x" * 1_000_000,
        "# " + "#" * 500_000,
        "部署之前请先备份数据库" * 50_000,
        "\r\n" * 300_000 + "end",
        "`" * 300_000,
        "a" + " " * 1_000_000 + "b",
        "# h\n" * 20_000,
    ],
    ids=["run", "hashes", "chinese", "blank", "ticks", "spaces", "headings"],
)
@pytest.mark.timeout(60)
def test_a_huge_text_without_structure_is_cut_in_time(text: str) -> None:
    """Work that grows with the square of the text would not end within the timeout."""
    parts = chunk(text, window_tokens=256, count_tokens=thirds_of_bytes)

    assert "".join(shown(part.text) for part in parts) == shown(text)
    assert max(thirds_of_bytes(part.embedded) for part in parts) <= 254


def test_a_run_that_counts_as_one_token_is_still_cut() -> None:
    parts = chunk("x" * 100_000, window_tokens=256, count_tokens=MINILM.count)

    assert max(len(part.text) for part in parts) < 10_000


def test_the_parts_of_a_word_that_was_cut_stay_apart() -> None:
    """A whole word may count for more than its parts: together they could exceed the window."""

    def dear_when_long(text: str) -> int:
        return sum(
            len(word) if len(word) > 50 else math.ceil(len(word) / 5) for word in text.split()
        )

    parts = chunk("y" * 60, window_tokens=WINDOW, count_tokens=dear_when_long)

    assert "".join(part.text for part in parts) == "y" * 60
    assert max(dear_when_long(part.embedded) for part in parts) <= WINDOW - SPECIAL_TOKENS


def test_a_window_too_small_to_fill_is_refused() -> None:
    with pytest.raises(ValueError, match="window of 8 tokens"):
        cut("text", window=8)
