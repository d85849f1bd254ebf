"""Find the seal level of a task: the first where its reference passes and an empty agent does not.

The level belongs to the task and is stored in the cache, under a digest of the folder, of the rules of its
image, and of the code that decides. So no attempt decides its own level.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import AsyncFileLock

from harness.core.errors import DataError, SandboxError, UsageError
from harness.core.lock import cache_dir
from harness.core.logger import get_logger
from harness.core.text import shorten
from harness.core.types import Task, Verdict
from harness.environments.base import EnvironmentContext, MachineRules, NoTranscript
from harness.environments.container import (
    changes,
    compose,
    environment,
    grader,
    images,
    machine,
    reward,
    scene,
    seal,
    services,
    steps,
    verifier,
)
from harness.environments.container.environment import ContainerEnvironment, open_container, read_folder
from harness.environments.container.proxied import run as proxied
from harness.environments.container.seal import LEVELS, Level
from harness.environments.container.target import (
    NUMBERED,
    SAME_PROCESS,
    SEAL_NUMBER,
    UNPROVEN,
    TaskFolderSetup,
    TaskFolderTarget,
)

if TYPE_CHECKING:
    from harness.environments.container.task_folder import TaskFolder

# The levels that are tried, from the strictest on, in groups that are judged on one machine. A separate
# verifier gets artifacts alone.
SEPARATE: tuple[Level, ...] = ("artifacts",)
TRIED: tuple[tuple[Level, ...], ...] = (("work", "tools", "all"), ("attached",), ("live",))
# The metric of a task whose tests compare objects of the agent's own classes, which decide that themselves.
WEAK_TESTS = "weak_tests"
_COMPARISONS = ("__eq__", "__lt__", "__le__", "__gt__", "__ge__", "__contains__")
# The start of the description of a try whose tests wrote a reward.
_EARNED = "reward "
_DECIDING = (
    *(changes, compose, environment, grader, images, machine, reward, scene),
    *(seal, proxied, services, steps, verifier),
)
# The time between two attempts to get the lock of a task.
LOCK_SECONDS = 0.2
_LOGGER = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Calibration:
    """The seal level of a task. Without a level, no level is proven, and `reason` says why."""

    level: Level | None
    # Why the task has this level.
    reason: str
    # The reward of the reference at each level that was tried, or why it had none.
    tried: Mapping[str, str] = field(default_factory=dict)
    # Whether each try earned a reward, so that another one would end the same way. Tools of the tests that
    # could not be fetched may be there the next time.
    is_conclusive: bool = True
    # Whether the tests report each of their parts when the reference passes, so that others must do so too.
    # None if no reference has shown it.
    has_reports: bool | None = None
    # Whether the tests run code of the agent in their own process, or may do so.
    same_process: bool = False
    # The names that the tests used objects of the reference by, at the level `proxied`.
    object_names: Sequence[str] | None = None

    def describe(self) -> dict[str, Any]:
        """Return the facts for the metrics of an attempt."""
        named = self.level or UNPROVEN
        facts: dict[str, Any] = {
            "seal": named,
            "seal_reason": self.reason,
            SEAL_NUMBER: NUMBERED.index(named) + 1,
        }
        if self.same_process:
            facts[SAME_PROCESS] = 1
        if set(_COMPARISONS).intersection(self.object_names or ()):
            facts[WEAK_TESTS] = 1
        return {**facts, "seal_tried": dict(self.tried)} if self.tried else facts


@contextlib.asynccontextmanager
async def open_sealed(task: Task, context: EnvironmentContext) -> AsyncIterator[ContainerEnvironment]:
    """Open the machine of a task folder, as `open_container` does, and know the seal level of its grading.

    A task that was never calibrated is calibrated first, in machines of its own. Raises SandboxError, also
    for a task that cannot run here, because the other tasks of the run go on.
    """
    async with contextlib.AsyncExitStack() as stack:
        try:
            calibration = await find_calibration(task, context)
            opened = await stack.enter_async_context(open_container(task, context))
        except (UsageError, DataError) as error:
            message = f"the task cannot run: {error}"
            raise SandboxError(message, hint=error.hint, acted_in=False, lasting=True) from error
        opened.seal_level = calibration.level
        opened.checks_reports = calibration.has_reports
        opened.tools_start = calibration.level in calibration.tried
        opened.object_names = None if calibration.object_names is None else tuple(calibration.object_names)
        opened.facts = {**opened.facts, **calibration.describe()}
        if opened.folder.steps:
            opened.steps = steps.TaskSteps(opened)
        yield opened


async def find_calibration(task: Task, context: EnvironmentContext) -> Calibration:
    """Return the stored level of a task, or find and store it. Raises as `open_container`."""
    rules = context.machine_rules or MachineRules()
    if rules.seal is not None:
        return Calibration(rules.seal, "chosen by --seal")
    setup = task.setup
    if not isinstance(setup, TaskFolderSetup):
        return Calibration("work", "no task folder")
    folder = await asyncio.to_thread(read_folder, setup)
    if not folder.has_reference:
        is_separate = folder.toml.verifier_mode() == "separate"
        return Calibration("artifacts" if is_separate else "work", "no reference")
    path = cache_dir() / "seal" / f"{_digest(folder, setup, rules)}.json"
    # Attempts at a task begin together. A thread that waits would be missing where machines start.
    lock = AsyncFileLock(
        path.with_suffix(".lock"), poll_interval=LOCK_SECONDS, run_in_executor=False, fallback_to_soft=False
    )
    async with lock:
        stored = _read(path)
        if stored is None:
            _LOGGER.info("%s: looking for the seal level by the reference", folder.name)
            stored = await calibrate(task, setup, context)
            _LOGGER.info("%s: seal level %s, %s", folder.name, stored.level, stored.reason)
            if stored.is_conclusive:
                _write(path, stored)
        return stored


async def calibrate(task: Task, setup: TaskFolderSetup, context: EnvironmentContext) -> Calibration:
    """Run the reference and an empty agent, and return the level that they prove.

    Raises as `open_container`.
    """
    context = replace(context, transcript=NoTranscript(), turns=None, start=None)
    tried: dict[str, str] = {}
    folder = read_folder(setup)
    views = folder.views()
    tries = (SEPARATE,) if all(view.toml.verifier_mode() == "separate" for view in views) else TRIED
    may_be_proxied = tries is TRIED and not folder.steps
    may_be_proxied = may_be_proxied and proxied.can_be_proxied(verifier.read_tests(folder, setup.pass_env))
    ran: dict[str, Any] = {}
    if folder.steps:
        # The next step is built on the files of the last one, so each level needs a machine of its own.
        tries = tuple((level,) for levels in tries for level in levels)
    for levels in tries:
        async with _open(task, context, levels) as solved:
            level: Level | None = None
            if may_be_proxied:
                may_be_proxied = False
                await environment.solve(solved)
                await solved.end_acting()
                level, ran = await _try_proxied(solved, tried)
                level = level or await _try_levels(solved, levels, tried)
            else:
                level = await _find_level(solved, levels, tried, environment.solve)
        if level is None:
            continue
        async with _open(task, context, levels) as untouched:
            untouched.checks_reports = solved.checks_reports
            await untouched.end_acting()
            if await _find_level(untouched, (level,), {}) is not None:
                return Calibration(None, f"an agent that does nothing passes at level {level}", tried)
        reason = "proven by the reference"
        return Calibration(level, reason, tried, has_reports=solved.checks_reports, **ran)
    last = next(text for each, text in tried.items() if each != "proxied")
    reason = f"the reference passes at no level: {last}"
    return Calibration(None, reason, tried, is_conclusive=all(map(_has_reward, tried.values())))


@contextlib.asynccontextmanager
async def _open(
    task: Task, context: EnvironmentContext, levels: tuple[Level, ...]
) -> AsyncIterator[ContainerEnvironment]:
    async with open_container(task, context) as opened:
        opened.seal_level = levels[0]
        opened.checks_reports = True
        yield opened


async def _try_proxied(
    opened: ContainerEnvironment, tried: dict[str, str]
) -> tuple[Level | None, dict[str, Any]]:
    """Return the level `proxied` if the tests run code of the agent and the reference passes there.

    Then return the facts about that for the calibration. Tests that run none of it need no proxies. If the
    reference fails, nothing shows that they run none.
    """
    verdict = await _grade(opened, _target(opened), "proxied")
    if not verdict.resolved:
        tried["proxied"] = _describe(verdict)
        # Tests that were too slow say little, and are tried again the next time.
        return None, {"same_process": True, "is_conclusive": verdict.limit is None}
    if not verdict.metrics.get(proxied.AGENT_CODE):
        return None, {}
    tried["proxied"] = _describe(verdict)
    return "proxied", {"object_names": verdict.metrics.get(proxied.OBJECT_NAMES, [])}


async def _find_level(
    opened: ContainerEnvironment,
    levels: tuple[Level, ...],
    tried: dict[str, str],
    act: Callable[[ContainerEnvironment], Awaitable[object]] | None = None,
) -> Level | None:
    """Return the first of these levels where what `act` leaves passes. Note all tries.

    The machine of a task with steps can be judged at one level.
    """
    if opened.folder.steps:
        verdict = await _make_steps(opened, act)
        tried[levels[0]] = _describe(verdict)
        return levels[0] if verdict.resolved else None
    if act is not None:
        await act(opened)
    await opened.end_acting()
    return await _try_levels(opened, levels, tried)


async def _try_levels(
    opened: ContainerEnvironment, levels: tuple[Level, ...], tried: dict[str, str]
) -> Level | None:
    """Return the first of these levels where what was left passes. Note all tries."""
    target = _target(opened)
    adds_reports = verifier.read_tests(opened.folder, target.pass_env).adds_reports
    for level in levels:
        verdict = await _grade(opened, target, level)
        is_changed = opened.checks_reports is True and adds_reports and not verdict.resolved
        if verdict.tampering == grader.TESTS_NOT_REPORTED or is_changed:
            opened.checks_reports = False
            verdict = await _grade(opened, target, level)
        tried[level] = _describe(verdict)
        if verdict.resolved:
            return level
    return None


async def _make_steps(
    opened: ContainerEnvironment, act: Callable[[ContainerEnvironment], Awaitable[object]] | None
) -> Verdict:
    """Return the verdict on `act` in each step of a task."""
    made = steps.TaskSteps(opened, _grade_step)
    for number in range(len(made.plan())):
        if not await made.begin(number):
            break
        if act is not None:
            await act(opened)
        if not await made.end():
            break
    return made.judge(reward.PASS_AT)


def _target(opened: ContainerEnvironment) -> TaskFolderTarget:
    setup = opened.setup
    return TaskFolderTarget(setup.folder, setup.digest, setup.pass_env)


async def _grade(opened: ContainerEnvironment, target: TaskFolderTarget, level: Level) -> Verdict:
    async with opened.context.pool.grade_nested():
        return await grader.grade_sealed(opened, target, level)


async def _grade_step(opened: ContainerEnvironment, target: TaskFolderTarget, level: Level) -> Verdict:
    """Return a verdict, and check reports of tests no longer if the reference's reports lack some."""
    verdict = await grader.grade_sealed(opened, target, level)
    if verdict.tampering == grader.TESTS_NOT_REPORTED:
        opened.checks_reports = False
        verdict = await grader.grade_sealed(opened, target, level)
    return verdict


