"""Verbs that move many memories: import and export."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
from pydantic import BaseModel, ValidationError
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)

from memory import wire
from memory.cli.session import EXIT_FAILED, EXIT_PARTIAL, Session, examples, say, stderr, verb
from memory.errors import Refused, UsageError
from memory.importers import ImportFailure, ImportItem, ImportOptions, discover
from memory.projects import look
from tiers.atomic import replace
from tiers.records import Origin, Tier

#: Memories in one request; each request is durable when it is answered.
_BATCH = 100

#: Complaints that are printed for people; --json has them all.
_MOST_COMPLAINTS = 20

#: How often the backlog is asked for while an import is being indexed.
_POLL_S = 0.2


class _Failure(BaseModel):
    path: str
    line: int | None = None
    reason: str


class _ImportAnswer(BaseModel):
    """What an import did."""

    imported: int = 0
    unchanged: int = 0
    forgotten: int = 0
    failed: list[_Failure] = []
    warnings: list[_Failure] = []
    masked: dict[str, int] = {}
    pending: int = 0


@dataclass(slots=True)
class _Import:
    """One run of an import."""

    session: Session
    tier: str
    allow: tuple[str, ...]
    answer: _ImportAnswer = field(default_factory=_ImportAnswer)
    #: What came under each id in this run, so that two of one id do not replace each other.
    seen: dict[str, int] = field(default_factory=dict)

    def run(self, paths: Sequence[Path], options: ImportOptions, progress: Progress) -> None:
        task = progress.add_task("importing", total=None)
        batch: list[ImportItem] = []
        for found in discover(paths, options):
            if isinstance(found, ImportFailure):
                self.answer.failed.append(
                    _Failure(path=str(found.path), line=found.line, reason=found.reason)
                )
                continue
            if self._came_before(found):
                self._fail(found, f"the id {found.id} came before in this import with other text")
                continue
            batch.append(found)
            if len(batch) == _BATCH:
                self._send(batch)
                progress.advance(task, len(batch))
                batch = []
        self._send(batch)
        progress.advance(task, len(batch))

    def _came_before(self, item: ImportItem) -> bool:
        if item.id is None:
            return False
        content = hash((item.text, item.name, item.description, item.tags))
        return self.seen.setdefault(item.id, content) != content

    def _send(self, batch: Sequence[ImportItem]) -> None:
        """Send a batch; one that is refused is halved until the item at fault stands alone."""
        if not batch:
            return
        try:
            request = wire.SaveBatchRequest(
                project=self.session.project, items=[self._item(item) for item in batch]
            )
            results = self.session.ask("save-batch", request, wire.SaveBatchAnswer).results
        except (UsageError, ValidationError) as exc:
            if len(batch) == 1:
                self._fail(
                    batch[0], exc.message if isinstance(exc, UsageError) else wire.complaint(exc)
                )
                return
            half = len(batch) // 2
            self._send(batch[:half])
            self._send(batch[half:])
            return
        for item, result in zip(batch, results, strict=True):
            self._count(item, result)

    def _fail(self, item: ImportItem, reason: str) -> None:
        self.answer.failed.append(
            _Failure(path=str(item.source_path), reason=f"{item.name or item.key}: {reason}")
        )

    def _item(self, item: ImportItem) -> wire.SaveItem:
        tier = self.tier
        if tier == "auto":
            tier = "hot" if item.hot_hint else "deep"
        fields: dict[str, Any] = {
            "text": item.text,
            "id": item.id,
            "key": item.key,
            "name": item.name or None,
            "description": item.description or None,
            "type": item.type,
            "category": item.category or None,
            "tags": list(item.tags) or None,
            "keywords": list(item.keywords) or None,
            "importance": item.importance,
            "pinned": item.pinned or None,
            "created_at": item.created_at,
            "expires_at": item.expires_at,
            "thread": item.thread or None,
            "position": item.position,
            "supersedes": list(item.supersedes) or None,
            "extra": dict(item.extra) or None,
            "origin": Origin.IMPORT,
            "tier": Tier(tier),
            "allow": list(self.allow),
        }
        if item.record is not None:
            fields["origin"] = item.record.origin
            fields["visibility"] = item.record.visibility
            fields["session"] = item.record.session or None
        return wire.SaveItem(**fields)

    def _count(self, item: ImportItem, result: wire.BatchResult) -> None:
        path = str(item.source_path)
        self.answer.warnings += [_Failure(path=path, reason=reason) for reason in item.problems]
        if result.problem is not None and result.problem.code == "forgotten":
            self.answer.forgotten += 1
        elif result.problem is not None:
            self._fail(item, f"{result.problem.detail}; {result.problem.hint}")
        elif result.saved is not None:
            if result.saved.unchanged:
                self.answer.unchanged += 1
            else:
                self.answer.imported += 1
            for found in result.saved.masked:
                total = self.answer.masked.get(found.kind, 0)
                self.answer.masked[found.kind] = total + found.count

    def wait_for_index(self, progress: Progress) -> None:
        """Follow the backlog until everything can be found by meaning."""
        task = progress.add_task("indexing", total=None)
        most = 0
        for left in self._backlog():
            most = max(most, left)
            progress.update(task, total=most or 1, completed=(most - left) if most else 1)
            self.answer.pending = left
            if not left:
                return
            time.sleep(_POLL_S)

    def _backlog(self) -> Iterator[int]:
        stuck, before = 0, -1
        while stuck < 150:
            pending = self.session.ask("drain", wire.DrainRequest(), wire.DrainAnswer).pending
            left = max(pending.values())
            stuck = stuck + 1 if left == before else 0
            before = left
            yield left


@click.command(
    "import",
    epilog=examples(
        """
