"""The MCP server: the official SDK, served without sessions to every project of this home.

Both generations of the protocol are answered request by request, so an engine may come and go
under a client. The SDK costs 35 MB and 0.8 s to import (2026-11-30), so it is loaded at the first
call: only `McpDoor` may be used before that.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qs, unquote

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.responses import Response

from embeddings.errors import EmbeddingError
from memory import wire
from memory.engine.access import CALLER, Asgi, Caller, Receive, Scope, Send, View
from memory.engine.host import Host
from memory.engine.problems import no_such_route, problem_of, unexpected
from memory.engine.resources import PROMPTS, TEMPLATE, Argument, page, prompt, read
from memory.engine.toolbox import BY_NAME, INSTRUCTIONS, parse_toolsets, tools_of
from memory.engine.tools.budget import as_json
from memory.engine.tools.tool import Tool, Toolset
from memory.errors import (
    Ambiguous,
    EngineFailed,
    Forgotten,
    NotFound,
    ProjectRefused,
    Refused,
    ServiceError,
    UsageError,
)
from tiers.errors import TierError

if TYPE_CHECKING:
    import mcp_types as types
    from mcp.server.lowlevel import Server

Given = TypeVar("Given")

NAME = "tiermem"

#: Headers by which a front on the engine's own socket says whose agent it serves.
FOLDER, TOOLSETS = "x-tiermem-folder", "x-tiermem-toolsets"

#: Where the door notes what a connection may use.
_VIEW, _CHOSEN = "tiermem.view", "tiermem.toolsets"

_PAGE = 100
_MARKDOWN = "text/markdown"

#: So long a client may keep what is listed: ten minutes, so that an upgrade is soon seen.
STEADY_MS = 600_000

#: The name that clients read for tools which are never hidden behind a search for tools.
_ALWAYS_LOADED = {"anthropic/alwaysLoad": True}

#: Hints for people at a terminal, said to an agent that has tools instead.
_AGENT_HINTS = {
    NotFound.default_hint: (
        "find it with memory_search and give the id of a hit; what is global needs scope=global"
    ),
    Forgotten.default_hint: "to keep it after all, save it as a new memory",
}

_OURS = (ServiceError, TierError, EmbeddingError)


class McpDoor:
    """ASGI app of `/mcp` and `/mcp/{project}`; whoever stands before it says who the caller is.

    Used from the engine's event loop alone.
    """

    def __init__(self, host: Host, *, largest_body: int) -> None:
        self._host = host
        self._largest_body = largest_body
        self._serving: asyncio.Future[Asgi] | None = None
        self._task: asyncio.Task[None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "POST":
            # Nothing is ever pushed, so there is no stream to open and no session to end.
            problem = no_such_route(scope["method"], scope["path"], ["POST"])
            await _told(problem, Allow="POST")(scope, receive, send)
            return
        try:
            view = await run_in_threadpool(self._view, scope)
            chosen = self._toolsets(scope, view)
        except _OURS as exc:
            await _told(problem_of(exc))(scope, receive, send)
            return
        try:
            app = await self._app()
        except EngineFailed as exc:
            await _told(problem_of(exc))(scope, receive, send)
            return
        await app({**scope, _VIEW: view, _CHOSEN: chosen}, receive, send)

    def _view(self, scope: Scope) -> View:
        """Bind the caller to its project: the one of its token, else the one of its folder."""
        caller: Caller = scope[CALLER]
        headers = Headers(scope=scope)
        if caller.project is None:
            folder = unquote(headers.get(FOLDER, ""))
            project = View(self._host, caller).project(folder)
            caller = replace(caller, project=project)
        view = View(self._host, caller)
        named = scope.get("path_params", {}).get("project", "")
        if named and caller.project is not None and named != caller.project.key:
            raise ProjectRefused("this token is for another project", hint="see: tiermem token")
        return view

    def _toolsets(self, scope: Scope, view: View) -> frozenset[Toolset]:
        asked = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("toolsets", [""])[0]
        said = Headers(scope=scope).get(TOOLSETS, "") or asked
        return parse_toolsets(said or view.app.settings.text("mcp.toolsets"))

    async def _app(self) -> Asgi:
        """Load the SDK at the first call and keep its manager running until the loop ends."""
        if self._serving is None:
            self._serving = asyncio.get_running_loop().create_future()
            self._task = asyncio.create_task(self._serve(self._serving))
        return await asyncio.shield(self._serving)

    async def _serve(self, serving: asyncio.Future[Asgi]) -> None:
        try:
            manager = await run_in_threadpool(self._manager)
            async with manager.run():
                serving.set_result(manager.handle_request)
                await asyncio.Event().wait()
        except ImportError as exc:
            # Whoever waits must not wait for ever; the next call tries again.
            self._serving = None
            serving.set_exception(
                EngineFailed(f"the MCP SDK cannot be loaded: {exc}", hint="install tiermem again")
            )

    def _manager(self) -> Any:
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

        return StreamableHTTPSessionManager(
            app=build_server(self._host.version),
            json_response=True,
            stateless=True,
            max_request_body_size=self._largest_body,
        )


def build_server(version: str) -> Server[Any]:
    """Build the server; each request brings its own view of the home and its toolsets."""
    import mcp_types as types
    from mcp.server.caching import CacheHint
    from mcp.server.lowlevel import Server
    from mcp.shared.exceptions import MCPError

    def failed(exc: Exception) -> MCPError:
        problem = problem_of(exc) if isinstance(exc, _OURS) else unexpected(exc)
        data = {"code": problem.code, "hint": problem.hint, "retryable": problem.retryable}
        return MCPError(types.INVALID_PARAMS, problem.detail, data)

    async def asked(ctx: Any, do: Callable[[View], Given]) -> Given:
        try:
            return await run_in_threadpool(do, ctx.request.scope[_VIEW])
        except _OURS as exc:
            raise failed(exc) from exc

    async def list_tools(ctx: Any, _: Any) -> types.ListToolsResult:
        chosen = ctx.request.scope[_CHOSEN]
        return types.ListToolsResult(tools=[tool_of(tool) for tool in tools_of(chosen)])

    async def call_tool(ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        tool = BY_NAME.get(params.name)
        if tool is None:
            raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {params.name[:80]}")
        if tool.toolset not in ctx.request.scope[_CHOSEN]:
            return _refused(
                tool,
                Refused(
                    f"{tool.name} is in the toolset {tool.toolset}, which is not switched on",
                    hint=f"start with: tiermem mcp --toolsets core,context,{tool.toolset}",
                ),
            )
        view = ctx.request.scope[_VIEW]
        return await run_in_threadpool(_call, tool, view, params.arguments or {})

    async def list_resources(
        ctx: Any, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        offset = _offset(params.cursor if params else None, failed)
        listed, after = await asked(ctx, lambda view: page(view, offset, _PAGE))
        return types.ListResourcesResult(
            resources=[
                types.Resource(
                    uri=one.uri,
                    name=one.name,
                    description=one.description,
                    mime_type=_MARKDOWN,
                )
                for one in listed
            ],
            next_cursor=None if after is None else str(after),
        )

    async def list_templates(_: Any, __: Any) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult(resource_templates=listed_templates())

    async def read_resource(
        ctx: Any, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        uri = str(params.uri)
        text = await asked(ctx, lambda view: read(view, uri))
        return types.ReadResourceResult(
            contents=[types.TextResourceContents(uri=uri, mime_type=_MARKDOWN, text=text)]
        )

    async def list_prompts(_: Any, __: Any) -> types.ListPromptsResult:
        return types.ListPromptsResult(prompts=listed_prompts())

    async def get_prompt(ctx: Any, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        text = await asked(ctx, lambda view: prompt(view, params.name, params.arguments or {}))
        content = types.TextContent(type="text", text=text)
        return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=content)])

    # What is listed changes with the version alone; what is remembered changes all the time.
    steady = CacheHint(ttl_ms=STEADY_MS)
    return Server(
        NAME,
        title=NAME,
        version=version,
        instructions=INSTRUCTIONS,
        cache_hints={
            "server/discover": steady,
            "tools/list": steady,
            "prompts/list": steady,
            "resources/templates/list": steady,
        },
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read_resource,
        on_list_prompts=list_prompts,
        on_get_prompt=get_prompt,
    )


def tool_of(tool: Tool) -> types.Tool:
    """Describe a tool in the protocol's words."""
    import mcp_types as types

    return types.Tool(
        name=tool.name,
        description=tool.description,
        input_schema=tool.input_schema(),
        output_schema=tool.output_schema(),
        annotations=types.ToolAnnotations.model_validate(tool.annotations()),
        _meta=_ALWAYS_LOADED if tool.is_always_loaded else None,
    )


