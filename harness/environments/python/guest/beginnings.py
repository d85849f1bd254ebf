"""Find what the statements of tests do before they use the program: imports, helpers and their own data.

A failure there cannot be the program's. This module takes the part that runs without any name of the program,
so that it can be tried before the program is loaded.
"""

from __future__ import annotations

import _ast as ast
import marshal
import warnings
from functools import lru_cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

TESTS_NAME = "tests.py"
KEPT = 64
# The process of the tests reads longer statements itself, because that takes time.
MAX_SOURCE = 64 * 1024
# Of such statements, only the imports are tried, because to run the rest twice would take long.
NOTHING = marshal.dumps(None)
_IMPORTS = (ast.Import, ast.ImportFrom)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_DEFINITIONS = (*_FUNCTIONS, ast.ClassDef)
# These find names that the text does not show.
_REFLECTING = frozenset(("eval", "exec", "globals", "locals", "vars", "getattr", "__import__", "compile"))


def compile_beginning_ahead(statements: tuple[str, ...], exports: frozenset[str]) -> bytes | None:
    """Return the code as `compile_beginning` does, or None if the tests' own process must make it."""
    return _compile_cached(statements, exports) if sum(map(len, statements)) <= MAX_SOURCE else None


@lru_cache(KEPT)
def _compile_cached(statements: tuple[str, ...], exports: frozenset[str]) -> bytes:
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
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                break  # It is reported as a test that does not compile.
            found.add(tree.body, whole=len(statement) <= MAX_SOURCE)
        if not found.nodes:
            return NOTHING
        module = ast.Module(found.nodes, [])
        try:
            return marshal.dumps(compile(module, TESTS_NAME, "exec"))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
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


def _walk(node: Any) -> Iterator[Any]:
    waiting = [node]
    while waiting:
        node = waiting.pop()
        yield node
        for field in node._fields:
            value = getattr(node, field, None)
            below = value if type(value) is list else (value,)
            waiting += [item for item in below if isinstance(item, ast.AST)]
