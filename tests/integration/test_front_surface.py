"""What a front answers by itself is what the engine would have answered."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from anyio.from_thread import BlockingPortal
from mcp.shared.inbound import InboundLadderRejection, classify_inbound_request
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS

from memory.cli.engine_link import headers_of
from memory.cli.jsonrpc import VERSION_KEY, Message, read
from memory.cli.surface import Surface, load
from memory.engine.tools.tool import Toolset
from tests.support.agents import served
from tests.support.hosts import open_host

CLIENT = {"name": "test", "version": "1"}

MODERN = {
    "io.modelcontextprotocol/protocolVersion": MODERN_PROTOCOL_VERSIONS[-1],
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": CLIENT,
}

LISTS = ("tools/list", "prompts/list", "resources/templates/list")


@dataclass
class Both:
    """The engine, and the file that a front answers from."""

    portal: BlockingPortal
    client: httpx.AsyncClient
    surface: Surface
    folder: Path

    def engine(self, message: Message, *, version: str, toolsets: str) -> Any:
        headers = headers_of(message, legacy_version=version, folder=self.folder, toolsets=toolsets)
        response = self.portal.call(
            lambda: self.client.post("/mcp", content=message.raw, headers=headers)
        )
        return response.json()

    def front(self, message: Message, *, toolsets: str) -> Any:
        answer = self.surface.answer(message, self.surface.toolsets(toolsets))
        return None if answer is None else json.loads(answer)

    def assert_equal(
        self,
        method: str,
        params: dict[str, Any],
        *,
        version: str = HANDSHAKE_PROTOCOL_VERSIONS[-1],
        toolsets: str = "",
    ) -> Any:
        """Ask both; they must say the same. Gives what they said."""
        raw = json.dumps({"jsonrpc": "2.0", "id": "a", "method": method, "params": params})
        message = read(raw.encode())
        assert isinstance(message, Message)
        said = self.front(message, toolsets=toolsets)
        assert said == self.engine(message, version=version, toolsets=toolsets)
        return said


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    place = tmp_path_factory.mktemp("front")
    (place / "project").mkdir()
    host = open_host(place / "home")
    with served(host) as (portal, client):
        yield Both(portal, client, load(host.version), place / "project")
    host.stop()


@pytest.mark.parametrize("version", [*HANDSHAKE_PROTOCOL_VERSIONS, "1999-01-01", "2026-07-28"])
def test_a_handshake_is_answered_as_the_engine_does(both: Both, version: str) -> None:
    said = both.assert_equal(
        "initialize", {"protocolVersion": version, "capabilities": {}, "clientInfo": CLIENT}
    )

    known = version in HANDSHAKE_PROTOCOL_VERSIONS
    agreed = version if known else HANDSHAKE_PROTOCOL_VERSIONS[-1]
    assert said["result"]["protocolVersion"] == agreed
    assert said["result"]["serverInfo"]["name"] == "tiermem"
    assert said["result"]["instructions"]


def test_a_discovery_is_answered_as_the_engine_does(both: Both) -> None:
    said = both.assert_equal("server/discover", {"_meta": MODERN})

    assert said["result"]["supportedVersions"] == list(MODERN_PROTOCOL_VERSIONS)
    assert said["result"]["resultType"] == "complete"


@pytest.mark.parametrize("version", HANDSHAKE_PROTOCOL_VERSIONS)
@pytest.mark.parametrize("method", [*LISTS, "ping"])
def test_legacy_requests_are_answered_as_the_engine_does(
    both: Both, method: str, version: str
) -> None:
    assert "result" in both.assert_equal(method, {}, version=version)


@pytest.mark.parametrize("method", LISTS)
def test_modern_lists_are_answered_as_the_engine_does(both: Both, method: str) -> None:
    assert "result" in both.assert_equal(method, {"_meta": MODERN})


@pytest.mark.parametrize("toolsets", ["", *Toolset, "core,lifecycle,ops", "ops,core"])
@pytest.mark.parametrize("params", [{}, {"_meta": MODERN}], ids=["legacy", "modern"])
def test_the_tools_of_every_toolset_are_listed_as_the_engine_does(
    both: Both, toolsets: str, params: dict[str, Any]
) -> None:
    said = both.assert_equal("tools/list", params, toolsets=toolsets)

    names = [tool["name"] for tool in said["result"]["tools"]]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    "meta",
    [
        {**MODERN, VERSION_KEY: "2030-01-01"},
        {**MODERN, VERSION_KEY: ""},
        {**MODERN, VERSION_KEY: "2026-07-28\r\nX-Evil: 1"},
        {**MODERN, VERSION_KEY: None},
        {**MODERN, VERSION_KEY: 5},
        {VERSION_KEY: MODERN_PROTOCOL_VERSIONS[-1]},
    ],
)
@pytest.mark.parametrize("method", ["server/discover", "tools/list", "tools/call", "x/y"])
def test_an_envelope_that_is_not_whole_is_refused_in_the_words_of_the_sdk(
    method: str, meta: dict[str, Any]
) -> None:
    asked = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"_meta": meta}}
    message = read(json.dumps(asked).encode())
    assert isinstance(message, Message)
    refused = classify_inbound_request(asked)
    assert isinstance(refused, InboundLadderRejection)

    answer = load("1").answer(message, ())

    error = {"code": refused.code, "message": refused.message}
    if refused.data is not None:
        error["data"] = refused.data
    assert answer is not None
    assert json.loads(answer) == {"jsonrpc": "2.0", "id": 1, "error": error}


def test_a_modern_ping_is_refused_as_the_engine_does(both: Both) -> None:
    assert both.assert_equal("ping", {"_meta": MODERN})["error"]["code"] == -32601


@pytest.mark.parametrize("method", ["x\r\nX-Evil: 1", "ü", " x", ""])
def test_a_method_that_cannot_stand_in_a_header_is_there_for_nobody(method: str) -> None:
    raw = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": {"_meta": MODERN}})
    message = read(raw.encode())
    assert isinstance(message, Message)

    answer = load("1").answer(message, ())

    assert answer is not None
    assert json.loads(answer)["error"] == {
        "code": -32601,
        "message": "Method not found",
        "data": method,
    }


def test_a_legacy_discovery_is_refused_so_that_the_client_falls_back(both: Both) -> None:
    said = both.assert_equal("server/discover", {})

    assert said["error"]["code"] == -32601


@pytest.mark.parametrize("method", ["tools/call", "resources/list", "prompts/get", "x/y"])
@pytest.mark.parametrize("params", [{}, {"_meta": MODERN}], ids=["legacy", "modern"])
def test_everything_else_is_left_to_the_engine(
    both: Both, method: str, params: dict[str, Any]
) -> None:
    raw = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
    message = read(raw.encode())
    assert isinstance(message, Message)

    assert both.front(message, toolsets="") is None
