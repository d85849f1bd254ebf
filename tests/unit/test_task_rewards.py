"""The reward of a task folder's own tests, the check that they have run, and the verdict by several steps."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.core.types import Status, Verdict
from harness.environments.container.reward import (
    InvalidReward,
    Reward,
    find_missing_tool,
    find_unreported,
    list_tests,
    read_reward,
)
from harness.environments.container.steps import EndedStep, TaskSteps
from harness.environments.container.task_folder import read_task_folder

TWO = {"correctness": 1.0, "speed": 0.5}


def test_a_reward_is_read_by_the_rules_of_its_file() -> None:
    cases = (
        (b"1", None, Reward(1.0, {"reward": 1.0})),
        (b"0.5\n", b"1", Reward(0.5, {"reward": 0.5})),
        (b'{"reward": 0.25, "speed": 3}', None, Reward(0.25, {"reward": 0.25, "speed": 3.0})),
        (b'{"speed": 3}', None, Reward(3.0, {"speed": 3.0})),
        (b'{"correctness": 1, "speed": 0.5}', None, Reward(0.75, TWO, no_reward_key=True)),
        (None, b" 1.0\n", Reward(1.0, {"reward": 1.0})),
        (None, b"-2e-3", Reward(-0.002, {"reward": -0.002})),
    )
    wrong = [case for case in cases if read_reward(*case[:2]) != case[2]]
    assert not wrong


def test_anything_but_finite_numbers_is_refused() -> None:
    of_json = (
        *(b"", b"NaN", b"Infinity", b"-Infinity", b"1e309", b"true", b"null", b'"1"', b"[1]", b"{}", b"1 2"),
        *(b'{"reward": true}', b'{"reward": {"a": 1}}', b'{"reward": 1, "x": "y"}', b'{"a": NaN}', b"\xff"),
        *(b"1" * 400, b"[" * 100_000, b'{"a": 1e400}', str({f'"{i}"': 1 for i in range(101)}).encode()),
    )
    of_text = (None, b"", b" \n", b"nan", b"inf", b"1_0", b"1 1", b"one", b"1e309", b"\xd9\xa1", b"0x1")
    accepted = []
    for files in (*((each, b"1") for each in of_json), *((None, each) for each in of_text)):
        try:
            accepted.append((files, read_reward(*files)))
        except InvalidReward:
            continue
    assert not accepted


SCRIPT = "pytest /tests/test_outputs.py -rA\n"
TESTS = """
import pytest

def test_one(): ...

@pytest.mark.skipif(True, reason="no")
def test_two(): ...

@pytest.mark.parametrize("x", [1, 2])
def test_three(x): ...

def helper(): ...

class TestFour:
    def test_five(self): ...

class TestSix:
    def __init__(self): ...
    def test_seven(self): ...
"""
OUTPUT = """
PASSED ../tests/test_outputs.py::test_one
PASSED ../tests/test_outputs.py::test_three[1]
FAILED ../tests/test_outputs.py::TestFour::test_five - assert False
SKIPPED [1] ../tests/test_outputs.py:6: no
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "test_outputs.py").write_text(TESTS)
    (tmp_path / "test_other.py").write_text("def test_it(): ...")
    (tmp_path / "broken_test.py").write_text("def")
    return tmp_path


def test_the_tests_of_a_script_are_those_of_its_files(folder: Path) -> None:
    names = [test.name for test in list_tests(folder.iterdir(), SCRIPT)]
    assert names == ["test_one", "test_two", "test_three", "TestFour::test_five"]
    assert len(list_tests(folder.iterdir(), "pytest /tests")) == 5
    assert not list_tests(folder.iterdir(), "python -m pytest /tests -k one")
    assert not list_tests(folder.iterdir(), "bash /tests/test_outputs.py -rA")


