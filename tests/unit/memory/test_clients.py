"""What becomes of a client's settings: planned, refused, and made."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from memory.clients.change import Action, Change, plan_addition, plan_removal
from memory.clients.client import CLIENTS, snippet
from memory.clients.entry import State, state
from memory.clients.launch import Launch, find_launch
from memory.errors import Refused, UsageError

ROOT = Path(__file__).parents[3]

TIERMEM = Launch(("tiermem",))
FOLDER = ["mcp", "--project", "${workspaceFolder}"]

#: For each client: its file in a project, and all that is in it when nothing else is.
WRITTEN: dict[str, tuple[str, Any]] = {
    "claude-code": (
        ".mcp.json",
        {"mcpServers": {"tiermem": {"command": "tiermem", "args": ["mcp"]}}},
    ),
    "cursor": (
        ".cursor/mcp.json",
        {"mcpServers": {"tiermem": {"type": "stdio", "command": "tiermem", "args": FOLDER}}},
    ),
    "vscode": (
        ".vscode/mcp.json",
        {"servers": {"tiermem": {"type": "stdio", "command": "tiermem", "args": FOLDER}}},
    ),
    "codex": (
        ".codex/config.toml",
        {
            "mcp_servers": {
                "tiermem": {
                    "command": "tiermem",
                    "args": ["mcp"],
                    "env_vars": ["TIERMEM_HOME", "XDG_DATA_HOME"],
                }
            }
        },
    ),
    "gemini": (
        ".gemini/settings.json",
        {"mcpServers": {"tiermem": {"command": "tiermem", "args": ["mcp"]}}},
    ),
    "opencode": (
        "opencode.json",
        {"mcp": {"tiermem": {"type": "local", "command": ["tiermem", "mcp"], "enabled": True}}},
    ),
    "zed": (
        ".zed/settings.json",
        {"context_servers": {"tiermem": {"command": "tiermem", "args": ["mcp"]}}},
    ),
}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project's folder; the user's home is beside it, not above it."""
    (tmp_path / "user").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


def add(project: Path, name: str, launch: Launch = TIERMEM, *, user: bool = False) -> Change:
    change = plan_addition(CLIENTS[name], project, launch, user=user)
    change.apply()
    return change


def remove(project: Path, name: str, *, user: bool = False) -> Change:
    change = plan_removal(CLIENTS[name], project, user=user)
    change.apply()
    return change


def put(project: Path, name: str, text: str | bytes) -> Path:
    path = project / WRITTEN[name][0]
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def load(path: Path) -> Any:
    text = path.read_text(encoding="utf-8")
    return tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)


