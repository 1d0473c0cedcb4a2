"""Talks to the engine of a home over its socket, starting it when it is gone.

Standard library only.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from memory.cli.socket_http import Answer, SocketConnection
from memory.config import engine_environment
from memory.errors import EngineFailed, EngineUnreachable, HomeRefused, UsageError
from memory.home_lock import HomeLock, socket_path
from memory.version import installed_version

_START_S = 30.0
_CALL_S = 120.0
_RETRIES = 8
_LONGEST_LOG_BYTES = 5 * 2**20
_LAST_WORDS = 10_000

#: Engines that this process started, whichever thread did.
_started: list[subprocess.Popen[bytes]] = []
_started_lock = threading.Lock()

_JSON = {"Content-Type": "application/json"}


class EngineClient:
    """Calls the engine's verbs. One thread uses a client; each may have its own.

    Every verb may be repeated without doing anything twice, so a call whose engine died is sent
    again to the next one.
    """

    def __init__(self, home: Path) -> None:
        self._home = home
        self._connection = SocketConnection(socket_path(home))

    def call(self, verb: str, request: Mapping[str, Any], *, timeout_s: float = _CALL_S) -> Any:
        """Ask a verb and return its answer as plain values.

        Raises UsageError, EngineFailed with the engine's own words, or EngineUnreachable.
        """
        body = json.dumps(request, ensure_ascii=False).encode("utf-8", "surrogatepass")
        for attempt in range(_RETRIES):
            try:
                self.ensure()
                response = self.post(f"/v1/{verb}", body, timeout_s=timeout_s)
                return _answer(response.status, response.read())
            except OSError as exc:
                self.close()
                if attempt == _RETRIES - 1:
                    raise EngineUnreachable(f"the engine went away: {exc}") from exc
        raise AssertionError("unreachable")

    def lines(self, verb: str, request: Mapping[str, Any]) -> Iterator[bytes]:
        """Ask a verb that answers with lines, and yield them as they come."""
        body = json.dumps(request).encode()
        try:
            self.ensure()
            response = self.post(f"/v1/{verb}", body, timeout_s=_CALL_S)
            if response.status != 200:
                _answer(response.status, response.read())
            yield from response.lines()
        except OSError as exc:
            raise EngineUnreachable(f"the engine went away: {exc}") from exc
        finally:
            self.close()

    def is_running(self) -> bool:
        """Say whether an engine answers, without starting one."""
        return self._health() is not None

    def http_url(self) -> str:
        """Say where a running engine listens over TCP; empty where none does."""
        health = self._health()
        return str(health.get("http", "")) if health else ""

    def stop(self, *, wait_s: float = 40.0) -> bool:
        """Ask the engine to drain and end, and wait until it has; False when there is none."""
        if self._health() is None:
            return False
        with contextlib.suppress(OSError):
            self.post("/v1/stop", b"{}", timeout_s=10.0).read()
        self.close()
        deadline = time.monotonic() + wait_s
        while time.monotonic() < deadline:
            if not _is_locked(self._home):
                return True
            time.sleep(0.02)
        raise EngineUnreachable(
            "the engine does not end", hint=f"end it by hand: kill {self._owner_pid()}"
        )

    def post(
        self, target: str, body: bytes, headers: Mapping[str, str] = _JSON, *, timeout_s: float
    ) -> Answer:
        """Send one request to the engine that is there, if one is.

        Raises NotSent when nothing can have been done, else another OSError.
        """
        return self._connection.request("POST", target, body, headers, timeout_s=timeout_s)

    def is_ready(self) -> bool:
        """Say whether an engine of this version or a newer one answers, without starting one."""
        if self._connection.is_fresh():
            return True
        self.close()
        health = self._health()
        return health is not None and not _is_too_old(health)

    def ensure(self) -> None:
        """See that an engine of this version or a newer one answers, if need be by starting it.

        Many may do so at once, in any process, and one engine is started. Raises HomeRefused or
        EngineUnreachable.
        """
        if not self.is_ready():
            try:
                self._replace()
            except OSError as exc:
                raise EngineUnreachable(
                    f"the engine cannot be started: {exc.strerror or exc}"
                ) from exc

    def interrupt(self) -> None:
        """Make a request fail that waits in another thread."""
        self._connection.interrupt()

    def close(self) -> None:
        self._connection.close()

    def _health(self) -> dict[str, Any] | None:
        try:
            response = self._connection.request("GET", "/healthz", timeout_s=5.0)
            found = dict(json.loads(response.read()))
        except (OSError, ValueError, TypeError):
            self.close()
            return None
        if _is_too_old(found):
            # So a connection that is open is one to an engine that is good enough.
            self.close()
        return found

    def _replace(self) -> None:
        """Start an engine where none is, or where an older one is."""
        try:
            self._home.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = (self._home / "start.lock").open("a")
        except OSError as exc:
            raise HomeRefused(f"{self._home} cannot be used: {exc.strerror or exc}") from exc
        with lock:
            # Many fronts may find the engine gone at once; one starts it, the others wait here.
            fcntl.flock(lock, fcntl.LOCK_EX)
            # Whoever answered before may have ended meanwhile.
            self.close()
            health = self._health()
            if health is not None and not _is_too_old(health):
                return
            if health is not None:
                self.stop()
            self._start()

    def _start(self) -> None:
        engine, killed = self._spawn(), 0
        deadline = time.monotonic() + _START_S
        while time.monotonic() < deadline:
            if self._health() is not None:
                return
            code = engine.poll()
            # Ended by a signal, from outside: no reason to fail what was asked for.
            was_killed = code is not None and code < 0 and killed < _RETRIES
            if code not in (None, 0) and not was_killed:
                raise EngineUnreachable(
                    f"the engine did not start: {self._last_words()}",
                    hint=f"see {self._home / 'engine.log'}",
                )
            if was_killed or (code == 0 and not _is_locked(self._home)):
                engine, killed = self._spawn(), killed + was_killed
            time.sleep(0.01)
        owner = f"; process {self._owner_pid()} has the home" if _is_locked(self._home) else ""
        raise EngineUnreachable(
            f"the engine did not answer within {_START_S:.0f} s{owner}: {self._last_words()}",
            hint=f"see {self._home / 'engine.log'}",
        )

    def _spawn(self) -> subprocess.Popen[bytes]:
        log = self._home / "engine.log"
        with contextlib.suppress(FileNotFoundError):
            if log.stat().st_size > _LONGEST_LOG_BYTES:
                log.replace(log.with_suffix(".log.1"))
        with log.open("ab") as output:
            engine = subprocess.Popen(
                [sys.executable, str(launcher()), "serve", "--detached"],
                cwd=self._home,
                env=engine_environment(self._home),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        reap()
        with _started_lock:
            _started.append(engine)
        return engine

    def _last_words(self) -> str:
        """Quote what the engine complained of, else the last line of its log."""
        try:
            text = (self._home / "engine.log").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return "it said nothing"
        lines = [line.strip() for line in text[-_LAST_WORDS:].splitlines() if line.strip()]
        complaints = [line for line in lines if line.startswith("error: ")]
        last = (complaints or lines or ["it said nothing"])[-1]
        return last.removeprefix("error: ")

    def _owner_pid(self) -> int:
        owner = HomeLock(self._home).owner()
        return owner.pid if owner else 0


def reap() -> None:
    """Take leave of engines that this process started and that ended; the others live on."""
    with _started_lock:
        _started[:] = [engine for engine in _started if engine.poll() is None]


def launcher() -> Path:
    """Find the file that starts tiermem whatever folder one stands in."""
    return Path(__file__).resolve().parents[2] / "tiermem_launch.py"


def _answer(status: int, body: bytes) -> Any:
    try:
        data = json.loads(body)
    except ValueError as exc:
        raise EngineFailed(f"the engine answered {status} without JSON") from exc
    if status == 200:
        return data
    kind = UsageError if status in (400, 422) else None
    if kind is not None:
        raise kind(data["detail"], hint=data["hint"])
    raise EngineFailed(
        data["detail"], hint=data["hint"], code=data["code"], retryable=data["retryable"]
    )


def _is_too_old(health: Mapping[str, Any]) -> bool:
    return _is_older(str(health.get("version")), installed_version())


def _is_older(theirs: str, ours: str) -> bool:
    return _numbers(theirs) < _numbers(ours) if "source" not in ours else False


def _numbers(version: str) -> tuple[int, ...]:
    plain = version.partition("+")[0].split(".")
    return tuple(int(part) if part.isdigit() else 0 for part in plain)


def _is_locked(home: Path) -> bool:
    """Ask whether some process owns the home, by our own lock, never by a store's."""
    try:
        descriptor = os.open(home / "engine.lock", os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