tiermem import ~/.claude/projects/my-project/memory
tiermem import docs/ notes.md
tiermem import talk.jsonl --field name=doc_id --field created_at=date \\
    --text '[{date}] {speaker}: {text}'
"""
    ),
)
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--field", "fields", multiple=True, metavar="OURS=THEIRS", help="JSONL: another field's name."
)
@click.option("--text", "template", metavar="TEMPLATE", help="JSONL: the text, as '{who}: {what}'.")
@click.option(
    "--tier",
    type=click.Choice(["auto", "hot", "deep"]),
    default="auto",
    show_default=True,
    help="auto: hot for what its source kept in view, else deep.",
)
@click.option("--no-wait", is_flag=True, help="Do not wait until all is indexed.")
@click.option("--allow", multiple=True, metavar="KIND", help="Keep secrets of this kind unmasked.")
@verb
def import_memories(
    session: Session,
    paths: tuple[Path, ...],
    fields: tuple[str, ...],
    template: str | None,
    tier: str,
    no_wait: bool,
    allow: tuple[str, ...],
) -> int:
    """Import memory folders, markdown trees and JSONL files.

    A second import of the same source changes nothing. What cannot be read is reported with its
    path and reason, and the rest goes on. What was forgotten here stays forgotten.
    """
    look(session.folder)
    options = ImportOptions.parse(fields, template)
    run = _Import(session, tier, allow)
    with _progress(session) as progress:
        run.run(paths, options, progress)
        if not no_wait:
            run.wait_for_index(progress)
    answer = run.answer
    session.show(answer, lambda console: _render_import(console, answer))
    _complain([("failed", failure) for failure in answer.failed])
    _complain([("taken in, but", warning) for warning in answer.warnings])
    if answer.failed:
        return EXIT_PARTIAL if answer.imported or answer.unchanged else EXIT_FAILED
    return EXIT_PARTIAL if answer.pending and not no_wait else 0


def _complain(failures: Sequence[tuple[str, _Failure]]) -> None:
    for fate, failure in failures[:_MOST_COMPLAINTS]:
        place = f"{failure.path}:{failure.line}" if failure.line else failure.path
        say(f"{fate}: {place}: {failure.reason}")
    if len(failures) > _MOST_COMPLAINTS:
        say(f"… and {len(failures) - _MOST_COMPLAINTS} more; --json lists all")


def _render_import(console: Console, answer: _ImportAnswer) -> None:
    if not (answer.imported or answer.unchanged or answer.forgotten or answer.failed):
        console.print("nothing to import was found")
        return
    words = [f"{answer.imported} imported", f"{answer.unchanged} unchanged"]
    if answer.failed:
        words.append(f"{len(answer.failed)} failed")
    if answer.forgotten:
        words.append(f"{answer.forgotten} left out: forgotten here before")
    if answer.masked:
        words.append("masked: " + ", ".join(f"{n} {kind}" for kind, n in answer.masked.items()))
    if answer.pending:
        words.append(f"{answer.pending} still being indexed")
    if not answer.imported and answer.unchanged and not answer.failed:
        words.append("nothing changed")
    console.print(", ".join(words))


def _progress(session: Session) -> Progress:
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=stderr(),
        transient=True,
        disable=session.as_json or not sys.stderr.isatty(),
    )


@click.command(
    epilog=examples("tiermem export memories.jsonl\ntiermem export - | gzip > m.jsonl.gz")
)
@click.argument("file", type=click.Path(path_type=Path))
@verb
def export(session: Session, file: Path) -> int:
    """Write every memory of the project to a JSONL file.

    FILE may be - for standard output. `tiermem import FILE` brings them back under the same ids.
    """
    request = wire.ProjectRequest(project=session.project).model_dump(mode="json")
    lines = session.client.lines("export", request)
    if str(file) == "-":
        for line in lines:
            sys.stdout.buffer.write(line)
        return 0
    if not file.parent.is_dir():
        raise UsageError(f"{file.parent} is no folder", hint="make it first")
    if file.is_dir():
        raise UsageError(f"{file} is a folder", hint="name a file in it")
    content = list(lines)
    try:
        replace(file, b"".join(content), mode=0o600)
    except OSError as exc:
        raise Refused(
            f"{file} cannot be written: {exc.strerror}", hint="export to another place"
        ) from exc
    if session.as_json:
        session.print_json({"exported": len(content), "path": str(file)})
    else:
        say(f"{len(content)} memories written to {file}")
    return 0


COMMANDS = (import_memories, export)
