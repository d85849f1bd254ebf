"""Benchmarks of a user: YAML files over a dataset, Python files, and their errors."""

from __future__ import annotations

import gzip
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from case_checks import each_case

from harness.benchmarks import Benchmark, definitions, load_benchmark
from harness.core.errors import DataError, HarnessError, UsageError
from harness.core.types import ProgramTests

QUESTIONS: list[dict[str, Any]] = [
    {"key": "norway", "country": "Norway", "capital": ["Oslo"], "part": "Europe"},
    {"key": "bolivia", "country": "Bolivia", "capital": ["Sucre", "La Paz"], "part": None},
]
YAML = """
name: capitals
data: {test: {path: capitals.jsonl}}
id: key
category: part
prompt: 'What is the capital of {country}? {"answer": ...} {a b} \\\\frac{1}{2} {}'
reference: capital
metric: exact_match
"""


def write(folder: Path, text: str = YAML, rows: list[dict[str, object]] | None = None) -> Path:
    lines = [json.dumps(row) for row in (QUESTIONS if rows is None else rows)]
    (folder / "capitals.jsonl").write_text("\n".join(lines))
    path = folder / "capitals.yaml"
    path.write_text(text)
    return path


def load(folder: Path, text: str = YAML, rows: list[dict[str, object]] | None = None) -> Benchmark:
    return load_benchmark(str(write(folder, text, rows)))


def scored(benchmark: Benchmark, *answers: str, field: str = "solution") -> list[float]:
    examples = benchmark.get_data(benchmark.split)
    return [
        benchmark.evaluate(answer, benchmark.get_label(example), field=field)["score"]
        for example, answer in zip(examples, answers, strict=True)
    ]


def test_yaml_maps_fields_to_prompt_reference_and_metric(tmp_path: Path) -> None:
    benchmark = load(tmp_path)
    assert [(task.id, task.category, task.environment) for task in benchmark.tasks] == [
        ("norway", "Europe", "text"),
        ("bolivia", None, "text"),
    ]
    assert benchmark.tasks[0].benchmark == "capitals"
    assert benchmark.tasks[0].prompt == (
        'What is the capital of Norway? {"answer": ...} {a b} \\\\frac{1}{2} {}'
    )
    assert scored(benchmark, "the oslo.", "la paz") == [1.0, 1.0]
    assert scored(benchmark, "Oslo, I think", "") == [0.0, 0.0]


def test_an_answer_is_graded_without_an_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:1")
    assert scored(load(tmp_path), "Oslo", "Lima") == [1.0, 0.0]


def test_a_path_is_relative_to_the_yaml_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert len(load_benchmark(f"../{path.name}").tasks) == 2


@each_case("kind", ["json", "jsonl.gz", "csv", "tsv", "parquet"])
def test_datasets_of_every_kind_are_mapped(tmp_path: Path, kind: str) -> None:
    rows = [{"country": "Norway", "capital": "Oslo"}, {"country": "Peru", "capital": "Lima"}]
    file = tmp_path / f"a.{kind}"
    match kind:
        case "json":
            file.write_text(json.dumps(rows))
        case "jsonl.gz":
            file.write_bytes(gzip.compress("\n".join(map(json.dumps, rows)).encode()))
        case "parquet":
            pq.write_table(pa.Table.from_pylist(rows), file)
        case _:
            comma = "\t" if kind == "tsv" else ","
            file.write_text(
                "\n".join(comma.join(each) for each in [["country", "capital"], *(r.values() for r in rows)])
            )
    data = f"name: c\ndata: {{test: {{path: a.{kind}}}}}\n"
    text = f"{data}prompt: '{{country}}'\nreference: capital\nmetric: f1\n"
    benchmark = load(tmp_path, text)
    assert [task.prompt for task in benchmark.tasks] == ["Norway", "Peru"]
    assert [task.id for task in benchmark.tasks] == ["0", "1"]
    assert scored(benchmark, "Oslo", "Lima or Cusco") == [1.0, 0.5]


@each_case(
    ("metric", "gold", "right", "wrong"),
    [
        ("number", 42, "so it is 42.0", "42 or 43"),
        ("number", "1,000", "1000", "100"),
        ("has_answer", ["Oslo"], "It is Oslo, of course", "Osloer"),
        ("exact_match", "Oslo", "oslo", "oslo oslo"),
        ("f1", ["a cat", "dog"], "cat", "bird"),
    ],
)
def test_a_metric_scores_an_answer(tmp_path: Path, metric: str, gold: object, right: str, wrong: str) -> None:
    text = YAML.replace("exact_match", metric)
    rows = [{"key": str(place), "country": "x", "capital": gold} for place in range(2)]
    assert scored(load(tmp_path, text, rows), right, wrong) == [1.0, 0.0]


