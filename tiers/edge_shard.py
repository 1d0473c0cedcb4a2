"""The embedded engine's shard as tiermem sets it up."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import qdrant_edge as qe

from tiers.deep import INDEXED_FIELDS, SPARSE_VECTOR
from tiers.sparse_copy import copy_tree

#: Half the memory; the archive keeps its vectors in the same precision.
_DATATYPE = qe.VectorStorageDatatype.Float16

#: Never build a graph: the engine would hold the interpreter's lock for as long as it takes.
_NEVER = 10**9

# Not `Memory.Cold`: it saves no memory while a segment takes points, and reads page by page.
_INDEXES: Mapping[str, qe.PayloadSchemaType | qe.KeywordIndexParams] = {
    "tenant": qe.KeywordIndexParams(is_tenant=True),
    "keyword": qe.PayloadSchemaType.Keyword,
    "integer": qe.PayloadSchemaType.Integer,
    "bool": qe.PayloadSchemaType.Bool,
    "datetime": qe.PayloadSchemaType.Datetime,
}

#: File systems in memory, where there is one.
_IN_MEMORY = Path("/dev/shm")  # noqa: S108
_MIN_FREE_BYTES_IN_MEMORY = 256 * 2**20


def create_shard(path: Path, vectors: Mapping[str, int], search_threads: int) -> None:
    """Create an empty shard with its indexes, safe from a power loss."""
    # The engine syncs some forty files for each index: 6 s on a disk, 0.1 s this way (2026-11-30).
    with _scratch_folder(path) as scratch:
        _create_in(scratch / "shard", vectors, search_threads)
        copy_tree(scratch / "shard", path)


@contextmanager
def _scratch_folder(path: Path) -> Iterator[Path]:
    # Named after the shard, so that the next attempt finds what a killed one left.
    key = hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:16]
    scratch = _scratch_root(path.parent) / f"making-{key}"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(mode=0o700)
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _scratch_root(otherwise: Path) -> Path:
    if not os.access(_IN_MEMORY, os.W_OK):
        return otherwise
    free = shutil.disk_usage(_IN_MEMORY).free
    return _IN_MEMORY if free > _MIN_FREE_BYTES_IN_MEMORY else otherwise


def _create_in(path: Path, vectors: Mapping[str, int], search_threads: int) -> None:
    shard = qe.EdgeShard.create(str(path), _config(vectors, search_threads))
    try:
        for name, kind in INDEXED_FIELDS.items():
            shard.update(qe.UpdateOperation.create_field_index(name, _INDEXES[kind]))
        shard.flush()
    finally:
        shard.close()


def load_shard(path: Path) -> qe.EdgeShard:
    """Load a shard as it was created. Only the owner of the lock may: a refused load damages it."""
    return qe.EdgeShard.load(str(path))


def vector_added(name: str, dimension: int) -> qe.UpdateOperation:
    """Say that there is a dense vector of that name; repeating it changes nothing."""
    return qe.UpdateOperation.create_dense_vector(
        name, dimension, qe.Distance.Cosine, datatype=_DATATYPE
    )


def vector_dropped(name: str) -> qe.UpdateOperation:
    """Say that there is no dense vector of that name; repeating it changes nothing."""
    return qe.UpdateOperation.delete_vector_name(name)


def _config(vectors: Mapping[str, int], search_threads: int) -> qe.EdgeConfig:
    return qe.EdgeConfig(
        vectors={
            name: qe.EdgeVectorParams(size=size, distance=qe.Distance.Cosine, datatype=_DATATYPE)
            for name, size in vectors.items()
        },
        sparse_vectors={SPARSE_VECTOR: qe.EdgeSparseVectorParams(modifier=qe.Modifier.Idf)},
        optimizers=qe.EdgeOptimizersConfig(indexing_threshold=_NEVER),
        max_search_threads=search_threads,
    )
