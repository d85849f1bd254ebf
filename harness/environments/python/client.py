"""Call the guest's procedures for programs: trusted tests, calls of a function, and runs on inputs."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, cast

from harness.core.errors import SandboxError
from harness.core.types import PlainData
from harness.environments.python.guest.values import OBJECT_KINDS
from harness.sandbox.guest.durations import find_longest
from harness.sandbox.layout import job_environment
from harness.sandbox.limits import bound_seconds
from harness.sandbox.results import LIMIT_NAMES, Stream, read_streams
from harness.sandbox.sandbox import Sandbox

if TYPE_CHECKING:
    from harness.environments.python.guest.messages import (
        InputsReply,
        RunCalls,
        RunOnInputs,
        RunTests,
        TestsReply,
    )
    from harness.sandbox.guest.messages import JobFacts

CPU = "cpu_seconds"
# A program may use this many times its processor time before it is stopped. If it ends above its limit, it is
# run once more, because neighbours of a processor slow a program down by some per cent.
GRACE = 1.25
# The wall limit of calls applies twice: while they drive the program, and while they are graded afterwards.
RUNS_OF_TESTS = 2
KEEP_BYTES = 4096
_NO_REPORT = {"results": (), "evidence": None, "error": None, "breach": None}
# The facts that both kinds of replies have under the names of `Ended`.
_FACTS = ("exit_code", "cpu_seconds", "duration_seconds", "memory_kills", "refused_forks", "clean")

T = TypeVar("T")
Test = TypeVar("Test", covariant=True)


class StoredTests(PlainData, Protocol[Test]):
    """Plain data that names the location of tests, which can have hundreds of megabytes for one problem."""

    def load(self) -> Sequence[Test]:
        """Return the tests in order. Raises DataError if they cannot be read or have changed."""
        ...


def batches(tests: Sequence[T], shown: int, size: Callable[[T], int], most: int) -> Iterator[list[T]]:
    """Yield the tests in order, in lists of at most `most` bytes by `size`.

    The first `shown` tests form their own lists. A larger test is in a list by itself.
    """
    batch: list[T] = []
    room = most
    for place, test in enumerate(tests):
        if batch and (place == shown or size(test) > room):
            yield batch
            batch, room = [], most
        batch.append(test)
        room -= size(test)
    if batch:
        yield batch


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a program ended, and its output.

    `ended` is `exited`, `signal`, `killed`, or the limit (a field of `Limits`) that ended it.
    """

    ended: str | None
    exit_code: int
    stdout: Stream
    stderr: Stream
    cpu_seconds: float
    duration_seconds: float
    memory_kills: int
    refused_forks: int
    clean: bool
    # The limit on processor time, and the most that any part with this limit has used, None for the whole
    # program. The guest stops a program a little later (`GRACE`).
    cpu_limit: float = math.inf
    cpu_seconds_of_limit: float | None = None

    @property
    def is_borderline(self) -> bool:
        """Whether the program ended by itself, with a little more processor time than its limit."""
        return self.ended != CPU and self._used > self.cpu_limit

    @property
    def _used(self) -> float:
        return self.cpu_seconds if self.cpu_seconds_of_limit is None else self.cpu_seconds_of_limit

    def describe_timeout(self) -> str:
        """Return how the program used up its time, as text for people."""
        wall = f"{self.duration_seconds:.1f} s"
        if self.is_borderline:
            return f"the program used {self._used:.2f} s of CPU time, and its limit is {self.cpu_limit:g} s"
        if self.ended == CPU:
            return f"the program used up its CPU time ({self.cpu_seconds:.0f} s, in {wall} of wall time)"
        return f"the program ran out of time (limit {self.ended}, after {wall})"


@dataclass(frozen=True, slots=True, kw_only=True)
class TestReport(Ended):
    """The report of trusted tests on a program. `ended` is None unless the program ended the tests."""

    # pytest must not collect this class.
    __test__ = False

    # One entry for every statement, in order. A statement that is not reported as passed has failed.
    results: tuple[bool, ...]
    evidence: str | None
    error: str | None
    breach: str | None
    # The number of statements that the report covers.
    ran: int = 0
    # The kinds of objects that crossed other than plain data, in the order of `OBJECT_KINDS`.
    objects: tuple[str, ...] = ()
    # Why the tests' own set-up failed, before any code of the program ran. None if it did not.
    broken: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InputRun(Ended):
    """How one run of a program on one input ended."""

    ended: str

    @property
    def succeeded(self) -> bool:
        """Return whether the program ended by itself and without an error."""
        return self.ended == "exited" and self.exit_code == 0 and self.clean


