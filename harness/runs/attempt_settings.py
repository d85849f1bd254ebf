"""The settings that all attempts of a run share, their keys of shared sandboxes, and their grading."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from harness.benchmarks.benchmark import Benchmark
from harness.core.types import Submission, Task, Verdict
from harness.environments.base import Environment
from harness.environments.grading import SHARED, GradingContext, grade_submission
from harness.environments.spec import EnvironmentSpec
from harness.runs.agents.agent import Agent
from harness.runs.faults import Faults
from harness.runs.features import Features
from harness.runs.grading_service import GradingService, grade_at_service
from harness.runs.planned_attempt import PlannedAttempt
from harness.runs.progress import RunObserver
from harness.runs.transcript_file import KeepsTranscripts
from harness.sandbox.limits import Isolation, Limits
from harness.sandbox.pool import AcrossTasks, SandboxPool

if TYPE_CHECKING:
    from harness.models.access import ModelAccess


@dataclass(frozen=True, slots=True)
class AttemptSettings:
    """The settings that all attempts of a run share."""

    benchmark: Benchmark
    agent: Agent
    transcripts: KeepsTranscripts
    observer: RunObserver
    faults: Faults
    pool: SandboxPool
    # The limits of sandboxes, by the name of their environment.
    limits: Mapping[str, Limits]
    # Applies once to the agent's work in one attempt, and once to its grading. None means the default of
    # the environment.
    timeout_seconds: float | None
    # The number of tool calls in an attempt. None stands for the default of the task or its environment.
    turns: int | None = None
    # The attempts that share a sandbox for grading.
    isolation: Isolation = "task"
    # Whether some task is attempted more than once.
    repeats: bool = False
    # The optional features, whose parts attach themselves to each attempt.
    features: Features = field(default_factory=Features)
    # Grades the submissions, None if sandboxes of `pool` do.
    service: GradingService | None = None

    @property
    def model(self) -> ModelAccess | None:
        """The model that the agent asks, None for a run without one."""
        return self.features.model

    def seconds(self, spec: EnvironmentSpec, task: Task) -> float:
        """Return the limit of the agent's time."""
        return spec.agent_seconds(task, self.timeout_seconds)

    def grading_seconds(self, spec: EnvironmentSpec, task: Task) -> float:
        """Return the limit of the grading."""
        return spec.grading_seconds(task, self.timeout_seconds)

    def limits_of(self, spec: EnvironmentSpec) -> Limits:
        """Return the limits of an environment's sandboxes."""
        return self.limits.get(spec.name, spec.limits)

    def key(self, planned: PlannedAttempt) -> Hashable:
        """Return the key of the sandbox that ends with an attempt, or with the last attempt at its task."""
        return planned.key if self.is_isolated else planned.task.id

    def grading_key(self, planned: PlannedAttempt, spec: EnvironmentSpec) -> Hashable:
        """Return the key of the leases that share a sandbox with the grading of an attempt."""
        if self.isolation == "run" and spec.grades_programs_alone:
            return AcrossTasks(type(self.benchmark.references[planned.task.id].target))
        return self.key(planned)

    @property
    def is_isolated(self) -> bool:
        """Whether every attempt gets its own sandboxes."""
        return self.isolation == "attempt"

    def acting_key(self, planned: PlannedAttempt) -> Hashable:
        """Return the key of the sandboxes where agents of several attempts may act, None if none may."""
        # A sandbox for one attempt alone needs no second one in which the reference runs.
        return None if self.is_isolated or not self.repeats else ("acting", planned.task.id)

    async def grade(
        self,
        planned: PlannedAttempt,
        spec: EnvironmentSpec,
        submission: Submission,
        environment: Environment | None,
        on_begin: Callable[[], None],
    ) -> Verdict:
        """Return the verdict on a submission, and on the environment where its agent has acted, if any.

        `on_begin` is called when the grader begins. Raises SandboxError and RunStopped.
        """
        seconds, task_id = self.grading_seconds(spec, planned.task), planned.task.id
        if self.service is not None:
            return await grade_at_service(
                self.service, self.faults, task_id, submission, seconds=seconds, on_begin=on_begin
            )
        # The sandboxes that hold an agent's files end with its task.
        key = self.key(planned) if environment is not None else self.grading_key(planned, spec)
        context = GradingContext(
            self.pool,
            seconds,
            fresh=spec.fresh_sandbox(self.limits_of(spec)),
            key=key,
            shared_key=key if self.is_isolated else SHARED,
            environment=environment,
            check_engine=self.faults.check_engine,
            on_begin=on_begin,
        )
        return await grade_submission(self.benchmark.references[task_id].target, submission, context)
