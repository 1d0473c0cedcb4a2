"""`tiermem mcp`: stands between one client on stdin and stdout and the engine of the home.

It keeps nothing. What a client asks first it answers by itself; everything else it hands on, and
starts an engine where none is. Standard library only: one of these lives beside every client.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, NoReturn

from memory.cli.client import reap
from memory.cli.engine_link import Call, EngineLink, Starter, failure_of, headers_of
from memory.cli.jsonrpc import INTERNAL_ERROR, INVALID_REQUEST, Id, Message, Refusal, read
from memory.cli.surface import Failure, Surface, load
from memory.config import client_folder, load_settings
from memory.errors import ServiceError, UsageError
from memory.version import installed_version

LONGEST_LINE_BYTES = 16 * 2**20

#: Requests that are with the engine at once, and those that may wait for one of these places.
_WORKERS = 8
_MOST_OPEN = 1_000

#: How long what is under way may still take when the client has said all it had to say.
_LAST_ANSWERS_S = 10.0

_PARENT_PAUSE_S = 1.0

#: A client that never reads stderr must not be able to stop its front: a pipe holds 64 KB.
_MOST_COMPLAINTS = 200

_DISCARDED_BYTES = 65_536


@dataclass(frozen=True, slots=True)
class Choice:
    """What the command line says."""

    project: str = ""
    toolsets: str = ""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a front works; `problem` is why it cannot, until somebody mends that."""

    toolsets: tuple[str, ...]
    are_chosen: bool = False
    folder: Path = field(default_factory=Path)
    starter: Starter | None = None
    problem: Failure | None = None


def main(arguments: Sequence[str]) -> NoReturn:
    """Serve one client until it is gone. Exit code 2 is for arguments that cannot be meant."""
    parent = os.getppid()
    for number in (signal.SIGTERM, signal.SIGINT):
        # The kernel ends us at once, whatever Python does just now; nothing is left half done.
        signal.signal(number, signal.SIG_DFL)
    complaints = Complaints()
    try:
        choice = choose(arguments)
        surface = load(installed_version())
        if choice.toolsets:
            surface.toolsets(choice.toolsets)
    except UsageError as exc:
        complaints.say(f"error: {exc.message}; {exc.hint}")
        _end(2)
    if sys.stdin is None or sys.stdout is None:
        complaints.say("error: tiermem mcp speaks over stdin and stdout, and one of them is closed")
        _end(2)
    if sys.stdin.isatty():
        complaints.say("this speaks MCP, one JSON message a line; clients start it by themselves")
    front = Front(surface, choice, Output(take_stdout()), complaints)
    threading.Thread(target=_watch, args=(parent,), name="parent", daemon=True).start()
    front.serve(sys.stdin.buffer)
    _end(0)


def choose(arguments: Sequence[str]) -> Choice:
    """Read the command line. Raises UsageError."""
    given = {"--project": "", "--toolsets": ""}
    rest = list(arguments)
    while rest:
        name, has_value, value = rest.pop(0).partition("=")
        if name not in given:
            raise UsageError(f"{name!r} is no option of tiermem mcp", hint="see tiermem mcp --help")
        if not has_value and not rest:
            raise UsageError(f"{name} needs a value", hint="see tiermem mcp --help")
        given[name] = value if has_value else rest.pop(0)
    return Choice(given["--project"], given["--toolsets"])


def look(choice: Choice, surface: Surface) -> Place:
    """Find home, project and toolsets. What is wrong is noted, for a client is answered anyway."""
    are_chosen = bool(choice.toolsets)
    toolsets = surface.toolsets(choice.toolsets)
    try:
        settings = load_settings()
        if not are_chosen:
            toolsets = surface.toolsets(settings.text("mcp.toolsets"))
            are_chosen = settings.origins["mcp.toolsets"] != "default"
        folder = client_folder(choice.project)
    except ServiceError as exc:
        return Place(toolsets, are_chosen, problem=failure_of(exc))
    return Place(toolsets, are_chosen, folder, Starter(settings.home))


