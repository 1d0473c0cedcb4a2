"""The verb that clients start: MCP over stdin and stdout.

The launcher goes to the front by itself; this is its help page.
"""

from __future__ import annotations

import click

from memory.cli.session import examples


@click.command(
    epilog=examples(
        """
{"mcpServers": {"tiermem": {"command": "tiermem", "args": ["mcp"]}}}    in a client's settings
claude mcp add tiermem -- tiermem mcp                                   for Claude Code
tiermem mcp --project ~/work/shop         for a client that starts its servers elsewhere
tiermem mcp --toolsets core,lifecycle     other tools than the usual ones
"""
    )
)
@click.option(
    "--project",
    metavar="DIR",
    default="",
    help="A folder of the project (default: $CLAUDE_PROJECT_DIR, else here).",
)
@click.option(
    "--toolsets",
    metavar="A,B",
    default="",
    help="Groups of tools, with commas between: core, context, lifecycle, experience, ops, compat "
    "(default: the setting mcp.toolsets).",
)
def mcp(project: str, toolsets: str) -> None:
    """Serve one MCP client over stdin and stdout.

    Clients start it. It starts the engine when that is not there, and ends with its client.
    """
    from memory.cli.front import main  # not needed for any other verb

    main([f"--project={project}", f"--toolsets={toolsets}"])


COMMANDS = (mcp,)
