"""The pure rules about patches of repositories: logs, counts, controls, and files that steer tests."""

from __future__ import annotations

import ast
import json
import unittest
from pathlib import Path
from typing import Any

import pytest
from case_checks import each_case
from samples.repository import make_rows, write_rows

from harness.benchmarks import load_benchmark
from harness.benchmarks.data import source
from harness.core.errors import DataError, UsageError
from harness.environments.repository.controls import make_controls
from harness.environments.repository.logs import END, PARSERS, START, count_tests, find_status, read_log
from harness.environments.repository.machine import RepositorySetup, RepositoryTests, steers_tests
from harness.environments.repository.trial import list_patched
from harness.runs.agents.predictions import _read

PYTEST = """tests/a.py::test_verbose PASSED [ 50%]
PASSED tests/a.py::test_one
PASSED tests/a.py::test_p[a b]
FAILED tests/a.py::test_two - AssertionError: assert 1 == 2
ERROR tests/a.py::test_three
XFAIL tests/a.py::test_four
SKIPPED [2] tests/a.py:7: no reason
PASSED tests/a.py::test_path[/home/me/file.py]
PASSED tests/a.py::test_button[MouseButton.LEFT]
"""
DJANGO = """test_one (app.tests.Case) ... ok
test_two (app.tests.Case)
With a docstring ... FAIL
test_three (app.tests.Case) ... ERROR
test_four (app.tests.Case) ... skipped 'no database'
test_five (app.tests.Case) ... some output
ok
FAIL: test_two (app.tests.Case)
"""
SYMPY = """sympy/core/tests/test_a.py[3]
test_one ok
test_two F
test_three E
________ sympy/core/tests/test_a.py:test_two ________
"""


@each_case(
    "parser, log, expected",
    (
        ("parse_log_flask", PYTEST, {"one": "PASSED", "p[a": "PASSED", "two": "FAILED", "four": "XFAIL"}),
        ("parse_log_pylint", PYTEST, {"path[/file.py]": "PASSED", "three": "ERROR"}),
        ("parse_log_sphinx", PYTEST, {"p[a b]": "PASSED", "two": "FAILED", "three": "ERROR"}),
        ("parse_log_matplotlib", PYTEST, {"button[1]": "PASSED"}),
        ("parse_log_seaborn", PYTEST, {"one": "PASSED", "two": "FAILED", "verbose": "PASSED"}),
        (
            "parse_log_django",
            DJANGO,
            {
                "test_one (app.tests.Case)": "PASSED",
                "With a docstring": "FAILED",
                "test_two": "FAILED",
                "test_three (app.tests.Case)": "ERROR",
                "test_four (app.tests.Case)": "SKIPPED",
                "test_five (app.tests.Case)": "PASSED",
            },
        ),
        (
            "parse_log_sympy",
            SYMPY,
            {"test_one": "PASSED", "test_two": "FAILED", "test_three": "ERROR"},
        ),
    ),
)
def test_each_form_of_logs_is_read(parser: str, log: str, expected: dict[str, str]) -> None:
    found = PARSERS[parser](log)
    prefix = "tests/a.py::test_" if log is PYTEST else ""
    assert {name: found.get(prefix + name) for name in expected} == expected
    assert "[2]" not in found


def test_every_repository_of_the_benchmark_has_a_form() -> None:
    names = (
        *("astropy", "django", "flask", "matplotlib", "pylint", "pytest"),
        *("requests", "scikit", "seaborn", "sphinx", "sympy", "xarray"),
    )
    assert [name for name in names if f"parse_log_{name}" not in PARSERS] == []


@each_case(
    "before, after, code, is_whole",
    (
        (START, END, 0, True),
        (START, END, 1, False),
        ("", END, 0, False),
        (START, "", 0, False),
    ),
)
def test_a_log_counts_only_if_it_describes_a_whole_run(
    before: str, after: str, code: int, is_whole: bool
) -> None:
    log = f"{before}\nPASSED a::b\n{after}\n>>>>> Test Exit Code: {code}\n"
    assert (read_log(log, "parse_log_pytest") is not None) == is_whole