def listed_templates() -> list[types.ResourceTemplate]:
    """Describe the addresses of memories in the protocol's words."""
    import mcp_types as types

    return [
        types.ResourceTemplate(
            uri_template=TEMPLATE,
            name="memory",
            description="one memory, by project key and id; the id index is the hot index",
            mime_type=_MARKDOWN,
        )
    ]


def listed_prompts() -> list[types.Prompt]:
    """Describe the prompts in the protocol's words."""
    import mcp_types as types

    def argument(one: Argument) -> types.PromptArgument:
        return types.PromptArgument(
            name=one.name, description=one.description, required=one.is_required
        )

    return [
        types.Prompt(
            name=one.name,
            description=one.description,
            arguments=[argument(taken) for taken in one.arguments],
        )
        for one in PROMPTS
    ]


def _call(tool: Tool, view: View, arguments: dict[str, Any]) -> types.CallToolResult:
    """Run a tool. Whatever goes wrong is an answer with the next step, not a broken protocol."""
    import mcp_types as types
    from pydantic import ValidationError

    try:
        reply = tool.run(view, tool.arguments.model_validate(arguments))
    except ValidationError as exc:
        return _refused(tool, UsageError(wire.complaint(exc), hint="see the example"))
    except _OURS as exc:
        return _refused(tool, exc)
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=reply.text)],
        structured_content=as_json(reply.data),
    )


