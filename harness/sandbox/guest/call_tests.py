"""The other kind of trusted tests: one function, called with arguments in JSON, must return what JSON says.

What the tests expect is in the memory of this process, which runs under another user than the candidate.
"""

from __future__ import annotations

import json
import signal
import sys
import time

from . import processes
from .peer import Candidate, CandidateLost
from .trusted_tests import MAX_EVIDENCE, bounded, described, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

INT_DIGITS = 50_000
# How long to wait before the time is looked at again, at least.
LOOK_SECONDS = 0.05
# However busy the machine, that many times the wall limit is enough.
MOST_PATIENCE = 5


class TimeIsUp(BaseException):
    """A call has used up its time. `limit` is `cpu` or `wall`."""

    def __init__(self, limit: str) -> None:
        super().__init__(limit)
        self.limit = limit


class Clock:
    """Bounds each step of the candidate's: its CPU time, and wall time for one that only waits."""

    def __init__(self, uid: int, cpu_seconds: float, wall_seconds: float) -> None:
        self._uid = uid
        self._cpu_seconds = cpu_seconds
        self._wall_seconds = wall_seconds
        self._pids: list[int] = []
        self._began = 0.0
        self._used_before = self._waited_before = 0.0
        signal.signal(signal.SIGALRM, self._look)

    def start(self, *, first: bool = False) -> None:
        """Begin a step. Raises TimeIsUp in the midst of it."""
        # At first the process may not have become the user yet, and has used nothing.
        self._used_before = 0.0 if first else self._used()
        self._waited_before = processes.waited_seconds(self._pids)
        self._began = time.monotonic()
        # Before that much wall time it cannot have used more CPU time.
        signal.setitimer(signal.ITIMER_REAL, min(self._cpu_seconds, self._wall_seconds))

    def stop(self) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)

    def _look(self, _number: int, _frame: FrameType | None) -> None:
        cpu_left = self._cpu_seconds - (self._used() - self._used_before)
        wall_left = self._wall_seconds - (time.monotonic() - self._began)
        if wall_left > -self._wall_seconds * (MOST_PATIENCE - 1):
            wall_left += processes.waited_seconds(self._pids) - self._waited_before
        if cpu_left <= 0:
            raise TimeIsUp("cpu")
        if wall_left <= 0:
            raise TimeIsUp("wall")
        signal.setitimer(signal.ITIMER_REAL, max(min(cpu_left, wall_left), LOOK_SECONDS))

    def _used(self) -> float:
        self._pids = self._pids or processes.processes_of(frozenset((self._uid,)))
        return sum(map(_cpu_seconds_of, self._pids))


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


def _cpu_seconds_of(pid: int) -> float:
    """The CPU time of a process, from the clock that the kernel keeps of it; 0 for one that is gone."""
    try:
        return time.clock_gettime((~pid << 3) | 2)
    except OSError:
        return 0.0
