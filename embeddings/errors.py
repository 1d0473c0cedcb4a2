"""Errors of the embeddings.

EmbeddingError
├── UnknownModel      no backend knows a model of that name
├── BackendMissing    the packages of a backend are not installed
├── ModelNotLoaded    the model is there but cannot be used
├── SpaceMismatch     a backend does not reproduce the probe vectors of the space it claims
└── EndpointFailed    a remote endpoint did not answer as it should; retryable
"""

from __future__ import annotations

from typing import ClassVar


class EmbeddingError(Exception):
    """A text could not be turned into a vector."""

    retryable: ClassVar[bool] = False
    default_hint: ClassVar[str] = "see which model is set with: tiermem config show"

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint or self.default_hint


class UnknownModel(EmbeddingError):
    """No backend knows a model of that name."""


class BackendMissing(EmbeddingError):
    """The packages of a backend are not installed."""


class ModelNotLoaded(EmbeddingError):
    """The model is there but cannot be used."""


class SpaceMismatch(EmbeddingError):
    """A backend does not reproduce the probe vectors of the space it claims."""

    default_hint = "set the model that built this index, or rebuild it; nothing was changed"


class EndpointFailed(EmbeddingError):
    """A remote endpoint did not answer as it should."""

    retryable = True
