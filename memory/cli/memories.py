"""Verbs of daily use: save, search, get, list, history, forget, load."""

from __future__ import annotations

import sys
from datetime import datetime

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from memory import wire
from memory.cli.session import (
    EXIT_PARTIAL,
    Session,
    examples,
    global_option,
    printable,
    say,
    scope_of,
    verb,
)
from memory.config import for_project
from memory.errors import NotFound, UsageError
from memory.loader import LoadBudget
from memory.loader import load as load_hot
from memory.projects import Projects, look
from tiers.records import Importance, MemoryType, Tier, Visibility, parse_time

_SNIPPET_CHARACTERS = 400


class _Time(click.ParamType[datetime]):
    name = "time"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> datetime:
        try:
            return parse_time(str(value))
        except (ValueError, OverflowError):
            self.fail(f"{value!r} is no time; write 2026-11-30 or 2026-11-30T12:00", param, ctx)


def _choice(
    kind: type[Importance] | type[MemoryType] | type[Tier] | type[Visibility],
) -> click.Choice[str]:
    return click.Choice([str(member) for member in kind])


@click.command(
    epilog=examples(
        """
tiermem save "use uv, not pip" --type feedback
tiermem save --name "deploy checklist" --tag ops --importance high - < checklist.md
tiermem save "the demo is on Friday" --ttl 5d --json
"""
    )
)
@click.argument("text")
@click.option("--name", help="What it is called; a name that exists is revised.")
@click.option("--description", help="One line on what it is good for.")
@click.option("--type", "kind", type=_choice(MemoryType), help="What it is about.")
@click.option("--category", help="A category of your own.")
@click.option("--tag", "tags", multiple=True, help="A tag; may be given more than once.")
@click.option("--importance", type=_choice(Importance), help="How much it matters.")
@click.option("--ttl", metavar="TIME", help="How long it lives: 12h, 14d, 2w, never.")
@click.option("--pin", is_flag=True, default=None, help="Keep it hot.")
@click.option("--supersedes", multiple=True, metavar="ID", help="A memory that this one replaces.")
@click.option("--id", "record_id", metavar="ID", help="Revise this memory.")
@click.option(
    "--tier", type=click.Choice(["hot", "deep"]), help="Always loaded, or found on demand."
)
@click.option("--visibility", type=_choice(Visibility), help="Who may see it.")
@click.option("--allow", multiple=True, metavar="KIND", help="Keep secrets of this kind unmasked.")
@global_option
@verb
def save(
    session: Session,
    text: str,
    name: str | None,
    description: str | None,
    kind: str | None,
    category: str | None,
    tags: tuple[str, ...],
    importance: str | None,
    ttl: str | None,
    pin: bool | None,
    supersedes: tuple[str, ...],
    record_id: str | None,
    tier: str | None,
    visibility: str | None,
    allow: tuple[str, ...],
    is_global: bool,
) -> int:
    """Keep a memory: TEXT, or - to read standard input.

    It is durable when this returns. Secrets are masked before anything is written.
    """
    if text == "-":
        text = sys.stdin.buffer.read().decode("utf-8", "surrogateescape")
    _refuse_other_encodings(text)
    receipt = session.ask(
        "save",
        wire.SaveRequest(
            project=session.project,
            scope=scope_of(is_global),
            text=text,
            name=name,
            description=description,
            type=MemoryType(kind) if kind else None,
            category=category,
            tags=list(tags) or None,
            importance=Importance(importance) if importance else None,
            ttl=ttl,
            pinned=pin,
            supersedes=list(supersedes) or None,
            id=record_id,
            tier=Tier(tier) if tier else None,
            visibility=Visibility(visibility) if visibility else None,
            allow=list(allow),
        ),
        wire.SaveAnswer,
    )

    def render(console: Console) -> None:
        did = "already known" if receipt.unchanged else "saved"
        console.print(f"{did}: {receipt.name}", markup=False)
        console.print(
            f"  id {receipt.id}, revision {receipt.revision}, {receipt.tier}", markup=False
        )
        if receipt.path:
            console.print(f"  {receipt.path}", markup=False)

    session.show(receipt, render)
    _tell_masked(receipt.masked)
    return 0


