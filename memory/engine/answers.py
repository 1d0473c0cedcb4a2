"""From requests to answers: what each verb of the wire means to the services."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import datetime

from memory import wire
from memory.app import now_utc
from memory.config import Settings
from memory.drafts import Draft, parse_ttl
from memory.engine.access import Here, View
from memory.engine.problems import problem_of
from memory.errors import Ambiguous, NotFound, ServiceError, UsageError
from memory.indexer import searchable_text
from memory.loader import LoadBudget
from memory.loader import load as load_hot
from memory.search import Answer as Found
from memory.search import Hit, Query
from memory.service import Known, Receipt, Save
from tiers.catalogue import Entry
from tiers.outbox import SinkName
from tiers.records import GLOBAL_PROJECT, MemoryRecord, MemoryType, Origin, parse_time

_IMPORT_NAMESPACE = uuid.UUID("b1f5a2b4-6d0e-5c0a-9a57-0d6f5e1c7a11")


def save(view: View, asked: wire.SaveRequest) -> wire.SaveAnswer:
    """Keep one memory. Memories that it names may be named as everywhere: id, its start, name."""
    here = view.enter(asked)

    def full_id(ref: str) -> str:
        return here.service.find(here.key, ref).id

    item = asked.model_copy(
        update={
            "id": full_id(asked.id) if asked.id is not None else None,
            "supersedes": [full_id(ref) for ref in asked.supersedes] if asked.supersedes else None,
        }
    )
    return receipt_of(here.service.save(here.key, _save(here, item)))


def save_batch(view: View, asked: wire.SaveBatchRequest) -> wire.SaveBatchAnswer:
    """Keep many memories; each by itself succeeds or fails."""
    here = view.enter(asked)
    saves: list[Save | ServiceError] = []
    for item in asked.items:
        try:
            saves.append(_save(here, item))
        except ServiceError as exc:
            saves.append(exc)
    kept = iter(here.service.save_many(here.key, [s for s in saves if isinstance(s, Save)]))
    fates = [next(kept) if isinstance(one, Save) else one for one in saves]
    return wire.SaveBatchAnswer(results=[_fate(fate) for fate in fates])


def _fate(fate: Receipt | ServiceError) -> wire.BatchResult:
    if isinstance(fate, Receipt):
        return wire.BatchResult(saved=receipt_of(fate))
    return wire.BatchResult(problem=problem_of(fate))


def _save(here: Here, item: wire.SaveItem) -> Save:
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
        record_id=_record_id(here, item),
        tier=item.tier,
        allow=frozenset(item.allow),
    )


def _record_id(here: Here, item: wire.SaveItem) -> str | None:
    """Choose the id that an item is kept under: its own, else one made of where it comes from.

    What another project of this home holds stays there; importing it makes a copy here.
    """
    is_taken = item.id is not None and here.service.is_elsewhere(here.key, item.id)
    if item.key is not None and (item.id is None or is_taken):
        made = str(uuid.uuid5(_IMPORT_NAMESPACE, f"{here.key}\0{item.key}"))
        if here.service.is_elsewhere(here.key, made):
            # Somebody else imported the same thing privately.
            owner = here.service.owner
            made = str(uuid.uuid5(_IMPORT_NAMESPACE, f"{here.key}\0{owner}\0{item.key}"))
        return made
    if item.id is not None and not _is_uuid(item.id):
        raise UsageError(f"{item.id!r} is no id", hint="an id is a UUID in lower case; or use key")
    return item.id


def _is_uuid(text: str) -> bool:
    try:
        return str(uuid.UUID(text)) == text
    except ValueError:
        return False


def receipt_of(receipt: Receipt) -> wire.SaveAnswer:
    """Describe what a change of a memory came to."""
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


def search(view: View, asked: wire.SearchRequest) -> wire.SearchAnswer:
    """Find memories, and note what was found."""
    here = view.enter(asked)
    answer = _found(view, here, asked)
    return wire.SearchAnswer(
        hits=[_hit(hit, explain=asked.explain) for hit in answer.hits],
        degraded=list(answer.degraded),
        confident=answer.confident,
        receipt=here.service.note_search(
            here.project.key, [hit.payload["id"] for hit in answer.hits]
        ),
        held=here.service.held(here.project.key),
    )


def _found(view: View, here: Here, asked: wire.SearchRequest) -> Found:
    if not asked.query.strip():
        raise UsageError("there is nothing to search for", hint="tiermem search 'some words'")
    return here.search.search(
        Query(
            text=asked.query,
            project=here.project.key,
            with_global=here.with_global,
            limit=asked.limit or usual_limit(view, asked),
            tier=asked.tier,
            type=asked.type,
            category=asked.category,
            tags=tuple(asked.tags),
            since=_aware(asked.since),
            until=_aware(asked.until),
            include_superseded=asked.include_superseded,
        )
    )


def usual_limit(view: View, asked: wire.ProjectRequest) -> int:
    """Say how many hits a search gives that does not say how many."""
    return view.settings(view.project(asked.project), asked).count("search.limit")


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
        is_part=int(payload.get("chunks", 1)) > 1,
        description=payload.get("description", ""),
        type=MemoryType(payload["type"]),
        tags=list(payload.get("tags", ())),
        tier=hit.tier,
        score=round(hit.ranked.score, 4),
        origin=Origin(payload["origin"]),
        created_at=parse_time(payload["created_at"]),
        path=hit.path,
        project=payload["project"],
        is_global=payload["project"] == GLOBAL_PROJECT,
        pending=hit.pending,
        parts=parts if explain else None,
    )


def get(view: View, asked: wire.RefRequest) -> wire.MemoryAnswer:
    """Read one memory whole."""
    here = view.enter(asked)
    return _memory(here.service.get(here.key, asked.ref))


def history(view: View, asked: wire.RefRequest) -> wire.HistoryAnswer:
    """Read every revision of a memory."""
    here = view.enter(asked)
    entry = here.service.find(here.key, asked.ref)
    revisions = here.service.history(here.key, entry.id)
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


def list_memories(view: View, asked: wire.ListRequest) -> wire.ListAnswer:
    """List memories, newest first."""
    here = view.enter(asked)
    service = here.service
    entries = service.entries(here.key, tier=asked.tier)
    if asked.type is not None:
        entries = [e for e in entries if (r := service.current(e.id)) and r.type is asked.type]
    page = entries[asked.offset : asked.offset + asked.limit]
    return wire.ListAnswer(memories=[_item(here, entry) for entry in page], total=len(entries))


def _item(here: Here, entry: Entry) -> wire.ListItem:
    return wire.ListItem(
        id=entry.id,
        name=entry.name,
        tier=entry.tier,
        revision=entry.revision,
        updated_at=entry.updated_at,
        expires_at=entry.expires_at,
        path=here.service.path_of(entry.id),
    )


def forget(view: View, asked: wire.ForgetRequest) -> wire.ForgetAnswer:
    """Show what would be forgotten, or forget it."""
    here = view.enter(asked)
    service = here.service
    if sum(bool(way) for way in (asked.ref, asked.query, asked.ids)) != 1:
        raise UsageError("name one memory, or give a query", hint="tiermem forget ID")
    if asked.ids:
        entries = service.not_forgotten(here.key, asked.ids)
    elif asked.ref:
        entries = [_one_to_forget(view, here, asked)]
    else:
        entries = _with_all_words(view, here, asked, asked.query or "")
    more = bool(asked.query) and len(entries) >= asked.limit
    memories = [
        wire.Forgotten(
            id=entry.id, name=entry.name, tier=entry.tier, path=service.path_of(entry.id)
        )
        for entry in entries
    ]
    if not asked.confirm:
        return wire.ForgetAnswer(memories=memories, done=False, more=more)
    pending = service.forget(here.key, entries)
    sinks = sorted({str(sink) for sinks in pending.values() for sink in sinks})
    return wire.ForgetAnswer(memories=memories, done=True, more=more, pending=sinks)


def _one_to_forget(view: View, here: Here, asked: wire.ForgetRequest) -> Entry:
    """Find the one memory that is meant: by id, start of id or name, else by its words."""
    ref = asked.ref or ""
    try:
        return here.service.find(here.key, ref)
    except NotFound:
        found = _with_all_words(view, here, asked, ref)
        if not found:
            raise
    if len(found) > 1:
        raise Ambiguous(
            f"{len(found)} memories have all the words of {ref!r}",
            hint="name one by its id, or forget them all with --query",
        )
    return found[0]


def _with_all_words(view: View, here: Here, asked: wire.ForgetRequest, query: str) -> list[Entry]:
    """Find memories that have every word of a query: what is only near in meaning must stay."""
    words = set(view.app.sparse.encode_query(query).indices)
    if not words:
        return []
    request = wire.SearchRequest(
        project=asked.project, scope=asked.scope, query=query, limit=asked.limit
    )
    found: list[Entry] = []
    for hit in _found(view, here, request).hits:
        record = here.service.current(hit.payload["id"])
        if record is None or record.project != here.key:
            continue
        if words <= set(view.app.sparse.encode_document(searchable_text(record)).indices):
            found.append(here.service.find(here.key, record.id))
    return found


def move(view: View, asked: wire.MoveRequest) -> wire.SaveAnswer:
    """Move a memory to another tier."""
    here = view.enter(asked)
    return receipt_of(here.service.move(here.key, asked.ref, asked.to))


def pin(view: View, asked: wire.PinRequest) -> wire.SaveAnswer:
    """Pin a memory, or unpin it."""
    here = view.enter(asked)
    return receipt_of(here.service.pin(here.key, asked.ref, asked.pinned))


def feedback(view: View, asked: wire.FeedbackRequest) -> wire.FeedbackAnswer:
    """Note which memories of a search helped."""
    here = view.enter(asked)
    verdicts = here.service.feedback(
        here.project.key, asked.receipt, used=asked.used, ignored=asked.ignored, wrong=asked.wrong
    )
    return wire.FeedbackAnswer(verdicts={key: str(said) for key, said in verdicts.items()})


def load(view: View, asked: wire.LoadRequest) -> wire.LoadAnswer:
    """Load the hot context of a project."""
    here = view.enter(asked)
    settings = view.settings(here.project, asked)
    return wire.LoadAnswer.of(
        load_hot(
            view.app.folders.get(here.key).hot.root,
            task=asked.task,
            description=asked.description,
            max_files=asked.max_files,
            budget=_load_budget(settings, asked.max_chars),
            allow=settings.allowed_secrets,
            only=view.files(here),
        )
    )


def _load_budget(settings: Settings, max_chars: int | None) -> LoadBudget:
    """Share out what may be loaded: at most a third of a smaller budget goes to MEMORY.md."""
    memory, topics = settings.count("load.memory_chars"), settings.count("load.topic_chars")
    most = settings.count("load.max_files")
    if max_chars is None:
        return LoadBudget(memory, topics, most)
    memory, listed = min(memory, max_chars // 3), max_chars // 6
    return LoadBudget(memory, min(topics, max_chars - memory - listed), most, listed)


def held(view: View, asked: wire.HeldRequest) -> wire.HeldAnswer:
    """Apply held changes, or put the files back as the memories are."""
    here = view.enter(asked)
    folder = view.app.folders.get(here.key)
    if asked.action == "apply":
        report = view.app.hot_sink.look(folder, confirmed=True)
        view.app.notify()
        return wire.HeldAnswer(taken_in=len(report.taken_in), demoted=len(report.demoted))
    restored = view.app.hot_sink.restore(folder)
    return wire.HeldAnswer(restored=restored)


def drain(view: View, asked: wire.DrainRequest) -> wire.DrainAnswer:
    """Say what is still on its way to each store."""
    if asked.wait:
        view.app.drain()
    return wire.DrainAnswer(
        pending={
            str(sink): backlog.waiting + backlog.vector_pending
            for sink in SinkName
            for backlog in [view.app.outbox.backlog(sink)]
        }
    )


def rescan(view: View, asked: wire.ProjectRequest) -> wire.DrainAnswer:
    """Register a project again after its settings changed, and look at its hot root."""
    view.host.leave(view.enter(asked).project.key)
    view.enter(asked)
    return wire.DrainAnswer(pending={})


def _words(words: Sequence[str] | None) -> tuple[str, ...] | None:
    return None if words is None else tuple(words)


def _aware(moment: datetime | None) -> datetime | None:
    """Read a time without a zone as UTC."""
    try:
        return None if moment is None else parse_time(moment.isoformat())
    except ValueError as exc:
        raise UsageError(f"{moment} lies outside of all years", hint="give a later time") from exc
