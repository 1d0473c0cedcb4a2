"""What an agent says of the memories that a search gave it: checked against the receipt. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from memory.errors import Ambiguous, NotFound, UsageError
from tiers.usage import Verdict

_SHORTEST_PREFIX = 4


def verdicts_on(
    shown: Collection[str], said: Mapping[Verdict, Collection[str]]
) -> dict[str, Verdict]:
    """Match what was said with the memories that were shown, named by id or its start.

    Raises UsageError when nothing was said or two things of one memory, NotFound for a memory that
    was not shown, Ambiguous for a start that several have.
    """
    found: dict[str, Verdict] = {}
    for verdict, refs in said.items():
        for ref in refs:
            record_id = _shown_as(ref, shown)
            if found.setdefault(record_id, verdict) is not verdict:
                raise UsageError(
                    f"{record_id} is said to be {found[record_id]} and {verdict}",
                    hint="say one of used, ignored and wrong of each memory",
                )
    if not found:
        raise UsageError(
            "nothing is said of any memory", hint="name those that were used, ignored or wrong"
        )
    return found


def _shown_as(ref: str, shown: Collection[str]) -> str:
    text = ref.strip().lower()
    matches = [record_id for record_id in shown if record_id == text]
    if not matches and len(text) >= _SHORTEST_PREFIX:
        matches = [record_id for record_id in shown if record_id.startswith(text)]
    if not matches:
        raise NotFound(
            f"the search of this receipt gave no memory {ref.strip()!r}",
            hint="name memories by the ids of that search's hits",
        )
    if len(matches) > 1:
        raise Ambiguous(f"{len(matches)} of the memories have an id that starts with {text!r}")
    return matches[0]
