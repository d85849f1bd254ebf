"""Python literals in hostile text: read without evaluating anything, and compared as plain data."""

from __future__ import annotations

import ast
import warnings
from typing import Any

MAX_CHARACTERS = 100_000
"""The longest text that is parsed. Depth is bounded by Python's parser."""


class LiteralRefused(ValueError):
    """The text is not what it should be: too long, too deep, broken, or more than a literal."""


def read_literal(text: str) -> Any:
    """Return the value of a literal: numbers, strings, bytes, None, booleans, and containers of them.

    Nothing is evaluated, so neither `0 or True` nor `[0] * 3` is one. Raises LiteralRefused.
    """
    return _value(_expression(text))


def read_equated(text: str) -> Any:
    """Return the literal on the right of the first `==` of `x == literal`, with or without `assert`.

    Raises LiteralRefused.
    """
    tree = _parsed(text.strip(), "exec")
    statement = tree.body[0] if isinstance(tree, ast.Module) and len(tree.body) == 1 else None
    if isinstance(statement, ast.Assert):
        compared = statement.test
    elif isinstance(statement, ast.Expr):
        compared = statement.value
    else:
        raise LiteralRefused("not one statement that compares")
    if not isinstance(compared, ast.Compare) or not isinstance(compared.ops[0], ast.Eq):
        raise LiteralRefused("compares nothing by ==")
    return _value(compared.comparators[0])


def equal_literals(first: Any, second: Any, *, exact_types: bool) -> bool:
    """Compare two values that `read_literal` or JSON gave.

    With `exact_types`, True is not 1, 1 is not 1.0 and a tuple is not a list, at any depth; without,
    this is Python's own `==`.
    """
    try:
        return bool(_typed(first) == _typed(second) if exact_types else first == second)
    except RecursionError:
        return False


def _typed(value: Any) -> Any:
    """Return a value that equals another such value only where all types agree too."""
    match value:
        case list() | tuple():
            return type(value), [_typed(element) for element in value]
        case set() | frozenset():
            return set, {(type(element), _hashable(element)) for element in value}
        case dict():
            return dict, {(type(key), _hashable(key)): _typed(element) for key, element in value.items()}
    return type(value), value


def _hashable(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple((type(element), _hashable(element)) for element in value)
    return value


def _expression(text: str) -> ast.expr:
    tree = _parsed(text.strip(), "eval")
    if not isinstance(tree, ast.Expression):
        raise LiteralRefused("not an expression")
    return tree.body


def _parsed(text: str, mode: str) -> ast.AST:
    if len(text) > MAX_CHARACTERS:
        raise LiteralRefused(f"longer than {MAX_CHARACTERS:,} characters")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text, mode=mode)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        # Python's parser says MemoryError where the nesting is too deep for it.
        raise LiteralRefused(f"cannot be parsed ({type(error).__name__})") from error


def _value(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, RecursionError, MemoryError) as error:
        raise LiteralRefused("more than a literal") from error
