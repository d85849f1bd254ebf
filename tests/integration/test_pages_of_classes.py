"""The documented code of the seven classes, on the published data where they are there, and its grading."""

from __future__ import annotations

import json
import re
import warnings
from pathlib import Path
from typing import Any

import pytest
from hub_server import HubServer

from harness.benchmarks import GSM8K, MATH, MBPP, NQ, HotPotQA, HumanEval, LiveCodeBench, definitions
from harness.benchmarks.classes import BenchmarkClass
from harness.benchmarks.data.hub import write_cached_rows
from harness.benchmarks.data.local import read_file
from harness.core.errors import UsageError

PAGE = Path(__file__).parents[2] / "docs" / "benchmark-classes.md"
# The code blocks of EvoAgentX's page, with our package. Each has the number of examples of the published
# data, None if only a sample of them is there.
BLOCKS = {
    "nq_dataset = NQ()": 3610,
    "hotpotqa_dataset = HotPotQA()": None,
    "gsm8k_dataset = GSM8K()": 1319,
    "math_dataset = MATH()": None,
    "humaneval_dataset = HumanEval()": 164,
    "mbpp_dataset = MBPP()": 427,
    'livecodebench_dataset = LiveCodeBench(scenario="code_generation", version="release_v1")': None,
}
WHOLE = {
    "gsm8k": "gsm8k/test.jsonl",
    "humaneval": "humaneval/HumanEval.jsonl.gz",
    "mbpp-humaneval": "mbpp/sanitized-mbpp.json",
}
DPR = "dl.fbaipublicfiles.com/dpr/data/retriever/nq-test.qa.csv"


@pytest.fixture
def published(mirror: HubServer, shared_data: Path, tmp_path: Path) -> HubServer:
    """Publish the real data that are whole, as the mirror and the cache have them."""
    lines = (shared_data / "nq/NQ-open.dev.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    mirror.published[DPR] = "".join(f"{row['question']}\t{row['answer']!r}\n" for row in rows).encode()
    for name, file in WHOLE.items():
        hub = definitions()[name].hub
        assert hub is not None
        folder = tmp_path / "cache" / "hub" / hub.repo / str(hub.config)
        found = [row.values for row in read_file(shared_data / file)[0]]
        write_cached_rows(folder / f"{hub.split}.jsonl", found, hub.origin, revision="abc")
    return mirror


def run(code: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(compile(code, "page", "exec"), names)
    return names


def test_the_code_blocks_of_the_interfaces_page_run(published: HubServer) -> None:
    found: dict[str, int | None] = {}
    for line, whole in BLOCKS.items():
        variable, _, name = line.partition("(")[0].partition(" = ")
        code = (
            f"from harness.benchmarks import {name}\n"
            f'{line} # optional: path="/path/to/save_data"\n'
            f"test_data = {variable}.get_test_data()\n"
        )
        with warnings.catch_warnings():
            if whole is None:  # The sample stands in.
                warnings.simplefilter("ignore", UserWarning)
            if name == "HotPotQA":
                with pytest.raises(UsageError, match="no split 'test': its answers are not public"):
                    run(code)
                found[line] = None
                continue
            test_data = run(code)["test_data"]
        assert test_data
        assert {"id", "task_id"} & set(test_data[0])
        found[line] = None if whole is None else len(test_data)
    assert found == BLOCKS


def test_the_code_of_our_page_runs_and_prints_what_it_says(
    published: HubServer, capsys: pytest.CaptureFixture[str]
) -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    for block in blocks:
        run(block)
    assert capsys.readouterr().out.splitlines() == [
        "{'solve_rate': 1.0}",
        "{'pass@1': 0.5, 'pass@2': 1.0}",
    ]


def test_data_are_saved_in_the_folder_that_path_names(published: HubServer, tmp_path: Path) -> None:
    folder = tmp_path / "save_data" / "nq"
    assert len(NQ(path=folder).get_test_data()) == 3610
    assert (folder / "files" / DPR).is_file()
    del published.published[DPR]
    assert len(NQ(path=str(folder), mode="test").get_test_data()) == 3610


@pytest.mark.parametrize(
    ("kind", "path", "split", "count"),
    [
        (NQ, "nq", "test", 3610),
        (HotPotQA, "hotpotqa", "dev", 60),
        (GSM8K, "gsm8k", "test", 1319),
        (MATH, "math", "test", 493),
        pytest.param(HumanEval, "humaneval", "test", 164, marks=pytest.mark.thorough),
        (MBPP, "mbpp", "test", 427),
        (LiveCodeBench, "livecodebench/code_generation_200.jsonl", "test", 200),
    ],
)
def test_gold_answers_to_real_examples_score_and_others_do_not(
    shared_data: Path, kind: type[BenchmarkClass], path: str, split: str, count: int
) -> None:
    benchmark = kind(path=shared_data / path)
    examples = benchmark.get_data_by_mode(split)
    assert len(examples) == count
    example = examples[-1]
    label = benchmark.get_label(example)
    if isinstance(label, dict):
        if isinstance(benchmark, LiveCodeBench):
            lines = (shared_data / "livecodebench/samples_with_verdicts.jsonl").read_text().splitlines()
            sample = next(found for found in map(json.loads, lines) if found["passed"])
            right = sample["solution"]
            label = benchmark.get_label(benchmark.get_example_by_id(sample["task_id"]) or {})
        else:
            right = example["canonical_solution"]
        graded = benchmark.evaluate(prediction=[right, "raise SystemExit(0)"], label=label)
        assert graded == {"pass@1": 0.5, "pass@2": 1.0}
        return
    right = label[0] if isinstance(label, list) else label
    names = {"solve_rate"} if kind in (GSM8K, MATH) else {"em", "f1", "acc"}
    assert benchmark.evaluate(prediction=right, label=label) == dict.fromkeys(names, 1.0)
    assert benchmark.evaluate(prediction="\\boxed{77777} zebra", label=label) == dict.fromkeys(names, 0.0)
