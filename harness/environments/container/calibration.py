"""Find the seal level of a task: the first at which its reference passes and an empty agent does not.

The level belongs to the task and is stored in the cache, under a digest of the folder, of the rules of its
image, and of the code that decides. So no attempt decides its own level.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import json
import os
from collections.abc import AsyncIterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.core.lock import cache_dir
from harness.core.logger import get_logger
from harness.core.text import shorten
from harness.core.types import Task, Verdict
from harness.environments.base import EnvironmentContext, MachineRules
from harness.environments.container import (
    changes,
    environment,
    grader,
    grading_tools,
    reward,
    seal,
    verifier,
    verifier_machine,
)
from harness.environments.container.environment import ContainerEnvironment, open_container, read_folder
from harness.environments.container.seal import LEVELS, Level
from harness.environments.container.target import TaskFolderSetup, TaskFolderTarget

if TYPE_CHECKING:
    from harness.environments.container.task_folder import TaskFolder

# The levels that are tried, from the strictest on, in groups that are judged on one machine. A separate
# verifier gets artifacts alone. No machine of this backend can be `attached`.
SEPARATE: tuple[Level, ...] = ("artifacts",)
TRIED: tuple[tuple[Level, ...], ...] = (("work", "tools", "all"), ("live",))
# The metric that a run sums up, which is a number: from 1, the place in this list.
SEAL_NUMBER, UNPROVEN = "seal_number", "unproven"
NUMBERED = (*LEVELS, UNPROVEN)
# The start of the description of a try whose tests wrote a reward.
_EARNED = "reward "
_DECIDING = (changes, environment, grader, grading_tools, reward, seal, verifier, verifier_machine)
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
    has_reports: bool = True

    def describe(self) -> dict[str, Any]:
        """Return the facts for the metrics of an attempt."""
        named = self.level or UNPROVEN
        facts: dict[str, Any] = {
            "seal": named,
            "seal_reason": self.reason,
            SEAL_NUMBER: NUMBERED.index(named) + 1,
        }
        return {**facts, "seal_tried": dict(self.tried)} if self.tried else facts


@contextlib.asynccontextmanager
async def open_sealed(task: Task, context: EnvironmentContext) -> AsyncIterator[ContainerEnvironment]:
    """Open the machine of a task folder, as `open_container` does, and know the seal level of its grading.

    A task that was never calibrated is calibrated first, in machines of its own. Raises as `open_container`.
    """
    calibration = await find_calibration(task, context)
    async with open_container(task, context) as opened:
        opened.seal_level = calibration.level
        opened.checks_reports = calibration.has_reports
        opened.facts = {**opened.facts, **calibration.describe()}
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
    if not folder.has_solution:
        is_separate = folder.toml.verifier_mode() == "separate"
        return Calibration("artifacts" if is_separate else "work", "no reference")
    path = cache_dir() / "seal" / f"{_digest(folder, setup, rules)}.json"
    async with hold_alone(path.with_suffix(".lock")):
        stored = _read(path)
        if stored is None:
            _LOGGER.info("%s: looking for the seal level by the reference", folder.name)
            stored = await calibrate(task, setup, context)
            _LOGGER.info("%s: seal level %s, %s", folder.name, stored.level, stored.reason)
            if stored.is_conclusive:
                _write(path, stored)
        return stored


@contextlib.asynccontextmanager
async def hold_alone(path: Path) -> AsyncIterator[None]:
    """Hold a lock that one attempt of all processes has at a time, because attempts at a task begin together.

    It is asked for again and again, because a thread that waits would be missing where machines start.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                await asyncio.sleep(LOCK_SECONDS)
        yield


async def calibrate(task: Task, setup: TaskFolderSetup, context: EnvironmentContext) -> Calibration:
    """Run the reference and an empty agent, and return the level that they prove.

    Raises as `open_container`.
    """
    context = replace(context, transcript=_NoTranscript(), turns=None)
    tried: dict[str, str] = {}
    is_separate = read_folder(setup).toml.verifier_mode() == "separate"
    for levels in (SEPARATE,) if is_separate else TRIED:
        async with _open(task, context, levels) as solved:
            await environment.solve(solved)
            level = await _find_level(solved, levels, tried)
        if level is None:
            continue
        async with _open(task, context, levels) as untouched:
            untouched.checks_reports = solved.checks_reports
            if await _find_level(untouched, (level,), {}) is not None:
                return Calibration(None, f"an agent that does nothing passes at level {level}", tried)
        return Calibration(level, "proven by the reference", tried, has_reports=solved.checks_reports)
    reason = f"the reference passes at no level: {next(iter(tried.values()))}"
    return Calibration(None, reason, tried, is_conclusive=all(map(_has_reward, tried.values())))


@contextlib.asynccontextmanager
async def _open(
    task: Task, context: EnvironmentContext, levels: tuple[Level, ...]
) -> AsyncIterator[ContainerEnvironment]:
    async with open_container(task, context) as opened:
        opened.seal_level = levels[0]
        yield opened


async def _find_level(
    opened: ContainerEnvironment, levels: tuple[Level, ...], tried: dict[str, str]
) -> Level | None:
    """End the acting, and return the first of these levels at which what was left passes. Note all tries."""
    await opened.end_acting()
    setup = opened.setup
    target = TaskFolderTarget(setup.folder, setup.digest, setup.pass_env)
    for level in levels:
        verdict = await _grade(opened, target, level)
        if verdict.tampering == grader.TESTS_NOT_REPORTED:
            opened.checks_reports = False
            verdict = await _grade(opened, target, level)
        tried[level] = _describe(verdict)
        if verdict.resolved:
            return level
    return None


async def _grade(opened: ContainerEnvironment, target: TaskFolderTarget, level: Level) -> Verdict:
    async with opened.context.pool.grade_nested():
        return await grader.grade_sealed(opened, target, level)


def _describe(verdict: Verdict) -> str:
    earned = verdict.metrics.get(reward.REWARD)
    found = "" if earned is None else f"{_EARNED}{earned:g}; "
    return found + shorten(verdict.evidence or verdict.status.value, 300, keep_end=True)


def _has_reward(described: str) -> bool:
    return described.startswith(_EARNED)


class _NoTranscript:
    def write(self, entry: Mapping[str, Any], *, is_end: bool = False) -> None:
        pass


def _digest(folder: TaskFolder, setup: TaskFolderSetup, rules: MachineRules) -> str:
    code = "".join(
        hashlib.sha256(Path(str(module.__file__)).read_bytes()).hexdigest() for module in _DECIDING
    )
    named = (
        folder.digest,
        setup.pass_env,
        rules.build.base_images,
        rules.allow_network,
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
