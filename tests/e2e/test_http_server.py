"""`tiermem serve --http` and `tiermem token`, with real processes and real connections."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from memory.engine import tcp
from tests.support.homes import Home, wait_until
from tests.support.http_engines import HttpEngine, read_answer, rpc

MCP = {"Accept": "application/json, text/event-stream"}

Serve = Callable[..., HttpEngine]


@pytest.fixture
def serve() -> Iterator[Serve]:
    engines: list[HttpEngine] = []

    def start(home: Home, *options: str, **more: Any) -> HttpEngine:
        engines.append(HttpEngine(home, *options, **more))
        return engines[-1]

    yield start
    for engine in engines:
        engine.end()


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpEngine]:
    """One engine for what leaves no trace in it."""
    folder = tmp_path_factory.mktemp("http")
    home = Home(folder / "home", folder / "project")
    home.json("save", "the retry budget is five attempts", "--name", "retry budget")
    running = HttpEngine(home)
    yield running
    running.end()
    home.end()


@pytest.fixture(scope="module")
def token(engine: HttpEngine) -> str:
    return engine.token()


@pytest.fixture
def client(engine: HttpEngine, token: str) -> Iterator[httpx.Client]:
    with engine.client(token) as client:
        yield client
        kept = client.post("/v1/list", json={}).json()
        assert [item["name"] for item in kept["memories"]] == ["retry budget"]


@pytest.fixture(scope="module")
def there(engine: HttpEngine, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another project of the same home."""
    folder = tmp_path_factory.mktemp("there")
    engine.home.json("save", "the vault opens at nine", "--name", "vault", project=folder)
    return folder


def problem(response: httpx.Response, status: int) -> dict[str, Any]:
    assert response.status_code == status, response.text[:300]
    assert response.headers["content-type"] == "application/problem+json"
    found: dict[str, Any] = response.json()
    assert found["status"] == status
    assert found["code"] and found["title"] and found["detail"] and found["hint"]
    assert "Traceback" not in response.text
    return found


# Turning it on.


def test_serve_says_where_it_listens_and_how_to_get_a_token(engine: HttpEngine, token: str) -> None:
    assert f"listening at {engine.url}" in engine.said()
    assert "tiermem token" in engine.said()
    assert engine.home.json("status")["engine"]["http"] == engine.url
    assert engine.url in engine.home.cli("status").stdout


def test_a_token_is_printed_alone_and_the_rest_is_for_people(
    engine: HttpEngine, token: str
) -> None:
    done = engine.home.cli("token")

    shown = engine.home.json("token")

    assert done.stdout == f"{token}\n"
    assert f"{engine.url}/mcp/{shown['project']}" in done.stderr
    assert token not in done.stderr
    assert set(shown) == {"token", "project", "owner", "global", "url", "file"}
    assert (shown["token"], shown["owner"], shown["global"]) == (token, "tester", False)
    assert shown["url"] == f"{engine.url}/mcp/{shown['project']}"
    assert Path(shown["file"]).stat().st_mode & 0o777 == 0o600


def test_a_token_can_be_made_before_anything_runs(home: Home) -> None:
    done = home.cli("token")

    assert done.stdout.startswith("tm1.")
    assert "http://127.0.0.1:3008/mcp/" in done.stderr
    assert "tiermem serve --http" in done.stderr
    assert home.engine_pid() is None


def test_an_engine_that_listens_does_not_end_by_idling(home: Home, serve: Serve) -> None:
    home.environment["TIERMEM_ENGINE_IDLE_MINUTES"] = "0.005"
    running = serve(home)

    time.sleep(1.5)

    assert running.is_running()
    with running.client(running.token()) as client:
        assert client.get("/healthz").json()["status"] == "ok"


def test_it_ends_when_it_is_told_to(home: Home, serve: Serve) -> None:
    running = serve(home)

    home.cli("stop")

    wait_until(lambda: not running.is_running())


def test_a_port_in_use_is_one_clear_sentence(home: Home) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = home.cli("serve", "--http", f"127.0.0.1:{port}", code=1)

    errors = [line for line in done.stderr.splitlines() if line.startswith("error:")]
    assert errors == [f"error: cannot listen at 127.0.0.1:{port}: something listens there already"]
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("address", ["3008", "127.0.0.1", "127.0.0.1:http", "127.0.0.1:99999"])
def test_what_is_no_address_is_an_error_of_usage(home: Home, address: str) -> None:
    assert "HOST:PORT" in home.cli("serve", "--http", address, code=2).stderr


