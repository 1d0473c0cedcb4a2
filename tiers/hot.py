"""The hot tier's folder: MEMORY.md and topic files, shared with people and their editors.

Standard library only, since hooks write here while the engine is away.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import re
import stat
import threading
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path, PurePosixPath

from tiers.atomic import (
    exchange,
    meant_for,
    place_new,
    sync_folder,
    temporary_path,
    write_temporary,
)
from tiers.errors import HotRootNotWritable, InvalidRecord, StoreFull, TierError
from tiers.snapshots import Late, Snapshots
from tiers.survey import Seen, Survey, seen_in, survey

__all__ = [
    "INDEX",
    "LARGEST_FILE_BYTES",
    "HotFile",
    "HotTier",
    "Seen",
    "Survey",
    "UnseenEdit",
    "file_hash",
    "topic_path",
]

#: The index that is always loaded.
INDEX = "MEMORY.md"

#: A hot file beyond this is not read as a memory (largest of 972 real ones: 153 kB, 2026-11-30).
LARGEST_FILE_BYTES = 1_000_000

_TRIES = 20

# Windows has devices by these names, whatever the suffix.
_RESERVED = re.compile(r"memory|con|nul|prn|aux|(com|lpt)\d")


class UnseenEdit(TierError):
    """A hot file holds something that was not seen yet, so it was not written over.

    `displaced` holds earlier human versions that the file no longer shows.
    """

    retryable = True
    default_hint = "the edit is taken in first; nothing was overwritten"

    def __init__(
        self, message: str, *, hint: str | None = None, displaced: tuple[bytes, ...] = ()
    ) -> None:
        super().__init__(message, hint=hint)
        self.displaced = displaced


@dataclass(frozen=True, slots=True)
class HotFile:
    """A hot file's bytes and metadata. `path` is relative to the hot root, with slashes."""

    path: str
    content: bytes
    seen: Seen

    @property
    def hash(self) -> str:
        return file_hash(self.content)


def file_hash(content: bytes) -> str:
    """Hash a file's bytes."""
    return hashlib.sha256(content).hexdigest()


