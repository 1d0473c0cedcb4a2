"""One server's entry in a client's settings: what is written, and what is kept of a person's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

_LAUNCHER = "tiermem_launch.py"
_PROGRAMS = ("tiermem", "tiermem.exe", _LAUNCHER)
_FRONT = "mcp"

#: What an entry says to switch a server off: a key, and the value that does it.
_SWITCHES = (("enabled", False), ("disabled", True))


class State(Enum):
    """What an entry of our name does."""

    STARTS = "it starts tiermem"
    STALE = "it means to start tiermem, and cannot"
    FOREIGN = "it starts something else"


@dataclass(frozen=True, slots=True)
class Shape:
    """How a client writes a server that it starts: keys of its own, and how it takes words."""

    before: Mapping[str, Any]
    after: Mapping[str, Any]
    is_one_list: bool = False

    def entry(self, words: Sequence[str]) -> dict[str, Any]:
        """Write the entry that starts these words."""
        return {**self.before, **self.command(words), **self.after}

    def command(self, words: Sequence[str]) -> dict[str, Any]:
        """Write the part of an entry that names the words."""
        if self.is_one_list:
            return {"command": list(words)}
        return {"command": words[0], "args": list(words[1:])}


def state(entry: Any) -> State:
    """Judge an entry: a person's own way of starting tiermem is as good as ours."""
    words = _words(entry)
    program = next((i for i, word in enumerate(words) if _names_program(word)), None)
    if program is None:
        return State.FOREIGN
    is_front = any(_FRONT in word.split() for word in words[program:])
    if program and not words[program].endswith(_LAUNCHER):
        # Something of a person's own that starts it: a shell, a container, a package runner.
        return State.STARTS if is_front else State.FOREIGN
    return State.STARTS if is_front and not _is_gone(words[: program + 1]) else State.STALE


def is_switched_off(entry: Mapping[str, Any]) -> bool:
    """Say whether the client leaves this server alone."""
    return any(entry.get(key) is value for key, value in _SWITCHES)


def repaired(entry: Any, launch: Sequence[str], ours: Sequence[str]) -> list[str]:
    """Give the words that a stale entry should have: its own arguments, if it has any."""
    words = _words(entry)
    own = words[words.index(_FRONT) :] if _FRONT in words else []
    return [*launch, *(own or ours)]


def _words(entry: Any) -> list[str]:
    """Take what an entry starts; nothing for one that is no command."""
    if not isinstance(entry, dict):
        return []
    command, arguments = entry.get("command"), entry.get("args", [])
    found = [
        *(command if isinstance(command, list) else [command]),
        *(arguments if isinstance(arguments, list) else []),
    ]
    words = [word for word in found if isinstance(word, str)]
    return words if len(words) == len(found) else []


def _names_program(word: str) -> bool:
    pieces = (word, *word.split())
    return any(piece.replace("\\", "/").rpartition("/")[2] in _PROGRAMS for piece in pieces)


def _is_gone(program: Sequence[str]) -> bool:
    """Say whether one of these words is a path with nothing there."""
    return any(Path(word).is_absolute() and not Path(word).exists() for word in program)
