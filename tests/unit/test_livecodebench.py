"""LiveCodeBench: releases, hidden tests, rows, filters, and answers of the scenarios without programs."""

from __future__ import annotations

import base64
import datetime
import json
import pickle
import zlib
from pathlib import Path
from typing import Any

import pytest
from case_checks import each_case
from hypothesis import given
from hypothesis import strategies as st

from harness.benchmarks.data.local import read_rows
from harness.benchmarks.data.rows import Row
from harness.benchmarks.livecodebench.prediction import (
    ExecutionProblem,
    TestOutputProblem,
    read_execution,
    read_test_output,
)
from harness.benchmarks.livecodebench.problem import (
    Filters,
    Problem,
    Test,
    decode_private_tests,
    files_of,
    problems_of,
    read_problem,
    release_names,
)
from harness.core.errors import DataError, UsageError


def packed(value: object, protocol: int = 4) -> str:
    return base64.b64encode(zlib.compress(pickle.dumps(value, protocol))).decode()


def written(kind: str, *pairs: tuple[str, str]) -> str:
    return json.dumps([{"input": given, "output": wanted, "testtype": kind} for given, wanted in pairs])


class TestReleases:
    @each_case(
        ("release", "problems"),
        [
            *zip([f"release_v{n}" for n in range(1, 7)], [400, 511, 612, 713, 880, 1055], strict=True),
            *zip([f"v{n}" for n in range(1, 7)], [400, 111, 101, 101, 167, 175], strict=True),
            ("release_latest", 1055),
            ("Release_V2", 511),
            ("v2-v4", 313),
            ("v2_v4", 313),
            ("v3-v3", 101),
        ],
    )
    def test_release_has_as_many_problems_as_published(self, release: str, problems: int) -> None:
        assert problems_of(files_of(release)) == problems

    def test_files_are_called_as_on_the_hub(self) -> None:
        assert [file.name for file in files_of("v1-v3")] == ["test.jsonl", "test2.jsonl", "test3.jsonl"]

    def test_every_name_is_a_release(self) -> None:
        assert all(files_of(name) for name in release_names())

    @each_case("release", ["", "v0", "v7", "release_v7", "latest", "release_v1-v2", "v", "v1-"])
    def test_unknown_release_is_refused_with_the_names_to_choose_from(self, release: str) -> None:
        with pytest.raises(UsageError, match="unknown release") as refused:
            files_of(release)
        assert "release_latest" in (refused.value.hint or "")

    @each_case("release", ["v4-v2", "v0-v2", "v5-v7"])
    def test_a_range_of_missing_files_is_refused(self, release: str) -> None:
        with pytest.raises(UsageError, match="not a range"):
            files_of(release)


