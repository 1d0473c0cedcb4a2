"""The hot tier's folder: MEMORY.md and topic files, shared with people and their editors.

Standard library only, since hooks write here while the engine is away.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import fcntl
import hashlib
import os
import re
import secrets
import stat
import threading
import unicodedata
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path, PurePosixPath
from urllib.parse import quote

from tiers.atomic import (
    TEMPORARY_PREFIX,
    exchange,
    place_new,
    sync_folder,
    write_temporary,
)
from tiers.errors import HotRootNotWritable, InvalidRecord, StoreFull, TierError

#: The index that is always loaded.
INDEX = "MEMORY.md"

#: A hot file beyond this is not read as a memory (largest of 972 real ones: 153 kB, 2026-11-30).
LARGEST_FILE_BYTES = 1_000_000

_SNAPSHOTS_KEPT = 20


#: An editor that still had a replaced file open may write into it for so long.
_LATE_WRITE_S = 10.0


class UnseenEdit(TierError):
    """A hot file holds something that was not seen yet, so it was not written over.

    `displaced` holds earlier human versions that the file no longer shows.
    """

    retryable = True
    default_hint = "the edit is taken in first; nothing was overwritten"

    def __init__(self, message: str, *, displaced: tuple[bytes, ...] = ()) -> None:
        super().__init__(message)
        self.displaced = displaced


@dataclass(frozen=True, slots=True)
class Seen:
    """What a look at a file's metadata tells; equal values mean the content need not be read."""

    size: int
    mtime_ns: int
    inode: int


@dataclass(frozen=True, slots=True)
class HotFile:
    """A hot file's bytes and metadata. `path` is relative to the hot root, with slashes."""

    path: str
    content: bytes
    seen: Seen

    @property
    def hash(self) -> str:
        return file_hash(self.content)


