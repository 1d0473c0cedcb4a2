"""`tiermem mcp` as a client starts it: what it says, what it costs, and how it ends."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from memory.cli import surface
from memory.cli.client import launcher
from tests.support.homes import Home, is_alive, wait_until
from tests.support.stand_in_engine import HANG_UP, stand_in
from tests.support.stdio_clients import LEGACY, MODERN, StdioClient, problem_of

#: DESIGN section 7.
MOST_RSS_MB = 25

Connect = Callable[..., StdioClient]


@pytest.fixture
def connect(home: Home) -> Iterator[Connect]:
    clients: list[StdioClient] = []

    def start(*arguments: str, **options: Any) -> StdioClient:
        clients.append(StdioClient(home, *arguments, **options))
        return clients[-1]

    yield start
    for client in clients:
        client.end()


# What is answered without an engine.


def test_a_client_is_answered_at_once_without_an_engine(home: Home, connect: Connect) -> None:
    began = time.monotonic()
    client = connect()
    answer = client.ask("initialize", LEGACY)
    took_s = time.monotonic() - began

    sys.stdout.write(f"initialize after {took_s * 1000:.0f} ms, {client.rss_mb():.1f} MB\n")
    assert answer["result"]["serverInfo"]["name"] == "tiermem"
    discovered = client.ask("server/discover", {"_meta": MODERN})["result"]
    assert discovered["supportedVersions"] == ["2026-07-28"]
    listed = [tool["name"] for tool in client.ask("tools/list")["result"]["tools"]]
    assert {"memory_save", "memory_search"} <= set(listed)
    assert client.ask("ping")["result"] == {}
    assert client.ask("prompts/list")["result"]["prompts"]
    assert client.rss_mb() <= MOST_RSS_MB
    assert client.hang_up() == 0
    assert home.engines() == []
    assert client.complaints == []


@pytest.mark.parametrize("kind", ["file", "settings", "toolsets", "folder", "database"])
def test_a_client_is_answered_whatever_is_broken(home: Home, connect: Connect, kind: str) -> None:
    environment = {}
    arguments = []
    home.path.mkdir()
    if kind == "file":
        home.path.rmdir()
        home.path.write_bytes(b"no folder")
    elif kind == "settings":
        (home.path / "config.toml").write_bytes(b"\xff = [")
    elif kind == "toolsets":
        environment["TIERMEM_MCP_TOOLSETS"] = "core,gardening"
    elif kind == "folder":
        arguments = ["--project", "${workspaceFolder}"]
    else:
        (home.path / "home.db").write_bytes(b"this is no database" * 500)
    client = connect(*arguments, environment=environment)

    assert "result" in client.ask("initialize", LEGACY)
    assert "result" in client.ask("server/discover", {"_meta": MODERN})
    assert client.ask("tools/list")["result"]["tools"]
    problem = problem_of(client.call("memory_search", query="x"))
    assert problem["hint"]
    assert problem["retryable"] is (kind == "database")
    error = client.ask("resources/list")["error"]
    assert error["data"]["hint"] == problem["hint"]
    assert client.hang_up() == 0


def test_a_call_succeeds_as_soon_as_what_was_broken_is_mended(home: Home, connect: Connect) -> None:
    home.path.mkdir()
    (home.path / "home.db").write_bytes(b"this is no database" * 500)
    client = connect()
    problem = problem_of(client.call("memory_save", text="the ink is blue"))
    assert "home.db is no SQLite file" in problem["detail"]
    assert problem["retryable"]

    (home.path / "home.db").unlink()

    client.do("memory_save", text="the ink is blue")
    (hit,) = client.do("memory_search", query="ink")["hits"]
    assert "the ink is blue" in hit["text"]


@pytest.mark.parametrize(
    "words", [["--toolsets", "gardening"], ["--verbose"], ["--project"]], ids=str
)
def test_a_command_line_that_cannot_be_meant_is_one_line_on_stderr(
    home: Home, words: list[str]
) -> None:
    done = home.cli("mcp", *words, stdin=b"", code=2)

    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert "error: " in done.stderr


def test_the_help_page_shows_how_clients_are_told(home: Home) -> None:
    done = home.cli("mcp", "--help")

    assert "--toolsets" in done.stdout
    assert '"args": ["mcp"]' in done.stdout
    assert "mcp " in home.cli("--help").stdout


# What goes to the engine.


def test_a_client_saves_searches_and_stays_small(home: Home, connect: Connect) -> None:
    client = connect()
    client.ask("initialize", LEGACY)
    for number in range(50):
        client.do("memory_save", text=f"crate {number} holds {number * 7} lamps", tier="deep")
    saved = client.do("memory_save", text="the harbour master is Ruth")

    (best, *_) = client.do("memory_search", query="who is the harbour master")["hits"]

    sys.stdout.write(f"after 52 calls: {client.rss_mb():.1f} MB\n")
    assert best["id"] == saved["id"]
    assert client.rss_mb() <= MOST_RSS_MB
    assert len(home.engines()) == 1


def test_both_generations_call_tools_read_resources_and_get_prompts(connect: Connect) -> None:
    client = connect()
    for meta in ({}, {"_meta": MODERN}):
        name = {"name": "memory_save", "arguments": {"text": "ropes are in bay nine"}, **meta}
        saved = client.ask("tools/call", name)["result"]
        assert not saved["isError"]
        (resource, *_) = client.ask("resources/list", meta)["result"]["resources"]
        read = client.ask("resources/read", {"uri": resource["uri"], **meta})["result"]
        assert read["contents"]
        prompt = {"name": "recall", "arguments": {"query": "ropes"}, **meta}
        assert client.ask("prompts/get", prompt)["result"]["messages"]
        assert ("resultType" in saved) is bool(meta)
        unknown = client.ask("no/such", meta)["error"]
        assert unknown["code"] == -32601


def test_a_tool_of_another_toolset_is_called_when_it_was_chosen(connect: Connect) -> None:
    usual, chosen = connect(), connect("--toolsets", "ops")

    names = [tool["name"] for tool in chosen.ask("tools/list")["result"]["tools"]]
    assert "memory_doctor" in names
    assert "memory_save" not in names
    assert problem_of(usual.call("memory_doctor"))["hint"]
    assert chosen.do("memory_doctor")["passed"] > 0


def test_a_client_is_bound_to_the_project_of_its_folder(
    home: Home, connect: Connect, tmp_path: Path
) -> None:
    other = tmp_path / "other ü"
    other.mkdir()
    here, there = connect(), connect("--project", str(other))
    named = connect(environment={"CLAUDE_PROJECT_DIR": str(other)})

    here.do("memory_save", text="the key hangs by the door")
    there.do("memory_save", text="the key lies under the mat")

    def found(client: StdioClient) -> list[str]:
        return [hit["name"] for hit in client.do("memory_search", query="where is the key")["hits"]]

    assert found(here) == ["the key hangs by the door"]
    assert found(there) == found(named) == ["the key lies under the mat"]


def test_a_request_that_is_too_long_for_the_engine_is_refused_with_a_hint(
    connect: Connect,
) -> None:
    client = connect()
    client.do("memory_save", text="short")

    problem = problem_of(client.call("memory_save", text="x" * 15_000_000))

    assert problem["hint"]
    assert client.do("memory_search", query="short")["hits"]


# Nothing but protocol.


def test_stdout_holds_answers_alone(home: Home, connect: Connect) -> None:
    """Rubbish, calls that fail, an engine that is killed: every line is an answer in JSON."""
    client = connect()
    client.write(
        b"\xef\xbb\xbf"
        b'{"jsonrpc":"2.0","id":"bom","method":"ping"}\r\n'
        b"\n\r\n"
        b"hello?\n"
        b"[1,2]\n"
        b'{"jsonrpc":"2.0","id":"no","params":{}}\n'
        b'{"jsonrpc":"2.0","id":"deep","method":"tools/call","params":'
        + b'{"a":' * 100_000
        + b"1"
        + b"}" * 100_001
        + b"\n"
        + b"\xff\xfe\n"
        + b'{"jsonrpc":"2.0","id":"last","method":"ping"}\n'
    )
    client.do("memory_save", text="two\r\nlines and a \u2028 separator")
    home.kill_engine()
    client.do("memory_search", query="separator")

    assert client.hang_up() == 0
    client.end()
    told = [json.loads(line) for line in client.lines]
    assert all(line.endswith(b"\n") for line in client.lines)
    assert {answer["jsonrpc"] for answer in told} == {"2.0"}
    codes = [answer["error"]["code"] for answer in told if "error" in answer]
    assert sorted(codes) == [-32700, -32700, -32700, -32600, -32600]
    named = {answer["id"] for answer in told}
    assert {"bom", "no", "last"} <= named
    assert client.complaints == []


def test_a_line_that_is_too_long_is_refused_and_not_kept(connect: Connect) -> None:
    client = connect()
    block = b"x" * 2**20
    for _ in range(64):
        client.write(block)
    client.write(b"\n")

    assert client.ask("ping")["result"] == {}
    assert json.loads(client.lines[0])["error"]["code"] == -32600
    assert client.rss_mb() <= MOST_RSS_MB + 17


def test_nothing_else_can_write_to_stdout(home: Home) -> None:
    """Whatever prints in this process, in Python or below it, prints to stderr."""
    program = (
        "import sys, os; sys.path.insert(0, sys.argv[1])\n"
        "from memory.cli import front\n"
        "def stray(*_): print('stray'); sys.stdout.flush(); os.write(1, b'stray'); "
        "os.system('echo stray')\n"
        "front.Front.serve = stray\n"
        "front.main([])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(launcher().parent)],
        env={**os.environ, **home.environment},
        input=b"",
        capture_output=True,
        timeout=60,
    )

    assert done.stdout == b""
    assert done.stderr.count(b"stray") == 3


# How a front ends.


def test_a_front_ends_with_its_clients_input_and_answers_what_is_under_way(
    home: Home, connect: Connect
) -> None:
    client = connect()
    for number in range(20):
        client.send(
            "tools/call", {"name": "memory_save", "arguments": {"text": f"barrel {number}"}}
        )

    assert client.hang_up() == 0
    client.end()
    assert len(client.lines) == 20
    assert all(not json.loads(line)["result"]["isError"] for line in client.lines)
    assert len(home.engines()) == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_front_that_is_told_to_end_does_so_at_once_and_quietly(
    home: Home, connect: Connect, number: signal.Signals
) -> None:
    client = connect()
    client.do("memory_save", text="the engine outlives its front")
    engine = home.engine_pid()

    client.process.send_signal(number)

    assert client.process.wait(30) == -number
    client.end()
    assert client.complaints == []
    assert engine is not None
    assert is_alive(engine)


def test_a_front_ends_when_nobody_reads_its_answers(home: Home) -> None:
    front = subprocess.Popen(
        home.command("mcp"),
        env={**os.environ, **home.environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert front.stdin is not None
    assert front.stdout is not None
    assert front.stderr is not None
    front.stdout.close()

    with contextlib.suppress(BrokenPipeError):
        front.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
        front.stdin.flush()

    assert front.wait(30) == 0
    assert front.stderr.read() == b""
    front.stderr.close()
    front.stdin.close()


def test_a_front_ends_with_its_parent_though_its_input_stays_open(
    home: Home, tmp_path: Path
) -> None:
    """As when a client is killed and another of its children holds the pipe."""
    reading, writing = os.pipe()
    program = (
        "import os, subprocess, sys\n"
        "front = subprocess.Popen([sys.executable, sys.argv[1], 'mcp'], stdin=int(sys.argv[2]))\n"
        "print(front.pid, flush=True)\n"
        "sys.stdin.read()\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", program, str(launcher()), str(reading)],
        env={**os.environ, **home.environment},
        pass_fds=[reading],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert parent.stdin is not None
    assert parent.stdout is not None
    front = int(parent.stdout.readline())
    os.close(reading)
    # It lives and answers before its parent goes.
    os.write(writing, b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
    assert json.loads(parent.stdout.readline())["result"] == {}

    parent.kill()
    parent.wait(30)

    wait_until(lambda: not is_alive(front), patience_s=10)
    os.close(writing)
    parent.stdin.close()
    parent.stdout.close()


def test_a_front_leaves_no_dead_engine_behind_as_a_zombie(home: Home, connect: Connect) -> None:
    client = connect()
    client.do("memory_save", text="one")
    pid = home.engine_pid()
    assert pid is not None

    home.kill_engine()

    wait_until(lambda: not Path(f"/proc/{pid}").exists())


# An engine that dies.


def stopped_engine(home: Home) -> int:
    pid = home.engine_pid()
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    return pid


def test_a_call_whose_engine_is_killed_is_made_again_when_that_is_safe(
    home: Home, connect: Connect
) -> None:
    client = connect()
    client.do("memory_save", text="the tide turns at four")
    pid = stopped_engine(home)
    named = client.send(
        "tools/call", {"name": "memory_search", "arguments": {"query": "when does the tide turn"}}
    )
    # Known things are answered while the engine hangs.
    assert client.ask("ping")["result"] == {}

    os.kill(pid, signal.SIGKILL)

    (hit,) = client.wait(named)["result"]["structuredContent"]["hits"]
    assert "the tide turns at four" in hit["text"]
    assert home.engine_pid() not in (None, pid)


def tool_for_once() -> str:
    """Name a tool that may not be called twice."""
    tools = [entry["tool"] for entry in json.loads(surface.FILE.read_bytes())["tools"]]
    hints = {tool["name"]: tool["annotations"] for tool in tools}
    return next(
        name
        for name, said in hints.items()
        if not said.get("readOnlyHint") and not said.get("idempotentHint")
    )


def test_a_call_that_the_killed_engine_had_not_read_is_simply_made(
    home: Home, connect: Connect
) -> None:
    client = connect("--toolsets", "core,ops")
    client.do("memory_save", text="the tide turns at four")
    pid = stopped_engine(home)
    named = client.send("tools/call", {"name": tool_for_once(), "arguments": {"action": "apply"}})
    assert client.ask("ping")["result"] == {}

    os.kill(pid, signal.SIGKILL)

    assert not client.wait(named)["result"]["isError"]
    assert home.engine_pid() not in (None, pid)


def test_a_call_that_may_not_be_made_twice_is_said_to_be_unknown(
    home: Home, connect: Connect
) -> None:
    client = connect("--toolsets", "core,ops")
    home.path.mkdir()
    with stand_in(home.path, lambda _: HANG_UP) as engine:
        problem = problem_of(client.call(tool_for_once(), action="apply"))

    assert problem["error"] == "outcome-unknown"
    assert tool_for_once() in problem["detail"]
    assert problem["retryable"] is False
    assert engine.methods == ["tools/call"]
    client.do("memory_search", query="the next engine answers")


def test_a_call_finds_the_next_engine_when_the_last_one_is_gone(
    home: Home, connect: Connect
) -> None:
    """Also one that may not be made twice: it was never sent to the engine that is gone."""
    client = connect("--toolsets", "core,ops")
    client.do("memory_save", text="one")
    for _ in range(3):
        home.kill_engine()
        client.do("memory_held", action="apply")


def test_a_front_goes_on_when_its_engine_was_stopped(home: Home, connect: Connect) -> None:
    client = connect()
    client.do("memory_save", text="said to the first engine")
    home.cli("stop")

    (hit,) = client.do("memory_search", query="first engine")["hits"]

    assert "said to the first engine" in hit["text"]


def test_an_older_engine_is_asked_to_end_and_a_new_one_is_started(
    home: Home, connect: Connect
) -> None:
    home.path.mkdir()
    client = connect()
    with stand_in(home.path) as old:
        old.version = "0.0.1"

        assert client.do("memory_search", query="anything")["hits"] == []

    assert old.targets == ["/v1/stop"]
    assert len(home.engines()) == 1
