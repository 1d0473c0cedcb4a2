"""The reference backend: any model that sentence-transformers loads."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from threading import RLock
from typing import Any

import numpy as np

from embeddings.embedder import EmbeddingSpace, Vectors
from embeddings.errors import BackendMissing, EmbeddingError, ModelNotLoaded
from embeddings.text import encodable

INSTALL_HINT = (
    "pip install 'tiermem[sentence-transformers]' "
    "(or: uv tool install 'tiermem[sentence-transformers]')"
)

_TEXTS_PER_BATCH = 16
_DEFAULT_WINDOW = 512


def is_installed() -> bool:
    """Say whether the library is there, without importing it: that costs seconds."""
    return find_spec("sentence_transformers") is not None


class SentenceTransformersEmbedder:
    """An embedder on sentence-transformers. Threads may share it; they take turns.

    `model` is a folder, which is loaded without a look at the network, or a name on the hub, which
    is looked for in the local cache first. When `space` is given the library is imported at the
    first use; else the space is read off the loaded model, so asking for it loads it, and prefixes
    that are given replace the model's own.
    """

    def __init__(
        self,
        model: Path | str,
        *,
        space: EmbeddingSpace | None = None,
        query_prefix: str | None = None,
        document_prefix: str | None = None,
        threads: int = 2,
        device: str | None = None,
    ) -> None:
        if not is_installed():
            raise BackendMissing("sentence-transformers is not installed", hint=INSTALL_HINT)
        self._name = model
        self._space = space
        self._prefixes = {"query": query_prefix, "document": document_prefix}
        self._threads = threads
        self._device = device
        # Guards _model and _space, and every use of the tokenizer: its settings change as it runs.
        self._lock = RLock()
        self._model: Any = None

    @property
    def space(self) -> EmbeddingSpace:
        with self._lock:
            if self._space is None:
                self._space = _space_of(self._loaded(), str(self._name), self._prefixes)
            return self._space

    def load(self) -> None:
        """Load the model now. Raises ModelNotLoaded or BackendMissing."""
        with self._lock:
            self._loaded()

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        return self._embed([self.space.document_prefix + text for text in texts])

    def embed_query(self, text: str) -> Vectors:
        vector: Vectors = self._embed([self.space.query_prefix + text])[0]
        return vector

    def count_tokens(self, text: str) -> int:
        with self._lock:
            tokenizer = self._loaded().tokenizer
            return len(tokenizer.encode(encodable(text), add_special_tokens=False, verbose=False))

    def _embed(self, texts: Sequence[str]) -> Vectors:
        if not texts:
            return np.empty((0, self.space.dimension), np.float32)
        with self._lock:
            model = self._loaded()
            try:
                vectors = model.encode(
                    [encodable(text) for text in texts],
                    prompt="",  # the prefixes of our space are in the texts already
                    batch_size=_TEXTS_PER_BATCH,
                    show_progress_bar=False,
                    normalize_embeddings=True,
                )
            except RuntimeError as error:
                raise EmbeddingError(f"the model {self._name} failed: {error}") from error
        return np.asarray(vectors, np.float32)

    def _loaded(self) -> Any:
        if self._model is None:
            model = _load(self._name, self._device, self._threads)
            if self._space is not None:
                _check(model, self._space)
            self._model = model
        return self._model


def _load(name: Path | str, device: str | None, threads: int) -> Any:
    # Here, because this import takes seconds and some 400 MB.
    try:
        import torch
        from sentence_transformers import SentenceTransformer
    except ImportError as error:
        raise BackendMissing(
            f"sentence-transformers cannot be imported: {error}", hint=INSTALL_HINT
        ) from error

    torch.set_num_threads(threads)

    def load(*, local_files_only: bool) -> Any:
        return SentenceTransformer(str(name), device=device, local_files_only=local_files_only)

    try:
        if isinstance(name, Path):
            return load(local_files_only=True)
        try:
            return load(local_files_only=True)
        except OSError:
            return load(local_files_only=False)
    except (OSError, ValueError, RuntimeError, KeyError) as error:
        raise ModelNotLoaded(
            f"sentence-transformers cannot load {name}: {error}",
            hint="check the name or folder; without a network only folders and models "
            "that were downloaded before can be loaded",
        ) from error


def _check(model: Any, space: EmbeddingSpace) -> None:
    found = _dimension(model)
    if found != space.dimension:
        raise ModelNotLoaded(
            f"{space.model} makes vectors of {found} numbers, not {space.dimension}",
            hint="copy the whole model folder again",
        )
    model.max_seq_length = space.window


def _space_of(model: Any, name: str, prefixes: Mapping[str, str | None]) -> EmbeddingSpace:
    chosen = {kind: prefix for kind, prefix in prefixes.items() if prefix is not None}
    prompts = {**(model.prompts or {}), **chosen}
    return EmbeddingSpace(
        model=name,
        revision=_fingerprint(model),
        dimension=_dimension(model),
        window=model.max_seq_length or _DEFAULT_WINDOW,
        pooling=_pooling(model),
        query_prefix=prompts.get("query") or "",
        document_prefix=prompts.get("document") or "",
    )


def _dimension(model: Any) -> int:
    return len(model.encode("dimension", prompt="", show_progress_bar=False))


def _fingerprint(model: Any) -> str:
    """Hash the weights themselves: a hub's revision is not known when the model is cached."""
    import torch

    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode())
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        digest.update(flat.view(torch.uint8).numpy().data)
    return digest.hexdigest()[:12]


def _pooling(model: Any) -> str:
    modes = [module.pooling_mode for module in model if hasattr(module, "pooling_mode")]
    if not modes:
        return "model"
    return modes[0] if isinstance(modes[0], str) else "+".join(modes[0])
