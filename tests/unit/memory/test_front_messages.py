"""What a client may write, and what it gets for it."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.shared.inbound import decode_header_value, encode_header_value

from memory.cli import front
from memory.cli.engine_link import header_value
from memory.cli.jsonrpc import Message, Refusal, encode, read, result_line


def line(**fields: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **fields}).encode() + b"\n"


def test_a_request_is_read_and_kept_as_it_came() -> None:
    raw = '{ "jsonrpc":"2.0", "id":7, "method":"tools/call", "params":{"name":"müde"} }'.encode()

    message = read(raw + b"\n")

    assert message == Message(raw, "tools/call", 7, {"name": "müde"})


@pytest.mark.parametrize("named", [0, -3, "", "a", 10**20])
def test_an_id_is_a_text_or_a_whole_number(named: int | str) -> None:
    message = read(line(id=named, method="ping"))

    assert isinstance(message, Message)
    assert message.id == named


def test_a_message_without_an_id_is_a_notification() -> None:
    message = read(line(method="notifications/initialized"))

    assert isinstance(message, Message)
    assert message.id is None


@pytest.mark.parametrize("around", ["{}\r\n", "\ufeff{}\n", "  {}\t\n", "{}"])
def test_what_editors_and_systems_put_around_a_line_does_no_harm(around: str) -> None:
    raw = line(id=1, method="ping").decode().strip()

    message = read(around.replace("{}", raw).encode())

    assert isinstance(message, Message)
    assert message.raw == raw.encode()


@pytest.mark.parametrize("raw", [b"\n", b"\r\n", b"  \n", b""])
def test_an_empty_line_needs_no_answer(raw: bytes) -> None:
    assert read(raw) is None


@pytest.mark.parametrize("fields", [{"id": 1, "result": {}}, {"id": 1, "error": {"code": 1}}])
def test_an_answer_of_the_client_needs_none(fields: dict[str, Any]) -> None:
    assert read(line(**fields)) is None


@pytest.mark.parametrize(
    "raw",
    [
        b"{",
        b"hello",
        b'{"jsonrpc":"2.0","id":1,"method":"ping"} {}',
        b'{"jsonrpc":"2.0","id":1,"method":"p\xff"}',
        b'{"jsonrpc":"2.0","id":NaN,"method":"ping"}',
        b'{"jsonrpc":"2.0","id":' + b"9" * 5000 + b',"method":"ping"}',
        b'{"jsonrpc":"2.0","id":1,"method":"m","params":' + b'{"a":' * 200_000,
        b"[" * 500_000 + b"]" * 500_000,
        '{"jsonrpc":"2.0","id":1,"method":"ping"}'.encode("utf-16"),
    ],
    ids=["open", "words", "two", "no-utf8", "nan", "huge-number", "deep", "deep-list", "utf-16"],
)
def test_what_is_no_json_is_refused_without_an_id(raw: bytes) -> None:
    refused = read(raw + b"\n")

    assert isinstance(refused, Refusal)
    assert (refused.code, refused.id) == (-32700, None)


@pytest.mark.parametrize(
    ("raw", "named"),
    [
        (b"[]", None),
        (line(id=1, method="ping").join((b"[", b"]")), None),
        (b'"ping"', None),
        (b"null", None),
        (b'{"id":1,"method":"ping"}', 1),
        (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', 1),
        (line(id=2), 2),
        (line(id="x", method=5), "x"),
        (line(id=None, method="ping"), None),
        (line(id=True, method="ping"), None),
        (line(id=1.5, method="ping"), None),
        (line(id=[1], method="ping"), None),
        (line(id=3, method="ping", params=[1]), 3),
        (line(id=4, method="ping", params="x"), 4),
    ],
)
def test_json_that_is_no_message_is_refused(raw: bytes, named: int | str | None) -> None:
    refused = read(raw)

    assert isinstance(refused, Refusal)
    assert (refused.code, refused.id) == (-32600, named)
    assert json.loads(refused.line())["error"]["message"]


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(st.binary() | st.builds(lambda data: json.dumps(data).encode(), _JSON))
def test_no_line_of_a_client_is_an_exception(raw: bytes) -> None:
    assert isinstance(read(raw), (Message, Refusal, type(None)))


@given(
    st.fixed_dictionaries(
        {},
        optional=dict.fromkeys(("jsonrpc", "id", "method", "params", "result", "error"), _JSON),
    )
)
def test_whatever_stands_in_a_message_is_no_exception(data: dict[str, Any]) -> None:
    assert isinstance(read(json.dumps(data).encode()), (Message, Refusal, type(None)))


@given(_JSON)
def test_what_is_written_is_one_line_of_ascii(data: Any) -> None:
    written = result_line(1, {"data": data})

    assert written.isascii()
    assert len(written.splitlines()) == 1


def test_half_a_character_in_an_id_comes_back_as_it_was() -> None:
    message = read(b'{"jsonrpc":"2.0","id":"\\ud800","method":"ping"}')

    assert isinstance(message, Message)
    assert encode({"id": message.id}) == b'{"id":"\\ud800"}'


# Headers.


@given(st.text(st.characters(exclude_categories=("Cs",))))
def test_a_name_is_written_into_a_header_as_the_protocol_says(text: str) -> None:
    assert header_value(text) == encode_header_value(text)
    assert decode_header_value(header_value(text)) == text


@pytest.mark.parametrize("text", ["=?base64?eA==?=", " edge", "edge ", "a\r\nX-Evil: 1", "", "ü"])
def test_a_name_that_could_not_stand_in_a_header_is_wrapped(text: str) -> None:
    written = header_value(text)

    assert written == encode_header_value(text)
    assert written.isprintable()


# Lines.


def read_lines(data: bytes) -> list[bytes | None]:
    return list(front.lines(io.BytesIO(data)))


def test_lines_are_told_apart_and_the_last_needs_no_end() -> None:
    assert read_lines(b"one\ntwo\r\n\nthree") == [b"one\n", b"two\r\n", b"\n", b"three"]


@pytest.mark.parametrize(("length", "is_kept"), [(9, True), (10, True), (11, False), (5000, False)])
def test_a_line_that_is_too_long_is_left_out_and_the_next_is_read(
    monkeypatch: pytest.MonkeyPatch, length: int, is_kept: bool
) -> None:
    monkeypatch.setattr(front, "LONGEST_LINE_BYTES", 10)
    monkeypatch.setattr(front, "_DISCARDED_BYTES", 16)
    long = b"x" * length

    found = read_lines(b"first\n" + long + b"\nlast\n" + long)

    kept = [long + b"\n", b"last\n", long] if is_kept else [None, b"last\n", None]
    assert found == [b"first\n", *kept]


def test_a_terminal_that_went_away_is_the_end() -> None:
    class Gone(io.BytesIO):
        def readline(self, size: int | None = -1, /) -> bytes:
            raise OSError(5, "Input/output error")

    assert list(front.lines(Gone())) == []
