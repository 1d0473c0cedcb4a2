"""Who owns a data home: one process, by flock. Standard library only."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import platform
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from memory.errors import HomeRefused

#: File systems where locks or mapped files cannot be trusted between machines.
_SHARED = frozenset(
    {
        "nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "vboxsf", "drvfs", "fuse.sshfs", "afs",
        "glusterfs", "fuse.glusterfs", "ceph", "lustre", "gfs2", "ocfs2", "fuse.s3fs", "davfs",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Owner:
    """What the owner of a home wrote into its lock."""

    pid: int
    host: str
    boot_id: str
    version: str
    socket: str


class HomeLock:
    """The lock of one home; released when the process ends, however it ends."""

    def __init__(self, home: Path) -> None:
        self._path = home / "engine.lock"
        self._descriptor: int | None = None

    def take(self, *, version: str, socket: Path) -> bool:
        """Become the owner; False when another process is."""
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if not _try_lock(descriptor):
            os.close(descriptor)
            return False
        owner = Owner(os.getpid(), platform.node(), boot_id(), version, str(socket))
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(asdict(owner)).encode(), 0)
        os.fsync(descriptor)
        self._descriptor = descriptor
        return True

    def is_lost(self) -> bool:
        """Whether the home that was taken is no longer the one at its place."""
        if self._descriptor is None:
            return True
        try:
            return not os.path.samestat(self._path.stat(), os.fstat(self._descriptor))
        except OSError:
            return True

    def release(self) -> None:
        """Let go; releasing twice is no error."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def owner(self) -> Owner | None:
        """Read who owns, or last owned, the home."""
        try:
            return Owner(**json.loads(self._path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return None


def _try_lock(descriptor: int) -> bool:
    # Twice: fronts that ask whether somebody owns the home hold the lock for a moment themselves.
    for wait_s in (0.05, 0.0):
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        time.sleep(wait_s)
    return False


def boot_id() -> str:
    """Name this start of the machine; empty where the system does not tell."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def refuse_shared_file_system(home: Path, mounts: Path = Path("/proc/self/mounts")) -> None:
    """Raise HomeRefused when the home lies on a network or shared file system."""
    kind = file_system(home, mounts)
    if kind in _SHARED:
        raise HomeRefused(f"{home} lies on a shared file system ({kind})")


def file_system(path: Path, mounts: Path) -> str:
    """Name the kind of file system that holds a path; empty where the system does not tell."""
    try:
        lines = mounts.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    best, kind = "", ""
    full = str(path.resolve())
    for line in lines:
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        point = fields[1].replace("\\040", " ")
        inside = point == "/" or full == point or full.startswith(point + "/")
        if inside and len(point) >= len(best):
            best, kind = point, fields[2]
    return kind


def socket_path(home: Path) -> Path:
    """Say where the engine of a home listens.

    A socket's path has at most 108 bytes on Linux and 104 on macOS, so a deep home gets a short
    one in a private folder. It is the same for every process of a user: clients start with bare
    environments, so no variable, such as TMPDIR, may have a say in it.
    """
    direct = home / "engine.sock"
    if len(os.fsencode(direct)) <= 100:
        return direct
    import hashlib

    name = hashlib.sha256(os.fsencode(home.absolute())).hexdigest()[:16]
    return Path(f"/tmp/tiermem-{os.geteuid()}") / f"{name}.sock"  # noqa: S108 - see is_private


def is_private(socket: Path) -> bool:
    """Say whether a socket's folder belongs to this user, so that nobody else listens there."""
    try:
        folder = socket.parent.lstat()
    except OSError:
        return False
    return folder.st_uid == os.geteuid()
