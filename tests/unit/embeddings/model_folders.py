"""Model folders for tests, made from the packaged weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer
from tokenizers.processors import TemplateProcessing

from embeddings.models import ALL_MINILM_L6_V2, Backend


def packaged_weights() -> Path:
    weights = ALL_MINILM_L6_V2.package(Backend.ONNX).installed_at()
    assert weights is not None
    return weights


def write_json(folder: Path, name: str, value: Any) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")


def a_minilm_folder(folder: Path, *, onnx: str = "model.onnx") -> Path:
    """Lay out all-MiniLM-L6-v2 as a model folder with an .onnx file."""
    (folder / onnx).parent.mkdir(parents=True, exist_ok=True)
    (folder / onnx).symlink_to(packaged_weights())
    _bert_tokenizer().save(str(folder / "tokenizer.json"))
    write_json(folder, "config.json", {"hidden_size": 384, "max_position_embeddings": 512})
    write_json(folder, "sentence_bert_config.json", {"max_seq_length": 256})
    write_json(folder, "1_Pooling/config.json", {"pooling_mode_mean_tokens": True})
    return folder


def _bert_tokenizer() -> Tokenizer:
    vocabulary = WordPiece.read_file(str(ALL_MINILM_L6_V2.vocabulary))
    tokenizer = Tokenizer(WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = BertPreTokenizer()
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 101), ("[SEP]", 102)]
    )
    return tokenizer
