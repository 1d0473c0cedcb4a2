"""The owner's lock of an embedded deep store: one open store per folder, in all processes.

It is taken before anything of the engine touches the folder. The engine's own lock must never be
the one that refuses: a refused load damages the shard of the process that has it open
(qdrant-edge-py 0.9.0, measured 2026-11-30).
"""

from __future__ import annotations

import fcntl
import json
import os
import threading
from dataclasses import dataclass
from pathlib import Path

from tiers.errors import StoreBusy, StoreUnavailable

LOCK_FILE = "owner.lock"

_guard = threading.Lock()
_owned: set[Path] = set()  # protected by _guard


@dataclass(frozen=True, slots=True)
class OwnerLock:
    """A lock that is held; it goes with the process, however that ends."""

    folder: Path
    descriptor: int

    def release(self) -> None:
        """Give the folder free. Call it once, from the process that took the lock."""
        with _guard:
            os.close(self.descriptor)
            _owned.discard(self.folder)


def take_owner_lock(folder: Path) -> OwnerLock:
    """Become the owner of `folder`. Raises StoreBusy, at once, when it has one."""
    folder = folder.resolve()
    with _guard:
        if folder in _owned:
            raise StoreBusy(
                f"this process has the store in {folder} open already",
                hint="use the one that is open; a folder is opened once",
            )
        descriptor = _lock(folder)
        _owned.add(folder)
    return OwnerLock(folder, descriptor)


def _lock(folder: Path) -> int:
    try:
        descriptor = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise StoreUnavailable(
            f"cannot make {folder / LOCK_FILE}: {error.strerror}",
            hint="make the folder writable for this user",
        ) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps({"pid": os.getpid()}).encode(), 0)
    except BlockingIOError as error:
        owner = _owner(descriptor)
        os.close(descriptor)
        raise StoreBusy(f"{owner} has the store in {folder} open") from error
    except OSError as error:
        os.close(descriptor)
        raise StoreUnavailable(
            f"cannot lock {folder / LOCK_FILE}: {error.strerror}",
            hint="put the home on a local disk with some space left",
        ) from error
    return descriptor


def _owner(descriptor: int) -> str:
    try:
        return f"process {int(json.loads(os.pread(descriptor, 200, 0))['pid'])}"
    except (ValueError, KeyError, TypeError):
        return "another process"
