"""The tools for operators: list, doctor, held changes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field

from memory import wire
from memory.engine import answers, health
from memory.engine.access import View
from memory.engine.packing import cut, quoted
from memory.engine.tools.budget import within
from memory.engine.tools.tool import (
    Arguments,
    MaxTokens,
    Reply,
    Result,
    Tool,
    Toolset,
    WhichScope,
    scoped,
)
from memory.errors import Refused
from tiers.records import MemoryType, Tier


class ListArguments(Arguments):
    """What memory_list takes."""

    tier: Tier | None = None
    type: MemoryType | None = None
    limit: Annotated[int, Field(ge=1, le=500)] = 50
    offset: Annotated[int, Field(ge=0)] = Field(0, description="from next")
    scope: WhichScope | None = None
    max_tokens: MaxTokens | None = None


class Line(Result):
    """One line of a list."""

    id: str
    name: str
    tier: Tier
    revision: int
    updated_at: datetime


class Listed(Result):
    """A page of memories; `total` counts all that match."""

    memories: list[Line]
    total: int
    next: dict[str, Any] | None = None


#: What one line of a list costs.
_LINE_CHARACTERS = 260


def list_memories(view: View, args: ListArguments) -> Reply:
    """List memories, newest first."""
    return within(args.max_tokens, lambda room: _page(view, args, room))


def _page(view: View, args: ListArguments, room: int) -> Reply:
    answer = answers.list_memories(
        view,
        wire.ListRequest(
            tier=args.tier,
            type=args.type,
            limit=min(args.limit, max(room // _LINE_CHARACTERS, 1)),
            offset=args.offset,
            **scoped(args),
        ),
    )
    lines = [
        Line(
            id=item.id,
            name=cut(item.name, 80).text,
            tier=item.tier,
            revision=item.revision,
            updated_at=item.updated_at,
        )
        for item in answer.memories
    ]
    after = args.offset + len(lines)
    listed = Listed(
        memories=lines,
        total=answer.total,
        next={"offset": after} if lines and after < answer.total else None,
    )
    told = [
        f"{line.id} {line.tier} {line.updated_at:%Y-%m-%d} {quoted(line.name)}" for line in lines
    ]
    told.append(
        f"{len(lines)} of {answer.total}" + (f"; more: {listed.next}" if listed.next else "")
    )
    return Reply(listed, "\n".join(told))


class DoctorArguments(Arguments):
    """What memory_doctor takes: nothing."""


class Checked(Result):
    """What doctor found; only what is wrong is told in words."""

    ok: bool
    passed: int
    failed: list[dict[str, str]] = Field(default_factory=list)


_MOST_FAILURES = 15


def doctor(view: View, _: DoctorArguments) -> Reply:
    """Look at everything that can be wrong."""
    _only_local(view)
    checks = health.doctor(view, wire.ProjectRequest()).checks
    bad = [check for check in checks if not check.ok]
    found = Checked(
        ok=not bad,
        passed=len(checks) - len(bad),
        failed=[
            {"name": c.name, "detail": cut(c.detail, 300).text, "hint": c.hint}
            for c in bad[:_MOST_FAILURES]
        ],
    )
    lines = [f"{found.passed} of {len(checks)} checks passed"]
    lines += [f"bad: {one['name']}: {one['detail']} → {one['hint']}" for one in found.failed]
    return Reply(found, "\n".join(lines))


def _only_local(view: View) -> None:
    if not view.caller.is_local:
        raise Refused("this is about the machine of the engine", hint="run there: tiermem doctor")


class HeldArguments(Arguments):
    """What memory_held takes."""

    action: Literal["show", "apply", "restore"] = "show"


class HeldChanges(Result):
    """Held changes, and what became of them."""

    held: str | None = None
    paths: list[str] = Field(default_factory=list)
    taken_in: int = 0
    demoted: int = 0
    restored: int = 0


_MOST_PATHS = 30


def held(view: View, args: HeldArguments) -> Reply:
    """Show held changes of hot files, or decide on them."""
    _only_local(view)
    if args.action == "show":
        status = health.status(view, wire.ProjectRequest())
        told = HeldChanges(held=status.held, paths=status.held_paths[:_MOST_PATHS])
        paths = ", ".join(told.paths)
        text = f"{told.held}: {paths}" if told.held else "nothing is held"
        return Reply(told, text)
    done = answers.held(view, wire.HeldRequest(action=args.action))
    told = HeldChanges(taken_in=done.taken_in, demoted=done.demoted, restored=done.restored)
    text = f"{done.taken_in} taken in, {done.demoted} demoted, {done.restored} restored"
    return Reply(told, text)


TOOLS: Sequence[Tool] = (
    Tool(
        name="memory_list",
        toolset=Toolset.OPS,
        description="List memories, newest first, a page at a time.",
        arguments=ListArguments,
        result=Listed,
        run=list_memories,
        example={"tier": "hot"},
        is_reading=True,
    ),
    Tool(
        name="memory_doctor",
        toolset=Toolset.OPS,
        description="Check everything that can be wrong and say what to do.",
        arguments=DoctorArguments,
        result=Checked,
        run=doctor,
        example={},
        is_reading=True,
    ),
    Tool(
        name="memory_held",
        toolset=Toolset.OPS,
        description=(
            "Show changes of hot files that are held, as after a checkout. Apply or restore only "
            "when the user says which."
        ),
        arguments=HeldArguments,
        result=HeldChanges,
        run=held,
        example={"action": "show"},
        is_destructive=True,
        is_repeatable=False,
    ),
)
