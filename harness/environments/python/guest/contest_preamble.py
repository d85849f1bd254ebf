"""The imports and settings that LiveCodeBench's runner puts before every program, made ahead of the forks.

The names are imported in the spawner, once for all programs of a container. The import of a name writes to
its object, so that each program that imported them itself would copy hundreds of pages of memory. The text is
a constant of this package, so no data of a benchmark runs in the spawner.

Source: `testing_util.py` of LiveCodeBench (Jain et al. 2024, arXiv 2403.07974).
"""

from __future__ import annotations

import sys
import types

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

RECURSION_LIMIT = 50_000
INT_DIGITS = 50_000

# The order matters, because each import hides names of those before it, and the last ones restore modules.
_NAMES_OF = (
    *("string", "re", "datetime", "collections", "heapq", "bisect", "copy", "math", "random", "statistics"),
    *("itertools", "functools", "operator", "io", "sys", "json", "typing"),
)
# The runner imports all names of `builtins` after those that hide some of them, such as `pow`. Deleting the
# names that hide them has the same effect, and a program that replaces `builtins.print` still sees its own.
_SHOW_BUILTINS = (
    "for _ in [_ for _ in vars(__import__('builtins')) if _[0] != '_']: globals().pop(_, None)",
    "del _",
)
_MODULES = (
    *("string", "re", "datetime", "collections", "heapq", "bisect", "copy", "math", "random", "statistics"),
    *("itertools", "functools", "operator", "io", "sys", "json"),
)

_IMPORTS = "\n".join(
    [
        *(f"from {name} import *" for name in _NAMES_OF),
        *_SHOW_BUILTINS,
        *(f"import {name}" for name in _MODULES),
        "",
    ]
)
_SETTINGS = "\n".join(
    [
        f"sys.setrecursionlimit({RECURSION_LIMIT})",
        f"if hasattr(sys, 'set_int_max_str_digits'): sys.set_int_max_str_digits({INT_DIGITS})",
        "",
    ]
)
PREAMBLE = _IMPORTS + _SETTINGS
_PREAMBLE_BYTES = PREAMBLE.encode()
# The names of `sys` whose objects a child replaces before it runs its program.
_REPLACED = ("stdin", "argv", "orig_argv", "setrecursionlimit", "getrecursionlimit")


class _Ahead:
    """The module with the names of the preamble, and the code of its settings, for all children."""

    module: types.ModuleType | None = None
    settings: types.CodeType | None = None


def prepare(module: types.ModuleType) -> None:
    """Import the names of the preamble into `module`. Each later child has its own copy of it."""
    exec(compile(_IMPORTS, "<preamble>", "exec", dont_inherit=True), module.__dict__)
    _Ahead.module = module
    _Ahead.settings = compile(_SETTINGS, "<preamble>", "exec", dont_inherit=True)


def find(preamble: bytes | str) -> types.ModuleType | None:
    """Return the prepared module if `preamble` is PREAMBLE, or None if it must run in full."""
    return _Ahead.module if preamble in (PREAMBLE, _PREAMBLE_BYTES) else None


def finish(namespace: dict[str, Any]) -> None:
    """Complete the preamble in the namespace of a module that `find` returned."""
    for name in _REPLACED:
        if hasattr(sys, name):
            namespace[name] = getattr(sys, name)
    if _Ahead.settings is not None:
        exec(_Ahead.settings, namespace)
