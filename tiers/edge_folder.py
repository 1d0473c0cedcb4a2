"""What lies in the folder of an embedded deep store beside the engine's own files.

owner.lock   who has it open (edge_lock)
meta.json    what the store is: schema, dense vectors, which one is active, the flushed mark
CURRENT      the name of the shard folder in use; without it nothing was ever stored
shard-…/     the engine's files
making-…/    a shard that is being created; it never held a point
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tiers.atomic import replace, sync_folder
from tiers.edge_errors import REBUILD_HINT
from tiers.errors import StoreDamaged, StoreMismatch, StoreUnavailable
from tiers.sparse_copy import copy_tree

_FIRST_SHARD = "shard-1"
_MAKING = "making-"


@dataclass(frozen=True, slots=True)
class Meta:
    """What a store is. `adding` and `dropping` name vectors whose change may be half done."""

    schema_version: int
    active: str
    vectors: Mapping[str, int]
    mark: int = 0
    adding: tuple[str, ...] = ()
    dropping: tuple[str, ...] = ()
    unknown: Mapping[str, Any] = field(default_factory=dict)


def meta_to_json(meta: Meta) -> dict[str, Any]:
    """Render as plain JSON values, with the keys of other versions as they were."""
    return dict(meta.unknown) | {
        "schema_version": meta.schema_version,
        "active": meta.active,
        "vectors": dict(meta.vectors),
        "mark": meta.mark,
        "adding": list(meta.adding),
        "dropping": list(meta.dropping),
    }


def meta_from_json(data: Mapping[str, Any]) -> Meta:
    """Read what `meta_to_json` made. Raises KeyError, TypeError or ValueError for anything else."""
    ours = {"schema_version", "active", "vectors", "mark", "adding", "dropping"}
    return Meta(
        schema_version=int(data["schema_version"]),
        active=str(data["active"]),
        vectors={str(name): int(size) for name, size in data["vectors"].items()},
        mark=int(data.get("mark", 0)),
        adding=tuple(data.get("adding", ())),
        dropping=tuple(data.get("dropping", ())),
        unknown={key: value for key, value in data.items() if key not in ours},
    )


@dataclass(frozen=True, slots=True)
class EdgeFolder:
    """The files of one store. Only the owner of the lock may call what writes."""

    path: Path

    def read_meta(self, schema_version: int) -> Meta | None:
        """Read meta.json; None when there is none.

        Raises StoreMismatch for another schema, whatever else the file holds, and StoreDamaged.
        """
        try:
            data = json.loads((self.path / "meta.json").read_text(encoding="utf-8"))
            found = int(data["schema_version"])
            if found == schema_version:
                return meta_from_json(data)
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise StoreDamaged(
                f"{self.path / 'meta.json'} cannot be read: {error}", hint=REBUILD_HINT
            ) from error
        raise StoreMismatch(
            f"the store in {self.path} has schema {found}, this tiermem uses {schema_version}",
            hint="use the tiermem that made it, or rebuild it with: tiermem reindex",
        )

    def write_meta(self, meta: Meta) -> None:
        text = json.dumps(meta_to_json(meta), indent=2, ensure_ascii=False)
        replace(self.path / "meta.json", text.encode())

    def shard(self) -> Path | None:
        """Find the shard in use; None when none was ever finished.

        Raises StoreDamaged when files are missing without which the engine would quietly start
        with less than was stored.
        """
        name = self._current()
        if name is None:
            return None
        shard = self.path / name
        for part in ("edge_config.json", "wal", "segments"):
            if not (shard / part).exists():
                raise StoreDamaged(f"{shard / part} is missing", hint=REBUILD_HINT)
        if not any((shard / "segments").iterdir()):
            raise StoreDamaged(f"{shard / 'segments'} is empty", hint=REBUILD_HINT)
        return shard

    def _current(self) -> str | None:
        try:
            name = (self.path / "CURRENT").read_text(encoding="utf-8").strip()
        except FileNotFoundError:
            shards = sorted(path.name for path in self.path.glob("shard-*"))
            if len(shards) > 1:
                raise StoreDamaged(
                    f"{self.path / 'CURRENT'} is missing and there are {len(shards)} shards",
                    hint=REBUILD_HINT,
                ) from None
            return shards[0] if shards else None
        if not name or Path(name).name != name:
            raise StoreDamaged(f"{self.path / 'CURRENT'} names no shard", hint=REBUILD_HINT)
        return name

    def begin_shard(self) -> Path:
        """Name a fresh folder to create a shard in; what an earlier attempt left is removed."""
        for left in self.path.glob(f"{_MAKING}*"):
            shutil.rmtree(left)
        return self.path / f"{_MAKING}{_FIRST_SHARD}"

    def finish_shard(self, making: Path) -> Path:
        """Give a created shard its name."""
        shard = self.path / _FIRST_SHARD
        making.rename(shard)
        sync_folder(self.path)
        return shard

    def set_current(self, shard: Path) -> None:
        """Say which shard is in use; from then on it may hold points."""
        if not (self.path / "CURRENT").exists():
            replace(self.path / "CURRENT", f"{shard.name}\n".encode())

    def copy_to(self, destination: Path, shard: Path) -> None:
        """Copy a flushed store; the copy has its name only when it is whole."""
        if destination.exists():
            raise StoreUnavailable(
                f"{destination} exists already", hint="name a folder that does not exist yet"
            )
        part = destination.with_name(f"{destination.name}.part")
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True, mode=0o700)
        for name in ("meta.json", "CURRENT"):
            shutil.copyfile(self.path / name, part / name)
        copy_tree(shard, part / shard.name)
        part.rename(destination)
        sync_folder(destination.parent)
