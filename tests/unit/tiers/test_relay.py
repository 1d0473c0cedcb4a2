from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tiers.catalogue import Catalogue
from tiers.errors import (
    HotRootNotWritable,
    InvalidPoint,
    StoreBusy,
    StoreMismatch,
    StoreUnavailable,
    TierError,
)
from tiers.home_database import HomeDatabase
from tiers.outbox import Change, Delivery, Outbox, SinkName
from tiers.records import MemoryRecord, Tier
from tiers.relay import MAX_ATTEMPTS, FlushPolicy, Relay

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
NEVER = FlushPolicy(every_s=1e9, every_writes=10**9)


def a_record(record_id: str, *, revision: int = 1, project: str = "p") -> MemoryRecord:
    return MemoryRecord(
        id=record_id,
        project=project,
        name=record_id,
        body=f"{record_id} {revision}",
        revision=revision,
        created_at=NOW,
        updated_at=NOW,
    )


@dataclass
class Clock:
    """A clock that a test sets."""

    at: float = 1_000.0

    def __call__(self) -> float:
        return self.at


@dataclass
class Store:
    """A sink that keeps what it is given; `trouble` says what to raise for a record, if anything.

    `arrived` is set whenever a batch was taken.
    """

    trouble: Callable[[MemoryRecord], TierError | None] = lambda record: None
    name: SinkName = SinkName.ARCHIVE
    taken: list[str] = field(default_factory=list)
    without_vectors: set[str] = field(default_factory=set)
    calls: int = 0
    arrived: threading.Event = field(default_factory=threading.Event)

    def apply(self, deliveries: Sequence[Delivery]) -> Collection[str]:
        self.calls += 1
        records = [delivery.record for delivery in deliveries if delivery.record]
        for record in records:
            if error := self.trouble(record):
                raise error
        self.taken += [record.body for record in records if record.body not in self.taken]
        self.arrived.set()
        return self.without_vectors & {record.id for record in records}


@pytest.fixture
def outbox(tmp_path: Path) -> Iterator[Outbox]:
    database = HomeDatabase(tmp_path / "home.db")
    yield Outbox(database, Catalogue(database))
    database.close()


def accept(outbox: Outbox, *records: MemoryRecord, sink: SinkName = SinkName.ARCHIVE) -> list[int]:
    return outbox.accept([Change(record, Tier.DEEP, (sink,)) for record in records], now=NOW)


def refuse(*record_ids: str, error: type[TierError]) -> Callable[[MemoryRecord], TierError | None]:
    return lambda record: error(f"{record.id} is refused") if record.id in record_ids else None


def test_changes_of_one_memory_arrive_in_order(outbox: Outbox) -> None:
    store = Store()
    accept(outbox, *(a_record("a", revision=number) for number in range(1, 8)))

    assert Relay(outbox, store, batch=3).drain()

    assert store.taken == [f"a {number}" for number in range(1, 8)]
    assert outbox.backlog(SinkName.ARCHIVE).waiting == 0
    assert outbox.newest("a") is None


def test_what_a_sink_cannot_take_now_is_delivered_later(outbox: Outbox) -> None:
    store = Store(refuse("a", error=StoreUnavailable))
    relay = Relay(outbox, store)
    accept(outbox, a_record("a"))
    assert not relay.drain()
    assert outbox.backlog(SinkName.ARCHIVE).waiting == 1

    store.trouble = refuse(error=StoreUnavailable)

    assert relay.drain()
    assert store.taken == ["a 1"]


def test_a_sink_that_fails_is_left_alone_and_says_why_until_it_is_back(outbox: Outbox) -> None:
    store = Store(refuse("a", error=StoreBusy))
    relay = Relay(outbox, store, longest_wait_s=0.01)
    failed = threading.Event()
    back = threading.Event()

    def trouble(record: MemoryRecord) -> TierError | None:
        if back.is_set():
            return None
        if store.calls > 3:
            failed.set()
        return StoreBusy("somebody else has it")

    store.trouble = trouble
    accept(outbox, a_record("a"))
    relay.start()
    try:
        assert failed.wait(20)
        assert relay.is_open
        assert relay.error == "somebody else has it"
        back.set()
        assert store.arrived.wait(20)
    finally:
        relay.stop()
    assert not relay.is_open
    assert outbox.backlog(SinkName.ARCHIVE).waiting == 0


@pytest.mark.parametrize("error", [StoreMismatch, StoreUnavailable])
def test_trouble_with_a_whole_store_makes_no_change_a_dead_one(
    outbox: Outbox, error: type[TierError]
) -> None:
    clock = Clock()
    relay = Relay(outbox, Store(refuse("a", error=error)), clock=clock)
    accept(outbox, a_record("a"))

    for _ in range(MAX_ATTEMPTS + 2):
        assert not relay.drain()
        clock.at += 60

    assert outbox.backlog(SinkName.ARCHIVE).dead == 0
    assert outbox.backlog(SinkName.ARCHIVE).waiting == 1


