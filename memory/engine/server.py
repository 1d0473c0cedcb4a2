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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from memory.app import prepare_home
from memory.config import Settings
from memory.engine import openapi
from memory.engine.access import Asgi, Receive, Scope, Send, SocketDoor
from memory.engine.host import Host
from memory.engine.http_door import HttpDoor, Rules, admit_to, rules_of
from memory.engine.mcp import McpDoor
from memory.engine.problems import no_such_route, problem_response, respond
from memory.engine.rest import LARGEST_BODY_BYTES, elsewhere, routes, routes_for_others
from memory.engine.tcp import Address, Connection, Listening, is_loopback, listen, resolve
from memory.errors import HomeRefused, ServiceError, UsageError
from memory.home_lock import HomeLock, is_private, refuse_shared_file_system, socket_path
from memory.tokens import Tokens
from memory.version import installed_version

log = logging.getLogger(__name__)

_DRAIN_S = 20

#: Of connections over TCP.
_KEEP_ALIVE_S = 5
_LONGEST_HEAD_BYTES = 65_536


class Activity:
    """ASGI middleware that knows when the engine was last asked for something."""

    def __init__(self, app: Asgi) -> None:
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


def serve(
    settings: Settings,
    *,
    must_listen: bool = True,
    announce: Callable[[str], None] = lambda _: None,
) -> bool:
    """Run the engine of a home until it is told to stop or idles; False when one runs already.

    `announce` is called with its URL, empty without TCP, when it takes requests. Raises
    HomeRefused when the home cannot be used, UsageError or AddressNotFree when it cannot listen at
    `http.listen`; without `must_listen` it then goes on with its socket alone, and doctor says so.
    """
    try:
        prepare_home(settings.home)
    except OSError as exc:
        raise HomeRefused(f"{settings.home} cannot be used: {exc.strerror or exc}") from exc
    refuse_shared_file_system(settings.home)
    http = _listen_over_tcp(settings, must_listen=must_listen)
    lock = HomeLock(settings.home)
    path = socket_path(settings.home)
    with http:
        if not lock.take(version=installed_version(), socket=path):
            return False
        try:
            _run(settings, lock, path, http, announce)
        finally:
            lock.release()
    return True


@dataclass(frozen=True, slots=True)
class _Http:
    """What became of `http.listen`: a socket, nothing, or what went wrong."""

    listening: Listening | None = None
    rules: Rules | None = None
    problem: str = ""

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        if self.listening is not None:
            self.listening.close()


def _listen_over_tcp(settings: Settings, *, must_listen: bool) -> _Http:
    text = settings.text("http.listen")
    if not text:
        return _Http()
    try:
        address = Address.parse(text)
        ip = resolve(address)
        if not is_loopback(ip) and Tokens(settings.home).is_empty():
            raise UsageError(
                f"{address.in_url} can be reached from elsewhere, and there is no token yet",
                hint="make one in the project's folder first: tiermem token",
            )
        rules_of(settings, address)  # before anybody can connect
        listening = listen(address, ip)
    except ServiceError as exc:
        if must_listen:
            raise
        log.error("not over TCP: %s; %s", exc.message, exc.hint)
        return _Http(problem=f"{exc.message}; {exc.hint}")
    if not listening.is_loopback:
        log.warning("what goes to %s is not encrypted: put a proxy with TLS before it", address.url)
    return _Http(listening, rules_of(settings, listening.address))


def _run(
    settings: Settings,
    lock: HomeLock,
    path: Path,
    http: _Http,
    announce: Callable[[str], None],
) -> None:
    listening = _listen(path)
    host = Host(settings)
    host.http_problem = http.problem
    if http.listening is not None:
        host.http = http.listening.address.url
    try:
        host.start()
        log.info("engine %d %s serves %s", os.getpid(), host.version, settings.home)
        announce(host.http)
        asyncio.run(_serve(settings, host, lock, listening, http))
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


async def _serve(
    settings: Settings,
    host: Host,
    lock: HomeLock,
    listening: socket.socket,
    http: _Http,
) -> None:
    stop = asyncio.Event()
    _end_on_signals(stop)
    activity = Activity(SocketDoor(local_app(host, stop.set), settings.owner))
    servers = [(_server(activity, timeout_keep_alive=120), listening)]
    if http.listening is not None and http.rules is not None:
        servers.append((_server_for_others(host, http.rules), http.listening.socket))
    all_of_them = [server for server, _ in servers]
    ending = asyncio.create_task(_end_when_due(all_of_them, stop, activity, lock, settings))
    await asyncio.gather(*(server.serve(sockets=[sock]) for server, sock in servers))
    ending.cancel()


def local_app(host: Host, stop: Callable[[], None]) -> Starlette:
    """Build what the engine serves on its own socket."""
    known = [*routes(host, stop), Route("/mcp", McpDoor(host, largest_body=LARGEST_BODY_BYTES))]
    return _starlette(known)


def app_for_others(host: Host, *, largest_body: int) -> Starlette:
    """Build what the engine serves over TCP, behind the door."""
    known = [
        *routes_for_others(host),
        Route("/mcp/{project}", McpDoor(host, largest_body=largest_body)),
        Route("/openapi.json", openapi.endpoint),
    ]
    return _starlette(known)


def _starlette(known: list[Route]) -> Starlette:
    return Starlette(
        routes=[*known, elsewhere(known)],
        exception_handlers={Exception: _stumbled, HTTPException: _no_such},
    )


def _server_for_others(host: Host, rules: Rules) -> _Server:
    app = app_for_others(host, largest_body=rules.max_body_bytes)
    return _server(
        HttpDoor(app, rules, admit_to(host)),
        http=Connection,
        proxy_headers=False,  # anybody could write those
        server_header=False,
        h11_max_incomplete_event_size=_LONGEST_HEAD_BYTES,
        timeout_keep_alive=_KEEP_ALIVE_S,
    )


def _server(app: Asgi, **options: Any) -> _Server:
    return _Server(
        uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            lifespan="off",
            ws="none",
            timeout_graceful_shutdown=_DRAIN_S,
            **options,
        )
    )


async def _end_when_due(
    servers: Sequence[uvicorn.Server],
    stop: asyncio.Event,
    activity: Activity,
    lock: HomeLock,
    settings: Settings,
) -> None:
    idle_s = settings.number("engine.idle_minutes") * 60
    # Nobody starts an engine by connecting over TCP, so one that is reached so stays.
    may_idle = len(servers) == 1
    while not stop.is_set():
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), timeout=min(max(idle_s / 10, 0.1), 2.0))
        if lock.is_lost():
            log.warning("%s was moved away or replaced", settings.home)
        if lock.is_lost() or (may_idle and activity.idle_s() >= idle_s):
            break
    for server in servers:
        server.should_exit = True


def _end_on_signals(stop: asyncio.Event) -> None:
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)


async def _stumbled(_: Request, exc: Exception) -> Response:
    return problem_response(exc)


async def _no_such(request: Request, exc: Exception) -> Response:
    """Answer a method that HTTP does not know, for an address that is known."""
    headers = getattr(exc, "headers", None) or {}
    allowed = headers.get("Allow", "").split(", ")
    return respond(no_such_route(request.method, request.scope["path"], allowed), headers)


def _listen(path: Path) -> socket.socket:
    """Bind the socket for this user alone. The caller owns the home, so a stale one is removed."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not is_private(path):
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
