"""What clients see of the MCP server without calling it, and what that costs an agent.

`mcp_surface.json` is made from the code by `scripts/generate`. The stdio front answers from it,
engine or not, so the two must agree; a test compares them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from memory.engine.tools.tool import CHARACTERS_A_TOKEN, DEFAULT_TOOLSETS, Toolset

PATH = Path(__file__).with_name("mcp_surface.json")

#: What core and context may cost in names, descriptions and input schemas, and `tools/list` as a
#: whole (DESIGN section 6).
MOST_SCHEMA_TOKENS = 2_500
MOST_LIST_TOKENS = 5_000


@dataclass(frozen=True, slots=True)
class Cost:
    """Tokens that tools cost an agent: by what a model reads of them, and as they are listed."""

    tools: int
    schema_tokens: int
    list_tokens: int


def load() -> dict[str, Any]:
    """Read the generated file."""
    loaded: dict[str, Any] = json.loads(PATH.read_text(encoding="utf-8"))
    return loaded


def cost(surface: Mapping[str, Any], toolsets: Iterable[str] = DEFAULT_TOOLSETS) -> Cost:
    """Count what the tools of some toolsets cost, in compact JSON at 4 characters a token."""
    chosen = set(toolsets)
    tools = [entry["tool"] for entry in surface["tools"] if entry["toolset"] in chosen]
    read = [{key: tool[key] for key in ("name", "description", "inputSchema")} for tool in tools]
    return Cost(len(tools), _tokens(read), _tokens({"tools": tools}))


def _tokens(data: Any) -> int:
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return -(-len(text) // CHARACTERS_A_TOKEN)


def generate() -> dict[str, Any]:
    """Ask the server itself what it shows, in both generations of the protocol."""
    from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS

    from memory.engine.mcp import NAME, STEADY_MS, build_server, listed_prompts, listed_templates
    from memory.engine.mcp import tool_of as describe
    from memory.engine.toolbox import TOOLS

    server = build_server("0")
    newest = MODERN_PROTOCOL_VERSIONS[-1]

    def wired(model: BaseModel) -> dict[str, Any]:
        return model.model_dump(mode="json", by_alias=True, exclude_none=True)

    return {
        "about": "Made by scripts/generate from memory/engine; do not edit.",
        "server": {"name": NAME, "title": NAME},
        "instructions": server.instructions,
        "legacy_versions": list(HANDSHAKE_PROTOCOL_VERSIONS),
        "modern_versions": list(MODERN_PROTOCOL_VERSIONS),
        "legacy_capabilities": wired(server.get_capabilities()),
        "modern_capabilities": wired(server.get_capabilities(protocol_version=newest)),
        "modern_envelope": {
            "resultType": "complete",
            "ttlMs": STEADY_MS,
            "cacheScope": "private",
        },
        "toolsets": list(Toolset),
        "default_toolsets": list(DEFAULT_TOOLSETS),
        "tools": [
            {"toolset": tool.toolset, "name": tool.name, "tool": wired(describe(tool))}
            for tool in TOOLS
        ],
        "prompts": [wired(prompt) for prompt in listed_prompts()],
        "resource_templates": [wired(template) for template in listed_templates()],
    }


def text_of(surface: Mapping[str, Any]) -> str:
    """Lay the generated file out: one line a tool, so that a change is seen in a diff."""
    lines = []
    for key, value in surface.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            inner = ",\n".join("  " + _compact(one) for one in value)
            lines.append(f" {json.dumps(key)}: [\n{inner}\n ]")
        else:
            lines.append(f" {json.dumps(key)}: {_compact(value)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
