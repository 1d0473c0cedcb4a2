"""From requests to answers: what each verb of the wire means to the services."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from memory import wire
from memory.app import now_utc
from memory.config import Settings, for_project
from memory.drafts import Draft, parse_ttl
from memory.engine.host import Host
from memory.engine.problems import problem_of
from memory.errors import Ambiguous, NotFound, ServiceError, UsageError
from memory.indexer import searchable_text
from memory.loader import LoadBudget
from memory.loader import load as load_hot
from memory.projects import look
from memory.search import Hit, Query
from memory.service import Known, Receipt, Save
from tiers.catalogue import Entry
from tiers.outbox import SinkName
from tiers.records import MemoryRecord, MemoryType, Origin, parse_time

_IMPORT_NAMESPACE = uuid.UUID("b1f5a2b4-6d0e-5c0a-9a57-0d6f5e1c7a11")


def save(host: Host, asked: wire.SaveRequest) -> wire.SaveAnswer:
    """Keep one memory. Memories that it names may be named as everywhere: id, its start, name."""
    project = host.enter(asked.project)
    service = host.app.service

    def full_id(ref: str) -> str:
        return service.find(project.key, ref).id

    item = asked.model_copy(
        update={
            "id": full_id(asked.id) if asked.id is not None else None,
            "supersedes": [full_id(ref) for ref in asked.supersedes] if asked.supersedes else None,
        }
    )
    return _receipt(service.save(project.key, _save(host, item, project.key)))


def save_batch(host: Host, asked: wire.SaveBatchRequest) -> wire.SaveBatchAnswer:
    """Keep many memories; each by itself succeeds or fails."""
    project = host.enter(asked.project)
    saves: list[Save | ServiceError] = []
    for item in asked.items:
        try:
            saves.append(_save(host, item, project.key))
        except ServiceError as exc:
            saves.append(exc)
    kept = iter(host.app.service.save_many(project.key, [s for s in saves if isinstance(s, Save)]))
    fates = [next(kept) if isinstance(one, Save) else one for one in saves]
    return wire.SaveBatchAnswer(results=[_fate(fate) for fate in fates])


def _fate(fate: Receipt | ServiceError) -> wire.BatchResult:
    if isinstance(fate, Receipt):
        return wire.BatchResult(saved=_receipt(fate))
    return wire.BatchResult(problem=problem_of(fate))


def _save(host: Host, item: wire.SaveItem, project: str) -> Save:
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
            forever=item.ttl is not None and expires_at is None,
            supersedes=_words(item.supersedes),
            extra=item.extra,
        ),
        record_id=_record_id(host, item, project),
        tier=item.tier,
        allow=frozenset(item.allow),
    )


def _record_id(host: Host, item: wire.SaveItem, project: str) -> str | None:
    """Choose the id that an item is kept under: its own, else one made of where it comes from.

    What another project of this home holds stays there; importing it makes a copy here.
    """
    is_taken = item.id is not None and host.app.service.is_elsewhere(project, item.id)
    if item.key is not None and (item.id is None or is_taken):
        return str(uuid.uuid5(_IMPORT_NAMESPACE, f"{project}\0{item.key}"))
    if item.id is not None and not _is_uuid(item.id):
        raise UsageError(f"{item.id!r} is no id", hint="an id is a UUID in lower case; or use key")
    return item.id


def _is_uuid(text: str) -> bool:
    try:
        return str(uuid.UUID(text)) == text
    except ValueError:
        return False


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
    limit = asked.limit or _settings(host, asked).count("search.limit")
    answer = host.app.search.search(
        Query(
            text=asked.query,
            project=project.key,
            limit=limit,
            tier=asked.tier,
            type=asked.type,
            category=asked.category,
            tags=tuple(asked.tags),
            since=_aware(asked.since),
            until=_aware(asked.until),
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
    if sum(bool(way) for way in (asked.ref, asked.query, asked.ids)) != 1:
        raise UsageError("name one memory, or give a query", hint="tiermem forget ID")
    if asked.ids:
        entries = service.not_forgotten(project.key, asked.ids)
    elif asked.ref:
        entries = [_one_to_forget(host, asked, project.key)]
    else:
        entries = _with_all_words(host, asked, project.key, asked.query or "")
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


def _one_to_forget(host: Host, asked: wire.ForgetRequest, project: str) -> Entry:
    """Find the one memory that is meant: by id, start of id or name, else by its words."""
    ref = asked.ref or ""
    try:
        return host.app.service.find(project, ref)
    except NotFound:
        found = _with_all_words(host, asked, project, ref)
        if not found:
            raise
    if len(found) > 1:
        raise Ambiguous(
            f"{len(found)} memories have all the words of {ref!r}",
            hint="name one by its id, or forget them all with --query",
        )
    return found[0]


def _with_all_words(host: Host, asked: wire.ForgetRequest, project: str, query: str) -> list[Entry]:
    """Find memories that have every word of a query: what is only near in meaning must stay."""
    words = set(host.app.sparse.encode_query(query).indices)
    if not words:
        return []
    near = search(host, wire.SearchRequest(project=asked.project, query=query, limit=asked.limit))
    found: list[Entry] = []
    for hit in near.hits:
        record = host.app.service.current(hit.id)
        if record is None:
            continue
        if words <= set(host.app.sparse.encode_document(searchable_text(record)).indices):
            found.append(host.app.service.find(project, hit.id))
    return found


def load(host: Host, asked: wire.LoadRequest) -> wire.LoadAnswer:
    """Load the hot context of a project."""
    project = host.enter(asked.project)
    settings = _settings(host, asked)
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


def _settings(host: Host, asked: wire.ProjectRequest) -> Settings:
    """The settings of this home, with what the project's own file may set."""
    return for_project(host.app.settings, look(Path(asked.project)).root)


def _words(words: Sequence[str] | None) -> tuple[str, ...] | None:
    return None if words is None else tuple(words)


def _aware(moment: datetime | None) -> datetime | None:
    """Read a time without a zone as UTC."""
    try:
        return None if moment is None else parse_time(moment.isoformat())
    except ValueError as exc:
        raise UsageError(f"{moment} lies outside of all years", hint="give a later time") from exc
