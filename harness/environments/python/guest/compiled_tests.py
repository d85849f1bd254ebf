"""Compile tests, in PID 1 if they are short, because it keeps the codes for the next sample.

A test becomes two codes: one to drive the living program, and one to judge the record of its answers.
Both continue after a failed assert. The driving version makes the calls in an assert's expression
and compares nothing. The judging version compares and records the result. An assert inside a `try` with
handlers stays unchanged in both, because the test itself may catch its AssertionError.

The statements' beginning is what they do before they use the program: imports, helpers and their own data. A
failure there cannot be the program's, so it is tried before the program is loaded.
"""

from __future__ import annotations

# The classes of syntax trees alone. The module `ast` imports regular expressions and enumerations. With these
# the first sample of every container would take 5 ms longer.
import _ast as ast
import marshal
import warnings
from functools import lru_cache

from .assert_calls import (
    APPLY,
    DRIVE,
    EQUAL,
    EXHAUST,
    FAILED,
    GOES_ON,
    LOOKED_INTO,
    NOTE,
    OPERATORS,
    RAISED,
    SETUP_NAME,
    TESTS_NAME,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import CodeType
    from typing import Any

LOAD = ast.Load()
# The fields of syntax tree nodes that hold statements.
STATEMENT_LISTS = ("body", "handlers", "orelse", "finalbody", "cases")
# Longer source takes time and memory, so the process that runs it compiles it. Of the statements' beginning,
# it then tries the imports alone, because to run the rest twice would take long.
MAX_SOURCE = 64 * 1024
KEPT = 64
UNCOMPILABLE = (SyntaxError, ValueError, RecursionError, MemoryError)
NOTHING = marshal.dumps(None)
# People do not nest calls more deeply, and the limit of recursion is far higher.
MAX_DEPTH = 30
# These bind names or leave the function, so their expressions stay unchanged.
_WITH_EFFECTS = (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom)
# These inspect the frame that calls them.
_OF_THEIR_FRAME = ("dir", "eval", "exec", "globals", "locals", "super", "vars")
_LITERALS = (ast.Constant, ast.List, ast.Tuple, ast.Set, ast.Dict, ast.UnaryOp, ast.BinOp, ast.Load)
_IMPORTS = (ast.Import, ast.ImportFrom)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_DEFINITIONS = (*_FUNCTIONS, ast.ClassDef)
# These find names that the text does not show.
_REFLECTING = frozenset(("eval", "exec", "globals", "locals", "vars", "getattr", "__import__", "compile"))


def compile_ahead(statement: str, *, with_classes: bool) -> bytes | None:
    """Return a test's two codes, marshalled, or None if the test's own process must compile them.

    If the reference defines classes (`with_classes`), the program's instances have their own operators. Then
    an assert's whole expression is evaluated while the program lives.

    PID 1 calls this function, because it keeps the codes for the next sample. A fork would copy every page to
    which compiling writes.
    """
    return _compile_test(statement, with_classes) if len(statement) <= MAX_SOURCE else None


@lru_cache(KEPT)
def compile_setup_ahead(source: str) -> bytes | None:
    """Return the code of the tests' set-up, marshalled, or None if the tests' own process must compile it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return marshal.dumps(compile(source, SETUP_NAME, "exec")) if len(source) <= MAX_SOURCE else None
    except UNCOMPILABLE:
        return None


@lru_cache(KEPT)
def _compile_test(statement: str, with_classes: bool) -> bytes | None:
    try:
        return marshal.dumps(compile_test(statement, with_classes=with_classes))
    except UNCOMPILABLE:
        return None  # The test's own process compiles it again and reports the error.


def compile_test(statement: str, *, with_classes: bool) -> tuple[CodeType, CodeType]:
    """Return the code that drives the program through a test, and the code that judges it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Otherwise stderr would carry the warnings to the host.
        tree: Any = compile(statement, TESTS_NAME, "exec", ast.PyCF_ONLY_AST)
        places = _places_of_asserts(tree)
        for place in places:
            place.put(_drive_caught if place.caught else _drive_whole if with_classes else _drive)
        drive: CodeType = compile(tree, TESTS_NAME, "exec")
        for place in places:
            place.put(_note if place.caught else _judge)
        judge: CodeType = compile(tree, TESTS_NAME, "exec")
        return drive, judge


class _Place:
    """The place of an assert: its list of statements, its index there, and whether a handler may catch it."""

    def __init__(self, statements: list[ast.stmt], number: int, node: ast.Assert, *, caught: bool) -> None:
        self.statements = statements
        self.number = number
        self.node = node
        self.caught = caught

    def put(self, rewrite: Callable[[ast.Assert], ast.stmt]) -> None:
        self.statements[self.number] = rewrite(self.node)


def _places_of_asserts(tree: ast.Module) -> list[_Place]:
    places = []
    # Expressions contain no assert and may be nested without bound, so the walk leaves them out.
    waiting: list[tuple[ast.AST, bool]] = [(tree, False)]
    while waiting:
        node, caught = waiting.pop()
        for field in STATEMENT_LISTS:
            children = getattr(node, field, None)
            if type(children) is not list:
                continue
            caught_here = caught or (field == "body" and bool(getattr(node, "handlers", None)))
            for number, child in enumerate(children):
                if isinstance(child, ast.Assert):
                    places.append(_Place(children, number, child, caught=caught_here))
                else:
                    waiting.append((child, caught_here))
    return places


def _judge(node: ast.Assert) -> ast.stmt:
    """Turn `assert a == b` into a call of `EQUAL`, and any other assert into `... or` a call of `FAILED`."""
    at = _place(node)
    test = node.test
    message = [] if node.msg is None or _has_effects(node.msg) else [_function(node.msg)]
    # All sides of `and` are judged, because the time to the first wrong one could reveal which one that is.
    claims = test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]
    return _group([_judge_claim(claim, message, at) for claim in claims], at)