class Front:
    """Answers one client. Lines are taken by one thread; up to eight more ask the engine."""

    def __init__(
        self, surface: Surface, choice: Choice, output: Output, complaints: Complaints
    ) -> None:
        self._surface = surface
        self._choice = choice
        self._output = output
        self._complaints = complaints
        self._place = look(choice, surface)
        self._version = surface.newest_legacy
        self._queue: queue.SimpleQueue[Call] = queue.SimpleQueue()
        # Guards how many threads work, and the calls that have no answer yet.
        self._changed = threading.Condition()
        self._workers = 0
        self._open: list[Call] = []

    def serve(self, stream: BinaryIO) -> None:
        """Take every line of a client, and give what is under way some time at the end."""
        for line in lines(stream):
            if line is None:
                limit = f"a line has at most {LONGEST_LINE_BYTES:,} bytes"
                self._output.write(Refusal(INVALID_REQUEST, f"Invalid request: {limit}").line())
            else:
                self.take(line)
        with self._changed:
            self._changed.wait_for(lambda: not self._open, timeout=_LAST_ANSWERS_S)

    def take(self, line: bytes) -> None:
        """Answer one line of a client at once, or see that it will be answered."""
        message = read(line)
        if message is None:
            return
        if isinstance(message, Refusal):
            self._output.write(message.line())
            return
        if message.id is None:
            if message.method == "notifications/cancelled":
                self._cancel(message.params.get("requestId"))
            return
        if message.method == "initialize":
            self._version = self._surface.version_of(message)
        answer = self._surface.answer(message, self._place.toolsets)
        if answer is not None:
            self._output.write(answer)
        else:
            self._hand_on(message)

    def _hand_on(self, message: Message) -> None:
        if self._place.problem is not None:
            self._place = look(self._choice, self._surface)
        place = self._place
        if place.problem is not None or place.starter is None:
            self._output.write(self._failed(message, place.problem or _STUMBLED))
            return
        headers = headers_of(
            message,
            legacy_version=self._version,
            folder=place.folder,
            toolsets=",".join(place.toolsets) if place.are_chosen else "",
        )
        call = Call(message, headers, repeatable=self._surface.is_repeatable(message))
        with self._changed:
            is_full = len(self._open) >= _MOST_OPEN
            if not is_full:
                self._open.append(call)
            needs_worker = min(len(self._open), _WORKERS) > self._workers
            self._workers += needs_worker
        if is_full:
            self._output.write(self._failed(message, _BUSY))
            return
        self._queue.put(call)
        if needs_worker:
            threading.Thread(target=self._work, args=(place.starter,), daemon=True).start()

    def _work(self, starter: Starter) -> None:
        link = EngineLink(starter)
        try:
            while True:
                self._carry(self._queue.get(), link)
        finally:
            link.close()
            with self._changed:
                self._workers -= 1

    def _carry(self, call: Call, link: EngineLink) -> None:
        answer: bytes | Failure = _STUMBLED
        try:
            answer = link.ask(call)
        finally:
            # Whatever happens, no request stays without an answer.
            self._finish(call, answer)

    def _finish(self, call: Call, answer: bytes | Failure) -> None:
        if isinstance(answer, Failure):
            answer = self._failed(call.message, answer)
        if not call.is_cancelled:
            self._output.write(answer)
        with self._changed:
            self._open.remove(call)
            self._changed.notify_all()

    def _cancel(self, named: object) -> None:
        with self._changed:
            calls = [call for call in self._open if _is_same(call.message.id, named)]
        for call in calls:
            call.cancel()

    def _failed(self, message: Message, failure: Failure) -> bytes:
        """Tell a client what went wrong: an agent as an answer of its tool, which it reads."""
        self._complaints.say(f"{message.method} {message.id!r:.40}: {failure.code}")
        if message.method == "tools/call":
            return self._surface.tool_error(message, failure)
        data = {"code": failure.code, "hint": failure.hint, "retryable": failure.retryable}
        return Refusal(INTERNAL_ERROR, f"{failure.detail}; {failure.hint}", message.id, data).line()


_STUMBLED = Failure("internal", "tiermem mcp stumbled", "please report what it wrote to stderr")
_BUSY = Failure(
    "busy",
    f"{_MOST_OPEN:,} requests are waiting for their answers",
    "wait for some of them, then ask again",
    retryable=True,
)


class Output:
    """The client's end of stdout: whole lines alone, whichever thread writes."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = threading.Lock()

    def write(self, line: bytes) -> None:
        """Write one line at once; ends the process when nobody can read it any more."""
        left = memoryview(line + b"\n")
        with self._lock:
            try:
                while left:
                    left = left[os.write(self._descriptor, left) :]
            except OSError:
                _end(0)


class Complaints:
    """What people may read on stderr: few lines, and nothing of what is remembered."""

    def __init__(self) -> None:
        self._left = _MOST_COMPLAINTS

    def say(self, text: str) -> None:
        if self._left > 0 and sys.stderr is not None:
            self._left -= 1
            with contextlib.suppress(OSError, ValueError):
                sys.stderr.write(f"tiermem mcp: {text}\n")
                sys.stderr.flush()


def take_stdout() -> int:
    """Keep stdout for the protocol alone: whatever else writes there writes to stderr from now."""
    kept = fcntl.fcntl(1, fcntl.F_DUPFD_CLOEXEC, 3)
    os.set_blocking(kept, True)
    try:
        os.dup2(2, 1)
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.close(nowhere)
    return kept


def lines(stream: BinaryIO) -> Iterator[bytes | None]:
    """Read a client's lines until it hangs up; None stands for one that is too long to keep."""
    while line := _next(stream, LONGEST_LINE_BYTES + 1):
        if len(line) <= LONGEST_LINE_BYTES or line.endswith(b"\n"):
            yield line
            continue
        while line and not line.endswith(b"\n"):
            line = _next(stream, _DISCARDED_BYTES)
        yield None


def _next(stream: BinaryIO, limit: int) -> bytes:
    try:
        return stream.readline(limit)
    except OSError:
        # A terminal that went away.
        return b""


def _watch(parent: int) -> None:
    """End with the process that started us, even when somebody else holds our stdin open."""
    while os.getppid() == parent:
        time.sleep(_PARENT_PAUSE_S)
        reap()
    _end(0)


def _end(code: int) -> NoReturn:
    # Not sys.exit: other threads wait for the engine, and nothing of theirs has to be put away.
    os._exit(code)


def _is_same(one: Id | None, other: object) -> bool:
    return type(one) is type(other) and one == other
