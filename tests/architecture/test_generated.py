"""What is made from the code is what the code says."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def generate() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", ROOT / "scripts" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_generated_files_are_up_to_date(generate: ModuleType) -> None:
    """Renew them with scripts/generate."""
    made: dict[Path, str] = generate.made()

    stale = [path.name for path, text in made.items() if path.read_text(encoding="utf-8") != text]

    assert len(made) >= 3
    assert stale == []


def test_the_check_fails_when_a_file_is_stale(
    generate: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stale = tmp_path / "page.md"
    stale.write_text("old", encoding="utf-8")
    monkeypatch.setattr(generate, "made", lambda: {stale: "new"})
    monkeypatch.setattr(generate, "ROOT", tmp_path)

    monkeypatch.setattr("sys.argv", ["generate", "--check"])
    assert generate.main() == 1
    monkeypatch.setattr("sys.argv", ["generate"])
    assert generate.main() == 0
    assert stale.read_text(encoding="utf-8") == "new"
