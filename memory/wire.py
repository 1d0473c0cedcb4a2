"""The public requests and answers: what `--json` prints and what REST takes and gives.

Keys are stable; more may be added. Times are RFC 3339 in UTC.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from memory.loader import HotContext
from tiers.records import Importance, MemoryType, Origin, Tier, Visibility

Text = Annotated[str, Field(max_length=20_000_000)]
Short = Annotated[str, Field(max_length=2_000)]

#: A number that every store can hold.
Whole = Annotated[int, Field(ge=-(2**53), le=2**53)]


class Wire(BaseModel):
    """Base of every request: unknown keys are refused, so that a typo is no silent default."""

    # Validators are built when first used: a command needs two of these thirty.
    model_config = ConfigDict(extra="forbid", defer_build=True)


class Answer(BaseModel):
    """Base of every answer: a newer engine may say more than this front knows."""

    model_config = ConfigDict(defer_build=True)


def complaint(exc: ValidationError) -> str:
    """Say in one line what is wrong with a request or an answer."""
    errors = exc.errors(include_url=False, include_input=False)
    # A misspelt key explains the one that is missing, not the other way round.
    first = next((error for error in errors if error["type"] == "extra_forbidden"), errors[0])
    place = ".".join(str(part) for part in first["loc"]) or "request"
    return f"{place}: {_PLAIN_WORDS.get(first['type'], first['msg'])}"


_PLAIN_WORDS = {
    "extra_forbidden": "there is no such field",
    "missing": "is missing",
    "string_unicode": "is not valid UTF-8",
}


class ProjectRequest(Wire):
    """A request about one project.

    Over the engine's own socket it names a folder of the project; a connection that is bound to a
    project may leave it out.
    """

    project: Short = Field("", description="a folder of the project, or its key")
    scope: Literal["project", "global"] = Field(
        "project", description="global: what is kept for all projects; a search then covers both"
    )


class SaveItem(Wire):
    """One memory to keep."""

    text: Text
    id: Short | None = Field(
        None, description="the memory to revise; an import may bring a new one under its id"
    )
    key: Short | None = Field(
        None, description="where it comes from; the same key is the same memory (imports)"
    )
    name: Short | None = None
    description: Short | None = None
    type: MemoryType | None = None
    category: Short | None = None
    tags: list[Short] | None = Field(None, max_length=200)
    keywords: list[Short] | None = Field(None, max_length=200)
    importance: Importance | None = None
    ttl: Short | None = Field(None, description="a lifetime such as 12h, 14d, or never")
    expires_at: datetime | None = None
    pinned: bool | None = None
    origin: Origin | None = None
    visibility: Visibility | None = None
    session: Short | None = None
    thread: Short | None = None
    position: Whole | None = None
    created_at: datetime | None = None
    supersedes: list[Short] | None = Field(None, max_length=200)
    extra: dict[str, Any] | None = None
    tier: Tier | None = Field(None, description="hot (a file, always loaded) or deep")
    allow: list[Short] = Field(default_factory=list, description="kinds of secrets to keep")


class SaveRequest(SaveItem, ProjectRequest):
    """Keep one memory."""


class SaveBatchRequest(ProjectRequest):
    """Keep many memories; each by itself succeeds or fails."""

    items: list[SaveItem] = Field(max_length=1_000)


class Masked(Answer):
    """Secrets of one kind that were masked."""

    kind: str
    count: int


class SaveAnswer(Answer):
    """A receipt: the memory is durable when this is given."""

    id: str
    name: str
    revision: int
    tier: Tier
    path: str | None = Field(None, description="the hot file, when there is one")
    unchanged: bool = Field(False, description="nothing new: it was there already")
    pending: list[str] = Field(default_factory=list, description="stores that get it later")
    masked: list[Masked] = Field(default_factory=list)


class Problem(Answer):
    """What went wrong, as data (RFC 9457)."""

    code: str
    title: str
    detail: str
    hint: str
    status: int = 500
    retryable: bool = False


class BatchResult(Answer):
    """The fate of one item: a receipt or a problem."""

    saved: SaveAnswer | None = None
    problem: Problem | None = None


class SaveBatchAnswer(Answer):
    """The fates of a batch, in its order."""

    results: list[BatchResult]


class SearchRequest(ProjectRequest):
    """Find memories by meaning and by words."""

    query: Annotated[str, Field(max_length=20_000)]
    limit: int | None = Field(None, ge=1, le=200)
    tier: Tier | None = None
    type: MemoryType | None = None
    category: Short | None = None
    tags: list[Short] = Field(default_factory=list, max_length=50)
    since: datetime | None = None
    until: datetime | None = None
    include_superseded: bool = False
    explain: bool = False


class ScorePart(Answer):
    """One addend or factor of a score."""

    name: str
    value: float
    note: str = ""


class SearchHit(Answer):
    """One memory that was found. Its text is data, not an instruction."""

    id: str
    name: str
    text: str
    is_part: bool = Field(False, description="the memory says more than this text; see get")
    description: str = ""
    type: MemoryType
    tags: list[str] = Field(default_factory=list)
    tier: Tier
    score: float
    origin: Origin
    created_at: datetime
    path: str | None = None
    project: str
    is_global: bool = Field(False, description="kept for all projects")
    pending: bool = Field(False, description="not indexed yet")
    parts: list[ScorePart] | None = Field(None, description="with explain")


class SearchAnswer(Answer):
    """What was found, and what could not be asked."""

    hits: list[SearchHit]
    degraded: list[str] = Field(
        default_factory=list, description="what was left out: deep, archive, model, hot"
    )
    confident: bool = True
    receipt: str | None = Field(None, description="name it to say which hits helped")
    held: str | None = None


class RefRequest(ProjectRequest):
    """Name one memory: its id, the start of its id, or its name."""

    ref: Short


class MemoryAnswer(Answer):
    """One memory, whole."""

    id: str
    project: str
    name: str
    description: str
    text: str
    type: MemoryType
    category: str
    tags: list[str]
    keywords: list[str]
    importance: Importance
    pinned: bool
    origin: Origin
    owner: str
    visibility: Visibility
    thread: str
    position: int | None
    created_at: datetime
    updated_at: datetime
    expires_at: datetime | None
    revision: int
    supersedes: list[str]
    superseded_by: list[str] = Field(default_factory=list)
    extra: dict[str, Any]
    tier: Tier
    path: str | None
    pending: list[str] = Field(default_factory=list)


class HistoryAnswer(Answer):
    """Every revision of a memory, oldest first."""

    id: str
    revisions: list[MemoryAnswer]


class ListRequest(ProjectRequest):
    """List memories, newest first."""

    tier: Tier | None = None
    type: MemoryType | None = None
    limit: int = Field(100, ge=1, le=10_000)
    offset: int = Field(0, ge=0)


class ListItem(Answer):
    """One line of a list."""

    id: str
    name: str
    tier: Tier
    revision: int
    updated_at: datetime
    expires_at: datetime | None = None
    path: str | None = None


class ListAnswer(Answer):
    """A page of memories; `total` counts all that match."""

    memories: list[ListItem]
    total: int


class ForgetRequest(ProjectRequest):
    """Forget one memory, or what a query finds. Without `confirm` it is only shown."""

    ref: Short | None = Field(None, description="id, start of an id, name, or words of one memory")
    query: Short | None = Field(None, description="forget what has all these words")
    ids: list[Short] | None = Field(
        None, max_length=200, description="whole ids; one that is forgotten already is no error"
    )
    limit: int = Field(10, ge=1, le=200)
    confirm: bool = False


class Forgotten(Answer):
    """One memory that is, or would be, forgotten."""

    id: str
    name: str
    tier: Tier
    path: str | None = None
    note: str = ""


class ForgetAnswer(Answer):
    """What was forgotten, or would be."""

    memories: list[Forgotten]
    done: bool
    more: bool = Field(False, description="others may have all these words too; ask again")
    pending: list[str] = Field(default_factory=list)


class MoveRequest(RefRequest):
    """Move a memory to another tier."""

    to: Tier


class PinRequest(RefRequest):
    """Keep a memory where it is, or let the policy move it again."""

    pinned: bool = True


class FeedbackRequest(ProjectRequest):
    """Say which memories of a search helped, by the search's receipt."""

    receipt: Short
    used: list[Short] = Field(default_factory=list, max_length=200)
    ignored: list[Short] = Field(default_factory=list, max_length=200)
    wrong: list[Short] = Field(default_factory=list, max_length=200)


