"""The verdict on a task follows from the rewards of its steps."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from harness.core.types import Status, Verdict
from harness.environments.container.steps import EndedStep, TaskSteps
from harness.environments.container.task_folder import read_task_folder


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
