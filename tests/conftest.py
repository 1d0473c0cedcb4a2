"""Fixtures that every suite may use; nothing here reads the settings of whoever runs the tests."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from memory.engine.host import Host
from tests.support.homes import Home
from tests.support.hosts import open_host

# A shared machine may stop for a while in any example.
settings.register_profile("tiermem", deadline=None)
settings.load_profile("tiermem")

os.environ["ORT_DISABLE_TELEMETRY"] = "1"

for name in [name for name in os.environ if name.startswith("TIERMEM_")]:
    del os.environ[name]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    """A data home with real engine processes, embedding without a model so that it is quick."""
    place = Home(tmp_path / "home", tmp_path / "project")
    for variable, value in place.environment.items():
        monkeypatch.setenv(variable, value)
    yield place
    place.end()


@pytest.fixture
def make_host(tmp_path: Path) -> Iterator[Callable[..., Host]]:
    """Open homes in this process, with every store and sink but no socket."""
    hosts: list[Host] = []

    def make(**settings: str | int | float) -> Host:
        host = open_host(tmp_path / "home", **settings)
        hosts.append(host)
        return host

    yield make
    for host in hosts:
        host.stop()


@pytest.fixture
def host(make_host: Callable[..., Host]) -> Host:
    """One open home; nothing moves by itself: drain and look are called by the test."""
    return make_host()
