"""LiveCodeBench as benchmarks: options, prompts, submissions, and tasks from rows."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from case_checks import each_case

from harness.benchmarks import definitions, load_benchmark
from harness.benchmarks.data.rows import OnDisk
from harness.benchmarks.livecodebench.generation import PREAMBLE
from harness.benchmarks.livecodebench.problem import ReleaseFile, name_release
from harness.benchmarks.options import parse_options
from harness.core.errors import DataError, UsageError
from harness.core.types import DataSource, Status, Task, Verdict
from harness.environments import grader_of
from harness.environments.python.call_programs import CallTests
from harness.environments.python.client import batches
from harness.environments.python.stdin_programs import Compatibility, StdinTests
from harness.environments.spec import SandboxGrader, TextGrader
from harness.reports.remarks import list_conditions
from harness.runs.config import RunConfig
from harness.runs.selection import select

NAMES = ("livecodebench", "livecodebench-execution", "livecodebench-test-output")
BUNDLED = Path(__file__).parents[2] / "harness/benchmarks/data/bundled"


def tasks(name: str = "livecodebench", **options: Any) -> list[str]:
    return [task.id for task in load_benchmark(name, data="bundled", **options).tasks]


@each_case("name", NAMES)
def test_the_category_of_a_task_is_its_difficulty(name: str) -> None:
    assert {task.category for task in load_benchmark(name, data="bundled").tasks} <= {
        "easy",
        "medium",
        "hard",
    }


def test_programs_are_graded_by_their_output_or_by_their_functions_result() -> None:
    loaded = load_benchmark("livecodebench", data="bundled")
    for task in loaded.tasks:
        target = loaded.references[task.id].target
        assert isinstance(target, CallTests if task.entry_point else StdinTests)
        grader = grader_of(target)
        assert isinstance(grader, SandboxGrader)
        assert grader.image is None
        assert len(target.load()) > target.shown > 0


def test_a_prompt_asks_for_stdin_or_gives_the_code_to_start_from() -> None:
    for task in load_benchmark("livecodebench", data="bundled").tasks:
        assert ("from stdin" in task.prompt) == (task.entry_point is None)
        assert task.entry_point is None or f"def {task.entry_point}(" in task.prompt


# Options.


def test_filters_by_difficulty_and_platform_are_combined() -> None:
    easy, leetcode = tasks(difficulty="easy"), tasks(platform=["leetcode"])
    assert set(tasks(difficulty=["easy"], platform="leetcode")) == {*easy} & {*leetcode}
    assert 0 < len(easy) < len(tasks())


@each_case("name", NAMES)
def test_a_window_of_dates_includes_both_of_its_ends(name: str) -> None:
    loaded = load_benchmark(name, data="bundled")
    dates = sorted(str(row["contest_date"])[:10] for row in loaded.rows.values())
    assert len(tasks(name, start_date=dates[0], end_date=dates[-1])) == len(dates)
    assert len(tasks(name, start_date=dates[-1])) == dates.count(dates[-1])


def test_options_that_leave_nothing_are_refused() -> None:
    with pytest.raises(UsageError, match="no task is left"):
        tasks(start_date="2099-01-01")


@each_case(
    ("options", "said"),
    [
        ({"releas": "v1"}, "unknown option 'releas'"),
        ({"release": "v9"}, "unknown release"),
        ({"difficulty": "esy"}, "unknown difficulty"),
        ({"platform": "leetkode"}, "unknown platform"),
        ({"start_date": "soon"}, "option 'start_date'"),
        ({"start_date": "2024-02-01", "end_date": "2024-01-01"}, "is before"),
        ({"strict_compat": "maybe"}, "option 'strict_compat'"),
        ({"solutions": "/nowhere.jsonl"}, "no such file"),
    ],
)
def test_an_invalid_option_is_refused_and_named(options: dict[str, Any], said: str) -> None:
    with pytest.raises((UsageError, DataError), match=said):
        tasks(**options)


@each_case(
    "name",
    ["name", "data", "split", "notify", "observer", "sample_stands_in", "extract", "categories", "options"],
)
def test_an_option_of_a_user_is_no_parameter_of_the_function_that_loads(name: str) -> None:
    with pytest.raises(UsageError, match=f"livecodebench: unknown option '{name}'"):
        select(RunConfig(benchmark="livecodebench", data="bundled", options={name: 1}), notify=print)


@each_case(("given", "meant"), [(True, "report"), (False, "off"), ("off", "off"), ("verdict", "verdict")])
def test_strict_compatibility_reaches_the_target(given: object, meant: str) -> None:
    loaded = load_benchmark("livecodebench", data="bundled", strict_compat=given)
    found = {
        reference.target.strict_compat
        for reference in loaded.references.values()
        if isinstance(reference.target, StdinTests)
    }
    assert found == {Compatibility(meant)}


def test_a_release_decides_the_files_and_the_number_of_problems() -> None:
    definition = definitions()["livecodebench"].with_options({"release": "v2-v3"})
    assert definition.hub is not None
    assert (definition.hub.files, definition.tasks) == (("test2.jsonl", "test3.jsonl"), 212)


def test_only_the_rows_of_a_release_get_its_name(tmp_path: Path) -> None:
    (tmp_path / "test6.jsonl").write_text("")
    hub = DataSource("hub", "livecodebench/code_generation_lite/test.jsonl@abc", "", 1055)
    whole, cut = (DataSource("path", str(tmp_path / "test6.jsonl"), "", rows) for rows in (175, 3))
    found = [
        name_release("release_latest", hub),
        name_release("release_v2", hub),
        name_release("v4_v5", replace(whole, location=str(tmp_path))),
        name_release("release_v1", whole),
        name_release("release_v1", cut),
        name_release("release_v1", DataSource("bundled", "", "", 14)),
    ]
    assert found == [
        "release_latest (v1 to v6)",
        "release_v2",
        "v4_v5",
        "v6",
        "no release",
        "no release",
    ]


@each_case("name", NAMES)
def test_the_window_of_the_loaded_problems_is_known(name: str) -> None:
    whole = load_benchmark(name, data="bundled")
    dates = sorted(str(row["contest_date"])[:10] for row in whole.rows.values())
    count = len(dates)
    assert whole.source.window == f"no release, contests of {dates[0]} to {dates[-1]}, {count} problems"
    last = load_benchmark(name, data="bundled", start_date=dates[-1])
    left = dates.count(dates[-1])
    expected = f"no release, contests of {dates[-1]} to {dates[-1]}, {left} of {count} problems"
    assert last.source.window == expected
    (shown,) = list_conditions({"data": asdict(last.source)})
    assert shown == ("window", expected)


def test_options_of_the_command_line_are_yaml() -> None:
    texts = ["release=v1", "difficulty=[easy, hard]", "strict_compat=true"]
    assert parse_options(texts) == {"release": "v1", "difficulty": ["easy", "hard"], "strict_compat": True}


@each_case("text", ["release", "=v1", "a=[", ""])
def test_an_option_that_is_no_pair_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--option"):
        parse_options([text])


# Data.


def test_a_folder_is_read_as_the_files_of_the_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = (BUNDLED / "livecodebench.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "one.jsonl").write_text("".join(lines[:5]))
    (tmp_path / "two.jsonl").write_text("".join(lines[5:]))
    files = (ReleaseFile("one.jsonl", 5), ReleaseFile("two.jsonl", len(lines) - 5))
    monkeypatch.setattr("harness.benchmarks.livecodebench.generation.files_of", lambda _release: files)
    assert len(load_benchmark("livecodebench", data=str(tmp_path)).tasks) == len(lines)
    (tmp_path / "one.jsonl").write_text("".join(lines[:4]))
    with pytest.raises(DataError, match=r"one\.jsonl: has 4 problems, but 5 were published"):
        load_benchmark("livecodebench", data=str(tmp_path))


def test_hidden_tests_stay_on_disk_until_they_are_needed(tmp_path: Path) -> None:
    path = tmp_path / "test.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + (BUNDLED / "livecodebench.jsonl").read_bytes())
    loaded = load_benchmark("livecodebench", data=str(path))
    found = [loaded.references[task.id].target for task in loaded.tasks]
    targets = [target for target in found if isinstance(target, StdinTests | CallTests)]
    assert len(targets) == len(loaded.tasks)
    for task, target in zip(loaded.tasks, targets, strict=True):
        assert isinstance(loaded.rows[task.id]["private_test_cases"], OnDisk)
        assert target.load()
    path.write_text("{}\n")
    with pytest.raises(DataError, match="has changed since it was loaded"):
        targets[-1].load()


def test_the_oracle_submits_the_solutions_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "solutions.jsonl"
    path.write_text(json.dumps({"task_id": "sample_first_free_seat", "solution": "print(1)"}) + "\n")
    loaded = load_benchmark("livecodebench", data="bundled", solutions=str(path))
    assert loaded.references["sample_first_free_seat"].solution == "print(1)"


# Submissions.

REPLY = "Thus:\n```python\nfirst\n```\nor\n```python\nlast\n```\n"


@each_case(("options", "program"), [({}, "last"), ({"extraction": "first_block"}, "first")])
def test_a_completion_is_a_reply_with_a_program_in_it(options: dict[str, Any], program: str) -> None:
    loaded = load_benchmark("livecodebench", data="bundled", **options)
    assert loaded.submission(loaded.tasks[0], "completion", REPLY).text == program
    assert loaded.submission(loaded.tasks[0], "solution", REPLY).text == REPLY


@each_case(
    ("name", "reply", "official", "evoagentx"),
    [
        ("livecodebench-execution", "[ANSWER]3[/ANSWER]\n```\n4\n```", "3", "4"),
        (
            "livecodebench-test-output",
            "```\nassert f(1) == 3\n```\nassert f(1) == 4",
            "assert f(1) == 4",
            "assert f(1) == 3",
        ),
    ],
)
def test_an_answer_is_taken_from_a_reply(name: str, reply: str, official: str, evoagentx: str) -> None:
    for extraction, answer in (("official", official), ("evoagentx", evoagentx)):
        loaded = load_benchmark(name, data="bundled", extraction=extraction)
        assert loaded.submission(loaded.tasks[0], "completion", reply).text == answer


@each_case("name", NAMES[1:])
def test_every_reference_is_right_and_no_other_one_is(name: str) -> None:
    loaded = load_benchmark(name, data="bundled")
    solutions = [reference.solution for reference in loaded.references.values()]
    for task in loaded.tasks:
        reference = loaded.references[task.id]
        grader = grader_of(reference.target)
        assert isinstance(grader, TextGrader)

        async def grade(
            solution: str, task: Task = task, target: Any = reference.target, grader: TextGrader = grader
        ) -> Verdict:
            return await grader.grade(target, loaded.submission(task, "solution", solution))

        judged = {
            solution: asyncio.run(grade(solution)) for solution in {reference.solution, "", solutions[0]}
        }
        assert judged[reference.solution].status is Status.PASSED
        assert judged[""].status is Status.FAILED


# The preamble of programs.


def test_the_preamble_leaves_builtins_and_modules_as_the_official_one() -> None:
    check = (
        "\nassert pow(2, 3, 5) == 3 and open.__module__ in ('io', '_io') and datetime.datetime"
        "\nassert List and inf and heappush and accumulate"
        "\nassert sys.getrecursionlimit() == 50000 and len(str(10 ** 40000)) == 40001"
    )
    subprocess.run([sys.executable, "-c", PREAMBLE + check], check=True)


# Parts of tests.


@each_case(
    ("sizes", "shown", "parts"),
    [
        ([], 0, []),
        ([1, 1, 1], 1, [[1], [1, 1]]),
        ([1, 1, 1], 0, [[1, 1, 1]]),
        ([1, 1, 1], 3, [[1, 1, 1]]),
        ([6, 6, 3], 0, [[6], [6, 3]]),
        ([50, 1], 0, [[50], [1]]),
        ([6, 6, 3], 2, [[6], [6], [3]]),
    ],
)
def test_parts_stay_within_their_limit_and_separate_shown_tests(
    sizes: list[int], shown: int, parts: list[list[int]]
) -> None:
    assert list(batches(sizes, shown, lambda size: size, 10)) == parts
