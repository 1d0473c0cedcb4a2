"""What users get wrong: each time an exit code, a message with what to do, and nothing lost."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.homes import Home, wait_until
from tests.support.in_process import run


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    folder = tmp_path_factory.mktemp("bad-input")
    home = Home(folder / "home", folder / "project")
    home.cli("save", "the retry budget is five attempts", "--name", "retry budget")
    yield home
    home.end()


@pytest.fixture
def kept(place: Home) -> Iterator[Home]:
    """A home whose one memory, and whose engine, must survive whatever the test does."""
    pid = place.engine_pid()
    before = place.client().call("list", place.request())
    yield place
    assert place.client().call("list", place.request()) == before
    assert place.engine_pid() == pid


def refused(home: Home, *arguments: str, code: int = 2, stdin: bytes = b"") -> str:
    """Run what must be refused; return the complaint."""
    done = run(home, *arguments, stdin=stdin)
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    return done.stderr


def says_what_to_do(complaint: str) -> bool:
    return "→ " in complaint or "Try 'tiermem " in complaint


@pytest.mark.parametrize("text", ["", " ", "\n\t "], ids=repr)
def test_no_text(kept: Home, text: str) -> None:
    complaint = refused(kept, "save", text)

    assert "no text" in complaint and says_what_to_do(complaint)
    assert "no text" in refused(kept, "save", "-", stdin=text.encode())


def test_five_megabytes_of_text(kept: Home) -> None:
    complaint = refused(kept, "save", "-", stdin=b"word " * 1_000_000)

    assert "5,000,000 bytes" in complaint and "tiermem import" in complaint


def test_text_with_a_nul_is_kept_with_a_mark(place: Home) -> None:
    saved = place.json("save", "-", "--name", "nul", stdin=b"before\0after")

    assert place.json("get", saved["id"])["text"] == "before\ufffdafter"
    place.cli("forget", saved["id"], "--yes")


@pytest.mark.parametrize("stdin", [b"caf\xe9", b"\xff\xfea\x00", b"\xed\xa0\x80"])
def test_text_that_is_not_utf8(kept: Home, stdin: bytes) -> None:
    complaint = kept.cli("save", "-", stdin=stdin, code=2).stderr

    assert "not UTF-8" in complaint and "iconv" in complaint


@pytest.mark.parametrize(
    "arguments",
    [
        ["save", "bad \udcff"],
        ["save", "x", "--name", "bad \udcff"],
        ["save", "x", "--tag", "\udcff"],
        ["save", "x", "--description", "\udcff"],
        ["save", "x", "--id", "\udcff"],
        ["search", "\udcff"],
        ["get", "\udcff"],
        ["forget", "\udcff"],
        ["list", "--project", "\udcff"],
    ],
    ids=lambda arguments: " ".join(arguments).encode("ascii", "replace").decode(),
)
def test_arguments_that_are_not_utf8(kept: Home, arguments: list[str]) -> None:
    complaint = kept.cli(*arguments, code=2).stderr

    assert "UTF-8" in complaint and says_what_to_do(complaint)
    assert "Traceback" not in complaint


@pytest.mark.parametrize(
    "name",
    ["../up", "a/../../b", "/etc/passwd", "back\\slash", "two\nlines", "n" * 300, "n" * 10_000, ""],
)
def test_an_impossible_name(kept: Home, name: str) -> None:
    assert "name" in refused(kept, "save", "x", "--name", name)


@pytest.mark.parametrize(
    ("option", "value", "choices"),
    [
        ("--type", "nope", "'reference'"),
        ("--importance", "huge", "'high'"),
        ("--tier", "cold", "'deep'"),
        ("--tier", "lukewarm", "'hot'"),
        ("--visibility", "secret", "'private'"),
    ],
)
def test_an_unknown_choice(kept: Home, option: str, value: str, choices: str) -> None:
    complaint = refused(kept, "save", "x", option, value)

    assert option in complaint and choices in complaint and says_what_to_do(complaint)


@pytest.mark.parametrize("ttl", ["0d", "-1d", "abc", "99999999d", ""])
def test_an_impossible_lifetime(kept: Home, ttl: str) -> None:
    complaint = refused(kept, "save", "x", "--ttl", ttl)

    assert "no lifetime" in complaint and "14d" in complaint


@pytest.mark.parametrize("since", ["yesterday", "2026-13-01", "", "0001-01-01T00:00+14:00"])
def test_an_impossible_time(kept: Home, since: str) -> None:
    assert "2026-11-30" in refused(kept, "search", "x", "--since", since)


@pytest.mark.parametrize(
    "arguments",
    [
        ["search", "x", "--limit", "0"],
        ["search", "x", "--limit", "201"],
        ["search", "x", "--limit", "many"],
        ["search", "x", "--tier", "lukewarm"],
        ["list", "--limit", "0"],
        ["list", "--offset", "-1"],
        ["load", "--max-files", "-1"],
        ["search"],
        ["search", ""],
        ["search", "q" * 100_000],
        ["get"],
        ["forget"],
        ["forget", "a", "--query", "b"],
        ["held", "burn"],
        ["save", "two", "texts"],
        ["import"],
        ["export"],
        ["nonsense"],
    ],
    ids=lambda arguments: " ".join(arguments)[:30],
)
def test_usage(kept: Home, arguments: list[str]) -> None:
    assert says_what_to_do(refused(kept, *arguments))


@pytest.mark.parametrize("query", ["the of and", "?!.,;:", "🎉🎉", "q " * 9_000])
def test_an_odd_query_is_answered(kept: Home, query: str) -> None:
    done = run(kept, "search", query, "--json")

    assert done.returncode == 0
    assert json.loads(done.stdout)["degraded"] == []


@pytest.mark.parametrize("verb", ["get", "history", "forget"])
@pytest.mark.parametrize("ref", ["nope", "11111111-2222-4333-8444-555555555555", "%", " "])
def test_an_unknown_id(kept: Home, verb: str, ref: str) -> None:
    code = 2 if verb == "forget" and not ref else 1
    complaint = refused(kept, verb, ref, code=code)

    assert "no memory goes by" in complaint and "tiermem list" in complaint


def test_a_save_of_an_unknown_id(kept: Home) -> None:
    missing = "11111111-2222-4333-8444-555555555555"

    assert "tiermem list" in refused(kept, "save", "x", "--id", missing, code=1)
    assert "tiermem list" in refused(kept, "save", "x", "--supersedes", missing, code=1)


def test_a_start_of_ids_that_is_not_enough(home: Home) -> None:
    ids = [f"abcd0000-0000-4000-8000-00000000000{number}" for number in (1, 2)]
    items = [{"text": f"twin {one}", "id": one} for one in ids]
    home.client().call("save-batch", home.request(items=items))

    complaint = refused(home, "get", "abcd", code=1)

    assert all(one in complaint for one in ids) and "more characters" in complaint
    assert refused(home, "get", ids[0][:3], code=1)
    assert home.json("get", ids[0])["id"] == ids[0]


def test_an_id_of_another_project(home: Home, tmp_path: Path) -> None:
    saved = home.json("save", "mine")
    other = tmp_path / "other"
    other.mkdir()

    for arguments in (["get", saved["id"]], ["forget", saved["id"], "--yes"]):
        assert "no memory" in home.cli(*arguments, project=other, code=1).stderr
    home.cli("save", "taken over", "--id", saved["id"], project=other, code=1)

    assert home.json("get", saved["id"])["text"] == "mine"


def test_a_forget_by_words_spares_what_is_only_near(home: Home) -> None:
    home.cli("save", "the office address is Bern")
    home.cli("save", "the postal address is Basel")

    assert "all the words" in refused(home, "forget", "--query", "zzzz", "--yes", code=1)
    assert "2 memories" in refused(home, "forget", "address", "--yes", code=1)
    home.cli("forget", "office address", "--yes")

    assert [memory["name"] for memory in home.json("list")["memories"]] == [
        "the postal address is Basel"
    ]


@pytest.mark.parametrize("verb", ["list", "load", "init", "status", "import"])
@pytest.mark.parametrize("folder", ["/no/such/folder", "/etc/passwd", "/" + "n" * 1_000])
def test_a_project_that_is_no_folder(kept: Home, verb: str, folder: str) -> None:
    arguments = [verb, "notes.md"] if verb == "import" else [verb]

    complaint = refused(kept, *arguments, "--project", folder)

    assert "no folder" in complaint and "--project DIR" in complaint


def test_a_full_disk_loses_nothing(home: Home) -> None:
    home.environment["TIERMEM_DEEP_MIN_FREE_MB"] = "999999999"

    saved = home.json("save", "the retry budget is five attempts")

    wait_until(lambda: home.json("status", code=None)["tiers"]["deep"]["state"] != "ready")
    status = home.cli("status", code=3).stdout
    assert "free" in status
    assert home.json("status", code=3)["tiers"]["deep"]["pending"] == 1
    assert home.json("search", "retry budget", code=None)["hits"][0]["id"] == saved["id"]

    home.cli("stop")
    del home.environment["TIERMEM_DEEP_MIN_FREE_MB"]

    def is_indexed() -> bool:
        deep = home.json("status", code=None)["tiers"]["deep"]
        return (deep["count"], deep["pending"], deep["state"]) == (1, 0, "ready")

    wait_until(is_indexed)
    assert not home.json("search", "retry budget")["hits"][0]["pending"]


# Homes that cannot be used.


@pytest.mark.parametrize(
    "verb", [["save", "x"], ["load"], ["status"], ["init"], ["import", "a.md"]], ids=" ".join
)
def test_a_home_that_cannot_be(home: Home, tmp_path: Path, verb: list[str]) -> None:
    (tmp_path / "file").write_text("precious", encoding="utf-8")

    for bad in (tmp_path / "file", tmp_path / "file" / "below", tmp_path / ("n" * 300)):
        home.environment["TIERMEM_HOME"] = str(bad)
        complaint = refused(home, *verb, code=1)
        assert "cannot be used" in complaint or "cannot read" in complaint
        assert "TIERMEM_HOME" in complaint

    assert (tmp_path / "file").read_text(encoding="utf-8") == "precious"


def test_a_home_whose_path_is_not_utf8(home: Home, tmp_path: Path) -> None:
    home.environment["TIERMEM_HOME"] = str(tmp_path / "bad\udcff")

    assert "not UTF-8" in refused(home, "save", "x", code=1)


@pytest.mark.parametrize("name", ["with space", "é 日本 🎉", "[bold]x", "d" * 120, "%s {x} $HOME"])
def test_an_unusual_home_is_a_home(tmp_path: Path, name: str) -> None:
    home = Home(tmp_path / name, tmp_path / f"project {name}")
    try:
        saved = home.json("save", "deploys happen on Tuesdays")

        assert saved["path"].startswith(str(home.path))
        assert home.json("search", "deploys")["hits"][0]["id"] == saved["id"]
        assert str(home.path) in home.cli("status", code=None).stdout
        assert home.json("stop") == {"stopped": True}
    finally:
        home.end()


@pytest.mark.parametrize(
    "verb", [["save", "x"], ["search", "x"], ["load"], ["config", "show"]], ids=" ".join
)
@pytest.mark.parametrize(
    "content", [b"x = [", b"\xff\xfe", b"nonsense = 1", b"[search]\nlimit = 'many'"]
)
def test_broken_settings_are_named(home: Home, verb: list[str], content: bytes) -> None:
    home.path.mkdir()
    (home.path / "config.toml").write_bytes(content)

    complaint = refused(home, *verb)

    assert "config.toml" in complaint and says_what_to_do(complaint)


def test_broken_settings_do_not_keep_an_engine_alive(home: Home) -> None:
    home.cli("save", "x")
    (home.path / "config.toml").write_text("x = [", encoding="utf-8")

    refused(home, "list")

    assert home.json("stop") == {"stopped": True}


def test_a_setting_that_the_engine_refuses_is_said(home: Home) -> None:
    home.environment["TIERMEM_ARCHIVE"] = "postgresql://nowhere"

    complaint = home.cli("save", "x", code=1).stderr

    assert "archive" in complaint and "postgresql://nowhere" in complaint


def test_a_repository_cannot_choose_models_and_places(home: Home) -> None:
    (home.project / ".tiermem.toml").write_text(
        'deep = "https://evil.example"\n[embedding]\nmodel = "openai:https://evil.example#m"\n'
        "[load]\nmax_files = 1\n",
        encoding="utf-8",
    )

    settings = home.json("config", "show")["settings"]

    assert settings["embedding.model"]["value"] == "hashing"
    assert settings["deep"]["value"] == "edge:"
    for name in ("embedding.model", "deep"):
        assert "may not set it" in settings[name]["origin"]
    assert settings["load.max_files"]["value"] == 1
    assert "may not set it" in home.cli("config", "show").stdout
    home.cli("save", "x")
    assert home.json("status", code=None)["engine"]["model"] == "hashing"


@pytest.mark.parametrize("content", [b"project = ", b"\xff\xfe", b'project = "no uuid"'])
@pytest.mark.parametrize(
    "verb", [["save", "x"], ["load"], ["config", "show"], ["init"]], ids=" ".join
)
def test_a_broken_id_file_is_named(home: Home, verb: list[str], content: bytes) -> None:
    (home.project / ".tiermem.toml").write_bytes(content)

    complaint = refused(home, *verb)

    assert ".tiermem.toml" in complaint and "repair" in complaint
    assert (home.project / ".tiermem.toml").read_bytes() == content


def test_a_broken_registry_is_named_and_left_alone(home: Home) -> None:
    home.cli("save", "x")
    home.cli("stop")
    registry = home.path / "projects.json"
    whole = registry.read_bytes()
    registry.write_bytes(whole[:-20])

    for verb in (["list"], ["load"], ["init"]):
        complaint = home.cli(*verb, code=1).stderr
        assert "projects.json" in complaint and "backup" in complaint
    assert registry.read_bytes() == whole[:-20]

    registry.write_bytes(whole)
    assert json.loads(home.cli("list", "--json").stdout)["total"] == 1
