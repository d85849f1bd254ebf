"""The environment of agents that act on every task: it has `submit`, and the tools of the user's servers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.environments.base import EnvironmentContext
from harness.environments.host_environment import HostEnvironment, open_without_world
from harness.sandbox.pool import SandboxSettings

if TYPE_CHECKING:
    from harness.core.types import Transcript
    from harness.runs.attempt_settings import AttemptSettings


def open_answering(
    settings: AttemptSettings, transcript: Transcript, *, turns: int | None
) -> HostEnvironment[None] | None:
    """Return the environment for a task that has none, or None if the run needs none."""
    if settings.servers is None and not getattr(settings.agent, "needs_environment", False):
        return None
    return open_without_world(
        EnvironmentContext(settings.pool, SandboxSettings(""), 0.0, transcript, turns=turns)
    )