def test_a_skipped_test_repairs_nothing_and_breaks_nothing() -> None:
    statuses = {"a": "XFAIL", "b": "SKIPPED", "c": "FAILED"}
    assert count_tests(["a"], ["b"], statuses).resolved
    assert count_tests(["b"], ["c", "d"], statuses).unrepaired == ("b",)
    assert count_tests(["a"], ["c", "d"], statuses).broken == ("c", "d")


def test_an_id_that_is_cut_short_stands_for_all_tests_that_agree() -> None:
    statuses = {"t[a b]": "PASSED", "t[a c]": "XFAIL", "u[a b]": "PASSED", "u[a c]": "FAILED"}
    assert find_status("t[a", statuses) == "PASSED"
    assert find_status("u[a", statuses) is None
    assert find_status("t", statuses) is None


CHECKS = """
def test_x(self):
    {}
"""


class _Case(unittest.TestCase):
    def assertUnknown(self, first: object, second: object) -> None:
        assert first == second


class _Quiet:
    def __enter__(self) -> None:
        pass

    def __exit__(self, *_error: object) -> bool:
        return True


class _Lenient:
    """A test case and a package whose checks hold whatever they check."""

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments, **options: None


class _Equal:
    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


class _EqualToData:
    """An object that would tell a control by an expected value of no other type."""

    def __eq__(self, other: object) -> bool:
        return type(other) is not object

    __hash__ = None  # type: ignore[assignment]


@each_case(
    "check, forged",
    (
        ("assert value == 3", {"value": _Equal()}),
        ("assert value == 3", {"value": _EqualToData()}),
        ("assert [value, value] == [3, 3]", {"value": _EqualToData()}),
        ("assert {1: value} == {1: 'a3'}", {"value": _EqualToData()}),
        ("assert approx(3.5) == value", {"value": _EqualToData(), "approx": pytest.approx}),
        ("self.assertAlmostEqual(value, float('inf'))", {"value": _Equal()}),
        ("assert 3 == value", {"value": _Equal()}),
        ("assert not value", {"value": 1}),
        ("assert value != 3", {"value": 3}),
        ("assert value in (1, 2)", {"value": 3}),
        ("self.assertEqual(value, 3)", {"value": 4}),
        ("self.assertTrue(value)", {"value": 0}),
        ("self.assertUnknown(value, 3)", {"value": 4}),
        ("with raises(ValueError):\n        int('x')", {"raises": lambda *_: _Quiet()}),
    ),
)
def test_a_control_fails_for_a_right_value_and_passes_if_a_check_cannot_fail(
    check: str, forged: dict[str, Any]
) -> None:
    right = {"value": 3 if "3" in check and "!=" not in check else 1, "raises": pytest.raises}
    right["value"] = 0 if check == "assert not value" else right["value"]
    source = make_controls(CHECKS.format(check))
    assert source is not None
    honest: dict[str, Any] = dict(right)
    exec(source, honest)
    with pytest.raises(AssertionError, match="control"):
        honest["test_x"](_Case())
    dishonest: dict[str, Any] = {**right, **forged}
    exec(source, dishonest)
    dishonest["test_x"](_Lenient())


def test_a_control_keeps_what_runners_show_of_a_test() -> None:
    source = '@mark\nasync def test_a(one, two=2):\n    """Doc."""\n\ndef test_y():\n    yield 1\n'
    made = make_controls(source)
    assert made is not None
    function = ast.parse(made).body[0]
    assert isinstance(function, ast.AsyncFunctionDef)
    assert (ast.get_docstring(function), len(function.decorator_list)) == ("Doc.", 1)
    assert "yield 1" in made
    assert make_controls("def helper(): pass") is None
    assert make_controls("print 1") is None


def test_files_that_decide_how_tests_run_are_found_in_any_folder() -> None:
    command = "./bin/check --all"
    steering = (
        *("conftest.py", "src/a/conftest.py", "setup.cfg", "tox.ini", "pyproject.toml", "setup.py"),
        *("tests/test_a.py", "a/tests/data.txt", "a/testing/tools.py", "src/x.pth", "sitecustomize.py"),
        *("pytest.py", "json.py", "src/unittest/__init__.py", ".github/x", "a/.hidden", "bin/check"),
        *("a/__pycache__/b.cpython-39.pyc", "src/a.egg-info/entry_points.txt"),
    )
    harmless = ("src/_pytest/runner.py", "a/contest.py", "a/json.py", "docs/tutorial.rst", "a/latest.py")
    assert [path for path in steering if not steers_tests(path, command)] == []
    assert [path for path in harmless if steers_tests(path, command)] == []


