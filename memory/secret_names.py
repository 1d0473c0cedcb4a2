"""Secrets that are known by the name they are assigned to."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from memory.secret_forms import Span
from memory.secret_values import is_password, is_secret, is_stock

_STRONG_NAMES: Final = (
    "pass[_-]?(?:word|wd|phrase|code)|passwort|kennwort|pwd|(?<![a-z0-9])pw|(?<=[_-])pass|contraseña"
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
    r"(?:(?:\\?[\"'`\]*]){0,3}[ \t]{0,12}(?P<sign>:=|=>|={1,3}|[:：>])\*{0,2}[ \t]{0,12}"
    r"|(?P<word>[ \t]{1,3}(?:is|was|ist|:)[ \t]{1,3}|(?<=[a-z])[ \t]{1,3}(?=[^\s=:]{6})))"
)
_QUOTED: Final = re.compile(
    r"[rbuf]{0,2}(?:\"(?P<double>(?:[^\"\\\n]|\\[^\n])++)\"|'(?P<single>(?:[^'\\\n]|\\[^\n])++)'"
    r"|`(?P<back>[^`\n]++)`|\\\"(?P<escaped>[^\"\\\n]++)\\\")"
)
# Chinese, Japanese and Korean text needs no space before it goes on after a value.
_CJK: Final = "\u2e80-\uffef"
_TO_LINE_END: Final = re.compile(
    rf"[^\s\"'`#{_CJK}][^\s\"'`{_CJK}]{{0,4000}}+(?=[ \t]{{0,40}}(?:[\r\n]|\Z|[#{_CJK}]))"
)
_TO_SPACE: Final = re.compile(rf"[^\s\"'`<>{_CJK}]{{6,4000}}+")
_BARE: Final = re.compile(rf"[^\s\"'`,;<>(){{}}\[\]|&{_CJK}]{{6,4000}}+(?![(\[{{])")
_CODE_ENDS: Final = (",", ";", ")", "]", "}", ":")
# PASSWORD=…, --password=…, ?password=…
_SHELL: Final = re.compile(
    r"(?:(?:\A|[\s\"'])(?:[A-Z0-9_]{1,60}|--[\w-]{1,60})|[?&][\w-]{1,60})=\Z"
)
# A value that was passed over is not looked into again when it is as long as this.
_LONG: Final = 200
_LINE_LEAD: Final = re.compile(
    r"(?:\A|\n)[ \t>|+*-]*(?:(?:export|set|env|ARG|ENV)[ \t]+)?[\w.\"'-]{0,60}\Z", re.IGNORECASE
)
# Names with `token` that are about text, pages or locks.
_HARMLESS: Final = re.compile(
    r"(?i)(?:page|next|continuation|sync|cursor|stop|eos|bos|pad|unk|sep|cls|mask|special|public|"
    r"design|cancellation|lock|idempotency|ordering)[_-]?\Z"
)
# A command's option, or the line of a .netrc.
_OPTION: Final = re.compile(r"(?:\A|[\s\"'])(?:--?[\w-]{0,40}|login[ \t]{1,4}\S{1,40}[ \t]{1,4})\Z")


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
    if to_end and found["secret"] and "&" in to_end.group():
        to_end = None  # the query of an address
    # Close to its sign a value may have others behind it; after a space it has the rest.
    alone = found["sign"] in (None, ":", "：") and text[at - 1] in " \t："
    value = to_end or (_TO_SPACE if alone else _BARE).match(text, at)
    if value is None:
        return at, at, False
    # A line of an .env or YAML file ends with its value, a line of code with something else.
    ends_like_code = value.group()[-1] in _CODE_ENDS or text[value.end() :][:1] in _CODE_ENDS
    sure = bool(to_end or alone or _SHELL.search(before + found.group())) and not ends_like_code
    told = judge(value.group(), bare=True, sure=sure)
    return *value.span(), told or (bool(to_end) and _is_shouted(found, value.group()))


def _is_shouted(found: re.Match[str], value: str) -> bool:
    """Say whether this is a line such as PASSWORD=letmein, whose value may be a plain word."""
    shouted = (found["password"] or "").isupper() and found.group().endswith("=")
    return shouted and is_password(value + "1", bare=True, sure=True) and not is_stock(value)
