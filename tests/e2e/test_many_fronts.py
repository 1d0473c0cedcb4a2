"""Many processes use one home at once, and one engine serves them."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from memory.cli import client
from memory.cli.client import EngineClient
from memory.errors import HomeRefused
from memory.home_lock import HomeLock, refuse_shared_file_system, socket_path
from tests.support.homes import Home, is_alive, wait_until
from tests.support.stores import assert_each_once, read_stores

#: What a user must never read: words of the stores about locks.
_LOCK_WORDS = re.compile(r"\block(ed)?\b|WouldBlock|\bbusy\b|Traceback", re.IGNORECASE)


def _say(done: subprocess.CompletedProcess[str]) -> str:
    return f"{done.returncode}\n{done.stdout}\n{done.stderr}"


def test_two_command_lines_and_an_import_at_once_see_no_lock(home: Home, tmp_path: Path) -> None:
    source = tmp_path / "many.jsonl"
    imported = [f"imported line {number} of the ship's log" for number in range(300)]
    source.write_text("".join(json.dumps({"text": t}) + "\n" for t in imported), encoding="utf-8")
    saved = [[f"person {who} saw whale {number}" for number in range(5)] for who in range(2)]

    def save(texts: list[str]) -> list[subprocess.CompletedProcess[str]]:
        return [home.cli("save", text, code=None) for text in texts]

    with ThreadPoolExecutor(3) as pool:
        importing = pool.submit(home.cli, "import", str(source), code=None)
        saving = [pool.submit(save, texts) for texts in saved]
        runs = [importing.result(), *(run for each in saving for run in each.result())]

    assert [_say(run) for run in runs if run.returncode or _LOCK_WORDS.search(_say(run))] == []
    assert_each_once(home, [*imported, *saved[0], *saved[1]])


def test_eight_fronts_at_once_start_one_engine(home: Home) -> None:
    texts = [f"front number {number} speaks first" for number in range(8)]

    with ThreadPoolExecutor(len(texts)) as pool:
        runs = list(pool.map(lambda text: home.cli("save", text, code=None), texts))

    assert [_say(run) for run in runs if run.returncode or _LOCK_WORDS.search(_say(run))] == []
    assert len(home.engines()) == 1
    assert_each_once(home, texts)


def test_what_a_dead_engine_left_behind_does_no_harm(home: Home) -> None:
    """A socket nobody listens on, a lock file with the number of a zombie."""
    client = home.client()
    client.call("save", home.request(text="the first engine wrote this"))
    dead = home.engine_pid()
    home.kill_engine()
    assert socket_path(home.path).exists()
    owner = HomeLock(home.path).owner()
    assert owner is not None
    assert owner.pid == dead

    done = home.cli("search", "first engine")

    assert "the first engine wrote this" in done.stdout
    assert home.engine_pid() not in (None, dead)


def test_a_lock_file_full_of_rubbish_does_no_harm(home: Home) -> None:
    home.path.mkdir()
    (home.path / "engine.lock").write_bytes(b"\xff\xfe rubbish")
    (home.path / "engine.sock").write_bytes(b"no socket")

    home.cli("save", "rubbish is no reason to fail")

    assert_each_once(home, ["rubbish is no reason to fail"])


def test_a_second_engine_is_refused_and_harms_nothing(home: Home) -> None:
    client = home.client()
    client.call("save", home.request(text="kept by the first engine"))
    first = home.engine_pid()

    for _ in range(3):
        refused = home.cli("serve", code=1)

    assert "running already" in refused.stderr
    assert "tiermem status" in refused.stderr
    client.call("save", home.request(text="and it goes on"))
    assert home.engine_pid() == first
    assert_each_once(home, ["kept by the first engine", "and it goes on"])


@pytest.mark.parametrize("kind", ["nfs4", "cifs", "9p", "fuse.sshfs"])
def test_a_home_on_a_shared_file_system_is_refused(tmp_path: Path, kind: str) -> None:
    mounts = tmp_path / "mounts"
    share = tmp_path / "my share"
    share.mkdir()
    point = str(share).replace(" ", "\\040")
    mounts.write_text(
        f"/dev/sda1 / ext4 rw 0 0\nserver:/x {point} {kind} rw 0 0\n", encoding="utf-8"
    )

    with pytest.raises(HomeRefused, match=re.escape(f"shared file system ({kind})")) as refused:
        refuse_shared_file_system(share / "home", mounts)

    assert "TIERMEM_HOME" in refused.value.hint
    refuse_shared_file_system(tmp_path / "elsewhere", mounts)


# The life of an engine.


def test_an_idle_engine_ends_and_the_next_call_starts_another(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIERMEM_ENGINE_IDLE_MINUTES", "0.01")
    client = home.client()
    client.call("save", home.request(text="the lamp burns low"))
    idle = home.engine_pid()
    assert idle is not None

    wait_until(lambda: not is_alive(idle))

    hits = client.call("search", home.request(query="lamp"))["hits"]
    assert [hit["text"] for hit in hits] == ["the lamp burns low"]
    assert home.engine_pid() != idle


@pytest.mark.parametrize("way", ["verb", "signal"])
def test_an_engine_that_is_told_to_end_delivers_what_waits(home: Home, way: str) -> None:
    texts = [f"barrel {number} of the cargo" for number in range(120)]
    client = home.client()
    items = [{"text": text, "tier": "deep"} for text in texts]
    client.call("save-batch", home.request(items=items))
    pid = home.engine_pid()
    assert pid is not None

    if way == "verb":
        assert home.cli("stop").stderr.strip() == "stopped"
    else:
        home.terminate_engine()

    wait_until(lambda: not is_alive(pid))
    found = read_stores(home.path)
    assert sorted(found.texts) == sorted(texts)
    assert found.deep == found.archive == found.catalogue
    assert found.undelivered == 0


def test_stopping_when_nothing_runs_is_no_error(home: Home) -> None:
    assert home.cli("stop").stderr.strip() == "no engine was running"


def test_a_newer_front_replaces_an_older_engine(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = home.client()
    client.call("save", home.request(text="said to the old engine"))
    old = home.engine_pid()
    client.close()
    monkeypatch.setattr("memory.cli.client.installed_version", lambda: "999.0")

    hits = home.client().call("search", home.request(query="old engine"))["hits"]

    assert [hit["text"] for hit in hits] == ["said to the old engine"]
    assert home.engine_pid() not in (None, old)
    assert len(home.engines()) == 1


def test_an_older_front_uses_a_newer_engine(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    home.client().call("save", home.request(text="said to the engine"))
    newer = home.engine_pid()
    monkeypatch.setattr("memory.cli.client.installed_version", lambda: "0.0.1")

    home.client().call("search", home.request(query="engine"))

    assert home.engine_pid() == newer


def test_many_newer_fronts_replace_an_older_engine_once(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.client().call("save", home.request(text="said to the old engine"))
    old = home.engine_pid()
    # What they start is of the version that runs here, so only the first engine may be too old.
    monkeypatch.setattr(
        "memory.cli.client.installed_version",
        lambda: "999.0" if home.engine_pid() == old else "0.0.0",
    )

    def search(_: int) -> int:
        return len(home.client().call("search", home.request(query="engine"))["hits"])

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(search, range(4))) == [1] * 4
    assert home.engine_pid() not in (None, old)
    assert len(home.engines()) == 1


def test_an_engine_that_cannot_start_says_why(home: Home) -> None:
    home.path.mkdir()
    (home.path / "home.db").write_bytes(b"this is no database" * 500)

    done = home.cli("save", "nothing can be kept", code=1)

    assert "home.db is no SQLite file" in done.stderr
    assert "engine.log" in done.stderr
    assert (home.path / "home.db").read_bytes() == b"this is no database" * 500


def test_an_engine_whose_home_is_moved_away_ends(home: Home, tmp_path: Path) -> None:
    home.client().call("save", home.request(text="moved on"))
    pid = home.engine_pid()
    assert pid is not None

    home.path.rename(tmp_path / "elsewhere")

    wait_until(lambda: not is_alive(pid))


def test_fronts_with_other_temporary_folders_reach_the_same_engine(tmp_path: Path) -> None:
    """A deep home's path is too long for a socket, and clients start with bare environments."""
    home = Home(tmp_path / ("a" * 60) / ("b" * 60) / "home", tmp_path / "project")
    try:
        for name in ("one", "two"):
            folder = tmp_path / name
            folder.mkdir()
            home.environment["TMPDIR"] = str(folder)
            home.cli("save", f"said from {name}")

        assert len(home.json("list")["memories"]) == 2
        assert len(home.engines()) == 1
    finally:
        home.end()


def test_a_socket_in_somebody_elses_folder_is_not_asked(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever makes that folder first could otherwise read what is saved."""
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder away")
    # A folder of its own: a socket's path must be short.
    with (
        tempfile.TemporaryDirectory(dir="/tmp") as name,
        socket.socket(socket.AF_UNIX) as listening,
    ):
        path = Path(name) / "s.sock"
        os.chown(name, 12_345, 12_345)
        monkeypatch.setattr(client, "socket_path", lambda _: path)
        listening.bind(str(path))
        listening.listen()
        listening.setblocking(False)

        assert EngineClient(home.path).is_running() is False
        with pytest.raises(BlockingIOError):
            listening.accept()
