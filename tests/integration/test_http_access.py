"""The door to the engine's HTTP: who is refused, and that nothing was read or touched then."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest
from starlette.routing import Route

from memory.config import load_settings
from memory.engine import http_door, openapi
from memory.engine.access import CALLER, Asgi, Caller, Receive, Scope, Send
from memory.engine.host import Host
from memory.engine.http_door import HttpDoor, Rules, rules_of
from memory.engine.limits import RateLimit
from memory.engine.problems import STATUS
from memory.engine.server import app_for_others
from memory.engine.tcp import Address, is_loopback
from memory.errors import Unauthorized, UsageError
from memory.projects import Project

PROJECT = Project(key="6f1d3f0e-2b1c-4f5d-9c1a-0123456789ab", name="here", anchor="/srv/here")
OTHER = Project(key="11111111-2222-4333-8444-555555555555", name="there", anchor="/srv/there")
TOKENS = {
    "good": Caller(owner="anna", project=PROJECT, is_local=False, may_global=False),
    "bert": Caller(owner="bert", project=PROJECT, is_local=False, may_global=False),
    "theirs": Caller(owner="anna", project=OTHER, is_local=False, may_global=False),
}
ADDRESS = Address("127.0.0.1", 3008)

HEADERS = {
    "Host": "127.0.0.1:3008",
    "Authorization": "Bearer good",
    "Content-Type": "application/json",
    "Content-Length": "2",
}


def admit(text: str) -> Caller:
    if text not in TOKENS:
        raise Unauthorized("this token opens nothing")
    return TOKENS[text]


def rules(**settings: Any) -> Rules:
    flags = {name.replace("__", "."): value for name, value in settings.items()}
    return rules_of(load_settings(home=Path("/nowhere"), environment={}, flags=flags), ADDRESS)


class Untouched:
    """Stands where the open home would be, and notes whether anybody looked at it."""

    def __init__(self) -> None:
        self.touched: list[str] = []

    def __getattr__(self, name: str) -> Any:
        self.touched.append(name)
        raise AssertionError(f"the home was asked for {name}")


@dataclass
class Answered:
    """What came back, and how much of the request was taken for it."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    reads: int

    @property
    def problem(self) -> dict[str, Any]:
        assert self.headers["content-type"] == "application/problem+json", self.body
        found: dict[str, Any] = json.loads(self.body)
        assert found["status"] == self.status
        assert found["code"] and found["title"] and found["detail"] and found["hint"]
        return found


@dataclass
class Request:
    """One request; `headers` are added to those of a good one, and None takes one away."""

    method: str = "POST"
    path: str = "/v1/search"
    headers: Mapping[str, str | None] = field(default_factory=dict)
    more: Sequence[tuple[str, str]] = ()
    body: Sequence[bytes] = (b"{}",)
    query: str = ""
    client: str = "127.0.0.1"

    def scope(self) -> Scope:
        kept = {**HEADERS, **self.headers}
        pairs = [(name, value) for name, value in kept.items() if value is not None]
        return {
            "type": "http",
            "http_version": "1.1",
            "method": self.method,
            "scheme": "http",
            "path": self.path,
            "raw_path": self.path.encode(),
            "root_path": "",
            "query_string": self.query.encode(),
            "headers": [
                (name.lower().encode("latin-1"), value.encode("latin-1"))
                for name, value in (*pairs, *self.more)
            ],
            "client": (self.client, 50_000),
            "server": ("127.0.0.1", 3008),
        }


async def _ask(app: Asgi, request: Request) -> Answered:
    sent: list[Any] = []
    waiting, reads = list(request.body), 0

    async def receive() -> Any:
        nonlocal reads
        reads += 1
        if waiting:
            body = waiting.pop(0)
            return {"type": "http.request", "body": body, "more_body": bool(waiting)}
        return await asyncio.Event().wait()

    async def send(message: Any) -> None:
        sent.append(message)

    await app(request.scope(), receive, send)
    start, *bodies = sent
    headers = {name.decode(): value.decode() for name, value in start["headers"]}
    body = b"".join(message["body"] for message in bodies)
    return Answered(start["status"], headers, body, reads)


def ask(app: Asgi, request: Request) -> Answered:
    return asyncio.run(_ask(app, request))


class Inside:
    """What lies behind a door: notes who comes in, and reads all that they bring."""

    def __init__(self) -> None:
        self.callers: list[Caller] = []
        self.body = b""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.callers.append(scope[CALLER])
        if scope["method"] == "POST":
            self.body = (await receive())["body"]
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"{}"})


