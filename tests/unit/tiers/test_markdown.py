from __future__ import annotations

import ast
import contextlib
import subprocess
import sys

import pytest

from tiers.errors import HeaderNotParsed
from tiers.markdown import (
    HeaderStyle,
    Value,
    canonical_body,
    join,
    patch,
    render,
    scan_header,
    split,
)

FILES = {
    "crlf": b"---\r\nname: a\r\n---\r\nbody\r\n",
    "bom": b"\xef\xbb\xbf---\nname: a\n---\nbody\n",
    "no header": b"# Title\n\nbody\n",
    "unclosed": b"---\nname: a\nbody\n",
    "invalid": b"---\nname: [a\n---\nbody\n",
    "toml": b'+++\nname = "a"\n+++\nbody\n',
    "fence": b"---\nname: a\n---\n```\n---\nx: 1\n---\n```\n",
    "empty": b"",
    "non-utf-8": b"---\nname: a\n---\nb\xff\xfe\n",
    "no last newline": b"---\nname: a\n---\nbody",
    "trailing spaces": b"---  \nname: a\n--- \t\nbody\n",
    "header only": b"---\nname: a\n---",
    "mixed newlines": b"---\r\nname: a\nx: b\r\n---\nbody\r\nmore\rlast\n",
    "empty header": b"---\n---\nbody\n",
    "100 kB": b"---\nname: a\n---\n" + b"a line of text\n" * 7000,
}


@pytest.mark.parametrize("raw", FILES.values(), ids=FILES)
def test_a_file_taken_apart_is_the_same_file(raw: bytes) -> None:
    assert join(split(raw)) == raw
    assert patch(raw, {}) == raw


@pytest.mark.parametrize("case", sorted(set(FILES) - {"no header", "unclosed", "invalid", "empty"}))
def test_one_changed_key_changes_its_own_line_alone(case: str) -> None:
    raw = FILES[case]
    old, new = (b'"a"', b'"b c"') if case == "toml" else (b"name: a", b"name: b c")
    expected = (
        b"---\nname: b c\n---\nbody\n" if case == "empty header" else raw.replace(old, new, 1)
    )
    assert patch(raw, {"name": "b c"}) == expected


def test_a_header_ends_at_its_first_mark_and_not_in_a_code_fence() -> None:
    parts = split(FILES["fence"])
    assert parts.header_lines == ["name: a\n"]
    assert parts.body_text == "```\n---\nx: 1\n---\n```"

    unclosed = split(b"---\nname: a\n# Title\n```\n---\nx: 1\n```\n")
    assert unclosed.unclosed
    assert unclosed.style is HeaderStyle.NONE


@pytest.mark.parametrize(
    "raw", [b"text\n---\nname: a\n---\n", b" ---\na: b\n---\n", b"----\na: b\n----\n"]
)
def test_only_the_first_line_opens_a_header(raw: bytes) -> None:
    parts = split(raw)
    assert parts.style is HeaderStyle.NONE
    assert not parts.unclosed
    assert parts.body == raw


def test_a_header_that_is_never_closed_is_reported_and_never_changed() -> None:
    parts = split(FILES["unclosed"])
    assert [str(problem) for problem in parts.problems] == [
        "line 1: the header that opens here is never closed"
    ]
    assert parts.body == FILES["unclosed"]
    with pytest.raises(HeaderNotParsed) as refused:
        patch(FILES["unclosed"], {"name": "b"})
    assert refused.value.hint
    with pytest.raises(HeaderNotParsed):
        patch(FILES["unclosed"], {}, "new body")


def test_bytes_that_are_not_utf_8_are_reported_with_their_line() -> None:
    parts = split(FILES["non-utf-8"])
    assert [str(problem) for problem in parts.problems] == ["line 4: byte 0xff is not UTF-8"]
    assert parts.body_text == "b\ufffd\ufffd"
    with pytest.raises(HeaderNotParsed):
        patch(b"---\nname: \xe9\n---\n", {"name": "b"})
    with pytest.raises(HeaderNotParsed):
        patch("# Título".encode("utf-16"), {"name": "b"})


def test_a_file_without_a_header_gets_one_only_for_a_key() -> None:
    assert patch(b"# T\n", {"name": None}) == b"# T\n"
    assert patch(b"# T\n", {"name": "x"}) == b"---\nname: x\n---\n\n# T\n"
    assert patch(b"\xef\xbb\xbf# T\r\n", {"name": "x"}) == (
        b"\xef\xbb\xbf---\r\nname: x\r\n---\r\n\r\n# T\r\n"
    )
    assert patch(b"", {"name": "x"}) == b"---\nname: x\n---\n"
    assert patch(b"# T", {}, "new") == b"new"


def test_new_keys_go_to_the_end_and_removed_ones_take_their_lines_along() -> None:
    raw = b"---\n# first\nname: a\ntags:\n  - x\n  - y\n# last\n---\nbody"
    assert patch(raw, {"pinned": True, "tags": None}) == (
        b"---\n# first\nname: a\n# last\npinned: true\n---\nbody"
    )


