"""The composition root: the only place that builds concrete stores and models."""

from __future__ import annotations

import logging
import os
import threading
import time
import uuid
from datetime import UTC, datetime
from pathlib import Path

from embeddings.embedder import Embedder
from embeddings.errors import EmbeddingError
from embeddings.registry import open_embedder
from embeddings.sparse import SparseEncoder
from memory.comparison import Comparison
from memory.config import Settings
from memory.drafts import Drafter
from memory.errors import UsageError
from memory.hand_edits import HandEdits, Settling
from memory.hot_folders import HotFolders
from memory.hot_sink import HotSink, IndexBudget
from memory.indexer import Indexer
from memory.model import Model
from memory.overlay import Overlay
from memory.projects import Projects
from memory.reconcile import Reconciler
from memory.search import Search
from memory.service import MemoryService, new_id, new_receipt_id
from tiers.archive_sink import ArchiveSink
from tiers.archive_sqlite import SqliteArchive
from tiers.catalogue import Catalogue
from tiers.deep import DeepSpec, DeepStore
from tiers.deep_edge import EdgeStore
from tiers.errors import StoreUnavailable, TierError
from tiers.home_database import HomeDatabase
from tiers.outbox import Outbox, SinkName
from tiers.records import MemoryRecord
from tiers.relay import Relay
from tiers.usage import UsageLog

log = logging.getLogger(__name__)

#: When the engine is told to end, each sink gets what can be delivered within this time.
_LAST_DELIVERIES_S = 5.0

#: A deep store that is refused, as for another model, is not opened again for so long.
_REFUSED_S = 30.0

#: The deep sink takes what the archive has, so it comes last.
_ORDER = (SinkName.HOT, SinkName.ARCHIVE, SinkName.DEEP)


