"""Which files of a hot root may be memories: a look at names and metadata, nothing is read.

Standard library only.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

_SUFFIXES = (".md", ".markdown")


@dataclass(frozen=True, slots=True)
class Seen:
    """What a look at a file's metadata tells; equal values mean the content need not be read."""

    size: int
    mtime_ns: int
    inode: int


@dataclass(frozen=True, slots=True)
class Survey:
    """Markdown files below a hot root, and why others are left out; hidden ones are not named."""

    files: dict[str, Seen] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)


def survey(root: Path) -> Survey:
    """Look at every markdown file below a folder that is not hidden.

    Links that leave the folder and names that are no text are left out with a reason; a link to a
    file that is listed anyway is only another name of it. Raises OSError when the folder or one in
    it cannot be read.
    """
    found = Survey()
    links: dict[str, tuple[Path, Seen]] = {}
    top = root.resolve()
    for path in _walk(root):
        name = path.relative_to(root).as_posix()
        if reason := _unfit(path, name, top):
            found.left_out[_printable(name)] = reason
        elif (seen := _look(path)) and path.is_symlink():
            links[name] = (path.resolve(), seen)
        elif seen:
            found.files[name] = seen
    listed = {top / name for name in found.files}
    found.files.update({name: seen for name, (at, seen) in links.items() if at not in listed})
    return found


def seen_in(found: os.stat_result) -> Seen:
    """Take from a file's metadata what tells whether its content changed."""
    return Seen(found.st_size, found.st_mtime_ns, found.st_ino)


def _walk(root: Path) -> Iterator[Path]:
    if not root.is_dir():
        return
    for folder, folders, files in os.walk(root, onerror=_raise):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            if not name.startswith(".") and Path(name).suffix.lower() in _SUFFIXES:
                yield Path(folder) / name


def _look(path: Path) -> Seen | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return seen_in(found) if stat.S_ISREG(found.st_mode) else None


def _unfit(path: Path, name: str, top: Path) -> str | None:
    """Say why a file is left out."""
    if _printable(name) != name:
        return "its name is not UTF-8"
    if path.is_symlink():
        try:
            inside = path.resolve(strict=True).is_relative_to(top)
        except (OSError, RuntimeError):
            return "it is a link to nothing"
        return None if inside else "it is a link that leaves the hot root"
    return None


def _printable(name: str) -> str:
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _raise(error: OSError) -> None:
    # A folder that is gone by now is no error; its files are simply not there.
    if not isinstance(error, FileNotFoundError):
        raise error
