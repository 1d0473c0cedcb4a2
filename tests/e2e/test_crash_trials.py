"""What was acknowledged is there once, whenever the engine is killed with -9."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from memory.errors import ServiceError
from tests.support.homes import Home
from tests.support.stores import assert_each_once

_LONGEST_DELAY_S = 0.5
_LINES = 600


@pytest.fixture
def chance() -> random.Random:
    """Random, and repeatable: run again with CRASH_SEED set to the number that is printed."""
    seed = int(os.environ.get("CRASH_SEED", random.randrange(2**32)))
    sys.stdout.write(f"CRASH_SEED={seed}\n")
    return random.Random(seed)


class Saver(threading.Thread):
    """Somebody else who saves all the time, and notes what was acknowledged."""

    def __init__(self, home: Home, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self.acknowledged: list[str] = []
        self.error: ServiceError | None = None
        self._home = home
        self._ending = threading.Event()

    def run(self) -> None:
        client = self._home.client()
        try:
            while not self._ending.is_set():
                text = f"{self.name} has note {len(self.acknowledged)} about crates and cranes"
                client.call("save", self._home.request(text=text, tier="deep"))
                self.acknowledged.append(text)
        except ServiceError as exc:
            self.error = exc

    def end(self) -> list[str]:
        self._ending.set()
        self.join()
        assert self.error is None, self.error
        return self.acknowledged


@pytest.mark.parametrize("trials", [20, pytest.param(200, marks=pytest.mark.long)])
@pytest.mark.timeout(1200)
def test_a_save_that_was_acknowledged_survives_a_kill_at_any_moment(
    home: Home, chance: random.Random, trials: int
) -> None:
    client = home.client()
    texts: list[str] = []
    lost: list[str] = []
    for number in range(trials):
        others = [Saver(home, f"worker{number}x{index}") for index in range(chance.choice((0, 2)))]
        for other in others:
            other.start()
        text = _words(chance)
        tier = chance.choice(("hot", "deep"))

        saved = client.call("save", home.request(text=text, tier=tier))
        threading.Event().wait(chance.uniform(0, _LONGEST_DELAY_S))
        home.kill_engine()

        found = client.call("search", home.request(query=text))
        if [hit["id"] for hit in found["hits"]].count(saved["id"]) != 1:
            lost.append(text)
        texts += [text, *(done for other in others for done in other.end())]
    sys.stdout.write(f"{trials} kills, {len(texts)} acknowledged saves, {len(lost)} lost\n")
    assert lost == []
    assert_each_once(home, texts)


def _words(chance: random.Random) -> str:
    """Say something that no other trial says."""
    return " ".join("".join(chance.choices("bdfklmnrstaeiou", k=9)) for _ in range(6))


def test_the_command_line_finds_what_it_saved_before_the_engine_was_killed(
    home: Home, chance: random.Random
) -> None:
    texts = [_words(chance) for _ in range(3)]
    for text in texts:
        saved = home.json("save", text)
        threading.Event().wait(chance.uniform(0, _LONGEST_DELAY_S))
        home.kill_engine()

        found = home.json("search", text)
        assert [hit["id"] for hit in found["hits"]].count(saved["id"]) == 1
    listed = home.json("list")
    assert listed["total"] == len(texts)
    assert_each_once(home, texts)


def test_an_edited_memory_shows_its_newest_revision_after_a_kill(
    home: Home, chance: random.Random
) -> None:
    client = home.client()
    saved = client.call("save", home.request(text="the gate opens at six"))
    for hour in ("seven", "eight", "nine"):
        changed = home.request(text=f"the gate opens at {hour}", id=saved["id"])
        client.call("save", changed)
        threading.Event().wait(chance.uniform(0, 0.2))
        home.kill_engine()

        (hit,) = client.call("search", home.request(query="when does the gate open"))["hits"]
        assert hit["text"] == f"the gate opens at {hour}"
    history = client.call("history", home.request(ref=saved["id"]))
    assert [revision["revision"] for revision in history["revisions"]] == [1, 2, 3, 4]
    assert_each_once(home, ["the gate opens at nine"])


def test_what_was_forgotten_stays_forgotten_after_a_kill(home: Home, chance: random.Random) -> None:
    client = home.client()
    for number in range(4):
        saved = client.call("save", home.request(text=f"secret plan {number} of the harbour"))
        threading.Event().wait(chance.uniform(0, 0.2))
        client.call("forget", home.request(ref=saved["id"], confirm=True))
        threading.Event().wait(chance.uniform(0, 0.2))
        home.kill_engine()

        assert client.call("search", home.request(query="secret plan of the harbour"))["hits"] == []
    assert_each_once(home, [])
    assert list(home.path.glob("projects/*/memory/secret*")) == []


# Imports.


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Six hundred lines, every fiftieth too long for one chunk."""
    path = tmp_path / "source.jsonl"
    lines = [json.dumps({"name": f"turn {n}", "text": text}) for n, text in enumerate(_texts())]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def _texts() -> list[str]:
    long = "The sea was calm." + " It stayed so." * 250
    return [
        f"turn {number} of the voyage" + (f".\n\n{long}" if number % 50 == 0 else "")
        for number in range(_LINES)
    ]


