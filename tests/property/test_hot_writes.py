"""Whatever a person does at whatever moment of an engine's write, no version of theirs is lost."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest import mock

from hypothesis import given, settings
from hypothesis import strategies as st

from tiers import atomic, hot
from tiers.hot import HotTier, UnseenEdit, file_hash

NOW = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)
PATH = "a.md"


class Person:
    """Edits one file in every way that editors have. `saved` are versions nobody threw away."""

    def __init__(self, tier: HotTier) -> None:
        self.full = tier.root / PATH
        self.saved: set[bytes] = set()
        self._count = 0
        self._open: int | None = None

    def act(self, action: str) -> None:
        if action != "nothing":
            getattr(self, action)()

    def in_place(self) -> None:
        self._throw_away()
        self.full.write_bytes(self._next())

    def by_rename(self) -> None:
        fresh = self.full.with_name(".swp")
        fresh.write_bytes(self._next())
        self._throw_away()
        self._close_if_here()
        fresh.replace(self.full)

    def delete(self) -> None:
        self._throw_away()
        self._close_if_here()
        self.full.unlink(missing_ok=True)

    def delete_and_create(self) -> None:
        self.delete()
        self.in_place()

    def open_to_append(self) -> None:
        self.close()
        if self.full.exists():
            self._open = os.open(self.full, os.O_RDWR | os.O_APPEND)

    def append(self) -> None:
        """Write through what was opened before, whatever file has its name by now."""
        if self._open is None:
            return
        before = os.pread(self._open, 1_000_000, 0)
        self.saved.discard(before)
        added = self._next()
        os.write(self._open, added)
        self.saved ^= {added, before + added}

    def close(self) -> None:
        if self._open is not None:
            os.close(self._open)
            self._open = None

    def _close_if_here(self) -> None:
        """What is written into a file that one has removed oneself is meant for nobody."""
        here = self.full.stat() if self.full.exists() else None
        if self._open is not None and here and os.path.samestat(os.fstat(self._open), here):
            self.close()

    def _next(self) -> bytes:
        self._count += 1
        version = f"person {self._count}\n".encode()
        self.saved.add(version)
        return version

    def _throw_away(self) -> None:
        """What a person overwrites herself, having it in front of her, is not lost."""
        if self.full.exists():
            self.saved.discard(self.full.read_bytes())


MOMENTS = st.lists(
    st.sampled_from(
        [
            *("nothing", "nothing", "in_place", "by_rename", "delete", "delete_and_create"),
            *("open_to_append", "append"),
        ]
    ),
    max_size=24,
)


def interrupted(actions: Iterator[str], person: Person, real: Callable[..., object]) -> object:
    """Let a person act before and after each step of a write."""

    def step(*arguments: object, **names: object) -> object:
        person.act(next(actions, "nothing"))
        try:
            return real(*arguments, **names)
        finally:
            person.act(next(actions, "nothing"))

    return step


def engine(tier: HotTier, number: int, known: dict[bytes, str]) -> None:
    """Write one revision as the hot sink does: what was not seen is taken in first."""
    file = tier.read(PATH)
    if file is not None and file.content not in known:
        known[file.content] = "read"
    expected = file.hash if file else None
    content = f"engine {number}\n".encode()
    try:
        tier.write(PATH, content, expected=expected, now=NOW)
        known[content] = "written"
    except UnseenEdit as exc:
        known.update(dict.fromkeys(exc.displaced, "displaced"))


@settings(max_examples=200, deadline=None)
@given(actions=MOMENTS, between=MOMENTS, swaps=st.booleans())
def test_no_version_of_a_person_is_lost(
    actions: list[str], between: list[str], swaps: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        tier = HotTier(Path(folder) / "hot", Path(folder) / "state")
        tier.create()
        person, moments = Person(tier), iter(actions)
        stack.callback(person.close)
        # Nothing here is about a loss of power.
        stack.enter_context(mock.patch.object(os, "fsync"))
        if not swaps:
            stack.enter_context(mock.patch.object(atomic, "_swap", None))
        for name in ("exchange", "place_new", "write_temporary"):
            step = interrupted(moments, person, getattr(atomic, name))
            stack.enter_context(mock.patch.object(hot, name, step))
        known: dict[bytes, str] = {}
        for number, action in enumerate([*between[:6], "nothing"]):
            engine(tier, number, known)
            person.act(action)
        late, _ = tier.late_edits(NOW + timedelta(seconds=1))
        found = {edit.content for edit in late} | set(known)
        if (last := tier.read(PATH)) is not None:
            found.add(last.content)
        assert person.saved <= found
        assert {path.name for path in tier.root.iterdir()} <= {PATH}
        assert file_hash(b"") not in known
