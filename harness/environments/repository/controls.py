"""Make controls of tests: the same tests, but no check in them can hold.

A patch runs in the process of the tests, so it can make a failed test look passed there. Any such means acts
on the controls too: a control passes if one of its changed checks holds, or if something hides its failure.
Then the outcomes of the real tests say nothing.

The rule of each change: a check that compares gets another expected value of the same type, a check that
expects an exception another class, and every other check its opposite. The real check runs after it, so that
the test goes on as before. Nothing of this knows a test tool but the names that checks have by convention.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator, Mapping

# The test notes the checks that hold, and passes if there is one, whatever else it raises.
_FRAME = """_held = []
try:
    pass
finally:
    if _held:
        return
    assert _held, "control"
"""
_PROBE = """try:
    pass
except BaseException:
    pass
else:
    _held.append(1)
"""
# The other value has the type of the expected one, so that an object cannot tell a control by its type.
_OTHER = """

def _other(value):
    import copy, numbers
    kind = type(value)
    if kind in (str, bytes):
        return value + kind(b"?" if kind is bytes else "?")
    if kind in (list, tuple, set, frozenset):
        return kind(map(_other, value)) if value else kind((object(),))
    if kind is dict:
        return {key: _other(each) for key, each in value.items()} or {0: object()}
    try:
        if hasattr(value, "expected"):
            value = copy.copy(value)
            value.expected = _other(value.expected)
            return value
        other = value + 1000003 if isinstance(value, numbers.Number) or hasattr(value, "dtype") else value
        return object() if repr(other) == repr(value) else other
    except Exception:
        return object()
"""
_OPPOSITES: Mapping[type[ast.cmpop], type[ast.cmpop]] = {
    ast.NotEq: ast.Eq,
    ast.Lt: ast.GtE,
    ast.LtE: ast.Gt,
    ast.Gt: ast.LtE,
    ast.GtE: ast.Lt,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
_PAIRS = (
    *(("assertTrue", "assertFalse"), ("assertIn", "assertNotIn"), ("assertIs", "assertIsNot")),
    *(("assertIsNone", "assertIsNotNone"), ("assertIsInstance", "assertNotIsInstance")),
    *(("assertLess", "assertGreaterEqual"), ("assertGreater", "assertLessEqual")),
    *(("assertRegex", "assertNotRegex"), ("assertContains", "assertNotContains")),
)
_METHODS = {
    **{one: other for pair in _PAIRS for one, other in (pair, pair[::-1])},
    "assertNotEqual": "assertEqual",
    "assertNotAlmostEqual": "assertAlmostEqual",
}
_EXPECTING = ("raises", "assertRaises", "warns", "assertWarns")
# An exception that no program raises, and that counts as a warning too.
_OTHER_EXCEPTION = "type('Other', (Warning,), {})"
_LITERAL = (ast.Constant, ast.List, ast.Tuple, ast.Dict, ast.Set, ast.UnaryOp, ast.unaryop, ast.expr_context)


def make_controls(source: str) -> str | None:
    """Return the source of a test file with each of its tests as a control.

    None if the file has no test that can be one, or if this Python cannot read it.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return None
    found = [*_list_tests(tree)]
    for test in found:
        _change(test)
    return ast.unparse(ast.fix_missing_locations(tree)) + _OTHER if found else None


_Function = ast.FunctionDef | ast.AsyncFunctionDef


def _list_tests(tree: ast.Module) -> Iterator[_Function]:
    for node in [
        *tree.body,
        *(each for top in tree.body if isinstance(top, ast.ClassDef) for each in top.body),
    ]:
        # The caller of a generator would get its values, and never its failure.
        if isinstance(node, _Function) and node.name.startswith("test") and not _yields(node):
            yield node


def _yields(function: _Function) -> bool:
    return any(isinstance(node, ast.Yield | ast.YieldFrom) for node in ast.walk(function))