@pytest.mark.parametrize("kills", [4, pytest.param(12, marks=pytest.mark.long)])
def test_an_import_goes_on_when_the_engine_is_killed(
    home: Home, source: Path, chance: random.Random, kills: int
) -> None:
    running = _start_import(home, source)
    killed = 0
    while killed < kills and running.poll() is None:
        if home.engine_pid() is not None:
            threading.Event().wait(chance.uniform(0, 0.6))
            home.kill_engine()
            killed += 1
    answer = _end_import(running)

    assert answer["failed"] == []
    assert answer["imported"] + answer["unchanged"] == _LINES
    assert killed > 0
    again = home.cli("import", str(source), "--no-wait")
    assert f"0 imported, {_LINES} unchanged, nothing changed" in again.stdout
    assert_each_once(home, _texts())


def test_an_import_that_was_killed_is_resumed_by_running_it_again(
    home: Home, source: Path, chance: random.Random
) -> None:
    for _ in range(3):
        running = _start_import(home, source)
        threading.Event().wait(chance.uniform(0.3, 1.0))
        running.kill()
        running.communicate()
    answer = _end_import(_start_import(home, source))

    assert answer["failed"] == []
    assert answer["imported"] + answer["unchanged"] == _LINES
    assert_each_once(home, _texts())


def _start_import(home: Home, source: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        home.command("import", str(source), "--json"),
        cwd=home.project,
        env={**os.environ, **home.environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )


def _end_import(running: subprocess.Popen[str]) -> dict[str, Any]:
    output, complaints = running.communicate(timeout=120)
    assert running.returncode == 0, complaints
    answer: dict[str, Any] = json.loads(output)
    return answer


# Moves.


def test_a_memory_that_is_moved_is_never_nowhere_when_the_engine_is_killed(
    home: Home, chance: random.Random
) -> None:
    client = home.client()
    texts = [_words(chance) for _ in range(4)]
    ids = [client.call("save", home.request(text=text))["id"] for text in texts]
    for number in range(12):
        text, record_id = texts[number % 4], ids[number % 4]
        to = chance.choice(("hot", "deep"))

        client.call("move", home.request(ref=record_id, to=to))
        threading.Event().wait(chance.uniform(0, _LONGEST_DELAY_S))
        home.kill_engine()

        found = client.call("search", home.request(query=text))
        assert [hit["id"] for hit in found["hits"]].count(record_id) == 1
        assert client.call("get", home.request(ref=record_id))["tier"] == to
        assert client.call("status", home.request())["held"] is None
    client.call("drain", {"wait": True})
    listed = client.call("list", home.request())["memories"]
    root = home.hot_root
    assert {str(path) for path in root.glob("*.md") if path.name != "MEMORY.md"} == {
        memory["path"] for memory in listed if memory["tier"] == "hot"
    }
    assert [memory["revision"] for memory in listed] == [1] * 4
    assert_each_once(home, texts)
