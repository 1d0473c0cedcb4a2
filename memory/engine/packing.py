"""Fitting recalled texts into a budget of tokens, visibly cut and always fenced."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from memory.fence import fenced, mark_of
from tiers.records import Origin

#: A piece shorter than this helps nobody; what has less room is left for the next page.
SMALLEST_PIECE = 160

_LONGEST_NAME = 120

#: What a cut text ends with.
CUT = " […]"


@dataclass(frozen=True, slots=True)
class Piece:
    """As much of a text as fits."""

    text: str
    is_cut: bool


def cut(text: str, characters: int) -> Piece:
    """Keep the start of a text, up to a line's or word's end where there is one near."""
    if len(text) <= characters:
        return Piece(text, is_cut=False)
    room = max(characters - len(CUT), 0)
    kept = text[:room]
    for end in ("\n", " "):
        head, found, _ = kept.rpartition(end)
        if found and len(head) >= room * 0.7:
            kept = head
            break
    return Piece(kept + CUT, is_cut=True)


def fit(texts: Sequence[str], characters: int, *, overhead: int) -> list[Piece]:
    """Share a budget among texts in their order; what one leaves goes to those after it.

    Each text costs `overhead` beside its own characters. The list is shorter than `texts` when the
    rest has no room; a first text always gets what there is.
    """
    pieces: list[Piece] = []
    left = characters
    for number, text in enumerate(texts):
        share = left // (len(texts) - number) - overhead
        room = max(share, min(SMALLEST_PIECE, left - overhead))
        if pieces and room < SMALLEST_PIECE and room < len(text):
            break
        piece = cut(text, max(room, SMALLEST_PIECE))
        pieces.append(piece)
        left -= len(piece.text) + overhead
    return pieces


def quoted(name: str) -> str:
    """Show a name as a quotation on one line: names are remembered text too."""
    return json.dumps(cut(" ".join(name.split()), _LONGEST_NAME).text, ensure_ascii=False)


def age_of(made: datetime, now: datetime) -> str:
    """Say how old something is: 3d, 5h, 2min; years and months from two months on."""
    seconds = max((now - made).total_seconds(), 0)
    for unit, size in (("y", 365 * 86_400), ("mo", 30 * 86_400)):
        if seconds >= 2 * size:
            return f"{int(seconds // size)}{unit}"
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= size:
            return f"{int(seconds // size)}{unit}"
    return "now"


def recalled(text: str, *, name: str, origin: Origin | str, age: str) -> str:
    """Fence one recalled text, labelled with its name, where it came from and how old it is."""
    label = f"name={quoted(name)} origin={origin} age={age}"
    return fenced(text, mark_of([name, text]), label)
