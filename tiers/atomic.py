"""Replace files so that nothing is lost: neither by a crash nor by somebody who writes meanwhile.

Standard library only.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import secrets
import time
from collections.abc import Callable
from pathlib import Path

#: Temporary files start like this; whoever lists a folder leaves them out.
TEMPORARY_PREFIX = ".tiermem-"

_TEMPORARY = re.compile(re.escape(TEMPORARY_PREFIX) + r"[0-9a-f]{16}(?:-(.+))?", re.DOTALL)
_LONGEST_NAME_BYTES = 255

#: What os.link says on file systems without links, between two of them, or when there are too many.
NO_LINKS = (errno.EPERM, errno.EXDEV, errno.EMLINK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2  # Linux, renameat2(2)
_RENAME_SWAP = 2  # macOS, renamex_np(2)


def temporary_path(folder: Path, name: str = "") -> Path:
    """Choose a temporary name in `folder` that says for which file it is meant."""
    plain = f"{TEMPORARY_PREFIX}{secrets.token_hex(8)}"
    telling = f"{plain}-{name}" if name else plain
    fits = len(os.fsencode(telling)) <= _LONGEST_NAME_BYTES
    return folder / (telling if fits else plain)


def meant_for(temporary: str) -> str | None:
    """Say which file a temporary name was chosen for; "" if unknown, None for another name."""
    found = _TEMPORARY.fullmatch(temporary)
    return found and (found[1] or "")


def write_temporary(folder: Path, content: bytes, *, mode: int = 0o600, name: str = "") -> Path:
    """Write a new file into `folder`, safe from a power loss when this returns.

    Its time of change is exact, which no time is that the system stamps (a tick lies between two
    of those): an edit of the same size right afterwards cannot look like this file.
    """
    path = temporary_path(folder, name)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(descriptor, "wb") as handle:
            os.fchmod(handle.fileno(), mode)
            handle.write(content)
            handle.flush()
            exact = time.time_ns()
            os.utime(handle.fileno(), ns=(exact, exact))
            os.fsync(handle.fileno())
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    return path


def replace(path: Path, content: bytes, *, mode: int = 0o600) -> None:
    """Replace `path`, whatever it holds: readers see the old or the new content, never a part."""
    temporary = write_temporary(path.parent, content, mode=mode)
    try:
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def place_new(temporary: Path, path: Path) -> None:
    """Give a temporary file its name; raises FileExistsError when the name is taken."""
    try:
        os.link(temporary, path)
    except OSError as exc:
        if exc.errno not in NO_LINKS:
            raise
        # Take the name with an empty file, which nobody else can then take, and replace that.
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        temporary.replace(path)
        return
    temporary.unlink()


def exchange(one: Path, other: Path) -> bool:
    """Swap two existing files in one step; False where the system or file system cannot."""
    if _swap is None:
        return False
    code = _swap(os.fsencode(one), os.fsencode(other))
    if code == 0:
        return True
    if code in (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP):
        return False
    raise OSError(code, os.strerror(code), str(other))


def sync_folder(folder: Path) -> None:
    """Make names in a folder safe from a power loss."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _find_swap() -> Callable[[bytes, bytes], int] | None:
    libc = ctypes.CDLL(None, use_errno=True)
    for name, call in (("renameat2", _linux_swap), ("renamex_np", _mac_swap)):
        if hasattr(libc, name):
            return call(getattr(libc, name))
    return None


def _linux_swap(function: Callable[..., int]) -> Callable[[bytes, bytes], int]:
    def swap(one: bytes, other: bytes) -> int:
        done = function(_AT_FDCWD, one, _AT_FDCWD, other, _RENAME_EXCHANGE)
        return 0 if done == 0 else ctypes.get_errno()

    return swap


def _mac_swap(function: Callable[..., int]) -> Callable[[bytes, bytes], int]:
    def swap(one: bytes, other: bytes) -> int:
        done = function(one, other, _RENAME_SWAP)
        return 0 if done == 0 else ctypes.get_errno()

    return swap


_swap = _find_swap()
