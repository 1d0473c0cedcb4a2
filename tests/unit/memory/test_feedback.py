"""What is said of the memories that a search gave."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from memory.errors import Ambiguous, NotFound, ServiceError, UsageError
from memory.feedback import verdicts_on
from tiers.usage import Verdict

USED, IGNORED, WRONG = Verdict.USED, Verdict.IGNORED, Verdict.WRONG

ONE = "11111111-0000-4000-8000-000000000001"
TWIN = "11111111-0000-4000-8000-000000000002"
OTHER = "22222222-0000-4000-8000-000000000003"
SHOWN = frozenset({ONE, TWIN, OTHER})


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ({USED: [ONE]}, {ONE: USED}),
        ({USED: [f" {ONE.upper()} "]}, {ONE: USED}),
        ({USED: ["2222"], IGNORED: [ONE, TWIN]}, {OTHER: USED, ONE: IGNORED, TWIN: IGNORED}),
        ({WRONG: ["2222", OTHER]}, {OTHER: WRONG}),
    ],
)
def test_memories_are_named_by_id_or_its_start(
    said: Mapping[Verdict, list[str]], meant: dict[str, Verdict]
) -> None:
    assert verdicts_on(SHOWN, said) == meant


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ({}, UsageError),
        ({USED: [], WRONG: []}, UsageError),
        ({USED: [ONE], WRONG: [ONE]}, UsageError),
        ({USED: ["222"]}, NotFound),
        ({USED: [""]}, NotFound),
        ({USED: ["33333333"]}, NotFound),
        ({USED: [ONE, "33333333-0000-4000-8000-000000000003"]}, NotFound),
        ({USED: ["11111111"]}, Ambiguous),
    ],
)
def test_what_cannot_be_meant_is_refused_with_a_hint(
    said: Mapping[Verdict, list[str]], error: type[ServiceError]
) -> None:
    with pytest.raises(error) as refused:
        verdicts_on(SHOWN, said)

    assert refused.value.hint
