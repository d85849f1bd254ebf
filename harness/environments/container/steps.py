"""The steps of a task: one machine of the agent, with a prompt and a grading for each step.

A step is graded in a machine of its own, from the files of the agent's machine, whose processes are paused
meanwhile and go on afterwards. No file of any step's tests is ever in the agent's machine.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.core.errors import SandboxError
from harness.core.text import escape_text, shorten
from harness.core.types import Phase, Status, Submission, Verdict
from harness.environments.base import Step
from harness.environments.container.environment import wait_until_healthy
from harness.environments.container.grader import grade, grade_sealed
from harness.environments.container.machine import describe_failure
from harness.environments.container.reward import REWARD, describe_reward, make_reward
from harness.environments.container.seal import TESTS
from harness.environments.container.target import TaskFolderTarget
from harness.environments.container.task_folder import (
    MAX_SECONDS,
    STEPS,
    WORKDIR,
    list_included_files,
)
from harness.environments.container.verifier import clear_folders
from harness.environments.os.file_entries import UnreadableFiles

if TYPE_CHECKING:
    from harness.environments.container.environment import ContainerEnvironment
    from harness.environments.container.seal import Level

    GradeStep = Callable[[ContainerEnvironment, TaskFolderTarget, Level], Awaitable[Verdict]]

SETUP = "setup.sh"
SETUP_SECONDS = 600.0
EVIDENCE_CHARACTERS = 500


@dataclass(frozen=True, slots=True)
class EndedStep:
    """A step that was graded. `rewards` are the numbers of its tests, empty if they gave none."""

    name: str
    verdict: Verdict
    rewards: Mapping[str, float]

    def describe(self) -> dict[str, Any]:
        """Return the facts for the record of the attempt."""
        facts = {"name": self.name, "status": self.verdict.status.value, **self.verdict.metrics}
        if self.verdict.evidence is not None:
            facts["error"] = shorten(self.verdict.evidence, EVIDENCE_CHARACTERS, keep_end=True)
        if self.verdict.tampering is not None:
            facts["integrity"] = self.verdict.tampering
        return facts


class TaskSteps:
    """Prepares the machine of a task for each step, grades the steps, and decides whether they go on.

    Implements `Steps`. The environment's folder is the one of the step under way (`TaskFolder.at_step`).
    """

    def __init__(self, opened: ContainerEnvironment, grade_step: GradeStep = grade_sealed) -> None:
        self._opened = opened
        self._grade_step = grade_step
        self._folder = opened.folder
        self._ended: list[EndedStep] = []
        self._number = 0
        self._tests_seconds = opened.tests_seconds
        self._is_paused = False

    def plan(self) -> Sequence[Step]:
        """Return the steps, in order."""
        return tuple(
            Step(step.name, step.instruction, folder.toml.agent.timeout_sec or MAX_SECONDS)
            for step, folder in zip(self._folder.steps, self._folder.views(), strict=True)
        )

    async def begin(self, number: int) -> bool:
        """Prepare the machine for a step, from 0, and return whether the agent may begin.

        If the step cannot begin because of what the agent has left, the step has failed. Raises SandboxError.
        """
        opened, step = self._opened, self._folder.steps[number]
        self._number = number
        opened.folder = self._folder.at_step(number)
        opened.tests_seconds = self._share_tests_seconds()
        opened.submitted = None
        facts = {"number": number + 1, "of": len(self._folder.steps), "prompt": step.instruction}
        opened.context.transcript.write({"kind": "step", "name": step.name, **facts})
        try:
            await self._prepare()
        except (UnreadableFiles, SandboxError) as error:
            if number == 0 or (isinstance(error, SandboxError) and error.acted_in is not False):
                raise
            evidence = escape_text(f"the step cannot begin on what the agent has left: {error}")
            self._note(Verdict(Status.FAILED, 0.0, {}, evidence, Phase.EVALUATOR))
            return False
        return True

    def _share_tests_seconds(self) -> float | None:
        """Return the limit of the step's tests: its part of the task's limit, which the run may have changed.

        None for its own.
        """
        if self._tests_seconds is None:
            return None
        own = [folder.toml.verifier.timeout_sec for folder in self._folder.views()]
        return self._tests_seconds * own[self._number] / min(sum(own), MAX_SECONDS)

    async def _prepare(self) -> None:
        opened, machine = self._opened, self._opened.machine
        step = self._folder.steps[self._number]
        if self._number > 0:
            # The agent's processes are paused still, so they cannot lead these files elsewhere.
            await clear_folders(machine)
            await machine.sandbox.make_files(make=[{"path": TESTS, "kind": "absent"}])
        part = f"{STEPS}/{step.name}/{WORKDIR}"
        names = list_included_files(self._folder.path, part) if step.has_workdir else []
        if names:
            await machine.put_files(Path(self._folder.path, part), machine.cwd, names=names)
        if self._is_paused:
            await machine.sandbox.resume_all()
            self._is_paused = False
        if SETUP in names:
            command = f"exec bash {SETUP}"
            result = await machine.exec(command, timeout=min(SETUP_SECONDS, opened.seconds_left))
            if result.exit_code != 0 or result.limit is not None:
                raise describe_failure(f"{part}/{SETUP}", result)
        if step.table.healthcheck is not None:
            await wait_until_healthy(machine, step.table.healthcheck)

    async def end(self) -> bool:
        """Grade the step under way on what the agent has left so far, and return whether the next one begins.

        The agent's processes stay paused until then. Raises SandboxError.
        """
        opened = self._opened
        setup, level = opened.setup, opened.seal_level
        await opened.collect()
        target = TaskFolderTarget(setup.folder, setup.digest, setup.pass_env)
        if level is None:
            verdict = await grade(opened, target, Submission("", ""))
        else:
            if level == "live":
                await opened.machine.sandbox.end_shell()
            else:
                await opened.machine.sandbox.pause_all()
                self._is_paused = True
            if opened.folder.toml.verifier_mode() == "separate":
                level = "artifacts"
            async with opened.context.pool.grade_nested():
                verdict = await self._grade_step(opened, target, level)
            if self._is_paused:
                # A level may have let the services of the agent go on for the tests.
                await opened.machine.sandbox.pause_all()
        ended = self._note(verdict)
        await opened.keep_artifacts(ended.name)
        is_last = self._number + 1 == len(self._folder.steps)
        return not is_last and bool(ended.rewards) and self._reaches_least(ended.rewards)

    def _reaches_least(self, rewards: Mapping[str, float]) -> bool:
        least = self._folder.steps[self._number].table.min_reward
        if least is None:
            return True
        wanted = least if isinstance(least, dict) else {REWARD: least}
        return all(key in rewards and rewards[key] >= value for key, value in wanted.items())

    def _note(self, verdict: Verdict) -> EndedStep:
        step = EndedStep(self._folder.steps[self._number].name, verdict, _read_rewards(verdict))
        self._ended.append(step)
        self._opened.context.transcript.write({"kind": "step_graded", **step.describe()})
        return step

    def judge(self, pass_at: float) -> Verdict:
        """Return the verdict on the task, by the rewards of the steps that were made.

        The reward is the mean of each key over the steps with a reward, or the last step's. A task passes
        only if all of its steps were made.
        """
        if not self._ended:
            return Verdict(Status.FAILED, 0.0, {}, "no step was made", Phase.EVALUATOR)
        last, total = self._ended[-1], len(self._folder.steps)
        metrics: dict[str, Any] = {"seal": self._opened.seal_level}
        for name in ("carried_files", "tests_seconds"):
            metrics[name] = round(sum(each.verdict.metrics.get(name, 0) for each in self._ended), 3)
        metrics["steps"] = [each.describe() for each in self._ended]
        rewards = [each.rewards for each in self._ended if each.rewards]
        if rewards:
            chosen = rewards[-1:] if self._folder.toml.multi_step_reward_strategy == "final" else rewards
            keys = sorted({key for each in chosen for key in each})
            reward = make_reward(
                {key: math.fsum(each.get(key, 0.0) for each in chosen) / len(chosen) for key in keys}
            )
            metrics |= describe_reward(reward)
        tampering = next((each.verdict.tampering for each in self._ended if each.verdict.tampering), None)
        place = f"step {last.name} ({len(self._ended)} of {total})"
        if not rewards or not last.rewards:
            evidence = f"{place}: {last.verdict.evidence}"
            return replace(last.verdict, metrics=metrics, evidence=evidence, tampering=tampering)
        score = min(max(reward.score, 0.0), 1.0)
        if reward.score >= pass_at and len(self._ended) == total and tampering is None:
            return Verdict(Status.PASSED, score, metrics)
        failed = next((each for each in self._ended if not each.verdict.resolved), last)
        evidence = f"the steps gave the reward {reward.score:g}, and ended with {place}; step {failed.name}: "
        return Verdict(
            *(Status.FAILED, score, metrics, evidence + str(failed.verdict.evidence), Phase.EVALUATOR),
            tampering=tampering,
        )


def _read_rewards(verdict: Verdict) -> Mapping[str, float]:
    if not verdict.status.has_score:
        return {}
    if verdict.tampering is not None:
        return {REWARD: 0.0}
    metrics = verdict.metrics
    found: Mapping[str, float] = metrics.get("rewards") or {}
    return found or ({REWARD: metrics[REWARD]} if REWARD in metrics else {})
