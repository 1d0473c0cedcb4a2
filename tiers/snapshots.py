"""Copies of hot files that were replaced, and a last look at who still writes into them.

Standard library only.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import weakref
from collections import deque
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from urllib.parse import quote

from tiers.atomic import NO_LINKS

#: An editor that still had a replaced file open may write into it for so long.
LATE_WRITE_S = 10.0

_KEPT = 20
_MOST_WATCHED = 128
_LONGEST_FOLDER_NAME = 200


@dataclass(frozen=True, slots=True)
class Late:
    """What somebody wrote into a file after it had been replaced. `path` is as in HotFile."""

    path: str
    content: bytes


@dataclass(slots=True)
class _Replaced:
    """A file that was replaced: its name, an open descriptor, and the hash of what was seen."""

    path: str
    descriptor: int
    hash: str
    at: datetime


class Snapshots:
    """The last copies of each replaced file. Callers hold the lock of the hot root."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._watched: deque[_Replaced] = deque()
        weakref.finalize(self, _close, self._watched)

    def keep(self, source: Path, path: str, *, seen: str, now: datetime) -> None:
        """Keep a file that was just replaced, and watch it; `seen` hashes what was read of it.

        Not the hash of what it holds by now: that may be an edit which nobody has seen yet.
        """
        self._watch(source, path, seen, now)
        folder = self._of(path)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        target = folder / now.strftime("%Y%m%dT%H%M%S.%f")
        if target.exists():
            target = folder / f"{target.name}-{secrets.token_hex(4)}"
        try:
            os.link(source, target)
        except OSError as exc:
            if exc.errno not in NO_LINKS:
                raise
            target.write_bytes(source.read_bytes())
        for old in self.of(path)[:-_KEPT]:
            old.unlink(missing_ok=True)

    def of(self, path: str) -> list[Path]:
        """List the copies of a file, oldest first."""
        folder = self._of(path)
        return sorted(folder.iterdir()) if folder.is_dir() else []

    def follow(self, old: str, new: str) -> None:
        """Keep the copies of a file that was renamed under its new name."""
        kept = self.of(old)
        if kept:
            self._of(new).mkdir(mode=0o700, parents=True, exist_ok=True)
        for snapshot in kept:
            snapshot.replace(self._of(new) / snapshot.name)

    def forget(self, path: str) -> int:
        """Remove every copy of a file."""
        kept = self.of(path)
        for snapshot in kept:
            snapshot.unlink(missing_ok=True)
        return len(kept)

    def late(self, now: datetime, *, quiet_s: float) -> tuple[list[Late], bool]:
        """Read what was written into replaced files meanwhile, once it is quiet for `quiet_s`.

        Also says whether somebody is still writing. A file is looked at once more after its time
        is over, however late that is.
        """
        late: list[Late] = []
        moving = False
        for replaced in list(self._watched):
            content = _read(replaced.descriptor)
            changed = hashlib.sha256(content).hexdigest()
            if changed != replaced.hash:
                if 0 <= now.timestamp() - os.fstat(replaced.descriptor).st_mtime < quiet_s:
                    moving = True
                    continue
                late.append(Late(replaced.path, content))
                replaced.hash = changed
            if (now - replaced.at).total_seconds() > LATE_WRITE_S:
                self._watched.remove(replaced)
                os.close(replaced.descriptor)
        return late, moving

    def _watch(self, source: Path, path: str, seen: str, now: datetime) -> None:
        # A descriptor, since the copy is another file where links are not possible.
        descriptor = os.open(source, os.O_RDONLY)
        self._watched.append(_Replaced(path, descriptor, seen, now))
        if len(self._watched) > _MOST_WATCHED:
            os.close(self._watched.popleft().descriptor)

    def _of(self, path: str) -> Path:
        name = quote(path, safe="")
        if len(name) > _LONGEST_FOLDER_NAME:
            name = f"{name[:150]}-{hashlib.sha256(path.encode()).hexdigest()[:16]}"
        return self._folder / name


def _read(descriptor: int) -> bytes:
    return os.pread(descriptor, os.fstat(descriptor).st_size, 0)


def _close(watched: deque[_Replaced]) -> None:
    while watched:
        os.close(watched.popleft().descriptor)