def test_thoughts_are_dropped_and_a_mark_may_precede_the_answer(tmp_path: Path) -> None:
    benchmark = load(tmp_path, f"{YAML}answer_after: 'Answer:'\n")
    reply = "<think>Answer: Lima?</think>It is north. Answer: Bergen. No: Answer: Oslo"
    assert scored(benchmark, reply, "Sucre", field="completion") == [1.0, 1.0]
    assert scored(benchmark, reply, "Sucre") == [0.0, 1.0]


def test_splits_are_those_of_the_yaml_file(tmp_path: Path) -> None:
    text = YAML.replace(
        "{test: {path: capitals.jsonl}}", "{dev: {path: capitals.jsonl}, train: {path: t.jsonl}}"
    )
    (tmp_path / "t.jsonl").write_text(json.dumps({**QUESTIONS[0], "key": "other"}))
    benchmark = load(tmp_path, text)
    assert benchmark.split == "dev"
    assert [each.task.id for each in benchmark.get_train_data()] == ["other"]
    with pytest.raises(UsageError, match="has no split 'test'"):
        benchmark.get_test_data()
    assert load(tmp_path, f"{text}default_split: train\n").split == "train"


def test_rows_are_counted_if_the_yaml_file_states_their_number(tmp_path: Path) -> None:
    text = YAML.replace("capitals.jsonl}", "capitals.jsonl, rows: 3}")
    with pytest.raises(DataError, match="has 3 rows in split 'test', but this data has 2"):
        load(tmp_path, text)


@each_case(
    ("change", "said"),
    [
        (("metric: exact_match", "metric: exact"), "'metric': unknown metric 'exact'"),
        (("metric: exact_match", ""), "'metric' is missing"),
        (("name: capitals", "name: 'Big Name'"), "'name' must match ^[a-z0-9]"),
        (("reference:", "refrence:"), "unknown key 'refrence'"),
        (("prompt: '", "prompt: ['"), "is not YAML"),
        (("{path: capitals.jsonl}", "capitals.jsonl"), "'data.test'"),
        (
            ("{path: capitals.jsonl}", "{path: capitals.jsonl, url: 'https://x/a.csv'}"),
            "one of path, url and hub",
        ),
        (("{path: capitals.jsonl}", "{}"), "one of path, url and hub"),
        (("{path: capitals.jsonl}", "{path: capitals.txt}"), "'capitals.txt' does not end in one of"),
        (("{path: capitals.jsonl}", "{hub: capitals}"), "hub needs OWNER/NAME"),
        (("{path: capitals.jsonl}", "{url: 'file:///etc/a.csv'}"), "url needs https://"),
        (("{path: capitals.jsonl}", "{path: capitals.jsonl, config: a}"), "config and split need hub"),
        (("{path: capitals.jsonl}", "{path: capitals.jsonl, row: 1}"), "'data.test': unknown key 'row'"),
        (("{path:", "{pth:"), "'data.test': unknown key 'pth'; did you mean 'path'?"),
        (("{test:", "{tset:"), "'data': unknown split 'tset'; did you mean 'test'?"),
        (("metric:", "csv: {colums: [a]}\nmetric:"), "'csv': unknown key 'colums'; did you mean 'columns'?"),
        (("metric: exact_match", "metric: tests"), "'tests': metric 'tests' needs this key"),
        (("metric: exact_match", "metric: f1\ntests: t"), "'tests': metric 'tests' needs this key"),
        (("metric: exact_match", "metric: f1\ndefault_split: dev"), "'default_split': unknown split 'dev'"),
        ((YAML, "just text"), "needs keys and values"),
    ],
)
def test_an_error_in_a_yaml_file_names_file_and_key(
    tmp_path: Path, change: tuple[str, str], said: str
) -> None:
    assert change[0] in YAML
    with pytest.raises(UsageError) as caught:
        load(tmp_path, YAML.replace(*change))
    assert said in f"{caught.value}; {caught.value.hint}"
    assert str(tmp_path / "capitals.yaml") in str(caught.value)