def test_it_takes_the_place_of_an_engine_that_a_front_started(home: Home, serve: Serve) -> None:
    home.json("save", "kept before", "--name", "before")
    old = home.engine_pid()

    running = serve(home)

    assert home.engine_pid() not in (None, old)
    with running.client(running.token()) as client:
        assert client.post("/v1/get", json={"ref": "before"}).json()["text"] == "kept before"
    assert len(home.engines()) == 1


def test_fronts_that_go_on_meanwhile_lose_nothing(home: Home, serve: Serve) -> None:
    home.json("save", "the first")
    script = "; ".join(f"{_shell(home, 'save', f'number {n}')} || exit 1" for n in range(4))
    front = subprocess.Popen(
        ["sh", "-c", script],
        cwd=home.project,
        env={**os.environ, **home.environment},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )

    running = serve(home)

    assert front.wait(120) == 0
    assert home.json("status")["engine"]["http"] == running.url
    assert home.json("list")["total"] == 5


def _shell(home: Home, *arguments: str) -> str:
    return " ".join(f"'{word}'" for word in home.command(*arguments))


def test_a_second_one_says_that_there_is_one(engine: HttpEngine) -> None:
    for address in (f"127.0.0.1:{engine.port}", "127.0.0.1:0"):
        done = engine.home.cli("serve", "--http", address, code=1)
        assert f"listens at {engine.url} already" in done.stderr


def test_beyond_this_machine_it_needs_a_token_first(home: Home, serve: Serve) -> None:
    refused = home.cli("serve", "--http", "0.0.0.0:0", code=2)
    assert "tiermem token" in refused.stderr
    token = home.cli("token").stdout.strip()

    running = serve(home, address="0.0.0.0:0")

    assert "not encrypted" in running.said()
    with httpx.Client(trust_env=False) as client:
        asked = client.get(
            f"http://127.0.0.1:{running.port}/healthz", headers={"Authorization": f"Bearer {token}"}
        )
    assert asked.status_code == 200


def test_it_listens_at_an_ipv6_address(home: Home, serve: Serve) -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError as exc:
        pytest.skip(f"no IPv6 here: {exc}")
    running = serve(home, address="[::1]:0")

    assert running.url.startswith("http://[::1]:")
    with running.client(running.token()) as client:
        assert client.get("/healthz").status_code == 200


def test_an_engine_that_a_front_starts_listens_where_the_settings_say(home: Home) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    (home.path).mkdir(exist_ok=True)
    (home.path / "config.toml").write_text(f'[http]\nlisten = "{address}"\n', encoding="utf-8")

    home.json("save", "kept", "--name", "kept")

    assert home.json("status")["engine"]["http"] == f"http://{address}"
    assert f"http://{address}/mcp/" in home.cli("token").stderr


def test_a_front_is_served_even_if_the_port_is_taken_and_doctor_says_so(home: Home) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        home.environment["TIERMEM_HTTP_LISTEN"] = f"127.0.0.1:{taken.getsockname()[1]}"

        home.json("save", "kept all the same")

        checks = {check["name"]: check for check in home.json("doctor", code=3)["checks"]}
    assert not checks["http"]["ok"]
    assert "something listens there already" in checks["http"]["detail"]
    assert home.json("status")["engine"]["http"] == ""


# Tokens.


def test_a_token_works_until_it_is_rotated_or_revoked(home: Home, serve: Serve) -> None:
    running = serve(home)
    first = running.token()
    with running.client(first) as old:
        assert old.get("/healthz").status_code == 200

        second = running.token("--rotate")

        assert problem(old.get("/healthz"), 401)["code"] == "unauthorized"
    with running.client(second) as new:
        assert new.get("/healthz").status_code == 200
        assert home.json("token", "--revoke")["revoked"] is True
        assert new.get("/healthz").headers["www-authenticate"].startswith("Bearer")
        assert new.get("/healthz").status_code == 401
    assert home.json("token", "--revoke")["revoked"] is False
    said = running.said()
    assert first not in said and second not in said


def test_a_file_of_tokens_that_others_can_read_opens_nothing(home: Home, serve: Serve) -> None:
    running = serve(home)
    token, file = running.token(), Path(home.json("token")["file"])
    file.chmod(0o644)
    with running.client(token) as client:
        found = problem(client.get("/healthz"), 403)
        told = home.cli("token", code=1).stderr
        file.chmod(0o600)
        again = client.get("/healthz")

    assert found["code"] == "token-file-refused"
    assert str(home.path) not in json.dumps(found)
    assert f"chmod 600 '{file}'" in told
    assert again.status_code == 200


