"""Open homes inside the test's process."""

from __future__ import annotations

from pathlib import Path

from memory.app import prepare_home
from memory.config import load_settings
from memory.engine.host import Host


def open_host(home: Path, **settings: str | int | float) -> Host:
    """Open a home without threads: the test drains and looks when it wants to.

    Settings are given with two underscores for the dot, as in `hot__settle_s=0`.
    """
    flags: dict[str, str | int | float] = {
        "embedding.model": "hashing",
        "owner": "tester",
        "hot.settle_s": 0.0,
        "deep.min_free_mb": 1,
    }
    flags |= {name.replace("__", "."): value for name, value in settings.items()}
    prepare_home(home)
    host = Host(load_settings(home=home, environment={}, flags=flags))
    host.app.reconciler.heads()
    return host