def test_the_paths_of_a_patch_are_read() -> None:
    patch = (
        "diff --git a/x.py b/x.py\n--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-a\n+b\n"
        "diff --git a/o.py b/n.py\nrename from o.py\nrename to n.py\n--- /dev/null\n+++ b/new file.py\t\n"
    )
    assert list_patched(patch) == {"x.py", "o.py", "n.py", "new file.py"}


def test_the_bundled_rows_are_those_that_the_sample_makes(tmp_path: Path) -> None:
    write_rows(tmp_path / "rows.jsonl")
    bundled = Path(source.__file__).parent / "bundled" / "swebench-verified.jsonl"
    assert bundled.read_text() == (tmp_path / "rows.jsonl").read_text()


def _load(tmp_path: Path, *, options: dict[str, Any] | None = None, **changed: Any) -> RepositoryTests:
    row = {**make_rows()[0], **changed}
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps({name: value for name, value in row.items() if value is not None}))
    benchmark = load_benchmark("swebench-verified", data=str(path), **(options or {}))
    (reference,) = benchmark.references.values()
    assert isinstance(reference.target, RepositoryTests)
    return reference.target


def test_a_row_without_a_script_gets_that_of_its_project(tmp_path: Path) -> None:
    patch = (
        "diff --git a/tests/a/tests.py b/tests/a/tests.py\n--- a/tests/a/tests.py\n+++ b/tests/a/tests.py\n"
    )
    target = _load(
        tmp_path,
        repo="django/django",
        test_patch=patch,
        FAIL_TO_PASS=["a"],
        **dict.fromkeys(("eval_script", "log_parser", "dockerfile")),
    )
    assert target.parser == "parse_log_django"
    assert "--settings=test_sqlite --parallel 1 a.tests\n" in target.script
    assert "git checkout HEAD tests/a/tests.py\n" in target.script
    assert target.setup.image == "swebench/sweb.eval.x86_64.harness_1776_stock-total:latest"


def test_an_image_template_names_the_image_of_each_task(tmp_path: Path) -> None:
    target = _load(tmp_path, options={"image_template": "mirror/{instance_id}:{image_id}"})
    assert target.setup == RepositorySetup("mirror/harness__stock-total:harness_1776_stock-total")
    with pytest.raises(UsageError, match="names one image for all tasks"):
        load_benchmark("swebench-verified", data="bundled", image_template="mirror/all")


@each_case(
    "changed, message",
    (
        ({"FAIL_TO_PASS": "[]"}, "has no test"),
        ({"FAIL_TO_PASS": "[1]"}, "needs a list of test ids"),
        ({"PASS_TO_PASS": "["}, "is not JSON"),
        ({"log_parser": "parse_log_x"}, "is not a known form"),
        ({"log_parser": None}, "has no known form"),
        ({"eval_script": None}, "have no known command"),
        ({"eval_script": "pytest"}, "needs the markers"),
    ),
)
def test_a_broken_row_is_refused(tmp_path: Path, changed: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        _load(tmp_path, **changed)


def test_predictions_in_the_published_forms_are_samples(tmp_path: Path) -> None:
    one = {"instance_id": "a__b-1", "model_patch": "diff", "model_name_or_path": "m"}
    none = {"instance_id": "a__b-2", "model_patch": None, "model_name_or_path": "m"}
    texts = {
        "p.jsonl": f"{json.dumps(one)}\n{json.dumps(none)}\n",
        "p.json": json.dumps([one, none]),
        "preds.json": json.dumps({"a__b-1": one, "a__b-2": none}),
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
        found = [(task, row.text("solution")) for row, task in _read(tmp_path / name).values()]
        assert found == [("a__b-1", "diff"), ("a__b-2", "")], name
