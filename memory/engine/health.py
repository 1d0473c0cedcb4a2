"""What an operator looks at: status, readiness and the checks of doctor."""

from __future__ import annotations

import os
import shutil
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterator
from importlib.metadata import version

from embeddings.errors import EmbeddingError
from memory import wire
from memory.engine import surface
from memory.engine.access import View
from memory.engine.host import Host
from memory.errors import ServiceError
from memory.model import ModelState
from memory.projects import Project
from tiers.deep import Health, StoreHealth
from tiers.errors import TierError
from tiers.hot import INDEX
from tiers.outbox import Backlog, SinkName
from tiers.records import Tier
from tiers.topic import read_topic

_LOW_SPACE_BYTES = 2**30


def status(view: View, asked: wire.ProjectRequest) -> wire.StatusAnswer:
    """Say how the engine and each tier are, for one project."""
    host, project = view.host, view.project(asked.project)
    held = host.app.catalogue.held(project.key)
    folder = host.app.folders.get(project.key)
    whole = wire.StatusAnswer(
        engine=_engine(host),
        project=project.key,
        project_name=project.name,
        hot_root=str(folder.hot.root),
        tiers={
            "hot": _hot(view, project),
            "deep": _store(host, SinkName.DEEP, deep_health(host)),
            "archive": _store(host, SinkName.ARCHIVE, host.app.archive.health()),
        },
        held=held.reason if held else None,
        held_paths=list(held.paths) if held else [],
        problems=dict(folder.problems),
    )
    return whole if view.caller.is_local else _as_others_see(whole)


def _as_others_see(whole: wire.StatusAnswer) -> wire.StatusAnswer:
    """Leave out what is about this machine, or about the memories of all projects together."""
    return whole.model_copy(
        update={
            "engine": whole.engine.model_copy(update={"pid": 0, "home": "", "http": ""}),
            "hot_root": "",
            "held_paths": [],
            "problems": {},
            "tiers": {
                name: tier.model_copy(
                    update={
                        "path": "",
                        "detail": "see there: tiermem status" if tier.detail else "",
                        "count": tier.count if name == "hot" else None,
                    }
                )
                for name, tier in whole.tiers.items()
            },
        }
    )


def _engine(host: Host) -> wire.EngineStatus:
    return wire.EngineStatus(
        pid=os.getpid(),
        version=host.version,
        rss_mb=host.rss_mb(),
        model=host.app.model.name,
        model_state=str(host.app.model.state),
        uptime_s=round(time.monotonic() - host.started_at, 1),
        home=str(host.app.home),
        http=host.http,
    )


def _hot(view: View, project: Project) -> wire.TierStatus:
    host = view.host
    backlog = host.app.outbox.backlog(SinkName.HOT)
    folder = host.app.folders.get(project.key)
    relay = host.app.relays[SinkName.HOT]
    detail, state = "", Health.READY
    if backlog.waiting or backlog.dead or relay.is_open:
        state, detail = Health.DEGRADED, relay.error or backlog.error
    elif host.app.catalogue.held(project.key):
        state, detail = Health.DEGRADED, "changes of files are held"
    count = counts(view, project.key)[Tier.HOT]
    return _tier(state, count, backlog, detail, str(folder.hot.root))


def counts(view: View, project: str) -> Counter[Tier]:
    """Count the memories of a project by tier; not even how many private ones others have."""
    if view.owns_files:
        return Counter(view.app.catalogue.counts(project))
    entries = view.app.service.seen_by(view.caller.owner).entries(project)
    return Counter(entry.tier for entry in entries)


def _store(host: Host, sink: SinkName, health: StoreHealth) -> wire.TierStatus:
    backlog = host.app.outbox.backlog(sink)
    relay = host.app.relays[sink]
    state, detail = health.state, health.detail
    if state is Health.READY and (relay.is_open or backlog.dead or backlog.vector_pending):
        state, detail = Health.DEGRADED, relay.error or backlog.error
    path = host.app.home / ("deep" if sink is SinkName.DEEP else "archive.db")
    return _tier(state, health.count, backlog, detail, str(path))


def _tier(
    state: Health, count: int | None, backlog: Backlog, detail: str, path: str
) -> wire.TierStatus:
    return wire.TierStatus(
        state=state.value,
        count=count,
        pending=backlog.waiting,
        vector_pending=backlog.vector_pending,
        dead=backlog.dead,
        oldest_pending=backlog.oldest,
        detail=detail,
        path=path,
    )


def deep_health(host: Host) -> StoreHealth:
    """Ask the deep store, opening it if need be."""
    try:
        return host.app.deep().health()
    except TierError as exc:
        return StoreHealth(Health.DOWN, exc.message)


def readiness(host: Host) -> dict[str, object]:
    """Say whether every tier takes and gives memories now."""
    stores = {
        "deep": deep_health(host).state,
        "archive": host.app.archive.health().state,
    }
    ready = all(state is Health.READY for state in stores.values())
    return {"ready": ready, "tiers": {name: str(state) for name, state in stores.items()}}


