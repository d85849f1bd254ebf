"""The requests and replies of the procedures that run programs. The guest imports it for type checks only."""

from __future__ import annotations

from typing import Optional, TypedDict

from harness.sandbox.guest.messages import JobFacts, JobLimits, JobReply


class RunTests(TypedDict):
    """`run_tests`: run trusted statements against a program. The reply is a `TestsReply`."""

    program: str
    # Source that runs before the program, and source that runs before the tests.
    preamble: str
    setup: str
    statements: list[str]
    # Names in the tests, mapped to names in the program.
    exports: dict[str, str]
    # For names that are classes in the reference too, the attributes that these classes define.
    classes: dict[str, list[str]]
    environment: dict[str, str]
    limits: JobLimits


class RunCalls(TypedDict):
    """`run_calls`: call a function and compare its results. The reply is a `TestsReply`.

    The body holds the arguments and the expected result of each call, one after the other.
    """

    program: str
    preamble: str
    # Source that runs after the program.
    epilogue: str
    function: str
    # The lengths of the arguments and of the expected result of each call.
    calls: list[tuple[int, int]]
    # Up to this call, the first wrong result ends the calls.
    shown: int
    call_cpu_seconds: float
    call_wall_seconds: float
    environment: dict[str, str]
    limits: JobLimits


class _Report(TypedDict):
    # `passed` or `failed` for each test that ran.
    results: list[str]
    evidence: Optional[str]
    error: Optional[str]
    breach: Optional[str]
    # How the program was lost, or None if it lived until the last call.
    lost: Optional[str]
    # Whether the answers are so large that the time to judge them may show whether they were right.
    large: bool


class Report(_Report, total=False):
    """The report of the tests' process."""

    # The kinds of objects that crossed other than plain data, by their names in `values.OBJECT_KINDS`.
    objects: list[str]
    # The limit on one call that ended the calls.
    timeout: Optional[str]
    # The most processor time that the loading or one call has used.
    step_cpu_seconds: float
    # Why the tests' own set-up failed.
    broken: Optional[str]


class TestsReply(JobFacts):
    """The result of the tests."""

    # How the program ended, if its end ended the tests.
    ended: Optional[str]
    # None if the tests' process ended without a report.
    report: Optional[Report]
    # Why the tests' own set-up failed, before any code of the program ran. None if it did not.
    broken: Optional[str]
    # Whether the program has left a mark for the next one.
    marked: bool


class RunOnInputs(TypedDict):
    """`run_on_inputs`: run a program on one input after another. The reply is an `InputsReply`.

    The body holds the preamble, the program and the inputs, one after the other.
    """

    preamble_bytes: int
    # Includes the preamble.
    program_bytes: int
    input_bytes: list[int]
    stdout_bytes: int
    # `real` or `mocked`.
    stdin: str
    # The limit on all runs together.
    wall_seconds: float
    environment: dict[str, str]
    limits: JobLimits


class InputsReply(TypedDict):
    """The runs up to the first one that failed. The body holds their outputs."""

    runs: list[JobReply]
    clean: bool
    # Whether the reply is full, so that the host must ask for the rest of the inputs.
    full: bool
    duration_seconds: float
    marked: bool