class HotTier:
    """One project's hot root. `state` holds lock and snapshots and lies outside of `root`.

    Any thread and any process may use it; writers take one lock. Editors do not: a file that they
    change while it is written is put back as they left it, and UnseenEdit is raised.
    """

    def __init__(self, root: Path, state: Path) -> None:
        self.root = root
        self.snapshots = Snapshots(state / "snapshots")
        self._state = state
        self._depth = threading.local()

    def exists(self) -> bool:
        """Say whether the folder is there; one that cannot be looked at may be."""
        try:
            return self.root.is_dir()
        except OSError:
            return True

    def create(self) -> None:
        """Make the folder when it is not there."""
        with self._os_errors():
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._state.mkdir(mode=0o700, parents=True, exist_ok=True)

    def survey(self) -> Survey:
        """Look at the files that may be memories, without reading them.

        Raises HotRootNotWritable when a folder cannot be read: what lies in it is not lost.
        """
        with self._os_errors():
            return survey(self.root)

    def listing(self) -> dict[str, Seen]:
        """List the files that may be memories; see `survey`."""
        return self.survey().files

    def read(self, path: str) -> HotFile | None:
        """Read one file; None when it is not there or no file.

        Its metadata is older than its content, never newer. Raises HotRootNotWritable when it
        cannot be read.
        """
        full = self._inside(path)
        with self._os_errors():
            for _ in range(_TRIES):
                before, content, after = _read(full)
                if before is None or after is None or before == after:
                    break
            return HotFile(path, content, before) if before else None

    def write(self, path: str, content: bytes, *, expected: str | None, now: datetime) -> HotFile:
        """Write a file that holds what `expected` hashes, or that does not exist when it is None.

        Raises UnseenEdit, with the file as people left it, when it holds something else;
        HotRootNotWritable or StoreFull when it cannot be written. The old bytes are kept.
        """
        full = self._writable(path)
        with self._os_errors(), self.lock():
            full.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            current = self.read(path)
            if (current.hash if current else None) != expected:
                raise UnseenEdit(f"{path} was edited")
            temporary = write_temporary(full.parent, content, mode=_mode(full), name=full.name)
            # Not after it has its place: what is seen there could be an edit already.
            seen = seen_in(temporary.stat())
            try:
                if expected is None:
                    _place(temporary, full, path)
                else:
                    self._replace(temporary, full, path, expected, now)
            finally:
                temporary.unlink(missing_ok=True)
            sync_folder(full.parent)
            return HotFile(path, content, seen)

    def _replace(
        self, temporary: Path, full: Path, path: str, expected: str, now: datetime
    ) -> None:
        ours = file_hash(temporary.read_bytes())
        try:
            swapped = exchange(temporary, full)
        except FileNotFoundError as exc:
            raise UnseenEdit(f"{path} was removed") from exc
        if not swapped:
            self._replace_in_steps(temporary, full, path, expected, now)
            return
        try:
            theirs = file_hash(temporary.read_bytes())
        except OSError:
            # It is no file any more; a folder swaps as well.
            exchange(temporary, full)
            raise
        if theirs != expected:
            displaced = self._give_back(temporary, full, path, ours, now)
            raise UnseenEdit(f"{path} was edited", displaced=displaced)
        self.snapshots.keep(temporary, path, seen=expected, now=now)

    def _replace_in_steps(
        self, temporary: Path, full: Path, path: str, expected: str, now: datetime
    ) -> None:
        """Replace a file where files cannot be swapped: for a moment there is none."""
        aside = self._take_aside(full, path, expected, now)
        if aside is None:
            raise UnseenEdit(f"{path} was removed")
        self.snapshots.keep(aside, path, seen=expected, now=now)
        aside.unlink()
        _place(temporary, full, path)

    def _give_back(
        self, temporary: Path, full: Path, path: str, placed: str, now: datetime
    ) -> tuple[bytes, ...]:
        """Swap a person's file back in; returns their versions that are not at its place then.

        Whoever wrote meanwhile wrote something newer, which is given back in turn: done is done
        when the swap brings out what was put in last (`placed`).
        """
        displaced: list[bytes] = []
        for _ in range(_TRIES):
            theirs = temporary.read_bytes()
            try:
                exchange(temporary, full)
            except FileNotFoundError:
                # The latest thing they did was to remove it.
                break
            if file_hash(temporary.read_bytes()) == placed:
                self.snapshots.keep(temporary, path, seen=placed, now=now)
                return tuple(displaced)
            displaced.append(theirs)
            placed = file_hash(theirs)
        theirs = temporary.read_bytes()
        self.snapshots.keep(temporary, path, seen=file_hash(theirs), now=now)
        return (*displaced, theirs)

    def _take_aside(self, full: Path, path: str, expected: str, now: datetime) -> Path | None:
        """Rename a file out of the way; None when it is gone, UnseenEdit when it was edited."""
        aside = temporary_path(full.parent, full.name)
        try:
            full.rename(aside)
        except FileNotFoundError:
            return None
        try:
            theirs = aside.read_bytes()
        except OSError:
            aside.rename(full)
            raise
        if file_hash(theirs) == expected:
            return aside
        try:
            place_new(aside, full)
        except FileExistsError as exc:
            self.snapshots.keep(aside, path, seen=file_hash(theirs), now=now)
            aside.unlink()
            raise UnseenEdit(f"{path} was edited", displaced=(theirs,)) from exc
        raise UnseenEdit(f"{path} was edited")

    def remove(self, path: str, *, expected: str, now: datetime, keep: bool = True) -> None:
        """Remove a file that holds what `expected` hashes; one that is gone already is no error.

        Of a link only the link is removed. Raises UnseenEdit when it holds something else.
        """
        full = self._inside(path)
        with self._os_errors(), self.lock():
            aside = self._take_aside(full, path, expected, now)
            if aside is None:
                return
            if keep:
                self.snapshots.keep(aside, path, seen=expected, now=now)
            aside.unlink()
            sync_folder(full.parent)

    def forget_copies(self, path: str) -> None:
        """Remove what `snapshots` keeps of a file."""
        with self._os_errors(), self.lock():
            self.snapshots.forget(path)

    def late_edits(self, now: datetime, *, quiet_s: float = 0.0) -> tuple[list[Late], bool]:
        """Read what editors wrote into files that were replaced under them; as in `Snapshots`."""
        with self._os_errors(), self.lock():
            return self.snapshots.late(now, quiet_s=quiet_s)

    def leftovers(self) -> list[tuple[Path, HotFile]]:
        """List what killed writers left beside the files, with the path it was meant for.

        It may be an edit that was swapped out and not looked at yet. Callers hold the lock, or the
        writer may be alive.
        """
        found: list[tuple[Path, HotFile]] = []
        with self._os_errors():
            for folder, _, names in os.walk(self.root):
                for name in names:
                    meant = meant_for(name)
                    if meant is None:
                        continue
                    left = Path(folder) / name
                    path = (left.parent / (meant or name)).relative_to(self.root).as_posix()
                    seen, content, _ = _read(left)
                    if seen is not None:
                        found.append((left, HotFile(path, content, seen)))
        return found

    def discard(self, left: Path, file: HotFile, now: datetime) -> None:
        """Remove a leftover; a copy is kept."""
        with self._os_errors(), self.lock():
            self.snapshots.keep(left, file.path, seen=file.hash, now=now)
            left.unlink(missing_ok=True)

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Take the one lock that writers of this hot root share; may be nested in a thread."""
        depth = getattr(self._depth, "value", 0)
        if depth:
            yield
            return
        self._state.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (self._state / "hot.lock").open("a") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            self._depth.value = 1
            try:
                yield
            finally:
                self._depth.value = 0

    def _inside(self, path: str) -> Path:
        pure = PurePosixPath(path)
        if pure.is_absolute() or ".." in pure.parts or not pure.parts:
            raise InvalidRecord(f"{path!r} leaves the hot root", hint="use a plain file name")
        return self.root / pure

    def _writable(self, path: str) -> Path:
        full = self._inside(path)
        if not full.is_symlink():
            return full
        target = full.resolve()
        if not target.is_relative_to(self.root.resolve()):
            raise InvalidRecord(
                f"{path} is a link that leaves the hot root",
                hint="replace the link by a file if tiermem is to write it",
            )
        return target

    @contextlib.contextmanager
    def _os_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as exc:
            if exc.errno in (errno.ENOSPC, errno.EDQUOT):
                raise StoreFull(f"no space left for {self.root}") from exc
            raise HotRootNotWritable(f"{self.root} cannot be used: {exc.strerror or exc}") from exc


def topic_path(name: str, taken: frozenset[str] | set[str]) -> str:
    """Choose a file name for a memory: readable, safe on every system, and not taken."""
    ascii_name = unicodedata.normalize("NFKC", name).lower()
    slug = re.sub(r"[^\w]+", "-", ascii_name, flags=re.UNICODE).strip("-_")[:60].strip("-_")
    slug = slug or "memory"
    if _RESERVED.fullmatch(slug):
        slug = f"{slug}-note"
    lowered = {path.lower() for path in taken}
    path, number = f"{slug}.md", 2
    while path in lowered:
        path, number = f"{slug}-{number}.md", number + 1
    return path


def _place(temporary: Path, full: Path, path: str) -> None:
    try:
        place_new(temporary, full)
    except FileExistsError as exc:
        raise UnseenEdit(f"{path} appeared") from exc


def _read(full: Path) -> tuple[Seen | None, bytes, Seen | None]:
    """Read a file, and its metadata before and after; None when it is not there or no file."""
    try:
        # A pipe by that name would be waited for without the flag.
        descriptor = os.open(full, os.O_RDONLY | os.O_NONBLOCK)
    except (FileNotFoundError, NotADirectoryError):
        return None, b"", None
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            return None, b"", None
        with os.fdopen(descriptor, "rb", closefd=False) as handle:
            content = handle.read(LARGEST_FILE_BYTES + 1)
        return seen_in(found), content, seen_in(os.fstat(descriptor))
    finally:
        os.close(descriptor)


def _mode(full: Path) -> int:
    try:
        return stat.S_IMODE(full.stat().st_mode)
    except FileNotFoundError:
        return 0o600
