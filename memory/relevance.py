"""How relevant a topic file is to a task: the published formula, pure, standard library only.

score = (10 if the category matches + 5 × matched tags + 3 × matched keywords + 2 × uses)
× importance (high 2, medium 1, low 0.5). Sources: requirements P-14 to P-17 with readings I-1, I-2
and I-4: a word matches a longer one that starts with it, uses count up to 10.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_WORD = re.compile(r"[^\W_]+")
_SHORTEST_PREFIX = 4
_MOST_USES = 10
_WEIGHTS = {"high": 2.0, "medium": 1.0, "low": 0.5}

#: Words that say nothing about a task; verbs of the trade are among them.
STOP_WORDS = frozenset(
    "a about add all an and any are as at be build but by can change create do does fix for from"
    " get has have how i if implement in into is it its make modify my new no not of on one or our"
    " out over please set should so some system than that the their them then there these they"
    " this to update up us use using want was we what when where which who why will with you"
    " your".split()
)


@dataclass(frozen=True, slots=True)
class Described:
    """What is known of a topic file without reading its text."""

    stem: str
    category: str = ""
    tags: Sequence[str] = ()
    keywords: Sequence[str] = ()
    importance: str = "medium"
    uses: int = 0


@dataclass(frozen=True, slots=True)
class Relevance:
    """A score and the parts it was made of, before the factor."""

    category: float
    tags: float
    keywords: float
    usage: float
    importance: float

    @property
    def score(self) -> float:
        return (self.category + self.tags + self.keywords + self.usage) * self.importance

    def parts(self) -> dict[str, float]:
        return {
            "category": self.category,
            "tags": self.tags,
            "keywords": self.keywords,
            "usage": self.usage,
            "importance": self.importance,
        }


def task_terms(title: str, description: str = "") -> frozenset[str]:
    """Take the words of a task that say something."""
    words = _WORD.findall(f"{title} {description}".lower())
    return frozenset(w for w in words if len(w) > 1 and w not in STOP_WORDS)


def relevance(file: Described, terms: frozenset[str]) -> Relevance:
    """Score a file against the terms of a task; without terms only use and importance count."""
    return Relevance(
        category=10.0 if _category_matches(file, terms) else 0.0,
        tags=5.0 * sum(_tag_matches(tag, terms) for tag in _distinct(file.tags)),
        keywords=3.0 * sum(_all_in(word, terms) for word in _distinct(file.keywords)),
        usage=2.0 * min(file.uses, _MOST_USES),
        importance=_WEIGHTS.get(file.importance.lower(), 1.0),
    )


def _distinct(words: Sequence[str]) -> Sequence[str]:
    return list(dict.fromkeys(word.lower() for word in words))


def _category_matches(file: Described, terms: frozenset[str]) -> bool:
    """Hold when the category, or at least half of the words in the file's name, are in the task."""
    if file.category and _all_in(file.category, terms):
        return True
    words = _WORD.findall(file.stem.lower().replace("_", " "))
    return bool(words) and 2 * sum(word in terms for word in words) >= len(words)


def _tag_matches(tag: str, terms: frozenset[str]) -> bool:
    parts = _WORD.findall(tag.lower())
    return bool(parts) and all(any(_same(part, term) for term in terms) for part in parts)


def _all_in(phrase: str, terms: frozenset[str]) -> bool:
    parts = _WORD.findall(phrase.lower())
    return bool(parts) and all(part in terms for part in parts)


def _same(one: str, other: str) -> bool:
    short, long = sorted((one, other), key=len)
    return short == long or (len(short) >= _SHORTEST_PREFIX and long.startswith(short))
