"""Grade what an agent left in the machine of a task folder, in a second machine that it never touched."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.core.errors import DataError, SandboxError, UsageError
from harness.core.text import escape_text
from harness.core.types import Phase, Status, Submission, Verdict
from harness.environments.base import MachineRules
from harness.environments.container.changes import Carried, carry_changes, list_artifacts, list_changes
from harness.environments.container.images import choose_limits, find_image, grading_variables, prepare_tools
from harness.environments.container.machine import Machine, inspect_image, open_machine
from harness.environments.container.proxied.run import run_proxied
from harness.environments.container.reward import PASS_AT, describe_reward
from harness.environments.container.scene import Scene
from harness.environments.container.seal import Level
from harness.environments.container.services import open_group, tests_name_service
from harness.environments.container.target import TaskFolderTarget
from harness.environments.container.task_folder import ENVIRONMENT, TaskFolder, resolve_env
from harness.environments.container.verifier import Tests, TestsRun, read_tests, run_tests
from harness.environments.os.file_entries import UnreadableFiles
from harness.environments.os.root_sandbox import list_ahead
from harness.environments.spec import StateGrader
from harness.sandbox.backends.base import BuiltImage, JoinedContainer, RunsForeignImages
from harness.sandbox.limits import Limits

if TYPE_CHECKING:
    from harness.environments.container.environment import ContainerEnvironment

# The time that the machine of the tests may take beside them.
MARGIN_SECONDS = 300.0
NETWORK_FILES = ("/etc/hosts", "/etc/hostname", "/etc/resolv.conf")
# The signs of tampering.
UNREADABLE_FILES = "unreadable_files"
TESTS_NOT_REPORTED = "tests_not_reported"


class NoVerifierMachine(Exception):
    """The machine of the tests cannot be had, because its image or its tools cannot be built."""


@dataclass(frozen=True, slots=True)
class VerifierMachine:
    """The machine of a task's tests, before it starts."""

    image: str
    tests: Tests
    cwd: str | None
    env: Mapping[str, str]
    limits: Limits
    # Whether the verifier has a machine of its own, which gets declared artifacts alone.
    is_separate: bool
    # Whether the image has tools that the agent's machine lacks.
    has_tools: bool
    # Whether the tests reach services, which start anew for them.
    has_services: bool = False


async def choose_verifier_machine(
    opened: ContainerEnvironment, folder: TaskFolder, tests: Tests
) -> VerifierMachine:
    """Return the machine for the tests of a task: a copy of the agent's, or the verifier's own.

    Raises NoVerifierMachine, and SandboxError for a fault of the engine.
    """
    try:
        return await _choose(opened, folder, tests)
    except (SandboxError, UsageError, DataError) as error:
        if isinstance(error, SandboxError) and error.outside:
            raise
        raise NoVerifierMachine(error.message) from error


async def _choose(opened: ContainerEnvironment, folder: TaskFolder, tests: Tests) -> VerifierMachine:
    backend = opened.context.pool.backend
    assert isinstance(backend, RunsForeignImages)  # noqa: S101  because it has started the agent's machine
    machine, image = opened.machine, opened.image
    cwd: str | None = machine.cwd
    env, limits = machine.env, machine.sandbox.limits
    own = folder.toml.verifier.environment
    is_separate = folder.toml.verifier_mode() == "separate"
    if is_separate:
        table = own or folder.toml.environment
        build = None if table.docker_image else folder.verifier_build
        if build is not None or own is not None:
            place = Path(folder.path, build or ENVIRONMENT)
            image = await find_image(opened.context, folder, table, place)
            facts = await inspect_image(backend, image.id)
            cwd, env = table.workdir or facts.folder, facts.environment
            limits = choose_limits(opened.context.settings.limits, table, folder)
        if build is not None:
            # The image brings the tests.
            tests = replace(tests, parts=())
        env = {**env, **resolve_env(table.env, opened.setup.pass_env, place="verifier.environment.env")}
    rules = opened.context.machine_rules or MachineRules()
    tools = None
    if not rules.grading_network:
        tools = await prepare_tools(backend, image, tests.script, await _find_user(backend, image), rules)
    if tools is not None:
        path = env.get("PATH", machine.env["PATH"])
        tests = replace(tests, env={**tests.env, **grading_variables(path)})
    return VerifierMachine(
        *(tools or image.id, tests, cwd, env, limits),
        is_separate=is_separate,
        has_tools=tools is not None,
        has_services=not is_separate
        and opened.services is not None
        and any(tests_name_service(opened.services.compose, place) for place, _ in tests.parts),
    )


async def _find_user(backend: RunsForeignImages, image: BuiltImage) -> str:
    return (await inspect_image(backend, image.id)).user


@contextlib.asynccontextmanager
async def open_verifier_machine(
    opened: ContainerEnvironment, chosen: VerifierMachine, *, attached: bool = False
) -> AsyncIterator[Machine]:
    """Start the machine of the tests from its pristine image, without a network by default, and yield it.

    Its services, if the tests reach any, are new too, and no agent has reached them. An `attached` machine
    reaches the services as the agent left them: the task's services, or else the ones in the agent's machine.
    """
    rules = opened.context.machine_rules or MachineRules()
    seconds, settings = chosen.tests.seconds + MARGIN_SECONDS, opened.context.settings
    main = functools.partial(
        open_machine,
        opened.context.pool,
        chosen.image,
        seconds=seconds,
        settings=settings,
        limits=chosen.limits,
        cwd=chosen.cwd,
        env=chosen.env,
    )
    if attached:
        place = opened.place or JoinedContainer(opened.machine.sandbox.container_id)
        async with main(network=place, nested=True) as machine:
            yield machine
        return
    if opened.services is None or not chosen.has_services:
        async with main(nested=True, network=rules.grading_network) as machine:
            yield machine
        return
    services = replace(opened.services, is_public=rules.grading_network, hosts=None)
    async with open_group(
        *(opened.context.pool, services, main), settings=settings, seconds=seconds, nested=True
    ) as group:
        yield group.main


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
    async with list_ahead(listing) as made, open_verifier_machine(opened, chosen) as machine:
        carried = await carry_changes(await made, acted_in, machine, level, scene, has_tools=chosen.has_tools)
        run = run_proxied if level == "proxied" else run_tests
        return await run(machine, tests), carried


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
    rules = environment.context.machine_rules or MachineRules()
    if environment.tools_start and not rules.grading_network:
        # The line may be the agent's, or about a module that the agent has not written.
        run = replace(run, missing_tool=None)
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
    metrics |= describe_reward(run.reward)
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