@pytest.mark.parametrize(
    ("header", "changes", "expected"),
    [
        ("name:   a   # why\n", {"name": "b"}, "name:   b   # why\n"),
        ("tags: [a, b] # see [c]\n", {"tags": ["d"]}, "tags: [d] # see [c]\n"),
        ('name: "a # b" # c\n', {"name": "d: e"}, 'name: "d: e" # c\n'),
        ("name: # c\n", {"name": "d"}, "name: d  # c\n"),
        ("tags: # c\n  - a\n  - b\n", {"tags": ["x", "yes"]}, 'tags: # c\n  - x\n  - "yes"\n'),
        ("tags:\n- a\nname: n\n", {"tags": ["x", "z"]}, "tags:\n- x\n- z\nname: n\n"),
        ("d: |\n  a\n\n  # b\nx: 1\n", {"d": "e"}, "d: e\nx: 1\n"),
        ("d: >-\n  a\n\n# c\nx: 1\n", {"d": "e"}, "d: e\n\n# c\nx: 1\n"),
        ('d: "a\n  b: c"\nx: 1\n', {"d": "e"}, "d: e\nx: 1\n"),
        ("d: [a,\n  b]\nx: 1\n", {"d": ["e"]}, "d: [e]\nx: 1\n"),
        ("'na''me': a\n", {"na'me": "b"}, "'na''me': b\n"),
        ("metadata:\n  type: user\n  # c\n  x: 1\n", {"metadata.type": "feedback"},
         "metadata:\n  type: feedback\n  # c\n  x: 1\n"),
        ("metadata:\n    x: 1\na: b\n", {"metadata.type": "user"},
         "metadata:\n    x: 1\n    type: user\na: b\n"),
        ("a: b\n", {"m": {"x": "v", "k": 1}}, "a: b\nm:\n  x: v\n  k: 1\n"),
        ("a.b: c\n", {"a.b": "d"}, "a.b: d\n"),
    ],
)  # fmt: skip
def test_yaml_lines_are_patched_in_their_own_style(
    header: str, changes: dict[str, Value], expected: str
) -> None:
    for newline in ("\n", "\r\n"):
        raw, wanted = (
            f"---\n{text}---\nbody".replace("\n", newline) for text in (header, expected)
        )
        assert patch(raw.encode(), changes).decode() == wanted


@pytest.mark.parametrize(
    ("header", "changes", "expected"),
    [
        ('name  = "a"  # why\n', {"name": "b"}, 'name  = "b"  # why\n'),
        ('t = [\n "a", # x\n]\nn = 1\n', {"t": ["b"]}, 't = ["b"]\nn = 1\n'),
        ('# c\na = 1\n\n[m]\nx = 1\n', {"b": "c"}, '# c\na = 1\nb = "c"\n\n[m]\nx = 1\n'),
        ('[m]\ntype = "user"\n[n]\nz = 1\n', {"m.type": "feedback", "m.k": 2},
         '[m]\ntype = "feedback"\nk = 2\n[n]\nz = 1\n'),
        ('m.type = "user"\n', {"m.type": "feedback"}, 'm.type = "feedback"\n'),
        ('a = """x\n# y\n"""\nb = 2\n', {"a": None}, "b = 2\n"),
        ("", {"a": "1", "b": True}, 'a = "1"\nb = true\n'),
        ('a = 2024-01-01 # d\n', {"b": [1.5, "x"]}, 'a = 2024-01-01 # d\nb = [1.5, "x"]\n'),
    ],
)  # fmt: skip
def test_toml_statements_are_patched_one_by_one(
    header: str, changes: dict[str, Value], expected: str
) -> None:
    raw, wanted = (f"+++\n{text}+++\nbody" for text in (header, expected))
    assert patch(raw.encode(), changes).decode() == wanted


@pytest.mark.parametrize(
    ("header", "changes"),
    [
        ("name: a\nname: b\n", {"name": "c"}),
        ("name: a\njust words\n", {"name": "c"}),
        ("\tname: a\n", {"name": "c"}),
        ("name: [a\n", {"name": "c"}),
        ('name: "a\n', {"x": "c"}),
        ("{name: a}\n", {"name": "c"}),
        ("? name\n: a\n", {"name": "c"}),
        ("metadata: {type: user}\n", {"metadata.type": "feedback", "metadata.x": "c"}),
        ("name: a\u2028tags: b\n", {"name": "c"}),
    ],
)
def test_a_header_that_cannot_be_scanned_is_refused(header: str, changes: dict[str, Value]) -> None:
    raw = f"---\n{header}---\nbody".encode()
    if header.startswith("metadata"):
        # The value is one flow mapping: a key below it has no line of its own.
        assert scan_header(split(raw)) == {"metadata": {"type": "user"}}
    with pytest.raises(HeaderNotParsed):
        patch(raw, changes)


