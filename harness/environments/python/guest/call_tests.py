"""Run trusted tests that call one function with arguments in JSON and compare its results with JSON.

The expected results are in the memory of this process, whose user differs from the candidate's.
"""

from __future__ import annotations

import json

from .clock import Clock, TimeIsUp
from .conversation import LARGE_BYTES, Live
from .converted import base_of, data_in
from .display import show
from .evidence import bound, describe
from .judging import MAX_EVIDENCE
from .peer import Candidate, CandidateLost

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def run(descriptor: int, request: dict[str, Any], until_dead: Callable[[Candidate], None]) -> dict[str, Any]:
    """Call the candidate on `descriptor` for every test, compare after its death, and return the report.

    `request["body"]` holds the tests. `request["calls"]` gives two lengths for each test: of the arguments,
    one JSON value a line, and of the result. The first `request["shown"]` tests are in the task's prompt.
    They are compared at once, and the first wrong result ends the calls. Any error ends the calls too.
    `until_dead` is called after the last call, and returns when no process of the candidate is alive. The
    report has the fields of `trusted_tests.run`, and as `timeout` the limit that was reached, or None.
    """
    live = Live(descriptor)
    candidate = Candidate(live, {})
    tests = _tests_of(request)
    driven = _drive(candidate, request, tests)
    until_dead(candidate)
    results, evidence = _judge(driven, tests)
    return {
        "results": results,
        "evidence": None if evidence is None else bound(evidence, MAX_EVIDENCE),
        "error": driven.error_name,
        "breach": candidate.breach,
        "lost": candidate.lost,
        # The arguments are the tests' own, and nothing that takes long is done with them.
        "large": live.received > LARGE_BYTES,
        "objects": candidate.kinds(),
        "timeout": driven.timeout,
        "step_cpu_seconds": driven.step_cpu_seconds,
    }


class _Test:
    """The arguments and the expected result of a call, both as JSON."""

    def __init__(self, arguments: list[str], expected: bytes) -> None:
        self.arguments = arguments
        self.expected = expected

    def difference(self, result: Any) -> str | None:
        """Return how a result differs from the expected one, or None if it does not.

        They are compared by `==`, and a tuple counts as a list, as in LiveCodeBench's own runner.
        """
        given = list(result) if isinstance(result, tuple) else result
        expected = json.loads(self.expected)
        try:
            # The classes of these values are ours, so none of their methods is the program's.
            same = bool(given == expected)
        except (Exception, CandidateLost):
            same = False
        if same:
            return None
        unknown = _type_unknown_to_json(result)
        if unknown is not None:
            return f"returned {show(result)}, and JSON has no {unknown}"
        return f"returned {show(given)}, expected {show(expected)}"


class _Driven:
    """The outcome of the calls, before any comparison of hidden results."""

    def __init__(self) -> None:
        self.results: list[Any] = []
        # The outcome of the last call if it has no result: `timeout` or `failed`.
        self.end: str | None = None
        self.error_name: str | None = None
        self.error_text: str | None = None
        self.timeout: str | None = None
        self.step_cpu_seconds = 0.0


def _tests_of(request: dict[str, Any]) -> list[_Test]:
    body, position, tests = request["body"], 0, []
    for arguments_size, expected_size in request["calls"]:
        middle, end = position + arguments_size, position + arguments_size + expected_size
        # The lines cross as text, because the candidate parses JSON faster than it decodes values.
        tests.append(_Test(body[position:middle].decode().split("\n"), body[middle:end]))
        position = end
    return tests


def _drive(candidate: Candidate, request: dict[str, Any], tests: list[_Test]) -> _Driven:
    """Make the calls until one does not return, or until a test from the prompt fails."""
    driven = _Driven()
    clock = Clock(request["candidate_uid"], request["call_cpu_seconds"], request["call_wall_seconds"])
    stage = "the program failed to load"
    try:
        clock.start(first=True)
        candidate.load(request["preamble"], request["program"], request["epilogue"])
        function = candidate.get(request["function"])
        clock.stop()
        for number, test in enumerate(tests, start=1):
            stage = f"test {number}"
            clock.start()
            # All arguments are immutable, so no later call can change this result through them.
            result = function(*test.arguments)
            clock.stop()
            driven.results.append(result)
            if number <= request["shown"] and test.difference(result) is not None:
                break
    except TimeIsUp as up:
        driven.timeout, driven.end = up.limit, "timeout"
    except BaseException as error:
        driven.error_name, driven.end = type(error).__name__, "failed"
        driven.error_text = f"{stage}: {describe(error)}"
    finally:
        clock.stop()
        driven.step_cpu_seconds = clock.most_cpu_seconds
    return driven


def _judge(driven: _Driven, tests: list[_Test]) -> tuple[list[str], str | None]:
    """Return the result of each test that ran, and the evidence of the first failure."""
    results: list[str] = []
    evidence: str | None = None
    for number, (test, result) in enumerate(zip(tests, driven.results), start=1):
        difference = test.difference(result)
        results.append("passed" if difference is None else "failed")
        if difference is not None and evidence is None:
            given = bound(", ".join(bound(argument, 400) for argument in test.arguments), 400)
            evidence = f"test {number}: called with ({given}), {difference}"
    if driven.end is not None:
        results.append(driven.end)
    return results, evidence or driven.error_text


def _type_unknown_to_json(result: Any) -> str | None:
    """Return the name of a type in `result` that JSON lacks, or None.

    JSON lacks tuples too, but a tuple inside the result is unequal to every list, as in the official runner.
    """
    waiting = [result]
    known: set[int] = set()
    while waiting:
        value = waiting.pop()
        if value is None or type(value) in (bool, int, float, str):
            continue
        value = data_in(value)
        kind = base_of(type(value))
        if kind in (bool, int, float, str):
            continue
        if kind not in (list, tuple, dict) and not issubclass(kind, dict):
            return str(kind.__name__)
        if id(value) not in known:
            known.add(id(value))
            waiting += value
            if isinstance(value, dict):
                waiting += value.values()
    return None
