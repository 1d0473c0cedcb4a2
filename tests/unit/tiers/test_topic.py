from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tiers.errors import HeaderNotParsed
from tiers.markdown import render, split
from tiers.records import Importance, MemoryRecord, MemoryType, Origin
from tiers.topic import Topic, read_topic, topic_fields, write_topic

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def a_record(**changes: Any) -> MemoryRecord:
    plain = MemoryRecord(
        id="id-1",
        project="p",
        name="Use uv",
        body="not pip",
        origin=Origin.HUMAN,
        created_at=NOON,
        updated_at=NOON,
    )
    return replace(plain, **changes)


def a_record_of(topic: Topic, **changes: Any) -> MemoryRecord:
    """Build the record that an engine makes of a file it has just read."""
    said = {
        name: getattr(topic, name)
        for name in (
            "name", "description", "body", "type", "category", "tags", "keywords", "importance",
            "pinned", "expires_at", "supersedes", "extra",
        )
    }  # fmt: skip
    said |= {
        "id": topic.id or "minted",
        "name": topic.name or "stem",
        "created_at": topic.created_at or NOON,
    }
    return a_record(**(said | changes))


def yaml_file(header: str, body: str = "body\n") -> bytes:
    return f"---\n{header}---\n{body}".encode()


CASES: dict[str, tuple[bytes, str, str]] = {
    # file, name, body
    "crlf": (b"---\r\nname: a\r\n---\r\n\r\none\r\ntwo\r\n", "a", "one\ntwo"),
    "bom": (b"\xef\xbb\xbf---\nname: a\n---\nbody\n", "a", "body"),
    "no header": (b"# Title\n\nbody\n", "", "# Title\n\nbody"),
    "unclosed": (b"---\nname: a\nbody\n", "", "---\nname: a\nbody"),
    "invalid yaml": (b"---\nname: [a\n---\nbody\n", "", "---\nname: [a\n---\nbody"),
    "toml": (b'+++\nname = "a"\n+++\nbody\n', "a", "body"),
    "invalid toml": (b"+++\nname = \n+++\nbody\n", "", "+++\nname = \n+++\nbody"),
    "fence": (b"---\nname: a\n---\n```\n---\nb: 1\n---\n```", "a", "```\n---\nb: 1\n---\n```"),
    "empty": (b"", "", ""),
    "non-utf-8": (b"---\nname: caf\xe9\n---\nb\xff\n", "caf\ufffd", "b\ufffd"),
    "no last newline": (b"---\nname: a\n---\nbody", "a", "body"),
    "trailing spaces": (b"---  \nname: a\n--- \t\nbody\n", "a", "body"),
    "header only": (b"---\nname: a\n---", "a", ""),
    "mixed newlines": (b"---\r\nname: a\n---\nbody\r\nmore\rlast\n", "a", "body\nmore\nlast"),
    "no mapping": (b"---\njust words\n---\nbody", "", "---\njust words\n---\nbody"),
    "duplicate keys": (b"---\nname: a\nname: b\n---\nbody", "b", "body"),
    "100 kB": (b"---\nname: a\n---\n" + b"a line\n" * 15_000, "a", ("a line\n" * 15_000)[:-1]),
}


@pytest.mark.parametrize("case", CASES)
def test_every_kind_of_file_is_read_and_an_unchanged_record_changes_no_byte(case: str) -> None:
    raw, name, body = CASES[case]
    topic = read_topic(raw)
    assert (topic.name, topic.body) == (name, body)
    assert write_topic(raw, a_record_of(topic)) == raw


@pytest.mark.parametrize(
    ("case", "problem"),
    [
        ("unclosed", "line 1: the header that opens here is never closed"),
        ("invalid yaml", "line 3: did not find expected ',' or ']'"),
        ("invalid toml", "line 2: Invalid value"),
        ("no mapping", "line 2: the header is not made of keys and values"),
        ("duplicate keys", "line 3: the key 'name' is there twice; the last one counts"),
        ("non-utf-8", "line 2: byte 0xe9 is not UTF-8"),
    ],
)
def test_what_cannot_be_read_is_a_problem_with_its_line(case: str, problem: str) -> None:
    (told,) = read_topic(CASES[case][0]).problems
    assert told.startswith(problem)


@pytest.mark.parametrize(
    "case",
    ["unclosed", "invalid yaml", "invalid toml", "no mapping", "duplicate keys", "non-utf-8"],
)
def test_a_header_that_does_not_parse_is_never_rewritten(case: str) -> None:
    raw = CASES[case][0]
    record = a_record_of(read_topic(raw), name="new name", pinned=True)
    with pytest.raises(HeaderNotParsed) as refused:
        write_topic(raw, record)
    assert refused.value.hint


