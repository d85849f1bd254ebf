"""What a grader is: who judges by which criterion, and where."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from harness.model import Submission, Verdict


class Place(StrEnum):
    """Where a submission is judged.

    `host`: as text, by trusted code, in no sandbox. `fresh`: in a sandbox of the task's environment
    that no agent has touched, one for all attempts at a task. `shared`: in a sandbox that runs
    trusted code only, one after the other for many tasks. `acted`: in the sandbox in which the agent
    acted, where no process of it is left.
    """

    HOST = "host"
    FRESH = "fresh"
    SHARED = "shared"
    ACTED = "acted"


@dataclass(frozen=True, slots=True)
class Grader:
    """Judges submissions by criteria of the type `judges_by`.

    `grade` gets what `place` says: None for `host`, a Sandbox for `fresh` and `shared`, the World of
    the attempt for `acted`. It raises SandboxError where that failed through no fault of what is
    judged. `image` is the image of a `shared` place.
    """

    judges_by: type
    place: Place
    grade: Callable[[Any, Any, Submission], Awaitable[Verdict]]
    image: str | None = None