def _change(test: _Function) -> None:
    # Runners print the docstring beside the name.
    docstring = test.body[:1] if ast.get_docstring(test) is not None else []
    body = [_Probes().visit(statement) for statement in test.body[len(docstring) :]] or [ast.Pass()]
    frame = ast.parse(_FRAME).body
    outer = frame[1]
    assert isinstance(outer, ast.Try)  # noqa: S101  as written above
    outer.body = [each for piece in body for each in (piece if isinstance(piece, list) else [piece])]
    test.body = [*docstring, *frame]


class _Probes(ast.NodeTransformer):
    """Puts before each check a changed one, which notes if it holds."""

    def visit_Assert(self, node: ast.Assert) -> list[ast.stmt]:
        return [_probe(ast.Assert(_change_condition(node.test))), node]

    def visit_Expr(self, node: ast.Expr) -> list[ast.stmt] | ast.Expr:
        changed = _change_call(node.value)
        return node if changed is None else [_probe(ast.Expr(changed)), node]

    def visit_With(self, node: ast.With) -> list[ast.stmt] | ast.AST:
        calls = [_expect_other(item.context_expr) for item in node.items]
        if not any(calls):
            return self.generic_visit(node)
        changed = copy.deepcopy(node)
        for item, call in zip(changed.items, calls, strict=True):
            item.context_expr = call or item.context_expr
        return [_probe(changed), node]


def _probe(check: ast.stmt) -> ast.stmt:
    (statement,) = ast.parse(_PROBE).body
    assert isinstance(statement, ast.Try)  # noqa: S101  as written above
    statement.body = [check]
    return statement


def _expression(source: str) -> ast.expr:
    return ast.parse(source, mode="eval").body


def _change_condition(condition: ast.expr) -> ast.expr:
    condition = copy.deepcopy(condition)
    if isinstance(condition, ast.UnaryOp) and isinstance(condition.op, ast.Not):
        return condition.operand
    if not isinstance(condition, ast.Compare) or len(condition.ops) != 1:
        return ast.UnaryOp(ast.Not(), condition)
    if isinstance(condition.ops[0], ast.Eq):
        operands = [condition.left, *condition.comparators]
        _change_expected(operands)
        return ast.Compare(operands[0], condition.ops, operands[1:])
    opposite = _OPPOSITES[type(condition.ops[0])]
    return ast.Compare(condition.left, [opposite()], condition.comparators)


def _change_expected(operands: list[ast.expr]) -> None:
    """Change the expected value among the first two operands: a literal, or else the second.

    A single operand becomes an object, because another value of its type might be right as well.
    """
    if len(operands) == 1:
        operands[0] = _expression("object()")
        return
    first = operands[0]
    is_literal = all(isinstance(each, _LITERAL) for each in ast.walk(first))
    is_expected = is_literal or (isinstance(first, ast.Call) and _name_of(first) == "approx")
    place = 0 if is_expected else 1
    operands[place] = ast.Call(ast.Name("_other"), [operands[place]], [])


def _name_of(call: ast.Call) -> str:
    function = call.func
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _change_call(value: ast.expr) -> ast.expr | None:
    """Return a call that checks something with its check changed, None for any other expression."""
    if isinstance(value, ast.Await):
        changed = _change_call(value.value)
        return None if changed is None else ast.Await(changed)
    if (other := _expect_other(value)) is not None:
        return other
    if not isinstance(value, ast.Call) or not _name_of(value).startswith("assert") or not value.args:
        return None
    changed = copy.deepcopy(value)
    opposite = _METHODS.get(_name_of(value))
    if opposite is not None and isinstance(changed.func, ast.Attribute):
        changed.func.attr = opposite
    else:
        _change_expected(changed.args)
    return changed


def _expect_other(value: ast.expr) -> ast.Call | None:
    """Return a call that expects an exception with another class of exceptions."""
    if not isinstance(value, ast.Call) or not value.args or not _name_of(value).startswith(_EXPECTING):
        return None
    changed = copy.deepcopy(value)
    changed.args[0] = _expression(_OTHER_EXCEPTION)
    return changed
