"""The tools for experience: episodes, learnings and procedures as typed memories."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field

from memory import wire
from memory.engine.access import View
from memory.engine.tools.save import Saved, saved
from memory.engine.tools.tool import Arguments, Reply, Short, Tool, Toolset, Words
from tiers.records import Importance, MemoryType, Origin, Tier

Paragraph = Annotated[str, Field(min_length=1, max_length=100_000)]


class EpisodeArguments(Arguments):
    """What episode takes."""

    goal: Paragraph
    events: Annotated[list[Paragraph], Field(max_length=200, description="what happened, in order")]
    outcome: Literal["success", "failure", "partial"]
    lesson: Paragraph | None = None
    tags: Words | None = None


def episode(view: View, args: EpisodeArguments) -> Reply:
    """Keep what was tried and how it ended."""
    lines = [f"Goal: {args.goal}", f"Outcome: {args.outcome}", "", "Events:"]
    lines += [f"{number}. {event}" for number, event in enumerate(args.events, 1)]
    if args.lesson:
        lines += ["", f"Lesson: {args.lesson}"]
    return _kept(view, "episode", "\n".join(lines), args.tags, tier=Tier.DEEP)


class LearningArguments(Arguments):
    """What learning takes."""

    lesson: Paragraph = Field(description="what to do or avoid, in one sentence")
    evidence: Paragraph | None = Field(None, description="how it is known")
    applies_to: Paragraph | None = Field(None, description="when it matters")
    tags: Words | None = None


def learning(view: View, args: LearningArguments) -> Reply:
    """Keep a lesson with its evidence."""
    lines = [args.lesson]
    if args.applies_to:
        lines += ["", f"Applies to: {args.applies_to}"]
    if args.evidence:
        lines += ["", f"Evidence: {args.evidence}"]
    return _kept(view, "learning", "\n".join(lines), args.tags, type=MemoryType.FEEDBACK)


class ProcedureArguments(Arguments):
    """What procedure takes."""

    name: Short
    steps: Annotated[list[Paragraph], Field(min_length=1, max_length=200)]
    when: Paragraph | None = Field(None, description="when to follow it")
    check: Paragraph | None = Field(None, description="how to see that it worked")
    tags: Words | None = None


def procedure(view: View, args: ProcedureArguments) -> Reply:
    """Keep how something is done; saving the same name again revises it."""
    lines = [f"When: {args.when}", ""] if args.when else []
    lines += [f"{number}. {step}" for number, step in enumerate(args.steps, 1)]
    if args.check:
        lines += ["", f"Check: {args.check}"]
    text = "\n".join(lines)
    return _kept(view, "procedure", text, args.tags, name=args.name, type=MemoryType.REFERENCE)


def _kept(
    view: View,
    category: str,
    text: str,
    tags: list[str] | None,
    *,
    name: str | None = None,
    type: MemoryType = MemoryType.PROJECT,  # noqa: A002 - as the wire calls it
    tier: Tier | None = None,
) -> Reply:
    request = wire.SaveRequest(
        text=text,
        name=name,
        type=type,
        category=category,
        tags=tags,
        importance=Importance.MEDIUM,
        tier=tier,
        origin=Origin.AGENT,
    )
    return saved(view, request)


TOOLS: Sequence[Tool] = (
    Tool(
        name="episode",
        toolset=Toolset.EXPERIENCE,
        description=(
            "Keep an episode: what was tried, in which steps, and how it ended. Use after work "
            "that somebody may have to repeat or avoid."
        ),
        arguments=EpisodeArguments,
        result=Saved,
        run=episode,
        example={
            "goal": "upgrade the parser",
            "events": ["raised the version", "three tests failed on nested lists"],
            "outcome": "partial",
            "lesson": "pin the parser below 3 until the list bug is fixed",
        },
    ),
    Tool(
        name="learning",
        toolset=Toolset.EXPERIENCE,
        description=(
            "Keep a lesson with its evidence. Use when something surprised you or a correction "
            "holds from now on. Private by default."
        ),
        arguments=LearningArguments,
        result=Saved,
        run=learning,
        example={"lesson": "run the migrations before the tests", "evidence": "CI failed twice"},
    ),
    Tool(
        name="procedure",
        toolset=Toolset.EXPERIENCE,
        description=(
            "Keep how something is done, step by step. The same name again revises it; the steps "
            "before stay in its history."
        ),
        arguments=ProcedureArguments,
        result=Saved,
        run=procedure,
        example={"name": "release", "steps": ["tag main", "wait for CI", "publish"]},
    ),
)
