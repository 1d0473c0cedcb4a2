"""Who asks the engine, and what that caller may reach."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from memory import wire
from memory.config import Settings, for_project
from memory.engine.host import Host
from memory.errors import ProjectRefused, Refused, UsageError
from memory.projects import GLOBAL, Project, look
from memory.search import Search
from memory.service import MemoryService
from tiers.records import GLOBAL_PROJECT

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Asgi = Callable[[Scope, Receive, Send], Awaitable[None]]

#: Where a door notes who it let in.
CALLER = "tiermem.caller"

_ELSEWHERE = "this connection serves one project"


@dataclass(frozen=True, slots=True)
class Caller:
    """Somebody whose request is trusted to be theirs.

    `project` is None for a front on the engine's own socket that names a folder in each request;
    everybody else is bound to one. Only a local caller may name places of the file system.
    """

    owner: str
    project: Project | None = None
    is_local: bool = True
    may_global: bool = True


@dataclass(frozen=True, slots=True)
class Here:
    """One project, or the global memories, with the services as the caller may use them."""

    key: str
    project: Project
    service: MemoryService
    search: Search
    with_global: bool = False


class View:
    """An open home as one caller sees it."""

    def __init__(self, host: Host, caller: Caller) -> None:
        self.host = host
        self.app = host.app
        self.caller = caller

    def enter(self, asked: wire.ProjectRequest) -> Here:
        """Find what a request is about.

        Raises ProjectRefused for another project than the caller's, Refused for global memories
        that the caller may not see, UsageError when no project is named.
        """
        project = self.project(asked.project)
        is_global = asked.scope == "global"
        if is_global and not self.caller.may_global:
            raise Refused(
                "this token does not open global memories",
                hint="leave scope out, or make a token that does: tiermem token --global",
            )
        self.host.attend_to(GLOBAL if is_global else project)
        return Here(
            key=GLOBAL_PROJECT if is_global else project.key,
            project=project,
            service=self.app.service.seen_by(self.caller.owner),
            search=self.app.search.seen_by(self.caller.owner),
            with_global=is_global,
        )

    def project(self, named: str) -> Project:
        """Find the project that a request names, which is the caller's if the caller has one."""
        bound = self.caller.project
        if bound is None:
            if not named:
                raise UsageError("no project is named", hint="give a folder of it as project")
            return self.host.enter(named)
        if named and not self._is_bound_to(bound, named):
            raise ProjectRefused(
                f"{named!r} is not this project: {_ELSEWHERE}",
                hint=f"leave it out, or connect for that project; this one is {bound.name}",
            )
        return bound

    def _is_bound_to(self, bound: Project, named: str) -> bool:
        if named == bound.key:
            return True
        if self.caller.is_local:
            found = self.app.projects.find(Path(named))
            return found is not None and found.key == bound.key
        # From elsewhere a path is only compared, never looked at.
        path, root = PurePath(named), _root(bound)
        return ".." not in path.parts and bool(root) and path.is_relative_to(root)

    @property
    def owns_files(self) -> bool:
        """Whether the hot files of this home are the caller's own."""
        return self.caller.owner == self.app.settings.owner

    def files(self, here: Here) -> frozenset[str] | None:
        """Name the hot files that the caller may see; None for the one whose files they are.

        MEMORY.md is not among them, since it names all the others.
        """
        if self.owns_files:
            return None
        return here.service.visible_files(here.key)

    def settings(self, project: Project, asked: wire.ProjectRequest) -> Settings:
        """The settings of this home, with what the project's own file may set."""
        named = asked.project if self.caller.is_local else ""
        folder = Path(named or _root(project))
        if not folder.is_absolute() or not folder.is_dir():
            return self.app.settings
        return for_project(self.app.settings, look(folder).root)


def _root(project: Project) -> str:
    """Name the folder that a project's anchor stands for; empty where only git knows it."""
    anchor = PurePath(project.anchor)
    if anchor.name == ".git":
        return str(anchor.parent)
    return "" if ".git" in anchor.parts else project.anchor


def local_view(host: Host) -> View:
    """The home as a front on its own socket sees it."""
    return View(host, Caller(owner=host.app.settings.owner))


class SocketDoor:
    """ASGI middleware of the engine's own socket: only its user can open that, so it is them."""

    def __init__(self, app: Asgi, owner: str) -> None:
        self._app = app
        self._caller = Caller(owner=owner)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app({**scope, CALLER: self._caller}, receive, send)