def _judge_claim(test: ast.expr, message: list[ast.expr], at: dict[str, Any]) -> ast.stmt:
    call: ast.expr
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Eq):
        call = ast.Call(ast.Name(EQUAL, LOAD, **at), [test.left, test.comparators[0], *message], [], **at)
    else:
        failed = ast.Call(ast.Name(FAILED, LOAD, **at), message, [], **at)
        call = ast.BoolOp(ast.Or(), [_note_comparison(test), failed], **at)
    raised = ast.Expr(ast.Call(ast.Name(RAISED, LOAD, **at), [], [], **at), **at)
    return _continue_on_error([ast.Expr(call, **at)], raised, at)


def _drive(node: ast.Assert) -> ast.stmt:
    """Turn an assert into the calls in its expression."""
    at = _place(node)
    calls = [node.test] if _has_effects(node.test) else _ask_all(node.test, 0)
    # An answer of an unusual type may raise in one of them, and the program must get the other calls as well.
    statements = [_continue_on_error([ast.Expr(call, **at)], ast.Pass(**at), at) for call in calls]
    return _group(statements or [ast.Pass(**at)], at)


def _drive_caught(node: ast.Assert) -> ast.stmt:
    """Keep an assert, but remove a message that would have to be evaluated while the program lives."""
    message = node.msg if isinstance(node.msg, ast.Constant) else None
    return ast.Assert(node.test, message, **_place(node))


def _drive_whole(node: ast.Assert) -> ast.stmt:
    """Turn an assert into its expression, and defer no part of it."""
    at = _place(node)
    drive = ast.Call(ast.Name(DRIVE, LOAD, **at), [node.test], [], **at)
    return _continue_on_error([ast.Expr(drive, **at)], ast.Pass(**at), at)


def _ask_all(node: ast.expr, depth: int) -> list[ast.expr]:
    """Return expressions that ask the program everything that `node` may ask for its truth."""
    at = _place(node)
    if depth < MAX_DEPTH:
        if isinstance(node, ast.BoolOp):
            # Both sides are asked, whatever the truth of the first. The replay uses the answers that it
            # needs.
            return [call for value in node.values for call in _ask_all(value, depth + 1)]
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return _ask_all(node.operand, depth + 1)
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            if any(isinstance(operator, (ast.In, ast.NotIn)) for operator in node.ops):
                operands = [_defer(side, depth) for side in sides]
                return [ast.Call(ast.Name(LOOKED_INTO, LOAD, **at), operands, [], **at)]
            return [_defer(side, depth) for side in sides if not _is_literal(side)]
    return [ast.Call(ast.Name(DRIVE, LOAD, **at), [_defer(node, depth)], [], **at)]


