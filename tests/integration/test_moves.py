"""Moving a memory between hot and deep: nothing is lost on the way, whoever else is at work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.drafts import Draft
from memory.engine.host import Host
from memory.errors import NotFound, Refused, UsageError
from memory.hot_index import HotIndex
from memory.hot_sink import HotSink
from memory.service import Receipt, Save
from tests.support.hosts import open_host
from tests.support.memory_folder import folder_in_memory
from tests.support.people import Desk, git
from tiers.catalogue import Catalogue
from tiers.errors import StoreUnavailable
from tiers.hot import HotTier
from tiers.outbox import Change, Outbox, SinkName
from tiers.records import Origin, Tier, Visibility
from tiers.snapshots import Snapshots

HOT, DEEP = Tier.HOT, Tier.DEEP
TOKEN = "ghp_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5"


@pytest.fixture
def desk(host: Host, tmp_path: Path) -> Desk:
    (tmp_path / "project").mkdir()
    return Desk(host, tmp_path / "project")


def move(desk: Desk, ref: str, to: Tier) -> Receipt:
    return desk.host.app.service.move(desk.key, ref, to)


def pin(desk: Desk, ref: str, pinned: bool) -> Receipt:
    return desk.host.app.service.pin(desk.key, ref, pinned)


def index(desk: Desk) -> str:
    path = desk.root / "MEMORY.md"
    return path.read_text("utf-8") if path.exists() else ""


def settled(desk: Desk, text: str, name: str, **fields: Any) -> str:
    """Keep a memory and deliver it everywhere."""
    saved = desk.save(text, name, **fields)
    assert desk.drain()
    return saved.record.id


# Deep to hot.


def test_a_deep_memory_that_becomes_hot_has_a_file_and_a_line(desk: Desk) -> None:
    record_id = settled(desk, "deploys happen on Tuesdays", "deploys", tier=DEEP)
    before = desk.record(record_id)

    receipt = move(desk, "deploys", HOT)

    assert (receipt.tier, receipt.unchanged, receipt.pending) == (HOT, False, ())
    assert receipt.path == str(desk.root / "deploys.md")
    assert b"deploys happen on Tuesdays" in desk.read("deploys.md")
    assert "(deploys.md)" in index(desk)
    assert receipt.record == before == desk.record(record_id)
    assert desk.entry(record_id).revision == 1
    assert desk.look().taken_in == []


def test_what_the_web_said_becomes_hot_when_somebody_wants_it(desk: Desk) -> None:
    settled(desk, "read on a page", "page", origin=Origin.WEB)

    assert move(desk, "page", HOT).record.origin is Origin.WEB
    assert b"origin: web" in desk.read("page.md")


def test_a_memory_that_is_not_delivered_yet_can_become_hot(desk: Desk) -> None:
    record_id = desk.save("deploys happen on Tuesdays", "deploys", tier=DEEP).record.id

    move(desk, record_id, HOT)

    assert desk.files() == ["deploys.md"]
    assert desk.drain()
    assert desk.found("deploys Tuesdays") == [record_id]


def test_a_file_that_cannot_be_written_now_is_written_later(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    settled(desk, "deploys happen on Tuesdays", "deploys", tier=DEEP)
    with monkeypatch.context() as patched:
        patched.setattr(HotTier, "write", raising(StoreUnavailable("no")))
        receipt = move(desk, "deploys", HOT)

    assert (receipt.tier, receipt.path, receipt.pending) == (HOT, None, (SinkName.HOT,))
    assert desk.drain()
    assert desk.files() == ["deploys.md"]


def raising(error: BaseException) -> Callable[..., Any]:
    def fail(*_: object, **__: object) -> None:
        raise error

    return fail


# Hot to deep.


def test_a_hot_memory_that_becomes_deep_loses_file_and_line_and_is_found(desk: Desk) -> None:
    record_id = settled(desk, "deploys happen on Tuesdays", "deploys")
    settled(desk, "another one", "other")
    before = desk.record(record_id)

    receipt = move(desk, "deploys", DEEP)

    assert (receipt.tier, receipt.path, receipt.pending) == (DEEP, None, ())
    assert desk.files() == ["other.md"]
    assert "(deploys.md)" not in index(desk)
    assert "(other.md)" in index(desk)
    assert (desk.record(record_id), desk.entry(record_id).revision) == (before, 1)
    assert desk.found("deploys Tuesdays")[0] == record_id
    assert desk.look().demoted == []
    assert desk.look().taken_in == []


def test_a_file_stays_until_archive_and_index_have_what_it_says(desk: Desk) -> None:
    desk.save("deploys happen on Tuesdays", "deploys")

    receipt = move(desk, "deploys", DEEP)

    assert (receipt.tier, receipt.path) == (DEEP, str(desk.root / "deploys.md"))
    assert SinkName.HOT in receipt.pending
    desk.host.app.relays[SinkName.HOT].drain()
    assert desk.files() == ["deploys.md"]
    desk.host.app.relays[SinkName.ARCHIVE].drain()
    desk.host.app.relays[SinkName.HOT].drain()
    assert desk.files() == ["deploys.md"]
    assert "(deploys.md)" in index(desk)
    assert desk.host.app.outbox.backlog(SinkName.HOT).error == ""
    assert desk.drain()
    assert (desk.files(), "(deploys.md)" in index(desk)) == ([], False)


def test_a_file_stays_while_the_archive_is_away(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    settled(desk, "deploys happen on Tuesdays", "deploys")
    with monkeypatch.context() as patched:
        patched.setattr(desk.host.app.archive, "head", raising(StoreUnavailable("away")))
        assert SinkName.HOT in move(desk, "deploys", DEEP).pending
        desk.host.app.relays[SinkName.HOT].drain()
        assert desk.files() == ["deploys.md"]

    assert desk.drain()
    assert desk.files() == []


def test_a_file_stays_while_the_archive_has_an_older_revision(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when an older archive was put back: nothing is queued, and yet it lacks what is hot."""
    settled(desk, "deploys happen on Tuesdays", "deploys")
    archive = desk.host.app.archive
    head = archive.head(desk.id_at("deploys.md"))
    assert head is not None
    with monkeypatch.context() as patched:
        patched.setattr(archive, "head", lambda _: replace(head, revision=0))
        move(desk, "deploys", DEEP)
        desk.host.app.relays[SinkName.HOT].drain()

    assert desk.files() == ["deploys.md"]


