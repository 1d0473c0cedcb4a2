"""Every verb as a user runs it: a process with arguments, what it prints, and how it exits."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memory.home_lock import HomeLock
from tests.support.homes import Home, is_alive, wait_until
from tests.support.in_process import run

VERBS = [
    "init", "save", "search", "get", "list", "history", "forget", "load", "import", "export",
    "serve", "stop", "status", "doctor", "held",
]  # fmt: skip


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """A home with two memories, for what only reads."""
    folder = tmp_path_factory.mktemp("known")
    place = Home(folder / "home", folder / "project")
    place.cli("save", "deploys happen on Tuesdays", "--name", "deploys", "--tag", "ops")
    place.cli("save", "the retry budget is five", "--name", "retries", "--tier", "deep")
    indexed(place)
    yield place
    place.end()


def indexed(home: Home) -> None:
    """Wait until every store has everything."""
    wait_until(
        lambda: (
            not any(tier["pending"] for tier in home.json("status", code=None)["tiers"].values())
        )
    )


# Each verb, as text and as JSON.


def test_save_gives_a_receipt(home: Home) -> None:
    text = home.cli("save", "use uv, not pip").stdout
    receipt = home.json("save", "use ruff, not flake8", "--type", "feedback", "--tag", "tools")

    assert text.startswith("saved: use uv, not pip\n")
    assert receipt.keys() >= {"id", "revision", "path", "pending"}
    assert receipt["revision"] == 1
    assert "use ruff" in Path(receipt["path"]).read_text(encoding="utf-8")
    assert set(receipt["pending"]) <= {"archive", "deep"}
    assert home.cli("save", "use uv, not pip").stdout.startswith("already known: use uv")


def test_save_reads_standard_input(home: Home) -> None:
    receipt = home.json("save", "-", "--name", "list", stdin="# Ü\r\n\n- one\n- two\n".encode())

    assert home.json("get", receipt["id"])["text"] == "# Ü\n\n- one\n- two"


def test_search_gives_ranked_hits(known: Home) -> None:
    text = known.cli("search", "when do deploys happen?").stdout
    answer = known.json("search", "when do deploys happen?", "--explain")

    assert "deploys happen on Tuesdays" in text
    assert answer.keys() >= {"hits", "degraded", "confident"}
    assert answer["degraded"] == []
    first = answer["hits"][0]
    assert first.keys() >= {"id", "name", "text", "tier", "score", "origin", "path", "parts"}
    assert (first["name"], first["tier"]) == ("deploys", "hot")
    assert Path(first["path"]).is_file()
    assert {part["name"] for part in first["parts"]} >= {"dense", "sparse"}
    assert known.json("search", "deploys")["hits"][0]["parts"] is None


def test_search_can_be_narrowed(known: Home) -> None:
    def names(*options: str) -> set[str]:
        return {hit["name"] for hit in known.json("search", "deploys retry", *options)["hits"]}

    assert names() == {"deploys", "retries"}
    assert names("--tier", "deep") == {"retries"}
    assert names("--tag", "ops") == {"deploys"}
    assert names("--type", "reference") == set()
    assert names("--since", "2999-01-01") == set()
    assert names("--until", "2999-01-01") == {"deploys", "retries"}
    assert len(names("--limit", "1")) == 1
    assert known.cli("search", "deploys", "--type", "user").stdout == "nothing found\n"


def test_get_shows_one_memory_by_id_start_of_id_or_name(known: Home) -> None:
    memory = known.json("get", "deploys")

    assert memory["text"] == "deploys happen on Tuesdays"
    assert memory["tags"] == ["ops"]
    assert known.json("get", memory["id"]) == known.json("get", memory["id"][:8]) == memory
    text = known.cli("get", memory["id"][:8].upper()).stdout
    assert text.splitlines()[0] == "deploys"
    assert text.endswith("\n\ndeploys happen on Tuesdays\n")


def test_list_shows_newest_first(known: Home) -> None:
    answer = known.json("list")

    assert [memory["name"] for memory in answer["memories"]] == ["retries", "deploys"]
    assert answer["total"] == 2
    lines = known.cli("list").stdout.splitlines()
    assert lines[0].split() == ["id", "tier", "rev", "changed", "name"]
    assert len(lines) == 3
    page = known.cli("list", "--limit", "1")
    assert "1 of 2; more with --offset 1" in page.stderr


def test_history_shows_every_revision(home: Home) -> None:
    home.cli("save", "deploys on Mondays", "--name", "deploys")
    indexed(home)
    home.cli("save", "deploys on Tuesdays", "--name", "deploys")

    answer = home.json("history", "deploys")

    assert [(r["revision"], r["text"]) for r in answer["revisions"]] == [
        (1, "deploys on Mondays"),
        (2, "deploys on Tuesdays"),
    ]
    text = home.cli("history", "deploys").stdout
    assert text.index("revision 1") < text.index("Mondays") < text.index("revision 2")


def test_forget_shows_first_and_does_with_yes(home: Home) -> None:
    path = Path(home.json("save", "an old address", "--name", "address")["path"])

    shown = home.cli("forget", "address")
    assert shown.stdout.startswith("would be forgotten: address")
    assert "--yes" in shown.stderr
    assert home.json("forget", "address")["done"] is False
    assert path.is_file()

    assert home.json("forget", "address", "--yes")["done"] is True
    assert not path.exists()
    home.cli("get", "address", code=1)
    assert home.json("search", "old address")["hits"] == []


def test_load_prints_the_hot_context(known: Home) -> None:
    text = known.cli("load").stdout
    answer = known.json("load", "--task", "plan the deploys")

    assert "deploys happen on Tuesdays" in text
    assert answer.keys() >= {"files", "memory_files", "formatted_prompt", "truncated"}
    assert answer["files"] == ["MEMORY.md", "deploys.md"]
    [file] = answer["memory_files"]
    assert file.keys() >= {"name", "path", "score", "parts"}
    assert answer["formatted_prompt"] == text
    assert answer["truncated"] == []


def test_load_needs_no_engine(home: Home) -> None:
    home.cli("save", "deploys happen on Tuesdays")
    home.cli("stop")

    assert "Tuesdays" in home.cli("load").stdout
    assert home.engine_pid() is None


def test_load_of_an_empty_project_is_empty(home: Home) -> None:
    loaded = home.cli("load")

    assert loaded.stdout == ""
    assert "tiermem save" in loaded.stderr
    assert home.json("load")["files"] == []


def test_import_counts_what_it_did(home: Home, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "one.md").write_text("# One\n\nfirst fact\n", encoding="utf-8")

    assert home.cli("import", str(notes)).stdout == "1 imported, 0 unchanged\n"
    again = home.json("import", str(notes))
    assert again.keys() >= {"imported", "unchanged", "failed"}
    assert (again["imported"], again["unchanged"], again["failed"]) == (0, 1, [])


def test_export_writes_lines(known: Home, tmp_path: Path) -> None:
    lines = known.cli("export", "-").stdout.splitlines()
    answer = known.json("export", str(tmp_path / "out.jsonl"))

    assert {json.loads(line)["name"] for line in lines} == {"deploys", "retries"}
    assert answer == {"exported": 2, "path": str(tmp_path / "out.jsonl")}
    assert (tmp_path / "out.jsonl").stat().st_mode & 0o077 == 0


def test_status_shows_engine_and_tiers(known: Home) -> None:
    answer = known.json("status")
    text = known.cli("status").stdout

    assert answer["engine"].keys() >= {"pid", "version", "rss_mb", "model"}
    assert answer["engine"]["pid"] == known.engine_pid()
    assert answer["tiers"].keys() == {"hot", "deep", "archive"}
    for tier in answer["tiers"].values():
        assert tier.keys() >= {"state", "count", "pending"}
        assert tier["state"] == "ready"
    assert {name: tier["count"] for name, tier in answer["tiers"].items()} == {
        "hot": 1,
        "deep": 2,
        "archive": 2,
    }
    assert answer["hot_root"] in text
    assert str(known.path) in text


def test_doctor_looks_at_everything(known: Home) -> None:
    answer = known.json("doctor")

    assert all(check["ok"] for check in answer["checks"])
    assert {"versions", "home", "model", "deep", "archive"} <= {c["name"] for c in answer["checks"]}
    assert known.cli("doctor").stdout.count("ok ") >= len(answer["checks"])


def test_held_with_nothing_held_does_nothing(known: Home) -> None:
    assert known.cli("held", "apply").stdout == "nothing was held\n"
    assert known.json("held", "restore") == {"taken_in": 0, "demoted": 0, "restored": 0}


def test_config_show_gives_values_and_origins(known: Home) -> None:
    answer = known.json("config", "show")

    model = answer["settings"]["embedding.model"]
    assert (model["value"], model["origin"]) == ("hashing", "environment")
    assert model["variable"] == "TIERMEM_EMBEDDING_MODEL"
    assert answer["home"] == str(known.path)
    lines = known.cli("config", "show").stdout.splitlines()
    assert len(lines) == len(answer["settings"]) + 1


def test_config_show_hides_keys(home: Home) -> None:
    home.environment["TIERMEM_EMBEDDING_API_KEY"] = "sk-very-secret"

    assert "sk-very" not in home.cli("config", "show").stdout
    assert home.json("config", "show")["settings"]["embedding.api_key"]["value"] == "set"


def test_stop_ends_the_engine(home: Home) -> None:
    home.cli("save", "x")
    pid = home.engine_pid()

    assert home.json("stop") == {"stopped": True}

    assert pid is not None
    wait_until(lambda: not is_alive(pid))
    assert home.json("stop") == {"stopped": False}
    assert home.cli("stop").stderr == "no engine was running\n"


def test_serve_runs_in_the_foreground_until_it_is_told_to_end(home: Home) -> None:
    serving = subprocess.Popen(
        home.command("serve"),
        cwd=home.project,
        env={**os.environ, **home.environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        wait_until(lambda: (owner := HomeLock(home.path).owner()) and owner.pid == serving.pid)
        wait_until(lambda: home.client().is_running())
        second = home.cli("serve", code=1)
        assert "running already" in second.stderr
    finally:
        serving.send_signal(signal.SIGTERM)
        out, _ = serving.communicate(timeout=30)
    assert out == b""


# What holds for all of them.


@pytest.mark.parametrize("verb", [*VERBS, "config", "config show"])
def test_every_verb_explains_itself_with_an_example(known: Home, verb: str) -> None:
    page = run(known, *verb.split(), "--help").stdout

    assert page.startswith(f"Usage: tiermem {verb}")
    assert f"    tiermem {verb}" in page.partition("Examples:")[2]


def test_the_first_page_says_where_to_start(known: Home) -> None:
    page = known.cli("--help").stdout

    start = page.partition("Start here:\n")[2].splitlines()
    assert [line.split()[1] for line in start[:4]] == ["save", "search", "load", "status"]
    assert "..." not in page.removeprefix("Usage: tiermem [OPTIONS] COMMAND [ARGS]...")
    assert page == known.cli("-h").stdout
    assert all(f"  {verb} " in page for verb in VERBS)


@pytest.mark.parametrize(
    "arguments",
    [
        ["save", "deploys happen on Tuesdays"],
        ["search", "deploys"],
        ["get", "deploys"],
        ["list"],
        ["history", "deploys"],
        ["forget", "deploys"],
        ["load"],
        ["import", "missing.md"],
        ["status"],
        ["doctor"],
        ["held", "apply"],
        ["config", "show"],
        ["init"],
    ],
    ids=" ".join,
)
def test_standard_output_is_data(known: Home, arguments: list[str]) -> None:
    text = known.cli(*arguments, code=None)
    answer = known.cli(*arguments, "--json", code=None)

    assert "\x1b" not in text.stdout + text.stderr
    assert text.stdout
    assert answer.stdout.count("\n") == 1
    assert isinstance(json.loads(answer.stdout), dict)


def test_what_is_piped_is_not_wrapped(home: Home) -> None:
    words = " ".join(["word"] * 60)
    home.cli("save", f"{words} {'x' * 80}", "--name", "n" * 180)

    assert "n" * 180 in home.cli("list").stdout
    assert words in home.cli("get", "n" * 180).stdout
    missing = home.cli("import", f"/{'d' * 200}.md", code=1)
    assert f"/{'d' * 200}.md: there is no such file" in missing.stderr


def test_text_that_a_terminal_would_obey_is_shown_as_text(home: Home) -> None:
    evil = "red \x1b[31malert\x1b]0;title\x07 and \x9b2J more"
    home.cli("save", evil, "--name", "evil", "--description", "d\x1b[2J")

    for verb in (["get", "evil"], ["search", "red alert"], ["load"], ["history", "evil"]):
        shown = home.cli(*verb).stdout
        assert "alert" in shown
        assert not {"\x1b", "\x07", "\x9b"} & set(shown)
    assert home.json("get", "evil")["text"] == evil


def on_a_terminal(home: Home, *arguments: str) -> str:
    """Run the command line with a terminal for its output."""
    master, slave = pty.openpty()
    running = subprocess.Popen(
        home.command(*arguments),
        cwd=home.project,
        env={**os.environ, **home.environment, "TERM": "xterm-256color", "COLUMNS": "100"},
        stdin=slave,
        stdout=slave,
        stderr=slave,
    )
    os.close(slave)
    shown = b""
    while True:
        try:
            piece = os.read(master, 65_536)
        except OSError:
            break
        if not piece:
            break
        shown += piece
    os.close(master)
    assert running.wait(timeout=60) in (0, 2, 3)
    return shown.decode()


def test_a_terminal_gets_tables_and_colours(known: Home) -> None:
    listed = on_a_terminal(known, "list")
    status = on_a_terminal(known, "status")
    answer = on_a_terminal(known, "get", "deploys", "--json")

    assert "\x1b[" in listed and "deploys" in listed
    assert "\x1b[32mready" in status
    assert "\x1b" not in answer
    assert json.loads(answer)["name"] == "deploys"


def test_a_closed_pipe_is_no_error(known: Home) -> None:
    shell = subprocess.run(
        ["bash", "-c", 'set -o pipefail; "$@" | head -n 1', "-", *known.command("export", "-")],
        cwd=known.project,
        env={**os.environ, **known.environment},
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert shell.stderr == ""
    assert shell.returncode in (0, 1)
    assert len(shell.stdout.splitlines()) == 1


def test_a_terminal_without_unicode_gets_what_it_can_show(known: Home) -> None:
    known.cli("save", "größe 日本", "--name", "größe")
    environment = {**os.environ, **known.environment, "PYTHONIOENCODING": "ascii"}

    def in_ascii(*arguments: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            known.command(*arguments),
            cwd=known.project,
            env=environment,
            capture_output=True,
            timeout=60,
        )

    assert json.loads(in_ascii("get", "größe", "--json").stdout)["text"] == "größe 日本"
    assert in_ascii("get", "größe").returncode == 0
    assert b"gr??e ??" in in_ascii("get", "größe").stdout
    known.cli("forget", "größe", "--yes")


def test_a_project_may_be_named_from_anywhere(known: Home, tmp_path: Path) -> None:
    named = known.json("list", "--project", str(known.project), project=tmp_path)

    assert named["total"] == 2


# Exit codes.


def exit_code(home: Home, *arguments: str) -> int:
    return home.cli(*arguments, code=None).returncode


def test_exit_codes_tell_what_happened(known: Home, home: Home, tmp_path: Path) -> None:
    (tmp_path / "some.jsonl").write_text('{"text": "good"}\nbad\n', encoding="utf-8")

    assert exit_code(known, "list") == 0
    assert exit_code(known, "get", "nothing goes by this") == 1
    assert exit_code(known, "nonsense") == 2
    assert exit_code(known, "save") == 2
    assert exit_code(known, "save", " ") == 2
    assert exit_code(home, "import", str(tmp_path / "some.jsonl")) == 3
    home.cli("stop")
    home.environment["TIERMEM_EMBEDDING_MODEL"] = "no-such-model"
    assert exit_code(home, "search", "good") == 3
    assert exit_code(home, "status") == 3
    assert exit_code(home, "doctor") == 3


def test_a_search_that_lacks_a_tier_says_so(home: Home) -> None:
    home.cli("save", "deploys happen on Tuesdays")
    home.cli("stop")
    home.environment["TIERMEM_EMBEDDING_MODEL"] = "no-such-model"

    answer: dict[str, Any] = home.json("search", "deploys", code=3)

    assert {"deep", "model"} <= set(answer["degraded"])
    assert answer["hits"][0]["text"] == "deploys happen on Tuesdays"
    assert "without: " in home.cli("search", "deploys", code=3).stderr