def _describe(verdict: Verdict) -> str:
    earned = verdict.metrics.get(reward.REWARD)
    found = "" if earned is None else f"{_EARNED}{earned:g}; "
    return found + shorten(verdict.evidence or verdict.status.value, 300, keep_end=True)


def _has_reward(described: str) -> bool:
    return described.startswith(_EARNED)


def _digest(folder: TaskFolder, setup: TaskFolderSetup, rules: MachineRules) -> str:
    deciding = (Path(str(module.__file__)).read_bytes() for module in _DECIDING)
    contents = (repr(proxied.list_modules()).encode(), *deciding)
    code = "".join(hashlib.sha256(content).hexdigest() for content in contents)
    named = (
        folder.digest,
        setup.pass_env,
        rules.build.base_images,
        rules.allow_network,
        rules.grading_network,
        rules.without_network,
    )
    return hashlib.sha256(f"{named}{code}".encode()).hexdigest()[:32]


def _read(path: Path) -> Calibration | None:
    try:
        stored = Calibration(**json.loads(path.read_bytes()))
    except (OSError, ValueError, TypeError):
        return None
    return stored if stored.level is None or stored.level in LEVELS else None


def _write(path: Path, calibration: Calibration) -> None:
    draft = path.with_suffix(f".{os.getpid()}")
    draft.write_text(json.dumps(asdict(calibration)), encoding="utf-8")
    draft.replace(path)
