"""The results of programs, parsed from the guest's replies. Their facts are trusted, but still bounded."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.errors import SandboxError
from harness.sandbox.results import LIMIT_NAMES, Stream, read_streams

if TYPE_CHECKING:
    from harness.environments.python.guest.messages import InputsReply, TestsReply


CPU = "cpu_seconds"
# A program may use this many times its processor time before it is stopped. If it ends above its limit, it is
# run once more, because neighbours of a processor slow a program down by some per cent.
GRACE = 1.25


@dataclass(frozen=True, slots=True)
class TestReport:
    """The report of trusted tests on a program."""

    # pytest must not collect this class.
    __test__ = False

    # One entry for every statement, in order. A statement that is not reported as passed has failed.
    results: tuple[bool, ...]
    evidence: str | None
    error: str | None
    breach: str | None
    # How the candidate's process ended, if that ended the tests: a field of `Limits`, `signal`, `killed` or
    # `exited`. Otherwise None.
    ended: str | None
    exit_code: int
    stdout: Stream
    stderr: Stream
    cpu_seconds: float
    duration_seconds: float
    memory_kills: int
    refused_forks: int
    clean: bool
    # The number of statements that the report covers.
    ran: int = 0
    # The limit on processor time, and the most that any of the parts has used for which it holds. The guest
    # stops a program a little later (`GRACE`).
    cpu_limit: float = math.inf
    cpu_seconds_of_limit: float = 0.0
    # Why the tests' own set-up failed, before any code of the program ran. None if it did not.
    broken: str | None = None

    @property
    def is_borderline(self) -> bool:
        """Whether the program ended by itself, with a little more processor time than its limit."""
        return self.ended != CPU and self.cpu_seconds_of_limit > self.cpu_limit


@dataclass(frozen=True, slots=True)
class InputRun:
    """How one run of a program on one input ended, and its output.

    `ended` is `exited`, `signal`, `killed`, or the limit (a field of `Limits`) that ended the run.
    """

    ended: str
    exit_code: int
    stdout: Stream
    stderr: Stream
    cpu_seconds: float
    duration_seconds: float
    memory_kills: int
    refused_forks: int
    clean: bool
    # The limit on processor time. The guest stops a program a little later (`GRACE`).
    cpu_limit: float = math.inf

    @property
    def is_borderline(self) -> bool:
        """Whether the program ended by itself, with a little more processor time than its limit."""
        return self.ended != CPU and self.cpu_seconds > self.cpu_limit

    @property
    def succeeded(self) -> bool:
        """Return whether the program ended by itself and without an error."""
        return self.ended == "exited" and self.exit_code == 0 and self.clean


def describe_timeout(ended: TestReport | InputRun) -> str:
    """Return how a program used up its time, as text for people."""
    wall = f"{ended.duration_seconds:.1f} s"
    if ended.is_borderline:
        seconds = ended.cpu_seconds_of_limit if isinstance(ended, TestReport) else ended.cpu_seconds
        return f"the program used {seconds:.2f} s of CPU time, and its limit is {ended.cpu_limit:g} s"
    if ended.ended == "cpu_seconds":
        return f"the program used up its CPU time ({ended.cpu_seconds:.0f} s, in {wall} of wall time)"
    return f"the program ran out of time (limit {ended.ended}, after {wall})"


def read_report(header: TestsReply, body: bytes, *, expected: int, cpu_limit: float) -> TestReport:
    """Return the report of tests. A complete report has `expected` results.

    `cpu_limit` holds for the whole program, or for each step if the tests' process has measured the steps.
    """
    stdout, stderr = read_streams(header, body)
    report = header["report"]
    passed = [] if report is None else [result == "passed" for result in report["results"][:expected]]
    ended = header["ended"]
    if report is not None and report.get("timeout") is not None:
        ended = report["timeout"]
    return TestReport(
        results=tuple(passed + [False] * (expected - len(passed))),
        evidence=None if report is None else report["evidence"],
        error=None if report is None else report["error"],
        breach=None if report is None else report["breach"],
        ended=None if ended is None else LIMIT_NAMES.get(ended, ended),
        exit_code=header["exit_code"],
        stdout=stdout,
        stderr=stderr,
        cpu_seconds=header["cpu_seconds"],
        duration_seconds=header["duration_seconds"],
        memory_kills=header["memory_kills"],
        refused_forks=header["refused_forks"],
        clean=header["clean"],
        ran=0 if report is None else len(report["results"]),
        broken=header["broken"],
        cpu_limit=cpu_limit,
        cpu_seconds_of_limit=header["cpu_seconds"]
        if report is None or report.get("step_cpu_seconds") is None
        else report["step_cpu_seconds"],
    )


def read_runs(header: InputsReply, body: bytes, *, cpu_limit: float) -> list[InputRun]:
    """Return one entry for each run. Raises SandboxError."""
    runs = []
    for facts in header["runs"]:
        size = sum(part["head"] + part["tail"] for part in (facts["stdout"], facts["stderr"]))
        stdout, stderr = read_streams(facts, body[:size])
        body = body[size:]
        runs.append(
            InputRun(
                ended=LIMIT_NAMES.get(facts["ended"], facts["ended"]),
                exit_code=facts["exit_code"],
                stdout=stdout,
                stderr=stderr,
                cpu_seconds=facts["cpu_seconds"],
                duration_seconds=facts["duration_seconds"],
                memory_kills=facts["memory_kills"],
                refused_forks=facts["refused_forks"],
                clean=facts["clean"],
                cpu_limit=cpu_limit,
            )
        )
    if body:
        raise SandboxError("the guest's reply is inconsistent")
    return runs
