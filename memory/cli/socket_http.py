"""HTTP/1.1 over a Unix socket, as much of it as the engine speaks. Standard library only.

http.client, with ssl and email behind it, would cost every front 6 MB (2026-11-30).
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator, Mapping
from io import BufferedReader
from pathlib import Path

from memory.home_lock import is_private

_BLOCK_BYTES = 65_536
_MOST_HEADERS = 100
_LONGEST_LINE_BYTES = 65_536

#: The engine closes what was quiet for 120 s; a connection that old is not used again.
_FRESH_S = 60.0

_CONNECT_PAUSE_S = 0.01


class NotSent(ConnectionError):
    """Nobody listens, or the request was not read to its end: nothing can have been done."""


class Garbled(ConnectionError):
    """What came back is no whole answer."""


class Answer:
    """One answer, of which so far only the head was read. Read it, or close the connection."""

    def __init__(self, connection: SocketConnection, reader: BufferedReader) -> None:
        self._connection = connection
        self._reader = reader
        version, _, rest = _line(reader).partition(b" ")
        code = rest[:3]
        if not version.startswith(b"HTTP/1.") or not code.isdigit():
            raise Garbled("this is no HTTP")
        self.status = int(code)
        self.headers: Mapping[str, str] = dict(_headers(reader))

    @property
    def is_json(self) -> bool:
        kind = self.headers.get("content-type", "").partition(";")[0].strip().lower()
        return kind == "application/json" or kind.endswith("+json")

    def read(self) -> bytes:
        """Read the whole body."""
        return b"".join(self._blocks())

    def lines(self) -> Iterator[bytes]:
        """Read the body line by line, as it comes."""
        rest = b""
        for block in self._blocks():
            *whole, rest = (rest + block).split(b"\n")
            for line in whole:
                yield line + b"\n"
        if rest:
            yield rest

    def _blocks(self) -> Iterator[bytes]:
        if self.headers.get("transfer-encoding", "").lower() == "chunked":
            yield from self._chunks()
        elif "content-length" in self.headers:
            yield from self._exactly(_number(self.headers["content-length"], 10))
        elif self.status not in (204, 304):
            while block := self._reader.read1(_BLOCK_BYTES):
                yield block
            self._connection.close()
        self._connection.was_read(ends=self.headers.get("connection", "").lower() == "close")

    def _chunks(self) -> Iterator[bytes]:
        while size := _number(_line(self._reader).partition(b";")[0].decode("latin-1"), 16):
            yield from self._exactly(size)
            _line(self._reader)
        while _line(self._reader):
            pass

    def _exactly(self, size: int) -> Iterator[bytes]:
        while size:
            block = self._reader.read1(min(size, _BLOCK_BYTES))
            if not block:
                raise Garbled("the answer was cut off")
            size -= len(block)
            yield block


class SocketConnection:
    """A connection that opens itself when it is needed.

    One thread at a time; `interrupt` alone may be called from any.
    """

    def __init__(self, path: Path) -> None:
        self._path = str(path)
        self._socket: socket.socket | None = None
        self._reader: BufferedReader | None = None
        self._is_clean = True
        self._used = 0.0

    def request(
        self,
        method: str,
        target: str,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        *,
        timeout_s: float,
    ) -> Answer:
        """Send a request and read the head of its answer.

        Raises NotSent when nothing can have been done, TimeoutError after so long a silence, and
        another ConnectionError when nobody knows. Headers must be printable ASCII.
        """
        if not self._is_clean:
            self.close()
        head = f"{method} {target} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
        lines = "".join(f"{name}: {value}\r\n" for name, value in (headers or {}).items())
        data = f"{head}{lines}\r\n".encode("ascii") + body
        connected, reader = self._open(timeout_s)
        self._is_clean = False
        try:
            connected.settimeout(timeout_s)
            connected.sendall(data)
        except TimeoutError:
            self.close()
            raise
        except OSError as exc:
            return self._early_answer(reader, exc)
        return self._answer(reader)

    def is_fresh(self) -> bool:
        """Say whether the connection is open and the other side has not hung up."""
        if self._socket is None or not self._is_clean:
            return False
        if time.monotonic() - self._used > _FRESH_S:
            return False
        try:
            self._socket.settimeout(0)
            # Nothing was asked, so all that can come is the end.
            self._socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        except OSError:
            pass
        return False

    def was_read(self, *, ends: bool) -> None:
        """Note that an answer was read whole; `ends` when the other side hangs up after it."""
        self._is_clean = True
        self._used = time.monotonic()
        if ends:
            self.close()

    def interrupt(self) -> None:
        """Make a request that waits in another thread fail."""
        connected = self._socket
        if connected is not None:
            with contextlib.suppress(OSError):
                connected.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        reader, connected = self._reader, self._socket
        self._reader = self._socket = None
        self._is_clean = True
        for opened in (reader, connected):
            if opened is not None:
                with contextlib.suppress(OSError):
                    opened.close()

    def _open(self, timeout_s: float) -> tuple[socket.socket, BufferedReader]:
        if self._socket is not None and self._reader is not None:
            return self._socket, self._reader
        if not is_private(Path(self._path)):
            raise NotSent(f"nobody of ours listens at {self._path}")
        connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            _connect(connected, self._path, timeout_s)
        except OSError as exc:
            connected.close()
            if isinstance(exc, TimeoutError):
                raise
            raise NotSent(f"nobody listens at {self._path}: {exc}") from exc
        self._socket, self._reader = connected, connected.makefile("rb")
        return self._socket, self._reader

    def _answer(self, reader: BufferedReader) -> Answer:
        try:
            return Answer(self, reader)
        except ConnectionResetError as exc:
            # A Unix socket is reset only when what we sent was not all read: its end was missing.
            self.close()
            raise NotSent("the other side ended before it had read this") from exc
        except OSError:
            self.close()
            raise

    def _early_answer(self, reader: BufferedReader, broken: OSError) -> Answer:
        """Read what was said before the other side hung up, as for a request that is too long."""
        try:
            return self._answer(reader)
        except OSError as exc:
            raise NotSent(f"the connection broke: {broken}") from exc


def _connect(connected: socket.socket, path: str, timeout_s: float) -> None:
    connected.settimeout(timeout_s)
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            return connected.connect(path)
        except BlockingIOError:
            # The queue of the listener is full, which is an error for a socket that may not block.
            if time.monotonic() > deadline:
                raise TimeoutError("nobody takes the connection") from None
            time.sleep(_CONNECT_PAUSE_S)


def _line(reader: BufferedReader) -> bytes:
    line = reader.readline(_LONGEST_LINE_BYTES)
    if not line.endswith(b"\n"):
        raise Garbled("the answer was cut off" if line else "the connection was closed")
    return line.rstrip(b"\r\n")


def _headers(reader: BufferedReader) -> Iterator[tuple[str, str]]:
    for _ in range(_MOST_HEADERS):
        line = _line(reader).decode("latin-1")
        if not line:
            return
        name, _, value = line.partition(":")
        yield name.strip().lower(), value.strip()
    raise Garbled("the answer has too many headers")


def _number(text: str, base: int) -> int:
    try:
        number = int(text.strip(), base)
    except ValueError as exc:
        raise Garbled(f"{text[:40]!r} is no length") from exc
    if number < 0:
        raise Garbled(f"{number} is no length")
    return number
