"""The tool that keeps a memory."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from memory import wire
from memory.engine import answers
from memory.engine.access import View
from memory.engine.packing import quoted
from memory.engine.tools.tool import (
    Arguments,
    Reply,
    Result,
    Short,
    Tool,
    Toolset,
    WhichScope,
    Words,
    masked_note,
    pending_note,
    scoped,
)
from tiers.records import Importance, MemoryType, Origin, Tier


class SaveArguments(Arguments):
    """What memory_save takes."""

    text: Annotated[str, Field(max_length=1_000_000, description="markdown; the point comes first")]
    id: Short | None = Field(None, description="revise this memory")
    name: Short | None = Field(None, description="short title; an existing one is revised")
    description: Short | None = Field(None, description="one line: what it is good for")
    type: MemoryType | None = Field(
        None, description="user and feedback are private; default project"
    )
    tags: Words | None = None
    importance: Importance | None = None
    ttl: Short | None = Field(None, description="12h, 14d, never")
    pinned: bool | None = None
    supersedes: Words | None = Field(None, description="ids or names it replaces")
    tier: Literal["hot", "deep"] | None = Field(
        None, description="hot: in view at every start; deep: found by search"
    )
    scope: WhichScope | None = Field(None, description="global: for all projects")


class Saved(Result):
    """A receipt."""

    id: str
    name: str
    revision: int
    tier: Tier
    path: str | None = None
    unchanged: bool = False
    pending: list[str] = Field(default_factory=list)
    masked: list[wire.Masked] = Field(default_factory=list)


def save(view: View, args: SaveArguments) -> Reply:
    """Keep one memory, as said by an agent."""
    fields = args.model_dump(exclude_none=True, exclude={"scope"})
    return saved(view, wire.SaveRequest(**fields, **scoped(args), origin=Origin.AGENT))


def saved(view: View, request: wire.SaveRequest) -> Reply:
    """Keep what a request says and tell where it landed."""
    receipt = answers.save(view, request)
    did = "already known" if receipt.unchanged else "saved"
    place = f" in {receipt.path}" if receipt.path else ""
    about = f"id {receipt.id}, revision {receipt.revision}, {receipt.tier}{place}"
    notes = pending_note(receipt.pending) + masked_note(receipt.masked)
    text = f"{did}: {quoted(receipt.name)} ({about}){notes}"
    return Reply(Saved(**receipt.model_dump()), text)


TOOL = Tool(
    name="memory_save",
    toolset=Toolset.CORE,
    description=(
        "Keep a decision, lesson, preference or state of work beyond this session. Use when "
        "something was decided, learned the hard way or asked to be remembered; not for what "
        "the code says already. Durable when it returns; secrets are masked. The same text "
        "twice is kept once. Gives id, revision, path and what is still pending."
    ),
    arguments=SaveArguments,
    result=Saved,
    run=save,
    example={
        "text": "Deploys happen on Tuesdays: the Friday deploy of May took the shop down.",
        "name": "deploy day",
        "tags": ["deploy"],
    },
    is_always_loaded=True,
)