@each_case(
    ("row", "field", "said"),
    [
        ({"key": "a", "country": "x"}, "capital", "missing"),
        ({"key": "a", "country": "x", "capital": None}, "capital", "found null"),
        ({"key": "a", "country": "x", "capital": []}, "capital", "empty list"),
        ({"key": "a", "country": "x", "capital": ["Oslo", " "]}, "capital", "needs a text"),
        ({"key": "a", "country": "x", "capital": {"a": 1}}, "capital", "needs a text"),
        ({"key": "a", "country": "x", "capital": True}, "capital", "needs a text"),
        ({"key": "a", "capital": "Oslo"}, "country", "missing"),
        ({"key": "a", "country": {"no": 1}, "capital": "Oslo"}, "country", "which a prompt cannot show"),
        ({"key": 1.5, "country": "x", "capital": "Oslo"}, "key", "needs a string"),
        ({"key": " ", "country": "x", "capital": "Oslo"}, "key", "is empty"),
    ],
)
def test_an_error_in_a_row_names_file_line_and_field(
    tmp_path: Path, row: dict[str, object], field: str, said: str
) -> None:
    with pytest.raises(DataError, match=said) as caught:
        load(tmp_path, rows=[QUESTIONS[0], row])
    assert (caught.value.line, caught.value.field) == (2, field)


def test_a_gold_without_a_number_is_refused_by_the_metric_number(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="has no number"):
        load(tmp_path, YAML.replace("exact_match", "number"))


PROGRAMS = """
name: programs
data: {test: {path: capitals.jsonl}}
prompt: '{text}'
reference: code
tests: asserts
setup: imports
metric: tests
"""
PROGRAM: dict[str, Any] = {
    "text": "Write double(x).",
    "code": "def double(x):\n    return 2 * x\n",
    "asserts": ["assert double(2) == 4", "assert math.floor(double(0.6)) == 1"],
    "imports": "import math",
}


def test_programs_are_graded_by_their_tests(tmp_path: Path) -> None:
    benchmark = load(tmp_path, PROGRAMS, [PROGRAM])
    (task,) = benchmark.tasks
    assert (task.environment, task.entry_point) == ("python", "double")
    target = benchmark.references[task.id].target
    assert isinstance(target, ProgramTests)
    assert target.statements == tuple(PROGRAM["asserts"])
    assert target.exports == {"double": "double"}
    reply = "Here:\n```python\ndef double(x): return x + x\n```\nThat is it."
    assert benchmark.submission(task, "completion", reply).text == "def double(x): return x + x"


@each_case(
    ("change", "field", "said"),
    [
        ({"code": "def double(x:"}, "code", "is not Python"),
        ({"code": ["x"]}, "code", "needs the reference program"),
        ({"asserts": []}, "asserts", "needs a test"),
        ({"asserts": ["assert ("]}, "asserts", "is not Python"),
        ({"asserts": ["assert 1"]}, "asserts", "has no test that uses"),
        ({"timeout": 1}, "timeout", "would change the grading"),
        ({"hidden_tests": ["assert False"]}, "hidden_tests", "would change the grading"),
    ],
)
def test_programs_that_cannot_be_graded_are_refused(
    tmp_path: Path, change: dict[str, object], field: str, said: str
) -> None:
    with pytest.raises(DataError, match=said) as caught:
        load(tmp_path, PROGRAMS, [{**PROGRAM, **change}])
    assert caught.value.field == field


def python(folder: Path, text: str) -> Benchmark:
    path = folder / "own.py"
    path.write_text(text)
    return load_benchmark(str(path))


SUMS = '''"""Sums of small numbers."""
NAME, METRIC = "sums", "number"
def tasks():
    for a in (1, 2):
        yield {"id": f"sum-{a}", "prompt": f"{a} + 1?", "reference": a + 1, "category": "small"}
'''


def test_a_python_file_returns_tasks_and_names_a_metric(tmp_path: Path) -> None:
    benchmark = python(tmp_path, SUMS)
    assert [(task.id, task.prompt, task.category) for task in benchmark.tasks] == [
        ("sum-1", "1 + 1?", "small"),
        ("sum-2", "2 + 1?", "small"),
    ]
    assert benchmark.definition.description == "Sums of small numbers."
    assert scored(benchmark, "2", "4") == [1.0, 0.0]
    assert benchmark.source.location == str(tmp_path / "own.py")
    assert benchmark.source.sha256 != python(tmp_path, SUMS.replace("a + 1,", "a + 2,")).source.sha256


