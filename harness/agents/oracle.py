"""The oracle hands in the reference solution: what a correct benchmark and grader score 1."""

from __future__ import annotations

from harness.agents.agent import AgentSettings
from harness.model import Submission, Task


class Oracle:
    """Knows every reference. Built on the host, it acts in no sandbox."""

    def __init__(self, settings: AgentSettings) -> None:
        settings.refuse_samples("oracle")
        self._settings = settings

    def sample_lines(self, task: Task) -> list[int | None]:
        return [None] * self._settings.n_samples

    async def attempt(self, task: Task, sample_line: int | None) -> Submission:
        benchmark = self._settings.benchmark
        return benchmark.submission(task, "solution", benchmark.references[task.id].solution)


AGENTS = (("oracle", Oracle),)
