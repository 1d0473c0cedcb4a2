"""HTTP over the engine's socket: what answers look like, and how they break."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from memory.cli.socket_http import Garbled, NotSent, SocketConnection

_OK = b"HTTP/1.1 200 OK\r\n"

#: What a server says to each request on its connections; None hangs up.
Script = Sequence[bytes | None]


class Listener:
    """Answers each request with the next bytes of a script, whatever was asked."""

    def __init__(self, path: Path, script: Script) -> None:
        self.requests: list[bytes] = []
        self.connections = 0
        self._script = list(script)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.bind(str(path))
        self._socket.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while self._script:
            try:
                connected, _ = self._socket.accept()
            except OSError:
                return
            self.connections += 1
            with connected:
                self._talk(connected)

    def _talk(self, connected: socket.socket) -> None:
        while self._script:
            asked = connected.recv(1_000_000)
            if not asked:
                return
            self.requests.append(asked)
            said = self._script.pop(0)
            if said is None:
                return
            connected.sendall(said)
            if b"Content-Length" not in said and b"chunked" not in said:
                return

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("s") / "s"


@pytest.fixture
def listen(path: Path) -> Iterator[Callable[..., Listener]]:
    opened: list[Listener] = []

    def start(*script: bytes | None) -> Listener:
        opened.append(Listener(path, script))
        return opened[-1]

    yield start
    for listener in opened:
        listener.close()


@pytest.fixture
def connection(path: Path) -> Iterator[SocketConnection]:
    connected = SocketConnection(path)
    yield connected
    connected.close()


def sized(body: bytes, *, headers: bytes = b"") -> bytes:
    return _OK + headers + b"Content-Length: %d\r\n\r\n" % len(body) + body


def chunked(*chunks: bytes) -> bytes:
    parts = b"".join(b"%x;note=1\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks)
    return _OK + b"Transfer-Encoding: chunked\r\n\r\n" + parts + b"0\r\nTrailer: 1\r\n\r\n"


def test_a_request_says_what_it_is_and_how_long(
    connection: SocketConnection, listen: Callable[..., Listener]
) -> None:
    listener = listen(sized(b"{}"))

    connection.request("POST", "/x", b"abc", {"A": "b"}, timeout_s=5).read()

    assert listener.requests == [
        b"POST /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\nA: b\r\n\r\nabc"
    ]


@pytest.mark.parametrize(
    ("said", "body"),
    [
        (sized(b"hello"), b"hello"),
        (sized(b""), b""),
        (sized(b"x" * 300_000), b"x" * 300_000),
        (chunked(b"one", b"y" * 100_000, b"two"), b"one" + b"y" * 100_000 + b"two"),
        (chunked(), b""),
        (_OK + b"\r\nuntil the end", b"until the end"),
    ],
    ids=["sized", "empty", "long", "chunked", "no-chunk", "until-the-end"],
)
def test_a_body_is_read_whole(
    connection: SocketConnection, listen: Callable[..., Listener], said: bytes, body: bytes
) -> None:
    listen(said)

    answer = connection.request("GET", "/", timeout_s=5)

    assert (answer.status, answer.read()) == (200, body)


def test_lines_come_whole_however_they_were_cut(
    connection: SocketConnection, listen: Callable[..., Listener]
) -> None:
    listen(chunked(b"on", b"e\ntw", b"o\n\nthr", b"ee"))

    answer = connection.request("GET", "/", timeout_s=5)

    assert list(answer.lines()) == [b"one\n", b"two\n", b"\n", b"three"]


def test_one_connection_carries_many_requests(
    connection: SocketConnection, listen: Callable[..., Listener]
) -> None:
    listener = listen(sized(b"1"), chunked(b"2"), sized(b"3"), sized(b"not asked for"))

    bodies = [connection.request("GET", "/", timeout_s=5).read() for _ in range(3)]

    assert (bodies, listener.connections) == ([b"1", b"2", b"3"], 1)
    assert connection.is_fresh()


def test_an_answer_that_was_not_read_is_not_taken_for_the_next(
    connection: SocketConnection, listen: Callable[..., Listener]
) -> None:
    listen(sized(b"first"), sized(b"second"))
    connection.request("GET", "/", timeout_s=5)

    assert not connection.is_fresh()
    assert connection.request("GET", "/", timeout_s=5).read() == b"second"


@pytest.mark.parametrize("headers", [b"", b"Connection: close\r\n"])
def test_a_connection_that_the_other_side_ended_is_not_fresh(
    connection: SocketConnection, listen: Callable[..., Listener], headers: bytes
) -> None:
    listen(sized(b"1", headers=headers))
    connection.request("GET", "/", timeout_s=5).read()

    for _ in range(500):
        if not connection.is_fresh():
            break
        time.sleep(0.01)

    assert not connection.is_fresh()


def test_an_old_connection_is_not_fresh(
    connection: SocketConnection, listen: Callable[..., Listener], monkeypatch: pytest.MonkeyPatch
) -> None:
    listen(sized(b"1"), sized(b"2"))
    connection.request("GET", "/", timeout_s=5).read()
    later = time.monotonic() + 61

    monkeypatch.setattr(time, "monotonic", lambda: later)

    assert not connection.is_fresh()


def test_nobody_listening_means_that_nothing_was_sent(
    connection: SocketConnection, path: Path
) -> None:
    with pytest.raises(NotSent):
        connection.request("GET", "/", timeout_s=5)


def test_a_file_where_a_socket_should_be_means_that_nothing_was_sent(
    connection: SocketConnection, path: Path
) -> None:
    path.write_bytes(b"no socket")

    with pytest.raises(NotSent):
        connection.request("GET", "/", timeout_s=5)


@pytest.mark.parametrize(
    "said",
    [
        None,
        b"SSH-2.0-x\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 200",
        _OK + b"Half: a head",
        _OK + b"A: b\r\n" * 200,
        _OK + b"Long: " + b"x" * 100_000 + b"\r\n\r\n",
    ],
    ids=["silence", "ssh", "no-code", "cut", "half", "many", "long"],
)
def test_what_is_no_head_of_an_answer_is_garbled(
    connection: SocketConnection, listen: Callable[..., Listener], said: bytes | None
) -> None:
    listen(said)

    with pytest.raises(Garbled):
        connection.request("GET", "/", timeout_s=5)


@pytest.mark.parametrize(
    "said",
    [
        _OK + b"Content-Length: 10\r\nConnection: close\r\n\r\nhalf",
        _OK + b"Content-Length: many\r\n\r\n",
        _OK + b"Content-Length: -1\r\n\r\n",
        _OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhe",
        _OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
        _OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n",
    ],
    ids=["cut", "word", "negative", "cut-chunk", "no-size", "no-last-chunk"],
)
def test_what_is_no_whole_body_is_garbled(
    connection: SocketConnection, listen: Callable[..., Listener], said: bytes
) -> None:
    listener = listen(said)
    answer = connection.request("GET", "/", timeout_s=5)
    # The server ends its side once its script is done.
    assert listener.connections == 1

    with pytest.raises(Garbled):
        answer.read()


def test_silence_ends_after_the_time_that_was_given(
    connection: SocketConnection, path: Path
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(str(path))
        listening.listen()

        with pytest.raises(TimeoutError):
            connection.request("GET", "/", timeout_s=0.05)


def test_a_full_queue_of_connections_is_waited_for(
    connection: SocketConnection, path: Path
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(str(path))
        listening.listen(0)
        with pytest.raises(TimeoutError):
            connection.request("GET", "/", timeout_s=0.05)
        waiting = [socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) for _ in range(4)]
        for each in waiting:
            each.setblocking(False)
            each.connect_ex(str(path))

        with pytest.raises(TimeoutError, match="nobody takes"):
            connection.request("GET", "/", timeout_s=0.05)
        for each in waiting:
            each.close()


def test_what_is_said_before_a_long_request_is_out_is_read(
    connection: SocketConnection, path: Path
) -> None:
    """As a server does that refuses a request by its length, and hangs up."""
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listening.bind(str(path))
    listening.listen()

    def refuse() -> None:
        connected, _ = listening.accept()
        connected.recv(100)
        connected.sendall(b"HTTP/1.1 413 Too Long\r\nContent-Length: 4\r\n\r\nlong")
        connected.close()

    thread = threading.Thread(target=refuse, daemon=True)
    thread.start()

    answer = connection.request("POST", "/", b"x" * 5_000_000, timeout_s=5)

    assert (answer.status, answer.read()) == (413, b"long")
    thread.join()
    listening.close()


def test_a_long_request_that_is_cut_off_was_not_sent(
    connection: SocketConnection, path: Path
) -> None:
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listening.bind(str(path))
    listening.listen()

    def die() -> None:
        connected, _ = listening.accept()
        connected.recv(100)
        connected.close()

    thread = threading.Thread(target=die, daemon=True)
    thread.start()

    with pytest.raises(NotSent):
        connection.request("POST", "/", b"x" * 5_000_000, timeout_s=5)
    thread.join()
    listening.close()


@pytest.mark.parametrize("is_accepted", [True, False])
def test_a_request_that_was_never_read_counts_as_not_sent(
    connection: SocketConnection, path: Path, is_accepted: bool
) -> None:
    """As when an engine is killed that was busy with something else."""
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listening.bind(str(path))
    listening.listen()
    closed = threading.Event()

    def die() -> None:
        with listening:
            if is_accepted:
                connected, _ = listening.accept()
                with connected:
                    connected.recv(1, socket.MSG_PEEK)
            else:
                closed.wait(0.1)

    thread = threading.Thread(target=die, daemon=True)
    thread.start()

    with pytest.raises(NotSent):
        connection.request("POST", "/", b"x", timeout_s=30)
    thread.join()


def test_a_waiting_request_can_be_interrupted_from_elsewhere(
    connection: SocketConnection, path: Path
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(str(path))
        listening.listen()

        done = threading.Event()

        def interrupt() -> None:
            connected, _ = listening.accept()
            with connected:
                connected.recv(100)
                connection.interrupt()
                # Held open: what ends the request is the interruption alone.
                done.wait(30)

        thread = threading.Thread(target=interrupt, daemon=True)
        thread.start()

        with pytest.raises(OSError, match="closed"):
            connection.request("GET", "/", timeout_s=30)
        done.set()
        thread.join()
