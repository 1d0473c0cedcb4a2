"""From requests to answers: what each verb of the wire means to the services."""

from __future__ import annotations

import uuid
from datetime import datetime

from memory import wire
from memory.app import now_utc
from memory.drafts import Draft, parse_ttl
from memory.engine.host import Host
from memory.engine.problems import problem_of
from memory.errors import ServiceError, UsageError
from memory.loader import LoadBudget
from memory.loader import load as load_hot
from memory.search import Hit, Query
from memory.service import Known, Receipt, Save
from tiers.catalogue import Entry
from tiers.outbox import SinkName
from tiers.records import MemoryRecord, MemoryType, Origin, parse_time

_IMPORT_NAMESPACE = uuid.UUID("b1f5a2b4-6d0e-5c0a-9a57-0d6f5e1c7a11")


def save(host: Host, asked: wire.SaveRequest) -> wire.SaveAnswer:
    """Keep one memory."""
    project = host.enter(asked.project)
    return _receipt(host.app.service.save(project.key, _save(asked, project.key)))


def save_batch(host: Host, asked: wire.SaveBatchRequest) -> wire.SaveBatchAnswer:
    """Keep many memories; each by itself succeeds or fails."""
    project = host.enter(asked.project)
    saves: list[Save | ServiceError] = []
    for item in asked.items:
        try:
            saves.append(_save(item, project.key))
        except ServiceError as exc:
            saves.append(exc)
    kept = iter(host.app.service.save_many(project.key, [s for s in saves if isinstance(s, Save)]))
    fates = [next(kept) if isinstance(one, Save) else one for one in saves]
    return wire.SaveBatchAnswer(results=[_fate(fate) for fate in fates])


def _fate(fate: Receipt | ServiceError) -> wire.BatchResult:
    if isinstance(fate, Receipt):
        return wire.BatchResult(saved=_receipt(fate))
    return wire.BatchResult(problem=problem_of(fate))


def _save(item: wire.SaveItem, project: str) -> Save:
    record_id = item.id
    if record_id is None and item.key is not None:
        record_id = str(uuid.uuid5(_IMPORT_NAMESPACE, f"{project}\0{item.key}"))
    expires_at = item.expires_at
    if item.ttl is not None:
        expires_at = parse_ttl(item.ttl, now_utc())
    return Save(
        draft=Draft(
            text=item.text,
            name=item.name,
            description=item.description,
            type=item.type,
            category=item.category,
            tags=_words(item.tags),
            keywords=_words(item.keywords),
            importance=item.importance,
            pinned=item.pinned,
            origin=item.origin,
            visibility=item.visibility,
            session=item.session,
            thread=item.thread,
            position=item.position,
            created_at=_aware(item.created_at),
            expires_at=_aware(expires_at),
            supersedes=_words(item.supersedes),
            extra=item.extra,
        ),
        record_id=record_id,
        tier=item.tier,
        allow=frozenset(item.allow),
    )


def _receipt(receipt: Receipt) -> wire.SaveAnswer:
    return wire.SaveAnswer(
        id=receipt.record.id,
        name=receipt.record.name,
        revision=receipt.record.revision,
        tier=receipt.tier,
        path=receipt.path,
        unchanged=receipt.unchanged,
        pending=[str(sink) for sink in receipt.pending],
        masked=[wire.Masked(kind=found.kind, count=found.count) for found in receipt.masked],
    )


def search(host: Host, asked: wire.SearchRequest) -> wire.SearchAnswer:
    """Find memories."""
    if not asked.query.strip():
        raise UsageError("there is nothing to search for", hint="tiermem search 'some words'")
    project = host.enter(asked.project)
    answer = host.app.search.search(
        Query(
            text=asked.query,
            project=project.key,
            limit=asked.limit or host.app.settings.count("search.limit"),
            tier=asked.tier,
            type=asked.type,
            category=asked.category,
            tags=tuple(asked.tags),
            since=_aware(asked.since),
            until=_aware(asked.until),
            include_global=asked.include_global,
            include_superseded=asked.include_superseded,
        )
    )
    return wire.SearchAnswer(
        hits=[_hit(hit, explain=asked.explain) for hit in answer.hits],
        degraded=list(answer.degraded),
        confident=answer.confident,
        held=host.app.service.held(project.key),
    )


def _hit(hit: Hit, *, explain: bool) -> wire.SearchHit:
    payload = hit.payload
    parts = [
        wire.ScorePart(name=part.name, value=round(part.value, 4), note=part.note)
        for part in hit.ranked.parts
    ]
    return wire.SearchHit(
        id=payload["id"],
        name=payload["name"],
        text=payload["text"],
        description=payload.get("description", ""),
        type=MemoryType(payload["type"]),
        tags=list(payload.get("tags", ())),
        tier=hit.tier,
        score=round(hit.ranked.score, 4),
        origin=Origin(payload["origin"]),
        created_at=parse_time(payload["created_at"]),
        path=hit.path,
        project=payload["project"],
        pending=hit.pending,
        parts=parts if explain else None,
    )


def get(host: Host, asked: wire.RefRequest) -> wire.MemoryAnswer:
    """Read one memory whole."""
    project = host.enter(asked.project)
    return _memory(host.app.service.get(project.key, asked.ref))


