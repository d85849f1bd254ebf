"""Classes, callbacks and exceptions cross the boundary as if the program ran in the tests' process."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping, Sequence

import pytest
import pytest_asyncio
from case_checks import each_case

from harness import Sandbox
from harness.benchmarks.programs import class_attributes, top_level_names
from harness.environments.python.client import TestReport, run_tests
from harness.sandbox.limits import Limits

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sandbox() -> AsyncIterator[Sandbox]:
    limits = Limits(cpu_seconds=5, wall_seconds=10)
    async with Sandbox.open("python", limits=limits, seccomp="strict") as sandbox:
        yield sandbox


async def report(
    sandbox: Sandbox, program: str, *tests: str, classes: Mapping[str, Sequence[str]] | None = None
) -> TestReport:
    names = re.findall(r"^(?:def|class) (\w+)", program, re.MULTILINE)
    return await run_tests(
        sandbox, program=program, statements=tests, exports={name: name for name in names}, classes=classes
    )


async def holds(
    sandbox: Sandbox, program: str, test: str, classes: Mapping[str, Sequence[str]] | None = None
) -> None:
    outcome = await report(sandbox, program, test, classes=classes)
    assert outcome.results == (True,), outcome.evidence


async def test_a_report_names_the_kinds_of_objects_that_crossed(sandbox: Sandbox) -> None:
    program = "def numbers():\n    yield 7\ndef apply(function, value):\n    return function(value)"
    tests = "assert list(numbers()) == [7]", "assert apply(lambda value: value, 1) == 1"
    crossed = [(await report(sandbox, program, test)).objects for test in (*tests, "assert apply(abs, 1)")]
    assert crossed == [("iterator",), ("lent function",), ()]


POINT = """
class Point:
    def __init__(self, x, y):
        self.x, self.y = x, y
    def total(self):
        return self.x + self.y
    def __eq__(self, other):
        return self.x == other.x
    def __lt__(self, other):
        return self.x < other.x
    def __hash__(self):
        return 7
    def __str__(self):
        return f"<{self.x}>"
    def __add__(self, other):
        return Point(self.x + other.x, self.y + other.y)
def largest(points):
    return max(points)
"""
POINT_CLASSES = {
    "Point": ["__init__", "x", "y", "total", "__eq__", "__lt__", "__hash__", "__str__", "__add__"]
}

STACK = """
class Stack:
    def __init__(self):
        self.items = []
    def push(self, item):
        self.items.append(item)
        return self
    def __len__(self):
        return len(self.items)
    def __iter__(self):
        return iter(self.items)
    def __getitem__(self, place):
        return self.items[place]
    def __contains__(self, item):
        return item in self.items
