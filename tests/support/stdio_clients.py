"""MCP clients as people have them: a `tiermem mcp` of their own, spoken with over pipes."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from memory.cli.client import launcher
from tests.support.homes import Home, is_alive

PATIENCE_S = 60.0

LEGACY = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}
MODERN = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


class StdioClient:
    """One client. Threads may share it: each waits for the answers to what it asked."""

    def __init__(
        self,
        home: Home,
        *arguments: str,
        project: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(launcher()), "mcp", *arguments],
            cwd=project or home.project,
            env={**os.environ, **home.environment, **(environment or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.complaints: list[str] = []
        #: Every line of stdout, in order.
        self.lines: list[bytes] = []
        self._answers: dict[int, dict[str, Any]] = {}
        self._changed = threading.Condition()
        self._next = 0
        self._has_ended = False
        self._readers = [
            threading.Thread(target=target, daemon=True)
            for target in (self._read_answers, self._read_complaints)
        ]
        for reader in self._readers:
            reader.start()

    def write(self, raw: bytes) -> None:
        """Write bytes as they are."""
        assert self.process.stdin is not None
        with self._changed:
            self.process.stdin.write(raw)
            self.process.stdin.flush()

    def send(self, method: str, params: Mapping[str, Any] | None = None) -> int:
        """Send a request and give its id."""
        with self._changed:
            self._next += 1
            named = self._next
        asked = {"jsonrpc": "2.0", "id": named, "method": method, "params": dict(params or {})}
        self.write(json.dumps(asked).encode() + b"\n")
        return named

    def wait(self, named: int, *, patience_s: float = PATIENCE_S) -> dict[str, Any]:
        """Wait for the answer to a request."""
        with self._changed:
            self._changed.wait_for(
                lambda: named in self._answers or self._has_ended, timeout=patience_s
            )
            assert named in self._answers, f"no answer to {named}; {self.complaints[-3:]}"
            return self._answers.pop(named)

    def ask(self, method: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        return self.wait(self.send(method, params))

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool and give its result, which may be an error."""
        answer = self.ask("tools/call", {"name": tool, "arguments": arguments})
        assert "result" in answer, answer
        result: dict[str, Any] = answer["result"]
        return result

    def do(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool that succeeds and give its data."""
        result = self.call(tool, **arguments)
        assert not result.get("isError"), result
        data: dict[str, Any] = result["structuredContent"]
        return data

    def rss_mb(self) -> float:
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8")
        (line,) = [line for line in status.splitlines() if line.startswith("VmRSS:")]
        return int(line.split()[1]) / 1024

    def hang_up(self) -> int:
        """Close stdin and give the exit code."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(PATIENCE_S)

    def end(self) -> None:
        """Put everything away, however it ended."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(PATIENCE_S)
        for reader in self._readers:
            reader.join(PATIENCE_S)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                try:
                    stream.close()
                except BrokenPipeError:
                    continue

    def _read_answers(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            told = json.loads(line)
            with self._changed:
                self.lines.append(line)
                if told.get("id") is not None:
                    assert told["id"] not in self._answers, f"answered twice: {told['id']}"
                    self._answers[told["id"]] = told
                self._changed.notify_all()
        with self._changed:
            self._has_ended = True
            self._changed.notify_all()

    def _read_complaints(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.complaints.append(line.decode("utf-8", "replace").rstrip())


def problem_of(result: Mapping[str, Any]) -> dict[str, Any]:
    """Read the error that a tool answered as data."""
    assert result.get("isError"), result
    told: dict[str, Any] = json.loads(result["content"][0]["text"])
    return told


def fronts(home: Home) -> list[int]:
    """Find every live process that serves a client of this home."""
    found: list[int] = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (folder / "cmdline").read_bytes().split(b"\0")
            variables = (folder / "environ").read_bytes().split(b"\0")
            if b"mcp" in words and f"TIERMEM_HOME={home.path}".encode() in variables:
                found.append(int(folder.name))
    return [pid for pid in found if is_alive(pid)]
