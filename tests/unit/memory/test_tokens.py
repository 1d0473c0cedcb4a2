"""Tokens: one file a project, read at each use, trusted only when nobody else can read it."""

from __future__ import annotations

import json
import multiprocessing
import stat
import uuid
from datetime import UTC, datetime
from pathlib import Path

import pytest

from memory.errors import TokenFileRefused, UsageError
from memory.tokens import Tokens

PROJECT = "6f1d3f0e-2b1c-4f5d-9c1a-0123456789ab"
OTHER = "11111111-2222-4333-8444-555555555555"
NOW = datetime(2026, 11, 30, tzinfo=UTC)


@pytest.fixture
def tokens(tmp_path: Path) -> Tokens:
    return Tokens(tmp_path)


def give(tokens: Tokens, owner: str = "anna", *, may_global: bool | None = None) -> str:
    return tokens.give(PROJECT, owner, may_global=may_global, now=NOW).text


def test_a_token_is_found_by_its_text_alone(tokens: Tokens) -> None:
    text = give(tokens)

    found = tokens.find(text)

    assert found is not None
    assert (found.project, found.owner, found.may_global) == (PROJECT, "anna", False)
    assert text.startswith(f"tm1.{uuid.UUID(PROJECT).hex}.")


def test_a_token_stays_the_same_until_it_is_rotated(tokens: Tokens) -> None:
    first = give(tokens)
    assert give(tokens) == first

    second = tokens.rotate(PROJECT, "anna", may_global=None, now=NOW).text

    assert tokens.find(first) is None
    assert tokens.find(second) is not None


def test_a_secret_has_at_least_256_bits_and_is_not_shown_by_accident(tokens: Tokens) -> None:
    token = tokens.give(PROJECT, "anna", may_global=None, now=NOW)

    assert len(token.secret) * 6 >= 256
    assert token.secret not in repr(token)


def test_each_owner_has_a_token_of_its_own(tokens: Tokens) -> None:
    anna, bert = give(tokens, "anna"), give(tokens, "bert", may_global=True)

    assert tokens.revoke(PROJECT, "anna")

    assert tokens.find(anna) is None
    found = tokens.find(bert)
    assert found is not None and found.owner == "bert" and found.may_global


def test_what_it_opens_changes_only_when_that_is_said(tokens: Tokens) -> None:
    text = give(tokens, may_global=True)

    rotated = tokens.rotate(PROJECT, "anna", may_global=None, now=NOW)
    narrowed = tokens.give(PROJECT, "anna", may_global=False, now=NOW)

    assert rotated.may_global and rotated.text != text
    assert narrowed.text == rotated.text and not narrowed.may_global


def test_revoking_what_is_not_there_changes_nothing(tokens: Tokens, tmp_path: Path) -> None:
    assert not tokens.revoke(PROJECT, "anna")
    assert list(tmp_path.iterdir()) == []


def test_a_home_is_empty_until_it_has_a_token(tokens: Tokens) -> None:
    assert tokens.is_empty()
    give(tokens)
    assert not tokens.is_empty()
    tokens.revoke(PROJECT, "anna")
    assert tokens.is_empty()


def test_only_its_user_can_read_the_file(tokens: Tokens) -> None:
    give(tokens)

    assert stat.S_IMODE(tokens.path(PROJECT).stat().st_mode) == 0o600


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o666])
def test_a_file_that_others_can_read_or_write_opens_nothing(tokens: Tokens, mode: int) -> None:
    text = give(tokens)
    tokens.path(PROJECT).chmod(mode)

    with pytest.raises(TokenFileRefused) as refused:
        tokens.find(text)

    assert "chmod 600" in refused.value.hint
    with pytest.raises(TokenFileRefused):
        give(tokens, "bert")


def test_a_link_to_another_file_opens_nothing(tokens: Tokens, tmp_path: Path) -> None:
    text = give(tokens)
    path = tokens.path(PROJECT)
    path.rename(tmp_path / "elsewhere.json")
    path.symlink_to(tmp_path / "elsewhere.json")

    with pytest.raises(TokenFileRefused):
        tokens.find(text)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        '{"tokens": 5}',
        '{"tokens": [{"owner": "anna"}]}',
        '{"tokens": [{"owner": "a", "secret": "", "may_global": false, "created_at": ""}]}',
        '{"tokens": [{"owner": "a", "secret": null, "may_global": 1, "created_at": ""}]}',
        "[" * 100_000,
    ],
)
def test_a_damaged_file_is_refused_and_left_as_it_is(tokens: Tokens, content: str) -> None:
    text = give(tokens)
    tokens.path(PROJECT).write_text(content, encoding="utf-8")

    with pytest.raises(TokenFileRefused):
        tokens.find(text)
    with pytest.raises(TokenFileRefused):
        give(tokens)
    assert tokens.path(PROJECT).read_text(encoding="utf-8") == content


@pytest.mark.parametrize(
    "text",
    [
        "",
        "tm1",
        "tm1..",
        f"tm1.{'0' * 32}.{'x' * 43}",
        f"tm1.../../../etc/passwd.{'x' * 43}",
        f"tm1.{PROJECT}.{'x' * 43}",
        f"tm1.{uuid.UUID(PROJECT).hex.upper()}.{'x' * 43}",
        f"tm2.{uuid.UUID(PROJECT).hex}.{'x' * 43}",
        f"tm1.{uuid.UUID(PROJECT).hex}.{'x' * 42}",
        f"tm1.{uuid.UUID(PROJECT).hex}.{'x' * 44}",
        f"tm1.{uuid.UUID(PROJECT).hex}.{'é' * 43}",
        f"tm1.{uuid.UUID(PROJECT).hex}.{'x' * 42}\n",
    ],
)
def test_another_text_opens_nothing(tokens: Tokens, text: str) -> None:
    give(tokens)

    assert tokens.find(text) is None


def test_a_secret_opens_its_own_project_alone(tokens: Tokens) -> None:
    text = give(tokens)
    tokens.give(OTHER, "anna", may_global=None, now=NOW)

    assert tokens.find(text.replace(uuid.UUID(PROJECT).hex, uuid.UUID(OTHER).hex)) is None


@pytest.mark.parametrize("key", ["", "../x", "no", PROJECT.upper(), uuid.UUID(PROJECT).hex])
def test_a_key_that_is_no_uuid_is_no_path(tokens: Tokens, key: str) -> None:
    with pytest.raises(UsageError):
        tokens.path(key)


@pytest.mark.parametrize("owner", ["", "  ", "a\nb", "x" * 201])
def test_an_owner_has_a_name(tokens: Tokens, owner: str) -> None:
    with pytest.raises(UsageError):
        give(tokens, owner)


def _give_many(home: Path, prefix: str) -> None:
    for number in range(20):
        Tokens(home).give(PROJECT, f"{prefix}{number}", may_global=None, now=NOW)


def test_processes_that_give_tokens_at_once_lose_none(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_give_many, args=(tmp_path, p)) for p in "abc"]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)

    assert len(Tokens(tmp_path).of(PROJECT)) == 60
    kept = json.loads(Tokens(tmp_path).path(PROJECT).read_text(encoding="utf-8"))
    assert set(kept["tokens"][0]) == {"owner", "secret", "may_global", "created_at"}