def test_other_problems_do_not_stop_a_write() -> None:
    raw = yaml_file("name: a\nother: 1\nother: 2\ntype: banana\n")
    written = write_topic(raw, a_record_of(read_topic(raw), pinned=True))
    assert written == yaml_file("name: a\nother: 1\nother: 2\ntype: banana\npinned: true\n")


def test_all_keys_of_ours_are_read() -> None:
    raw = yaml_file(
        """name: a
description: "d: e"
type: feedback
id: 0017
category: gotchas
tags: [x, y]
keywords: OAuth2, JWT tokens ,, jwt TOKENS
importance: High
pinned: yes
created: 2026-01-02
updated: 2026-01-03T04:05:06+02:00
expires: "2026-02-01T00:00:00Z"
supersedes: [b, c]
origin: web
unknown: {when: 2026-01-02, n: 1.5}
"""
    )
    assert read_topic(raw) == Topic(
        id="0017",
        name="a",
        description="d: e",
        type=MemoryType.FEEDBACK,
        category="gotchas",
        tags=("x", "y"),
        keywords=("oauth2", "jwt tokens"),
        importance=Importance.HIGH,
        pinned=True,
        created_at=datetime(2026, 1, 2, tzinfo=UTC),
        updated_at=datetime(2026, 1, 3, 2, 5, 6, tzinfo=UTC),
        expires_at=datetime(2026, 2, 1, tzinfo=UTC),
        supersedes=("b", "c"),
        origin=Origin.WEB,
        extra={"unknown": {"when": "2026-01-02", "n": 1.5}},
        body="body",
    )


@pytest.mark.parametrize(
    ("header", "tags"),
    [
        ("tags: [1, 1.10, 007, yes, 2024-01-01, null, 'a b', x]\n",
         ("1", "1.10", "007", "yes", "2024-01-01", "a b", "x")),
        ("tags:\n  - one\n  - 2\n", ("one", "2")),
        ("tags: one, two\n", ("one", "two")),
        ("tags: 2024\n", ("2024",)),
        ("tags:\n", ()),
        ("tags: ['a,b', ' a,b ']\n", ("a,b",)),
    ],
)  # fmt: skip
def test_tags_are_the_text_that_stands_there(header: str, tags: tuple[str, ...]) -> None:
    topic = read_topic(yaml_file(header))
    assert topic.tags == tags
    assert not topic.problems


def test_toml_values_are_read_like_yaml_ones() -> None:
    raw = b"""+++
name = "a"
tags = ["x", 2, true, 2024-01-01]
created = 2026-01-02T03:04:05Z
importance = "low"
[metadata]
type = "user"
other = 1979-05-27T07:32:00
+++
body"""
    topic = read_topic(raw)
    assert topic.tags == ("x", "2", "true", "2024-01-01")
    assert topic.created_at == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert (topic.importance, topic.type) == (Importance.LOW, MemoryType.USER)
    assert topic.extra == {"metadata": {"other": "1979-05-27T07:32:00"}}

    written = write_topic(raw, a_record_of(topic, type=MemoryType.FEEDBACK, pinned=True))

    expected = raw.replace(b'"user"', b'"feedback"').replace(b'"low"\n', b'"low"\npinned = true\n')
    assert written == expected


def test_the_clients_own_nested_type_is_read_and_patched_in_its_place() -> None:
    raw = yaml_file(
        "name: a\nmetadata:\n  type: user\n  modified: 2026-01-02T03:04:05.678Z\n  node: memory\n"
    )
    topic = read_topic(raw)
    assert topic.type is MemoryType.USER
    assert topic.updated_at == datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=UTC)
    assert topic.extra == {"metadata": {"node": "memory"}}

    assert write_topic(raw, a_record_of(topic, type=MemoryType.REFERENCE)) == raw.replace(
        b"type: user", b"type: reference"
    )
    dropped = write_topic(raw, a_record_of(topic, extra={}))
    assert dropped == raw.replace(b"  node: memory\n", b"")


