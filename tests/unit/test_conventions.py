"""The rules for the tests of this project, checked in the source of the tests."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from table import Mutant, mutants

TESTS = Path(__file__).parents[1]
ROOT = TESTS.parent
# These files measure time on purpose, and no verdict of the suite depends on them.
MEASURING = ("perf", "chaos", "calibration")
CLOCKS = ("monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "time", "time_ns")
# The wall time that a job reports, and the times that tests read from a clock.
DURATIONS = ("duration_seconds", "elapsed")
SOURCES = {
    path.relative_to(TESTS).as_posix(): path.read_text(encoding="utf-8")
    for path in sorted(TESTS.rglob("test_*.py"))
}

MUTANTS = list(mutants())


def tree_of(name: str) -> ast.Module:
    """Return the tree of a file. No tree is kept, because all of them together are a million objects."""
    return ast.parse(SOURCES[name])


def reads_a_clock(node: ast.AST) -> bool:
    """Return whether an expression calls a clock of wall time, or reads a duration."""
    return any(map(is_a_clock, ast.walk(node)))


def is_a_clock(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="time"), attr=name)):
            return name in CLOCKS
        case ast.Attribute(attr=name) | ast.Subscript(slice=ast.Constant(value=name)):
            return name in DURATIONS
    return False


def upper_bounds(condition: ast.expr) -> Iterator[ast.expr]:
    """Yield every expression that a condition compares as less than a number or a constant."""
    for part in ast.walk(condition):
        if not isinstance(part, ast.Compare):
            continue
        sides = [part.left, *part.comparators]
        for operator, left, right in zip(part.ops, sides, sides[1:], strict=False):
            lesser, greater = (left, right) if isinstance(operator, ast.Lt | ast.LtE) else (right, left)
            if isinstance(operator, ast.Lt | ast.LtE | ast.Gt | ast.GtE) and not reads_a_clock(greater):
                yield lesser


def clock_names(tree: ast.Module) -> Counter[str]:
    """Return the names that are assigned from a clock."""
    return Counter(
        target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and reads_a_clock(node.value)
        for target in node.targets
        if isinstance(target, ast.Name)
    )


def asserted_to_be_quick(tree: ast.Module) -> list[int]:
    """Return the lines of asserts that something was quick, except those that end a wait in a loop."""
    timed = clock_names(tree)
    polling = polling_lines(tree)
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Assert) and node.lineno not in polling
        for lesser in upper_bounds(node.test)
        if reads_a_clock(lesser)
        or any(isinstance(part, ast.Name) and part.id in timed for part in ast.walk(lesser))
    ]


def polling_lines(tree: ast.Module) -> set[int]:
    """Return the lines within loops, in which an assert on a deadline ends an otherwise endless wait."""
    return {
        line
        for node in ast.walk(tree)
        if isinstance(node, ast.While)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }


def expected_failures(tree: ast.Module) -> list[ast.Attribute]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr == "xfail"]


def complete_expected_failures(tree: ast.Module) -> list[ast.Call]:
    """Return the calls of xfail that are strict and name the expected exception and a reason."""
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "xfail"
        and {"raises", "strict", "reason"} <= {keyword.arg for keyword in node.keywords}
    ]


@cache
def defined_names(name: str) -> dict[str, bool]:
    """Return the functions and classes of a file by name, and whether only a thorough run calls them."""
    tree = tree_of(name)
    members = [member for each in tree.body if isinstance(each, ast.ClassDef) for member in each.body]
    return {
        node.name: "pytest.mark.thorough" in map(ast.unparse, node.decorator_list)
        for node in (*tree.body, *members)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    }


def misfit(mutant: Mutant) -> str | None:
    """Return why a mutant does not fit the code, or None."""
    found = (ROOT / mutant.file).read_text(encoding="utf-8").count(mutant.old)
    if found != 1:
        return f"{mutant.old!r} is in {mutant.file} {found} times, not once"
    if mutant.old == mutant.new:
        return f"{mutant.old!r} in {mutant.file} stays as it is"
    path, *names = mutant.test.split("::")
    if not names:
        return f"{mutant.test} names a file and no test"
    defined = defined_names(path.removeprefix("tests/"))
    if not defined.keys() >= set(names):
        return f"{mutant.test} is not there"
    return f"{mutant.test} is thorough" if any(defined[name] for name in names) else None


def test_no_test_asserts_that_something_was_quick() -> None:
    clock = re.compile(rf"\btime\.(?:{'|'.join(CLOCKS)})\b|{'|'.join(DURATIONS)}")
    judged = {
        name: tree_of(name)
        for name, source in SOURCES.items()
        if name.split("/")[0] not in MEASURING and clock.search(source)
    }
    assert len(judged) > 10
    assert {name: lines for name, tree in judged.items() if (lines := asserted_to_be_quick(tree))} == {}


def test_the_rule_on_wall_time_finds_what_breaks_it() -> None:
    tree = ast.parse(
        "started = time.monotonic()\n"
        "assert time.monotonic() - started < 5\n"
        "assert 5 > result.duration_seconds\n"
        "seconds = time.perf_counter() - started\n"
        "assert 0 < seconds <= 2\n"
        "assert result.duration_seconds >= 0.4\n"
        "while True:\n"
        "    assert time.monotonic() < deadline\n"
    )
    assert asserted_to_be_quick(tree) == [2, 3, 5]


def test_every_expected_failure_says_which_exception_it_expects() -> None:
    trees = {name: tree_of(name) for name, source in SOURCES.items() if "xfail" in source}
    incomplete = [
        name
        for name, tree in trees.items()
        if len(complete_expected_failures(tree)) != len(expected_failures(tree))
    ]
    assert incomplete == []
    assert sum(len(expected_failures(tree)) for tree in trees.values()) > 0


def test_the_table_of_mutants_has_at_least_forty() -> None:
    assert len(set(MUTANTS)) == len(MUTANTS) >= 40


def test_every_mutant_fits_the_code_and_names_a_test() -> None:
    assert [why for mutant in MUTANTS if (why := misfit(mutant)) is not None] == []


# The trust boundary. These tests leave no case to a thorough run.
ALWAYS = (
    "security/test_grader_forgery.py",
    "security/test_no_memory.py",
    "security/test_inherited_memory.py",
    "security/test_seccomp.py",
    "security/test_containment.py",
    "security/test_learning_over_samples.py",
)


def test_no_test_of_the_trust_boundary_is_left_to_a_thorough_run() -> None:
    assert [name for name in ALWAYS if "thorough" in SOURCES[name].lower()] == []


def test_the_scripted_model_server_has_one_fixture() -> None:
    """Each further fixture would have its own defaults, such as a key of the developer's environment."""
    offenders = [
        f"{name}:{node.lineno}"
        for name, source in SOURCES.items()
        if "serve_model(" in source
        for node in ast.walk(tree_of(name))
        if isinstance(node, ast.FunctionDef)
        and any("fixture" in ast.unparse(decorator) for decorator in node.decorator_list)
        and "serve_model(" in ast.unparse(node)
    ]
    assert offenders == []
