from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tiers.passages import PASSAGE_CHARACTERS, passage

FILL = "lorem ipsum dolor sit amet " * 40


def test_a_short_text_is_given_whole() -> None:
    assert passage("a short text", ["other"]) == "a short text"


def test_the_passage_with_most_of_the_words_is_given() -> None:
    text = f"{FILL} the harbour. {FILL} the harbour master keeps the keys. {FILL}"

    found = passage(text, ["harbour", "keys"])

    assert "harbour master keeps the keys" in found
    assert found.startswith("… ")
    assert found.endswith(" …")


def test_other_endings_and_accents_are_found() -> None:
    assert "CAFÉS" in passage(f"{FILL} two CAFÉS here. {FILL}", ["café"])


def test_without_any_of_the_words_the_start_is_given() -> None:
    assert passage(FILL, ["harbour"]).startswith("lorem ipsum")


@given(st.text(max_size=3_000), st.lists(st.text(min_size=1, max_size=8), max_size=5))
def test_a_passage_is_a_part_of_the_text(text: str, words: list[str]) -> None:
    found = passage(text, words)

    assert len(found) <= PASSAGE_CHARACTERS + 4
    assert found.removeprefix("… ").removesuffix(" …") in text or found in text
