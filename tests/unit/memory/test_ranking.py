from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from memory.ranking import RECENCY_BONUS, is_confident, rank
from tiers.deep import Arm, Candidate
from tiers.records import format_time

NOW = datetime(2026, 11, 30, tzinfo=UTC)


def found(record_id: str, score: float, **payload: Any) -> Candidate:
    return Candidate(f"point of {record_id}", score, {"id": record_id, **payload})


def ids(arms: dict[Arm, list[Candidate]], **options: Any) -> list[str]:
    return [hit.record_id for hit in rank(arms, now=NOW, **options)]


def test_what_both_arms_find_comes_before_what_one_finds() -> None:
    arms = {
        Arm.DENSE: [found("only dense", 0.9), found("both", 0.8), found("last", 0.1)],
        Arm.SPARSE: [found("both", 7.0), found("only sparse", 6.0)],
    }

    assert ids(arms)[0] == "both"


def test_a_memory_appears_once_with_its_best_chunk() -> None:
    arms = {
        Arm.DENSE: [
            found("a", 0.9, text="the right part"),
            found("a", 0.4, text="another part"),
            found("b", 0.1, text="else"),
        ]
    }

    hits = rank(arms, now=NOW)

    assert [hit.record_id for hit in hits] == ["a", "b"]
    assert hits[0].payload["text"] == "the right part"


def test_scores_of_an_arm_are_scaled_between_its_worst_and_its_best() -> None:
    arms = {Arm.DENSE: [found("a", 0.9), found("b", 0.5), found("c", 0.1)]}

    hits = {hit.record_id: hit.parts[0].value for hit in rank(arms, now=NOW)}

    assert hits == {"a": pytest.approx(0.5), "b": pytest.approx(0.25), "c": pytest.approx(0.0)}


def test_words_are_scaled_from_nothing_since_what_shares_no_word_is_not_returned() -> None:
    arms = {Arm.SPARSE: [found("a", 10.0), found("b", 9.0)]}

    hits = {hit.record_id: hit.parts[0].value for hit in rank(arms, now=NOW)}

    assert hits == {"a": pytest.approx(0.5), "b": pytest.approx(0.45)}


def test_a_turn_gains_from_good_turns_beside_it_in_its_thread() -> None:
    arms = {
        Arm.SPARSE: [
            found("question", 10.0, thread="t", position=4),
            found("answer", 4.0, thread="t", position=5),
            found("elsewhere", 4.0, thread="other", position=5),
        ]
    }

    hits = {hit.record_id: hit.score for hit in rank(arms, now=NOW)}

    assert hits["answer"] == pytest.approx(0.2 + 0.3 * 0.5)
    assert hits["elsewhere"] == pytest.approx(0.2)


def test_equal_finds_are_ordered_by_importance_then_age_within_bounds() -> None:
    old = format_time(NOW - timedelta(days=3_000))
    new = format_time(NOW)
    arms = {
        Arm.SPARSE: [
            found("old", 5.0, created_at=old),
            found("new", 5.0, created_at=new),
            found("important", 5.0, created_at=old, importance="high"),
        ]
    }

    hits = rank(arms, now=NOW)

    assert [hit.record_id for hit in hits] == ["important", "new", "old"]
    assert hits[1].score / hits[2].score == pytest.approx(1 + RECENCY_BONUS)


def test_the_parts_of_a_score_add_up_to_it() -> None:
    arms = {
        Arm.DENSE: [found("a", 0.9, importance="high", created_at=format_time(NOW)), found("b", 0)],
        Arm.SPARSE: [found("a", 3.0, importance="high", created_at=format_time(NOW))],
    }

    hit = rank(arms, now=NOW)[0]

    addends = sum(part.value for part in hit.parts if not part.name.startswith("×"))
    factors = [part.value for part in hit.parts if part.name.startswith("×")]
    assert hit.score == pytest.approx(addends * factors[0] * factors[1])


def test_nothing_found_is_nothing_ranked() -> None:
    assert rank({}, now=NOW) == []
    assert rank({Arm.DENSE: [], Arm.SPARSE: []}, now=NOW) == []


@pytest.mark.parametrize(
    ("arms", "confident"),
    [
        ({Arm.DENSE: [found("a", 0.7)]}, True),
        ({Arm.DENSE: [found("a", 0.1)], Arm.SPARSE: [found("a", 9.0)]}, False),
        ({Arm.SPARSE: [found("a", 9.0)]}, True),
        ({Arm.DENSE: [found("a", 0.1)], Arm.LOCAL: [found("b", 0.8)]}, True),
        ({}, False),
    ],
)
def test_confidence_needs_a_good_cosine_or_covered_words(
    arms: dict[Arm, list[Candidate]], confident: bool
) -> None:
    assert is_confident(arms) is confident
