"""The four benchmarks of answers: tasks and references of rows, submissions, and refusals."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from bundled import load_bundled
from case_checks import each_case

import harness.benchmarks.data
from harness.benchmarks import Benchmark, definitions, load_benchmark
from harness.core.errors import DataError, UsageError
from harness.environments.maths.grader import MathsAnswer
from harness.environments.text.short_answers import NumberAnswer, ShortAnswer

NAMES = ("gsm8k", "math", "nq", "hotpotqa")
BUNDLED = {name: load_bundled(name) for name in NAMES}
FILES = {
    "gsm8k": ("gsm8k/test.jsonl", 1319),
    "math": ("math/test_500.jsonl", 493),
    "nq": ("nq/NQ-open.dev.jsonl", 3610),
    "hotpotqa": ("hotpotqa/dev_distractor_60.json", 60),
}
ROWS: dict[str, dict[str, Any]] = {
    "gsm8k": {"question": "How many?", "answer": "It is 2+2=<<2+2=4>>4.\n#### 1,004"},
    "math": {"problem": "Why?", "solution": r"So \boxed{\frac12}", "level": "Level 3", "type": "Algebra"},
    "nq": {"question": "who is it", "answer": ["The One", "Neo"]},
    "hotpotqa": {
        "question": "Who?",
        "answer": "yes",
        "type": "bridge",
        "context": {"title": ["A", "B"], "sentences": [["One.", " Two."], ["Three."]]},
    },
}


def loaded(tmp_path: Path, name: str, **changed: Any) -> Benchmark:
    path = tmp_path / f"{name}.jsonl"
    row = {key: value for key, value in {**ROWS[name], **changed}.items() if value is not None}
    path.write_text(json.dumps(row) + "\n")
    return load_benchmark(name, data=str(path))


@each_case("name", NAMES)
def test_real_data_are_read_whole(name: str, shared_data: Path) -> None:
    file, count = FILES[name]
    benchmark = load_benchmark(name, data=str(shared_data / file))
    assert len(benchmark.tasks) == count
    assert all(row["question" if "question" in row else "problem"] for row in benchmark.rows.values())
    if name in ("gsm8k", "math"):
        assert all(task.statement and task.statement in task.prompt for task in benchmark.tasks)


def test_targets_hold_the_gold_answers(tmp_path: Path) -> None:
    targets = {name: next(iter(loaded(tmp_path, name).references.values())).target for name in NAMES}
    assert targets == {
        "gsm8k": NumberAnswer(Decimal(1004)),
        "math": MathsAnswer(r"\frac12"),
        "nq": ShortAnswer(("The One", "Neo")),
        "hotpotqa": ShortAnswer(("yes",)),
    }


@each_case("name", NAMES)
def test_no_prompt_shows_more_than_the_question(name: str) -> None:
    for task in BUNDLED[name].tasks:
        expected = BUNDLED[name].references[task.id]
        assert expected.solution not in task.prompt or name == "hotpotqa" or len(expected.solution) < 20
        assert "####" not in task.prompt


def test_maths_has_a_category_and_a_level(tmp_path: Path) -> None:
    (task,) = loaded(tmp_path, "math").tasks
    assert (task.category, task.labels) == ("Algebra", {"level": "Level 3"})


def test_both_forms_of_context_are_the_same_passages(tmp_path: Path) -> None:
    published = [["A", ["One.", " Two."]], ["B", ["Three."]]]
    (one,) = loaded(tmp_path, "hotpotqa").tasks
    (other,) = loaded(tmp_path, "hotpotqa", context=published, _id="5a8b").tasks
    assert one.prompt == other.prompt
    assert "Passage 1:\nA\nOne. Two.\n\nPassage 2:\nB\nThree.\n" in one.prompt
    assert (one.id, other.id) == ("hotpotqa/0", "5a8b")


BROKEN = [
    ("gsm8k", {"answer": "no mark 4"}, "field 'answer'"),
    ("gsm8k", {"answer": "#### four"}, "field 'answer'"),
    ("gsm8k", {"answer": "#### "}, "field 'answer'"),
    ("gsm8k", {"question": " "}, "field 'question'"),
    ("math", {"solution": "So 4."}, "field 'solution'"),
    ("math", {"solution": r"\boxed{}"}, "field 'solution'"),
    ("math", {"solution": r"\boxed{ }"}, "field 'solution'"),
    ("math", {"solution": r"\boxed{4"}, "field 'solution'"),
    ("math", {"solution": rf"\boxed{{{'4' * 2001}}}"}, "field 'solution'"),
    ("math", {"type": None}, "field 'type'"),
    ("nq", {"answer": []}, "field 'answer'"),
    ("nq", {"answer": ["Neo", " "]}, r"field 'answer\[1\]'"),
    ("nq", {"answer": "Neo"}, "field 'answer'"),
    ("hotpotqa", {"answer": ""}, "field 'answer'"),
    ("hotpotqa", {"context": {"title": ["A"], "sentences": []}}, "field 'context'"),
    ("hotpotqa", {"context": [["A", "One."]]}, "field 'context'"),
    ("hotpotqa", {"context": None}, "field 'context'"),
]


@each_case(("name", "changed", "said"), BROKEN)
def test_data_that_cannot_be_right_are_refused_by_line_and_field(
    tmp_path: Path, name: str, changed: dict[str, Any], said: str
) -> None:
    with pytest.raises(DataError, match=rf"{name}\.jsonl:1: {said}"):
        loaded(tmp_path, name, **changed)


HANDED_IN = [
    ("gsm8k", "completion", "<think>7</think>It is 8.", "It is 8."),
    ("gsm8k", "answer", "8", "8"),
    ("math", "completion", r"<think>\boxed{7}</think> so \boxed{1} or \boxed{\frac{1}{2}}", r"\frac{1}{2}"),
    ("math", "completion", "It is 8.", ""),
    ("math", "completion", "So it is 8.\n\nAnswer: 8", "8"),
    ("math", "completion", "**Answer:** $\\frac{1}{2}$", "\\frac{1}{2}"),
    ("math", "completion", "Final Answer: The final answer is $2$. I hope it is correct.", "2"),
    ("math", "completion", "Answer: 8\nBut no, this is wrong.", ""),
    ("math", "completion", "\\boxed{7}\nAnswer: 8", "7"),
    ("math", "completion", "The answer: I do not know it: 8", ""),
    ("math", "solution", r"so \boxed{8}", "8"),
    ("math", "answer", " 8 ", "8"),
    ("nq", "completion", "<think>No, yes</think>\n Neo \r\n", "Neo"),
    ("nq", "answer", " Neo", "Neo"),
    ("hotpotqa", "completion", "yes\n", "yes"),
]


@each_case(("name", "field", "text", "taken"), HANDED_IN)
def test_the_answer_is_extracted_from_a_reply(name: str, field: str, text: str, taken: str) -> None:
    benchmark = BUNDLED[name]
    submission = benchmark.submission(benchmark.tasks[0], field, text)
    assert (submission.text, submission.agent_output) == (taken, text)


def test_splits_are_the_published_ones() -> None:
    known = definitions()
    sizes = {name: {known[name].split: known[name].tasks} for name in NAMES}
    for name in NAMES:
        sizes[name] |= {split: part.tasks for split, part in known[name].splits.items()}
    assert sizes == {
        "gsm8k": {"test": 1319, "train": 7473},
        "math": {"test": 5000, "train": 7500},
        "nq": {"test": 3610, "train": 79_168, "dev": 8757},
        "hotpotqa": {"dev": 7405, "train": 90_447},
    }
    with pytest.raises(UsageError, match="its answers are not public"):
        load_benchmark("hotpotqa", data="bundled", split="test")


def test_problems_of_math_are_chosen_by_level_and_type() -> None:
    every = {task.id: task for task in BUNDLED["math"].tasks}

    def chosen(**options: Any) -> set[str]:
        return {task.id for task in load_benchmark("math", data="bundled", **options).tasks}

    def are(levels: set[str], kind: str | None = None) -> set[str]:
        return {
            name
            for name, task in every.items()
            if task.labels["level"] in levels and kind in (None, task.category)
        }

    assert chosen(level=2) == are({"Level 2"}) != set()
    assert chosen(level=[2, 3], type="algebra") == are({"Level 2", "Level 3"}, "Algebra") != set()
    for wrong in ({"level": 6}, {"level": "hard"}, {"type": "Arithmetic"}, {"levle": 2}):
        with pytest.raises(UsageError, match="math: "):
            chosen(**wrong)


def test_table_of_dpr_is_the_same_questions(tmp_path: Path) -> None:
    table = Path(harness.benchmarks.data.__file__).parent / "bundled/nq.csv"
    assert load_benchmark("nq", data=str(table)).references == BUNDLED["nq"].references


def test_prediction_is_evaluated_against_its_label() -> None:
    benchmark = BUNDLED["nq"]
    (example,) = benchmark.get_test_data(indices=[0])
    label = benchmark.get_label(example)
    assert benchmark.evaluate("The four", label)["em"] == 1.0
    assert benchmark.evaluate("forty", label)["resolved"] is False


def test_a_reply_without_an_answer_is_shown_in_the_evidence_of_evaluate() -> None:
    benchmark = BUNDLED["nq"]
    (example,) = benchmark.get_test_data(indices=[0])
    found = benchmark.evaluate("<think>Oslo", benchmark.get_label(example), field="reply")
    assert found["evidence"].startswith(
        "the reply holds only thoughts, so it has no answer; it begins: <think>Oslo"
    )
