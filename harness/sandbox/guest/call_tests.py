"""The other kind of trusted tests: one function, called with arguments in JSON, must return what JSON says.

What the tests expect is in the memory of this process, which runs under another user than the candidate.
"""

from __future__ import annotations

import json
import sys

from .clock import Clock, TimeIsUp
from .peer import Candidate, CandidateLost
from .trusted_tests import MAX_EVIDENCE, bounded, described, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

INT_DIGITS = 50_000


def run(descriptor: int, request: dict[str, Any]) -> dict[str, Any]:
    """Call the candidate on `descriptor` with the arguments of every test, as JSON, and compare.

    `request["body"]` holds the tests, of which `request["calls"]` gives two lengths each: of the
    arguments, one JSON value a line, and of the result. Up to test number `request["shown"]` the first
    failure ends it; after that only an error does, since to go on must not tell that the last answer
    was right.
    Returns what `trusted_tests.run` does, and as `timeout` the limit that was reached, or None.
    """
    if hasattr(sys, "set_int_max_str_digits"):
        sys.set_int_max_str_digits(INT_DIGITS)
    candidate = Candidate(descriptor, {})
    body = request["body"]
    clock = Clock(request["candidate_uid"], request["call_cpu_seconds"], request["call_wall_seconds"])
    results: list[str] = []
    evidence: str | None = None
    error_name = timeout = None
    stage = "the program failed to load"
    try:
        clock.start(first=True)
        candidate.load(request["preamble"], request["program"], request["epilogue"])
        function = candidate.get(request["function"])
        clock.stop()
        position = 0
        for number, (arguments_size, expected_size) in enumerate(request["calls"], start=1):
            stage = f"test {number}"
            middle, end = position + arguments_size, position + arguments_size + expected_size
            # As text: the program's side reads JSON faster than values can be sent.
            arguments = body[position:middle].decode().split("\n")
            position = end
            clock.start()
            result = function(*arguments)
            clock.stop()
            difference = _difference(result, json.loads(body[middle:end]))
            results.append("passed" if difference is None else "failed")
            if difference is not None and evidence is None:
                given = ", ".join(arguments)
                evidence = f"{stage}: called with ({bounded(given, 400)}), {difference}"
            if evidence is not None and number <= request["shown"]:
                break
    except TimeIsUp as up:
        timeout = up.limit
        results.append("timeout")
    except BaseException as error:
        error_name = type(error).__name__
        results.append("failed")
        evidence = evidence or f"{stage}: {described(error)}"
    finally:
        clock.stop()
    return {
        "results": results,
        "evidence": None if evidence is None else bounded(evidence, MAX_EVIDENCE),
        "error": error_name,
        "breach": candidate.breach,
        "lost": candidate.lost,
        "timeout": timeout,
    }


def _difference(result: Any, expected: Any) -> str | None:
    """Say how a result differs from the expected one; a tuple counts as a list, and all else by `==`."""
    if type(result) is tuple:
        result = list(result)
    try:
        same = result == expected
    except (Exception, CandidateLost):
        same = False
    return None if same is True else f"returned {shown(result)}, expected {shown(expected)}"
