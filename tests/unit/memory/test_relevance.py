from __future__ import annotations

import pytest

from memory.relevance import Described, relevance, task_terms

TITLE = "Add authentication system with OAuth2"
DESCRIPTION = "Implement OAuth2 with JWT tokens for API endpoints"
TERMS = task_terms(TITLE, DESCRIPTION)

AUTHENTICATION = Described(
    stem="authentication-patterns",
    category="patterns",
    tags=("auth", "oauth", "jwt"),
    keywords=("authentication", "oauth2"),
    importance="high",
    uses=5,
)
RATE_LIMITING = Described(
    stem="api-rate-limiting",
    category="gotchas",
    tags=("api", "rate-limiting"),
    keywords=("rate", "limit"),
    importance="medium",
    uses=2,
)
MIGRATIONS = Described(
    stem="database-migrations",
    category="patterns",
    tags=("database", "prisma"),
    importance="high",
    uses=8,
)


def test_the_words_of_a_task_are_what_says_something() -> None:
    assert {"authentication", "oauth2", "jwt", "tokens", "api", "endpoints"} == TERMS


@pytest.mark.parametrize(
    ("file", "parts", "score"),
    [
        (AUTHENTICATION, (10, 15, 6, 10, 2), 82),
        (RATE_LIMITING, (0, 5, 0, 4, 1), 9),
        (MIGRATIONS, (0, 0, 0, 16, 2), 32),
    ],
    ids=lambda value: getattr(value, "stem", None),
)
def test_the_published_example_comes_out_part_by_part(
    file: Described, parts: tuple[float, ...], score: float
) -> None:
    found = relevance(file, TERMS)
    assert tuple(found.parts().values()) == parts
    assert found.score == score


def test_without_a_task_only_use_and_importance_count() -> None:
    assert relevance(AUTHENTICATION, frozenset()).score == 20


def test_uses_count_up_to_ten() -> None:
    assert relevance(Described(stem="x", uses=10), TERMS).score == 20
    assert relevance(Described(stem="x", uses=1_000), TERMS).score == 20


@pytest.mark.parametrize(
    ("importance", "score"), [("high", 10), ("HIGH", 10), ("medium", 5), ("low", 2.5), ("odd", 5)]
)
def test_importance_is_a_factor(importance: str, score: float) -> None:
    assert (
        relevance(Described(stem="x", tags=("jwt",), importance=importance), TERMS).score == score
    )


@pytest.mark.parametrize(
    ("tag", "matches"),
    [
        ("jwt", True),
        ("JWT", True),
        ("auth", True),
        ("authentication-service", False),
        ("oauth-tokens", True),
        ("api-rate", False),
        ("end", False),
        ("tok", False),
        ("", False),
        ("---", False),
    ],
)
def test_a_tag_matches_when_each_of_its_words_begins_or_continues_one_of_the_task(
    tag: str, matches: bool
) -> None:
    assert bool(relevance(Described(stem="x", tags=(tag,)), TERMS).tags) is matches


def test_a_keyword_matches_as_a_whole_word_only() -> None:
    words = ("oauth", "oauth2", "rate limit", "api tokens")
    assert relevance(Described(stem="x", keywords=words), TERMS).keywords == 6


def test_a_word_that_is_said_twice_counts_once() -> None:
    file = Described(stem="x", tags=("jwt", "JWT"), keywords=("api", "API"))
    assert (relevance(file, TERMS).tags, relevance(file, TERMS).keywords) == (5, 3)
    assert task_terms("api api", "API") == {"api"}


@pytest.mark.parametrize(
    ("file", "matches"),
    [
        (Described(stem="x", category="api"), True),
        (Described(stem="x", category="gotchas"), False),
        (Described(stem="jwt"), True),
        (Described(stem="jwt_notes"), True),
        (Described(stem="jwt-and-other-notes"), False),
        (Described(stem="..."), False),
    ],
)
def test_the_category_or_half_of_the_files_name_matches(file: Described, matches: bool) -> None:
    assert bool(relevance(file, TERMS).category) is matches
