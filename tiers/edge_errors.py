"""What the embedded engine's exceptions mean.

The engine raises plain `Exception`s and Rust panics, so they are told apart by their text
(qdrant-edge-py 0.9.0).
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from tiers.errors import (
    InvalidPoint,
    StoreBusy,
    StoreDamaged,
    StoreFull,
    StoreMismatch,
    StoreUnavailable,
    TierError,
)

REBUILD_HINT = "move that folder away and run: tiermem reindex; it is rebuilt from the archive"

#: First match wins.
_MEANINGS: tuple[tuple[str, type[TierError]], ...] = (
    ("WouldBlock", StoreBusy),
    ("is not initialized", StoreUnavailable),
    ("No space left", StoreFull),
    ("Disk quota exceeded", StoreFull),
    ("Permission denied", StoreUnavailable),
    ("Read-only file system", StoreUnavailable),
    ("Too many open files", StoreUnavailable),
    ("already exists with different parameters", StoreMismatch),
    ("Vector dimension error", InvalidPoint),
    ("Not existing vector name", InvalidPoint),
    ("Validation failed", InvalidPoint),
    ("invalid JSON path", InvalidPoint),
    ("Corrupted", StoreDamaged),
    ("failed to load segment", StoreDamaged),
    ("shorter than expected", StoreDamaged),
    ("checksum", StoreDamaged),
)

_FULL = (errno.ENOSPC, errno.EDQUOT)


@contextmanager
def engine_errors(doing: str, *, unknown: type[TierError] = StoreUnavailable) -> Iterator[None]:
    """Translate whatever the engine or the file system raises into a TierError."""
    try:
        yield
    except TierError:
        raise
    except OSError as error:
        kind = StoreFull if error.errno in _FULL else StoreUnavailable
        raise kind(f"cannot {doing}: {error}") from error
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidPoint(f"cannot {doing}: {error}") from error
    except BaseException as error:
        if not _is_from_engine(error):
            raise
        raise _translated(error, doing, unknown) from error


def _is_from_engine(error: BaseException) -> bool:
    # A Rust panic is a BaseException whose class cannot be imported.
    return type(error) is Exception or type(error).__name__ == "PanicException"


def _translated(error: BaseException, doing: str, unknown: type[TierError]) -> TierError:
    text = str(error)
    kind = next((kind for sign, kind in _MEANINGS if sign in text), unknown)
    hint = REBUILD_HINT if kind is StoreDamaged else None
    return kind(f"cannot {doing}: {text}", hint=hint)