def _read_facts(header: Mapping[str, Any], body: bytes, ended: str | None) -> dict[str, Any]:
    stdout, stderr = read_streams(cast("JobFacts", header), body)
    name = None if ended is None else LIMIT_NAMES.get(ended, ended)
    return {"ended": name, "stdout": stdout, "stderr": stderr, **{fact: header[fact] for fact in _FACTS}}


def read_report(header: TestsReply, body: bytes, *, expected: int, cpu_limit: float) -> TestReport:
    """Return the report of tests. A complete report has `expected` results.

    `cpu_limit` holds for the whole program, or for each step if the tests' process has measured the steps.
    """
    report: Mapping[str, Any] = _NO_REPORT if header["report"] is None else header["report"]
    passed = [result == "passed" for result in report["results"][:expected]]
    ended = header["ended"] if report.get("timeout") is None else report["timeout"]
    return TestReport(
        **_read_facts(header, body, ended),
        results=tuple(passed + [False] * (expected - len(passed))),
        evidence=report["evidence"],
        error=report["error"],
        breach=report["breach"],
        ran=len(report["results"]),
        # Only our own names, whatever the report holds.
        objects=tuple(kind for kind in OBJECT_KINDS if kind in report.get("objects", ())),
        broken=header["broken"],
        cpu_limit=cpu_limit,
        cpu_seconds_of_limit=report.get("step_cpu_seconds"),
    )


def read_runs(header: InputsReply, body: bytes, *, cpu_limit: float) -> list[InputRun]:
    """Return one entry for each run. Raises SandboxError."""
    runs = []
    for facts in header["runs"]:
        size = sum(part["head"] + part["tail"] for part in (facts["stdout"], facts["stderr"]))
        runs.append(InputRun(**_read_facts(facts, body[:size], facts["ended"]), cpu_limit=cpu_limit))
        body = body[size:]
    if body:
        raise SandboxError("the guest's reply is inconsistent")
    return runs


async def run_tests(
    sandbox: Sandbox,
    *,
    program: str,
    statements: Sequence[str],
    exports: Mapping[str, str],
    setup: str = "",
    preamble: str = "",
    classes: Mapping[str, Sequence[str]] | None = None,
) -> TestReport:
    """Run trusted tests against a program, in two processes with two users, and return the report.

    `exports` maps names in the tests to names in the program. `classes` maps those that are classes in the
    reference to the attributes that these classes define. See `guest.trusted_tests` and `guest.remote`. The
    wall limit of the sandbox does not count the time that `harness.sandbox.guest.waiting` defines.
    """
    limits = sandbox.job_limits(keep_bytes=KEEP_BYTES)
    cpu_limit = limits["cpu_seconds"]
    limits["cpu_seconds"] = cpu_limit * GRACE
    request: RunTests = {
        "program": _drop_mark(program),
        "preamble": _drop_mark(preamble),
        "setup": _drop_mark(setup),
        "statements": list(map(_drop_mark, statements)),
        "exports": dict(exports),
        "classes": {name: list(attributes) for name, attributes in (classes or {}).items()},
        "environment": job_environment(),
        "limits": limits,
    }
    # The guest does not count the time that the program waits for a processor. With the default limits, this
    # is less than the timeout of a grader, so a sandbox that does not answer is not taken for a slow program.
    seconds = find_longest(limits["wall_seconds"])
    reply = await sandbox.call("run_tests", request, timeout=seconds)
    return _receive(sandbox, *reply, expected=len(statements), cpu_limit=cpu_limit)


