from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tiers import markdown
from tiers.errors import HeaderNotParsed
from tiers.markdown import canonical_body, join, patch, render, replace_block, scan_header, split
from tiers.records import Importance, MemoryRecord, MemoryType, Origin
from tiers.topic import Topic, read_topic, write_topic

TRAPS = st.sampled_from(
    [
        "yes", "No", "null", "~", "true", "2024-01-01", "2024-01-01T10:00:00Z", "1.10", "0x1f",
        "1e5", "1:30", "- x", "a: b", "a #b", "#x", "'", '"', "\\", "\n", " x ", "[a]", "{a: b}",
        "&a", "*a", "!x", "|", ">", "%", "@", "`", "---", "...", "---\nid: 9\n---", "a:", "?",
        "? a", "=", "<<", "\t",
        "x\ty", "\x85", "\u2028", "\ufeff", "\x00", "\x7f", "é", "記憶", "🙂",
        "+++", "key: 'v'", "```\n---\n```", "<!-- tiermem:end -->", "", ".inf", "nan", "-1", "+1",
        "a\r\nb",
    ]
)  # fmt: skip
TEXTS = TRAPS | st.text(
    alphabet=st.characters(exclude_categories=["Cs"]), max_size=40
) | st.text(alphabet="ab:#-'\"\\ \n[]{},&*!|>%@`~yn0.", max_size=12)  # fmt: skip
WORDS = st.lists(TEXTS, max_size=4).map(
    lambda words: tuple(dict.fromkeys(w.strip() for w in words if w.strip()))
)
TIMES = st.datetimes(timezones=st.just(UTC), min_value=datetime(1990, 1, 1))  # noqa: DTZ001
SCALARS = TEXTS | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
KEYS = (
    st.text(alphabet="abcxyz_-", min_size=1, max_size=8)
    | st.sampled_from(["yes", "n", "1", "a b", "a:b", "x.y", "é", "- a", "#a", "2024-01-01"])
).filter(lambda key: key not in {"id", "name", "type", "tags", "ttl"})
EXTRAS = st.dictionaries(
    KEYS,
    SCALARS
    | st.lists(SCALARS | st.lists(SCALARS, max_size=2), max_size=3)
    | st.dictionaries(KEYS, SCALARS | st.lists(SCALARS, max_size=2), min_size=1, max_size=3),
    max_size=4,
)

RECORDS = st.builds(
    MemoryRecord,
    id=st.uuids().map(str),
    project=st.just("p"),
    name=TEXTS.filter(bool),
    body=TEXTS | st.lists(TEXTS, max_size=5).map("\n".join),
    description=TEXTS,
    type=st.sampled_from(MemoryType),
    category=TEXTS,
    tags=WORDS,
    keywords=WORDS,
    importance=st.sampled_from(Importance),
    pinned=st.booleans(),
    origin=st.sampled_from(Origin),
    created_at=TIMES,
    updated_at=TIMES,
    expires_at=st.none() | TIMES,
    supersedes=st.lists(st.uuids().map(str), max_size=2, unique=True).map(tuple),
    extra=EXTRAS,
)


def as_read(record: MemoryRecord) -> Topic:
    """What a file of this record says."""
    return Topic(
        id=record.id,
        name=record.name,
        description=record.description,
        type=record.type,
        category=record.category,
        tags=record.tags,
        keywords=tuple(dict.fromkeys(word.casefold() for word in record.keywords)),
        importance=record.importance,
        pinned=record.pinned,
        created_at=record.created_at,
        expires_at=record.expires_at,
        supersedes=record.supersedes,
        origin=None if record.origin is Origin.HUMAN else record.origin,
        extra=dict(record.extra),
        body=canonical_body(record.body),
    )


@given(RECORDS)
def test_a_new_file_reads_back_as_its_record(record: MemoryRecord) -> None:
    assert read_topic(write_topic(None, record)) == as_read(record)


