"""What may import what. The layers themselves are kept by import-linter (pyproject.toml)."""

from __future__ import annotations

import ast
import importlib.util
import subprocess
import sys
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("memory", "tiers", "embeddings")

#: What a hook imports: it has to work, and quickly, when nothing but Python is there.
KERNEL = (
    "tiermem_launch",
    "tiers.errors",
    "tiers.records",
    "tiers.markdown",
    "memory.errors",
    "memory.redaction",
    "memory.loader",
    "memory.relevance",
    "memory.cli.client",
    "memory.cli.front",
)

#: Where somebody starts to import us.
ENTRIES = ("memory.cli.main", "memory.app", "memory.service", "tiers.relay", "embeddings.registry")

HEAVY = ("torch", "sentence_transformers", "mcp", "qdrant_client")

#: Adapters, and who may build them.
ADAPTERS = {
    "tiers.deep_edge": {"memory.app"},
    "tiers.deep_server": {"memory.app"},
    "tiers.archive_sqlite": {"memory.app"},
    "tiers.archive_postgres": {"memory.app"},
    "embeddings.onnx": {"memory.app", "embeddings.registry"},
    "embeddings.sentence_transformers": {"memory.app", "embeddings.registry"},
    "embeddings.openai_http": {"memory.app", "embeddings.registry"},
    "embeddings.hashing": {"memory.app", "embeddings.registry"},
}

READS_THE_ENVIRONMENT = {Path("memory/config.py"), Path("memory/guard/env.py")}


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, encoding="utf-8", check=False, cwd=ROOT
    )


def need(module: str) -> None:
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"{module} is not built yet")


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    return grimp.build_graph(*PACKAGES, cache_dir=None)


@pytest.fixture(scope="module")
def trees() -> dict[Path, ast.Module]:
    return {
        path.relative_to(ROOT): ast.parse(path.read_bytes())
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
    }


@pytest.mark.parametrize("module", KERNEL)
def test_the_kernel_imports_nothing_but_the_standard_library(module: str) -> None:
    need(module)

    done = python(
        "-I", "-S", "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r}); import {module}"
    )

    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("module", ENTRIES)
def test_an_entry_leaves_the_heavy_libraries_alone(module: str) -> None:
    need(module)

    done = python("-c", f"import sys, {module}; print(*sorted(set({HEAVY!r}) & set(sys.modules)))")

    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_an_adapter_is_known_to_those_alone_who_build_it(
    graph: grimp.ImportGraph, adapter: str
) -> None:
    need(adapter)

    assert graph.find_modules_that_directly_import(adapter) <= ADAPTERS[adapter]


def test_async_functions_live_in_the_engine_alone(trees: dict[Path, ast.Module]) -> None:
    places = {
        path
        for path, tree in trees.items()
        if any(isinstance(node, ast.AsyncFunctionDef) for node in ast.walk(tree))
    }

    assert {place for place in places if place.parts[:2] != ("memory", "engine")} == set()


def test_only_the_settings_read_the_environment(trees: dict[Path, ast.Module]) -> None:
    names = {"environ", "environb", "getenv", "getenvb"}
    places = {
        path
        for path, tree in trees.items()
        for node in ast.walk(tree)
        if (isinstance(node, ast.Attribute) and node.attr in names)
        or (isinstance(node, ast.ImportFrom) and names & {alias.name for alias in node.names})
    }

    assert places - READS_THE_ENVIRONMENT == set()
