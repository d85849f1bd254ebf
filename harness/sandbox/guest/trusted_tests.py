"""The trusted side: run the tests in this process, with stand-ins for what the candidate defines.

Of the candidate's process nothing arrives here but plain data, rebuilt from bytes by a decoder
that can build nothing else (DESIGN section 3.4). Whatever else comes, or does not come, fails.
"""

from __future__ import annotations

import builtins
import marshal
import sys

from .peer import Candidate, CandidateLost

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAX_EVIDENCE = 2000
TESTS_NAME = "tests.py"
# The names that a rewritten assert uses: no test and no program can mean them.
NOTE = "@note"
EQUAL = "@equal"
FAILED = "@failed"


def run(descriptor: int, request: dict[str, Any]) -> dict[str, Any]:
    """Run every test of `request` against the candidate on `descriptor`.

    `compiled` holds each statement as `asserts.ahead` returns it. Returns `results` (one of `passed` or
    `failed` for each statement, in order; shorter where the candidate was lost), `evidence` (of the first
    failure), `error` (the exception's name), and `breach`.
    """
    candidate = Candidate(descriptor, request["classes"])
    compared: dict[int, Any] = {}
    results: list[str] = []
    evidence: str | None = None
    error_name: str | None = None

    failing = False

    def note(place: int, value: Any) -> Any:
        compared[place] = value
        return value

    def failed(error: BaseException, line: int | None) -> None:
        nonlocal failing, evidence, error_name
        failing = True
        if evidence is None:
            error_name = type(error).__name__
            place = len(results)
            failure = _failure(error, line, request["statements"][place], candidate, compared)
            evidence = f"test {place + 1}: {failure}"

    def equal(left: Any, right: Any, *message: Any) -> None:
        compared[0], compared[1] = left, right
        if left == right:
            return
        failed(AssertionError(*message), sys._getframe(1).f_lineno)

    def refuted(*message: Any) -> None:
        failed(AssertionError(*message), sys._getframe(1).f_lineno)

    namespace: dict[str, Any] = {
        "__name__": "tests",
        "__builtins__": builtins,
        NOTE: note,
        EQUAL: equal,
        FAILED: refuted,
    }
    try:
        stage = "the program failed to load"
        candidate.load(request["preamble"], request["program"])
        stage = "the tests' own set-up failed"
        if request["setup"]:
            exec(compile(request["setup"], "setup.py", "exec"), namespace)
        stage = "the program does not define what the tests use"
        for alias, name in request["exports"].items():
            namespace.pop(alias, None)
            namespace[alias] = candidate.get(name)
    except BaseException as error:
        error_name = type(error).__name__
        evidence = f"{stage}: {described(error)}"
        results = ["failed"] * len(request["statements"])
    else:
        for statement, ahead in zip(request["statements"], request["compiled"]):
            candidate.last_call = None
            compared.clear()
            failing = False
            try:
                exec(_code(statement, ahead), namespace)
                if candidate.lost is not None:
                    raise CandidateLost(candidate.lost)
            except BaseException as error:
                failed(error, _line_of(error))
            results.append("failed" if failing else "passed")
            if candidate.lost is not None:
                break
    return {
        "results": results,
        "evidence": None if evidence is None else bounded(evidence, MAX_EVIDENCE),
        "error": error_name,
        "breach": candidate.breach,
        "lost": candidate.lost,
    }


def _code(statement: str, ahead: bytes | None) -> Any:
    if ahead is not None:
        return marshal.loads(ahead)
    from . import asserts

    return asserts.compiled(statement)


def _line_of(error: BaseException) -> int | None:
    line = None
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == TESTS_NAME:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def _failure(
    error: BaseException,
    line: int | None,
    statement: str,
    candidate: Candidate,
    compared: dict[int, Any],
) -> str:
    """Say which line failed and why, what it compared, and what was called last."""
    lines = statement.splitlines()
    text = lines[line - 1].strip() if line and line <= len(lines) else statement.strip()
    parts = [f"{bounded(text, 600)}: {described(error)}"]
    if isinstance(error, AssertionError) and len(compared) == 2:
        parts.append(f"left is {shown(compared[0])}, right is {shown(compared[1])}")
    if candidate.last_call is not None:
        args, kwargs, outcome = candidate.last_call
        given = [shown(arg) for arg in args] + [f"{name}={shown(arg)}" for name, arg in kwargs.items()]
        result = f"returned {shown(outcome[0])}" if outcome else "did not return"
        parts.append(f"the last call, with ({bounded(', '.join(given), 400)}), {result}")
    return "; ".join(parts)


def described(error: BaseException) -> str:
    """Return an exception's name and message, bounded."""
    try:
        message = str(error)
    except Exception:
        message = ""
    return type(error).__name__ + (f": {bounded(message, 600)}" if message else "")


def shown(value: object) -> str:
    """Return a value as people read it, bounded, whatever its `repr` does."""
    try:
        return bounded(repr(value), 300)
    except (Exception, CandidateLost) as error:
        return f"a {type(value).__name__} whose repr raised {type(error).__name__}"


def bounded(text: str, limit: int) -> str:
    """Return a text, or the start of it and its length where it is longer than `limit`."""
    return text if len(text) <= limit else f"{text[: limit - 20]} ... ({len(text)} characters)"
