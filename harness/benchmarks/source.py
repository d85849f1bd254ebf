"""The names that trusted Python source defines and uses, read from its syntax tree. Nothing is run."""

from __future__ import annotations

import ast
import builtins
import warnings
from collections.abc import Iterable

# The methods that decorators add to a class.
_ORDER = ("__lt__", "__le__", "__gt__", "__ge__")
_DATACLASS = ("__eq__", "__repr__")


def parse(source: str) -> ast.Module:
    """Return the syntax tree of a program, and suppress the warnings that are for its author.

    Raises SyntaxError or ValueError as `ast.parse` does, and SyntaxError for a program nested too deeply.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            # A file may begin with a byte order mark, which Python skips.
            return ast.parse(source.removeprefix("\ufeff"))
        except (RecursionError, MemoryError) as error:
            raise SyntaxError("nested too deeply") from error


def top_level_names(module: ast.Module) -> dict[str, ast.stmt]:
    """Return the statements that define names at the top level of a program, by name and in order."""
    defined: dict[str, ast.stmt] = {}
    for node in module.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            defined[node.name] = node
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            for name in _stored(node):
                defined[name] = node
    return defined


def names_used(tests: ast.Module) -> set[str]:
    """Return the names that tests read but do not define themselves."""
    read_names = {
        part.id for part in ast.walk(tests) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load)
    }
    imported = {
        bound_name(alias)
        for part in ast.walk(tests)
        if isinstance(part, (ast.Import, ast.ImportFrom))
        for alias in part.names
    }
    return read_names - _stored(tests) - imported


def imports_of(solution: ast.Module, wanted: Iterable[str]) -> list[str]:
    """Return the top-level imports that define names in `wanted` which are not built in."""
    names = {name for name in wanted if not hasattr(builtins, name)}
    return [
        ast.unparse(node)
        for node in solution.body
        if isinstance(node, (ast.Import, ast.ImportFrom))
        and any(bound_name(alias) in names for alias in node.names)
    ]


def class_attributes(node: ast.ClassDef) -> tuple[str, ...]:
    """Return the names that a class defines: in its body, by its decorator, and on `self`."""
    names: set[str] = set()
    for statement in node.body:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(statement.name)
        elif isinstance(statement, (ast.Assign, ast.AnnAssign)):
            names |= _stored(statement)
    for part in ast.walk(node):
        if (
            isinstance(part, ast.Attribute)
            and isinstance(part.ctx, ast.Store)
            and isinstance(part.value, ast.Name)
        ):
            names.add(part.attr)
    decorators = " ".join(map(ast.unparse, node.decorator_list))
    if "dataclass" in decorators:
        names |= {*_DATACLASS}
    if "total_ordering" in decorators or "order=True" in decorators:
        names |= {*_ORDER}
    return tuple(sorted(names))


def bound_name(alias: ast.alias) -> str:
    """Return the name that an import binds."""
    return (alias.asname or alias.name).partition(".")[0]


def _stored(node: ast.AST) -> set[str]:
    return {
        part.id for part in ast.walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)
    }
