"""The OpenAPI document of what the engine serves over TCP, made from the wire's models."""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from memory import wire
from memory.engine.problems import STATUS
from memory.engine.rest import VERBS, Verb

Json = dict[str, Any]

#: What the door may say to anybody, and what a verb may say besides.
_AT_THE_DOOR = (400, 401, 403, 408, 411, 413, 414, 415, 421, 429, 503)
_OF_VERBS = (404, 409, 410, 500, 507)

_SCHEMAS = "#/components/schemas/{model}"

_ABOUT = """\
The memory of one project, for whoever has a token of that project: `tiermem token` shows it. Every
refusal is a problem (RFC 9457) with `code`, `detail` and `hint`. The same engine speaks MCP at
`/mcp/{project}`, which is not described here.
"""

_HEADERS = {
    401: {"WWW-Authenticate": {"schema": {"type": "string"}}},
    429: {"Retry-After": {"schema": {"type": "integer"}, "description": "seconds to wait"}},
}


def document() -> Json:
    """Make the document; it needs no engine, and is the same wherever it is made."""
    verbs = {name: verb for name, verb in VERBS.items() if not verb.is_local}
    paths = {f"/v1/{name}": {"post": _verb(name, verb)} for name, verb in verbs.items()}
    paths["/v1/export"] = {"post": _export()}
    paths |= {path: {"get": operation} for path, operation in _looks().items()}
    return {
        "openapi": "3.1.0",
        "info": {"title": "tiermem", "version": "1", "description": _ABOUT},
        "servers": [{"url": "/"}],
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": _schemas(verbs.values()),
            "responses": {
                str(status): _problem(status) for status in sorted({*_AT_THE_DOOR, *_OF_VERBS})
            },
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "what `tiermem token` prints; it opens one project",
                }
            },
        },
    }


@functools.cache
def _text() -> bytes:
    return json.dumps(document(), ensure_ascii=False).encode()


async def endpoint(_: Request) -> Response:
    """Serve the document."""
    return Response(await run_in_threadpool(_text), media_type="application/json")


def _verb(name: str, verb: Verb) -> Json:
    about = inspect.cleandoc(verb.handler.__doc__ or "")
    return {
        "operationId": name.replace("-", "_"),
        "summary": about.partition("\n")[0].partition(". ")[0].rstrip("."),
        "description": " ".join(about.split()),
        "requestBody": _body(verb.asked),
        "responses": {
            "200": _answer("The answer.", _ref(verb.answer)),
            **_problems((*_AT_THE_DOOR, *_OF_VERBS)),
        },
    }


def _export() -> Json:
    lines = {"type": "string", "description": "one memory as JSON in each line"}
    return {
        "operationId": "export",
        "summary": "Read every memory of the project",
        "requestBody": _body(wire.ProjectRequest),
        "responses": {
            "200": _answer("One memory in each line.", lines, "application/x-ndjson"),
            **_problems((*_AT_THE_DOOR, *_OF_VERBS)),
        },
    }


def _looks() -> dict[str, Json]:
    """Describe the routes that are only looked at."""
    health = _object(status={"const": "ok"}, version={"type": "string"})
    tiers = {"type": "object", "additionalProperties": {"type": "string"}}
    readiness = _object(ready={"type": "boolean"}, tiers=tiers)
    refused = _problems(_AT_THE_DOOR)
    not_ready = _answer("Not every tier takes and gives memories now.", readiness)
    not_ready["content"] |= _problem(503)["content"]
    return {
        "/healthz": {
            "operationId": "healthz",
            "summary": "Ask whether the engine lives",
            "responses": {"200": _answer("It does.", health), **refused},
        },
        "/readyz": {
            "operationId": "readyz",
            "summary": "Ask whether every tier takes and gives memories now",
            "responses": {
                "200": _answer("Every one does.", readiness),
                **_problems((*_AT_THE_DOOR, 500)),
                "503": not_ready,
            },
        },
        "/openapi.json": {
            "operationId": "openapi",
            "summary": "Read this document",
            "responses": {"200": _answer("It.", {"type": "object"}), **refused},
        },
    }


def _schemas(verbs: Iterable[Verb]) -> Json:
    requests = {verb.asked for verb in verbs} | {wire.ProjectRequest}
    answers = {verb.answer for verb in verbs} | {wire.Problem}
    ordered = sorted(requests, key=lambda model: model.__name__)
    models: list[tuple[type[BaseModel], JsonSchemaMode]] = [(m, "validation") for m in ordered]
    models += [(m, "serialization") for m in sorted(answers, key=lambda model: model.__name__)]
    _, made = models_json_schema(models, ref_template=_SCHEMAS)
    return dict(sorted(made["$defs"].items()))


def _body(model: type[wire.Wire]) -> Json:
    return {"required": True, "content": {"application/json": {"schema": _ref(model)}}}


def _problems(statuses: Iterable[int]) -> Json:
    return {
        str(status): {"$ref": f"#/components/responses/{status}"} for status in sorted(statuses)
    }


def _problem(status: int) -> Json:
    """Describe a status by the errors that have it."""
    kinds = [kind for kind, its in STATUS.items() if its == status]
    said = [(kind.__doc__ or "").partition("\n")[0] for kind in kinds]
    about = " ".join(dict.fromkeys(said)) or f"{HTTPStatus(status).phrase}."
    answer = _answer(about, _ref(wire.Problem), "application/problem+json")
    return answer | ({"headers": _HEADERS[status]} if status in _HEADERS else {})


def _answer(about: str, schema: Json, kind: str = "application/json") -> Json:
    return {"description": about, "content": {kind: {"schema": schema}}}


def _ref(model: type[wire.Wire] | type[wire.Answer]) -> Json:
    return {"$ref": _SCHEMAS.format(model=model.__name__)}


def _object(**properties: Json) -> Json:
    return {"type": "object", "properties": properties, "required": list(properties)}