@given(RECORDS)
def test_an_unchanged_record_changes_no_byte(record: MemoryRecord) -> None:
    raw = write_topic(None, record)
    for variant in (raw, raw.replace(b"\n", b"\r\n"), b"\xef\xbb\xbf" + raw, raw.rstrip(b"\n")):
        if read_topic(variant) == read_topic(raw):
            assert write_topic(variant, record) == variant


@given(RECORDS, RECORDS)
@settings(max_examples=200)
def test_a_rewritten_file_says_what_the_record_says(old: MemoryRecord, new: MemoryRecord) -> None:
    raw = write_topic(None, old)

    topic = read_topic(write_topic(raw, new))

    # Where a file says nothing of an origin, none is put in.
    said = "origin" in scan_header(split(raw))
    assert topic == replace(as_read(new), origin=new.origin if said else None)


# Lines as people write them: each is kept, whatever else is changed.
LINES = st.sampled_from(
    [
        "# a comment", "", "other:   value   # why", "list: [a, 'b, c', \"d\"]",
        "block:\n  - a\n  # in\n  - b",
        "same:\n- a\n- b", "text: |\n  one\n\n  # no comment\n  two", "folded: >-\n  one\n  two",
        "map:\n  inner: 1\n  # note\n  deep:\n    x: y", "flow: {a: 1, b: [x, y]}",
        "'quoted key': 'it''s'",
        "empty:", "null_: ~", "number: 007", "date: 2024-01-01", "long: one\n  two\n  three",
        "dq: \"a \\\" b # c\"", "url: http://x.y/z#q", "multi: [a,\n  b,\n  c]", "emoji: 🙂 記憶",
        "anchor: &a [1, 2]", "tagged: !!str 12", "  # indented comment",
    ]
)  # fmt: skip


def unique_by_key(lines: list[str]) -> list[str]:
    return list(
        {
            line.partition(":")[0] if ":" in line else str(n): line for n, line in enumerate(lines)
        }.values()
    )


@given(
    lines=st.lists(LINES, max_size=8).map(unique_by_key),
    newline=st.sampled_from(["\n", "\r\n"]),
    bom=st.sampled_from([b"", b"\xef\xbb\xbf"]),
    body=TEXTS,
    description=TEXTS.filter(lambda text: bool(text)),
    tags=WORDS.filter(bool),
)
def test_parse_write_parse_keeps_unknown_keys_their_order_and_their_bytes(
    lines: list[str], newline: str, bom: bytes, body: str, description: str, tags: tuple[str, ...]
) -> None:
    ours = ["name: n", "description: old  # kept", "tags: [x]"]
    header = "\n".join([*lines[:3], ours[0], ours[1], *lines[3:], ours[2]]) + "\n"
    raw = bom + f"---\n{header}---\n{body}".replace("\r\n", "\n").replace("\n", newline).encode()
    before = read_topic(raw)
    record = record_of(before, description=description, tags=tags)

    written = write_topic(raw, record)

    after = read_topic(written)
    assert (after.description, after.tags) == (description, tags)
    assert json.dumps(after.extra) == json.dumps(before.extra)
    assert after.body == before.body
    kept = [line for line in raw.splitlines(True) if not line.startswith((b"description", b"tags"))]
    new = [
        line for line in written.splitlines(True) if not line.startswith((b"description", b"tags"))
    ]
    assert new == kept
    assert b"  # kept" + newline.encode() in written
    assert list(scan_header(split(written))) == list(scan_header(split(raw)))


def record_of(topic: Topic, **changes: Any) -> MemoryRecord:
    fields = {
        name: getattr(topic, name)
        for name in ("name", "body", "type", "category", "keywords", "importance", "extra")
    }
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    return MemoryRecord(
        id="1", project="p", created_at=moment, updated_at=moment, **{**fields, **changes}
    )


FRAGMENTS = st.sampled_from(
    [
        b"---", b"+++", b"\n", b"\r\n", b"\r", b"name: x", b"a: [", b"- b", b" ", b"\t", b"```",
        b'"', b"'", b"# c", b": ", b"\xff", b"\xef\xbb\xbf", b"x = 1", b"[t]",
    ]
)  # fmt: skip


