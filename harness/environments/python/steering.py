"""Find tests whose course may depend on an answer of the program.

The tests of most benchmarks make calls and assert, and nothing else depends on an answer. The guest drives a
program through such tests without a comparison, so that the program cannot observe whether an answer was
right, and samples of one task may share a container. Every other form of test may stop, branch or loop by an
answer. A sample under such tests gets its own container.

This module accepts a small grammar and refuses everything else, because a form that it does not know may be
one of these. It follows what `compiled_tests` and `assert_calls` of the guest really defer.
"""

from __future__ import annotations

import ast
import builtins
import functools
from collections.abc import Sequence

from harness.core.types import ProgramTests
from harness.environments.python.answer_names import AnswerNames, qualify_locals

# Built-in functions that the guest defers, and that call nothing else.
_DEFERRED = frozenset(
    (
        *("abs", "bool", "bytes", "complex", "dict", "float", "frozenset", "hex", "int", "isinstance", "len"),
        *("list", "max", "min", "ord", "repr", "round", "set", "sorted", "str", "sum", "tuple", "type"),
    )
)
_DEFERRED_MODULES = frozenset(("math", "cmath"))
# The functions that the set-up may call when it gets an answer. None of these compares it with anything.
_ARITHMETIC = frozenset(("abs", "enumerate", "float", "int", "len", "list", "pow", "range", "round", "sum"))
# Modules that reach no other code of the tests.
_HARMLESS_MODULES = frozenset(
    (
        *("bisect", "cmath", "collections", "copy", "datetime", "decimal", "fractions", "functools", "heapq"),
        *("itertools", "math", "numpy", "random", "re", "statistics", "string", "sys", "time", "typing"),
    )
)
# The names of `sys` that tests may use.
_OF_SYS = frozenset(("float_info", "getsizeof", "maxsize", "setrecursionlimit"))
# These find names and run code that no analysis of the text can see.
_REFLECTING = frozenset(
    (
        *("eval", "exec", "compile", "globals", "locals", "vars", "getattr", "setattr", "delattr"),
        *("breakpoint", "input", "open", "super", "dir", "memoryview"),
    )
)
# The nodes of an expression that compares nothing.
_OF_ARITHMETIC = (
    *(ast.Return, ast.BinOp, ast.UnaryOp, ast.operator, ast.USub, ast.UAdd, ast.Name, ast.expr_context),
    *(ast.Constant, ast.ListComp, ast.comprehension, ast.Call, ast.Tuple, ast.Attribute),
)
_CACHED = 4096