def test_a_test_that_no_report_mentions_is_found(folder: Path) -> None:
    tests = list_tests(folder.iterdir(), SCRIPT)
    names = ("test_outputs.py::test_one", "test_three[2]", 1)
    ctrf = json.dumps({"results": {"tests": [{"name": name} for name in names]}}).encode()
    assert find_unreported(tests, OUTPUT) == []
    assert len(find_unreported(tests, "")) == len(tests)
    assert find_unreported(tests, "", [b"[", b"{}", b'{"results": {"tests": [{"name": "test_one"}]}}'])
    assert find_unreported(tests, OUTPUT.replace("test_one", "test_on")) == ["test_outputs.py::test_one"]
    verbose = "\n".join(f"test_outputs.py::{test.name} PASSED [ 1%]" for test in tests)
    assert find_unreported(tests, f"{verbose}\n=== 4 passed in 0.01s ===") == []
    assert len(find_unreported(tests, verbose)) == len(tests)
    started = verbose.replace("test_two PASSED", "test_two ")
    assert find_unreported(tests, f"{started}\n4 passed in 0.01s") == ["test_outputs.py::test_two"]
    # A report of names that are not texts counts for nothing, and hides nothing.
    assert "test_outputs.py::TestFour::test_five" in find_unreported(tests, "", [ctrf])


def test_a_tool_that_does_not_start_is_told_from_tests_that_fail() -> None:
    missing = (
        "/tests/test.sh: line 4: pytest: command not found\n",
        "/tests/test.sh: 4: uvx: not found\n",
        "/usr/bin/python3: No module named pytest\n",
        "E: Unable to locate package curl\n",
        "curl: (6) Could not resolve host: astral.sh\n",
    )
    assert all(map(find_missing_tool, missing))
    assert find_missing_tool("FAILED test_x.py::test_one - curl: command not found\n") is None
    session = "==== test session starts ====\n"
    assert find_missing_tool(session + missing[0]) is None


def _step(reward: float | None, *, tampering: str | None = None) -> EndedStep:
    status = Status.GRADER_ERROR if reward is None else Status.PASSED if reward >= 1 else Status.FAILED
    counted = 0.0 if tampering else reward
    verdict = Verdict(status, reward, {"carried_files": 2}, "why", tampering=tampering)
    return EndedStep("step", verdict, {} if counted is None else {"reward": counted})


# The strategy, the rewards of the steps that were made of two, and the status, score and reward of the task.
CASES = (
    ("mean", (1, 1), Status.PASSED, 1.0, 1.0),
    ("mean", (1, 0.5), Status.FAILED, 0.75, 0.75),
    ("final", (0.5, 1), Status.PASSED, 1.0, 1.0),
    ("final", (1, 0.5), Status.FAILED, 0.5, 0.5),
    # A task that stopped early does not pass, whatever its reward is.
    ("mean", (1,), Status.FAILED, 1.0, 1.0),
    # Broken tests give no score. The reward is the mean over the other steps.
    ("mean", (1, None), Status.GRADER_ERROR, None, 1.0),
    ("mean", (None,), Status.GRADER_ERROR, None, None),
    ("mean", (), Status.FAILED, 0.0, None),
)


def test_the_verdict_follows_from_the_rewards(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / f"steps/{name}/tests").mkdir(parents=True)
        (tmp_path / f"steps/{name}/tests/test.sh").touch()
        (tmp_path / f"steps/{name}/instruction.md").touch()
    wrong = []
    for strategy, rewards, *expected in CASES:
        toml = f'multi_step_reward_strategy = "{strategy}"\n[environment]\ndocker_image = "a"\n'
        (tmp_path / "task.toml").write_text(toml + '[[steps]]\nname = "a"\n[[steps]]\nname = "b"\n')
        opened = SimpleNamespace(folder=read_task_folder(tmp_path), tests_seconds=None, seal_level="work")
        steps = TaskSteps(cast(Any, opened))
        steps._ended += map(_step, rewards)
        verdict = steps.judge(1.0)
        found = [verdict.status, verdict.score, verdict.metrics.get("reward")]
        if found != expected:
            wrong.append((strategy, rewards, found))
    assert not wrong
    steps._ended[:] = [_step(1, tampering="tests_not_reported"), _step(1)]
    verdict = steps.judge(0.5)
    assert (verdict.status, verdict.tampering) == (Status.FAILED, "tests_not_reported")
