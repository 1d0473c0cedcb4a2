"""`tiermem init --client`: lets MCP clients start tiermem, by an entry in their own settings."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from memory.cli.session import Session, printable, say
from memory.clients.change import Action, Change, plan_addition, plan_removal
from memory.clients.client import CLIENTS, snippet
from memory.clients.launch import Launch, find_launch
from memory.errors import UsageError
from memory.projects import look
from memory.redaction import redact


def client_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options that set up clients."""
    options = (
        click.option(
            "--client",
            "names",
            multiple=True,
            type=click.Choice(list(CLIENTS)),
            help="Let this client start tiermem, by its own settings; may be given again.",
        ),
        click.option(
            "--user",
            is_flag=True,
            help="With --client: in your own settings of it, for all projects.",
        ),
        click.option(
            "--dry-run", is_flag=True, help="With --client: show the change, write nothing."
        ),
        click.option(
            "--print",
            "only_print",
            is_flag=True,
            help="With --client: print what belongs into its settings, to paste by hand.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


@dataclass(frozen=True, slots=True)
class ClientSetup:
    """What was asked about clients."""

    names: tuple[str, ...]
    user: bool
    dry_run: bool
    only_print: bool
    remove: bool

    def is_asked(self, *, others: bool) -> bool:
        """Say whether clients are meant. Raises UsageError for options that do not go together."""
        if not self.names:
            if self.user or self.dry_run or self.only_print:
                raise UsageError(
                    "--user, --dry-run and --print are about --client",
                    hint=f"say which client: {', '.join(CLIENTS)}",
                )
            return False
        if others:
            raise UsageError(
                "--client goes with no option about the project's id or hot root",
                hint="run tiermem init twice",
            )
        if self.only_print and (self.remove or self.dry_run):
            raise UsageError("--print writes nothing and removes nothing", hint="leave it alone")
        return True

    def run(self, session: Session) -> int:
        """Print, or plan all, show all, and write all. Nothing is written if one is refused."""
        launch = find_launch(shared=not self.user)
        if self.only_print:
            return self._print(session, launch)
        changes = self._plan(session, launch)
        warning = "" if self.remove else launch.warning
        if not session.as_json:
            for change in changes:
                _show(change)
        if not self.dry_run:
            for change in changes:
                change.apply()
        if session.as_json:
            session.print_json(self._answer(changes, warning))
            return 0
        for change in changes:
            print(self._line(change))  # noqa: T201 - plain data for people
            if change.action in (Action.CREATED, Action.ADDED, Action.REPAIRED):
                say(f"  then: {change.client.next_step}")
        if warning:
            say(f"warning: {warning}")
        return 0

    def _plan(self, session: Session, launch: Launch) -> list[Change]:
        base = _user_folder() if self.user else look(session.folder).root
        clients = [CLIENTS[name] for name in dict.fromkeys(self.names)]
        if self.remove:
            return [plan_removal(client, base, user=self.user) for client in clients]
        return [plan_addition(client, base, launch, user=self.user) for client in clients]

    def _print(self, session: Session, launch: Launch) -> int:
        snippets = [_Snippet.of(name, launch, self.user) for name in dict.fromkeys(self.names)]
        if session.as_json:
            session.print_json({"snippets": [vars(found) for found in snippets]})
        else:
            for found in snippets:
                say(f"{found.client}, into {found.path}:")
                sys.stdout.write(found.text)
                sys.stdout.flush()
        if launch.warning:
            say(f"warning: {launch.warning}")
        return 0

    def _answer(self, changes: Sequence[Change], warning: str) -> dict[str, Any]:
        return {
            "changes": [
                {
                    "client": change.client.name,
                    "path": str(change.file.path),
                    "action": change.action.value,
                    "diff": redact(change.diff).text,
                    "notes": list(change.notes),
                }
                for change in changes
            ],
            "written": not self.dry_run,
            "warnings": [warning] if warning else [],
        }

    def _line(self, change: Change) -> str:
        would = "would be " if self.dry_run and change.action is not Action.UNCHANGED else ""
        path = printable(str(change.file.path))
        return f"{change.client.name}: {would}{change.action.value}, {path}"


@dataclass(frozen=True)
class _Snippet:
    """What somebody pastes, and where."""

    client: str
    path: str
    text: str

    @classmethod
    def of(cls, name: str, launch: Launch, user: bool) -> _Snippet:
        client = CLIENTS[name]
        files = client.user_files if user and client.user_files else client.project_files
        path = f"~/{files[0]}" if user and client.user_files else files[0]
        return cls(name, path, snippet(client, launch.words))


def _show(change: Change) -> None:
    """Show people a change; what is secret in the lines around it stays so."""
    for note in change.notes:
        say(f"note: {printable(note)}")
    # Not by rich, which would change the tabs of the lines.
    sys.stderr.write(printable(redact(change.diff).text))
    sys.stderr.flush()


def _user_folder() -> Path:
    try:
        return Path.home().resolve()
    except RuntimeError as exc:
        raise UsageError("this user has no home folder", hint="leave out --user") from exc
