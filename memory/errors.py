"""Errors of the product.

ServiceError
├── UsageError          what was asked cannot be meant; exit code 2
├── NotFound            nothing goes by that id or name
│   └── Forgotten       what went by that id was forgotten, and stays so
├── Ambiguous           more than one memory goes by that id or name
├── Refused             asked for something that would lose or leak; says what to do instead
├── ProjectRefused      an id file names a project that belongs elsewhere
├── HomeRefused         the data home cannot be used
├── EngineUnreachable   the engine does not answer and could not be started; retryable
└── EngineFailed        the engine answered with an error of its own
"""

from __future__ import annotations

from typing import ClassVar


class ServiceError(Exception):
    """A use case could not be carried out."""

    retryable: ClassVar[bool] = False
    default_hint: ClassVar[str] = "run: tiermem doctor"

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint or self.default_hint


class UsageError(ServiceError):
    """What was asked cannot be meant."""

    default_hint = "see: tiermem --help"


class NotFound(ServiceError):
    """Nothing goes by that id or name."""

    default_hint = "list what is there with: tiermem list"


class Forgotten(NotFound):
    """What went by that id was forgotten, and stays so."""

    default_hint = "to keep it after all, save it as a new memory: tiermem save"


class Ambiguous(ServiceError):
    """More than one memory goes by that id or name."""

    default_hint = "give more characters of the id"


class Refused(ServiceError):
    """What was asked would lose or leak something."""


class ProjectRefused(ServiceError):
    """An id file names a project that belongs elsewhere."""

    default_hint = "if this folder really is that project, run: tiermem init --adopt"


class HomeRefused(ServiceError):
    """The data home cannot be used."""

    default_hint = "set TIERMEM_HOME to a folder on a local disk that you own"


class EngineUnreachable(ServiceError):
    """The engine does not answer and could not be started."""

    retryable = True


class EngineFailed(ServiceError):
    """The engine answered with an error of its own."""

    def __init__(
        self, message: str, *, hint: str | None = None, code: str = "", retryable: bool = False
    ) -> None:
        super().__init__(message, hint=hint)
        self.code = code
        self.can_retry = retryable
