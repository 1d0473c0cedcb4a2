"""Promises that a review found broken, each held by a test of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from memory import wire
from memory.app import now_utc
from memory.drafts import Draft
from memory.engine import answers
from memory.engine.access import local_view
from memory.engine.host import Host
from memory.errors import ServiceError
from memory.hot_folders import HotFolder
from memory.loader import load
from memory.search import Answer, Query
from memory.service import Receipt, Save
from tests.support.homes import wait_until
from tiers.deep import DeepStore
from tiers.errors import StoreUnavailable
from tiers.outbox import Change, SinkName
from tiers.records import MemoryRecord, Tier, Visibility, next_revision

ROOT = Path(__file__).parents[2]
TOKEN = "ghp_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5"


class Desk:
    """One project of an open home."""

    def __init__(self, host: Host, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self.host = host
        self.path = folder
        self.key = host.enter(str(folder)).key

    @property
    def folder(self) -> HotFolder:
        return self.host.app.folders.get(self.key)

    @property
    def root(self) -> Path:
        return self.folder.hot.root

    def save(self, text: str, *, tier: Tier | None = None, **draft: Any) -> Receipt:
        return self.host.app.service.save(
            self.key, Save(draft=Draft(text=text, **draft), tier=tier)
        )

    def ask(self, text: str, **query: Any) -> Answer:
        return self.host.app.search.search(Query(text=text, project=self.key, **query))

    def texts(self, text: str, **query: Any) -> list[str]:
        return [hit.payload["text"] for hit in self.ask(text, **query).hits]

    def look(self, **options: Any) -> None:
        self.host.app.hot_sink.look(self.folder, **options)


@pytest.fixture
def desk(host: Host, tmp_path: Path) -> Desk:
    return Desk(host, tmp_path / "project")


def test_secrets_of_hand_written_files_are_masked_when_the_index_is_down(desk: Desk) -> None:
    def down() -> DeepStore:
        raise StoreUnavailable("the index is down")

    desk.host.app.search._deep = down
    (desk.root / "deploy.md").write_text(f"the deploy token is {TOKEN}\n", encoding="utf-8")
    desk.look()

    answer = desk.ask("deploy token")

    assert "deep" in answer.degraded
    assert answer.hits
    assert all(TOKEN not in str(hit.payload) for hit in answer.hits)


def test_secrets_in_session_thread_and_unknown_keys_are_masked(desk: Desk) -> None:
    saved = desk.save(
        "plain text", session=f"s {TOKEN}", thread=f"t {TOKEN}", extra={f"k {TOKEN}": "v"}
    )

    assert TOKEN not in str(saved.record)
    assert sum(found.count for found in saved.masked) == 3


def test_the_name_of_a_file_does_not_carry_a_secret_into_the_prompt(tmp_path: Path) -> None:
    (tmp_path / f"{TOKEN}.md").write_text("some text\n", encoding="utf-8")

    assert TOKEN not in load(tmp_path).formatted_prompt


def test_the_index_does_not_tell_what_was_replaced(desk: Desk) -> None:
    old = desk.save("we deploy by hand", name="old way")
    desk.save("we deploy by pipeline", name="new way", supersedes=(old.record.id,))

    prompt = load(desk.root).formatted_prompt

    assert "by pipeline" in prompt
    assert "by hand" not in prompt


def test_the_index_does_not_tell_what_has_expired_since(tmp_path: Path) -> None:
    demo = "---\nname: demo\nexpires: 2020-01-01\n---\nthe board password\n"
    (tmp_path / "demo.md").write_text(demo, encoding="utf-8")
    index = "# Ours\n\n- [demo](demo.md) — the board password\n- [gone](gone.md) — kept\n"
    (tmp_path / "MEMORY.md").write_text(index, encoding="utf-8")

    prompt = load(tmp_path).formatted_prompt

    assert "board password" not in prompt
    assert "kept" in prompt


def test_a_revision_that_asks_for_deep_takes_the_memory_out_of_hot(desk: Desk) -> None:
    desk.save("old words one", name="x")

    revised = desk.save("new words two", name="x", tier=Tier.DEEP)

    # The file stays until archive and index have the revision, and says what is current.
    assert revised.tier is Tier.DEEP
    assert "new words two" in load(desk.root).formatted_prompt
    assert "old words one" not in load(desk.root).formatted_prompt
    assert desk.host.app.drain()
    assert "new words two" not in load(desk.root).formatted_prompt
    assert desk.texts("new words two") == ["new words two"]


def test_a_memory_replaces_only_memories_of_its_own_project(desk: Desk, tmp_path: Path) -> None:
    mine = desk.save("the gateway listens on port 8443")
    other = Desk(desk.host, tmp_path / "other")
    other.save("something else", supersedes=(mine.record.id,))
    desk.host.app.drain()

    assert desk.texts("gateway port") == ["the gateway listens on port 8443"]


def test_a_private_memory_is_not_written_where_git_tracks_it(host: Host, tmp_path: Path) -> None:
    desk = Desk(host, tmp_path / "project")
    host.app.projects.set_hot_root(desk.key, desk.path / "tracked", tracked=True)
    host.leave(desk.key)
    desk = Desk(host, desk.path)

    private = desk.save("my salary is private", visibility=Visibility.PRIVATE)
    shared = desk.save("use uv")

    assert (private.tier, private.path) == (Tier.DEEP, None)
    assert (shared.tier, Path(shared.path or "").parent) == (Tier.HOT, desk.path / "tracked")


def test_saves_that_revise_or_repeat_go_on_while_the_archive_is_away(desk: Desk) -> None:
    desk.save("the port is 5432", name="port", tier=Tier.DEEP)
    known = desk.save("use uv, not pip", tier=Tier.DEEP)
    desk.host.app.drain()
    desk.host.app.archive.close()

    results = desk.host.app.service.save_many(
        desk.key,
        [
            Save(draft=Draft(text="the port is 6543", name="port")),
            Save(draft=Draft(text="use uv, not pip")),
            Save(draft=Draft(text="something new")),
        ],
    )

    assert not [result for result in results if isinstance(result, ServiceError)]
    revised, same, _ = (result for result in results if isinstance(result, Receipt))
    assert revised.record.revision == 2
    assert (same.record.id, same.unchanged) == (known.record.id, True)


def test_a_dead_revision_does_not_come_back_over_a_later_one(desk: Desk) -> None:
    outbox, now = desk.host.app.outbox, now_utc()
    first = desk.save("v1", name="note", tier=Tier.DEEP).record
    desk.host.app.drain()
    older = next_revision(first, now=now, body="v2 older")
    newer = next_revision(older, now=now, body="v3 newest")
    dead = outbox.accept([Change(older, Tier.DEEP, (SinkName.ARCHIVE,))], now=now)
    outbox.fail(SinkName.ARCHIVE, dead, error="refused", dead=True)
    outbox.accept([Change(newer, Tier.DEEP)], now=now)
    desk.host.app.drain()

    outbox.reopen(SinkName.ARCHIVE)
    desk.host.app.drain()

    current = desk.host.app.archive.current(first.id)
    assert current is not None
    assert (current.body, current.revision) == ("v3 newest", 3)


def test_one_folder_that_cannot_be_written_does_not_starve_the_others(
    host: Host, tmp_path: Path
) -> None:
    blocked, free = Desk(host, tmp_path / "blocked"), Desk(host, tmp_path / "free")
    blocked.root.rmdir()
    blocked.root.write_text("in the way", encoding="utf-8")
    now = now_utc()

    def note(desk: Desk, number: int) -> MemoryRecord:
        return MemoryRecord(
            id=f"{number:08d}-0000-4000-8000-{int(desk is free):012d}",
            project=desk.key,
            name=f"note {number}",
            body=f"text {number}",
            created_at=now,
            updated_at=now,
        )

    host.app.outbox.accept([Change(note(blocked, n), Tier.HOT) for n in range(70)], now=now)
    host.app.outbox.accept([Change(note(free, n), Tier.HOT) for n in range(5)], now=now)
    host.app.drain()

    assert len(list(free.root.glob("note-*.md"))) == 5


def test_a_broken_file_of_probe_vectors_is_an_error_that_can_be_cured(host: Host) -> None:
    model = host.app.model
    assert model.get(wait_s=30) is not None
    probes = next((host.app.home / "spaces").glob("*.npy"))
    probes.write_bytes(probes.read_bytes()[:40])
    again = type(model)(model._open, name="again", probes=probes.parent, retry_s=0.0)

    assert again.get(wait_s=30) is None
    assert again.error is not None
    assert str(probes) in again.error.message
    probes.unlink()
    wait_until(lambda: again.get(wait_s=1) is not None)


def test_emptying_all_files_at_once_is_held(desk: Desk) -> None:
    for number in range(10):
        desk.save(f"text number {number}", name=f"n{number}")
    for path in desk.root.glob("n*.md"):
        path.write_text("", encoding="utf-8")

    desk.look()

    assert desk.host.app.service.held(desk.key) == "10 of 10 files are gone"


def test_restoring_says_no_to_everything_that_was_held(desk: Desk) -> None:
    (desk.root / "MEMORY.md").write_text("our own words\n", encoding="utf-8")
    for number in range(8):
        desk.save(f"text number {number}", name=f"n{number}")
    desk.look()
    for number in range(5):
        (desk.root / f"n{number}.md").unlink()
    (desk.root / "stranger.md").write_text("from elsewhere\n", encoding="utf-8")
    (desk.root / "MEMORY.md").write_text("foreign words\n", encoding="utf-8")
    desk.look()
    assert desk.host.app.service.held(desk.key)

    asked = wire.HeldRequest(project=str(desk.path), action="restore")
    answers.held(local_view(desk.host), asked)
    desk.look()

    assert len(list(desk.root.glob("n*.md"))) == 8
    assert not (desk.root / "stranger.md").exists()
    index = (desk.root / "MEMORY.md").read_text(encoding="utf-8")
    assert "our own words" in index
    assert "foreign" not in index
    assert desk.texts("from elsewhere stranger foreign words") != ["from elsewhere"]


def test_what_is_forgotten_is_in_no_copy_of_a_file_that_was_renamed(desk: Desk) -> None:
    saved = desk.save("the quagga plan", name="plan")
    desk.save("the quagga plan, second version", name="plan")
    (desk.root / "plan.md").rename(desk.root / "scheme.md")
    desk.look()

    service = desk.host.app.service
    service.forget(desk.key, [service.find(desk.key, saved.record.id)])

    kept = [path for path in desk.host.app.home.rglob("snapshots/*/*") if path.is_file()]
    assert not [path for path in kept if b"quagga" in path.read_bytes()]


def test_a_tier_is_chosen_before_the_hits_are_cut(desk: Desk) -> None:
    desk.save("the harbour crane is red", name="hot one")
    for number in range(150):
        desk.save(f"the harbour crane number {number}", tier=Tier.DEEP)
    desk.host.app.drain()

    assert desk.texts("harbour crane", tier=Tier.HOT) == ["the harbour crane is red"]
    assert len(desk.texts("harbour crane", tier=Tier.DEEP)) == 10


def test_a_memory_of_many_chunks_does_not_crowd_out_the_others(desk: Desk) -> None:
    part = "The harbour crane moves to berth {}. " + "It lifts containers all day long. " * 40
    long = "\n\n".join(f"## Berth {n}\n\n{part.format(n)}" for n in range(130))
    desk.save(long, name="manual", tier=Tier.DEEP)
    for number in range(8):
        desk.save(f"harbour crane note {number}", tier=Tier.DEEP)
    desk.host.app.drain()

    names = {hit.payload["name"] for hit in desk.ask("harbour crane").hits}

    assert len(names) == 9


@pytest.mark.parametrize("entry", ["cli", "hook"])
def test_both_console_scripts_start(entry: str) -> None:
    code = (
        f"import sys; sys.argv = ['tiermem', '--version']; import tiermem_launch as t; t.{entry}()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, input=b"{}", capture_output=True, timeout=60
    )

    assert (done.returncode, done.stderr) == (0, b"")


def test_init_keeps_the_line_ends_and_bytes_of_a_gitignore(tmp_path: Path, host: Host) -> None:
    from memory.cli.init import _ignore

    path = tmp_path / ".gitignore"
    path.write_bytes(b"*.pyc\r\n# caf\xe9\r\n")

    _ignore(tmp_path, tmp_path / ".memory")
    _ignore(tmp_path, tmp_path / ".memory")

    assert path.read_bytes() == b"*.pyc\r\n# caf\xe9\r\n/.memory/\r\n"
