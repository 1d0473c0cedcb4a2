"""Which project a folder belongs to."""

from __future__ import annotations

import json
import shutil
import subprocess
import uuid
from pathlib import Path

import pytest

from memory.errors import HomeRefused, ProjectRefused, UsageError
from memory.projects import GLOBAL, PROJECT_FILE, Project, Projects, look, write_id_file
from tiers.records import GLOBAL_PROJECT


@pytest.fixture
def registry(tmp_path: Path) -> Projects:
    return Projects(tmp_path / "home")


def folder(path: Path) -> Path:
    path.mkdir(parents=True)
    return path


def repository(path: Path, remote: str = "") -> Path:
    folder(path)
    git(path, "init", "--quiet", ".")
    git(path, "-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", "c", "--allow-empty")
    if remote:
        git(path, "remote", "add", "origin", remote)
    return path


def git(path: Path, *arguments: str) -> None:
    subprocess.run(["git", "-C", str(path), *arguments], check=True, capture_output=True)


def marked(registry: Projects, path: Path) -> Project:
    """Do to a folder what `init` does."""
    project = registry.resolve(path)
    write_id_file(look(path).root, project.key)
    return project


def test_a_folder_has_one_key_for_ever(registry: Projects, tmp_path: Path) -> None:
    place = folder(tmp_path / "a")

    first = registry.resolve(place)

    assert registry.resolve(place) == first
    assert Projects(tmp_path / "home").resolve(place) == first
    assert uuid.UUID(first.key).version == 4


def test_two_folders_are_two_projects(registry: Projects, tmp_path: Path) -> None:
    one, other = folder(tmp_path / "one"), folder(tmp_path / "other")

    assert registry.resolve(one).key != registry.resolve(other).key


def test_find_registers_nothing(registry: Projects, tmp_path: Path) -> None:
    assert registry.find(folder(tmp_path / "a")) is None
    assert not (tmp_path / "home").exists()


def test_a_subfolder_of_a_repository_is_the_same_project(
    registry: Projects, tmp_path: Path
) -> None:
    root = repository(tmp_path / "repo")
    deep = folder(root / "src" / "deep")

    assert registry.resolve(deep) == registry.resolve(root)


def test_worktrees_share_one_project(registry: Projects, tmp_path: Path) -> None:
    root = repository(tmp_path / "repo")
    git(root, "worktree", "add", "-q", str(tmp_path / "tree"), "-b", "other")

    assert registry.resolve(tmp_path / "tree") == registry.resolve(root)


def test_clones_of_one_repository_are_two_projects(registry: Projects, tmp_path: Path) -> None:
    one, other = repository(tmp_path / "one", "u@h:x"), repository(tmp_path / "two", "u@h:x")

    assert registry.resolve(one).key != registry.resolve(other).key


def test_a_repository_inside_a_project_is_a_project_of_its_own(
    registry: Projects, tmp_path: Path
) -> None:
    outer = folder(tmp_path / "outer")
    key = registry.resolve(outer).key

    assert registry.resolve(repository(outer / "inner")).key != key


def test_outside_of_git_a_folder_belongs_to_the_project_above_it(
    registry: Projects, tmp_path: Path
) -> None:
    outer = folder(tmp_path / "outer")
    inner = folder(outer / "notes" / "2026")

    assert registry.resolve(outer) == registry.resolve(inner)


def test_a_marked_folder_below_a_project_is_its_own(registry: Projects, tmp_path: Path) -> None:
    outer = folder(tmp_path / "outer")
    inner = folder(outer / "inner")
    registry.resolve(outer)
    own = str(uuid.uuid4())
    write_id_file(inner, own)

    assert registry.resolve(folder(inner / "below")).key == own


