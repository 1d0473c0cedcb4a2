"""What a third party's package would offer as an entry point."""

from __future__ import annotations

from embeddings.embedder import Embedder
from embeddings.hashing import HashingEmbedder
from embeddings.registry import EmbedderOptions


def open_acme(argument: str, options: EmbedderOptions) -> Embedder:
    if argument == "broken":
        raise ValueError("cannot")
    return HashingEmbedder(dimension=options.threads)