def test_an_edit_that_keeps_size_and_time_of_a_python_file_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    prompts = []
    for text in (SUMS, SUMS.replace("+ 1?", "+ 2?")):
        path = tmp_path / "own.py"
        path.write_text(text)
        os.utime(path, (1_000_000, 1_000_000))
        prompts.append(load_benchmark(str(path)).tasks[0].prompt)
    assert prompts == ["1 + 1?", "1 + 2?"]
    assert [file.name for file in tmp_path.iterdir()] == ["own.py"]


def test_a_python_file_may_declare_a_definition(tmp_path: Path) -> None:
    text = (
        "from dataclasses import replace\nfrom harness.benchmarks import definitions\n"
        "BENCHMARKS = (replace(definitions()['mbpp'], name='mine'),)\n"
    )
    path = tmp_path / "own.py"
    path.write_text(text)
    benchmark = load_benchmark(str(path), data="bundled")
    assert benchmark.name == "mine"
    assert {task.benchmark for task in benchmark.tasks} == {"mine"}


@each_case(
    ("text", "said"),
    [
        ("x = (", "SyntaxError"),
        ("a = 1\nb = 1 / 0\n", "line 2: ZeroDivisionError"),
        ("", "needs the text NAME"),
        ("NAME = 'a'", "needs the text METRIC"),
        ("NAME = 'a'; METRIC = 'nubmer'", "unknown metric 'nubmer'"),
        ("NAME = 'a'; METRIC = 'number'", "has no function 'tasks'"),
        ("NAME = 'a'; METRIC = 'number'\ndef tasks():\n    raise KeyError('x')", "line 3: KeyError"),
        ("NAME = 'a'; METRIC = 'number'\ndef tasks(): return []", "returned no task"),
        ("NAME = 'a'; METRIC = 'number'\ndef tasks(): return ['x']", "needs a dict"),
        ("NAME = 'a'; METRIC = 'number'\ndef tasks(): return [{'promt': 'x'}]", "is not a known key"),
        ("NAME = 'a'; METRIC = 'number'\ndef tasks(): return [{'prompt': 'x'}]", "needs a text, a number"),
        ("NAME = 'a'; METRIC = 'number'\ndef tasks(): return [{'prompt': {1, 2}}]", "not plain data"),
        ("BENCHMARKS = 5", "tuple of one Definition"),
        ("BENCHMARKS = (5,)", "not a Definition"),
    ],
)
def test_an_error_in_a_python_file_names_the_file(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(HarnessError) as caught:
        python(tmp_path, text)
    assert said in str(caught.value)
    assert str(tmp_path / "own.py") in str(caught.value)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    for name in ("none.py", "none.yaml"):
        with pytest.raises(UsageError, match="no such file"):
            load_benchmark(str(tmp_path / name))


def test_a_python_file_refuses_other_data(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(SUMS)
    with pytest.raises(UsageError, match="makes its own tasks"):
        load_benchmark(str(tmp_path / "own.py"), data="bundled")


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yield the entry points of an installed package that has the benchmark `rivers`."""
    write(tmp_path)
    information = tmp_path / "rivers-1.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: rivers\nVersion: 1\n")
    (tmp_path / "rivers.py").write_text(
        "from pathlib import Path\nfrom dataclasses import replace\n"
        "from harness.benchmarks.loading import own_definition\n"
        "BENCHMARKS = (replace(own_definition(Path(__file__).with_name('capitals.yaml')), name='rivers'),)\n"
    )
    points = information / "entry_points.txt"
    points.write_text("[harness.benchmarks]\nrivers = rivers:BENCHMARKS\n")
    monkeypatch.syspath_prepend(tmp_path)
    definitions.cache_clear()
    yield points
    sys.modules.pop("rivers", None)
    definitions.cache_clear()


def test_a_package_adds_benchmarks_by_an_entry_point(package: Path) -> None:
    assert "rivers" in definitions()
    assert {task.benchmark for task in load_benchmark("rivers").tasks} == {"rivers"}


def test_a_broken_package_is_named_and_does_not_stop_our_benchmarks(package: Path) -> None:
    package.write_text("[harness.benchmarks]\nrivers = rivers:NOTHING\n")
    with pytest.raises(UsageError, match="entry point 'rivers' of package rivers: AttributeError"):
        definitions()
    assert load_benchmark("mbpp", data="bundled").tasks
