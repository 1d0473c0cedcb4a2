"""Settings: which source wins, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from memory.config import PROJECT_FILE, SETTINGS, default_home, for_project, load_settings, variable
from memory.errors import HomeRefused, UsageError

LIMIT = variable("search.limit")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


def user_file(home: Path, text: str) -> None:
    (home / "config.toml").write_text(text, encoding="utf-8")


def project_file(project: Path, text: str) -> None:
    (project / PROJECT_FILE).write_text(text, encoding="utf-8")


def test_defaults_hold_when_nobody_says_otherwise(home: Path, project: Path) -> None:
    settings = load_settings(home=home, project_root=project, environment={})

    assert settings.values == {name: setting.default for name, setting in SETTINGS.items()}
    assert set(settings.origins.values()) == {"default"}


def test_each_source_wins_over_the_one_before(home: Path, project: Path) -> None:
    def limit(environment: dict[str, str], **flags: int) -> tuple[int, str]:
        settings = load_settings(
            home=home,
            project_root=project,
            environment=environment,
            flags={name.replace("__", "."): value for name, value in flags.items()},
        )
        return settings.count("search.limit"), settings.origins["search.limit"]

    assert limit({}) == (10, "default")
    user_file(home, "[search]\nlimit = 11\n")
    assert limit({}) == (11, str(home / "config.toml"))
    project_file(project, "[search]\nlimit = 12\n")
    assert limit({}) == (12, str(project / PROJECT_FILE))
    assert limit({LIMIT: "13"}) == (13, "environment")
    assert limit({LIMIT: "13"}, search__limit=14) == (14, "flag")


def test_a_repository_may_size_budgets_and_nothing_else(home: Path, project: Path) -> None:
    project_file(
        project,
        'deep = "https://evil.example"\n[embedding]\nmodel = "openai:https://evil.example#m"\n'
        "[load]\nmax_files = 2\n",
    )

    settings = load_settings(home=home, project_root=project, environment={})

    assert settings.count("load.max_files") == 2
    for name in ("deep", "embedding.model"):
        assert settings.values[name] == SETTINGS[name].default
        assert "may not set it" in settings.origins[name]
        assert PROJECT_FILE in settings.origins[name]


def test_no_setting_that_chooses_a_place_or_a_model_is_open_to_a_repository() -> None:
    open_ones = {name for name, setting in SETTINGS.items() if setting.from_project}

    assert open_ones == {
        "load.memory_chars",
        "load.topic_chars",
        "load.max_files",
        "search.limit",
    }


def test_the_settings_of_a_running_engine_take_in_those_of_a_project(
    home: Path, project: Path
) -> None:
    project_file(project, "[load]\nmax_files = 2\n[search]\nlimit = 3\n")
    engine = load_settings(home=home, environment={LIMIT: "7"})

    mixed = for_project(engine, project)

    assert (mixed.count("load.max_files"), mixed.count("search.limit")) == (2, 7)
    assert engine.count("load.max_files") == 5


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("x = [", "config.toml"),
        ("nonsense = 1", "'nonsense'"),
        ("search = 3", "'search'"),
        ("[owner]\nx = 1", r"'owner\.x'"),
        ("[search]\nlimit = 'many'", "no whole number"),
        ("[search]\nlimit = true", "no whole number"),
        ("[search]\nlimit = 2.5", "no whole number"),
        ("[search]\nlimit = 1979-05-27", "no whole number"),
        ("[search]\nlimit = 0", "at least 1"),
        ("[search]\nlimit = -3", "at least 1"),
        ("[engine]\nidle_minutes = nan", "no number"),
        ("[engine]\nidle_minutes = inf", "no number"),
        ("[engine]\nidle_minutes = -1", "at least 0"),
        ("[redaction]\nallow = ['a', 'b']", "no text"),
        ("owner = 5", "no text"),
    ],
)
def test_a_setting_that_cannot_be_meant_is_named(home: Path, text: str, complaint: str) -> None:
    user_file(home, text)

    with pytest.raises(UsageError, match=complaint) as refused:
        load_settings(home=home, environment={})

    assert "config.toml" in refused.value.message
    assert refused.value.hint


def test_a_settings_file_that_is_no_text_is_named(home: Path) -> None:
    (home / "config.toml").write_bytes(b"\xff\xfe")

    with pytest.raises(UsageError, match=r"config\.toml"):
        load_settings(home=home, environment={})


def test_a_settings_file_that_is_a_folder_is_named(home: Path) -> None:
    (home / "config.toml").mkdir()

    with pytest.raises(UsageError, match="Is a directory"):
        load_settings(home=home, environment={})


def test_a_variable_that_cannot_be_meant_is_named(home: Path) -> None:
    with pytest.raises(UsageError, match=r"environment sets search\.limit to 'abc'"):
        load_settings(home=home, environment={LIMIT: "abc"})


def test_whole_numbers_may_be_written_as_floats(home: Path) -> None:
    user_file(home, "[save]\nmax_bytes = 2e6\n")

    assert load_settings(home=home, environment={}).count("save.max_bytes") == 2_000_000


def test_the_home_is_where_the_variable_says(tmp_path: Path) -> None:
    assert default_home({"TIERMEM_HOME": str(tmp_path / "x y é")}) == tmp_path / "x y é"
    assert default_home({"TIERMEM_HOME": "relative"}) == Path.cwd() / "relative"
    assert default_home({"TIERMEM_HOME": ""}).name == "tiermem"


def test_a_home_whose_path_is_not_unicode_is_refused() -> None:
    with pytest.raises(HomeRefused, match="not UTF-8"):
        default_home({"TIERMEM_HOME": "/tmp/bad\udcff"})


def test_the_owner_is_the_user_unless_it_is_set(home: Path) -> None:
    assert load_settings(home=home, environment={}).owner
    assert load_settings(home=home, environment={"TIERMEM_OWNER": "ann"}).owner == "ann"


def test_allowed_secrets_are_read_as_a_list(home: Path) -> None:
    settings = load_settings(home=home, environment={}, flags={"redaction.allow": " a, b ,,"})

    assert settings.allowed_secrets == {"a", "b"}
