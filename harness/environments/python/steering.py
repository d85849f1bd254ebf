"""Find tests whose course may depend on an answer of the program.

The tests of most benchmarks make calls and assert, and nothing else depends on an answer. The guest drives a
program through such tests without a comparison, so that the program cannot observe whether an answer was
right, and samples of one task may share a container. Every other form of test may stop, branch or loop by an
answer. A sample under such tests gets its own container. A form that this module does not know is one of
these.
"""

from __future__ import annotations

import ast
import builtins
import functools
from collections.abc import Sequence

from harness.environments.python.guest.driving import IMPURE
from harness.environments.python.taint import STORING, Taint, walk
from harness.types import ProgramTests

# Built-in functions that compare nothing. Outside of an assert, the guest calls them on answers.
_NEVER_COMPARING = frozenset(
    (
        *("abs", "bytes", "complex", "enumerate", "filter", "float", "hex", "int", "iter", "len", "list"),
        *("map", "next", "print", "range", "repr", "reversed", "round", "str", "sum", "tuple", "type"),
        *("zip"),
    )
)
# Methods of an answer that change it, and may fail by what it holds.
_CHANGING = frozenset(("discard", "pop", "popitem", "remove", "setdefault", "sort"))
# Modules whose functions only compute. A name in the tests may be an alias of one.
_COMPUTING = frozenset(("math", "cmath", "copy", "numpy", "np"))
# These find names and run code that no analysis of the text can see.
_REFLECTING = frozenset(
    (
        *("eval", "exec", "compile", "globals", "locals", "vars", "__import__", "importlib", "inspect"),
        *("gc", "sys"),
    )
)
# What tests may use of `sys`.
_PLAIN_ATTRIBUTES = frozenset(("getsizeof", "maxsize", "float_info", "version_info"))
_CALLED_WITH_FUNCTIONS = frozenset(("filter", "map"))
_CACHED = 4096


class _Steered(Exception):
    """A node on which the course of a test may depend."""

    def __init__(self, node: ast.AST, what: str) -> None:
        super().__init__(what)
        self.node = node
        self.what = what


def find_steering(tests: ProgramTests) -> str | None:
    """Return the place and the reason why an answer may steer these tests, or None if none can."""
    return _find(tests.setup, tests.statements, tuple(tests.exports), bool(tests.classes))


@functools.lru_cache(_CACHED)
def _find(setup: str, statements: Sequence[str], exports: Sequence[str], has_classes: bool) -> str | None:
    if has_classes:
        return "the tests use a class of the program, whose methods decide comparisons"
    places = [("the set-up", setup), *((f"test {n}", text) for n, text in enumerate(statements, start=1))]
    try:
        trees = [ast.parse(text) for _place, text in places]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return "the tests do not compile"
    try:
        form = _Form(Taint(trees, exports))
        for (place, text), tree in zip(places, trees, strict=True):
            try:
                form.check_names(tree)
                form.check_block(tree.body)
            except _Steered as found:
                return _describe(place, text, found)
    except RecursionError:
        return "the tests are nested too deeply"
    return None


def _describe(place: str, text: str, found: _Steered) -> str:
    number = getattr(found.node, "lineno", 1)
    line = text.splitlines()[number - 1].strip()
    return f"{place}, line {number}: {found.what}: {line[:200]}"


