"""People and the engine write the same files at the same time; no version of either is lost."""

from __future__ import annotations

import os
import random
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from memory.cli.client import EngineClient
from tests.support.homes import Home, wait_until
from tiers.topic import read_topic

_LONGEST_PAUSE_S = 0.02


@pytest.fixture
def chance() -> random.Random:
    """Random, and repeatable: run again with EDITOR_SEED set to the number that is printed."""
    seed = int(os.environ.get("EDITOR_SEED", random.randrange(2**32)))
    sys.stdout.write(f"EDITOR_SEED={seed}\n")
    return random.Random(seed)


@dataclass
class Note:
    """One memory and its file, and what people and the engine made of both."""

    id: str
    file: Path
    people: list[str] = field(default_factory=list)
    #: revision → text, as acknowledged
    engine: dict[int, str] = field(default_factory=dict)


class Editor(threading.Thread):
    """A person who gives each file a new text, saved in one of the ways that editors have.

    Each file is edited a moment after its turn was called: when the engine is writing it.
    """

    def __init__(self, notes: list[Note], wave: int, chance: random.Random) -> None:
        super().__init__(daemon=True)
        self.turns = {note.id: threading.Event() for note in notes}
        self.notes = notes
        self._wave = wave
        self._chance = random.Random(chance.random())
        self._pause = threading.Event()
        self.error: OSError | None = None

    def run(self) -> None:
        ways = (self._delete_and_create, self._rename_over, self._in_place)
        try:
            for note in self.notes:
                self.turns[note.id].wait()
                self._hesitate()
                text = f"person {self._wave} on {note.file.stem}"
                self._chance.choice(ways)(note.file, self._content(note, text))
                note.people.append(text)
        except OSError as exc:
            self.error = exc

    def _content(self, note: Note, text: str) -> bytes:
        """Edit what is there, or write all of it anew."""
        if self._chance.random() < 0.2:
            return f"{text}\n".encode()
        header, mark, _ = note.file.read_bytes().rpartition(b"---\n")
        return header + mark + f"\n{text}\n".encode()

    def _delete_and_create(self, file: Path, content: bytes) -> None:
        file.unlink()
        self._hesitate()
        file.write_bytes(content)

    def _rename_over(self, file: Path, content: bytes) -> None:
        fresh = file.with_name(f".{file.name}.swp")
        fresh.write_bytes(content)
        fresh.replace(file)

    def _in_place(self, file: Path, content: bytes) -> None:
        with file.open("wb", buffering=0) as handle:
            self._hesitate()
            half = len(content) // 2
            handle.write(content[:half])
            handle.write(content[half:])

    def _hesitate(self) -> None:
        self._pause.wait(self._chance.uniform(0, _LONGEST_PAUSE_S))


@pytest.mark.parametrize(
    ("waves", "files"), [(2, 20), pytest.param(40, 25, marks=pytest.mark.long)]
)
@pytest.mark.timeout(1200)
def test_every_version_of_a_person_and_of_the_engine_is_kept(
    home: Home, chance: random.Random, waves: int, files: int
) -> None:
    client = home.client()
    notes = [first_version(home, client, number) for number in range(files)]
    raced = 0

    for wave in range(waves):
        editor = Editor(chance.sample(notes, files), wave, chance)
        editor.start()
        for note in editor.notes:
            editor.turns[note.id].set()
            text = f"engine {wave} on {note.file.stem}"
            saved = client.call("save", home.request(text=text, id=note.id))
            note.engine[saved["revision"]] = text
            raced += "hot" in saved["pending"]
        editor.join()
        assert editor.error is None
        for note in notes:
            settle(home, client, note)

    for note in notes:
        check(home, client, note)
    listed = client.call("list", home.request())["memories"]
    assert sorted(memory["id"] for memory in listed) == sorted(note.id for note in notes)
    names = {"MEMORY.md", *(note.file.name for note in notes)}
    # The engine may just be writing the index; what it needs for that is gone in a moment.
    wait_until(lambda: {path.name for path in notes[0].file.parent.iterdir()} == names)
    sys.stdout.write(f"{waves * files} rounds, {raced} saves met an edit\n")


def first_version(home: Home, client: EngineClient, number: int) -> Note:
    request = home.request(text=f"engine first on note-{number}", name=f"note {number}", tier="hot")
    saved = client.call("save", request)
    return Note(saved["id"], Path(saved["path"]), engine={saved["revision"]: request["text"]})


def settle(home: Home, client: EngineClient, note: Note) -> None:
    """Wait until the last version of a person is a revision, and the file shows the last one."""

    def is_settled() -> bool:
        texts = [revision["text"] for revision in revisions(home, client, note)]
        return note.people[-1] in texts and shown(note) == texts[-1]

    wait_until(is_settled, patience_s=60.0, step_s=0.1)


def check(home: Home, client: EngineClient, note: Note) -> None:
    kept = {revision["revision"]: revision["text"] for revision in revisions(home, client, note)}
    texts = list(kept.values())
    assert sorted(kept) == list(range(1, len(kept) + 1))
    assert [text for text in texts if text in note.people] == note.people
    assert {number: kept[number] for number in note.engine} == note.engine
    assert set(texts) == {*note.people, *note.engine.values()}
    # The file shows a person's last version, unless the engine was given a later one.
    assert shown(note) == texts[-1]
    assert texts[-1] == note.people[-1] or len(kept) in note.engine


def revisions(home: Home, client: EngineClient, note: Note) -> list[dict[str, Any]]:
    answer: dict[str, Any] = client.call("history", home.request(ref=note.id))
    return list(answer["revisions"])


def shown(note: Note) -> str:
    return read_topic(note.file.read_bytes()).body if note.file.exists() else ""