class App:
    """One data home, opened: stores, sinks, relays and the services on top.

    The caller owns the home (engine.lock) before it builds one. `start` returns at once: the deep
    store is opened, and heads are reconciled, in the background.
    """

    def __init__(self, settings: Settings) -> None:
        _only_embedded(settings)
        self.settings = settings
        self.home = settings.home
        self.projects = Projects(self.home)
        self._database = HomeDatabase(self.home / "home.db")
        self.catalogue = Catalogue(self._database)
        self.outbox = Outbox(self._database, self.catalogue)
        self.archive = SqliteArchive(self.home / "archive.db")
        self._open_archive()
        self.sparse = SparseEncoder()
        self.model = Model(
            self._open_embedder,
            name=settings.text("embedding.model"),
            probes=self.home / "spaces",
            on_ready=self._model_is_ready,
        )
        self._deep = EdgeStore(
            self.home / "deep", min_free_bytes=settings.count("deep.min_free_mb") * 2**20
        )
        self._deep_lock = threading.Lock()  # guards the fields that follow
        self._deep_is_open = False
        self._deep_error: TierError | None = None
        self._deep_refused_at = 0.0
        self.usage = UsageLog(self.home / "usage.db", new_id=new_receipt_id)
        self._open_usage()
        self.folders = HotFolders(self.home, self.projects.by_key, owner=settings.owner)
        self._build_services()
        self._build_relays()

    def _build_services(self) -> None:
        settings = self.settings
        drafter = Drafter(
            owner=settings.owner,
            home_id=self._home_id(),
            new_id=new_id,
            max_bytes=settings.count("save.max_bytes"),
            allowed_secrets=settings.allowed_secrets,
        )
        edits = HandEdits(
            catalogue=self.catalogue,
            outbox=self.outbox,
            drafter=drafter,
            current=self.current,
            settling=Settling(
                file_s=settings.number("hot.settle_s"),
                deletion_s=settings.number("hot.deletion_settle_s"),
                hold_share=settings.number("hot.hold_share"),
            ),
        )
        self.hot_sink = HotSink(
            folders=self.folders,
            catalogue=self.catalogue,
            edits=edits,
            current=self.current,
            is_kept=self.is_kept,
            clock=now_utc,
            budget=IndexBudget(
                settings.count("index.max_lines"), settings.count("index.max_bytes")
            ),
        )
        self.service = MemoryService(
            catalogue=self.catalogue,
            outbox=self.outbox,
            archive=self.archive,
            usage=self.usage,
            folders=self.folders,
            hot_sink=self.hot_sink,
            drafter=drafter,
            clock=now_utc,
            notify=self.notify,
        )
        self.search = Search(
            catalogue=self.catalogue,
            overlay=Overlay(
                catalogue=self.catalogue,
                outbox=self.outbox,
                folders=self.folders,
                sparse=self.sparse,
                mask=lambda record: drafter.masked(record).record,
            ),
            archive=self.archive,
            deep=self.deep_to_search,
            model=self.model,
            sparse=self.sparse,
            owner=settings.owner,
            clock=now_utc,
            path_of=lambda record_id, owner: self.service.seen_by(owner).path_of(record_id),
        )
        self.reconciler = Reconciler(
            archive=self.archive,
            catalogue=self.catalogue,
            outbox=self.outbox,
            deep=self.deep,
            folders=self.folders,
            mask=lambda record: drafter.masked(record).record,
            clock=now_utc,
        )
        self._comparison = Comparison(
            self.reconciler,
            database=self._database,
            outbox=self.outbox,
            words=self.sparse.id,
            has_nothing=self._has_nothing,
            done=self.notify,
        )

    def _build_relays(self) -> None:
        indexer = Indexer(
            archive=self.archive, deep=self.deep, model=self.model, sparse=self.sparse
        )
        self.relays: dict[SinkName, Relay] = {
            SinkName.HOT: Relay(self.outbox, self.hot_sink, by_project=True),
            SinkName.ARCHIVE: Relay(
                self.outbox, ArchiveSink(self.archive, self.catalogue), batch=256
            ),
            SinkName.DEEP: Relay(self.outbox, indexer, batch=64, flush=self._flush_deep),
        }

    # Life.

    def start(self) -> None:
        """Start the relays, and bring stores together in the background."""
        self._comparison.start(self._start_relays)

    def _start_relays(self) -> None:
        for relay in self.relays.values():
            relay.start()

    def stop(self) -> None:
        """Deliver what can be delivered in a few seconds, flush, and close every store."""
        self._comparison.stop()
        for name in _ORDER:
            self.relays[name].stop(drain_s=_LAST_DELIVERIES_S)
        self._deep.close()
        self.archive.close()
        self._comparison.close()
        self.usage.close()
        self._database.close()

    def notify(self) -> None:
        """Tell the relays that there is work."""
        for relay in self.relays.values():
            relay.notify()

    def drain(self) -> bool:
        """Deliver everything that can be delivered, in this thread; says whether all was.

        What the comparison at the start finds is delivered too.
        """
        self._comparison.wait()
        # Once more, since a file that is to go waits for the other two.
        drained = {name: self.relays[name].drain() for name in (*_ORDER, SinkName.HOT)}
        return all(drained.values())

    def _open_archive(self) -> None:
        try:
            self.archive.open()
        except TierError as exc:
            # Saves and searches go on without it; its sink opens it when it can be.
            log.error("the archive cannot be opened: %s", exc.message)

    def _open_usage(self) -> None:
        try:
            self.usage.open()
        except TierError as exc:
            log.warning("searches have no receipts: %s", exc.message)

    def _has_nothing(self) -> bool:
        # An empty home has nothing to compare, and an open index costs 70 MB (2026-11-30).
        return not self.archive.last_seq() and not (self.home / "deep").exists()

    # What the services ask for.

    def current(self, record_id: str) -> MemoryRecord | None:
        """Read the newest known revision of a memory."""
        return self.service.current(record_id)

    def is_kept(self, record_id: str) -> bool:
        """Say whether archive and deep store have the newest revision of a memory for good."""
        entry, head = self.catalogue.get(record_id), self.archive.head(record_id)
        if entry is None or head is None or head.revision < entry.revision:
            return False
        return self.outbox.is_settled(record_id)

    def deep(self) -> DeepStore:
        """Give the deep store, opening it at the first call.

        Raises StoreUnavailable, or what kept it from opening: an index of another model is an
        error, never a reason to start a new one.
        """
        with self._deep_lock:
            if not self._deep_is_open:
                self._open_deep()
            return self._deep

    def deep_to_search(self) -> DeepStore:
        """Give the deep store when it holds what it should.

        Raises StoreUnavailable while it is compared or rebuilt: the archive then answers, and the
        answer says so.
        """
        if not self._comparison.is_complete_soon():
            raise StoreUnavailable(
                "the deep store is being brought up to date", hint="search again in a while"
            )
        return self.deep()

    def _open_deep(self) -> None:
        error, age_s = self._deep_error, time.monotonic() - self._deep_refused_at
        if error is not None and not error.retryable and age_s < _REFUSED_S:
            raise error.with_traceback(None)
        try:
            space = self.model.space()
            self._deep.open(DeepSpec(active=space.id, vectors={space.id: space.dimension}))
        except EmbeddingError as exc:
            self._deep_error = StoreUnavailable(
                f"the deep store needs a model: {exc.message}", hint=exc.hint
            )
            raise self._deep_error from exc
        except TierError as exc:
            self._deep_error, self._deep_refused_at = exc, time.monotonic()
            raise
        self._deep_is_open, self._deep_error = True, None

    def _flush_deep(self) -> None:
        # Read first: what is in the archive now and waits for nothing has been applied.
        mark = self.archive.last_seq()
        idle = self.outbox.backlog(SinkName.DEEP).waiting == 0
        self.deep().flush(mark if idle else None)

    def _open_embedder(self) -> Embedder:
        settings = self.settings
        return open_embedder(
            settings.text("embedding.model"),
            backend=settings.text("embedding.backend"),
            threads=settings.count("embedding.threads"),
            api_key=settings.text("embedding.api_key") or None,
        )

    def _model_is_ready(self) -> None:
        self.outbox.wake(SinkName.DEEP, vector_pending=True)
        self.relays[SinkName.DEEP].notify()

    def _home_id(self) -> str:
        known = self._database.fact("home_id")
        if known is None:
            known = str(uuid.uuid4())
            self._database.set_fact("home_id", known)
        return known


def prepare_home(home: Path) -> None:
    """Make the data home, readable by its owner alone."""
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    if home.stat().st_uid == os.geteuid() and home.stat().st_mode & 0o077:
        home.chmod(0o700)


def now_utc() -> datetime:
    """Read the clock."""
    return datetime.now(UTC)


def _only_embedded(settings: Settings) -> None:
    for name, only in (("deep", "edge:"), ("archive", "sqlite:")):
        if settings.text(name) != only:
            raise UsageError(
                f"{name} = {settings.text(name)!r} is not supported yet",
                hint=f"set {name} to {only!r}, or leave it out",
            )
