"""Secrets that are known by the name they are assigned to."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from memory.secret_forms import Span
from memory.secret_values import is_password, is_secret

_STRONG_NAMES: Final = (
    "pass[_-]?(?:word|wd|phrase|code)|passwort|kennwort|pwd|(?<=[_-])pass|contraseña"
    "|mot[ _]de[ _]passe|senha|пароль|密码|密碼|パスワード|비밀번호"
)
_OTHER_NAMES: Final = (
    "secret(?:[_-]?key)?(?:[_-]?base)?|token|api[ _-]?key|access[_-]?key|account[_-]?key|"
    "auth[_-]?key|app[_-]?key|private[_-]?key|signing[_-]?key|encryption[_-]?key|master[_-]?key|"
    "(?<![a-z0-9])_auth|credentials?"
)
_ASSIGNED: Final = re.compile(
    rf"(?i)(?:(?P<password>{_STRONG_NAMES})|(?P<secret>{_OTHER_NAMES}))"
    r"(?:[_-]?(?:prod|production|dev|test|staging|live|value|base64|b64|\d{1,3}))?(?![a-z0-9])"
    r"(?:(?:\\?[\"'`\]*]){0,3}[ \t]{0,12}(?P<sign>:=|=>|={1,3}|[:：>])[ \t]{0,12}"
    r"|(?P<word>[ \t]{1,3}(?:is|was|ist|:)[ \t]{1,3}|(?<=[a-z])[ \t]{1,3}(?=[^\s=:]{6})))"
)
_QUOTED: Final = re.compile(
    r"[rbuf]{0,2}(?:\"(?P<double>(?:[^\"\\\n]|\\[^\n])++)\"|'(?P<single>(?:[^'\\\n]|\\[^\n])++)'"
    r"|`(?P<back>[^`\n]++)`|\\\"(?P<escaped>[^\"\\\n]++)\\\")"
)
_TO_LINE_END: Final = re.compile(r"[^\s\"'`#][^\s\"'`]{0,4000}+(?=[ \t]{0,40}(?:[\r\n]|\Z|#))")
_BARE: Final = re.compile(r"[^\s\"'`,;<>(){}\[\]|&]{6,4000}+(?![(\[{])")
# A value that was passed over is not looked into again when it is as long as this.
_LONG: Final = 200
_LINE_LEAD: Final = re.compile(
    r"(?:\A|\n)[ \t>|+-]*(?:(?:export|set|env|ARG|ENV)[ \t]+)?[\w.\"'-]{0,60}\Z", re.IGNORECASE
)
# Names with `token` that are about text, pages or locks.
_HARMLESS: Final = re.compile(
    r"(?i)(?:page|next|continuation|sync|cursor|stop|eos|bos|pad|unk|sep|cls|mask|special|public|"
    r"design|cancellation|lock|idempotency|ordering)[_-]?\Z"
)
_OPTION: Final = re.compile(r"(?:\A|[\s\"'])--?[\w-]{0,40}\Z")


def find_by_name(text: str) -> Iterator[Span]:
    """Find the values of names that promise a secret: password, token, api_key and the like."""
    done = 0
    for found in _ASSIGNED.finditer(text):
        if found.start() < done:
            continue
        before = text[max(found.start() - 64, 0) : found.start()]
        if found["secret"] and _HARMLESS.search(before):
            continue
        if found["word"] is not None and not found["word"].strip() and not _OPTION.search(before):
            continue
        start, end, told = _value(text, found, before)
        if told:
            yield Span(start, end, "assigned-secret")
        if told or end - start >= _LONG:
            done = end


def _value(text: str, found: re.Match[str], before: str) -> tuple[int, int, bool]:
    """Find where the value of a name starts and ends, and say whether it is a secret."""
    at = found.end()
    judge = is_password if found["password"] else is_secret
    if quoted := _QUOTED.match(text, at):
        group = quoted.lastgroup or 0
        return *quoted.span(group), judge(quoted.group(group))
    to_end = None
    if found["sign"] in (":", "=", "：") and _LINE_LEAD.search(before):
        to_end = _TO_LINE_END.match(text, at)
    value = to_end or _BARE.match(text, at)
    if value is None:
        return at, at, False
    return *value.span(), judge(value.group(), bare=True, whole_line=to_end is not None)