@dataclass(frozen=True, slots=True)
class _Replaced:
    """A file that was swapped out: its name, where it is kept, and what it held then."""

    path: str
    snapshot: Path
    hash: str
    at: datetime


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
        self._state = state
        self._depth = threading.local()
        self._replaced: deque[_Replaced] = deque(maxlen=256)

    @property
    def snapshots(self) -> Path:
        """Where replaced files are kept."""
        return self._state / "snapshots"

    def exists(self) -> bool:
        return self.root.is_dir()

    def create(self) -> None:
        """Make the folder when it is not there."""
        with self._os_errors():
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._state.mkdir(mode=0o700, parents=True, exist_ok=True)

    def listing(self) -> dict[str, Seen]:
        """List markdown files below the root; hidden names and links that leave it are left out.

        Raises OSError when the root itself cannot be read.
        """
        found: dict[str, Seen] = {}
        top = self.root.resolve()
        if not self.root.is_dir():
            return found
        os.scandir(self.root).close()
        for folder, folders, files in os.walk(self.root):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            for name in files:
                path = Path(folder) / name
                if name.startswith(".") or path.suffix.lower() not in (".md", ".markdown"):
                    continue
                if seen := _look(path, top):
                    found[path.relative_to(self.root).as_posix()] = seen
        return found

    def read(self, path: str) -> HotFile | None:
        """Read one file; None when it is not there. Raises HotRootNotWritable when it cannot be."""
        full = self._inside(path)
        with self._os_errors():
            try:
                with full.open("rb") as handle:
                    content = handle.read(LARGEST_FILE_BYTES + 1)
                    return HotFile(path, content, _seen(os.fstat(handle.fileno())))
            except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
                return None

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
            mode = stat.S_IMODE(full.stat().st_mode) if current else 0o600
            temporary = write_temporary(full.parent, content, mode=mode)
            try:
                if current is None:
                    _place(temporary, full, path)
                else:
                    self._exchange(temporary, full, path, current.hash, now)
            finally:
                temporary.unlink(missing_ok=True)
            sync_folder(full.parent)
            return HotFile(path, content, _seen(full.stat()))

    def _exchange(
        self, temporary: Path, full: Path, path: str, expected: str, now: datetime
    ) -> None:
        ours = file_hash(temporary.read_bytes())
        if not exchange(temporary, full):
            # No atomic swap here: the old file stays reachable through a second name instead.
            self._keep(full, path, now)
            temporary.replace(full)
            return
        theirs = temporary.read_bytes()
        if file_hash(theirs) == expected:
            self._keep(temporary, path, now)
            return
        # Somebody wrote between the look and the swap: theirs goes back.
        exchange(temporary, full)
        if file_hash(temporary.read_bytes()) == ours:
            raise UnseenEdit(f"{path} was edited")
        # And wrote again before it was back: the newer version belongs there.
        exchange(temporary, full)
        raise UnseenEdit(f"{path} was edited", displaced=(theirs,))

    def remove(self, path: str, *, expected: str, now: datetime, keep: bool = True) -> None:
        """Remove a file that holds what `expected` hashes; one that is gone already is no error.

        Raises UnseenEdit when it holds something else.
        """
        full = self._writable(path)
        with self._os_errors(), self.lock():
            aside = full.parent / f"{TEMPORARY_PREFIX}{secrets.token_hex(8)}"
            try:
                full.rename(aside)
            except FileNotFoundError:
                return
            if file_hash(aside.read_bytes()) != expected:
                with contextlib.suppress(FileExistsError):
                    place_new(aside, full)
                raise UnseenEdit(f"{path} was edited")
            if keep:
                self._keep(aside, path, now)
            aside.unlink(missing_ok=True)
            sync_folder(full.parent)

    def forget_snapshots(self, path: str) -> int:
        """Remove every kept copy of a file."""
        kept = self._kept(path)
        for snapshot in kept:
            snapshot.unlink(missing_ok=True)
        return len(kept)

    def late_edits(self, now: datetime) -> list[HotFile]:
        """Read replaced files that somebody went on writing after they were replaced."""
        late: list[HotFile] = []
        while self._replaced and (now - self._replaced[0].at).total_seconds() > _LATE_WRITE_S:
            self._replaced.popleft()
        for index, replaced in enumerate(self._replaced):
            with contextlib.suppress(FileNotFoundError):
                content = replaced.snapshot.read_bytes()
                if file_hash(content) != replaced.hash:
                    late.append(HotFile(replaced.path, content, _seen(replaced.snapshot.stat())))
                    self._replaced[index] = dataclasses.replace(replaced, hash=file_hash(content))
        return late

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

    def _keep(self, source: Path, path: str, now: datetime) -> None:
        folder = self._snapshot_folder(path)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        target = folder / now.strftime("%Y%m%dT%H%M%S.%f")
        if target.exists():
            target = folder / f"{target.name}-{secrets.token_hex(4)}"
        try:
            os.link(source, target)
        except OSError as exc:
            if exc.errno not in (errno.EXDEV, errno.EPERM, errno.EMLINK):
                raise
            target.write_bytes(source.read_bytes())
        self._replaced.append(_Replaced(path, target, file_hash(target.read_bytes()), now))
        for old in self._kept(path)[:-_SNAPSHOTS_KEPT]:
            old.unlink(missing_ok=True)

    def _kept(self, path: str) -> list[Path]:
        folder = self._snapshot_folder(path)
        return sorted(folder.iterdir()) if folder.is_dir() else []

    def _snapshot_folder(self, path: str) -> Path:
        return self.snapshots / quote(path, safe="")

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
    if slug in ("memory", "con", "nul", "prn", "aux"):
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


def _look(path: Path, top: Path) -> Seen | None:
    try:
        if path.is_symlink() and not path.resolve(strict=True).is_relative_to(top):
            return None
        found = path.stat()
    except OSError:
        return None
    return _seen(found) if stat.S_ISREG(found.st_mode) else None


def _seen(found: os.stat_result) -> Seen:
    return Seen(found.st_size, found.st_mtime_ns, found.st_ino)
