"""Marks around remembered text, so that it reads as data. Standard library only.

The mark is a hash of what it fences: no text can hold its own, and equal content gives an equal
prompt, which clients can cache.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable


def mark_of(texts: Iterable[str]) -> str:
    """Make the mark for texts that are given together."""
    joined = "\0".join(texts)
    return hashlib.sha256(joined.encode("utf-8", "replace")).hexdigest()[:10]


def fenced(text: str, mark: str, label: str = "") -> str:
    """Put a text between marks; `label` says on one line where it comes from."""
    about = f" {' '.join(label.split())}" if label else ""
    return f"<memory {mark}{about}>\n{text}\n</memory {mark}>"
