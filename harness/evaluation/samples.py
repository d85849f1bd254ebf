"""Notices about the samples of a run before it starts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from harness.agents import ChoosesSamples
from harness.agents.predictions import Predictions
from harness.benchmarks import Benchmark
from harness.benchmarks.programs import SubmitProgram
from harness.benchmarks.replies import CodeRule, holds_block
from harness.evaluation.plan import describe_unused_samples
from harness.types import Task

# Fewer texts than one in this many may hold a fence for a reason, such as a docstring with an example.
_NOTICED = 10


def describe_samples(benchmark: Benchmark, tasks: Sequence[Task], agent: ChoosesSamples) -> Iterator[str]:
    """Yield a notice for each thing about the samples that a user may not expect.

    Args:
        benchmark: the benchmark of the samples.
        tasks: the selected tasks.
        agent: the agent that submits the samples.
    """
    unused = describe_unused_samples(benchmark, tasks, agent)
    if unused is not None:
        yield unused
    if isinstance(agent, Predictions):
        yield from _describe_fences(benchmark, tasks, agent)


def _describe_fences(benchmark: Benchmark, tasks: Sequence[Task], agent: Predictions) -> Iterator[str]:
    """Yield a notice for each field of which many texts hold fences that no rule takes out."""
    submit = benchmark.definition.submit
    if not isinstance(submit, SubmitProgram) or submit.chosen is not None:
        return
    number: Counter[str] = Counter()
    fenced: Counter[str] = Counter()
    for task in tasks:
        for field, text in agent.texts(task):
            if submit.rule_of(field) is CodeRule.NONE:
                number[field] += 1
                fenced[field] += holds_block(text)
    for field in sorted(fenced):
        if fenced[field] * _NOTICED >= number[field] and fenced[field]:
            yield f"{fenced[field]:,} of {number[field]:,} {field}s hold ``` fences: say --extract fenced"
