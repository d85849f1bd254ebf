"""Grade what an agent left in the machine of a task folder, in a second machine that it never touched."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from harness.core.text import escape_text
from harness.core.types import Phase, Status, Submission, Verdict
from harness.environments.container.changes import Carried, carry_changes, list_artifacts, list_changes
from harness.environments.container.machine import Machine
from harness.environments.container.proxied.run import run_proxied
from harness.environments.container.reward import PASS_AT, REWARD
from harness.environments.container.scene import Scene
from harness.environments.container.seal import Level
from harness.environments.container.target import TaskFolderTarget
from harness.environments.container.task_folder import TaskFolder
from harness.environments.container.verifier import (
    NoVerifierMachine,
    Tests,
    TestsRun,
    VerifierMachine,
    choose_verifier_machine,
    open_verifier_machine,
    read_tests,
    run_tests,
)
from harness.environments.os.root_sandbox import FileEntry, UnreadableFiles
from harness.environments.spec import StateGrader

if TYPE_CHECKING:
    from harness.environments.container.environment import ContainerEnvironment

NETWORK_FILES = ("/etc/hosts", "/etc/hostname", "/etc/resolv.conf")
# The signs of tampering.
UNREADABLE_FILES = "unreadable_files"
TESTS_NOT_REPORTED = "tests_not_reported"


def make_scene(folder: TaskFolder, machine: Machine, tests: Tests) -> Scene:
    """Return what the seal's rules know of a task before they see any change."""
    return Scene(
        folder.instruction,
        workdir=machine.cwd,
        script=tests.script,
        environment={**machine.env, **tests.env},
        artifacts=tuple(artifact.source.rstrip("/") for artifact in folder.toml.artifacts),
    )


async def run_at_level(
    opened: ContainerEnvironment, folder: TaskFolder, chosen: VerifierMachine, level: Level
) -> tuple[TestsRun, Carried]:
    """Return the run of a task's tests on what an agent left, under a seal level.

    Every process of the agent must be dead, unless the level keeps them. Raises UnreadableFiles if its files
    cannot be carried, and SandboxError.
    """
    acted_in, tests = opened.machine, chosen.tests
    if level == "live":
        return await run_tests(acted_in, tests), Carried()
    scene = make_scene(folder, acted_in, tests)
    artifacts = folder.toml.artifacts
    if level == "attached":
        async with open_verifier_machine(opened, chosen, attached=True) as machine:
            # Machines with one network have the same files for it, which the engine has just written again.
            async with acted_in.stopped() if opened.keeps_processes else contextlib.nullcontext():
                changed = await list_changes(acted_in)
                listed = [entry for entry in changed if entry.path not in NETWORK_FILES]
                carried = await carry_changes(
                    listed, acted_in, machine, level, scene, has_tools=chosen.has_tools
                )
            return await run_tests(machine, tests), carried
    listing = list_artifacts(acted_in, artifacts) if level == "artifacts" else list_changes(acted_in)
    async with _make_ahead(listing) as made, open_verifier_machine(opened, chosen) as machine:
        carried = await carry_changes(await made, acted_in, machine, level, scene, has_tools=chosen.has_tools)
        run = run_proxied if level == "proxied" else run_tests
        return await run(machine, tests), carried


@contextlib.asynccontextmanager
async def _make_ahead(
    listing: Coroutine[Any, Any, list[FileEntry]],
) -> AsyncIterator[asyncio.Task[list[FileEntry]]]:
    """List the files of a machine while another one starts, which takes as long."""
    task = asyncio.create_task(listing)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled():
            task.exception()  # asyncio warns of an exception that nobody retrieves


async def grade(
    environment: ContainerEnvironment, target: TaskFolderTarget, submission: Submission
) -> Verdict:
    """Return the verdict on the machine that an agent left, at the seal level of its task.

    Raises SandboxError.
    """
    if environment.seal_level is None:
        evidence = f"no seal level is proven: {environment.facts['seal_reason']}; to choose one: --seal LEVEL"
        return Verdict(Status.GRADER_ERROR, None, {}, escape_text(evidence), Phase.EVALUATOR)
    if environment.steps is not None:
        return environment.steps.judge(target.pass_at)
    return await grade_sealed(environment, target, environment.seal_level)