def doctor(view: View, asked: wire.ProjectRequest) -> wire.DoctorAnswer:
    """Look at everything that can be wrong, and say what to do."""
    return wire.DoctorAnswer(checks=list(_checks(view.host, view.project(asked.project))))


def _checks(host: Host, project: Project) -> Iterator[wire.Check]:
    yield _check("versions", lambda: _versions(host))
    yield _check("home", lambda: f"{host.app.home}, {_free(host):,} MB free")
    if shutil.disk_usage(host.app.home).free < _LOW_SPACE_BYTES:
        yield wire.Check(
            name="disk", ok=False, detail="less than 1 GB is free", hint="free some space"
        )
    yield _check("model", lambda: _model(host))
    yield _check("deep", lambda: _store_detail(host.app.deep().health()))
    yield _check("archive", lambda: _store_detail(host.app.archive.health()))
    yield _check("index", lambda: _index_agrees(host))
    for sink in SinkName:
        yield _backlog(host, sink)
    yield from _http(host)
    yield from _files(host, project)


def _check(name: str, look: Callable[[], str]) -> wire.Check:
    try:
        return wire.Check(name=name, ok=True, detail=look())
    except (ServiceError, TierError, EmbeddingError) as exc:
        return wire.Check(name=name, ok=False, detail=exc.message, hint=exc.hint)


def _versions(host: Host) -> str:
    packages = ("qdrant-edge-py", "onnxruntime", "tokenizers")
    others = ", ".join(f"{name} {version(name)}" for name in packages)
    return f"tiermem {host.version}, SQLite {sqlite3.sqlite_version}, {others}"


def _free(host: Host) -> int:
    return shutil.disk_usage(host.app.home).free // 2**20


def _model(host: Host) -> str:
    model = host.app.model
    if model.get(wait_s=60.0) is None:
        if model.error is not None:
            raise model.error
        return f"{model.name} is still {model.state}"
    space = model.space()
    state = "ready" if model.state is ModelState.READY else str(model.state)
    return f"{space.model}, {space.dimension} dimensions, {state}"


def _store_detail(health: StoreHealth) -> str:
    if health.state is not Health.READY:
        raise TierError(health.detail or str(health.state))
    if health.count is None:
        return "ready"
    return "1 entry" if health.count == 1 else f"{health.count:,} entries"


def _index_agrees(host: Host) -> str:
    missing = host.app.reconciler.missing_from_archive()
    if missing:
        raise TierError(
            f"{len(missing)} memories are newer here than in the archive",
            hint="was an older archive put back? restart the engine: tiermem stop",
        )
    return "catalogue and archive agree"


def _mcp() -> str:
    """Say what the tools cost an agent before it calls any of them."""
    shown = surface.load()
    spent, everything = surface.cost(shown), surface.cost(shown, shown["toolsets"])
    return (
        f"{spent.tools} tools by default: {spent.schema_tokens:,} of "
        f"{surface.MOST_SCHEMA_TOKENS:,} tokens of schema, {spent.list_tokens:,} of "
        f"{surface.MOST_LIST_TOKENS:,} as listed; all {everything.tools} tools: "
        f"{everything.schema_tokens:,} and {everything.list_tokens:,}"
    )


def _backlog(host: Host, sink: SinkName) -> wire.Check:
    backlog = host.app.outbox.backlog(sink)
    waiting = f"{backlog.waiting} waiting, {backlog.vector_pending} without vectors"
    if backlog.dead:
        return wire.Check(
            name=f"outbox:{sink}",
            ok=False,
            detail=f"{backlog.dead} refused ({backlog.error}), {waiting}",
            hint="cure the cause, then restart the engine: tiermem stop",
        )
    return wire.Check(name=f"outbox:{sink}", ok=True, detail=waiting)


def _http(host: Host) -> Iterator[wire.Check]:
    """Say what became of listening over TCP, if that was wanted."""
    if host.http_problem:
        hint = "then restart the engine: tiermem stop"
        yield wire.Check(name="http", ok=False, detail=host.http_problem, hint=hint)
    elif host.http:
        yield wire.Check(name="http", ok=True, detail=host.http)


def _files(host: Host, project: Project) -> Iterator[wire.Check]:
    """Read every hot file again and report what is odd about it."""
    folder = host.app.folders.get(project.key)
    odd = 0
    try:
        paths = sorted(folder.hot.listing())
    except TierError as exc:
        yield wire.Check(name="hot root", ok=False, detail=exc.message, hint=exc.hint)
        return
    for path in paths:
        file = folder.hot.read(path)
        if file is None or path == INDEX:
            continue
        for problem in read_topic(file.content).problems:
            odd += 1
            yield wire.Check(
                name=f"file:{path}", ok=False, detail=problem, hint="repair the file's header"
            )
    yield wire.Check(name="hot files", ok=not odd, detail=f"{len(paths)} files, {odd} problems")
