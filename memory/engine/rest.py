"""The verbs over HTTP: one POST route a verb, JSON in and out."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError
from starlette.concurrency import iterate_in_threadpool, run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from embeddings.errors import EmbeddingError
from memory import wire
from memory.engine import answers, health
from memory.engine.access import CALLER, Caller, View
from memory.engine.host import Host
from memory.engine.problems import no_such_route, problem_response, respond
from memory.errors import ServiceError, UsageError
from tiers.errors import TierError
from tiers.records import to_json

#: A request body beyond this is refused before it is read: a batch of 1,000 long memories fits.
LARGEST_BODY_BYTES = 64 * 2**20

Handler = Callable[[View, Any], wire.Answer]

_METHODS = ["DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"]


@dataclass(frozen=True, slots=True)
class Verb:
    """One verb of the wire: what it takes, what it gives, and whether it goes over TCP too."""

    asked: type[wire.Wire]
    answer: type[wire.Answer]
    handler: Handler
    is_local: bool = False


VERBS: Mapping[str, Verb] = {
    "save": Verb(wire.SaveRequest, wire.SaveAnswer, answers.save),
    "save-batch": Verb(wire.SaveBatchRequest, wire.SaveBatchAnswer, answers.save_batch),
    "search": Verb(wire.SearchRequest, wire.SearchAnswer, answers.search),
    "get": Verb(wire.RefRequest, wire.MemoryAnswer, answers.get),
    "history": Verb(wire.RefRequest, wire.HistoryAnswer, answers.history),
    "list": Verb(wire.ListRequest, wire.ListAnswer, answers.list_memories),
    "forget": Verb(wire.ForgetRequest, wire.ForgetAnswer, answers.forget),
    "move": Verb(wire.MoveRequest, wire.SaveAnswer, answers.move),
    "pin": Verb(wire.PinRequest, wire.SaveAnswer, answers.pin),
    "feedback": Verb(wire.FeedbackRequest, wire.FeedbackAnswer, answers.feedback),
    "load": Verb(wire.LoadRequest, wire.LoadAnswer, answers.load),
    "status": Verb(wire.ProjectRequest, wire.StatusAnswer, health.status),
    "held": Verb(wire.HeldRequest, wire.HeldAnswer, answers.held, is_local=True),
    "doctor": Verb(wire.ProjectRequest, wire.DoctorAnswer, health.doctor, is_local=True),
    "drain": Verb(wire.DrainRequest, wire.DrainAnswer, answers.drain, is_local=True),
    "rescan": Verb(wire.ProjectRequest, wire.DrainAnswer, answers.rescan, is_local=True),
}


def routes(host: Host, stop: Callable[[], None]) -> list[Route]:
    """Build the routes of the engine's own socket; `stop` makes the engine drain and end."""

    async def healthz(_: Request) -> Response:
        return JSONResponse({"status": "ok", "version": host.version, "http": host.http})

    async def end(_: Request) -> Response:
        stop()
        return JSONResponse({"stopping": True})

    return [
        *_verbs(host, VERBS),
        Route("/v1/stop", end, methods=["POST"]),
        Route("/healthz", healthz),
        _readyz(host),
    ]


def routes_for_others(host: Host) -> list[Route]:
    """Build the routes for callers over TCP, who have one project each."""

    async def healthz(_: Request) -> Response:
        return JSONResponse({"status": "ok", "version": host.version})

    return [
        *_verbs(host, {name: verb for name, verb in VERBS.items() if not verb.is_local}),
        Route("/healthz", healthz),
        _readyz(host),
    ]


def elsewhere(known: Sequence[Route]) -> Route:
    """Answer what no route takes: a wrong method, or a wrong address."""

    async def endpoint(request: Request) -> Response:
        path: str = request.scope["path"]
        allowed = next((r.methods or set() for r in known if r.path == path), None)
        problem = no_such_route(request.method, path, allowed)
        return respond(problem, {"Allow": ", ".join(sorted(allowed))} if allowed else None)

    return Route("/{path:path}", endpoint, methods=_METHODS)


def _verbs(host: Host, verbs: Mapping[str, Verb]) -> list[Route]:
    return [
        *(
            Route(f"/v1/{name}", _verb(host, verb), methods=["POST"])
            for name, verb in verbs.items()
        ),
        Route("/v1/export", _export(host), methods=["POST"]),
    ]


def _readyz(host: Host) -> Route:
    async def readyz(_: Request) -> Response:
        ready = await run_in_threadpool(health.readiness, host)
        return JSONResponse(ready, status_code=200 if ready["ready"] else 503)

    return Route("/readyz", readyz)


def _verb(host: Host, verb: Verb) -> Callable[..., Any]:
    async def endpoint(request: Request) -> Response:
        try:
            asked = verb.asked.model_validate_json(await _body(request))
            answer = await run_in_threadpool(verb.handler, view_of(host, request), asked)
        except (ServiceError, TierError, EmbeddingError, ValidationError) as exc:
            return problem_response(exc)
        return Response(answer.model_dump_json(), media_type="application/json")

    return endpoint


def _export(host: Host) -> Callable[..., Any]:
    async def endpoint(request: Request) -> Response:
        try:
            asked = wire.ProjectRequest.model_validate_json(await _body(request))
            here = await run_in_threadpool(view_of(host, request).enter, asked)
        except (ServiceError, TierError, ValidationError) as exc:
            return problem_response(exc)

        def lines() -> Iterator[bytes]:
            for record, tier in here.service.export(here.key):
                line = to_json(record) | {"tier": str(tier)}
                yield json.dumps(line, ensure_ascii=False, default=str).encode() + b"\n"

        return StreamingResponse(iterate_in_threadpool(lines()), media_type="application/x-ndjson")

    return endpoint


def view_of(host: Host, request: Request) -> View:
    """The home as whoever sent this request sees it; the door that let it in says who that is."""
    caller: Caller = request.scope[CALLER]
    return View(host, caller)


async def _body(request: Request) -> bytes:
    length = request.headers.get("content-length", "")
    if not length.isdigit() or int(length) > LARGEST_BODY_BYTES:
        raise UsageError(
            f"a request has at most {LARGEST_BODY_BYTES:,} bytes and says how many",
            hint="send less at a time",
        )
    return await request.body()
