"""The page on the source system's tools answers each of them, and names only tools that exist."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from memory.cli.main import cli

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "source-tools.md").read_text(encoding="utf-8")

SOURCE_TOOLS = {
    "A": "memory_store memory_recall memory_forget pin_memory memory_boost memory_verify "
    "memory_trace_feedback session_recalled rag_search",
    "B": "memory_scratch context_budget",
    "C": "memory_promote memory_summarize memory_consolidate memory_prune memory_organize "
    "hippocampal_consolidation",
    "D": "episode learning procedure trajectory predictive_preload self_assess",
    "E": "memory_trace memory_impact contradiction_check memory_provenance",
    "F": "graph_store graph_query graph_traverse graph_neighbors graph_path graph_time_travel",
    "G": "world_model process_query process_lookup process_validate",
    "H": "benchmark benchmark_suite skill_discovery",
    "I": "data_sovereignty federation",
    "J": "governance_report governance_gap_analysis compliance_dashboard guardrail_proof",
    "K": "agent_identity nhi_lifecycle constitutional_monitor constitutional_contract",
    "L": "formal_verify digital_twin time_travel red_team causal_debug flow_debug semantic_diff "
    "agent_dev_env",
    "M": "task_specialization cost_router parl_coordinator bft_consensus micro_swarm a2a_protocol "
    "agent_marketplace stigmergy stigmergy_deposit stigmergy_sense stigmergy_decay",
    "N": "workflow_author workflow_optimizer temporal_planner meta_agent multimodal_input",
}

#: What the second column says when no tool of ours is named.
NOTHING = {"Not yet", "Out of scope"}


@dataclass(frozen=True)
class Row:
    """One tool of the source system and its answer."""

    group: str
    tool: str
    answer: str
    how: str

    @property
    def answering(self) -> list[str]:
        return re.findall(r"`([^`]+)`", self.answer)

    @property
    def said(self) -> list[str]:
        return re.findall(r"`([^`]+)`", self.how)


def read_rows() -> list[Row]:
    rows: list[Row] = []
    group = ""
    for line in PAGE.splitlines():
        if heading := re.match(r"## ([A-N])\. ", line):
            group = heading[1]
        elif found := re.match(r"\| `(\w+)` \| ([^|]+) \| ([^|]+) \|$", line):
            rows.append(Row(group, *found.groups()))
    return rows


ROWS = read_rows()


@cache
def surface() -> list[dict[str, Any]]:
    """Read what the server shows, as generated from the code."""
    path = ROOT / "memory" / "engine" / "mcp_surface.json"
    tools: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["tools"]
    return tools


def our_tools() -> dict[str, set[str]]:
    """Name our tools, and the parameters of each."""
    return {one["name"]: set(one["tool"]["inputSchema"].get("properties", ())) for one in surface()}


def test_each_of_the_74_tools_is_answered_once_in_its_group() -> None:
    wanted = {(group, tool) for group, names in SOURCE_TOOLS.items() for tool in names.split()}

    assert len(wanted) == 74
    assert Counter((row.group, row.tool) for row in ROWS) == Counter(wanted)
    assert len([line for line in PAGE.splitlines() if line.startswith("| `")]) == 74


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.tool)
def test_what_answers_a_tool_exists(row: Row) -> None:
    assert row.answering or row.answer in NOTHING
    assert set(row.answering) <= our_tools().keys()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.tool)
def test_what_an_answer_mentions_exists(row: Row) -> None:
    """A name in code style is a tool, a parameter of a tool in the same row, or a verb."""
    tools = {name for name in (*row.answering, *row.said) if name in our_tools()}
    known = tools.union(*(our_tools()[tool] for tool in tools))
    verbs = {f"tiermem {name}" for name in cli.commands}

    assert set(row.said) - known - verbs - {"TIERMEM_HOME"} == set()


def test_an_alias_is_a_tool_of_the_compat_toolset() -> None:
    promised = {row.tool for row in ROWS if re.match(r"Alias[.,]", row.how)}
    compat = {one["name"] for one in surface() if one["toolset"] == "compat"}

    assert promised == compat
