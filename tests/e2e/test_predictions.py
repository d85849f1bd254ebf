"""Ready samples: `harness grade` and the agent `predictions`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from bundled import load_bundled
from e2e.command_line import Harness

MBPP = load_bundled("mbpp")
HUMANEVAL = load_bundled("humaneval")
RIGHT = {task.id: MBPP.references[task.id].solution for task in MBPP.tasks}
WRONG = "def parking_fee(minutes):\n    return -1\n"
SAMPLES: list[dict[str, Any]] = [
    {"task_id": 9001, "solution": WRONG},
    {"task_id": "9001", "completion": RIGHT["9001"]},
    {"task_id": 9002, "solution": RIGHT["9002"]},
    {"task_id": 9001, "solution": WRONG},
]
# 9003 has no sample.
TASKS = ("-t", "9001", "-t", "9002", "-t", "9003")


def write_samples(path: Path, samples: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(sample) + "\n" for sample in samples))
    return path


@pytest.fixture(scope="module")
def graded(module_harness: Harness) -> dict[str, Any]:
    """Return the results of grading SAMPLES for three tasks."""
    harness, folder = module_harness, module_harness.folder
    samples = write_samples(folder / "samples.jsonl", SAMPLES)
    ks = ("--k", "1", "--k", "3")
    what = ("grade", "-b", "mbpp", "--data", "bundled", "--samples", samples, *TASKS, *ks)
    ended = harness(*what, "-o", "results.json")
    assert ended.returncode == 0, ended.stderr
    return {**json.loads((folder / "results.json").read_text()), "stdout": ended.stdout}


def of_task(graded: dict[str, Any], task_id: str, field: str) -> list[Any]:
    return [attempt[field] for attempt in graded["attempts"] if attempt["task_id"] == task_id]


def test_every_line_of_a_task_is_an_attempt_that_names_its_line(graded: dict[str, Any]) -> None:
    assert of_task(graded, "9001", "sample_line") == [1, 2, 4]
    assert of_task(graded, "9001", "attempt") == [0, 1, 2]


def test_each_line_has_its_own_verdict(graded: dict[str, Any]) -> None:
    assert of_task(graded, "9001", "status") == ["failed", "passed", "failed"]


def test_task_ids_may_be_integers_or_strings(graded: dict[str, Any]) -> None:
    assert of_task(graded, "9002", "status") == ["passed"]


def test_task_without_a_sample_is_an_agent_error(graded: dict[str, Any]) -> None:
    assert of_task(graded, "9003", "status") == ["agent_error"]
    assert of_task(graded, "9003", "sample_line") == [None]


def test_task_without_a_sample_stays_in_the_denominator(graded: dict[str, Any]) -> None:
    summary = graded["summary"]
    # 9001 is resolved by its second attempt only, so not by its first.
    assert (summary["total"], summary["attempts"], summary["resolved"]) == (3, 5, 1)
    assert summary["first_attempt_rate"] == pytest.approx(1 / 3)
    assert summary["rate"] == summary["headline"]["value"] == pytest.approx(4 / 9)


def test_tasks_with_too_few_samples_leave_pass_at_k_undefined(graded: dict[str, Any]) -> None:
    pass_at_k = graded["summary"]["pass_at_k"]
    # (1/3 + 1 + 0) / 3; the other tasks have fewer than 3 attempts.
    assert pass_at_k == {"1": pytest.approx(4 / 9), "3": None}
    assert "undefined: needs n >= 3" in graded["stdout"]


def test_grade_writes_the_same_fields_as_run(graded: dict[str, Any]) -> None:
    assert {*graded} - {"stdout"} == {"schema_version", "run", "summary", "attempts"}
    assert list(graded["attempts"][0]) == [
        *("task_id", "attempt", "sample_line", "category", "resolved", "status", "score", "metrics"),
        *("agent_output", "expected_output", "duration_seconds", "error"),
        *("agent_output_cut", "expected_output_cut", "started_at"),
    ]


def test_results_quote_the_submission(graded: dict[str, Any]) -> None:
    assert of_task(graded, "9001", "agent_output")[0] == WRONG


def test_pass_at_k_is_the_unbiased_estimate(harness: Harness) -> None:
    samples = write_samples(harness.folder / "s.jsonl", [s for s in SAMPLES if str(s["task_id"]) == "9001"])
    ks = ("--k", "1", "--k", "2", "--k", "3")
    what = ("grade", "-b", "mbpp", "--data", "bundled", "--samples", samples, "-t", "9001", *ks)
    assert harness(*what, "-o", "results.json").returncode == 0
    summary = json.loads((harness.folder / "results.json").read_text())["summary"]
    assert summary["pass_at_k"] == {"1": pytest.approx(1 / 3), "2": pytest.approx(2 / 3), "3": 1.0}


def test_completion_continues_the_prompt_and_solution_stands_alone(harness: Harness) -> None:
    task = HUMANEVAL.tasks[0]
    completion = HUMANEVAL.references[task.id].solution.removeprefix(task.prompt)
    samples = write_samples(
        harness.folder / "samples.jsonl",
        [
            {"task_id": task.id, "completion": completion},
            {"task_id": task.id, "solution": task.prompt + completion},
            {"task_id": task.id, "solution": completion},
        ],
    )
    what = ("grade", "-b", "humaneval", "--data", "bundled", "--samples", samples, "-t", task.id)
    assert harness(*what, "-o", "results.json").returncode == 0
    results = json.loads((harness.folder / "results.json").read_text())
    assert [attempt["resolved"] for attempt in results["attempts"]] == [True, True, False]


def test_samples_of_tasks_that_were_not_chosen_are_left_alone(harness: Harness) -> None:
    samples = write_samples(harness.folder / "samples.jsonl", SAMPLES)
    what = ("run", "-b", "mbpp", "--data", "bundled", "--samples", samples, "-t", "9002")
    assert harness(*what, "-o", "results.json").returncode == 0
    assert json.loads((harness.folder / "results.json").read_text())["summary"]["attempts"] == 1


@pytest.mark.parametrize("command", ["run", "grade"])
def test_samples_that_are_not_used_are_counted(harness: Harness, command: str) -> None:
    samples = write_samples(harness.folder / "samples.jsonl", SAMPLES)
    what = (command, "-b", "mbpp", "--data", "bundled", "--samples", samples, "--dry-run")
    unused = harness(*what, "-t", "9002").stderr
    assert unused == "samples that are not used: 3 of 4 (3 for unselected tasks)\n"
    assert "not used" not in harness(*what).stderr


def test_samples_of_standard_input_are_kept_in_the_run_folder(harness: Harness) -> None:
    lines = "".join(json.dumps(sample) + "\n" for sample in SAMPLES)
    what = ("grade", "-b", "mbpp", "--data", "bundled", "--samples", "-", "-t", "9002")
    ended = harness(*what, stdin=lines)
    assert ended.returncode == 0, ended.stderr
    (run,) = (harness.folder / "runs").iterdir()
    assert (run / "samples.jsonl").read_text() == lines
    assert harness("run", "--resume", run).returncode == 0


def test_grade_takes_a_config_a_sample_of_the_tasks_and_a_seed(harness: Harness) -> None:
    samples = write_samples(harness.folder / "samples.jsonl", SAMPLES)
    (harness.folder / "config.yaml").write_text(f"benchmark: mbpp\ndata: bundled\nsamples: {samples}\n")
    ended = harness("grade", "-c", "config.yaml", "-n", "2", "--seed", "5", "--dry-run")
    assert ["tasks", "2", "of", "22"] in [line.split() for line in ended.stdout.splitlines()], ended.stderr


def test_grade_refuses_a_config_that_names_an_agent(harness: Harness) -> None:
    (harness.folder / "config.yaml").write_text("benchmark: mbpp\nagent: oracle\nsamples: s.jsonl\n")
    exit_code, _, stderr = harness.refused("grade", "-c", "config.yaml")
    assert exit_code == 2
    assert "grade runs no agent, but the config names 'oracle'" in stderr


def test_the_whole_submission_is_stored_and_shown(harness: Harness) -> None:
    program = RIGHT["9002"] + "\n# " + "x" * 5000
    samples = write_samples(harness.folder / "samples.jsonl", [{"task_id": 9002, "solution": program}])
    what = ("grade", "-b", "mbpp", "--data", "bundled", "--samples", samples, "-t", "9002")
    assert harness(*what, "-o", "results.json").returncode == 0
    (attempt,) = json.loads((harness.folder / "results.json").read_text())["attempts"]
    assert (attempt["agent_output"], attempt["agent_output_cut"]) == (program[:500], len(program) - 500)
    (run,) = (harness.folder / "runs").iterdir()
    assert json.loads((run / "attempts.jsonl").read_text())["submission"] == program
    assert "x" * 5000 in harness("show", run, "9002").stdout


def test_run_takes_samples_for_the_agent_predictions(harness: Harness) -> None:
    samples = write_samples(harness.folder / "samples.jsonl", SAMPLES)
    ended = harness(*("run", "-b", "mbpp", "--data", "bundled", "--dry-run"), "--samples", samples)
    assert ["agent", "predictions"] in [line.split() for line in ended.stdout.splitlines()]


# --- each end of a program

ENDINGS = {
    "": ("failed", None),
    "def parking_fee(:\n": ("failed", None),
    "while True: pass": ("timeout", "cpu_seconds"),
    "import ctypes; ctypes.string_at(0)": ("crashed", None),
    "hog = bytearray(1 << 30)": ("memory_limit", None),
    "import os; os._exit(0)": ("failed", None),
    "import sys; sys.exit(0)": ("failed", None),
    "class Same:\n    __eq__ = lambda a, b: True\ndef parking_fee(m): return Same()": ("failed", None),
    "raise ValueError('\\x1b[2J\\x1b]0;owned\\x07')": ("failed", None),
    RIGHT["9001"]: ("passed", None),
}
SLEEPER = "import time; time.sleep(60)"


def ends_of(harness: Harness, programs: list[str], limits: str) -> tuple[list[dict[str, Any]], str]:
    """Submit programs for one task under limits, and return their attempts and all output."""
    write_samples(
        harness.folder / "s.jsonl", [{"task_id": 9001, "solution": program} for program in programs]
    )
    config = f"benchmark: mbpp\ndata: bundled\nsamples: s.jsonl\ntask_ids: [9001]\nlimits: {{{limits}}}\n"
    (harness.folder / "config.yaml").write_text(config)
    ended = harness("run", "-c", "config.yaml", "-o", "ends.json", "-v")
    assert ended.returncode == 0, ended.stderr
    return json.loads((harness.folder / "ends.json").read_text())["attempts"], ended.stdout + ended.stderr


@pytest.fixture(scope="module")
def ended(module_harness: Harness) -> dict[str, Any]:
    """Return the attempt of each program of ENDINGS."""
    attempts, printed = ends_of(module_harness, [*ENDINGS], "cpu_seconds: 1, memory_mb: 256")
    return {"attempts": dict(zip(ENDINGS, attempts, strict=True)), "printed": printed}


@pytest.mark.parametrize("program", ENDINGS, ids=lambda program: program[:40] or "empty")
def test_program_ends_with_its_status(ended: dict[str, Any], program: str) -> None:
    attempt = ended["attempts"][program]
    assert (attempt["status"], attempt["metrics"].get("limit")) == ENDINGS[program], attempt["error"]


def test_program_that_waits_reaches_the_wall_limit(harness: Harness) -> None:
    (attempt,), _ = ends_of(harness, [SLEEPER], "wall_seconds: 1")
    assert (attempt["status"], attempt["metrics"]["limit"]) == ("timeout", "wall_seconds")


def test_escape_sequences_of_a_program_are_never_printed(ended: dict[str, Any]) -> None:
    assert "owned" in ended["printed"]
    assert not {"\x1b", "\x07"} & {*ended["printed"]}


# --- samples that cannot be used are refused before anything starts

GOOD = json.dumps(SAMPLES[2]) + "\n"
BROKEN = {
    "broken JSON": (GOOD + '{"task_id": 9001, "solution"\n', ":2:", "broken JSON"),
    "not an object": (GOOD + "[1]\n", ":2:", "needs a JSON object"),
    "unknown task id": ('{"task_id": "9010x", "solution": ""}\n' + GOOD, ":1:", "did you mean '9010'"),
    "no task id": (GOOD + '{"solution": ""}\n', ":2:", "'task_id'"),
    "no program": (GOOD + '{"task_id": 9001, "code": ""}\n', ":2:", "'answer' and 'reply'"),
    "program of a wrong type": (GOOD + '{"task_id": 9001, "solution": 5}\n', ":2:", "needs a string"),
    "task id of a wrong type": (GOOD + '{"task_id": true, "solution": ""}\n', ":2:", "boolean"),
    "a reply and a program": (
        GOOD + '{"task_id": 9001, "completion": "", "solution": ""}\n',
        ":2:",
        "has 'completion' and 'solution'",
    ),
    "a program and an answer": (
        GOOD + '{"task_id": 9001, "solution": "", "answer": ""}\n',
        ":2:",
        "has 'solution' and 'answer'",
    ),
    "no line": ("", ":", "holds no rows"),
}


@pytest.mark.parametrize(("text", "place", "reason"), BROKEN.values(), ids=BROKEN)
def test_unusable_samples_are_refused_at_once(harness: Harness, text: str, place: str, reason: str) -> None:
    samples = harness.folder / "samples.jsonl"
    samples.write_text(text)
    exit_code, _, stderr = harness.refused("grade", "-b", "mbpp", "--data", "bundled", "--samples", samples)
    assert exit_code == 2
    assert f"{samples}{place}" in stderr
    assert reason in stderr
    assert list(harness.folder.iterdir()) == [samples]


def test_samples_that_are_not_utf8_are_refused_with_their_line(harness: Harness) -> None:
    samples = harness.folder / "samples.jsonl"
    samples.write_bytes(GOOD.encode() + '{"task_id": 9001, "solution": "é"}\n'.encode("latin-1"))
    exit_code, _, stderr = harness.refused("grade", "-b", "mbpp", "--data", "bundled", "--samples", samples)
    assert exit_code == 2
    assert f"{samples}:2: not UTF-8" in stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "standard input: holds no rows"),
        (GOOD + "[1]\n", "standard input:2: needs a JSON object"),
        (GOOD + '{"task_id": "9010x", "solution": ""}\n', "standard input:2: field 'task_id': "),
    ],
)
def test_an_error_in_samples_on_standard_input_names_standard_input(
    harness: Harness, text: str, message: str
) -> None:
    ended = harness("grade", "-b", "mbpp", "--data", "bundled", "--samples", "-", stdin=text)
    assert ended.returncode == 2
    assert ended.stderr.startswith(f"error: {message}")
    assert "/" not in ended.stderr


@pytest.mark.parametrize("name", ["missing.jsonl", ""], ids=["missing", "folder"])
def test_samples_that_are_not_a_file_are_refused(harness: Harness, name: str) -> None:
    samples = harness.folder / name
    exit_code, _, stderr = harness.refused("grade", "-b", "mbpp", "--data", "bundled", "--samples", samples)
    assert exit_code == 2
    assert f"error: {samples}: " in stderr


def test_samples_that_the_agent_would_not_read_are_refused(harness: Harness) -> None:
    samples = write_samples(harness.folder / "samples.jsonl", SAMPLES)
    what = ("run", "-b", "mbpp", "--data", "bundled", "--agent", "oracle", "--samples", samples)
    exit_code, _, stderr = harness.refused(*what)
    assert exit_code == 2
    assert "agent 'oracle' does not read --samples" in stderr


def test_predictions_without_samples_are_refused(harness: Harness) -> None:
    exit_code, _, stderr = harness.refused("run", "-b", "mbpp", "--data", "bundled", "--agent", "predictions")
    assert exit_code == 2
    assert "--samples" in stderr
