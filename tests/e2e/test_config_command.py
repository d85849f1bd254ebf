"""`harness config` and `harness init`, and what a run makes of the settings that select tasks."""

from __future__ import annotations

import json
from pathlib import Path

from e2e.command_line import NO_ENGINE, Harness

# Answers in text need no engine.
QUESTIONS = ("run", "-b", "hotpotqa", "--data", "bundled", "--agent", "oracle", "-q")
TWO_PROBLEMS = "benchmark: mbpp\nseed: x\nprovider: anthropic\n"


def write(harness: Harness, name: str, text: str) -> Path:
    path = harness.folder / name
    path.write_text(text)
    return path


def test_validate_lists_all_problems_of_several_files(harness: Harness) -> None:
    write(harness, "good.yaml", "benchmark: mbpp\ndata: bundled\n")
    write(harness, "bad.yaml", TWO_PROBLEMS)
    write(harness, "worse.yaml", "benchmark: mbpb\n")
    files = ("good.yaml", "bad.yaml", "worse.yaml")
    code, stdout, stderr = harness.refused("config", "validate", *files, env=NO_ENGINE)
    assert code == 2
    assert stdout.splitlines() == ["good.yaml: valid", "bad.yaml: 2 problems", "worse.yaml: 1 problem"]
    errors = [line for line in stderr.splitlines() if line.startswith("error: ")]
    assert [error.split(" ")[1] for error in errors] == ["bad.yaml:3:", "bad.yaml:2:", "worse.yaml:1:"]


def test_show_prints_a_config_that_is_the_same_config(harness: Harness) -> None:
    write(harness, "base.yaml", "benchmark: mbpp\nlimits: {cpus: 0.5}\ndata: ${DATA:-bundled}\n")
    write(harness, "run.yaml", "extends: base.yaml\nlimits: {memory_mb: 512}\nagent: null\n")
    shown = harness("config", "show", "run.yaml", env=NO_ENGINE).stdout
    assert "memory_mb: 512" in shown
    write(harness, "shown.yaml", shown)
    assert harness("config", "show", "shown.yaml", env=NO_ENGINE).stdout == shown
    as_json = json.loads(harness("config", "show", "run.yaml", "--json", "--defaults", env=NO_ENGINE).stdout)
    assert (as_json["agent"], as_json["limits"], as_json["seed"]) == (
        "null",
        {"memory_mb": 512, "cpus": 0.5},
        0,
    )


def test_show_names_the_origin_of_each_value_but_no_secret(harness: Harness) -> None:
    write(harness, "base.yaml", "benchmark: mbpp\nlimits: {cpus: 0.5}\n")
    servers = "mcp_servers:\n  a:\n    command: a\n    env: {TOKEN: hidden-value}\n"
    write(harness, "run.yaml", f"extends: base.yaml\n{servers}")
    shown = harness("config", "show", "run.yaml", "--origins", env=NO_ENGINE).stdout
    assert "base.yaml:2  limits.cpus: 0.5" in shown
    assert "run.yaml:5   mcp_servers.a.env.TOKEN: " in shown
    write(
        harness,
        "list.yaml",
        "benchmark: mbpp\nmcp_servers: [{name: a, command: a, env: {TOKEN: hidden-value}}]\n",
    )
    shown += harness("config", "show", "list.yaml", "--origins", env=NO_ENGINE).stdout
    assert "hidden-value" not in shown
    assert "hidden-value" not in harness("config", "show", "run.yaml", env=NO_ENGINE).stdout


def test_schema_is_json(harness: Harness) -> None:
    schema = json.loads(harness("config", "schema", env=NO_ENGINE).stdout)
    assert "sampling" in schema["properties"]


def test_init_writes_a_config_that_is_valid_and_runs(harness: Harness) -> None:
    harness("init", "-b", "gsm8k", "--agent", "oracle", env=NO_ENGINE)
    harness.succeed("config", "validate", "config.yaml", env=NO_ENGINE)
    harness("run", "-c", "config.yaml", "--data", "bundled", "-n", "2", "-q", env=NO_ENGINE)
    _, _, stderr = harness.refused("init", env=NO_ENGINE)
    assert "config.yaml: already exists" in stderr


def test_the_manifest_names_the_sample_and_a_later_run_starts_its_longest_tasks_first(
    harness: Harness,
) -> None:
    chosen = ("-n", "3", "--sampling", "stratified", "--stratify-by", "category", "--seed", "5")
    harness(*QUESTIONS, *chosen, "-o", "first.json", env=NO_ENGINE)
    first = harness.read_json("first.json")
    manifest = harness.only_run().manifest
    ids = [attempt["task_id"] for attempt in first["attempts"]]
    assert manifest["planned"] == {"tasks": 3, "attempts": 3, "task_ids": ids}
    config = manifest["config"]
    assert (config["sampling"], config["stratify_by"], manifest["seed"]) == ("stratified", "category", 5)
    harness(*QUESTIONS, *chosen, "--durations-from", "latest", "-o", "second.json", env=NO_ENGINE)
    second = harness.read_json("second.json")
    # The results keep the order of the data, whatever the order of the attempts was.
    assert [attempt["task_id"] for attempt in second["attempts"]] == ids


def test_a_resumed_run_that_would_select_other_tasks_is_refused(harness: Harness) -> None:
    harness(*QUESTIONS, "-n", "2", env=NO_ENGINE)
    run = harness.only_run()
    run.change_manifest("planned", task_ids=run.manifest["planned"]["task_ids"][::-1])
    assert "select other tasks than when it started" in harness.expect_refusal("run", "--resume", run.path)
