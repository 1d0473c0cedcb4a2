from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.redaction import KINDS, Found, Redacted, redact

BEGIN, END = (f"-----{mark} PRIVATE KEY-----" for mark in ("BEGIN", "END"))
PIECES = st.sampled_from(
    [
        "password", "=", ": ", '"', "'", "`", "token", "api_key", " is ", "\n", " ", "Bearer ",
        "://", "https://u:", "@h", "postgres://", BEGIN, "AKIA",
        END, "ABCDEFGH23456722", "gh" + "p_", "aB3" * 12, "eyJ" + "a1B" * 9,
        ".", "x9Y" * 12, "aws ", "#",
        "sk-", "[masked:jwt]", "[masked:", "]", "密码：", "🙂", "İ", "\\", "\\n", "a1", "Zz9!",
        "${",
    ]
)  # fmt: skip


@given(st.lists(PIECES, max_size=14).map("".join) | st.text(max_size=60))
def test_masking_is_idempotent_and_takes_any_text(text: str) -> None:
    once = redact(text)
    assert redact(once.text) == Redacted(once.text)
    assert all(found.kind in KINDS and found.count > 0 for found in once.found)
    assert (once.text == text) == (not once.found)


def test_a_secret_is_replaced_by_its_kind() -> None:
    key = "AK" + "IA" + "ABCDEFGH23456722"
    assert redact(f"a {key} b {key}") == Redacted(
        "a [masked:aws-access-key] b [masked:aws-access-key]", (Found("aws-access-key", 2),)
    )


def test_only_the_password_of_an_address_is_masked() -> None:
    address = "postgres://app:{}@db:5432/x?sslmode=require"
    assert redact(address.format("hunter2")).text == (
        "postgres://app:[masked:connection-string-password]@db:5432/x?sslmode=require"
    )


def test_the_more_telling_kind_wins_where_two_would_fit() -> None:
    token = "gh" + "p_" + "aB3" * 12
    for text in (f"token: {token}", f"Authorization: Bearer {token}", f"https://u:{token}@h/x"):
        assert redact(text).found == (Found("github-token", 1),)


def test_allowed_kinds_are_left_alone() -> None:
    text = "PASSWORD={0} https://u:{0}@h".format("hunter2")
    assert redact(text, allow=frozenset({"assigned-secret"})).text == (
        "PASSWORD=hunter2 https://u:[masked:basic-auth-url]@h"
    )


MEGABYTE = {
    "one character": "a",
    "base64": "QUtJQTEyMzQ1Njc4",
    "jwt heads": "eyJ",
    "split jwt heads": "-eyJ",
    "key begins": BEGIN + "\n",
    "keys without end": BEGIN + "\n" + "A" * 64 + "\n",
    "names": "password",
    "names and signs": "password=",
    "names and quotes": "password: '",
    "open quotes": 'token="',
    "open braces": "api_key={",
    "schemes": "://",
    "addresses": "a://b:",
    "one address": "http://a:" + "b" * 50_000,
    "bearers": "bearer ",
    "headers": "Authorization: ",
    "white space": " ",
    "back slashes": "\\",
    "dots": "password: a." + "a." * 20_000,
    "prefixes": "sk-gh" + "p_xoxb-",
    "aws": "aws A1b2C3d4",
    "not ascii": "密码：é🙂",
    "twilio": "twilio ",
}  # fmt: skip


@pytest.mark.parametrize("name", MEGABYTE)
@pytest.mark.timeout(60)
def test_a_hostile_megabyte_takes_linear_time(name: str) -> None:
    """With time in the square of the length any of these would take hours."""
    piece = MEGABYTE[name]
    text = piece * (1_000_000 // len(piece))
    result = redact(text)
    assert len(result.text) <= len(text)
    assert bool(result.found) == (name == "keys without end")


def test_the_module_needs_nothing_but_the_standard_library() -> None:
    code = (
        "import sys; import memory.redaction; "
        "sys.exit(bool({m.partition('.')[0] for m in sys.modules} "
        "- set(sys.stdlib_module_names) - {'memory', '__main__'}))"
    )
    assert subprocess.run([sys.executable, "-S", "-c", code], check=False).returncode == 0