class _Form:
    """Accepts the forms of tests that the guest can drive without a look at an answer."""

    def __init__(self, taint: Taint) -> None:
        self._taint = taint

    def check_names(self, tree: ast.Module) -> None:
        """Refuse what an answer may reach without a name that the taint covers."""
        harmless = set()
        for node in walk(tree):  # A node comes before those below it.
            if isinstance(node, ast.Attribute) and node.attr in _PLAIN_ATTRIBUTES:
                harmless.add(node.value)
            elif isinstance(node, ast.Name) and node.id in _REFLECTING and node not in harmless:
                raise _Steered(node, f"'{node.id}' may reach the program out of sight")
            elif isinstance(node, ast.ClassDef) and not _is_record(node):
                raise _Steered(node, "an operator or a base of this class may see an answer")

    def check_block(self, statements: Sequence[ast.stmt]) -> None:
        for statement in statements:
            if self._taint.covers(statement):
                self._check_statement(statement)

    def _check_statement(self, node: ast.stmt) -> None:
        covers = self._taint.covers
        match node:
            case ast.FunctionDef():
                if node.decorator_list:
                    raise _Steered(node, "a decorator may change the course")
                self.check_block(node.body)
            case ast.Assert():
                self._check_truth(node.test)
            case ast.Expr():
                self._check_value(node.value, asserted=False)
            case ast.Assign() | ast.AnnAssign() | ast.AugAssign():
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                for target in targets:
                    self._check_target(target)
                if node.value is not None:
                    self._check_value(node.value, asserted=False)
            case ast.Return():
                if node.value is not None:
                    self._check_value(node.value, asserted=False)
            case ast.For():
                self._check_value(node.iter, asserted=False)
                self._check_target(node.target)
                self.check_block([*node.body, *node.orelse])
            case ast.If() | ast.While() if not covers(node.test):
                self.check_block([*node.body, *node.orelse])
            case _:
                raise _Steered(node, f"its course may depend on an answer ({type(node).__name__})")

    def _check_target(self, target: ast.expr) -> None:
        """Check the target of an assignment. A name never looks at its value, but an index does."""
        match target:
            case ast.Name():
                pass
            case ast.Tuple() | ast.List():
                for item in target.elts:
                    self._check_target(item)
            case ast.Subscript() if not self._taint.covers(target.slice):
                self._check_target(target.value)
            case _:
                raise _Steered(target, "an assignment may look at an answer")

    def _check_truth(self, node: ast.expr) -> None:
        """Check an expression whose truth an assert asks for."""
        match node:
            case ast.BoolOp():
                for value in node.values:
                    self._check_truth(value)
            case ast.UnaryOp(op=ast.Not()):
                self._check_truth(node.operand)
            case ast.Compare():
                for side in (node.left, *node.comparators):
                    self._check_value(side, asserted=True)
            case ast.Call(
                func=ast.Name(id="all" | "any"), args=[ast.GeneratorExp() | ast.ListComp() as items]
            ):
                self._check_loops(items)
                self._check_truth(items.elt)
            case _:
                self._check_value(node, asserted=True)

    def _check_value(self, node: ast.expr, *, asserted: bool) -> None:
        """Check an expression. In an assert, the guest defers arithmetic and pure functions."""
        if not self._taint.covers(node):
            return
        match node:
            case ast.Name():
                pass
            case ast.Call():
                self._check_call(node, asserted=asserted)
            case ast.BinOp():
                self._check_value(node.left, asserted=asserted)
                self._check_value(node.right, asserted=asserted)
            case ast.UnaryOp(op=ast.USub() | ast.UAdd()):
                self._check_value(node.operand, asserted=asserted)
            case ast.Subscript():
                if self._taint.covers(node.slice) and not asserted and not isinstance(node.slice, ast.Slice):
                    raise _Steered(node, "an answer is looked up")
                self._check_value(node.value, asserted=asserted)
                self._check_value(node.slice, asserted=asserted)
            case ast.Slice():
                for part in (node.lower, node.upper, node.step):
                    if part is not None:
                        self._check_value(part, asserted=asserted)
            case ast.List() | ast.Tuple() | ast.Set():
                for item in node.elts:
                    self._check_value(item, asserted=asserted)
            case ast.Dict():
                for part in (*node.keys, *node.values):
                    if part is not None:
                        self._check_value(part, asserted=asserted)
            case ast.Starred() | ast.Attribute():
                self._check_value(node.value, asserted=asserted)
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp():
                self._check_loops(node)
                self._check_value(node.elt, asserted=asserted)
            case ast.DictComp():
                self._check_loops(node)
                self._check_value(node.key, asserted=asserted)
                self._check_value(node.value, asserted=asserted)
            case _:
                raise _Steered(node, f"its course may depend on an answer ({type(node).__name__})")

    def _check_loops(self, node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp) -> None:
        for loop in node.generators:
            self._check_value(loop.iter, asserted=False)
            self._check_target(loop.target)
            for condition in loop.ifs:
                if self._taint.covers(condition):
                    raise _Steered(condition, "a condition on an answer selects items")

    def _check_call(self, node: ast.Call, *, asserted: bool) -> None:
        passed = [*node.args, *(word.value for word in node.keywords)]
        self._check_function(node.func, passed, asserted=asserted)
        for given in passed:
            self._check_value(given.value if isinstance(given, ast.Starred) else given, asserted=asserted)

    def _check_function(self, function: ast.expr, passed: Sequence[ast.expr], *, asserted: bool) -> None:
        taint = self._taint
        match function:
            case ast.Name() if taint.functions_of(function):
                return  # a function of the tests, whose body is checked as well
            case ast.Name() if taint.has(function):
                return  # a function of the program
            case ast.Name(id=name) if name not in taint.imported and _is_pure_builtin(name):
                if (not asserted and name not in _NEVER_COMPARING) or (name == "type" and len(passed) > 1):
                    raise _Steered(function, "this function compares answers")
                if name in _CALLED_WITH_FUNCTIONS:
                    return
            case ast.Attribute(value=ast.Name(id=module)) if module in taint.imported & _COMPUTING:
                pass
            case ast.Attribute(value=ast.Constant(value=str()), attr="join" | "format"):
                pass
            case ast.Attribute(attr=name) if name in STORING or (
                taint.covers(function.value) and (not passed or asserted) and name not in _CHANGING
            ):
                self._check_value(function.value, asserted=asserted)
            case _:
                raise _Steered(function, "this function may judge what it is given")
        self._refuse_functions(passed)

    def _refuse_functions(self, passed: Sequence[ast.expr]) -> None:
        """Refuse functions as arguments of a library's function, which may look at what they return."""
        for given in passed:
            if isinstance(given, ast.Lambda) and self._taint.covers(given.body):
                raise _Steered(given, "this function sees an answer")
            if isinstance(given, ast.Name) and any(map(self._taint.covers, self._taint.functions_of(given))):
                raise _Steered(given, "this function sees an answer")


def _is_record(node: ast.ClassDef) -> bool:
    """Return whether a class has neither bases nor operators, as a node of a tree or a list has."""
    special = [
        inner.name
        for inner in node.body
        if isinstance(inner, ast.FunctionDef) and inner.name.startswith("__")
    ]
    return not node.bases and not node.keywords and not node.decorator_list and special in ([], ["__init__"])


def _is_pure_builtin(name: str) -> bool:
    function = getattr(builtins, name, None)
    if isinstance(function, type):
        return name != "super" and not issubclass(function, BaseException)
    return function is not None and name not in IMPURE
