"""Score the product's own search on documents and questions in a plain form."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Scores:
    """Means over questions: the share of the evidence found in the first k, and reciprocal rank."""

    questions: int
    recall_at_5: float
    recall_at_10: float
    mrr: float


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Read a JSONL file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]


def score(questions: Iterable[dict[str, Any]], search: Callable[[str], list[str]]) -> Scores:
    """Ask every question that has evidence; `search` gives document ids, best first."""
    rows = []
    for question in questions:
        gold = set(question["evidence"])
        if not gold:
            continue
        found = search(question["question"])
        rank = next((place for place, name in enumerate(found, 1) if name in gold), 0)
        rows.append((_recall(found, gold, 5), _recall(found, gold, 10), 1 / rank if rank else 0.0))
    means = [sum(column) / len(rows) for column in zip(*rows, strict=True)]
    return Scores(len(rows), *means)


def _recall(found: list[str], gold: set[str], k: int) -> float:
    return len(gold & set(found[:k])) / len(gold)
