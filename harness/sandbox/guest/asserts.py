"""Tests compiled, their asserts changed to remember what they compare, and to go on where they fail.

A test goes on after an assert that failed. Where it ended there, to be asked again would tell the
candidate that its last answer was right, and samples of one task can tell each other that much: by
process ids, inode numbers or the page cache, whatever is cleaned up between them.
"""

from __future__ import annotations

import ast
import marshal
import warnings
from functools import lru_cache

from .trusted_tests import ASSERTION, FAILED, NOTE, TESTS_NAME

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

CAUGHT = "@error"
LOAD = ast.Load()
# Where statements stand in the nodes of a syntax tree.
STATEMENT_LISTS = ("body", "handlers", "orelse", "finalbody", "cases")
# To compile what is longer takes time and memory: that is left to the process which runs it.
MAX_STATEMENT = 64 * 1024
KEPT = 64


def ahead(statement: str) -> bytes | None:
    """Return a test as marshalled code for this interpreter, or None: then who runs it has to compile it.

    For PID 1, which runs nothing of it, keeps it for the next sample, and writes to pages of its own,
    where a fork would have to copy each of them.
    """
    return _kept(statement) if len(statement) <= MAX_STATEMENT else None


@lru_cache(KEPT)
def _kept(statement: str) -> bytes | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they would be taken for our own last words
            return marshal.dumps(compiled(statement))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None  # that test fails by it, which its own process has to report


def compiled(statement: str) -> Any:
    """Compile a test, its asserts changed to remember what they compare, and to go on where they fail."""
    tree = ast.parse(statement, TESTS_NAME)
    # Asserts are not below expressions, which may be nested deeper than any recursion goes.
    waiting: list[tuple[ast.AST, bool]] = [(tree, False)]
    while waiting:
        node, caught = waiting.pop()
        for field in STATEMENT_LISTS:
            children = getattr(node, field, None)
            if type(children) is not list:
                continue
            # What a test catches itself must be raised.
            caught_here = caught or (field == "body" and bool(getattr(node, "handlers", None)))
            waiting += [(child, caught_here) for child in children if not isinstance(child, ast.Assert)]
            children[:] = [
                _noting(child, caught_here) if isinstance(child, ast.Assert) else child for child in children
            ]
    return compile(tree, TESTS_NAME, "exec")


def _noting(node: ast.Assert, caught: bool) -> ast.stmt:
    """Pass both sides of `assert a == b` through `NOTE`, and hand a failure that none catches to `FAILED`."""
    if isinstance(node.test, ast.Compare) and len(node.test.ops) == 1:
        compare = node.test
        compare.left = _noted(0, compare.left)
        compare.comparators = [_noted(1, compare.comparators[0])]
    if caught:
        return node
    at = _place(node)
    report = ast.Call(ast.Name(FAILED, LOAD, **at), [ast.Name(CAUGHT, LOAD, **at)], [], **at)
    kind = ast.Name(ASSERTION, LOAD, **at)
    handler = ast.ExceptHandler(kind, CAUGHT, [ast.Expr(report, **at)], **at)
    return ast.Try([node], [handler], [], [], **at)


def _noted(place: int, value: ast.expr) -> ast.expr:
    at = _place(value)
    return ast.Call(ast.Name(NOTE, LOAD, **at), [ast.Constant(place, **at), value], [], **at)


def _place(node: ast.stmt | ast.expr) -> dict[str, Any]:
    """Where a node stands, for a new one in its stead (ast.copy_location asks after each of these twice)."""
    return {
        "lineno": node.lineno,
        "col_offset": node.col_offset,
        "end_lineno": node.end_lineno,
        "end_col_offset": node.end_col_offset,
    }