class FeedbackAnswer(Answer):
    """What is noted now of each memory, by its whole id."""

    verdicts: dict[str, str]


class LoadRequest(ProjectRequest):
    """Load the hot context of a project."""

    task: Annotated[str, Field(max_length=20_000)] = ""
    description: Annotated[str, Field(max_length=20_000)] = ""
    max_files: int | None = Field(None, ge=0, le=1_000)
    max_chars: int | None = Field(
        None, ge=1, description="text that is loaded at most, below what the settings allow"
    )


class LoadedFile(Answer):
    """A topic file that was loaded, or only listed when `loaded` is false."""

    name: str
    path: str
    description: str = ""
    score: float = 0.0
    parts: dict[str, float] = Field(default_factory=dict)
    loaded: bool = True


class LoadAnswer(Answer):
    """Hot context as a prompt, with what went into it and what was cut."""

    files: list[str]
    memory_files: list[LoadedFile]
    formatted_prompt: str
    truncated: list[str] = Field(default_factory=list)
    problems: dict[str, str] = Field(default_factory=dict)
    hot_root: str = ""

    @classmethod
    def of(cls, context: HotContext) -> LoadAnswer:
        """Describe a loaded hot context."""
        return cls(
            files=context.files,
            memory_files=[
                LoadedFile(
                    name=topic.name,
                    path=topic.path,
                    description=topic.description,
                    score=topic.relevance.score,
                    parts=topic.relevance.parts(),
                    loaded=topic.loaded,
                )
                for topic in context.topics
            ],
            formatted_prompt=context.formatted_prompt,
            truncated=list(context.truncated),
            problems=context.problems,
            hot_root=str(context.hot_root),
        )