def test_the_home_of_a_user_does_not_swallow_the_folders_in_it(
    registry: Projects, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = folder(tmp_path / "user")
    monkeypatch.setenv("HOME", str(user))
    at_home = registry.resolve(user)
    above = registry.resolve(tmp_path)

    below = registry.resolve(folder(user / "client-work"))

    assert below.key not in (at_home.key, above.key)


def test_a_symbolic_link_leads_to_the_same_project(registry: Projects, tmp_path: Path) -> None:
    real = folder(tmp_path / "real")
    link = tmp_path / "link"
    link.symlink_to(real)

    assert registry.resolve(link) == registry.resolve(real)


def test_a_moved_folder_with_an_id_file_keeps_its_key(registry: Projects, tmp_path: Path) -> None:
    project = marked(registry, folder(tmp_path / "before"))
    (tmp_path / "before").rename(tmp_path / "after")

    moved = registry.resolve(tmp_path / "after")

    assert moved.key == project.key
    assert moved.anchor == str(tmp_path / "after")


def test_a_moved_folder_without_an_id_file_is_a_new_project(
    registry: Projects, tmp_path: Path
) -> None:
    key = registry.resolve(folder(tmp_path / "before")).key
    (tmp_path / "before").rename(tmp_path / "after")

    assert registry.resolve(tmp_path / "after").key != key


def test_a_new_folder_at_the_old_place_is_not_the_moved_project(
    registry: Projects, tmp_path: Path
) -> None:
    project = marked(registry, folder(tmp_path / "before"))
    (tmp_path / "before").rename(tmp_path / "after")
    registry.resolve(tmp_path / "after")

    assert registry.resolve(folder(tmp_path / "before")).key != project.key


def test_a_copied_id_file_is_refused_until_it_is_adopted(
    registry: Projects, tmp_path: Path
) -> None:
    original = folder(tmp_path / "original")
    project = marked(registry, original)
    copy = tmp_path / "copy"
    shutil.copytree(original, copy)

    for ask in (registry.resolve, registry.find):
        with pytest.raises(ProjectRefused, match=str(original)) as refused:
            ask(copy)
        assert "init --adopt" in refused.value.hint

    assert registry.adopt(copy).key == project.key
    assert registry.resolve(copy).key == project.key
    with pytest.raises(ProjectRefused):
        registry.resolve(original)


def test_an_id_file_of_a_repository_with_another_remote_is_refused(
    registry: Projects, tmp_path: Path
) -> None:
    mine = repository(tmp_path / "mine", "git@host:me/mine")
    project = marked(registry, mine)
    shutil.rmtree(mine)
    stranger = repository(tmp_path / "stranger", "git@host:stranger/theirs")
    write_id_file(stranger, project.key)

    with pytest.raises(ProjectRefused):
        registry.resolve(stranger)


def test_an_unknown_id_file_becomes_a_project_under_that_id(
    registry: Projects, tmp_path: Path
) -> None:
    theirs = str(uuid.uuid4())
    write_id_file(folder(tmp_path / "clone"), theirs)

    assert registry.resolve(tmp_path / "clone").key == theirs


def test_adopting_an_unknown_id_leaves_the_former_project_in_the_registry(
    registry: Projects, tmp_path: Path
) -> None:
    place = folder(tmp_path / "a")
    former = registry.resolve(place)
    theirs = str(uuid.uuid4())
    (place / PROJECT_FILE).write_text(f'project = "{theirs}"\n', encoding="utf-8")

    adopted = registry.adopt(place)

    assert adopted.key == theirs
    assert registry.resolve(place) == adopted
    assert registry.by_key(former.key) is not None
    (place / PROJECT_FILE).write_text(f'project = "{former.key}"\n', encoding="utf-8")
    assert registry.adopt(place).key == former.key


def test_writing_the_id_twice_changes_nothing_and_keeps_settings(tmp_path: Path) -> None:
    path = tmp_path / PROJECT_FILE
    path.write_text("[load]\nmax_files = 3\n", encoding="utf-8")
    key = str(uuid.uuid4())

    assert write_id_file(tmp_path, key)
    before = path.read_bytes()
    assert not write_id_file(tmp_path, key)

    assert path.read_bytes() == before
    assert before.endswith(b"[load]\nmax_files = 3\n")
    with pytest.raises(UsageError, match="names the project"):
        write_id_file(tmp_path, str(uuid.uuid4()))


@pytest.mark.parametrize(
    "content",
    [b"project = ", b"\xff\xfe", b'project = "no uuid"', b"project = 5", b"project = [1]"],
)
def test_a_broken_id_file_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / PROJECT_FILE).write_bytes(content)

    with pytest.raises(UsageError, match=PROJECT_FILE) as refused:
        look(tmp_path)

    assert "repair" in refused.value.hint


@pytest.mark.parametrize("name", ["missing", "file", "n" * 5_000, "nul\0byte"])
def test_what_is_no_folder_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(UsageError, match="no folder"):
        look(tmp_path / name)


def test_a_folder_whose_path_is_not_unicode_is_refused(tmp_path: Path) -> None:
    place = folder(tmp_path / "bad\udcffname")

    with pytest.raises(UsageError, match="not UTF-8"):
        look(place)


