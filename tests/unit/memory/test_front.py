"""A front between its client and the engine: who is answered, when, and how often."""

from __future__ import annotations

import io
import itertools
import json
import os
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from memory.cli import front
from memory.cli.engine_link import EngineLink
from memory.cli.front import Choice, Complaints, Front, Output, choose, look
from memory.cli.jsonrpc import Message, read
from memory.cli.surface import Failure, Surface
from memory.config import client_folder
from memory.errors import UsageError
from tests.support.stand_in_engine import Asked, Reply, StandIn, Told, result, stand_in


def tool(name: str, toolset: str, **hints: bool) -> dict[str, Any]:
    described = {"name": name, "inputSchema": {"type": "object"}, "annotations": hints}
    return {"toolset": toolset, "name": name, "tool": described}


SURFACE = Surface(
    {
        "server": {"name": "tiermem", "title": "tiermem"},
        "instructions": "search first",
        "legacy_versions": ["2025-06-18", "2025-11-25"],
        "modern_versions": ["2026-07-28"],
        "legacy_capabilities": {"tools": {}},
        "modern_capabilities": {"tools": {}},
        "modern_envelope": {"resultType": "complete", "ttlMs": 5, "cacheScope": "private"},
        "toolsets": ["core", "context", "ops"],
        "default_toolsets": ["core", "context"],
        "tools": [
            tool("find", "core", readOnlyHint=True),
            tool("keep", "core", readOnlyHint=False, idempotentHint=True),
            tool("count", "ops", readOnlyHint=False, idempotentHint=False),
            tool("plain", "ops"),
        ],
        "prompts": [{"name": "recall"}],
        "resource_templates": [],
    },
    "1.2.3",
)

MODERN = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


class Client:
    """Speaks with a front of this process over pipes."""

    def __init__(self, choice: Choice) -> None:
        reading, self._writing = os.pipe()
        self._read = os.fdopen(reading, "rb")
        self.front = Front(SURFACE, choice, Output(self._writing), Complaints())

    def say(self, *messages: dict[str, Any] | bytes) -> None:
        for message in messages:
            raw = message if isinstance(message, bytes) else json.dumps(message).encode()
            self.front.take(raw + b"\n")

    def hear(self) -> dict[str, Any]:
        told: dict[str, Any] = json.loads(self._read.readline())
        return told

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        self.say(request("only", method, **params))
        return self.hear()

    def end(self) -> list[dict[str, Any]]:
        """Hang up, and hear what is still said."""
        self.front.serve(io.BytesIO())
        os.close(self._writing)
        self._writing = -1
        with self._read:
            return [json.loads(line) for line in self._read]

    def close(self) -> None:
        if self._writing != -1:
            self.end()


