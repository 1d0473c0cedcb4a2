"""Which project a folder belongs to, and where its hot root lies. Standard library only.

A project's key is a UUID made at first use and bound to an anchor: the git common dir, so that
worktrees share one memory, else the folder. `tiermem init` also writes the UUID into the folder, so
that a moved folder keeps its key.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import tomllib
import uuid
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO

from memory.config import PROJECT_FILE, is_unicode
from memory.errors import HomeRefused, ProjectRefused, UsageError
from tiers import git
from tiers.records import GLOBAL_PROJECT

_REGISTRY = "projects.json"


@dataclass(frozen=True, slots=True)
class Project:
    """A project as this home knows it.

    `hot_root` is empty for the default place below the home.
    """

    key: str
    name: str
    anchor: str
    remote: str = ""
    hot_root: str = ""
    tracked: bool = False

    def hot_folder(self, home: Path) -> Path:
        return Path(self.hot_root) if self.hot_root else self.state_folder(home) / "memory"

    def state_folder(self, home: Path) -> Path:
        """Where lock and snapshots lie: never inside the watched hot root."""
        return home / "projects" / self.key


#: Where the memories of all projects are kept. It is no folder's project, and in no registry.
GLOBAL = Project(key=GLOBAL_PROJECT, name=GLOBAL_PROJECT, anchor="")


@dataclass(frozen=True, slots=True)
class Place:
    """What a folder is by itself, before any registry is asked."""

    root: Path
    anchor: str
    remote: str
    declared: str


def look(folder: Path) -> Place:
    """Read which repository or marked folder `folder` belongs to; runs no program.

    Raises UsageError when the folder is none or its id file cannot be read.
    """
    start = folder.absolute()
    if not _is_folder(start):
        raise UsageError(f"{start} is no folder", hint="give a folder with --project DIR")
    start = start.resolve()
    if not is_unicode(str(start)):
        raise UsageError(
            f"the path of this folder is not UTF-8: {os.fsencode(start)!r}",
            hint="rename the folder",
        )
    if repository := git.find_repository(start):
        return Place(
            repository.root,
            str(repository.common),
            git.remote(repository),
            _declared(repository.root),
        )
    for candidate in (start, *start.parents):
        if (candidate / PROJECT_FILE).is_file():
            return Place(candidate, str(candidate), "", _declared(candidate))
    return Place(start, str(start), "", "")


class Projects:
    """The registry of a home: one JSON file, replaced as a whole under a lock."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._path = home / _REGISTRY

    def all(self) -> list[Project]:
        """List every project of a folder, and the global one once it has a place for files."""
        has_files = GLOBAL.hot_folder(self._home).is_dir()
        return [*self._load().values(), *([GLOBAL] if has_files else [])]

    def find(self, folder: Path) -> Project | None:
        """Find the project of a folder without registering anything.

        Raises ProjectRefused when the folder's id file names a project that lives elsewhere.
        """
        return _match(look(folder), self._load())

    def resolve(self, folder: Path) -> Project:
        """Find the project of a folder, registering it at first use."""
        place = look(folder)
        known = _match(place, self._load())
        if known is not None and not _has_moved(known, place):
            return known
        with self._locked() as projects:
            known = _match(place, projects)
            if known is not None and not _has_moved(known, place):
                return known
            project = replace(known, anchor=place.anchor) if known else _new(place)
            projects[project.key] = project
            return project

    def by_key(self, key: str) -> Project | None:
        return GLOBAL if key == GLOBAL.key else self._load().get(key)

    def adopt(self, folder: Path) -> Project:
        """Bind the project that a folder's id file names to that folder.

        A project that lived there under another key stays in the registry, bound to nothing.
        """
        place = look(folder)
        with self._locked() as projects:
            known = projects.get(place.declared)
            if known is None:
                known = _new(place) if place.declared else _by_anchor(place, projects)
            adopted = replace(known or _new(place), anchor=place.anchor, remote=place.remote)
            for key, other in projects.items():
                if other.anchor == place.anchor and key != adopted.key:
                    projects[key] = replace(other, anchor="")
            projects[adopted.key] = adopted
            return adopted

    def set_hot_root(self, key: str, hot_root: Path | None, *, tracked: bool = False) -> Project:
        """Choose where a project's hot files lie; None means the default place.

        Raises UsageError when another project keeps its own there, and for the global one.
        """
        if key == GLOBAL.key:
            raise UsageError(
                "the memories of all projects lie in the home", hint="choose a project's folder"
            )
        with self._locked() as projects:
            text = str(hot_root) if hot_root else ""
            for other in (*projects.values(), GLOBAL):
                if hot_root and other.key != key and other.hot_folder(self._home) == hot_root:
                    raise UsageError(
                        f"{hot_root} holds the hot files of the project {other.name}",
                        hint="choose a folder of its own, as in .memory",
                    )
            projects[key] = replace(projects[key], hot_root=text, tracked=tracked)
            return projects[key]

    def _load(self) -> dict[str, Project]:
        try:
            data = json.loads(self._path.read_text(encoding="utf-8"))
            projects = {key: Project(**entry) for key, entry in data.items()}
            # Nobody can register it; a line that somebody wrote by hand would give it a folder.
            projects.pop(GLOBAL.key, None)
            return projects
        except FileNotFoundError:
            return {}
        except OSError as exc:
            raise HomeRefused(f"cannot read {self._path}: {exc.strerror}") from exc
        except (ValueError, TypeError, AttributeError) as exc:
            raise HomeRefused(
                f"{self._path} is damaged: {exc}", hint="restore that file from a backup"
            ) from exc

    @contextlib.contextmanager
    def _locked(self) -> Iterator[dict[str, Project]]:
        with self._lock_file() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            projects = self._load()
            before = dict(projects)
            yield projects
            if projects != before:
                self._store(projects)

    def _lock_file(self) -> IO[str]:
        try:
            self._home.mkdir(mode=0o700, parents=True, exist_ok=True)
            return (self._home / f"{_REGISTRY}.lock").open("a", encoding="utf-8")
        except OSError as exc:
            raise HomeRefused(f"{self._home} cannot be used: {exc.strerror}") from exc

    def _store(self, projects: dict[str, Project]) -> None:
        text = json.dumps({key: asdict(entry) for key, entry in projects.items()}, indent=2)
        temporary = self._path.with_suffix(".new")
        with temporary.open("w", encoding="utf-8") as handle:
            handle.write(text + "\n")
            handle.flush()
            os.fsync(handle.fileno())
        temporary.replace(self._path)


