"""Verbs that run and inspect tiermem: serve, token, stop, status, doctor, held, config."""

from __future__ import annotations

import logging
import os
import sys
import time
from datetime import UTC, datetime
from functools import partial

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from embeddings.errors import EmbeddingError
from memory import wire
from memory.cli.session import EXIT_FAILED, EXIT_PARTIAL, Session, examples, say, stdout, verb
from memory.config import SETTINGS, Settings, for_project, load_settings, variable
from memory.errors import EngineFailed, ServiceError, UsageError
from memory.projects import Project, Projects, look
from memory.tokens import Tokens
from tiers.errors import TierError

#: Where clients look when nothing else is said.
DEFAULT_ADDRESS = "127.0.0.1:3008"

#: For so long an engine without HTTP is asked to make room, and how long to wait in between.
_TAKE_OVER_S = 60.0
_PAUSE_S = 0.1

_STATE_STYLES = {"ready": "green", "degraded": "yellow", "down": "red"}


@click.command(
    epilog=examples(
        """
tiermem serve                            in the foreground; other verbs start it by themselves
tiermem serve --http 127.0.0.1:3008      for clients that speak HTTP; they need: tiermem token
"""
    )
)
@click.option("--http", metavar="HOST:PORT", help="Listen over TCP too (setting: http.listen).")
@click.option("--detached", is_flag=True, hidden=True)
@verb
def serve(session: Session, http: str | None, detached: bool) -> int:
    """Run the engine of this home in the foreground.

    With --http it takes the place of one that does without, and stays until it is stopped.
    """
    # Here, because every other verb does without the server's packages.
    from memory.engine.server import detach_from_terminal

    logging.basicConfig(
        level=logging.INFO,
        stream=sys.stderr,
        format="%(asctime)s %(levelname)s %(name)s %(message)s",
    )
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    # Whoever can connect could fill the log with what it says about odd requests.
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    logging.getLogger("mcp").setLevel(logging.WARNING)
    logging.getLogger("watchfiles").setLevel(logging.WARNING)
    if detached:
        detach_from_terminal()
    try:
        settings = load_settings(flags={} if http is None else {"http.listen": http})
        return _serve(session, settings, detached=detached)
    except (ServiceError, TierError, EmbeddingError) as exc:
        if not detached:
            raise
        # Whoever started this engine quotes the last complaint of its log, which is one line.
        raise EngineFailed(f"{exc.message}; {exc.hint}") from exc


def _serve(session: Session, settings: Settings, *, detached: bool) -> int:
    """Run the engine; over TCP, in the place of one that a front may start again meanwhile."""
    from memory.engine.server import serve as serve_home

    wanted = settings.text("http.listen") and not detached
    deadline = time.monotonic() + _TAKE_OVER_S
    while True:
        if wanted and (there := session.client.http_url()):
            say(f"an engine of this home listens at {there} already; to end it: tiermem stop")
            return EXIT_FAILED
        announce = partial(_announce, session)
        if serve_home(settings, must_listen=not detached, announce=announce):
            return 0
        if not wanted or time.monotonic() > deadline:
            break
        if not session.client.stop():
            time.sleep(_PAUSE_S)
    say("an engine of this home is running already; see: tiermem status")
    return 0 if detached else EXIT_FAILED


def _announce(session: Session, url: str) -> None:
    if not url:
        return
    if session.as_json:
        session.print_json({"http": url, "pid": os.getpid()})
    say(f"listening at {url}")
    say(
        f"for MCP and for a token, run in a project's folder: tiermem token; then {url}/mcp/PROJECT"
    )


@click.command(
    epilog=examples(
        """
tiermem token                            show the token of this project, making it at first use
curl -H "Authorization: Bearer $(tiermem token)" http://127.0.0.1:3008/healthz
tiermem token --rotate                   make a new one; the one before opens nothing any more
tiermem token --owner anna --global      for somebody else, with that owner's global memories
tiermem token --owner anna --revoke
"""
    )
)
@click.option("--owner", metavar="NAME", help="Whose token (default: the setting owner).")
@click.option(
    "--global/--no-global",
    "may_global",
    default=None,
    help="Whether it opens global memories too (default: as it is; a new one does not).",
)
@click.option("--rotate", is_flag=True, help="Make a new one.")
@click.option("--revoke", is_flag=True, help="Take it away.")
@verb
def token(
    session: Session, owner: str | None, may_global: bool | None, rotate: bool, revoke: bool
) -> int:
    """Show the token that opens this project over HTTP.

    The token alone goes to stdout. It is the key to every memory of this project that its owner may
    see: keep it as you keep passwords.
    """
    if revoke and (rotate or may_global is not None):
        raise UsageError("--revoke goes with --owner alone", hint="see: tiermem token --help")
    home, owner = session.settings.home, owner or session.settings.owner
    project = Projects(home).resolve(session.folder)
    tokens = Tokens(home)
    if revoke:
        return _revoke(session, tokens, project, owner)
    give = tokens.rotate if rotate else tokens.give
    given = give(project.key, owner, may_global=may_global, now=datetime.now(UTC))
    running = session.client.http_url()
    if session.client.is_running():
        # It may not know this project yet.
        session.client.call("rescan", {"project": session.project})
    listen = session.settings.text("http.listen") or DEFAULT_ADDRESS
    url = f"{running or 'http://' + listen}/mcp/{project.key}"
    if session.as_json:
        session.print_json(
            {
                "token": given.text,
                "project": project.key,
                "owner": given.owner,
                "global": given.may_global,
                "url": url,
                "file": str(tokens.path(project.key)),
            }
        )
        return 0
    print(given.text)  # noqa: T201 - the one thing that goes to stdout
    say(f"opens the project {project.name} to {given.owner}")
    if given.may_global:
        say("opens global memories too")
    say(f"MCP: {url}")
    if not running:
        say(f"nothing listens there yet; start it with: tiermem serve --http {listen}")
    return 0


def _revoke(session: Session, tokens: Tokens, project: Project, owner: str) -> int:
    revoked = tokens.revoke(project.key, owner)
    if session.as_json:
        session.print_json({"revoked": revoked, "project": project.key, "owner": owner})
    else:
        say("revoked" if revoked else f"{owner} has no token of {project.name}")
    return 0


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
    if engine.http:
        console.print(f"http {engine.http}", markup=False)
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


COMMANDS = (serve, token, stop, status, doctor, held, config)
