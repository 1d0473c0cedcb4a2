from __future__ import annotations

import pytest

from tiers.catalogue import Placement
from tiers.scan import Difference, after_renames, compare, reason_to_hold, renames, switch
from tiers.survey import Seen


def placed(path: str, record_id: str, file_hash: str = "", *, mtime_ns: int = 1) -> Placement:
    return Placement("p", path, record_id, file_hash or f"hash of {record_id}", 10, mtime_ns, 7)


def manifest(*placements: Placement) -> dict[str, Placement]:
    return {placement.path: placement for placement in placements}


A, B = placed("a.md", "A"), placed("b.md", "B")


def test_files_that_look_as_noted_are_no_difference() -> None:
    assert not compare(manifest(A), {"a.md": Seen(10, 1, 7)})


@pytest.mark.parametrize("seen", [Seen(11, 1, 7), Seen(10, 2, 7), Seen(10, 1, 8)])
def test_size_time_and_inode_each_tell_a_change(seen: Seen) -> None:
    assert compare(manifest(A), {"a.md": seen}) == Difference(changed=("a.md",))


def test_a_suspect_may_have_changed_however_it_looks() -> None:
    listing = {"a.md": Seen(10, 1, 7), "b.md": Seen(10, 1, 7)}
    assert compare(manifest(A, B), listing, suspect="a.md") == Difference(changed=("a.md",))
    assert not compare(manifest(A, B), listing, suspect="c.md")


def test_new_and_missing_paths_are_told() -> None:
    found = compare(manifest(A), {"c.md": Seen(1, 1, 1)})
    assert found == Difference(new=("c.md",), missing=("a.md",))
    assert found.paths == ("c.md", "a.md")
    assert found.only(lambda path: path == "c.md") == Difference(new=("c.md",))


def test_the_same_content_at_a_new_path_is_a_rename() -> None:
    gone = Difference(new=("c.md",), missing=("a.md",))
    assert renames(manifest(A), gone, {"c.md": "hash of A"}, {"c.md": ""}) == {"c.md": "a.md"}


def test_the_same_id_at_a_new_path_is_a_rename_with_an_edit() -> None:
    gone = Difference(new=("c.md",), missing=("a.md",))
    assert renames(manifest(A), gone, {"c.md": "other"}, {"c.md": "A"}) == {"c.md": "a.md"}


def test_other_content_without_an_id_is_no_rename() -> None:
    gone = Difference(new=("c.md",), missing=("a.md",))
    assert renames(manifest(A), gone, {"c.md": "other"}, {"c.md": ""}) == {}


def test_a_copy_is_no_rename() -> None:
    copied = Difference(new=("c.md",))
    assert renames(manifest(A), copied, {"c.md": "hash of A"}, {"c.md": "A"}) == {}


def test_one_vanished_path_is_used_once() -> None:
    gone = Difference(new=("c.md", "d.md"), missing=("a.md",))
    hashes = {"c.md": "hash of A", "d.md": "hash of A"}
    assert renames(manifest(A), gone, hashes, {}) == {"c.md": "a.md"}


def test_two_files_that_swap_names_keep_their_memories() -> None:
    swapped = Difference(changed=("a.md", "b.md"))
    hashes = {"a.md": "hash of B", "b.md": "hash of A"}
    pairs = renames(manifest(A, B), swapped, hashes, {"a.md": "B", "b.md": "A"})
    assert pairs == {"a.md": "b.md", "b.md": "a.md"}
    assert not after_renames(swapped, pairs)


def test_a_file_that_takes_over_the_name_of_another_moves_there() -> None:
    over = Difference(changed=("a.md",), missing=("b.md",))
    pairs = renames(manifest(A, B), over, {"a.md": "hash of B"}, {"a.md": "B"})
    assert pairs == {"a.md": "b.md"}
    assert not after_renames(over, pairs)


def test_a_copy_pasted_over_another_file_moves_nothing() -> None:
    pasted = Difference(changed=("a.md",))
    assert renames(manifest(A, B), pasted, {"a.md": "hash of B"}, {"a.md": "B"}) == {}
    assert after_renames(pasted, {}) == pasted


def test_a_path_whose_memory_went_elsewhere_holds_something_new() -> None:
    changes = Difference(new=("c.md",), changed=("a.md",))
    ids = {"c.md": "A", "a.md": "B"}
    pairs = renames(manifest(A, B), changes, {"c.md": "edited", "a.md": "hash of B"}, ids)
    assert pairs == {"c.md": "a.md"}
    assert after_renames(changes, pairs) == Difference(new=("a.md",))


def test_the_index_is_never_taken_for_a_moved_memory() -> None:
    index = placed("MEMORY.md", "I")
    gone = Difference(new=("c.md",), missing=("MEMORY.md",))
    assert renames(manifest(index), gone, {"c.md": index.file_hash}, {"c.md": "I"}) == {}


def test_a_lost_folder_is_held() -> None:
    assert reason_to_hold(placed=1, missing=(), root_exists=False, share=0.2) == (
        "the folder is gone"
    )
    assert reason_to_hold(placed=0, missing=(), root_exists=False, share=0.2) is None


@pytest.mark.parametrize(
    ("placed", "lost", "held"),
    [(4, 2, False), (4, 3, True), (14, 3, True), (15, 3, False), (100, 20, False), (100, 21, True)],
)
def test_the_loss_of_more_than_a_fifth_and_three_files_is_held(
    placed: int, lost: int, held: bool
) -> None:
    missing = [f"{number}.md" for number in range(lost)]
    reason = reason_to_hold(placed=placed, missing=missing, root_exists=True, share=0.2)
    assert reason == (f"{lost} of {placed} files are gone" if held else None)


def test_the_index_does_not_count_as_a_lost_file() -> None:
    missing = ("MEMORY.md", "a.md", "b.md")
    assert reason_to_hold(placed=3, missing=missing, root_exists=True, share=0.2) is None


def test_a_switch_names_both_sides_in_short() -> None:
    before, now = f"refs/heads/main {'a' * 40}", "b" * 40
    assert switch(before, now) == ("something else was checked out (main aaaaaaaaaa → bbbbbbbbbb)")
    assert switch(before, "").endswith("→ nothing)")
