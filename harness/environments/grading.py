"""Grade one submission with the grader of its target, in the sandbox that this grader needs, in time."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from harness.core.errors import SandboxError, UsageError
from harness.core.types import Phase, Status, Submission, Verdict
from harness.environments import grader_of
from harness.environments.base import Environment, SandboxEnvironment
from harness.environments.spec import SandboxGrader, StateGrader, TextGrader
from harness.sandbox.failures import SandboxLimitReached
from harness.sandbox.pool import SandboxPool, SandboxSettings
from harness.sandbox.sandbox import Sandbox

# The statuses of submissions that cost a sandbox by one of its limits.
_LOST_TO = {"memory_mb": Status.MEMORY_LIMIT, "disk_mb": Status.OUTPUT_LIMIT}
# The metric of a program that ended a little above its limit on processor time, and was run once more alone.
RUN_AGAIN = "run_again"
# Leases with this key share a sandbox where trusted code grades one task after the other.
SHARED = "shared"
# Leases with this key share a sandbox where only code of a benchmark's author judges outputs.
CHECKERS = "checkers"

Graded = TypeVar("Graded")


async def _is_there() -> bool:
    return True


@dataclass(frozen=True, slots=True)
class GradingContext:
    """The place and the timeout of a submission's grading."""

    pool: SandboxPool
    # The timeout of the grader, in seconds.
    seconds: float
    # The settings of a fresh sandbox of the task's environment, None if the environment has no image.
    fresh: SandboxSettings | None = None
    # Leases of one key share a fresh sandbox.
    key: Hashable = None
    # Leases of one key share a sandbox where trusted code grades for many tasks.
    shared_key: Hashable = SHARED
    # The environment where an agent has acted.
    environment: Environment | None = None
    # Returns whether the backend of the sandboxes answers.
    check_engine: Callable[[], Awaitable[bool]] = _is_there
    # Called when the grader begins, after every wait for a place.
    on_begin: Callable[[], None] = lambda: None


async def grade_submission(target: Any, submission: Submission, context: GradingContext) -> Verdict:
    """Return the verdict on a submission after `context.seconds` seconds of wall time at most.

    Raises UsageError if the target needs a sandbox or an environment and there is none. Raises SandboxError,
    EngineUnavailableError and ImageMissingError if the sandbox fails.
    """
    grader = grader_of(target)
    try:
        if isinstance(grader, TextGrader):
            return await _grade_in_time(functools.partial(grader.grade, target, submission), context)
        if isinstance(grader, SandboxGrader) and context.environment is None:
            return await _grade_in_sandbox(grader, target, submission, context)
        async with context.pool.grade_nested():
            _require_time(context)
            if isinstance(grader, SandboxGrader):
                return await _grade_in_sandbox(grader, target, submission, context)
            return await _grade_state(grader, target, submission, context)
    except SandboxLimitReached as error:
        return make_limit_verdict(error, Phase.EVALUATOR)


async def _grade_in_sandbox(
    grader: SandboxGrader, target: Any, submission: Submission, context: GradingContext
) -> Verdict:
    settings = context.fresh if grader.image is None else SandboxSettings(grader.image)
    if settings is None:
        raise UsageError(f"{type(target).__name__} needs a sandbox to be graded, and the task has none")
    settings = replace(settings, image=grader.choose_image(target) or settings.image)
    if grader.may_need_sockets is not None and not grader.may_need_sockets(target, submission):
        settings = replace(settings, network="shared" if settings.seccomp == "strict" else "own")
    nested = context.environment is not None
    key = context.key if grader.image is None else context.shared_key
    if grader.needs_own_sandbox(target) is not None:
        key = None

    async def grade_once(*, key: Hashable, nested: bool) -> Verdict:
        # Open before the timeout starts, because the start-up time must not count against the submission.
        async with context.pool.lease(
            settings, seconds=context.seconds, key=key, working=True, nested=nested
        ) as sandbox:
            try:
                grade = functools.partial(grader.grade, sandbox, target, submission)
                found = await _grade_in_time(grade, context, sandbox=sandbox)
            except SandboxLimitReached as error:
                sandbox.clean = False
                return make_limit_verdict(error, Phase.EVALUATOR)
        if isinstance(found, Verdict):
            return found
        # The program is dead, and no program under tests has been in this sandbox.
        other = SandboxSettings(found.image, seccomp="strict")
        # Attempts that share nothing share no sandbox of a checker either.
        shared = context.shared_key
        own = None if shared is None else (CHECKERS, shared, found.key)
        async with context.pool.lease(
            other, seconds=context.seconds, key=own, working=True, nested=nested
        ) as sandbox:
            judged = await _grade_in_time(functools.partial(found.judge, sandbox), context, sandbox=sandbox)
        assert isinstance(judged, Verdict)  # noqa: S101  a judge returns nothing else
        return judged

    verdict = await grade_once(key=key, nested=nested)
    if verdict.borderline is None:
        return verdict
    # In a fresh sandbox, so that the program cannot know of its first run. The run takes place whether the
    # first one was right or not.
    async with contextlib.nullcontext() if nested else context.pool.alone():
        again = await grade_once(key=None, nested=True)
    chosen = again if verdict.borderline else verdict
    return replace(chosen, metrics={**chosen.metrics, RUN_AGAIN: 1}, borderline=None)


async def _grade_state(
    grader: StateGrader, target: Any, submission: Submission, context: GradingContext
) -> Verdict:
    if context.environment is None:
        raise UsageError("the grader compares the state that an agent left, and a text alone has no state")
    environment = context.environment
    grade = functools.partial(grader.grade, environment, target, submission)
    sandbox = environment.sandbox if isinstance(environment, SandboxEnvironment) else None
    return await _grade_in_time(grade, context, sandbox=sandbox)


async def _grade_in_time(
    grade: Callable[[], Awaitable[Graded]], context: GradingContext, *, sandbox: Sandbox | None = None
) -> Graded | Verdict:
    context.on_begin()
    try:
        async with asyncio.timeout(context.seconds) as limit:
            return await grade()
    except TimeoutError as error:
        if not limit.expired():
            raise
        if sandbox is not None:
            sandbox.clean = False
            if not await context.check_engine():
                message = "the backend stopped answering while a submission was graded"
                raise SandboxError(message, outside=True) from error
        return make_timeout_verdict(Phase.EVALUATOR, context.seconds)


def _require_time(context: GradingContext) -> None:
    """Raise SandboxError if the agent's sandbox could reach its deadline before the grader's timeout."""
    environment = context.environment
    if isinstance(environment, SandboxEnvironment) and environment.seconds_left < context.seconds:
        raise SandboxError("the attempt waited too long to be graded", outside=True)


def make_timeout_verdict(phase: Phase, seconds: float) -> Verdict:
    """Return the verdict on an attempt whose agent or evaluator took longer than the task allows."""
    evidence = f"the {phase.value} reached the task's limit timeout_seconds of {seconds:.0f} s"
    return Verdict(
        Status.TIMEOUT, 0.0, evidence=evidence, phase=phase, limit="timeout_seconds", limit_value=seconds
    )


def make_limit_verdict(error: SandboxLimitReached, phase: Phase) -> Verdict:
    """Return the verdict on an attempt that cost a sandbox by one of its limits."""
    status = _LOST_TO[error.limit]
    return Verdict(status, 0.0, evidence=error.message, phase=phase, limit=error.limit)
