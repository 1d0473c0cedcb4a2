"""Errors of the tiers.

TierError
├── StoreUnavailable    a store cannot be reached or opened now; retryable
├── StoreBusy           another process owns the store; retryable
├── StoreFull           no space left; retryable once space is freed
├── StoreMismatch       the store holds another model, dimension or schema
├── StoreDamaged        the store cannot be read; it was left as it is
├── InvalidPoint        a point with a wrong id, vector or payload
├── InvalidRecord       a record that cannot be kept as asked
├── UnknownMemory       no memory with that id
├── HeaderNotParsed     a file's header cannot be parsed, so it is not rewritten
└── HotRootNotWritable  the folder of the hot tier cannot be written
"""

from __future__ import annotations

from typing import ClassVar


class TierError(Exception):
    """Something went wrong in a tier."""

    retryable: ClassVar[bool] = False
    default_hint: ClassVar[str] = "run: tiermem doctor"

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint or self.default_hint


class StoreUnavailable(TierError):
    """A store cannot be reached or opened now."""

    retryable = True


class StoreBusy(TierError):
    """Another process owns the store."""

    retryable = True
    default_hint = "another engine owns this home; see it with: tiermem status"


class StoreFull(TierError):
    """No space is left where the store lives."""

    retryable = True
    default_hint = "free some disk space; what was accepted is kept and applied afterwards"


class StoreMismatch(TierError):
    """The store holds another model, dimension or schema."""

    default_hint = "set the model that built this index, or rebuild it; nothing was changed"


class StoreDamaged(TierError):
    """The store cannot be read; it was left as it is."""


class InvalidPoint(TierError):
    """A point has a wrong id, vector or payload."""

    default_hint = "this is a bug in tiermem; please report it"


class InvalidRecord(TierError):
    """A record cannot be kept as asked."""

    default_hint = "see: tiermem save --help"


class UnknownMemory(TierError):
    """No memory has that id."""

    default_hint = "list what is there with: tiermem list"


class HeaderNotParsed(TierError):
    """A file's header cannot be parsed, so the file is not rewritten."""

    default_hint = "repair the lines between the --- marks of that file"


class HotRootNotWritable(TierError):
    """The folder of the hot tier cannot be written."""

    retryable = True
    default_hint = "make the folder writable; the memory is kept and the file is written then"
