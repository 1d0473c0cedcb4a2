"""Settings and where each came from: the only place that reads the environment."""

from __future__ import annotations

import getpass
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from memory.errors import UsageError

#: Settings of one project, in its own folder; written by `tiermem init`.
PROJECT_FILE = ".tiermem.toml"

Value = str | int | float | bool


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting: its default, what it is for, and whether a repository may set it.

    A repository is not trusted: it may size budgets, never choose paths, models or endpoints.
    """

    default: Value
    doc: str
    from_project: bool = False


SETTINGS: Mapping[str, Setting] = {
    "owner": Setting("", "who owns private memories; empty: the name of the user"),
    "embedding.model": Setting(
        "all-MiniLM-L6-v2", "a known model, a folder (./…), owner/name on the hub, openai:URL#model"
    ),
    "embedding.backend": Setting("auto", "auto, onnx or sentence-transformers"),
    "embedding.api_key": Setting("", "key of an openai: endpoint"),
    "embedding.threads": Setting(2, "threads that one embedding uses"),
    "deep": Setting("edge:", "the deep tier: edge: (in process)"),
    "archive": Setting("sqlite:", "the archive: sqlite: (a file in the home)"),
    "engine.idle_minutes": Setting(30.0, "the engine ends after so long without a request"),
    "save.max_bytes": Setting(1_000_000, "the longest text that is saved as one memory"),
    "hot.deletion_settle_s": Setting(30.0, "a deleted hot file counts as deleted after so long"),
    "hot.settle_s": Setting(0.15, "a changed hot file is read when it has been quiet so long"),
    "hot.hold_share": Setting(0.2, "the loss of more than this share of the files is held"),
    "load.memory_chars": Setting(9_000, "characters of MEMORY.md that are loaded", True),
    "load.topic_chars": Setting(18_000, "characters of topic files that are loaded", True),
    "load.max_files": Setting(5, "topic files that are loaded when not all fit", True),
    "index.max_lines": Setting(200, "lines that MEMORY.md may have", True),
    "index.max_bytes": Setting(25_000, "bytes that MEMORY.md may have", True),
    "search.limit": Setting(10, "hits that a search gives", True),
    "deep.min_free_mb": Setting(256, "free space below which nothing is indexed"),
    "redaction.allow": Setting("", "kinds of secrets that are not masked, with commas between"),
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
        return Path(chosen).expanduser().absolute()
    # Heavy only for hooks, which do not come here without a home of their own.
    from platformdirs import user_data_path

    return user_data_path("tiermem", appauthor=False)


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
    if project_root is not None:
        path = project_root / PROJECT_FILE
        allowed = {k: v for k, v in _read(path).items() if k in SETTINGS}
        refused = sorted(name for name in allowed if not SETTINGS[name].from_project)
        for name in refused:
            origins[name] += f" ({path} may not set it)"
            del allowed[name]
        _merge(values, origins, allowed, str(path))
    _merge(values, origins, _from_environment(env), "environment")
    _merge(values, origins, dict(flags or {}), "flag")
    return Settings(base, values, origins)


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
    except (OSError, tomllib.TOMLDecodeError) as exc:
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
    kind = type(SETTINGS[name].default)
    try:
        if kind is bool:
            return value if isinstance(value, bool) else _TRUTH[str(value).lower()]
        return kind(value)
    except (KeyError, TypeError, ValueError) as exc:
        raise UsageError(
            f"{origin} sets {name} to {value!r}, which is no {kind.__name__}",
            hint=SETTINGS[name].doc,
        ) from exc


_TRUTH = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}


def _user_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid()) if hasattr(os, "getuid") else "user"
