"""Read Python literals from hostile text without evaluation, and compare them as plain data."""

from __future__ import annotations

import ast
import warnings
from typing import Any

from harness.core.scoring.answers import MAX_ANSWER_CHARACTERS


class LiteralRefused(ValueError):
    """The text is too long, nested too deeply, broken, or more than a literal."""


def read_literal(text: str) -> Any:
    """Return the value of a literal: numbers, strings, bytes, None, booleans, and containers of them.

    Nothing is evaluated, so `0 or True` and `[0] * 3` are refused. Raises LiteralRefused.
    """
    return _value(_expression(text))


def read_equated(text: str) -> Any:
    """Return the literal on the right of `call(...) == literal`, with or without `assert`.

    The left side must be one call and the statement one comparison. Otherwise `f(1) == 7 == 8` would
    give 7 and 8 at once. The message of an assert must be a string, because `assert f(1) == 1, 2` may
    mean the tuple `(1, 2)`. Raises LiteralRefused.
    """
    tree = _parsed(text.strip(), "exec")
    statement = tree.body[0] if isinstance(tree, ast.Module) and len(tree.body) == 1 else None
    if isinstance(statement, ast.Assert):
        if not _is_text(statement.msg):
            raise LiteralRefused("has a message that is not a string")
        compared = statement.test
    elif isinstance(statement, ast.Expr):
        compared = statement.value
    else:
        raise LiteralRefused("not one statement that compares")
    match compared:
        case ast.Compare(left=ast.Call(), ops=[ast.Eq()], comparators=[literal]):
            return _value(literal)
    raise LiteralRefused("not one comparison of one call by ==")


def equal_literals(first: Any, second: Any, *, exact_types: bool) -> bool:
    """Return whether two values from `read_literal` or JSON are equal.

    With `exact_types`, True is not 1, 1 is not 1.0 and a tuple is not a list, at any depth. Otherwise this is
    Python's `==`, except that a complex number never equals a real one: `7+0j` is not 7. That is how
    LiveCodeBench compares.
    """
    try:
        if exact_types:
            return bool(_typed(first) == _typed(second))
        return bool(first == second) and _has_complex(first) == _has_complex(second)
    except RecursionError:
        return False


def _typed(value: Any) -> Any:
    """Return a value that equals another such value only if all types agree too."""
    match value:
        case list() | tuple():
            return type(value), [_typed(element) for element in value]
        case set() | frozenset():
            return set, {(type(element), _hashable(element)) for element in value}
        case dict():
            return dict, {(type(key), _hashable(key)): _typed(element) for key, element in value.items()}
    return type(value), value


def _has_complex(value: Any) -> bool:
    match value:
        case list() | tuple() | set() | frozenset():
            return any(_has_complex(element) for element in value)
        case dict():
            return any(_has_complex(key) or _has_complex(element) for key, element in value.items())
    return isinstance(value, complex)


def _is_text(message: ast.expr | None) -> bool:
    match message:
        case None | ast.JoinedStr() | ast.Constant(value=str()):
            return True
    return False


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
    if len(text) > MAX_ANSWER_CHARACTERS:
        raise LiteralRefused(f"longer than {MAX_ANSWER_CHARACTERS:,} characters")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text, mode=mode)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        # Python's parser raises MemoryError if the nesting is too deep for it.
        raise LiteralRefused(f"cannot be parsed ({type(error).__name__})") from error


def _value(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, RecursionError, MemoryError) as error:
        raise LiteralRefused("more than a literal") from error
