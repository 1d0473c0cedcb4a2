"""The part of a text that has most of a query's words. Pure, and linear in the text's length."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from itertools import islice

#: About 64 words.
PASSAGE_CHARACTERS = 400

#: A text that has a word more often says it often enough in its first part.
_MOST_OCCURRENCES = 5_000

_SHORTEST_STEM = 4
_ENDING = 3


def passage(text: str, words: Sequence[str]) -> str:
    """Cut out the best passage; the start of the text when none of the words is in it."""
    if len(text) <= PASSAGE_CHARACTERS:
        return text
    start = _best_start(_occurrences(text, words))
    begin = max(start - PASSAGE_CHARACTERS // 8, 0)
    end = min(begin + PASSAGE_CHARACTERS, len(text))
    cut = text[begin:end]
    if begin:
        cut = "… " + (cut.partition(" ")[2] or cut)
    if end < len(text):
        cut = (cut.rpartition(" ")[0] or cut) + " …"
    return cut


def _occurrences(text: str, words: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Find the words in a text, other endings and accents included: as (position, stem)."""
    stems = {_stem(_plain(word)) for word in words}
    found = (
        (match.start(), stem)
        for match in re.finditer(r"\w+", text)
        if (stem := _stem(_plain(match.group()))) in stems
    )
    return islice(found, _MOST_OCCURRENCES)


def _best_start(occurrences: Iterator[tuple[int, str]]) -> int:
    """Say where the first passage begins that has the most different words."""
    window: deque[tuple[int, str]] = deque()
    inside: Counter[str] = Counter()
    best, start = 0, 0
    for position, stem in occurrences:
        window.append((position, stem))
        inside[stem] += 1
        while position - window[0][0] > PASSAGE_CHARACTERS * 3 // 4:
            _, old = window.popleft()
            inside[old] -= 1
            if not inside[old]:
                del inside[old]
        if len(inside) > best:
            best, start = len(inside), window[0][0]
    return start


def _plain(word: str) -> str:
    if word.isascii():
        return word.lower()
    split = unicodedata.normalize("NFKD", word.casefold())
    return "".join(character for character in split if not unicodedata.combining(character))


def _stem(word: str) -> str:
    """Leave out an ending: rough, since only where to look depends on it."""
    return word[: max(len(word) - _ENDING, _SHORTEST_STEM)]