def names_below(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


# Every client.


def test_no_client_is_left_out_here() -> None:
    assert set(WRITTEN) == set(CLIENTS)


@pytest.mark.parametrize("name", WRITTEN)
def test_a_client_gets_a_file_of_its_own_and_loses_it_again(project: Path, name: str) -> None:
    path, content = WRITTEN[name]

    added = add(project, name)

    assert (added.action, load(project / path)) == (Action.CREATED, content)
    assert (project / path).stat().st_mode & 0o777 == 0o644
    assert add(project, name).action is Action.UNCHANGED
    assert remove(project, name).action is Action.DELETED
    assert names_below(project) == set()
    assert remove(project, name).action is Action.UNCHANGED


@pytest.mark.parametrize("name", WRITTEN)
def test_what_is_printed_is_what_is_written(project: Path, name: str) -> None:
    add(project, name)

    assert snippet(CLIENTS[name], ["tiermem"]) == (project / WRITTEN[name][0]).read_text()


@pytest.mark.parametrize("name", WRITTEN)
def test_the_page_on_clients_shows_what_is_written(name: str) -> None:
    client = CLIENTS[name]
    sections = (ROOT / "docs" / "clients.md").read_text(encoding="utf-8").split("\n## ")
    section = next(text for text in sections if text.startswith(f"{client.title}\n"))

    assert f"\n{snippet(client, ['tiermem'])}```\n" in section
    assert f"tiermem init --client {name} --remove" in section
    assert all(file in section for file in client.project_files)


@pytest.mark.parametrize("name", WRITTEN)
def test_what_else_is_there_stays_to_the_byte(project: Path, name: str) -> None:
    other = '\ufeff[mcp_servers.other]\r\ncommand = "x" # mine' if name == "codex" else '{"a":1.0}'
    path = put(project, name, other)
    path.chmod(0o640)

    added = add(project, name)

    assert added.action is Action.ADDED
    assert path.read_text(encoding="utf-8") != other
    assert path.stat().st_mode & 0o777 == 0o640
    assert remove(project, name).action is Action.REMOVED
    assert path.read_bytes() == other.encode()
    assert path.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("name", [name for name in CLIENTS if CLIENTS[name].user_files])
def test_a_user_has_settings_of_their_own(project: Path, name: str) -> None:
    added = add(project, name, user=True)

    assert added.file.path == project / CLIENTS[name].user_files[0]
    assert added.file.path.stat().st_mode & 0o777 == 0o600
    remove(project, name, user=True)
    assert names_below(project) == set()


@pytest.mark.parametrize("name", [name for name in CLIENTS if not CLIENTS[name].user_files])
def test_a_client_without_them_says_what_to_do(project: Path, name: str) -> None:
    with pytest.raises(UsageError) as refused:
        add(project, name, user=True)

    assert refused.value.hint == CLIENTS[name].user_hint != ""


# opencode reads several files, and has a new form.


@pytest.mark.parametrize("there", ["opencode.json", "opencode.jsonc", ".opencode/opencode.json"])
def test_opencode_s_file_is_taken_where_it_is(project: Path, there: str) -> None:
    path = project / there
    path.parent.mkdir(exist_ok=True)
    path.write_text("{\n  // mine\n}\n", encoding="utf-8")

    assert add(project, "opencode").file.path == path
    (project / "opencode.json").open("a", encoding="utf-8").close()
    if (project / "opencode.json").stat().st_size == 0:
        (project / "opencode.json").write_text("{}", encoding="utf-8")
    assert add(project, "opencode").action is Action.UNCHANGED
    assert remove(project, "opencode").file.path == path
    assert path.read_text(encoding="utf-8") == "{\n  // mine\n}\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            {"mcp": {"servers": {"x": {"type": "local", "command": ["x"]}}}},
            ["mcp", "servers", "tiermem"],
            id="new-form",
        ),
        pytest.param(
            {"mcp": {"servers": {"type": "local", "command": ["x"], "enabled": True}}},
            ["mcp", "tiermem"],
            id="a-server-of-that-name",
        ),
        pytest.param(
            {"mcp": {"servers": {}, "tiermem": {"type": "local", "command": ["tiermem", "mcp"]}}},
            ["mcp", "tiermem"],
            id="both",
        ),
    ],
)
def test_opencode_s_form_is_kept(project: Path, before: Any, after: list[str]) -> None:
    path = put(project, "opencode", json.dumps(before))

    add(project, "opencode")

    found = load(path)
    for key in after:
        found = found[key]
    assert found["command"] == ["tiermem", "mcp"]
    assert ("enabled" in found) is (len(after) == 2 and "tiermem" not in before["mcp"])


# An entry that a person changed.


@pytest.mark.parametrize(
    "entry",
    [
        {"command": "tiermem", "args": ["mcp"], "env": {"TIERMEM_HOME": "/x"}, "timeout": 5},
        {"command": "tiermem", "args": ["mcp", "--toolsets", "core,ops"]},
        {"command": "${HOME}/.local/bin/tiermem", "args": ["mcp", "--project", "/x"]},
        {"command": "uvx", "args": ["--from", "/nowhere/tiermem.whl", "tiermem", "mcp"]},
        {"command": "sh", "args": ["-c", "cd /nowhere && exec tiermem mcp"]},
        {"command": "C:\\Tools\\tiermem.exe", "args": ["mcp"], "disabled": False},
        {"command": [sys.executable, __file__.replace("test_clients.py", "x"), "tiermem", "mcp"]},
    ],
)
def test_an_entry_that_starts_tiermem_is_kept(project: Path, entry: Any) -> None:
    path = put(project, "claude-code", json.dumps({"mcpServers": {"tiermem": entry}}))
    before = path.read_bytes()

    assert add(project, "claude-code").action is Action.UNCHANGED
    assert path.read_bytes() == before
    assert remove(project, "claude-code").action is Action.REMOVED


