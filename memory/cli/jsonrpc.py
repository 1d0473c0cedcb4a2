"""Messages of the Model Context Protocol, read and written line by line. Standard library only.

Two generations are spoken at once: the modern one names its version in every request, the legacy
one agreed on it at `initialize`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
UNSUPPORTED_VERSION = -32022

VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities"
SERVER_KEY = "io.modelcontextprotocol/serverInfo"

Id = int | str

_BOM = "\N{ZERO WIDTH NO-BREAK SPACE}"


@dataclass(frozen=True, slots=True)
class Message:
    """A request, or a notification when `id` is None; `raw` is what came, without line ends."""

    raw: bytes
    method: str
    id: Id | None = None
    params: Mapping[str, Any] = field(default_factory=dict)

    @property
    def meta(self) -> Mapping[str, Any]:
        meta = self.params.get("_meta")
        return meta if isinstance(meta, dict) else {}

    @property
    def is_modern(self) -> bool:
        return VERSION_KEY in self.meta


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a message is not carried out, in the protocol's words."""

    code: int
    message: str
    id: Id | None = None
    data: Any = None

    def line(self) -> bytes:
        error: dict[str, Any] = {"code": self.code, "message": self.message}
        if self.data is not None:
            error["data"] = self.data
        return encode({"jsonrpc": "2.0", "id": self.id, "error": error})


def result_line(id: Id | None, result: Mapping[str, Any]) -> bytes:  # noqa: A002 - its name there
    """Write the answer to a request."""
    return encode({"jsonrpc": "2.0", "id": id, "result": result})


def encode(data: Mapping[str, Any]) -> bytes:
    """Write one line, in ASCII: nothing in it can be taken for the end of a line."""
    return json.dumps(data, separators=(",", ":")).encode("ascii")


def decode(raw: bytes) -> Any:
    """Read JSON as the standard has it. Raises ValueError, for too deep a nesting too."""
    try:
        return json.loads(raw.decode("utf-8"), parse_constant=_no_number)
    except RecursionError as exc:
        raise ValueError("it is nested too deeply") from exc


def is_plain(text: str) -> bool:
    """Say whether a text can stand in a header as it is."""
    return text.isascii() and text.isprintable() and text == text.strip()


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no JSON")


def read(line: bytes) -> Message | Refusal | None:
    """Read one line of a client; None for what needs no answer: nothing, or an answer of its own.

    Whatever a client sends ends in one of these, never in an exception.
    """
    raw = line.strip(b" \t\r\n").removeprefix(_BOM.encode()).lstrip(b" \t")
    if not raw:
        return None
    try:
        data = decode(raw)
    except ValueError:
        return Refusal(PARSE_ERROR, "Parse error: this line is no JSON")
    if not isinstance(data, dict):
        return Refusal(INVALID_REQUEST, "Invalid request: one JSON object a line, no batches")
    return _message(raw, data)


def _message(raw: bytes, data: Mapping[str, Any]) -> Message | Refusal | None:
    named = data.get("id")
    known = named if isinstance(named, (int, str)) and not isinstance(named, bool) else None
    method, params = data.get("method"), data.get("params")
    if method is None and ("result" in data or "error" in data):
        return None
    wrong = ""
    if data.get("jsonrpc") != "2.0":
        wrong = 'jsonrpc must be "2.0"'
    elif not isinstance(method, str):
        wrong = "method must be a text"
    elif "id" in data and known is None:
        wrong = "id must be a text or a whole number"
    elif not isinstance(params, (dict, type(None))):
        wrong = "params must be an object"
    if wrong or not isinstance(method, str):
        return Refusal(INVALID_REQUEST, f"Invalid request: {wrong}", known)
    return Message(raw, method, known, params or {})
