"""One client's settings file on disk: read with care, replaced as a whole or not at all."""

from __future__ import annotations

import contextlib
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from memory.errors import Refused
from tiers.atomic import replace

_LARGEST_BYTES = 4 * 2**20


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """A file as it was read. `target` is where it really lies; `text` is None when it is absent."""

    path: Path
    target: Path
    base: Path
    text: str | None = None
    mode: int = 0o644

    @property
    def is_link(self) -> bool:
        return self.target != self.path

    def write(self, text: str) -> None:
        """Replace the file, with its mode, where it really lies. Raises Refused, OSError."""
        self._check_unchanged()
        self.target.parent.mkdir(parents=True, exist_ok=True)
        replace(self.target, text.encode(), mode=self.mode)

    def delete(self) -> None:
        """Delete the file, and folders below its base that are empty then."""
        self._check_unchanged()
        self.target.unlink()
        for folder in self.path.parents:
            if folder == self.base:
                break
            with contextlib.suppress(OSError):
                folder.rmdir()

    def _check_unchanged(self) -> None:
        if read_settings(self.base, self.path.relative_to(self.base), self.mode) != self:
            raise Refused(f"{self.path} has changed meanwhile", hint="run the same again")


def read_settings(base: Path, name: Path, new_mode: int) -> SettingsFile:
    """Read a file below a base folder. Raises Refused for what is no plain UTF-8 file.

    A link is followed, unless it is a project's and leads out of it and out of the user's home.
    """
    path = base / name
    target = _resolved(path)
    homes = _user_folders()
    if base not in homes and not any(target.is_relative_to(f) for f in (base, *homes)):
        raise Refused(
            f"{path} leads out of the project, to {target}",
            hint="replace that link by a file or folder of the project's own",
        )
    try:
        found = target.stat()
    except (FileNotFoundError, NotADirectoryError):
        _check_folder(target.parent)
        return SettingsFile(path, target, base, None, new_mode)
    except OSError as exc:
        raise Refused(f"{path} cannot be read: {exc.strerror}", hint="see what is there") from exc
    if not stat.S_ISREG(found.st_mode):
        raise Refused(f"{path} is no file", hint="move away what is there, and run the same again")
    if found.st_size > _LARGEST_BYTES:
        raise Refused(f"{path} is too large for settings", hint="see what is in it")
    if not os.access(target, os.R_OK | os.W_OK):
        raise Refused(f"{path} is not yours to write", hint="change its permissions")
    return SettingsFile(path, target, base, _decoded(path, target), stat.S_IMODE(found.st_mode))


def _resolved(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError) as exc:
        raise Refused(f"{path} is a link that leads nowhere", hint="remove that link") from exc


def _user_folders() -> list[Path]:
    try:
        return [Path.home().resolve()]
    except (OSError, RuntimeError):
        return []


def _check_folder(folder: Path) -> None:
    """Raise Refused when something that is no folder stands where one is needed."""
    for candidate in (folder, *folder.parents):
        if candidate.is_dir():
            return
        if os.path.lexists(candidate):
            raise Refused(
                f"{candidate} is no folder", hint="move away what is there, and run the same again"
            )


def _decoded(path: Path, target: Path) -> str:
    content = target.read_bytes()
    try:
        return content.decode()
    except UnicodeDecodeError as exc:
        raise Refused(
            f"{path} is not UTF-8, from byte {exc.start} on", hint="save it as UTF-8"
        ) from exc