@pytest.mark.parametrize(
    ("entry", "repaired"),
    [
        (
            {"command": "/gone/bin/tiermem", "args": ["mcp", "--x"], "env": {"A": "b"}},
            {"command": "tiermem", "args": ["mcp", "--x"], "env": {"A": "b"}},
        ),
        (
            {"command": sys.executable, "args": ["/gone/tiermem_launch.py", "mcp"]},
            {"command": "tiermem", "args": ["mcp"]},
        ),
        (
            {"command": "tiermem", "timeout": 1},
            {"command": "tiermem", "timeout": 1, "args": ["mcp"]},
        ),
        ({"args": ["serve"], "command": "tiermem"}, {"args": ["mcp"], "command": "tiermem"}),
    ],
)
def test_an_entry_that_cannot_start_it_is_repaired(
    project: Path, entry: Any, repaired: Any
) -> None:
    path = put(project, "claude-code", json.dumps({"mcpServers": {"a": 1, "tiermem": entry}}))

    assert add(project, "claude-code").action is Action.REPAIRED

    assert load(path) == {"mcpServers": {"a": 1, "tiermem": repaired}}
    assert list(load(path)["mcpServers"]["tiermem"]) == list(repaired)


def test_a_table_and_a_list_are_repaired_as_well(project: Path) -> None:
    table = put(project, "codex", '[mcp_servers.tiermem]\ncommand = "/gone/tiermem" # old\n')
    words = put(project, "opencode", '{"mcp": {"tiermem": {"command": ["/gone/tiermem", "mcp"]}}}')

    assert add(project, "codex").action is add(project, "opencode").action is Action.REPAIRED

    assert load(table) == {"mcp_servers": {"tiermem": {"command": "tiermem", "args": ["mcp"]}}}
    assert "# old" in table.read_text(encoding="utf-8")
    assert load(words) == {"mcp": {"tiermem": {"command": ["tiermem", "mcp"]}}}


@pytest.mark.parametrize(
    "entry",
    [
        {"command": "node", "args": ["server.js"]},
        {"command": "docker", "args": ["run", "tiermem"]},
        {"url": "http://127.0.0.1:3008/mcp/x"},
        {"command": "tiermem-fork", "args": ["mcp"]},
        {"command": None},
        {"command": "tiermem", "args": [1]},
        [],
        "tiermem mcp",
    ],
)
def test_an_entry_that_starts_something_else_is_left_alone(project: Path, entry: Any) -> None:
    path = put(project, "claude-code", json.dumps({"mcpServers": {"tiermem": entry}}))
    before = path.read_bytes()

    for act in (add, remove):
        with pytest.raises(Refused) as refused:
            act(project, "claude-code")
        assert "mcpServers.tiermem" in refused.value.message
    assert path.read_bytes() == before


def test_a_switched_off_entry_is_kept_and_told(project: Path) -> None:
    entry = {"enabled": False, "command": "tiermem", "args": ["mcp"]}
    put(project, "zed", json.dumps({"context_servers": {"tiermem": entry}}))

    change = add(project, "zed")

    assert change.action is Action.UNCHANGED
    assert "switched off" in change.notes[0]


def test_whoever_has_no_program_has_no_path_to_check() -> None:
    assert state({"command": "/bin/sh", "args": ["-c", "x"]}) is State.FOREIGN


# Files that are not as they should be.


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("claude-code", b"", "ends too early, at line 1"),
        ("claude-code", b'{\n  "mcpServers": {},\n}', "line 2, column 19"),
        ("claude-code", b'{\n  "mcpServers": []\n}', "is a list, not an object, at line 2"),
        ("claude-code", b"// c\n{}", "a comment"),
        ("claude-code", b'{"a": "\xff"}', "not UTF-8, from byte 7"),
        ("claude-code", "{}".encode("utf-16"), "not UTF-8, from byte 0"),
        ("gemini", b'{"a": 1,}', "a comma with nothing after it"),
        ("vscode", b'{"servers": 1}', "servers is"),
        ("codex", b"[mcp_servers\n", "line 1"),
        ("codex", b"mcp_servers = []\n", "mcp_servers is not a table"),
    ],
)
def test_a_broken_file_is_refused_and_not_touched(
    project: Path, name: str, content: bytes, complaint: str
) -> None:
    path = put(project, name, content)

    with pytest.raises(Refused) as refused:
        add(project, name)

    assert complaint in refused.value.message
    assert str(path) in refused.value.message
    assert refused.value.hint
    assert path.read_bytes() == content


