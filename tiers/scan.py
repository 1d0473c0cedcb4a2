"""What changed in a hot root since it was last looked at, and whether to believe it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tiers.catalogue import Placement
from tiers.hot import INDEX, Seen

#: Below so many lost files a loss is an ordinary deletion, whatever share of the files it is.
FEWEST_HELD = 3


@dataclass(frozen=True, slots=True)
class Difference:
    """Paths that are new, may have changed, or are not there any more."""

    new: tuple[str, ...]
    changed: tuple[str, ...]
    missing: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.new or self.changed or self.missing)

    def narrowed(self, path: str) -> Difference:
        """Keep what concerns one path."""
        return Difference(
            tuple(p for p in self.new if p == path),
            tuple(p for p in self.changed if p == path),
            tuple(p for p in self.missing if p == path),
        )


def compare(manifest: Mapping[str, Placement], listing: Mapping[str, Seen]) -> Difference:
    """Compare the manifest with a listing by size, time and inode."""
    return Difference(
        new=tuple(path for path in listing if path not in manifest),
        changed=tuple(
            path
            for path, placement in manifest.items()
            if path in listing and _differs(placement, listing[path])
        ),
        missing=tuple(path for path in manifest if path not in listing),
    )


def renames(
    missing: Mapping[str, Placement], new_hashes: Mapping[str, str], new_ids: Mapping[str, str]
) -> dict[str, str]:
    """Pair vanished paths with new ones: the same content, or the same id in the header.

    Returns new path → old path; each path is used once.
    """
    pairs: dict[str, str] = {}
    free = dict(missing)
    for path, content_hash in new_hashes.items():
        for old, placement in free.items():
            if placement.file_hash == content_hash or new_ids.get(path) == placement.id:
                pairs[path] = old
                del free[old]
                break
    return pairs


def reason_to_hold(
    *,
    placed: int,
    difference: Difference,
    root_exists: bool,
    head_before: str,
    head_now: str,
    share: float,
) -> str | None:
    """Say why changes should wait for a person's word; None when they should not.

    A checkout rewrites many files at once without anybody having edited a memory, and a lost
    folder is no wish to forget (DESIGN: three tiers).
    """
    if placed and not root_exists:
        return "the folder is gone"
    if difference and head_before and head_now != head_before:
        return f"something else was checked out ({_short(head_before)} → {_short(head_now)})"
    lost = [path for path in difference.missing if path != INDEX]
    if len(lost) >= FEWEST_HELD and len(lost) > share * placed:
        return f"{len(lost)} of {placed} files are gone"
    return None


def _differs(placement: Placement, seen: Seen) -> bool:
    return (placement.size, placement.mtime_ns, placement.inode) != (
        seen.size,
        seen.mtime_ns,
        seen.inode,
    )


def _short(head: str) -> str:
    words: Sequence[str] = head.split()
    if not words:
        return "nothing"
    if len(words) == 1:
        return words[0][:10]
    return f"{words[0].removeprefix('refs/heads/')} {words[1][:10]}"
