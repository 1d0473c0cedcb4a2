"""What a filter says for certain about one field, so that a store can start from an index."""

from __future__ import annotations

from tiers.filters import All, AnyOf, Eq, Filter, In


def text_values(condition: Filter, field: str) -> frozenset[str] | None:
    """Name the texts of which `field` must have one for `condition` to hold; None for no limit.

    The answer is necessary, not sufficient: what it lets through must still be matched.
    """
    match condition:
        case Eq(name, str(value)) if name == field:
            return frozenset({value})
        case In(name, values) if name == field:
            return frozenset(value for value in values if isinstance(value, str))
        case All(parts):
            limits = [limit for part in parts if (limit := text_values(part, field)) is not None]
            return frozenset.intersection(*limits) if limits else None
        case AnyOf(parts):
            choices = [text_values(part, field) for part in parts]
            known = [choice for choice in choices if choice is not None]
            return frozenset().union(*known) if len(known) == len(choices) else None
        case _:
            return None


def is_exactly(condition: Filter, field: str) -> bool:
    """Say whether `text_values` of this one-valued text field is all that `condition` asks."""
    match condition:
        case Eq(name, value):
            return name == field and isinstance(value, str)
        case In(name, values):
            return name == field and all(isinstance(value, str) for value in values)
        case All(parts) | AnyOf(parts):
            return all(is_exactly(part, field) for part in parts)
        case _:
            return False
