"""The version of this installation. Standard library only."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def installed_version() -> str:
    """Read the version of the installed distribution; "0+source" when it is not installed."""
    try:
        return version("tiermem")
    except PackageNotFoundError:
        return "0+source"