@pytest.fixture
def inside() -> Inside:
    return Inside()


def door(app: Asgi, **settings: Any) -> HttpDoor:
    return HttpDoor(app, rules(**settings), admit)


REFUSED: dict[str, tuple[Request, int]] = {
    "a foreign host": (Request(headers={"Host": "evil.example"}), 421),
    "a foreign host on our port": (Request(headers={"Host": "evil.example:3008"}), 421),
    "our host on another port": (Request(headers={"Host": "127.0.0.1:80"}), 421),
    "a host that only starts like ours": (Request(headers={"Host": "localhost.evil.example"}), 421),
    "a host with a user": (Request(headers={"Host": "localhost@evil.example"}), 421),
    "an empty host": (Request(headers={"Host": ""}), 421),
    "no host": (Request(headers={"Host": None}), 421),
    "two hosts": (Request(more=[("Host", "evil.example")]), 400),
    "a foreign origin": (Request(headers={"Origin": "https://evil.example"}), 403),
    "a null origin": (Request(headers={"Origin": "null"}), 403),
    "an empty origin": (Request(headers={"Origin": ""}), 403),
    "the origin of another local server": (
        Request(headers={"Origin": "http://localhost:8000"}),
        403,
    ),
    "an origin with a path": (Request(headers={"Origin": "http://localhost:3008/x"}), 403),
    "an origin of another scheme": (Request(headers={"Origin": "file://localhost:3008"}), 403),
    "two origins": (
        Request(headers={"Origin": "http://localhost:3008"}, more=[("Origin", "http://evil")]),
        400,
    ),
    "a page of another site": (Request(headers={"Sec-Fetch-Site": "cross-site"}), 403),
    "no token": (Request(headers={"Authorization": None}), 401),
    "an empty token": (Request(headers={"Authorization": "Bearer "}), 401),
    "a wrong token": (Request(headers={"Authorization": "Bearer bad"}), 401),
    "a token in another scheme": (Request(headers={"Authorization": "Basic good"}), 401),
    "a bare token": (Request(headers={"Authorization": "good"}), 401),
    "two tokens": (Request(more=[("Authorization", "Bearer good")]), 401),
    "a token in the URL": (Request(headers={"Authorization": None}, query="token=good"), 401),
    "a URL that is too long": (Request(query="x" * 2_000), 414),
    "a body that is too long": (Request(headers={"Content-Length": str(2**22 + 1)}), 413),
    "a body that is far too long": (Request(headers={"Content-Length": "9" * 18}), 413),
    "a length that is none": (Request(headers={"Content-Length": "-1"}), 400),
    "a length in other digits": (Request(headers={"Content-Length": "\xb2"}), 400),
    "two lengths": (Request(more=[("Content-Length", "3")]), 400),
    "no length": (Request(headers={"Content-Length": None}), 411),
    "chunks": (Request(headers={"Content-Length": None, "Transfer-Encoding": "chunked"}), 411),
    "chunks and a length": (Request(headers={"Transfer-Encoding": "chunked"}), 400),
    "a form": (Request(headers={"Content-Type": "application/x-www-form-urlencoded"}), 415),
    "plain text": (Request(headers={"Content-Type": "text/plain"}), 415),
    "JSON in another encoding": (
        Request(headers={"Content-Type": "application/json; charset=utf-16"}),
        415,
    ),
    "a compressed body": (Request(headers={"Content-Encoding": "gzip"}), 415),
    "no content type": (Request(headers={"Content-Type": None}), 415),
}

#: The address in the request line, which decides by itself.
ODD_PATHS = [
    "http://evil.example/v1/search",
    "*",
    "",
    "/v1/../healthz",
    "/./healthz",
    "/a\\b",
    "/\0",
]


def _routes() -> list[Route]:
    # No route looks at its host before it is asked for something.
    app = app_for_others(cast(Host, None), largest_body=1)
    return [route for route in app.routes if isinstance(route, Route)]


ROUTES = [
    (method, route.path.replace("{project}", PROJECT.key).replace("{path:path}", "no/such/place"))
    for route in _routes()
    for method in sorted((route.methods or {"GET", "POST", "DELETE"}) - {"HEAD"})
]


