"""Hands accepted changes to one sink, with backoff, until it has them."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception,
    sleep_using_event,
    stop_when_event_set,
    wait_random_exponential,
)

from tiers.errors import StoreDamaged, StoreMismatch, TierError
from tiers.outbox import Delivery, Outbox, Sink, SinkName, State

log = logging.getLogger(__name__)

#: A change that fails this often for a reason that will not pass is put aside (dead letter).
MAX_ATTEMPTS = 3

#: What waits for vectors is tried again after a doubling while, and at once when a model is back.
_LONGEST_VECTOR_WAIT_S = 300.0

#: How long a relay rests when nothing is due: what is open may be due by the clock, or become so
#: when another sink has got it; else it is called.
_BUSY_REST_S, _IDLE_REST_S = 0.5, 10.0

#: How long the changes of one project are put off at first when it has trouble.
_TROUBLED_WAIT_S = 0.5


@dataclass(frozen=True, slots=True)
class FlushPolicy:
    """When what a sink applied is made safe from a power loss.

    A flush of Qdrant Edge costs about ten fsyncs, 12 to 320 ms (measured 2026-11-30), so it is
    shared by many writes.
    """

    every_s: float = 2.0
    every_writes: int = 500


class Relay:
    """One thread that delivers one sink's changes in order per record.

    `flush` is None for a sink whose `apply` is durable by itself. With `by_project` a failure is
    taken for the trouble of one project, whose changes are put off while others go on. Another sink
    that fails as a whole, be it with a retryable error, damaged or made for another model, is left
    alone for a growing, jittered while (`is_open` says so); every change stays queued meanwhile.
    """

    def __init__(
        self,
        outbox: Outbox,
        sink: Sink,
        *,
        batch: int = 64,
        flush: Callable[[], None] | None = None,
        by_project: bool = False,
        policy: FlushPolicy | None = None,
        clock: Callable[[], float] = time.time,
        longest_wait_s: float = 30.0,
        vector_wait_s: float = 10.0,
    ) -> None:
        self._outbox = outbox
        self._sink = sink
        self._batch = batch
        self._flush = flush
        self._by_project = by_project
        self._policy = policy or FlushPolicy()
        self._clock = clock
        self._vector_wait_s = vector_wait_s
        self._failures = 0
        self._error = ""
        self._unflushed: list[int] = []
        self._flushed_at = time.monotonic()
        self._drain_until = 0.0
        self._work = threading.Event()
        self._stopping = threading.Event()
        self._turn = threading.Lock()  # guards a delivery round: _failures, _unflushed, _flushed_at
        self._thread: threading.Thread | None = None
        self._patiently = Retrying(
            retry=retry_if_exception(lambda exc: isinstance(exc, TierError) and _will_pass(exc)),
            wait=wait_random_exponential(multiplier=0.2, max=longest_wait_s),
            stop=stop_when_event_set(self._stopping),
            sleep=sleep_using_event(self._stopping),
            before_sleep=self._note_failure,
            reraise=True,
        )

    @property
    def name(self) -> SinkName:
        return self._sink.name

    @property
    def is_open(self) -> bool:
        """Whether the circuit is open: the sink failed and is left alone for a while."""
        return self._failures > 0

    @property
    def error(self) -> str:
        """Why the circuit is open."""
        return self._error

    def start(self) -> None:
        """Start delivering."""
        self._thread = threading.Thread(target=self._run, name=f"relay-{self.name}", daemon=True)
        self._thread.start()

    def notify(self) -> None:
        """Say that there may be work."""
        self._work.set()

    def stop(self, *, drain_s: float = 0.0, timeout_s: float = 30.0) -> None:
        """Finish the batch at hand and what can be delivered within `drain_s`; flush, and end.

        What is left stays queued.
        """
        self._drain_until = time.monotonic() + drain_s
        self._stopping.set()
        self._work.set()
        if self._thread is not None:
            self._thread.join(timeout_s)

    def drain(self) -> bool:
        """Deliver in the calling thread until nothing is due; says whether all was delivered."""
        self._outbox.wake(self.name)
        try:
            while self._deliver_batch():
                pass
            self.flush()
        except TierError as exc:
            if not _will_pass(exc):
                raise
            log.warning("%s does not take changes now: %s", self.name, exc.message)
        return self._outbox.unfinished(self.name) == 0

    def flush(self) -> None:
        """Make what was applied safe from a power loss and tell the outbox."""
        with self._turn:
            self._flush_applied()

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._work.clear()
            try:
                delivered = self._patiently(self._deliver_batch)
                self._patiently(self._flush_when_due)
            except TierError as exc:
                log.warning("%s does not take changes: %s", self.name, exc.message)
                delivered = False
            except Exception:
                # The relay outlives its sinks: whatever this was, the changes are still queued.
                log.exception("relay to %s stumbled", self.name)
                delivered = False
                self._stopping.wait(0.5)
            if not delivered:
                self._work.wait(self._rest_s())
        self._finish()

    def _rest_s(self) -> float:
        """Say how long to wait for a call: short while something is open, else hardly looking."""
        try:
            backlog = self._outbox.backlog(self.name)
        except TierError:
            return _BUSY_REST_S
        is_open = backlog.waiting or backlog.vector_pending or backlog.unflushed
        return _BUSY_REST_S if is_open else _IDLE_REST_S

    def _finish(self) -> None:
        for last in (self._deliver_in_time, self.flush):
            try:
                last()
            except TierError as exc:
                log.warning("%s did not take its last changes: %s", self.name, exc.message)

    def _deliver_in_time(self) -> None:
        while time.monotonic() < self._drain_until and self._deliver_batch():
            pass

    def _note_failure(self, state: RetryCallState) -> None:
        exc = state.outcome.exception() if state.outcome else None
        self._failures = state.attempt_number
        self._error = exc.message if isinstance(exc, TierError) else str(exc)
        log.warning("%s does not take changes now: %s", self.name, self._error)

    def _deliver_batch(self) -> bool:
        with self._turn:
            batch = self._outbox.claim(self.name, self._batch, clock=self._clock())
            if not batch:
                return False
            self._deliver(batch)
            self._failures, self._error = 0, ""
            return True

    def _deliver(self, batch: Sequence[Delivery]) -> None:
        """Apply a batch; when it is refused for good, find the change that causes it."""
        try:
            self._attempt(batch)
        except TierError:
            if not self._by_project and len({delivery.project for delivery in batch}) == 1:
                raise
            self._deliver_by_project(batch)

    def _attempt(self, batch: Sequence[Delivery]) -> None:
        try:
            self._accept(batch, self._sink.apply(batch))
        except TierError as exc:
            if _will_pass(exc):
                raise
            self._refused(batch, exc)

    def _deliver_by_project(self, batch: Sequence[Delivery]) -> None:
        """Keep one project's trouble, such as a folder that is read-only, from the others.

        Its changes are put off, or they would fill every batch.
        """
        troubled: list[tuple[Delivery, TierError]] = []
        for project in dict.fromkeys(delivery.project for delivery in batch):
            mine = [delivery for delivery in batch if delivery.project == project]
            try:
                self._attempt(mine)
            except TierError as exc:
                troubled += [(delivery, exc) for delivery in mine]
        if len(troubled) == len(batch) and not self._by_project:
            raise troubled[0][1]
        for delivery, trouble in troubled:
            wait_s = min(_TROUBLED_WAIT_S * 2.0 ** min(delivery.attempts, 6), 30.0)
            self._outbox.fail(
                self.name,
                [delivery.seq],
                error=trouble.message,
                not_before=self._clock() + wait_s,
            )

    def _accept(self, batch: Sequence[Delivery], without_vector: Collection[str]) -> None:
        waiting = [d for d in batch if d.record_id in without_vector]
        done = [d.seq for d in batch if d.record_id not in without_vector]
        if waiting:
            fewest = min(min(delivery.attempts for delivery in waiting), 10)
            wait_s = min(self._vector_wait_s * 2.0**fewest, _LONGEST_VECTOR_WAIT_S)
            self._outbox.fail(
                self.name,
                [delivery.seq for delivery in waiting],
                error="no model to embed with",
                not_before=self._clock() + wait_s,
                vector_pending=True,
            )
        if self._flush is None:
            self._outbox.ack(self.name, done)
        else:
            self._outbox.ack(self.name, done, State.APPLIED)
            self._unflushed += done

    def _refused(self, batch: Sequence[Delivery], exc: TierError) -> None:
        if len(batch) > 1:
            refused: set[str] = set()
            for delivery in batch:
                # Later changes of a refused record wait, or they would overtake it.
                if delivery.record_id not in refused and not self._deliver_one(delivery):
                    refused.add(delivery.record_id)
            return
        self._put_off(batch[0], exc)

    def _deliver_one(self, delivery: Delivery) -> bool:
        try:
            self._accept([delivery], self._sink.apply([delivery]))
        except TierError as exc:
            if _will_pass(exc):
                raise
            self._put_off(delivery, exc)
            return False
        return True

    def _put_off(self, delivery: Delivery, exc: TierError) -> None:
        self._outbox.fail(
            self.name,
            [delivery.seq],
            error=exc.message,
            not_before=self._clock() + 1.0,
            dead=delivery.attempts + 1 >= MAX_ATTEMPTS,
        )
        log.error("%s refuses change %d: %s", self.name, delivery.seq, exc.message)

    def _flush_when_due(self) -> None:
        with self._turn:
            age_s = time.monotonic() - self._flushed_at
            if len(self._unflushed) >= self._policy.every_writes or (
                self._unflushed and age_s >= self._policy.every_s
            ):
                self._flush_applied()

    def _flush_applied(self) -> None:
        self._flushed_at = time.monotonic()
        if self._flush is None or not self._unflushed:
            return
        self._flush()
        self._outbox.ack(self.name, self._unflushed)
        self._unflushed = []
        self._failures, self._error = 0, ""


def _will_pass(exc: TierError) -> bool:
    """Whether trying later may help; what is wrong with the whole store is no change's fault."""
    return exc.retryable or isinstance(exc, (StoreMismatch, StoreDamaged))
