"""Drive a program: the functions that rewritten asserts call while the program lives. They compare nothing.

`compiled_tests` takes an assert's expression apart. Its calls are made, but arithmetic, comparisons and pure
functions over plain data are deferred, because their time could reveal whether an answer was right.
"""

from __future__ import annotations

import operator
import sys
import types

from .conversation import Diverged
from .evidence import bound, describe, show
from .peer import CandidateLost
from .plain import Converted, Lookalike, base_of, copied
from .remote import RemoteObject
from .values import is_array

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from .peer import Candidate

# The names that a rewritten assert uses. No test and no program can use them otherwise.
DRIVE, LOOKED_INTO, APPLY, EXHAUST = "@drive", "@looked into", "@apply", "@exhaust"
GOES_ON = "@goes on"
# Operators by the names of their syntax tree nodes.
OPERATORS: dict[str, Callable[..., Any]] = {
    "Add": operator.add,
    "Sub": operator.sub,
    "Mult": operator.mul,
    "Div": operator.truediv,
    "FloorDiv": operator.floordiv,
    "Mod": operator.mod,
    "Pow": operator.pow,
    "UAdd": operator.pos,
    "USub": operator.neg,
    "Index": operator.getitem,
}
# An assert continues after every exception but those for a lost program and a failed replay.
CAUGHT = (Exception, SystemExit, KeyboardInterrupt, GeneratorExit)

PURE_MODULES = frozenset(("builtins", "math", "cmath", "_operator", "copy", "numpy"))
IMPURE = frozenset(
    ("__import__", "breakpoint", "compile", "delattr", "eval", "exec", "input", "open", "print", "setattr")
)
_CONTAINERS: frozenset[Any] = frozenset((list, dict, set))
_PLAIN = frozenset(
    (type(None), bool, int, float, complex, str, bytes, range, list, tuple, dict, set, frozenset)
)
# Methods that change their object. All other methods of plain data only compute.
_CHANGING = frozenset(
    (
        *("add", "append", "clear", "difference_update", "discard", "extend", "insert"),
        *("intersection_update", "pop", "popitem", "remove", "reverse", "setdefault", "sort"),
        *("symmetric_difference_update", "update"),
    )
)
_SCALARS = frozenset((type(None), bool, int, float, complex, str, bytes, range))


class Left:
    """A deferred pure call. `do` makes the call if a real call needs its value."""

    __slots__ = ("args", "function", "kwargs")

    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.function = function
        self.args = args
        self.kwargs = kwargs

    def do(self) -> Any:
        kwargs = {name: _value(value) for name, value in self.kwargs.items()}
        return self.function(*map(_value, self.args), **kwargs)


