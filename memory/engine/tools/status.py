"""The tool that says how the memory is."""

from __future__ import annotations

from pydantic import Field

from memory import wire
from memory.engine import health
from memory.engine.access import View
from memory.engine.packing import cut
from memory.engine.tools.tool import (
    Arguments,
    Reply,
    Result,
    Tool,
    Toolset,
)
from tiers.records import Tier


class StatusArguments(Arguments):
    """What memory_status takes: nothing."""


class TierState(Result):
    """How one tier is."""

    state: str
    count: int | None = None
    pending: int = 0
    detail: str | None = None


class Status(Result):
    """How the memory of this project is."""

    project: str
    key: str
    tiers: dict[str, TierState]
    model: str
    version: str
    hot_root: str | None = None
    held: str | None = None
    problems: list[str] = Field(default_factory=list)


_MOST_PROBLEMS = 10


def status(view: View, _: StatusArguments) -> Reply:
    """Say how each tier is."""
    answer = health.status(view, wire.ProjectRequest())
    counts = _counts(view, answer.project)
    tiers = {
        name: TierState(
            state=tier.state,
            count=counts.get(name),
            pending=tier.pending + tier.vector_pending,
            detail=tier.detail or None,
        )
        for name, tier in answer.tiers.items()
    }
    told = Status(
        project=answer.project_name,
        key=answer.project,
        tiers=tiers,
        model=f"{answer.engine.model} ({answer.engine.model_state})",
        version=answer.engine.version,
        hot_root=answer.hot_root if view.caller.is_local else None,
        held=answer.held,
        problems=[cut(f"{p}: {why}", 300).text for p, why in answer.problems.items()][
            :_MOST_PROBLEMS
        ],
    )
    lines = [f"project {told.project}, tiermem {told.version}, model {told.model}"]
    for name, tier in tiers.items():
        count = "" if tier.count is None else f", {tier.count} kept"
        detail = f" ({tier.detail})" if tier.detail else ""
        lines.append(f"{name}: {tier.state}{count}, {tier.pending} pending{detail}")
    if told.held:
        lines.append(f"held: {told.held}; a person decides with: tiermem held apply|restore")
    return Reply(told, "\n".join([*lines, *told.problems]))


def _counts(view: View, project: str) -> dict[str, int]:
    """Count the memories of one project that each tier holds, as this home knows it."""
    by_tier = health.counts(view, project)
    found = by_tier[Tier.HOT] + by_tier[Tier.DEEP]
    return {"hot": by_tier[Tier.HOT], "deep": found, "archive": found + by_tier[Tier.COLD]}


TOOL = Tool(
    name="memory_status",
    toolset=Toolset.CORE,
    description=(
        "How the memory is: tiers, counts, what is pending or held. Use when an answer says "
        "degraded, or something saved cannot be found."
    ),
    arguments=StatusArguments,
    result=Status,
    run=status,
    example={},
    is_reading=True,
)
