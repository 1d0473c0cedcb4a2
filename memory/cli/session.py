"""What every command shares: home, project, output, and the way to the engine."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click
from pydantic import BaseModel
from rich.console import Console

from memory import wire
from memory.cli.client import EngineClient
from memory.config import Settings, load_settings

Answer = TypeVar("Answer", bound=BaseModel)

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_PARTIAL = 3


@dataclass(slots=True)
class Session:
    """One run of the command line. stdout is data, stderr is for people."""

    folder: Path
    as_json: bool
    settings: Settings = field(init=False)
    client: EngineClient = field(init=False)

    def __post_init__(self) -> None:
        self.settings = load_settings()
        self.client = EngineClient(self.settings.home)

    @property
    def project(self) -> str:
        return str(self.folder.absolute())

    @property
    def is_terminal(self) -> bool:
        return sys.stdout.isatty()

    def ask(self, verb: str, request: wire.Wire, answer: type[Answer], **kwargs: Any) -> Answer:
        """Ask the engine and check its answer."""
        asked = request.model_dump(mode="json", exclude_none=True)
        return answer.model_validate(self.client.call(verb, asked, **kwargs))

    def show(self, answer: BaseModel, render: Callable[[Console], None]) -> None:
        """Print an answer: as JSON where programs look, else as `render` draws it."""
        if self.as_json:
            self.print_json(answer.model_dump(mode="json"))
        else:
            render(stdout())

    def print_json(self, data: Any) -> None:
        text = json.dumps(data, ensure_ascii=False, indent=2 if self.is_terminal else None)
        # What was remembered may hold what this terminal's encoding lacks.
        sys.stdout.buffer.write(text.encode("utf-8", "replace") + b"\n")
        sys.stdout.flush()


def stdout() -> Console:
    """A console for data: no colours and no wrapping when it is piped."""
    if sys.stdout.isatty():
        return Console(highlight=False)
    return Console(highlight=False, width=10_000, soft_wrap=True, no_color=True)


def stderr() -> Console:
    """A console for people."""
    return Console(stderr=True, highlight=False)


def say(text: str) -> None:
    """Tell a person something beside the data."""
    stderr().print(text, style="dim", markup=False)


def verb(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options that every verb has, and its session."""

    @click.option(
        "--project",
        "folder",
        type=click.Path(path_type=Path),
        default=Path(),
        metavar="DIR",
        help="A folder of the project (default: here).",
    )
    @click.option("--json", "as_json", is_flag=True, help="Print JSON with stable keys.")
    @wraps(function)
    def command(*args: Any, folder: Path, as_json: bool, **kwargs: Any) -> Any:
        return function(Session(folder, as_json), *args, **kwargs)

    return command


def examples(text: str) -> str:
    """Format examples for the end of a help page, kept as they are."""
    lines = "\n".join(f"  {line}" for line in text.strip().splitlines())
    return f"\b\nExamples:\n{lines}"
