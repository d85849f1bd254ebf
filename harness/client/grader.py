"""A grader of a service, with the face of a local one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.agents.predictions import FIELDS
from harness.benchmarks.hidden_tests import read_hidden_tests
from harness.client.connection import Connection
from harness.client.errors import ServiceUnreachableError
from harness.environments.python.call_programs import CallTests
from harness.environments.python.stdin_programs import StdinTests
from harness.errors import UsageError, unknown_name
from harness.inputs.json_text import MAX_TEST_DIGITS, parse_json, write_json
from harness.types import Phase, PlainData, ProgramTests, Status, Submission, Verdict

# The most that a service gives to one request.
MAX_REQUEST_SECONDS = 600.0
# As in a run.
SAMPLE_SECONDS = 180.0


class RemoteGrader:
    """Grades submissions at a service. Make it with `Remote.open_grader`.

    The methods are those of `Grader` and raise the same errors. Any number of calls may be under way at once.
    A submission that had no place at the service in time has the status `cancelled` and no score.
    """

    def __init__(self, connection: Connection, *, timeout_seconds: float | None) -> None:
        self._connection = connection
        self._timeout_seconds = timeout_seconds or SAMPLE_SECONDS

    async def grade(self, target: PlainData, submission: Submission | str) -> Verdict:
        """Return the verdict of a target on a program.

        Raises:
            UsageError: for a target that build_stdin_tests, build_call_tests and build_assert_tests do not
                build, or that the service refuses.
            ServiceBusyError: if the service had no room in time.
            ServiceUnreachableError: if the service is away.
        """
        text = submission.text if isinstance(submission, Submission) else submission
        return await self._grade({"tests": describe_target(target), "solution": text})

    async def grade_task(
        self, benchmark: str, task_id: str, text: str, *, field: str = "solution"
    ) -> Verdict:
        """Return the verdict on a text for a task of a benchmark that the service has loaded.

        The arguments and the errors are those of `Grader.grade_task` and of `grade`.
        """
        if field not in FIELDS:
            raise unknown_name("field", str(field), FIELDS)
        return await self._grade({"benchmark": benchmark, "task_id": task_id, field: text})

    async def _grade(self, sample: Mapping[str, Any]) -> Verdict:
        connection, seconds = self._connection, self._timeout_seconds
        if connection.is_closed:
            raise UsageError("the grader is closed", hint="grade inside the block of open_grader")
        # A request waits at the service, and between its tries.
        half = connection.wait_seconds / 2
        whole = min(MAX_REQUEST_SECONDS, half + seconds)
        request = {
            "samples": [sample],
            "timeout_seconds": whole,
            # The rest of the time is for the queue.
            "sample_seconds": min(seconds, whole),
        }
        content = write_json(request).encode()
        reply = await connection.fetch(
            "POST", "/v1/grade", content=content, seconds=whole, retry_seconds=half
        )
        try:
            (verdict,) = reply["verdicts"]
            return read_verdict(verdict)
        except (LookupError, TypeError, ValueError) as error:
            raise ServiceUnreachableError(
                f"the reply of the service at {connection.address} cannot be read: {type(error).__name__}"
            ) from error


def describe_target(target: PlainData) -> dict[str, Any]:
    """Return a target as the hidden tests of a request. Raises UsageError for one that has no such form."""
    described: dict[str, Any] | None = None
    match target:
        case StdinTests():
            tests = [{"input": each.input, "output": each.output} for each in target.load()]
            described = {"kind": "stdin", "tests": tests}
            described |= {"preamble": target.preamble, "seconds": target.seconds}
        case CallTests():
            calls = [_describe_call(each.arguments, each.result) for each in target.load()]
            described = {"kind": "calls", "function": target.function, "tests": calls}
            described |= {"preamble": target.preamble, "seconds": target.seconds}
        case ProgramTests():
            described = {"kind": "asserts", "tests": list(target.statements), "setup": target.setup}
            described["names"] = list(target.exports)
    if described is None or read_hidden_tests(described) != target:
        raise UsageError(
            f"a {type(target).__name__} of this form cannot be sent to a service",
            hint="build it with build_stdin_tests or its like, or name a task of a benchmark with grade_task",
        )
    return described


def _describe_call(arguments: str, result: str) -> dict[str, Any]:
    lines = arguments.split("\n") if arguments else []
    return {
        "arguments": [parse_json(line, max_digits=MAX_TEST_DIGITS) for line in lines],
        "result": parse_json(result, max_digits=MAX_TEST_DIGITS),
    }


def read_verdict(values: Mapping[str, Any]) -> Verdict:
    """Return a verdict. The service keeps the fields that a local verdict has, in its metrics."""
    status, score = Status(values["status"]), values["score"]
    if (score is None) is status.has_score:
        raise ValueError(f"the status {status.value} with the score {score}")
    metrics = dict(values["metrics"])
    phase = metrics.pop("phase", None)
    return Verdict(
        status,
        None if score is None else float(score),
        limit=metrics.pop("limit", None),
        limit_value=metrics.pop("limit_value", None),
        tampering=metrics.pop("integrity", None),
        phase=None if phase is None else Phase(phase),
        metrics=metrics,
        evidence=values["evidence"],
    )
