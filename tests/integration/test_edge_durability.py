"""The embedded deep store against kills, intruders, forks, full disks and damage."""

from __future__ import annotations

import json
import random
import shutil
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.memory_folder import folder_in_memory
from tiers.deep import DeepSpec, Health, Point, SparseVector
from tiers.deep_edge import EdgeStore
from tiers.errors import StoreBusy, StoreDamaged, StoreFull, StoreUnavailable
from tiers.filters import All

ROOT = Path(__file__).parents[2]
SPEC = DeepSpec(active="mini", vectors={"mini": 4})
EVERYTHING = All(())

PREAMBLE = """
import os, sys, uuid
from pathlib import Path
from tiers.deep import DeepSpec, Point, SparseVector
from tiers.deep_edge import EdgeStore
from tiers.errors import StoreBusy, StoreUnavailable
from tiers.filters import All

SPEC = DeepSpec(active="mini", vectors={"mini": 4})
EVERYTHING = All(())
store = EdgeStore(Path(sys.argv[1]), min_free_bytes=0)

def a_point(number):
    words = SparseVector((7,), (1.0,))
    return Point(str(uuid.UUID(int=number)), {"project": "p"}, words, {"mini": (1, 0, 0, 0)})

def say(*words):
    print(*words, flush=True)
"""


def child(script: str, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PREAMBLE + script, *map(str, arguments)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )


def run_child(script: str, *arguments: object) -> str:
    with child(script, *arguments) as process:
        output, _ = process.communicate()
    assert process.returncode == 0
    return output


def next_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def a_point(number: int) -> Point:
    return Point(
        id=str(uuid.UUID(int=number)),
        payload={"project": "p"},
        sparse=SparseVector((7,), (1.0,)),
        dense={"mini": (1.0, 0.0, 0.0, 0.0)},
    )


def numbers_in(store: EdgeStore) -> set[int]:
    return {uuid.UUID(point.id).int for point in store.scroll(EVERYTHING)}


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    with folder_in_memory() as folder:
        yield folder


@pytest.fixture
def open_store(tmp_path: Path) -> Iterator[Callable[..., EdgeStore]]:
    opened: list[EdgeStore] = []

    def open_it(
        path: Path = tmp_path / "deep",
        *,
        min_free_bytes: int = 0,
        free_bytes: Callable[[], int] | None = None,
    ) -> EdgeStore:
        store = EdgeStore(path, min_free_bytes=min_free_bytes, free_bytes=free_bytes)
        store.open(SPEC)
        opened.append(store)
        return store

    yield open_it
    for store in opened:
        store.close()


# -- kills -----------------------------------------------------------------------------------

WRITER = """
store.open(SPEC)
for number in range(1, 10_000, 5):
    store.upsert([a_point(number + offset) for offset in range(5)])
    store.delete_ids([a_point(number).id])
    if number % 3 == 0:
        store.flush(number)
    say(number)
"""


@pytest.mark.parametrize("seed", range(4))
def test_everything_acknowledged_is_there_after_a_kill(
    open_store: Callable[..., EdgeStore], tmp_path: Path, seed: int
) -> None:
    writes = random.Random(seed).randrange(1, 60)
    with child(WRITER, tmp_path / "deep") as process:
        acknowledged = [int(next_line(process)) for _ in range(writes)]
        process.send_signal(signal.SIGKILL)

    store = open_store()

    found = numbers_in(store)
    assert {n + offset for n in acknowledged for offset in range(1, 5)} <= found
    assert not found & set(acknowledged)
    assert store.mark() >= max((n for n in acknowledged if n % 3 == 0), default=0)
    store.upsert([a_point(20_000)])
    assert store.count(EVERYTHING) == len(found) + 1


CREATOR = """
kill_at = int(sys.argv[2])
seen = 0

def count(event, arguments):
    global seen
    if event in ("open", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "fcntl.flock"):
        seen += 1
        if seen == kill_at:
            os.kill(os.getpid(), 9)

sys.addaudithook(count)
store.open(SPEC)
say(seen)
"""


def test_a_kill_at_any_step_of_the_creation_leaves_what_the_next_open_finishes(
    open_store: Callable[..., EdgeStore], tmp_path: Path
) -> None:
    steps = int(run_child(CREATOR, tmp_path / "whole", 0))
    early = random.Random(steps).sample(range(1, steps - 10), 10)
    for kill_at in [*early, *range(steps - 10, steps)]:
        path = tmp_path / f"killed-{kill_at}"
        with child(CREATOR, path, kill_at) as process:
            process.communicate()
        assert process.returncode == -signal.SIGKILL

        store = open_store(path)

        store.upsert([a_point(1)])
        store.close()
        assert numbers_in(open_store(path)) == {1}
        left = {entry.name for entry in path.iterdir() if not entry.name.startswith(".tiermem-")}
        assert left == {"owner.lock", "meta.json", "CURRENT", "shard-1"}


