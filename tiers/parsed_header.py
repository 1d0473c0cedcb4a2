"""Headers read in full: YAML and TOML through python-frontmatter, as values and as plain text."""

from __future__ import annotations

import base64
import re
import tomllib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, time
from typing import Any

import yaml
from frontmatter.default_handlers import BaseHandler, YAMLHandler

from tiers.header_toml import text_of
from tiers.markdown import HeaderStyle, Parts, Problem

try:
    from yaml import CBaseLoader as BaseLoader
    from yaml import CSafeLoader as SafeLoader
except ImportError:  # PyYAML built without libyaml
    from yaml import BaseLoader, SafeLoader  # type: ignore[assignment]

_MAX_CHARS = 262_144
_MAX_NODES = 20_000
_MAX_DEPTH = 32


@dataclass(frozen=True, slots=True)
class Header:
    """A parsed header. Paths are keys, or `parent.child` for a key one level down.

    `values` are what the language makes of the scalars, `texts` the same tree as it is written.
    """

    values: Mapping[str, Any] = field(default_factory=dict)
    texts: Mapping[str, Any] = field(default_factory=dict)
    lines: Mapping[str, int] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    parsed: bool = True

    def has(self, path: str) -> bool:
        """Say whether the path is there, with or without a value."""
        return path in self.values or _below(self.values, path) is not _ABSENT

    def value(self, path: str) -> Any:
        return self.values[path] if path in self.values else _below(self.values, path)

    def text(self, path: str) -> Any:
        found = self.texts[path] if path in self.texts else _below(self.texts, path)
        return None if found is _ABSENT else found

    def where(self, path: str) -> str:
        """Say on which line a key stands, as the start of a sentence."""
        line = self.lines.get(path) or self.lines.get(path.partition(".")[0])
        return f"line {line}: " if line else ""

    @property
    def parents(self) -> frozenset[str]:
        """The keys that have keys below them."""
        return frozenset(key for key, value in self.values.items() if isinstance(value, dict))

    def without(self, paths: Collection[str]) -> dict[str, Any]:
        """Give the values at all other paths as plain JSON values."""
        kept: dict[str, Any] = {}
        for key, value in self.values.items():
            if key in paths:
                continue
            children = {path.partition(".")[2] for path in paths if path.startswith(f"{key}.")}
            if not children or not isinstance(value, dict):
                kept[key] = json_safe(value)
            elif rest := {name: part for name, part in value.items() if name not in children}:
                kept[key] = json_safe(rest)
        return kept


class _TomlHandler(BaseHandler):
    """TOML between +++ marks. python-frontmatter's own handler needs the package `toml`."""

    FM_BOUNDARY = re.compile(r"^\+{3,}\s*$", re.MULTILINE)
    START_DELIMITER = END_DELIMITER = "+++"

    def load(self, fm: str, **_: object) -> dict[str, Any]:
        return tomllib.loads(fm)


class _LenientLoader(SafeLoader):
    """Safe YAML in which an impossible date or number is the text that stands there."""


