"""Is this value a secret, or a word, a reference, a placeholder, a digest? Pure guesses, bounded.

The names decide how much doubt a value gets: after `password` a short word with a digit will do,
after `token` it has to look random.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from itertools import pairwise
from typing import Final

_MASK: Final = "[masked:"
_STOCK: Final = frozenset(
    "password passwd pass pwd pw secret required optional string prompt value none null true false "
    "hidden default changeit postgres root admin user username guest test".split()
)
# So much of a value is looked at.
_JUDGED: Final = 100
_PLACEHOLDER: Final = re.compile(
    r"(?i)example|change[_-]?(?:me|this|it)|placeholder|your[_-]|\byour|yourp|yourt|yours|dummy"
    r"|redacted|masked|removed|hidden|insert|replace|xxxx|\*\*\*|\.\.\.|…|todo|fixme|not[_-]?(?:a[_-]?)?real"
    r"|fake|sample|foobar|lorem|goes[_-]here|put[_-]"
)  # fmt: skip
_REFERENCE: Final = re.compile(
    r"(?i)[<{\[]|\$\{|\$\(|\$[a-z_]\w*\Z|%[({sd]|(?:os|process|env|config|settings|self|this|args|opts"
    r"|options|secrets?|vault|params?|request|req|ctx|context|data|props|state|values?|var|local"
    r"|module|input|op|arn|aws|ref|file|https?|ssm|projects)[.:/\[(]"
)
# At the start of a value without quotes these have a meaning in a shell, in YAML or in code.
_OPERATORS: Final = ("$", "%", "@", "&", "*", "!", "#", "(", "-", "=", "/", "~", "\\", "^", "?")
_INSERTED: Final = re.compile(r"\$\{|\{\{|%\(|\$\(|#\{|<[A-Za-z_-]{1,40}>")
_TYPE: Final = re.compile(
    r"(?i)(?:u?int|float|bytes?|str|string|varchar|char|bool|sha|md|aes|rsa|ed|hmac|hs|rs|es|ps|utf|"
    r"oauth|base|bcrypt|argon|pbkdf|scrypt|uint|vec|http|v|x|ipv|b|p|h|id|key|arg|param|test|demo|"
    r"user|foo|bar)[_-]?\d{1,4}(?:array|_?[a-z]{0,8}\d{0,4})?"
)
_UUID: Final = re.compile(r"(?i)[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_DIGEST: Final = re.compile(r"(?i)(?:sha|md)\d{1,3}[:=-].*|.*@sha256:.*")
_HEX: Final = re.compile(r"(?i)[0-9a-f]+")
_DOTTED: Final = re.compile(r"[A-Za-z_$][\w$]*(?:(?:\.|::|->|\?\.)[A-Za-z_$][\w$]*)+")
_CALL: Final = re.compile(r"[A-Za-z_][\w.]*[(\[](?:.*[)\]},:.\w])?")
_IDENTIFIER: Final = re.compile(r"[A-Za-z_]+\d{0,2}")
_NUMBER: Final = re.compile(r"[\d.,:_eE+%-]+[a-zA-Z]{0,3}")
_RUNS: Final = re.compile(r"[A-Za-z0-9]{12,}")
_SWITCHES: Final = re.compile(r"[A-Za-z](?=\d)|\d(?=[A-Za-z])")
_WORDS: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")


def is_filler(value: str) -> bool:
    """Say whether a token of the right form is only a stand-in: all x, stars, or says so."""
    told = value[:_JUDGED].strip().lower()
    if told.startswith(("<", "$", "%", "{", "[")) or _MASK in told:
        return True
    body = re.split(r"[_-]", told)[-1] or told
    same = len(set(body)) == 1 and body[0] in "x*.0-"
    return same or any(mark in told for mark in ("xxxxxx", "…", "...", "your"))


def is_password(value: str, *, bare: bool = False, sure: bool = False) -> bool:
    """Say whether the value of a name such as `password` is one."""
    told = _told(value, bare=bare)
    if len(told) < 6 or _is_harmless(told, bare=bare):
        return False
    letters, digits = sum(map(str.isalpha, told)), sum(map(str.isdigit, told))
    symbols = [char for char in told if not char.isalnum() and char not in "-_./:, "]
    if not letters or not (digits or symbols):
        # Words are no password, a long number is one.
        return digits >= 8 and told.isdigit() and (sure or not bare)
    if bare and not sure:
        return not _IDENTIFIER.fullmatch(told) and digits > 0 and len(told) >= 8
    return digits > 0 or len(symbols) > 0


def is_stock(value: str) -> bool:
    """Say whether a word in the place of a password is what people write for lack of one."""
    return value.lower() in _STOCK


def is_secret(value: str, *, bare: bool = False, sure: bool = False) -> bool:
    """Say whether the value of a name such as `token` or `api_key` is one."""
    told = _told(value, bare=bare)
    if len(told) < 8 or _is_harmless(told, bare=bare):
        return False
    if len(told) < 16:
        return _kinds(told) >= 3 and any(map(str.isdigit, told)) and (sure or not bare)
    return is_random(told)


def is_random(value: str) -> bool:
    """Say whether a text looks drawn rather than written; placeholders and digests do not."""
    told = value[:_JUDGED]
    return not _is_harmless(told, bare=True) and is_drawn(told)


def is_mixed(value: str) -> bool:
    """Say whether a text has letters of both cases, digits, and little that repeats."""
    return _kinds(value) >= 3 and _entropy(value) >= 3.5


def is_drawn(value: str) -> bool:
    """Say whether the characters of a text look drawn: no words, or hexadecimal digits."""
    told = value[:_JUDGED]
    if _HEX.fullmatch(told):
        return len(told) >= 24 and len(set(told.lower())) >= 8
    if any(len(_SWITCHES.findall(run)) >= 3 for run in _RUNS.findall(told)):
        return True
    words = _WORDS.findall(told)
    short = sum(len(word) for word in words if len(word) <= 2 or (word.isdigit() and len(word) > 4))
    mixed = any(map(str.isdigit, told)) or len(words) > len(told) / 3
    return len(told) >= 8 and mixed and short * 4 >= len(told) and _entropy(told) >= 2.8


def _told(value: str, *, bare: bool) -> str:
    told = value.strip()
    return (told.rstrip(",;.!?") if bare else told)[:_JUDGED]


def _kinds(text: str) -> int:
    """Count the kinds of characters: lower case, upper case, digits, symbols."""
    symbol = any(not char.isalnum() and char not in "-_./:" for char in text)
    return symbol + sum(any(map(kind, text)) for kind in (str.islower, str.isupper, str.isdigit))


def _is_harmless(told: str, *, bare: bool) -> bool:
    if _MASK in told or _is_sequence(told) or len(set(told)) < 4:
        return True
    if any(char.isspace() for char in told) or "://" in told:
        return True
    code = bare and (
        _DOTTED.fullmatch(told) or _CALL.fullmatch(told) or told.startswith(_OPERATORS)
    )
    return bool(
        code
        or _PLACEHOLDER.search(told)
        or _REFERENCE.match(told)
        or _INSERTED.search(told)
        or _TYPE.fullmatch(told)
        or _UUID.fullmatch(told)
        or _DIGEST.fullmatch(told)
        or (_NUMBER.fullmatch(told) and not told.isdigit())
        or told.startswith(("/", "./", "../", "~/"))
    )


def _is_sequence(text: str) -> bool:
    """Say whether a text counts up or down, as 12345678 and abcdef do."""
    codes = [ord(char) for char in text.lower()]
    steps = sum(abs(after - before) == 1 for before, after in pairwise(codes))
    return steps >= 0.85 * (len(codes) - 1)


def _entropy(text: str) -> float:
    """Shannon's entropy in bits a character."""
    size = len(text)
    return -sum(n / size * math.log2(n / size) for n in Counter(text).values())
