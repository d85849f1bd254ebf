"""The run config: values from YAML, environment and command line, and refusals."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from case_checks import each_case

from harness.core.errors import UsageError
from harness.environments import EnvironmentSpec, environment_specs
from harness.models.relay.mcp_servers.settings import McpServer
from harness.runs.config import RunConfig, load_config
from harness.runs.selection import select
from harness.runs.settings import KEYS
from harness.runs.settings.attempts import MAX_TIMEOUT_SECONDS, MIN_TIMEOUT_SECONDS
from harness.sandbox.limits import Limits


def load(tmp_path: Path, text: str, **overrides: Any) -> RunConfig:
    path = tmp_path / "config.yaml"
    path.write_text(text, encoding="utf-8")
    return load_config(path, overrides)


def refusal(tmp_path: Path, text: str, **overrides: Any) -> UsageError:
    with pytest.raises(UsageError) as caught:
        load(tmp_path, text, **overrides)
    return caught.value


# --- defaults and sources


def test_benchmark_alone_is_enough() -> None:
    config = load_config(None, {"benchmark": "mbpp"})
    assert config.agent == "oracle"
    assert config.timeout_seconds is None, "the environment's default"
    assert (config.n_samples, config.k, config.seed) == (1, [1], 0)
    assert (config.data, config.samples, config.max_concurrent) == (None, None, None)


def test_every_key_of_the_file_is_read(tmp_path: Path) -> None:
    text = """
