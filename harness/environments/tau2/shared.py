"""The functions that several domains have, because agents of any desk calculate, transfer and move money."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import Field

from harness.environments.tau2.world import Database, ToolError

_ALLOWED = frozenset("0123456789+-*/(). ")
_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


def calculate(
    database: Database,
    expression: Annotated[
        str, Field(description="Numbers with the operators +, -, *, / and parentheses, such as '2 * (3 + 4)'")
    ],
) -> str:
    """Calculate an expression and return its value, rounded to cents."""
    if not set(expression) <= _ALLOWED:
        raise ToolError("the expression has characters other than numbers, + - * / and parentheses")
    try:
        return str(round(float(_evaluate(ast.parse(expression.strip(), mode="eval").body)), 2))
    except (ArithmeticError, SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ToolError(f"the expression has no value: {type(error).__name__}") from error


def _evaluate(node: ast.expr) -> Any:
    match node:
        case ast.Constant(value=int() | float() as value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_evaluate(operand)
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _evaluate(operand)
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _OPERATORS:
            return _OPERATORS[type(sign)](_evaluate(left), _evaluate(right))
    raise SyntaxError


def transfer_to_human_agents(
    database: Database, summary: Annotated[str, Field(description="A summary of the user's request")]
) -> str:
    """Transfer the user to a human agent, if and only if the policy asks for it or no tool can help."""
    return "Transfer successful"


def find(database: Database, table: str, name: str, what: str) -> Any:
    """Return a record that may be changed. Raises ToolError if there is none of this name."""
    if name not in database[table]:
        raise ToolError(f"{what} not found")
    return database[table][name]


def add_money(amount: float, change: float) -> float:
    """Return a sum in whole cents, so that the order of several changes cannot be seen in it."""
    return round(amount + change, 2)
