"""`harness config validate`: all problems of a config, found without a run."""

from __future__ import annotations

from pathlib import Path

import pytest
from case_checks import each_case

from harness.runs.config_check import CheckedConfig, check_config


def checked(tmp_path: Path, text: str, **overrides: str) -> CheckedConfig:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    return check_config(path, overrides)


def messages(tmp_path: Path, text: str) -> list[str]:
    """Return the problems, with `config.yaml` as the path."""
    prefix = f"{tmp_path}/"
    return [problem.message.replace(prefix, "") for problem in checked(tmp_path, text).problems]


@each_case(
    "text",
    [
        "benchmark: mbpp\ndata: bundled\n",
        "benchmark: livecodebench\ndata: bundled\nfilter_difficulty: [easy]\noptions: {platform: leetcode}\n",
        "benchmark: math\ndata: bundled\nsample_size: 2\nsampling: stratified\nstratify_by: difficulty\n",
    ],
)
def test_a_config_that_can_run_has_no_problem(tmp_path: Path, text: str) -> None:
    found = checked(tmp_path, text)
    assert (found.problems, found.unchecked) == ([], None)


def test_every_problem_is_reported_with_its_line(tmp_path: Path) -> None:
    text = """benchmark: livecodebench
data: bundled
agent: oracle
system_prompt: Be brief.
agent_prompt: "Do: {problem_statement}"
options:
  platform: nowhere
  relase: v1
split: middle
sampling: random
"""
    found = messages(tmp_path, text)
    places = [message.partition(": ")[0] for message in found]
    assert sorted(places) == sorted(f"config.yaml:{line}" for line in (4, 5, 6, 8, 9, 10))


def test_each_filter_that_no_task_passes_is_reported(tmp_path: Path) -> None:
    text = "benchmark: math\ndata: bundled\n"
    text += "filter_category: [chess]\nfilter_difficulty: [9]\nfilter_tags: [x]\n"
    assert [message.partition(" (")[0] for message in messages(tmp_path, text)] == [
        "config.yaml:3: math: unknown category 'chess'",
        "config.yaml:4: math: unknown difficulty '9'",
        "config.yaml:5: math: unknown tag 'x'",
    ]


@each_case(
    ("text", "message"),
    [
        ("benchmark: mbpb\n", "config.yaml:1: unknown benchmark 'mbpb'"),
        ("benchmark: mbpp\nagent: oracel\n", "config.yaml:2: unknown agent 'oracel'"),
        ("benchmark: mbpp\nagent: chat\n", "config.yaml: agent 'chat' needs a model"),
        ("benchmark: mbpp\nsamples: no.jsonl\n", "config.yaml:2: no.jsonl: is not a file"),
        ("benchmark: mbpp\ndata: no/such.json\n", "config.yaml: no/such.json: no such file"),
        ("benchmark: gsm8k\nextract: fenced\n", "config.yaml:2: benchmark 'gsm8k' does not read --extract"),
        ("benchmark: mbpp\ndurations_from: nowhere\n", "config.yaml:2: nowhere: is not a run folder"),
        ("benchmark: [mbpp\n", "config.yaml:2: is not YAML"),
        ("sample_size: 1\n", "config.yaml: 'benchmark' is missing"),
    ],
)
def test_a_problem_of_each_kind_is_found(tmp_path: Path, text: str, message: str) -> None:
    assert messages(tmp_path, text)[0].startswith(message)


def test_a_benchmark_of_the_command_line_is_not_missing(tmp_path: Path) -> None:
    assert checked(tmp_path, "data: bundled\n", benchmark="mbpp").problems == []


def test_tasks_on_the_hub_are_not_looked_at(tmp_path: Path) -> None:
    found = checked(tmp_path, "benchmark: mbpp\nfilter_category: [anything]\n")
    assert (found.problems, found.unchecked) == ([], "its data are on the hub")


HOST = """benchmark: mbpp
data: bundled
agent: command
command:
  where: host
  cmd: no-such-program {prompt_file}
"""
SERVERS = """benchmark: mbpp
data: bundled
agent: chat
model: m
base_url: http://127.0.0.1:1/v1
mcp_servers:
- name: known
  command: sh
- name: apart
  where: sandbox
  command: no-such-server
- name: missing
  command: no-such-server
"""


@each_case(
    ("text", "warning"),
    [
        (HOST, '6: the program "no-such-program" is not on this machine, or is not executable'),
        (SERVERS, "13: MCP server 'missing': the command 'no-such-server' is not there"),
    ],
)
def test_a_program_that_is_not_on_this_machine_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, warning: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k" * 20)
    found = checked(tmp_path, text)
    assert found.problems == []
    assert found.warnings == [f"{tmp_path}/config.yaml:{warning}"]


def test_a_config_whose_programs_exist_has_no_warning(tmp_path: Path) -> None:
    found = checked(tmp_path, HOST.replace("no-such-program", "sh"))
    assert (found.problems, found.warnings) == ([], [])


def test_the_servers_of_a_baseline_are_not_looked_for(tmp_path: Path) -> None:
    assert checked(tmp_path, f"{SERVERS}baseline: true\n").warnings == []
