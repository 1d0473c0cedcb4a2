"""Settings and where each came from: the only place that reads the environment."""

from __future__ import annotations

import errno
import getpass
import math
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from memory.errors import HomeRefused, UsageError

#: Settings of one project, in its own folder; written by `tiermem init`.
PROJECT_FILE = ".tiermem.toml"

#: Origins of settings that a project's file cannot override.
ENVIRONMENT, FLAG = "environment", "flag"

Value = str | int | float


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting: its default, what it is for, and whether a repository may set it.

    A repository is not trusted: it may size budgets, never choose paths, models or endpoints.
    """

    default: Value
    doc: str
    from_project: bool = False
    least: float = 0


SETTINGS: Mapping[str, Setting] = {
    "owner": Setting("", "who owns private memories; empty: the name of the user"),
    "embedding.model": Setting(
        "all-MiniLM-L6-v2", "a known model, a folder (./…), owner/name on the hub, openai:URL#model"
    ),
    "embedding.backend": Setting("auto", "auto, onnx or sentence-transformers"),
    "embedding.api_key": Setting("", "key of an openai: endpoint"),
    "embedding.threads": Setting(2, "threads that one embedding uses", least=1),
    "deep": Setting("edge:", "the deep tier: edge: (in process)"),
    "archive": Setting("sqlite:", "the archive: sqlite: (a file in the home)"),
    "engine.idle_minutes": Setting(30.0, "the engine ends after so long without a request"),
    "save.max_bytes": Setting(1_000_000, "the longest text, in bytes, that is one memory", least=1),
    "hot.deletion_settle_s": Setting(30.0, "a deleted hot file counts as deleted after so long"),
    "hot.settle_s": Setting(0.15, "a changed hot file is read when it has been quiet so long"),
    "hot.hold_share": Setting(0.2, "the loss of more than this share of the files is held"),
    "load.memory_chars": Setting(9_000, "characters of MEMORY.md that are loaded", True),
    "load.topic_chars": Setting(18_000, "characters of topic files that are loaded", True),
    "load.max_files": Setting(5, "topic files that are loaded when not all fit", True),
    "index.max_lines": Setting(200, "lines that MEMORY.md may have"),
    "index.max_bytes": Setting(25_000, "bytes that MEMORY.md may have"),
    "search.limit": Setting(10, "hits that a search gives", True, least=1),
    "deep.min_free_mb": Setting(256, "free space below which nothing is indexed"),
    "redaction.allow": Setting("", "kinds of secrets that are not masked, with commas between"),
    "http.listen": Setting("", "HOST:PORT where the engine listens too, as 127.0.0.1:3008"),
    "http.hosts": Setting("", "more names of this machine in URLs, with commas between"),
    "http.origins": Setting("", "web pages that may ask, as https://example.org, with commas"),
    "http.max_body_mb": Setting(4, "the longest body of a request over TCP, in MB", least=1),
    "http.rate_per_minute": Setting(600, "requests that one token may send in a minute", least=1),
    "mcp.toolsets": Setting("core,context", "toolsets that agents get, with commas between"),
}


@dataclass(frozen=True, slots=True)
class Settings:
    """Effective settings; `origins` says for each where it came from."""

    home: Path
    values: Mapping[str, Value]
    origins: Mapping[str, str] = field(default_factory=dict)

    def text(self, name: str) -> str:
        return str(self.values[name])

    def number(self, name: str) -> float:
        return float(self.values[name])

    def count(self, name: str) -> int:
        return int(self.values[name])

    @property
    def owner(self) -> str:
        return self.text("owner") or _user_name()

    @property
    def allowed_secrets(self) -> frozenset[str]:
        names = (name.strip() for name in self.text("redaction.allow").split(","))
        return frozenset(name for name in names if name)


def default_home(environment: Mapping[str, str] | None = None) -> Path:
    """Find the data home: $TIERMEM_HOME, else the platform's folder for user data."""
    env = os.environ if environment is None else environment
    if chosen := env.get("TIERMEM_HOME"):
        home = Path(chosen).expanduser().absolute()
        if not is_unicode(str(home)):
            raise HomeRefused(
                f"the path of TIERMEM_HOME is not UTF-8: {os.fsencode(home)!r}",
                hint="set TIERMEM_HOME to a folder whose path is UTF-8",
            )
        return home
    # Heavy only for hooks, which do not come here without a home of their own.
    from platformdirs import user_data_path

    return user_data_path("tiermem", appauthor=False)


