"""What every command shares: home, project, output, and the way to the engine."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, wraps
from pathlib import Path
from typing import Any, Literal, TypeVar

import click
from pydantic import BaseModel
from rich.console import Console

from memory import wire
from memory.cli.client import EngineClient
from memory.config import Settings, default_home, is_unicode, load_settings
from memory.errors import UsageError

Answer = TypeVar("Answer", bound=BaseModel)

#: Nothing is wrapped when it is piped.
_PIPE_WIDTH = 10_000

#: Control characters but tab and line feed; C1 ones too, which some terminals obey.
_CONTROLS = dict.fromkeys(
    (*range(9), 11, 12, *range(14, 32), *range(127, 160)), "\N{REPLACEMENT CHARACTER}"
) | {13: None}

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_PARTIAL = 3


@dataclass
class Session:
    """One run of the command line. stdout is data, stderr is for people."""

    folder: Path
    as_json: bool

    @cached_property
    def settings(self) -> Settings:
        return load_settings()

    @cached_property
    def client(self) -> EngineClient:
        """The way to the engine. Needs no settings: broken ones must not keep it from ending."""
        return EngineClient(default_home())

    def close(self) -> None:
        """Hang up, if the engine was called at all."""
        if "client" in vars(self):
            self.client.close()

    @property
    def project(self) -> str:
        folder = str(self.folder.absolute())
        if not is_unicode(folder):
            raise UsageError("the path of the project is not UTF-8", hint="rename the folder")
        return folder

    @property
    def is_terminal(self) -> bool:
        return sys.stdout.isatty()

    def ask(self, verb: str, request: wire.Wire, answer: type[Answer], **kwargs: Any) -> Answer:
        """Ask the engine and check its answer.

        Raises UsageError for broken settings first: an engine that runs already still has the old.
        """
        _ = self.settings
        asked = request.model_dump(mode="json", exclude_none=True)
        told = self.client.call(verb, asked, **kwargs)
        return answer.model_validate(told if self.as_json else printable(told))

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


def printable(data: Any) -> Any:
    """Take out of texts what a terminal would obey: remembered text is data. JSON stays exact."""
    if isinstance(data, str):
        return data.translate(_CONTROLS)
    if isinstance(data, dict):
        return {key: printable(value) for key, value in data.items()}
    if isinstance(data, list):
        return [printable(value) for value in data]
    return data


def stdout() -> Console:
    """A console for data: no colours and no wrapping when it is piped."""
    if sys.stdout.isatty():
        return Console(highlight=False)
    return Console(highlight=False, width=_PIPE_WIDTH, soft_wrap=True, no_color=True)


def stderr() -> Console:
    """A console for people."""
    return Console(stderr=True, highlight=False, soft_wrap=True)


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
        session = Session(folder, as_json)
        try:
            return function(session, *args, **kwargs)
        finally:
            session.close()

    return command


global_option = click.option(
    "--global", "is_global", is_flag=True, help="What is kept for all projects."
)


def scope_of(is_global: bool) -> Literal["project", "global"]:
    """Say in the wire's words whether a verb is about the global memories."""
    return "global" if is_global else "project"


def examples(text: str, *, title: str = "Examples") -> str:
    """Format examples for the end of a help page, kept as they are."""
    lines = "\n".join(f"  {line}" for line in text.strip().splitlines())
    return f"\b\n{title}:\n{lines}"