class TestPrivateTests:
    @given(st.text(st.characters(exclude_categories=["Cs"])), st.integers(0, 5))
    def test_pickled_text_is_read(self, text: str, protocol: int) -> None:
        assert decode_private_tests(packed(text, protocol)) == text

    def test_plain_json_is_read_unchanged(self) -> None:
        assert decode_private_tests(' [{"input": "1"}]') == ' [{"input": "1"}]'

    @each_case("value", [print, ["[]"], ("[]", "[]"), b"[]", 7, None, {"a": "b"}, datetime.date(2024, 1, 1)])
    @each_case("protocol", [0, 2, 4])
    def test_pickle_of_anything_but_one_string_is_refused(self, value: object, protocol: int) -> None:
        with pytest.raises(ValueError, match="refused"):
            decode_private_tests(packed(value, protocol))

    def test_pickle_that_calls_is_refused_and_calls_nothing(self, tmp_path: Path) -> None:
        class Call:
            def __reduce__(self) -> Any:
                return Path.touch, (tmp_path / "called",)

        with pytest.raises(ValueError, match="refused"):
            decode_private_tests(packed(Call()))
        assert not (tmp_path / "called").exists()

    @each_case(
        ("data", "reason"),
        [
            (b"", "broken pickle"),
            (b".", "no string"),
            (b"\x80\x04N.", "NONE refused"),
            (b"\x80\x04\x8c\xffabc", "broken pickle"),
            (b"X\xff\xff\xff\xffabc", "broken pickle"),
            (pickle.dumps("[]") + b"more", "behind it"),
            (pickle.dumps("[]")[:-1], "broken pickle"),
            (b"\xfe", "broken pickle"),
        ],
    )
    def test_broken_pickle_is_refused(self, data: bytes, reason: str) -> None:
        with pytest.raises(ValueError, match=reason):
            decode_private_tests(base64.b64encode(zlib.compress(data)).decode())

    @given(st.binary(max_size=80))
    def test_no_pickle_does_more_than_be_refused(self, data: bytes) -> None:
        try:
            text = decode_private_tests(base64.b64encode(zlib.compress(data)).decode())
        except ValueError:
            return
        assert isinstance(text, str)

    def test_bomb_is_stopped_at_its_bound(self) -> None:
        bomb = packed("0" * 3_000_000)
        assert len(bomb) < 10_000
        with pytest.raises(ValueError, match="more than 1,000,000 bytes"):
            decode_private_tests(bomb, max_bytes=1_000_000)

    @each_case("text", ["", "not base64!", "abc", base64.b64encode(b"not zlib").decode()])
    def test_other_text_is_refused(self, text: str) -> None:
        with pytest.raises(ValueError, match=r"base64|zlib"):
            decode_private_tests(text)

    def test_stream_that_was_cut_short_is_refused(self) -> None:
        cut = base64.b64encode(zlib.compress(pickle.dumps("[1]" * 100))[:-6]).decode()
        with pytest.raises(ValueError, match="cut short"):
            decode_private_tests(cut)


ROW = {
    "question_title": "Sum",
    "question_content": "Add two numbers.",
    "platform": "atcoder",
    "question_id": "abc301_a",
    "contest_id": "abc301",
    "contest_date": "2023-05-13T00:00:00",
    "starter_code": "",
    "difficulty": "easy",
    "public_test_cases": written("stdin", ("1 2\n", "3\n")),
    "private_test_cases": packed(written("stdin", ("2 2\n", "4\n"), ("0 0\n", "0\n"))),
    "metadata": "{}",
}
FUNCTIONAL = {
    "platform": "leetcode",
    "starter_code": "class Solution:\n    def add(self, a, b):\n        ",
    "public_test_cases": written("functional", ("[1, 2]\n3", "6")),
    "private_test_cases": packed(written("functional", ("[]\n0", "0"))),
    "metadata": json.dumps({"func_name": "add"}),
}


def problem(**changes: Any) -> Problem:
    return read_problem(Row({**ROW, **changes}, "test.jsonl", line=3))


class TestProblem:
    def test_row_with_a_function_name_is_functional_and_the_others_read_stdin(self) -> None:
        assert problem().function is None
        assert problem(**FUNCTIONAL).function == "add"

    def test_public_tests_come_before_the_hidden_ones(self) -> None:
        assert problem().tests.load() == (Test("1 2\n", "3\n"), Test("2 2\n", "4\n"), Test("0 0\n", "0\n"))

    def test_functional_test_has_one_argument_a_line(self) -> None:
        (test, _) = problem(**FUNCTIONAL).tests.load()
        assert (test.arguments(), test.expected()) == ([[1, 2], 3], 6)

    def test_date_is_read_from_text_and_from_a_time(self) -> None:
        day = datetime.date(2023, 5, 13)
        times = ["2023-05-13T00:00:00", "2023-05-13 00:00:00", datetime.datetime(2023, 5, 13, 9)]
        assert {problem(contest_date=time).date for time in times} == {day}

    def test_hidden_tests_are_not_shown_by_a_problem(self) -> None:
        assert ROW["private_test_cases"] not in repr(problem())

    @each_case(
        ("field", "value"),
        [
            ("platform", "topcoder"),
            ("difficulty", "Easy"),
            ("contest_date", "last May"),
            ("metadata", "[]"),
            ("metadata", '{"func_name": "os.system"}'),
            ("metadata", "{"),
            ("public_test_cases", "{}"),
            ("public_test_cases", "[" * 100_000),
            ("public_test_cases", None),
            ("question_id", 7),
        ],
    )
    def test_broken_field_is_named_with_its_line(self, field: str, value: object) -> None:
        with pytest.raises(DataError, match=rf"test\.jsonl:3: field '{field}"):
            problem(**{field: value})

    def test_test_of_the_other_kind_is_named(self) -> None:
        with pytest.raises(DataError, match=r"public_test_cases\[0\]': needs .* 'functional'"):
            problem(metadata='{"func_name": "add"}')

    def test_broken_hidden_tests_are_named_when_they_are_read(self) -> None:
        broken = problem(private_test_cases=packed(["[]"]))
        with pytest.raises(DataError, match=r"test\.jsonl:3: field 'private_test_cases': .*refused"):
            broken.tests.load()