def _refused(tool: Tool, exc: ServiceError | TierError | EmbeddingError) -> types.CallToolResult:
    """An error as data: what is wrong, what to do next, and a call that works.

    It is text alone: structured content would have to follow the schema of a result.
    """
    import mcp_types as types

    problem = problem_of(exc)
    told: dict[str, Any] = {
        "error": problem.code,
        "detail": problem.detail[:2_000],
        "hint": _hint(exc, problem.hint),
        "retryable": problem.retryable,
    }
    if isinstance(exc, UsageError):
        told["example"] = {"name": tool.name, "arguments": dict(tool.example)}
    text = json.dumps(told, ensure_ascii=False)
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=True)


def _hint(exc: Exception, hint: str) -> str:
    """Say the next step to an agent, which has tools and no command line."""
    speaks_of_the_command_line = "tiermem " in hint or "--" in hint
    if isinstance(exc, UsageError) and speaks_of_the_command_line:
        return "see the example"
    if isinstance(exc, Ambiguous) and speaks_of_the_command_line:
        return "give the id of the one that is meant as id"
    return _AGENT_HINTS.get(hint, hint)


def _told(problem: wire.Problem, **headers: str) -> Response:
    return Response(
        problem.model_dump_json(),
        status_code=problem.status,
        media_type="application/problem+json",
        headers=headers,
    )


def _offset(cursor: str | None, failed: Callable[[Exception], Exception]) -> int:
    if cursor is None:
        return 0
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) < 10):
        raise failed(UsageError("this cursor is not one of ours", hint="start without a cursor"))
    return int(cursor)