def test_options_that_contradict_each_other_are_an_error(home: Home) -> None:
    home.cli("token", "--revoke", "--rotate", code=2)
    home.cli("token", "--revoke", "--global", code=2)
    home.cli("token", "--owner", "a\nb", code=2)


# Who sees what.


def test_two_projects_never_see_each_other(
    engine: HttpEngine, token: str, there: Path, client: httpx.Client
) -> None:
    theirs = engine.home.json("token", project=there)["project"]
    found = client.post("/v1/search", json={"query": "when does the vault open"}).json()

    assert "vault" not in json.dumps(found)
    for named in (theirs, str(there), f"{engine.home.project}/../{there.name}"):
        refused = client.post("/v1/search", json={"query": "vault", "project": named})
        assert problem(refused, 403)["code"] == "project-refused"
    assert problem(client.post("/v1/get", json={"ref": "vault"}), 404)
    with engine.client(engine.token(project=there)) as other:
        assert other.post("/v1/get", json={"ref": "vault"}).json()["name"] == "vault"
        assert problem(other.post("/v1/get", json={"ref": "retry budget"}), 404)


def test_private_memories_are_their_owners_alone(home: Home, serve: Serve) -> None:
    home.json("save", "tester prefers tabs", "--type", "user", "--name", "tabs")
    home.json("save", "the build needs tabs", "--type", "project", "--name", "build")
    running = serve(home)
    with running.client(running.token("--owner", "anna")) as anna:
        listed = anna.post("/v1/list", json={}).json()["memories"]
        found = anna.post("/v1/search", json={"query": "tabs"}).json()["hits"]
        private = anna.post("/v1/get", json={"ref": "tabs"})
        exported = anna.post("/v1/export", json={}).text

    assert [item["name"] for item in listed] == ["build"]
    assert [hit["name"] for hit in found] == ["build"]
    assert private.status_code == 404
    assert "prefers tabs" not in exported


def test_global_memories_need_a_token_that_says_so(home: Home, serve: Serve) -> None:
    running = serve(home)
    asked = {"query": "anything", "scope": "global"}
    with running.client(running.token()) as client:
        refused = problem(client.post("/v1/search", json=asked), 409)
        running.token("--global")
        allowed = client.post("/v1/search", json=asked)
        running.token("--no-global")
        again = client.post("/v1/search", json=asked)

    assert "--global" in refused["hint"]
    assert allowed.status_code == 200
    assert again.status_code == 409


def test_status_tells_others_nothing_about_this_machine(
    engine: HttpEngine, client: httpx.Client
) -> None:
    text = client.post("/v1/status", json={}).text

    status = json.loads(text)
    assert str(engine.home.path) not in text and str(engine.home.path.parent) not in text
    assert status["engine"]["pid"] == 0
    assert status["tiers"]["hot"]["count"] == 1
    assert status["tiers"]["deep"]["count"] is None
    assert set(status) == set(engine.home.json("status"))


@pytest.mark.parametrize("verb", ["stop", "drain", "doctor", "rescan"])
def test_what_is_for_the_operator_is_not_there(client: httpx.Client, verb: str) -> None:
    assert problem(client.post(f"/v1/{verb}", json={}), 404)


def test_the_mcp_server_is_behind_the_same_door(
    engine: HttpEngine, client: httpx.Client, there: Path
) -> None:
    ours = engine.home.json("token")["project"]
    theirs = engine.home.json("token", project=there)["project"]
    call = rpc("tools/call", name="memory_search", arguments={"query": "retry budget"})

    found = client.post(f"/mcp/{ours}", json=call, headers=MCP)

    assert "five attempts" in found.text
    assert problem(client.post(f"/mcp/{theirs}", json=call, headers=MCP), 403)
    assert problem(client.post("/mcp", json=call, headers=MCP), 404)
    for body in (b"{", b"\xff", b"[" * 50_000, b'{"jsonrpc": "2.0"}'):
        broken = client.post(
            f"/mcp/{ours}", content=body, headers={**MCP, "Content-Type": "application/json"}
        )
        assert 400 <= broken.status_code < 500, body[:20]


# Odd requests.


@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE", "TRACE", "FOO"])
def test_a_verb_takes_post_alone(client: httpx.Client, method: str) -> None:
    response = client.request(method, "/v1/save", json={})

    assert problem(response, 405)["hint"] == "use POST"
    assert response.headers["allow"] == "POST"


