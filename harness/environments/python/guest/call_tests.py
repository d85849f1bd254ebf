"""Run trusted tests that call one function with arguments in JSON and compare its results with JSON.

The expected results are in the memory of this process, whose user differs from the candidate's. A clock in
this process bounds each call.
"""

from __future__ import annotations

import json
import os
import time

from harness.sandbox.guest import processes
from harness.sandbox.guest.cgroup import PROCESSORS
from harness.sandbox.guest.durations import bound_wait, find_longest
from harness.sandbox.guest.processor_time import UntrustedClock, sum_seconds
from harness.sandbox.guest.signals import ITIMER_REAL, SIGALRM, set_handler, setitimer
from harness.sandbox.guest.waiting import Waiting

from .assert_calls import MAX_EVIDENCE
from .conversation import LARGE_BYTES, Live
from .evidence import bound, describe, show
from .peer import Candidate, CandidateLost
from .plain import base_of, data_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
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


# The shortest time between two checks of the clock.
LOOK_SECONDS = 0.05


class TimeIsUp(BaseException):
    """A call has used up its time. `limit` is `cpu` or `wall`, or `machine` if that was too busy for it."""

    def __init__(self, limit: str) -> None:
        super().__init__(limit)
        self.limit = limit


class Clock:
    """Bounds each step of the candidate: its CPU time, and the wall time of a step that only waits.

    The CPU time covers all processes of the user. A step may pass its limit and end before the next
    check, so it may exceed the limit by LOOK_SECONDS at most.
    """

    def __init__(self, uid: int, cpu_seconds: float, wall_seconds: float) -> None:
        self._uids = frozenset((uid,))
        self._cpu_seconds = cpu_seconds
        self._wall_seconds = wall_seconds
        # The most that a finished step has used.
        self.most_cpu_seconds = 0.0
        self._untrusted = UntrustedClock((*processes.our_pids, os.getpid()))
        self._pids: list[int] = []
        # When the step began, when it was last looked at, and how long the candidate was not there yet.
        self._began = self._looked = self._idle = 0.0
        self._used_before = 0.0
        self._waiting = Waiting()
        set_handler(SIGALRM, self._look)

    def start(self, *, first: bool = False) -> None:
        """Begin a step. Raises TimeIsUp during the step."""
        if not first and not self._pids:
            # The process may not have changed to its user yet.
            self._pids = processes.list_processes_of(self._uids)
        self._used_before = self._used()
        self._waiting = Waiting(since_their_start=True) if first else Waiting(self._pids)
        self._began = self._looked = time.monotonic()
        self._idle = 0.0
        # Until that much wall time has passed, it cannot have used more CPU time.
        self._look_after(min(self._cpu_seconds / PROCESSORS, self._wall_seconds))

    def stop(self) -> None:
        setitimer(ITIMER_REAL, 0)
        self.most_cpu_seconds = max(self.most_cpu_seconds, self._used() - self._used_before)

    def _look_after(self, seconds: float) -> None:
        setitimer(ITIMER_REAL, max(bound_wait(seconds), LOOK_SECONDS))

    def _look(self, _number: int, _frame: FrameType | None) -> None:
        self._pids = processes.list_processes_of(self._uids)
        used = self._used() - self._used_before
        cpu_left = self._cpu_seconds - used
        now = time.monotonic()
        if not self._pids:
            # The candidate has not become its user yet, so nothing of it has run.
            self._idle += now - self._looked
        self._looked = now
        wall = now - self._began
        wall_left = self._wall_seconds - wall + self._idle + self._waiting.seconds(self._pids, used)
        if cpu_left <= 0:
            raise TimeIsUp("cpu")
        if wall_left <= 0:
            raise TimeIsUp("wall")
        if wall >= find_longest(self._wall_seconds):
            raise TimeIsUp("machine")
        self._look_after(min(cpu_left / PROCESSORS, wall_left))

    def _used(self) -> float:
        seconds = self._untrusted.seconds()
        return sum_seconds(self._pids) if seconds is None else seconds