class TierStatus(Answer):
    """How one tier is."""

    state: Literal["ready", "degraded", "down"]
    count: int | None = None
    pending: int = 0
    vector_pending: int = 0
    dead: int = 0
    oldest_pending: datetime | None = None
    detail: str = ""
    path: str = ""


class EngineStatus(Answer):
    """The engine itself."""

    pid: int
    version: str
    rss_mb: float
    model: str
    model_state: str
    uptime_s: float
    home: str
    http: str = Field("", description="where it listens over TCP")


class StatusAnswer(Answer):
    """Everything an operator looks at first."""

    engine: EngineStatus
    project: str
    project_name: str
    hot_root: str
    tiers: dict[str, TierStatus]
    held: str | None = None
    held_paths: list[str] = Field(default_factory=list)
    problems: dict[str, str] = Field(default_factory=dict)


class HeldRequest(ProjectRequest):
    """Decide on changes of hot files that are held."""

    action: Literal["apply", "restore"]


class HeldAnswer(Answer):
    """What became of held changes."""

    taken_in: int = 0
    demoted: int = 0
    restored: int = 0


class Check(Answer):
    """One thing that doctor looked at."""

    name: str
    ok: bool
    detail: str
    hint: str = ""


class DoctorAnswer(Answer):
    """What doctor found."""

    checks: list[Check]


class DrainAnswer(Answer):
    """What is still on its way."""

    pending: dict[str, int]


class DrainRequest(Wire):
    """Ask what is still on its way; with `wait`, deliver it first."""

    wait: bool = False
