"""Make what is made from the code, or say what is out of date with --check."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from memory.engine import openapi, surface  # noqa: E402 - the checkout, wherever one stands
from memory.engine.resources import PROMPTS, TEMPLATE  # noqa: E402
from memory.engine.toolbox import INSTRUCTIONS, TOOLS  # noqa: E402
from memory.engine.tools.tool import DEFAULT_TOOLSETS, Tool, Toolset  # noqa: E402

ABOUT = {
    Toolset.CORE: "What every agent gets.",
    Toolset.CONTEXT: "Keyed entries and context files; on by default. Not there yet.",
    Toolset.LIFECYCLE: "Tending memories by hand.",
    Toolset.EXPERIENCE: "What was tried and learned, as typed memories.",
    Toolset.OPS: "For agents that look after the memory itself.",
    Toolset.COMPAT: "Names of another memory server as aliases, for agents that were taught those.",
}


HEAD = """\
# MCP reference

Made from the code by `scripts/generate`; do not edit. How to connect: [clients](clients.md), [HTTP](http.md).
How the tools of the source system are covered: [source tools](source-tools.md).

Protocol versions: {versions}. Answers keep to 2,000 tokens (at 4 characters each) unless `max_tokens` says
otherwise; `truncated` names what is cut and `next` gives the arguments that read on. Recalled text stands between
marks, labelled with name, origin and age. The default tools cost an agent {schema} tokens of names, descriptions
and input schemas (at most {most_schema}), their whole list {listed} (at most {most_listed}).

An error is data: `error`, `detail`, `hint` (the next step), `retryable`, and an `example` when the arguments were
wrong.

## Toolsets

Chosen with `tiermem mcp --toolsets core,lifecycle`, `?toolsets=` in a URL, or the setting `mcp.toolsets`.
"""  # noqa: E501 - lines of a page, not of code

RESOURCES = """
## Resources

`{template}` is one memory, fenced; `{{project}}` is the project's key (`tiermem status`) or `global`, `{{id}}` an
id. The id `index` is the hot index. `resources/list` gives the index and the hot memories.\
"""  # noqa: E501 - lines of a page, not of code


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing, fail when stale")
    check = parser.parse_args().check
    stale = [path for path, text in made().items() if _read(path) != text]
    for path in stale:
        if check:
            name = path.relative_to(ROOT)
            print(f"{name} is out of date; run: scripts/generate", file=sys.stderr)
        else:
            path.write_text(made()[path], encoding="utf-8")
            print(f"wrote {path.relative_to(ROOT)}")
    return 1 if check and stale else 0


def made() -> dict[Path, str]:
    """Make every generated file, as path and text."""
    shown = surface.generate()
    document = json.dumps(openapi.document(), ensure_ascii=False, indent=1) + "\n"
    return {
        surface.PATH: surface.text_of(shown),
        ROOT / "docs" / "mcp.md": "\n".join(page(shown)) + "\n",
        ROOT / "docs" / "openapi.json": document,
    }


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def page(shown: dict[str, Any]) -> Iterator[str]:
    """Write the reference page of the MCP server."""
    spent = surface.cost(shown)
    yield HEAD.format(
        versions=", ".join(shown["legacy_versions"] + shown["modern_versions"]),
        schema=f"{spent.schema_tokens:,}",
        most_schema=f"{surface.MOST_SCHEMA_TOKENS:,}",
        listed=f"{spent.list_tokens:,}",
        most_listed=f"{surface.MOST_LIST_TOKENS:,}",
    )
    yield "| toolset | by default | tools |"
    yield "| --- | --- | --- |"
    for toolset in Toolset:
        names = ", ".join(f"`{tool.name}`" for tool in TOOLS if tool.toolset is toolset)
        by_default = "yes" if toolset in DEFAULT_TOOLSETS else "no"
        yield f"| {toolset} | {by_default} | {names or 'none yet'} |"
    for toolset in Toolset:
        tools = [tool for tool in TOOLS if tool.toolset is toolset]
        if tools:
            yield f"\n## {toolset}\n\n{ABOUT[toolset]}"
        for tool in tools:
            yield from _tool(tool)
    yield RESOURCES.format(template=TEMPLATE)
    yield "\n## Prompts\n"
    yield "| prompt | for | arguments |"
    yield "| --- | --- | --- |"
    for prompt in PROMPTS:
        taken = "; ".join(
            f"`{one.name}`{' (required)' if one.is_required else ''}: {one.description}"
            for one in prompt.arguments
        )
        yield f"| `{prompt.name}` | {prompt.description} | {taken} |"
    yield "\n## What an agent is told first\n"
    yield "```text\n" + INSTRUCTIONS.rstrip() + "\n```"


def _tool(tool: Tool) -> Iterator[str]:
    hints = ["reads only" if tool.is_reading else "changes something"]
    if tool.is_destructive:
        hints.append("destructive")
    if not tool.is_reading:
        hints.append("may be repeated" if tool.is_repeatable else "not to be repeated blindly")
    if tool.is_always_loaded:
        hints.append("always loaded")
    yield f"\n### {tool.name}\n\n{tool.description}\n\n({', '.join(hints)})"
    schema = tool.input_schema()
    required = set(schema.get("required", ()))
    if schema["properties"]:
        yield "\n| argument | kind | |\n| --- | --- | --- |"
    for name, kind in schema["properties"].items():
        must = "required. " if name in required else ""
        yield f"| `{name}` | {_kind(kind)} | {must}{kind.get('description', '')} |"
    given = ", ".join(f"`{name}`" for name in tool.output_schema()["properties"])
    call = json.dumps({"name": tool.name, "arguments": tool.example}, ensure_ascii=False)
    yield f"\nGives {given}.\n\n```json\n{call}\n```"


def _kind(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        return " \\| ".join(schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_kind(schema['items'])}"
    low, high = schema.get("minimum"), schema.get("maximum")
    bounds = f" {low if low is not None else ''}–{high if high is not None else ''}"
    plain: str = schema.get("format") or schema.get("type", "value")
    return plain + (bounds if (low, high) != (None, None) else "")


if __name__ == "__main__":
    sys.exit(main())
