"""The one embedding model of an engine: loaded once, in the background, when first needed."""

from __future__ import annotations

import io
import logging
import threading
import time
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path

import numpy as np

from embeddings.embedder import Embedder, EmbeddingSpace
from embeddings.errors import EmbeddingError, ModelNotLoaded
from embeddings.probe import PROBE_TEXTS, prove
from tiers.atomic import replace

log = logging.getLogger(__name__)


class ModelState(StrEnum):
    """How far the model is."""

    COLD = "cold"
    LOADING = "loading"
    READY = "ready"
    FAILED = "failed"


class Model:
    """Gives the embedder once it has proved itself. Any thread may use it.

    A model that failed is tried again after `retry_s`; it is never replaced by another one.
    `probes` is the folder that keeps the probe vectors of each space: the first backend writes
    them, and every later one must reproduce them.
    """

    def __init__(
        self,
        open_embedder: Callable[[], Embedder],
        *,
        name: str,
        probes: Path,
        retry_s: float = 30.0,
        on_ready: Callable[[], None] = lambda: None,
    ) -> None:
        self.name = name
        self._open = open_embedder
        self._probes = probes
        self._retry_s = retry_s
        self._on_ready = on_ready
        self._changed = threading.Condition()  # guards the fields below
        self._state = ModelState.COLD
        self._opened: Embedder | None = None
        self._ready: Embedder | None = None
        self._error: EmbeddingError | None = None
        self._failed_at = 0.0

    @property
    def state(self) -> ModelState:
        return self._state

    @property
    def error(self) -> EmbeddingError | None:
        """Why the model could not be loaded."""
        return self._error

    def space(self) -> EmbeddingSpace:
        """Say which space this model makes; weights are not loaded for it where that is known.

        Raises EmbeddingError.
        """
        return self._embedder().space

    def warm(self) -> None:
        """Start loading unless that was done."""
        with self._changed:
            due = self._state is ModelState.FAILED and (
                time.monotonic() - self._failed_at >= self._retry_s
            )
            if self._state is not ModelState.COLD and not due:
                return
            self._state = ModelState.LOADING
        threading.Thread(target=self._load, name="model", daemon=True).start()

    def get(self, *, wait_s: float = 0.0) -> Embedder | None:
        """Give the embedder, waiting for a load that is under way; None when there is none yet."""
        self.warm()
        with self._changed:
            self._changed.wait_for(lambda: self._state is not ModelState.LOADING, wait_s)
            return self._ready

    def _embedder(self) -> Embedder:
        with self._changed:
            if self._opened is None:
                self._opened = self._open()
            return self._opened

    def _load(self) -> None:
        try:
            embedder = self._embedder()
            self._prove(embedder)
        except EmbeddingError as exc:
            log.warning("the model %s cannot be used: %s", self.name, exc.message)
            self._finish(ModelState.FAILED, None, exc)
            return
        self._finish(ModelState.READY, embedder, None)
        self._on_ready()

    def _finish(
        self, state: ModelState, embedder: Embedder | None, error: EmbeddingError | None
    ) -> None:
        with self._changed:
            self._ready, self._error, self._state = embedder, error, state
            self._failed_at = time.monotonic()
            if error is not None:
                self._opened = None
            self._changed.notify_all()

    def _prove(self, embedder: Embedder) -> None:
        """Load the weights and see that they make the vectors that this home's index is made of."""
        path = self._probes / f"{embedder.space.id}.npy"
        try:
            expected = np.load(path, allow_pickle=False) if path.is_file() else None
        except (OSError, ValueError, EOFError) as exc:
            raise ModelNotLoaded(
                f"cannot read the probe vectors in {path}: {exc}",
                hint="remove that file if the model is still the one that built the index",
            ) from exc
        if expected is not None:
            prove(embedder, expected)
            return
        content = io.BytesIO()
        np.save(content, embedder.embed_documents(PROBE_TEXTS))
        try:
            self._probes.mkdir(mode=0o700, parents=True, exist_ok=True)
            replace(path, content.getvalue())
        except OSError as exc:
            raise ModelNotLoaded(
                f"cannot keep the probe vectors in {path}: {exc.strerror or exc}",
                hint="free some disk space",
            ) from exc
