"""Clients that other people wrote, from npm: installed once into the user's cache, never here."""

from __future__ import annotations

import fcntl
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from platformdirs import user_cache_path

_INSTALL_S = 240

#: What npm says when nobody answers; anything else it says is a fault of ours.
_UNREACHABLE = {
    "EAI_AGAIN", "ECONNREFUSED", "ECONNRESET", "EHOSTUNREACH", "ENETUNREACH", "ENOTCACHED",
    "ENOTFOUND", "ERR_SOCKET_TIMEOUT", "ETIMEDOUT",
}  # fmt: skip


@dataclass(frozen=True)
class Package:
    """One release of a package, and the program in it."""

    name: str
    version: str
    program: str
    needs_node: tuple[int, int] | None = None

    @property
    def folder(self) -> Path:
        """Give the folder that this release has to itself."""
        plain = re.sub(r"\W+", "-", self.name).strip("-")
        return user_cache_path("tiermem-tests") / f"{plain}-{self.version}"

    @property
    def path(self) -> Path:
        return self.folder / "node_modules" / self.name / self.program


def this_platform() -> str:
    """Name this machine as npm packages do."""
    machine = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    return f"{sys.platform}-{machine}"


NODE = Package(f"node-{this_platform()}", "22.23.5", "bin/node")
INSPECTOR = Package(
    "@modelcontextprotocol/inspector", "2.12.0", "clients/launcher/build/index.js", (22, 19)
)
CLAUDE_CODE = Package(f"@anthropic-ai/claude-code-{this_platform()}", "2.1.332", "claude")


def command(package: Package) -> list[str]:
    """Give the words that start a package's program; skip the test where it cannot be had."""
    if shutil.which("npm") is None or shutil.which("node") is None:
        pytest.skip("needs node and npm")
    words = [str(package.path)]
    if package.needs_node is not None:
        words.insert(0, _node_of(package.needs_node))
    _install(package)
    return words


def _node_of(needed: tuple[int, int]) -> str:
    """Find a node that is new enough: the one on the path, else the one that npm has."""
    said = subprocess.run(["node", "--version"], capture_output=True, encoding="utf-8", check=True)
    found = re.match(r"v(\d+)\.(\d+)", said.stdout)
    if found is not None and (int(found[1]), int(found[2])) >= needed:
        return "node"
    if this_platform() not in ("linux-x64", "linux-arm64"):
        pytest.skip(f"needs node {needed[0]}.{needed[1]}, found {said.stdout.strip()}")
    _install(NODE)
    return str(NODE.path)


def _install(package: Package) -> None:
    """Install a package unless that was done before, by one process at a time."""
    folder = package.folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if package.path.exists():
            return
        with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
            _npm_install(package, Path(scratch))
            shutil.rmtree(folder, ignore_errors=True)
            (Path(scratch) / "done").rename(folder)


def _npm_install(package: Package, scratch: Path) -> None:
    words = [
        "npm", "install", f"{package.name}@{package.version}", "--prefix", str(scratch / "done"),
        "--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries=1",
        "--fetch-retry-mintimeout=1000",
    ]  # fmt: skip
    try:
        done = subprocess.run(
            words, cwd=scratch, capture_output=True, encoding="utf-8", timeout=_INSTALL_S
        )
    except subprocess.TimeoutExpired:
        pytest.skip(f"npm did not bring {package.name} within {_INSTALL_S} s")
    said = re.search(r"npm (?:error|ERR!) code (\S+)", done.stderr)
    if said is not None and said[1] in _UNREACHABLE:
        pytest.skip(f"npm cannot reach its registry: {said[1]}")
    assert done.returncode == 0, done.stderr
