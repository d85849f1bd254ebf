"""What an environment is: the kind of world that a task lives in."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from harness.sandbox.limits import Limits
from harness.sandbox.sandbox import Sandbox

if TYPE_CHECKING:
    from docker import APIClient


@dataclass(frozen=True, slots=True)
class Environment:
    """The image of a world, and the filter of system calls for containers that only grade in it.

    `timeout_seconds` is the wall limit of an attempt where the config names none: 180 to 600.
    """

    name: str
    image: str
    description: str
    timeout_seconds: int
    grading_seccomp: Literal["default", "strict"]

    def open_for_grading(
        self,
        *,
        image_id: str,
        limits: Limits,
        runtime: str,
        deadline_seconds: float,
        run_id: str,
        client: APIClient,
    ) -> contextlib.AbstractAsyncContextManager[Sandbox]:
        """Open a fresh sandbox of this environment, from this build of its image; no agent will act in it."""
        return Sandbox.open(
            image_id,
            limits=limits,
            runtime=runtime,
            seccomp=self.grading_seccomp,
            deadline_seconds=deadline_seconds,
            run_id=run_id,
            client=client,
        )
