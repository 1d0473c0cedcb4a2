"""The entry point of the command line: groups the verbs, and turns errors into exit codes.

0 done, 1 failed, 2 not meant that way, 3 done in part or with something left out.
"""

from __future__ import annotations

import contextlib
import os
import sys

import click
from pydantic import ValidationError
from rich.console import Console

from embeddings.errors import EmbeddingError
from memory import wire
from memory.cli import data, init, lifecycle, mcp, memories, running
from memory.cli.session import EXIT_FAILED, EXIT_USAGE, examples, printable
from memory.errors import ServiceError, UsageError
from memory.version import installed_version
from tiers.errors import TierError


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=examples(
        """
tiermem save "deploys happen on Tuesdays, never on Fridays"
tiermem search "when do we deploy?"
tiermem load                  what an agent is given at its start
tiermem status                where everything is, and how it is
""",
        title="Start here",
    ),
)
@click.version_option(installed_version(), prog_name="tiermem")
def cli() -> None:
    """Memory for coding agents: kept in files, found by meaning, never lost."""


for command in (
    init.init,
    *memories.COMMANDS,
    *lifecycle.COMMANDS,
    *data.COMMANDS,
    *running.COMMANDS,
    *mcp.COMMANDS,
):
    cli.add_command(command)


def main() -> None:
    """Run the command line and exit."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, ValueError):
            stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    try:
        code = cli.main(prog_name="tiermem", standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.Abort:
        code = EXIT_FAILED
    except click.ClickException as exc:
        exc.show()
        code = exc.exit_code
    except (ServiceError, TierError, EmbeddingError) as exc:
        _complain(exc.message, exc.hint)
        code = EXIT_USAGE if isinstance(exc, UsageError) else EXIT_FAILED
    except ValidationError as exc:
        _complain(wire.complaint(exc), "see: tiermem --help")
        code = EXIT_USAGE
    except BrokenPipeError:
        # The reader of a pipe has seen enough; keep Python from complaining while it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except OSError as exc:
        place = f"{exc.filename}: " if exc.filename else ""
        _complain(f"{place}{exc.strerror or exc}", "run: tiermem doctor")
        code = EXIT_FAILED
    sys.exit(code if isinstance(code, int) else 0)


def _complain(message: str, hint: str) -> None:
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    console.print(f"error: {printable(message)}", style="red", markup=False)
    console.print(f"  → {printable(hint)}", markup=False)
