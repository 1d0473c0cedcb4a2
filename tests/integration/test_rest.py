"""The verbs over HTTP on the engine's own socket: whatever is sent, the answer says what to do."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from memory.home_lock import socket_path
from tests.support.homes import Home, wait_until

VERBS = ["save", "save-batch", "search", "get", "history", "list", "forget", "load"]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    folder = tmp_path_factory.mktemp("rest")
    home = Home(folder / "home", folder / "project")
    home.json("save", "the retry budget is five attempts", "--name", "retry budget")
    yield home
    home.end()


@pytest.fixture
def http_client(engine: Home) -> Iterator[httpx.Client]:
    transport = httpx.HTTPTransport(uds=str(socket_path(engine.path)), verify=False)
    with httpx.Client(transport=transport, base_url="http://engine", timeout=30) as client:
        yield client
        # Whatever was sent, the engine is alive and holds what it held.
        assert client.get("/healthz").json()["status"] == "ok"
        kept = client.post("/v1/get", json=engine.request(ref="retry budget"))
        assert kept.json()["text"] == "the retry budget is five attempts"


Post = Callable[..., httpx.Response]


@pytest.fixture
def post(engine: Home, http_client: httpx.Client) -> Post:
    def send(verb: str, **fields: Any) -> httpx.Response:
        return http_client.post(f"/v1/{verb}", json=engine.request(**fields))

    return send


def problem(response: httpx.Response, status: int = 400) -> dict[str, Any]:
    """Check that an answer is a problem that helps, and return it."""
    assert response.status_code == status, response.text[:300]
    assert response.headers["content-type"] == "application/problem+json"
    found: dict[str, Any] = response.json()
    assert found["status"] == status
    assert found["code"] and found["title"] and found["detail"] and found["hint"]
    assert "Traceback" not in response.text
    return found


def test_the_engine_says_that_it_lives_and_is_ready(http_client: httpx.Client) -> None:
    health, ready = http_client.get("/healthz"), http_client.get("/readyz")

    assert health.status_code == 200
    assert health.json().keys() >= {"status", "version"}
    assert ready.status_code == 200
    assert ready.json() == {"ready": True, "tiers": {"deep": "ready", "archive": "ready"}}
    assert http_client.head("/healthz").status_code == 200


def test_save_search_and_get_agree(post: Post) -> None:
    saved = post("save", text="deploys happen on Tuesdays").json()

    hits = post("search", query="deploys on Tuesdays").json()["hits"]

    assert hits[0]["id"] == saved["id"]
    assert post("get", ref=saved["id"]).json()["text"] == "deploys happen on Tuesdays"


@pytest.mark.parametrize("verb", VERBS)
def test_an_unknown_key_is_named(post: Post, verb: str) -> None:
    assert "querry" in problem(post(verb, querry="typo"))["detail"]


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b"7", b"\xff\xfe", b'{"project":1}'])
def test_a_body_that_is_no_request_is_a_problem(
    http_client: httpx.Client, verb: str, body: bytes
) -> None:
    problem(http_client.post(f"/v1/{verb}", content=body))


@pytest.mark.parametrize(
    ("verb", "fields"),
    [
        ("save", {"text": 5}),
        ("save", {"text": None}),
        ("save", {"text": "x", "tags": "not a list"}),
        ("save", {"text": "x", "tags": [1]}),
        ("save", {"text": "x", "tags": ["t"] * 201}),
        ("save", {"text": "x", "type": "nope"}),
        ("save", {"text": "x", "importance": 3}),
        ("save", {"text": "x", "tier": "lukewarm"}),
        ("save", {"text": "x", "tier": "cold"}),
        ("save", {"text": "x", "position": 10**30}),
        ("save", {"text": "x", "position": 1.5}),
        ("save", {"text": "x", "expires_at": "tomorrow"}),
        ("save", {"text": "x", "expires_at": 1e300}),
        ("save", {"text": "x", "created_at": "0001-01-01T00:00:00+14:00"}),
        ("save", {"text": "x", "ttl": "0d"}),
        ("save", {"text": "x", "ttl": "99999999999999999999d"}),
        ("save", {"text": "x", "extra": []}),
        ("save", {"text": "x", "name": ""}),
        ("save", {"text": "x", "name": "n" * 10_000}),
        ("save", {"text": "  \n "}),
        ("search", {"query": ""}),
        ("search", {"query": "x" * 100_000}),
        ("search", {"query": "x", "limit": 0}),
        ("search", {"query": "x", "limit": 201}),
        ("search", {"query": "x", "since": "0001-01-01T00:00:00+14:00"}),
        ("list", {"limit": 0}),
        ("list", {"offset": -1}),
        ("forget", {}),
        ("forget", {"ref": "a", "query": "b"}),
        ("load", {"max_files": -1}),
        ("held", {"action": "burn"}),
    ],
)
def test_a_value_that_cannot_be_meant_is_a_problem(
    post: Post, verb: str, fields: dict[str, Any]
) -> None:
    problem(post(verb, **fields))


def test_half_a_character_is_no_text(http_client: httpx.Client, engine: Home) -> None:
    body = json.dumps(engine.request(text="half \ud800 a pair")).encode()

    problem(http_client.post("/v1/save", content=body))


@pytest.mark.parametrize("folder", ["/no/such/folder", "/etc/passwd", "", "nul\0byte", "x" * 1_999])
def test_a_project_that_is_no_folder_is_a_problem(
    http_client: httpx.Client, folder: str, engine: Home
) -> None:
    # "" is where the engine runs, which is its home and no place for a project of its own name.
    response = http_client.post("/v1/list", json={"project": folder})

    if folder:
        assert "no folder" in problem(response)["detail"]
    else:
        assert response.status_code < 500


@pytest.mark.parametrize("depth", [150, 1_000, 100_000])
def test_deep_nesting_is_kept_or_refused_but_never_stumbled_over(
    http_client: httpx.Client, engine: Home, depth: int
) -> None:
    deep = '{"a":' * depth + "1" + "}" * depth
    project = json.dumps(str(engine.project))

    response = http_client.post(
        "/v1/save", content=f'{{"project":{project},"text":"nested {depth}","extra":{deep}}}'
    )

    if response.status_code != 200:
        problem(response)


def test_numbers_that_are_none_do_not_harm_the_stores(
    http_client: httpx.Client, engine: Home
) -> None:
    project = json.dumps(str(engine.project))
    body = f'{{"project":{project},"text":"not a number","extra":{{"a":NaN,"b":[Infinity]}}}}'

    response = http_client.post("/v1/save", content=body)

    assert response.status_code in (200, 400)
    wait_until(lambda: not any(http_client.post("/v1/drain", json={}).json()["pending"].values()))


def test_a_body_that_is_too_large_is_refused_before_it_is_read(engine: Home) -> None:
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(30)
    with connection:
        connection.connect(str(socket_path(engine.path)))
        connection.sendall(
            b"POST /v1/save HTTP/1.1\r\nHost: engine\r\nContent-Length: 99999999999\r\n\r\n"
        )
        answer = http.client.HTTPResponse(connection)
        answer.begin()
        found = json.loads(answer.read())

    assert answer.status == 400
    assert "bytes" in found["detail"] and found["hint"]


def test_a_body_of_unknown_length_is_refused(http_client: httpx.Client, engine: Home) -> None:
    body = json.dumps(engine.request(text="in pieces")).encode()

    response = http_client.post("/v1/save", content=iter([body[:10], body[10:]]))

    assert "how many" in problem(response)["detail"]


@pytest.mark.parametrize("garbage", [b"\x16\x03\x01\x00\xa5", b"GET\r\n\r\n", b"\0" * 100])
def test_what_is_no_http_does_not_end_the_engine(
    http_client: httpx.Client, engine: Home, garbage: bytes
) -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(30)
        connection.connect(str(socket_path(engine.path)))
        connection.sendall(garbage)
        connection.shutdown(socket.SHUT_WR)
        connection.recv(1_000)


@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE", "OPTIONS"])
@pytest.mark.parametrize("verb", ["save", "export", "stop"])
def test_a_verb_takes_post_alone(http_client: httpx.Client, method: str, verb: str) -> None:
    response = http_client.request(method, f"/v1/{verb}")

    assert problem(response, 405)["hint"] == "use POST"
    assert response.headers["allow"] == "POST"


def test_head_of_a_verb_is_refused(http_client: httpx.Client) -> None:
    assert http_client.head("/v1/save").status_code == 405


@pytest.mark.parametrize("path", ["/", "/v1", "/v1/", "/v1/nope", "/v1/save/", "/v2/save", "/%00"])
def test_an_unknown_address_is_a_problem(http_client: httpx.Client, path: str) -> None:
    assert "/v1/VERB" in problem(http_client.post(path, json={}), 404)["hint"]


def test_unknown_ids_are_not_found(post: Post) -> None:
    missing = "11111111-2222-4333-8444-555555555555"

    for verb in ("get", "history", "forget"):
        assert missing in problem(post(verb, ref=missing), 404)["detail"]
    problem(post("save", text="x", id=missing), 404)
    problem(post("save", text="x", supersedes=[missing]), 404)


def test_a_start_of_ids_that_is_not_enough_is_ambiguous(post: Post) -> None:
    ids = ["abcd0000-0000-4000-8000-000000000001", "abcd0000-0000-4000-8000-000000000002"]
    post("save-batch", items=[{"text": f"twin {one}", "id": one} for one in ids])

    found = problem(post("get", ref="abcd"), 409)

    assert all(one in found["detail"] for one in ids)


def test_a_batch_keeps_what_can_be_kept_and_says_why_not(post: Post) -> None:
    items = [
        {"text": "the first of a batch"},
        {"text": " "},
        {"text": "an impossible name", "name": "../../etc/passwd"},
        {"text": "an impossible id", "id": "../../etc/passwd"},
        {"text": "the last of a batch"},
    ]

    results = post("save-batch", items=items).json()["results"]

    assert [bool(result["saved"]) for result in results] == [True, False, False, False, True]
    assert all(result["problem"]["hint"] for result in results[1:4])


def test_export_gives_one_memory_a_line(http_client: httpx.Client, engine: Home) -> None:
    response = http_client.post("/v1/export", json=engine.request())

    records = [json.loads(line) for line in response.text.splitlines()]

    assert response.headers["content-type"].startswith("application/x-ndjson")
    assert "retry budget" in {record["name"] for record in records}
    problem(http_client.post("/v1/export", json={"project": "/no/such/folder"}))


def test_the_socket_is_for_its_user_alone(engine: Home) -> None:
    path = socket_path(engine.path)

    assert path.is_socket()
    assert path.stat().st_mode & 0o077 == 0
    assert Path(engine.path).stat().st_mode & 0o077 == 0