benchmark: humaneval
agent: predictions
model: some/model
sample_size: 7
task_ids: [HumanEval/1]
filter_category: [sorting, maths]
filter_difficulty: [easy, 5]
filter_tags: [platform=leetcode]
sampling: stratified
stratify_by: difficulty
durations_from: latest
timeout_seconds: 240
timeout_multiplier: 2.0
seal: work
grading_network: on
rounds: 6
max_concurrent: 3
max_sandboxes: 2
agent_prompt: "Solve: {problem_statement}"
n_samples: 5
k: [1, 5]
cluster_by: difficulty
seed: 9
data: hub
split: dev
options: {release: v1}
samples: samples.jsonl
extract: fenced
base_url: http://localhost/v1
api: responses
endpoints: {fast: {model: some/model, base_url: "http://localhost:1/v1"}}
generation: {temperature: 0.5, max_tokens: 100}
system_prompt: Be short.
mcp_servers: {files: {command: npx}}
baseline: true
command: {cmd: agent, where: host}
attempt_budget: {output_tokens: 1000}
run_budget: {cost: 2.5}
reply_cache: "on"
client_generation: keep
output_dir: out
limits: {memory_mb: 256, cpus: 0.5}
runtime: runsc
backend: oci
allow_weaker: true
base_images: {"ubuntu:*": packages}
build_ca: ca.pem
allow_network: true
network: none
include_quarantined: true
shard: 2/8
executor: ray
ray_address: head:6379
isolation: attempt
replay_from: runs/recorded
"""
    config = load(tmp_path, text)
    assert config.model_fields_set == {*KEYS}
    assert RunConfig.model_validate(config.model_dump(mode="json"), strict=False) == config
    default = RunConfig(benchmark="mbpp")
    assert [name for name in KEYS if getattr(config, name) == getattr(default, name)] == []
    assert (config.filter_difficulty, config.generation.max_tokens) == (["easy", "5"], 100)
    assert config.mcp_servers == [McpServer(name="files", command="npx")]


def test_command_line_wins_over_the_file(tmp_path: Path) -> None:
    config = load(tmp_path, "benchmark: mbpp\nseed: 1\nsample_size: 3\n", seed=2)
    assert (config.seed, config.sample_size) == (2, 3)


def test_task_ids_may_be_written_as_integers(tmp_path: Path) -> None:
    assert load(tmp_path, "benchmark: mbpp\ntask_ids: [11, '12']\n").task_ids == ["11", "12"]


def test_the_agent_null_may_be_written_without_quotes(tmp_path: Path) -> None:
    assert load(tmp_path, "benchmark: mbpp\nagent: null\n").agent == "null"


def test_samples_choose_the_agent_that_reads_them(tmp_path: Path) -> None:
    assert load(tmp_path, "benchmark: mbpp\n", samples="s.jsonl").agent == "predictions"


def test_a_named_agent_is_not_replaced_by_samples(tmp_path: Path) -> None:
    assert load(tmp_path, "benchmark: mbpp\nagent: oracle\n", samples="s.jsonl").agent == "oracle"


def test_paths_that_exist_become_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rows.jsonl").touch()
    config = load_config(None, {"benchmark": "mbpp", "data": "rows.jsonl", "samples": "rows.jsonl"})
    assert config.data == config.samples == str(tmp_path / "rows.jsonl")


def test_names_of_sources_are_no_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("hub").mkdir()
    assert load_config(None, {"benchmark": "mbpp", "data": "hub"}).data == "hub"


# --- variables


def test_variable_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODEL_NAME", "small")
    assert load(tmp_path, "benchmark: mbpp\nmodel: org/${MODEL_NAME}-v1\n").model == "org/small-v1"


def test_default_stands_in_for_a_missing_variable(tmp_path: Path) -> None:
    config = load(tmp_path, "benchmark: ${NO_SUCH_BENCH:-mbpp}\nsample_size: ${NO_SUCH_N:-4}\n")
    assert (config.benchmark, config.sample_size) == ("mbpp", 4)


def test_default_does_not_replace_a_set_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCH", "humaneval")
    assert load(tmp_path, "benchmark: ${BENCH:-mbpp}\n").benchmark == "humaneval"


def test_missing_variable_is_named_with_its_key(tmp_path: Path) -> None:
    error = refusal(tmp_path, "benchmark: mbpp\nlimits:\n  memory_mb: ${NO_SUCH_MEMORY}\n")
    assert (
        "config.yaml:3: limits.memory_mb: the environment variable NO_SUCH_MEMORY is not set" in error.message
    )
    assert error.hint == "set it, or write ${NO_SUCH_MEMORY:-default}"


def test_variable_becomes_the_type_that_its_key_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"NUMBER": "5", "CPUS": "1.5", "KS": "[1, 3]"}.items():
        monkeypatch.setenv(name, value)
    text = "benchmark: mbpp\nmodel: ${NUMBER}\nn_samples: ${NUMBER}\nk: ${KS}\nlimits: {cpus: '${CPUS}'}\n"
    config = load(tmp_path, text)
    assert (config.model, config.n_samples, config.k, config.limits.cpus) == ("5", 5, [1, 3], 1.5)


@each_case("value", ["a: b", "[unclosed", "yes", "5", "# no comment", "null", "  spaced  "])
def test_text_from_a_variable_is_used_unchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("MODEL", value)
    assert load(tmp_path, "benchmark: mbpp\nmodel: ${MODEL}\n").model == value


def test_empty_variable_means_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMPTY", "")
    config = load(tmp_path, "benchmark: mbpp\nmodel: ${EMPTY}\nsample_size: ${EMPTY}\ndata: ${NONE:-}\n")
    assert (config.model, config.sample_size, config.data) == (None, None, None)


def test_a_variable_that_is_not_a_number_is_refused_with_its_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NUMBER", "[three")
    assert "'sample_size'" in refusal(tmp_path, "benchmark: mbpp\nsample_size: ${NUMBER}\n").message


# --- refusals


@each_case(
    ("text", "said", "hint"),
    [
        ("bench: mbpp", "unknown key 'bench'", "did you mean 'benchmark'?"),
        ("benchmark: mbpp\nn: 5", "unknown key 'n'", "did you mean 'sample_size'?"),
        ("benchmark: mbpp\nagent_cmd: x", "unknown key 'agent_cmd'", "did you mean 'command.cmd'?"),
        ("benchmark: mbpp\nlimits: {memory: 5}", "unknown key 'limits.memory'", "did you mean 'memory_mb'?"),
        (
            "benchmark: mbpp\nmcp_servers: [{name: a, comand: x}]",
            "unknown key 'mcp_servers.0.comand'",
            "did you mean 'command'?",
        ),
        ("seed: 1", "'benchmark' is missing", "harness run -b mbpp"),
        ("benchmark: ${NO_SUCH_BENCH}", "the environment variable NO_SUCH_BENCH is not set", ":-default"),
    ],
)
def test_refusal_names_a_remedy(tmp_path: Path, text: str, said: str, hint: str) -> None:
    error = refusal(tmp_path, text)
    assert error.message.startswith(f"{tmp_path / 'config.yaml'}:")
    assert said in error.message
    assert hint in str(error.hint)


def test_a_filter_takes_a_single_name_for_a_list_of_one(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("benchmark: agentbench\nfilter_category: os\n")
    assert load_config(path, {}).filter_category == ["os"]


@each_case(
    "value",
    [
        *("sample_size: 0", "sample_size: '5'", "sample_size: 2.0", "sample_size: true", "sample_size: -1"),
        *("n_samples: 0", "n_samples: null", "max_concurrent: 0", "max_concurrent: 5000", "seed: x"),
        *("k: 5", "k: [1.5]", "task_ids: '11'", "task_ids: [1.5]", "filter_category: 5"),
        *("model: 5", "agent: [oracle]", "data: 7", "runtime: crun", "limits: 5", "output_dir: null"),
        *("isolation: sample", "isolation: true", "isolation: null", "isolation: [attempt]"),
        *("limits: {memory_mb: 1}", "limits: {cpus: 0}", "limits: {wall_seconds: .inf}"),
        *("limits: {wall_seconds: .nan}", "limits: {cpu_seconds: 0}", "limits: {processes: many}"),
    ],
)
def test_value_of_a_wrong_type_or_size_is_refused_with_its_key(tmp_path: Path, value: str) -> None:
    key = value.partition(":")[0]
    message = refusal(tmp_path, f"benchmark: mbpp\n{value}\n").message
    assert message.startswith(f"{tmp_path / 'config.yaml'}:2: '{key}")


@each_case("seconds", [179, 601, 0, -5, 180.0, "200", True])
def test_time_limit_outside_180_to_600_whole_seconds_is_refused(seconds: Any) -> None:
    with pytest.raises(UsageError, match="--timeout-seconds must be 180 to 600 whole seconds, not "):
        load_config(None, {"benchmark": "mbpp", "timeout_seconds": seconds})


@each_case(
    ("value", "said"),
    [
        ("sample_size: 0", "'sample_size' must be at least 1, not 0"),
        ("sample_size: '5'", "'sample_size' must be a whole number, not \"5\""),
        ("n_samples: null", "'n_samples' must be a whole number, not null"),
        ("include_quarantined: 3", "'include_quarantined' must be true or false, not 3"),
        ("k: [1, x]", "'k' item 2 must be a whole number, not \"x\""),
        ("task_ids: '11'", "'task_ids' must be a list, such as [a, b], not \"11\""),
        ("data: true", "'data' must be text, not true"),
        ("runtime: crun", "'runtime' must be 'runc' or 'runsc', not \"crun\""),
        ("limits: 5", "'limits' must be keys and values, not 5"),
        ("options: [a]", "'options' must be keys and values, not [\"a\"]"),
        ("limits: {memory_mb: 1}", "'limits.memory_mb' must be at least 64, not 1"),
        ("limits: {wall_seconds: 601}", "'limits.wall_seconds' must be at most 600, not 601"),
        ("agent_prompt: go", "'agent_prompt' needs {problem_statement} in the place of the problem"),
    ],
)
def test_a_refused_value_is_named_with_its_key_and_its_limit(tmp_path: Path, value: str, said: str) -> None:
    message = refusal(tmp_path, f"benchmark: mbpp\n{value}\n").message
    assert message.startswith(f"{tmp_path / 'config.yaml'}:2: {said}")


def test_a_long_value_is_quoted_with_its_length(tmp_path: Path) -> None:
    message = refusal(tmp_path, f"benchmark: mbpp\nseed: {'x' * 5000}\n").message
    assert message.endswith("... (5,002 characters in all)")
    assert len(message) < 500


@each_case("seconds", [180, 600])
def test_time_limits_at_both_ends_are_taken(seconds: int) -> None:
    assert load_config(None, {"benchmark": "mbpp", "timeout_seconds": seconds}).timeout_seconds == seconds


def test_command_line_is_blamed_for_its_own_values(tmp_path: Path) -> None:
    error = refusal(tmp_path, "benchmark: mbpp\nsample_size: 3\n", sample_size=0)
    assert error.message == "--sample-size must be at least 1, not 0"


@each_case("text", ["", "- mbpp\n", "mbpp\n", "# nothing\n"])
def test_file_without_keys_is_refused(tmp_path: Path, text: str) -> None:
    assert "must contain keys and values" in refusal(tmp_path, text).message


def test_broken_yaml_names_its_line(tmp_path: Path) -> None:
    error = refusal(tmp_path, "benchmark: mbpp\nseed: [1\nmodel: x\n")
    assert error.message.startswith(f"{tmp_path / 'config.yaml'}:3: is not YAML")


def test_yaml_cannot_build_objects(tmp_path: Path) -> None:
    error = refusal(tmp_path, "benchmark: !!python/object/apply:os.getpid []\n")
    assert "is not YAML" in error.message


def test_keys_that_are_no_strings_are_refused(tmp_path: Path) -> None:
    assert "'1'" in refusal(tmp_path, "benchmark: mbpp\n1: 2\n").message


def test_file_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_bytes(b"benchmark: \xff\n")
    with pytest.raises(UsageError, match="is not UTF-8"):
        load_config(path, {})


@each_case("name", ["missing.yaml", "."])
def test_file_that_cannot_be_read_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        load_config(tmp_path / name, {})


@each_case("environment", environment_specs().values(), ids=lambda environment: environment.name)
def test_default_time_limit_is_valid_in_a_config(environment: EnvironmentSpec) -> None:
    assert MIN_TIMEOUT_SECONDS <= environment.timeout_seconds <= MAX_TIMEOUT_SECONDS


def test_a_python_task_has_180_seconds() -> None:
    selection = select(load_config(None, {"benchmark": "mbpp", "data": "bundled"}), notify=print)
    assert selection.timeout_seconds == 180


def test_a_config_overrides_the_environment() -> None:
    options = {"benchmark": "mbpp", "data": "bundled", "timeout_seconds": 240}
    assert select(load_config(None, options), notify=print).timeout_seconds == 240


def test_a_config_changes_only_the_limits_that_it_names() -> None:
    selection = select(
        load_config(None, {"benchmark": "mbpp", "data": "bundled", "limits": {"cpus": 2.0}}), notify=print
    )
    environment = replace(environment_specs()["python"], limits=Limits(memory_mb=2048))
    assert (selection.limits(environment).cpus, selection.limits(environment).memory_mb) == (2.0, 2048)


def test_a_stored_config_names_only_the_limits_that_were_set() -> None:
    config = load_config(None, {"benchmark": "mbpp", "limits": {"cpus": 2.0}})
    assert config.model_dump(mode="json")["limits"] == {"cpus": 2.0}