ODD_BODIES = [
    b"",
    b"{",
    b"null",
    b'{"text": "half \\ud800 a pair"}',
    b'{"text": "' + b"\xff" * 8 + b'"}',
    b'{"text": "' + b"\xed\xa0\x80" + b'"}',
    b'{"text": "x", "position": 1e999}',
    b'{"text": "x", "position": ' + b"9" * 5_000 + b"}",
    b'{"text": "x", "extra": {"n": ' + b"9" * 5_000 + b"}}",
    b'{"text": "x", "extra": ' + b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"}",
    b'{"text": "x", "extra": ' + b"[" * 500_000 + b"}",
    b'{"text": "x", "expires_at": 1e300}',
    b'{"text": "x", "created_at": "0001-01-01T00:00:00+14:00"}',
    b'{"text": "x", "name": "a\\u0000b/../c"}',
    b'{"text": "x", "project": "nul\\u0000byte"}',
    b'{"text": "x", "id": "../../etc/passwd"}',
    b'{"text": "x", "supersedes": ["../../etc/passwd"]}',
]


@pytest.mark.parametrize("body", ODD_BODIES, ids=range(len(ODD_BODIES)))
def test_a_body_that_cannot_be_meant_is_a_problem(client: httpx.Client, body: bytes) -> None:
    response = client.post("/v1/save", content=body, headers={"Content-Type": "application/json"})

    assert 400 <= response.status_code < 500
    assert problem(response, response.status_code)


MALFORMED = {
    "chunks and a length": (
        [
            "POST /v1/save HTTP/1.1",
            "Host: {host}",
            "Content-Length: 6",
            "Transfer-Encoding: chunked",
        ],
        b"0\r\n\r\nGET /healthz HTTP/1.1\r\nHost: {host}\r\n\r\n",
        400,
    ),
    "two lengths": (
        ["POST /v1/save HTTP/1.1", "Host: {host}", "Content-Length: 2", "Content-Length: 3"],
        b"{} ",
        400,
    ),
    "two hosts": (["GET /healthz HTTP/1.1", "Host: {host}", "Host: evil.example"], b"", 400),
    "a URL of another host": (
        ["GET http://evil.example/healthz HTTP/1.1", "Host: {host}"],
        b"",
        400,
    ),
    "a URL of ours with another host": (
        ["GET http://{host}/healthz HTTP/1.1", "Host: evil.example"],
        b"",
        400,
    ),
    "HTTP/1.0 without a host": (["GET /healthz HTTP/1.0"], b"", 421),
    "HTTP/1.1 without a host": (["GET /healthz HTTP/1.1"], b"", 400),
    "a space before the colon": (
        ["POST /v1/save HTTP/1.1", "Host: {host}", "Content-Length : 2"],
        b"{}",
        400,
    ),
    "an odd transfer encoding": (
        ["POST /v1/save HTTP/1.1", "Host: {host}", "Transfer-Encoding: xchunked"],
        b"",
        400,
    ),
    "a length with a sign": (
        ["POST /v1/save HTTP/1.1", "Host: {host}", "Content-Length: +2"],
        b"{}",
        400,
    ),
    "a head that is too long": (
        ["GET /healthz HTTP/1.1", "Host: {host}", "X: " + "x" * 400_000],
        b"",
        400,
    ),
    "a URL that is too long": (["GET /" + "x" * 20_000 + " HTTP/1.1", "Host: {host}"], b"", 414),
    "another protocol": (["PRI * HTTP/2.0"], b"", 400),
    "no HTTP": (["\x16\x03\x01\x00\xa5"], b"", 400),
    "a connection to elsewhere": (
        ["CONNECT evil.example:443 HTTP/1.1", "Host: {host}"],
        b"",
        400,
    ),
    "an upgrade": (
        [
            "GET /healthz HTTP/1.1",
            "Host: {host}",
            "Connection: Upgrade",
            "Upgrade: websocket",
            "Sec-WebSocket-Key: x",
            "Sec-WebSocket-Version: 13",
        ],
        b"",
        401,
    ),
}


@pytest.mark.parametrize("what", MALFORMED)
def test_a_request_that_servers_read_differently_is_refused(
    engine: HttpEngine, client: httpx.Client, what: str
) -> None:
    lines, body, status = MALFORMED[what]
    host = f"127.0.0.1:{engine.port}"
    token = client.headers["Authorization"]
    said = [line.replace("{host}", host) for line in lines]
    if status != 401:
        said.append(f"Authorization: {token}")

    answered, headers, content = engine.raw(*said, body=body.replace(b"{host}", host.encode()))

    assert answered == status, content
    assert headers["content-type"] == "application/problem+json"
    assert json.loads(content)["hint"]


