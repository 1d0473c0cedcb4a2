"""The deep store in this process, on Qdrant Edge."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import qdrant_edge as qe

from tiers.deep import (
    INDEXED_FIELDS,
    SPARSE_VECTOR,
    Arm,
    Candidate,
    DeepSpec,
    Health,
    Point,
    SparseVector,
    StoredPoint,
    StoreHealth,
)
from tiers.edge_filters import compile_filter
from tiers.edge_owned import OwnedShard
from tiers.edge_points import (
    check_payload,
    from_engine,
    known_ids,
    to_engine,
    to_engine_dense,
    to_engine_sparse,
)
from tiers.errors import InvalidPoint, StoreFull, StoreMismatch, TierError
from tiers.filters import All, Filter, In
from tiers.narrowing import text_values

#: Below this the store takes no more points: a disk that runs full kills the process (SIGBUS).
MIN_FREE_BYTES = 512 * 2**20

#: Points in one call of the engine, which keeps every other thread waiting until it is done.
_SLICE = 500

_EVERYTHING = All(())


class EdgeStore:
    """A `DeepStore` in a folder of its own, which one process at a time may have open.

    Threads may share it; a forked child may not use it. Searches are exact: no graph is built, as
    that would stop every thread of the process. A store that holds points keeps its own active
    vector, whatever the spec says. IDF is taken over the projects that a condition names. Large
    writes are cut in slices, so StoreFull may come after a part; writing again completes it.
    `search_threads` counts when the store is created.
    """

    def __init__(
        self,
        path: Path,
        *,
        min_free_bytes: int = MIN_FREE_BYTES,
        search_threads: int = 2,
        free_bytes: Callable[[], int] | None = None,
    ) -> None:
        self._owned = OwnedShard(
            path,
            min_free_bytes=min_free_bytes,
            search_threads=search_threads,
            free_bytes=free_bytes or (lambda: shutil.disk_usage(path).free),
        )

    def open(self, spec: DeepSpec) -> None:
        if spec.active not in spec.vectors or SPARSE_VECTOR in spec.vectors:
            raise StoreMismatch(f"no store can have the vectors {dict(spec.vectors)}")
        self._owned.open(spec)

    def upsert(self, points: Sequence[Point]) -> None:
        with self._owned.using("write points") as shard:
            dimensions = self._owned.meta.vectors
            ready = [to_engine(point, dimensions) for point in points]
            # Each is written twice, into the log and the segment, the dense vectors with 4 bytes.
            bytes_a_point = 8 * sum(dimensions.values()) + 8192
            for start in range(0, len(ready), _SLICE):
                part = ready[start : start + _SLICE]
                self._owned.require_space(bytes_a_point * len(part))
                shard.update(qe.UpdateOperation.upsert_points(part))

    def delete(self, condition: Filter) -> None:
        with self._owned.writing("delete points") as shard:
            shard.update(qe.UpdateOperation.delete_points_by_filter(compile_filter(condition)))

    def delete_ids(self, point_ids: Sequence[str]) -> None:
        with self._owned.writing("delete points") as shard:
            if known := known_ids(point_ids):
                shard.update(qe.UpdateOperation.delete_points([*known]))

    def set_payload(self, condition: Filter, patch: Mapping[str, Any]) -> None:
        with self._owned.writing("change payloads") as shard:
            check_payload(patch)
            shard.update(
                qe.UpdateOperation.set_payload_by_filter(compile_filter(condition), dict(patch))
            )

    def fetch(self, point_ids: Sequence[str], *, with_vectors: bool = False) -> list[StoredPoint]:
        with self._owned.using("read points") as shard:
            found = shard.retrieve([*known_ids(point_ids)], True, with_vectors)
            return [from_engine(record) for record in found]

    def candidates(
        self,
        *,
        dense: Sequence[float] | None,
        sparse: SparseVector | None,
        condition: Filter,
        depth: int,
    ) -> dict[Arm, list[Candidate]]:
        with self._owned.using("search") as shard:
            requests: dict[Arm, qe.QueryRequest] = {}
            if dense is not None:
                requests[Arm.DENSE] = self._dense_request(dense, condition, depth)
            if sparse is not None:
                requests[Arm.SPARSE] = _sparse_request(sparse, condition, depth)
            if not requests:
                return {}
            answers = shard.query_batch(qe.QueryBatchRequest([*requests.values()]))
            return {
                arm: [Candidate(str(hit.id), hit.score, hit.payload or {}) for hit in hits]
                for arm, hits in zip(requests, answers, strict=True)
            }

    def _dense_request(
        self, vector: Sequence[float], condition: Filter, depth: int
    ) -> qe.QueryRequest:
        meta = self._owned.meta
        plain = to_engine_dense(vector, meta.vectors[meta.active])
        return qe.QueryRequest(
            limit=max(depth, 0),
            query=qe.Query.Nearest(plain, using=meta.active),
            filter=compile_filter(condition),
            with_payload=True,
            params=qe.SearchParams(exact=True),
        )

    def scroll(
        self, condition: Filter, *, batch: int = 256, with_vectors: bool = False
    ) -> Iterator[StoredPoint]:
        after: qe.PointId | None = None
        while True:
            with self._owned.using("read points") as shard:
                request = qe.ScrollRequest(
                    offset=after,
                    limit=batch,
                    filter=compile_filter(condition),
                    with_payload=True,
                    with_vector=with_vectors,
                )
                records, after = shard.scroll(request)
            yield from map(from_engine, records)
            if after is None:
                return

    def count(self, condition: Filter) -> int:
        with self._owned.using("count points") as shard:
            return shard.count(qe.CountRequest(exact=True, filter=compile_filter(condition)))

    def facet(self, name: str, condition: Filter, *, limit: int = 100) -> dict[str, int]:
        if INDEXED_FIELDS.get(name) not in ("keyword", "tenant"):
            raise InvalidPoint(f"points are not counted by {name!r}: it is no keyword field")
        with self._owned.using("count points") as shard:
            response = shard.facet(
                qe.FacetRequest(name, limit=limit, exact=True, filter=compile_filter(condition))
            )
            return {str(hit.value): hit.count for hit in response.hits}

    def add_vector(self, name: str, dimension: int) -> None:
        with self._owned.writing("add a vector"):
            known = self._owned.meta.vectors
            if name == SPARSE_VECTOR or not name or dimension < 1:
                raise StoreMismatch(f"no dense vector can be {name!r} with {dimension} numbers")
            if known.get(name, dimension) != dimension:
                raise StoreMismatch(f"{name} has {known[name]} numbers here, not {dimension}")
            if name not in known:
                self._owned.add_vector(name, dimension)

    def drop_vector(self, name: str) -> None:
        with self._owned.writing("drop a vector"):
            if name == self._owned.meta.active:
                raise StoreMismatch(
                    f"the vector {name} is in use", hint="make searches use another one first"
                )
            if name in self._owned.meta.vectors:
                self._owned.drop_vector(name)

    @property
    def active_vector(self) -> str:
        with self._owned.using("read the active vector"):
            return self._owned.meta.active

    def activate(self, name: str) -> None:
        with self._owned.using("activate a vector"):
            if name not in self._owned.meta.vectors:
                raise StoreMismatch(f"the store has no dense vector {name!r}")
            self._owned.keep(replace(self._owned.meta, active=name))

    def mark(self) -> int:
        with self._owned.using("read the mark"):
            return self._owned.meta.mark

    def flush(self, mark: int | None = None) -> None:
        with self._owned.using("flush") as shard:
            shard.flush()
            if mark is not None:
                self._owned.keep(replace(self._owned.meta, mark=mark))

    def backup(self, destination: Path) -> None:
        self._owned.copy_to(destination)

    def health(self) -> StoreHealth:
        try:
            count = self.count(_EVERYTHING)
        except TierError as error:
            return StoreHealth(Health.DOWN, error.message)
        try:
            self._owned.require_space()
        except StoreFull as error:
            return StoreHealth(Health.DEGRADED, error.message, count)
        except OSError as error:
            return StoreHealth(Health.DEGRADED, f"cannot ask for free space: {error}", count)
        return StoreHealth(Health.READY, count=count)

    def close(self) -> None:
        self._owned.close()


def _sparse_request(vector: SparseVector, condition: Filter, depth: int) -> qe.QueryRequest:
    projects = text_values(condition, "project")
    corpus = compile_filter(In("project", tuple(sorted(projects)))) if projects else None
    return qe.QueryRequest(
        limit=max(depth, 0),
        query=qe.Query.Nearest(to_engine_sparse(vector), using=SPARSE_VECTOR),
        filter=compile_filter(condition),
        with_payload=True,
        params=qe.SearchParams(idf=qe.IdfParams(corpus)),
    )
