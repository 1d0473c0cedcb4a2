"""The way to the engine: what is carried, what is sent again, and what is told when it fails."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable, Iterator, Sized
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from memory.cli import engine_link
from memory.cli.client import EngineClient
from memory.cli.engine_link import Call, EngineLink, Starter, headers_of
from memory.cli.jsonrpc import Message, read
from memory.cli.surface import Failure
from memory.errors import EngineUnreachable, HomeRefused
from tests.support.stand_in_engine import HANG_UP, Asked, Reply, StandIn, Told, result, stand_in

MODERN = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}

Listen = Callable[..., StandIn]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


@pytest.fixture
def listen(place: Path) -> Iterator[Listen]:
    with ExitStack() as stack:

        def start(reply: Reply = result) -> StandIn:
            return stack.enter_context(stand_in(place, reply))

        yield start


@pytest.fixture
def link(place: Path) -> Iterator[EngineLink]:
    made = EngineLink(Starter(place))
    yield made
    made.close()


def message_of(method: str, **params: Any) -> Message:
    raw = json.dumps({"jsonrpc": "2.0", "id": 5, "method": method, "params": params})
    message = read(raw.encode())
    assert isinstance(message, Message)
    return message


def call_of(message: Message, *, repeatable: bool = True) -> Call:
    headers = headers_of(
        message, legacy_version="2025-11-25", folder=Path("/work/my shop"), toolsets=""
    )
    return Call(message, headers, repeatable=repeatable)


def ask(link: EngineLink, *, repeatable: bool = True, method: str = "tools/call") -> Any:
    """Ask the engine and read its answer; a failure comes as it is."""
    answer = link.ask(call_of(message_of(method, name="tool"), repeatable=repeatable))
    return answer if isinstance(answer, Failure) else json.loads(answer)


# What is carried.


def test_a_message_reaches_the_engine_as_it_came(listen: Listen, link: EngineLink) -> None:
    engine = listen(lambda asked: result(asked, found=["a"]))

    answer = ask(link)

    assert answer == {"jsonrpc": "2.0", "id": 5, "result": {"found": ["a"]}}
    (asked,) = engine.asked
    assert asked.message["params"] == {"name": "tool"}


def test_a_legacy_message_says_the_version_that_was_agreed_on(
    listen: Listen, link: EngineLink
) -> None:
    engine = listen()
    message = message_of("tools/call", name="tool")
    headers = headers_of(
        message, legacy_version="2025-06-18", folder=Path("/work/my shop/ü"), toolsets="core,ops"
    )

    link.ask(Call(message, headers, repeatable=True))

    got = engine.asked[0].headers
    assert got["mcp-protocol-version"] == "2025-06-18"
    assert got["content-type"] == "application/json"
    assert got["accept"] == "application/json, text/event-stream"
    assert unquote(got["x-tiermem-folder"]) == "/work/my shop/ü"
    assert got["x-tiermem-toolsets"] == "core,ops"
    assert "mcp-method" not in got


@pytest.mark.parametrize(
    ("method", "params", "name"),
    [
        ("tools/call", {"name": "memory_save"}, "memory_save"),
        ("prompts/get", {"name": "recall"}, "recall"),
        ("resources/read", {"uri": "memory://p/ü"}, "=?base64?bWVtb3J5Oi8vcC/DvA==?="),
        ("resources/list", {"name": "x"}, None),
        ("tools/call", {"name": 5}, None),
        ("tools/call", {}, None),
    ],
)
def test_a_modern_message_is_named_in_its_headers(
    listen: Listen, link: EngineLink, method: str, params: dict[str, Any], name: str | None
) -> None:
    engine = listen()

    link.ask(call_of(message_of(method, _meta=MODERN, **params)))

    got = engine.asked[0].headers
    assert got["mcp-protocol-version"] == "2026-07-28"
    assert got["mcp-method"] == method
    assert got.get("mcp-name") == name
    assert "x-tiermem-toolsets" not in got


def test_an_answer_on_several_lines_becomes_one(listen: Listen, link: EngineLink) -> None:
    told = {"jsonrpc": "2.0", "id": 5, "result": {"text": "two\r\nlines \u2028"}}
    listen(lambda _: Told(json.dumps(told, indent=1, ensure_ascii=False).encode()))

    answer = link.ask(call_of(message_of("prompts/get")))

    assert isinstance(answer, bytes)
    assert b"\n" not in answer
    assert b"\r" not in answer
    assert json.loads(answer) == told


@pytest.mark.parametrize("status", [200, 400, 404])
def test_an_error_of_the_protocol_is_handed_on(
    listen: Listen, link: EngineLink, status: int
) -> None:
    error = {"code": -32601, "message": "Method not found", "data": "x/y"}
    told = json.dumps({"jsonrpc": "2.0", "id": 5, "error": error}).encode()
    listen(lambda _: Told(told, status))

    assert ask(link, method="x/y")["error"] == error


def test_an_answer_without_the_id_gets_it(listen: Listen, link: EngineLink) -> None:
    """As for a request that was refused before it was read; its client waits for the id."""
    error = {"code": -32600, "message": "Body must be a request"}
    listen(lambda _: Told(json.dumps({"jsonrpc": "2.0", "id": None, "error": error}).encode(), 400))

    assert ask(link) == {"jsonrpc": "2.0", "id": 5, "error": error}


def test_a_problem_of_the_engine_is_a_failure_with_its_hint(
    listen: Listen, link: EngineLink
) -> None:
    problem = {
        "code": "project-refused",
        "title": "No",
        "detail": "that id belongs elsewhere",
        "hint": "run: tiermem init --adopt",
        "status": 403,
        "retryable": True,
    }
    listen(lambda _: Told(json.dumps(problem).encode(), 403, "application/problem+json"))

    assert ask(link) == Failure(
        "project-refused", "that id belongs elsewhere", "run: tiermem init --adopt", retryable=True
    )


@pytest.mark.parametrize(
    "told",
    [
        Told(b"", 202),
        Told(b"busy", 503, "text/plain"),
        Told(b"not json"),
        Told(b"[1]"),
        Told(b"[" * 300_000),
        Told(b'data: {"jsonrpc":"2.0"}\n\n', 200, "text/event-stream"),
    ],
    ids=["empty", "text", "broken", "list", "deep", "stream"],
)
def test_an_answer_that_is_no_json_is_a_failure_and_the_next_is_read(
    listen: Listen, link: EngineLink, told: Told
) -> None:
    answers = iter([told])
    listen(lambda asked: next(answers, result(asked)))

    failure = ask(link)

    assert isinstance(failure, Failure)
    assert failure.code == "engine-failed"
    assert str(told.status) in failure.detail
    assert failure.hint
    assert ask(link)["result"] == {}


# An engine that dies.


def dies(times: int) -> Reply:
    """Die in the middle of the first requests, then answer."""
    number = itertools.count(1)
    return lambda asked: HANG_UP if next(number) <= times else result(asked)


@pytest.mark.parametrize("times", [1, 5])
def test_what_may_be_repeated_is_sent_to_the_next_engine(
    listen: Listen, link: EngineLink, times: int
) -> None:
    engine = listen(dies(times))

    assert ask(link)["result"] == {}
    assert len(engine.asked) == times + 1


def test_what_may_not_be_repeated_is_sent_once_and_said_to_be_unknown(
    listen: Listen, link: EngineLink
) -> None:
    engine = listen(dies(1))

    failure = ask(link, repeatable=False)

    assert failure.code == "outcome-unknown"
    assert "unknown whether tool was done" in failure.detail
    assert "memory_status" in failure.hint
    assert not failure.retryable
    assert len(engine.asked) == 1


def test_an_engine_that_dies_again_and_again_is_given_up(listen: Listen, link: EngineLink) -> None:
    engine = listen(lambda _: HANG_UP)

    failure = ask(link)

    assert (failure.code, failure.retryable) == ("engine-unreachable", True)
    assert "engine.log" in failure.hint
    assert len(engine.asked) == 8


def test_a_connection_that_the_engine_ended_is_opened_again(place: Path, link: EngineLink) -> None:
    """What may not be repeated is not lost by that: the connection is looked at before."""
    for _ in range(3):
        with stand_in(place) as engine:
            assert ask(link, repeatable=False)["result"] == {}
            assert len(engine.asked) == 1
        link.interrupt()


@pytest.mark.parametrize(
    ("repeatable", "code", "retryable"),
    [(True, "engine-silent", True), (False, "outcome-unknown", False)],
)
def test_an_engine_that_says_nothing_is_not_waited_for_without_end(
    listen: Listen,
    link: EngineLink,
    monkeypatch: pytest.MonkeyPatch,
    repeatable: bool,
    code: str,
    retryable: bool,
) -> None:
    monkeypatch.setattr(engine_link, "_SILENCE_S", 0.1)
    end = threading.Event()

    def hang(_: Asked) -> Told | None:
        end.wait(30)
        return HANG_UP

    engine = listen(hang)

    failure = ask(link, repeatable=repeatable)

    assert (failure.code, failure.retryable) == (code, retryable)
    assert "silent" in failure.detail
    assert len(engine.asked) == 1
    end.set()


def test_a_cancelled_call_does_not_wait_for_its_answer(listen: Listen, link: EngineLink) -> None:
    arrived, end = threading.Event(), threading.Event()

    def hang(_: Asked) -> Told | None:
        arrived.set()
        end.wait(30)
        return HANG_UP

    engine = listen(hang)
    call = call_of(message_of("tools/call"))
    waiting = threading.Thread(target=link.ask, args=(call,))
    waiting.start()
    assert arrived.wait(30)

    call.cancel()

    waiting.join(30)
    assert not waiting.is_alive()
    assert len(engine.asked) == 1
    end.set()


def test_a_call_that_was_cancelled_before_is_not_sent(listen: Listen, link: EngineLink) -> None:
    engine = listen()
    call = call_of(message_of("tools/call"))
    call.cancel()

    link.ask(call)

    assert engine.asked == []


# Starting an engine.


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[threading.Event]]:
    """Each start that was tried; it fails when a test sets its event."""
    tried: list[threading.Event] = []

    def ensure(_: EngineClient) -> None:
        end = threading.Event()
        tried.append(end)
        end.wait(30)
        raise EngineUnreachable("it does not start", hint="look into its log")

    monkeypatch.setattr(EngineClient, "ensure", ensure)
    yield tried
    for end in tried:
        end.set()


def until(condition: Callable[[], bool]) -> None:
    pause = threading.Event()
    for _ in range(3_000):
        if condition():
            return
        pause.wait(0.01)
    raise AssertionError("it did not come to that")


def waiters(starter: Starter) -> Sized:
    attempt = starter._attempt
    return attempt.is_over._cond._waiters if attempt is not None else ()  # type: ignore[attr-defined]


def test_all_who_wait_for_an_engine_share_one_failed_start(
    place: Path, starts: list[threading.Event]
) -> None:
    starter = Starter(place)
    failures: list[Failure] = []

    def one() -> None:
        failures.append(ask(EngineLink(starter)))

    threads = [threading.Thread(target=one) for _ in range(8)]
    for thread in threads:
        thread.start()
    # All wait before the start fails; a ninth comes after it and tries again.
    until(lambda: len(waiters(starter)) == len(threads))
    starts[0].set()
    for thread in threads:
        thread.join(30)
    ninth = threading.Thread(target=one)
    ninth.start()
    until(lambda: len(starts) == 2)
    starts[1].set()
    ninth.join(30)

    expected = Failure(
        "engine-unreachable", "it does not start", "look into its log", retryable=True
    )
    assert failures == [expected] * 9
    assert len(starts) == 2


def test_a_start_that_takes_long_is_told_and_goes_on(
    place: Path,
    starts: list[threading.Event],
    link: EngineLink,
    listen: Listen,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engine_link, "_LONGEST_WAIT_S", 0.1)
    monkeypatch.setattr(engine_link, "_LEAST_WAIT_S", 0.05)

    first, second = ask(link), ask(link)

    assert "still starting" in first.detail
    assert first.retryable
    assert second == first
    assert len(starts) == 1
    listen()
    assert ask(link)["result"] == {}


def test_a_home_that_cannot_be_used_is_no_matter_of_trying_again(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    link = EngineLink(Starter(tmp_path / "file"))

    failure = ask(link)

    assert (failure.code, failure.retryable) == ("home-refused", False)
    assert failure.hint == HomeRefused.default_hint
