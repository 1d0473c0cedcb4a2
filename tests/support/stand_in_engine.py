"""Something that listens where an engine would, and says what a test wants."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from memory.home_lock import socket_path


@dataclass(frozen=True)
class Asked:
    """One request that arrived at /mcp."""

    headers: dict[str, str]
    message: dict[str, Any]


@dataclass(frozen=True)
class Told:
    """One answer."""

    body: bytes
    status: int = 200
    kind: str = "application/json"


#: Instead of an answer: the engine dies.
HANG_UP = None

Reply = Callable[[Asked], Told | None]


@dataclass
class StandIn:
    """What arrived, in order, and how it is answered."""

    reply: Reply
    asked: list[Asked] = field(default_factory=list)
    version: str = "999.0"
    targets: list[str] = field(default_factory=list)

    @property
    def methods(self) -> list[str]:
        return [asked.message["method"] for asked in self.asked]


def result(asked: Asked, **fields: Any) -> Told:
    """Answer a request as a server does."""
    return Told(
        json.dumps({"jsonrpc": "2.0", "id": asked.message["id"], "result": fields}).encode()
    )


@contextmanager
def stand_in(home: Path, reply: Reply = result) -> Iterator[StandIn]:
    """Listen at the socket of a home."""
    engine = StandIn(reply)
    path = socket_path(home)
    path.parent.mkdir(parents=True, exist_ok=True)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._send(Told(json.dumps({"version": engine.version}).encode()))

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            engine.targets.append(self.path)
            if self.path == "/v1/stop":
                # Nobody reaches an engine that ends.
                path.unlink(missing_ok=True)
                self._send(Told(b"{}"))
                return
            asked = Asked(headers, json.loads(body))
            engine.asked.append(asked)
            told = engine.reply(asked)
            if told is None:
                self.close_connection = True
            else:
                self._send(told)

        def _send(self, told: Told) -> None:
            self.send_response(told.status)
            self.send_header("Content-Type", told.kind)
            self.send_header("Content-Length", str(len(told.body)))
            self.end_headers()
            self.wfile.write(told.body)

        def log_message(self, *_: Any) -> None:
            pass

    class Server(socketserver.ThreadingUnixStreamServer):
        daemon_threads = True
        request_queue_size = 64

        def handle_error(self, *_: Any) -> None:
            """A client that hung up is no failure of a test."""

    server = Server(str(path), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield engine
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
        if "/v1/stop" not in engine.targets:
            path.unlink()