"""
STACK_CLASSES = {"Stack": ["__init__", "items", "push", "__len__", "__iter__", "__getitem__", "__contains__"]}


@each_case(
    "test",
    [
        pytest.param("assert Point(1, 2).x == 1", id="attribute"),
        pytest.param("assert Point(1, 2).total() == 3", id="method"),
        pytest.param("p = Point(1, 2)\np.x = 5\nassert p.total() == 7", id="attribute set"),
        pytest.param("assert Point(1, 2) == Point(1, 3) and Point(1, 2) != Point(2, 2)", id="equality"),
        pytest.param("assert Point(1, 2) < Point(2, 0)", id="order"),
        pytest.param("assert str(Point(4, 2)) == '<4>'", id="str"),
        pytest.param("assert (Point(1, 2) + Point(3, 4)).y == 6", id="operator"),
        pytest.param("assert hash(Point(1, 2)) == 7", id="hash"),
        pytest.param("assert isinstance(Point(1, 2), Point) and not isinstance(3, Point)", id="isinstance"),
        pytest.param("assert largest([Point(1, 2), Point(9, 0)]).x == 9", id="passed back in a list"),
        pytest.param("p = Point(1, 2)\nassert largest([p]) is p", id="identity"),
    ],
)
async def test_instances_of_the_references_classes(sandbox: Sandbox, test: str) -> None:
    await holds(sandbox, POINT, test, POINT_CLASSES)


@each_case(
    "test",
    [
        pytest.param("assert len(Stack().push(1).push(2)) == 2", id="len"),
        pytest.param("assert list(Stack().push(1).push(2)) == [1, 2]", id="iteration"),
        pytest.param("assert Stack().push(8)[0] == 8", id="item"),
        pytest.param("s = Stack().push(8)\nassert 8 in s and 9 not in s", id="containment"),
        pytest.param("assert not Stack() and Stack().push(1)", id="truth by length"),
        pytest.param(
            "try:\n    Stack()[0]\nexcept IndexError:\n    pass\nelse:\n    assert False", id="exception"
        ),
    ],
)
async def test_containers_of_the_references_classes(sandbox: Sandbox, test: str) -> None:
    await holds(sandbox, STACK, test, STACK_CLASSES)


LIAR = """
class Liar:
    x = 1
    def __eq__(self, other):
        return True
    def __ne__(self, other):
        return False
    def __hash__(self):
        return hash(5)
    def __sub__(self, other):
        return 0
    __rsub__ = __sub__
    def __lt__(self, other):
        return True
    __gt__ = __le__ = __ge__ = __lt__
    def __contains__(self, item):
        return True
    def __len__(self):
        return 3
    def __abs__(self):
        return 0
    def startswith(self, text):
        return True
def f():
    return Liar()
