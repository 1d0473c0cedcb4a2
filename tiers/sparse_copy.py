"""Copy folders of files that are mostly holes."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

_PAGE = 4096


def copy_tree(source: Path, destination: Path) -> None:
    """Copy a folder to one that does not exist; the copy is safe from a power loss."""
    shutil.copytree(source, destination, copy_function=copy_sparse)
    # Not file by file: 237 of them took 1.8 s so, 0.04 s in one go (2026-11-30).
    _sync_file_system(destination)


def copy_sparse(source: str | Path, destination: str | Path) -> str:
    """Copy a file and leave its holes out: a shard of 1 MB has files of 99 MB."""
    with Path(source).open("rb") as reader, Path(destination).open("xb") as writer:
        size = os.fstat(reader.fileno()).st_size
        writer.truncate(size)
        for start, end in _data_ranges(reader.fileno(), size):
            _copy_range(reader.fileno(), writer, start, end)
    shutil.copymode(source, destination)
    return str(destination)


def size_on_disk(folder: Path) -> int:
    """Count the bytes that a folder's files really take."""
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*"))


def _sync_file_system(folder: Path) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "syncfs"):
        os.sync()
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        if libc.syncfs(descriptor) != 0:
            raise OSError(ctypes.get_errno(), "cannot write to disk", str(folder))
    finally:
        os.close(descriptor)


def _copy_range(reader: int, writer: BinaryIO, start: int, end: int) -> None:
    while start < end and (page := os.pread(reader, min(end - start, _PAGE), start)):
        # A file system in memory has no holes where zeros were touched. They cost disk, and the
        # engine reads a cold shard page by page: 20 s for 34 MB of zeros (2026-11-30).
        if page.count(0) != len(page):
            writer.seek(start)
            writer.write(page)
        start += len(page)


def _data_ranges(descriptor: int, size: int) -> Iterator[tuple[int, int]]:
    end = 0
    while end < size:
        try:
            start = os.lseek(descriptor, end, os.SEEK_DATA)
            end = os.lseek(descriptor, start, os.SEEK_HOLE)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return  # Only a hole is left.
            start, end = end, size  # A file system that knows no holes.
        yield start, end
