"""Tokens of those who ask over TCP: a file for each project, in it a token for each owner.

Standard library only.
"""

from __future__ import annotations

import contextlib
import fcntl
import hmac
import json
import os
import re
import secrets
import stat
import uuid
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from pathlib import Path

from memory.errors import TokenFileRefused, UsageError
from tiers import atomic

#: Version, the project's key, and 256 bits that nobody can guess.
_FORM = re.compile(r"tm1\.([0-9a-f]{32})\.([A-Za-z0-9_-]{43})")
_SECRET_BYTES = 32
_LONGEST_FILE_BYTES = 2**20
_LONGEST_OWNER = 200


@dataclass(frozen=True, slots=True)
class Token:
    """What opens one project to one owner; `may_global` opens the owner's global memories too."""

    project: str
    owner: str
    secret: str = field(repr=False)
    may_global: bool
    created_at: str

    @property
    def text(self) -> str:
        """The token as a client sends it; it names its project, so that its file can be found."""
        return f"tm1.{uuid.UUID(self.project).hex}.{self.secret}"


class Tokens:
    """The tokens of a home. Each call reads the file, so that a change works at once."""

    def __init__(self, home: Path) -> None:
        self._folder = home / "projects"

    def path(self, project: str) -> Path:
        """Say where a project's tokens lie. Raises UsageError for a key that is no UUID."""
        try:
            is_key = str(uuid.UUID(project)) == project
        except ValueError:
            is_key = False
        if not is_key:
            raise UsageError(f"{project!r} is no key of a project", hint="a key is a UUID")
        return self._folder / project / "tokens.json"

    def find(self, text: str) -> Token | None:
        """Find the token that somebody sent; None when there is no such one.

        Raises TokenFileRefused when the project's file cannot be trusted.
        """
        form = _FORM.fullmatch(text)
        if form is None:
            return None
        found = None
        for token in self.of(str(uuid.UUID(form[1]))):
            # Every one is compared, so that the time tells nothing about the others.
            if hmac.compare_digest(token.secret.encode(), form[2].encode()):
                found = token
        return found

    def of(self, project: str) -> list[Token]:
        """Read the tokens of a project. Raises TokenFileRefused."""
        return _read(self.path(project), project)

    def is_empty(self) -> bool:
        """Say whether no project has a token. Raises TokenFileRefused."""
        paths = self._folder.glob("*/tokens.json")
        return not any(_read(path, path.parent.name) for path in paths)

    def give(self, project: str, owner: str, *, may_global: bool | None, now: datetime) -> Token:
        """Find an owner's token, making it at first use; `may_global` None leaves that as it is."""
        return self._keep(project, owner, may_global, now, anew=False)

    def rotate(self, project: str, owner: str, *, may_global: bool | None, now: datetime) -> Token:
        """Give an owner a new token; the one before opens nothing any more."""
        return self._keep(project, owner, may_global, now, anew=True)

    def revoke(self, project: str, owner: str) -> bool:
        """Take an owner's token away; False when there was none."""
        if not self.path(project).exists():
            return False
        with self._locked(project) as tokens:
            return tokens.pop(owner, None) is not None

    def _keep(
        self, project: str, owner: str, may_global: bool | None, now: datetime, *, anew: bool
    ) -> Token:
        if not owner.strip() or not owner.isprintable() or len(owner) > _LONGEST_OWNER:
            raise UsageError(
                f"{owner!r} is no name of an owner",
                hint=f"give a name of at most {_LONGEST_OWNER} printable characters",
            )
        with self._locked(project) as tokens:
            known = tokens.get(owner)
            if known is None:
                known = Token(project, owner, _new_secret(), False, now.isoformat())
            elif anew:
                known = replace(known, secret=_new_secret(), created_at=now.isoformat())
            if may_global is not None:
                known = replace(known, may_global=may_global)
            tokens[owner] = known
            return known

    @contextlib.contextmanager
    def _locked(self, project: str) -> Iterator[dict[str, Token]]:
        """Let one process at a time change a project's tokens; written when they did change."""
        path = self.path(project)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            tokens = {token.owner: token for token in _read(path, project)}
            before = dict(tokens)
            yield tokens
            if tokens != before:
                _write(path, tokens)
        finally:
            os.close(descriptor)


def _new_secret() -> str:
    return secrets.token_urlsafe(_SECRET_BYTES)


def _write(path: Path, tokens: dict[str, Token]) -> None:
    entries = [asdict(token) for token in tokens.values()]
    for entry in entries:
        del entry["project"]
    atomic.replace(path, json.dumps({"tokens": entries}, indent=2).encode() + b"\n", mode=0o600)


def _read(path: Path, project: str) -> list[Token]:
    content = _content(path)
    if content is None:
        return []
    try:
        entries = json.loads(content)["tokens"]
        tokens = [Token(project=project, **entry) for entry in entries]
        if all(_is_sound(token) for token in tokens):
            return tokens
    except (ValueError, TypeError, KeyError, RecursionError):
        pass
    raise TokenFileRefused(
        f"{path} is damaged", hint=f"remove it and make a new token: rm '{path}'; tiermem token"
    )


def _is_sound(token: Token) -> bool:
    texts = (token.owner, token.secret, token.created_at)
    is_typed = all(isinstance(text, str) for text in texts) and isinstance(token.may_global, bool)
    return is_typed and _FORM.fullmatch(f"tm1.{'0' * 32}.{token.secret}") is not None


def _content(path: Path) -> bytes | None:
    """Read a file of secrets; None when it is not there. Raises TokenFileRefused."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as exc:
        raise TokenFileRefused(f"cannot read {path}: {exc.strerror}") from exc
    with os.fdopen(descriptor, "rb") as handle:
        found = os.fstat(handle.fileno())
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
            raise TokenFileRefused(f"{path} is no file of yours", hint="remove what lies there")
        if found.st_mode & 0o077:
            raise TokenFileRefused(
                f"{path} can be read by others (mode {found.st_mode & 0o777:o})",
                hint=f"run: chmod 600 '{path}'; and make new tokens: tiermem token --rotate",
            )
        if found.st_size > _LONGEST_FILE_BYTES:
            raise TokenFileRefused(f"{path} is too long to be a file of tokens")
        return handle.read(_LONGEST_FILE_BYTES)
