"""Members come into JSON settings and go again, and nothing else in them changes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memory.clients.json_format import JsonFormat
from memory.clients.jsonc import Dialect, JsonError, parse

PLAIN = JsonFormat(Dialect())
COMMENTED = JsonFormat(Dialect(comments=True))
RELAXED = JsonFormat(Dialect(comments=True, trailing_commas=True))

KEYS = ("mcpServers", "tiermem")
ENTRY = {"command": "tiermem", "args": ["mcp"]}

BLANKS = st.lists(st.sampled_from([" ", "\n", "\r\n", "\t", "\n    ", "\r"]), max_size=2)
REMARKS = st.lists(
    st.sampled_from(
        [
            *(" ", "\n", "\r\n", "\n\t", "/**/", "/* , } */", "/*\n*/", "// {\n"),
            *('// "tiermem": {}\r\n', "//\r", " // c\n  "),
        ]
    ),
    max_size=3,
)
NAMES = st.sampled_from(["a", "b", "tier", "mcp", "ü", 'q"\\', "", "\u2028"])
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=4),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)


class Writer:
    """Writes a value with white space and remarks wherever they may stand."""

    def __init__(self, draw: st.DrawFn, dialect: Dialect) -> None:
        self._draw = draw
        self._gaps = REMARKS if dialect.comments else BLANKS
        self._may_trail = dialect.trailing_commas

    def gap(self) -> str:
        return "".join(self._draw(self._gaps))

    def value(self, value: Any) -> str:
        if isinstance(value, dict):
            return self._items(
                "{}",
                [
                    f"{json.dumps(key)}{self.gap()}:{self.gap()}{self.value(item)}"
                    for key, item in value.items()
                ],
            )
        if isinstance(value, list):
            return self._items("[]", [self.value(item) for item in value])
        return json.dumps(value, ensure_ascii=self._draw(st.booleans()))

    def _items(self, braces: str, items: list[str]) -> str:
        parts = [f"{self.gap()}{item}{self.gap()}" for item in items]
        if items and self._may_trail and self._draw(st.booleans()):
            parts.append(self.gap())
        return f"{braces[0]}{','.join(parts) or self.gap()}{braces[1]}"


@st.composite
def settings(draw: st.DrawFn, form: JsonFormat, *, with_ours: bool = False) -> str:
    """Draw settings that somebody else has laid out, with or without servers in them."""
    value = draw(st.dictionaries(NAMES, VALUES, max_size=3))
    servers = draw(st.dictionaries(NAMES, VALUES, max_size=2))
    if with_ours:
        servers["tiermem"] = {"command": "tiermem", "env": {"A": "b"}}
    if with_ours or draw(st.booleans()):
        value["mcpServers"] = servers
    value = dict(draw(st.permutations(list(value.items()))))
    writer = Writer(draw, form.dialect)
    end = draw(st.sampled_from(["", "// end"])) if form.dialect.comments else ""
    return draw(st.sampled_from(["", "\ufeff"])) + "".join(
        (writer.gap(), writer.value(value), writer.gap(), end)
    )


def remarks(form: JsonFormat, text: str) -> list[str]:
    tokens = parse(text, form.dialect).tokens
    return [text[token.start : token.end] for token in tokens if token.is_comment]


def with_ours(value: dict[str, Any]) -> dict[str, Any]:
    return {**value, "mcpServers": {**value.get("mcpServers", {}), "tiermem": ENTRY}}


@pytest.mark.parametrize("form", [PLAIN, COMMENTED, RELAXED], ids=["plain", "commented", "relaxed"])
@given(data=st.data())
def test_a_member_comes_and_goes_without_a_trace(form: JsonFormat, data: st.DataObject) -> None:
    text = data.draw(settings(form))

    added = form.add(text, KEYS, ENTRY)

    assert form.read(added) == with_ours(form.read(text))
    assert list(form.read(added)["mcpServers"])[-1] == "tiermem"
    assert remarks(form, added) == remarks(form, text)
    assert form.remove(added, KEYS) == text


@given(data=st.data())
def test_a_member_that_a_person_laid_out_goes_alone(data: st.DataObject) -> None:
    text = data.draw(settings(RELAXED, with_ours=True))
    before = RELAXED.read(text)

    removed = RELAXED.remove(text, KEYS)

    del before["mcpServers"]["tiermem"]
    after = RELAXED.read(removed) if removed is not None else {}
    assert after in (before, {k: v for k, v in before.items() if k != "mcpServers"})
    assert "mcpServers" in after or not before["mcpServers"]


@given(data=st.data())
def test_a_value_is_replaced_alone(data: st.DataObject) -> None:
    text = data.draw(settings(RELAXED, with_ours=True))
    expected = RELAXED.read(text)

    changed = RELAXED.set(text, (*KEYS, "command"), "/opt/tiermem")
    changed = RELAXED.set(changed, (*KEYS, "args"), ["mcp"])

    expected["mcpServers"]["tiermem"] |= {"command": "/opt/tiermem", "args": ["mcp"]}
    assert RELAXED.read(changed) == expected
    assert remarks(RELAXED, changed) == remarks(RELAXED, text)


@pytest.mark.parametrize(
    ("text", "added"),
    [
        pytest.param("{}", '{"mcpServers": {\n  "tiermem": @\n}}', id="empty"),
        pytest.param(
            '{"mcpServers": {}}\n', '{"mcpServers": {"tiermem": @}}\n', id="empty-servers"
        ),
        pytest.param(
            '{\n  "a": 1\n}\n',
            '{\n  "a": 1,\n  "mcpServers": {\n    "tiermem": @\n  }\n}\n',
            id="two-spaces",
        ),
        pytest.param(
            '{\r\n\t"mcpServers": {\r\n\t\t"x": {} // last\r\n\t}\r\n}',
            '{\r\n\t"mcpServers": {\r\n\t\t"x": {}, // last\r\n\t\t"tiermem": @\r\n\t}\r\n}',
            id="tabs-and-crlf",
        ),
        pytest.param(
            '{\n    "mcpServers": {\n        "x": {},\n    },\n}',
            '{\n    "mcpServers": {\n        "x": {},\n        "tiermem": @,\n    },\n}',
            id="trailing-comma",
        ),
        pytest.param(
            '{"mcpServers": {"x": {}}}',
            '{"mcpServers": {"x": {}, "tiermem": {"command": "tiermem", "args": ["mcp"]}}}',
            id="one-line",
        ),
        pytest.param(
            "{\n  // none yet\n}",
            '{\n  // none yet\n  "mcpServers": {\n    "tiermem": @\n  }\n}',
            id="only-a-remark",
        ),
    ],
)
def test_what_is_added_looks_like_what_is_there(text: str, added: str) -> None:
    result = RELAXED.add(text, KEYS, ENTRY)

    newline = "\r\n" if "\r\n" in text else "\n"
    pieces = result.split('"tiermem": {')[1].split("}")[0].split(newline)
    if "@" in added:
        assert len(pieces) == 4
        inner = "{" + newline.join(pieces) + "}"
        assert result == added.replace("@", inner)
    else:
        assert result == added
    assert RELAXED.remove(result, KEYS) == text


def test_a_file_that_was_made_for_us_goes_with_us() -> None:
    assert PLAIN.remove(PLAIN.new(KEYS, ENTRY), KEYS) is None


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda text: text.replace("{\n", '{\n  "b": 1,\n', 1), id="another-key"),
        pytest.param(lambda text: "// mine\n" + text, id="a-remark"),
    ],
)
def test_a_file_with_something_else_in_it_stays(change: Any) -> None:
    text = change(RELAXED.new(KEYS, ENTRY))

    assert RELAXED.remove(text, KEYS) is not None


def test_servers_that_came_later_stay() -> None:
    text = '{\n  "a": 1\n}\n'
    added = PLAIN.add(PLAIN.add(text, KEYS, ENTRY), ("mcpServers", "later"), {})

    removed = PLAIN.remove(added, KEYS)

    assert removed is not None
    assert PLAIN.read(removed) == {"a": 1, "mcpServers": {"later": {}}}


def test_what_stands_behind_a_remark_does_not_become_a_part_of_it() -> None:
    text = '{"mcpServers": { // ours\n"tiermem": {}, "x": {}}}'

    assert RELAXED.remove(text, KEYS) == '{"mcpServers": { // ours\n "x": {}}}'


# What is refused.


@pytest.mark.parametrize(
    ("form", "text", "complaint"),
    [
        pytest.param(PLAIN, "", "ends too early, at line 1, column 1", id="empty"),
        pytest.param(PLAIN, '{"a": 1', "ends too early, at line 1, column 8", id="unclosed"),
        pytest.param(PLAIN, '{\n  "a" 1}', "'1' is not expected at line 2, column 7", id="colon"),
        pytest.param(PLAIN, "{'a': 1}", '"\'" is not expected at line 1, column 2', id="quotes"),
        pytest.param(PLAIN, "{} {}", "'{' is not expected at line 1, column 4", id="two"),
        pytest.param(PLAIN, "{a: 1}", "'a' is not expected at line 1, column 2", id="bare-key"),
        pytest.param(PLAIN, '{"a": 01}', "not expected", id="number"),
        pytest.param(PLAIN, '{"a": "\\x"}', "Invalid \\escape at line 1, column 7", id="escape"),
        pytest.param(
            PLAIN, "{\r\n// c\r\n}", "a comment, which plain JSON has not, at line 2", id="c"
        ),
        pytest.param(COMMENTED, '{"a": 1,}', "nothing after it at line 1, column 8", id="comma"),
        pytest.param(RELAXED, "{,}", "',' is not expected", id="only-a-comma"),
        pytest.param(RELAXED, "{/* c", "'/' is not expected", id="open-remark"),
        pytest.param(RELAXED, "[]", "it holds a list, not an object", id="list"),
        pytest.param(RELAXED, "null", "it holds null, not an object", id="null"),
        pytest.param(PLAIN, "[" * 5000, "more than 100 deep", id="deep"),
        pytest.param(PLAIN, '{"a": ' + "1" * 5000 + "}", "at line 1, column 7", id="long-number"),
    ],
)
def test_what_a_client_could_not_read_is_refused(
    form: JsonFormat, text: str, complaint: str
) -> None:
    with pytest.raises(JsonError) as refused:
        form.add(text, KEYS, ENTRY)

    assert complaint in str(refused.value)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('{\n "mcpServers": []}', "mcpServers is a list, not an object, at line 2, column 16"),
        ('{"mcpServers": null}', "mcpServers is null, not an object"),
        ('{"mcpServers": {"tiermem": 1}}', "mcpServers.tiermem is there already"),
        (
            '{"mcpServers": {},\n "mcpServers": {}}',
            "'mcpServers' stands there more than once: at line 1, column 2 and at line 2, column 2",
        ),
    ],
)
def test_a_place_that_cannot_take_it_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(JsonError) as refused:
        PLAIN.add(text, KEYS, ENTRY)

    assert complaint in str(refused.value)


@given(text=st.text(st.sampled_from('{}[]:,"/*\\ \n-0.e+1au'), max_size=12))
@example('{"a":1,}')
@example("-")
@example("1.e1")
def test_plain_json_is_what_python_takes_for_it(text: str) -> None:
    try:
        expected = [json.loads(text)]
    except ValueError:
        expected = []

    try:
        found = [parse(text, Dialect()).root.value]
    except JsonError:
        found = []

    assert found == expected
