"""Benchmarks of answers on the command line: no engine unless it is needed, and metrics in every report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from e2e.command_line import NO_ENGINE, Harness

from harness.benchmarks import load_benchmark


def shifted(folder: Path, name: str) -> Path:
    """Return samples: the first bundled task has its own answer, every other one that of the next."""
    benchmark = load_benchmark(name, data="bundled")
    golds = [benchmark.references[task.id].solution for task in benchmark.tasks]
    answers = [golds[0], *golds[2:], golds[1]]
    path = folder / f"{name}.jsonl"
    lines = [
        json.dumps({"task_id": task.id, "answer": answer})
        for task, answer in zip(benchmark.tasks, answers, strict=True)
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


def graded(harness: Harness, name: str, *, env: dict[str, str]) -> tuple[dict[str, Any], str]:
    samples = shifted(harness.folder, name)
    what = ("grade", "-b", name, "--data", "bundled", "--samples", samples, "-o", "results.json")
    ended = harness.succeed(*what, env=env)
    return harness.read_json(), ended.stdout


@pytest.mark.parametrize(("name", "metric"), [("gsm8k", "solved"), ("nq", "em"), ("hotpotqa", "em")])
def test_answers_are_graded_without_an_engine(harness: Harness, name: str, metric: str) -> None:
    results, shown = graded(harness, name, env=NO_ENGINE)
    assert [attempt["resolved"] for attempt in results["attempts"]].count(True) == 1
    found = results["summary"]["metrics"][metric]
    assert found["mean"] == results["summary"]["rate"] == pytest.approx(1 / len(results["attempts"]))
    assert found["low"] < found["mean"] < found["high"]
    assert results["run"]["images"] == {}
    assert f"\n{metric}" in shown
    run = harness.only_run().path
    assert f'["{metric}",' in (run / "report.html").read_text()
    assert f"\n{metric}" in harness.succeed("report", run, env=NO_ENGINE).stdout


def test_mathematics_is_graded_in_the_image_maths(harness: Harness) -> None:
    results, _ = graded(harness, "math", env={})
    assert [attempt["resolved"] for attempt in results["attempts"]].count(True) == 1
    assert list(results["run"]["images"]) == ["maths"]
    assert set(results["summary"]["by_category"]) > {"Algebra", "Geometry"}


# tests/unit/test_answer_graders.py makes the attacks at all of them.
@pytest.mark.parametrize(
    "name", ["nq", *(pytest.param(name, marks=pytest.mark.thorough) for name in ("gsm8k", "hotpotqa"))]
)
def test_audit_without_an_engine_is_sound(harness: Harness, name: str) -> None:
    ended = harness.succeed("audit", name, "--data", "bundled", "-n", "2", env=NO_ENGINE)
    assert "no forged pass; every reference passed; 0 containers left" in ended.stdout


def audited(harness: Harness, metric: str, *golds: str) -> tuple[int, str]:
    """The exit code and the output of an audit of questions of a user's own, with these right answers."""
    lines = [json.dumps({"question": f"Question {gold[::-1]}?", "gold": gold}) for gold in golds]
    (harness.folder / "questions.jsonl").write_text("\n".join(lines))
    text = "data: {test: {path: questions.jsonl}}\nprompt: '{question}'\nreference: gold\n"
    (harness.folder / "own.yaml").write_text(f"name: own\n{text}metric: {metric}\n")
    ended = harness("audit", "own.yaml", env=NO_ENGINE)
    return ended.returncode, ended.stdout + ended.stderr


@pytest.mark.parametrize(
    ("metric", "golds"),
    [
        ("f1", ("Oslo", "La Paz")),
        pytest.param("exact_match", ("Oslo", "La Paz"), marks=pytest.mark.thorough),
        pytest.param("number", ("42", "1234"), marks=pytest.mark.thorough),
    ],
)
def test_audit_of_questions_of_a_user_is_sound(harness: Harness, metric: str, golds: tuple[str, str]) -> None:
    exit_code, shown = audited(harness, metric, *golds)
    assert exit_code == 0, shown
    assert "no forged pass; every reference passed; 0 containers left" in shown


def test_audit_reports_that_a_contained_answer_can_be_listed(harness: Harness) -> None:
    exit_code, shown = audited(harness, "has_answer", "London")
    assert exit_code == 1
    assert "every-likely-answer" in shown


def test_audit_of_mathematics_is_sound(harness: Harness) -> None:
    named = ("--attack", "boxes-of-everything", "--attack", "latex-that-runs")
    harness.succeed("audit", "math", "--data", "bundled", "-n", "1", *named)


def test_setup_for_a_benchmark_of_answers_needs_no_engine(harness: Harness) -> None:
    ended = harness("setup", "--benchmark", "nq", env=NO_ENGINE)
    assert (ended.returncode, ended.stdout) == (
        0,
        "nq needs no sandbox, so it needs no engine and no images\n",
    )


def test_a_verbose_audit_prints_its_attempts_and_a_quiet_one_no_progress(harness: Harness) -> None:
    command = ("audit", "gsm8k", "--data", "bundled", "-n", "1", "--attack", "says-nothing")
    verbose = harness.succeed(*command, "-v", env=NO_ENGINE)
    # The attacks hand in wrong answers, so the details quote what was expected.
    assert "  expected:\n" in verbose.stderr
    quiet = harness(*command, "-q", env=NO_ENGINE)
    assert (quiet.returncode, quiet.stderr) == (0, "")