def history(host: Host, asked: wire.RefRequest) -> wire.HistoryAnswer:
    """Read every revision of a memory."""
    project = host.enter(asked.project)
    entry = host.app.service.find(project.key, asked.ref)
    revisions = host.app.service.history(project.key, entry.id)
    return wire.HistoryAnswer(
        id=entry.id,
        revisions=[_memory(Known(record, entry.tier, None)) for record in revisions],
    )


def _memory(known: Known) -> wire.MemoryAnswer:
    record = known.record
    return wire.MemoryAnswer(
        **_fields(record),
        tier=known.tier,
        path=known.path,
        pending=[str(sink) for sink in known.pending],
        superseded_by=list(known.superseded_by),
    )


def _fields(record: MemoryRecord) -> dict[str, object]:
    return {
        "id": record.id,
        "project": record.project,
        "name": record.name,
        "description": record.description,
        "text": record.body,
        "type": record.type,
        "category": record.category,
        "tags": list(record.tags),
        "keywords": list(record.keywords),
        "importance": record.importance,
        "pinned": record.pinned,
        "origin": record.origin,
        "owner": record.owner,
        "visibility": record.visibility,
        "thread": record.thread,
        "position": record.position,
        "created_at": record.created_at,
        "updated_at": record.updated_at,
        "expires_at": record.expires_at,
        "revision": record.revision,
        "supersedes": list(record.supersedes),
        "extra": dict(record.extra),
    }


def list_memories(host: Host, asked: wire.ListRequest) -> wire.ListAnswer:
    """List memories, newest first."""
    project = host.enter(asked.project)
    service = host.app.service
    entries = service.entries(project.key, tier=asked.tier)
    if asked.type is not None:
        entries = [e for e in entries if (r := service.current(e.id)) and r.type is asked.type]
    page = entries[asked.offset : asked.offset + asked.limit]
    return wire.ListAnswer(memories=[_item(host, entry) for entry in page], total=len(entries))


def _item(host: Host, entry: Entry) -> wire.ListItem:
    return wire.ListItem(
        id=entry.id,
        name=entry.name,
        tier=entry.tier,
        revision=entry.revision,
        updated_at=entry.updated_at,
        expires_at=entry.expires_at,
        path=host.app.service.path_of(entry.id),
    )


def forget(host: Host, asked: wire.ForgetRequest) -> wire.ForgetAnswer:
    """Show what would be forgotten, or forget it."""
    project = host.enter(asked.project)
    service = host.app.service
    if bool(asked.ref) == bool(asked.query):
        raise UsageError("name one memory, or give a query", hint="tiermem forget ID")
    if asked.ref:
        entries = [service.find(project.key, asked.ref)]
    else:
        found = search(
            host,
            wire.SearchRequest(project=asked.project, query=asked.query or "", limit=asked.limit),
        )
        entries = [service.find(project.key, hit.id) for hit in found.hits]
    memories = [
        wire.Forgotten(
            id=entry.id, name=entry.name, tier=entry.tier, path=service.path_of(entry.id)
        )
        for entry in entries
    ]
    if not asked.confirm:
        return wire.ForgetAnswer(memories=memories, done=False)
    pending = service.forget(project.key, entries)
    sinks = sorted({str(sink) for sinks in pending.values() for sink in sinks})
    return wire.ForgetAnswer(memories=memories, done=True, pending=sinks)


def load(host: Host, asked: wire.LoadRequest) -> wire.LoadAnswer:
    """Load the hot context of a project."""
    project = host.enter(asked.project)
    settings = host.app.settings
    return wire.LoadAnswer.of(
        load_hot(
            host.app.folders.get(project.key).hot.root,
            task=asked.task,
            description=asked.description,
            max_files=asked.max_files,
            budget=LoadBudget(
                settings.count("load.memory_chars"),
                settings.count("load.topic_chars"),
                settings.count("load.max_files"),
            ),
            allow=settings.allowed_secrets,
        )
    )


def held(host: Host, asked: wire.HeldRequest) -> wire.HeldAnswer:
    """Apply held changes, or put the files back as the memories are."""
    project = host.enter(asked.project)
    folder = host.app.folders.get(project.key)
    if asked.action == "apply":
        report = host.app.hot_sink.look(folder, confirmed=True)
        host.app.notify()
        return wire.HeldAnswer(taken_in=len(report.taken_in), demoted=len(report.demoted))
    restored = host.app.hot_sink.restore(folder)
    return wire.HeldAnswer(restored=restored)


def drain(host: Host, asked: wire.DrainRequest) -> wire.DrainAnswer:
    """Say what is still on its way to each store."""
    if asked.wait:
        host.app.drain()
    return wire.DrainAnswer(
        pending={
            str(sink): backlog.waiting + backlog.vector_pending
            for sink in SinkName
            for backlog in [host.app.outbox.backlog(sink)]
        }
    )


def rescan(host: Host, asked: wire.ProjectRequest) -> wire.DrainAnswer:
    """Register a project again after its settings changed, and look at its hot root."""
    key = host.enter(asked.project).key
    host.leave(key)
    host.enter(asked.project)
    return wire.DrainAnswer(pending={})


def _words(words: list[str] | None) -> tuple[str, ...] | None:
    return None if words is None else tuple(words)


def _aware(moment: datetime | None) -> datetime | None:
    """Read a time without a zone as UTC."""
    return None if moment is None else parse_time(moment.isoformat())
