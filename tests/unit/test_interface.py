"""One interface to every benchmark: splits, examples, labels, and grading without a run."""

from __future__ import annotations

import asyncio
import json
import random
import re
from dataclasses import replace
from pathlib import Path

import pytest
from bundled import load_bundled
from case_checks import each_case

from harness.benchmarks import Definition, Split, definitions, load_benchmark
from harness.benchmarks.benchmark import read_all
from harness.benchmarks.data.rows import Row
from harness.core.errors import DataError, UsageError
from harness.core.types import DataSource
from harness.runs.agents.null import Null
from harness.runs.config import RunConfig
from harness.runs.plan import replace_prompts
from harness.runs.selection import select

pytestmark = pytest.mark.usefixtures("no_hub")
BUNDLED = {name: load_bundled(name) for name in definitions()}
MBPP = BUNDLED["mbpp"]


def mbpp_file(path: Path, ids: list[int]) -> Path:
    row = dict(next(iter(MBPP.rows.values())))
    path.write_text(json.dumps([{**row, "task_id": number} for number in ids]))
    return path


@each_case("name", sorted(BUNDLED))
def test_every_benchmark_gives_examples_with_id_prompt_and_label(name: str) -> None:
    benchmark = BUNDLED[name]
    examples = benchmark.get_data(benchmark.split)
    assert [benchmark.get_id(example) for example in examples] == [task.id for task in benchmark.tasks]
    for example in examples:
        label = benchmark.get_label(example)
        assert label.reference is benchmark.references[benchmark.get_id(example)]
        assert example.prompt == label.task.prompt
        assert dict(example) == benchmark.rows[example.task.id]
        # The gold is in the published row and in the label, but in no field of the task.
        assert not any(field is label.reference for field in vars_of(example.task))


def vars_of(task: object) -> list[object]:
    return [getattr(task, name) for name in task.__dataclass_fields__]  # type: ignore[attr-defined]


@each_case("name", sorted(BUNDLED))
def test_an_unknown_split_is_refused_with_the_existing_ones(name: str) -> None:
    definition = BUNDLED[name].definition
    for split in {"train", "dev", "test"} - {definition.split, *definition.splits}:
        with pytest.raises(UsageError, match=f"{name} has no split '{split}'") as caught:
            BUNDLED[name].get_data(split)
        assert definition.split in (caught.value.hint or "")
        assert definition.missing.get(split, "") in str(caught.value)
    with pytest.raises(UsageError, match="has no split 'tset'"):
        load_benchmark(name, data="bundled", split="tset")


def test_a_sample_is_drawn_by_a_separate_generator() -> None:
    random.seed(1)
    state = random.getstate()
    first = MBPP.get_data("all", sample_k=5, seed=3)
    assert random.getstate() == state
    assert [each.task.id for each in MBPP.get_data("all", sample_k=5, seed=3)] == [
        each.task.id for each in first
    ]
    draws = {tuple(each.task.id for each in MBPP.get_data("all", sample_k=5, seed=s)) for s in range(20)}
    assert len(draws) > 15
    assert len(MBPP.get_data("all", sample_k=10_000, seed=1)) == len(MBPP.tasks)


def test_indices_choose_in_their_order_and_a_sample_is_drawn_of_them() -> None:
    ids = [task.id for task in MBPP.tasks]
    assert [each.task.id for each in MBPP.get_data("all", [4, 0])] == [ids[4], ids[0]]
    drawn = MBPP.get_data("all", indices=[1, 2, 3], sample_k=2, seed=0)
    assert {each.task.id for each in drawn} < {ids[1], ids[2], ids[3]}
    for wrong in ([len(ids)], [-1]):
        with pytest.raises(UsageError, match=f"has no example {wrong[0]}"):
            MBPP.get_data("all", wrong)
    with pytest.raises(UsageError, match="must not be negative"):
        MBPP.get_data("all", sample_k=-1)


def test_a_file_of_all_mbpp_is_split_by_task_id(tmp_path: Path) -> None:
    path = mbpp_file(tmp_path / "mbpp.json", [2, 11, 510, 511, 600, 601, 974])
    benchmark = load_benchmark("mbpp", data=str(path))
    found = {split: [each.task.id for each in benchmark.get_data(split)] for split in ("all", "prompt")}
    assert found == {"all": ["2", "11", "510", "511", "600", "601", "974"], "prompt": ["2"]}
    assert [each.task.id for each in benchmark.get_test_data()] == ["11", "510"]
    assert [each.task.id for each in benchmark.get_dev_data()] == ["511", "600"]
    assert [each.task.id for each in benchmark.get_train_data()] == ["601", "974"]
    assert load_benchmark("mbpp", data=str(path), split="dev").source.rows == 2
    with pytest.raises(DataError, match="holds no row of split 'prompt'"):
        load_benchmark("mbpp", data=str(mbpp_file(tmp_path / "b.json", [11])), split="prompt")


