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

from .trusted_tests import EQUAL, FAILED, NOTE, TESTS_NAME

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

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
            for place, child in enumerate(children):
                if isinstance(child, ast.Assert):
                    children[place] = _noting(child) if caught_here else _going_on(child)
                else:
                    waiting.append((child, caught_here))
    return compile(tree, TESTS_NAME, "exec")


def _going_on(node: ast.Assert) -> ast.stmt:
    """Turn `assert a == b` into a call of `EQUAL`, any other into `... or` a call of `FAILED`."""
    at = _place(node)
    test, said = node.test, [] if node.msg is None else [node.msg]
    # A call has its arguments evaluated, which a message may only be where its assert fails.
    plain = all(isinstance(message, ast.Constant) for message in said)
    if plain and isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Eq):
        sides = [test.left, test.comparators[0], *said]
        return ast.Expr(ast.Call(ast.Name(EQUAL, LOAD, **at), sides, [], **at), **at)
    failed = ast.Call(ast.Name(FAILED, LOAD, **at), said, [], **at)
    return ast.Expr(ast.BoolOp(ast.Or(), [_noting(node).test, failed], **at), **at)


def _noting(node: ast.Assert) -> ast.Assert:
    """Pass both sides of `assert a == b` through `NOTE`."""
    if isinstance(node.test, ast.Compare) and len(node.test.ops) == 1:
        compare = node.test
        compare.left = _noted(0, compare.left)
        compare.comparators = [_noted(1, compare.comparators[0])]
    return node


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
