"""Find out whether a check only compares its parameters, without a look at the machine."""

from __future__ import annotations

import ast

from harness.environments.os.scripts import Script

# None of these modules opens a file, starts a program or executes text as code.
_PLAIN_MODULES = {
    *("collections", "decimal", "fractions", "functools", "itertools", "json", "math"),
    *("operator", "re", "statistics", "string", "sys", "unicodedata"),
}
_REACHING_NAMES = {
    *("breakpoint", "compile", "delattr", "eval", "exec", "getattr", "globals", "help", "input", "locals"),
    *("open", "setattr", "vars"),
}
_REACHING_ATTRIBUTES = {"modules", "path", "meta_path", "path_hooks"}


def is_comparison(script: Script) -> bool:
    """Return whether a check provably reads nothing but its parameters.

    Only Python's syntax can prove it: the check imports harmless modules only, calls no function that opens,
    starts or executes anything, and uses no name with two leading underscores. Returns False if in doubt.
    """
    if script.language != "python":
        return False
    try:
        nodes = list(ast.walk(ast.parse(script.code)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return all(is_plain_node(node) for node in nodes)


def is_plain_node(node: ast.AST) -> bool:
    match node:
        case ast.Import(names=names):
            return all(alias.name in _PLAIN_MODULES for alias in names)
        case ast.ImportFrom(module=module, names=names, level=level):
            wanted = {alias.name for alias in names}
            return module in _PLAIN_MODULES and level == 0 and not wanted & _REACHING_ATTRIBUTES
        case ast.Name(id=name):
            return name not in _REACHING_NAMES and (not name.startswith("__") or name == "__name__")
        case ast.Attribute(attr=name):
            return name not in _REACHING_ATTRIBUTES and not name.startswith("_")
    return True
