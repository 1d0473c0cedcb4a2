"""An engine that listens over TCP, as `tiermem serve --http` makes it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from pathlib import Path
from typing import Any

import httpx

from tests.support.homes import Home


class HttpEngine:
    """A running `serve --http`, and what clients of it do."""

    def __init__(self, home: Home, *options: str, address: str = "127.0.0.1:0") -> None:
        self.home = home
        self._errors = home.path.parent / "serve.err"
        with self._errors.open("w", encoding="utf-8") as errors:
            self._process = subprocess.Popen(
                home.command("serve", "--http", address, "--json", *options),
                cwd=home.project,
                env={**os.environ, **home.environment},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
            )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, self.said()
        self.url: str = json.loads(line)["http"]
        self.port = int(self.url.rpartition(":")[2])

    def said(self) -> str:
        return self._errors.read_text(encoding="utf-8")

    def is_running(self) -> bool:
        return self._process.poll() is None

    def token(self, *options: str, project: Path | None = None) -> str:
        return self.home.cli("token", *options, project=project).stdout.strip()

    def client(self, token: str = "", **headers: str) -> httpx.Client:
        if token:
            headers["Authorization"] = f"Bearer {token}"
        return httpx.Client(base_url=self.url, headers=headers, timeout=30, trust_env=False)

    def raw(self, *lines: str, body: bytes = b"") -> tuple[int, dict[str, str], bytes]:
        """Send bytes as they are, and read until the engine hangs up or has answered once."""
        head = "".join(f"{line}\r\n" for line in lines).encode("latin-1")
        with self.connection() as connection:
            connection.sendall(head + b"\r\n" + body)
            return read_answer(connection)

    def connection(self) -> socket.socket:
        connection = socket.create_connection(("127.0.0.1", self.port))
        connection.settimeout(30)
        return connection

    def end(self) -> None:
        if self.is_running():
            self._process.terminate()
            self._process.wait(60)
        if self._process.stdout is not None:
            self._process.stdout.close()


def read_answer(connection: socket.socket) -> tuple[int, dict[str, str], bytes]:
    """Read one answer: its status, its headers with small names, its body."""
    data = b""
    while b"\r\n\r\n" not in data:
        block = connection.recv(65_536)
        assert block, f"hung up without an answer: {data!r}"
        data += block
    head, _, body = data.partition(b"\r\n\r\n")
    status, *fields = head.decode("latin-1").split("\r\n")
    headers = {n.lower(): v.strip() for n, _, v in (f.partition(":") for f in fields)}
    while len(body) < int(headers.get("content-length", 0)):
        body += connection.recv(65_536)
    return int(status.split()[1]), headers, body


def rpc(method: str, **params: Any) -> dict[str, Any]:
    """Make one request of MCP."""
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
