from __future__ import annotations

import pytest

from memory.lexical import K1, coverage


def test_a_text_with_all_words_at_full_weight_covers_the_question() -> None:
    full = {1: K1 + 1, 2: K1 + 1}

    assert coverage([1, 2], {"a": full})["a"] == pytest.approx(1.0)


def test_a_rare_word_counts_for_more_than_a_common_one() -> None:
    texts = {"rare": {1: 1.0}, "common": {2: 1.0}, "other": {2: 1.0}, "more": {2: 1.0}}

    scores = coverage([1, 2], texts)

    assert scores["rare"] > scores["common"] == scores["other"]


def test_texts_without_a_word_of_the_question_are_left_out() -> None:
    assert coverage([1], {"a": {2: 1.0}}) == {}
    assert coverage([], {"a": {2: 1.0}}) == {}
