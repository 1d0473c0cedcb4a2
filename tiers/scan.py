"""What changed in a hot root since it was last looked at, and whether to believe it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from tiers.catalogue import Placement
from tiers.hot import INDEX
from tiers.survey import Seen

#: Below so many lost files a loss is an ordinary deletion, whatever share of the files it is.
FEWEST_HELD = 3


@dataclass(frozen=True, slots=True)
class Difference:
    """Paths that are new, may have changed, or are not there any more."""

    new: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.new or self.changed or self.missing)

    @property
    def paths(self) -> tuple[str, ...]:
        return (*self.changed, *self.new, *self.missing)

    def only(self, wanted: Callable[[str], bool]) -> Difference:
        """Keep what concerns some paths."""
        return Difference(
            tuple(filter(wanted, self.new)),
            tuple(filter(wanted, self.changed)),
            tuple(filter(wanted, self.missing)),
        )


def compare(
    manifest: Mapping[str, Placement], listing: Mapping[str, Seen], *, suspect: str | None = None
) -> Difference:
    """Compare the manifest with a listing by size, time and inode.

    A `suspect` may have changed although it looks as before.
    """
    return Difference(
        new=tuple(path for path in listing if path not in manifest),
        changed=tuple(
            path
            for path, placement in manifest.items()
            if path in listing and (path == suspect or _differs(placement, listing[path]))
        ),
        missing=tuple(path for path in manifest if path not in listing),
    )


def renames(
    manifest: Mapping[str, Placement],
    difference: Difference,
    hashes: Mapping[str, str],
    ids: Mapping[str, str],
) -> dict[str, str]:
    """Pair paths with where their content lay before: new path → old path, each used once.

    A memory has left its path when nothing is there any more, or a file that names another memory.
    It is where the id in the header says so, or where the same content is new.
    """
    strangers = [p for p in difference.changed if ids.get(p) not in (None, "", manifest[p].id)]
    left = {path: manifest[path] for path in (*difference.missing, *strangers) if path != INDEX}
    pairs: dict[str, str] = {}
    for path in (*difference.new, *strangers):
        for old, placement in left.items():
            same = path in difference.new and hashes.get(path) == placement.file_hash
            if path not in (old, INDEX) and (same or ids.get(path) == placement.id):
                pairs[path] = old
                del left[old]
                break
    return pairs


def after_renames(difference: Difference, pairs: Mapping[str, str]) -> Difference:
    """Leave out what was moved; a file at a path that its memory has left is a new one."""
    old = set(pairs.values())
    return Difference(
        new=tuple(
            path
            for path in (*difference.new, *(p for p in difference.changed if p in old))
            if path not in pairs
        ),
        changed=tuple(p for p in difference.changed if p not in pairs and p not in old),
        missing=tuple(p for p in difference.missing if p not in old),
    )


def reason_to_hold(
    *, placed: int, missing: Collection[str], root_exists: bool, share: float
) -> str | None:
    """Say why a loss should wait for a person's word; None when it should not.

    A lost folder is no wish to forget.
    """
    if placed and not root_exists:
        return "the folder is gone"
    lost = [path for path in missing if path != INDEX]
    if len(lost) >= FEWEST_HELD and len(lost) > share * placed:
        return f"{len(lost)} of {placed} files are gone"
    return None


def switch(before: str, now: str) -> str:
    """Say that something else is checked out: it rewrites files that nobody has edited."""
    return f"something else was checked out ({_short(before)} → {_short(now)})"


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
