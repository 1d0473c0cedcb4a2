"""The protocol in both of its generations, without the front."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from memory.config import PROJECT_FILE
from memory.engine import surface
from memory.engine.host import Host
from memory.engine.mcp import McpDoor
from memory.engine.toolbox import INSTRUCTIONS
from memory.engine.tools.tool import Toolset
from memory.projects import write_id_file
from tests.support.agents import LEGACY, MODERN, Agent, served

GENERATIONS = pytest.mark.parametrize("version", ["2024-11-05", "2025-06-18", LEGACY, MODERN])


@pytest.fixture
def agent(host: Host, tmp_path: Path) -> Iterator[Agent]:
    folder = tmp_path / "project"
    folder.mkdir()
    with served(host) as (portal, client):
        yield Agent(portal, client, folder)


@GENERATIONS
def test_every_generation_lists_and_calls_tools(agent: Agent, version: str) -> None:
    agent.version = version

    names = [tool["name"] for tool in agent.result("tools/list")["tools"]]
    agent.do("memory_save", text="deploys happen on Tuesdays")

    assert names[:2] == ["memory_search", "memory_save"]
    assert agent.do("memory_search", query="deploys")["hits"]


@GENERATIONS
def test_what_the_front_answers_is_what_the_engine_answers(agent: Agent, version: str) -> None:
    agent.version = version
    shown = surface.load()

    assert agent.result("tools/list")["tools"] == [
        entry["tool"] for entry in shown["tools"] if entry["toolset"] in shown["default_toolsets"]
    ]
    assert agent.result("prompts/list")["prompts"] == shown["prompts"]
    templates = agent.result("resources/templates/list")["resourceTemplates"]
    assert templates == shown["resource_templates"]


def test_a_legacy_client_is_greeted(agent: Agent) -> None:
    client = {
        "protocolVersion": LEGACY,
        "capabilities": {},
        "clientInfo": {"name": "x", "version": "1"},
    }
    shown = surface.load()

    greeting = agent.result("initialize", client)

    assert greeting["protocolVersion"] == LEGACY
    assert greeting["capabilities"] == shown["legacy_capabilities"]
    assert greeting["instructions"] == shown["instructions"] == INSTRUCTIONS


def test_a_modern_client_discovers(agent: Agent) -> None:
    agent.version = MODERN
    shown = surface.load()

    found = agent.result("server/discover")

    assert found["supportedVersions"] == shown["modern_versions"]
    assert found["capabilities"] == shown["modern_capabilities"]
    assert {key: found[key] for key in shown["modern_envelope"]} == shown["modern_envelope"]


@GENERATIONS
def test_an_unknown_method_is_refused_at_once(agent: Agent, version: str) -> None:
    agent.version = version

    assert agent.ask("no/such/method")["error"]["code"] == -32601


def test_an_unknown_tool_is_an_error_of_the_protocol(agent: Agent) -> None:
    answer = agent.ask("tools/call", {"name": "no_such_tool", "arguments": {}})

    assert answer["error"]["code"] == -32602


def test_a_tool_that_is_switched_off_says_how_to_switch_it_on(agent: Agent) -> None:
    problem = agent.call("memory_pin", id="x").problem

    assert "--toolsets core,context,lifecycle" in problem["hint"]


def test_toolsets_are_chosen_by_header_and_url(agent: Agent) -> None:
    agent.toolsets = "ops"
    by_header = {tool["name"] for tool in agent.result("tools/list")["tools"]}

    assert by_header == {"memory_list", "memory_doctor", "memory_held"}


def test_an_unknown_toolset_is_refused(agent: Agent) -> None:
    agent.toolsets = "everything"
    answer = agent.post("tools/list")

    assert answer.status_code == 400
    assert "everything" in answer.json()["detail"]


@pytest.mark.parametrize("folder", ["/no/such/folder", "relative", "\0", "x" * 5_000])
def test_a_folder_that_is_none_is_refused(agent: Agent, folder: str) -> None:
    agent.folder = Path(folder)
    answer = agent.post("tools/list")

    assert answer.status_code == 400
    assert answer.json()["hint"]


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT"])
def test_there_is_no_stream_and_no_session(agent: Agent, method: str) -> None:
    answer = agent.portal.call(lambda: agent.client.request(method, "/mcp"))

    assert answer.status_code == 405
    assert answer.headers["allow"] == "POST"


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"null", b"\xff", b'{"jsonrpc":"2.0"}', b"[" * 5_000]
)
def test_a_body_that_is_no_message_is_refused(agent: Agent, body: bytes) -> None:
    headers = {
        "Accept": "application/json, text/event-stream",
        "Content-Type": "application/json",
        "X-Tiermem-Folder": str(agent.folder),
    }
    answer = agent.portal.call(lambda: agent.client.post("/mcp", content=body, headers=headers))

    assert 400 <= answer.status_code < 500


def test_the_hot_index_and_memories_are_resources(agent: Agent) -> None:
    agent.do("memory_save", text="deploys happen on Tuesdays", name="deploy day")
    listed = agent.result("resources/list")["resources"]

    texts = [
        agent.result("resources/read", {"uri": one["uri"]})["contents"][0]["text"] for one in listed
    ]

    assert len(texts) == 2
    assert all("<memory " in text for text in texts)
    assert "deploy-day.md" in texts[0]
    assert "deploys happen on Tuesdays" in texts[1]


@pytest.mark.parametrize(
    "uri", ["memory://", "memory://x", "file:///etc/passwd", "memory://x/../../y", "memory://x/y?z"]
)
def test_an_address_that_is_no_memory_is_refused(agent: Agent, uri: str) -> None:
    error = agent.ask("resources/read", {"uri": uri})["error"]

    assert error["code"] == -32602
    assert "passwd" not in json.dumps(error) or "no memory" in error["message"]


def test_prompts_are_filled_in(agent: Agent) -> None:
    agent.do("memory_save", text="deploys happen on Tuesdays")

    def text(name: str, **arguments: str) -> str:
        result = agent.result("prompts/get", {"name": name, "arguments": arguments})
        said: str = result["messages"][0]["content"]["text"]
        return said

    recall = text("recall", query="deploys")
    assert "deploys happen on Tuesdays" in recall
    assert "<memory " in recall
    assert "Keep this: the port" in text("remember", what="the port")
    assert "It must say: ask Ada" in text("handoff", note="ask Ada")
    assert "error" in agent.ask("prompts/get", {"name": "recall", "arguments": {}})
    assert "error" in agent.ask("prompts/get", {"name": "no-such", "arguments": {}})


def test_the_default_tools_cost_what_the_design_allows() -> None:
    spent = surface.cost(surface.load())

    assert spent.schema_tokens <= surface.MOST_SCHEMA_TOKENS
    assert spent.list_tokens <= surface.MOST_LIST_TOKENS


def test_descriptions_and_instructions_are_not_cut_by_clients() -> None:
    shown = surface.load()

    assert len(shown["instructions"].encode()) <= 2_048
    assert all(len(entry["tool"]["description"].encode()) <= 2_048 for entry in shown["tools"])


def test_the_two_tools_that_matter_most_are_always_loaded() -> None:
    always = [
        entry["name"]
        for entry in surface.load()["tools"]
        if entry["tool"].get("_meta", {}).get("anthropic/alwaysLoad")
    ]

    assert always == ["memory_search", "memory_save"]


def test_every_tool_is_annotated() -> None:
    for entry in surface.load()["tools"]:
        hints = entry["tool"]["annotations"]
        assert hints["openWorldHint"] is False
        if not hints["readOnlyHint"]:
            assert hints.keys() >= {"destructiveHint", "idempotentHint"}
        assert entry["toolset"] in list(Toolset)


def test_a_repository_with_another_projects_id_file_is_refused(
    agent: Agent, host: Host, tmp_path: Path
) -> None:
    agent.do("memory_save", text="our port is 6543")
    write_id_file(agent.folder, host.app.projects.resolve(agent.folder).key)
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / PROJECT_FILE).write_bytes((agent.folder / PROJECT_FILE).read_bytes())

    agent.folder = theirs
    answer = agent.post("tools/call", {"name": "memory_search", "arguments": {"query": "port"}})

    assert answer.status_code == 403
    assert answer.json()["code"] == "project-refused"
    assert "6543" not in answer.text


def test_an_sdk_that_cannot_be_loaded_is_an_answer_and_not_a_silence(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(_: McpDoor) -> None:
        raise ImportError("no module named mcp")

    with monkeypatch.context() as broken:
        broken.setattr(McpDoor, "_manager", missing)
        answer = agent.post("tools/list")

    assert answer.status_code == 500
    assert "install" in answer.json()["hint"]
    assert agent.result("tools/list")["tools"]
