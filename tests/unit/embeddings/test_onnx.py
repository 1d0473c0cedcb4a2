from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from embeddings.errors import ModelNotLoaded
from embeddings.model_folder import ModelFolder
from embeddings.models import ALL_MINILM_L6_V2, Backend
from embeddings.onnx import OnnxEmbedder, OnnxModel, model_in_folder, plan_batches
from tests.unit.embeddings.model_folders import a_minilm_folder, packaged_weights, write_json


def a_model(weights: Path | None = None) -> OnnxModel:
    return OnnxModel(
        weights=weights or packaged_weights(),
        vocabulary=ALL_MINILM_L6_V2.vocabulary,
        space=ALL_MINILM_L6_V2.space,
    )


@pytest.mark.parametrize("onnx", ["model.onnx", "onnx/model.onnx", "quantised.onnx"])
def test_a_model_folder_makes_the_vectors_of_the_package(tmp_path: Path, onnx: str) -> None:
    folder = ModelFolder(a_minilm_folder(tmp_path / "model", onnx=onnx))

    ours = OnnxEmbedder(model_in_folder(folder)).embed_query("Use uv, not pip.")

    expected = OnnxEmbedder(a_model()).embed_query("Use uv, not pip.")
    np.testing.assert_allclose(ours, expected, atol=1e-6)


def test_prefixes_are_put_before_questions_and_documents() -> None:
    space = replace(ALL_MINILM_L6_V2.space, query_prefix="ask: ", document_prefix="tell: ")
    plain = OnnxEmbedder(a_model())

    prefixed = OnnxEmbedder(replace(a_model(), space=space))

    question, document = plain.embed_documents(["ask: why", "tell: why"])
    np.testing.assert_allclose(prefixed.embed_query("why"), question, atol=1e-6)
    np.testing.assert_allclose(prefixed.embed_documents(["why"])[0], document, atol=1e-6)


def test_cls_pooling_takes_the_first_token() -> None:
    mean = OnnxEmbedder(a_model())
    cls = OnnxEmbedder(replace(a_model(), space=replace(mean.space, pooling="cls")))

    vectors = cls.embed_documents(["one two three", "four"])

    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1, abs=1e-5)
    assert not np.allclose(vectors, mean.embed_documents(["one two three", "four"]), atol=0.01)


def test_opening_a_model_does_not_import_the_runtime() -> None:
    program = (
        "import sys; from embeddings.registry import open_embedder;"
        "embedder = open_embedder(); embedder.space.id; embedder.count_tokens('a b');"
        "assert not {'onnxruntime', 'sentence_transformers', 'httpx'} & set(sys.modules)"
    )

    subprocess.run([sys.executable, "-c", program], check=True, cwd=Path(__file__).parents[3])


def test_the_packaged_weights_are_those_that_were_checked() -> None:
    package = ALL_MINILM_L6_V2.package(Backend.ONNX)

    OnnxEmbedder(replace(a_model(), size_bytes=package.size_bytes, sha256=package.sha256)).load()


def test_weights_of_another_size_are_refused_when_opened() -> None:
    with pytest.raises(ModelNotLoaded, match="has 22928619 bytes, not 5"):
        OnnxEmbedder(replace(a_model(), size_bytes=5))


def test_weights_of_another_hash_are_refused_when_loaded() -> None:
    with pytest.raises(ModelNotLoaded, match="not the file it should be"):
        OnnxEmbedder(replace(a_model(), sha256="0" * 64)).load()


def test_a_file_that_is_no_model_is_an_error_with_a_hint(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(b"no model")
    embedder = OnnxEmbedder(a_model(tmp_path / "model.onnx"))

    with pytest.raises(ModelNotLoaded, match="ONNX Runtime cannot load") as caught:
        embedder.embed_query("anything")

    assert "copy the file again" in caught.value.hint


def test_missing_weights_are_an_error_when_opened(tmp_path: Path) -> None:
    with pytest.raises(ModelNotLoaded, match="cannot read"):
        OnnxEmbedder(a_model(tmp_path / "model.onnx"))


def test_a_wrong_dimension_is_an_error() -> None:
    space = replace(ALL_MINILM_L6_V2.space, dimension=128)

    with pytest.raises(ModelNotLoaded, match="makes vectors of 384 numbers"):
        OnnxEmbedder(replace(a_model(), space=space)).embed_query("anything")


def test_a_pooling_that_onnx_models_cannot_do_is_refused() -> None:
    space = replace(ALL_MINILM_L6_V2.space, pooling="lasttoken")

    with pytest.raises(ModelNotLoaded, match="lasttoken") as caught:
        OnnxEmbedder(replace(a_model(), space=space))

    assert "sentence-transformers" in caught.value.hint


def test_a_folder_with_a_layer_after_pooling_is_refused(tmp_path: Path) -> None:
    folder = a_minilm_folder(tmp_path / "model")
    write_json(folder, "modules.json", [{"type": "sentence_transformers.models.Dense"}])

    with pytest.raises(ModelNotLoaded, match="layers after pooling: Dense"):
        model_in_folder(ModelFolder(folder))


def test_a_folder_without_a_tokenizer_is_refused(tmp_path: Path) -> None:
    folder = a_minilm_folder(tmp_path / "model")
    (folder / "tokenizer.json").unlink()

    with pytest.raises(ModelNotLoaded, match="no tokenizer"):
        OnnxEmbedder(model_in_folder(ModelFolder(folder)))


def test_batches_keep_both_limits_and_group_by_length() -> None:
    batches = plan_batches([5, 100, 5, 6, 90], texts_per_batch=2, tokens_per_batch=150)

    assert batches == [[0, 2], [3], [4], [1]]


@given(st.lists(st.integers(0, 300), max_size=80))
def test_every_text_is_in_one_batch_that_fits(lengths: list[int]) -> None:
    batches = plan_batches(lengths, texts_per_batch=8, tokens_per_batch=256)

    assert sorted(row for batch in batches for row in batch) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) <= 8
        assert len(batch) == 1 or len(batch) * max(lengths[row] for row in batch) <= 256
