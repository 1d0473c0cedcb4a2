"""Names of the source system as aliases, for agents that were taught those."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

from pydantic import Field

from memory import wire
from memory.engine import answers
from memory.engine.access import View
from memory.engine.packing import quoted
from memory.engine.tools import feedback, lifecycle, search
from memory.engine.tools.budget import within
from memory.engine.tools.save import Saved, saved
from memory.engine.tools.tool import (
    Arguments,
    MaxTokens,
    Reply,
    Result,
    Short,
    Tool,
    Toolset,
    Words,
    pending_note,
)
from memory.errors import UsageError
from memory.service import Receipt
from tiers.records import Importance, MemoryType, Origin

#: Types of the source system, and what each is here.
_TYPES = {
    "preference": MemoryType.USER,
    "fact": MemoryType.PROJECT,
    "decision": MemoryType.PROJECT,
    "context": MemoryType.PROJECT,
}

#: The tag of what somebody has checked.
VERIFIED = "verified"


class StoreArguments(Arguments):
    """What memory_store takes."""

    content: Annotated[str, Field(max_length=1_000_000)]
    type: Short | None = Field(None, description="ours, or fact, decision, context, preference")
    tags: Words | None = None
    ttl: Short | None = None
    pin: bool | None = None
    supersedes: Words | None = None


def store(view: View, args: StoreArguments) -> Reply:
    """Keep one memory."""
    request = wire.SaveRequest(
        text=args.content,
        type=_type(args.type),
        category=args.type if args.type in _TYPES else None,
        tags=args.tags,
        ttl=args.ttl,
        pinned=args.pin,
        supersedes=args.supersedes,
        origin=Origin.AGENT,
    )
    return saved(view, request)


def _type(named: str | None) -> MemoryType | None:
    """Read a type by its name here, or by its name there. Raises UsageError for another."""
    if named is None or named in _TYPES:
        return _TYPES[named] if named else None
    try:
        return MemoryType(named)
    except ValueError:
        names = ", ".join((*MemoryType, *_TYPES))
        raise UsageError(f"there is no type {named[:80]!r}", hint=f"choose from {names}") from None


class RecallArguments(Arguments):
    """What memory_recall and rag_search take."""

    query: Annotated[str, Field(max_length=20_000)]
    limit: Annotated[int, Field(ge=1, le=50)] = 5
    type: MemoryType | None = None
    tags: Words | None = None
    since: datetime | None = None
    explain: bool = False
    max_tokens: MaxTokens | None = None


def recall(view: View, args: RecallArguments) -> Reply:
    """Find memories; the receipt is what memory_trace_feedback calls trace_id."""
    return search.search(view, search.SearchArguments(**args.model_dump()))


class MemoryArguments(Arguments):
    """Names one memory."""

    memory_id: Short


class PinArguments(MemoryArguments):
    """What pin_memory takes."""

    pinned: bool = True


def pin(view: View, args: PinArguments) -> Reply:
    """Pin a memory, or unpin it."""
    ref = lifecycle.RefArguments(id=args.memory_id)
    return lifecycle.pin(view, ref) if args.pinned else lifecycle.unpin(view, ref)


def boost(view: View, args: MemoryArguments) -> Reply:
    """Make a memory matter more: high importance, which weighs in every ranking."""
    here = view.enter(wire.ProjectRequest())
    return _changed(here.service.weigh(here.key, args.memory_id, Importance.HIGH), "important")


class VerifyArguments(MemoryArguments):
    """What memory_verify takes."""

    verified: bool = True


def verify(view: View, args: VerifyArguments) -> Reply:
    """Mark a memory as checked with the tag `verified`, or take that away."""
    here = view.enter(wire.ProjectRequest())
    receipt = here.service.label(here.key, args.memory_id, VERIFIED, is_on=args.verified)
    return _changed(receipt, VERIFIED if args.verified else f"not {VERIFIED}")


def _changed(receipt: Receipt, what: str) -> Reply:
    answer = answers.receipt_of(receipt)
    text = f"{quoted(answer.name)} is {what}{pending_note(answer.pending)}"
    return Reply(Saved(**answer.model_dump()), text)


class TraceArguments(Arguments):
    """What memory_trace_feedback takes."""

    trace_id: Short = Field(description="the receipt of a search")
    used: Words | None = None
    used_memory_ids: Words | None = Field(None, description="the same as used")
    ignored: Words | None = None
    wrong: Words | None = None


def trace_feedback(view: View, args: TraceArguments) -> Reply:
    """Note which of the found memories helped."""
    return feedback.feedback(
        view,
        feedback.FeedbackArguments(
            receipt=args.trace_id,
            used=[*(args.used or []), *(args.used_memory_ids or [])],
            ignored=args.ignored,
            wrong=args.wrong,
        ),
    )


class RecalledArguments(Arguments):
    """What session_recalled takes."""

    limit: Annotated[int, Field(ge=1, le=100)] = 10
    max_tokens: MaxTokens | None = None


class RecallLine(Result):
    """One search and what it gave."""

    receipt: str
    at: datetime
    memories: list[str]


class Recalled(Result):
    """The last searches, newest first."""

    recalls: list[RecallLine]
    truncated: bool = False


#: What one search of a list costs, and each memory in it.
_RECALL_CHARACTERS, _ID_CHARACTERS = 100, 40


def session_recalled(view: View, args: RecalledArguments) -> Reply:
    """Say what the last searches in this project gave."""
    here = view.enter(wire.ProjectRequest())
    lines = [
        RecallLine(receipt=one.receipt, at=one.at, memories=list(one.memories))
        for one in here.service.recalled(here.project.key, args.limit)
    ]
    return within(args.max_tokens, lambda room: _pack(lines, room))


def _pack(lines: Sequence[RecallLine], room: int) -> Reply:
    kept: list[RecallLine] = []
    for line in lines:
        room -= _RECALL_CHARACTERS + _ID_CHARACTERS * len(line.memories)
        if room < 0:
            break
        kept.append(line)
    told = Recalled(recalls=kept, truncated=len(kept) < len(lines))
    text = [f"{one.at:%Y-%m-%d %H:%M}Z {one.receipt}: {', '.join(one.memories)}" for one in kept]
    if told.truncated:
        text.append(f"{len(lines) - len(kept)} older ones have no room")
    return Reply(told, "\n".join(text) or "nothing was searched here yet")


TOOLS: Sequence[Tool] = (
    Tool(
        name="memory_store",
        toolset=Toolset.COMPAT,
        description="Alias of memory_save.",
        arguments=StoreArguments,
        result=Saved,
        run=store,
        example={"content": "Deploys happen on Tuesdays.", "tags": ["deploy"]},
    ),
    Tool(
        name="memory_recall",
        toolset=Toolset.COMPAT,
        description="Alias of memory_search; its receipt is the trace_id of memory_trace_feedback.",
        arguments=RecallArguments,
        result=search.Found,
        run=recall,
        example={"query": "when do we deploy"},
        is_reading=True,
    ),
    Tool(
        name="rag_search",
        toolset=Toolset.COMPAT,
        description="Alias of memory_search.",
        arguments=RecallArguments,
        result=search.Found,
        run=recall,
        example={"query": "when do we deploy"},
        is_reading=True,
    ),
    Tool(
        name="pin_memory",
        toolset=Toolset.COMPAT,
        description="Alias of memory_pin and memory_unpin.",
        arguments=PinArguments,
        result=Saved,
        run=pin,
        example={"memory_id": "deploy day"},
    ),
    Tool(
        name="memory_boost",
        toolset=Toolset.COMPAT,
        description="Make a memory matter more: sets its importance to high.",
        arguments=MemoryArguments,
        result=Saved,
        run=boost,
        example={"memory_id": "deploy day"},
    ),
    Tool(
        name="memory_verify",
        toolset=Toolset.COMPAT,
        description="Mark a memory as checked with the tag verified, or take that away.",
        arguments=VerifyArguments,
        result=Saved,
        run=verify,
        example={"memory_id": "deploy day"},
    ),
    Tool(
        name="memory_trace_feedback",
        toolset=Toolset.COMPAT,
        description="Alias of memory_feedback; trace_id is the receipt of a search.",
        arguments=TraceArguments,
        result=feedback.Noted,
        run=trace_feedback,
        example={"trace_id": "535121cf59b1", "used": ["ee790745"]},
    ),
    Tool(
        name="session_recalled",
        toolset=Toolset.COMPAT,
        description="What the last searches in this project gave, newest first, by id.",
        arguments=RecalledArguments,
        result=Recalled,
        run=session_recalled,
        example={"limit": 5},
        is_reading=True,
    ),
)