def _defer(node: ast.expr, depth: int) -> ast.expr:
    """Return an expression that makes the calls in `node` and defers its pure parts."""
    at = _place(node)
    if depth >= MAX_DEPTH:
        return node
    if isinstance(node, ast.Call) and _may_be_applied(node.func):
        every = _every_item(node, depth)
        args = [arg if isinstance(arg, ast.Starred) else _defer(arg, depth + 1) for arg in node.args]
        keywords = [ast.keyword(word.arg, _defer(word.value, depth + 1), **at) for word in node.keywords]
        if any(word.arg is None for word in node.keywords):
            keywords = node.keywords
        applied = ast.Call(ast.Name(APPLY, LOAD, **at), [node.func, *args], keywords, **at)
        return applied if every is None else every(applied)
    operation = _operation(node)
    if operation is None or not any(isinstance(inner, ast.Call) for inner in _walk(node)):
        return node
    name, operands = operation
    sides = [ast.Name(f"@{name}", LOAD, **at), *(_defer(operand, depth + 1) for operand in operands)]
    return ast.Call(ast.Name(APPLY, LOAD, **at), sides, [], **at)


def _may_be_applied(function: ast.expr) -> bool:
    if isinstance(function, ast.Name):
        return function.id not in _OF_THEIR_FRAME
    return isinstance(function, ast.Attribute)


def _operation(node: ast.expr) -> tuple[str, list[ast.expr]] | None:
    """Return the name in `OPERATORS` and the operands of an arithmetic operation or an index, or None."""
    if isinstance(node, ast.BinOp):
        name, operands = type(node.op).__name__, [node.left, node.right]
    elif isinstance(node, ast.UnaryOp):
        name, operands = type(node.op).__name__, [node.operand]
    elif isinstance(node, ast.Subscript) and not isinstance(node.slice, (ast.Slice, ast.Tuple)):
        name, operands = "Index", [node.value, node.slice]
    else:
        return None
    return (name, operands) if name in OPERATORS else None


def _every_item(node: ast.Call, depth: int) -> Callable[[ast.expr], ast.expr] | None:
    """Return an expression that visits all items, to replace `all(... for ...)` or `any(...)`.

    The program may define a function of that name, so the choice between both happens at run time.
    """
    if not (isinstance(node.func, ast.Name) and node.func.id in ("all", "any") and len(node.args) == 1):
        return None
    items = node.args[0]
    if node.keywords or not isinstance(items, (ast.GeneratorExp, ast.ListComp)):
        return None
    at = _place(node)
    asked = ast.Tuple(_ask_all(items.elt, depth + 1), LOAD, **at)
    exhausted = ast.Call(
        ast.Name(EXHAUST, LOAD, **at), [ast.GeneratorExp(asked, items.generators, **at)], [], **at
    )
    own = ast.Name(f"@{node.func.id}", LOAD, **at)
    is_built_in = ast.Compare(node.func, [ast.Is()], [own], **at)
    return lambda other: ast.IfExp(is_built_in, exhausted, other, **at)


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and all nodes below it, in no particular order."""
    waiting = [node]
    while waiting:
        node = waiting.pop()
        yield node
        for field in node._fields:
            value = getattr(node, field, None)
            below = value if type(value) is list else (value,)
            waiting += [item for item in below if isinstance(item, ast.AST)]


def _is_literal(node: ast.expr) -> bool:
    """Return whether an expression consists of constants, so that it asks the program nothing."""
    return all(isinstance(inner, (*_LITERALS, ast.operator, ast.unaryop)) for inner in _walk(node))


def _has_effects(node: ast.expr) -> bool:
    return any(isinstance(inner, _WITH_EFFECTS) for inner in _walk(node))


def _function(body: ast.expr) -> ast.expr:
    none = ast.arguments([], [], None, [], [], None, [])
    return ast.Lambda(none, body, **_place(body))


def _continue_on_error(body: list[ast.stmt], handler: ast.stmt, at: dict[str, Any]) -> ast.stmt:
    """Return `try: body` with a handler for every exception but those that end all tests."""
    caught = ast.ExceptHandler(ast.Name(GOES_ON, LOAD, **at), None, [handler], **at)
    return ast.Try(body, [caught], [], [], **at)


def _group(statements: list[ast.stmt], at: dict[str, Any]) -> ast.stmt:
    """Return one statement that runs some others in order."""
    return statements[0] if len(statements) == 1 else ast.If(ast.Constant(True, **at), statements, [], **at)


def _note(node: ast.Assert) -> ast.Assert:
    """Pass both sides of `assert a == b` through `NOTE`."""
    return ast.Assert(_note_comparison(node.test), node.msg, **_place(node))


def _note_comparison(test: ast.expr) -> ast.expr:
    if not (isinstance(test, ast.Compare) and len(test.ops) == 1):
        return test
    sides = _note_sides(0, test.left), _note_sides(1, test.comparators[0])
    return ast.Compare(sides[0], test.ops, [sides[1]], **_place(test))


def _note_sides(place: int, value: ast.expr) -> ast.expr:
    at = _place(value)
    return ast.Call(ast.Name(NOTE, LOAD, **at), [ast.Constant(place, **at), value], [], **at)


def _place(node: ast.stmt | ast.expr) -> dict[str, Any]:
    """Copy a node's position to its replacement and return this (faster than ast.copy_location)."""
    return {
        "lineno": node.lineno,
        "col_offset": node.col_offset,
        "end_lineno": node.end_lineno,
        "end_col_offset": node.end_col_offset,
    }


