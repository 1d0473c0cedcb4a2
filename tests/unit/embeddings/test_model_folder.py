from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from embeddings.errors import ModelNotLoaded
from embeddings.model_folder import ModelFolder
from embeddings.models import ALL_MINILM_L6_V2
from tests.unit.embeddings.model_folders import a_minilm_folder, write_json


def a_folder(path: Path) -> ModelFolder:
    (path / "model.safetensors").write_bytes(b"weights")
    write_json(path, "config.json", {"hidden_size": 8, "max_position_embeddings": 64})
    return ModelFolder(path)


def test_a_copy_of_a_known_model_makes_the_known_space(tmp_path: Path) -> None:
    folder = ModelFolder(a_minilm_folder(tmp_path / "my-copy"))

    assert folder.space() == ALL_MINILM_L6_V2.space


def test_another_model_is_named_by_its_folder_and_its_weights(tmp_path: Path) -> None:
    folder = a_folder(tmp_path)
    before = folder.space()
    (tmp_path / "model.safetensors").write_bytes(b"other weights")

    assert before.model == tmp_path.name
    assert (before.dimension, before.window, before.pooling) == (8, 64, "mean")
    assert folder.space().revision != before.revision


@pytest.mark.parametrize(
    ("config", "pooling"),
    [
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, "cls"),
        ({"pooling_mode": "lasttoken"}, "lasttoken"),
        ({"pooling_mode": ["mean", "max"]}, "mean+max"),
        ({"pooling_mode_max_tokens": True}, "max"),
    ],
)
def test_pooling_is_read_in_both_spellings(
    tmp_path: Path, config: dict[str, Any], pooling: str
) -> None:
    folder = a_folder(tmp_path)
    write_json(tmp_path, "1_Pooling/config.json", config)

    assert folder.space().pooling == pooling


def test_prompts_of_the_model_become_prefixes(tmp_path: Path) -> None:
    folder = a_folder(tmp_path)
    prompts = {"query": "query: ", "document": "passage: "}
    write_json(tmp_path, "config_sentence_transformers.json", {"prompts": prompts})

    space = folder.space()

    assert (space.query_prefix, space.document_prefix) == ("query: ", "passage: ")


def test_the_window_is_what_the_model_was_set_to_else_its_smallest_limit(tmp_path: Path) -> None:
    folder = a_folder(tmp_path)
    write_json(tmp_path, "tokenizer_config.json", {"model_max_length": 32})
    unset = folder.space().window
    write_json(tmp_path, "sentence_bert_config.json", {"max_seq_length": 48})

    assert (unset, folder.space().window) == (32, 48)


def test_layers_after_pooling_are_named(tmp_path: Path) -> None:
    kinds = ["models.Transformer", "models.Pooling", "models.Dense", "models.Normalize"]
    write_json(tmp_path, "modules.json", [{"type": f"library.{kind}"} for kind in kinds])

    assert ModelFolder(tmp_path).extra_modules() == ["Dense"]


def test_a_folder_without_weights_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ModelNotLoaded, match="no weights in"):
        ModelFolder(tmp_path).space()


def test_a_folder_that_does_not_say_the_dimension_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(b"weights")

    with pytest.raises(ModelNotLoaded, match="how long its vectors are"):
        ModelFolder(tmp_path).space()


@pytest.mark.parametrize("content", [b"{", b"[]", b"\xff\xfe"])
def test_a_broken_configuration_is_an_error_with_its_path(tmp_path: Path, content: bytes) -> None:
    folder = a_folder(tmp_path)
    (tmp_path / "config.json").write_bytes(content)

    with pytest.raises(ModelNotLoaded, match=r"config\.json"):
        folder.space()
