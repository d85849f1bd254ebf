"""The seven benchmarks as classes: shapes, ids, labels, splits, and metrics of what needs no sandbox."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from case_checks import each_case

from harness import benchmarks
from harness.benchmarks import GSM8K, MATH, MBPP, NQ, HotPotQA, HumanEval, LiveCodeBench
from harness.benchmarks.classes import BenchmarkClass
from harness.core.errors import DataError, UsageError

pytestmark = pytest.mark.usefixtures("no_hub")
CLASSES: dict[type[BenchmarkClass], str] = {
    NQ: "test",
    HotPotQA: "dev",
    GSM8K: "test",
    MATH: "test",
    HumanEval: "test",
    MBPP: "test",
    LiveCodeBench: "test",
}
HUMANEVAL_FIELDS = {"task_id", "prompt", "entry_point", "canonical_solution", "test"}
FIELDS: dict[type[BenchmarkClass], set[str]] = {
    NQ: {"id", "question", "answers"},
    HotPotQA: {"_id", "question", "answer", "context", "supporting_facts"},
    GSM8K: {"id", "question", "answer"},
    MATH: {"id", "problem", "solution", "level", "type"},
    HumanEval: HUMANEVAL_FIELDS,
    MBPP: {*HUMANEVAL_FIELDS, "code", "test_list", "test_imports", "original_prompt"},
    LiveCodeBench: {"task_id", "question_id", "question_content", "contest_date"},
}
SCENARIOS = ("code_generation", "test_output_prediction", "code_execution")


def write(path: Path, *rows: dict[str, Any]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def test_every_class_is_a_name_of_the_package() -> None:
    assert {each.__name__ for each in CLASSES} < set(benchmarks.__all__)
    with pytest.raises(AttributeError, match="DROP"):
        _ = benchmarks.DROP


@each_case("kind", CLASSES)
def test_an_example_is_a_plain_dict_with_the_fields_of_the_interface(kind: type[BenchmarkClass]) -> None:
    benchmark = kind(path="bundled")
    examples = benchmark.get_data_by_mode(CLASSES[kind])
    assert len(examples) == len(benchmark.load(CLASSES[kind]).tasks)
    assert [each for each in examples if not FIELDS[kind] <= set(each)] == []
    assert json.loads(json.dumps(examples)) == examples
    assert len({str(each) for each in benchmark.get_ids(examples)}) == len(examples)
    last = examples[-1]
    assert benchmark.get_example_by_id(benchmark.get_id(last)) == last
    assert benchmark.get_example_by_index(len(examples) - 1, CLASSES[kind]) == last
    assert benchmark.get_example_by_index(len(examples), CLASSES[kind]) is None
    assert benchmark.get_example_by_id("no such id") is None
    assert benchmark.get_labels(examples) == [benchmark.get_label(each) for each in examples]


def test_ids_count_from_one_and_tell_the_task_of_a_run() -> None:
    for kind in (NQ, GSM8K, MATH):
        benchmark = kind(path="bundled")
        ids = benchmark.get_ids(benchmark.get_test_data())
        tasks = [task.id for task in benchmark.load("test").tasks]
        assert ids == [f"test-{number}" for number in range(1, len(ids) + 1)]
        assert tasks == [f"{benchmark.benchmark}/{number}" for number in range(len(ids))]
    # A choice of problems leaves their ids as they are.
    chosen = MATH(path="bundled", level=4).get_test_data()
    assert set(MATH(path="bundled").get_ids(chosen)) < set(ids)
    assert [MATH(path="bundled").get_example_by_id(each["id"]) for each in chosen] == chosen


def test_labels_are_the_plain_values_of_the_interface() -> None:
    nq, hotpotqa, gsm8k, maths = (kind(path="bundled") for kind in (NQ, HotPotQA, GSM8K, MATH))
    assert nq.get_label({"id": "test-1", "question": "?", "answers": ["a", "b"]}) == ["a", "b"]
    assert hotpotqa.get_label({"_id": "x", "answer": "yes"}) == "yes"
    assert gsm8k.get_label({"id": "test-1", "question": "?", "answer": "#### 2"}) == "#### 2"
    assert maths.get_label({"solution": "$\\boxed{2}$"}) == "$\\boxed{2}$"
    for kind in (HumanEval, MBPP):
        benchmark = kind(path="bundled")
        (example,) = benchmark.get_test_data(indices=[0])
        expected = {name: example[name] for name in HUMANEVAL_FIELDS - {"prompt"}}
        assert benchmark.get_label(example) == expected


def test_answers_have_the_metrics_of_the_interface() -> None:
    assert NQ(path="bundled").evaluate(prediction="the city of Oslo", label=["Bergen", "Oslo"]) == {
        "em": 0.0,
        "f1": 0.5,
        "acc": 1.0,
    }
    assert HotPotQA(path="bundled").evaluate("Yes.", "yes") == {"em": 1.0, "f1": 1.0, "acc": 1.0}
    assert GSM8K(path="bundled").evaluate("So 1,000.", "... #### 1000") == {"solve_rate": 1.0}
    assert GSM8K(path="bundled").evaluate("So 999.", "... #### 1000") == {"solve_rate": 0.0}


@each_case("scenario", SCENARIOS[1:])
def test_several_predictions_for_one_problem_give_pass_at_k(scenario: str) -> None:
    benchmark = LiveCodeBench(path="bundled", scenario=scenario)
    example = benchmark.get_test_data()[0]
    label = benchmark.get_label(example)
    right = benchmark.load("test").references[example["task_id"]].solution
    assert benchmark.evaluate(right, label) == {"pass@1": 1.0}
    assert benchmark.evaluate(["", right, "", ""], label) == {"pass@1": 0.25, "pass@4": 1.0}
    one = LiveCodeBench(path="bundled", scenario=scenario, k=[1, 2])
    assert one.evaluate(["", right, "", ""], label) == {"pass@1": 0.25, "pass@2": 0.5}
    with pytest.raises(UsageError, match="pass@2 cannot be told from 1 predictions"):
        one.evaluate(right, label)


async def test_evaluate_works_in_an_event_loop() -> None:
    nq = NQ(path="bundled")
    assert nq.evaluate("Oslo", ["Oslo"]) == await nq.evaluate_async("Oslo", ["Oslo"])


def test_many_predictions_are_graded_at_once() -> None:
    nq = NQ(path="bundled")

    async def grade() -> list[dict[str, float]]:
        return await asyncio.gather(*(nq.evaluate_async(text, ["a"]) for text in "ab"))

    assert [found["em"] for found in asyncio.run(grade())] == [1.0, 0.0]


def test_a_wrong_prediction_or_label_is_refused() -> None:
    nq, humaneval = NQ(path="bundled"), HumanEval(path="bundled")
    (example,) = humaneval.get_test_data(indices=[0])
    label = humaneval.get_label(example)
    for prediction in (["Oslo"], None, 3):
        with pytest.raises(UsageError, match="a prediction is a text, found"):
            nq.evaluate(prediction, ["Oslo"])
    for answers in ("Oslo", [], [3], None):
        with pytest.raises(DataError, match="the label of NQ: field 'answer"):
            nq.evaluate("Oslo", answers)
    nothing: tuple[object, ...] = (None, [], {})
    for none in nothing:
        with pytest.raises(UsageError, match="a prediction is a text or a list of texts"):
            humaneval.evaluate(none, label)
    with pytest.raises(UsageError, match="a prediction is a text, found"):
        humaneval.evaluate(["pass", None], label)
    for other in (None, "test", {}, {**label, "test": "def check(candidate): pass"}, {"task_id": "x"}):
        with pytest.raises(UsageError, match="is not a label of this data"):
            humaneval.evaluate("pass", other)


@each_case(
    ("kind", "split", "reason"),
    [
        (HotPotQA, "test", "its answers are not public"),
        (GSM8K, "dev", "it was published with train and test only"),
        (MATH, "dev", "it was published with train and test only"),
        (HumanEval, "train", "it was published with test only"),
        (LiveCodeBench, "dev", "it was published with test only"),
        (MBPP, "train", "all 427 problems are the split 'test' here"),
        (MBPP, "dev", "all 427 problems are the split 'test' here"),
        (NQ, "train", "has no bundled sample of split 'train'"),
        (NQ, "tset", "unknown split 'tset'"),
    ],
)
def test_a_split_that_does_not_exist_raises_with_the_reason(
    kind: type[BenchmarkClass], split: str, reason: str
) -> None:
    benchmark = kind(path="bundled")
    with pytest.raises(UsageError, match=reason):
        benchmark.get_data_by_mode(split)
    if split != "tset":
        with pytest.raises(UsageError, match=reason):
            kind(path="bundled", mode=split)


def test_the_mode_decides_which_split_may_be_asked_for(tmp_path: Path) -> None:
    rows = [{"question": f"{number}?", "answer": f"#### {number}"} for number in range(5)]
    write(tmp_path / "train.jsonl", *rows)
    train = GSM8K(str(tmp_path), "train")
    assert train.get_example_by_id("train-1") == {"id": "train-1", **rows[0]}
    assert train.get_ids(train.get_train_data([4, 0])) == ["train-5", "train-1"]
    assert train.get_example_by_id("train-2") == {"id": "train-2", **rows[1]}
    with pytest.raises(UsageError, match="GSM8K was made with mode 'train' and has no split 'test'"):
        train.get_test_data()
    with pytest.raises(DataError, match="without a file for split 'test' of gsm8k"):
        GSM8K(str(tmp_path))
    write(tmp_path / "test.jsonl", rows[0])
    both = GSM8K(tmp_path)
    assert both.get_example_by_id("train-5") is None
    assert (len(both.get_train_data(sample_k=3, seed=1)), len(both.get_test_data())) == (3, 1)
    assert both.get_example_by_id("train-5", mode="test") is None
    assert both.get_example_by_id("train-5", mode="all") == both.get_example_by_index(4, "train")
    assert both.get_example_by_id("train-5") == both.get_example_by_index(4, "train"), "it is loaded now"
    with pytest.raises(UsageError, match="unknown mode 'tset'"):
        GSM8K(tmp_path, "tset")


def test_the_hubs_rows_of_hotpotqa_get_the_published_shape(tmp_path: Path) -> None:
    row = {
        "id": "5a8b",
        "question": "Who?",
        "answer": "Ann",
        "type": "bridge",
        "level": "hard",
        "supporting_facts": {"title": ["A", "B"], "sent_id": [0, 1]},
        "context": {"title": ["A", "B"], "sentences": [["Ann."], ["b", "c"]]},
    }
    (example,) = HotPotQA(write(tmp_path / "validation.jsonl", row)).get_dev_data()
    assert example == {
        "_id": "5a8b",
        **{name: row[name] for name in ("question", "answer", "type", "level")},
        "supporting_facts": [["A", 0], ["B", 1]],
        "context": [["A", ["Ann."]], ["B", ["b", "c"]]],
    }


@each_case("kind", [HumanEval, MBPP])
def test_a_prediction_may_continue_the_prompt_be_a_program_or_be_a_reply(
    kind: type[HumanEval] | type[MBPP],
) -> None:
    benchmark = kind(path="bundled")
    loaded = benchmark.load("test")
    differing = []
    for task, example in zip(loaded.tasks, benchmark.get_test_data(), strict=True):
        program = example["prompt"] + example["canonical_solution"]
        for text in (example["canonical_solution"], program, f"So:\n```python\n{program}\n```\nDone."):
            if loaded.submission(task, "reply", text).text.strip() != program.strip():
                differing.append((task.id, text))
    assert differing == []


def test_a_program_for_livecodebench_needs_no_fence() -> None:
    benchmark = LiveCodeBench(path="bundled")
    task = benchmark.load("test").tasks[0]
    for text in ("print(1)", "So:\n```python\nprint(1)\n```"):
        reply = benchmark._as_reply(text)
        assert benchmark.load("test").submission(task, "reply", reply).text == "print(1)"


def test_livecodebench_has_three_scenarios_and_versions_of_one() -> None:
    names = [LiveCodeBench(path="bundled", scenario=each).load("test").name for each in SCENARIOS]
    assert names == ["livecodebench", "livecodebench-test-output", "livecodebench-execution"]
    for version, problems in (("release_v1", 400), ("v1_v3", 612), ("v4_v5", 268), ("release_latest", 1055)):
        assert LiveCodeBench(path="bundled", version=version).load("test").definition.tasks == problems
    refused: tuple[tuple[dict[str, Any], str], ...] = (
        ({"scenario": "repair"}, "unknown scenario 'repair'"),
        ({"version": "release_v9"}, "unknown release 'release_v9'"),
        ({"version": "release_v1", "scenario": "code_execution"}, "needs scenario 'code_generation'"),
        ({"release": "v1"}, "is called version here"),
        ({"start_date": "2099-01-01"}, "no task is left"),
    )
    for options, said in refused:
        with pytest.raises(UsageError, match=said):
            LiveCodeBench(path="bundled", **options)


def test_the_sample_stands_in_for_the_hub_with_a_warning() -> None:
    with pytest.warns(UserWarning, match="WARNING: THIS IS NOT GSM8K"):
        assert GSM8K().get_test_data() == GSM8K(path="bundled").get_test_data()


def test_a_new_folder_is_made_to_save_data_in(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="the folder holds no data of gsm8k, and the hub"):
        GSM8K(path=tmp_path / "new" / "folder")
    assert [*(tmp_path / "new" / "folder").iterdir()] == []
    with pytest.raises(DataError, match="no such file"):
        GSM8K(path=tmp_path / "test.jsonl")
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be created"):
        GSM8K(path=tmp_path / "file" / "folder")
