"""The tool that forgets, in two steps."""

from __future__ import annotations

import json
from typing import Annotated, Any

from pydantic import Field

from memory import wire
from memory.engine import answers
from memory.engine.access import View
from memory.engine.packing import cut, quoted
from memory.engine.tools.tool import (
    Arguments,
    Reply,
    Result,
    Short,
    Tool,
    Toolset,
    WhichScope,
    pending_note,
    scoped,
)
from memory.errors import UsageError
from tiers.records import Tier

#: A whole id as the preview gives it: names are for asking, not for doing.
Id = Annotated[str, Field(pattern=r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")]
Ids = Annotated[list[Id], Field(max_length=100)]

#: So many memories and their ids fit into an answer.
_MOST = 20


class ForgetArguments(Arguments):
    """What memory_forget takes."""

    id: Short | None = Field(None, description="id, name, or words of one memory")
    query: Short | None = Field(None, description="all memories with all of these words")
    confirm: Ids | None = Field(None, description="ids that the preview gave: forgets them")
    scope: WhichScope | None = None


class ForgottenOne(Result):
    """One memory that is, or would be, forgotten."""

    id: str
    name: str
    tier: Tier


class Forgotten(Result):
    """What was forgotten, or would be."""

    done: bool
    memories: list[ForgottenOne]
    more: bool = False
    pending: list[str] = Field(default_factory=list)
    next: dict[str, Any] | None = None


def forget(view: View, args: ForgetArguments) -> Reply:
    """Show what would be forgotten; with the ids of that answer, forget it."""
    if sum(bool(way) for way in (args.id, args.query, args.confirm)) != 1:
        raise UsageError(
            "give one of id, query and confirm", hint="first id or query, then confirm"
        )
    answer = answers.forget(
        view,
        wire.ForgetRequest(
            ref=args.id,
            query=args.query,
            ids=list(dict.fromkeys(args.confirm)) if args.confirm else None,
            limit=_MOST,
            confirm=bool(args.confirm),
            **scoped(args),
        ),
    )
    memories = [
        ForgottenOne(id=m.id, name=cut(m.name, 80).text, tier=m.tier) for m in answer.memories
    ]
    ids = [memory.id for memory in memories]
    scope = {"scope": args.scope} if args.scope else {}
    follow = None if answer.done or not ids else {"confirm": ids, **scope}
    forgotten = Forgotten(
        done=answer.done,
        memories=memories,
        more=answer.more,
        pending=answer.pending,
        next=follow,
    )
    return Reply(forgotten, _told_forgotten(forgotten))


def _told_forgotten(forgotten: Forgotten) -> str:
    if not forgotten.memories:
        return "forgotten already" if forgotten.done else "no memory has all of these words"
    did = "forgotten" if forgotten.done else "would be forgotten"
    lines = [f"{did}: {quoted(m.name)} ({m.id}, {m.tier})" for m in forgotten.memories]
    if forgotten.next:
        lines.append(f"nothing was changed; to do it call with {json.dumps(forgotten.next)}")
    if forgotten.more:
        lines.append("others may have all of these words too: ask again after these")
    return "\n".join(lines) + pending_note(forgotten.pending)


TOOL = Tool(
    name="memory_forget",
    toolset=Toolset.CORE,
    description=(
        "Forget memories in every tier, for good. Call with id or query for a preview that "
        "changes nothing, then with confirm and the ids it gave. To replace a fact, save the "
        "new one with supersedes instead."
    ),
    arguments=ForgetArguments,
    result=Forgotten,
    run=forget,
    example={"query": "old office address"},
    is_destructive=True,
)
