"""Where the engine listens over TCP, and how long it waits for whoever connects there."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ipaddress
import re
import socket
from dataclasses import dataclass
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from memory.engine.problems import problem_of
from memory.errors import AddressNotFree, MalformedRequest, UsageError

MOST_CONNECTIONS = 256

#: Who is connected sends the head of a request within this time, or is hung up on.
HEAD_PATIENCE_S = 10.0

#: What was answered is taken within this time.
_FLUSH_PATIENCE_S = 30.0

_FORM = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([^\s:/\[\]@]+)):(\d{1,5})")

_WHY = {
    errno.EADDRINUSE: "something listens there already",
    errno.EACCES: "this user may not listen there",
    errno.EADDRNOTAVAIL: "this machine has no such address",
}


@dataclass(frozen=True, slots=True)
class Address:
    """A host and a port; an IPv6 address without its brackets."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Address:
        """Read HOST:PORT. Raises UsageError."""
        form = _FORM.fullmatch(text.strip())
        if form is None or int(form[3]) > 65_535:
            raise UsageError(
                f"{text!r} is no address to listen at",
                hint="give HOST:PORT, as in 127.0.0.1:3008 or [::1]:3008",
            )
        return cls((form[1] or form[2]).lower(), int(form[3]))

    @property
    def in_url(self) -> str:
        """The host as it stands in a URL."""
        return f"[{self.host}]" if ":" in self.host else self.host

    @property
    def url(self) -> str:
        return f"http://{self.in_url}:{self.port}"


@dataclass(frozen=True, slots=True)
class Listening:
    """A socket that listens, its address with the real port, and whether others reach it."""

    socket: socket.socket
    address: Address
    is_loopback: bool

    def close(self) -> None:
        self.socket.close()


def resolve(address: Address) -> str:
    """Find the IP address of a host's name. Raises UsageError."""
    try:
        found = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except (OSError, UnicodeError) as exc:
        raise UsageError(
            f"{address.host!r} is no name of this machine", hint="give an IP address"
        ) from exc
    # A name of both kinds is listened at where every client looks.
    found.sort(key=lambda entry: entry[0] is not socket.AF_INET)
    return str(found[0][4][0])


def is_loopback(ip: str) -> bool:
    """Say whether nobody but this machine reaches an IP address."""
    address = ipaddress.ip_address(ip.partition("%")[0])
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


def listen(address: Address, ip: str) -> Listening:
    """Listen at an address. Raises AddressNotFree."""
    family = socket.AF_INET6 if ":" in ip else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        # Connections of an engine that just ended must not keep the next one from listening.
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family is socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listening.bind((ip, address.port))
        listening.listen(128)
    except OSError as exc:
        listening.close()
        why = _WHY.get(exc.errno or 0, exc.strerror or str(exc))
        raise AddressNotFree(f"cannot listen at {address.in_url}:{address.port}: {why}") from exc
    real = Address(address.host, listening.getsockname()[1])
    return Listening(listening, real, is_loopback(ip))


class Connection(H11Protocol):
    """One connection. Who sends no request, or takes no answer, is hung up on.

    When there are too many, the one that has waited longest for a request is given up first: idle
    ones cannot keep others out.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await_request()
        if len(self.connections) > MOST_CONNECTIONS:
            waiting = [c for c in self.connections if isinstance(c, Connection) and c._deadline]
            min(waiting, key=Connection._waits_until).hang_up()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._cancel_deadline()

    def on_response_complete(self) -> None:
        self._await_request()
        # May start the next request, which was sent before this one was answered.
        super().on_response_complete()
        if not self.cycle.response_complete:
            self._cancel_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_deadline()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP, or not all of it, as everything else is answered."""
        problem = problem_of(MalformedRequest(msg))
        body = problem.model_dump_json().encode()
        headers = [
            (b"content-type", b"application/problem+json"),
            (b"content-length", str(len(body)).encode()),
            (b"connection", b"close"),
        ]
        with contextlib.suppress(h11.LocalProtocolError):
            # Unless an answer has begun already; then there is nothing to say any more.
            for event in (
                h11.Response(status_code=400, headers=headers, reason=b"Bad Request"),
                h11.Data(data=body),
                h11.EndOfMessage(),
            ):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def hang_up(self) -> None:
        """Close the connection; what was not taken until then gets a little more time."""
        self._cancel_deadline()
        self.transport.close()
        self.loop.call_later(_FLUSH_PATIENCE_S, self.transport.abort)

    def _await_request(self) -> None:
        self._cancel_deadline()
        self._deadline = self.loop.call_later(HEAD_PATIENCE_S, self.hang_up)

    def _waits_until(self) -> float:
        return self._deadline.when() if self._deadline else float("inf")

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