def write_id_file(root: Path, key: str) -> bool:
    """Write the project's UUID into its folder, keeping what the file holds; False if it is there.

    Raises UsageError when the file names another project.
    """
    path = root / PROJECT_FILE
    declared = _declared(root)
    if declared == key:
        return False
    if declared:
        raise UsageError(f"{path} names the project {declared}", hint="run: tiermem init --adopt")
    kept = path.read_text(encoding="utf-8") if path.is_file() else ""
    path.write_text(f'project = "{key}"\n{kept}', encoding="utf-8")
    return True


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):
        # A path that is too long, or holds a NUL, is none.
        return False


def _match(place: Place, projects: dict[str, Project]) -> Project | None:
    declared = projects.get(place.declared) if place.declared else None
    if declared is None:
        return _by_anchor(place, projects)
    if declared.anchor == place.anchor:
        return declared
    # A project whose old place is gone, and which has the same remote, has moved here.
    is_gone = not declared.anchor or not Path(declared.anchor).exists()
    if is_gone and declared.remote == place.remote:
        return declared
    raise ProjectRefused(
        f"{place.root / PROJECT_FILE} names the project that lives at {declared.anchor}"
    )


def _has_moved(known: Project, place: Place) -> bool:
    """Say whether a project is found by its id at another place than the registry has."""
    return known.key == place.declared and known.anchor != place.anchor


def _by_anchor(place: Place, projects: dict[str, Project]) -> Project | None:
    anchors = {project.anchor: project for project in projects.values()}
    if place.anchor in anchors:
        return anchors[place.anchor]
    if place.root != Path(place.anchor):
        return None
    if place.declared:
        return None
    # Outside of git, a folder belongs to the nearest folder above it that is a project. What was
    # once kept in the home folder of a user does not make one project of all that lies in it.
    user = _user_folder()
    for parent in place.root.parents:
        if str(parent) in anchors and not user.is_relative_to(parent):
            return anchors[str(parent)]
    return None


def _user_folder() -> Path:
    try:
        return Path.home().resolve()
    except RuntimeError:
        return Path("/")


def _new(place: Place) -> Project:
    return Project(
        key=place.declared or str(uuid.uuid4()),
        name=place.root.name or "root",
        anchor=place.anchor,
        remote=place.remote,
    )


def _declared(root: Path) -> str:
    path = root / PROJECT_FILE
    try:
        with path.open("rb") as handle:
            found = tomllib.load(handle).get("project", "")
        return str(uuid.UUID(found)) if found else ""
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except (OSError, tomllib.TOMLDecodeError, ValueError, TypeError, AttributeError) as exc:
        raise UsageError(f"cannot read {path}: {exc}", hint="repair or remove that file") from exc
