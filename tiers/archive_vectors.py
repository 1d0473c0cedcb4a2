"""Vectors as the archive keeps them (float16), and the exact search over them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from tiers.errors import InvalidPoint

_FLOAT16 = np.dtype("<f2")

#: One vector's bytes, and the memory and chunk it belongs to.
VectorRow = tuple[int, int, bytes]


def to_float16(vector: Sequence[float]) -> bytes:
    """Pack a vector. Raises InvalidPoint when a number is not finite or too large."""
    with np.errstate(over="ignore"):
        packed = np.asarray(vector, dtype=np.float64).astype(_FLOAT16)
    if packed.ndim != 1 or not np.isfinite(packed).all():
        raise InvalidPoint("a vector holds a number that is not finite or too large")
    return packed.tobytes()


def from_float16(packed: bytes) -> tuple[float, ...]:
    """Unpack a vector."""
    return tuple(np.frombuffer(packed, dtype=_FLOAT16).astype(np.float64).tolist())


def unit_vector(vector: Sequence[float]) -> npt.NDArray[np.float32]:
    """Check a query vector and normalise it. Raises InvalidPoint."""
    numbers = np.asarray(vector, dtype=np.float64)
    norm = float(np.linalg.norm(numbers))
    if numbers.ndim != 1 or not np.isfinite(norm):
        raise InvalidPoint("a query vector holds a number that is not finite or too large")
    return (numbers / (norm or 1.0)).astype(np.float32)


class Admit(Protocol):
    """Say whether a memory may be among the answers; asked only of those that would be."""

    def __call__(self, memory: int, /) -> bool: ...


@dataclass(frozen=True, slots=True)
class Nearest:
    """A memory and its best chunk, named by the chunk's row."""

    memory: int
    chunk: int
    score: float


def nearest(
    query: npt.NDArray[np.float32],
    batches: Iterable[Sequence[VectorRow]],
    admit: Admit,
    limit: int,
) -> list[Nearest]:
    """Find the memories whose best chunk has the greatest cosine with `query`, best first.

    Exact. Holds one batch and `limit` answers at a time, however many vectors there are.
    """
    best: dict[int, Nearest] = {}
    for batch in batches:
        scores = _cosines(query, [packed for _, _, packed in batch])
        for index in np.argsort(-scores, kind="stable"):
            memory, chunk, _ = batch[index]
            found = Nearest(memory, chunk, float(scores[index]))
            floor = min(item.score for item in best.values()) if len(best) >= limit else None
            if floor is not None and found.score <= floor:
                break  # The rest of this batch is no better.
            known = best.get(memory)
            if known is not None and known.score >= found.score:
                continue
            if known is not None or admit(memory):
                best[memory] = found
            if len(best) > limit:
                del best[min(best.values(), key=lambda item: item.score).memory]
    return sorted(best.values(), key=lambda item: (-item.score, item.memory))


def _cosines(query: npt.NDArray[np.float32], packed: Sequence[bytes]) -> npt.NDArray[np.float32]:
    rows = np.frombuffer(b"".join(packed), dtype=_FLOAT16).reshape(len(packed), len(query))
    matrix = rows.astype(np.float32)
    norms = np.linalg.norm(matrix, axis=1)
    norms[norms == 0] = 1
    scores: npt.NDArray[np.float32] = np.divide(matrix @ query, norms, dtype=np.float32)
    return scores
