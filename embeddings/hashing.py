"""Vectors without a model: for tests and demonstrations, never a fallback."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

import numpy as np

from embeddings.embedder import EmbeddingSpace, Vectors

_WORD = re.compile(r"\w+")


class HashingEmbedder:
    """Counts words into hashed places: equal words are near, equal meanings are not.

    Deterministic across machines. Threads may share it.
    """

    def __init__(self, dimension: int = 256, window: int = 256) -> None:
        self._space = EmbeddingSpace(
            model="hashing", revision="1", dimension=dimension, window=window, pooling="sum"
        )

    @property
    def space(self) -> EmbeddingSpace:
        return self._space

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        vectors = np.zeros((len(texts), self._space.dimension), np.float32)
        for row, text in enumerate(texts):
            vectors[row] = self._embed(text)
        return vectors

    def embed_query(self, text: str) -> Vectors:
        return self._embed(text)

    def count_tokens(self, text: str) -> int:
        return len(_words(text))

    def _embed(self, text: str) -> Vectors:
        vector = np.zeros(self._space.dimension, np.float32)
        for word in _words(text)[: self._space.window] or [""]:
            place, sign = self._place(word)
            vector[place] += sign
        length = np.linalg.norm(vector)
        if length == 0:  # every word met its opposite
            vector[0] = length = np.float32(1)
        unit: Vectors = (vector / length).astype(np.float32)
        return unit

    def _place(self, word: str) -> tuple[int, int]:
        digest = hashlib.blake2b(word.encode("utf-8", "replace"), digest_size=8).digest()
        number = int.from_bytes(digest, "big")
        return (number >> 1) % self._space.dimension, 1 if number & 1 else -1


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())
