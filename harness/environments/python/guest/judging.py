"""Judge a program by the record of its answers, after its death. Rewritten asserts call these functions."""

from __future__ import annotations

import sys

from .conversation import Diverged
from .display import show
from .driving import CAUGHT, GOES_ON
from .evidence import bound, describe
from .peer import CandidateLost

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .peer import Candidate

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
