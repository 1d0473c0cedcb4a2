"""Answers that keep to a budget of tokens."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from memory.engine.tools.tool import (
    CHARACTERS_A_TOKEN,
    DEFAULT_TOKENS,
    Reply,
    Result,
)

#: How often an answer is packed anew because marks and escapes made it too long; the last time it
#: has a fifth of the room.
_PACKINGS = 16
_LESS = 0.9


def within(max_tokens: int | None, pack: Callable[[int], Reply]) -> Reply:
    """Pack an answer into a budget of tokens, less at a time until data and text both fit."""
    limit = (max_tokens or DEFAULT_TOKENS) * CHARACTERS_A_TOKEN
    room = limit
    for _ in range(_PACKINGS):
        reply = pack(room)
        size = max(length(reply.data), len(reply.text))
        if size <= limit:
            break
        room = int(room * min(limit / size, 1.0) * _LESS)
    return reply


def length(data: Result) -> int:
    """Count the characters of structured content as compact JSON."""
    return len(json.dumps(as_json(data), ensure_ascii=False, separators=(",", ":")))


def as_json(data: Result) -> dict[str, Any]:
    """Give a result as structured content: what is empty is left out."""
    return data.model_dump(mode="json", exclude_none=True)
