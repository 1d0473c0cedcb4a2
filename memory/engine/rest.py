"""The verbs over HTTP: one POST route a verb, JSON in and out."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from pydantic import ValidationError
from starlette.concurrency import iterate_in_threadpool, run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from embeddings.errors import EmbeddingError
from memory import wire
from memory.engine import answers, health
from memory.engine.host import Host
from memory.engine.problems import no_such_route, problem_of, unexpected
from memory.errors import ServiceError, UsageError
from tiers.errors import TierError
from tiers.records import to_json

log = logging.getLogger(__name__)

#: A request body beyond this is refused before it is read: a batch of 1,000 long memories fits.
LARGEST_BODY_BYTES = 64 * 2**20

Handler = Callable[[Host, Any], wire.Answer]

_METHODS = ["DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"]

_VERBS: dict[str, tuple[type[wire.Wire], Handler]] = {
    "save": (wire.SaveRequest, answers.save),
    "save-batch": (wire.SaveBatchRequest, answers.save_batch),
    "search": (wire.SearchRequest, answers.search),
    "get": (wire.RefRequest, answers.get),
    "history": (wire.RefRequest, answers.history),
    "list": (wire.ListRequest, answers.list_memories),
    "forget": (wire.ForgetRequest, answers.forget),
    "load": (wire.LoadRequest, answers.load),
    "status": (wire.ProjectRequest, health.status),
    "doctor": (wire.ProjectRequest, health.doctor),
    "held": (wire.HeldRequest, answers.held),
    "drain": (wire.DrainRequest, answers.drain),
    "rescan": (wire.ProjectRequest, answers.rescan),
}


def routes(host: Host, stop: Callable[[], None]) -> list[Route]:
    """Build the routes over one host; `stop` makes the engine drain and end."""
    verbs = [
        Route(f"/v1/{verb}", _verb(host, kind, handler), methods=["POST"])
        for verb, (kind, handler) in _VERBS.items()
    ]

    async def healthz(_: Request) -> Response:
        return JSONResponse({"status": "ok", "version": host.version})

    async def readyz(_: Request) -> Response:
        ready = await run_in_threadpool(health.readiness, host)
        return JSONResponse(ready, status_code=200 if ready["ready"] else 503)

    async def end(_: Request) -> Response:
        stop()
        return JSONResponse({"stopping": True})

    known = [
        *verbs,
        Route("/v1/export", _export(host), methods=["POST"]),
        Route("/v1/stop", end, methods=["POST"]),
        Route("/healthz", healthz),
        Route("/readyz", readyz),
    ]
    return [*known, Route("/{path:path}", _elsewhere(known), methods=_METHODS)]


def _elsewhere(known: Sequence[Route]) -> Callable[..., Any]:
    """Answer what no route takes: a wrong method, or a wrong address."""

    async def endpoint(request: Request) -> Response:
        allowed = next((r.methods or set() for r in known if r.path == request.url.path), None)
        problem = no_such_route(request.method, request.url.path, allowed)
        return _problem(problem, {"Allow": ", ".join(sorted(allowed))} if allowed else None)

    return endpoint


def _verb(host: Host, kind: type[wire.Wire], handler: Handler) -> Callable[..., Any]:
    async def endpoint(request: Request) -> Response:
        try:
            asked = kind.model_validate_json(await _body(request))
            answer = await run_in_threadpool(handler, host, asked)
        except (ServiceError, TierError, EmbeddingError, ValidationError) as exc:
            return problem_response(exc)
        return Response(answer.model_dump_json(), media_type="application/json")

    return endpoint


def _export(host: Host) -> Callable[..., Any]:
    async def endpoint(request: Request) -> Response:
        try:
            asked = wire.ProjectRequest.model_validate_json(await _body(request))
            project = await run_in_threadpool(host.enter, asked.project)
        except (ServiceError, TierError, ValidationError) as exc:
            return problem_response(exc)

        def lines() -> Iterator[bytes]:
            for record, tier in host.app.service.export(project.key):
                line = to_json(record) | {"tier": str(tier)}
                yield json.dumps(line, ensure_ascii=False, default=str).encode() + b"\n"

        return StreamingResponse(iterate_in_threadpool(lines()), media_type="application/x-ndjson")

    return endpoint


async def _body(request: Request) -> bytes:
    length = request.headers.get("content-length", "")
    if not length.isdigit() or int(length) > LARGEST_BODY_BYTES:
        raise UsageError(
            f"a request has at most {LARGEST_BODY_BYTES:,} bytes and says how many",
            hint="send less at a time",
        )
    return await request.body()


def problem_response(exc: Exception) -> Response:
    """Turn any error into an answer that says what to do."""
    if isinstance(exc, ValidationError):
        exc = UsageError(wire.complaint(exc), hint="see the fields in memory/wire.py")
    if isinstance(exc, (ServiceError, TierError, EmbeddingError)):
        problem = problem_of(exc)
    else:
        log.error("a request stumbled", exc_info=exc)
        problem = unexpected(exc)
    return _problem(problem)


def _problem(problem: wire.Problem, headers: Mapping[str, str] | None = None) -> Response:
    return Response(
        problem.model_dump_json(),
        status_code=problem.status,
        media_type="application/problem+json",
        headers=headers,
    )
