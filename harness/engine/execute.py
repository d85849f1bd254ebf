"""Attempts, carried out: agent, sandbox, grader, record. Faults of ours are retried and told apart."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING

from harness.agents import Agent, AgentError
from harness.benchmarks import Benchmark
from harness.completion import completed
from harness.engine.faults import Faults
from harness.engine.observer import RunObserver
from harness.engine.plan import PlannedAttempt
from harness.engine.records import record_of
from harness.engine.store import RunStore
from harness.environments import Environment
from harness.errors import ImageMissingError, SandboxError
from harness.grading.programs import grade_program
from harness.model import Reference, Status, Submission, Verdict
from harness.sandbox.limits import Limits
from harness.sandbox.sandbox import Sandbox, SandboxUnresponsive

if TYPE_CHECKING:
    from docker import APIClient


@dataclass(frozen=True, slots=True)
class Execution:
    """What every attempt of a run is carried out with.

    `timeout_seconds` is for what the agent does in one attempt, and again for grading it. `image_id`
    pins the build of the environment's image.
    """

    benchmark: Benchmark
    environment: Environment
    agent: Agent
    client: APIClient
    store: RunStore
    observer: RunObserver
    faults: Faults
    run_id: str
    image_id: str
    limits: Limits
    runtime: str
    timeout_seconds: float
    concurrency: int


async def execute(execution: Execution, plan: Sequence[PlannedAttempt]) -> None:
    """Carry out every planned attempt that the store has no verdict of.

    Tasks run side by side, the attempts of one task one after the other in one container. A
    cancellation ends all of them at once; what has ended is stored. Raises StorageError, and
    RunStoppedError where a lasting fault of ours keeps the run from going on.
    """
    finished = execution.store.finished
    waiting = [planned for planned in plan if planned.key not in finished]
    execution.observer.started(
        attempts=len(plan), finished=len(plan) - len(waiting), concurrency=execution.concurrency
    )
    groups = (list(group) for _, group in itertools.groupby(waiting, key=lambda planned: planned.task.id))
    try:
        async with asyncio.TaskGroup() as workers:
            for _ in range(execution.concurrency):
                workers.create_task(_work(execution, groups))
    except ExceptionGroup as failures:
        # The first has cancelled the other workers, or they met the same.
        raise failures.exceptions[0] from None
    if execution.faults.stopped is not None:
        raise execution.faults.stopped


async def _work(execution: Execution, groups: Iterator[list[PlannedAttempt]]) -> None:
    for group in groups:
        async with _GradingSandbox(execution, attempts=len(group)) as grading:
            for planned in group:
                if execution.faults.stopped is not None:
                    return
                await _attempt(execution, planned, grading)


async def _attempt(execution: Execution, planned: PlannedAttempt, grading: _GradingSandbox) -> None:
    started = time.monotonic()
    reference = execution.benchmark.references[planned.task.id]
    acted = await _act(execution, planned)
    if isinstance(acted, Submission):
        agent_output, verdict = acted.agent_output, await _grade(execution, reference, acted, grading)
    else:
        agent_output, verdict = "", acted
    record = record_of(
        planned,
        reference,
        verdict,
        agent_output=agent_output,
        duration_seconds=time.monotonic() - started,
    )
    await completed(asyncio.to_thread(execution.store.append, record))
    execution.observer.attempt_finished(record)


async def _act(execution: Execution, planned: PlannedAttempt) -> Submission | Verdict:
    """Let the agent act; the verdict where that has decided the attempt already."""
    try:
        async with asyncio.timeout(execution.timeout_seconds) as limit:
            return await execution.agent.attempt(planned.task, planned.sample_line)
    except TimeoutError:
        if not limit.expired():
            raise
        return _timed_out(execution, "agent")
    except AgentError as error:
        return Verdict(Status.AGENT_ERROR, 0.0, {"phase": "agent"}, str(error))


async def _grade(
    execution: Execution, reference: Reference, submission: Submission, grading: _GradingSandbox
) -> Verdict:
    """Grade, and try again in a fresh sandbox where the fault was ours."""
    for tried in itertools.count(1):
        try:
            # Opened outside of the limit: the time that the engine takes is not the program's.
            sandbox = await grading.get()
            verdict = await _graded(execution, reference, submission, sandbox)
        except (SandboxError, ImageMissingError) as error:
            await grading.discard()
            if await execution.faults.worth_another_try(reference.task_id, error, tried):
                continue
            return _given_up(error, tried)
        if not sandbox.clean:
            await grading.discard()
        return verdict
    raise AssertionError("unreachable: the loop ends by returning")


async def _graded(
    execution: Execution, reference: Reference, submission: Submission, sandbox: Sandbox
) -> Verdict:
    """Grade once, under the task's limit. Raises SandboxError."""
    try:
        async with asyncio.timeout(execution.timeout_seconds) as limit:
            return await grade_program(sandbox, reference.tests, submission)
    except TimeoutError as error:
        if not limit.expired():
            raise
        sandbox.clean = False
        if not await execution.faults.engine_was_there():
            raise SandboxError("the engine stopped answering while a program was graded") from error
        return _timed_out(execution, "evaluator")


def _timed_out(execution: Execution, phase: str) -> Verdict:
    said = f"the {phase} reached the task's limit timeout_seconds of {execution.timeout_seconds:.0f} s"
    return Verdict(Status.TIMEOUT, 0.0, {"phase": phase, "limit": "timeout_seconds"}, said)


def _given_up(error: SandboxError | ImageMissingError, tried: int) -> Verdict:
    if isinstance(error, SandboxUnresponsive):
        # Time after time nothing but this program has kept PID 1 from answering.
        metrics = {"phase": "evaluator", "limit": "timeout_seconds", "tries": tried}
        return Verdict(Status.TIMEOUT, 0.0, metrics, error.message)
    return Verdict(Status.INFRA_ERROR, None, {"phase": "evaluator", "tries": tried}, error.message)


class _GradingSandbox:
    """The sandbox in which the attempts of one task are graded: opened late, replaced when in doubt."""

    def __init__(self, execution: Execution, *, attempts: int) -> None:
        self._execution = execution
        # The agent acts while the sandbox of the attempt before is still there.
        self._deadline_seconds = execution.timeout_seconds * (2 * attempts + 1)
        self._stack = contextlib.AsyncExitStack()
        self._sandbox: Sandbox | None = None

    async def get(self) -> Sandbox:
        if self._sandbox is None:
            execution = self._execution
            opening = execution.environment.open_for_grading(
                image_id=execution.image_id,
                limits=execution.limits,
                runtime=execution.runtime,
                deadline_seconds=self._deadline_seconds,
                run_id=execution.run_id,
                client=execution.client,
            )
            self._sandbox = await self._stack.enter_async_context(opening)
        return self._sandbox

    async def discard(self) -> None:
        self._sandbox = None
        with contextlib.suppress(SandboxError):  # what cannot be removed now is removed at the run's end
            await self._stack.aclose()

    async def __aenter__(self) -> _GradingSandbox:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.discard()
