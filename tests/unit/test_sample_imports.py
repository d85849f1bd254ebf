"""Samples from the files of other projects."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from case_checks import each_case

from harness.benchmarks import load_benchmark
from harness.core.errors import DataError, UsageError
from harness.reports.imports import KnownTasks, hint_at_format, import_names, import_samples


def read(
    path: Path,
    name: str,
    field: str | None = None,
    notices: list[str] | None = None,
    tasks: KnownTasks | None = None,
) -> list[Any]:
    notify = pytest.fail if notices is None else notices.append
    return [json.loads(line) for line in import_samples(path, name, field, notify=notify, tasks=tasks)]


def write_log(folder: Path, *samples: Any) -> Path:
    path = folder / "log.json"
    path.write_text(json.dumps({"version": 2, "eval": {}, "samples": samples}))
    return path


def sample(task_id: Any, content: Any) -> dict[str, Any]:
    return {"id": task_id, "epoch": 1, "output": {"choices": [{"message": {"content": content}}]}}


def test_the_replies_of_an_inspect_log_become_samples(tmp_path: Path) -> None:
    parts = [{"type": "reasoning", "reasoning": "hm"}, {"type": "text", "text": "b"}]
    path = write_log(tmp_path, sample("t/1", "a"), sample("t/1", parts), sample(7, "c"))
    assert read(path, "inspect") == [
        {"task_id": "t/1", "reply": "a"},
        {"task_id": "t/1", "reply": "b"},
        {"task_id": "7", "reply": "c"},
    ]


def test_a_sample_without_a_reply_keeps_its_line_and_is_counted(tmp_path: Path) -> None:
    notices: list[str] = []
    path = write_log(tmp_path, sample("t/1", "a"), {"id": "t/2", "output": {"choices": []}})
    assert read(path, "inspect", notices=notices)[1] == {"task_id": "t/2", "reply": ""}
    assert notices == ["samples without a reply, whose lines hold an empty text: 1 of 2"]


def test_each_response_in_a_file_of_lm_eval_becomes_a_sample(tmp_path: Path) -> None:
    path = tmp_path / "samples_humaneval.jsonl"
    rows = [
        {"doc_id": 0, "doc": {"task_id": "HumanEval/0"}, "resps": [["x", "y"]]},
        {"doc_id": 1, "doc": {"task_id": 11}, "resps": [["z"]]},
    ]
    path.write_text("\n".join(map(json.dumps, rows)))
    assert read(path, "lm_eval", "completion") == [
        {"task_id": "HumanEval/0", "completion": "x"},
        {"task_id": "HumanEval/0", "completion": "y"},
        {"task_id": "11", "completion": "z"},
    ]


def write(path: Path, *values: Any) -> Path:
    path.write_text("\n".join(map(json.dumps, values)))
    return path


def test_rows_of_gsm8k_and_minerva_are_tasks_by_their_places_and_only_one_filter_counts(
    tmp_path: Path,
) -> None:
    rows = [
        {"doc_id": place, "doc": doc, "resps": [["a", "b"]], "filter": name}
        for place, doc in ((0, {"question": "1 + 1?"}), (3, {"problem": "2 + 2?"}))
        for name in ("strict-match", "flexible-extract")
    ]
    found = read(write(tmp_path / "samples_x.jsonl", *rows), "lm_eval")
    assert [(each["task_id"], each["reply"]) for each in found] == [
        *(("gsm8k/0", text) for text in "ab"),
        *(("math/3", text) for text in "ab"),
    ]


def test_rows_of_a_part_of_math_are_found_by_their_problems(tmp_path: Path) -> None:
    data = tmp_path / "math.jsonl"
    problems = ("What is  1?", "What is 2?")
    write(
        data,
        *(
            {"problem": each, "solution": "\\boxed{1}", "level": "Level 1", "type": "Algebra"}
            for each in problems
        ),
    )
    row = {"doc_id": 0, "doc": {"problem": "What is 2?\n"}, "resps": [["2"]], "filter": "none"}
    path = write(tmp_path / "samples_minerva_math_algebra.jsonl", row)
    assert read(path, "lm_eval", tasks=KnownTasks("math", str(data))) == [{"task_id": "math/1", "reply": "2"}]
    with pytest.raises(DataError) as caught:
        read(path, "lm_eval")
    assert caught.value.hint == "name the benchmark, and its data as in a run: -b NAME --data PATH"


def test_the_programs_of_evalplus_become_solutions(tmp_path: Path) -> None:
    for name, number in (("HumanEval_10", 0), ("HumanEval_2", 10), ("HumanEval_2", 9), ("Mbpp_11", 0)):
        (tmp_path / "run" / name).mkdir(parents=True, exist_ok=True)
        (tmp_path / "run" / name / f"{number}.py").write_text(f"{name} {number}")
    assert read(tmp_path / "run", "evalplus") == [
        {"task_id": "HumanEval/2", "solution": "HumanEval_2 9"},
        {"task_id": "HumanEval/2", "solution": "HumanEval_2 10"},
        {"task_id": "HumanEval/10", "solution": "HumanEval_10 0"},
        {"task_id": "11", "solution": "Mbpp_11 0"},
    ]
    lines = write(
        tmp_path / "x.jsonl", {"task_id": "Mbpp/2", "solution": "a"}, {"task_id": "3", "completion": "b"}
    )
    assert read(lines, "evalplus") == [{"task_id": "2", "solution": "a"}, {"task_id": "3", "completion": "b"}]


def test_the_generations_of_bigcode_are_in_the_order_of_the_benchmark(tmp_path: Path) -> None:
    path = write(tmp_path / "generations_mbpp.json", [["a", "b"], ["c"]])
    assert [(each["task_id"], each["solution"]) for each in read(path, "bigcode")] == [
        *(("11", "a"), ("11", "b"), ("12", "c")),
    ]
    unnamed = write(tmp_path / "generations.json", [["a"]])
    assert read(unnamed, "bigcode", tasks=KnownTasks("humaneval")) == [
        {"task_id": "HumanEval/0", "solution": "a"}
    ]
    with pytest.raises(DataError, match="does not name its benchmark"):
        read(unnamed, "bigcode")


def test_the_output_of_livecodebench_has_programs_or_replies(tmp_path: Path) -> None:
    rows = [
        {"question_id": "abc", "code_list": ["a", ""], "output_list": ["x"]},
        {"question_id": "d", "output_list": ["y"]},
    ]
    assert read(write(tmp_path / "Scenario.codegeneration_1_0.2.json", rows), "livecodebench") == [
        {"task_id": "abc", "solution": "a"},
        {"task_id": "abc", "solution": ""},
        {"task_id": "d", "reply": "y"},
    ]


def test_the_conversations_of_simple_evals_are_matched_by_their_prompts(tmp_path: Path) -> None:
    tasks = KnownTasks("humaneval", "bundled")
    prompt = load_benchmark("humaneval", data="bundled").tasks[3].prompt
    convo = [
        {"role": "user", "content": f"Read this.\n{prompt}"},
        *({"role": "assistant", "content": x} for x in "ab"),
    ]
    path = write(tmp_path / "humaneval_m_allresults.json", {"score": 1, "convos": [convo]})
    assert read(path, "simple_evals", tasks=tasks) == [
        {"task_id": "HumanEval-sample/3", "completion": "a"},
        {"task_id": "HumanEval-sample/3", "completion": "b"},
    ]
    with pytest.raises(DataError, match="has only the scores"):
        read(write(tmp_path / "scores.json", {"score": 1.0, "pass@1": 1.0}), "simple_evals", tasks=tasks)


def test_a_file_of_another_tool_gets_the_command_that_reads_it(tmp_path: Path) -> None:
    rows = {
        "lm_eval": write(tmp_path / "a.jsonl", {"doc": {}, "resps": []}, {"doc": {}, "resps": []}),
        "bigcode": write(tmp_path / "generations_x.json", [["a"]]),
        "livecodebench": write(tmp_path / "b.json", [{"question_id": "x", "code_list": []}]),
        "simple_evals": write(tmp_path / "c.json", {"convos": []}),
        "inspect": write_log(tmp_path, sample("t", "a")),
        "evalplus": tmp_path / "programs",
    }
    (tmp_path / "programs" / "HumanEval_0").mkdir(parents=True)
    (tmp_path / "programs" / "HumanEval_0" / "0.py").touch()
    for name, path in rows.items():
        error = hint_at_format(DataError("no sample", path=path), str(path), "mbpp")
        assert f"harness samples import {path} --from {name}" in str(error.hint)
        other = "lm_eval" if name != "lm_eval" else "bigcode"
        with pytest.raises(DataError) as caught:
            read(path, other)
        assert f"--from {name}" in str(caught.value.hint), name


@each_case(
    ("name", "text", "message"),
    [
        ("inspect", "PK\x03\x04", r"file:1: is not JSON"),
        ("inspect", "[]", "is not the log of inspect"),
        ("inspect", '{"eval": {}}', "is not the log of inspect with its samples"),
        ("inspect", '{"eval": {}, "samples": []}', "has no sample"),
        ("inspect", '{"eval": {}, "samples": [5]}', "sample 1: 'id' is not a text"),
        (
            "lm_eval",
            '{"doc": {"task_id": "a"}}\n{"doc": {"question": "b"}}',
            "file:2: doc: 'task_id' is not a text",
        ),
        ("lm_eval", "5", "file:1: doc: 'task_id' is not a text"),
        ("lm_eval", "{", "file:1: is not JSON"),
        ("lm_eval", "", "has no sample"),
    ],
)
def test_a_file_of_another_form_is_refused_with_its_place(
    tmp_path: Path, name: str, text: str, message: str
) -> None:
    path = tmp_path / "file"
    path.write_text(text)
    with pytest.raises(DataError, match=message):
        read(path, name, notices=[])


def test_a_missing_file_and_an_unknown_format_are_refused(tmp_path: Path) -> None:
    known = ["bigcode", "evalplus", "inspect", "livecodebench", "lm_eval", "simple_evals"]
    assert import_names() == known
    for name in import_names():
        with pytest.raises(DataError, match="cannot be read"):
            read(tmp_path / "missing", name)
    with pytest.raises(UsageError, match="unknown import format 'lmeval'"):
        read(tmp_path / "missing", "lmeval")
