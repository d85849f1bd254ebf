"""The operations of the tests on an object of the program other than a call.

They go by name, since operators are not attributes.
"""

from __future__ import annotations

import copy
import operator

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

CALCULATIONS: dict[str, Callable[..., Any]] = {
    **{
        name: getattr(operator, name)
        for name in ("add", "sub", "mul", "matmul", "truediv", "floordiv", "mod")
    },
    **{name: getattr(operator, name) for name in ("lshift", "rshift", "xor")},
    "and": operator.and_,
    "or": operator.or_,
    "pow": pow,
    "divmod": divmod,
}


def enter(value: Any) -> Any:
    """Enter a context manager as `with` does."""
    kind = type(value)
    if not hasattr(kind, "__enter__") or not hasattr(kind, "__exit__"):
        raise TypeError(f"'{kind.__name__}' object does not support the context manager protocol")
    return kind.__enter__(value)


def leave(value: Any, error: BaseException | None) -> bool:
    """Leave a context manager as `with` does, and return whether it suppresses the error.

    An error that it raises again stays with the tests.
    """
    try:
        return bool(type(value).__exit__(value, None if error is None else type(error), error, None))
    except BaseException as raised:
        if raised is not error:
            raise
        return False


def run_coroutine(coroutine: Any) -> Any:
    """Return the result of a coroutine. All coroutines of a program run in one event loop."""
    import asyncio

    try:
        loop = asyncio.get_event_loop_policy().get_event_loop()
    except RuntimeError:
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
    return loop.run_until_complete(coroutine)


def numbers_in(value: Any) -> tuple[object, ...]:
    """Return the object as a float, as an integer and as an index, with None for each that it is not."""
    return _as_number(float, value), _as_number(int, value), _as_number(operator.index, value)


def _as_number(convert: Callable[[Any], Any], value: Any) -> float | int | None:
    if not hasattr(type(value), "__index__") and not hasattr(type(value), f"__{convert.__name__}__"):
        return None
    try:
        number = convert(value)
    except Exception:
        return None
    return number if convert is float else int(number)


def _reflect(calculate: Callable[..., Any]) -> Callable[..., Any]:
    return lambda value, other: calculate(other, value)


OPERATIONS: dict[str, Callable[..., Any]] = {
    **{kind.__name__: kind for kind in (getattr, setattr, delattr, str, repr, len, iter, hash, format)},
    **{
        kind.__name__: kind
        for kind in (isinstance, issubclass, int, float, complex, bytes, abs, round, reversed)
    },
    **{name: getattr(operator, name) for name in ("eq", "lt", "le", "gt", "ge", "contains", "index")},
    **{name: getattr(operator, name) for name in ("getitem", "setitem", "delitem", "neg", "pos", "invert")},
    **CALCULATIONS,
    **{f"r{name}": _reflect(calculate) for name, calculate in CALCULATIONS.items()},
    **{f"i{name}": getattr(operator, f"i{name}", calculate) for name, calculate in CALCULATIONS.items()},
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "enter": enter,
    "close": operator.methodcaller("close"),
    "await": run_coroutine,
    "numbers": numbers_in,
}
