"""Folders of markdown files, a coding agent's own memory folder among them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from memory.importers.items import MAX_BYTES, ImportFailure, ImportItem
from memory.importers.values import our_id
from tiers.memory_index import human_part, parse_index_line
from tiers.topic import Topic, read_topic

_SUFFIXES = frozenset({".md", ".markdown", ".mdc"})
_SKIPPED_FOLDERS = frozenset({"node_modules", "__pycache__", "site-packages"})
_INDEX = "MEMORY.md"
_INDEX_NAME = "Overview from MEMORY.md"


def is_markdown(path: Path) -> bool:
    """Say whether a file's name promises markdown."""
    return path.suffix.lower() in _SUFFIXES


def key_of(path: Path, root: Path) -> str:
    """Name a file by its place under `root`, told apart by the root's last two folders.

    The whole path would make other memories of a copy on another machine; the place alone would
    take the README of one tree for a newer one of another's.
    """
    return "/".join((*root.parts[-2:], *path.relative_to(root).parts)).lstrip("/")


def read_file(path: Path) -> ImportItem | ImportFailure:
    """Read one file that was named by itself."""
    real = path.resolve()
    return _read(path, key_of(real, real.parent), hot=False)


def read_folder(folder: Path) -> Iterator[ImportItem | ImportFailure]:
    """Read every markdown file of a tree; a folder with a MEMORY.md is one that was in view."""
    root = folder.resolve()
    hot = (root / _INDEX).is_file()
    for found in _walk(root):
        if isinstance(found, ImportFailure):
            yield found
        elif hot and found == root / _INDEX:
            yield from _read_index(found, root)
        else:
            yield _read(found, key_of(found, root), hot=hot)


def _walk(root: Path) -> Iterator[Path | ImportFailure]:
    waiting = [root]
    while waiting:
        folder = waiting.pop()
        try:
            with os.scandir(folder) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except OSError as error:
            yield ImportFailure(folder, None, error.strerror or str(error))
            continue
        folders = []
        for entry in entries:
            path = Path(entry.path)
            if entry.is_symlink():
                yield from _refuse_link(path, root)
            elif entry.is_dir():
                folders += [path] if _is_wanted(path) else []
            elif is_markdown(path) and not path.name.startswith("."):
                yield path
        waiting += reversed(folders)


def _is_wanted(folder: Path) -> bool:
    return not folder.name.startswith(".") and folder.name not in _SKIPPED_FOLDERS


def _refuse_link(link: Path, root: Path) -> Iterator[ImportFailure]:
    """Report a link that leaves the tree; one that stays meets its target anyway."""
    if not (is_markdown(link) or link.is_dir()):
        return
    try:
        inside = link.resolve().is_relative_to(root)
    except (OSError, RuntimeError):  # a loop is a RuntimeError before Python 3.13
        inside = True
    if not inside:
        yield ImportFailure(
            link, None, "is a link that leaves the folder; import its target itself"
        )


def _read_index(path: Path, root: Path) -> Iterator[ImportItem | ImportFailure]:
    """Read MEMORY.md without the lines that only point to files beside it."""
    read = _read(path, key_of(path, root), hot=True)
    if isinstance(read, ImportFailure):
        yield read
        return
    lines = human_part(read.text.encode()).splitlines(keepends=True)
    human = [line for line in lines if not _points(line, root)]
    # Headings alone are the frame of an index, not a memory.
    if any(line.strip() and not line.startswith("#") for line in human):
        # A name of its own: MEMORY is what the project's own index is called.
        yield replace(read, name=_INDEX_NAME, text="".join(human).strip())


def _points(line: str, root: Path) -> bool:
    found = parse_index_line(line)
    return found is not None and (root / found.path).is_file()


def _read(path: Path, key: str, *, hot: bool) -> ImportItem | ImportFailure:
    try:
        if not path.is_file():
            return ImportFailure(path, None, "is no ordinary file")
        with path.open("rb") as handle:
            raw = handle.read(MAX_BYTES + 1)
            written = datetime.fromtimestamp(os.fstat(handle.fileno()).st_mtime, UTC)
    except OSError as error:
        return ImportFailure(path, None, error.strerror or str(error))
    if len(raw) > MAX_BYTES:
        return ImportFailure(path, None, f"is larger than {MAX_BYTES // 1024**2} MB")
    topic = read_topic(raw)
    if not topic.body.strip():
        return ImportFailure(path, None, "has no text")
    return _item(path, key, topic, written, hot=hot)


def _item(path: Path, key: str, topic: Topic, written: datetime, *, hot: bool) -> ImportItem:
    return ImportItem(
        key=key,
        source_path=path,
        text=topic.body,
        name=topic.name or path.stem,
        description=topic.description,
        type=topic.type,
        category=topic.category,
        tags=topic.tags,
        keywords=topic.keywords,
        importance=topic.importance,
        pinned=topic.pinned,
        created_at=topic.created_at,
        expires_at=topic.expires_at or _end(topic, written),
        supersedes=topic.supersedes,
        id=our_id(topic.id),
        extra=topic.extra,
        hot_hint=hot or topic.pinned,
        problems=topic.problems,
    )


def _end(topic: Topic, written: datetime) -> datetime | None:
    # A lifetime without a date counts from the file's own: counted from the import, each import
    # would prolong it.
    if topic.ttl is None or topic.created_at is not None:
        return None
    try:
        return written + topic.ttl
    except OverflowError:
        return None
