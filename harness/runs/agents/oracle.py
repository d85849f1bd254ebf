"""The oracle, which submits the reference solution. A correct benchmark and its grader score it 1."""

from __future__ import annotations

from harness.benchmarks.benchmark import Benchmark
from harness.core.types import Submission
from harness.environments.base import Environment
from harness.runs.agents.agent import AgentSettings, AttemptContext


class Oracle:
    """Submits the reference. If the grader checks a state, it acts through the benchmark's `play`."""

    reads = frozenset({"n_samples"})
    needs_references = True
    # On a task without a solution the oracle would fail, which would show nothing about the grader.
    needs_solutions = True
    waits = False

    def __init__(self, settings: AgentSettings, benchmark: Benchmark) -> None:
        self._benchmark = benchmark

    async def attempt(self, context: AttemptContext) -> Submission:
        benchmark, task, environment = self._benchmark, context.task, context.environment
        reference, play = benchmark.references[task.id], benchmark.definition.play
        if isinstance(environment, Environment) and play is not None:
            return await play(task, reference, environment)
        return benchmark.submission(task, "solution", reference.solution)


AGENTS = (("oracle", Oracle),)
