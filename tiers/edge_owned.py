"""One open shard, owned: its lock, its meta.json, and the only way to the engine's calls."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import qdrant_edge as qe

from tiers.deep import DeepSpec
from tiers.edge_errors import REBUILD_HINT, engine_errors
from tiers.edge_folder import EdgeFolder, Meta
from tiers.edge_lock import OwnerLock, take_owner_lock
from tiers.edge_shard import create_shard, load_shard, vector_added, vector_dropped
from tiers.errors import StoreDamaged, StoreFull, StoreMismatch, StoreUnavailable
from tiers.sparse_copy import size_on_disk

#: Opening writes little, and a store that opens can still be searched.
_MIN_FREE_BYTES_TO_OPEN = 128 * 2**20


class OwnedShard:
    """A shard that this process alone has open, from `open` to `close`.

    Threads may share it: one call of the engine runs at a time. A forked child is refused.
    """

    def __init__(
        self,
        path: Path,
        *,
        min_free_bytes: int,
        search_threads: int,
        free_bytes: Callable[[], int],
    ) -> None:
        self._folder = EdgeFolder(path)
        self._min_free_bytes = min_free_bytes
        self._search_threads = search_threads
        self._free_bytes = free_bytes
        self._lock = threading.RLock()  # guards all that follows, and every call of the engine
        self._shard: qe.EdgeShard | None = None
        self._meta: Meta | None = None
        self._owner: OwnerLock | None = None
        self._pid = os.getpid()
        self._is_closed = False

    def open(self, spec: DeepSpec) -> None:
        """Take the lock, then create or load the shard; on an error nothing stays open."""
        path = self._folder.path
        with self._lock, engine_errors(f"open {path}", unknown=StoreDamaged):
            self._refuse_other_process()
            if self._is_closed:
                raise StoreUnavailable(f"the store in {path} was closed", hint="build a new one")
            path.mkdir(parents=True, exist_ok=True, mode=0o700)
            owner = take_owner_lock(path)
            try:
                self._open_owned(spec)
            except BaseException:
                self._let_go()
                owner.release()
                raise
            self._owner = owner

    def _open_owned(self, spec: DeepSpec) -> None:
        self.require_space(at_least=min(self._min_free_bytes, _MIN_FREE_BYTES_TO_OPEN))
        meta = self._folder.read_meta(spec.schema_version)
        shard = self._folder.shard()
        if shard is None:
            meta = self._new_meta(spec, meta)
            shard = self._create(meta)
        if meta is None:
            raise StoreDamaged(f"{self._folder.path / 'meta.json'} is missing", hint=REBUILD_HINT)
        _refuse_other_dimensions(meta, spec)
        self._shard = load_shard(shard)
        self._folder.set_current(shard)
        self._meta = meta
        self._finish_vectors()
        self._adopt(spec)

    def _new_meta(self, spec: DeepSpec, left: Meta | None) -> Meta:
        unknown = left.unknown if left is not None else {}
        return Meta(spec.schema_version, spec.active, dict(spec.vectors), unknown=unknown)

    def _create(self, meta: Meta) -> Path:
        # In this order a kill between any two steps leaves what the next open finishes.
        self._folder.write_meta(meta)
        making = self._folder.begin_shard()
        create_shard(making, meta.vectors, self._search_threads)
        return self._folder.finish_shard(making)

    def _adopt(self, spec: DeepSpec) -> None:
        """Take over what the spec adds; only an empty store may get vectors this way."""
        missing = [name for name in spec.vectors if name not in self.meta.vectors]
        with self.using("count points") as shard:
            is_empty = shard.count(qe.CountRequest(exact=True)) == 0
        if is_empty:
            for name in missing:
                self.add_vector(name, spec.vectors[name])
            self.keep(replace(self.meta, active=spec.active))
        elif missing:
            raise StoreMismatch(
                f"the store in {self._folder.path} has no vectors for {', '.join(missing)}",
                hint="set the model that built this index, or run: tiermem reindex",
            )

    def close(self) -> None:
        """Flush, close and give the lock free; again is no error, and in a forked child nothing."""
        if os.getpid() != self._pid:
            return
        with self._lock, engine_errors("close the store"):
            self._is_closed = True
            owner, self._owner = self._owner, None
            try:
                if self._shard is not None:
                    self._shard.flush()
            finally:
                self._let_go()
                if owner is not None:
                    owner.release()

    @contextmanager
    def using(self, doing: str) -> Iterator[qe.EdgeShard]:
        """Lend the shard for one step, alone; its errors come out as TierErrors."""
        self._refuse_other_process()
        with self._lock, engine_errors(doing):
            if self._shard is None:
                raise StoreUnavailable(f"cannot {doing}: the store is not open")
            yield self._shard

    @contextmanager
    def writing(self, doing: str) -> Iterator[qe.EdgeShard]:
        """Lend the shard like `using`. Raises StoreFull when space is short."""
        with self.using(doing) as shard:
            self.require_space()
            yield shard

    def require_space(self, wanted: int = 0, *, at_least: int | None = None) -> None:
        """Raise StoreFull unless `wanted` bytes fit and the reserve stays free."""
        needed = wanted + (self._min_free_bytes if at_least is None else at_least)
        free = self._free_bytes()
        if free < needed:
            raise StoreFull(
                f"{free >> 20} MiB are free at {self._folder.path}, {needed >> 20} MiB are needed"
            )

    @property
    def meta(self) -> Meta:
        """What the open store is."""
        if self._meta is None:
            raise StoreUnavailable("the store is not open")
        return self._meta

    def keep(self, meta: Meta) -> None:
        """Replace meta.json when it changes; call it while using the shard."""
        if meta != self._meta:
            self._folder.write_meta(meta)
            self._meta = meta

    def add_vector(self, name: str, dimension: int) -> None:
        """Add a dense vector; call it while using the shard."""
        vectors = {**self.meta.vectors, name: dimension}
        self.keep(replace(self.meta, vectors=vectors, adding=(*self.meta.adding, name)))
        self._finish_vectors()

    def drop_vector(self, name: str) -> None:
        """Drop a dense vector; call it while using the shard."""
        vectors = {other: size for other, size in self.meta.vectors.items() if other != name}
        self.keep(replace(self.meta, vectors=vectors, dropping=(*self.meta.dropping, name)))
        self._finish_vectors()

    def _finish_vectors(self) -> None:
        """Carry out what meta.json announces; safe to repeat after a crash at any step."""
        meta = self.meta
        if not meta.adding and not meta.dropping:
            return
        with self.using("change vectors") as shard:
            for name in meta.dropping:
                shard.update(vector_dropped(name))
            for name in meta.adding:
                shard.update(vector_added(name, meta.vectors[name]))
            shard.flush()
            self.keep(replace(meta, adding=(), dropping=()))

    def copy_to(self, destination: Path) -> None:
        """Flush and copy the store."""
        path = self._folder.path
        with self.using(f"back up to {destination}") as shard:
            shard.flush()
            current = self._folder.shard()
            if current is None:
                raise StoreDamaged(f"{path} has no shard", hint=REBUILD_HINT)
            destination.parent.mkdir(parents=True, exist_ok=True)
            if destination.parent.stat().st_dev == path.stat().st_dev:
                self.require_space(size_on_disk(current))
            self._folder.copy_to(destination, current)

    def _refuse_other_process(self) -> None:
        # Before the lock: a child forked while another thread held it would wait for ever, as it
        # would in the engine, whose threads do not survive a fork.
        if os.getpid() != self._pid:
            raise StoreUnavailable(
                "this process was forked from the one that has the store open",
                hint="start a new process instead of forking",
            )

    def _let_go(self) -> None:
        shard, self._shard, self._meta = self._shard, None, None
        if shard is not None:
            shard.close()


def _refuse_other_dimensions(meta: Meta, spec: DeepSpec) -> None:
    for name, size in spec.vectors.items():
        if meta.vectors.get(name, size) != size:
            raise StoreMismatch(
                f"the index was built with {meta.vectors[name]} numbers for {name}, not {size}"
            )
