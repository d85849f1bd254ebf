"""Build the trusted tests of a program from their source, and find the names that the program defines."""

from __future__ import annotations

import ast
import builtins
import symtable
from collections.abc import Sequence

from harness.benchmarks.source import class_attributes, imports_of, names_used, parse, top_level_names
from harness.types import ProgramTests

_BUILTINS = frozenset(dir(builtins))


def build_from_solution(solution: ast.Module, tests: Sequence[str], setup: str) -> ProgramTests | None:
    """Return tests that call what a reference program defines, or None if they use none of its names.

    `setup` is source that runs before the tests, and before the program. Raises SyntaxError and ValueError
    for source that is not Python.
    """
    used = names_used(ast.Module([*parse(setup).body, *parse("\n".join(tests)).body], []))
    defined = top_level_names(solution)
    exports = [name for name in defined if name in used]
    if not exports:
        return None
    return ProgramTests(
        setup="\n".join([setup, *imports_of(solution, used - set(exports))]),
        preamble=setup,
        statements=drop_empty(tests),
        exports={name: name for name in exports},
        classes={
            name: class_attributes(node)
            for name, node in defined.items()
            if name in exports and isinstance(node, ast.ClassDef)
        },
    )


def drop_empty(tests: Sequence[str]) -> tuple[str, ...]:
    """Return the tests that have any source."""
    return tuple(test for test in tests if test.strip())


def find_missing_names(source: str) -> list[str]:
    """Return the names that source reads, and that neither it nor Python defines, in their order.

    The rules are those of Python's own scopes. Raises SyntaxError for source that is not Python.
    """
    read: dict[str, None] = {}
    defined: set[str] = set()
    scopes = [symtable.symtable(source, "<tests>", "exec")]
    while scopes:
        scope = scopes.pop(0)
        is_module = scope.get_type() == "module"
        for symbol in scope.get_symbols():
            if not is_module and not symbol.is_global():
                continue
            if symbol.is_assigned() or symbol.is_imported():
                defined.add(symbol.get_name())
            if symbol.is_referenced():
                read[symbol.get_name()] = None
        scopes += scope.get_children()
    return [name for name in read if name not in defined and name not in _BUILTINS]
