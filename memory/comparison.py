"""Compares a home's stores in the background after a start, however long one of them is away."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from embeddings.errors import EmbeddingError
from memory.reconcile import Reconciler
from tiers.errors import TierError
from tiers.home_database import HomeDatabase
from tiers.outbox import Outbox, SinkName

log = logging.getLogger(__name__)

#: A comparison that failed is tried again after a doubling while.
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.5, 60.0

#: So long after a start, searches wait for the deep store to be complete.
_PATIENCE_S = 2.0

#: The fact that the stores were compared since they were opened, and closed in peace.
_SETTLED = "settled"

#: The fact that says how the words of what is indexed were weighed.
_WORDS = "words"


class Comparison:
    """One thread that runs the reconciler until it succeeds. Any thread may ask how far it is.

    After an end in peace only what the stores say of themselves is compared, else every memory.
    `words` names how words are weighed: memories that were indexed in another way are indexed anew.
    `has_nothing` says that no store holds anything; `done` is called after each comparison.
    """

    def __init__(
        self,
        reconciler: Reconciler,
        *,
        database: HomeDatabase,
        outbox: Outbox,
        words: str,
        has_nothing: Callable[[], bool],
        done: Callable[[], None],
    ) -> None:
        self._reconciler = reconciler
        self._database = database
        self._outbox = outbox
        self._words = words
        self._has_nothing = has_nothing
        self._done = done
        self._was_settled = database.fact(_SETTLED) == "yes"
        self._is_settled = self._was_settled
        self._heads_are_known = False
        self._queued: tuple[int, int] | None = None
        self._patient_until = 0.0
        self._compared = threading.Event()  # set once the stores were compared, or could not be
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, start_relays: Callable[[], None]) -> None:
        """Compare heads, then start the relays, then compare the deep store meanwhile."""
        self._is_settled = False
        self._note_settled()
        self._patient_until = time.monotonic() + _PATIENCE_S
        self._compare_heads()
        start_relays()
        self._thread = threading.Thread(target=self._run, name="comparison", daemon=True)
        self._thread.start()

    def stop(self, *, timeout_s: float = 30.0) -> None:
        """End after what is being compared."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(timeout_s)

    def close(self) -> None:
        """Note how the home was left; call it when every store but the database is closed."""
        self._note_settled()

    def wait(self) -> None:
        """Wait for the first comparison, if one was started."""
        if self._thread is not None:
            self._compared.wait(_LONGEST_WAIT_S)

    def is_complete_soon(self) -> bool:
        """Say whether the deep store holds what it should, waiting a moment after a start."""
        while self._is_incomplete():
            if time.monotonic() >= self._patient_until or self._stopping.wait(0.01):
                return False
        return True

    def _is_incomplete(self) -> bool:
        if self._thread is None:
            return False
        if not self._compared.is_set():
            return True
        numbers = self._queued
        if numbers is None:
            return False
        if self._outbox.waits(SinkName.DEEP, first=numbers[0], last=numbers[1]):
            return True
        self._queued = None
        return False

    def _run(self) -> None:
        wait_s = _FIRST_WAIT_S
        while not self._stopping.is_set():
            self._is_settled = self._compare_heads() and self._compare_deep()
            self._compared.set()
            self._done()
            if self._is_settled:
                break
            self._stopping.wait(wait_s)
            wait_s = min(2 * wait_s, _LONGEST_WAIT_S)
        self._compared.set()

    def _compare_heads(self) -> bool:
        if not self._heads_are_known:
            try:
                self._reconciler.heads()
            except TierError as exc:
                log.warning("the archive was not compared: %s", exc.message)
                return False
            self._heads_are_known = True
        return True

    def _compare_deep(self) -> bool:
        try:
            if not self._has_nothing():
                queued = self._reconciler.deep_store(
                    thorough=not self._was_settled,
                    everything=self._database.fact(_WORDS) not in (None, self._words),
                ).queued
                self._queued = (queued[0], queued[-1]) if queued else None
            self._note_words()
        except (TierError, EmbeddingError) as exc:
            log.warning("the deep store was not compared: %s", exc.message)
            return False
        return True

    def _note_words(self) -> None:
        if self._database.fact(_WORDS) != self._words:
            self._database.set_fact(_WORDS, self._words)

    def _note_settled(self) -> None:
        try:
            self._database.set_fact(_SETTLED, "yes" if self._is_settled else "no")
        except TierError as exc:
            log.warning("how the home was left is not noted: %s", exc.message)
