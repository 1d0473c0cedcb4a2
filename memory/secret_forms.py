"""Secrets that are known by their form, or by what stands around them."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from memory.secret_values import is_filler, is_mixed, is_password, is_random


@dataclass(frozen=True, slots=True)
class Span:
    """Where in a text a secret stands, and of which kind it is."""

    start: int
    end: int
    kind: str


def find_by_form(text: str) -> Iterator[Span]:
    """Find tokens, private keys, AWS secrets, passwords in addresses, authorization headers."""
    yield from _tokens(text)
    yield from _private_keys(text)
    yield from _aws_secrets(text)
    yield from _urls(text)
    yield from _user_options(text)
    yield from _authorizations(text)


# --- tokens that are known by their form ---------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Form:
    """A token's form; the group `told`, where there is one, is what is masked.

    `hint` is in every text with such a token, so that other texts are passed over quickly.
    """

    kind: str
    hint: str
    pattern: re.Pattern[str]


# What most tokens are made of, named so that the table below can be read.
_SETS: Final = {"W": "A-Za-z0-9", "WU": "A-Za-z0-9_", "WD": "-A-Za-z0-9", "WUD": "-A-Za-z0-9_"}


def _form(kind: str, hint: str, pattern: str, *, before: str = "WU") -> _Form:
    for name, characters in _SETS.items():
        pattern = pattern.replace(f"<{name}>", characters)
    return _Form(kind, hint, re.compile(f"(?<![{_SETS[before]}])(?:{pattern})"))


_FORMS: Final = (
    _form("aws-access-key", "A", r"A(?:KIA|SIA|BIA|CCA)[A-Z0-9]{16}(?![<W>])"),
    _form("github-token", "gh", r"gh[oprsu]_[<W>]{36,255}"),
    _form("github-token", "github_pat_", r"github_pat_[<WU>]{22,255}"),
    _form("gitlab-token", "gl", r"gl(?:pat|dt|rt|ptt|cbt|soat|ft|imt|agent|oas)-[<WUD>.]{20,300}"),
    _form("gitlab-token", "GR1348941", r"GR1348941[<WUD>]{20,50}"),
    _form("slack-token", "xox", r"xox(?:e\.xox[bp]|[abceoprs])-[<WD>]{10,300}"),
    _form("slack-token", "xapp-", r"xapp-\d-[<WD>]{20,300}"),
    _form(
        "slack-webhook",
        "hooks.slack.com",
        r"hooks\.slack\.com/[a-z]{4,20}/(?P<told>[<WUD>/]{20,200})",
    ),
    _form("stripe-key", "k_", r"[rs]k_(?:live|test)_[<W>]{16,255}"),
    _form("stripe-key", "whsec_", r"whsec_[<W>+/=]{24,255}"),
    _form("google-api-key", "AIza", r"AIza[<WUD>]{35,60}"),
    _form("google-api-key", "GOCSPX-", r"GOCSPX-[<WUD>]{24,40}"),
    _form("google-api-key", "ya29.", r"ya29\.[<WUD>]{20,2000}"),
    _form("anthropic-key", "sk-ant-", r"sk-ant-[<WUD>]{20,300}"),
    _form("openai-key", "sk-", r"sk-(?:proj|svcacct|admin|None|or-v1)-[<WUD>]{20,300}"),
    _form("openai-key", "sk-", r"sk-[<W>]{32,100}(?![<WUD>])"),
    _form("huggingface-token", "hf_", r"hf_[<W>]{34,60}"),
    _form("huggingface-token", "api_org_", r"api_org_[<W>]{34,60}"),
    _form("npm-token", "npm_", r"npm_[<W>]{36}(?![<W>])"),
    _form("npm-token", "_authToken", r"_authToken[ ]{0,3}=[ ]{0,3}\"?(?P<told>[<WUD>+/=.]{8,300})"),
    _form("pypi-token", "pypi-Ag", r"pypi-Ag[<WUD>]{40,500}"),
    _form("sendgrid-key", "SG.", r"SG\.[<WUD>]{16,32}\.[<WUD>]{16,64}"),
    _form("twilio-key", "SK", r"SK[0-9a-f]{32}(?![<W>])"),
    _form(
        "twilio-key",
        "",
        r"(?i:twilio)[\w .'\":=\]-]{0,40}?[\"'\s:=](?P<told>[0-9a-f]{32})(?![<W>])",
    ),
    _form(
        "azure-storage-key", "Key=", r"(?:Account|SharedAccess)Key=(?P<told>[<W>+/]{40,90}={0,2})"
    ),
    _form("azure-storage-key", "sig=", r"sig=(?P<told>[<WUD>%+/]{40,120}(?:%3[Dd]|=){1,2})"),
    # A long run of these characters must be entered at its start only.
    _form(
        "jwt",
        "eyJ",
        r"eyJ[<WUD>]{8,}+\.eyJ[<WUD>]{8,}+\.[<WUD>]{16,}+(?:\.[<WUD>]++)*+",
        before="WUD",
    ),
)


def _tokens(text: str) -> Iterator[Span]:
    for form in _FORMS:
        if form.hint not in text:
            continue
        group = "told" if "told" in form.pattern.groupindex else 0
        for found in form.pattern.finditer(text):
            if not is_filler(found.group(group)):
                yield Span(*found.span(group), form.kind)


# --- private keys --------------------------------------------------------------------------------

_KEY_BEGINS: Final = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_KEY_ENDS: Final = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
# One line of a key: base64, or a header such as `Proc-Type: 4,ENCRYPTED`, quoted or not.
_KEY_LINE: Final = re.compile(
    r"(?:[ \t>#*/|+]{0,20}[\"']?(?:[A-Za-z0-9+/=\\]{0,2000}|[A-Z][A-Za-z-]{2,20}: [^\n]{0,100})"
    r"[\"']?[,+]?[ \t]{0,8}(?:\\r)?(?:\\n)?)(?:\r?\n|$)"
)
_KEY_TAIL: Final = re.compile(r"[A-Za-z0-9+/=\\]{16,}+")
# A line of a key, a short one too; a word on a line of its own between two marks is none.
_KEY_BODY: Final = re.compile(
    r"[A-Za-z0-9+/=]{32}|(?:\n|\\n|-----)[ \t]*(?=[a-z+/=]{0,40}[A-Z0-9])[A-Za-z0-9+/=]{6,}+"
    r"[ \t]*(?:\r?\n|\\|-----|$)"
)


def _private_keys(text: str) -> Iterator[Span]:
    begins = list(_KEY_BEGINS.finditer(text))
    ends = iter(_KEY_ENDS.finditer(text) if begins else ())
    end = next(ends, None)
    for number, begin in enumerate(begins):
        following = begins[number + 1].start() if number + 1 < len(begins) else len(text)
        while end is not None and end.start() < begin.end():
            end = next(ends, None)
        closed = end is not None and end.start() < following
        stop = end.end() if end is not None and closed else _unclosed_end(text, begin.end())
        if _KEY_BODY.search(text, begin.end() - 5, stop):
            yield Span(begin.start(), stop, "private-key")


def _unclosed_end(text: str, start: int) -> int:
    """Find where the lines that belong to a key without an end stop."""
    stop = start
    while stop < len(text) and (line := _KEY_LINE.match(text, stop)) and line.end() > stop:
        stop = line.end()
    # The key may end within a line of other things.
    tail = _KEY_TAIL.match(text, stop)
    return tail.end() if tail else start + len(text[start:stop].rstrip())


# --- AWS secrets, known by what stands near ------------------------------------------------------

_FORTY: Final = re.compile(r"(?<![\w/+-])[A-Za-z0-9/+]{40}(?![\w/+=-])", re.ASCII)
_AWS_NEAR: Final = re.compile(
    r"(?i)aws|amazon|secret.?access|A(?:KIA|SIA)[A-Z0-9]{16}|aws-access-key"
)
_AWS_WINDOW: Final = 120


def _aws_secrets(text: str) -> Iterator[Span]:
    for found in _FORTY.finditer(text):
        value, start = found.group(), found.start()
        near = _AWS_NEAR.search(text, max(start - _AWS_WINDOW, 0), start)
        if near and is_mixed(value):
            yield Span(*found.span(), "aws-secret-key")


# --- passwords in addresses ----------------------------------------------------------------------

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{1,30}\Z")
_USER: Final = re.compile(r"[^\s:/?#@\"'<>`\\]{0,128}:")
_URL_PASSWORD: Final = re.compile(r"([^\s/?#\"'<>`\\]{1,256})@(?=[\w\[{$%<])")
_DB_PASSWORD: Final = re.compile(r"(?!\d{2,5}/)([^\s@\"'<>`\\]{1,256})@(?=[\w\[{$%<])")
_WEB: Final = frozenset({"http", "https", "ftp", "ftps", "git", "ssh", "sftp", "ws", "wss", "svn"})


def _urls(text: str) -> Iterator[Span]:
    at = text.find("://")
    while at >= 0:
        scheme = _SCHEME.search(text, max(at - 32, 0), at)
        user = _USER.match(text, at + 3)
        if scheme and user:
            web = scheme.group().lower().rpartition("+")[2] in _WEB
            password = _URL_PASSWORD.match(text, user.end())
            if password is None and not web:
                password = _DB_PASSWORD.match(text, user.end())
            if password and _is_told(password.group(1), user.group()[:-1]):
                kind = "basic-auth-url" if web else "connection-string-password"
                yield Span(*password.span(1), kind)
        at = text.find("://", at + 3)


def _is_told(password: str, user: str) -> bool:
    stock = {"password", "passwd", "pass", "pwd", "pw", "x-oauth-basic", user.lower()}
    return password.lower() not in stock and not is_filler(password)


# `curl -u user:password`
_USER_OPTION: Final = re.compile(
    r"(?:curl|wget|http)(?=[ \t])[^\n]{0,200}?[ \t](?:-u|--user)[ =]{0,2}[\"']?"
    r"(?P<user>[^\s:\"'$<{]{1,64}):(?P<told>[^\s\"'`]{4,128})"
)


def _user_options(text: str) -> Iterator[Span]:
    for found in _USER_OPTION.finditer(text):
        if _is_told(found["told"], found["user"]):
            yield Span(*found.span("told"), "basic-auth-url")


# --- credentials after a header's name -----------------------------------------------------------

_AUTHORIZATION: Final = re.compile(
    r"(?i)authorization(?:\\?[\"'`\]]){0,2}[ \t]{0,4}(?:=>|[:=,])[ \t]{0,4}(?:\\?[\"'`])?"
    r"(?:(?P<scheme>bearer|basic|token|apikey|key|digest)[ \t]{1,4})?"
    r"(?P<told>[\w.~+/=:-]{8,4000})"
)
_BEARER: Final = re.compile(r"(?i)(?<![a-z])bearer[ \t]{1,4}(?P<told>[\w.~+/=-]{16,4000})")


def _authorizations(text: str) -> Iterator[Span]:
    for found in _AUTHORIZATION.finditer(text):
        value = found.group("told")
        scheme = (found["scheme"] or "").lower()
        if is_random(value) or (scheme and is_password(value)) or _is_basic(scheme, value):
            yield Span(*found.span("told"), "authorization-header")
    for found in _BEARER.finditer(text):
        if is_random(found.group("told")):
            yield Span(*found.span("told"), "authorization-header")


def _is_basic(scheme: str, value: str) -> bool:
    """Say whether the value is what the scheme Basic wants: user:password in base64."""
    try:
        return scheme == "basic" and b":" in base64.b64decode(value + "=" * (-len(value) % 4))
    except ValueError:
        return False
