"""What a search gave, and what is said of it afterwards."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from memory.engine.host import Host
from memory.errors import NotFound, UsageError
from tests.support.hosts import open_host
from tests.support.people import Desk
from tiers.errors import StoreFull, StoreUnavailable
from tiers.records import Tier
from tiers.usage import UsageLog, Verdict


@pytest.fixture
def desk(host: Host, tmp_path: Path) -> Desk:
    (tmp_path / "project").mkdir()
    return Desk(host, tmp_path / "project")


def three(desk: Desk) -> list[str]:
    texts = ("the gate opens at six", "the gate is green", "the gate squeaks")
    return [desk.save(text, tier=Tier.DEEP).record.id for text in texts]


def test_what_is_said_of_a_search_is_counted_once(desk: Desk) -> None:
    service = desk.host.app.service
    used, ignored, wrong = three(desk)
    receipt = service.note_search(desk.key, desk.found("gate"))
    assert receipt is not None

    for _ in range(2):
        told = service.feedback(
            desk.key, receipt, used=[used], ignored=[ignored[:8]], wrong=[wrong]
        )

    assert told == {used: Verdict.USED, ignored: Verdict.IGNORED, wrong: Verdict.WRONG}
    usage = service.usage([used, ignored, wrong, "nobody"])
    assert {key: (u.uses, u.ignored, u.wrong) for key, u in usage.items()} == {
        used: (1, 0, 0),
        ignored: (0, 1, 0),
        wrong: (0, 0, 1),
    }
    assert usage[used].last_used_at is not None

    service.feedback(desk.key, receipt, wrong=[used])

    again = service.usage([used])[used]
    assert (again.uses, again.wrong, again.last_used_at) == (0, 1, None)


def test_a_search_is_no_use_by_itself(desk: Desk) -> None:
    ids = three(desk)
    desk.host.app.service.note_search(desk.key, ids)

    assert desk.host.app.service.usage(ids) == {}


def test_only_what_a_search_gave_is_judged_by_its_receipt(desk: Desk) -> None:
    service = desk.host.app.service
    one, two, three_ = three(desk)
    receipt = service.note_search(desk.key, [one, two])
    assert receipt is not None

    with pytest.raises(NotFound, match=three_):
        service.feedback(desk.key, receipt, used=[one, three_])
    with pytest.raises(UsageError):
        service.feedback(desk.key, receipt)
    with pytest.raises(UsageError):
        service.feedback(desk.key, receipt, used=[one], ignored=[one])

    assert service.usage([one, two, three_]) == {}


def test_a_receipt_is_good_for_its_project_and_owner_alone(desk: Desk, tmp_path: Path) -> None:
    service = desk.host.app.service
    (tmp_path / "other").mkdir()
    other = desk.host.enter(str(tmp_path / "other")).key
    (one, *_) = three(desk)
    receipt = service.note_search(desk.key, [one])
    assert receipt is not None

    for act in (
        lambda: service.feedback(other, receipt, used=[one]),
        lambda: service.seen_by("ben").feedback(desk.key, receipt, used=[one]),
        lambda: service.feedback(desk.key, "0123456789ab", used=[one]),
        lambda: service.feedback(desk.key, "", used=[one]),
    ):
        with pytest.raises(NotFound, match="no receipt") as refused:
            act()
        assert refused.value.hint
    assert service.usage([one]) == {}


def test_a_search_that_gave_nothing_has_no_receipt(desk: Desk) -> None:
    assert desk.host.app.service.note_search(desk.key, []) is None


def test_what_is_forgotten_leaves_receipts_and_use(desk: Desk) -> None:
    service = desk.host.app.service
    one, two, _ = three(desk)
    receipt = service.note_search(desk.key, [one, two])
    assert receipt is not None
    service.feedback(desk.key, receipt, used=[one, two])

    desk.forget(one)

    with pytest.raises(NotFound):
        service.feedback(desk.key, receipt, wrong=[one])
    assert desk.host.app.usage.of([one, two]).keys() == {two}
    desk.host.app.stop()
    for file in desk.host.app.home.glob("usage.db*"):
        assert one.encode() not in file.read_bytes()


def test_receipts_outlive_the_engine(make_host: Callable[..., Host], tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    desk = Desk(make_host(), tmp_path / "project")
    (one, *_) = three(desk)
    receipt = desk.host.app.service.note_search(desk.key, [one])
    assert receipt is not None
    desk.host.stop()

    desk = Desk(make_host(), tmp_path / "project")
    desk.host.app.service.feedback(desk.key, receipt, used=[one])

    assert desk.host.app.service.usage([one])[one].uses == 1


# Trouble with the file is no trouble for anything else.


def test_a_search_that_cannot_be_noted_goes_on(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    service = desk.host.app.service
    ids = three(desk)

    def full(*_: object, **__: object) -> str:
        raise StoreFull("no space is left")

    monkeypatch.setattr(UsageLog, "note", full)
    with caplog.at_level(logging.WARNING):
        assert service.note_search(desk.key, ids) is None

    assert "no space is left" in caplog.text


def test_memories_are_forgotten_and_read_while_their_use_cannot_be(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = desk.host.app.service
    (one, *_) = three(desk)

    def away(*_: object, **__: object) -> None:
        raise StoreUnavailable("away")

    monkeypatch.setattr(UsageLog, "_run", away)
    assert service.usage([one]) == {}
    desk.forget(one)

    assert len(desk.entries()) == 2
    with pytest.raises(StoreUnavailable):
        service.feedback(desk.key, "0123456789ab", used=[one])


@pytest.mark.parametrize("kind", ["damaged", "a folder"])
def test_a_home_opens_whatever_became_of_the_file(tmp_path: Path, kind: str) -> None:
    (tmp_path / "project").mkdir()
    path = tmp_path / "home" / "usage.db"
    path.parent.mkdir()
    if kind == "damaged":
        path.write_bytes(b"not a database " * 1_000)
    else:
        path.mkdir()
    host = open_host(tmp_path / "home")
    try:
        desk = Desk(host, tmp_path / "project")
        ids = three(desk)

        receipt = host.app.service.note_search(desk.key, ids)

        assert (receipt is None) is (kind == "a folder")
        assert set(desk.found("gate")) == set(ids)
    finally:
        host.stop()


def test_a_home_without_the_file_makes_it_anew(
    make_host: Callable[..., Host], tmp_path: Path
) -> None:
    (tmp_path / "project").mkdir()
    make_host().stop()
    for file in (tmp_path / "home").glob("usage.db*"):
        file.unlink()

    desk = Desk(make_host(), tmp_path / "project")

    assert desk.host.app.service.note_search(desk.key, three(desk)) is not None
