"""The description of a kind of environment: its image, limits and graders.

A grader has a kind by its input: a text, a program that runs in a sandbox, or the state that an agent left.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from harness.core.tools import MakeTextProtocol
from harness.core.types import Submission, Task, Verdict
from harness.environments.base import Environment, EnvironmentContext
from harness.environments.text_protocol import GenericProtocol
from harness.sandbox.limits import Isolation, Limits
from harness.sandbox.pool import SandboxSettings
from harness.sandbox.time_factor import extend_limits


@dataclass(frozen=True, slots=True)
class TextGrader:
    """Grades a submission as text. Trusted code on the host does this without a sandbox.

    `grade` receives a target of the type `target_type` and the submission.
    """

    target_type: type
    grade: Callable[[Any, Submission], Awaitable[Verdict]]


@dataclass(frozen=True, slots=True)
class Unjudged:
    """The outputs of a submission that code of the benchmark's author judges in another sandbox.

    That sandbox is one of `image`, and no submission runs there. `judge` receives it, and those with equal
    keys share it.
    """

    image: str
    judge: Callable[[Any], Awaitable[Verdict]]
    key: str


@dataclass(frozen=True, slots=True)
class SandboxGrader:
    """Grades a submission in a sandbox that no agent has touched. `grade` receives the sandbox first.

    Without an `image`, the sandbox is one of the task's environment, and all attempts at the task share it.
    With an `image`, the sandbox runs trusted code only, and all tasks share it. `grade` raises SandboxError
    if the sandbox failed through no fault of the submission. It may return Unjudged instead of a verdict.
    """

    target_type: type
    grade: Callable[[Any, Any, Submission], Awaitable[Verdict | Unjudged]]
    image: str | None = None
    # Returns whether the submission or its tests may want sockets, for a grader whose sandbox runs programs
    # under tests alone. None for any other grader. A sandbox for programs that want none has none
    # (`SandboxSettings.network`).
    may_need_sockets: Callable[[Any, Submission], bool] | None = None
    # Returns the image of the sandbox for submissions to a target, or None for the one of the environment.
    choose_image: Callable[[Any], str | None] = lambda _target: None
    # Returns why submissions to a target must not share a sandbox, or None if they may.
    needs_own_sandbox: Callable[[Any], str | None] = lambda _target: None
    # Returns why a pass by a target proves less than it says, or None for any other target.
    find_weakness: Callable[[Any], str | None] = lambda _target: None


@dataclass(frozen=True, slots=True)
class StateGrader:
    """Grades the state that an agent left in its environment. `grade` receives the environment first.

    All processes of the agent have ended before. `grade` raises SandboxError.
    """

    target_type: type
    grade: Callable[[Any, Any, Submission], Awaitable[Verdict]]
    # Returns why a pass by a target proves less than it says, or None for any other target.
    find_weakness: Callable[[Any], str | None] = lambda _target: None


Grader = TextGrader | SandboxGrader | StateGrader


# How long a grader may take to start the machine of a task's tests and to bring the agent's files into it.
MACHINE_SECONDS = 600.0

OpenEnvironment = Callable[[Task, EnvironmentContext], contextlib.AbstractAsyncContextManager[Environment]]
"""Opens the environment of a task for an agent."""


@dataclass(frozen=True, slots=True)
class EnvironmentSpec:
    """A kind of environment."""

    name: str
    # None if no task needs its own sandbox. An environment without an image where agents act lives on the
    # host (`HostEnvironment`).
    image: str | None
    description: str
    # The wall limit of an attempt in seconds if the config names none, from 180 to 600.
    timeout_seconds: int = 180
    # The filter of system calls for sandboxes that only grade.
    grading_seccomp: Literal["default", "strict"] = "default"
    # Whether tasks set the wall limits of agents and tests themselves, so that the range above does not hold.
    tasks_set_timeouts: bool = False
    # How often a grading runs the tests at most, each time within the limit that the task sets.
    test_runs: int = 1
    # The limits of a sandbox if the config names none.
    limits: Limits = field(default_factory=Limits)
    # Returns the limits of a task's own sandbox, from its environment's.
    find_limits: Callable[[Task, Limits], Limits] = lambda _task, limits: limits
    # The most sandboxes that the grading of one attempt opens while it holds the sandbox of the agent.
    nested_sandboxes: int = 0
    # The number of calls of tools that an attempt may make.
    turns: int | None = None
    # None if no agent acts in the environment.
    open_environment: OpenEnvironment | None = None
    # The form of tool calls in the reply of a model without native ones.
    text_protocol: MakeTextProtocol = GenericProtocol
    # Whether the programs of an agent run in the sandbox of the environment, which is then the workspace of
    # the attempt. Otherwise the workspace is another sandbox.
    is_workspace: bool = False
    # Whether each task has an image of its own, which gets the guest of `image`.
    runs_task_images: bool = False
    # Whether graders read the text of a submission. Otherwise they judge the files of an agent alone.
    reads_text: bool = True
    # Whether an attempt that ended at a limit, or by a fault of the agent, keeps the score of its state.
    scores_progress: bool = False
    # One grader for each kind of target that the tasks have.
    graders: tuple[Grader, ...] = ()

    def agent_seconds(self, task: Task, chosen: float | None = None) -> float:
        """Return the wall limit of an agent. `chosen` is the run's, for tasks that set none."""
        return task.agent_seconds or chosen or self.timeout_seconds

    def grading_seconds(self, task: Task, chosen: float | None = None) -> float:
        """Return the wall limit of a grading.

        A limit that a task sets is for its tests alone. Their machine has a time of its own.
        """
        if task.tests_seconds is not None:
            return task.tests_seconds * self.test_runs + MACHINE_SECONDS
        return chosen or self.timeout_seconds

    @property
    def grades_programs_alone(self) -> bool:
        """Whether no agent acts in the environment, and its sandboxes are those for programs under tests."""
        return self.image is not None and self.open_environment is None and self.grading_seccomp == "strict"

    def choose_isolation(self, wanted: Isolation) -> Isolation:
        """Return the attempts that share a sandbox of this environment if the config asks for `wanted`."""
        return wanted if self.open_environment is None else "attempt"

    @property
    def is_on_host(self) -> bool:
        """Whether an agent acts in the environment, and it lives on the host instead of in a sandbox."""
        return self.image is None and self.open_environment is not None

    def fresh_sandbox(self, limits: Limits | None = None) -> SandboxSettings | None:
        """Return the settings of a sandbox where no agent acts, or None if there is no image.

        Limits that set no time factor get this machine's.
        """
        if self.image is None:
            return None
        return SandboxSettings(self.image, extend_limits(limits or self.limits), self.grading_seccomp)
