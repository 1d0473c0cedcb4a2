"""A data home as a user has it: a folder, a command line, and an engine that comes and goes."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from memory.cli.client import EngineClient, launcher, reap
from memory.home_lock import HomeLock

_PATIENCE_S = 30.0


class Home:
    """One data home and one project folder."""

    def __init__(self, path: Path, project: Path, **settings: str) -> None:
        self.path = path
        self.project = project
        self._clients: list[EngineClient] = []
        project.mkdir(parents=True, exist_ok=True)
        self.environment = {
            "TIERMEM_HOME": str(path),
            "TIERMEM_EMBEDDING_MODEL": "hashing",
            "TIERMEM_ENGINE_IDLE_MINUTES": "5",
            "TIERMEM_OWNER": "tester",
            **settings,
        }

    def cli(
        self,
        *arguments: str,
        project: Path | None = None,
        stdin: bytes | None = None,
        code: int | None = 0,
    ) -> subprocess.CompletedProcess[str]:
        """Run the command line to its end; `code` is the exit code it must have."""
        done = subprocess.run(
            self.command(*arguments),
            cwd=project or self.project,
            env={**os.environ, **self.environment},
            input=None if stdin is None else stdin.decode("utf-8", "surrogateescape"),
            capture_output=True,
            encoding="utf-8",
            errors="surrogateescape",
            timeout=120,
        )
        if code is not None:
            assert done.returncode == code, f"{arguments}: {done.returncode}\n{done.stderr}"
        return done

    def json(self, *arguments: str, **options: Any) -> Any:
        """Run the command line with --json and read what it prints."""
        return json.loads(self.cli(*arguments, "--json", **options).stdout)

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, str(launcher()), *arguments]

    def client(self) -> EngineClient:
        """A client in this process; starts the engine when it is called."""
        client = EngineClient(self.path)
        self._clients.append(client)
        return client

    def request(self, **fields: Any) -> dict[str, Any]:
        return {"project": str(self.project), **fields}

    @property
    def hot_root(self) -> Path:
        return Path(self.json("status", code=None)["hot_root"])

    def engine_pid(self) -> int | None:
        """Find the engine of this home, if one is alive in a process of its own."""
        owner = HomeLock(self.path).owner()
        if owner is None or owner.pid == os.getpid():
            return None
        return owner.pid if is_alive(owner.pid) else None

    def kill_engine(self) -> None:
        """Kill the engine without a warning and wait until it is gone."""
        pid = self.engine_pid()
        if pid is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not is_alive(pid))

    def terminate_engine(self) -> None:
        """Ask the engine to end, as the system does before it goes down, and wait for it."""
        pid = self.engine_pid()
        if pid is not None:
            os.kill(pid, signal.SIGTERM)
            wait_until(lambda: not is_alive(pid))

    def engines(self) -> list[int]:
        """Find every live process that serves this home."""
        found: list[int] = []
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                words = (folder / "cmdline").read_bytes().split(b"\0")
                variables = (folder / "environ").read_bytes().split(b"\0")
                if b"serve" in words and f"TIERMEM_HOME={self.path}".encode() in variables:
                    found.append(int(folder.name))
        return [pid for pid in found if is_alive(pid)]

    def end(self) -> None:
        for client in self._clients:
            client.close()
        self.kill_engine()
        reap()


def is_alive(pid: int) -> bool:
    """Say whether a process runs; one that only waits to be reaped does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return False
    return state not in ("Z", "X")


def wait_until(condition: Any, *, patience_s: float = _PATIENCE_S, step_s: float = 0.02) -> None:
    """Wait for something that happens in another process; fails when it does not."""
    deadline = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < deadline, f"nothing happened within {patience_s} s"
        time.sleep(step_s)
