"""The real Claude Code CLI uses tiermem; what its model would have seen is in the log of a stub.

The rig that drives it without an account stands beside the repository.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support import node
from tests.support.homes import Home, is_alive, wait_until

pytestmark = pytest.mark.node

RIG = Path(__file__).parents[3] / "shared" / "claude_rig"
TEXT = "The staging database moved to port 6543."

#: `-p` does not wait for its servers unless it is told to.
WAITING = "MCP_CONNECTION_NONBLOCKING=0"


@dataclass(frozen=True)
class Session:
    """The requests of one session, each as the model would have got it."""

    requests: list[dict[str, Any]]

    @property
    def tools(self) -> set[str]:
        """Name the tools that the first request describes."""
        return {tool["name"] for tool in self.requests[0]["tools"]}

    @property
    def opening(self) -> str:
        first = self.requests[0]
        return json.dumps([first["system"], first["messages"]], ensure_ascii=False)

    @property
    def results(self) -> list[dict[str, Any]]:
        """List the results of tools, in order."""
        blocks = [
            block
            for message in self.requests[-1]["messages"]
            if isinstance(message["content"], list)
            for block in message["content"]
        ]
        return [block for block in blocks if block["type"] == "tool_result"]


@dataclass(frozen=True)
class ClaudeCode:
    """The CLI in a home of its own, with tiermem as its only MCP server."""

    program: str
    home: Home
    folder: Path

    def session(self, *turns: dict[str, Any]) -> Session:
        """Run one prompt, with a model that says these turns and then stops."""
        script, log, config = (self.folder / n for n in ("turns.json", "log.jsonl", "mcp.json"))
        script.write_text(json.dumps(turns), encoding="utf-8")
        config.write_text(json.dumps(self._servers()), encoding="utf-8")
        log.unlink(missing_ok=True)
        with _stub(script, log) as port:
            self._run(port, config)
        lines = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
        bodies = [line["body"] for line in lines if line["path"].startswith("/v1/messages?")]
        return Session([body for body in bodies if body.get("tools")])

    def _servers(self) -> dict[str, Any]:
        command, *arguments = self.home.command("mcp")
        server = {"command": command, "args": arguments, "env": self.home.environment}
        return {"mcpServers": {"tiermem": server}}

    def _run(self, port: int, config: Path) -> None:
        environment = {
            "PATH": os.environ["PATH"],
            "RIG_HOME": str(self.folder / "home"),
            "RIG_PORT": str(port),
            "RIG_ENV": WAITING,
            "CLAUDE_BIN": self.program,
        }
        done = subprocess.run(
            [
                "sh", str(RIG / "claude.sh"), "-p", "go on", "--model", "claude-sonnet-4-5",
                "--strict-mcp-config", "--mcp-config", str(config), "--output-format", "json",
                "--dangerously-skip-permissions",
            ],
            cwd=self.home.project,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=120,
        )  # fmt: skip
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        assert json.loads(done.stdout)["result"] == "done"


@contextmanager
def _stub(script: Path, log: Path) -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    words = [sys.executable, str(RIG / "stub_api.py"), str(port), str(script), str(log)]
    stub = subprocess.Popen(words, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: _answers(port))
        yield port
    finally:
        stub.kill()
        stub.wait()


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def call(tool: str, /, **arguments: Any) -> dict[str, Any]:
    """A turn in which the model calls a tool of ours."""
    block = {"type": "tool_use", "name": f"mcp__tiermem__{tool}", "input": arguments}
    return {"content": [block], "usage": {"input_tokens": 1000}}


DONE = {"content": [{"type": "text", "text": "done"}], "usage": {"input_tokens": 1500}}


def fronts(home: Home) -> list[int]:
    """Find the live stdio fronts of a home."""
    found: list[int] = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (folder / "cmdline").read_bytes().split(b"\0")
            variables = (folder / "environ").read_bytes().split(b"\0")
            if b"mcp" in words and f"TIERMEM_HOME={home.path}".encode() in variables:
                found.append(int(folder.name))
    return [pid for pid in found if is_alive(pid)]


def told(result: dict[str, Any]) -> str:
    """Give the text of a tool's result."""
    content = result["content"]
    return content if isinstance(content, str) else "\n".join(b.get("text", "") for b in content)


@pytest.fixture(scope="module")
def program() -> str:
    if not RIG.is_dir():
        pytest.skip("the rig for Claude Code is not beside the repository")
    return node.command(node.CLAUDE_CODE)[0]


@pytest.fixture
def claude(home: Home, program: str, tmp_path: Path) -> ClaudeCode:
    folder = tmp_path / "claude"
    folder.mkdir()
    return ClaudeCode(program, home, folder)


def test_what_one_session_saves_the_next_one_finds(claude: ClaudeCode, home: Home) -> None:
    first = claude.session(call("memory_save", text=TEXT, name="staging port"), DONE)
    second = claude.session(call("memory_search", query="which port does staging use"), DONE)

    [kept] = home.json("list")["memories"]
    [saved], [found] = first.results, second.results
    assert not saved.get("is_error"), told(saved)
    assert kept["id"] in told(saved)
    assert not found.get("is_error"), told(found)
    assert kept["id"] in told(found)
    before, _, after = told(found).partition(TEXT)
    assert "<memory" in before
    assert "</memory" in after


def test_the_model_knows_when_to_search_and_save_before_its_first_call(claude: ClaudeCode) -> None:
    """Most tools are hidden behind a search for tools; those that search and save are in view."""
    session = claude.session(DONE)

    assert {"mcp__tiermem__memory_search", "mcp__tiermem__memory_save"} <= session.tools
    assert "mcp__tiermem__memory_forget" in session.opening
    assert "before you plan or edit" in session.opening


def test_a_session_leaves_no_front_behind(claude: ClaudeCode, home: Home) -> None:
    command = home.command("mcp")
    with subprocess.Popen(command, stdin=subprocess.PIPE, cwd=home.project) as another:
        wait_until(lambda: fronts(home) == [another.pid])

        [status] = claude.session(call("memory_status"), DONE).results

        assert not status.get("is_error"), told(status)
        wait_until(lambda: fronts(home) == [another.pid])
        another.communicate(timeout=30)
    assert fronts(home) == []
    assert len(home.engines()) == 1