def request(named: int | str, method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": named, "method": method, "params": params}


def call(named: int | str, name: str) -> dict[str, Any]:
    return request(named, "tools/call", name=name, arguments={})


def error_of(answer: dict[str, Any]) -> dict[str, Any]:
    """Read the error that a tool answered as data."""
    assert answer["result"]["isError"]
    (content,) = answer["result"]["content"]
    told: dict[str, Any] = json.loads(content["text"])
    return told


@pytest.fixture(autouse=True)
def this_process_lives_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """A front that ends would end the tests, and with success."""

    def end(code: int) -> None:
        raise AssertionError(f"the front ended with {code}")

    monkeypatch.setattr(front, "_end", end)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home"
    project = tmp_path / "project"
    folder.mkdir()
    project.mkdir()
    monkeypatch.setenv("TIERMEM_HOME", str(folder))
    monkeypatch.delenv("CLAUDE_PROJECT_DIR", raising=False)
    monkeypatch.chdir(project)
    return folder


@pytest.fixture
def listen(home: Path) -> Iterator[Callable[..., StandIn]]:
    with ExitStack() as stack:

        def start(reply: Reply = result) -> StandIn:
            return stack.enter_context(stand_in(home, reply))

        yield start


@pytest.fixture
def client(home: Path) -> Iterator[Client]:
    opened = Client(Choice())
    yield opened
    opened.close()


class Gate:
    """Holds the engine's answers back until a test opens it."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self._arrived = threading.Semaphore(0)

    def __call__(self, asked: Asked) -> Told:
        self._arrived.release()
        assert self.open.wait(30)
        return result(asked, about=asked.message["params"].get("name"))

    def wait_for(self, number: int) -> None:
        for _ in range(number):
            assert self._arrived.acquire(timeout=30)


# What a front answers by itself.


@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25"])
def test_a_client_gets_the_version_that_it_asks_for(client: Client, version: str) -> None:
    answer = client.ask("initialize", protocolVersion=version)

    assert answer["result"] == {
        "protocolVersion": version,
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "tiermem", "title": "tiermem", "version": "1.2.3"},
        "instructions": "search first",
    }


@pytest.mark.parametrize("params", [{"protocolVersion": "1.0"}, {}, {"protocolVersion": ["x"]}])
def test_a_client_that_asks_for_another_version_gets_the_newest(
    client: Client, params: dict[str, Any]
) -> None:
    assert client.ask("initialize", **params)["result"]["protocolVersion"] == "2025-11-25"


def test_a_modern_client_is_told_everything_in_one_answer(client: Client) -> None:
    answer = client.ask("server/discover", _meta=MODERN)

    info = {"name": "tiermem", "title": "tiermem", "version": "1.2.3"}
    assert answer["result"] == {
        "resultType": "complete",
        "ttlMs": 5,
        "cacheScope": "private",
        "supportedVersions": ["2026-07-28"],
        "capabilities": {"tools": {}},
        "instructions": "search first",
        "_meta": {"io.modelcontextprotocol/serverInfo": info},
    }


@pytest.mark.parametrize(
    ("flag", "setting", "names"),
    [
        ("", None, ["find", "keep"]),
        ("", "ops", ["count", "plain"]),
        ("", " Ops , core ", ["find", "keep", "count", "plain"]),
        ("ops", "core", ["count", "plain"]),
        (",", "ops", ["find", "keep"]),
        ("", "no-such", ["find", "keep"]),
    ],
)
def test_the_tools_of_the_chosen_toolsets_are_listed(
    home: Path, monkeypatch: pytest.MonkeyPatch, flag: str, setting: str | None, names: list[str]
) -> None:
    if setting is not None:
        monkeypatch.setenv("TIERMEM_MCP_TOOLSETS", setting)
    client = Client(Choice(toolsets=flag))

    answer = client.ask("tools/list")

    assert [tool["name"] for tool in answer["result"]["tools"]] == names
    client.close()


@pytest.mark.parametrize(
    ("flag", "setting", "told"),
    [("", None, None), ("", "ops", "ops"), ("core,ops", "ops", "core,ops")],
)
def test_the_engine_is_told_which_toolsets_were_chosen(
    listen: Callable[..., StandIn],
    home: Path,
    flag: str,
    setting: str | None,
    told: str | None,
) -> None:
    if setting:
        (home / "config.toml").write_text(f'mcp.toolsets = "{setting}"\n', encoding="utf-8")
    engine = listen()
    client = Client(Choice(toolsets=flag))

    client.say(call(1, "count"))
    client.end()

    assert engine.asked[0].headers.get("x-tiermem-toolsets") == told


def test_the_engine_is_told_the_version_that_was_agreed_on(
    listen: Callable[..., StandIn], client: Client
) -> None:
    engine = listen()
    client.ask("resources/list")
    client.ask("initialize", protocolVersion="2025-06-18")
    client.ask("resources/list")

    versions = [asked.headers["mcp-protocol-version"] for asked in engine.asked]
    assert versions == ["2025-11-25", "2025-06-18"]


# Nobody waits for somebody else, and everybody is answered once.


def test_a_slow_call_does_not_hold_up_what_is_known(
    listen: Callable[..., StandIn], client: Client
) -> None:
    gate = Gate()
    listen(gate)
    client.say(*(call(number, "find") for number in range(8)))
    gate.wait_for(8)

    client.say(request("ping", "ping"), request("list", "tools/list"))

    assert client.hear() == {"jsonrpc": "2.0", "id": "ping", "result": {}}
    assert client.hear()["id"] == "list"
    gate.open.set()
    assert sorted(answer["id"] for answer in client.end()) == list(range(8))


def test_eight_calls_are_with_the_engine_at_once_and_no_more(
    listen: Callable[..., StandIn], client: Client
) -> None:
    gate = Gate()
    engine = listen(gate)
    client.say(*(call(number, "find") for number in range(20)))
    gate.wait_for(8)

    assert len(engine.asked) == 8
    gate.open.set()
    assert sorted(answer["id"] for answer in client.end()) == list(range(20))


def test_every_request_is_answered_once(listen: Callable[..., StandIn], client: Client) -> None:
    chance = random.Random(7)
    pause = threading.Event()

    def reply(asked: Asked) -> Told | None:
        pause.wait(chance.random() * 0.003)
        return None if chance.random() < 0.1 else result(asked)

    listen(reply)
    asked = [call(number, chance.choice(("find", "keep", "count"))) for number in range(300)]
    client.say(*itertools.chain.from_iterable((m, request(f"p{m['id']}", "ping")) for m in asked))

    answers = client.end()

    expected = sorted([str(n) for n in range(300)] + [f"p{n}" for n in range(300)])
    assert sorted(str(answer["id"]) for answer in answers) == expected


def test_what_is_under_way_at_the_end_is_still_answered(
    listen: Callable[..., StandIn], client: Client
) -> None:
    gate = Gate()
    listen(gate)
    client.say(call(1, "keep"))
    gate.wait_for(1)
    threading.Timer(0.1, gate.open.set).start()

    (answer,) = client.end()

    assert answer["result"] == {"about": "keep"}


def test_what_takes_too_long_at_the_end_is_left(
    listen: Callable[..., StandIn], client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(front, "_LAST_ANSWERS_S", 0.1)
    gate = Gate()
    listen(gate)
    client.say(call(1, "find"))
    gate.wait_for(1)

    client.front.serve(io.BytesIO())

    gate.open.set()
    assert client.hear()["id"] == 1


def test_a_cancelled_request_is_not_answered(
    listen: Callable[..., StandIn], client: Client
) -> None:
    gate = Gate()
    engine = listen(gate)
    client.say(*(call(number, "find") for number in range(10)))
    gate.wait_for(8)
    # One that is with the engine, one that waits for a place, and the same id as a text.
    for named in (3, 9, "4"):
        cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled"}
        client.say({**cancelled, "params": {"requestId": named}})

    gate.open.set()

    assert sorted(answer["id"] for answer in client.end()) == [0, 1, 2, 4, 5, 6, 7, 8]
    assert 9 not in [asked.message["id"] for asked in engine.asked]


@pytest.mark.parametrize("params", [{}, {"requestId": None}, {"requestId": [1]}, {"requestId": 5}])
def test_a_cancellation_of_nothing_does_no_harm(client: Client, params: dict[str, Any]) -> None:
    client.say({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})

    assert client.ask("ping")["result"] == {}


def test_notifications_and_answers_of_the_client_reach_nobody(
    listen: Callable[..., StandIn], client: Client
) -> None:
    engine = listen()
    client.say(
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "keep"}},
        {"jsonrpc": "2.0", "id": 1, "result": {}},
    )

    assert client.end() == []
    assert engine.asked == []


def test_what_is_no_message_is_refused_and_the_next_is_answered(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(front, "LONGEST_LINE_BYTES", 100)
    ping = json.dumps(request(1, "ping")).encode()

    client.front.serve(io.BytesIO(b"{\n\n[]\n" + b"x" * 5000 + b"\n" + ping))

    codes = [client.hear() for _ in range(4)]
    assert [answer.get("error", {}).get("code") for answer in codes] == [
        -32700,
        -32600,
        -32600,
        None,
    ]
    assert [answer["id"] for answer in codes] == [None, None, None, 1]
    assert "at most 100 bytes" in codes[2]["error"]["message"]


def test_more_than_can_wait_is_refused_at_once(
    listen: Callable[..., StandIn], client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(front, "_MOST_OPEN", 2)
    gate = Gate()
    listen(gate)

    client.say(call(1, "find"), call(2, "find"), call(3, "find"))

    answer = client.hear()
    assert answer["id"] == 3
    assert error_of(answer)["retryable"] is True
    gate.open.set()
    assert sorted(answer["id"] for answer in client.end()) == [1, 2]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_request_over_which_a_front_stumbles_is_answered_and_the_next_ones_too(
    listen: Callable[..., StandIn], client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    listen()
    with monkeypatch.context() as broken:
        broken.setattr(EngineLink, "ask", lambda *_: 1 // 0)
        client.say(*(call(number, "find") for number in range(8)))
        answers = [client.hear() for _ in range(8)]

    assert {error_of(answer)["error"] for answer in answers} == {"internal"}
    client.say(call("next", "find"))
    assert client.hear() == {"jsonrpc": "2.0", "id": "next", "result": {}}


# What is told when something is wrong.


def test_a_failed_call_is_an_answer_that_an_agent_can_read(
    listen: Callable[..., StandIn], client: Client
) -> None:
    listen(lambda _: None)

    answer = client.ask("tools/call", name="count")

    told = error_of(answer)
    assert told["error"] == "outcome-unknown"
    assert set(told) == {"error", "detail", "hint", "retryable"}
    assert set(answer["result"]) == {"content", "isError"}


def test_a_failed_call_of_a_modern_client_has_its_envelope(
    listen: Callable[..., StandIn], client: Client
) -> None:
    listen(lambda _: None)

    answer = client.ask("tools/call", name="count", _meta=MODERN)

    assert error_of(answer)["error"] == "outcome-unknown"
    assert answer["result"]["resultType"] == "complete"
    assert "io.modelcontextprotocol/serverInfo" in answer["result"]["_meta"]


def test_another_failed_request_is_an_error_of_the_protocol(
    listen: Callable[..., StandIn], client: Client
) -> None:
    problem = {"code": "down", "detail": "no", "hint": "wait", "status": 503, "retryable": True}
    listen(lambda _: Told(json.dumps(problem).encode(), 503, "application/problem+json"))

    error = client.ask("resources/list")["error"]

    assert error == {
        "code": -32603,
        "message": "no; wait",
        "data": {"code": "down", "hint": "wait", "retryable": True},
    }


@pytest.mark.parametrize(
    ("name", "is_repeatable"),
    [
        ("find", True),
        ("keep", True),
        ("count", False),
        ("plain", False),
        ("gone", False),
        (5, False),
    ],
)
def test_a_tool_is_called_again_when_its_hints_allow_that(name: Any, is_repeatable: bool) -> None:
    message = read(json.dumps(request(1, "tools/call", name=name)).encode())
    assert isinstance(message, Message)

    assert SURFACE.is_repeatable(message) is is_repeatable


def test_what_is_no_tool_may_be_asked_again() -> None:
    message = read(json.dumps(request(1, "prompts/get", name="recall")).encode())
    assert isinstance(message, Message)

    assert SURFACE.is_repeatable(message)


def test_broken_settings_are_told_by_a_call_until_they_are_mended(
    listen: Callable[..., StandIn], home: Path
) -> None:
    (home / "config.toml").write_text("this is = = no toml", encoding="utf-8")
    listen()
    client = Client(Choice())

    assert "result" in client.ask("initialize")
    assert len(client.ask("tools/list")["result"]["tools"]) == 2
    told = error_of(client.ask("tools/call", name="find"))
    assert told["error"] == "usage-error"
    assert "config.toml" in told["detail"]
    (home / "config.toml").write_text('mcp.toolsets = "ops"', encoding="utf-8")
    assert client.ask("tools/call", name="find")["result"] == {}
    assert len(client.ask("tools/list")["result"]["tools"]) == 2
    client.close()


def test_an_unknown_toolset_in_the_settings_is_told_by_a_call(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIERMEM_MCP_TOOLSETS", "core,gardening")
    client = Client(Choice())

    told = error_of(client.ask("tools/call", name="find"))

    assert "'gardening'" in told["detail"]
    assert "core, context, ops" in told["hint"]
    client.close()


def test_a_folder_that_is_none_is_told_by_a_call(tmp_path: Path, home: Path) -> None:
    client = Client(Choice(project=str(tmp_path / "nowhere")))

    assert "result" in client.ask("initialize")
    told = error_of(client.ask("tools/call", name="find"))

    assert "nowhere" in told["detail"]
    assert "--project" in told["hint"]
    client.close()


# Where a front works.


def test_the_project_is_the_given_folder_else_the_clients_else_the_working_folder(
    listen: Callable[..., StandIn],
    home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = listen()
    given, named = tmp_path / "given ü", tmp_path / "named"
    given.mkdir()
    named.mkdir()

    def folder(project: str) -> str:
        client = Client(Choice(project=project))
        client.say(call(1, "find"))
        client.end()
        return unquote(engine.asked[-1].headers["x-tiermem-folder"])

    assert folder("") == str(tmp_path / "project")
    monkeypatch.setenv("CLAUDE_PROJECT_DIR", str(named))
    assert folder("") == str(named)
    assert folder(str(given)) == str(given)
    assert folder("../given ü") == str(tmp_path / "project" / ".." / "given ü")


@pytest.mark.parametrize(
    "given",
    ["nowhere", "${workspaceFolder}", "~nobody-of-that-name/x", "a\0b", "x" * 5000, "\udcff"],
)
def test_what_is_no_folder_is_refused_with_what_to_do(given: str) -> None:
    with pytest.raises(UsageError) as refused:
        client_folder(given, {})

    assert refused.value.hint


def test_a_tilde_stands_for_the_home_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shop").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))

    assert client_folder("~/shop", {}) == tmp_path / "shop"


def test_a_working_folder_that_is_gone_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()

    with pytest.raises(UsageError, match="working folder"):
        client_folder("", {})
    monkeypatch.chdir(tmp_path)


def test_a_home_that_is_no_text_is_told_by_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIERMEM_HOME", "/tmp/\udcff")

    problem = look(Choice(), SURFACE).problem

    assert isinstance(problem, Failure)
    assert problem.code == "home-refused"


# The command line.


@pytest.mark.parametrize(
    ("words", "choice"),
    [
        ([], Choice()),
        (["--project", "a", "--toolsets", "core"], Choice("a", "core")),
        (["--toolsets=core,ops", "--project=a=b"], Choice("a=b", "core,ops")),
        (["--project", "--toolsets"], Choice("--toolsets")),
    ],
)
def test_options_are_given_with_a_space_or_an_equals_sign(words: list[str], choice: Choice) -> None:
    assert choose(words) == choice


@pytest.mark.parametrize(
    "words", [["--verbose"], ["core"], ["--project"], ["-p", "x"], ["--proj=x"]]
)
def test_what_is_no_option_is_refused(words: list[str]) -> None:
    with pytest.raises(UsageError) as refused:
        choose(words)

    assert "--help" in refused.value.hint


def test_people_are_told_little(capsys: pytest.CaptureFixture[str]) -> None:
    """A client may never read stderr; a full pipe would stop the front."""
    complaints = Complaints()

    for number in range(100_000):
        complaints.say(f"request {number} failed")

    assert len(capsys.readouterr().err) < 65_536
