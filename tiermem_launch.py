"""Entry points that a `memory/` folder in the user's repository cannot shadow."""

import os
import sys


def cli() -> None:
    """Run the command line."""
    _prepare()
    if sys.argv[1:2] == ["mcp"] and not {"-h", "--help"} & set(sys.argv[2:]):
        # One lives beside every client, so it does without the packages of the command line.
        from memory.cli.front import main as serve_client

        serve_client(sys.argv[2:])
    from memory.cli.main import main

    main()


def hook() -> None:
    """Run one hook of a coding agent."""
    _prepare()
    from memory.guard.hook import main

    main()


def _prepare() -> None:
    # This file lies beside the three packages, in a checkout as in site-packages. os.path, not
    # pathlib: a hook pays for every import.
    here = os.path.dirname(os.path.realpath(__file__))  # noqa: PTH120
    # ONNX Runtime reports to its maker unless it is told otherwise before it is imported.
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    sys.path[:] = [here, *(entry for entry in sys.path if entry not in ("", here))]


if __name__ == "__main__":
    cli()