def test_a_missing_or_impossible_type_is_a_project_memory() -> None:
    assert read_topic(yaml_file("name: a\n")).type is MemoryType.PROJECT
    assert read_topic(yaml_file("type:\n")).problems == ()
    topic = read_topic(yaml_file("name: a\ntype: banana\n"))
    assert topic.type is MemoryType.PROJECT
    assert topic.extra == {"type": "banana"}
    assert topic.problems == (
        "line 3: type: 'banana' is none of user, feedback, project, reference",
    )


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("importance: urgent\n", "line 2: importance: 'urgent' is none of low, medium, high"),
        ("importance: 7\n", "line 2: importance: '7' is none of low, medium, high"),
        ("pinned: maybe\n", "line 2: pinned: 'maybe' is neither true nor false"),
        ("created: 2024-13-45\n", "line 2: created: '2024-13-45' is no time"),
        ("expires: soon\n", "line 2: expires: 'soon' is no time"),
        ("created: 9999-12-31T23:59:59-10:00\n",
         "line 2: created: '9999-12-31T23:59:59-10:00' is no time"),
        ("ttl: 0\n", "line 2: ttl: '0' is no lifetime"),
        ("ttl: -3d\n", "line 2: ttl: '-3d' is no lifetime"),
        ("origin: alien\n",
         "line 2: origin: 'alien' is none of human, user, agent, tool, web, import"),
        ("name: [a, b]\n", "line 2: name: should be one text"),
        ("tags: [[a]]\n", "line 2: tags: should be one text"),
        ("id: ' '\n", "line 2: id: should be one line of at most 200 characters"),
    ],
)  # fmt: skip
def test_a_value_that_cannot_be_read_is_reported_and_kept(line: str, told: str) -> None:
    raw = yaml_file(line)
    topic = read_topic(raw)
    assert topic.problems == (told,)
    assert list(topic.extra) == [line.partition(":")[0]]
    assert topic.body == "body"
    assert write_topic(raw, a_record_of(topic)) == raw


@pytest.mark.parametrize(
    ("number", "importance"),
    [("0.95", Importance.HIGH), ("0.5", Importance.MEDIUM), ("0.1", Importance.LOW)],
)
def test_importance_may_be_a_number(number: str, importance: Importance) -> None:
    raw = yaml_file(f"importance: {number}\n")
    topic = read_topic(raw)
    assert topic.importance is importance
    assert write_topic(raw, a_record_of(topic)) == raw


@pytest.mark.parametrize(
    ("ttl", "lifetime"),
    [("30d", 30), ("30", 30), ("2w", 14), ("never", None), ("36h", 1.5), ("3 days", 3)],
)
def test_a_lifetime_counts_from_the_last_time_of_writing(ttl: str, lifetime: float | None) -> None:
    raw = yaml_file(f"created: 2026-01-01\nupdated: 2026-01-02\nttl: {ttl}\n")
    topic = read_topic(raw)
    updated = datetime(2026, 1, 2, tzinfo=UTC)
    assert topic.expires_at == (updated + timedelta(days=lifetime) if lifetime else None)
    assert write_topic(raw, a_record_of(topic)) == raw


def test_a_lifetime_beyond_all_times_is_none() -> None:
    assert read_topic(yaml_file("created: 9999-12-30\nttl: 999999w\n")).expires_at is None


def test_a_new_expiry_takes_the_place_of_a_lifetime() -> None:
    raw = yaml_file("name: a\ncreated: 2026-01-01\nttl: 30d\nx: 1\n")
    topic = read_topic(raw)
    kept_for_good = write_topic(raw, a_record_of(topic, expires_at=None))
    assert kept_for_good == raw.replace(b"ttl: 30d\n", b"")
    moved = write_topic(raw, a_record_of(topic, expires_at=NOON))
    assert moved == raw.replace(b"ttl: 30d\nx: 1\n", b'x: 1\nexpires: "2026-03-01T12:00:00Z"\n')
    # Nobody knows from when this one counts, so the engine's own idea is no change.
    timeless = yaml_file("ttl: 30d\n")
    assert write_topic(timeless, a_record_of(read_topic(timeless), expires_at=NOON)) == timeless


def test_a_new_file_has_only_what_is_not_the_default() -> None:
    assert write_topic(None, a_record()) == (
        b"---\nname: Use uv\ntype: project\nid: id-1\n"
        b'created: "2026-03-01T12:00:00Z"\n---\n\nnot pip\n'
    )
    full = a_record(
        description="short",
        type=MemoryType.USER,
        category="patterns",
        tags=("a", "b, c"),
        keywords=("k",),
        importance=Importance.HIGH,
        pinned=True,
        origin=Origin.AGENT,
        expires_at=NOON,
        supersedes=("old",),
        extra={"mine": 1, "name": "not this one", "ttl": "30d"},
    )
    assert list(topic_fields(full)) == [
        "name", "description", "type", "id", "category", "tags", "keywords", "importance", "pinned",
        "created", "expires", "supersedes", "origin", "mine",
    ]  # fmt: skip
    assert b'tags: [a, "b, c"]\n' in render(topic_fields(full), "")


