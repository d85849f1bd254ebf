"""Further inputs for HumanEval's functions: how they are made, and the bundled ones."""

from __future__ import annotations

import ast
import copy
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from samples.mutants import make_mutants
from samples.plus_contracts import CONTRACTS
from samples.plus_inputs import digest, limit_seconds, load_function, make_inputs, record_inputs

from harness.benchmarks import load_benchmark
from harness.benchmarks.data.source import BUNDLED
from harness.benchmarks.plus import OWN_INPUTS
from harness.core.errors import DataError

SAMPLE = [json.loads(line) for line in (BUNDLED / "humaneval.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def published(shared_data: Path) -> list[dict[str, Any]]:
    data = gzip.decompress((shared_data / "humaneval/HumanEval.jsonl.gz").read_bytes())
    return [json.loads(line) for line in data.splitlines()]


WEAK: dict[str, Any] = {
    "task_id": "Weak/0",
    "prompt": 'def count_long(words, least):\n    """Return how many words have `least` letters."""\n',
    "canonical_solution": "    return sum(len(word) >= least for word in words)\n",
    "entry_point": "count_long",
    "test": "def check(candidate):\n    assert candidate(['no', 'never', 'now'], 4) == 1\n",
}


def catches(row: dict[str, Any], program: str, inputs: list[list[Any]]) -> bool:
    """Return whether a program differs from the reference of a row on one of the inputs."""
    reference, candidate = (
        load_function(source, row["entry_point"])
        for source in (row["prompt"] + row["canonical_solution"], program)
    )
    for given in inputs:
        try:
            with limit_seconds(0.2):
                if candidate(*copy.deepcopy(given)) != reference(*copy.deepcopy(given)):
                    return True
        except Exception:
            return True
    return False


def test_the_inputs_catch_mistakes_that_the_tests_of_a_row_miss() -> None:
    program = WEAK["prompt"] + WEAK["canonical_solution"]
    mutants = make_mutants(program, WEAK["entry_point"], 20, "0")
    base, plus = record_inputs(WEAK), make_inputs(WEAK)
    missed = [mutant for mutant in mutants if not catches(WEAK, mutant, base)]
    assert len(missed) > 0
    assert [mutant for mutant in missed if not catches(WEAK, mutant, plus)] == []


def test_the_same_row_gives_the_same_valid_inputs() -> None:
    first, again = (make_inputs(WEAK, "least > 2 and words") for _ in range(2))
    assert first == again
    assert len(first) == 60
    assert [given for given in first if given[1] < 3 or not given[0]] == []


def test_the_bundled_inputs_are_those_that_the_tool_makes(published: list[dict[str, Any]]) -> None:
    lines = gzip.decompress((BUNDLED / OWN_INPUTS).read_bytes()).splitlines()
    bundled = {entry["task_id"]: entry for entry in map(json.loads, lines)}
    assert [row["task_id"] for row in published if bundled[row["task_id"]]["sha256"] != digest(row)] == []
    wrong = []
    for row in published[::19]:
        made = make_inputs(row, CONTRACTS.get(int(row["task_id"].partition("/")[2]), "True"))
        if made != ast.literal_eval(bundled[row["task_id"]]["plus_input"]):
            wrong.append(row["task_id"])
    assert wrong == []


def test_a_row_of_humaneval_gets_the_bundled_inputs_and_says_so(shared_data: Path) -> None:
    benchmark = load_benchmark("humaneval-plus", data=str(shared_data / "humaneval/HumanEval.jsonl.gz"))
    assert [metric.name for metric in benchmark.definition.metrics] == ["base", "plus"]
    assert benchmark.source.window == "further inputs of harness for 164 of 164 tasks, not EvalPlus's"


def test_a_row_without_further_tests_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(SAMPLE[0]) + "\n")
    with pytest.raises(DataError, match="has no further tests"):
        load_benchmark("humaneval-plus", data=str(path))