def test_the_document_describes_every_route_and_no_other() -> None:
    described = {
        (method.upper(), path)
        for path, operations in openapi.document()["paths"].items()
        for method in operations
    }
    served = {
        (method, route.path)
        for route in _routes()
        for method in (route.methods or {"POST"}) - {"HEAD"}
        if not route.path.startswith(("/mcp/", "/{path"))
    }

    assert described == served


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_every_route_refuses_what_may_not_come_in_and_nothing_is_read(
    method: str, path: str
) -> None:
    home = Untouched()
    app = door(app_for_others(cast(Host, home), largest_body=1))

    for what, (request, status) in REFUSED.items():
        # Whatever the route takes: a body is judged wherever one is sent.
        sent = "POST" if status in (411, 415) else method
        answer = ask(app, Request(**{**vars(request), "method": sent, "path": path}))
        assert (what, answer.status) == (what, status), answer.body
        assert answer.problem
        assert answer.reads == 0, f"{what} was read"
        assert "access-control-allow-origin" not in answer.headers
    assert home.touched == []


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_every_route_lets_a_good_request_in(method: str, path: str, inside: Inside) -> None:
    answer = ask(door(inside), Request(method=method, path=path))

    assert answer.status == 200
    assert inside.callers == [TOKENS["good"]]


@pytest.mark.parametrize("path", [path for method, path in ROUTES if path.startswith("/v1/")])
@pytest.mark.parametrize("body", [b"{", b"[]", b"\xff", b"null", b'{"a":', b'{"project":7}'])
def test_every_verb_refuses_what_is_no_request_before_it_looks_at_the_home(
    path: str, body: bytes
) -> None:
    home = Untouched()
    app = door(app_for_others(cast(Host, home), largest_body=1))

    answer = ask(app, Request(path=path, headers={"Content-Length": str(len(body))}, body=(body,)))

    assert answer.status == 400
    assert answer.problem["code"] == "usage-error"
    assert home.touched == []


@pytest.mark.parametrize("path", ODD_PATHS)
def test_an_address_that_leads_elsewhere_is_refused(path: str, inside: Inside) -> None:
    answer = ask(door(inside), Request(path=path))

    assert answer.status == 400
    assert answer.headers["connection"] == "close"
    assert inside.callers == []


@pytest.mark.parametrize(
    "path",
    [
        f"/mcp/{OTHER.key}",
        f"/mcp/{OTHER.key}/",
        f"/mcp/{PROJECT.key}x",
        f"/mcp/{PROJECT.key.upper()}",
        "/mcp/%2e%2e",
    ],
)
def test_a_token_of_another_project_than_the_urls_is_refused(path: str, inside: Inside) -> None:
    answer = ask(door(inside), Request(path=path))

    assert answer.status == 403
    assert answer.problem["code"] == "project-refused"
    assert inside.callers == []


@pytest.mark.parametrize(
    "host", ["localhost", "LocalHost:3008", "127.0.0.1", "[::1]", "[::1]:3008", "127.0.0.1:3008"]
)
def test_every_name_of_this_machine_is_a_host(host: str, inside: Inside) -> None:
    assert ask(door(inside), Request(headers={"Host": host})).status == 200


@pytest.mark.parametrize("host", ["memory.example.org", "memory.example.org:3008", "box:8080"])
def test_more_hosts_are_named_by_a_setting(host: str, inside: Inside) -> None:
    named = door(inside, http__hosts="Memory.example.org, box:8080")

    assert ask(named, Request(headers={"Host": host})).status == 200
    origin = {"Host": host, "Origin": f"https://{host}"}
    assert ask(named, Request(headers=origin)).status == 200
    assert ask(named, Request(headers={"Host": "box"})).status == 421


@pytest.mark.parametrize("origin", ["http://localhost:3008", "https://127.0.0.1:3008"])
def test_a_page_of_our_own_may_ask_and_needs_no_header_for_it(origin: str, inside: Inside) -> None:
    answer = ask(door(inside), Request(headers={"Origin": origin}))

    assert answer.status == 200
    assert not [name for name in answer.headers if name.startswith("access-control")]


def test_a_page_that_a_setting_names_may_ask(inside: Inside) -> None:
    named = door(inside, http__origins="https://app.example")
    page = {"Origin": "https://app.example", "Sec-Fetch-Site": "cross-site"}

    answer = ask(named, Request(headers=page))
    refused = ask(named, Request(headers={**page, "Authorization": None}))

    assert answer.status == 200
    assert answer.headers["access-control-allow-origin"] == "https://app.example"
    assert answer.headers["vary"] == "Origin"
    assert refused.status == 401
    assert refused.headers["access-control-allow-origin"] == "https://app.example"
    assert ask(named, Request(headers={"Origin": "https://app.example.evil"})).status == 403


