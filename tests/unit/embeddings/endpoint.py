"""A real HTTP server on loopback that speaks OpenAI's embeddings."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any

from embeddings.hashing import HashingEmbedder

DIMENSION = 32


@dataclass
class EndpointServer:
    """What the server was asked, and what it is to answer before it answers well."""

    url: str = ""
    requests: list[Mapping[str, Any]] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    failures: list[tuple[int, str]] = field(default_factory=list)
    always: tuple[int, str] | None = None
    never_answers: bool = False
    released: Event = field(default_factory=Event)

    def answer(self, request: Mapping[str, Any]) -> tuple[int, str]:
        if self.failures:
            return self.failures.pop(0)
        if self.always is not None:
            return self.always
        vectors = HashingEmbedder(DIMENSION).embed_documents(request["input"]) * 3
        rows = [{"index": at, "embedding": row.tolist()} for at, row in enumerate(vectors)]
        return 200, json.dumps({"object": "list", "data": rows[::-1]})


@contextmanager
def serving_embeddings() -> Iterator[EndpointServer]:
    """Serve until the block ends; answers list the vectors in reverse order."""
    state = EndpointServer()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            state.requests.append(json.loads(body) | {"path": self.path})
            state.keys.append(self.headers.get("Authorization"))
            if state.never_answers:
                state.released.wait()
                self.close_connection = True
                return
            status, text = state.answer(json.loads(body))
            self.send_response(status)
            self.send_header("Content-Length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *args: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.url = f"http://127.0.0.1:{server.server_port}/v1"
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield state
    finally:
        state.released.set()
        server.shutdown()
        thread.join()
        server.server_close()