def test_a_change_that_is_refused_for_good_is_put_aside_and_holds_up_nobody(
    outbox: Outbox,
) -> None:
    clock = Clock()
    store = Store(refuse("bad", error=InvalidPoint))
    relay = Relay(outbox, store, clock=clock)
    accept(outbox, a_record("x"), a_record("bad"), a_record("y"))

    relay.drain()
    assert store.taken == ["x 1", "y 1"]
    assert outbox.backlog(SinkName.ARCHIVE).waiting == 1

    for _ in range(MAX_ATTEMPTS - 1):
        clock.at += 2
        relay.drain()

    backlog = outbox.backlog(SinkName.ARCHIVE)
    assert (backlog.dead, backlog.waiting) == (1, 0)
    assert backlog.error == "bad is refused"
    calls = store.calls
    relay.drain()
    assert store.calls == calls


def test_a_later_change_does_not_overtake_a_refused_one_of_the_same_memory(outbox: Outbox) -> None:
    clock = Clock()
    store = Store(lambda record: InvalidPoint("never the first") if record.body == "a 1" else None)
    relay = Relay(outbox, store, clock=clock)
    accept(outbox, a_record("a", revision=1), a_record("a", revision=2), a_record("b"))

    relay.drain()
    assert store.taken == ["b 1"]

    for _ in range(MAX_ATTEMPTS):
        clock.at += 2
        relay.drain()
    assert store.taken == ["b 1", "a 2"]
    assert outbox.backlog(SinkName.ARCHIVE).dead == 1


def test_trouble_in_one_project_is_kept_from_the_others(outbox: Outbox) -> None:
    store = Store(refuse("locked up", error=HotRootNotWritable), name=SinkName.HOT)
    relay = Relay(outbox, store)
    accept(
        outbox,
        a_record("locked up", project="p"),
        a_record("free", project="q"),
        sink=SinkName.HOT,
    )

    assert not relay.drain()

    assert store.taken == ["free 1"]
    assert outbox.pending("locked up") == [SinkName.HOT]
    assert outbox.pending("free") == []


def test_what_lacks_vectors_is_asked_for_again_after_a_doubling_while(outbox: Outbox) -> None:
    clock = Clock()
    store = Store(without_vectors={"a"})
    relay = Relay(outbox, store, clock=clock, vector_wait_s=10.0)
    accept(outbox, a_record("a"), a_record("b"))

    relay.drain()
    assert store.taken == ["a 1", "b 1"]
    assert outbox.backlog(SinkName.ARCHIVE).vector_pending == 1
    asked = []
    for _ in range(8):
        clock.at += 10
        calls = store.calls
        relay.drain()
        asked.append(store.calls > calls)
    assert asked == [True, False, True, False, False, False, True, False]

    store.without_vectors = set()
    outbox.wake(SinkName.ARCHIVE, vector_pending=True)
    relay.drain()
    assert outbox.backlog(SinkName.ARCHIVE).vector_pending == 0
    assert outbox.newest("a") is None


def test_what_is_not_flushed_stays_queued(outbox: Outbox) -> None:
    flushes: list[int] = []
    store = Store()
    relay = Relay(outbox, store, flush=lambda: flushes.append(len(store.taken)), policy=NEVER)
    accept(outbox, a_record("a"))

    assert relay.drain()  # drains to the end: it flushes too
    assert flushes == [1]
    assert outbox.newest("a") is None


def test_many_writes_are_flushed_before_their_time(outbox: Outbox) -> None:
    flushed = threading.Event()
    relay = Relay(
        outbox,
        Store(),
        flush=flushed.set,
        policy=FlushPolicy(every_s=1e9, every_writes=3),
    )
    accept(outbox, *(a_record(f"m{number}") for number in range(3)))

    relay.start()
    try:
        assert flushed.wait(20)
    finally:
        relay.stop()


def test_a_flush_that_fails_acknowledges_nothing(outbox: Outbox) -> None:
    full = True

    def flush() -> None:
        if full:
            raise StoreUnavailable("no flush today")

    relay = Relay(outbox, Store(), flush=flush, policy=NEVER)
    accept(outbox, a_record("a"))
    assert not relay.drain()
    assert outbox.backlog(SinkName.ARCHIVE).unflushed == 1

    full = False

    assert relay.drain()
    assert outbox.backlog(SinkName.ARCHIVE).unflushed == 0


def test_stopping_flushes_what_was_applied(outbox: Outbox) -> None:
    store = Store()
    relay = Relay(outbox, store, flush=lambda: None, policy=NEVER)
    accept(outbox, a_record("a"))
    relay.start()
    assert store.arrived.wait(20)

    relay.stop()

    assert outbox.newest("a") is None


def test_stopping_delivers_what_is_left_within_its_time(outbox: Outbox) -> None:
    store = Store()
    relay = Relay(outbox, store, batch=1)
    accept(outbox, *(a_record(f"m{number}") for number in range(30)))
    relay.start()
    relay.stop(drain_s=60)

    assert len(store.taken) == 30
    assert outbox.unfinished(SinkName.ARCHIVE) == 0


def test_a_sink_that_stumbles_over_a_bug_is_given_the_change_again(
    outbox: Outbox, caplog: pytest.LogCaptureFixture
) -> None:
    stumbled = threading.Event()

    def trouble(record: MemoryRecord) -> TierError | None:
        if not stumbled.is_set():
            stumbled.set()
            raise ZeroDivisionError
        return None

    store = Store(trouble)
    relay = Relay(outbox, store)
    accept(outbox, a_record("a"))

    relay.start()
    try:
        assert store.arrived.wait(20)
    finally:
        relay.stop()

    assert store.taken == ["a 1"]
    assert "relay to archive stumbled" in caplog.text
