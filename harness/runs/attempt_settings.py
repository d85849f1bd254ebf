"""The settings that all attempts of a run share, and the keys by which attempts share sandboxes."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.benchmarks import Benchmark
from harness.environments.spec import EnvironmentSpec
from harness.runs.agents import Agent
from harness.runs.faults import Faults
from harness.runs.observer import RunObserver
from harness.runs.plan import PlannedAttempt
from harness.runs.server_tools import ServerTools
from harness.runs.sync_grader import GradingService
from harness.runs.transcript_file import KeepsTranscripts
from harness.sandbox.limits import Isolation, Limits
from harness.sandbox.pool import AcrossTasks, SandboxPool

if TYPE_CHECKING:
    from harness.models.access import ModelAccess
    from harness.runs.agents.recording import Recording


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
    # Applies once to the agent's work in one attempt, and once to its grading. None stands for the default of
    # the environment.
    timeout_seconds: float | None
    # The number of tool calls in an attempt. None stands for the default of the task or its environment.
    turns: int | None = None
    # The attempts that share a sandbox for grading.
    isolation: Isolation = "task"
    # Whether some task is attempted more than once.
    repeats: bool = False
    # The model that the agent asks, None for a run without one.
    model: ModelAccess | None = None
    # The model that environments ask for judgements, None for a run without one.
    judge: ModelAccess | None = None
    # The recorded run whose judgements stand for those of a model, None unless the agent replays one.
    recording: Recording | None = None
    # Grades the submissions, None if sandboxes of `pool` do.
    service: GradingService | None = None
    # The MCP servers whose tools the agent gets, None for a run without any.
    servers: ServerTools | None = None

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
        """Return the key of the sandboxes in which agents of several attempts may act, None if none may."""
        # A sandbox for one attempt alone needs no second one in which the reference runs.
        return None if self.is_isolated or not self.repeats else ("acting", planned.task.id)
