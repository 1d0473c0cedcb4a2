"""How a client starts tiermem on this machine."""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

_PROGRAM = "tiermem"
_LAUNCHER = Path(__file__).resolve().parents[2] / "tiermem_launch.py"


@dataclass(frozen=True, slots=True)
class Launch:
    """The words that start the command line; `warning` says why they may not."""

    words: tuple[str, ...]
    warning: str = ""


def find_launch(*, shared: bool) -> Launch:
    """Find the words to start tiermem with.

    What is shared with others through a repository names the program alone, since paths differ.
    """
    found = shutil.which(_PROGRAM)
    is_lasting = found is not None and not _lies_in_active_environment(found)
    if is_lasting or shared:
        return Launch((_PROGRAM,), "" if is_lasting else _warning(found))
    own = shutil.which(_PROGRAM, path=str(Path(sys.executable).parent))
    return Launch((own,) if own else (sys.executable, str(_LAUNCHER)))


def _lies_in_active_environment(program: str) -> bool:
    """Say whether a program is on PATH only as long as this virtual environment is active."""
    return sys.prefix != sys.base_prefix and Path(program).parent == Path(sys.executable).parent


def _warning(found: str | None) -> str:
    state = "not on PATH" if found is None else f"only on PATH while {sys.prefix} is active"
    return (
        f"tiermem is {state}, so clients may not find it; install it for good with "
        "`uv tool install .` or `pipx install .` in its source folder, then start the client anew"
    )
