"""`tiermem init --client`: from the command line to the settings of the clients."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from memory.clients.client import CLIENTS
from tests.support.homes import Home

ALL = [word for name in CLIENTS for word in ("--client", name)]

MINE = """\
{
\t// the servers of our team
\t"servers": {
\t\t"tickets": {"command": "tickets", "env": {"GITHUB": "TOKEN"}}, // keep
\t},
}
""".replace("TOKEN", "ghp_" + ("a1B2c3D4e5" * 4)[:36])


@pytest.fixture(autouse=True)
def surroundings(home: Home, tmp_path: Path) -> None:
    """A user with a home of their own, and with tiermem on PATH."""
    (tmp_path / "user").mkdir()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "tiermem").touch(mode=0o755)
    home.environment |= {
        "HOME": str(tmp_path / "user"),
        "PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}",
    }


def files_below(folder: Path) -> dict[str, bytes]:
    found = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def write_mine(home: Home) -> Path:
    path = home.project / ".vscode" / "mcp.json"
    path.parent.mkdir()
    path.write_text(MINE, encoding="utf-8")
    return path


def test_all_clients_are_set_up_and_undone(home: Home) -> None:
    write_mine(home)
    before = files_below(home.project)

    first = home.json("init", *ALL)
    second = home.json("init", *ALL)
    undone = home.json("init", "--remove", *ALL)

    assert [change["client"] for change in first["changes"]] == list(CLIENTS)
    assert {change["action"] for change in first["changes"]} == {"created", "added"}
    assert all(change["diff"] for change in first["changes"])
    assert (first["written"], first["warnings"]) == (True, [])
    assert {change["action"] for change in second["changes"]} == {"unchanged"}
    assert {change["action"] for change in undone["changes"]} == {"removed", "deleted"}
    assert files_below(home.project) == before
    assert {path.name for path in home.project.iterdir()} == {".vscode"}


def test_the_change_is_shown_without_the_secrets_around_it(home: Home) -> None:
    path = write_mine(home)

    done = home.cli("init", "--client", "vscode")

    assert done.stdout == f"vscode: added, {path}\n"
    assert f"+++ {path}" in done.stderr
    assert '+\t\t"tiermem": {' in done.stderr
    assert "[masked:github-token]" in done.stderr
    assert "ghp_" not in done.stderr
    assert "MCP: List Servers" in done.stderr
    assert path.read_text(encoding="utf-8").startswith(MINE[: MINE.index("// keep")])


def test_a_dry_run_shows_and_writes_nothing(home: Home) -> None:
    path = write_mine(home)

    done = home.cli("init", "--client", "vscode", "--dry-run")
    asked = home.json("init", "--client", "cursor", "--dry-run")

    assert done.stdout == f"vscode: would be added, {path}\n"
    assert '"tiermem"' in done.stderr
    assert (asked["written"], asked["changes"][0]["action"]) == (False, "created")
    assert files_below(home.project) == {".vscode/mcp.json": MINE.encode()}


def test_printing_gives_what_is_written_and_needs_no_sound_file(home: Home) -> None:
    (home.project / ".mcp.json").write_text("{ broken", encoding="utf-8")

    printed = home.cli("init", "--client", "claude-code", "--print")
    both = home.json("init", "--client", "claude-code", "--client", "codex", "--print")

    entry = {"command": "tiermem", "args": ["mcp"]}
    assert json.loads(printed.stdout) == {"mcpServers": {"tiermem": entry}}
    assert [found["path"] for found in both["snippets"]] == [".mcp.json", ".codex/config.toml"]
    assert both["snippets"][1]["text"].startswith("[mcp_servers.tiermem]\n")
    assert files_below(home.project) == {".mcp.json": b"{ broken"}


def test_one_refusal_keeps_all_from_being_written(home: Home) -> None:
    broken = home.project / ".mcp.json"
    broken.write_text('{\n  "mcpServers": [\n}', encoding="utf-8")

    done = home.cli("init", *ALL, code=1)

    assert f"{broken} is left as it is" in done.stderr
    assert "line 3, column 1" in done.stderr
    assert "→ repair that by hand" in done.stderr
    assert "tiermem init --client claude-code --print" in done.stderr
    assert files_below(home.project) == {".mcp.json": b'{\n  "mcpServers": [\n}'}


def test_it_is_written_at_the_root_of_the_repository(home: Home) -> None:
    subprocess.run(["git", "-C", str(home.project), "init", "-q"], check=True)
    (home.project / "deep" / "down").mkdir(parents=True)

    home.cli("init", "--client", "gemini", project=home.project / "deep" / "down")

    assert (home.project / ".gemini" / "settings.json").is_file()


def test_a_user_s_own_settings_name_the_program_where_it_is(home: Home, tmp_path: Path) -> None:
    (tmp_path / "bin" / "tiermem").unlink()
    home.environment["PATH"] = str(tmp_path / "bin")

    home.cli("init", "--client", "zed", "--user")
    shared = home.cli("init", "--client", "zed")

    own = json.loads((tmp_path / "user/.config/zed/settings.json").read_text(encoding="utf-8"))
    entry = own["context_servers"]["tiermem"]
    assert Path(entry["command"]).is_absolute()
    started = subprocess.run(
        [entry["command"], *entry["args"][:-1], "--version"], capture_output=True, text=True
    )
    assert "tiermem" in started.stdout
    assert "tiermem is not on PATH" in shared.stderr
    assert "uv tool install" in shared.stderr
    assert '"command": "tiermem"' in (home.project / ".zed/settings.json").read_text()


def test_only_the_client_is_set_up(home: Home) -> None:
    home.cli("init", "--client", "zed")

    assert set(files_below(home.project)) == {".zed/settings.json"}
    assert home.engine_pid() is None


def test_removing_without_a_client_means_the_id(home: Home) -> None:
    home.cli("init")
    home.cli("init", "--client", "zed")

    assert home.json("init", "--remove") == {"removed": True}

    assert set(files_below(home.project)) == {".zed/settings.json"}


@pytest.mark.parametrize(
    "options",
    [
        ["--user"],
        ["--dry-run", "--remove"],
        ["--print"],
        ["--client", "zed", "--adopt"],
        ["--client", "zed", "--hot-root", "x"],
        ["--client", "zed", "--print", "--remove"],
        ["--client", "cursor", "--user"],
        ["--client", "vim"],
    ],
    ids=" ".join,
)
def test_options_that_do_not_go_together(home: Home, options: list[str]) -> None:
    done = home.cli("init", *options, code=2)

    assert "→" in done.stderr or "vim" in done.stderr
    assert files_below(home.project) == {}


def test_the_help_says_how(home: Home) -> None:
    shown = home.cli("init", "--help").stdout

    assert "tiermem init --client cursor" in shown
    assert all(name in shown for name in CLIENTS)