def test_keys_that_a_person_did_not_write_are_not_put_in() -> None:
    raw = b"# Title\n\nbody\n"
    record = a_record_of(read_topic(raw), origin=Origin.AGENT, created_at=NOON)
    assert write_topic(raw, record) == raw
    assert (
        write_topic(raw, replace(record, tags=("a",)))
        == b"---\ntags: [a]\n---\n\n# Title\n\nbody\n"
    )
    with_header = yaml_file("name:\ntags: [a]\n")
    assert write_topic(with_header, a_record_of(read_topic(with_header))) == with_header


def test_a_name_that_is_only_the_files_own_is_written_once_it_is_another() -> None:
    raw = b"body\n"
    assert read_topic(raw, default_name="stem").name == "stem"
    assert write_topic(raw, a_record(body="body", name="stem"), default_name="stem") == raw
    assert write_topic(raw, a_record(body="body", name="other"), default_name="stem") == (
        b"---\nname: other\n---\n\nbody\n"
    )


def test_an_id_that_stands_in_a_file_follows_the_record() -> None:
    raw = yaml_file("id: copied\nname: a\n")
    assert write_topic(raw, a_record_of(read_topic(raw), id="minted")) == yaml_file(
        "id: minted\nname: a\n"
    )


def test_the_time_of_writing_is_renewed_only_together_with_something_else() -> None:
    raw = yaml_file("name: a\nupdated: 2026-01-01\n")
    same = a_record_of(read_topic(raw), updated_at=NOON)
    assert write_topic(raw, same) == raw
    assert write_topic(raw, replace(same, body="new")) == yaml_file(
        'name: a\nupdated: "2026-03-01T12:00:00Z"\n', "new\n"
    )


def test_values_go_back_to_their_defaults() -> None:
    raw = yaml_file("name: a\nimportance: high\npinned: true\ntags: [x]\ncategory: c\n")
    record = a_record_of(
        read_topic(raw), importance=Importance.MEDIUM, pinned=False, tags=(), category=""
    )
    assert write_topic(raw, record) == yaml_file("name: a\nimportance: medium\npinned: false\n")


def test_a_changed_body_leaves_the_header_alone() -> None:
    raw = b"---\r\nname: a # x\r\nodd:   1\r\n---\r\n\r\nold\r\n"
    record = a_record_of(read_topic(raw), body="new\nlines\n")
    assert write_topic(raw, record) == raw.replace(b"old", b"new\r\nlines")


def test_a_change_that_a_line_patch_cannot_make_is_refused() -> None:
    for header in (
        "metadata: {type: user}\n",
        "name: &n a\ndescription: *n\n",
        "{name: a, type: user}\n",
    ):
        raw = yaml_file(header)
        record = a_record_of(read_topic(raw), name="b", type=MemoryType.FEEDBACK)
        with pytest.raises(HeaderNotParsed):
            write_topic(raw, record)


@pytest.mark.parametrize(
    "header",
    [
        "k0: &k0 [x, x]\n" + "".join(f"k{n + 1}: &k{n + 1} [*k{n}, *k{n}]\n" for n in range(24)),
        "k0: &k0 {x: 1}\n"
        + "".join(f"k{n + 1}: &k{n + 1} {{<<: [*k{n}, *k{n}]}}\n" for n in range(24)),
        "a: &a [*a]\n",
        "a: &a {b: *a}\n",
        "a: " + "[" * 900 + "]" * 900 + "\n",
        "a: " + "{b: " * 50_000 + "\n",
        "a:\n" + "".join(" " * n + "- \n" for n in range(1, 400)),
        "a: !!python/object/apply:os.system [echo]\n",
        "? [a]\n: b\n? {c: d}\n: e\n",
        "a: \x00\n",
        "a: " + "x" * 300_000 + "\n",
        "a: " + "9" * 10_000 + "\n",
        "a: =\nb: <<\n1: x\ntrue: y\nnull: z\n2024-01-01: w\n",
        "a: !!binary aGk=\nb: !!set {x, y}\nc: !!omap [x: 1]\nd: .inf\ne: .nan\nf: 1:30\n",
    ],
    ids=range(14),
)  # fmt: skip
@pytest.mark.timeout(20)
def test_hostile_yaml_is_read_or_reported_in_no_time(header: str) -> None:
    raw = yaml_file(header)
    topic = read_topic(raw)
    assert topic.problems or topic.extra
    assert topic.body.endswith("body")
    assert write_topic(raw, a_record_of(topic)) == raw
    assert split(raw).body == b"body\n"


def test_keys_that_are_no_text_are_kept_as_text() -> None:
    raw = yaml_file("7: x\nyes: y\nnull: z\n2024-01-01: w\na: .inf\n")
    assert read_topic(raw).extra == {
        "7": "x", "true": "y", "null": "z", "2024-01-01": "w", "a": "inf",
    }  # fmt: skip
