"""Agents in the test's process: they speak JSON-RPC to the MCP door, as a front does."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
from anyio.from_thread import BlockingPortal, start_blocking_portal

from memory.engine.access import CALLER, Caller, Receive, Scope, Send, SocketDoor
from memory.engine.host import Host
from memory.engine.mcp import McpDoor

MODERN = "2026-07-28"
LEGACY = "2025-11-25"

_META = "io.modelcontextprotocol/"


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """What an agent gets from a tool."""

    data: dict[str, Any]
    text: str
    is_error: bool

    @property
    def problem(self) -> dict[str, Any]:
        """The error as data; fails the test when the tool succeeded."""
        assert self.is_error, self.text
        told: dict[str, Any] = json.loads(self.text)
        return told


@dataclass
class Agent:
    """One client of one project."""

    portal: BlockingPortal
    client: httpx.AsyncClient
    folder: Path
    toolsets: str = ""
    version: str = LEGACY
    _ids: Iterator[int] = field(default_factory=itertools.count)

    def ask(self, method: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Send one request and give its whole answer."""
        response = self.post(method, params)
        told: dict[str, Any] = response.json()
        return told

    def post(self, method: str, params: Mapping[str, Any] | None = None) -> httpx.Response:
        asked: dict[str, Any] = dict(params or {})
        headers = {
            "Accept": "application/json, text/event-stream",
            "Content-Type": "application/json",
            "X-Tiermem-Folder": quote(str(self.folder)),
            "MCP-Protocol-Version": self.version,
        }
        if self.toolsets:
            headers["X-Tiermem-Toolsets"] = self.toolsets
        if self.version == MODERN:
            headers["Mcp-Method"] = method
            if name := asked.get("name") or asked.get("uri"):
                headers["Mcp-Name"] = name
            asked["_meta"] = {
                f"{_META}protocolVersion": MODERN,
                f"{_META}clientCapabilities": {},
                f"{_META}clientInfo": {"name": "test", "version": "1"},
            }
        body = {"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": asked}
        return self.portal.call(
            lambda: self.client.post("/mcp", content=json.dumps(body), headers=headers)
        )

    def result(self, method: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Send one request that succeeds."""
        answer = self.ask(method, params)
        assert "result" in answer, answer
        told: dict[str, Any] = answer["result"]
        return told

    def call(self, tool: str, **arguments: Any) -> ToolAnswer:
        """Call a tool."""
        result = self.result("tools/call", {"name": tool, "arguments": arguments})
        (content,) = result["content"]
        is_error = bool(result.get("isError"))
        return ToolAnswer(result.get("structuredContent", {}), content["text"], is_error)

    def do(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool that succeeds and give its data."""
        answer = self.call(tool, **arguments)
        assert not answer.is_error, answer.text
        return answer.data


@contextmanager
def served(
    host: Host, *, caller: Caller | None = None
) -> Iterator[tuple[BlockingPortal, httpx.AsyncClient]]:
    """Serve a host's MCP door on a loop of its own: to the socket's user, or to another caller."""
    door = McpDoor(host, largest_body=2**26)
    socket_door = SocketDoor(door, host.app.settings.owner)

    async def as_caller(scope: Scope, receive: Receive, send: Send) -> None:
        await door({**scope, CALLER: caller}, receive, send)

    with start_blocking_portal() as portal:
        transport = httpx.ASGITransport(app=as_caller if caller else socket_door)
        yield portal, httpx.AsyncClient(transport=transport, base_url="http://localhost")