class TestFilters:
    DAY = datetime.date(2024, 1, 31)

    @each_case(
        ("filters", "taken"),
        [
            (Filters(), True),
            (Filters(start_date=DAY, end_date=DAY), True),
            (Filters(start_date=datetime.date(2024, 2, 1)), False),
            (Filters(end_date=datetime.date(2024, 1, 30)), False),
            (Filters(difficulties=["easy", "hard"]), True),
            (Filters(difficulties=["medium"]), False),
            (Filters(platforms=["leetcode"]), False),
            (Filters(platforms=["atcoder"], difficulties=["hard"]), True),
        ],
    )
    def test_problem_is_taken_if_all_filters_take_it(self, filters: Filters, taken: bool) -> None:
        assert filters.accept(date=self.DAY, difficulty="hard", platform="atcoder") is taken

    def test_unknown_names_and_empty_windows_are_refused(self) -> None:
        with pytest.raises(UsageError, match="unknown difficulty 'Easy'"):
            Filters(difficulties=["Easy"])
        with pytest.raises(UsageError, match="unknown platform"):
            Filters(platforms=["codechef"])
        with pytest.raises(UsageError, match="end_date 2024-01-31 is before"):
            Filters(start_date=datetime.date(2024, 2, 1), end_date=self.DAY)


EXECUTION = {
    "question_id": 1,
    "id": "sample_7",
    "function_name": "f",
    "code": "def f(a):\n    return a",
    "input": "f(a = [1, 2])",
    "output": "[1, 2]",
    "numsteps": 3,
    "problem_id": [0, 0, 0],
    "contest_id": "weekly-contest-1",
    "contest_date": "2023-05-07 00:00:00",
    "difficulty": "easy",
}


def execution(output: str) -> ExecutionProblem:
    return read_execution(Row({**EXECUTION, "output": output}, "test.jsonl", line=1))


class TestExecution:
    @each_case("answer", ["[1, 2]", " [1,2]\n", "f(a = [1, 2]) == [1, 2]", "assert f([1, 2]) == [1, 2]"])
    def test_right_literal_is_right_in_every_form(self, answer: str) -> None:
        assert execution("[1, 2]").target().accepts(answer)

    @each_case(
        "answer",
        [
            "",
            "[2, 1]",
            "(1, 2)",
            "[1, 2] or True",
            "0 or True",
            "[1.0, 2]",
            "f([1, 2])",
            "x" * 10000000,
            "type('T', (), {'__eq__': lambda a, b: True})()",
            "assert f([1, 2]) == [1, 2] or True",
        ],
        ids=lambda answer: answer[:20],
    )
    def test_anything_else_is_wrong(self, answer: str) -> None:
        assert not execution("[1, 2]").target().accepts(answer)

    def test_types_count_unless_the_official_comparison_is_chosen(self) -> None:
        assert not execution("True").target().accepts("1")
        assert execution("True").target(exact_types=False).accepts("1")

    def test_output_that_is_no_literal_is_a_broken_row(self) -> None:
        with pytest.raises(DataError, match=r"test\.jsonl:1: field 'output': is not a literal"):
            execution("f(1)")


