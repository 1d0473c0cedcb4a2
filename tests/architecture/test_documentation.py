"""The documents say what the program does."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from memory.cli.main import cli
from memory.config import SETTINGS

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", sorted(cli.commands))
def test_every_verb_has_help_and_stands_in_the_readme(name: str) -> None:
    command = cli.commands[name]

    assert command.help
    assert re.search(rf"tiermem {name}\b", README + (cli.help or "")), f"no word on {name}"


def test_every_verb_that_the_readme_names_exists() -> None:
    named = set(re.findall(r"(?:^|`|\| |> )tiermem ([a-z][a-z-]*)", README, flags=re.MULTILINE))

    assert named
    assert named <= set(cli.commands)


def test_every_option_has_help() -> None:
    bare = [
        f"{name} {option.opts[0]}"
        for name, command in cli.commands.items()
        for option in command.params
        if isinstance(option, click.Option) and not option.hidden and not option.help
    ]

    assert bare == []


def test_every_setting_says_what_it_is_for() -> None:
    assert [name for name, setting in SETTINGS.items() if not setting.doc] == []


def test_the_version_of_the_changelog_is_the_one_that_is_built() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    version = re.search(r'^version = "(.+)"$', text, flags=re.MULTILINE)

    assert version is not None
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert "## [Unreleased]" in changelog or f"## [{version[1]}]" in changelog