async def run_calls(
    sandbox: Sandbox,
    *,
    program: str,
    function: str,
    calls: Sequence[tuple[bytes, bytes]],
    shown: int = 0,
    preamble: str = "",
    epilogue: str = "",
    cpu_seconds: float | None = None,
    wall_seconds: float | None = None,
    wall_seconds_in_all: float = 600.0,
) -> TestReport:
    """Call a function of a program, compare its results, and return the report.

    Each of `calls` holds the arguments, one JSON value a line, and the expected result in JSON. The function
    receives the lines unparsed, so `epilogue` should define one that parses them. Each call, and the loading
    of `preamble`, `program` and `epilogue`, may use `cpu_seconds` and `wall_seconds`. Both default to the
    sandbox's limits, which bound them. `GRACE` and the sandbox's time factor extend the CPU time.

    Up to call number `shown`, the first wrong result ends the calls. See `guest.call_tests`. Raises
    UsageError if the data does not fit into one request.
    """
    limits = sandbox.job_limits(keep_bytes=KEEP_BYTES)
    cpu_limit = min(limits["cpu_seconds"], sandbox.time_factor * (cpu_seconds or math.inf))
    cpu_seconds = cpu_limit * GRACE
    wall_seconds = min(limits["wall_seconds"], wall_seconds or math.inf)
    wall_seconds_in_all = bound_seconds("wall_seconds_in_all", wall_seconds_in_all)
    steps = len(calls) + 1
    limits["cpu_seconds"] = math.ceil(min(steps * cpu_seconds, wall_seconds_in_all)) + 1
    limits["wall_seconds"] = wall_seconds_in_all
    request: RunCalls = {
        "program": _drop_mark(program),
        "preamble": _drop_mark(preamble),
        "epilogue": epilogue,
        "function": function,
        "calls": [(len(arguments), len(expected)) for arguments, expected in calls],
        "shown": shown,
        "call_cpu_seconds": cpu_seconds,
        "call_wall_seconds": wall_seconds,
        "environment": job_environment(),
        "limits": limits,
    }
    body = b"".join(part for call in calls for part in call)
    seconds = RUNS_OF_TESTS * wall_seconds_in_all
    reply = await sandbox.call("run_calls", request, body, timeout=seconds)
    return _receive(sandbox, *reply, expected=len(calls), cpu_limit=cpu_limit)


def _receive(
    sandbox: Sandbox, header: Mapping[str, Any], body: bytes, *, expected: int, cpu_limit: float
) -> TestReport:
    """Return the report in a reply, and note whether the sandbox is clean and marked."""
    with sandbox.catch_unreadable():
        reply = cast("TestsReply", header)
        report = read_report(reply, body, expected=expected, cpu_limit=cpu_limit)
        sandbox.marked = sandbox.marked or reply["marked"]
    sandbox.clean = sandbox.clean and report.clean
    return report


async def run_on_inputs(
    sandbox: Sandbox,
    *,
    program: bytes,
    inputs: Sequence[bytes],
    stdout_bytes: int,
    preamble: bytes = b"",
    cpu_seconds: float | None = None,
    wall_seconds: float | None = None,
    wall_seconds_in_all: float = 600.0,
    stdin: Literal["real", "mocked"] = "real",
    stderr_bytes: int = KEEP_BYTES,
) -> list[InputRun]:
    """Run a Python program on each input in turn, up to the first run that fails, and return the runs.

    Each run has its own process, user, folder and stdin, and sees nothing of other runs. It may use
    `cpu_seconds` and `wall_seconds`. Both default to the sandbox's limits, which bound them. `GRACE` and the
    sandbox's time factor extend the CPU time. Each run may write `stdout_bytes` to stdout, at most 32 MiB.
    `stderr_bytes` of its stderr are kept. `harness.sandbox.guest.waiting` defines the wall time that does not
    count.
    `preamble` is source that runs first, in the same namespace. `mocked` selects
    `guest.standalone.run_mocked`. Raises UsageError if the data does not fit into one request.
    """
    limits = sandbox.job_limits(keep_bytes=stderr_bytes)
    cpu_limit = min(limits["cpu_seconds"], sandbox.time_factor * (cpu_seconds or math.inf))
    limits["cpu_seconds"] = cpu_limit * GRACE
    limits["wall_seconds"] = min(limits["wall_seconds"], wall_seconds or math.inf)
    request: RunOnInputs = {
        "preamble_bytes": len(preamble),
        "program_bytes": len(preamble) + len(program),
        "input_bytes": [],
        "stdout_bytes": stdout_bytes,
        "stdin": stdin,
        "wall_seconds": 0.0,
        "environment": job_environment(),
        "limits": limits,
    }
    ends = time.monotonic() + bound_seconds("wall_seconds_in_all", wall_seconds_in_all)
    runs: list[InputRun] = []
    while True:
        # A reply has room for a limited number of outputs. The guest stops when it is full, and the host asks
        # for the rest.
        rest = inputs[len(runs) :]
        wall_seconds = max(ends - time.monotonic(), 1.0)
        asked = {**request, "input_bytes": [len(data) for data in rest], "wall_seconds": wall_seconds}
        body = b"".join((preamble, program, *rest))
        header, data = await sandbox.call("run_on_inputs", asked, body, timeout=wall_seconds)
        with sandbox.catch_unreadable():
            reply = cast("InputsReply", header)
            sandbox.marked = sandbox.marked or reply["marked"]
            runs += read_runs(reply, data, cpu_limit=cpu_limit)
            sandbox.clean = sandbox.clean and reply["clean"]
            if not reply["full"]:
                return runs


def _drop_mark(source: str) -> str:
    """Return source without a byte order mark at its start, which Python skips in files alone."""
    return source.removeprefix("\ufeff")
