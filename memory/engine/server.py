"""The engine's process: owns the home, listens on its socket, ends when it is not needed."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response

from memory.app import prepare_home
from memory.config import Settings
from memory.engine.host import Host
from memory.engine.rest import problem_response, routes
from memory.errors import HomeRefused
from memory.home_lock import HomeLock, refuse_shared_file_system, socket_path
from memory.version import installed_version

log = logging.getLogger(__name__)

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_DRAIN_S = 20


class Activity:
    """ASGI middleware that knows when the engine was last asked for something."""

    def __init__(self, app: Callable[[Scope, Receive, Send], Awaitable[None]]) -> None:
        self._app = app
        self._open = 0
        self._last = time.monotonic()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        self._open += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._open -= 1
            self._last = time.monotonic()

    def idle_s(self) -> float:
        return 0.0 if self._open else time.monotonic() - self._last


def serve(settings: Settings) -> bool:
    """Run the engine of a home until it is told to stop or idles; False when one runs already.

    Raises HomeRefused when the home cannot be used.
    """
    try:
        prepare_home(settings.home)
    except OSError as exc:
        raise HomeRefused(f"{settings.home} cannot be used: {exc.strerror or exc}") from exc
    refuse_shared_file_system(settings.home)
    lock = HomeLock(settings.home)
    path = socket_path(settings.home)
    if not lock.take(version=installed_version(), socket=path):
        return False
    try:
        _run(settings, lock, path)
    finally:
        lock.release()
    return True


def _run(settings: Settings, lock: HomeLock, path: Path) -> None:
    listening = _listen(path)
    host = Host(settings)
    try:
        host.start()
        log.info("engine %d %s serves %s", os.getpid(), host.version, settings.home)
        asyncio.run(_serve(settings, host, lock, listening))
    finally:
        if not lock.is_lost():
            path.unlink(missing_ok=True)
        host.stop()
        log.info("engine %d ended", os.getpid())


class _Server(uvicorn.Server):
    """Leaves signals to the engine, which would not drain if they ended it at once."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def _serve(settings: Settings, host: Host, lock: HomeLock, listening: socket.socket) -> None:
    stop = asyncio.Event()
    _end_on_signals(stop)
    starlette = Starlette(
        routes=routes(host, stop.set),
        exception_handlers={Exception: _stumbled},
    )
    activity = Activity(starlette)
    server = _Server(
        uvicorn.Config(
            activity,
            log_config=None,
            access_log=False,
            lifespan="off",
            timeout_graceful_shutdown=_DRAIN_S,
            timeout_keep_alive=120,
        )
    )
    ending = asyncio.create_task(_end_when_due(server, stop, activity, lock, settings))
    await server.serve(sockets=[listening])
    ending.cancel()


async def _end_when_due(
    server: uvicorn.Server,
    stop: asyncio.Event,
    activity: Activity,
    lock: HomeLock,
    settings: Settings,
) -> None:
    idle_s = settings.number("engine.idle_minutes") * 60
    while not stop.is_set():
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), timeout=min(max(idle_s / 10, 0.1), 2.0))
        if lock.is_lost():
            log.warning("%s was moved away or replaced", settings.home)
        if lock.is_lost() or activity.idle_s() >= idle_s:
            break
    server.should_exit = True


def _end_on_signals(stop: asyncio.Event) -> None:
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)


async def _stumbled(_: Request, exc: Exception) -> Response:
    return problem_response(exc)


def _listen(path: Path) -> socket.socket:
    """Bind the socket for this user alone. The caller owns the home, so a stale one is removed."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    owner = path.parent.stat()
    if owner.st_uid != os.geteuid():
        raise HomeRefused(f"{path.parent} belongs to somebody else")
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        listening.bind(str(path))
    finally:
        os.umask(before)
    listening.listen(128)
    return listening


def detach_from_terminal() -> None:
    """Let a terminal that closes not end the engine."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
