"""The tool that moves a memory to another tier."""

from __future__ import annotations

from typing import Literal

from memory import wire
from memory.engine import answers
from memory.engine.access import View
from memory.engine.packing import quoted
from memory.engine.tools.save import Saved
from memory.engine.tools.tool import (
    Arguments,
    Reply,
    Short,
    Tool,
    Toolset,
    WhichScope,
    pending_note,
    scoped,
)
from tiers.records import Tier


class MoveArguments(Arguments):
    """What memory_move takes."""

    id: Short
    to: Literal["hot", "deep"]
    scope: WhichScope | None = None


def move(view: View, args: MoveArguments) -> Reply:
    """Move one memory to another tier."""
    return moved(view, wire.MoveRequest(ref=args.id, to=Tier(args.to), **scoped(args)))


def moved(view: View, request: wire.MoveRequest) -> Reply:
    """Move a memory and tell where it is."""
    receipt = answers.move(view, request)
    place = f" in {receipt.path}" if receipt.path and receipt.tier is Tier.HOT else ""
    did = "is already" if receipt.unchanged else "is now"
    text = f"{quoted(receipt.name)} {did} {receipt.tier}{place}{pending_note(receipt.pending)}"
    return Reply(Saved(**receipt.model_dump()), text)


TOOL = Tool(
    name="memory_move",
    toolset=Toolset.CORE,
    description=(
        "Move a memory: hot is in view at every start, deep is found by search. Same id, "
        "nothing is lost. Use when something is needed all the time, or no longer."
    ),
    arguments=MoveArguments,
    result=Saved,
    run=move,
    example={"id": "deploy day", "to": "deep"},
)
