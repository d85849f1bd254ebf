"""A setting that no part of a run reads is refused before the start, with the part that would read it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from case_checks import each_case

from harness.audit.run import plan_audit
from harness.benchmarks.data.download import HubUnreachableError
from harness.cli.options import agent_names, complete_agent, complete_benchmark, complete_run
from harness.core.errors import UsageError, unknown_task
from harness.runs.agents import agents
from harness.runs.agents.client import CLIENT
from harness.runs.config import RunConfig, load_config
from harness.runs.resume import read_resumed_config
from harness.runs.selection import Selection, select
from harness.runs.unread import locate_unread

PROMPT = "Do: {problem_statement}"
CONFIG = "benchmark: mbpp\ndata: bundled\nagent: chat\nmodel: m\nbase_url: http://127.0.0.1:1/v1\n"
FORMS = {"file": CONFIG, "extended file": "extends: base.yaml\n"}


def selected(benchmark: str = "mbpp", *, resumed: bool = False, **settings: Any) -> Selection:
    config = load_config(None, {"benchmark": benchmark, "data": "bundled", **settings})
    return select(config, notify=lambda _line: None, resumed=resumed)


def refusal(benchmark: str = "mbpp", **settings: Any) -> UsageError:
    with pytest.raises(UsageError) as caught:
        selected(benchmark, **settings)
    return caught.value


@pytest.fixture
def samples(tmp_path: Path) -> str:
    path = tmp_path / "samples.jsonl"
    path.write_text('{"task_id": 9001, "completion": "a"}\n{"task_id": 9001, "completion": "b"}\n')
    return str(path)


@each_case("agent", ["oracle", "null"])
@each_case(
    ("settings", "option"),
    [
        ({"model": "m"}, "--model"),
        ({"base_url": "http://localhost/v1"}, "--base-url"),
        ({"generation": {"temperature": 0}}, "--temperature, --max-tokens or --reasoning-effort"),
        ({"run_budget": {"cost": 1}}, "--run-budget"),
        ({"system_prompt": "Be short."}, "'system_prompt'"),
        ({"agent_prompt": PROMPT}, "'agent_prompt'"),
        ({"samples": "s"}, "--samples"),
        ({"extract": "fenced"}, "--extract"),
    ],
)
def test_a_setting_that_the_agent_does_not_read_is_refused(
    agent: str, settings: dict[str, Any], option: str
) -> None:
    error = refusal(agent=agent, **settings)
    assert error.message == f"agent '{agent}' does not read {option}"
    assert str(error.hint).startswith("leave it out")


@each_case("settings", [{"base_url": "http://localhost/v1"}, {"run_budget": {"cost": 1}}])
def test_a_setting_of_a_model_needs_a_model(settings: dict[str, Any]) -> None:
    assert refusal(agent="chat", **settings).message == "agent 'chat' needs a model"


def test_a_model_alone_selects_the_chat_agent() -> None:
    assert selected(model="m", base_url="http://localhost/v1").config.agent == "chat"


def test_an_agent_that_declares_nothing_reads_the_model_and_no_system_prompt(tmp_path: Path) -> None:
    agent = tmp_path / "mine.py"
    agent.write_text("async def attempt(context):\n    return (await context.model.ask('hi')).text\n")
    settings: dict[str, Any] = {
        "model": "m",
        "base_url": "http://localhost/v1",
        "generation": {"temperature": 0},
    }
    endpoint = selected(agent=str(agent), **settings).endpoint
    assert endpoint is not None
    assert endpoint.model == "m"
    assert "does not read 'system_prompt'" in refusal(agent=str(agent), system_prompt="Be short.").message


@each_case("budget", ["run_budget", "attempt_budget"])
def test_a_budget_of_the_cost_needs_prices_before_the_first_request(budget: str) -> None:
    endpoint: dict[str, Any] = {"model": "m", "base_url": "http://localhost:1/v1"}
    settings: dict[str, Any] = {"model": "mine", budget: {"cost": 1}}
    error = refusal(endpoints={"mine": endpoint}, **settings)
    assert "needs the prices of model 'mine'" in error.message
    assert "set `prices`" in str(error.hint)
    priced = {**endpoint, "prices": {"input": 1, "output": 2}}
    assert selected(endpoints={"mine": priced}, **settings).plan


def test_a_named_endpoint_has_its_own_url() -> None:
    endpoints = {"mine": {"model": "m", "base_url": "http://localhost:1/v1"}}
    endpoint = selected(model="mine", endpoints=endpoints).endpoint
    assert endpoint is not None
    assert (endpoint.model, endpoint.base_url) == ("m", "http://localhost:1/v1")
    error = refusal(model="mine", endpoints=endpoints, base_url="http://localhost:2/v1")
    assert "has its own base_url" in error.message


def test_the_agents_that_read_a_setting_are_named(samples: str) -> None:
    assert "predictions" in str(refusal(agent="oracle", samples=samples).hint)
    assert "chat" in str(refusal(agent="oracle", model="m").hint)


@each_case("number", [1, 5])
def test_the_number_of_attempts_is_refused_with_samples(samples: str, number: int) -> None:
    error = refusal(samples=samples, n_samples=number)
    assert error.message == "agent 'predictions' does not read --n-samples"
    assert "null, oracle" in str(error.hint)


@each_case(("key", "value"), [("limits", {"memory_mb": 256}), ("runtime", "runc"), ("isolation", "run")])
def test_a_setting_of_sandboxes_is_refused_without_a_sandbox(key: str, value: Any) -> None:
    error = refusal("gsm8k", **{key: value})
    assert error.message.startswith("benchmark 'gsm8k' does not read ")
    assert "a sandbox" in str(error.hint)
    assert selected("mbpp", **{key: value}).plan


@each_case("category", ["os", "db"])
def test_sandboxes_for_many_tasks_are_refused_where_an_agent_acts_in_each(category: str) -> None:
    error = refusal("agentbench", isolation="run", filter_category=[category])
    assert error.message == "benchmark 'agentbench' does not read --isolation run"
    assert "where an agent acts is never used again" in str(error.hint)
    assert selected("agentbench", isolation="attempt", filter_category=[category]).plan


def test_an_audit_refuses_sandboxes_for_many_tasks_where_an_agent_acts_in_each() -> None:
    config = load_config(None, {"benchmark": "agentbench", "data": "bundled", "isolation": "run"})
    with pytest.raises(UsageError, match="does not read --isolation run"):
        plan_audit(config, 1, notify=print)


def test_a_rule_for_code_is_refused_where_answers_are_graded(samples: str) -> None:
    error = refusal("gsm8k", samples=samples, extract="fenced")
    assert error.message == "benchmark 'gsm8k' does not read --extract"
    assert "grade programs" in str(error.hint)
    assert selected("mbpp", samples=samples, extract="fenced").plan


def test_turns_are_for_agents_that_call_tools() -> None:
    assert "an agent that calls tools" in str(refusal("mbpp", rounds=3).hint)
    assert selected("agentbench", rounds=3).plan


def test_a_run_that_is_resumed_keeps_the_settings_that_it_was_started_with() -> None:
    assert selected(agent="oracle", system_prompt="Be short.", resumed=True).plan


# --- pass@k


def test_a_k_beyond_the_attempts_is_refused() -> None:
    error = refusal(k=[1, 10], n_samples=5)
    assert error.message.startswith(
        "--k 10: pass@10 needs 10 attempts at a task, but no task has more than 5"
    )
    assert "--n-samples 10" in str(error.hint)
    assert selected(k=[1, 10], n_samples=10).plan


def test_a_k_beyond_the_samples_of_every_task_is_refused(samples: str) -> None:
    assert "no task has more than 2" in refusal(k=[3], samples=samples).message
    assert selected(k=[2], samples=samples).plan


# --- solutions


def test_the_oracle_is_refused_without_solutions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.benchmarks.livecodebench.generation._bundled_solutions", dict)
    error = refusal("livecodebench")
    assert "needs reference solutions, but livecodebench publishes none" in error.message
    assert "--option solutions=FILE.jsonl" in str(error.hint)
    assert selected("livecodebench", agent="null").plan


# --- samples and the bundled sample


def test_samples_are_never_graded_on_a_fallback_to_the_bundled_sample(
    samples: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setenv("HARNESS_MIRROR", "http://127.0.0.1:1")
    monkeypatch.setenv("HARNESS_DATA", str(tmp_path / "cache"))
    with pytest.raises(HubUnreachableError):
        selected(samples=samples, data=None)
    assert selected(data=None).benchmark.source.kind == "bundled"


def test_an_empty_folder_of_data_is_named_if_nothing_can_be_downloaded(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setenv("HARNESS_MIRROR", "http://127.0.0.1:1")
    with pytest.raises(HubUnreachableError, match=f"--data {tmp_path}: the folder holds no data of mbpp"):
        selected(data=str(tmp_path))


# --- unknown tasks


@each_case(
    ("task_id", "near"),
    [("0", "gsm8k/0"), ("gsm8k/10", "gsm8k/1"), ("GSM8K/1", "gsm8k/1"), ("/1", None), ("zebra", None)],
)
def test_an_unknown_task_is_refused_with_the_nearest_id_and_two_real_ones(
    task_id: str, near: str | None
) -> None:
    error = unknown_task(task_id, ["gsm8k/0", "gsm8k/1", "gsm8k/2"], place="gsm8k")
    assert error.message == f"gsm8k: unknown task '{task_id}'"
    assert str(error.hint).endswith("gsm8k has 3 tasks, such as 'gsm8k/0' and 'gsm8k/1'")
    if near is not None:
        assert str(error.hint).startswith(f"did you mean '{near}'? ")


# --- completion


def test_help_and_completion_list_the_agents_that_a_run_can_select() -> None:
    assert agent_names() == sorted({*agents()} - {CLIENT})
    assert complete_agent("or") == ["oracle"]


def test_benchmarks_are_completed() -> None:
    assert complete_benchmark("mb") == ["mbpp", "mbpp-full", "mbpp-humaneval", "mbpp-plus"]


def test_run_folders_are_completed_newest_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("20260101-b", "20260102-a", "other"):
        (tmp_path / "runs" / name).mkdir(parents=True)
        if name != "other":
            (tmp_path / "runs" / name / "manifest.json").touch()
    assert complete_run("") == ["runs/20260102-a", "runs/20260101-b", "latest"]
    assert complete_run("runs/20260101") == ["runs/20260101-b"]
    assert complete_run("nowhere/") == []


def test_the_config_of_a_run_is_read_back(tmp_path: Path) -> None:
    config = RunConfig(benchmark="mbpp", seed=4)
    manifest = {
        "schema_version": 1,
        "run_id": "r",
        "benchmark": "mbpp",
        "agent": "oracle",
        "source": "bundled",
        "data": {"kind": "bundled", "location": "p", "sha256": "0", "rows": 1},
        "images": {},
        "config": config.model_dump(mode="json"),
    }
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    assert read_resumed_config(tmp_path).seed == 4


def refuse_file(path: Path, **overrides: str | None) -> UsageError:
    """Return the error for a config of the agent `oracle`, which reads no model."""
    values = {"agent": "oracle", **overrides}
    with pytest.raises(UsageError) as caught, locate_unread(path, values):
        select(load_config(path, values), notify=lambda _: None)
    return caught.value


@each_case("form", FORMS)
def test_an_unread_key_of_a_file_is_named_with_its_line(tmp_path: Path, form: str) -> None:
    (tmp_path / "base.yaml").write_text(CONFIG)
    path = tmp_path / "config.yaml"
    path.write_text(FORMS[form])
    error = refuse_file(path)
    place = tmp_path / ("config.yaml" if form == "file" else "base.yaml")
    assert error.message == f"{place}:5: agent 'oracle' does not read 'base_url'"
    assert error.hint is not None
    assert error.hint.startswith("remove the key from the file, set a model, such as model: NAME")


def test_an_unread_option_of_the_command_line_is_named_as_an_option(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("benchmark: mbpp\ndata: bundled\n")
    error = refuse_file(path, base_url="http://127.0.0.1:1/v1")
    assert error.message == "agent 'oracle' does not read --base-url"
    assert (error.hint or "").startswith("leave it out, set a model, such as")
