"""What the MCP server shows of itself, from the file that is generated from the engine's code.

So a front answers what a client asks first at once, whether or not an engine runs.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memory.cli.jsonrpc import (
    CAPABILITIES_KEY,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    SERVER_KEY,
    UNSUPPORTED_VERSION,
    VERSION_KEY,
    Message,
    Refusal,
    is_plain,
    result_line,
)
from memory.errors import UsageError

FILE = Path(__file__).resolve().parents[1] / "engine" / "mcp_surface.json"

#: Lists that do not depend on what is remembered, and the name of each in its answer and here.
_LISTS = {
    "tools/list": ("tools", "tools"),
    "prompts/list": ("prompts", "prompts"),
    "resources/templates/list": ("resourceTemplates", "resource_templates"),
}


@dataclass(frozen=True, slots=True)
class Failure:
    """What went wrong, and what to do about it."""

    code: str
    detail: str
    hint: str
    retryable: bool = False


class Surface:
    """Answers for the server what the file knows. Never changes, so threads may share it."""

    def __init__(self, data: Mapping[str, Any], version: str) -> None:
        self._data = data
        self._info = {**data["server"], "version": version}
        self._tools = {entry["tool"]["name"]: entry["tool"] for entry in data["tools"]}

    @property
    def default_toolsets(self) -> tuple[str, ...]:
        return tuple(self._data["default_toolsets"])

    @property
    def newest_legacy(self) -> str:
        return str(self._data["legacy_versions"][-1])

    def toolsets(self, text: str) -> tuple[str, ...]:
        """Read names of toolsets with commas between. Raises UsageError for one there is not."""
        names = [name.strip().lower() for name in text.split(",") if name.strip()]
        known: Sequence[str] = self._data["toolsets"]
        for name in names:
            if name not in known:
                raise UsageError(
                    f"there is no toolset {name!r}", hint=f"choose from {', '.join(known)}"
                )
        return tuple(dict.fromkeys(names)) or self.default_toolsets

    def version_of(self, message: Message) -> str:
        """Choose the version that an `initialize` gets: its own if we speak that."""
        asked = message.params.get("protocolVersion")
        versions: Sequence[str] = self._data["legacy_versions"]
        return next((version for version in versions if version == asked), versions[-1])

    def answer(self, message: Message, toolsets: Collection[str]) -> bytes | None:
        """Answer a request at once; None for what the engine has to answer."""
        if message.is_modern and message.method != "initialize":
            refused = self._refused(message)
            if refused is not None:
                return refused.line()
            result = self._modern(message.method, toolsets)
        else:
            result = self._legacy(message, toolsets)
        if isinstance(result, Refusal):
            return Refusal(result.code, result.message, message.id, result.data).line()
        return None if result is None else result_line(message.id, result)

    def _modern(self, method: str, toolsets: Collection[str]) -> Mapping[str, Any] | Refusal | None:
        if method in ("ping", "") or not is_plain(method):
            return _unknown(method)
        shown: Mapping[str, Any] | None = self._list(method, toolsets)
        if method == "server/discover":
            shown = {
                "supportedVersions": self._data["modern_versions"],
                "capabilities": self._data["modern_capabilities"],
                "instructions": self._data["instructions"],
            }
        if shown is None:
            return None
        return {**self._data["modern_envelope"], **shown, "_meta": self._stamp()}

    def _legacy(
        self, message: Message, toolsets: Collection[str]
    ) -> Mapping[str, Any] | Refusal | None:
        if message.method == "ping":
            return {}
        if message.method == "server/discover":
            return _unknown(message.method)
        if message.method == "initialize":
            return {
                "protocolVersion": self.version_of(message),
                "capabilities": self._data["legacy_capabilities"],
                "serverInfo": self._info,
                "instructions": self._data["instructions"],
            }
        return self._list(message.method, toolsets)

    def _list(self, method: str, toolsets: Collection[str]) -> dict[str, Any] | None:
        if method not in _LISTS:
            return None
        name, key = _LISTS[method]
        entries = self._data[key]
        if method == "tools/list":
            entries = [entry["tool"] for entry in entries if entry["toolset"] in toolsets]
        return {name: entries}

    def _refused(self, message: Message) -> Refusal | None:
        """Refuse a modern request whose envelope is not whole, or of a version we do not speak."""
        version, known = message.meta[VERSION_KEY], self._data["modern_versions"]
        if CAPABILITIES_KEY not in message.meta:
            wrong = f"params._meta is missing the required envelope key(s): {CAPABILITIES_KEY}"
            return Refusal(INVALID_PARAMS, wrong, message.id)
        if not isinstance(version, str):
            wrong = "the protocol-version envelope value must be a string"
            return Refusal(INVALID_PARAMS, wrong, message.id)
        if version not in known:
            data = {"supported": known, "requested": version}
            return Refusal(UNSUPPORTED_VERSION, "Unsupported protocol version", message.id, data)
        return None

    def is_repeatable(self, message: Message) -> bool:
        """Say whether the same request may reach the engine twice without doing anything twice."""
        if message.method != "tools/call":
            return True
        name = message.params.get("name")
        tool = self._tools.get(name, {}) if isinstance(name, str) else {}
        hints = tool.get("annotations", {})
        return bool(hints.get("readOnlyHint") or hints.get("idempotentHint"))

    def tool_error(self, message: Message, failure: Failure) -> bytes:
        """Answer a call of a tool with an error as data, as the engine's own tools do."""
        told = {
            "error": failure.code,
            "detail": failure.detail,
            "hint": failure.hint,
            "retryable": failure.retryable,
        }
        text = json.dumps(told, ensure_ascii=False)
        result: dict[str, Any] = {"content": [{"type": "text", "text": text}], "isError": True}
        if message.is_modern:
            result |= {"resultType": "complete", "_meta": self._stamp()}
        return result_line(message.id, result)

    def _stamp(self) -> dict[str, Any]:
        return {SERVER_KEY: self._info}


def load(version: str, path: Path = FILE) -> Surface:
    """Read the file that belongs to this version."""
    return Surface(json.loads(path.read_bytes()), version)


def _unknown(method: str) -> Refusal:
    return Refusal(METHOD_NOT_FOUND, "Method not found", data=method)