def compile_beginning_ahead(statements: tuple[str, ...], exports: frozenset[str]) -> bytes | None:
    """Return the code as `compile_beginning` does, or None if the tests' own process must make it."""
    return _compile_beginning(statements, exports) if sum(map(len, statements)) <= MAX_SOURCE else None


@lru_cache(KEPT)
def _compile_beginning(statements: tuple[str, ...], exports: frozenset[str]) -> bytes:
    return compile_beginning(statements, exports)


def compile_beginning(statements: Iterable[str], exports: Iterable[str]) -> bytes:
    """Return the code of what statements do before they use the program, marshalled; None for nothing.

    `exports` are the names of the program. The code has all imports of the statements outside of `try` and
    `if`, including functions'. Everything else ends at the first statement that may use the program.
    """
    found = _Beginning(exports)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for statement in statements:
            try:
                tree: Any = compile(statement, TESTS_NAME, "exec", ast.PyCF_ONLY_AST)
            except UNCOMPILABLE:
                break  # It is reported as a test that does not compile.
            found.add(tree.body, whole=len(statement) <= MAX_SOURCE)
        if not found.nodes:
            return NOTHING
        module = ast.Module(found.nodes, [])
        try:
            return marshal.dumps(compile(module, TESTS_NAME, "exec"))
        except UNCOMPILABLE:
            return NOTHING


class _Beginning:
    """The statements that run without the program, in their order."""

    def __init__(self, exports: Iterable[str]) -> None:
        self.nodes: list[Any] = []
        # The names behind which the program may be.
        self._program = {*exports, *_REFLECTING}
        # Whether a call may reach the program by a function that was defined before.
        self._calls_are_safe = True
        self._ended = False

    def add(self, body: list[Any], *, whole: bool) -> None:
        for node in body:
            if isinstance(node, _IMPORTS):
                if getattr(node, "module", None) != "__future__":
                    self.nodes.append(node)
            elif not self._ended and whole:
                self._add_other(node)
            else:
                self._ended = True
                self._add_imports(node)

    def _add_other(self, node: Any) -> None:
        names = set(_names_in(node))
        if isinstance(node, _DEFINITIONS):
            if names & self._program or node.name in self._program:
                self._program.add(node.name)
                self._calls_are_safe = False
            else:
                self.nodes.append(node)
            self._add_imports(node)
        elif isinstance(node, ast.Assert) or names & self._program or self._may_call(node):
            self._ended = True
        else:
            self.nodes.append(node)

    def _may_call(self, node: Any) -> bool:
        return not self._calls_are_safe and any(isinstance(inner, ast.Call) for inner in _walk(node))

    def _add_imports(self, node: Any) -> None:
        """Add the imports that a function makes whenever it is called."""
        if isinstance(node, _DEFINITIONS):
            for inner in node.body:
                if isinstance(inner, _IMPORTS) and isinstance(node, _FUNCTIONS):
                    self.nodes.append(inner)
                else:
                    self._add_imports(inner)


def _names_in(node: Any) -> Iterator[str]:
    for inner in _walk(node):
        if isinstance(inner, ast.Name):
            yield inner.id
        elif isinstance(inner, _IMPORTS):
            for alias in inner.names:
                yield (alias.asname or alias.name).partition(".")[0]
        elif isinstance(inner, (ast.Global, ast.Nonlocal)):
            yield from inner.names
