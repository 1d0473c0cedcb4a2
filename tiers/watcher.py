"""Watches hot roots and asks for a look at each one that changed or is still settling."""

from __future__ import annotations

import logging
import stat
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from watchfiles import watch

from tiers.errors import TierError

log = logging.getLogger(__name__)

#: How often every root is looked at even if no event came (overflow, network mounts).
EVERYTHING_S = 10.0

#: How often the watcher looks up from waiting for events.
_TICK_MS = 200

#: How often a root that is still settling is looked at again.
_SETTLING_S = 0.2


class Watcher:
    """One thread over all hot roots.

    `look` is called with a root's key and says whether something there still moves; then it is
    called again soon. It is never called for two roots at once.
    """

    def __init__(self, look: Callable[[str], bool]) -> None:
        self._look = look
        self._roots: dict[str, Path] = {}
        self._lock = threading.Lock()  # guards _roots
        self._restart = threading.Event()
        self._stopping = threading.Event()
        self._settling: dict[str, float] = {}
        self._errors: dict[str, str] = {}
        self._all_at = float("-inf")
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="watcher", daemon=True)
        self._thread.start()

    def stop(self, *, timeout_s: float = 10.0) -> None:
        self._stopping.set()
        self._restart.set()
        if self._thread is not None:
            self._thread.join(timeout_s)

    def add(self, key: str, root: Path) -> None:
        """Watch a root from now on; again is no error."""
        with self._lock:
            if self._roots.get(key) == root:
                return
            self._roots[key] = root
        self._restart.set()

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._restart.clear()
            roots = self._existing()
            try:
                if roots:
                    self._watch(roots)
                else:
                    self._restart.wait(0.5)
                    self._look_when_due()
            except (OSError, RuntimeError) as exc:
                # A root vanished between the check and the watch, or the system is out of watches.
                log.warning("hot roots are polled, not watched: %s", exc)
                self._stopping.wait(1.0)
                self._look_when_due()

    def _existing(self) -> dict[str, _Root]:
        with self._lock:
            roots = dict(self._roots)
        found = {key: _inode(path) for key, path in roots.items()}
        return {key: _Root(roots[key], inode) for key, inode in found.items() if inode}

    def _watch(self, roots: dict[str, _Root]) -> None:
        events = watch(
            *(root.path for root in roots.values()),
            watch_filter=None,
            debounce=100,
            step=20,
            rust_timeout=_TICK_MS,
            yield_on_timeout=True,
            stop_event=self._restart,
            raise_interrupt=False,
        )
        # What happened before the watch began gave no event: the first tick looks at everything.
        self._all_at = float("-inf")
        for changes in events:
            self._look_at(_touched(roots, (path for _, path in changes)))
            self._look_when_due()
            if self._existing() != roots:
                return

    def _look_when_due(self) -> None:
        now = time.monotonic()
        if now - self._all_at >= EVERYTHING_S:
            self._all_at = now
            with self._lock:
                due = list(self._roots)
        else:
            due = [key for key, at in self._settling.items() if now >= at]
        self._look_at(due)

    def _look_at(self, keys: Iterable[str]) -> None:
        for key in keys:
            self._settling.pop(key, None)
            if self._is_moving(key):
                self._settling[key] = time.monotonic() + _SETTLING_S

    def _is_moving(self, key: str) -> bool:
        """Look at a root; one that cannot be looked at is tried again with all the others."""
        try:
            moving = self._look(key)
        except TierError as exc:
            self._complain(key, exc.message)
            return False
        except Exception:
            # The watcher outlives its looks: one odd file must not keep others from being seen.
            log.exception("the look at %s stumbled", key)
            return False
        self._errors.pop(key, None)
        return moving

    def _complain(self, key: str, message: str) -> None:
        if self._errors.get(key) != message:
            log.warning("%s cannot be looked at: %s", key, message)
        self._errors[key] = message


@dataclass(frozen=True, slots=True)
class _Root:
    """A folder to watch. A new folder by the same name is another one, with no watch on it."""

    path: Path
    inode: int


def _inode(path: Path) -> int:
    try:
        found = path.stat()
    except OSError:
        return 0
    return found.st_ino if stat.S_ISDIR(found.st_mode) else 0


def _touched(roots: dict[str, _Root], paths: Iterable[str]) -> list[str]:
    """Find the roots that paths lie in; some systems name the place that a link leads to."""
    changed = [Path(path) for path in paths]
    if not changed:
        return []
    places = {key: (root.path, root.path.resolve()) for key, root in roots.items()}
    return [
        key
        for key, (named, real) in places.items()
        if any(path.is_relative_to(named) or path.is_relative_to(real) for path in changed)
    ]
