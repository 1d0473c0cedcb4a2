"""Searching an open home: every tier, and what must never be shown."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from memory.app import now_utc
from memory.drafts import Draft
from memory.engine.host import Host
from memory.search import Answer, Query
from memory.service import Receipt, Save
from tiers.records import Importance, Origin, Tier, Visibility


@pytest.fixture
def project(host: Host, tmp_path: Path) -> str:
    folder = tmp_path / "project"
    folder.mkdir()
    return host.enter(str(folder)).key


def keep(host: Host, project: str, text: str, *, tier: Tier | None = None, **draft: Any) -> Receipt:
    return host.app.service.save(project, Save(draft=Draft(text=text, **draft), tier=tier))


def ask(host: Host, project: str, text: str, **query: Any) -> Answer:
    return host.app.search.search(Query(text=text, project=project, **query))


def names(answer: Answer) -> list[str]:
    return [str(hit.payload["name"]) for hit in answer.hits]


def test_a_memory_is_found_before_any_store_has_it(host: Host, project: str) -> None:
    keep(host, project, "the retry budget is five attempts")

    answer = ask(host, project, "retry budget")

    assert names(answer) == ["the retry budget is five attempts"]
    assert answer.hits[0].pending


def test_a_memory_is_found_once_when_every_store_has_it(host: Host, project: str) -> None:
    saved = keep(host, project, "the retry budget is five attempts")
    assert host.app.drain()

    answer = ask(host, project, "retry budget")

    assert [hit.ranked.record_id for hit in answer.hits] == [saved.record.id]
    assert not answer.hits[0].pending
    assert answer.hits[0].path == saved.path
    assert answer.degraded == ()


def test_a_pending_revision_replaces_what_the_index_still_shows(host: Host, project: str) -> None:
    saved = keep(host, project, "the port is 5432", name="database port")
    host.app.drain()
    keep(host, project, "the port is 6543 since the move", name="database port")

    answer = ask(host, project, "database port")

    assert [hit.ranked.record_id for hit in answer.hits] == [saved.record.id]
    assert answer.hits[0].payload["text"] == "the port is 6543 since the move"


def test_a_pending_memory_is_measured_as_the_indexed_ones_are(host: Host, project: str) -> None:
    for number in range(20):
        keep(host, project, f"the harbour crane number {number} is painted", tier=Tier.DEEP)
    host.app.drain()
    keep(host, project, "quokkas graze near the lighthouse")

    answer = ask(host, project, "quokkas graze near the harbour lighthouse")

    assert names(answer)[0] == "quokkas graze near the lighthouse"
    assert answer.hits[0].pending


def test_a_memory_that_is_indexed_while_the_search_runs_is_found(
    host: Host, project: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = host.app.deep()
    candidates = deep.candidates

    def asked_just_before_it_is_indexed(**query: Any) -> Any:
        found = candidates(**query)
        host.app.drain()
        return found

    monkeypatch.setattr(deep, "candidates", asked_just_before_it_is_indexed)
    keep(host, project, "deploys happen on Tuesdays")

    assert names(ask(host, project, "deploys")) == ["deploys happen on Tuesdays"]


def test_a_forgotten_memory_is_not_shown_though_the_index_still_has_it(
    host: Host, project: str
) -> None:
    keep(host, project, "the old office is in Kassel", name="office")
    host.app.drain()

    host.app.service.forget(project, [host.app.service.find(project, "office")])

    assert ask(host, project, "old office Kassel").hits == ()


def test_an_expired_memory_is_not_shown(host: Host, project: str) -> None:
    soon = now_utc() + timedelta(milliseconds=1)
    keep(host, project, "the demo password is on the board", expires_at=soon)
    host.app.drain()

    assert ask(host, project, "demo password board").hits == ()


def test_what_a_newer_memory_replaces_is_shown_only_when_asked_for(
    host: Host, project: str
) -> None:
    old = keep(host, project, "we deploy by hand with the old script", name="old way")
    keep(
        host,
        project,
        "we deploy by pipeline, never by hand",
        name="new way",
        supersedes=(old.record.id,),
    )
    host.app.drain()

    assert names(ask(host, project, "how do we deploy by hand")) == ["new way"]
    both = names(ask(host, project, "how do we deploy by hand", include_superseded=True))
    assert sorted(both) == ["new way", "old way"]


def test_another_owners_private_memory_is_not_shown(host: Host, project: str) -> None:
    saved = keep(
        host, project, "prefers tabs over spaces", tier=Tier.DEEP, visibility=Visibility.PRIVATE
    )
    host.app.drain()
    assert len(ask(host, project, "tabs or spaces").hits) == 1

    host.app.search._owner = "somebody else"

    assert ask(host, project, "tabs or spaces").hits == ()
    assert saved.record.owner == "tester"


def test_projects_do_not_see_each_other(host: Host, project: str, tmp_path: Path) -> None:
    other_folder = tmp_path / "other"
    other_folder.mkdir()
    other = host.enter(str(other_folder)).key
    keep(host, project, "the gateway listens on port 8443")
    host.app.drain()
    keep(host, project, "the gateway also listens on port 9443")

    assert ask(host, other, "gateway port").hits == ()


def test_filters_narrow_what_is_found(host: Host, project: str) -> None:
    keep(host, project, "alpha rollout on Monday", name="a", tags=("ops",), category="plans")
    keep(host, project, "beta rollout on Tuesday", name="b", tags=("dev",))
    host.app.drain()

    assert names(ask(host, project, "rollout", tags=("ops",))) == ["a"]
    assert names(ask(host, project, "rollout", category="plans")) == ["a"]
    assert names(ask(host, project, "rollout", since=now_utc())) == []
    assert sorted(names(ask(host, project, "rollout", until=now_utc()))) == ["a", "b"]


def test_filters_hold_for_pending_memories_too(host: Host, project: str) -> None:
    keep(host, project, "alpha rollout on Monday", name="a", tags=("ops",))
    keep(host, project, "beta rollout on Tuesday", name="b", tags=("dev",))

    assert names(ask(host, project, "rollout", tags=("ops",))) == ["a"]


def test_the_limit_counts_what_is_shown(host: Host, project: str) -> None:
    for number in range(6):
        keep(host, project, f"note {number} on the migration", name=f"n{number}")
    host.app.drain()
    forgotten = [host.app.service.find(project, f"n{number}") for number in range(3)]
    host.app.service.forget(project, forgotten)

    assert sorted(names(ask(host, project, "migration note", limit=3))) == ["n3", "n4", "n5"]


def test_an_important_memory_comes_before_its_equal(host: Host, project: str) -> None:
    keep(host, project, "check the cache first please", name="low", importance=Importance.LOW)
    keep(host, project, "check the cache first always", name="high", importance=Importance.HIGH)
    host.app.drain()

    assert names(ask(host, project, "check the cache first"))[0] == "high"


def test_what_a_tool_or_the_web_said_is_deep_not_hot(host: Host, project: str) -> None:
    for origin in (Origin.TOOL, Origin.WEB, Origin.IMPORT):
        assert keep(host, project, f"said by {origin}", origin=origin).tier is Tier.DEEP
    assert keep(host, project, "said by the agent", origin=Origin.AGENT).tier is Tier.HOT


def test_odd_questions_are_answered_without_an_error(host: Host, project: str) -> None:
    keep(host, project, "something to find")
    host.app.drain()

    for question in ('"', "the and of", "*", "NEAR(", "🙂", "a" * 20_000, "\x00", "-- ; drop"):
        ask(host, project, question)


def test_another_owners_pending_private_memory_is_not_shown(host: Host, project: str) -> None:
    keep(host, project, "prefers tabs over spaces", visibility=Visibility.PRIVATE)
    assert len(ask(host, project, "tabs or spaces").hits) == 1

    host.app.search._owner = "somebody else"

    assert ask(host, project, "tabs or spaces").hits == ()
