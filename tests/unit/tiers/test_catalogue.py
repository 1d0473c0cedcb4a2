from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tiers.catalogue import Catalogue, Held, Placement
from tiers.home_database import HomeDatabase
from tiers.records import MemoryRecord, Tier, Visibility, text_hash

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


def a_record(record_id: str = "a", **changes: object) -> MemoryRecord:
    record = MemoryRecord(
        id=record_id, project="p", name=record_id, body="text", created_at=NOW, updated_at=NOW
    )
    return replace(record, **changes)  # type: ignore[arg-type]


def a_placement(path: str = "a.md", record_id: str = "a") -> Placement:
    return Placement("p", path, record_id, "hash", 10, 20, 30)


@pytest.fixture
def catalogue(tmp_path: Path) -> Iterator[Catalogue]:
    database = HomeDatabase(tmp_path / "home.db")
    yield Catalogue(database)
    database.close()


def test_an_entry_says_what_its_revision_says(catalogue: Catalogue) -> None:
    record = a_record(expires_at=NOW + timedelta(days=1), owner="ines", revision=3)
    catalogue.put(record, Tier.HOT)

    entry = catalogue.get("a")

    assert entry is not None
    assert (entry.revision, entry.tier, entry.owner) == (3, Tier.HOT, "ines")
    assert (entry.content_hash, entry.text_hash) == (record.content_hash, text_hash("text"))
    assert not entry.is_expired(NOW)
    assert entry.is_expired(NOW + timedelta(days=1))


def test_an_older_revision_that_comes_late_changes_nothing(catalogue: Catalogue) -> None:
    catalogue.put(a_record(revision=2, body="new"), Tier.DEEP)
    catalogue.put(a_record(revision=1, body="old"), Tier.HOT)

    entry = catalogue.get("a")
    assert entry is not None
    assert (entry.revision, entry.text_hash, entry.tier) == (2, text_hash("new"), Tier.DEEP)


def test_a_new_number_never_goes_back(catalogue: Catalogue) -> None:
    catalogue.put(a_record(revision=2), Tier.DEEP)

    catalogue.renumber("a", 5)
    catalogue.renumber("a", 3)

    assert catalogue.all_revisions()["a"][0] == 5


def test_many_entries_are_read_at_once(catalogue: Catalogue) -> None:
    for number in range(1_200):
        catalogue.put(a_record(f"id-{number}"), Tier.DEEP)

    found = catalogue.get_many([f"id-{number}" for number in range(1_300)])

    assert len(found) == 1_200
    assert catalogue.counts("p") == {Tier.DEEP: 1_200}


def test_what_was_forgotten_is_not_listed_named_or_matched(catalogue: Catalogue) -> None:
    catalogue.put(a_record(), Tier.DEEP)
    catalogue.put(a_record().tombstone(NOW), Tier.DEEP)

    assert catalogue.entries("p") == []
    assert catalogue.named("p", "a") == []
    assert catalogue.with_text("p", text_hash("text")) == []
    assert catalogue.starting_with("p", "a", owner="ann") == []
    assert catalogue.counts() == {}
    entry = catalogue.get("a")
    assert entry is not None
    assert entry.tombstone


def test_the_newest_comes_first_and_other_projects_are_left_out(catalogue: Catalogue) -> None:
    catalogue.put(a_record("old"), Tier.DEEP)
    catalogue.put(a_record("new", updated_at=NOW + timedelta(hours=1)), Tier.HOT)
    catalogue.put(a_record("foreign", project="q"), Tier.DEEP)

    assert [entry.id for entry in catalogue.entries("p")] == ["new", "old"]
    assert [entry.id for entry in catalogue.entries("p", tier=Tier.DEEP)] == ["old"]


def test_the_start_of_an_id_is_taken_literally(catalogue: Catalogue) -> None:
    catalogue.put(a_record("abcd-1"), Tier.DEEP)

    assert [entry.id for entry in catalogue.starting_with("p", "abcd", owner="ann")] == ["abcd-1"]
    assert catalogue.starting_with("p", "a%", owner="ann") == []


def test_what_replaces_a_memory_is_known_until_it_is_forgotten(catalogue: Catalogue) -> None:
    catalogue.put(a_record("old"), Tier.DEEP)
    catalogue.put(a_record("new", supersedes=("old", "new")), Tier.DEEP)
    assert catalogue.superseded_by(["old", "new"], owner="ann") == {"old": ["new"]}

    catalogue.put(a_record("new").tombstone(NOW), Tier.DEEP)

    assert catalogue.superseded_by(["old"], owner="ann") == {}


