"""Configs of mcpbr: its quick start for AgentBench runs, and keys of its own are refused by name."""

from __future__ import annotations

from pathlib import Path

from case_checks import each_case

from harness.runs.config import RunConfig, load_config, read_config
from harness.runs.config_check import check_config
from harness.runs.config_file import explain_foreign_key

# The keys and values of the quick start and of the prompt on mcpbr's page of AgentBench.
QUICK_START = """
benchmark: "agentbench"
sample_size: 10
timeout_seconds: 300
filter_category:
  - "os"
  - "db"
"""
PROMPT = """
benchmark: agentbench
model: small
base_url: http://localhost:8000/v1
timeout_seconds: 600
agent_prompt: |
  {problem_statement}

  State your final answer clearly.
"""
OWN = ("mcp_server", "provider", "agent_harness", "max_iterations", "budget", "comparison_mode")


@each_case("text", [QUICK_START, PROMPT])
def test_the_quick_start_of_mcpbr_is_valid(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    assert check_config(path, {}).problems == []


def test_the_quick_start_of_mcpbr_selects_its_categories(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(QUICK_START)
    config = load_config(path, {})
    assert (config.sample_size, config.timeout_seconds, config.filter_category) == (10, 300, ["os", "db"])


def test_each_key_of_its_agents_is_refused_with_what_to_write(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(QUICK_START + "".join(f"{key}: x\n" for key in OWN))
    problems = read_config(path, {}).problems
    first = 1 + len(QUICK_START.splitlines())
    assert [problem.message for problem in problems] == [
        f"{path}:{line}: '{key}' is a key of mcpbr, which harness does not read"
        for line, key in enumerate(OWN, start=first)
    ]
    assert all(problem.hint for problem in problems)


def test_no_key_of_ours_is_taken_for_one_of_mcpbr() -> None:
    assert [key for key in RunConfig.model_fields if explain_foreign_key(key)] == []
