"""The tool that loads what a session starts with."""

from __future__ import annotations

import json
from typing import Annotated, Any

from pydantic import Field

from memory import wire
from memory.engine import answers
from memory.engine.access import View
from memory.engine.packing import cut
from memory.engine.tools.budget import within
from memory.engine.tools.tool import (
    Arguments,
    MaxTokens,
    Reply,
    Result,
    Short,
    Tool,
    Toolset,
)


class LoadArguments(Arguments):
    """What load_context takes."""

    task: Annotated[str, Field(max_length=20_000)] = Field(
        "", description="what you are about to do"
    )
    description: Annotated[str, Field(max_length=20_000)] = ""
    max_files: Annotated[int, Field(ge=0, le=1_000)] | None = None
    projectPath: Short | None = Field(None, description="this project; others are refused")  # noqa: N815
    max_tokens: MaxTokens | None = Field(None, description="default 2000")


class LoadedFile(Result):
    """A topic file that was loaded, or only listed."""

    name: str
    path: str
    score: float
    loaded: bool


class Loaded(Result):
    """The hot context."""

    files: list[str]
    memory_files: list[LoadedFile]
    formatted_prompt: str
    truncated: list[str] = Field(default_factory=list)
    next: dict[str, Any] | None = None


#: What head, marks and names of the prompt cost, and one file in the lists of the data.
_OVERHEAD, _FILE_CHARACTERS = 600, 400


def load_context(view: View, args: LoadArguments) -> Reply:
    """Load what a session starts with, within the budget."""
    return within(args.max_tokens, lambda room: _load(view, args, room))


def _load(view: View, args: LoadArguments, room: int) -> Reply:
    answer = answers.load(
        view,
        wire.LoadRequest(
            project=args.projectPath or "",
            task=args.task,
            description=args.description,
            max_files=args.max_files,
            max_chars=max((room - _OVERHEAD) * 3 // 4, 1),
        ),
    )
    most = max(room // _FILE_CHARACTERS, 1)
    truncated = [cut(line, 100).text for line in answer.truncated[:most]]
    loaded = Loaded(
        files=answer.files[:most],
        memory_files=[
            LoadedFile(name=cut(f.name, 80).text, path=f.path, score=f.score, loaded=f.loaded)
            for f in answer.memory_files[:most]
        ],
        formatted_prompt=answer.formatted_prompt,
        truncated=truncated,
        next={"max_tokens": 8_000} if truncated and (args.max_tokens or 0) < 8_000 else None,
    )
    text = answer.formatted_prompt or "nothing is kept hot here yet"
    if loaded.next:
        text += f"\ncut to fit; more with {json.dumps(loaded.next)}"
    return Reply(loaded, text)


TOOL = Tool(
    name="load_context",
    toolset=Toolset.CORE,
    description=(
        "Load the hot memories, the most relevant to a task first, as one fenced prompt. Use at "
        "the start of a task when no hook has loaded them."
    ),
    arguments=LoadArguments,
    result=Loaded,
    run=load_context,
    example={"task": "add OAuth2 login"},
    is_reading=True,
)
