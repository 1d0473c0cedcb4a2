"""Text as tokenizers and wires accept it."""

from __future__ import annotations


def encodable(text: str) -> str:
    """Replace what UTF-8 cannot carry, lone surrogates, by question marks."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")