@pytest.mark.parametrize("step", ["announced", "carried out"])
def test_a_new_vector_that_a_kill_left_half_added_is_finished(
    open_store: Callable[..., EdgeStore], tmp_path: Path, step: str
) -> None:
    store = open_store()
    store.upsert([a_point(1)])
    if step == "carried out":
        store.add_vector("new", 2)
    store.close()
    change_meta(tmp_path, vectors={"mini": 4, "new": 2}, adding=["new"])

    reopened = open_store()

    reopened.activate("new")
    reopened.upsert([Point(a_point(2).id, {}, SparseVector((), ()), {"new": (1.0, 0.0)})])
    assert reopened.count(EVERYTHING) == 2
    assert read_meta(tmp_path)["adding"] == []


@pytest.mark.parametrize("step", ["announced", "carried out"])
def test_a_vector_that_a_kill_left_half_dropped_is_finished(
    open_store: Callable[..., EdgeStore], tmp_path: Path, step: str
) -> None:
    store = open_store()
    store.add_vector("new", 2)
    store.upsert([Point(a_point(1).id, {}, SparseVector((), ()), {"new": (1.0, 0.0)})])
    if step == "carried out":
        store.drop_vector("new")
    store.close()
    change_meta(tmp_path, vectors={"mini": 4}, dropping=["new"])

    reopened = open_store()

    (point,) = reopened.fetch([a_point(1).id], with_vectors=True)
    assert point.dense == {}
    assert read_meta(tmp_path)["dropping"] == []


# -- intruders -------------------------------------------------------------------------------

INTRUDER = """
refusals = []
for _ in range(20):
    try:
        EdgeStore(Path(sys.argv[1]), min_free_bytes=0).open(SPEC)
    except StoreBusy as refusal:
        refusals.append(refusal.message)
say(len(refusals), refusals[0])
"""

OWNER = """
store.open(SPEC)
for number in range(1, 201):
    store.upsert([a_point(number)])
say(os.getpid())
sys.stdin.readline()
for number in range(201, 401):
    store.upsert([a_point(number)])
store.flush(400)
say(store.count(EVERYTHING))
sys.stdin.readline()
"""


def test_a_second_opener_in_another_process_is_refused_and_harms_nothing(
    open_store: Callable[..., EdgeStore], tmp_path: Path
) -> None:
    with child(OWNER, tmp_path / "deep") as owner:
        assert owner.stdin is not None
        pid = next_line(owner)
        with pytest.raises(StoreBusy, match=f"process {pid} has the store"):
            open_store()
        with child(INTRUDER, tmp_path / "deep") as intruder:
            owner.stdin.write("\n")
            owner.stdin.flush()
            refused, _, reason = intruder.communicate()[0].partition(" ")
        assert int(refused) == 20
        assert f"process {pid} " in reason
        assert next_line(owner) == "400"
        owner.send_signal(signal.SIGKILL)

    store = open_store()
    assert numbers_in(store) == set(range(1, 401))
    assert store.mark() == 400


def test_a_second_opener_in_the_same_process_is_refused_and_harms_nothing(
    open_store: Callable[..., EdgeStore], tmp_path: Path
) -> None:
    store = open_store()
    store.upsert([a_point(1)])
    (tmp_path / "alias").symlink_to(tmp_path / "deep", target_is_directory=True)

    for path in (tmp_path / "deep", tmp_path / "alias", tmp_path / "deep" / ".." / "deep"):
        with pytest.raises(StoreBusy, match="this process"):
            EdgeStore(path).open(SPEC)
    with pytest.raises(StoreBusy):
        store.open(SPEC)

    store.upsert([a_point(2)])
    store.flush(2)
    store.close()
    assert numbers_in(open_store()) == {1, 2}


def test_a_refused_opening_leaves_the_folder_free(
    open_store: Callable[..., EdgeStore], tmp_path: Path
) -> None:
    open_store().close()
    (tmp_path / "deep" / "meta.json").write_text("no json", encoding="utf-8")
    for _ in range(2):
        with pytest.raises(StoreDamaged):
            open_store()


FORK = """
import warnings
warnings.simplefilter("ignore")  # From Python 3.12 on, forking with threads is warned of.
store.open(SPEC)
store.upsert([a_point(1)])
if (pid := os.fork()) == 0:
    refused = 0
    for call in (lambda: store.count(EVERYTHING), lambda: store.upsert([a_point(2)]), store.flush):
        try:
            call()
        except StoreUnavailable:
            refused += 1
    store.close()
    os._exit(refused)
say(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), store.health().state)
store.upsert([a_point(3)])
store.close()
"""


def test_a_forked_child_is_refused_and_its_parent_goes_on(
    open_store: Callable[..., EdgeStore], tmp_path: Path
) -> None:
    assert run_child(FORK, tmp_path / "deep").split() == ["3", "ready"]

    assert numbers_in(open_store()) == {1, 3}


# -- full disks ------------------------------------------------------------------------------


