"""The database of a service desk, and the functions that read and change it in any domain."""

from __future__ import annotations

import ast
import inspect
import json
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Literal, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from harness.core.tools import Arguments, Tool

Requestor = Literal["assistant", "user"]
_MISSING = object()

Database = dict[str, Any]
"""Tables and lists by name. The user's phone is a table of its own beside the tables of the agent."""
Function = Callable[..., Any]
"""Reads or changes a database, its first argument, and returns a JSON value. It raises ToolError before any
change."""

_ALLOWED = frozenset("0123456789+-*/(). ")
_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


class ToolError(Exception):
    """A tool cannot do what it was asked for. Its text is for the agent, or for the user."""


class Table(Mapping[str, Any]):
    """A copy of a mapping that copies each value when it is first read.

    A database has thousands of records, and a conversation reads a few.
    """

    def __init__(self, base: Mapping[str, Any]) -> None:
        self._base = base
        self._own: dict[str, Any] = {}

    def __getitem__(self, key: str) -> Any:
        if key not in self._own:
            self._own[key] = deepcopy(self._base[key])
        return self._own[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self._own[key] = value

    def __iter__(self) -> Iterator[str]:
        yield from self._base
        yield from (key for key in self._own if key not in self._base)

    def __len__(self) -> int:
        return len({*self._base, *self._own})

    def __contains__(self, key: object) -> bool:
        return key in self._own or key in self._base

    def peek(self) -> Iterator[Any]:
        """Yield all values without copies. The caller must not change them."""
        return (self._own[key] if key in self._own else self._base[key] for key in self)

    def __eq__(self, other: object) -> bool:
        """Return whether two copies of one mapping are still equal."""
        if not isinstance(other, Table) or self._base is not other._base:
            return NotImplemented
        keys = {*self._own, *other._own}
        return all(self.get(key, _MISSING) == other.get(key, _MISSING) for key in keys)

    __hash__ = None  # type: ignore[assignment]  # its values change


@dataclass(frozen=True, slots=True)
class Domain:
    """The functions over the database of one domain."""

    tools: tuple[Function, ...]
    """The tools of the agent."""
    user_tools: tuple[Function, ...] = ()
    hidden: tuple[Function, ...] = ()
    """The functions that only tasks call, to set up a database and to check it."""
    settle: Callable[[Database], None] = lambda _database: None
    """Carries the effects of a call from one part of the database to the others."""

    def find(self, name: str, requestor: Requestor | None = None) -> Function | None:
        """Return a function by its name: a tool of the requestor, or any function without one."""
        own = {"assistant": self.tools, "user": self.user_tools}
        functions = (*self.tools, *self.user_tools, *self.hidden) if requestor is None else own[requestor]
        return next((each for each in functions if each.__name__ == name), None)


@dataclass(frozen=True, slots=True)
class Call:
    """The call of a function. `compared` names the arguments that must be equal, None for all of them."""

    requestor: Requestor
    name: str
    arguments: Mapping[str, Any]
    compared: tuple[str, ...] | None = None

    def matches(self, made: Call) -> bool:
        """Return whether a call that was made is this one."""
        if (self.requestor, self.name) != (made.requestor, made.name):
            return False
        if self.compared is None:
            return dict(self.arguments) == dict(made.arguments)
        return all(self.arguments.get(name) == made.arguments.get(name) for name in self.compared)


class _Given(Arguments):
    model_config = ConfigDict(allow_inf_nan=False)


@cache
def make_tool(function: Function) -> Tool:
    """Return the tool that a function is, with the schema of its parameters after the database."""
    hints = get_type_hints(function, include_extras=True)
    parameters = list(inspect.signature(function).parameters.values())[1:]
    fields: dict[str, Any] = {
        each.name: (hints[each.name], ... if each.default is each.empty else each.default)
        for each in parameters
    }
    name = function.__name__
    arguments = create_model(name.title().replace("_", ""), __base__=_Given, **fields)
    return Tool(name, inspect.getdoc(function) or name, arguments)


class World:
    """A database in use. A call that fails changes nothing, whatever its function did before it failed."""

    def __init__(self, domain: Domain, base: Mapping[str, Any]) -> None:
        self._domain = domain
        self._base = base
        self._done: list[Call] = []
        self.database = self._copy()

    def _copy(self) -> Database:
        copied = {
            name: Table(value) if isinstance(value, Mapping) else deepcopy(value)
            for name, value in self._base.items()
        }
        self._domain.settle(copied)
        return copied

    def call(self, call: Call, *, is_setup: bool = False) -> Any:
        """Call a function and return its result. Only the set-up of a task calls hidden ones.

        Raises ToolError.
        """
        function = self._domain.find(call.name, None if is_setup else call.requestor)
        if function is None:
            raise ToolError(f"there is no tool '{call.name}'")
        try:
            given = make_tool(function).arguments.model_validate(dict(call.arguments))
            result = self._apply(function, given)
        except ValidationError as error:
            raise ToolError(f"wrong arguments: {error.errors()[0]['msg']}") from error
        except ToolError:
            self.database = self._copy()
            for done in self._done:
                again = self._domain.find(done.name)
                assert again is not None, "it was called before"  # noqa: S101
                self._apply(again, make_tool(again).arguments.model_validate(dict(done.arguments)))
            raise
        self._done.append(call)
        return result

    def _apply(self, function: Function, given: BaseModel) -> Any:
        result = function(self.database, **{name: getattr(given, name) for name in type(given).model_fields})
        # A result may be a part of the database, which later calls change.
        result = deepcopy(result)
        self._domain.settle(self.database)
        return result

    def call_all(self, calls: Iterable[Call], *, is_setup: bool = False) -> list[str]:
        """Make calls and return the errors of those that fail, in order."""
        errors = []
        for call in calls:
            try:
                self.call(call, is_setup=is_setup)
            except ToolError as error:
                errors.append(f"{call.name}: {error}")
        return errors


def show(result: Any) -> str:
    """Return a result as agents and users read it."""
    return result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)


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