@given(
    st.binary(max_size=200)
    | TEXTS.map(str.encode)
    | st.lists(FRAGMENTS, max_size=14).map(b"".join)
    | st.lists(FRAGMENTS, max_size=10).map(lambda parts: b"---\n" + b"".join(parts) + b"\n---\nx")
)
@settings(max_examples=300)
def test_no_bytes_stop_a_reader_and_taking_apart_loses_none(raw: bytes) -> None:
    parts = split(raw)
    assert join(parts) == raw
    scan_header(parts)
    topic = read_topic(raw)
    json.dumps(topic.extra)
    assert topic.body == canonical_body(topic.body)
    try:
        written = patch(raw, {"description": "new: text"}, None)
    except HeaderNotParsed:
        return
    assert split(written).body_text == parts.body_text
    assert scan_header(split(written))["description"] == "new: text"


@given(st.dictionaries(KEYS, TEXTS | st.lists(TEXTS, max_size=3), max_size=4), TEXTS)
def test_what_is_rendered_is_scanned_back_without_yaml(fields: dict[str, Any], body: str) -> None:
    parts = split(render(fields, body))
    assert scan_header(parts) == fields
    assert parts.body_text == canonical_body(body)


@given(TEXTS)
def test_the_canonical_form_of_a_body_is_stable(text: str) -> None:
    once = canonical_body(text)
    assert canonical_body(once) == once


INDEX_LINES = st.sampled_from(
    ["<!-- tiermem:begin -->", "<!-- tiermem:end -->", "- [A](a.md) — x", "- [ ] todo", "# Mine",
     "", "- [Docs](https://x.y)", "text", "… and 3 more: tiermem list", "  - nested"]
)  # fmt: skip
HUMAN = {"- [ ] todo", "# Mine", "- [Docs](https://x.y)", "text", "  - nested"}


@given(
    st.lists(INDEX_LINES, max_size=12),
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
    st.lists(st.sampled_from(["- [A](a.md) — x", "- [B](b.md)"]), max_size=2, unique=True),
)
@settings(max_examples=300)
def test_no_human_line_of_the_index_is_ever_lost(
    lines: list[str], newline: str, ends: bool, block: list[str]
) -> None:
    raw = (newline.join(["# Top", *lines]) + (newline if ends else "")).encode()

    written = replace_block(raw, block)

    def humans(content: bytes) -> list[str]:
        return [line for line in content.decode().splitlines() if line in HUMAN]

    assert humans(written) == humans(raw)
    assert replace_block(written, block) == written
    if block and newline.encode() in raw:
        text = written.decode()
        assert text.count("<!-- tiermem:begin -->") == text.count("<!-- tiermem:end -->") == 1
        inside = text.partition("<!-- tiermem:begin -->")[2].partition("<!-- tiermem:end -->")[0]
        assert inside.split(newline) == ["", *block, ""]


@given(TEXTS, TEXTS.filter(lambda t: bool(t.strip()) and len(t) < 100), TEXTS)
def test_an_index_line_is_one_line_that_reads_back(name: str, path: str, hook: str) -> None:
    path = path.strip().replace("\n", "").replace("\r", "").lstrip("/#") or "x"
    path = path.replace(":", "") + ".md"
    line = markdown.index_line(name, path, hook)
    assert len(line.splitlines()) == 1
    parsed = markdown.parse_index_line(line)
    assert parsed is not None
    assert parsed.path == path
    assert path in markdown.linked_paths(line)


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_a_file_of_100_kb_is_taken_apart_in_one_go(newline: str) -> None:
    body = newline.join(["word " * 20] * 1000)
    raw = f"---{newline}name: x{newline}---{newline}{body}".encode()
    assert len(raw) >= 100_000
    assert read_topic(raw).name == "x"
    assert join(split(raw)) == raw
