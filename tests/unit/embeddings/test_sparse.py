from __future__ import annotations

import math

import pytest
import qdrant_edge
from hypothesis import given
from hypothesis import strategies as st

from embeddings.errors import UnknownModel
from embeddings.sparse import AVERAGE_LENGTH, SparseEncoder, split_identifiers

ENGLISH = SparseEncoder()


def ids(text: str) -> set[int]:
    return set(ENGLISH.encode_query(text).indices)


@given(st.text(max_size=200))
def test_ids_ascend_are_distinct_and_equal_for_documents_and_questions(text: str) -> None:
    document, question = ENGLISH.encode_document(text), ENGLISH.encode_query(text)

    assert list(document.indices) == sorted(set(document.indices))
    assert document.indices == question.indices
    assert len(document.values) == len(document.indices)
    assert all(math.isfinite(value) and value > 0 for value in document.values)
    assert set(question.values) <= {1.0}


def test_forms_of_a_word_share_an_id() -> None:
    assert ids("deploy") == ids("deploys") == ids("DEPLOYED") == ids("deploying")


def test_stop_words_have_no_id() -> None:
    assert ids("the of and is") == set()
    assert ENGLISH.encode_query("the").indices == ()


def test_a_word_has_one_id() -> None:
    assert ENGLISH.encode_query("running").indices == ENGLISH.encode_query("run").indices


def test_a_word_said_more_often_weighs_more_and_a_longer_text_weighs_less() -> None:
    once = ENGLISH.encode_document("deploy now").values
    often = ENGLISH.encode_document("deploy deploy deploy").values
    long = ENGLISH.encode_document("deploy " + " ".join(f"word{n}" for n in range(500)))

    assert max(often) > max(once) > max(long.values)


def test_weights_are_the_bm25_formula() -> None:
    (value,) = ENGLISH.encode_document("deploy deploy").values

    length_part = 1.2 * (1 - 0.75 + 0.75 * 2 / AVERAGE_LENGTH)
    assert value == pytest.approx(2 * 2.2 / (2 + length_part), rel=1e-6)


@pytest.mark.parametrize(
    ("identifier", "words"),
    [
        ("getUserName", "user name"),
        ("HTTPServerError", "http server error"),
        ("write_boolean", "write boolean"),
        ("parse-config.file", "parse config file"),
        ("listURLs", "list url"),
    ],
)
def test_an_identifier_is_found_by_its_parts(identifier: str, words: str) -> None:
    assert ids(words) <= ids(f"see {identifier} there")


def test_an_identifier_is_found_as_it_is_written() -> None:
    assert ids("getUserName") & set(ENGLISH.encode_document("call getUserName()").indices) >= ids(
        "getusername"
    )


@pytest.mark.parametrize("text", ["plain words only", "APIs", "", "ALL CAPS", "x1 v2", "部署"])
def test_words_without_parts_stay_as_they_are(text: str) -> None:
    assert split_identifiers(text) == text


def test_a_very_long_word_takes_no_time_to_speak_of() -> None:
    """Quadratic matching would take hours here."""
    run = "x" * 2_000_000

    assert split_identifiers(f"getName{run}") == f"getName{run}\nget Name{run}"


def test_what_utf8_cannot_carry_does_not_stop_a_text() -> None:
    assert ids("deploy") <= ids("\ud800 deploy")


def test_ids_and_weights_are_those_of_the_store() -> None:
    config = qdrant_edge.Bm25Config(language="english", avg_len=AVERAGE_LENGTH)
    theirs = qdrant_edge.Bm25(config).embed_document("Servers retry failed requests")

    ours = ENGLISH.encode_document("Servers retry failed requests")

    assert dict(zip(ours.indices, ours.values, strict=True)) == dict(
        zip(theirs.indices, theirs.values, strict=True)
    )


def test_another_language_stems_its_own_words() -> None:
    german = SparseEncoder("german")

    assert german.encode_query("Häuser") == german.encode_query("Hauses")
    assert german.encode_query("und die").indices == ()


def test_without_a_language_every_word_counts_as_written() -> None:
    plain = SparseEncoder("none")

    assert len(plain.encode_query("the deploy deploys").indices) == 3


def test_an_unknown_language_is_an_error_that_names_the_known_ones() -> None:
    with pytest.raises(UnknownModel, match="klingon") as caught:
        SparseEncoder("klingon")

    assert "german" in caught.value.hint


def test_the_id_changes_with_what_decides_the_weights() -> None:
    assert (
        len({SparseEncoder().id, SparseEncoder("german").id, SparseEncoder(average_length=9).id})
        == 3
    )
