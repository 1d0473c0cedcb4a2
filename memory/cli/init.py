"""The verb that makes a folder a project: its id file, and where its hot files lie."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from memory.cli.client_setup import ClientSetup, client_options
from memory.cli.session import Session, examples, say, verb
from memory.config import PROJECT_FILE
from memory.errors import UsageError
from memory.projects import Project, Projects, look, write_id_file
from tiers.atomic import replace
from tiers.hot import INDEX, HotTier
from tiers.memory_index import human_part


@click.command(
    epilog=examples(
        """
tiermem init                         mark this folder, so that moving it keeps its memory
tiermem init --hot-root .memory      keep the hot files in the repository's folder
tiermem init --adopt                 this copy takes over the project of its id file
tiermem init --remove                take the id file away again; memories stay
tiermem init --client cursor         let Cursor start tiermem in this project; shows the change
tiermem init --client codex --user   the same for Codex, in all of your projects
tiermem init --client zed --dry-run  show the change, write nothing
tiermem init --client zed --print    print what to paste into Zed's settings
tiermem init --client zed --remove   take just that entry away again
"""
    )
)
@click.option("--adopt", is_flag=True, help="Bind the project of the id file to this folder.")
@click.option(
    "--remove",
    is_flag=True,
    help="Remove the id file; memories stay. With --client: remove our entry instead.",
)
@click.option("--hot-root", type=click.Path(path_type=Path), help="Where hot files shall lie.")
@click.option("--tracked", is_flag=True, help="With --hot-root: let git track those files.")
@client_options
@verb
def init(
    session: Session,
    adopt: bool,
    remove: bool,
    hot_root: Path | None,
    tracked: bool,
    **client_choices: Any,
) -> int:
    """Make this folder a project, or set up an MCP client for it.

    The id is written into .tiermem.toml, so that the folder keeps its memory when it is moved. With
    --client only the settings of that client are changed: one entry, and nothing else in them.
    """
    setup = ClientSetup(**client_choices, remove=remove)
    if setup.is_asked(others=bool(adopt or hot_root or tracked)):
        return setup.run(session)
    if remove and (adopt or hot_root or tracked):
        raise UsageError("--remove goes with no other option", hint="see: tiermem init --help")
    if tracked and hot_root is None:
        raise UsageError("--tracked is about --hot-root", hint="give both")
    root = look(session.folder).root
    if remove:
        return _remove(session, root)
    registry = Projects(session.settings.home)
    project = registry.adopt(session.folder) if adopt else registry.resolve(session.folder)
    written = write_id_file(root, project.key)
    if hot_root is not None:
        project = _choose_hot_root(session, project, root, hot_root, tracked=tracked)
    elif session.client.is_running():
        _rescan(session)
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


def _remove(session: Session, root: Path) -> int:
    removed = _remove_id(root)
    if session.as_json:
        session.print_json({"removed": removed})
    else:
        say("the id is gone; memories stay" if removed else "there was no id")
    return 0


def _remove_id(root: Path) -> bool:
    path = root / PROJECT_FILE
    if not path.is_file():
        return False
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    kept = [line for line in lines if line.partition("=")[0].strip() != "project"]
    if "".join(kept).strip():
        path.write_text("".join(kept), encoding="utf-8")
    else:
        path.unlink()
    return kept != lines


def _rescan(session: Session) -> None:
    session.client.call("rescan", {"project": session.project})


# Moving the hot root.


def _choose_hot_root(
    session: Session, project: Project, root: Path, hot_root: Path, *, tracked: bool
) -> Project:
    """Keep a project's hot files elsewhere from now on, and take the present ones along."""
    home = session.settings.home
    registry = Projects(home)
    old = project.hot_folder(home)
    new = _checked_folder((root / hot_root.expanduser()).resolve(), root)
    if new == old:
        return registry.set_hot_root(project.key, new, tracked=tracked)
    if old.is_dir():
        # What people changed there is taken in before it is left.
        _rescan(session)
        _copy(HotTier(old, project.state_folder(home)), HotTier(new, project.state_folder(home)))
    moved = registry.set_hot_root(project.key, new, tracked=tracked)
    if (root / ".git").exists() and new.is_relative_to(root) and not tracked:
        _ignore(root, new)
    if session.client.is_running():
        _rescan(session)
    if old.is_relative_to(home):
        _remove_copied(HotTier(old, project.state_folder(home)), new)
    elif old.is_dir():
        say(f"the files in {old} are left there; they are no memories any more")
    return moved


def _checked_folder(folder: Path, root: Path) -> Path:
    if folder in (root, *root.parents) or folder.is_relative_to(root / ".git"):
        raise UsageError(
            f"{folder} holds more than memories", hint="choose a folder of its own, as in .memory"
        )
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as exc:
        raise UsageError(
            f"{folder} cannot be a folder: {exc.strerror}", hint="choose another one"
        ) from exc
    return folder


def _copy(old: HotTier, new: HotTier) -> None:
    """Copy hot files to their new root. Raises UsageError before one would hide another."""
    there = new.listing()
    contents = {path: file.content for path in old.listing() if (file := old.read(path))}
    if INDEX in there and not human_part(contents.get(INDEX, b"")).strip():
        # Ours is written again there, around what people wrote.
        contents.pop(INDEX, None)
    taken = sorted(path for path in contents if path in there and not _is_same(new, path, contents))
    if taken:
        raise UsageError(
            f"{new.root} holds other files of these names: {', '.join(taken)}",
            hint="rename them there, or choose another folder",
        )
    for path, content in contents.items():
        target = new.root / path
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace(target, content)


def _is_same(new: HotTier, path: str, contents: dict[str, bytes]) -> bool:
    file = new.read(path)
    return file is not None and file.content == contents[path]


def _remove_copied(old: HotTier, new: Path) -> None:
    """Remove from the home what has its copy at the new root."""
    for path in old.listing():
        file = old.read(path)
        copy = new / path
        if file and (path == INDEX or (copy.is_file() and copy.read_bytes() == file.content)):
            (old.root / path).unlink()


def _ignore(root: Path, folder: Path) -> None:
    """Keep git from tracking hot files that are private by default."""
    path = root / ".gitignore"
    line = f"/{folder.relative_to(root).as_posix()}/"
    content = path.read_bytes() if path.is_file() else b""
    mode = path.stat().st_mode & 0o777 if path.is_file() else 0o644
    if line.encode() not in content.splitlines():
        newline = b"\r\n" if b"\r\n" in content else b"\n"
        separator = b"" if not content or content.endswith(b"\n") else newline
        replace(path, content + separator + line.encode() + newline, mode=mode)