def test_what_follows_a_request_of_two_meanings_is_not_answered(
    engine: HttpEngine, token: str
) -> None:
    host = f"127.0.0.1:{engine.port}"
    second = f"GET /healthz HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n\r\n"
    first = (
        f"POST /v1/list HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {5 + len(second)}\r\n"
        "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    )
    received = b""
    with engine.connection() as connection, contextlib.suppress(ConnectionResetError):
        connection.sendall((first + second).encode())
        while block := connection.recv(65_536):
            received += block

    assert received.count(b"HTTP/1.1 ") == 1
    assert received.startswith(b"HTTP/1.1 400")


def test_requests_sent_together_are_each_judged(engine: HttpEngine, token: str) -> None:
    host = f"127.0.0.1:{engine.port}"
    good = f"GET /healthz HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n\r\n"
    bad = f"GET /healthz HTTP/1.1\r\nHost: {host}\r\n\r\n"
    with engine.connection() as connection:
        connection.sendall((good + bad).encode())
        first = read_answer_of(connection)

    assert first == [200, 401]


def read_answer_of(connection: socket.socket) -> list[int]:
    received = b""
    while received.count(b"HTTP/1.1 ") < 2 or not received.endswith(b"}"):
        block = connection.recv(65_536)
        assert block
        received += block
    return [int(part.split(b" ", 1)[0]) for part in received.split(b"HTTP/1.1 ")[1:]]


def test_a_body_of_a_refused_request_is_not_asked_for(engine: HttpEngine) -> None:
    status, headers, _ = engine.raw(
        "POST /v1/save HTTP/1.1",
        f"Host: 127.0.0.1:{engine.port}",
        "Expect: 100-continue",
        "Content-Type: application/json",
        "Content-Length: 1000",
    )

    assert status == 401
    assert headers["www-authenticate"].startswith("Bearer")


def test_connections_that_say_nothing_do_not_keep_others_out(
    engine: HttpEngine, client: httpx.Client
) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(tcp.MOST_CONNECTIONS + 40):
            connection = stack.enter_context(engine.connection())
            connection.sendall(b"GET /healthz HTTP/1.1\r\n")

        assert client.get("/healthz").status_code == 200


def test_who_sends_no_request_or_draws_out_a_refused_one_is_hung_up_on(engine: HttpEngine) -> None:
    with engine.connection() as silent, engine.connection() as slow:
        silent.sendall(b"GET /healthz HT")
        head = f"POST /v1/save HTTP/1.1\r\nHost: 127.0.0.1:{engine.port}\r\n"
        slow.sendall((head + "Content-Length: 4000000\r\n\r\n").encode())
        status, _, _ = read_answer(slow)

        with pytest.raises(OSError):
            while True:
                slow.sendall(b" ")
                time.sleep(0.1)
        assert silent.recv(100) == b""

    assert status == 401


def test_the_served_document_is_the_one_in_the_docs(client: httpx.Client) -> None:
    kept = Path(__file__).parents[2] / "docs" / "openapi.json"

    assert client.get("/openapi.json").json() == json.loads(kept.read_text(encoding="utf-8"))


def test_the_commands_of_the_docs_work(home: Home, serve: Serve, tmp_path: Path) -> None:
    if missing := [name for name in ("curl", "jq") if shutil.which(name) is None]:
        pytest.skip(f"{missing} is not installed")
    text = (Path(__file__).parents[2] / "docs" / "http.md").read_text(encoding="utf-8")
    running = serve(home)
    program = tmp_path / "bin" / "tiermem"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {_shell(home)} "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"

    tried = [
        block
        for block in re.findall(r"```sh\n(.+?)```", text, re.DOTALL)
        if "tiermem serve" not in block
    ]
    for block in tried:
        done = subprocess.run(
            ["sh", "-eu", "-c", block.replace("http://127.0.0.1:3008", running.url)],
            cwd=home.project,
            env={**os.environ, **home.environment, "PATH": path},
            capture_output=True,
            encoding="utf-8",
            timeout=120,
        )
        assert done.returncode == 0, f"{block}\n{done.stdout}\n{done.stderr}"

    assert len(tried) == 2
    assert home.json("list")["total"] == 0