class Driver:
    """The functions that the rewritten asserts of one program's tests call."""

    def __init__(self, candidate: Candidate) -> None:
        self._candidate = candidate

    def names(self) -> dict[str, Any]:
        """Return the names for the tests' namespace."""
        return {
            DRIVE: drive,
            LOOKED_INTO: ask_items,
            APPLY: self.apply,
            EXHAUST: exhaust,
            GOES_ON: CAUGHT,
            **{f"@{name}": function for name, function in OPERATORS.items()},
            "@all": all,
            "@any": any,
        }

    def apply(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Call a function, or defer the call if it is pure and cannot reach an object of the program."""
        if is_pure(function):
            # A container may contain an iterator of the program only if one has crossed.
            plain = _SCALARS if self._candidate.has_lazy_objects else _PLAIN
            given = map(type, (*args, *kwargs.values()))
            if all(
                kind in plain or kind is Left or base_of(kind) in plain or is_array(kind) for kind in given
            ):
                # A later call in the same expression may change the containers.
                kwargs = {name: _keep_contents(value) for name, value in kwargs.items()}
                return Left(function, tuple(map(_keep_contents, args)), kwargs)
            try:
                return Left(function, args, kwargs).do()
            except CAUGHT:
                return Left(function, args, kwargs)  # The error shows when the tests judge.
        return Left(function, args, kwargs).do()


def drive(value: object) -> None:
    """Ask what an assert asks of its value, which is the truth of an object of the program."""
    if isinstance(value, RemoteObject):
        bool(value)


def ask_items(left: object, *containers: object) -> None:
    """Accept the operands of `in`. Only an object of the program has to be asked for its items."""
    for container in containers:
        if isinstance(container, RemoteObject):
            operator.contains(container, _value(left))  # type: ignore[arg-type]
        elif hasattr(type(container), "__next__"):
            exhaust(container)  # type: ignore[arg-type]
        left = container


def exhaust(items: Iterable[object]) -> None:
    """Visit all items that `all` or `any` may visit, wherever these would stop."""
    for _ in items:
        pass


def is_pure(function: object) -> bool:
    """Return whether a call with plain data has no effect and calls nothing else."""
    kind = type(function)
    if kind is type:
        return getattr(function, "__module__", "") in PURE_MODULES or issubclass(function, Converted)  # type: ignore[arg-type]
    if kind is types.MethodType and isinstance(function.__self__, Lookalike):  # type: ignore[attr-defined]
        return function.__name__ not in _CHANGING  # type: ignore[attr-defined]
    if kind is not types.BuiltinFunctionType and kind is not types.FunctionType:
        return False
    if kind is types.BuiltinFunctionType and base_of(type(function.__self__)) in _PLAIN:  # type: ignore[attr-defined]
        return function.__name__ not in _CHANGING  # type: ignore[attr-defined]
    return function.__module__ in PURE_MODULES and function.__name__ not in IMPURE  # type: ignore[attr-defined]


def _keep_contents(value: Any) -> Any:
    return copied(value) if base_of(type(value)) in _CONTAINERS else value


def _value(value: Any) -> Any:
    return value.do() if type(value) is Left else value


MAX_EVIDENCE = 2000
TESTS_NAME = "tests.py"
SETUP_NAME = "setup.py"
# The names that a rewritten assert uses. No test and no program can use them otherwise.
NOTE, EQUAL, FAILED, RAISED = "@note", "@equal", "@failed", "@raised"


class Judge:
    """Records whether a test has failed, and the evidence of the first failure of all.

    A test continues after a failed assert, because its duration must reveal nothing to the next sample.
    """

    def __init__(self, candidate: Candidate, statements: list[str]) -> None:
        self._candidate = candidate
        self._statements = statements
        self._compared: dict[int, Any] = {}
        self.failing = False
        self.results: list[str] = []
        self.evidence: str | None = None
        self.error_name: str | None = None

    def names(self) -> dict[str, Any]:
        """Return the names for the tests' namespace."""
        return {
            NOTE: self.note,
            EQUAL: self.equal,
            FAILED: self.record_failure,
            RAISED: self.record_exception,
            GOES_ON: CAUGHT,
        }

    def begin(self) -> None:
        """Start the next test."""
        self._candidate.last_call = None
        self._compared.clear()
        self.failing = False

    def end(self) -> None:
        """Record the result of this test."""
        self.results.append("failed" if self.failing else "passed")

    def note(self, place: int, value: Any) -> Any:
        self._compared[place] = value
        return value

    def equal(self, left: Any, right: Any, *message: Callable[[], object]) -> None:
        """Judge `assert left == right`. The message is a function, which is called if the assert fails."""
        self._compared[0], self._compared[1] = left, right
        if not left == right:  # noqa: SIM201 - `!=` may be another method
            self.fail(self._assertion_error(message), sys._getframe(1).f_lineno)

    def record_failure(self, *message: Callable[[], object]) -> None:
        """Record that an assert of any other kind has failed."""
        self.fail(self._assertion_error(message), sys._getframe(1).f_lineno)

    def record_exception(self) -> None:
        """Record the exception that the expression of an assert has raised."""
        error = sys.exc_info()[1]
        if error is not None:
            self.fail(error, line_of(error))

    def fail(self, error: BaseException, line: int | None) -> None:
        """Record that the test fails. The first failure of all gives the evidence."""
        self.failing = True
        if self.evidence is None:
            self.error_name = type(error).__name__
            place = len(self.results)
            text = self._failure(error, line, self._statements[place])
            self.evidence = f"test {place + 1}: {text}"

    def _assertion_error(self, message: tuple[Callable[[], object], ...]) -> AssertionError:
        # Only the first failure is shown, so that the number of failures costs no time.
        return _assertion_error(message if self.evidence is None else ())

    def _failure(self, error: BaseException, line: int | None, statement: str) -> str:
        """Return the failed line with the reason, the values that it compared, and the last call."""
        lines = statement.splitlines()
        text = lines[line - 1].strip() if line and line <= len(lines) else statement.strip()
        parts = [f"{bound(text, 600)}: {describe(error)}"]
        if isinstance(error, AssertionError) and len(self._compared) == 2:
            parts.append(f"left is {show(self._compared[0])}, right is {show(self._compared[1])}")
        if self._candidate.last_call is not None:
            args, kwargs, outcome = self._candidate.last_call
            given = [show(arg) for arg in args] + [f"{name}={show(arg)}" for name, arg in kwargs.items()]
            result = f"returned {show(outcome[0])}" if outcome else "did not return"
            parts.append(f"the last call, with ({bound(', '.join(given), 400)}), {result}")
        return "; ".join(parts)


def _assertion_error(message: tuple[Callable[[], object], ...]) -> AssertionError:
    if not message:
        return AssertionError()
    try:
        return AssertionError(message[0]())
    except CAUGHT as error:
        return AssertionError(f"(its message raised {type(error).__name__})")
    except (CandidateLost, Diverged):
        return AssertionError("(its message needs the program, which has ended)")


def line_of(error: BaseException) -> int | None:
    """Return the line of the tests that raised an exception, or None."""
    line = None
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == TESTS_NAME:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line
