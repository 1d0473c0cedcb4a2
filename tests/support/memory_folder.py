"""Folders for tests that write much: in memory where the system has room there."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_IN_MEMORY = Path("/dev/shm")


@contextmanager
def folder_in_memory() -> Iterator[Path]:
    """Lend a folder that is gone afterwards. A shard on a disk waits for hundreds of fsyncs."""
    has_room = os.access(_IN_MEMORY, os.W_OK) and shutil.disk_usage(_IN_MEMORY).free > 2**30
    with tempfile.TemporaryDirectory(
        prefix="tiermem-test-", dir=_IN_MEMORY if has_room else None
    ) as folder:
        yield Path(folder)
