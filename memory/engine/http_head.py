"""The head of an HTTP request, as far as the door looks at it."""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from memory.engine.access import Scope
from memory.errors import MalformedRequest, Unauthorized

#: A request that has one of these twice could mean two things.
_ONCE = (
    "host", "origin", "content-length", "content-type", "content-encoding", "transfer-encoding",
    "expect", "sec-fetch-site", "mcp-session-id", "mcp-protocol-version", "last-event-id",
)  # fmt: skip

_MOST_DIGITS = 18


@dataclass(frozen=True, slots=True)
class Head:
    """Request line and headers, whose names are in lower case, and where it comes from."""

    method: str
    path: str
    raw_path: bytes
    url_length: int
    headers: Mapping[str, str]
    times: Mapping[str, int]
    client: str

    @classmethod
    def of(cls, scope: Scope) -> Head:
        pairs = [(n.decode("latin-1"), v.decode("latin-1")) for n, v in scope["headers"]]
        raw_path, query = scope["raw_path"], scope["query_string"]
        client = scope.get("client") or ("", 0)
        return cls(
            method=scope["method"],
            path=scope["path"],
            raw_path=raw_path,
            url_length=len(raw_path) + len(query),
            headers={name: value.strip() for name, value in pairs},
            times=Counter(name for name, _ in pairs),
            client=client[0],
        )

    def get(self, name: str) -> str:
        return self.headers.get(name, "")

    def refuse_what_is_odd(self) -> None:
        """Raise MalformedRequest where another server might see another request than we do."""
        twice = [name for name in _ONCE if self.times.get(name, 0) > 1]
        if twice:
            raise MalformedRequest(f"the header {twice[0]} stands there twice")
        if "transfer-encoding" in self.headers and "content-length" in self.headers:
            raise MalformedRequest("Content-Length and Transfer-Encoding contradict each other")
        if not self.raw_path.startswith(b"/"):
            raise MalformedRequest("the address in the request line starts with a slash")
        parts = self.path.split("/")
        if ".." in parts or "." in parts or "\\" in self.path or "\0" in self.path:
            raise MalformedRequest("the path of the URL leads elsewhere")

    @property
    def project(self) -> str:
        """The project that the URL names; empty where it names none."""
        parts = self.path.split("/")
        return parts[2] if len(parts) > 2 and parts[1] == "mcp" else ""

    @property
    def is_preflight(self) -> bool:
        return self.method == "OPTIONS" and "access-control-request-method" in self.headers

    def token(self) -> str:
        """Read the one token that was sent. Raises Unauthorized."""
        if self.times.get("authorization", 0) != 1:
            raise Unauthorized("one header Authorization with a token is needed")
        scheme, _, text = self.get("authorization").partition(" ")
        if scheme.lower() != "bearer":
            raise Unauthorized("the header Authorization has the form: Bearer TOKEN")
        return text.strip()

    def length(self) -> int:
        text = self.get("content-length") or "0"
        if not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS):
            raise MalformedRequest("Content-Length is no length")
        return int(text)

    def is_json(self) -> bool:
        kind, _, parameters = self.get("content-type").lower().partition(";")
        plain = parameters.replace(" ", "").replace('"', "") in ("", "charset=utf-8")
        return kind.strip() == "application/json" and plain and not self.get("content-encoding")

    def neighbourhood(self) -> str:
        """Whom failures are counted for: an address, or the network that one owner of IPv6 has."""
        try:
            address = ipaddress.ip_address(self.client.partition("%")[0])
        except ValueError:
            return self.client
        if address.version == 6:
            return str(ipaddress.ip_network((int(address), 64), strict=False))
        return str(address)
