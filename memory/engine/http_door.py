"""The door in front of everything that the engine serves over TCP.

It decides from the head of a request alone; what it refuses is not read any further.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import re
import time
from collections.abc import Callable, Iterator, MutableMapping
from dataclasses import dataclass
from typing import Any

from starlette.datastructures import MutableHeaders
from starlette.responses import Response

from embeddings.errors import EmbeddingError
from memory.config import Settings
from memory.engine.access import CALLER, Asgi, Caller, Receive, Scope, Send
from memory.engine.host import Host
from memory.engine.http_head import Head
from memory.engine.limits import RateLimit
from memory.engine.problems import problem_response
from memory.engine.tcp import Address
from memory.errors import (
    AddressTooLong,
    BodyTooLarge,
    EngineCrowded,
    LengthRequired,
    MalformedRequest,
    NotJson,
    OriginRefused,
    ProjectRefused,
    RequestRefused,
    RequestTooSlow,
    ServiceError,
    TokenFileRefused,
    TooManyRequests,
    Unauthorized,
    UsageError,
    WrongHost,
)
from memory.tokens import Tokens
from tiers.errors import TierError

LONGEST_URL = 2_000
FAILURES_PER_MINUTE = 30
BODY_PATIENCE_S = 30.0

#: What is done at once at most: open requests, and the bytes of their bodies.
MOST_REQUESTS = 128
MOST_BODY_BYTES = 64 * 2**20

_ORIGIN = re.compile(r"https?://(?:[a-z0-9._-]+|\[[0-9a-f:.]+\])(?::\d{1,5})?")
_HOST = re.compile(r"(?:[a-z0-9._-]+|\[[0-9a-f:.]+\])(?::\d{1,5})?")
_LOOPBACK = ("localhost", "127.0.0.1", "[::1]")

_PREFLIGHT = {
    "Access-Control-Allow-Methods": "GET, POST, DELETE",
    "Access-Control-Allow-Headers": (
        "Authorization, Content-Type, Last-Event-ID, Mcp-Protocol-Version, Mcp-Session-Id"
    ),
    "Access-Control-Max-Age": "600",
}

_OURS = (ServiceError, TierError, EmbeddingError)

#: From the text of a token to who it is; raises Unauthorized.
Admit = Callable[[str], Caller]


@dataclass(frozen=True, slots=True)
class Rules:
    """Who may knock: hosts as they stand in requests, origins of our own, and those let in."""

    hosts: frozenset[str]
    own_origins: frozenset[str]
    origins: frozenset[str] = frozenset()
    max_body_bytes: int = 4 * 2**20
    per_minute: int = 600


def rules_of(settings: Settings, address: Address) -> Rules:
    """Make the rules of a door at one address. Raises UsageError."""
    host, port = address.in_url, address.port
    more = _names(settings, "http.hosts", _HOST, "a name of a host, as memory.example.org")
    ours = {f"{name}:{port}" for name in (*_LOOPBACK, host)}
    theirs = {*more, *(f"{name}:{port}" for name in more if not re.search(r":\d+$", name))}
    return Rules(
        hosts=frozenset({*_LOOPBACK, host} | ours | theirs),
        # A page at the plain name of this machine is another server's, unless that name is given.
        own_origins=frozenset(
            f"{way}://{name}" for way in ("http", "https") for name in ours | theirs
        ),
        origins=_names(settings, "http.origins", _ORIGIN, "an origin, as https://example.org"),
        max_body_bytes=settings.count("http.max_body_mb") * 2**20,
        per_minute=settings.count("http.rate_per_minute"),
    )


def _names(settings: Settings, setting: str, form: re.Pattern[str], what: str) -> frozenset[str]:
    names = [name.strip().lower() for name in settings.text(setting).split(",") if name.strip()]
    for name in names:
        if not form.fullmatch(name):
            raise UsageError(f"{setting}: {name!r} is not {what}", hint="names have commas between")
    return frozenset(names)


def admit_to(host: Host) -> Admit:
    """Let in who has a token of a project of this home."""
    tokens = Tokens(host.app.home)

    def admit(text: str) -> Caller:
        try:
            token = tokens.find(text)
        except TokenFileRefused:
            # Where that file lies is for its owner alone.
            raise TokenFileRefused("the tokens of this project cannot be trusted") from None
        project = host.app.projects.by_key(token.project) if token else None
        if token is None or project is None:
            raise Unauthorized("this token opens nothing")
        return Caller(
            owner=token.owner, project=project, is_local=False, may_global=token.may_global
        )

    return admit


class HttpDoor:
    """ASGI middleware: lets in whom a token opens the door, and notes who that is.

    Whoever is refused gets a problem that says why. For the engine's event loop alone.
    """

    def __init__(
        self,
        app: Asgi,
        rules: Rules,
        admit: Admit,
        *,
        clock: Callable[[], float] = time.monotonic,
        patience_s: float = BODY_PATIENCE_S,
    ) -> None:
        self._app = app
        self._rules = rules
        self._admit = admit
        self._patience_s = patience_s
        self._asked = RateLimit(rules.per_minute, clock=clock)
        self._failed = RateLimit(FAILURES_PER_MINUTE, clock=clock)
        self._requests = 0
        self._body_bytes = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = _Answer(send)
        try:
            head = Head.of(scope)
            answer.origin = self._look_at(head)
            is_preflight = bool(answer.origin) and head.is_preflight
            caller = None if is_preflight else self._let_in(head)
            length = self._length(head)
        except _OURS as exc:
            await _refusal(exc)(scope, receive, answer)
            return
        if caller is None:
            await Response(status_code=204, headers=_PREFLIGHT)(scope, receive, answer)
            return
        with self._room(length):
            try:
                whole = await self._body(receive) if length else receive
            except RequestRefused as exc:
                await _refusal(exc)(scope, receive, answer)
                return
            await self._app({**scope, CALLER: caller}, whole, answer)

    def _look_at(self, head: Head) -> str:
        """Refuse what is not meant for us; gives the origin of a page that was let in by name."""
        if head.url_length > LONGEST_URL:
            raise AddressTooLong(f"a URL has at most {LONGEST_URL:,} characters")
        head.refuse_what_is_odd()
        host, origin = head.get("host").lower(), head.get("origin").lower()
        if host not in self._rules.hosts:
            raise WrongHost(f"this is not {host[:200]!r}" if host else "no host is named")
        if origin in self._rules.origins:
            return origin
        if "origin" in head.headers and origin not in self._rules.own_origins:
            raise OriginRefused(f"pages of {origin[:200]!r} may not ask here")
        if head.get("sec-fetch-site").lower() == "cross-site":
            raise OriginRefused("pages of other sites may not ask here")
        return ""

    def _let_in(self, head: Head) -> Caller:
        try:
            caller = self._admit(head.token())
        except Unauthorized:
            wait_s = self._failed.wait_s(head.neighbourhood())
            if wait_s:
                raise _too_many("too many requests without a valid token", wait_s) from None
            raise
        project = caller.project
        if head.project and (project is None or head.project != project.key):
            raise ProjectRefused(
                "this token is for another project", hint="the URL is shown by: tiermem token"
            )
        key = f"{project.key if project else ''} {caller.owner}"
        if wait_s := self._asked.wait_s(key):
            raise _too_many(f"more than {self._rules.per_minute} requests in a minute", wait_s)
        return caller

    def _length(self, head: Head) -> int:
        """Say how long the body is that may be read."""
        if "transfer-encoding" in head.headers:
            raise LengthRequired("a request says how long it is, and is not sent in chunks")
        is_post, length = head.method == "POST", head.length()
        if is_post and "content-length" not in head.headers:
            raise LengthRequired("a request says how long it is")
        if length > self._rules.max_body_bytes:
            raise BodyTooLarge(f"a body has at most {self._rules.max_body_bytes:,} bytes")
        if (is_post or length) and not head.is_json():
            raise NotJson(f"a body is JSON, not {head.get('content-type')[:100]!r}")
        others = self._body_bytes
        if self._requests >= MOST_REQUESTS or (others and others + length > MOST_BODY_BYTES):
            raise EngineCrowded(f"{self._requests} requests are being answered")
        return length

    @contextlib.contextmanager
    def _room(self, length: int) -> Iterator[None]:
        self._requests += 1
        self._body_bytes += length
        try:
            yield
        finally:
            self._requests -= 1
            self._body_bytes -= length

    async def _body(self, receive: Receive) -> Receive:
        """Read the whole body, which is known to be short enough, before anybody waits for it."""
        parts: list[bytes] = []
        try:
            async with asyncio.timeout(self._patience_s):
                more = True
                while more:
                    message = await receive()
                    if message["type"] != "http.request":
                        raise MalformedRequest("the request ended before its body did")
                    parts.append(message.get("body", b""))
                    more = message.get("more_body", False)
        except TimeoutError:
            raise RequestTooSlow(f"the body did not come in {self._patience_s:g} s") from None
        return _replay(b"".join(parts), receive)


class _Answer:
    """Sends an answer with the headers that each one has."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.origin = ""

    async def __call__(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(raw=list(message.get("headers", [])))
            headers["X-Content-Type-Options"] = "nosniff"
            headers.setdefault("Cache-Control", "no-store")
            if self.origin:
                headers["Access-Control-Allow-Origin"] = self.origin
                headers["Access-Control-Expose-Headers"] = "Mcp-Session-Id, Retry-After"
                headers.add_vary_header("Origin")
            message = {**message, "headers": headers.raw}
        await self._send(message)


def _replay(body: bytes, receive: Receive) -> Receive:
    """Give a body that was read already, and then what really comes."""
    waiting: list[bytes] = [body]

    async def again() -> MutableMapping[str, Any]:
        if waiting:
            return {"type": "http.request", "body": waiting.pop(), "more_body": False}
        return await receive()

    return again


def _refusal(exc: Exception) -> Response:
    response = problem_response(exc)
    if isinstance(exc, (MalformedRequest, RequestTooSlow)):
        # What follows on this connection cannot be told from the rest of this request.
        response.headers["Connection"] = "close"
    return response


def _too_many(what: str, wait_s: float) -> TooManyRequests:
    return TooManyRequests(what, retry_after_s=max(1, math.ceil(wait_s)))
