from __future__ import annotations

import numpy as np
import pytest

from embeddings.hashing import HashingEmbedder


def test_shared_words_make_texts_near() -> None:
    embedder = HashingEmbedder()
    question = embedder.embed_query("release on tuesday")

    near, far = embedder.embed_documents(["We release on Tuesday.", "Cats sleep all day."])

    assert question @ near == pytest.approx((3 / 4) ** 0.5, abs=1e-5)
    assert abs(question @ far) < 0.3


def test_vectors_are_the_same_on_every_machine() -> None:
    vector = HashingEmbedder(16).embed_query("alpha beta gamma")

    assert {int(place): float(np.sign(vector[place])) for place in np.flatnonzero(vector)} == {
        7: -1.0,
        10: 1.0,
        13: -1.0,
    }


def test_words_that_cancel_each_other_still_give_a_vector_of_length_one() -> None:
    embedder = HashingEmbedder(1)

    vectors = embedder.embed_documents([f"a{n} b{n}" for n in range(20)])

    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1)