def test_a_revision_that_no_longer_replaces_a_memory_lets_it_show_again(
    catalogue: Catalogue,
) -> None:
    catalogue.put(a_record("new", supersedes=("old",)), Tier.DEEP)
    catalogue.put(a_record("new", revision=2), Tier.DEEP)

    assert catalogue.superseded_by(["old"], owner="ann") == {}


def test_an_older_revision_that_comes_late_replaces_nothing(catalogue: Catalogue) -> None:
    catalogue.put(a_record("new", revision=2, supersedes=("old",)), Tier.DEEP)
    catalogue.put(a_record("new", revision=1), Tier.DEEP)

    assert catalogue.superseded_by(["old"], owner="ann") == {"old": ["new"]}


@pytest.mark.parametrize(
    ("old", "new", "shown_to"),
    [
        # Whose the old and the new memory are, private ones in capitals; who sees it replaced.
        ("ann", "ben", {"ann", "ben"}),
        ("ann", "BEN", {"ben"}),
        ("ann", "ANN", {"ann"}),
        ("ANN", "ann", {"ann", "ben"}),
        ("ANN", "ANN", {"ann"}),
        ("ANN", "ben", set()),
        ("ANN", "BEN", set()),
    ],
)
def test_a_private_memory_replaces_nothing_of_anybody_else(
    catalogue: Catalogue, old: str, new: str, shown_to: set[str]
) -> None:
    catalogue.put(a_record("old", **whose(old)), Tier.DEEP)
    catalogue.put(a_record("new", supersedes=("old",), **whose(new)), Tier.DEEP)

    owners = {owner for owner in ("ann", "ben") if catalogue.superseded_by(["old"], owner=owner)}

    assert owners == shown_to


def whose(word: str) -> dict[str, object]:
    visibility = Visibility.PRIVATE if word.isupper() else Visibility.PROJECT
    return {"owner": word.lower(), "visibility": visibility}


def test_the_start_of_an_id_is_not_hidden_by_others_private_memories(catalogue: Catalogue) -> None:
    for number in range(25):
        catalogue.put(a_record(f"abcd-{number:02}", **whose("BEN")), Tier.DEEP)
    catalogue.put(a_record("abcd-99", **whose("ANN")), Tier.DEEP)

    assert [e.id for e in catalogue.starting_with("p", "abcd", owner="ann")] == ["abcd-99"]


def test_places_that_a_file_has_left_are_known_until_they_are_forgotten(
    catalogue: Catalogue,
) -> None:
    for path in ("a.md", "b.md"):
        catalogue.place(a_placement(path))
        catalogue.displace("p", path)
        catalogue.displace("p", path)
    catalogue.place(a_placement("other.md", "other"))

    assert catalogue.left_behind("a") == [("p", "a.md"), ("p", "b.md")]
    assert catalogue.left_behind("other") == []

    catalogue.forget_left_behind("a")

    assert catalogue.left_behind("a") == []


def test_one_memory_may_lie_at_two_paths(catalogue: Catalogue) -> None:
    catalogue.place(a_placement("a.md"))
    catalogue.place(a_placement("copy.md"))
    catalogue.place(replace(a_placement("a.md"), masked=True, missing_since=NOW))

    first, second = catalogue.placed("a")
    assert (first.path, first.masked, first.missing_since) == ("a.md", True, NOW)
    assert second.path == "copy.md"

    catalogue.displace("p", "a.md")
    assert list(catalogue.placements("p")) == ["copy.md"]


def test_held_changes_keep_the_moment_they_were_first_seen(catalogue: Catalogue) -> None:
    catalogue.hold(Held("p", "files are gone", NOW, ("a.md",)))
    catalogue.hold(Held("p", "more files are gone", NOW + timedelta(hours=1), ("a.md", "b.md")))

    assert catalogue.held("p") == Held("p", "more files are gone", NOW, ("a.md", "b.md"))
    catalogue.release("p")
    assert catalogue.held("p") is None


def test_what_was_checked_out_is_remembered_for_each_project(catalogue: Catalogue) -> None:
    assert catalogue.head("p") == ""

    catalogue.set_head("p", "refs/heads/main 12ab")

    assert catalogue.head("p") == "refs/heads/main 12ab"
    assert catalogue.head("q") == ""
