"""The way of a stdio front's requests to the engine, which may come and go meanwhile.

Standard library only.
"""

from __future__ import annotations

import base64
import re
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from memory.cli.client import EngineClient
from memory.cli.jsonrpc import VERSION_KEY, Message, decode, encode, is_plain
from memory.cli.socket_http import Answer, NotSent
from memory.cli.surface import Failure
from memory.errors import EngineUnreachable, ServiceError

TARGET = "/mcp"

#: A tool may take long; an engine that hangs must not hold a call for ever.
_SILENCE_S = 300.0

#: How often a request is sent to yet another engine.
_ATTEMPTS = 8

#: How long a start is waited for. Later calls during the same start wait for the rest of it only.
_LONGEST_WAIT_S = 20.0
_LEAST_WAIT_S = 1.0

#: What a proxy or server may read of a request without its body: the name of what it is about.
_NAMED_BY = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}

_WRAPPED = re.compile(r"=\?base64\?.*\?=")


class Call:
    """A request on its way to the engine and back."""

    def __init__(self, message: Message, headers: Mapping[str, str], *, repeatable: bool) -> None:
        self.message = message
        self.headers = headers
        self.is_repeatable = repeatable
        self.is_cancelled = False
        self._link: EngineLink | None = None

    def cancel(self) -> None:
        """Drop the request: its answer is not waited for."""
        self.is_cancelled = True
        link = self._link
        if link is not None:
            link.interrupt()

    def goes_over(self, link: EngineLink | None) -> None:
        """Note which link carries the request just now."""
        self._link = link


class Starter:
    """Starts the engine of a home once for all threads that need it; any thread may use it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self._lock = threading.Lock()
        self._attempt: _Attempt | None = None

    def wait(self) -> None:
        """Wait until an engine answers.

        All who wait share one attempt and its failure; whoever comes after it tries again. Raises
        what kept the engine from starting, or EngineUnreachable while that takes too long.
        """
        with self._lock:
            attempt = self._attempt
            if attempt is None or attempt.is_over.is_set():
                attempt = self._attempt = _Attempt(self.home)
                attempt.start()
        left = attempt.began + _LONGEST_WAIT_S - time.monotonic()
        if not attempt.is_over.wait(max(left, _LEAST_WAIT_S)):
            raise EngineUnreachable(
                "the engine is still starting",
                hint=f"try again in a moment; it writes {self.home / 'engine.log'}",
            )
        if attempt.error is not None:
            raise attempt.error.with_traceback(None)


class _Attempt(threading.Thread):
    """One start of an engine; it ends by itself within a minute or so."""

    def __init__(self, home: Path) -> None:
        super().__init__(name="start", daemon=True)
        self.began = time.monotonic()
        self.is_over = threading.Event()
        self.error: ServiceError | None = None
        self._client = EngineClient(home)

    def run(self) -> None:
        try:
            self._client.ensure()
        except ServiceError as exc:
            self.error = exc
        finally:
            self._client.close()
            self.is_over.set()


class EngineLink:
    """One thread's connection to the engine; `interrupt` alone may be called from any."""

    def __init__(self, starter: Starter) -> None:
        self._starter = starter
        self._client = EngineClient(starter.home)

    def ask(self, call: Call) -> bytes | Failure:
        """Carry a request to the engine and its answer back, as one line.

        What never arrived is sent again, as is what may be done twice; for the rest a failure says
        that nobody knows.
        """
        call.goes_over(self)
        try:
            return self._ask(call)
        finally:
            call.goes_over(None)

    def interrupt(self) -> None:
        """Make a request fail that waits for its answer."""
        self._client.interrupt()

    def close(self) -> None:
        self._client.close()

    def _ask(self, call: Call) -> bytes | Failure:
        for _ in range(_ATTEMPTS):
            if call.is_cancelled:
                return Failure("cancelled", "this was cancelled", "ask again")
            try:
                if not self._client.is_ready():
                    self._starter.wait()
                answer = self._client.post(
                    TARGET, call.message.raw, call.headers, timeout_s=_SILENCE_S
                )
                return _understood(answer, call.message)
            except NotSent:
                self._client.close()
            except TimeoutError:
                self._client.close()
                return _silent(call)
            except OSError:
                self._client.close()
                if not call.is_repeatable:
                    return _unknown(call, "the engine ended meanwhile")
            except ServiceError as exc:
                return failure_of(exc)
        return Failure(
            "engine-unreachable",
            "the engine ended again and again",
            f"try again; its last words are in {self._starter.home / 'engine.log'}",
            retryable=True,
        )


def headers_of(
    message: Message, *, legacy_version: str, folder: Path, toolsets: str
) -> dict[str, str]:
    """Say beside a message whose it is and how to read it; `toolsets` may be empty."""
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "X-Tiermem-Folder": quote(str(folder)),
    }
    if toolsets:
        headers["X-Tiermem-Toolsets"] = toolsets
    if not message.is_modern:
        return {**headers, "MCP-Protocol-Version": legacy_version}
    headers |= {"MCP-Protocol-Version": message.meta[VERSION_KEY], "Mcp-Method": message.method}
    name = message.params.get(_NAMED_BY.get(message.method, ""))
    if isinstance(name, str):
        headers["Mcp-Name"] = header_value(name)
    return headers


def header_value(text: str) -> str:
    """Write a text as the protocol wants it in a header: wrapped when it could not stand there."""
    if is_plain(text) and not _WRAPPED.fullmatch(text):
        return text
    return f"=?base64?{base64.b64encode(text.encode('utf-8', 'surrogatepass')).decode()}?="


def failure_of(exc: ServiceError) -> Failure:
    """Describe an error of ours."""
    code = re.sub(r"(?<!^)(?=[A-Z])", "-", type(exc).__name__).lower()
    return Failure(code, exc.message, exc.hint, exc.retryable)


def _understood(answer: Answer, message: Message) -> bytes | Failure:
    """Take the JSON-RPC out of an answer; whatever else it is becomes a failure."""
    told: Any = None
    body = b""
    if answer.is_json:
        body = answer.read()
        try:
            told = decode(body)
        except ValueError:
            told = None
    if not isinstance(told, dict):
        said = f"the engine answered {answer.status} without JSON"
        return Failure("engine-failed", said, "run: tiermem doctor")
    if "result" not in told and not isinstance(told.get("error"), dict):
        return Failure(
            str(told.get("code", "engine-failed")),
            str(told.get("detail", f"the engine answered {answer.status}")),
            str(told.get("hint", "run: tiermem doctor")),
            told.get("retryable") is True,
        )
    if told.get("id") != message.id:
        # Refused before its id was read; the client waits for its own.
        return encode({**told, "id": message.id})
    # Line ends can only stand between the tokens of JSON.
    return body.translate(_ONE_LINE)


_ONE_LINE = bytes.maketrans(b"\r\n", b"  ")


def _silent(call: Call) -> Failure:
    said = f"the engine has been silent for {_SILENCE_S:.0f} s"
    if not call.is_repeatable:
        return _unknown(call, said)
    return Failure("engine-silent", said, "try again; if it stays so: tiermem stop", retryable=True)


def _unknown(call: Call, reason: str) -> Failure:
    name = call.message.params.get("name", call.message.method)
    return Failure(
        "outcome-unknown",
        f"{reason}, so it is unknown whether {name} was done",
        "look before you repeat it: memory_status and memory_search show what is there",
    )