def test_a_folder_or_a_pipe_in_its_place_is_refused(project: Path) -> None:
    (project / ".mcp.json").mkdir()
    (project / ".vscode").mkdir()
    os.mkfifo(project / ".vscode" / "mcp.json")
    (project / ".cursor").write_text("a file", encoding="utf-8")

    for name in ("claude-code", "vscode", "cursor"):
        with pytest.raises(Refused, match=r"no file|no folder"):
            add(project, name)


def test_a_file_that_is_too_large_is_refused(project: Path) -> None:
    path = put(project, "claude-code", "{}")
    os.truncate(path, 5 * 2**20)

    with pytest.raises(Refused, match="too large"):
        add(project, "claude-code")


def test_a_file_that_changes_meanwhile_is_not_written_over(project: Path) -> None:
    path = put(project, "claude-code", "{}")
    change = plan_addition(CLIENTS["claude-code"], project, TIERMEM, user=False)
    path.write_text('{"a": 1}', encoding="utf-8")

    with pytest.raises(Refused, match="changed meanwhile"):
        change.apply()

    assert path.read_text(encoding="utf-8") == '{"a": 1}'


# Links.


def test_a_link_is_written_through(project: Path) -> None:
    real = project / "settings" / "mcp.json"
    real.parent.mkdir()
    real.write_text("{}", encoding="utf-8")
    (project / ".mcp.json").symlink_to("settings/mcp.json")

    change = add(project, "claude-code")

    assert (project / ".mcp.json").is_symlink()
    assert load(real)["mcpServers"]
    assert change.notes == (f"{project / '.mcp.json'} is a link to {real}",)
    remove(project, "claude-code")
    assert (project / ".mcp.json").is_symlink()
    assert real.read_text(encoding="utf-8") == "{}"


def test_a_link_to_nothing_yet_makes_the_file_it_names(project: Path) -> None:
    (project / ".mcp.json").symlink_to("real.json")

    add(project, "claude-code")

    assert load(project / "real.json")
    remove(project, "claude-code")
    assert names_below(project) == {".mcp.json"}
    assert (project / ".mcp.json").is_symlink()


def test_a_link_into_the_user_s_home_is_followed_and_told(project: Path, tmp_path: Path) -> None:
    real = tmp_path / "user" / "mcp.json"
    real.write_text("{}", encoding="utf-8")
    (project / ".mcp.json").symlink_to(real)

    change = add(project, "claude-code")

    assert str(real) in change.notes[0]
    assert load(real)


@pytest.mark.parametrize("place", [".cursor", ".cursor/mcp.json"])
def test_a_link_out_of_project_and_home_is_refused(
    project: Path, tmp_path: Path, place: str
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "mcp.json").write_text("{}", encoding="utf-8")
    (project / place).parent.mkdir(exist_ok=True)
    (project / place).symlink_to(outside / "mcp.json" if place.endswith("json") else outside)

    for act in (add, remove):
        with pytest.raises(Refused, match="leads out of the project"):
            act(project, "cursor")

    assert (outside / "mcp.json").read_text(encoding="utf-8") == "{}"


def test_a_link_of_the_user_s_own_may_lead_anywhere(project: Path, tmp_path: Path) -> None:
    user = tmp_path / "user"
    (user / ".gemini").symlink_to(project)

    change = add(user, "gemini", user=True)

    assert load(project / "settings.json")
    assert change.notes


def test_a_link_in_a_ring_is_refused(project: Path) -> None:
    (project / ".mcp.json").symlink_to(".mcp.json")

    with pytest.raises(Refused):
        add(project, "claude-code")


# The program.


def test_the_program_on_path_is_named_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "tiermem"
    program.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))

    assert find_launch(shared=True) == find_launch(shared=False) == Launch(("tiermem",))


def test_without_it_a_user_s_settings_name_this_installation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    shared, own = find_launch(shared=True), find_launch(shared=False)

    assert shared.words == ("tiermem",)
    assert "not on PATH" in shared.warning
    assert all(Path(word).exists() and Path(word).is_absolute() for word in own.words)
    assert state({"command": own.words[0], "args": [*own.words[1:], "mcp"]}) is State.STARTS


def test_a_program_of_an_active_environment_may_be_gone_tomorrow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = Path(sys.executable).parent
    if sys.prefix == sys.base_prefix or shutil.which("tiermem", path=str(here)) is None:
        pytest.skip("tiermem is not installed in a virtual environment here")
    monkeypatch.setenv("PATH", str(here))

    assert "while" in find_launch(shared=True).warning
    assert find_launch(shared=False) == Launch((str(here / "tiermem"),))