@pytest.mark.parametrize("header", ["a = \n", "a = 1\na = 2\n", "a = {b = 1}\nc\n", "\x00 = 1\n"])
def test_toml_that_does_not_parse_is_refused_and_scanned_as_nothing(header: str) -> None:
    raw = f"+++\n{header}+++\n".encode()
    assert scan_header(split(raw)) == {}
    with pytest.raises(HeaderNotParsed):
        patch(raw, {"b": "c"})


def test_a_new_body_keeps_the_blank_lines_around_the_old_one_and_its_newlines() -> None:
    raw = b"---\r\nname: a\r\n---\r\n\r\n\r\nold\r\n\r\n"
    assert patch(raw, {}, "new\nlines\n\n\n") == (
        b"---\r\nname: a\r\n---\r\n\r\n\r\nnew\r\nlines\r\n\r\n"
    )
    assert patch(FILES["no last newline"], {}, "new\n").endswith(b"\nnew")
    assert patch(FILES["mixed newlines"], {}, "body\nmore\nlast") == FILES["mixed newlines"]
    assert patch(b"---\nname: a\n---\n", {}, "new") == b"---\nname: a\n---\n\nnew\n"


def test_a_body_that_looks_like_a_header_stays_a_body() -> None:
    trap = "---\nid: 9\n---\nx"
    for raw in (patch(b"old\n", {}, trap), render({}, trap), render({"name": "n"}, trap)):
        assert split(raw).body_text == trap


def test_headers_are_scanned_without_yaml() -> None:
    raw = b"""---
name: plain text # comment
quoted: "a \\"b\\" \\u00e9 # no"
single: 'it''s'
list: [a, "b, c", 'd', 7]
block:
  - one  # c
  - "two: 2"
flat:
- x
literal: |
  line 1

  line 2
folded: >
  one
  two
metadata:
  type: user
  other: "x"
flow: {a: 1, b: "c:d"}
long: one
  two
empty:
none: ~
no key here
url: http://x.y/#z
"quoted key": v
---
"""
    assert scan_header(split(raw)) == {
        "name": "plain text",
        "quoted": 'a "b" é # no',
        "single": "it's",
        "list": ["a", "b, c", "d", "7"],
        "block": ["one", "two: 2"],
        "flat": ["x"],
        "literal": "line 1\n\nline 2",
        "folded": "one two",
        "metadata": {"type": "user", "other": "x"},
        "flow": {"a": "1", "b": "c:d"},
        "long": "one two",
        "empty": "",
        "none": "",
        "url": "http://x.y/#z",
        "quoted key": "v",
    }
    toml = b'+++\nname = "a"\ntags = ["b", 1]\nd = 2024-01-01\n[m]\nx = true\n+++\n'
    assert scan_header(split(toml)) == {
        "name": "a",
        "tags": ["b", "1"],
        "d": "2024-01-01",
        "m": {"x": "true"},
    }


def test_a_new_file_has_its_keys_in_the_order_given() -> None:
    assert render(
        {"name": "a: b", "tags": ["x", "no"], "gone": None, "m": {"k": 1}}, "\nbody\n\n"
    ) == (b'---\nname: "a: b"\ntags: [x, "no"]\nm:\n  k: 1\n---\n\nbody\n')
    assert render({}, "body") == b"body\n"
    assert render({}, "") == b""
    assert render({"a": "b"}, "") == b"---\na: b\n---\n"


def test_a_body_has_one_canonical_form() -> None:
    assert canonical_body("\r\n \n  code\r\nmore\rlast \n\n") == "  code\nmore\nlast"
    assert canonical_body("\ud800") == "\ufffd"


@pytest.mark.parametrize(
    "raw",
    [
        b"---\n" + b"a: [\n" * 25_000 + b"---\n",
        b"---\n" + b'a: "\n' * 25_000 + b"---\n",
        b"---\na: [" + b"'" * 100_000 + b"]\n---\n",
        b"---\na" + b" " * 100_000 + b"\n---\n",
        b"---\na:" + b" #" * 50_000 + b"\n---\n",
        b"---\n" + b"a:\n\n" * 25_000 + b"---\n",
        b"---\na: [" + b"[" * 100_000 + b"\n---\n",
    ],
)
@pytest.mark.timeout(20)
def test_a_hostile_header_of_100_kb_takes_linear_time(raw: bytes) -> None:
    scan_header(split(raw))
    with contextlib.suppress(HeaderNotParsed):
        patch(raw, {"name": "x"})


def test_the_module_needs_nothing_but_the_standard_library() -> None:
    code = (
        "import sys; import tiers.markdown; "
        "print(sorted({m.partition('.')[0] for m in sys.modules} - set(sys.stdlib_module_names)))"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", code], capture_output=True, encoding="utf-8", check=True
    )
    assert set(ast.literal_eval(done.stdout)) <= {"tiers", "__main__"}
