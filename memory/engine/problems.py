"""Errors as HTTP answers: which status each kind has, in one table."""

from __future__ import annotations

import re
from collections.abc import Collection

from embeddings.errors import EmbeddingError
from memory import errors
from memory.wire import Problem
from tiers import errors as tier_errors

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


def no_such_route(method: str, path: str, allowed: Collection[str] | None) -> Problem:
    """Describe a request that no route takes; `allowed` are the methods of a known path."""
    if allowed is None:
        return Problem(
            code="no-such-route",
            title="Nothing is here.",
            detail=f"there is no {path}",
            hint="verbs are POST /v1/VERB; see memory/engine/rest.py",
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
