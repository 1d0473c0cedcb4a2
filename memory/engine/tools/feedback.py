"""The tool that says which memories helped."""

from __future__ import annotations

from pydantic import Field

from memory import wire
from memory.engine import answers
from memory.engine.access import View
from memory.engine.tools.tool import (
    Arguments,
    Reply,
    Result,
    Short,
    Tool,
    Toolset,
    Words,
)


class FeedbackArguments(Arguments):
    """What memory_feedback takes."""

    receipt: Short = Field(description="from memory_search")
    used: Words | None = Field(None, description="ids that helped")
    ignored: Words | None = None
    wrong: Words | None = Field(None, description="ids that are false or outdated")


class Noted(Result):
    """What is noted now of each memory."""

    verdicts: dict[str, str]


def feedback(view: View, args: FeedbackArguments) -> Reply:
    """Note which of the found memories helped."""
    answer = answers.feedback(
        view,
        wire.FeedbackRequest(
            receipt=args.receipt,
            used=args.used or [],
            ignored=args.ignored or [],
            wrong=args.wrong or [],
        ),
    )
    told = ", ".join(f"{key[:8]} {said}" for key, said in answer.verdicts.items())
    return Reply(Noted(verdicts=answer.verdicts), f"noted: {told}")


TOOL = Tool(
    name="memory_feedback",
    toolset=Toolset.CORE,
    description=(
        "Say which found memories helped, did not, or are wrong, once the task is done: one "
        "call for each search that mattered."
    ),
    arguments=FeedbackArguments,
    result=Noted,
    run=feedback,
    example={"receipt": "af381bbec9b7", "used": ["3f2a9c1b"]},
)
