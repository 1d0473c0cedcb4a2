"""Verbs that run and inspect tiermem: serve, stop, status, doctor, held, config."""

from __future__ import annotations

import logging
import sys

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from embeddings.errors import EmbeddingError
from memory import wire
from memory.cli.session import EXIT_FAILED, EXIT_PARTIAL, Session, examples, say, stdout, verb
from memory.config import SETTINGS, for_project, variable
from memory.errors import EngineFailed, ServiceError
from memory.projects import look
from tiers.errors import TierError

_STATE_STYLES = {"ready": "green", "degraded": "yellow", "down": "red"}


@click.command(
    epilog=examples("tiermem serve      in the foreground; other verbs start it by themselves")
)
@click.option("--detached", is_flag=True, hidden=True)
@verb
def serve(session: Session, detached: bool) -> int:
    """Run the engine of this home in the foreground."""
    # Here, because every other verb does without the server's packages.
    from memory.engine.server import detach_from_terminal
    from memory.engine.server import serve as serve_home

    logging.basicConfig(
        level=logging.INFO,
        stream=sys.stderr,
        format="%(asctime)s %(levelname)s %(name)s %(message)s",
    )
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    logging.getLogger("watchfiles").setLevel(logging.WARNING)
    if detached:
        detach_from_terminal()
    try:
        if serve_home(session.settings):
            return 0
    except (ServiceError, TierError, EmbeddingError) as exc:
        if not detached:
            raise
        # Whoever started this engine quotes the last complaint of its log, which is one line.
        raise EngineFailed(f"{exc.message}; {exc.hint}") from exc
    say("an engine of this home is running already; see: tiermem status")
    return 0 if detached else EXIT_FAILED


@click.command(epilog=examples("tiermem stop"))
@verb
def stop(session: Session) -> int:
    """Let the engine finish what it does, and end."""
    stopped = session.client.stop()
    if session.as_json:
        session.print_json({"stopped": stopped})
    else:
        say("stopped" if stopped else "no engine was running")
    return 0


@click.command(epilog=examples("tiermem status\ntiermem status --json | jq .tiers.deep"))
@verb
def status(session: Session) -> int:
    """Show how everything is.

    That is the engine, the tiers, where files lie, and what is pending or held.
    """
    answer = session.ask("status", wire.ProjectRequest(project=session.project), wire.StatusAnswer)
    session.show(answer, lambda console: _render_status(console, answer))
    fine = all(tier.state == "ready" for tier in answer.tiers.values())
    return 0 if fine else EXIT_PARTIAL


def _render_status(console: Console, answer: wire.StatusAnswer) -> None:
    engine = answer.engine
    console.print(
        f"engine {engine.version}, pid {engine.pid}, {engine.rss_mb:.0f} MB, "
        f"model {engine.model} ({engine.model_state})",
        markup=False,
    )
    console.print(f"home {engine.home}", markup=False)
    console.print(f"project {answer.project_name} ({answer.project})", markup=False)
    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in ("tier", "state", "count", "pending"):
        table.add_column(heading, no_wrap=True)
    table.add_column("where", overflow="fold")
    for name, tier in answer.tiers.items():
        count = "" if tier.count is None else f"{tier.count:,}"
        style = _STATE_STYLES[tier.state]
        state = f"[{style}]{tier.state}[/{style}]"
        waiting = tier.pending + tier.vector_pending
        table.add_row(name, state, count, str(waiting), escape(tier.path))
    console.print(table)
    for name, tier in answer.tiers.items():
        if tier.detail and tier.state != "ready":
            console.print(f"{name}: {tier.detail}", markup=False)
    if answer.held:
        console.print(
            f"held: {answer.held}, {len(answer.held_paths)} files; "
            "take them in with: tiermem held apply; put the files back with: tiermem held restore",
            markup=False,
        )
    for path, problem in answer.problems.items():
        console.print(f"{path}: {problem}", markup=False)


@click.command(epilog=examples("tiermem doctor\ntiermem doctor --json"))
@verb
def doctor(session: Session) -> int:
    """Look at everything that can be wrong, and say what to do."""
    answer = session.ask("doctor", wire.ProjectRequest(project=session.project), wire.DoctorAnswer)

    def render(console: Console) -> None:
        for check in answer.checks:
            mark = "[green]ok[/green]  " if check.ok else "[red]bad[/red] "
            console.print(f"{mark} {escape(check.name)}: {escape(check.detail)}")
            if not check.ok and check.hint:
                console.print(f"      → {check.hint}", markup=False)

    session.show(answer, render)
    return 0 if all(check.ok for check in answer.checks) else EXIT_PARTIAL


@click.command(
    epilog=examples(
        """
tiermem status                 shows what is held, and why
tiermem held apply             the files are right: take their changes in
tiermem held restore           the memories are right: put the files back
"""
    )
)
@click.argument("action", type=click.Choice(["apply", "restore"]))
@verb
def held(session: Session, action: str) -> int:
    """Decide on changes of hot files that are held.

    Many changes at once, as after a checkout of another branch, wait for a word of yours.
    """
    request = {"project": session.project, "action": action}
    answer = wire.HeldAnswer.model_validate(session.client.call("held", request))

    def render(console: Console) -> None:
        if not (answer.taken_in or answer.demoted or answer.restored):
            console.print("nothing was held")
            return
        console.print(
            f"{answer.taken_in} taken in, {answer.demoted} demoted, {answer.restored} restored"
        )

    session.show(answer, render)
    return 0


@click.group(
    epilog=examples(
        """
tiermem config show                           every setting, its value, and where it comes from
echo 'search.limit = 5' >> "$TIERMEM_HOME/config.toml"   for good; then: tiermem stop
TIERMEM_SEARCH_LIMIT=5 tiermem serve          for one engine
"""
    )
)
def config() -> None:
    """Show settings and where each comes from."""


@config.command("show", epilog=examples("tiermem config show --json"))
@verb
def config_show(session: Session) -> int:
    """Print every setting, its value and its origin."""
    settings = for_project(session.settings, look(session.folder).root)
    rows = {
        name: {
            "value": "set" if name.endswith("api_key") and value else value,
            "origin": settings.origins[name],
            "variable": variable(name),
            "about": SETTINGS[name].doc,
        }
        for name, value in settings.values.items()
    }
    if session.as_json:
        session.print_json({"home": str(settings.home), "settings": rows})
        return 0
    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in ("setting", "value", "origin", "about"):
        table.add_column(heading, overflow="fold")
    for name, row in rows.items():
        table.add_row(name, str(row["value"]), str(row["origin"]), escape(str(row["about"])))
    stdout().print(table)
    return 0


COMMANDS = (serve, stop, status, doctor, held, config)