def _or_text(construct: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def lenient(loader: Any, node: Any) -> Any:
        try:
            return construct(loader, node)
        except (ValueError, OverflowError):
            return _as_written(loader, node)

    return lenient


def _as_written(loader: Any, node: Any) -> Any:
    return loader.construct_scalar(node)


for _kind in ("int", "float", "timestamp"):
    _tag = f"tag:yaml.org,2002:{_kind}"
    _LenientLoader.add_constructor(_tag, _or_text(SafeLoader.yaml_constructors[_tag]))
for _kind in ("value", "merge"):
    _LenientLoader.add_constructor(f"tag:yaml.org,2002:{_kind}", _as_written)

_YAML, _TOML = YAMLHandler(), _TomlHandler()
_ABSENT = object()


def read_header(parts: Parts) -> Header:
    """Parse the header of a file. Never raises: a header that does not parse is a problem."""
    if parts.style is HeaderStyle.NONE:
        return Header()
    text = "".join(line.rstrip("\r\n") + "\n" for line in parts.header_lines)
    if len(text) > _MAX_CHARS:
        return _refused(Problem(1, f"the header is longer than {_MAX_CHARS:,} characters"))
    try:
        return _read_toml(text) if parts.style is HeaderStyle.TOML else _read_yaml(text)
    except RecursionError:
        return _refused(Problem(1, "the header is nested too deeply"))


def json_safe(value: Any) -> Any:
    """Turn a header's value into plain JSON values."""
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else str(value)
    if isinstance(value, Mapping):
        return {_key(key): json_safe(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_safe(part) for part in value]
    if isinstance(value, (set, frozenset)):
        return sorted((json_safe(part) for part in value), key=str)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value.isoformat() if isinstance(value, (datetime, date, time)) else str(value)


def _key(key: Any) -> str:
    return key if isinstance(key, str) else "null" if key is None else text_of(key)


def _below(tree: Mapping[str, Any], path: str) -> Any:
    parent, dot, child = path.partition(".")
    node = tree.get(parent) if dot else None
    return node.get(child, _ABSENT) if isinstance(node, Mapping) else _ABSENT


def _refused(problem: Problem) -> Header:
    return Header(problems=(str(problem),), parsed=False)


def _read_toml(text: str) -> Header:
    try:
        values = _TOML.load(text)
    except ValueError as exc:
        at = re.search(r"\(at line (\d+)", str(exc))
        return _refused(Problem(int(at[1]) + 1 if at else None, str(exc)))
    return Header(values, _texts(values))


def _texts(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _texts(part) for key, part in value.items()}
    return [_texts(part) for part in value] if isinstance(value, list) else text_of(value)


def _read_yaml(text: str) -> Header:
    try:
        node = yaml.compose(text, Loader=SafeLoader)
        if node is None:
            return Header()
        if not isinstance(node, yaml.MappingNode):
            return _refused(Problem(2, "the header is not made of keys and values"))
        if not _is_bounded(node):
            return _refused(Problem(2, "the header is too large or nested too deeply"))
        values = _YAML.load(text, Loader=_LenientLoader)
        texts = _YAML.load(text, Loader=BaseLoader)
    except yaml.MarkedYAMLError as exc:
        line = exc.problem_mark.line + 2 if exc.problem_mark else None
        return _refused(Problem(line, exc.problem or "is not YAML"))
    except yaml.YAMLError as exc:
        return _refused(Problem(_line_of(exc, text), getattr(exc, "reason", None) or "is not YAML"))
    named = {_key(key): value for key, value in values.items()}
    return Header(named, texts, _lines(node), tuple(map(str, _duplicates(node))))


def _line_of(exc: yaml.YAMLError, text: str) -> int | None:
    at = getattr(exc, "position", None)
    return text.count("\n", 0, at) + 2 if isinstance(at, int) else None


def _lines(node: yaml.MappingNode) -> dict[str, int]:
    keys = (key for key, _ in node.value if isinstance(key, yaml.ScalarNode))
    return {key.value: key.start_mark.line + 2 for key in keys}


def _duplicates(root: yaml.Node) -> list[Problem]:
    """Find keys that stand twice in one mapping; YAML keeps the last without a word."""
    problems: list[Problem] = []
    waiting, seen = [root], set()
    while waiting:
        node = waiting.pop()
        if id(node) in seen or isinstance(node, yaml.ScalarNode):
            continue
        seen.add(id(node))
        if isinstance(node, yaml.MappingNode):
            names = set()
            for key, value in node.value:
                if isinstance(key, yaml.ScalarNode) and key.value in names:
                    reason = f"the key {key.value!r} is there twice; the last one counts"
                    problems.append(Problem(key.start_mark.line + 2, reason))
                names.add(key.value if isinstance(key, yaml.ScalarNode) else id(key))
                waiting += [key, value]
        else:
            waiting += node.value
    return sorted(problems, key=lambda problem: problem.line or 0)


def _is_bounded(root: yaml.Node) -> bool:
    """Say whether the tree stays small once its aliases and merges are written out.

    Ten lines of aliases to aliases stand for millions of values, or for a tree without an end.
    """
    measured: dict[int, tuple[int, int]] = {}
    open_nodes: set[int] = set()

    def measure(node: yaml.Node) -> tuple[int, int]:
        if isinstance(node, yaml.ScalarNode):
            return 1, 0
        if id(node) in open_nodes:
            return _MAX_NODES + 1, _MAX_DEPTH + 1
        if id(node) not in measured:
            open_nodes.add(id(node))
            pairs = isinstance(node, yaml.MappingNode)
            parts = [part for pair in node.value for part in pair] if pairs else node.value
            inner = [measure(part) for part in parts]
            measured[id(node)] = (
                1 + sum(size for size, _ in inner),
                1 + max((depth for _, depth in inner), default=0),
            )
            open_nodes.discard(id(node))
        return measured[id(node)]

    size, depth = measure(root)
    return size <= _MAX_NODES and depth <= _MAX_DEPTH
