"""From text to the token ids a model reads."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer
from tokenizers.processors import TemplateProcessing

from embeddings.errors import ModelNotLoaded
from embeddings.text import encodable

_UNKNOWN = "[UNK]"


class TextTokenizer:
    """A tokenizer that cuts at the model's window and never pads. Threads may share it."""

    def __init__(self, tokenizer: Tokenizer, window: int) -> None:
        padding = tokenizer.padding or {}
        self.pad_id: int = padding.get("pad_id", 0)
        tokenizer.no_padding()
        # Set once: changing truncation while another thread encodes is an error in the library.
        tokenizer.enable_truncation(window)
        self._tokenizer = tokenizer

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Turn texts into ids, special tokens included, none longer than the window."""
        encodings = self._tokenizer.encode_batch([encodable(text) for text in texts])
        return [encoding.ids for encoding in encodings]

    def count(self, text: str) -> int:
        """Count the tokens of a text without special tokens, those beyond the window included."""
        encoding = self._tokenizer.encode(encodable(text), add_special_tokens=False)
        return len(encoding.ids) + sum(len(rest.ids) for rest in encoding.overflowing)


def load_tokenizer(path: Path, window: int) -> TextTokenizer:
    """Load a `tokenizer.json`, or the `vocab.txt` of an uncased BERT model.

    Raises ModelNotLoaded when the file is missing or is not a tokenizer.
    """
    try:
        tokenizer = _from_vocabulary(path) if path.suffix == ".txt" else _from_json(path)
    except OSError as error:
        raise ModelNotLoaded(
            f"cannot read the tokenizer {path}: {error}",
            hint="put the model's tokenizer.json beside its .onnx file",
        ) from error
    return TextTokenizer(tokenizer, window)


def _from_json(path: Path) -> Tokenizer:
    text = path.read_text(encoding="utf-8")
    try:
        json.loads(text)
        return Tokenizer.from_str(text)
    except Exception as error:  # the library raises nothing narrower for a bad file
        raise ModelNotLoaded(
            f"{path} is not a tokenizer: {error}",
            hint="copy tokenizer.json from the model again",
        ) from error


def _from_vocabulary(path: Path) -> Tokenizer:
    words = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    ids = {word: number for number, word in enumerate(words)}
    tokenizer = Tokenizer(WordPiece(ids, unk_token=_UNKNOWN, max_input_chars_per_word=100))
    tokenizer.add_special_tokens(["[PAD]", _UNKNOWN, "[CLS]", "[SEP]", "[MASK]"])
    tokenizer.normalizer = BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = BertPreTokenizer()
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", ids["[CLS]"]), ("[SEP]", ids["[SEP]"])],
    )
    return tokenizer