def test_a_file_stays_while_the_index_is_away(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.save("deploys happen on Tuesdays", "deploys")
    with monkeypatch.context() as patched:
        patched.setattr(desk.host.app._deep, "upsert", raising(StoreUnavailable("away")))
        move(desk, "deploys", DEEP)
        assert not desk.drain()
        assert desk.files() == ["deploys.md"]

    assert desk.drain()
    assert desk.files() == []


def test_every_file_of_a_memory_goes(desk: Desk) -> None:
    record_id = settled(desk, "deploys happen on Tuesdays", "deploys")
    desk.write("copy.md", desk.read("deploys.md"))
    desk.look()
    assert desk.id_at("copy.md") == record_id

    move(desk, record_id, DEEP)

    assert (desk.files(), desk.placements().keys() & {"copy.md", "deploys.md"}) == ([], set())


def test_many_memories_that_are_moved_at_once_are_no_loss(desk: Desk) -> None:
    for number in range(8):
        settled(desk, f"text number {number}", f"note {number}")
    for number in range(7):
        move(desk, f"note {number}", DEEP)

    report = desk.look()

    assert (report.held, report.demoted, desk.status().held) == (None, [], None)
    assert desk.files() == ["note-7.md"]
    desk.wait_for_deletions()
    assert desk.look().demoted == []
    assert sorted(entry.tier for entry in desk.entries()) == [DEEP] * 7 + [HOT]


def test_moving_there_again_changes_nothing(desk: Desk) -> None:
    settled(desk, "deploys happen on Tuesdays", "deploys")

    assert move(desk, "deploys", HOT).unchanged
    assert not move(desk, "deploys", DEEP).unchanged
    again = move(desk, "deploys", DEEP)

    assert (again.unchanged, again.tier, again.pending) == (True, DEEP, ())
    assert desk.host.app.outbox.backlog(SinkName.HOT).waiting == 0


def test_a_move_back_before_the_file_is_gone_keeps_it(desk: Desk) -> None:
    desk.save("deploys happen on Tuesdays", "deploys")
    move(desk, "deploys", DEEP)

    move(desk, "deploys", HOT)

    assert desk.drain()
    assert (desk.files(), desk.entries()[0].tier) == (["deploys.md"], HOT)
    assert "(deploys.md)" in index(desk)


def test_a_memory_may_go_to_and_fro(desk: Desk) -> None:
    record_id = settled(desk, "deploys happen on Tuesdays", "deploys")
    for _ in range(3):
        move(desk, record_id, DEEP)
        assert desk.files() == []
        move(desk, record_id, HOT)
        assert desk.files() == ["deploys.md"]

    assert desk.drain()
    assert [r.revision for r in desk.host.app.service.history(desk.key, record_id)] == [1]
    assert desk.found("deploys Tuesdays") == [record_id]


def test_a_revision_between_keeps_the_memory_deep(desk: Desk) -> None:
    record_id = desk.save("deploys happen on Mondays", "deploys").record.id
    move(desk, "deploys", DEEP)

    assert desk.save("deploys happen on Tuesdays", "deploys").tier is DEEP

    assert desk.drain()
    assert desk.files() == []
    assert desk.record(record_id).body == "deploys happen on Tuesdays"


# People at work meanwhile.


def test_an_edit_that_nobody_has_seen_yet_wins(desk: Desk) -> None:
    record_id = desk.save("deploys happen on Mondays", "deploys").record.id
    move(desk, "deploys", DEEP)
    desk.edit("deploys.md", "Mondays", "Tuesdays")

    assert desk.drain()

    assert b"Tuesdays" in desk.read("deploys.md")
    assert (desk.entry(record_id).tier, desk.record(record_id).body) == (
        HOT,
        "deploys happen on Tuesdays",
    )
    assert "(deploys.md)" in index(desk)


def test_an_edit_that_was_seen_before_the_file_goes_wins(desk: Desk) -> None:
    record_id = desk.save("deploys happen on Mondays", "deploys").record.id
    move(desk, "deploys", DEEP)
    desk.edit("deploys.md", "Mondays", "Tuesdays")
    assert desk.look().taken_in == [record_id]

    assert desk.drain()

    assert b"Tuesdays" in desk.read("deploys.md")
    assert desk.entry(record_id).tier is HOT
    assert desk.history(record_id) == ["deploys happen on Mondays", "deploys happen on Tuesdays"]


def test_an_edit_before_the_move_is_what_moves(desk: Desk) -> None:
    record_id = settled(desk, "deploys happen on Mondays", "deploys")
    desk.edit("deploys.md", "Mondays", "Tuesdays")

    move(desk, "deploys", DEEP)

    assert desk.drain()
    assert desk.files() == []
    assert desk.record(record_id).body == "deploys happen on Tuesdays"


def test_an_edit_of_one_of_two_files_keeps_what_was_edited(desk: Desk) -> None:
    record_id = desk.save("deploys happen on Mondays", "deploys").record.id
    desk.write("copy.md", desk.read("deploys.md"))
    desk.look()
    move(desk, record_id, DEEP)
    desk.edit("copy.md", "Mondays", "Tuesdays")

    assert desk.drain()

    assert b"Tuesdays" in desk.read("copy.md")
    kept = desk.record(desk.id_at("copy.md"))
    assert (kept.body, desk.entry(kept.id).tier) == ("deploys happen on Tuesdays", HOT)
    assert desk.history(record_id)[0] == "deploys happen on Mondays"


def test_what_an_editor_writes_into_a_file_that_is_gone_is_not_lost(desk: Desk) -> None:
    settled(desk, "deploys happen on Mondays", "deploys")
    with (desk.root / "deploys.md").open("r+b") as editor:
        move(desk, "deploys", DEEP)
        assert desk.files() == []
        editor.write(editor.read().replace(b"Mondays", b"Tuesdays"))
        editor.flush()

        desk.look()

    assert desk.drain()
    bodies = {desk.record(entry.id).body for entry in desk.entries()}
    assert any("Tuesdays" in body for body in bodies)
    assert "deploys happen on Mondays" in bodies


def test_a_file_that_a_person_writes_again_is_hot_again(desk: Desk) -> None:
    record_id = settled(desk, "deploys happen on Mondays", "deploys")
    content = desk.read("deploys.md")
    move(desk, "deploys", DEEP)

    desk.write("deploys.md", content)

    assert desk.look().taken_in == [record_id]
    assert desk.entry(record_id).tier is HOT


def test_a_file_that_a_person_removed_meanwhile_is_no_trouble(desk: Desk) -> None:
    desk.save("deploys happen on Mondays", "deploys")
    move(desk, "deploys", DEEP)
    (desk.root / "deploys.md").unlink()

    assert desk.drain()

    assert (desk.placements().get("deploys.md"), desk.entries()[0].tier) == (None, DEEP)


# What is refused.


def test_a_pinned_memory_stays_hot_until_it_is_unpinned(desk: Desk) -> None:
    settled(desk, "deploys happen on Tuesdays", "deploys", pinned=True)

    with pytest.raises(Refused, match="is pinned") as refused:
        move(desk, "deploys", DEEP)

    assert "unpin" in refused.value.hint
    assert desk.files() == ["deploys.md"]
    pin(desk, "deploys", pinned=False)
    assert desk.drain()
    move(desk, "deploys", DEEP)
    assert desk.files() == []


def test_a_file_with_a_secret_stays(desk: Desk) -> None:
    desk.write("token.md", f"the token is {TOKEN}\n")
    desk.look()
    assert desk.drain()

    for act in (
        lambda: move(desk, "token", DEEP),
        lambda: pin(desk, "token", pinned=True),
        lambda: desk.save("new", "token", tier=DEEP),
    ):
        with pytest.raises(Refused, match=r"token\.md holds a secret"):
            act()

    assert TOKEN.encode() in desk.read("token.md")


def test_a_secret_that_a_person_adds_meanwhile_keeps_the_file(desk: Desk) -> None:
    desk.save("the token is old", "token")
    move(desk, "token", DEEP)
    desk.edit("token.md", "old", TOKEN)

    assert desk.drain()

    assert TOKEN.encode() in desk.read("token.md")
    assert desk.entries()[0].tier is HOT


def test_a_file_with_a_secret_stays_whatever_was_accepted(desk: Desk) -> None:
    desk.write("token.md", f"the token is {TOKEN}\n")
    desk.look()
    record = desk.record(desk.id_at("token.md"))
    move_of_it = Change(record, DEEP, (SinkName.HOT,))
    desk.host.app.outbox.accept([move_of_it], now=record.created_at)

    assert desk.drain()

    assert TOKEN.encode() in desk.read("token.md")
    assert desk.entry(record.id).tier is HOT


def test_what_people_wrote_in_the_index_is_not_moved(desk: Desk) -> None:
    desk.write("MEMORY.md", "# ours\n\nread this first\n")
    desk.look()
    record_id = desk.id_at("MEMORY.md")

    for act in (lambda: move(desk, record_id, DEEP), lambda: pin(desk, record_id, pinned=True)):
        with pytest.raises(Refused, match=r"MEMORY\.md"):
            act()
    assert "read this first" in index(desk)


def test_a_private_memory_does_not_become_a_file_that_git_tracks(
    host: Host, tmp_path: Path
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    git(project, "init", "-q", "-b", "main")
    desk = Desk(host, project)
    host.app.projects.set_hot_root(desk.key, project / ".memory", tracked=True)
    host.leave(desk.key)
    settled(desk, "my own way", "mine", visibility=Visibility.PRIVATE)

    with pytest.raises(Refused, match="git shows") as refused:
        move(desk, "mine", HOT)

    assert "visible" in refused.value.hint
    desk.save("my own way", "mine", visibility=Visibility.PROJECT)
    assert move(desk, "mine", HOT).path == str(project / ".memory" / "mine.md")


def test_cold_is_no_tier_to_move_to_by_hand(desk: Desk) -> None:
    settled(desk, "deploys happen on Tuesdays", "deploys")

    with pytest.raises(UsageError, match="hot or to deep"):
        move(desk, "deploys", Tier.COLD)
    with pytest.raises(NotFound):
        move(desk, "nothing by that name", HOT)


@pytest.mark.parametrize("to", [HOT, DEEP])
def test_a_cold_memory_comes_back(desk: Desk, to: Tier) -> None:
    record_id = settled(desk, "deploys happen on Tuesdays", "deploys", tier=DEEP)
    archive, catalogue = desk.host.app.archive, desk.host.app.catalogue
    archive.set_cold([record_id], True)
    catalogue.set_tier(record_id, Tier.COLD)
    desk.host.app.outbox.invalidate([(record_id, desk.key)], now=desk.record(record_id).created_at)
    assert desk.drain()
    assert desk.host.app.deep().health().count == 0

    receipt = move(desk, "deploys", to)

    assert desk.drain()
    assert (receipt.tier, desk.host.app.deep().health().count) == (to, 1)
    assert desk.files() == (["deploys.md"] if to is HOT else [])
    assert desk.found("deploys Tuesdays") == [record_id]


# Forgetting what was moved.


def test_nothing_of_a_moved_memory_is_left_once_it_is_forgotten(desk: Desk) -> None:
    record_id = settled(desk, "the old address is in Bern", "address")
    move(desk, "address", DEEP)
    move(desk, "address", HOT)
    desk.edit("address.md", "Bern", "Basel")
    desk.look()
    assert desk.drain()
    move(desk, "address", DEEP)

    desk.forget(record_id)

    assert desk.drain()
    home = desk.host.app.home
    desk.host.app.stop()
    files = [path for path in (home / "projects").rglob("*") if path.is_file()]
    files += home.glob("*.db*")
    assert [path for path in files if b"address is" in path.read_bytes()] == []


# Saving into another tier.


def test_saving_the_same_text_for_another_tier_moves_it(desk: Desk) -> None:
    record_id = settled(desk, "deploys happen on Tuesdays", "deploys")

    deep = desk.save("deploys happen on Tuesdays", tier=DEEP)
    assert (deep.record.id, deep.unchanged, deep.tier) == (record_id, True, DEEP)
    assert desk.files() == []

    hot = desk.save("deploys happen on Tuesdays", "deploys", tier=HOT)
    assert (hot.record.id, hot.unchanged, hot.tier) == (record_id, True, HOT)
    assert desk.files() == ["deploys.md"]
    assert desk.entry(record_id).revision == 1


def test_saving_a_pinned_memory_as_deep_leaves_it_hot(desk: Desk) -> None:
    settled(desk, "deploys happen on Mondays", "deploys", pinned=True)

    same = desk.save("deploys happen on Mondays", "deploys", tier=DEEP)
    revised = desk.save("deploys happen on Tuesdays", "deploys", tier=DEEP)

    assert (same.tier, revised.tier) == (HOT, HOT)
    assert desk.drain()
    assert b"Tuesdays" in desk.read("deploys.md")
    unpinned = desk.save("on Wednesdays", "deploys", tier=DEEP, pinned=False)
    assert unpinned.tier is DEEP
    assert desk.drain()
    assert desk.files() == []


def test_an_import_takes_no_memory_out_of_hot(desk: Desk) -> None:
    record_id = settled(desk, "deploys happen on Mondays", "deploys")

    def bring(text: str) -> Receipt:
        save = Save(draft=Draft(text=text), record_id=record_id, tier=DEEP)
        (receipt,) = desk.host.app.service.save_many(desk.key, [save])
        assert isinstance(receipt, Receipt)
        return receipt

    assert (bring("deploys happen on Mondays").tier, bring("on Tuesdays").tier) == (HOT, HOT)
    assert desk.drain()
    assert b"on Tuesdays" in desk.read("deploys.md")


# Pinning.


def test_pinning_is_a_revision_and_doing_it_again_is_none(desk: Desk) -> None:
    settled(desk, "deploys happen on Tuesdays", "deploys")

    pinned = pin(desk, "deploys", pinned=True)
    again = pin(desk, "deploys", pinned=True)

    assert (pinned.record.revision, pinned.unchanged) == (2, False)
    assert (again.record.revision, again.unchanged, again.tier) == (2, True, HOT)
    assert b"pinned: true" in desk.read("deploys.md")
    unpinned = pin(desk, "deploys", pinned=False)
    assert (unpinned.record.revision, unpinned.record.pinned) == (3, False)
    assert b"pinned: true" not in desk.read("deploys.md")


def test_a_deep_memory_is_pinned_where_it_is(desk: Desk) -> None:
    record_id = settled(desk, "deploys happen on Tuesdays", "deploys", tier=DEEP)

    assert pin(desk, "deploys", pinned=True).tier is DEEP
    assert desk.drain()
    assert (desk.files(), desk.record(record_id).pinned) == ([], True)


# Ends without a warning.


class Killed(BaseException):
    """The process ends here."""


def _kill_at(name: str, patched: pytest.MonkeyPatch) -> None:
    owner, method = {
        "before it is accepted": (Outbox, "accept"),
        "before the file is touched": (HotTier, "remove"),
        "when the file was taken aside": (Snapshots, "keep"),
        "when a copy is kept": (Path, "unlink"),
        "when the file is gone": (Catalogue, "displace"),
        "before the index is written": (HotIndex, "refresh"),
        "before it is acknowledged": (Outbox, "ack"),
        "before the file is written": (HotTier, "write"),
        "when the file is written": (HotSink, "_note"),
    }[name]
    patched.setattr(owner, method, raising(Killed()))


@pytest.mark.parametrize(
    "moment",
    [
        "before it is accepted",
        "before the file is touched",
        "when the file was taken aside",
        "when a copy is kept",
        "when the file is gone",
        "before the index is written",
        "before it is acknowledged",
    ],
)
def test_a_kill_while_a_memory_leaves_hot_leaves_it_in_one_tier(
    make_host: Callable[..., Host], tmp_path: Path, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "project").mkdir()
    desk = Desk(make_host(), tmp_path / "project")
    record_id = settled(desk, "deploys happen on Tuesdays", "deploys")
    settled(desk, "another one", "other")
    with monkeypatch.context() as patched:
        _kill_at(moment, patched)
        with pytest.raises(Killed):
            move(desk, "deploys", DEEP)
    desk.host.stop()

    desk = Desk(make_host(), tmp_path / "project")
    report = desk.look()
    assert (report.held, desk.status().held) == (None, None)
    assert desk.found("deploys Tuesdays")[0] == record_id
    assert desk.drain()
    assert_in_one_tier(desk, record_id, HOT if moment == "before it is accepted" else DEEP)


@pytest.mark.parametrize(
    "moment",
    [
        "before it is accepted",
        "before the file is written",
        "when the file is written",
        "before the index is written",
        "before it is acknowledged",
    ],
)
def test_a_kill_while_a_memory_becomes_hot_leaves_it_in_one_tier(
    make_host: Callable[..., Host], tmp_path: Path, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "project").mkdir()
    desk = Desk(make_host(), tmp_path / "project")
    record_id = settled(desk, "deploys happen on Tuesdays", "deploys", tier=DEEP)
    with monkeypatch.context() as patched:
        _kill_at(moment, patched)
        with pytest.raises(Killed):
            move(desk, "deploys", HOT)
    desk.host.stop()

    desk = Desk(make_host(), tmp_path / "project")
    desk.look()
    assert desk.found("deploys Tuesdays") == [record_id]
    assert desk.drain()
    assert_in_one_tier(desk, record_id, DEEP if moment == "before it is accepted" else HOT)


def test_a_kill_between_a_revision_and_its_move_keeps_the_revision(
    make_host: Callable[..., Host], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "project").mkdir()
    desk = Desk(make_host(), tmp_path / "project")
    record_id = settled(desk, "deploys happen on Mondays", "deploys")
    with monkeypatch.context() as patched:
        _kill_at("before it is acknowledged", patched)
        with pytest.raises(Killed):
            desk.save("deploys happen on Tuesdays", "deploys", tier=DEEP)
    desk.host.stop()

    desk = Desk(make_host(), tmp_path / "project")
    desk.look()
    assert desk.drain()
    assert desk.record(record_id).body == "deploys happen on Tuesdays"
    assert_in_one_tier(desk, record_id, HOT)
    assert b"Tuesdays" in desk.read("deploys.md")


def assert_in_one_tier(desk: Desk, record_id: str, tier: Tier) -> None:
    """Look at everything that says where a memory is; it is in the index whatever that is."""
    is_hot = tier is HOT
    placed = [path for path, p in desk.placements().items() if p.id == record_id]
    assert desk.entry(record_id).tier is tier
    assert bool(placed) is is_hot
    assert all((desk.root / path).is_file() for path in placed)
    assert [path for path in desk.files() if path.startswith(("deploys", "."))] == placed
    assert ("deploys" in index(desk)) is is_hot
    assert desk.found("deploys Tuesdays")[0] == record_id
    desk.wait_for_deletions()
    report = desk.look()
    assert (report.taken_in, report.demoted, report.held) == ([], [], None)
    assert desk.host.app.outbox.backlog(SinkName.HOT).waiting == 0


# Anything in any order.

_STEPS = st.lists(
    st.sampled_from(["hot", "deep", "save", "save deep", "edit", "look", "drain", "archive"]),
    min_size=1,
    max_size=12,
)


@given(steps=_STEPS)
@settings(max_examples=30)
def test_whatever_happens_in_whatever_order_the_newest_text_is_in_its_tier(
    steps: list[str],
) -> None:
    with folder_in_memory() as place:
        (place / "project").mkdir()
        desk = Desk(open_host(place / "home"), place / "project")
        try:
            _play(desk, steps)
        finally:
            desk.host.stop()


def _play(desk: Desk, steps: list[str]) -> None:
    text = "version 0 of the gate"
    record_id = desk.save(text, "gate").record.id
    said = [text]
    for number, step in enumerate(steps, 1):
        text = f"version {number} of the gate"
        if step in ("hot", "deep"):
            move(desk, record_id, Tier(step))
        elif step.startswith("save"):
            desk.save(text, record_id=record_id, tier=DEEP if "deep" in step else None)
            said.append(text)
        elif step == "edit" and (desk.root / "gate.md").exists():
            content = desk.read("gate.md").decode()
            head, _, _ = content.rpartition("version ")
            desk.write("gate.md", f"{head}{text}\n")
            said.append(text)
            desk.look()
        elif step == "look":
            desk.look()
        elif step == "archive":
            desk.host.app.relays[SinkName.ARCHIVE].drain()
        elif step == "drain":
            assert desk.drain()
    assert desk.drain()
    desk.look()
    assert desk.drain()

    record, entry = desk.record(record_id), desk.entry(record_id)
    assert record.body == said[-1]
    assert desk.history(record_id) == said
    assert desk.found("gate version") == [record_id]
    assert desk.files() == (["gate.md"] if entry.tier is HOT else [])
    assert ("gate" in index(desk)) is (entry.tier is HOT)
    if entry.tier is HOT:
        assert said[-1].encode() in desk.read("gate.md")
