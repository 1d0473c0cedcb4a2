"""Which tier a memory belongs to, and what keeps it where it is."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from memory.file_drafts import index_id
from memory.hot_folders import HotFolder
from memory.moves import refusal, tier_of
from tiers.catalogue import Placement
from tiers.hot import HotTier
from tiers.records import GLOBAL_PROJECT, MemoryRecord, Origin, Tier, Visibility

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
HOT, DEEP, COLD = Tier.HOT, Tier.DEEP, Tier.COLD
NOWHERE = Path("/nonexistent")


def a_folder(key: str = "p", *, tracked: bool = False) -> HotFolder:
    """A hot root of ann's."""
    return HotFolder(key, HotTier(NOWHERE, NOWHERE), "ann", tracked=tracked)


def a_record(**changes: object) -> MemoryRecord:
    record = MemoryRecord(
        id="a", project="p", name="a", body="text", owner="ann", created_at=NOW, updated_at=NOW
    )
    return replace(record, **changes)  # type: ignore[arg-type]


PRIVATE = {"visibility": Visibility.PRIVATE}


@pytest.mark.parametrize(
    ("record", "folder", "wanted", "tier"),
    [
        (a_record(), a_folder(), None, HOT),
        (a_record(origin=Origin.HUMAN), a_folder(), None, HOT),
        (a_record(origin=Origin.WEB), a_folder(), None, DEEP),
        (a_record(origin=Origin.TOOL), a_folder(), HOT, HOT),
        (a_record(), a_folder(), DEEP, DEEP),
        (a_record(pinned=True), a_folder(), DEEP, DEEP),
        (a_record(), a_folder(GLOBAL_PROJECT), None, DEEP),
        (a_record(), a_folder(GLOBAL_PROJECT), HOT, HOT),
        (a_record(**PRIVATE), a_folder(), None, HOT),
        (a_record(**PRIVATE), a_folder(tracked=True), None, DEEP),
        (a_record(**PRIVATE), a_folder(tracked=True), HOT, DEEP),
        (a_record(**PRIVATE, owner="ben"), a_folder(), None, DEEP),
        (a_record(**PRIVATE, owner="ben"), a_folder(), HOT, DEEP),
        (a_record(owner="ben"), a_folder(), None, HOT),
    ],
)
def test_a_new_memory_is_hot_where_everybody_who_loads_it_may_see_it(
    record: MemoryRecord, folder: HotFolder, wanted: Tier | None, tier: Tier
) -> None:
    assert tier_of(record, folder, base=None, known=None, wanted=wanted) is tier


@pytest.mark.parametrize(
    ("known", "wanted", "changes", "tier"),
    [
        (HOT, None, {}, HOT),
        (HOT, HOT, {}, HOT),
        (HOT, DEEP, {}, DEEP),
        (HOT, DEEP, {"pinned": True}, HOT),
        (HOT, None, {"origin": Origin.WEB}, HOT),
        (DEEP, None, {}, DEEP),
        (DEEP, HOT, {}, HOT),
        (DEEP, HOT, {"origin": Origin.WEB}, HOT),
        (COLD, DEEP, {}, DEEP),
    ],
)
def test_a_revision_stays_where_its_memory_is_unless_another_tier_is_wanted(
    known: Tier, wanted: Tier | None, changes: dict[str, object], tier: Tier
) -> None:
    record = a_record(revision=2, **changes)

    assert tier_of(record, a_folder(), base=a_record(), known=known, wanted=wanted) is tier


@pytest.mark.parametrize("folder_and_owner", [(a_folder(tracked=True), "ann"), (a_folder(), "ben")])
def test_what_becomes_private_leaves_the_files_that_others_read(
    folder_and_owner: tuple[HotFolder, str],
) -> None:
    folder, owner = folder_and_owner
    base = a_record(owner=owner)
    private = replace(base, revision=2, visibility=Visibility.PRIVATE, pinned=True)

    assert tier_of(private, folder, base=base, known=HOT, wanted=None) is DEEP
    # A person put it there.
    again = replace(private, revision=3)
    assert tier_of(again, folder, base=private, known=HOT, wanted=None) is HOT


def a_placement(*, masked: bool = False) -> Placement:
    return Placement("p", "a.md", "a", "hash", 1, 2, 3, masked=masked)


@pytest.mark.parametrize(
    ("record", "to", "folder", "masked", "reason"),
    [
        (a_record(), DEEP, a_folder(), False, None),
        (a_record(), HOT, a_folder(), False, None),
        (a_record(pinned=True), HOT, a_folder(), False, None),
        (a_record(pinned=True), DEEP, a_folder(), False, "is pinned"),
        (a_record(), DEEP, a_folder(), True, "secret that is masked"),
        (a_record(**PRIVATE), HOT, a_folder(), False, None),
        (a_record(**PRIVATE), HOT, a_folder(tracked=True), False, "git shows"),
        (a_record(**PRIVATE, owner="ben"), HOT, a_folder(), False, "ann's to read"),
        (a_record(**PRIVATE), DEEP, a_folder(tracked=True), False, None),
        (a_record(id=index_id("p")), DEEP, a_folder(), False, "people wrote"),
        (a_record(id=index_id("p")), HOT, a_folder(), False, "people wrote"),
        (a_record(origin=Origin.WEB), HOT, a_folder(), False, None),
    ],
)
def test_what_keeps_a_memory_where_it_is_is_said_with_a_way_out(
    record: MemoryRecord, to: Tier, folder: HotFolder, masked: bool, reason: str | None
) -> None:
    refused = refusal(record, to, folder, [a_placement(), a_placement(masked=masked)])

    if reason is None:
        assert refused is None
    else:
        assert refused is not None
        assert reason in refused.message
        assert refused.hint
