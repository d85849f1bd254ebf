"""Functions of the tests in the program's process, with their own names and parameters.

A program may look at a function that it gets. One that curries it counts its parameters, and a decorator
copies its name. Only these facts cross, and every call runs in the tests' process.
"""

from __future__ import annotations

import types
from functools import lru_cache
from keyword import iskeyword

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Call = Callable[[tuple[Any, ...], dict[str, Any]], Any]

MAX_PARAMETERS = 255
MAX_TEXT = 10_000
VARARGS, VARKEYWORDS = 0x04, 0x08
MISSING = object()


def describe(function: Any) -> tuple[object, ...] | None:
    """Return a function's name, docstring and parameters as plain data, or None if it has no Python code.

    The parameters are their names, then how many of them are positional, positional only and optional by
    position, then whether there are `*args` and `**kwargs`, then the names that are optional by keyword only.
    """
    bound = isinstance(function, types.MethodType)
    inner = function.__func__ if bound else function
    if not isinstance(inner, types.FunctionType):
        return None
    code = inner.__code__
    first = 1 if bound and code.co_argcount else 0
    positional = code.co_argcount - first
    doc = inner.__doc__
    return (
        inner.__name__[:MAX_TEXT],
        doc[:MAX_TEXT] if type(doc) is str else None,
        code.co_varnames[first : code.co_argcount + code.co_kwonlyargcount],
        (positional, max(code.co_posonlyargcount - first, 0), min(len(inner.__defaults__ or ()), positional)),
        bool(code.co_flags & VARARGS),
        bool(code.co_flags & VARKEYWORDS),
        tuple(inner.__kwdefaults__ or ()),
    )


def build(call: Call, description: Any) -> Callable[..., Any]:
    """Return a function that passes its arguments to `call`, with the name and parameters described."""

    def callback(*args: Any, **kwargs: Any) -> Any:
        return call(args, kwargs)

    if description is None:
        return callback
    name, doc, *parameters = description
    make = _compile_maker(*parameters)
    built = callback if make is None else make(lambda *parts: call(*_arguments(*parts)), MISSING)
    built.__name__ = built.__qualname__ = name
    built.__doc__ = doc
    return built


def _arguments(
    first: tuple[Any, ...], optional: dict[str, Any], rest: tuple[Any, ...], keywords: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments that the caller gave. The tests' process has the defaults of the others."""
    if rest:
        first, optional = (*first, *optional.values(), *rest), {}
    given = {name: value for name, value in {**optional, **keywords}.items() if value is not MISSING}
    return tuple(value for value in first if value is not MISSING), given


@lru_cache(256)
def _compile_maker(
    names: tuple[str, ...],
    counts: tuple[int, int, int],
    has_varargs: bool,
    has_varkeywords: bool,
    with_default: tuple[str, ...],
) -> Callable[..., Any] | None:
    """Return a maker of functions with these parameters, or None if they cannot be written in Python."""
    if len(names) > MAX_PARAMETERS or not all(name.isidentifier() and not iskeyword(name) for name in names):
        return None
    positional, only_positional, optional = counts
    by_position, by_keyword = names[:positional], names[positional:]
    with_default = (*by_position[positional - optional :], *with_default)
    # The function's own variables need names that are not parameters.
    own = "own"
    while any(name.startswith(own) for name in names):
        own += "_"
    head = [f"{name}={own}_missing" if name in with_default else name for name in names]
    if has_varargs or by_keyword:
        head.insert(positional, f"*{own}_args" if has_varargs else "*")
    if only_positional:
        head.insert(only_positional, "/")
    if has_varkeywords:
        head.append(f"**{own}_kwargs")
    first = by_position[: max(only_positional, positional - optional)]
    parts = (
        f"({''.join(f'{name}, ' for name in first)})",
        f"{{{_items(by_position[len(first) :])}}}",
        f"{own}_args" if has_varargs else "()",
        f"{{{_items(by_keyword)}{f'**{own}_kwargs' if has_varkeywords else ''}}}",
    )
    source = (
        f"def make({own}_call, {own}_missing):\n"
        f"    def callback({', '.join(head)}):\n"
        f"        return {own}_call({', '.join(parts)})\n"
        "    return callback\n"
    )
    namespace: dict[str, Any] = {}
    exec(source, namespace)
    made: Callable[..., Any] = namespace["make"]
    return made


def _items(names: tuple[str, ...]) -> str:
    return "".join(f"{name!r}: {name}, " for name in names)