async def grade_sealed(environment: ContainerEnvironment, target: TaskFolderTarget, level: Level) -> Verdict:
    """Return the verdict on the files of an agent's machine, at a seal level.

    All processes of the machine are dead or paused. Raises SandboxError.
    """
    folder = environment.folder
    tests = read_tests(folder, target.pass_env)
    checks = environment.checks_reports
    hidden = tests.hidden if checks or (checks is None and not tests.adds_reports) else ()
    tests = replace(
        tests,
        seconds=environment.tests_seconds or tests.seconds,
        hidden=hidden,
        object_names=environment.object_names,
    )
    try:
        chosen = await choose_verifier_machine(environment, folder, tests)
        if chosen.is_separate and environment.failed_hook is not None:
            raise NoVerifierMachine(f"a collect hook failed: {environment.failed_hook}")
        run, carried = await run_at_level(environment, folder, chosen, level)
    except NoVerifierMachine as error:
        evidence = f"the tests cannot run: {escape_text(str(error))}"
        return Verdict(Status.GRADER_ERROR, None, {"seal": level}, evidence, Phase.EVALUATOR)
    except UnreadableFiles as error:
        return Verdict(
            Status.FAILED,
            0.0,
            {"seal": level},
            escape_text(f"the files that the agent left cannot be carried: {error}"),
            Phase.EVALUATOR,
            tampering=UNREADABLE_FILES,
        )
    return make_verdict(run, carried, level, target.pass_at)


def make_verdict(run: TestsRun, carried: Carried, level: Level, pass_at: float = PASS_AT) -> Verdict:
    """Return the verdict on a run of the tests. A score is from 0 to 1, and the reward itself is a metric."""
    metrics: dict[str, Any] = {
        "seal": level,
        "carried_files": carried.files,
        "tests_seconds": round(run.seconds, 3),
        **run.facts,
    }
    if carried.dropped:
        metrics["dropped_files"] = dict(carried.dropped)
    if run.reward is None:
        return _judge_without_reward(run, metrics)
    metrics[REWARD] = run.reward.score
    if set(run.reward.values) != {REWARD}:
        metrics["rewards"] = dict(run.reward.values)
    if run.reward.no_reward_key:
        metrics["no_reward_key"] = 1
    score = min(max(run.reward.score, 0.0), 1.0)
    if run.reward.score < pass_at:
        if run.missing_tool is not None:
            return _grader_error(f"a tool of the tests did not start: {run.missing_tool}", run, metrics)
        evidence = f"the tests gave the reward {run.reward.score:g}: {run.shown_output}"
        return Verdict(Status.FAILED, score, metrics, evidence, Phase.EVALUATOR)
    if run.unreported:
        listed = ", ".join(run.unreported[:5])
        evidence = (
            f"the reward is {run.reward.score:g}, but the tests' output mentions {len(run.unreported)} of "
            f"them nowhere: {listed}; {run.shown_output}"
        )
        return Verdict(Status.FAILED, 0.0, metrics, evidence, Phase.EVALUATOR, tampering=TESTS_NOT_REPORTED)
    return Verdict(Status.PASSED, score, metrics)


def _judge_without_reward(run: TestsRun, metrics: dict[str, Any]) -> Verdict:
    if run.reached is None:
        reason = run.missing_tool or run.problem
        return _grader_error(f"the tests gave no reward: {reason}", run, metrics)
    evidence = f"the tests reached the limit {run.reached} before they gave a reward: {run.shown_output}"
    status = Status.TIMEOUT if run.reached in ("wall_seconds", "cpu_seconds") else Status.OUTPUT_LIMIT
    return Verdict(status, 0.0, metrics, evidence, Phase.EVALUATOR, run.reached)


def _grader_error(reason: str, run: TestsRun, metrics: dict[str, Any]) -> Verdict:
    output = f"; the end of their output: {run.shown_output}" if run.shown_output else ""
    return Verdict(Status.GRADER_ERROR, None, metrics, f"{reason}{output}", Phase.EVALUATOR)


GRADERS = (StateGrader(TaskFolderTarget, grade),)
