"""An open home with its watcher: what the routes of the engine work on."""

from __future__ import annotations

import logging
import os
import threading
import time
from pathlib import Path

from memory.app import App
from memory.config import Settings
from memory.projects import Project
from memory.version import installed_version
from tiers.errors import (
    HotRootNotWritable,
    StoreBusy,
    StoreDamaged,
    StoreFull,
    StoreUnavailable,
)
from tiers.watcher import Watcher

log = logging.getLogger(__name__)


class Host:
    """One App, the watcher of its hot roots, and the projects that were asked for so far."""

    def __init__(self, settings: Settings) -> None:
        self.app = App(settings)
        self.version = installed_version()
        self.started_at = time.monotonic()
        self.http, self.http_problem = "", ""  # where it listens over TCP, or why it does not
        self._watcher = Watcher(self._look)
        self._entered: dict[str, Project] = {}
        self._attended: set[str] = set()
        self._lock = threading.Lock()  # guards _entered and _attended

    def start(self) -> None:
        """Start the relays and watch every project that this home knows."""
        self.app.start()
        for project in self.app.projects.all():
            self._watch(project)
        self._watcher.start()

    def stop(self) -> None:
        self._watcher.stop()
        self.app.stop()

    def enter(self, folder: str) -> Project:
        """Find the project of a folder; at its first use, take in what people changed meanwhile."""
        known = self._entered.get(folder)
        if known is not None:
            return known
        project = self.app.projects.resolve(Path(folder))
        self.attend_to(project)
        with self._lock:
            self._entered[folder] = project
        return project

    def attend_to(self, project: Project) -> None:
        """Watch a project's hot files; at its first use, take in what people changed meanwhile."""
        with self._lock:
            if project.key in self._attended:
                return
            self._attended.add(project.key)
        self._watch(project)
        try:
            self._look(project.key)
        except (StoreUnavailable, StoreBusy, StoreFull, StoreDamaged) as exc:
            # No reason to refuse a save or a search: the watcher looks again.
            log.warning("edits of %s are taken in later: %s", project.name, exc.message)

    def leave(self, key: str) -> None:
        """Look at a project's registration again when it is next asked for."""
        self.app.folders.drop(key)
        with self._lock:
            self._entered = {f: p for f, p in self._entered.items() if p.key != key}
            self._attended.discard(key)

    def rss_mb(self) -> float:
        """Measure the resident memory of this process; 0 where the system does not tell."""
        try:
            pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        except OSError:
            return 0.0
        return round(pages * os.sysconf("SC_PAGE_SIZE") / 2**20, 1)

    def _watch(self, project: Project) -> None:
        folder = self.app.folders.get(project.key)
        self._watcher.add(project.key, folder.hot.root)

    def _look(self, key: str) -> bool:
        folder = self.app.folders.get(key)
        if not folder.hot.exists() and not self.app.catalogue.placements(key):
            try:
                folder.hot.create()
            except HotRootNotWritable:
                # Saves say so; an empty project can be looked at without its folder.
                return False
        report = self.app.hot_sink.look(folder)
        if report.taken_in or report.demoted:
            self.app.notify()
        return report.unsettled