class _Steered(Exception):
    """A node that the course of a test may depend on."""

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
        trees = [_drop_stubs(ast.parse(text.removeprefix("\ufeff")), exports) for _place, text in places]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return "the tests do not compile"
    if _is_evident([node for tree in trees[1:] for node in tree.body], {*exports}):
        return None
    trees = [qualify_locals(tree) for tree in trees]
    try:
        form = _Form(AnswerNames(trees, exports), frozenset(exports))
        for (place, text), tree in zip(places, trees, strict=True):
            try:
                if tree is trees[0]:
                    form.check_setup(tree)
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
    """The grammar of tests that the guest can drive without a look at an answer."""

    def __init__(self, answers: AnswerNames, exports: frozenset[str]) -> None:
        self._answers = answers
        self._exports = exports

    def check_setup(self, tree: ast.Module) -> None:
        """Refuse asserts on answers in the set-up, because the guest does not rewrite these."""
        for node in ast.walk(tree):
            if isinstance(node, ast.Assert) and self._answers.cover(node):
                raise _Steered(node, "an assert of the set-up ends the test that calls it")

    def check_names(self, tree: ast.Module) -> None:
        """Refuse what may reach the program without a name that the analysis of names follows."""
        of_sys = set()
        for node in ast.walk(tree):  # A node comes before those below it.
            match node:
                case ast.Attribute(value=ast.Name(id="sys") as module, attr=attribute) if (
                    attribute in _OF_SYS
                ):
                    of_sys.add(module)
                case ast.Name(id="sys") if node not in of_sys:
                    raise _Steered(node, "'sys' may reach the program out of sight")
                case ast.Name(id=name) | ast.Attribute(attr=name) if _is_hidden(name):
                    raise _Steered(node, f"'{name}' may reach the program out of sight")
                case ast.Name(id=name) if name in _REFLECTING and name not in self._answers.bound:
                    raise _Steered(node, f"'{name}' may reach the program out of sight")
                case ast.Import(names=names) if any(
                    alias.name not in _HARMLESS_MODULES or alias.asname == "sys" for alias in names
                ):
                    raise _Steered(node, "this module may reach the program out of sight")
                case ast.Import(names=names) if any(alias.name == "sys" and alias.asname for alias in names):
                    raise _Steered(node, "'sys' may reach the program out of sight")
                case ast.ImportFrom(module=module, names=names) if module not in _HARMLESS_MODULES - {
                    "sys"
                } or any(alias.name == "*" for alias in names):
                    raise _Steered(node, "this module may reach the program out of sight")
                case ast.Attribute(ctx=ast.Store() | ast.Del()):
                    raise _Steered(node, "an attribute is changed, and a function may be replaced")
                case ast.ClassDef() | ast.AsyncFunctionDef() | ast.Lambda() if self._answers.cover(node):
                    raise _Steered(node, "this may see an answer")
                case ast.ClassDef(bases=[_, *_]) | ast.ClassDef(keywords=[_, *_]):
                    raise _Steered(node, "a base of this class may run its methods")

    def check_block(self, statements: Sequence[ast.stmt]) -> None:
        for statement in statements:
            if self._answers.cover(statement):
                self._check_statement(statement)

    def _check_statement(self, node: ast.stmt) -> None:
        cover = self._answers.cover
        match node:
            case ast.FunctionDef(decorator_list=[]):
                annotations = [each.annotation for each in ast.walk(node.args) if isinstance(each, ast.arg)]
                evaluated = (*node.args.defaults, *node.args.kw_defaults, *annotations, node.returns)
                if cover(*filter(None, evaluated)) or len(self._answers.functions[node.name]) > 1:
                    raise _Steered(node, "which function this is may depend on an answer")
                if not self._is_arithmetic(node):
                    self.check_block(node.body)
            case ast.Assert():
                self._check_truth(node.test)
            case ast.Expr(value=ast.Call() as call):
                self._check_effect(call)
            case ast.Expr(value=ast.Constant()) | ast.Pass() | ast.Global() | ast.Nonlocal():
                pass
            case (
                ast.Assign(targets=[ast.Name()], value=value)
                | ast.AnnAssign(target=ast.Name(), value=ast.expr() as value)
            ):
                self._check_kept(value)
            case ast.Return(value=ast.Name() | ast.Constant() | None):
                pass
            case ast.For(orelse=[]):
                self._check_target(node.target)
                self._check_iterated(node.iter)
                self.check_block(node.body)
            case _:
                raise _Steered(node, f"its course may depend on an answer ({type(node).__name__})")

    def _check_effect(self, call: ast.Call) -> None:
        """Check a call whose result nobody uses: of the program, of a function of the tests, or `append`."""
        match call:
            case ast.Call(func=ast.Attribute(value=ast.Name(), attr="append"), args=[value], keywords=[]):
                self._check_kept(value)
            case ast.Call(func=ast.Name(id=name)) if (
                name in self._answers.functions and name not in self._exports
            ):
                self._require_one_meaning(call.func)
                for given in (*call.args, *(word.value for word in call.keywords)):
                    self._check_argument(given)
            case _:
                self._check_call_of_program(call)

    def _check_kept(self, node: ast.expr) -> None:
        """Check a value that a variable or a list keeps: answers, or plain collections of them."""
        match node:
            case ast.Call():
                self._check_call_of_program(node)
            case ast.List(elts=items) | ast.Tuple(elts=items):
                for item in items:
                    self._check_kept(item)
            case ast.ListComp(elt=value, generators=[ast.comprehension(ifs=[], is_async=0) as loop]):
                self._check_target(loop.target)
                self._check_iterated(loop.iter)
                self._check_kept(value)
            case ast.Name() | ast.Constant():
                pass
            case _ if not self._answers.cover(node):
                pass
            case _ if _is_literal(node):
                pass
            case _:
                raise _Steered(node, "a value is computed from an answer")

    def _check_target(self, target: ast.expr) -> None:
        match target:
            case ast.Name():
                pass
            case ast.Tuple(elts=items) | ast.List(elts=items):
                for item in items:
                    self._check_target(item)
            case _:
                raise _Steered(target, "an assignment may look at an answer")

    def _check_iterated(self, node: ast.expr) -> None:
        """Check what a loop goes through. The program knows how long its own answers are."""
        match node:
            case ast.Name():
                pass
            case ast.Call(func=ast.Name(id="zip" | "enumerate" as name), args=args) if (
                name not in self._answers.bound and all(isinstance(each, ast.Name) for each in args)
            ):
                if any(word.arg == "strict" for word in node.keywords):
                    raise _Steered(node, "the loop may end by the length of an answer")
            case ast.Call(func=ast.Attribute(value=ast.Name(), attr="items"), args=[], keywords=[]):
                pass
            case _ if not self._answers.cover(node) or _is_literal(node):
                pass
            case _:
                raise _Steered(node, "what a loop goes through is computed from an answer")

    def _check_argument(self, node: ast.expr) -> None:
        """Check an argument. It is evaluated while the program lives, so it must not compute on answers."""
        match node:
            case ast.Name():
                if node.id in self._answers.functions and node.id not in self._exports:
                    raise _Steered(node, "the program may call a function of the tests")
            case ast.Starred(value=ast.Name()):
                pass
            case _ if not self._answers.cover(node) or _is_literal(node):
                if any(isinstance(inner, (ast.Lambda, ast.NamedExpr)) for inner in ast.walk(node)):
                    raise _Steered(node, "the program may call a function of the tests")
            case ast.List(elts=items) | ast.Tuple(elts=items):
                for item in items:
                    self._check_argument(item)
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id=module), attr="copy" | "deepcopy"), args=[ast.Name()]
            ):
                if self._answers.imported.get(module) != ("copy", None) or module in self._answers.bound:
                    raise _Steered(node, "an argument is computed from an answer")
            case ast.Call():
                self._check_call_of_program(node)
            case _:
                raise _Steered(node, "an argument is computed from an answer")

    def _check_call_of_program(self, call: ast.Call) -> None:
        match call.func:
            case ast.Name(id=name) if name in self._answers and not hasattr(builtins, name):
                if name in self._answers.functions and name not in self._exports:
                    raise _Steered(call, "a function of the tests sees an answer")
            case _:
                raise _Steered(call, "this function may judge what it is given")
        for given in (*call.args, *(word.value for word in call.keywords)):
            self._check_argument(given)

    def _check_truth(self, node: ast.expr) -> None:
        """Check an expression whose truth an assert asks for."""
        match node:
            case ast.BoolOp(op=ast.And(), values=values):
                for value in values:
                    self._check_truth(value)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                self._check_operand(operand)
            case ast.Compare():
                for side in (node.left, *node.comparators):
                    self._check_operand(side)
            case _:
                self._check_operand(node)

    def _check_operand(self, node: ast.expr) -> None:
        """Check an operand of a comparison in an assert. The guest defers what it computes on answers."""
        if not self._answers.cover(node) or _is_literal(node):
            if any(isinstance(inner, (ast.NamedExpr, ast.Yield, ast.Await)) for inner in ast.walk(node)):
                raise _Steered(node, "an assert binds a name")
            return
        match node:
            case ast.Name():
                pass
            case ast.Call(
                func=ast.Name(id="list" | "tuple" as name), args=[ast.Call(func=ast.Name(id="map"))]
            ):
                self._check_map(node, name)
            case ast.Call(func=ast.Name(id=name), keywords=[]) if (
                name in _DEFERRED and name not in self._answers.bound
            ):
                if name == "type" and len(node.args) != 1:
                    raise _Steered(node, "a class is made of an answer")
                for given in node.args:
                    self._check_operand(given)
            case ast.Call(func=ast.Attribute(value=ast.Name(id=module))) if (
                self._answers.imported.get(module, ("", ""))[0] in _DEFERRED_MODULES
                and self._answers.imported[module][1] is None
                and module not in self._answers.bound
            ):
                for given in (*node.args, *(word.value for word in node.keywords)):
                    self._check_operand(given)
            case ast.Call(func=ast.Name(id=name)) if (
                name in self._answers.functions and name not in self._exports
            ):
                self._require_one_meaning(node.func)
                if not self._is_arithmetic(self._answers.functions[name][0]):
                    raise _Steered(node, "a function of the tests sees an answer")
                for given in node.args:
                    self._check_argument(given)
            case ast.Call():
                self._check_call_of_program(node)
            case ast.BinOp(left=left, right=right):
                self._check_operand(left)
                self._check_operand(right)
            case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=operand):
                self._check_operand(operand)
            case ast.Subscript(value=value, slice=index) if not isinstance(index, ast.Slice):
                self._check_operand(value)
                self._check_operand(index)
            case ast.List() | ast.Tuple() | ast.ListComp():
                self._check_kept(node)
            case _:
                raise _Steered(node, f"its course may depend on an answer ({type(node).__name__})")

    def _check_map(self, node: ast.Call, name: str) -> None:
        match node.args[0]:
            case ast.Call(func=ast.Name(), args=[ast.Name(id=function), items], keywords=[]) if {
                name,
                "map",
            }.isdisjoint(self._answers.bound) and function in self._exports:
                self._check_iterated(items)
            case _:
                raise _Steered(node, "this function may judge what it is given")

    def _require_one_meaning(self, function: ast.expr) -> None:
        """Require that a name always means the same function of the tests."""
        name = function.id if isinstance(function, ast.Name) else ""
        if len(self._answers.functions[name]) != 1 or name in self._answers.rebound:
            raise _Steered(function, "which function this is may depend on an answer")

    def _is_arithmetic(self, function: ast.FunctionDef) -> bool:
        """Return whether a function returns an expression that compares nothing, as a polynomial does."""
        body = [each for each in function.body if not isinstance(each, ast.Expr)]
        if function.decorator_list or len(body) != 1 or not isinstance(body[0], ast.Return):
            return False
        for node in ast.walk(body[0]):
            if not isinstance(node, _OF_ARITHMETIC) or (isinstance(node, ast.comprehension) and node.ifs):
                return False
            if isinstance(node, ast.Call):
                match node.func:
                    case ast.Name(id=name) if name in _ARITHMETIC and name not in self._answers.bound:
                        pass
                    case ast.Attribute(value=ast.Name(id="math"), attr="pow") if (
                        "math" not in self._answers.bound
                    ):
                        pass
                    case _:
                        return False
        return True


