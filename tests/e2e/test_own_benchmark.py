"""A user's benchmark on the command line: the example of docs/custom-benchmarks.md, and an entry point."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from e2e.command_line import NO_ENGINE, Harness, RunFolder

YAML = """\
name: capitals
description: name the capital of a country
licence: CC0
data:
  test: {path: capitals.csv}
id: country
category: continent
prompt: "What is the capital of {country}? Answer with its name only."
reference: capital
metric: exact_match
"""
CSV = "country,capital,continent\nNorway,Oslo,Europe\nPeru,Lima,South America\nBolivia,Sucre,South America\n"
PROGRAMS = """\
name: programs
data: {test: {path: programs.jsonl}}
prompt: "{text}"
reference: code
tests: asserts
metric: tests
"""
PROGRAM = {
    "text": "Write double(x).",
    "code": "def double(x):\n    return 2 * x\n",
    "asserts": ["assert double(2) == 4", "assert double('a') == 'aa'"],
}


@pytest.fixture
def capitals(harness: Harness) -> Path:
    (harness.folder / "capitals.csv").write_text(CSV)
    path = harness.folder / "capitals.yaml"
    path.write_text(YAML)
    return path


def results(harness: Harness, *arguments: str | Path, **options: object) -> dict[str, object]:
    ended = harness(*arguments, "-q", "-o", "results.json", "--force", **options)  # type: ignore[arg-type]
    assert ended.returncode == 0, ended.stderr
    return dict(json.loads((harness.folder / "results.json").read_text()))


def statuses(found: dict[str, object]) -> list[tuple[str, str]]:
    return [(each["task_id"], each["status"]) for each in found["attempts"]]  # type: ignore[attr-defined]


def test_answers_are_graded_without_an_engine(harness: Harness, capitals: Path) -> None:
    found = results(harness, "run", "-b", capitals.name, env=NO_ENGINE)
    assert statuses(found) == [("Norway", "passed"), ("Peru", "passed"), ("Bolivia", "passed")]
    assert set(found["summary"]["by_category"]) == {"Europe", "South America"}  # type: ignore[index]
    assert found["run"]["benchmark"] == "capitals"  # type: ignore[index]
    assert found["run"]["split"] == "test"  # type: ignore[index]
    (run,) = (harness.folder / "runs").iterdir()
    assert run.name.split("-")[2] == "capitals"


def test_samples_of_a_users_benchmark_are_graded(harness: Harness, capitals: Path) -> None:
    samples = [("Norway", "the Oslo"), ("Peru", "Cusco"), ("Bolivia", "<think>La Paz?</think> Sucre.")]
    lines = [json.dumps({"task_id": country, "completion": said}) for country, said in samples]
    (harness.folder / "samples.jsonl").write_text("\n".join(lines))
    found = results(harness, "grade", "-b", capitals.name, "--samples", "samples.jsonl", env=NO_ENGINE)
    assert statuses(found) == [("Norway", "passed"), ("Peru", "failed"), ("Bolivia", "passed")]


def test_a_users_prompt_is_checked_before_anything_starts(harness: Harness, capitals: Path) -> None:
    config = harness.folder / "config.yaml"
    config.write_text("benchmark: capitals.yaml\nagent_prompt: 'Answer {question}'\n")
    code, _, error = harness.refused("run", "-c", config)
    assert code == 2
    assert "'agent_prompt' needs {problem_statement}" in error
    config.write_text("benchmark: capitals.yaml\nagent_prompt: 'In {one} word: {problem_statement}'\n")
    code, _, error = harness.refused("run", "-c", config)
    # The prompt itself is valid, and only an agent that reads prompts is missing.
    refusal = f"error: {config}:2: agent 'oracle' does not read 'agent_prompt'"
    assert (code, error.splitlines()[0]) == (2, refusal)
    assert "set a model, such as model: NAME" in error


def test_programs_of_a_users_benchmark_are_graded_in_a_sandbox(harness: Harness) -> None:
    (harness.folder / "programs.yaml").write_text(PROGRAMS)
    (harness.folder / "programs.jsonl").write_text(json.dumps(PROGRAM))
    lines = [
        {"task_id": "0", "completion": "```python\ndef double(x):\n    return x + x\n```"},
        {"task_id": "0", "completion": "```python\nimport os\nos._exit(0)\n```"},
    ]
    (harness.folder / "samples.jsonl").write_text("\n".join(map(json.dumps, lines)))
    found = results(harness, "grade", "-b", "programs.yaml", "--samples", "samples.jsonl")
    assert [status for _, status in statuses(found)] == ["passed", "failed"]


def test_a_run_is_not_resumed_with_another_file(harness: Harness, capitals: Path) -> None:
    results(harness, "run", "-b", capitals.name, env=NO_ENGINE)
    (run,) = (harness.folder / "runs").iterdir()
    assert harness("run", "--resume", run, "-q", env=NO_ENGINE).returncode == 0
    capitals.write_text(YAML.replace("exact_match", "f1"))
    code, _, error = harness.refused("run", "--resume", run)
    assert code == 2
    assert "capitals.yaml has changed since this run started" in error
    assert RunFolder(run).manifest["definition_sha256"]
