"""Grade answers in LaTeX, as in MATH. A computer algebra system in a container compares them.

Only text of the submission reaches the container, and nothing runs it. The system may hang on this text or
use up the memory. Therefore each comparison has its own limit, and reaching the limit affects only its own
verdict. The system is a command that answers line by line.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from harness.core.errors import SandboxError, UsageError
from harness.core.scoring.answers import MAX_MATHS_CHARACTERS
from harness.core.scoring.metrics import Metric
from harness.core.text import escape_text, shorten
from harness.core.types import Phase, Status, Submission, Verdict
from harness.environments.maths.guest.bounds import MAX_QUESTION_BYTES
from harness.environments.maths.readings import read_answer
from harness.environments.spec import SandboxGrader
from harness.sandbox.failures import build_fault
from harness.sandbox.limits import bound_seconds
from harness.sandbox.results import LIMIT_NAMES
from harness.sandbox.sandbox import Sandbox
from harness.sandbox.time_factor import extend_wait

if TYPE_CHECKING:
    from harness.environments.maths.guest.messages import Ask, AskReply, ServiceEnd

# The limit on a command's whole life. The command itself bounds the time of each question.
SERVICE_CPU_SECONDS = 24 * 3600

IMAGE = "maths"

METRICS = (Metric("solved", "the answer is the same mathematics as the gold one (math-verify)"),)
CPU_SECONDS = 3
# The job ends each comparison itself. These limits cover its start and comparisons that it fails to end.
_WALL_SECONDS = 60.0
_START_SECONDS = 120.0
_SHOWN_CHARACTERS = 80
# -P keeps the command's folder out of the paths that it imports from.
COMMAND = (
    *("/usr/bin/python3", "-s", "-B", "-P"),
    "/opt/harness/harness/environments/maths/guest/compare.py",
)
# Hashes decide the order of sets of symbols. With a fixed seed, the same pair is always compared alike.
_ENVIRONMENT = {"PYTHONHASHSEED": "0"}
_STATUSES = {"timeout": Status.TIMEOUT, "memory": Status.MEMORY_LIMIT, "crashed": Status.CRASHED}
_EVIDENCE = {
    Status.TIMEOUT: "the comparison reached its limit on CPU time",
    Status.MEMORY_LIMIT: "the comparison reached its memory limit",
    Status.CRASHED: "the comparison crashed",
}


@dataclass(frozen=True, slots=True)
class ServiceAnswer:
    """The answer of a service, a line without its newline, or None if the service ended before it answered.

    If it ended, `ended` gives the reason: a field of `Limits`, `signal`, `killed` or `exited`. `stderr` holds
    the last part of the service's stderr.
    """

    line: bytes | None
    ended: str | None = None
    exit_code: int = 0
    stderr: str = ""
    clean: bool = True


async def ask(
    sandbox: Sandbox,
    service: Sequence[str],
    question: bytes,
    *,
    timeout: float,
    start_timeout: float,
    env: Mapping[str, str] | None = None,
) -> ServiceAnswer:
    """Put a question to a trusted command that answers line by line, and return its answer.

    The first question starts the command, which runs until the sandbox ends. If the command has ended, the
    next question starts it again. A question is one line without its newline, and one question is open at a
    time. `timeout` is in seconds of wall time, and the first question has `start_timeout` seconds more. The
    guest ends a command that does not answer in time. Raises UsageError for a question of more than 48 KiB.
    """
    timeout = bound_seconds("timeout", timeout)
    longest = bound_seconds("start_timeout", timeout + start_timeout)
    if b"\n" in question or len(question) > MAX_QUESTION_BYTES:
        raise UsageError(f"a question must be one line of at most {MAX_QUESTION_BYTES} bytes")
    request: Ask = {
        "argv": list(service),
        "environment": {**sandbox.environment, **(env or {})},
        "limits": {**sandbox.job_limits(longest), "cpu_seconds": SERVICE_CPU_SECONDS},
        "wall_seconds": timeout,
        "start_seconds": longest - timeout,
    }
    # The sandbox is unclean until the answer arrives, because a cancelled question leaves its answer to the
    # next one.
    was_clean, sandbox.clean = sandbox.clean, False
    header, line = await sandbox.call("ask", request, question, timeout=longest)
    with sandbox.catch_unreadable():
        reply = cast("AskReply", header)
        answer = _read_end(reply["ended"]) if "ended" in reply else ServiceAnswer(line)
    sandbox.clean = was_clean and answer.clean
    return answer


def _read_end(facts: ServiceEnd) -> ServiceAnswer:
    by = LIMIT_NAMES.get(facts["by"], facts["by"])
    return ServiceAnswer(None, by, facts["exit_code"], facts["stderr"], facts["clean"])


@dataclass(frozen=True, slots=True)
class MathsAnswer:
    """A gold answer in LaTeX, as the content of a box."""

    gold: str
    bases: frozenset[int] = frozenset()
    """The number bases that the problem asks for its answer in. Empty if the problem names none."""


async def grade_maths(sandbox: Sandbox, target: MathsAnswer, submission: Submission) -> Verdict:
    """Return the verdict on an answer in LaTeX, with a score of 0 or 1.

    Each comparison may take CPU_SECONDS (3 s) of processor time, and more on a slow machine. An answer of
    more than MAX_MATHS_CHARACTERS fails. Source: MATH (Hendrycks et al. 2021, arXiv 2103.03874) for the rule
    of the box; math-verify of Hugging Face compares the values. Raises SandboxError if the sandbox fails.
    """
    answer = submission.text.strip()
    if not answer:
        return _fail("no answer")
    if len(answer) > MAX_MATHS_CHARACTERS:
        return _fail(f"the answer has {len(answer):,} characters; the limit is {MAX_MATHS_CHARACTERS:,}")
    shown = escape_text(shorten(answer, _SHOWN_CHARACTERS))
    reading = read_answer(target.gold, answer, target.bases)
    if reading is None:
        return _fail(
            f"answered {shown}, which differs from the gold answer or says more than a value", answer=shown
        )
    for expression in reading.answers:
        verdict = await _compare(sandbox, reading.gold, expression)
        if isinstance(verdict, str):
            status = _STATUSES[verdict]
            limit = "cpu_seconds" if status is Status.TIMEOUT else None
            return Verdict(status, 0.0, {"solved": 0.0}, _EVIDENCE[status], Phase.EVALUATOR, limit)
        if verdict is not True:
            unread = verdict is None
            why = "; the gold answer is not mathematics, so only the same text passes" if unread else ""
            return _fail(f"answered {shown}{why}", answer=shown)
    # A majority of attempts counts all spellings of the gold answer as one.
    return Verdict(Status.PASSED, 1.0, {"solved": 1.0, "answer": escape_text(target.gold)})


async def _compare(sandbox: Sandbox, gold: str, answer: str) -> bool | str | None:
    """Return whether two expressions are equal, None for an unreadable gold, or the limit that was reached.

    Raises SandboxError if the comparison failed through no fault of the answer.
    """
    reply = await ask(
        sandbox,
        (*COMMAND, str(CPU_SECONDS * sandbox.time_factor)),
        json.dumps([gold, answer]).encode("ascii"),
        timeout=extend_wait(_WALL_SECONDS),
        start_timeout=extend_wait(_START_SECONDS),
        env=_ENVIRONMENT,
    )
    if reply.line is None:
        if reply.ended == "wall_seconds":
            # The service ends each comparison itself, by its processor time.
            raise build_fault("the service that compares mathematics did not answer in time")
        stderr = escape_text(shorten(reply.stderr, 500, keep_end=True))
        raise SandboxError(f"the service that compares mathematics ended ({reply.ended}): {stderr}")
    verdict: bool | str | None = json.loads(reply.line)
    if verdict == "late":
        raise build_fault("the machine was too busy to compare mathematics")
    return verdict


def _fail(evidence: str, *, answer: str | None = None) -> Verdict:
    metrics: dict[str, Any] = {"solved": 0.0}
    return Verdict(Status.FAILED, 0.0, metrics if answer is None else metrics | {"answer": answer}, evidence)


GRADERS = (SandboxGrader(MathsAnswer, grade_maths, image=IMAGE),)