def test_a_browser_may_ask_first_for_a_page_that_a_setting_names(inside: Inside) -> None:
    named = door(inside, http__origins="https://app.example")
    first: dict[str, str | None] = {
        "Origin": "https://app.example",
        "Access-Control-Request-Method": "POST",
        "Authorization": None,
        "Content-Length": None,
    }

    answer = ask(named, Request(method="OPTIONS", headers=first))
    foreign = ask(named, Request(method="OPTIONS", headers={**first, "Origin": "https://evil"}))

    assert answer.status == 204
    assert "authorization" in answer.headers["access-control-allow-headers"].lower()
    assert foreign.status == 403
    assert inside.callers == []


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("http__origins", "*"),
        ("http__origins", "null"),
        ("http__origins", "app.example"),
        ("http__origins", "https://app.example/"),
        ("http__hosts", "*"),
        ("http__hosts", "https://memory.example.org"),
        ("http__hosts", "a b"),
    ],
)
def test_a_setting_that_names_no_host_or_origin_is_an_error(setting: str, value: str) -> None:
    with pytest.raises(UsageError) as refused:
        rules(**{setting: value})

    assert setting.replace("__", ".") in refused.value.message


@pytest.mark.parametrize(
    "header",
    [
        {"X-HTTP-Method-Override": "DELETE"},
        {"X-Forwarded-Host": "evil.example"},
        {"X-Forwarded-For": "10.0.0.1"},
        {"X-Original-URL": "/v1/stop"},
    ],
)
def test_no_header_changes_what_a_request_is(header: dict[str, str], inside: Inside) -> None:
    seen: list[Scope] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope)
        await inside(scope, receive, send)

    assert ask(door(app), Request(headers=header)).status == 200
    assert (seen[0]["method"], seen[0]["path"]) == ("POST", "/v1/search")
    assert seen[0]["client"] == ("127.0.0.1", 50_000)


def test_a_body_reaches_the_inside_whole(inside: Inside) -> None:
    parts = (b'{"query"', b': "x"', b"}")
    length = {"Content-Length": str(len(b"".join(parts)))}

    assert ask(door(inside), Request(headers=length, body=parts)).status == 200
    assert inside.body == b'{"query": "x"}'


def test_a_body_that_does_not_come_is_given_up(inside: Inside) -> None:
    hasty = HttpDoor(inside, rules(), admit, patience_s=0.05)

    answer = ask(hasty, Request(body=()))

    assert answer.status == 408
    assert answer.problem["code"] == "request-too-slow"
    assert answer.headers["connection"] == "close"
    assert inside.callers == []


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT"])
def test_no_method_brings_chunks(method: str, inside: Inside) -> None:
    chunks = {"Content-Length": None, "Transfer-Encoding": "chunked"}

    assert ask(door(inside), Request(method=method, headers=chunks)).status == 411
    assert inside.callers == []


def test_the_longest_body_is_a_setting(inside: Inside) -> None:
    size = 5 * 2**20
    request = Request(headers={"Content-Length": str(size)}, body=(b" " * size,))

    assert ask(door(inside), request).status == 413
    assert ask(door(inside, http__max_body_mb=5), request).status == 200


def test_who_asks_too_often_is_told_when_to_come_back(inside: Inside) -> None:
    now = [100.0]
    narrow = HttpDoor(inside, rules(http__rate_per_minute=3), admit, clock=lambda: now[0])

    assert [ask(narrow, Request()).status for _ in range(4)] == [200, 200, 200, 429]
    answer = ask(narrow, Request())
    other = ask(narrow, Request(headers={"Authorization": "Bearer bert"}))

    assert answer.problem["retryable"]
    assert answer.headers["retry-after"] == "60"
    assert other.status == 200
    now[0] += 60.0
    assert ask(narrow, Request()).status == 200


def test_guessing_tokens_is_slowed_down_and_does_not_shut_others_out(inside: Inside) -> None:
    guess = Request(headers={"Authorization": "Bearer guess"})
    now = [100.0]
    watched = HttpDoor(inside, rules(), admit, clock=lambda: now[0])

    statuses = [ask(watched, guess).status for _ in range(http_door.FAILURES_PER_MINUTE + 2)]

    assert set(statuses[:-2]) == {401}
    assert statuses[-2:] == [429, 429]
    assert int(ask(watched, guess).headers["retry-after"]) > 0
    assert ask(watched, Request()).status == 200
    elsewhere = Request(headers=guess.headers, client="10.1.2.3")
    assert ask(watched, elsewhere).status == 401