def test_the_published_splits_of_mbpp(shared_data: Path) -> None:
    benchmark = load_benchmark("mbpp", data=str(shared_data / "mbpp/sanitized-mbpp.json"))
    found = {name: len(benchmark.get_data(name)) for name in ("all", *benchmark.definition.splits)}
    assert found == {"all": 427, "prompt": 7, "test": 257, "dev": 43, "train": 120}
    assert found == {name: benchmark.definition.in_split(name).tasks for name in found}


def splits_in(folder: Path) -> Definition:
    """Return HumanEval as if it were published with a train split in a separate file."""
    row = dict(next(iter(BUNDLED["humaneval"].rows.values())))
    for split, number in (("train", 3), ("test", 2)):
        rows = [json.dumps({**row, "task_id": f"{split}/{place}"}) for place in range(number)]
        (folder / f"humaneval-{split}.jsonl").write_text("\n".join(rows))
    definition = definitions()["humaneval"]
    return replace(definition, splits={"train": Split(definition.hub, 9)})


def test_each_split_is_loaded_from_its_own_file_and_only_when_it_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    definition = splits_in(tmp_path)
    monkeypatch.setattr("harness.benchmarks.loading.definition_of", lambda _name: definition)
    (tmp_path / "humaneval-train.jsonl").rename(tmp_path / "hidden")
    benchmark = load_benchmark("humaneval", data=str(tmp_path))
    assert [task.id for task in benchmark.tasks] == ["test/0", "test/1"]
    (tmp_path / "hidden").rename(tmp_path / "humaneval-train.jsonl")
    examples = benchmark.get_train_data()
    assert [each.task.id for each in examples] == ["train/0", "train/1", "train/2"]
    assert benchmark.get_label(examples[2]).reference.task_id == "train/2"
    (tmp_path / "humaneval-train.jsonl").unlink()
    assert len(benchmark.get_train_data()) == 3, "it was loaded already"
    assert load_benchmark("humaneval", data=str(tmp_path / "humaneval-test.jsonl")).split == "test"


def test_evaluate_in_an_event_loop_must_be_awaited() -> None:
    (example,) = MBPP.get_data("all", [0])

    async def inside() -> None:
        with pytest.raises(UsageError) as caught:
            MBPP.evaluate("", MBPP.get_label(example))
        assert caught.value.hint == "await async_evaluate(...)"

    asyncio.run(inside())


def test_a_users_prompt_takes_the_problem_and_leaves_braces_alone() -> None:
    task = MBPP.tasks[0]
    (prompted,) = replace_prompts([task], "Solve {this} in {{JSON}}: {problem_statement} {problem_statement}")
    assert task.statement is not None
    assert prompted.prompt == f"Solve {{this}} in {{{{JSON}}}}: {task.statement} {task.statement}"
    assert task.instruction
    assert prompted.instruction == ""
    assert replace(prompted, prompt=task.prompt, instruction=task.instruction) == task
    braces = replace(task, statement="{problem_statement} {0}")
    assert replace_prompts([braces], "{problem_statement}")[0].prompt == "{problem_statement} {0}"


def test_a_run_gives_its_agents_the_users_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(Null, "reads")  # Without this, an agent reads the prompt.
    config = RunConfig(
        benchmark="mbpp", agent="null", data="bundled", agent_prompt="Now: {problem_statement}"
    )
    plan = select(config, notify=pytest.fail).plan
    assert [planned.task.prompt for planned in plan] == [f"Now: {task.statement}" for task in MBPP.tasks]


def test_a_completion_of_humaneval_continues_the_benchmarks_own_prompt() -> None:
    benchmark = BUNDLED["humaneval"]
    task = benchmark.tasks[0]
    (prompted,) = replace_prompts([task], "Go: {problem_statement}")
    assert prompted.prompt == f"Go: {task.prompt}"
    assert benchmark.submission(prompted, "completion", "    pass") == benchmark.submission(
        task, "completion", "    pass"
    )


def test_a_task_id_given_twice_is_refused() -> None:
    row = Row(next(iter(MBPP.rows.values())), "a.json", item=1)
    with pytest.raises(DataError, match="is used twice"):
        read_all(MBPP.definition, [row, row], DataSource("path", "a.json", "", 2))


def test_the_page_of_benchmarks_has_the_tables_that_the_definitions_make() -> None:
    from harness.reports.benchmarks import markdown

    page = (Path(__file__).parents[2] / "docs" / "benchmarks.md").read_text()
    tables = page.partition("<!-- benchmarks -->")[2].partition("<!-- /benchmarks -->")[0]
    listed = [definition for _, definition in sorted(definitions().items())]
    assert tables.strip() == markdown(listed)


def test_the_documented_script_runs_on_the_bundled_sample(capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parents[2] / "docs" / "usage.md").read_text()
    (script,) = re.findall(r"## Look at the examples\n\n```python\n(.*?)```", page, flags=re.DOTALL)
    exec(compile(script, "usage.md", "exec"), {})
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 5
    assert all(line.startswith("nq/") for line in lines)
