"""The command line without a process of its own, for what depends on its arguments alone."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from dataclasses import dataclass
from unittest.mock import patch

from memory.cli.main import main
from tests.support.homes import Home


@dataclass(frozen=True, slots=True)
class Ran:
    """How a run ended and what it printed."""

    returncode: int
    stdout: str
    stderr: str


def run(home: Home, *arguments: str, stdin: bytes = b"") -> Ran:
    """Run the entry point here: a tenth of the time that a process takes to start."""
    out, err = _stream(), _stream()
    with (
        patch.dict(os.environ, home.environment),
        patch.object(sys, "argv", ["tiermem", *arguments]),
        patch.object(sys, "stdin", _stream(stdin)),
        contextlib.chdir(home.project),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as ended:
            code = ended.code
    assert isinstance(code, int)
    return Ran(code, _text(out), _text(err))


def _stream(content: bytes = b"") -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(content), encoding="utf-8", errors="strict")


def _text(stream: io.TextIOWrapper) -> str:
    stream.flush()
    stream.seek(0)
    return stream.read()
