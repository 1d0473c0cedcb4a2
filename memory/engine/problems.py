"""Errors as HTTP answers: which status each kind has, in one table."""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Mapping

from pydantic import ValidationError
from starlette.responses import Response

from embeddings.errors import EmbeddingError
from memory import errors, wire
from memory.wire import Problem
from tiers import errors as tier_errors

log = logging.getLogger(__name__)

Known = errors.ServiceError | tier_errors.TierError | EmbeddingError

#: The most special class wins.
STATUS: dict[type[Exception], int] = {
    errors.UsageError: 400,
    errors.NotFound: 404,
    errors.Forgotten: 410,
    errors.Ambiguous: 409,
    errors.Refused: 409,
    errors.ProjectRefused: 403,
    errors.HomeRefused: 500,
    errors.EngineUnreachable: 503,
    errors.EngineFailed: 500,
    errors.AddressNotFree: 500,
    errors.TokenFileRefused: 403,
    errors.RequestRefused: 400,
    errors.MalformedRequest: 400,
    errors.Unauthorized: 401,
    errors.OriginRefused: 403,
    errors.RequestTooSlow: 408,
    errors.LengthRequired: 411,
    errors.BodyTooLarge: 413,
    errors.AddressTooLong: 414,
    errors.NotJson: 415,
    errors.WrongHost: 421,
    errors.TooManyRequests: 429,
    errors.EngineCrowded: 503,
    errors.ServiceError: 500,
    tier_errors.StoreUnavailable: 503,
    tier_errors.StoreBusy: 503,
    tier_errors.StoreFull: 507,
    tier_errors.StoreMismatch: 409,
    tier_errors.UnknownMemory: 404,
    tier_errors.InvalidRecord: 400,
    tier_errors.HotRootNotWritable: 503,
    tier_errors.TierError: 500,
    EmbeddingError: 503,
}


def problem_of(exc: Known) -> Problem:
    """Describe an error of ours."""
    kind = type(exc)
    status = next(STATUS[base] for base in kind.__mro__ if base in STATUS)
    return Problem(
        code=_code(kind),
        title=(kind.__doc__ or kind.__name__).splitlines()[0],
        detail=exc.message,
        hint=exc.hint,
        status=status,
        retryable=exc.retryable,
    )


def problem_response(exc: Exception) -> Response:
    """Turn any error into an answer that says what to do."""
    if isinstance(exc, ValidationError):
        exc = errors.UsageError(wire.complaint(exc), hint="see the fields in docs/openapi.json")
    if isinstance(exc, (errors.ServiceError, tier_errors.TierError, EmbeddingError)):
        return respond(problem_of(exc), _headers(exc))
    log.error("a request stumbled", exc_info=exc)
    return respond(unexpected(exc))


def respond(problem: Problem, headers: Mapping[str, str] | None = None) -> Response:
    """Make an answer of a problem (RFC 9457)."""
    return Response(
        problem.model_dump_json(),
        status_code=problem.status,
        media_type="application/problem+json",
        headers=headers,
    )


def _headers(exc: Exception) -> dict[str, str]:
    if isinstance(exc, errors.Unauthorized):
        return {"WWW-Authenticate": 'Bearer realm="tiermem"'}
    if isinstance(exc, errors.TooManyRequests):
        return {"Retry-After": str(exc.retry_after_s)}
    return {}


def no_such_route(method: str, path: str, allowed: Collection[str] | None) -> Problem:
    """Describe a request that no route takes; `allowed` are the methods of a known path."""
    if allowed is None:
        return Problem(
            code="no-such-route",
            title="Nothing is here.",
            detail=f"there is no {path}",
            hint="verbs are POST /v1/VERB; see docs/http.md",
            status=404,
        )
    return Problem(
        code="wrong-method",
        title="This address takes another method.",
        detail=f"{path} does not take {method}",
        hint=f"use {' or '.join(sorted(allowed))}",
        status=405,
    )


def unexpected(exc: Exception) -> Problem:
    """Describe an error that is none of ours: a bug."""
    return Problem(
        code="internal",
        title="The engine stumbled.",
        detail=f"{type(exc).__name__} (see engine.log in the data home)",
        hint="please report this with the lines of engine.log",
    )


def _code(kind: type[Exception]) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "-", kind.__name__).lower()