def _refuse_other_encodings(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as exc:
        raise UsageError("the text is not UTF-8", hint="convert it: iconv -t UTF-8") from exc


def _tell_masked(masked: list[wire.Masked]) -> None:
    if masked:
        kinds = ", ".join(f"{found.count} {found.kind}" for found in masked)
        say(f"masked: {kinds} (keep one with --allow KIND)")


@click.command(
    epilog=examples(
        """
tiermem search "when do we deploy?"
tiermem search "retry budget" --type reference --since 2026-01-01 --explain
tiermem search "old decisions" --tier cold --json
tiermem search "tabs or spaces" --global      also what is kept for all projects
"""
    )
)
@click.argument("query")
@click.option("--limit", type=click.IntRange(1, 200), help="How many hits (default 10).")
@click.option("--tier", type=_choice(Tier), help="Only memories of this tier.")
@click.option("--type", "kind", type=_choice(MemoryType), help="Only memories of this type.")
@click.option("--category", help="Only memories of this category.")
@click.option("--tag", "tags", multiple=True, help="Only memories with this tag.")
@click.option("--since", type=_Time(), help="Only memories made at or after this time.")
@click.option("--until", type=_Time(), help="Only memories made at or before this time.")
@click.option("--superseded", is_flag=True, help="Also what newer memories replace.")
@click.option("--explain", is_flag=True, help="Show the parts of each score.")
@global_option
@verb
def search(
    session: Session,
    query: str,
    limit: int | None,
    tier: str | None,
    kind: str | None,
    category: str | None,
    tags: tuple[str, ...],
    since: datetime | None,
    until: datetime | None,
    superseded: bool,
    explain: bool,
    is_global: bool,
) -> int:
    """Find memories by meaning and by words."""
    answer = session.ask(
        "search",
        wire.SearchRequest(
            project=session.project,
            scope=scope_of(is_global),
            query=query,
            limit=limit,
            tier=Tier(tier) if tier else None,
            type=MemoryType(kind) if kind else None,
            category=category,
            tags=list(tags),
            since=since,
            until=until,
            include_superseded=superseded,
            explain=explain,
        ),
        wire.SearchAnswer,
    )
    session.show(answer, lambda console: _render_hits(console, answer))
    if answer.receipt and not session.as_json:
        say(f"receipt {answer.receipt} (say what helped: tiermem feedback)")
    return _tell_degraded(answer)


def _render_hits(console: Console, answer: wire.SearchAnswer) -> None:
    if not answer.hits:
        console.print("nothing found")
    elif not answer.confident:
        console.print("[dim]nothing certain; the nearest memories:[/dim]")
    for number, hit in enumerate(answer.hits, 1):
        title = f"{number}. {hit.name}"
        scope = "global, " if hit.is_global else ""
        where = f"{scope}{hit.tier}, {hit.origin}, {hit.created_at:%Y-%m-%d}, score {hit.score:.3f}"
        console.print(f"[bold]{escape(title)}[/bold]  [dim]{where}, {hit.id[:8]}[/dim]")
        console.print(_indented(_snippet(hit.text)), markup=False)
        if hit.parts:
            console.print(_parts_table(hit.parts))


def _parts_table(parts: list[wire.ScorePart]) -> Table:
    table = Table(box=None, padding=(0, 2), show_header=False)
    for part in parts:
        table.add_row("  ", part.name, f"{part.value:.4f}", escape(part.note))
    return table


def _snippet(text: str) -> str:
    if len(text) <= _SNIPPET_CHARACTERS:
        return text
    return text[:_SNIPPET_CHARACTERS].rstrip() + " …"


def _indented(text: str) -> str:
    return "\n".join(f"   {line}" for line in text.splitlines())


def _tell_degraded(answer: wire.SearchAnswer) -> int:
    if answer.held:
        say(f"changes of hot files are held: {answer.held} (see: tiermem status)")
    if not answer.degraded:
        return 0
    say(f"without: {', '.join(answer.degraded)} (see: tiermem status)")
    return EXIT_PARTIAL


@click.command(epilog=examples("tiermem get 3f2a9c1b\ntiermem get 'deploy checklist' --json"))
@click.argument("ref", metavar="ID")
@global_option
@verb
def get(session: Session, ref: str, is_global: bool) -> int:
    """Show one memory whole.

    It is named by its id, the start of its id, or its name.
    """
    memory = session.ask(
        "get",
        wire.RefRequest(project=session.project, scope=scope_of(is_global), ref=ref),
        wire.MemoryAnswer,
    )

    def render(console: Console) -> None:
        console.print(f"[bold]{escape(memory.name)}[/bold]")
        for label, value in _facts(memory):
            console.print(f"  {label}: {value}", style="dim", markup=False)
        console.print()
        console.print(memory.text, markup=False)

    session.show(memory, render)
    return 0


def _facts(memory: wire.MemoryAnswer) -> list[tuple[str, str]]:
    facts = [
        ("id", f"{memory.id}, revision {memory.revision}"),
        ("tier", f"{memory.tier}, {memory.type}, importance {memory.importance}"),
        ("made", f"{memory.created_at:%Y-%m-%d %H:%M}Z by {memory.origin}"),
        ("about", memory.description),
        ("tags", ", ".join(memory.tags)),
        ("file", memory.path or ""),
        ("expires", f"{memory.expires_at:%Y-%m-%d %H:%M}Z" if memory.expires_at else ""),
        ("replaced by", ", ".join(memory.superseded_by)),
        ("pending", ", ".join(memory.pending)),
    ]
    return [(label, " ".join(value.split())) for label, value in facts if value]


@click.command(epilog=examples("tiermem history 'deploy checklist'"))
@click.argument("ref", metavar="ID")
@global_option
@verb
def history(session: Session, ref: str, is_global: bool) -> int:
    """Show every revision of a memory, oldest first."""
    answer = session.ask(
        "history",
        wire.RefRequest(project=session.project, scope=scope_of(is_global), ref=ref),
        wire.HistoryAnswer,
    )

    def render(console: Console) -> None:
        for memory in answer.revisions:
            when = f"{memory.updated_at:%Y-%m-%d %H:%M:%S}Z"
            console.print(f"[bold]revision {memory.revision}[/bold]  [dim]{when}[/dim]")
            console.print(_indented(memory.text), markup=False)

    session.show(answer, render)
    return 0


@click.command("list", epilog=examples("tiermem list\ntiermem list --tier hot --json"))
@click.option("--tier", type=_choice(Tier), help="Only memories of this tier.")
@click.option("--type", "kind", type=_choice(MemoryType), help="Only memories of this type.")
@click.option(
    "--limit", type=click.IntRange(1, 10_000), default=100, show_default=True, help="How many."
)
@click.option("--offset", type=click.IntRange(0), default=0, help="Leave out so many first.")
@global_option
@verb
def list_memories(
    session: Session,
    tier: str | None,
    kind: str | None,
    limit: int,
    offset: int,
    is_global: bool,
) -> int:
    """List memories, newest first."""
    answer = session.ask(
        "list",
        wire.ListRequest(
            project=session.project,
            scope=scope_of(is_global),
            tier=Tier(tier) if tier else None,
            type=MemoryType(kind) if kind else None,
            limit=limit,
            offset=offset,
        ),
        wire.ListAnswer,
    )

    def render(console: Console) -> None:
        table = Table(box=None, padding=(0, 2, 0, 0))
        for heading in ("id", "tier", "rev", "changed", "name"):
            table.add_column(heading, no_wrap=heading != "name")
        for item in answer.memories:
            changed = f"{item.updated_at:%Y-%m-%d %H:%M}"
            table.add_row(item.id[:8], item.tier, str(item.revision), changed, escape(item.name))
        narrowed = tier or kind or offset
        nothing = "nothing like that is kept here" if narrowed else "nothing is kept here yet"
        console.print(table if answer.memories else nothing)

    session.show(answer, render)
    if answer.total > offset + len(answer.memories):
        say(f"{len(answer.memories)} of {answer.total}; more with --offset {offset + limit}")
    return 0


@click.command(
    epilog=examples(
        """
tiermem forget 3f2a9c1b             shows what would go
tiermem forget 3f2a9c1b --yes
tiermem forget "old office address"
tiermem forget --query "office address" --limit 3
"""
    )
)
@click.argument("ref", metavar="[ID|WORDS]", required=False)
@click.option("--query", metavar="WORDS", help="Forget all that has these words, not just one.")
@click.option("--limit", type=click.IntRange(1, 200), default=10, help="With --query: how many.")
@click.option("--yes", is_flag=True, help="Do it; without, it is only shown.")
@global_option
@verb
def forget(
    session: Session,
    ref: str | None,
    query: str | None,
    limit: int,
    yes: bool,
    is_global: bool,
) -> int:
    """Forget a memory in every tier, with its history.

    It is named by its id, the start of its id, its name, or words that no other memory has.
    Without --yes it is only shown. No verb finds it again; its bytes may stay in the files of the
    index until those are rewritten.
    """
    scope = scope_of(is_global)
    request = wire.ForgetRequest(
        project=session.project, scope=scope, ref=ref, query=query, limit=limit
    )
    answer = session.ask("forget", request, wire.ForgetAnswer)
    more = answer.more
    if yes and answer.memories:
        # By their ids: should the engine die now, the repeated request means the same memories.
        ids = [memory.id for memory in answer.memories]
        request = wire.ForgetRequest(project=session.project, scope=scope, ids=ids, confirm=True)
        answer = session.ask("forget", request, wire.ForgetAnswer)

    def render(console: Console) -> None:
        did = "forgotten" if answer.done else "would be forgotten"
        for memory in answer.memories:
            console.print(f"{did}: {memory.name} ({memory.id[:8]}, {memory.tier})", markup=False)

    if not answer.memories and not answer.done:
        raise NotFound(
            f"no memory has all the words of {query!r}",
            hint="look for it with: tiermem search; then forget it by its id",
        )
    session.show(answer, render)
    if more:
        say(f"others may have all of these words too; these are the first {limit} (--limit)")
    if not answer.done:
        say("nothing was changed; add --yes to do it")
    return 0


@click.command(
    epilog=examples(
        """
tiermem load
tiermem load --task "add OAuth2 login" --max-files 3 --explain
tiermem load --json | jq -r .formatted_prompt
"""
    )
)
@click.option("--task", default="", help="What the agent is about to do.")
@click.option("--description", default="", help="More words on the task.")
@click.option("--max-files", type=click.IntRange(0), help="Topic files at most.")
@click.option("--explain", is_flag=True, help="Show why each file was chosen.")
@verb
def load(
    session: Session, task: str, description: str, max_files: int | None, explain: bool
) -> int:
    """Print what an agent is given at its start.

    That is the hot context: MEMORY.md and topic files as one prompt. Needs no engine.
    """
    settings = for_project(session.settings, look(session.folder).root)
    project = Projects(settings.home).find(session.folder)
    hot_root = project.hot_folder(settings.home) if project else None
    if hot_root is None or not hot_root.is_dir():
        answer = wire.LoadAnswer(files=[], memory_files=[], formatted_prompt="")
    else:
        answer = wire.LoadAnswer.of(
            load_hot(
                hot_root,
                task=task,
                description=description,
                max_files=max_files,
                budget=LoadBudget(
                    settings.count("load.memory_chars"),
                    settings.count("load.topic_chars"),
                    settings.count("load.max_files"),
                ),
                allow=settings.allowed_secrets,
            )
        )

    def render(console: Console) -> None:
        console.print(printable(answer.formatted_prompt), markup=False, end="")

    session.show(answer, render)
    if not answer.files and not answer.problems:
        say(f'nothing is kept hot for {session.project} yet; keep something with: tiermem save "…"')
    if explain:
        for file in answer.memory_files:
            parts = ", ".join(f"{name} {value:g}" for name, value in file.parts.items())
            say(f"{'loaded' if file.loaded else 'listed'}: {file.path} {file.score:g} ({parts})")
    for path, problem in answer.problems.items():
        say(f"{path}: {problem}")
    for cut in answer.truncated:
        say(f"cut: {cut}")
    return EXIT_PARTIAL if answer.truncated else 0


COMMANDS = (save, search, get, history, list_memories, forget, load)