TEST_OUTPUT = {
    "question_title": "halve",
    "question_content": "Halve a number.",
    "question_id": "2727",
    "contest_id": "weekly-contest-1",
    "test_id": 4,
    "contest_date": "2023-05-07 00:00:00",
    "starter_code": "def halve(self, n: int) -> float:\n    pass",
    "function_name": "halve",
    "difficulty": "easy",
    "test": written("functional", ("5", "2.50")),
}


def predicted(**changes: Any) -> TestOutputProblem:
    return read_test_output(Row({**TEST_OUTPUT, **changes}, "test.jsonl", line=1))


class TestTestOutput:
    def test_problem_is_named_by_question_and_test(self) -> None:
        assert predicted().id == "2727_4"

    @each_case(
        "answer",
        [
            "assert halve(5) == 2.5",
            "assert Solution().halve(n = 5) == 2.5  # half",
            "2.5",
            "# an assert\nassert halve(5) == 2.5\nassert halve(5) == 3",
        ],
    )
    def test_right_value_is_right_in_every_form(self, answer: str) -> None:
        assert predicted().target().accepts(answer)

    @each_case(
        "answer",
        [
            "",
            "assert halve(5) == 2",
            "assert halve(5) == 5 / 2",
            "assert True",
            "assert halve(5) != 2.5",
            "assert halve(5) == 2.5 or True",
            "halve(5) == 2.5",
            "assert " * 2000000,
            "5\n2.5",
            "assert halve(5) == __import__('os').getpid()",
        ],
        ids=lambda answer: answer[:30],
    )
    def test_anything_else_is_wrong(self, answer: str) -> None:
        assert not predicted().target().accepts(answer)

    def test_numbers_are_compared_by_value_unless_types_are_to_count(self) -> None:
        whole = predicted(test=written("functional", ("4", "2.00000")))
        assert whole.target().accepts("assert halve(4) == 2")
        assert not whole.target(exact_types=True).accepts("assert halve(4) == 2")

    @each_case("test", ["[]", "{}", "x", written("functional", ("1", "x"))])
    def test_row_without_exactly_one_test_is_broken(self, test: str) -> None:
        with pytest.raises(DataError, match=r"test\.jsonl:1: field 'test'"):
            predicted(test=test)


class TestRealData:
    @each_case(
        ("name", "problems", "functional", "tests"),
        [("code_generation_real3.jsonl", 3, 0, 31), ("code_generation_200.jsonl", 200, 57, 3909)],
    )
    def test_problems_are_read_with_all_their_tests(
        self, shared_data: Path, name: str, problems: int, functional: int, tests: int
    ) -> None:
        read = [read_problem(row) for row in read_rows(shared_data / "livecodebench" / name)[0]]
        assert len(read) == problems
        assert sum(one.function is not None for one in read) == functional
        assert sum(len(one.tests.load()) for one in read) == tests
        for one in read:
            if one.function:
                assert all(test.arguments() and (test.expected() is not ...) for test in one.tests.load())

    def test_outputs_of_code_execution_are_right_and_those_of_another_problem_wrong(
        self, shared_data: Path
    ) -> None:
        rows = read_rows(shared_data / "livecodebench/code_execution_real3.jsonl")[0]
        problems = [read_execution(row) for row in rows]
        assert all(one.target().accepts(f"assert {one.call} == {one.output}") for one in problems)
        assert not any(one.target().accepts("assert f(1) == [3, 1, 1, 3, 5]") for one in problems)

    def test_outputs_of_tests_are_right_and_others_wrong(self, shared_data: Path) -> None:
        rows = read_rows(shared_data / "livecodebench/test_output_prediction_real3.jsonl")[0]
        problems = [read_test_output(row) for row in rows]
        assert all(one.target().accepts(f"assert {one.function}() == {one.test.output}") for one in problems)
        assert not any(
            one.target().accepts(f"assert {one.function}() == {one.test.output}1") for one in problems
        )