def test_a_disk_that_is_nearly_full_stops_writes_but_not_searches(
    open_store: Callable[..., EdgeStore],
) -> None:
    free = 10**12
    store = open_store(min_free_bytes=10**9, free_bytes=lambda: free)
    store.upsert([a_point(1)])

    free = 10**9 - 1
    for write in (
        lambda: store.upsert([a_point(2)]),
        lambda: store.delete(EVERYTHING),
        lambda: store.set_payload(EVERYTHING, {"project": "q"}),
        lambda: store.add_vector("new", 2),
    ):
        with pytest.raises(StoreFull) as refused:
            write()
        assert "free" in refused.value.hint
    assert store.health().state is Health.DEGRADED
    assert numbers_in(store) == {1}

    free = 10**12
    store.upsert([a_point(2)])
    assert store.health().state is Health.READY
    assert numbers_in(store) == {1, 2}


def test_a_large_write_needs_room_for_itself(open_store: Callable[..., EdgeStore]) -> None:
    store = open_store(min_free_bytes=10**9, free_bytes=lambda: 10**9 + 100_000)

    store.upsert([a_point(1)])
    with pytest.raises(StoreFull):
        store.upsert([a_point(number) for number in range(2, 402)])


def test_nothing_is_created_or_loaded_on_a_disk_without_any_space(
    open_store: Callable[..., EdgeStore], tmp_path: Path
) -> None:
    with pytest.raises(StoreFull):
        open_store(min_free_bytes=10**9, free_bytes=lambda: 1000)

    assert [entry.name for entry in (tmp_path / "deep").iterdir()] == ["owner.lock"]
    assert open_store(min_free_bytes=10**9, free_bytes=lambda: 5 * 10**8).count(EVERYTHING) == 0


# -- damage ----------------------------------------------------------------------------------


def break_segment(folder: Path) -> None:
    (mappings,) = folder.glob("shard-1/segments/*/mutable_id_tracker.mappings")
    mappings.write_bytes(b"\xff" * 100)


def empty_segments(folder: Path) -> None:
    shutil.rmtree(folder / "shard-1" / "segments")
    (folder / "shard-1" / "segments").mkdir()


DAMAGE: dict[str, Callable[[Path], None]] = {
    "a broken segment": break_segment,
    "no segments": empty_segments,
    "no log": lambda folder: shutil.rmtree(folder / "shard-1" / "wal"),
    "no shard": lambda folder: shutil.rmtree(folder / "shard-1"),
    "no meta.json": lambda folder: (folder / "meta.json").unlink(),
    "meta.json without its keys": lambda folder: write_text(folder / "meta.json", "{}"),
    "a meta.json that is a list": lambda folder: write_text(folder / "meta.json", "[]"),
    "CURRENT out of the folder": lambda folder: write_text(folder / "CURRENT", "../deep/shard-1"),
    "two shards and no CURRENT": lambda folder: two_shards(folder),
}


def two_shards(folder: Path) -> None:
    (folder / "shard-2").mkdir()
    (folder / "CURRENT").unlink()


def write_text(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_store_is_named_and_left_where_it_is(
    open_store: Callable[..., EdgeStore], tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    store = open_store()
    store.upsert([a_point(1)])
    store.close()
    damage(tmp_path / "deep")
    before = listing(tmp_path)

    with pytest.raises(StoreDamaged) as refused:
        open_store()

    assert "reindex" in refused.value.hint
    assert listing(tmp_path) == before


def listing(folder: Path) -> set[str]:
    """List the files but for one that the engine clears away before it finds the damage."""
    return {
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.name != "tracker_journal.dat"
    }


def test_a_missing_current_is_found_again_when_there_is_one_shard(
    open_store: Callable[..., EdgeStore], tmp_path: Path
) -> None:
    store = open_store()
    store.upsert([a_point(1)])
    store.close()
    (tmp_path / "deep" / "CURRENT").unlink()

    assert numbers_in(open_store()) == {1}


def test_a_folder_that_cannot_be_made_is_unavailable(
    open_store: Callable[..., EdgeStore], tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("in the way", encoding="utf-8")

    with pytest.raises(StoreUnavailable):
        open_store(tmp_path / "file" / "deep")


def test_what_another_version_wrote_into_meta_json_is_kept(
    open_store: Callable[..., EdgeStore], tmp_path: Path
) -> None:
    open_store().close()
    change_meta(tmp_path, epoch=3, note={"from": "elsewhere"})

    open_store().flush(9)

    meta = read_meta(tmp_path)
    assert (meta["epoch"], meta["note"], meta["mark"]) == (3, {"from": "elsewhere"}, 9)


def test_a_copy_takes_only_the_space_of_its_data(
    open_store: Callable[..., EdgeStore], tmp_path: Path
) -> None:
    store = open_store()
    store.upsert([a_point(1)])

    store.backup(tmp_path / "copy")

    files = [path.stat() for path in (tmp_path / "copy").rglob("*") if path.is_file()]
    assert sum(file.st_size for file in files) > 50 * 2**20
    assert sum(file.st_blocks * 512 for file in files) < 5 * 2**20


def read_meta(folder: Path) -> dict[str, object]:
    meta: dict[str, object] = json.loads(
        (folder / "deep" / "meta.json").read_text(encoding="utf-8")
    )
    return meta


def change_meta(folder: Path, **changes: object) -> None:
    write_text(folder / "deep" / "meta.json", json.dumps(read_meta(folder) | changes))
