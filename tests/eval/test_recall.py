"""Retrieval through the product's own import and search, with the default model."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.eval.retrieval import Scores, read_lines, score
from tests.support.homes import Home

_OWN = Path(__file__).parent / "data"
_LOCOMO = Path(__file__).parents[3] / "shared" / "data" / "locomo" / "retrieval"


@pytest.fixture
def real_home(home: Home, monkeypatch: pytest.MonkeyPatch) -> Home:
    """A home that embeds with the default model."""
    del home.environment["TIERMEM_EMBEDDING_MODEL"]
    monkeypatch.delenv("TIERMEM_EMBEDDING_MODEL")
    return home


def _measure(home: Home, queries: Path) -> Scores:
    client = home.client()

    def search(question: str) -> list[str]:
        answer = client.call("search", home.request(query=question, limit=20))
        assert answer["degraded"] == []
        return [hit["name"] for hit in answer["hits"]]

    return score(read_lines(queries), search)


def test_turns_of_a_locomo_conversation_are_found(
    real_home: Home, record_property: pytest.RecordProperty
) -> None:
    documents = _LOCOMO / "conv-26.documents.jsonl"
    if not documents.is_file():
        pytest.skip("LoCoMo is not beside this checkout (its licence keeps it out of it)")
    template = "[{date_text}] {speaker}: {text} {image_caption}"
    fields = ("--field", "name=doc_id", "--field", "created_at=date")

    imported = real_home.json("import", str(documents), *fields, "--text", template)
    scores = _measure(real_home, _LOCOMO / "conv-26.queries.jsonl")

    print(f"\nLoCoMo conv-26: {scores}")
    record_property("locomo_conv26_recall_at_10", scores.recall_at_10)
    assert (imported["imported"], imported["failed"]) == (419, [])
    assert scores.questions == 150
    assert scores.recall_at_10 >= 0.65


def test_the_small_set_of_our_own_is_answered(real_home: Home) -> None:
    documents, queries = _OWN / "small.documents.jsonl", _OWN / "small.queries.jsonl"

    imported = real_home.json("import", str(documents), "--field", "name=doc_id")
    scores = _measure(real_home, queries)

    print(f"\nown set: {scores}")
    assert imported["imported"] == len(read_lines(documents))
    assert scores.recall_at_10 >= 0.95
    assert scores.mrr >= 0.8
