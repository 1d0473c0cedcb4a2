"""The Inspector, a client that others wrote, lists our tools and calls them, on both transports."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support import node
from tests.support.homes import Home, wait_until

pytestmark = pytest.mark.node

CORE = {
    "memory_search", "memory_save", "memory_get", "memory_forget", "memory_move",
    "memory_feedback", "memory_status", "load_context",
}  # fmt: skip

BOTH = pytest.mark.parametrize("transport", ["stdio", "http"])
ERAS = pytest.mark.parametrize("era", ["legacy", "modern"])


@dataclass(frozen=True)
class Inspector:
    """The Inspector's command line, aimed at one server."""

    words: list[str]
    target: list[str]
    folder: Path

    def ask(self, method: str, *options: str, code: int = 0) -> dict[str, Any]:
        """Ask one method and give the result that the client read."""
        flags = ["--cli", "--quiet", "--format", "json", "--method", method]
        done = subprocess.run(
            [*self.words, *flags, *options, *self.target],
            cwd=self.folder,
            env={"PATH": os.environ["PATH"], "HOME": str(self.folder)},
            capture_output=True,
            encoding="utf-8",
            timeout=120,
        )
        assert done.returncode == code, f"{done.stdout}\n{done.stderr}"
        result: dict[str, Any] = json.loads(done.stdout)["result"]
        return result

    def call(self, tool: str, /, *options: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool and give what it answers as structured content."""
        given = ("--tool-name", tool, "--tool-args-json", json.dumps(arguments))
        data: dict[str, Any] = self.ask("tools/call", *given, *options)["structuredContent"]
        return data


@pytest.fixture(scope="module")
def words() -> list[str]:
    return node.command(node.INSPECTOR)


@pytest.fixture
def inspector(home: Home, words: list[str], tmp_path: Path) -> Iterator[Callable[..., Inspector]]:
    """Aim the Inspector at this home, through the stdio front or over HTTP."""
    servers: list[subprocess.Popen[bytes]] = []
    folder = tmp_path / "inspector"
    folder.mkdir()

    def aim(transport: str) -> Inspector:
        target = _stdio(home) if transport == "stdio" else _http(home, servers)
        return Inspector(words, target, folder)

    yield aim
    for server in servers:
        server.terminate()
        server.wait(30)


def _stdio(home: Home) -> list[str]:
    variables = [word for pair in home.environment.items() for word in ("-e", "=".join(pair))]
    return [*variables, "--", *home.command("mcp", "--project", str(home.project))]


def _http(home: Home, servers: list[subprocess.Popen[bytes]]) -> list[str]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = home.command("serve", "--http", f"127.0.0.1:{port}")
    servers.append(subprocess.Popen(command, stderr=subprocess.DEVNULL))
    wait_until(lambda: _answers(port))
    access = home.json("token")
    url = f"http://127.0.0.1:{port}/mcp/{access['project']}"
    header = f"Authorization: Bearer {access['token']}"
    return ["--transport", "http", "--server-url", url, "--header", header]


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@BOTH
@ERAS
def test_it_lists_tools_that_any_client_can_take(
    inspector: Callable[..., Inspector], transport: str, era: str
) -> None:
    """`--strict` ends with an error when a schema has what some client cannot read."""
    tools = inspector(transport).ask("tools/list", "--strict", "--protocol-era", era)["tools"]

    assert {tool["name"] for tool in tools} >= CORE
    for tool in tools:
        assert tool["description"]
        assert tool["inputSchema"]["type"] == "object"


@BOTH
@ERAS
def test_it_saves_finds_reads_and_forgets(
    inspector: Callable[..., Inspector], transport: str, era: str
) -> None:
    client = inspector(transport)
    text = "The staging database listens on port 6543.\n\n- since März\n- ask Zoë before a change"

    def call(tool: str, /, **arguments: Any) -> dict[str, Any]:
        return client.call(tool, "--protocol-era", era, **arguments)

    saved = call("memory_save", text=text, name="staging port", tags=["ops"])
    other = call("memory_save", text="Deploys happen on Tuesdays.", name="deploy day")

    found = call("memory_search", query="which port does staging use", limit=3)
    assert found["hits"][0]["id"] == saved["id"]
    assert "port 6543" in found["hits"][0]["text"]
    assert found["hits"][0]["text"].startswith("<memory ")

    whole = call("memory_get", id=saved["id"])
    assert text in whole["text"]
    assert (whole["name"], whole["tags"]) == ("staging port", ["ops"])

    preview = call("memory_forget", query="staging database")
    assert preview["done"] is False
    assert [memory["id"] for memory in preview["memories"]] == [saved["id"]]
    assert call("memory_get", id=saved["id"])["text"] == whole["text"]

    done = call("memory_forget", **preview["next"])
    assert done["done"] is True
    hits = call("memory_search", query="which port does staging use")["hits"]
    assert saved["id"] not in [hit["id"] for hit in hits]
    assert "Tuesdays" in call("memory_get", id=other["id"])["text"]


@BOTH
def test_a_refusal_is_an_answer_with_the_next_step(
    inspector: Callable[..., Inspector], transport: str
) -> None:
    """The Inspector exits with 5 when a tool says that it failed."""
    client = inspector(transport)

    answer = client.ask(
        "tools/call",
        *("--tool-name", "memory_get", "--tool-args-json", '{"id": "no such memory"}'),
        code=5,
    )

    assert answer["isError"] is True
    told = json.loads(answer["content"][0]["text"])
    assert "no such memory" in told["detail"]
    assert told["hint"]
