"""Points on their way into the embedded engine, checked, and back.

Everything is checked here, because the engine keeps a rejected operation in its log and stores
what came before the error.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import qdrant_edge as qe

from tiers.deep import SPARSE_VECTOR, Point, SparseVector, StoredPoint
from tiers.errors import InvalidPoint

_MAX_TOKEN_ID = 2**32 - 1
_MIN_INT, _MAX_INT = -(2**63), 2**63 - 1


def to_engine(point: Point, dimensions: Mapping[str, int]) -> qe.Point:
    """Check a point against the store's dense vectors; give the engine's. Raises InvalidPoint."""
    identity = known_id(point.id)
    if identity is None:
        raise InvalidPoint(f"{point.id!r} is not a UUID")
    vectors: dict[str, Any] = {SPARSE_VECTOR: to_engine_sparse(point.sparse)}
    for name, vector in point.dense.items():
        if name not in dimensions:
            raise InvalidPoint(f"the store has no dense vector {name!r}")
        vectors[name] = to_engine_dense(vector, dimensions[name])
    check_payload(point.payload)
    return qe.Point(identity, vectors, dict(point.payload))


def to_engine_dense(vector: Sequence[float], dimension: int) -> list[float]:
    """Check a dense vector. Raises InvalidPoint."""
    with np.errstate(over="ignore", invalid="ignore"):
        try:
            numbers = np.asarray(vector, dtype=np.float32)
        except (TypeError, ValueError) as error:
            raise InvalidPoint(f"a dense vector is not made of numbers: {error}") from error
        if numbers.shape != (dimension,):
            raise InvalidPoint(f"a vector of {numbers.shape} where {dimension} numbers belong")
        # The square overflows where the engine's own normalisation would.
        if not np.isfinite(numbers @ numbers):
            raise InvalidPoint("a dense vector holds a number that is not finite or too large")
    plain: list[float] = numbers.tolist()
    return plain


def to_engine_sparse(vector: SparseVector) -> qe.SparseVector:
    """Check a sparse vector. Raises InvalidPoint."""
    indices, values = vector.indices, vector.values
    if len(indices) != len(values):
        raise InvalidPoint(f"{len(indices)} token ids with {len(values)} weights")
    if any(
        isinstance(index, bool) or not isinstance(index, (int, np.integer)) for index in indices
    ):
        raise InvalidPoint("token ids are whole numbers")
    if indices and not (indices[0] >= 0 and indices[-1] <= _MAX_TOKEN_ID):
        raise InvalidPoint("a token id does not fit into 32 bits")
    if any(low >= high for low, high in pairwise(indices)):
        raise InvalidPoint("token ids are not ascending and distinct")
    with np.errstate(over="ignore"):
        if not np.isfinite(np.asarray(values, dtype=np.float32)).all():
            raise InvalidPoint("a token's weight is not finite")
    return qe.SparseVector([int(index) for index in indices], [float(value) for value in values])


def check_payload(payload: Mapping[str, Any]) -> None:
    """Refuse what cannot be kept as JSON. Raises InvalidPoint."""
    try:
        json.dumps(payload, allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError) as error:
        raise InvalidPoint(f"a payload cannot be kept: {error}") from error
    _check_values(payload)


def _check_values(value: Any) -> None:
    if isinstance(value, Mapping):
        for key, item in value.items():
            if not isinstance(key, str) or '"' in key:
                raise InvalidPoint(f"a payload field cannot be called {key!r}")
            _check_values(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            _check_values(item)
    elif isinstance(value, int) and not _MIN_INT <= value <= _MAX_INT:
        raise InvalidPoint("a payload holds a whole number of more than 64 bits")


def known_id(point_id: str) -> uuid.UUID | None:
    """Read a point's id; None when no point can have it."""
    try:
        return uuid.UUID(point_id)
    except (ValueError, AttributeError, TypeError):
        return None


def known_ids(point_ids: Sequence[str]) -> list[uuid.UUID]:
    """Keep the ids that a point can have."""
    return [identity for text in point_ids if (identity := known_id(text)) is not None]


def from_engine(record: qe.Record) -> StoredPoint:
    """Read a point that the engine gave back, with the vectors it was asked for."""
    vectors: dict[str, Any] = dict(record.vector) if isinstance(record.vector, dict) else {}
    words = vectors.pop(SPARSE_VECTOR, None)
    return StoredPoint(
        id=str(record.id),
        payload=record.payload or {},
        dense=vectors,
        sparse=SparseVector(tuple(words.indices), tuple(words.values)) if words else None,
    )
