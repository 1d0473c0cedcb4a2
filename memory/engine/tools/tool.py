"""A tool: its name, what it takes and gives, and how it is described to a client."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from memory import wire
from memory.engine.access import View

#: What a client gets when it asks for nothing else (DESIGN section 6).
DEFAULT_TOKENS = 2_000

#: Characters that are counted as one token, here as in every budget.
CHARACTERS_A_TOKEN = 4

Short = Annotated[str, Field(max_length=2_000)]
Words = Annotated[list[Short], Field(max_length=200)]
WhichScope = Literal["project", "global"]
MaxTokens = Annotated[int, Field(ge=500, le=20_000)]


class Toolset(StrEnum):
    """Tools that are switched on together."""

    CORE = "core"
    CONTEXT = "context"
    LIFECYCLE = "lifecycle"
    EXPERIENCE = "experience"
    OPS = "ops"
    COMPAT = "compat"


#: What an agent gets that says nothing else.
DEFAULT_TOOLSETS = (Toolset.CORE, Toolset.CONTEXT)


class Arguments(BaseModel):
    """Base of what a tool takes: unknown names are refused, so that a typo is no silent default."""

    model_config = ConfigDict(extra="forbid", defer_build=True)


class Result(BaseModel):
    """Base of what a tool gives as structured content."""

    model_config = ConfigDict(defer_build=True)


@dataclass(frozen=True, slots=True)
class Reply:
    """What a tool gives: data for programs, and the same as text for those who read text."""

    data: Result
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """One tool.

    `is_repeatable` promises that the same call made twice does nothing twice, so that a front may
    send it again to the next engine when the first one died. `example` stands in the documentation
    and in the tool's errors.
    """

    name: str
    toolset: Toolset
    description: str
    arguments: type[Arguments]
    result: type[Result]
    run: Callable[[View, Any], Reply]
    example: Mapping[str, Any]
    is_reading: bool = False
    is_destructive: bool = False
    is_repeatable: bool = True
    is_always_loaded: bool = False

    def input_schema(self) -> dict[str, Any]:
        return slim_schema(self.arguments, for_input=True)

    def output_schema(self) -> dict[str, Any]:
        return slim_schema(self.result, for_input=False)

    def annotations(self) -> dict[str, bool]:
        """Hints in the protocol's words; destructive counts only for tools that change things."""
        hints = {"readOnlyHint": self.is_reading, "openWorldHint": False}
        if not self.is_reading:
            hints["destructiveHint"] = self.is_destructive
            hints["idempotentHint"] = self.is_repeatable
        return hints


def slim_schema(model: type[BaseModel], *, for_input: bool) -> dict[str, Any]:
    """Describe a model as a plain JSON schema without what an agent pays for and does not need.

    References are put in place, titles and the null of optional fields left out; what a client gets
    keeps only names and kinds, since answers are checked here and not there.
    """
    full = model.model_json_schema(mode="validation" if for_input else "serialization")
    definitions = full.pop("$defs", {})
    full.pop("description", None)
    slim: dict[str, Any] = _slim(full, definitions, with_text=for_input)
    if not for_input:
        # Fields that may be null are left out of an answer rather than sent.
        slim.pop("required", None)
        required = [name for name, field in model.model_fields.items() if field.is_required()]
        if required:
            slim["required"] = required
    return slim


_NOISE = frozenset(
    {"title", "default", "additionalProperties", "maxLength", "minLength", "maxItems", "pattern"}
)
_TEXT = frozenset({"description", "minimum", "maximum", "format"})


def _slim(node: Any, definitions: Mapping[str, Any], *, with_text: bool) -> Any:
    if not isinstance(node, dict):
        return node
    rest = {key: value for key, value in node.items() if key not in ("$ref", "anyOf")}
    if "$ref" in node:
        name = node["$ref"].rpartition("/")[2]
        # What a field says of itself counts, not what its kind says.
        return _slim(
            {**definitions[name], "description": "", **rest}, definitions, with_text=with_text
        )
    kinds = [kind for kind in node.get("anyOf", ()) if kind != {"type": "null"}]
    if len(kinds) == 1:
        return _slim({**kinds[0], **rest}, definitions, with_text=with_text)
    return dict(_kept(node, definitions, with_text=with_text))


def _kept(
    node: Mapping[str, Any], definitions: Mapping[str, Any], *, with_text: bool
) -> Iterator[tuple[str, Any]]:
    def slim(part: Any) -> Any:
        return _slim(part, definitions, with_text=with_text)

    for key, value in node.items():
        if key == "properties":
            yield key, {name: slim(part) for name, part in value.items()}
        elif key in _NOISE or (key in _TEXT and not (with_text and value != "")):
            continue
        elif key == "items":
            yield key, slim(value)
        elif key == "anyOf":
            yield key, [slim(part) for part in value]
        else:
            yield key, value


def scoped(args: Any) -> dict[str, Any]:
    """Name the project of a request as far as the arguments do; the connection knows the rest."""
    return {"scope": getattr(args, "scope", None) or "project"}


def pending_note(pending: list[str]) -> str:
    """Say which stores get something later."""
    return f"; still to reach: {', '.join(pending)}" if pending else ""


def masked_note(masked: list[wire.Masked]) -> str:
    """Say which secrets were masked."""
    if not masked:
        return ""
    kinds = ", ".join(f"{found.count} {found.kind}" for found in masked)
    return f"\nsecrets were masked: {kinds}"