@pytest.mark.parametrize("content", ["{", "[]", '{"a": 1}', '{"a": {"nope": 1}}'])
def test_a_broken_registry_is_an_error_and_stays_as_it_is(tmp_path: Path, content: str) -> None:
    home = folder(tmp_path / "home")
    (home / "projects.json").write_text(content, encoding="utf-8")

    with pytest.raises(HomeRefused, match=r"projects\.json is damaged") as refused:
        Projects(home).resolve(folder(tmp_path / "a"))

    assert "backup" in refused.value.hint
    assert (home / "projects.json").read_text(encoding="utf-8") == content


def test_a_home_that_cannot_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    place = folder(tmp_path / "a")

    with pytest.raises(HomeRefused):
        Projects(tmp_path / "file").resolve(place)
    with pytest.raises(HomeRefused):
        Projects(tmp_path / "file" / "home").resolve(place)
    with pytest.raises(HomeRefused):
        Projects(tmp_path / ("n" * 300)).resolve(place)


def test_two_projects_cannot_share_a_hot_root(registry: Projects, tmp_path: Path) -> None:
    one = registry.resolve(folder(tmp_path / "one"))
    other = registry.resolve(folder(tmp_path / "other"))
    registry.set_hot_root(one.key, tmp_path / "shared")

    with pytest.raises(UsageError, match="hot files of the project one"):
        registry.set_hot_root(other.key, tmp_path / "shared")

    assert registry.set_hot_root(one.key, None).hot_root == ""


def test_the_registry_is_replaced_as_a_whole(registry: Projects, tmp_path: Path) -> None:
    registry.resolve(folder(tmp_path / "a"))
    before = json.loads((tmp_path / "home" / "projects.json").read_text(encoding="utf-8"))

    registry.resolve(folder(tmp_path / "b"))

    after = json.loads((tmp_path / "home" / "projects.json").read_text(encoding="utf-8"))
    assert before.items() < after.items()


# The memories of all projects.


def test_the_global_project_is_known_by_its_key_and_has_no_folder(
    registry: Projects, tmp_path: Path
) -> None:
    project = registry.by_key(GLOBAL_PROJECT)

    assert project is not None
    assert (project.key, project.name, project.anchor) == ("global", "global", "")
    assert project.hot_folder(tmp_path) == tmp_path / "projects" / "global" / "memory"
    assert not (tmp_path / "home").exists()


def test_the_global_project_is_listed_once_it_has_a_place_for_files(
    registry: Projects, tmp_path: Path
) -> None:
    one = registry.resolve(folder(tmp_path / "a"))
    assert registry.all() == [one]

    folder(GLOBAL.hot_folder(tmp_path / "home"))

    assert registry.all() == [one, GLOBAL]


def test_no_folder_becomes_the_global_project(registry: Projects, tmp_path: Path) -> None:
    for name in ("global", "projects/global/memory"):
        assert registry.resolve(folder(tmp_path / name)).key != GLOBAL_PROJECT
    declares = folder(tmp_path / "declares")
    (declares / PROJECT_FILE).write_text('project = "global"\n', encoding="utf-8")

    for ask in (registry.resolve, registry.find, registry.adopt):
        with pytest.raises(UsageError, match=PROJECT_FILE):
            ask(declares)


def test_a_line_of_the_registry_gives_the_global_project_no_folder(
    registry: Projects, tmp_path: Path
) -> None:
    place = folder(tmp_path / "mine")
    line = {"key": "global", "name": "mine", "anchor": str(place)}
    home = folder(tmp_path / "home")
    (home / "projects.json").write_text(json.dumps({"global": line}), encoding="utf-8")

    assert registry.by_key(GLOBAL_PROJECT) == GLOBAL
    assert registry.all() == []
    assert registry.resolve(place).key != GLOBAL_PROJECT


def test_the_global_hot_root_is_neither_chosen_nor_shared(
    registry: Projects, tmp_path: Path
) -> None:
    one = registry.resolve(folder(tmp_path / "one"))

    with pytest.raises(UsageError, match="all projects"):
        registry.set_hot_root(GLOBAL_PROJECT, tmp_path / "elsewhere")
    with pytest.raises(UsageError, match="project global"):
        registry.set_hot_root(one.key, GLOBAL.hot_folder(tmp_path / "home"))
