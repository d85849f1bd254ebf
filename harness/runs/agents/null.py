"""The null agent, which submits nothing. A correct benchmark and its grader score it 0."""

from __future__ import annotations

from harness.core.types import Submission
from harness.runs.agents.agent import AgentSettings, AttemptContext


class Null:
    """Submits an empty completion for every task."""

    reads = frozenset({"n_samples"})
    waits = False

    def __init__(self, settings: AgentSettings) -> None:
        self._settings = settings

    async def attempt(self, context: AttemptContext) -> Submission:
        return self._settings.submit(context.task, "completion", "")


AGENTS = (("null", Null),)
