"""Verbs that run and inspect tiermem: init, serve, stop, status, doctor, held, config."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from memory import wire
from memory.cli.session import EXIT_FAILED, EXIT_PARTIAL, Session, examples, say, verb
from memory.config import SETTINGS, load_settings, variable
from memory.errors import UsageError
from memory.projects import Projects, look, write_id_file

_STATE_STYLES = {"ready": "green", "degraded": "yellow", "down": "red"}


@click.command(
    epilog=examples(
        """
tiermem init                         mark this folder, so that moving it keeps its memory
tiermem init --hot-root .memory      keep the hot files in the repository's folder
tiermem init --adopt                 this copy takes over the project of its id file
tiermem init --remove                take the id file away again; memories stay
"""
    )
)
@click.option("--adopt", is_flag=True, help="Bind the project of the id file to this folder.")
@click.option("--remove", is_flag=True, help="Remove the id file; memories stay.")
@click.option("--hot-root", type=click.Path(path_type=Path), help="Where hot files shall lie.")
@click.option("--tracked", is_flag=True, help="With --hot-root: let git track those files.")
@verb
def init(session: Session, adopt: bool, remove: bool, hot_root: Path | None, tracked: bool) -> int:
    """Make this folder a project with an id of its own, in .tiermem.toml."""
    registry = Projects(session.settings.home)
    root = look(session.folder).root
    if remove:
        removed = _remove_id(root)
        session.print_json({"removed": removed}) if session.as_json else say(
            "the id file is gone; memories stay" if removed else "there was no id file"
        )
        return 0
    project = registry.adopt(session.folder) if adopt else registry.resolve(session.folder)
    written = write_id_file(root, project.key)
    if hot_root is not None:
        folder = (root / hot_root).absolute()
        _check_hot_root(folder, root)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if folder.is_relative_to(root) and not tracked:
            _ignore(root, folder)
        project = registry.set_hot_root(project.key, folder, tracked=tracked)
    if session.client.is_running():
        session.client.call("rescan", {"project": session.project})
    found = {
        "project": project.key,
        "root": str(root),
        "hot_root": str(project.hot_folder(session.settings.home)),
        "id_file_written": written,
    }
    if session.as_json:
        session.print_json(found)
    else:
        for name, value in found.items():
            print(f"{name}: {value}")  # noqa: T201 - plain data for people
    return 0


def _remove_id(root: Path) -> bool:
    path = root / ".tiermem.toml"
    if not path.is_file():
        return False
    kept = [
        line
        for line in path.read_text(encoding="utf-8").splitlines(keepends=True)
        if line.partition("=")[0].strip() != "project"
    ]
    if "".join(kept).strip():
        path.write_text("".join(kept), encoding="utf-8")
    else:
        path.unlink()
    return True


def _check_hot_root(folder: Path, root: Path) -> None:
    if folder in (root, *root.parents):
        raise UsageError(
            f"{folder} holds more than memories", hint="choose a folder of its own, as in .memory"
        )


def _ignore(root: Path, folder: Path) -> None:
    """Keep git from tracking hot files that are private by default."""
    path = root / ".gitignore"
    line = f"/{folder.relative_to(root).as_posix()}/"
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    if line not in text.splitlines():
        separator = "" if not text or text.endswith("\n") else "\n"
        path.write_text(f"{text}{separator}{line}\n", encoding="utf-8")


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
    if serve_home(session.settings):
        return 0
    say("an engine of this home is running already; see: tiermem status")
    return 0 if detached else EXIT_FAILED


@click.command()
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
    """Show the engine, the tiers, where files lie, and what is pending or held."""
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
    for heading in ("tier", "state", "count", "pending", "where"):
        table.add_column(heading)
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


@click.command()
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
    """Decide on changes of hot files that are held, as after a checkout of another branch."""
    request = {"project": session.project, "action": action}
    answer = wire.HeldAnswer.model_validate(session.client.call("held", request))

    def render(console: Console) -> None:
        console.print(
            f"{answer.taken_in} taken in, {answer.demoted} demoted, {answer.restored} restored"
        )

    session.show(answer, render)
    return 0


@click.group()
def config() -> None:
    """Show settings and where each comes from."""


@config.command("show", epilog=examples("tiermem config show --json"))
@verb
def config_show(session: Session) -> int:
    """Print every setting, its value and its origin."""
    settings = load_settings(project_root=look(session.folder).root)
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
        table.add_column(heading)
    for name, row in rows.items():
        table.add_row(name, str(row["value"]), str(row["origin"]), escape(str(row["about"])))
    Console(highlight=False).print(table)
    return 0


COMMANDS = (init, serve, stop, status, doctor, held, config)
