"""A change of one client's settings: planned first, shown, and only then made."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from memory.clients.client import SERVER, Client
from memory.clients.entry import State, is_switched_off, repaired, state
from memory.clients.launch import Launch
from memory.clients.settings_file import SettingsFile, read_settings
from memory.errors import Refused, UsageError


class Action(StrEnum):
    """What becomes of a settings file."""

    CREATED = "created"
    ADDED = "added"
    REPAIRED = "repaired"
    REMOVED = "removed"
    DELETED = "deleted"
    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True)
class Change:
    """What shall become of one file; `text` is None when it goes."""

    client: Client
    file: SettingsFile
    action: Action
    text: str | None
    notes: tuple[str, ...] = ()

    @property
    def diff(self) -> str:
        """The change as a unified diff; empty when there is none."""
        before, after = self.file.text, self.text
        path = str(self.file.path)
        lines = difflib.unified_diff(
            (before or "").splitlines(keepends=True),
            (after or "").splitlines(keepends=True),
            "/dev/null" if before is None else path,
            "/dev/null" if after is None else path,
        )
        return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)

    def apply(self) -> None:
        """Make the change. Raises Refused when the file has changed since, and OSError."""
        if self.action is Action.UNCHANGED:
            return
        if self.text is None:
            self.file.delete()
        else:
            self.file.write(self.text)


def plan_addition(client: Client, base: Path, launch: Launch, *, user: bool) -> Change:
    """Plan to let a client start tiermem. Raises Refused, and then nothing was touched."""
    file, settings = _choose(client, base, user=user)
    keys, shape = client.place(settings)
    words = [*launch.words, *client.words]
    notes = _link_notes(file)
    if file.text is None:
        text = client.format.new(keys, shape.entry(words))
        return Change(client, file, Action.CREATED, text, notes)
    with _refusing(client, file):
        entry = _entry(settings, keys)
        if entry is None:
            text = client.format.add(file.text, keys, shape.entry(words))
            return Change(client, file, Action.ADDED, text, notes)
        text = file.text
        match state(entry):
            case State.STARTS:
                return Change(client, file, Action.UNCHANGED, text, notes + _entry_notes(entry))
            case State.FOREIGN:
                raise _foreign(file, keys)
        for key, value in shape.command(repaired(entry, launch.words, client.words)).items():
            if entry.get(key) != value:
                text = client.format.set(text, (*keys, key), value)
        return Change(client, file, Action.REPAIRED, text, notes + _entry_notes(entry))


def plan_removal(client: Client, base: Path, *, user: bool) -> Change:
    """Plan to take our entry away again. Raises Refused, and then nothing was touched."""
    file, settings = _choose(client, base, user=user)
    keys, _ = client.place(settings)
    notes = _link_notes(file)
    if file.text is None:
        return Change(client, file, Action.UNCHANGED, None, notes)
    with _refusing(client, file):
        entry = _entry(settings, keys)
        if entry is None:
            return Change(client, file, Action.UNCHANGED, file.text, notes)
        if state(entry) is State.FOREIGN:
            raise _foreign(file, keys)
        text = client.format.remove(file.text, keys)
    action = Action.DELETED if text is None else Action.REMOVED
    return Change(client, file, action, text, notes)


def _choose(client: Client, base: Path, *, user: bool) -> tuple[SettingsFile, dict[str, Any]]:
    """Choose among a client's files: the one that has our entry, else one that is there."""
    names = client.files(user=user)
    if not names:
        raise UsageError(
            f"{client.title}'s settings of a user are not written here", hint=client.user_hint
        )
    # A repository's files are shared, a user's own may hold what is nobody else's business.
    files = [read_settings(base, Path(name), 0o600 if user else 0o644) for name in names]
    there = [(file, _settings(client, file)) for file in files if file.text is not None]
    for file, settings in there:
        if _entry(settings, client.place(settings)[0]) is not None:
            return file, settings
    return there[0] if there else (files[0], {})


def _settings(client: Client, file: SettingsFile) -> dict[str, Any]:
    with _refusing(client, file):
        return client.format.read(file.text or "")


@contextmanager
def _refusing(client: Client, file: SettingsFile) -> Iterator[None]:
    """Turn what a format says about a text into a refusal that names the file."""
    try:
        yield
    except ValueError as exc:
        raise Refused(
            f"{file.path} is left as it is: {exc}",
            hint="repair that by hand, or print what belongs there: "
            f"tiermem init --client {client.name} --print",
        ) from exc


def _entry(settings: Mapping[str, Any], keys: tuple[str, ...]) -> Any:
    found: Any = settings
    for key in keys:
        found = found.get(key) if isinstance(found, dict) else None
    return found


def _foreign(file: SettingsFile, keys: tuple[str, ...]) -> Refused:
    return Refused(
        f"{file.path} has an entry {'.'.join(keys)} that does not run `tiermem mcp`",
        hint="rename or remove that entry by hand, and run the same again",
    )


def _link_notes(file: SettingsFile) -> tuple[str, ...]:
    return (f"{file.path} is a link to {file.target}",) if file.is_link else ()


def _entry_notes(entry: Mapping[str, Any]) -> tuple[str, ...]:
    return (f"the entry {SERVER} is switched off there",) if is_switched_off(entry) else ()
