"""Targets that are built from hidden tests in plain values."""

from __future__ import annotations

import math
from typing import Any

import pytest
from case_checks import each_case

from harness import build_assert_tests, build_call_tests, build_stdin_tests, read_hidden_tests
from harness.benchmarks.hidden_tests import MAX_SOURCE_BYTES, MAX_TEST_BYTES, MAX_TESTS
from harness.benchmarks.programs import find_missing_names
from harness.core.errors import UsageError
from harness.core.types import ProgramTests
from harness.environments.python.call_programs import CallTest, CallTests
from harness.environments.python.stdin_programs import StdinTest, StdinTests


def test_pairs_of_texts_become_tests_of_stdin() -> None:
    target = build_stdin_tests([("1\n", "2\n"), ("", "")], preamble="import math", seconds=2)
    tests = (StdinTest("1\n", "2\n"), StdinTest("", ""))
    assert target == StdinTests(tests, shown=0, preamble="import math", seconds=2.0)


def test_calls_are_written_as_json_with_one_argument_a_line() -> None:
    target = build_call_tests("add", [((1, [2, "a\nb"]), {"sum": None}), ((), True)])
    tests = (CallTest('1\n[2, "a\\nb"]', '{"sum": null}'), CallTest("", "true"))
    assert target == CallTests(tests, "add", shown=0)


def test_asserts_find_the_names_that_the_program_must_define() -> None:
    target = build_assert_tests(
        [
            "import math\nassert math.isclose(area(2), tau * 2)",
            "for n in range(3):\n    assert add(n, 0) == n",
        ],
        setup="from math import tau",
    )
    assert isinstance(target, ProgramTests)
    assert target.exports == {"area": "area", "add": "add"}
    assert target.setup == target.preamble == "from math import tau"


def test_asserts_take_the_classes_of_a_solution() -> None:
    solution = (
        "class Stack:\n    def __init__(self):\n        self.items = []\n    def push(self, item): ...\n"
    )
    target = build_assert_tests(["s = Stack()\ns.push(1)\nassert s.items == [1]"], solution=solution)
    assert target.classes == {"Stack": ("__init__", "items", "push")}


@each_case(
    ("source", "names"),
    [
        ("assert f(x) == [x for x in g()]", ["f", "x", "g"]),
        ("def check(candidate):\n    assert candidate(1) == helper()\ncheck(add)", ["add", "helper"]),
        ("def f(a, *b, c=d, **e):\n    return a, b, c, e, later\nlater = 1", ["d"]),
        ("class A:\n    x = y\n    def m(self):\n        return x", ["y", "x"]),
        ("def f():\n    global made\n    made = 1\nf()\nassert made", []),
        ("assert sorted(print) and __name__", []),
        ("try:\n    run()\nexcept OwnError as error:\n    assert error", ["run", "OwnError"]),
    ],
)
def test_missing_names_follow_the_scopes_of_python(source: str, names: list[str]) -> None:
    assert sorted(find_missing_names(source)) == sorted(names)


# Without types, because callers pass anything.
FROM_STDIN: Any = build_stdin_tests
FROM_CALL: Any = build_call_tests
FROM_ASSERT: Any = build_assert_tests


@each_case(
    ("build", "message"),
    [
        (lambda: FROM_STDIN([]), "there are no tests, so any program would pass"),
        (lambda: FROM_STDIN("ab"), "tests must be a list of pairs, not str"),
        (lambda: FROM_STDIN([("1",)]), "test 1 must be a pair"),
        (lambda: FROM_STDIN([("1", "2"), (b"1", "2")]), "the input of test 2 must be text, not bytes"),
        (lambda: FROM_STDIN([("1", 2)]), "the output of test 1 must be text, not int"),
        (lambda: FROM_STDIN([("", "")] * (MAX_TESTS + 1)), "there are more than 10,000 tests"),
        (lambda: FROM_STDIN([("x" * (MAX_TEST_BYTES + 1), "")]), "the input of test 1 has 33,554,433"),
        (lambda: FROM_STDIN([("", "")], seconds=0), "seconds must be more than 0"),
        (lambda: FROM_STDIN([("", "")], seconds=math.nan), "seconds must be more than 0"),
        (lambda: FROM_STDIN([("", "")], seconds=True), "seconds must be a number, not bool"),
        (lambda: FROM_STDIN([("", "")], preamble="("), "the preamble is not Python"),
        (lambda: FROM_CALL("a b", [((), 1)]), "'a b' is not the name of a function"),
        (lambda: FROM_CALL("lambda", [((), 1)]), "'lambda' is not the name of a function"),
        (lambda: FROM_CALL("f", [(1, 1)]), "the arguments of test 1 must be a list, not int"),
        (lambda: FROM_CALL("f", [(({1: 2},), 1)]), "an argument of test 1 cannot be written as JSON"),
        (lambda: FROM_CALL("f", [((), {1, 2})]), "the result of test 1 cannot be written as JSON"),
        (lambda: FROM_CALL("f", [((), math.nan)]), "the result of test 1 cannot be written as JSON"),
        (lambda: FROM_ASSERT("assert f()"), "asserts must be a list of texts"),
        (lambda: FROM_ASSERT(["", " "]), "there are no tests"),
        (lambda: FROM_ASSERT(["assert f()", "assert ("]), "assert 2 is not Python"),
        (lambda: FROM_ASSERT(["assert 1 == 1"]), "no test uses a name that the program must define"),
        (
            lambda: FROM_ASSERT(["assert g()"], solution="f = 1"),
            "no test uses a name that the solution",
        ),
        (lambda: FROM_ASSERT(["f()"], names=["f"], solution="f = 1"), "exclude each other"),
        (lambda: FROM_ASSERT(["f()"], names=["f.g"]), "'f.g' is not the name of a function"),
        (
            lambda: FROM_ASSERT(["f()"], setup="#" + "é" * (MAX_SOURCE_BYTES // 6)),
            "bytes as JSON are more than the limit of 4,194,304",
        ),
    ],
)
def test_tests_that_cannot_judge_are_refused(build: Any, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        build()
    assert message in caught.value.message


@each_case(
    ("values", "kind"),
    [
        ({"kind": "stdin", "tests": [{"input": "1", "output": "1"}], "seconds": 1.5}, StdinTests),
        ({"kind": "calls", "function": "f", "tests": [{"arguments": [1], "result": [{}]}]}, CallTests),
        ({"kind": "asserts", "tests": ["assert f(1) == 1"], "names": ["f"]}, ProgramTests),
    ],
)
def test_tests_in_json_are_read_by_their_kind(values: dict[str, Any], kind: type) -> None:
    assert type(read_hidden_tests(values)) is kind


@each_case(
    ("values", "message"),
    [
        ({"kind": "stdin", "tests": [{"input": "1"}]}, "'stdin.tests.0.output' is missing"),
        ({"kind": "asserts", "tests": ["f()"], "imports": ""}, "'asserts.imports'"),
        ({"kind": "calls", "function": "f", "tests": [{"arguments": 1, "result": 1}]}, "must be a list"),
        ({"kind": "python", "tests": []}, "kind"),
        ({"tests": []}, "kind"),
        ([], "the tests cannot be used"),
        ({"kind": "stdin", "tests": []}, "there are no tests"),
    ],
)
def test_broken_tests_in_json_are_refused_with_their_place(values: Any, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_hidden_tests(values)
    assert message in caught.value.message