def test_one_owner_of_an_ipv6_network_is_one_guesser(inside: Inside) -> None:
    watched = HttpDoor(inside, rules(), admit, clock=lambda: 100.0)
    statuses = [
        ask(
            watched,
            Request(headers={"Authorization": "Bearer guess"}, client=f"2001:db8::{n:x}"),
        ).status
        for n in range(http_door.FAILURES_PER_MINUTE + 1)
    ]

    assert statuses[-1] == 429


def test_the_limiter_remembers_a_bounded_number_of_keys() -> None:
    now = [0.0]
    limit = RateLimit(2, clock=lambda: now[0], most_keys=10)

    assert [limit.wait_s("steady") for _ in range(3)] == [0.0, 0.0, 60.0]
    for number in range(1_000):
        assert limit.wait_s(f"address {number}") == 0.0
        now[0] += 0.01
        assert limit.wait_s("steady") > 0.0

    assert len(limit._times) <= 10


def test_what_is_refused_for_its_rate_does_not_push_the_end_further_away() -> None:
    now = [0.0]
    limit = RateLimit(1, clock=lambda: now[0])

    assert limit.wait_s("a") == 0.0
    now[0] = 59.0
    assert limit.wait_s("a") == 1.0
    now[0] = 60.0
    assert limit.wait_s("a") == 0.0


def test_more_requests_than_can_be_answered_are_sent_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_door, "MOST_REQUESTS", 2)

    async def crowd() -> list[int]:
        leave = asyncio.Event()

        async def slow(scope: Scope, receive: Receive, send: Send) -> None:
            await leave.wait()
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b""})

        crowded = door(slow)
        inside = [asyncio.create_task(_ask(crowded, Request())) for _ in range(2)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        late = await _ask(crowded, Request())
        leave.set()
        answered = [answer.status for answer in await asyncio.gather(*inside)]
        again = await _ask(crowded, Request())
        return [late.status, *answered, again.status]

    assert asyncio.run(crowd()) == [503, 200, 200, 200]


def test_long_bodies_together_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_door, "MOST_BODY_BYTES", 1_000)
    long = {"Content-Length": "900"}

    async def two() -> list[int]:
        waiting = door(Inside())
        first = asyncio.create_task(_ask(waiting, Request(headers=long, body=())))
        await asyncio.sleep(0)
        second = await _ask(waiting, Request(headers=long, body=(b" " * 900,)))
        small = await _ask(waiting, Request())
        first.cancel()
        await asyncio.wait([first])
        third = await _ask(waiting, Request(headers=long, body=(b" " * 900,)))
        return [second.status, small.status, third.status]

    assert asyncio.run(two()) == [503, 200, 200]


def test_a_refusal_at_the_door_has_a_status_of_its_own() -> None:
    statuses = {status for _, status in REFUSED.values()} | {408, 429, 503}

    assert statuses <= set(STATUS.values())
    assert {str(status) for status in statuses} <= set(
        openapi.document()["paths"]["/v1/save"]["post"]["responses"]
    )


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("127.0.0.1:3008", "http://127.0.0.1:3008"),
        ("[::1]:0", "http://[::1]:0"),
        ("LOCALHOST:80", "http://localhost:80"),
        ("box.example.org:65535", "http://box.example.org:65535"),
    ],
)
def test_an_address_to_listen_at_is_a_host_and_a_port(text: str, url: str) -> None:
    assert Address.parse(text).url == url


@pytest.mark.parametrize(
    "text",
    ["3008", "localhost", ":3008", "::1:3008", "http://a:1", "a:65536", "a:-1", "a b:1", "a:"],
)
def test_what_is_no_address_is_an_error_that_shows_one(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        Address.parse(text)

    assert "127.0.0.1:3008" in refused.value.hint


@pytest.mark.parametrize(
    ("ip", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.8.9.1", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("0.0.0.0", False),
        ("::", False),
        ("::ffff:10.0.0.1", False),
        ("192.168.1.5", False),
        ("fe80::1%eth0", False),
    ],
)
def test_what_others_reach_is_told_from_this_machine(ip: str, loopback: bool) -> None:
    assert is_loopback(ip) is loopback
