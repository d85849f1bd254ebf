"""Prompts for people who generate elsewhere, and the submissions of a run as samples."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from bundled import load_bundled
from case_checks import each_case
from e2e.command_line import NO_ENGINE, Harness

from harness.benchmarks import load_benchmark
from harness.environments import grader_of
from harness.environments.spec import StateGrader
from harness.runs.config import load_config
from harness.runs.selection import select

HUMANEVAL = load_bundled("humaneval")
FIRST, SECOND, THIRD, FOURTH = HUMANEVAL.tasks[:4]
TASKS = [part for task in HUMANEVAL.tasks[:3] for part in ("-t", task.id)]


def body_of(task: Any) -> str:
    return HUMANEVAL.references[task.id].solution.removeprefix(task.prompt)


def fence(code: str) -> str:
    return f"<think>Hm.</think>Here:\n```python\n{code}\n```\nDone."


SAMPLES = [
    {"task_id": SECOND.id, "reply": fence(HUMANEVAL.references[SECOND.id].solution)},
    {"task_id": FIRST.id, "completion": body_of(FIRST)},
    {"task_id": FIRST.id, "reply": fence(body_of(FIRST))},
    {"task_id": FIRST.id, "reply": "I cannot."},
    {"task_id": FIRST.id, "solution": f"def {FIRST.entry_point}(*_): return 'wrong \u2028 \\u00e4'"},
    {"task_id": THIRD.id, "completion": fence(body_of(THIRD))},
    {"task_id": THIRD.id, "reply": ""},
]


def write(path: Path, lines: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def run(harness: Harness, *arguments: str | Path) -> tuple[Path, list[tuple[str, int, str]], str]:
    """Run a command that makes a run. Return its folder, the verdicts in order, and its messages."""
    place = harness.folder / f"runs-{len(list(harness.folder.iterdir()))}"
    results = place.with_suffix(".json")
    ended = harness(*arguments, "--output-dir", place, "-o", results)
    assert ended.returncode == 0, ended.stderr
    attempts = json.loads(results.read_text())["attempts"]
    verdicts = [(each["task_id"], each["attempt"], each["status"]) for each in attempts]
    return next(place.iterdir()), verdicts, ended.stderr


def export(harness: Harness, folder: Path, name: str = "exported.jsonl") -> tuple[Path, list[dict[str, str]]]:
    path = harness.folder / name
    ended = harness("samples", "export", "latest", "--output-dir", folder.parent, "-o", path, env=NO_ENGINE)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == ""
    return path, [json.loads(line) for line in path.read_text().splitlines()]


# --- submissions


def test_samples_of_a_graded_file_are_graded_as_the_file_was(harness: Harness) -> None:
    samples = write(harness.folder / "samples.jsonl", SAMPLES)
    grade = ("grade", "-b", "humaneval", "--data", "bundled", *TASKS[:6])
    folder, verdicts, _ = run(harness, *grade, "--samples", samples)
    assert [status for *_, status in verdicts] == [
        *("passed", "passed", "failed", "failed"),
        "passed",
        *("failed", "failed"),
    ]
    path, lines = export(harness, folder)
    assert [line["task_id"] for line in lines] == [FIRST.id] * 4 + [SECOND.id] + [THIRD.id] * 2
    assert lines[0] == {"task_id": FIRST.id, "completion": body_of(FIRST)}
    assert [*lines[3]] == ["task_id", "solution"]
    assert run(harness, *grade, "--samples", path)[1] == verdicts


def test_samples_of_the_oracle_pass_again(harness: Harness) -> None:
    oracle = ("run", "-b", "humaneval", "--data", "bundled", *TASKS[:2], "--n-samples", "2")
    folder, verdicts, _ = run(harness, *oracle)
    assert {status for *_, status in verdicts} == {"passed"}
    path, lines = export(harness, folder)
    assert lines == [
        {"task_id": task.id, "completion": body_of(task)} for task in HUMANEVAL.tasks[:1] for _ in range(2)
    ]
    again = run(harness, "grade", "-b", "humaneval", "--data", "bundled", *TASKS[:2], "--samples", path)
    assert again[1] == verdicts


def test_rule_of_the_user_is_applied_once_and_exported_with_its_result(harness: Harness) -> None:
    samples = write(harness.folder / "samples.jsonl", [SAMPLES[5]])
    grade = ("grade", "-b", "humaneval", "--data", "bundled", "-t", THIRD.id)
    _, before, messages = run(harness, *grade, "--samples", samples)
    assert "1 of 1 completions hold ``` fences: say --extract fenced" in messages
    folder, after, messages = run(harness, *grade, "--samples", samples, "--extract", "fenced")
    assert "fences" not in messages
    assert ([status for *_, status in before], [status for *_, status in after]) == (["failed"], ["passed"])
    path, _ = export(harness, folder)
    assert run(harness, *grade, "--samples", path)[1] == after


@pytest.mark.parametrize("benchmark", ["gsm8k", pytest.param("nq", marks=pytest.mark.thorough)])
def test_answers_are_exported_and_graded_again(harness: Harness, benchmark: str) -> None:
    loaded = load_benchmark(benchmark, data="bundled")
    right = [
        {"task_id": task.id, "reply": f"<think>0</think>{loaded.references[task.id].expected_output}"}
        for task in loaded.tasks[1:3]
    ]
    samples = write(harness.folder / "samples.jsonl", right)
    grade = ("grade", "-b", benchmark, "--data", "bundled", "-n", "20")
    folder, verdicts, _ = run(harness, *grade, "--samples", samples)
    path, lines = export(harness, folder)
    assert {tuple(line) for line in lines} == {("task_id", "answer")}
    # A task without a sample has an empty text now, which fails, and was the fault of the agent before.
    expected = [(task, number, status.replace("agent_error", "failed")) for task, number, status in verdicts]
    assert {status for *_, status in expected} == {"passed", "failed"}
    assert run(harness, *grade, "--samples", path)[1] == expected


def test_replies_in_a_log_of_inspect_are_imported_and_graded_again(harness: Harness) -> None:
    tasks = load_benchmark("gsm8k", data="bundled")
    right = tasks.references[tasks.tasks[0].id].expected_output
    lines = [{"task_id": tasks.tasks[0].id, "reply": reply} for reply in (f"So.\n#### {right}", "#### 0", "")]
    samples = write(harness.folder / "samples.jsonl", lines)
    grade = ("grade", "-b", "gsm8k", "--data", "bundled", "-t", tasks.tasks[0].id)
    folder, verdicts, _ = run(harness, *grade, "--samples", samples)
    assert [status for *_, status in verdicts] == ["passed", "failed", "failed"]
    log, imported = harness.folder / "log.json", harness.folder / "imported.jsonl"
    for command in (
        ("export", folder, "--to", "inspect", "-o", log),
        ("samples", "import", log, "--from", "inspect", "-o", imported),
    ):
        ended = harness(*command, env=NO_ENGINE)
        assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", f"wrote {command[-1]}\n")
    assert run(harness, *grade, "--samples", imported)[1] == verdicts


def test_attempts_without_a_submission_and_unfinished_runs_are_counted(harness: Harness) -> None:
    samples = write(harness.folder / "samples.jsonl", [{"task_id": "gsm8k/1", "answer": "1"}])
    folder, verdicts, _ = run(harness, "grade", "-b", "gsm8k", "--data", "bundled", "--samples", samples)
    lines = (folder / "attempts.jsonl").read_text().splitlines(keepends=True)
    (folder / "attempts.jsonl").write_text("".join(lines[:-1]))
    ended = harness("samples", "export", folder, env=NO_ENGINE)
    assert len(ended.stdout.splitlines()) == len(verdicts) - 1
    assert f"{len(verdicts) - 1} of {len(verdicts)} attempts are exported" in ended.stderr
    assert "attempts that submitted nothing" in ended.stderr


def test_state_that_an_agent_leaves_is_not_exported(harness: Harness) -> None:
    benchmark = load_benchmark("agentbench", data="bundled")
    references = benchmark.references
    task = next(
        task for task in benchmark.tasks if isinstance(grader_of(references[task.id].target), StateGrader)
    )
    folder, _, _ = run(harness, "run", "-b", "agentbench", "--data", "bundled", "-t", task.id)
    code, out, error = harness.refused("samples", "export", folder)
    assert (code, out) == (2, "")
    assert "the state that an agent leaves" in error


def test_existing_file_is_overwritten_only_on_request(harness: Harness) -> None:
    path = write(harness.folder / "kept.jsonl", [{}])
    command = ("data", "export", "mbpp", "--data", "bundled", "-o", path)
    code, _, error = harness.refused(*command)
    assert code == 2
    assert "already exists" in error
    assert path.read_text() == "{}\n"
    assert harness(*command, "--force", env=NO_ENGINE).returncode == 0
    assert path.read_text() != "{}\n"
    assert harness.refused("data", "export", "mbpp", "--data", "bundled", "-o", harness.folder)[0] == 2


# --- prompts


def test_prompts_of_the_bundled_sample_never_stand_in_for_those_of_the_benchmark(harness: Harness) -> None:
    code, out, error = harness.refused("data", "export", "mbpp")
    assert (code, out) == (2, "")
    assert "cannot be reached" in error
    assert "--data PATH" in error


def test_prompts_are_exported_without_references(harness: Harness) -> None:
    ended = harness("data", "export", "humaneval", "--data", "bundled", env=NO_ENGINE)
    assert [json.loads(line) for line in ended.stdout.splitlines()] == [
        {"task_id": task.id, "instruction": task.instruction, "prompt": task.prompt}
        for task in HUMANEVAL.tasks
    ]


def test_prompt_that_says_how_to_answer_has_no_instruction(harness: Harness) -> None:
    ended = harness("data", "export", "gsm8k", "--data", "bundled", "-n", "1", env=NO_ENGINE)
    assert set(json.loads(ended.stdout)) == {"task_id", "prompt"}


@each_case(
    ("options", "settings"),
    [
        (("math", "-n", "4", "--seed", "3"), {"sample_size": 4, "seed": 3}),
        (("math", "--filter-category", "algebra"), {"filter_category": ["algebra"]}),
        (("mbpp", "-t", "9002"), {"task_ids": ["9002"]}),
        (("agentbench", "--filter-category", "db"), {"filter_category": ["db"]}),
        (("livecodebench", "--option", "difficulty=easy"), {"options": {"difficulty": "easy"}}),
        (("math", "--filter-difficulty", "4"), {"filter_difficulty": ["4"]}),
        (("livecodebench", "--filter-tags", "leetcode"), {"filter_tags": ["leetcode"]}),
        (("hotpotqa", "-n", "3", "--sampling", "stratified"), {"sample_size": 3, "sampling": "stratified"}),
    ],
    ids=str,
)
def test_export_selects_the_tasks_that_a_run_selects(
    harness: Harness, options: tuple[str, ...], settings: dict[str, Any]
) -> None:
    ended = harness("data", "export", *options, "--data", "bundled", env=NO_ENGINE)
    exported = [json.loads(line)["task_id"] for line in ended.stdout.splitlines()]
    config = load_config(None, {"benchmark": options[0], "data": "bundled", "agent": "null", **settings})
    assert exported == [planned.task.id for planned in select(config, notify=pytest.fail).plan]
