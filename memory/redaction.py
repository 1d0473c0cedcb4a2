"""Secrets out of a text before any tier sees it: `[masked:KIND]` stands where they stood.

Pure, standard library alone, and linear in the length of the text: every pattern is bounded or
consumes what it matches, and context is only looked for in a small window. Masking masked text
changes nothing, so hashes over the masked form are stable.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from memory.secret_forms import Span, find_by_form
from memory.secret_names import find_by_name

#: Every kind of secret that is masked, and what it looks like.
KINDS: Final[Mapping[str, str]] = {
    "private-key": "PEM and PGP blocks of private keys, also when their end is missing",
    "aws-access-key": "AKIA… and ASIA… key ids",
    "aws-secret-key": "40 characters near an AWS name or key id",
    "github-token": "ghp_, gho_, ghu_, ghs_, ghr_ and github_pat_ tokens",
    "gitlab-token": "glpat- and its sister tokens",
    "slack-token": "xox?- and xapp- tokens",
    "slack-webhook": "the path of a hooks.slack.com address",
    "stripe-key": "sk_ and rk_ keys, whsec_ signing secrets",
    "google-api-key": "AIza keys, OAuth client secrets and access tokens",
    "anthropic-key": "sk-ant- keys",
    "openai-key": "sk- keys of OpenAI and of services that copied their form",
    "huggingface-token": "hf_ tokens",
    "npm-token": "npm_ tokens and the _authToken of an .npmrc",
    "pypi-token": "pypi- tokens",
    "sendgrid-key": "SG. keys",
    "twilio-key": "SK key ids, and 32 hexadecimal digits near the name",
    "azure-storage-key": "AccountKey and SharedAccessKey values, signatures of shared access",
    "jwt": "signed JSON web tokens",
    "connection-string-password": "the password in postgres://user:…@host and its like",
    "basic-auth-url": "the password in https://user:…@host and in curl -u user:…",
    "authorization-header": "the credentials of an Authorization header, bearer tokens",
    "assigned-secret": "values of names such as password, secret, token, api_key",
}

_ORDER: Final = {kind: rank for rank, kind in enumerate(KINDS)}
_MASK: Final = "[masked:"
_MAX_PASSES: Final = 5


@dataclass(frozen=True, slots=True)
class Found:
    """How many secrets of one kind were masked."""

    kind: str
    count: int


@dataclass(frozen=True, slots=True)
class Redacted:
    """A text without its secrets, and which kinds they were, by name."""

    text: str
    found: tuple[Found, ...] = ()


def redact(text: str, *, allow: frozenset[str] = frozenset()) -> Redacted:
    """Replace every secret by `[masked:KIND]`; kinds in `allow` are left alone."""
    counts: Counter[str] = Counter()
    # What a mask parts from its neighbour may be told apart only now: look until nothing is left.
    for _ in range(_MAX_PASSES):
        spans = _merged(
            span for span in (*find_by_form(text), *find_by_name(text)) if span.kind not in allow
        )
        if not spans:
            break
        pieces, done = [], 0
        for span in spans:
            pieces += [text[done : span.start], f"{_MASK}{span.kind}]"]
            done = span.end
            counts[span.kind] += 1
        text = "".join([*pieces, text[done:]])
    return Redacted(text, tuple(Found(kind, count) for kind, count in sorted(counts.items())))


def _merged(spans: Iterable[Span]) -> list[Span]:
    """Join spans that overlap; the more telling kind, which stands first in KINDS, wins."""
    merged: list[Span] = []
    for span in sorted(spans, key=lambda span: (span.start, -span.end)):
        if merged and span.start < merged[-1].end:
            last = merged.pop()
            kind = min(last.kind, span.kind, key=_ORDER.__getitem__)
            span = Span(last.start, max(last.end, span.end), kind)
        merged.append(span)
    return merged
