"""Which tier a memory belongs to, and what keeps it from being moved. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from memory.errors import Refused
from memory.file_drafts import index_id
from memory.hot_folders import HotFolder
from tiers.catalogue import Placement
from tiers.hot import INDEX
from tiers.records import GLOBAL_PROJECT, MemoryRecord, Origin, Tier

#: What they say becomes always-loaded text without anybody asking for it.
_TRUSTED = frozenset({Origin.HUMAN, Origin.USER, Origin.AGENT})


def tier_of(
    record: MemoryRecord,
    folder: HotFolder,
    *,
    base: MemoryRecord | None,
    known: Tier | None,
    wanted: Tier | None,
) -> Tier:
    """Choose where a revision belongs that is saved over `base`, which is in the tier `known`.

    The tier that is wanted wins, unless a file must not hold the memory, or it is pinned to one.
    """
    may_be_hot = folder.may_hold(record)
    if known is Tier.HOT:
        # A private memory that lies in a shared folder all the same was put there by a person.
        stays = may_be_hot or (base is not None and not folder.may_hold(base))
        return Tier.HOT if stays and (wanted is not Tier.DEEP or record.pinned) else Tier.DEEP
    if not may_be_hot:
        return Tier.DEEP
    if wanted is not None:
        return wanted
    if known is Tier.DEEP:
        return known
    # Nothing loads the hot files of all projects by itself yet.
    is_loaded = folder.key != GLOBAL_PROJECT
    return Tier.HOT if is_loaded and record.origin in _TRUSTED else Tier.DEEP


def refusal(
    record: MemoryRecord, to: Tier, folder: HotFolder, placements: Iterable[Placement]
) -> Refused | None:
    """Say why a memory cannot be moved to a tier; None when it can.

    `placements` are the files that hold it.
    """
    if record.id == index_id(record.project):
        return Refused(
            f"this memory is what people wrote in {INDEX}", hint="edit that file by hand"
        )
    if to is Tier.HOT:
        return _why_not_hot(record, folder)
    if record.pinned:
        return Refused(f"{record.name!r} is pinned", hint=f"tiermem unpin {record.id[:13]}")
    masked = next((placement for placement in placements if placement.masked), None)
    if masked is not None:
        return Refused(
            f"{masked.path} holds a secret that is masked here; without the file it would be lost",
            hint="take the secret out of that file first",
        )
    return None


def _why_not_hot(record: MemoryRecord, folder: HotFolder) -> Refused | None:
    if folder.may_hold(record):
        return None
    reason = (
        "git shows the hot files of this project to everybody"
        if folder.tracked
        else f"the hot files of this home are {folder.owner}'s to read"
    )
    return Refused(
        f"{record.name!r} is private to {record.owner}, and {reason}",
        hint="leave it deep, or save it as visible to the project first",
    )
