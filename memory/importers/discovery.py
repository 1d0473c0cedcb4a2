"""From paths to memories: what each path is decides how it is read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from memory.importers.items import ImportFailure, ImportItem, ImportOptions
from memory.importers.jsonl import is_jsonl, read_jsonl
from memory.importers.markdown import is_markdown, read_file, read_folder


def discover(
    paths: Sequence[Path], options: ImportOptions | None = None
) -> Iterator[ImportItem | ImportFailure]:
    """Yield the memories of files and folders, and what could not be read, in a stable order.

    Reads as it yields: nothing is held but the file at hand.
    """
    for path in paths:
        try:
            yield from _read(path, options or ImportOptions())
        except OSError as error:
            yield ImportFailure(path, None, error.strerror or str(error))


def _read(path: Path, options: ImportOptions) -> Iterator[ImportItem | ImportFailure]:
    if path.is_dir():
        yield from read_folder(path)
    elif not path.exists():
        yield ImportFailure(path, None, "there is no such file or folder")
    elif not path.is_file():
        yield ImportFailure(path, None, "is neither a file nor a folder")
    elif is_jsonl(path):
        yield from read_jsonl(path, options)
    elif is_markdown(path):
        yield read_file(path)
    else:
        yield ImportFailure(path, None, "is neither markdown (.md) nor JSONL (.jsonl, .jsonl.gz)")