def client_folder(given: str = "", environment: Mapping[str, str] | None = None) -> Path:
    """Find the project of a client that started us: what it gave, else where it says it works.

    That is $CLAUDE_PROJECT_DIR, else the working folder. Raises UsageError for what is no folder.
    """
    env = os.environ if environment is None else environment
    named = env.get("CLAUDE_PROJECT_DIR", "")
    source = "--project" if given else "CLAUDE_PROJECT_DIR" if named else "the working folder"
    hint = "name the project's folder: tiermem mcp --project DIR"
    try:
        # Clients start programs without a shell, which would have put the home folder in.
        folder = Path(given or named or Path.cwd()).expanduser().absolute()
    except (OSError, RuntimeError) as exc:
        raise UsageError(f"{source} cannot be found: {exc}", hint=hint) from exc
    if not is_unicode(str(folder)):
        raise UsageError(f"the path of {source} is not UTF-8", hint="rename the folder")
    if not _is_folder(folder):
        raise UsageError(f"{folder} ({source}) is no folder", hint=hint)
    return folder


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def is_unicode(text: str) -> bool:
    """Say whether a text that came from the system was valid UTF-8 there."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def engine_environment(home: Path) -> dict[str, str]:
    """Build the environment that an engine of `home` is started with."""
    return {**os.environ, "TIERMEM_HOME": str(home)}


def load_settings(
    *,
    home: Path | None = None,
    project_root: Path | None = None,
    environment: Mapping[str, str] | None = None,
    flags: Mapping[str, Value] | None = None,
) -> Settings:
    """Merge defaults < user file < project file (allow-listed keys) < TIERMEM_* < flags.

    Raises UsageError, with the file and the key, for what cannot be read or is unknown.
    """
    env = os.environ if environment is None else environment
    base = home or default_home(env)
    values: dict[str, Value] = {name: setting.default for name, setting in SETTINGS.items()}
    origins = dict.fromkeys(SETTINGS, "default")
    _merge(values, origins, _read(base / "config.toml"), str(base / "config.toml"))
    _merge(values, origins, _from_environment(env), ENVIRONMENT)
    _merge(values, origins, dict(flags or {}), FLAG)
    settings = Settings(base, values, origins)
    return settings if project_root is None else for_project(settings, project_root)


def for_project(settings: Settings, root: Path) -> Settings:
    """Add what a project's own file may set, below environment and flags.

    What it may not set is left as it is, and its origin says so. Raises UsageError.
    """
    path = root / PROJECT_FILE
    values, origins = dict(settings.values), dict(settings.origins)
    asked = {name: value for name, value in _read(path).items() if name in SETTINGS}
    for name in [name for name in asked if not SETTINGS[name].from_project]:
        origins[name] += f" ({path} may not set it)"
        del asked[name]
    open_ones = {n: v for n, v in asked.items() if origins[n] not in (ENVIRONMENT, FLAG)}
    _merge(values, origins, open_ones, str(path))
    return replace(settings, values=values, origins=origins)


def variable(name: str) -> str:
    """Name the environment variable of a setting."""
    return "TIERMEM_" + name.upper().replace(".", "_")


def _from_environment(env: Mapping[str, str]) -> dict[str, Value]:
    return {name: env[variable(name)] for name in SETTINGS if variable(name) in env}


def _read(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as handle:
            data = tomllib.load(handle)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as exc:
        if exc.errno == errno.ENAMETOOLONG:
            return {}
        raise UsageError(
            f"cannot read {path}: {exc.strerror}", hint="make it a readable file, or remove it"
        ) from exc
    except ValueError as exc:
        raise UsageError(f"cannot read {path}: {exc}", hint="repair or remove that file") from exc
    return dict(_flat(data))


def _flat(data: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    pairs: list[tuple[str, Any]] = []
    for key, value in data.items():
        name = f"{prefix}{key}"
        pairs += _flat(value, f"{name}.") if isinstance(value, dict) else [(name, value)]
    return pairs


def _merge(
    values: dict[str, Value], origins: dict[str, str], new: Mapping[str, Any], origin: str
) -> None:
    for name, value in new.items():
        if name not in SETTINGS:
            raise UsageError(
                f"{origin} sets {name!r}, which is no setting",
                hint="see the settings with: tiermem config show",
            )
        values[name] = _cast(name, value, origin)
        origins[name] = origin


def _cast(name: str, value: Any, origin: str) -> Value:
    setting = SETTINGS[name]
    kind = type(setting.default)
    try:
        cast = _number(kind, value) if kind in (int, float) else _plain_text(value)
    except (TypeError, ValueError, OverflowError) as exc:
        raise UsageError(
            f"{origin} sets {name} to {value!r}, which is no {_KINDS[kind]}",
            hint=f"{name}: {setting.doc}",
        ) from exc
    if isinstance(cast, (int, float)) and cast < setting.least:
        raise UsageError(
            f"{origin} sets {name} to {value!r}; it is at least {setting.least:g}",
            hint=f"{name}: {setting.doc}",
        )
    return cast


def _number(kind: type[Value], value: Any) -> Value:
    # TOML's true would count as 1.
    if isinstance(value, bool):
        raise TypeError(value)
    number = kind(value)
    if not math.isfinite(float(number)) or (isinstance(value, float) and number != value):
        raise ValueError(value)
    return number


def _plain_text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value


_KINDS: Mapping[type, str] = {int: "whole number", float: "number", str: "text"}


def _user_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid()) if hasattr(os, "getuid") else "user"
