"""What turns text into vectors, and what makes two such things interchangeable."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

Vectors = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingSpace:
    """Everything that must be equal for two vectors to be comparable.

    `window` is the number of tokens the model reads, its special tokens included.
    """

    model: str
    revision: str
    dimension: int
    window: int
    pooling: str
    query_prefix: str = ""
    document_prefix: str = ""
    normalised: bool = True
    template: str = "plain"

    @property
    def id(self) -> str:
        """A short stable name, fit for a vector's name in a store."""
        facts = json.dumps(asdict(self), sort_keys=True)
        slug = "".join(c if c.isalnum() else "-" for c in self.model.lower()).strip("-")[:40]
        return f"{slug}_{self.dimension}_{hashlib.sha256(facts.encode()).hexdigest()[:8]}"


class Embedder(Protocol):
    """Text to vectors in one space. Methods may be called from any thread."""

    @property
    def space(self) -> EmbeddingSpace:
        """The space of every vector this embedder makes."""

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Embed texts: one row a text, in order; an empty sequence gives zero rows.

        A text's vector does not depend on the texts beside it. Text beyond the window is cut.
        Raises EmbeddingError.
        """

    def embed_query(self, text: str) -> Vectors:
        """Embed a question: one vector of `space.dimension` numbers. Raises EmbeddingError."""

    def count_tokens(self, text: str) -> int:
        """Count the tokens of a text without special tokens; this is what `window` limits."""
