"""Many MCP clients share one engine, and lose nothing when it is killed."""

from __future__ import annotations

import os
import random
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.support.homes import Home, wait_until
from tests.support.stdio_clients import LEGACY, MODERN, StdioClient, fronts, problem_of
from tests.support.stores import assert_each_once

Connect = Callable[[], StdioClient]

#: Between two saves of one client, so that the stores stay of a size at which one can look around.
_PAUSE_S = 0.03


@pytest.fixture
def connect(home: Home) -> Iterator[Connect]:
    clients: list[StdioClient] = []

    def start() -> StdioClient:
        clients.append(StdioClient(home))
        return clients[-1]

    yield start
    for client in clients:
        client.end()


@pytest.fixture
def chance() -> random.Random:
    """Random, and repeatable: run again with CRASH_SEED set to the number that is printed."""
    seed = int(os.environ.get("CRASH_SEED", random.randrange(2**32)))
    sys.stdout.write(f"CRASH_SEED={seed}\n")
    return random.Random(seed)


def test_twenty_clients_at_once_save_and_search_through_one_engine(
    home: Home, connect: Connect
) -> None:
    """Nothing runs when they come, and half of them speak the other generation."""

    def work(who: int) -> list[str]:
        client = connect()
        if who % 2:
            client.ask("initialize", LEGACY)
        else:
            client.ask("server/discover", {"_meta": MODERN})
        texts = [f"sailor {who} counted {number} gulls" for number in range(5)]
        for text in texts:
            saved = client.do("memory_save", text=text, tier="deep")
            found = client.do("memory_search", query=text)["hits"]
            assert saved["id"] in [hit["id"] for hit in found]
        return texts

    with ThreadPoolExecutor(20) as pool:
        texts = [text for done in pool.map(work, range(20)) for text in done]

    assert len(texts) == 100
    assert len(home.engines()) == 1
    looking = connect()
    for text in texts:
        hits = looking.do("memory_search", query=text)["hits"]
        assert any(text in hit["text"] for hit in hits), text
    assert len(fronts(home)) == 21
    assert_each_once(home, texts)


def test_clients_that_hang_up_leave_nothing_but_the_engine(home: Home, connect: Connect) -> None:
    clients = [connect() for _ in range(10)]
    for client in clients:
        client.send("tools/call", {"name": "memory_search", "arguments": {"query": "x"}})

    assert [client.hang_up() for client in clients] == [0] * 10

    assert fronts(home) == []
    assert len(home.engines()) == 1


class Saver(threading.Thread):
    """A client that saves all the time, and notes what was acknowledged and what was not."""

    def __init__(self, client: StdioClient, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self.client = client
        self.acknowledged: list[str] = []
        self.problems: list[dict[str, Any]] = []
        self.error: BaseException | None = None
        self._ending = threading.Event()

    def run(self) -> None:
        try:
            while not self._ending.wait(_PAUSE_S):
                self._save(f"{self.name} has note {len(self.acknowledged)} about crates and cranes")
        except BaseException as exc:  # noqa: BLE001 - the test raises it in its own thread
            self.error = exc

    def _save(self, text: str) -> None:
        result = self.client.call("memory_save", text=text, tier="deep")
        if result.get("isError"):
            self.problems.append(problem_of(result))
        else:
            assert result["structuredContent"]["id"]
            self.acknowledged.append(text)

    def end(self) -> None:
        self._ending.set()
        self.join()
        if self.error is not None:
            raise self.error


@pytest.mark.parametrize(
    ("kills", "least"), [(6, 50), pytest.param(60, 1_000, marks=pytest.mark.long)]
)
@pytest.mark.timeout(1200)
def test_no_acknowledged_save_of_any_client_is_lost_when_the_engine_is_killed(
    home: Home, connect: Connect, chance: random.Random, kills: int, least: int
) -> None:
    savers = [Saver(connect(), f"client{number}") for number in range(4)]
    for saver in savers:
        saver.start()

    def acknowledged() -> int:
        return sum(len(saver.acknowledged) for saver in savers)

    def goes_on(before: int) -> bool:
        return acknowledged() > before or any(saver.error for saver in savers)

    for _ in range(kills):
        before = acknowledged()
        wait_until(lambda before=before: goes_on(before))
        threading.Event().wait(chance.uniform(0.2, 2.0))
        home.kill_engine()
    wait_until(lambda: acknowledged() >= least or goes_on(10**9), patience_s=600)
    for saver in savers:
        saver.end()

    texts = [text for saver in savers for text in saver.acknowledged]
    problems = [problem for saver in savers for problem in saver.problems]
    kinds = Counter(problem["error"] for problem in problems)
    sys.stdout.write(f"{kills} kills, {len(texts)} acknowledged, problems: {dict(kinds)}\n")
    assert len(texts) >= least
    assert [p for p in problems if not (p["retryable"] and p["hint"])] == []
    for text in chance.sample(texts, 40):
        hits = savers[0].client.do("memory_search", query=text)["hits"]
        assert any(text in hit["text"] for hit in hits), text
    assert [saver.client.hang_up() for saver in savers] == [0] * len(savers)
    assert fronts(home) == []
    assert_each_once(home, texts, only=not problems)
