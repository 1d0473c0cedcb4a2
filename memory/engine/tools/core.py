"""The tools that every agent gets."""

from __future__ import annotations

from collections.abc import Sequence

from memory.engine.tools import feedback, forget, get, load, move, save, search, status
from memory.engine.tools.tool import Tool

#: In the order in which an agent should meet them.
TOOLS: Sequence[Tool] = (
    search.TOOL,
    save.TOOL,
    get.TOOL,
    forget.TOOL,
    move.TOOL,
    feedback.TOOL,
    status.TOOL,
    load.TOOL,
)
