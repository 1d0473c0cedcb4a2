"""From what somebody wants kept to a record."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from memory.drafts import Draft, Drafter, checked_name, derived_name, parse_ttl
from memory.errors import UsageError
from tiers.records import (
    GLOBAL_PROJECT,
    Importance,
    MemoryRecord,
    MemoryType,
    Origin,
    Visibility,
)

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
LATER = NOW + timedelta(days=1)
TOKEN = "ghp_" + "a1B2c3D4e5" * 4


def new_ids() -> Iterator[str]:
    number = 0
    while True:
        number += 1
        yield f"00000000-0000-4000-8000-{number:012}"


def drafter(**options: Any) -> Drafter:
    ids = new_ids()
    return Drafter(owner="ann", home_id="home", new_id=lambda: next(ids), **options)


def first(project: str = "p", **fields: Any) -> MemoryRecord:
    return drafter().draft(Draft(**fields), project=project, now=NOW).record


def test_a_new_memory_has_what_was_said_and_defaults_for_the_rest() -> None:
    record = first(text="use uv, not pip", tags=("tools",), importance=Importance.HIGH)

    assert (record.revision, record.project, record.owner) == (1, "p", "ann")
    assert (record.name, record.body) == ("use uv, not pip", "use uv, not pip")
    assert (record.tags, record.importance) == (("tools",), Importance.HIGH)
    assert (record.type, record.origin) == (MemoryType.PROJECT, Origin.AGENT)
    assert record.created_at == record.updated_at == NOW


def test_a_revision_changes_what_was_said_and_keeps_the_rest() -> None:
    base = first(text="one", name="note", tags=("a",), description="about")

    record = drafter().draft(Draft(text="two"), project="p", now=LATER, base=base).record

    assert record == replace(base, body="two", revision=2, updated_at=LATER)


@pytest.mark.parametrize(
    ("kind", "project", "expected"),
    [
        (MemoryType.PROJECT, "p", Visibility.PROJECT),
        (MemoryType.REFERENCE, "p", Visibility.PROJECT),
        (MemoryType.USER, "p", Visibility.PRIVATE),
        (MemoryType.FEEDBACK, "p", Visibility.PRIVATE),
        (MemoryType.PROJECT, GLOBAL_PROJECT, Visibility.PRIVATE),
    ],
)
def test_what_is_about_a_person_is_private(
    kind: MemoryType, project: str, expected: Visibility
) -> None:
    assert first(project, text="x", type=kind).visibility is expected
    assert first(project, text="x", type=kind, visibility=Visibility.TEAM).visibility == "team"


def test_records_can_be_built_for_somebody_else() -> None:
    theirs = drafter(max_bytes=10).for_owner("ben")

    assert theirs.draft(Draft(text="x"), project="p", now=NOW).record.owner == "ben"
    assert (theirs.home_id, theirs.max_bytes) == ("home", 10)


@pytest.mark.parametrize("text", ["", " ", "\n\t\r", "\u00a0\u2003"])
def test_text_without_a_word_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="no text"):
        first(text=text)


def test_text_that_is_too_long_is_refused_with_its_size() -> None:
    limited = drafter(max_bytes=10)

    assert limited.draft(Draft(text="é" * 5), project="p", now=NOW).record.body == "é" * 5
    with pytest.raises(UsageError, match="12 bytes; at most 10"):
        limited.draft(Draft(text="é" * 6), project="p", now=NOW)


def test_half_a_character_is_refused() -> None:
    with pytest.raises(UsageError, match="not valid Unicode"):
        first(text="half \ud800 a pair")


def test_a_nul_is_replaced_visibly() -> None:
    assert first(text="a\0b").body == "a\ufffdb"


@pytest.mark.parametrize(
    "name",
    [
        "",
        " ",
        "a\nb",
        "a\tb",
        "a\x1b[31mb",
        "n" * 201,
        "..",
        "../up",
        "a/../b",
        "/etc/passwd",
        "a\\b",
    ],
)
def test_an_impossible_name_is_refused(name: str) -> None:
    with pytest.raises(UsageError):
        checked_name(name)
    with pytest.raises(UsageError):
        first(text="x", name=name)


@pytest.mark.parametrize("name", ["note", "a/b", "v1.2..3", "日本語 🎉", "it's", "n" * 200])
def test_a_possible_name_is_kept(name: str) -> None:
    assert checked_name(f"  {name} ") == name


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("# Deploy *checklist*:\nmore", "Deploy *checklist"),
        ("\n\n- use `uv`\n", "use `uv"),
        ("w" * 500, "w" * 60),
        ("word " * 100, ("word " * 12).strip()),
        ("/etc/passwd", "etc/passwd"),
        ("../../up", "up"),
        ("...", "note"),
        ("***\n---", "note"),
        ("🎉", "🎉"),
    ],
)
def test_a_name_is_made_of_the_first_words(text: str, name: str) -> None:
    assert derived_name(text) == name


@pytest.mark.parametrize("text", ["C:\\dir\\file", "a\x1b[0mb", "..\\..", "\u202eabc", "\ufeff# x"])
def test_a_derived_name_is_always_a_possible_one(text: str) -> None:
    assert checked_name(derived_name(text)) == derived_name(text)


@pytest.mark.parametrize(
    ("text", "lifetime"),
    [
        ("30m", timedelta(minutes=30)),
        ("12h", timedelta(hours=12)),
        (" 14 D ", timedelta(days=14)),
        ("2w", timedelta(weeks=2)),
        ("100000w", timedelta(weeks=100_000)),
    ],
)
def test_a_lifetime_is_counted_from_now(text: str, lifetime: timedelta) -> None:
    assert parse_ttl(text, NOW) == NOW + lifetime


@pytest.mark.parametrize(
    "text",
    ["", "0d", "-1d", "abc", "5", "d", "1.5d", "5y", "1d2h", "99999999d", "²d", "9" * 99 + "d"],
)
def test_no_lifetime_is_refused_with_examples(text: str) -> None:
    with pytest.raises(UsageError, match="no lifetime") as refused:
        parse_ttl(text, NOW)

    assert "14d" in refused.value.hint


def test_never_means_no_end() -> None:
    assert parse_ttl("never", NOW) is None


def test_an_expiry_stays_until_it_is_taken_away() -> None:
    base = first(text="x", expires_at=LATER)

    kept = drafter().draft(Draft(text="y"), project="p", now=NOW, base=base).record
    freed = drafter().draft(Draft(text="y", forever=True), project="p", now=NOW, base=base).record

    assert (kept.expires_at, freed.expires_at) == (LATER, None)


def test_what_is_said_again_after_it_expired_lives_again() -> None:
    base = first(text="x", expires_at=NOW + timedelta(hours=1))

    record = drafter().draft(Draft(text="y"), project="p", now=LATER, base=base).record

    assert not record.is_expired(LATER)


def test_tags_are_stripped_and_not_repeated() -> None:
    record = first(text="x", tags=(" a ", "", "b", "a", " "), keywords=("k", "k "))

    assert (record.tags, record.keywords) == (("a", "b"), ("k",))


def test_secrets_are_masked_wherever_text_can_stand() -> None:
    drafted = drafter().draft(
        Draft(
            text=f"token {TOKEN}",
            description=f"with {TOKEN}",
            tags=(TOKEN,),
            extra={"deep": [{"deeper": f"x {TOKEN}"}]},
        ),
        project="p",
        now=NOW,
    )

    assert TOKEN not in repr(drafted.record)
    assert sum(found.count for found in drafted.masked) >= 4


def test_a_secret_that_is_allowed_stays() -> None:
    masked = drafter().draft(Draft(text=f"token {TOKEN}"), project="p", now=NOW).masked
    kinds = frozenset(found.kind for found in masked)

    for options in ({"allow": kinds}, {}):
        by_setting = drafter() if options else drafter(allowed_secrets=kinds)
        drafted = by_setting.draft(Draft(text=f"token {TOKEN}"), project="p", now=NOW, **options)
        assert TOKEN in drafted.record.body
        assert drafted.masked == ()
