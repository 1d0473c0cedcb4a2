from __future__ import annotations

import errno

import pytest

from tiers.edge_errors import engine_errors
from tiers.errors import (
    InvalidPoint,
    StoreBusy,
    StoreDamaged,
    StoreFull,
    StoreMismatch,
    StoreUnavailable,
    TierError,
)


class PanicException(BaseException):
    """As Rust panics arrive: no Exception, and of a class that cannot be imported."""


@pytest.mark.parametrize(
    ("raised", "meant"),
    [
        (Exception("Can't init WAL: Kind(WouldBlock)"), StoreBusy),
        (Exception("Service runtime error: Shard is not initialized"), StoreUnavailable),
        (Exception("IO Error: No space left on device (os error 28)"), StoreFull),
        (Exception("Vector dimension error: expected dim: 4, got 2"), InvalidPoint),
        (Exception("Not existing vector name error: zz"), InvalidPoint),
        (Exception("vector 'b' already exists with different parameters"), StoreMismatch),
        (Exception("failed to load segment: Corrupted ID tracker mapping"), StoreDamaged),
        (Exception("tracker_journal.dat is shorter than expected"), StoreDamaged),
        (PanicException("Corrupted page"), StoreDamaged),
        (Exception("something new"), StoreUnavailable),
        (ValueError("failed to parse date-time"), InvalidPoint),
        (OverflowError("int too large to convert to float"), InvalidPoint),
        (OSError(errno.ENOSPC, "No space left on device"), StoreFull),
        (PermissionError(errno.EACCES, "Permission denied"), StoreUnavailable),
        (StoreFull("already said"), StoreFull),
    ],
)
def test_what_the_engine_raises_is_told_in_our_words(
    raised: BaseException, meant: type[TierError]
) -> None:
    with pytest.raises(TierError) as found, engine_errors("try"):
        raise raised

    assert type(found.value) is meant
    assert found.value.hint


def test_what_is_unknown_while_loading_counts_as_damage_with_a_way_out() -> None:
    with pytest.raises(StoreDamaged) as found, engine_errors("open", unknown=StoreDamaged):
        raise Exception("something new")

    assert "reindex" in found.value.hint


@pytest.mark.parametrize("raised", [KeyboardInterrupt(), SystemExit(1), KeyError("a bug")])
def test_what_is_not_from_the_engine_passes(raised: BaseException) -> None:
    with pytest.raises(type(raised)) as found, engine_errors("try"):
        raise raised

    assert found.value is raised