"""


@each_case(
    "claim",
    [
        *("f() == 5", "5 == f()", "not (f() != 5)", "f() in [5]", "5 in f()", "len(f()) == 3", "f() < 5"),
        *("5 > f()", "abs(f() - 5) < 1e-6", "abs(5 - f()) < 1e-6", "f().startswith('a')", "f().x == 1"),
        *("f() in {5}", "{5: 1}[f()] == 1", "[f()] == [5]", "(f(),) == (5,)", "{'a': f()} == {'a': 5}"),
        *("[5].count(f())", "sorted([f(), 5]) == [5, 5]", "str(f()) == '5'", "f() is True"),
    ],
)
async def test_an_object_cannot_lie_its_way_past_a_plain_value(sandbox: Sandbox, claim: str) -> None:
    outcome = await report(sandbox, LIAR, f"assert {claim}")
    assert outcome.results == (False,)


@each_case("claim", ["f() == 5", "5 == f()", "abs(f() - 5) < 1e-6", "f().startswith('a')"])
async def test_exported_classes_give_a_liar_no_more_than_the_reference_has(
    sandbox: Sandbox, claim: str
) -> None:
    outcome = await report(sandbox, LIAR, f"assert {claim}", classes={"Liar": ["x", "__eq__"]})
    assert outcome.results == (False,)


@each_case(
    ("program", "test"),
    [
        pytest.param("def f(g, x): return g(g(x))", "assert f(lambda v: v + 1, 3) == 5", id="lambda"),
        pytest.param("def f(g, x): return g(x)", "assert f(len, [1, 2]) == 2", id="built-in function"),
        pytest.param("def f(g, x): return g(x)", "assert f(str.upper, 'a') == 'A'", id="method of a type"),
        pytest.param(
            "def f(g, x): return g(x)", "import math\nassert f(math.sqrt, 16) == 4.0", id="function of math"
        ),
        pytest.param(
            "def f(xs, key): return sorted(xs, key=key)",
            "assert f([3, -5, 1], key=abs) == [1, 3, -5]",
            id="as a key",
        ),
        pytest.param(
            "def f(g):\n    try:\n        g()\n    except KeyError as error:\n        return error.args",
            "def bad():\n    raise KeyError('k', 2)\nassert f(bad) == ('k', 2)",
            id="that raises",
        ),
        pytest.param(
            "def f(g): return [g(i) for i in range(3)]\ndef h(x): return x * 2",
            "assert f(lambda i: h(i) + 1) == [1, 3, 5]",
            id="that calls the program again",
        ),
        pytest.param(
            "def f(g): return [g(i) for i in range(3)]\ndef h(x): return x * 2",
            "assert f(h) == [0, 2, 4]",
            id="of the program's own",
        ),
    ],
)
async def test_functions_that_the_tests_pass_to_the_program_can_be_called(
    sandbox: Sandbox, program: str, test: str
) -> None:
    await holds(sandbox, program, test)


@each_case("function", ["eval", "exec", "open", "__import__", "compile", "globals"])
async def test_functions_that_reach_further_are_not_lent(sandbox: Sandbox, function: str) -> None:
    outcome = await report(sandbox, "def f(g): return True", f"assert f({function})")
    assert outcome.results == (False,)
    assert "not plain data" in str(outcome.evidence)


async def test_a_flood_of_callbacks_is_bounded_by_the_programs_limits() -> None:
    async with Sandbox.open("python", limits=Limits(wall_seconds=1), seccomp="strict") as sandbox:
        outcome = await report(sandbox, "def f(g):\n    while True:\n        g()", "assert f(lambda: 1)")
    assert (outcome.results, outcome.ended) == ((False,), "wall_seconds")


async def test_an_exception_class_of_the_program_can_be_caught_by_name(sandbox: Sandbox) -> None:
    program = "class Wrong(ValueError):\n    pass\ndef f():\n    raise Wrong('a', 2)"
    test = (
        "try:\n    f()\nexcept Wrong as error:\n    assert error.args == ('a', 2)\n"
        "    assert isinstance(error, ValueError)\nelse:\n    assert False"
    )
    await holds(sandbox, program, test)


async def test_evidence_shows_both_sides_and_the_call(sandbox: Sandbox) -> None:
    outcome = await report(sandbox, "def f(x): return x + 1", "assert f(1) == 3")
    assert outcome.evidence == (
        "test 1: assert f(1) == 3: AssertionError; left is 2, right is 3; the last call, with (1), returned 2"
    )


@each_case(
    ("source", "names"),
    [
        ("class A:\n    def m(self):\n        self.x = 1", {"m", "x"}),
        ("class A:\n    y: int = 3\n    z = 4", {"y", "z"}),
        ("@dataclass\nclass A:\n    y: int", {"y", "__eq__", "__repr__"}),
        ("@dataclasses.dataclass(frozen=True)\nclass A:\n    y: int", {"y", "__eq__", "__repr__"}),
    ],
)
async def test_attributes_are_those_that_the_references_class_defines(source: str, names: set[str]) -> None:
    import ast

    node = top_level_names(ast.parse(source))["A"]
    assert isinstance(node, ast.ClassDef)
    assert set(class_attributes(node)) == names


SHIFTING = """
class Shifting:
    n = 0
    def __float__(self):
        Shifting.n += 1
        return float(Shifting.n)
    def __int__(self): return 7
def f(): return Shifting()
class Half:
    n = 0.5
    def __float__(self):
        Half.n += 1
        return Half.n
def g(): return Half()
"""


@each_case(
    ("test", "holds"),
    [
        ("x = g()\nassert float(x) == float(x) == 1.5", True),
        ("x = g()\nassert float(x) != float(x)", False),
        ("x = f()\nassert float(x) == 1.0 and int(x) == 7", False),
        ("assert g() == 1.5", False),
        ("assert int(g()) == 1", False),
    ],
)
async def test_an_object_gives_the_same_number_each_time(sandbox: Sandbox, test: str, holds: bool) -> None:
    assert (await report(sandbox, SHIFTING, test)).results == (holds,)


async def test_an_instance_gives_its_current_number_if_the_reference_defines_it(
    sandbox: Sandbox,
) -> None:
    test = "x = Shifting()\nassert float(x) == 1.0 and float(x) == 2.0 and int(x) == 7"
    await holds(sandbox, SHIFTING, test, {"Shifting": ["__float__", "__int__"]})
