"""The MCP clients that are set up, and what each of them reads.

Formats as of late 2026. Claude Code 2.1, Codex 0.171, Gemini CLI 0.61 and opencode 1.18 were run
on what is written here; the others are after their documentation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from memory.clients.entry import Shape
from memory.clients.json_format import JsonFormat
from memory.clients.jsonc import Dialect
from memory.clients.toml_format import TomlFormat

#: What our server is called in every client.
SERVER = "tiermem"

_FRONT = ("mcp",)
_FRONT_OF_FOLDER = ("mcp", "--project", "${workspaceFolder}")

Keys = tuple[str, ...]


class Format(Protocol):
    """How a client writes settings. Every method is pure and raises ValueError, saying where."""

    def read(self, text: str) -> dict[str, Any]: ...

    def new(self, keys: Keys, value: dict[str, Any], /) -> str: ...

    def add(self, text: str, keys: Keys, value: dict[str, Any], /) -> str: ...

    def set(self, text: str, keys: Keys, value: Any, /) -> str: ...

    def remove(self, text: str, keys: Keys, /) -> str | None: ...


@dataclass(frozen=True, slots=True)
class Client:
    """One client. Of its files the first is made when none is there.

    `words` are what tiermem is given; a client that may start servers anywhere names the folder.
    """

    name: str
    title: str
    format: Format
    servers: Keys
    shape: Shape
    project_files: tuple[str, ...]
    user_files: tuple[str, ...] = ()
    words: tuple[str, ...] = _FRONT
    next_step: str = ""
    user_hint: str = ""

    def files(self, *, user: bool) -> tuple[str, ...]:
        return self.user_files if user else self.project_files

    def place(self, settings: Mapping[str, Any]) -> tuple[Keys, Shape]:
        """Say where in these settings our entry stands or belongs, and in which shape."""
        del settings
        return (*self.servers, SERVER), self.shape


class _OpenCode(Client):
    """opencode 2 also has a map of its own for servers; it still reads the old one."""

    __slots__ = ()

    def place(self, settings: Mapping[str, Any]) -> tuple[Keys, Shape]:
        old = settings.get("mcp")
        new = old.get("servers") if isinstance(old, dict) else None
        if not isinstance(new, dict) or _is_server(new):
            return super().place(settings)
        if isinstance(old, dict) and SERVER in old and SERVER not in new:
            return super().place(settings)
        return ("mcp", "servers", SERVER), Shape({"type": "local"}, {}, is_one_list=True)


def _is_server(value: Mapping[str, Any]) -> bool:
    """Tell a server that somebody called `servers` from a map of servers."""
    return any(not isinstance(item, dict) for item in value.values())


_PLAIN = JsonFormat(Dialect())
_COMMENTED = JsonFormat(Dialect(comments=True))
_RELAXED = JsonFormat(Dialect(comments=True, trailing_commas=True))

_COMMAND = Shape({}, {})
_STDIO = Shape({"type": "stdio"}, {})

CLIENTS: Mapping[str, Client] = {
    client.name: client
    for client in (
        Client(
            "claude-code",
            "Claude Code",
            _PLAIN,
            ("mcpServers",),
            _COMMAND,
            (".mcp.json",),
            next_step="approve it when claude starts there; `claude mcp get tiermem` shows it",
            user_hint="run: claude mcp add --scope user tiermem -- tiermem mcp",
        ),
        Client(
            "cursor",
            "Cursor",
            _RELAXED,
            ("mcpServers",),
            _STDIO,
            (".cursor/mcp.json",),
            words=_FRONT_OF_FOLDER,
            next_step="switch the server on in Cursor's settings, under MCP",
            user_hint="Cursor tells a server in ~/.cursor/mcp.json no project; leave out --user",
        ),
        Client(
            "vscode",
            "VS Code",
            _RELAXED,
            ("servers",),
            _STDIO,
            (".vscode/mcp.json",),
            words=_FRONT_OF_FOLDER,
            next_step="run “MCP: List Servers” in VS Code and start the server there",
            user_hint="run “MCP: Open User Configuration” in VS Code and paste what --print gives",
        ),
        Client(
            "codex",
            "Codex",
            TomlFormat(),
            ("mcp_servers",),
            # Codex hands on no variable that is not named: the home would be another one.
            Shape({}, {"env_vars": ["TIERMEM_HOME", "XDG_DATA_HOME"]}),
            (".codex/config.toml",),
            (".codex/config.toml",),
            next_step="trust the folder when codex asks; `codex mcp get tiermem` shows the server",
        ),
        Client(
            "gemini",
            "Gemini CLI",
            _COMMENTED,
            ("mcpServers",),
            _COMMAND,
            (".gemini/settings.json",),
            (".gemini/settings.json",),
            next_step="trust the folder when gemini asks; `gemini mcp list` shows the server",
        ),
        _OpenCode(
            "opencode",
            "opencode",
            _RELAXED,
            ("mcp",),
            Shape({"type": "local"}, {"enabled": True}, is_one_list=True),
            (
                "opencode.json",
                "opencode.jsonc",
                ".opencode/opencode.json",
                ".opencode/opencode.jsonc",
            ),
            (".config/opencode/opencode.json", ".config/opencode/opencode.jsonc"),
            next_step="`opencode mcp list` shows the server",
        ),
        Client(
            "zed",
            "Zed",
            _RELAXED,
            ("context_servers",),
            _COMMAND,
            (".zed/settings.json",),
            (".config/zed/settings.json",),
            next_step="trust the folder when Zed asks; the agent panel's settings show the server",
        ),
    )
}


def snippet(client: Client, launch: Sequence[str]) -> str:
    """Write what belongs into a client's settings, for somebody who edits them by hand."""
    keys, shape = client.place({})
    return client.format.new(keys, shape.entry([*launch, *client.words]))
