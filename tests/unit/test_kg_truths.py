"""Upstream's own results over given graphs: every observation, answer and score of recorded sequences."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
from case_checks import each_case
from contexts import no_context
from world_replays import replay_sequences

from harness.benchmarks import Benchmark, load_benchmark
from harness.core.types import Submission, Verdict
from harness.environments.base import HostEnvironment
from harness.environments.kg.environment import KnowledgeAnswer, open_environment
from harness.environments.kg.grader import grade_answer, solve
from harness.environments.kg.session import Session


@pytest.fixture(scope="module")
def worlds(shared_data: Path) -> Path:
    return shared_data / "agentbench" / "worlds" / "kg"


def load_dev(shared_data: Path, **options: Any) -> Benchmark:
    ontology = str(shared_data / "agentbench" / "worlds" / "kg" / "ontology")
    data = str(shared_data / "agentbench" / "knowledgegraph")
    return load_benchmark("agentbench", data=data, kg={"ontology": ontology, **options})


def test_every_recorded_sequence_is_reproduced(shared_data: Path, worlds: Path) -> None:
    graphs = sorted(worlds.glob("*_graphs.jsonl"))
    assert graphs
    for path in graphs:
        sequences = path.with_name(path.name.replace("_graphs", "_sequences"))
        records = shared_data / "agentbench" / "knowledgegraph"
        results = replay_sequences(path, sequences, records, worlds / "ontology")
        assert results
        assert {place: found for place, found in results.items() if found} == {}


async def play(benchmark: Benchmark, task_id: str) -> Verdict:
    """Return the verdict on the oracle's attempt at a task."""
    task = next(task for task in benchmark.tasks if task.id == task_id)
    target = benchmark.references[task_id].target
    assert isinstance(target, KnowledgeAnswer)
    async with open_environment(task, no_context(turns=15, target=target)) as opened:
        environment = cast("HostEnvironment[Session]", opened)
        answer = await solve(environment, target)
        return await grade_answer(environment, target, Submission(answer, agent_output=answer))


@each_case("made", [True, False])
@each_case(("strict", "failing"), [(False, {17}), (True, {14, 17})])
async def test_the_oracle_solves_all_but_upstreams_faults(
    strict: bool, failing: set[int], made: bool, shared_data: Path, worlds: Path
) -> None:
    graph = None if made else str(worlds / "dev_graphs.jsonl")
    benchmark = load_dev(shared_data, strict=strict, graph=graph)
    verdicts = {task.id: await play(benchmark, task.id) for task in benchmark.tasks}
    assert len(verdicts) == 20
    failed = {task_id for task_id, verdict in verdicts.items() if not verdict.resolved}
    assert failed == {f"kg/dev/{number}" for number in failing}
    assert set(benchmark.quarantined) == {"kg/dev/17"}


async def test_the_oracle_solves_training_records(worlds: Path) -> None:
    benchmark = load_benchmark("agentbench", data=str(worlds / "kg_rl_60.json"))
    verdicts = {task.id: (await play(benchmark, task.id)).resolved for task in benchmark.tasks}
    assert {task_id for task_id, passed in verdicts.items() if not passed} == set(benchmark.quarantined)
    assert len(verdicts) == 60
    assert len(benchmark.quarantined) == 1


def test_a_prompt_shows_no_gold(worlds: Path) -> None:
    benchmark = load_benchmark("agentbench", data=str(worlds / "kg_rl_60.json"))
    for task in benchmark.tasks:
        target = benchmark.references[task.id].target
        assert isinstance(target, KnowledgeAnswer)
        shown = f"{task.prompt} {task.setup}"
        assert not any(action in shown for action in target.actions)
        assert not any(answer in shown for answer in target.answers if answer.startswith("m."))
        assert "not Freebase" in task.prompt
