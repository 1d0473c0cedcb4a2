"""From what the arms found to one ranked list of memories. Pure.

Score fusion by min-max normalised sums beats reciprocal ranks on conversations, long messages and
code alike; a share of the neighbours' scores helps where memories are turns of one thread
(LoCoMo recall@10 0.675 → 0.722; measured 2026-11-30, see docs/decisions.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tiers.deep import Arm, Candidate
from tiers.records import Importance, parse_time

#: Weights of the arms in the sum. Local and archive arms come in already between 0 and 1.
WEIGHTS: Mapping[Arm, float] = {
    Arm.DENSE: 0.5,
    Arm.SPARSE: 0.5,
    Arm.LOCAL: 0.9,
    Arm.ARCHIVE: 0.8,
}

#: Share of the best neighbour on each side that a turn's score gets.
NEIGHBOUR_SHARE = 0.3

#: Bounds of what importance and age can do to a score, as factors around 1.
IMPORTANCE_FACTORS: Mapping[str, float] = {
    Importance.LOW: 0.97,
    Importance.MEDIUM: 1.0,
    Importance.HIGH: 1.03,
}
RECENCY_BONUS = 0.02
RECENCY_HALF_LIFE_DAYS = 30.0

#: A cosine below which the best hit by meaning alone is no answer (all-MiniLM-L6-v2).
CONFIDENT_COSINE = 0.3
CONFIDENT_COVERAGE = 0.5


@dataclass(frozen=True, slots=True)
class Part:
    """One addend or factor of a score."""

    name: str
    value: float
    note: str = ""


@dataclass(frozen=True, slots=True)
class Ranked:
    """A memory, its best chunk, and why it ranks where it does."""

    record_id: str
    payload: Mapping[str, Any]
    score: float
    parts: tuple[Part, ...] = ()


@dataclass(slots=True)
class _Found:
    """What the arms know of one memory while it is being ranked."""

    payload: Mapping[str, Any]
    best: float = 0.0
    raw: dict[Arm, float] = field(default_factory=dict)
    shares: dict[Arm, float] = field(default_factory=dict)

    @property
    def sum(self) -> float:
        return sum(self.shares.values())


def rank(
    arms: Mapping[Arm, Sequence[Candidate]],
    *,
    now: datetime,
    weights: Mapping[Arm, float] = WEIGHTS,
    neighbour_share: float = NEIGHBOUR_SHARE,
) -> list[Ranked]:
    """Fuse the arms' candidates into memories, each once with its best chunk, best first."""
    found: dict[str, _Found] = {}
    for arm, candidates in arms.items():
        for candidate, share in _normalised(arm, candidates):
            _add(found, arm, candidate, weights[arm] * share)
    by_place = {_place(entry.payload): entry for entry in found.values() if _place(entry.payload)}
    ranked = [
        _ranked(record_id, entry, by_place, now, neighbour_share)
        for record_id, entry in found.items()
    ]
    return sorted(ranked, key=lambda hit: (-hit.score, hit.record_id))


def is_confident(arms: Mapping[Arm, Sequence[Candidate]]) -> bool:
    """Say whether anything that was found is likely to be an answer.

    Uncalibrated: a good cosine, or words that cover half of the question.
    """
    best = {arm: max((c.score for c in found), default=0.0) for arm, found in arms.items()}
    return (
        best.get(Arm.DENSE, 0.0) >= CONFIDENT_COSINE
        or best.get(Arm.LOCAL, 0.0) >= CONFIDENT_COVERAGE
        or (Arm.DENSE not in best and (best.get(Arm.SPARSE, 0) > 0 or best.get(Arm.ARCHIVE, 0) > 0))
    )


def _normalised(arm: Arm, candidates: Sequence[Candidate]) -> list[tuple[Candidate, float]]:
    if not candidates:
        return []
    if arm in (Arm.LOCAL, Arm.ARCHIVE):
        return [(candidate, candidate.score) for candidate in candidates]
    scores = [candidate.score for candidate in candidates]
    low, high = min(scores), max(scores)
    if arm is Arm.SPARSE:
        # What the sparse arm did not return shares no word, so nothing is its natural floor.
        low = 0.0
    span = high - low
    return [(c, (c.score - low) / span if span > 0 else 1.0) for c in candidates]


def _add(found: dict[str, _Found], arm: Arm, candidate: Candidate, share: float) -> None:
    record_id = str(candidate.payload["id"])
    entry = found.setdefault(record_id, _Found(candidate.payload))
    if share >= entry.best:
        entry.best, entry.payload = share, candidate.payload
    if share >= entry.shares.get(arm, -1.0):
        entry.shares[arm], entry.raw[arm] = share, candidate.score


def _ranked(
    record_id: str,
    entry: _Found,
    by_place: Mapping[tuple[str, int] | None, _Found],
    now: datetime,
    neighbour_share: float,
) -> Ranked:
    parts = [
        Part(str(arm), share, f"raw {entry.raw[arm]:.4f}") for arm, share in entry.shares.items()
    ]
    beside = _beside(entry.payload, by_place) * neighbour_share
    if beside:
        parts.append(Part("neighbours", beside, "before and after in the same thread"))
    importance = IMPORTANCE_FACTORS.get(str(entry.payload.get("importance")), 1.0)
    recency = 1.0 + RECENCY_BONUS * _freshness(entry.payload, now)
    parts.append(Part("× importance", importance))
    parts.append(Part("× recency", recency))
    score = (entry.sum + beside) * importance * recency
    return Ranked(record_id, entry.payload, score, tuple(parts))


def _place(payload: Mapping[str, Any]) -> tuple[str, int] | None:
    thread, position = payload.get("thread"), payload.get("position")
    return (thread, position) if thread and isinstance(position, int) else None


def _beside(payload: Mapping[str, Any], by_place: Mapping[tuple[str, int] | None, _Found]) -> float:
    place = _place(payload)
    if place is None:
        return 0.0
    thread, position = place
    around = (by_place.get((thread, position - 1)), by_place.get((thread, position + 1)))
    return sum(entry.sum for entry in around if entry is not None)


def _freshness(payload: Mapping[str, Any], now: datetime) -> float:
    moment = payload.get("created_at")
    if not isinstance(moment, str):
        return 0.0
    age_days = max((now - parse_time(moment)).total_seconds() / 86_400, 0.0)
    return float(0.5 ** (age_days / RECENCY_HALF_LIFE_DAYS))
