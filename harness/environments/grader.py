"""The graders, by their input: a text, a program that runs in a sandbox, or the state that an agent left."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from harness.core.types import Submission, Verdict


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
