from __future__ import annotations

import json
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiers.records import (
    Importance,
    MemoryRecord,
    MemoryType,
    Origin,
    Visibility,
    format_time,
    from_json,
    next_revision,
    parse_time,
    text_hash,
    to_json,
)

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def a_record(**changes: Any) -> MemoryRecord:
    values: dict[str, Any] = {
        "id": "m-1",
        "project": "p",
        "name": "installing",
        "body": "use uv",
        "created_at": NOON,
        "updated_at": NOON,
    }
    return MemoryRecord(**values | changes)


texts = st.text(max_size=20)
tuples = st.lists(texts, max_size=3).map(tuple)
moments = st.datetimes(timezones=st.just(UTC))
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
records = st.builds(
    MemoryRecord,
    id=texts,
    project=texts,
    name=texts,
    body=texts,
    revision=st.integers(1, 10**6),
    description=texts,
    type=st.sampled_from(MemoryType),
    category=texts,
    tags=tuples,
    keywords=tuples,
    importance=st.sampled_from(Importance),
    pinned=st.booleans(),
    origin=st.sampled_from(Origin),
    owner=texts,
    visibility=st.sampled_from(Visibility),
    home_id=texts,
    session=texts,
    thread=texts,
    position=st.none() | st.integers(),
    created_at=moments,
    updated_at=moments,
    expires_at=st.none() | moments,
    supersedes=tuples,
    extra=st.dictionaries(texts, plain, max_size=3),
    deleted=st.booleans(),
)


@given(record=records)
def test_a_record_survives_json(record: MemoryRecord) -> None:
    text = json.dumps(to_json(record))

    assert from_json(json.loads(text)) == record
    assert from_json(json.loads(text)).content_hash == record.content_hash


def test_json_has_every_field_and_plain_values() -> None:
    data = to_json(
        a_record(
            type=MemoryType.USER, tags=("a",), expires_at=NOON, extra={"at": NOON, "n": [(1,)]}
        )
    )

    assert set(data) == {entry.name for entry in fields(MemoryRecord)}
    assert type(data["type"]) is str
    assert (data["type"], data["tags"], data["position"]) == ("user", ["a"], None)
    assert data["created_at"] == data["expires_at"] == "2026-03-01T12:00:00Z"
    assert data["extra"] == {"at": "2026-03-01T12:00:00Z", "n": [[1]]}


def test_missing_fields_take_defaults_and_unknown_ones_are_ignored() -> None:
    short = {
        key: to_json(a_record())[key]
        for key in ("id", "project", "name", "body", "created_at", "updated_at")
    }

    assert from_json(short | {"from": "a newer version"}) == a_record()


@pytest.mark.parametrize(
    "changes",
    [{"type": "unknown"}, {"importance": 3}, {"created_at": "yesterday"}, {"visibility": ""}],
)
def test_what_cannot_be_a_record_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        from_json(to_json(a_record()) | changes)


VISIBLE: dict[str, Any] = {
    "name": "x",
    "description": "x",
    "body": "x",
    "type": MemoryType.USER,
    "category": "x",
    "tags": ("x",),
    "keywords": ("x",),
    "importance": Importance.HIGH,
    "pinned": True,
    "owner": "x",
    "visibility": Visibility.TEAM,
    "thread": "x",
    "position": 1,
    "expires_at": NOON,
    "supersedes": ("x",),
    "extra": {"x": 1},
    "deleted": True,
}
UNSEEN: dict[str, Any] = {
    "id": "x",
    "project": "x",
    "revision": 9,
    "origin": Origin.HUMAN,
    "home_id": "x",
    "session": "x",
    "created_at": NOON + timedelta(1),
    "updated_at": NOON + timedelta(1),
}


def test_every_field_is_either_content_or_not() -> None:
    assert {*VISIBLE, *UNSEEN} == {entry.name for entry in fields(MemoryRecord)}


@pytest.mark.parametrize("name", VISIBLE)
def test_what_a_reader_can_see_changes_the_content_hash(name: str) -> None:
    changed = a_record(**{name: VISIBLE[name]})

    assert changed.content_hash != a_record().content_hash


@pytest.mark.parametrize("name", UNSEEN)
def test_who_wrote_it_and_when_leaves_the_content_hash(name: str) -> None:
    changed = a_record(**{name: UNSEEN[name]})

    assert changed.content_hash == a_record().content_hash


def test_the_order_of_extra_keys_is_no_content() -> None:
    one, other = a_record(extra={"a": 1, "b": 2}), a_record(extra={"b": 2, "a": 1})

    assert one.content_hash == other.content_hash


def test_a_hash_exists_for_text_that_is_no_unicode_and_for_dates() -> None:
    odd = a_record(body="\ud800", extra={"day": NOON.date()})

    assert len(odd.content_hash) == 64


def test_the_text_hash_is_that_of_the_body_without_outer_white_space() -> None:
    assert a_record(body="\n use uv \n").text_hash == a_record(name="other").text_hash
    assert a_record().text_hash == text_hash("use uv")
    assert text_hash("use  uv") != text_hash("use uv")


def test_a_record_expires_at_its_time() -> None:
    assert not a_record().is_expired(NOON)
    assert a_record(expires_at=NOON).is_expired(NOON)
    assert not a_record(expires_at=NOON).is_expired(NOON - timedelta(microseconds=1))


def test_a_tombstone_says_only_that_something_was_forgotten() -> None:
    later = NOON + timedelta(days=1)
    record = a_record(
        revision=4, owner="me", description="d", tags=("a",), extra={"k": 1}, thread="t"
    )

    tombstone = record.tombstone(later)

    assert tombstone == replace(
        a_record(name="", body="", revision=5, owner="me", updated_at=later), deleted=True
    )


def test_the_next_revision_counts_one_up_and_keeps_the_rest() -> None:
    later = NOON + timedelta(days=1)

    assert next_revision(a_record(revision=2), now=later, body="new") == a_record(
        revision=3, updated_at=later, body="new"
    )


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-03-01T12:00:00Z", NOON),
        (" 2026-03-01T12:00:00Z\n", NOON),
        ("2026-03-01T12:00:00", NOON),
        ("2026-03-01 14:00:00+02:00", NOON),
        ("2026-03-01", NOON.replace(hour=0)),
        ("2026-03-01T12:00:00.5Z", NOON + timedelta(milliseconds=500)),
    ],
)
def test_times_are_read_as_utc(text: str, moment: datetime) -> None:
    assert parse_time(text) == moment
    assert parse_time(text).tzinfo is UTC


@pytest.mark.parametrize("text", ["", "now", "12:00", "2026-13-01", "20 March 2026"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_time(text)


def test_times_are_written_in_utc() -> None:
    west = timezone(timedelta(hours=-5))

    assert format_time(datetime(2026, 3, 1, 7, tzinfo=west)) == "2026-03-01T12:00:00Z"
    assert format_time(NOON + timedelta(microseconds=5)) == "2026-03-01T12:00:00.000005Z"


@given(moment=moments)
def test_a_time_survives_its_text(moment: datetime) -> None:
    assert parse_time(format_time(moment)) == moment
