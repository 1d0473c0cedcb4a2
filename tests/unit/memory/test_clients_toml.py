"""Tables come into TOML settings and go again, and nothing else in them changes."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.clients.toml_format import TomlError, TomlFormat

FORM = TomlFormat()
KEYS = ("mcp_servers", "tiermem")
ENTRY = {"command": "tiermem", "args": ["mcp"]}
BLOCK = '[mcp_servers.tiermem]\ncommand = "tiermem"\nargs = ["mcp"]\n'

LINES = [
    "",
    "# a remark",
    "   \t",
    'b = "x # no remark"',
    "c = [1,\n  [2], # three\n\n]",
    'd = """\n[mcp_servers.tiermem]\ncommand = "no"\n"""',
    "e = '''\n[mcp_servers]'''  # end",
    'f."g.h".i = { j = "}" , k = [ "[" ] }',
    "l = 1979-05-27 07:32:00",
    'm = "\\"\\\\"',
    'n = """quotes: ""\\""""""',
    "'o p' = -inf",
]
TABLES = [
    "[t]",
    "[[u.v]]",
    ' [ w . "x.y" ] # table',
    "[mcp_servers]",
    "[mcp_servers.other]",
    '[mcp_servers."tier.mem"]',
    "[mcp_servers.tiermem2.env]",
]


@st.composite
def settings(draw: st.DrawFn) -> str:
    """Draw settings that somebody else has laid out."""
    lines = draw(st.lists(st.sampled_from(LINES), unique=True, max_size=4))
    for table in draw(st.lists(st.sampled_from(TABLES), unique=True, max_size=4)):
        lines += [table, *draw(st.lists(st.sampled_from(LINES), unique=True, max_size=3))]
    text = "\n".join(lines) + draw(st.sampled_from(["", "\n", "\n\n"]))
    if draw(st.booleans()):
        text = text.replace("\n", "\r\n")
    return draw(st.sampled_from(["", "\ufeff"])) + text


def meaning(text: str) -> dict[str, Any]:
    return tomllib.loads(text.removeprefix("\ufeff"))


def with_ours(value: dict[str, Any]) -> dict[str, Any]:
    return {**value, "mcp_servers": {**value.get("mcp_servers", {}), "tiermem": ENTRY}}


@given(text=settings())
def test_a_table_comes_and_goes_without_a_trace(text: str) -> None:
    added = FORM.add(text, KEYS, ENTRY)

    assert meaning(added) == with_ours(meaning(text))
    assert added.startswith(text)
    assert FORM.remove(added, KEYS) == text


@given(before=settings(), after=st.lists(st.sampled_from(LINES), unique=True, max_size=3))
def test_a_table_goes_from_between_others(before: str, after: list[str]) -> None:
    added = FORM.add(before.replace("\r\n", "\n"), KEYS, ENTRY)
    text = "\n".join([added, "[z]", *after])

    removed = FORM.remove(text, KEYS)

    assert removed is not None
    assert meaning(removed) == {**meaning(before.replace("\r\n", "\n")), "z": meaning(text)["z"]}


def test_a_file_that_was_made_for_us_goes_with_us() -> None:
    text = FORM.new(KEYS, ENTRY)

    assert text == BLOCK
    assert FORM.remove(text, KEYS) is None
    assert FORM.remove(f"# mine\n{text}", KEYS) == "# mine"
    assert FORM.remove(f"{text}\n[x]\n", KEYS) == "\n[x]\n"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        pytest.param(
            'a = 1\n[mcp_servers.tiermem] # ours\ncommand = "x"\n# kept\n'
            '[mcp_servers.tiermem.env]\nK = "v"\n[b]\n',
            "a = 1\n# kept\n[b]\n",
            id="with-a-table-of-its-own",
        ),
        pytest.param(
            "[mcp_servers]\ntiermem = { command = 'x' }\nother.command = 'y'\n",
            "[mcp_servers]\nother.command = 'y'\n",
            id="inline",
        ),
        pytest.param(
            "mcp_servers.tiermem.command = 'x'\nmcp_servers.tiermem.args = [\n'mcp',\n]\nb = 1\n",
            "b = 1\n",
            id="dotted",
        ),
        pytest.param(
            'b = """\n[mcp_servers.tiermem]\n"""\n\n["mcp_servers" . tiermem]\ncommand = "x"\n',
            'b = """\n[mcp_servers.tiermem]\n"""\n',
            id="quoted",
        ),
    ],
)
def test_a_table_that_a_person_wrote_goes_alone(text: str, left: str) -> None:
    assert FORM.remove(text, KEYS) == left


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        (f"{BLOCK}# end", '[mcp_servers.tiermem]\ncommand = "new"\nargs = ["mcp"]\n# end'),
        (
            "[mcp_servers.tiermem]\r\ncommand='old' # why\r\n",
            '[mcp_servers.tiermem]\r\ncommand="new" # why\r\n',
        ),
        (
            "[mcp_servers.tiermem]\nargs = [\n 'mcp', # front\n]\n",
            "[mcp_servers.tiermem]\ncommand = \"new\"\nargs = [\n 'mcp', # front\n]\n",
        ),
    ],
)
def test_a_value_is_replaced_or_added_alone(text: str, changed: str) -> None:
    assert FORM.set(text, (*KEYS, "command"), "new") == changed


def test_texts_are_written_as_toml_has_them() -> None:
    text = FORM.new(KEYS, {"command": 'C:\\a "b" \x7f\n ü'})

    assert meaning(text)["mcp_servers"]["tiermem"]["command"] == 'C:\\a "b" \x7f\n ü'


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("a = \n", "line 1, column 5"),
        ("a = 1\na = 2\n", "line 2"),
        ("mcp_servers = 1\n", "mcp_servers is not a table"),
        ("mcp_servers = { a = {} }\n", "a way that is not edited"),
        ("[[mcp_servers]]\n", "mcp_servers is not a table"),
        ("mcp_servers.tiermem = 1\n", "a way that is not edited"),
        ("a = " + "[" * 5000, "too deep"),
    ],
)
def test_what_cannot_take_a_table_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(TomlError) as refused:
        FORM.add(text, KEYS, ENTRY)

    assert complaint in str(refused.value)


def test_a_table_inside_of_an_inline_one_is_left_to_its_owner() -> None:
    with pytest.raises(TomlError, match="not edited here"):
        FORM.remove('mcp_servers = { tiermem = { command = "x" } }\n', KEYS)
    with pytest.raises(TomlError, match="a table of its own"):
        FORM.set('mcp_servers = { tiermem = { command = "x" } }\n', (*KEYS, "command"), "y")
