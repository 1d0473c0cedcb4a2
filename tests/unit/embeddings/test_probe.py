from __future__ import annotations

import numpy as np
import pytest

from embeddings.errors import SpaceMismatch
from embeddings.hashing import HashingEmbedder
from embeddings.probe import PROBE_TEXTS, agree, probe, prove


def test_there_are_32_different_probe_texts() -> None:
    assert len(set(PROBE_TEXTS)) == len(PROBE_TEXTS) == 32


def test_agreement_is_the_lowest_cosine_whatever_the_lengths() -> None:
    ours = np.array([[1, 0], [0, 2]], np.float32)
    theirs = np.array([[5, 0], [3, 4]], np.float32)

    assert agree(ours, theirs) == pytest.approx(0.8)


@pytest.mark.parametrize(
    "theirs", [np.ones((2, 3)), np.ones((1, 2)), np.zeros((2, 2)), np.full((2, 2), np.nan)]
)
def test_vectors_that_cannot_be_compared_do_not_agree(theirs: np.ndarray) -> None:
    assert agree(np.ones((2, 2), np.float32), theirs.astype(np.float32)) == -1


def test_an_embedder_proves_itself_on_its_own_vectors() -> None:
    prove(HashingEmbedder(), probe(HashingEmbedder()))


def test_one_text_that_differs_is_a_mismatch() -> None:
    expected = probe(HashingEmbedder())
    expected[7] = expected[8]

    with pytest.raises(SpaceMismatch, match=r"0\.999 is needed") as caught:
        prove(HashingEmbedder(), expected)

    assert "nothing was changed" in caught.value.hint


def test_another_dimension_is_a_mismatch() -> None:
    with pytest.raises(SpaceMismatch):
        prove(HashingEmbedder(128), probe(HashingEmbedder(256)))
