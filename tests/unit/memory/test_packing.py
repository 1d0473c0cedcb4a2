from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.engine.packing import CUT, SMALLEST_PIECE, age_of, cut, fit, quoted, recalled
from tiers.records import Origin

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)

texts = st.lists(st.text(max_size=3_000), max_size=30)


def test_a_short_text_is_not_cut() -> None:
    assert cut("a short text", 100).text == "a short text"


def test_a_long_text_is_cut_at_a_words_end_and_says_so() -> None:
    piece = cut("seven words that make a long line " * 20, 100)

    assert piece.is_cut
    assert piece.text.endswith(CUT)
    assert len(piece.text) <= 100
    assert not piece.text.removesuffix(CUT).endswith(("se", "wo", "lo"))


@given(texts, st.integers(1_000, 20_000), st.integers(0, 300))
def test_pieces_keep_to_the_budget(texts: list[str], characters: int, overhead: int) -> None:
    pieces = fit(texts, characters, overhead=overhead)

    spent = sum(len(piece.text) + overhead for piece in pieces)
    assert spent <= characters or len(pieces) == 1
    assert len(pieces) <= len(texts)
    assert bool(pieces) == bool(texts)


@given(texts, st.integers(1_000, 20_000))
def test_a_piece_is_the_start_of_its_text(texts: list[str], characters: int) -> None:
    for text, piece in zip(texts, fit(texts, characters, overhead=200), strict=False):
        if piece.is_cut:
            assert text.startswith(piece.text.removesuffix(CUT))
        else:
            assert piece.text == text


def test_what_a_short_text_leaves_goes_to_the_long_ones() -> None:
    pieces = fit(["x" * 100, "y " * 2_000], 2_000, overhead=100)

    assert len(pieces[1].text) > 1_500


def test_texts_without_room_are_left_for_the_next_page() -> None:
    pieces = fit(["long " * 200] * 30, 2_000, overhead=100)

    assert 0 < len(pieces) < 30
    assert all(len(piece.text) >= SMALLEST_PIECE * 0.6 for piece in pieces)


@pytest.mark.parametrize(
    ("ago", "said"),
    [
        (timedelta(seconds=-5), "now"),
        (timedelta(seconds=59), "now"),
        (timedelta(minutes=5), "5min"),
        (timedelta(hours=23), "23h"),
        (timedelta(days=3), "3d"),
        (timedelta(days=59), "59d"),
        (timedelta(days=61), "2mo"),
        (timedelta(days=729), "24mo"),
        (timedelta(days=731), "2y"),
    ],
)
def test_an_age_is_said_in_its_largest_unit(ago: timedelta, said: str) -> None:
    assert age_of(NOW - ago, NOW) == said


@given(st.text(max_size=500))
def test_no_text_can_close_its_own_fence(text: str) -> None:
    opening, _, rest = recalled(text, name="a\nname", origin=Origin.WEB, age="3d").partition("\n")
    mark = opening.split()[1]

    assert opening == f'<memory {mark} name="a name" origin=web age=3d>'
    assert rest == f"{text}\n</memory {mark}>"
    assert f"</memory {mark}>" not in text


@given(st.text(max_size=500))
def test_a_name_is_quoted_on_one_line(name: str) -> None:
    shown = quoted(name)

    assert len(shown.splitlines()) <= 1
    assert shown.startswith('"')
    assert shown.endswith('"')
