"""Words found in texts that no index holds: pending changes, hot files in an outage. Pure.

The score is the share of the question's weight that a text covers: BM25 of the text over the
highest BM25 that any text could have, so it lies in [0, 1] and needs no other text to compare with.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

#: k1 of the BM25 whose term weights are given (Qdrant's default); no weight can exceed k1 + 1.
K1 = 1.2

WordWeights = Mapping[int, float]


def coverage(question: Sequence[int], texts: Mapping[str, WordWeights]) -> dict[str, float]:
    """Score texts, given as token id → BM25 term weight; texts that share no word are left out."""
    terms = set(question)
    if not terms:
        return {}
    found = Counter(term for words in texts.values() for term in terms & words.keys())
    rarity = {term: _idf(found[term], len(texts)) for term in terms}
    best = sum(rarity.values()) * (K1 + 1)
    scores = {
        key: sum(rarity[term] * words[term] for term in terms & words.keys()) / best
        for key, words in texts.items()
    }
    return {key: min(score, 1.0) for key, score in scores.items() if score > 0}


def _idf(texts_with_term: int, texts: int) -> float:
    """Lucene's BM25 inverse document frequency, which is never negative."""
    return math.log(1 + (texts - texts_with_term + 0.5) / (texts_with_term + 0.5))