def _is_evident(statements: Sequence[ast.stmt], program: set[str]) -> bool:
    """Return whether tests only compare calls of the program with constants, as most tests do.

    This takes a tenth of the time of the analysis. The set-up does not matter, because it runs before the
    program's functions are there, and these tests use nothing of it.
    """
    checks = {node.name for node in statements if isinstance(node, ast.FunctionDef)}
    for node in statements:
        match node:
            case ast.Assert(test=ast.Compare(left=left, ops=[ast.Eq()], comparators=[right])):
                sides = [side for side in (left, right) if not _is_constant(side)]
                if not all(_is_evident_call(side, program) for side in sides):
                    return False
            case ast.Assert(test=test):
                if not _is_constant(test) and not _is_evident_call(test, program):
                    return False
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if name not in program:
                if not _is_constant(value):
                    return False
            case ast.FunctionDef(
                args=ast.arguments(args=[ast.arg(arg=name, annotation=None)], defaults=[]), decorator_list=[]
            ):
                given = node.args
                others = (given.vararg, given.kwarg, given.kwonlyargs, given.posonlyargs, node.returns)
                if any(others) or node.name in program:
                    return False
                if not _is_evident(node.body, {name}):
                    return False
            case ast.Expr(value=ast.Call(func=ast.Name(id=check), args=[ast.Name(id=name)], keywords=[])):
                if check not in checks or name not in program:
                    return False
            case ast.Expr(value=ast.Constant()) | ast.Pass():
                pass
            case _:
                return False
    return True


def _is_evident_call(node: ast.expr, program: set[str]) -> bool:
    match node:
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in program:
            return all(map(_is_constant, args))
    return False


def _is_constant(node: ast.expr) -> bool:
    match node:
        case ast.Constant():
            return True
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return all(map(_is_constant, items))
        case ast.Dict(keys=keys, values=values):
            return all(key is not None and _is_constant(key) for key in keys) and all(
                map(_is_constant, values)
            )
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return _is_constant(operand)
    return False


def _drop_stubs(tree: ast.Module, exports: Sequence[str]) -> ast.Module:
    """Return the tests without their own functions in whose place they get functions of the program."""
    tree.body = [
        node for node in tree.body if not (isinstance(node, ast.FunctionDef) and node.name in exports)
    ]
    return tree


def _is_hidden(name: str) -> bool:
    return name.startswith("__") and name not in ("__init__", "__name__")


def _is_literal(node: ast.expr) -> bool:
    """Return whether an expression consists of constants."""
    try:
        ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return False
    return True
